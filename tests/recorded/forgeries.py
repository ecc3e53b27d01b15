"""Transcripts written afresh by a forger, from the format's description alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
import zstandard

from parties.keeping.packing import Unpacked
from protocol.transcript.reader import RULES, TranscriptReader
from protocol.transcript.verification import Verification
from tests.recorded.transcripts import sample
from tests.vectors.formats import log_leaves, tree_hash

pack = msgspec.msgpack.encode

SECRET = bytes(range(32))
PART = 1 << 20
compress = zstandard.ZstdCompressor(write_checksum=True).compress


class Forgery:
    """A file written afresh, by the format's description alone, with its last entry made to fit.

    It starts from the given file, or else from ``sample``'s.

    ``header`` is the header's map; ``entries`` are lists, the envelope of a ``Sent`` a list too.
    What is set in ``ending`` replaces the last entry's right values; ``records`` are added after
    the entries and ``after`` after the last one, encoded. ``notes`` are checkpoints, by the number
    of leaves before them; the last entry comes to ``size``.
    """

    def __init__(self, file: bytes | None = None) -> None:
        if file is None:
            file = sample().content
        reader = TranscriptReader(Unpacked(file))
        self.secret = reader.secret
        self.header: dict[str, Any] = msgspec.to_builtins(reader.header, builtin_types=(bytes,))
        self.header["roster"] = [list(member) for member in self.header["roster"]]
        for name in ("kinds", "roles", "enrolled"):
            self.header[name] = msgspec.msgpack.decode(pack(self.header[name]))
        self.entries: list[Any] = [msgspec.msgpack.decode(pack(entry)) for entry in reader]
        for entry in self.entries:
            if entry[0] == "Sent":
                entry[2] = msgspec.msgpack.decode(entry[2])
        self.notes: dict[int, str] = {int(note.split("\n")[1]): note for note in reader.notes}
        self.ending: dict[str, Any] = {}
        self.records: list[bytes] = []
        self.after: list[bytes] = []

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
        leaves = [pack([self.header["session"], self.header["seed"]])]
        for name, _ in self.header["roster"]:
            said = [pack(e[2]) for e in self.entries if e[0] == "Sent" and e[2][1] == name]
            leaves.append(pack([name, len(said), tree_hash(said)]))
        return tree_hash(leaves)

    @property
    def size(self) -> int:
        return len(self.entries) + len(self.records) + 2

    def contents(self) -> list[bytes]:
        """All leaves of the log, the last entry's included."""
        # The fields of the header come in their order, the keys inside them sorted.
        header = _map_head(len(self.header)) + b"".join(
            pack(name) + pack(value, order="deterministic") for name, value in self.header.items()
        )
        entries = [pack([*e[:2], pack(e[2])]) if e[0] == "Sent" else pack(e) for e in self.entries]
        contents = [header, *entries, *self.records]
        right = {"log": self.root(contents), "complete": True, "reason": ""}
        return [*contents, pack(["Ending", *(right | self.ending).values()])]

    def root(self, contents: Sequence[bytes]) -> bytes:
        """The root of a log."""
        return tree_hash(log_leaves(self.secret, contents))

    def written(self) -> list[bytes]:
        """All records."""
        records: list[bytes] = []
        for size, content in enumerate(self.contents()):
            if size in self.notes:
                records.append(pack(["Checkpoint", self.notes[size]]))
            records.append(content)
        if self.size in self.notes:
            records.append(pack(["Checkpoint", self.notes[self.size]]))
        return [*records, *self.after]

    def write(self) -> bytes:
        return plain(self.written(), self.secret)


def _map_head(length: int) -> bytes:
    """How a map of so many fields begins."""
    return bytes([0x80 | length]) if length < 16 else b"\xde" + length.to_bytes(2, "big")


def record_of(content: bytes) -> bytes:
    """A record as it stands in a file."""
    return len(content).to_bytes(4, "big") + content


def plain(records: Iterable[bytes], secret: bytes = SECRET) -> bytes:
    """The file of these records."""
    return b"sottovoce transcript 3\n" + secret + b"".join(map(record_of, records))


def packed(
    parts: Iterable[bytes],
    frame: Callable[[bytes], bytes] = compress,
) -> bytes:
    """These bytes packed into frames, each of a part or a piece of it."""
    return b"".join(frame(part[i : i + PART]) for part in parts for i in range(0, len(part), PART))


def rules(found: Verification) -> set[str]:
    assert all(fault.rule in RULES for fault in found.faults)
    return {fault.rule for fault in found.faults}


def header_of_file(file: bytes, records: int = 1) -> bytes:
    """A file cut after its header, or after so many records."""
    forgery = Forgery(file)
    return plain(forgery.written()[:records], forgery.secret)


def unreadable_after_header(file: bytes) -> bytes:
    """A file of which the header and the first checkpoint can be unpacked, and nothing else."""
    rest = bytearray(packed([bytes(1000)]))
    rest[-1] ^= 1
    return packed([header_of_file(file, 2)]) + rest
