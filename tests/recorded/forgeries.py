"""Transcripts written afresh by a forger, from the format's description alone."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import zstandard

from protocol.transcript.reader import RULES, TranscriptReader
from protocol.transcript.verification import Verification
from tests.recorded.transcripts import sample
from tests.vectors.make import tree_hash

pack = msgspec.msgpack.encode


class Forgery:
    """A file written afresh, by the format's description alone, with chain and closing consistent.

    It starts from the given file, or else from ``sample``'s.

    ``header`` is the header's map; ``entries`` are lists, the envelope of a ``Sent`` a list too.
    What is set in ``ending`` replaces the closing record's right values; ``blocks`` are added after
    the entries, ``after`` after the closing record, as (type, content).
    """

    def __init__(self, file: bytes | None = None) -> None:
        if file is None:
            file = sample().content
        reader = TranscriptReader(file)
        self.header: dict[str, Any] = msgspec.to_builtins(reader.header, builtin_types=(bytes,))
        self.header["roster"] = [list(member) for member in self.header["roster"]]
        self.header["kinds"] = list(self.header["kinds"])
        self.entries: list[Any] = [msgspec.msgpack.decode(pack(entry)) for entry in reader]
        for entry in self.entries:
            if entry[0] == "Sent":
                entry[2] = msgspec.msgpack.decode(entry[2])
        self.ending: dict[str, Any] = {}
        self.before: list[tuple[bytes, bytes]] = []
        self.blocks: list[tuple[bytes, bytes]] = []
        self.after: list[tuple[bytes, bytes]] = []
        self.frame: Callable[[bytes], bytes] = zstandard.compress

    def sent(self, i: int) -> list[Any]:
        """The i-th envelope sent: session, sender, recipient, seq, kind, body."""
        return [entry[2] for entry in self.entries if entry[0] == "Sent"][i]

    def place(self, sender: str, seq: int) -> int:
        """Where the entry is that sends this envelope."""
        return next(
            i
            for i, entry in enumerate(self.entries)
            if entry[0] == "Sent" and entry[2][1:4:2] == [sender, seq]
        )

    def digest(self) -> bytes:
        names = ("format", "variant", "parameters", "survey", "session", "roster", "kinds", "seed")
        leaves = [pack([self.header[name] for name in names], order="deterministic")]
        for name, _ in self.header["roster"]:
            said = [pack(e[2]) for e in self.entries if e[0] == "Sent" and e[2][1] == name]
            leaves.append(pack([name, len(said), tree_hash(said)]))
        return tree_hash(leaves)

    def encoded(self) -> list[bytes]:
        return [pack([e[0], e[1], pack(e[2])]) if e[0] == "Sent" else pack(e) for e in self.entries]

    def write(self) -> bytes:
        right = {
            "entries": len(self.entries),
            "digest": self.digest(),
            "complete": True,
            "reason": "",
        }
        ending = pack(["Ending", *(right | self.ending).values()])
        content = b"".join(len(entry).to_bytes(4, "big") + entry for entry in self.encoded())
        # The fields of the header come in their order, the keys inside them sorted.
        header = bytes([0x80 | len(self.header)]) + b"".join(
            pack(name) + pack(value, order="deterministic") for name, value in self.header.items()
        )
        return chained(
            [
                *self.before,
                (b"H", header),
                (b"E", content),
                *self.blocks,
                (b"C", ending),
                *self.after,
            ],
            self.frame,
        )


def chained(
    blocks: Iterable[tuple[bytes, bytes]],
    frame: Callable[[bytes], bytes] = zstandard.compress,
) -> bytes:
    """The file of these blocks, given by type and content."""
    chain = hashlib.blake2b(b"sottovoce transcript 1\n", digest_size=32).digest()
    parts = [b"sottovoce transcript 1\n"]
    for kind, content in blocks:
        stored = frame(content)
        start = kind + len(stored).to_bytes(4, "big")
        guard = hashlib.blake2b(chain + start, digest_size=8).digest()
        chain = hashlib.blake2b(chain + start + stored, digest_size=32).digest()
        parts += [start, guard, stored, chain]
    return b"".join(parts)


def rules(found: Verification) -> set[str]:
    assert all(fault.rule in RULES for fault in found.faults)
    return {fault.rule for fault in found.faults}
