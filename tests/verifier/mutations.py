"""Seeded damage to transcripts: to the wrapper, to the log, and to values of a forger's."""

from __future__ import annotations

import copy
import hashlib
import random
from collections.abc import Callable
from typing import Any

import msgspec
import zstandard

from tests.recorded.forgeries import Forgery, pack
from tests.vectors.make import tree_hash

SMALL = (0, 1, -1, 31, 32, 127, 128, 255, 256, 65_535, 65_536, 2**32, 2**53, 2**63 - 1, 2**63)
VALUES: tuple[Any, ...] = (
    *SMALL,
    "",
    "record",
    "aggregator",
    b"",
    bytes(32),
    None,
    True,
    1.0,
    [],
    {},
)
DAMAGED: tuple[Callable[[random.Random, bytearray], None], ...]


def _flip(draw: random.Random, data: bytearray) -> None:
    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)


def _set(draw: random.Random, data: bytearray) -> None:
    data[draw.randrange(len(data))] = draw.choice((0, 1, 0x7F, 0x80, 0xC0, 0xC1, 0xC4, 0xFF))


def _cut(draw: random.Random, data: bytearray) -> None:
    del data[draw.randrange(len(data)) :]


def _drop(draw: random.Random, data: bytearray) -> None:
    start = draw.randrange(len(data))
    del data[start : start + draw.choice((1, 1, 2, 4, 50))]


def _double(draw: random.Random, data: bytearray) -> None:
    start = draw.randrange(len(data))
    data[start:start] = data[start : start + draw.choice((1, 2, 4, 50, 10_000))]


def _add(draw: random.Random, data: bytearray) -> None:
    start = draw.choice((len(data), draw.randrange(len(data))))
    data[start:start] = draw.randbytes(draw.choice((1, 3, 4, 9)))


DAMAGED: tuple[Callable[[random.Random, bytearray], None], ...]
DAMAGED = (_flip, _flip, _set, _cut, _drop, _double, _add)


def damaged(draw: random.Random, file: bytes) -> bytes:
    """The bytes with one change, and now and then more."""
    data = bytearray(file)
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        if data:
            draw.choice(DAMAGED)(draw, data)
    return bytes(data)


def _frames(draw: random.Random, log: bytes) -> bytes:
    """The log in frames that are cut anywhere, in any of the ways a frame can be written."""
    cuts = sorted(draw.randrange(1, len(log)) for _ in range(draw.randrange(5)))
    parts = [log[a:b] for a, b in zip([0, *cuts], [*cuts, len(log)], strict=True) if a < b]
    compressor = zstandard.ZstdCompressor(
        level=draw.choice((-5, 1, 3, 19)),
        write_checksum=draw.random() < 0.95,
        write_content_size=draw.random() < 0.95,
    )
    return b"".join(map(compressor.compress, parts))


def retold(draw: random.Random, value: Any) -> None:
    """Change something somewhere in a list or map, in place."""
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    if not keys:
        return
    key = draw.choice(keys)
    inside = value[key]
    if isinstance(inside, list | dict) and inside and draw.random() < 0.8:
        retold(draw, inside)
    elif isinstance(value, list) and draw.random() < 0.2:
        draw.choice((value.pop, lambda i: value.insert(i, value[i])))(key)
    elif isinstance(inside, int) and not isinstance(inside, bool) and draw.random() < 0.6:
        value[key] = inside + draw.choice((-1, 1, 2))
    elif isinstance(inside, bytes) and inside and draw.random() < 0.7:
        value[key] = damaged(draw, inside)
    else:
        value[key] = draw.choice(VALUES)


def agreed(forgery: Forgery) -> None:
    """Let the session be that of the header; what was signed for another is left out."""
    header = forgery.header
    names = "variant", "parameters", "survey", "analysis", "nonce", "kinds"
    terms = pack([header[name] for name in names], order="deterministic")
    root = tree_hash([key + name.encode() for name, key in header["roster"]])
    bound = pack([hashlib.sha256(terms).digest(), root, len(header["roster"])])
    session = hashlib.sha256(b"sottovoce session 2\0" + bound).digest()
    if header["attempt"] != 1:
        again = pack([session, header["attempt"]])
        session = hashlib.sha256(b"sottovoce attempt 1\0" + again).digest()
    header["session"] = session
    forgery.notes.clear()
    forgery.entries = [e for e in forgery.entries if e[0] != "Sent" or e[2][4] != "Head"]
    for entry in forgery.entries:
        if entry[0] == "Sent":
            entry[2][0] = session


def forged(draw: random.Random, original: Forgery) -> bytes:
    """The file with one value changed and the last entry made to fit, with checkpoints or not."""
    forgery = copy.deepcopy(original)
    if draw.random() < 0.5:
        forgery.notes.clear()
    where = draw.choice(("header", "entries", "entries", "entries", "ending", "records", "order"))
    if where == "header":
        for _ in range(draw.choice((1, 1, 2))):
            retold(draw, forgery.header)
        if draw.random() < 0.9:
            agreed(forgery)
    elif where == "entries":
        retold(draw, draw.choice(forgery.entries))
    elif where == "ending":
        field = draw.choice(("log", "digest", "result", "complete", "reason"))
        forgery.ending[field] = draw.choice((*VALUES, bytes(31)))
    elif where == "records":
        record = pack(draw.choice(forgery.entries))
        (forgery.records if draw.random() < 0.5 else forgery.after).append(damaged(draw, record))
    else:
        a, b = (draw.randrange(len(forgery.entries)) for _ in range(2))
        forgery.entries.insert(a, forgery.entries.pop(b))
    return forgery.plain()


def mutations(files: list[bytes], count: int, seed: int) -> list[bytes]:
    """So many damaged files, made from the given ones, which are sound."""
    draw = random.Random(seed)
    forgeries = [Forgery(file) for file in files]
    for forgery in forgeries:
        forgery.header = msgspec.msgpack.decode(pack(forgery.header))
    made: list[bytes] = []
    while len(made) < count:
        i = draw.randrange(len(files))
        way = draw.randrange(6)
        if way == 0:
            made.append(damaged(draw, files[i]))
        elif way == 1:
            made.append(damaged(draw, forgeries[i].plain()))
        elif way == 2:
            made.append(damaged(draw, _frames(draw, forgeries[i].plain())))
        else:
            try:
                log = forged(draw, forgeries[i])
            except (TypeError, ValueError, OverflowError, AttributeError, IndexError, KeyError):
                continue  # a value that the forger cannot write
            made.append(_frames(draw, log) if way == 5 else log)
    return made
