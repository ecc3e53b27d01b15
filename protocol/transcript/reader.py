"""Reads transcripts as streams and checks how their blocks are stored."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from protocol.errors import TranscriptError
from protocol.surveys.limits import FREE_ENTRIES, STORED_PER_ENTRY
from protocol.transcript.entries import (
    CHAIN_BYTES,
    CLOSING,
    ENTRIES,
    HEAD_BYTES,
    HEADER,
    HEADER_BYTES,
    HEADER_RATIO,
    MAGIC,
    MAX_BODY,
    MAX_HEADER,
    MAX_STORED,
    SLACK_BYTES,
    Ending,
    Entry,
    Header,
    decode_ending,
    decode_entry,
    decode_header,
    expand,
    first_link,
    guard_of,
    next_link,
    split_entries,
)

RULES = (
    "magic",
    "guard",
    "chain",
    "block-type",
    "frame",
    "header-first",
    "header",
    "entries",
    "session",
    "sender",
    "recipient",
    "kind",
    "body-size",
    "seq-gap",
    "seq-repeat",
    "seq-order",
    "delivery",
    "delivered-twice",
    "departed",
    "head",
    "checkpoint",
    "closing",
    "closing-count",
    "closing-digest",
    "digest",
    "published",
)
"""The names of all rules, in the order of ``docs/transcript-format.md``, section 4."""

TOO_MANY = "more entries than allowed for a file of this length"

_SLICE = 1 << 20
_START_BYTES = 5


@dataclass(frozen=True, slots=True)
class Fault:
    """Where a transcript breaks a rule.

    ``rule`` is one of ``RULES``, ``offset`` the byte of the file at which the
    block begins, ``entry`` the index of the entry, from 0; None where there is no such place.
    """

    rule: str
    message: str
    offset: int | None = None
    entry: int | None = None

    def __str__(self) -> str:
        places = []
        if self.offset is not None:
            places.append(f"byte {self.offset}")
        if self.entry is not None:
            places.append(f"entry {self.entry}")
        return f"{', '.join([*places, self.rule])}: {self.message}"


@dataclass(frozen=True, slots=True)
class Torn:
    """The file ends inside the block, or the first line, that begins at ``offset``: a crash."""

    offset: int


@dataclass(frozen=True, slots=True)
class Block:
    """A block as stored: the byte at which it begins, its type, its zstandard frame."""

    offset: int
    kind: bytes
    stored: bytes

    def content(self, header: Header | None = None) -> bytes:
        """What is in the frame; how much that may be follows from the header, once it is known.

        How much a header may be follows from the bytes that it is stored in.

        Raises:
            TranscriptError: it cannot be expanded, or not within bounds.
        """
        if self.kind == HEADER:
            longer = HEADER_RATIO * len(self.stored)
            return expand(self.stored, limit=min(max(HEADER_BYTES, longer), MAX_HEADER))
        body = 0 if header is None else min(max(header.max_body, 0), MAX_BODY)
        return expand(self.stored, limit=SLACK_BYTES + body)

    @property
    def end(self) -> int:
        """The byte of the file after it."""
        return self.offset + HEAD_BYTES + len(self.stored) + CHAIN_BYTES

    @property
    def most_entries(self) -> int:
        """How many entries a file may have up to its end; an honest one has far fewer.

        Entries that are all alike take no room in a file, but somebody who counts them does.
        """
        return FREE_ENTRIES + self.end // STORED_PER_ENTRY

    def __repr__(self) -> str:
        return f"Block(offset={self.offset}, kind={self.kind!r}, {len(self.stored)} B)"


def read(chunks: bytes | Iterable[bytes]) -> Iterator[Block | Fault | Torn]:
    """The blocks of a file in their order, and what is wrong with them, with one block in memory.

    A fault of a block comes before the block itself. Reading goes on after a fault as long as the
    next block's boundaries can be trusted: when the guard or the chain is right, or, if both are
    wrong (a block was taken out, say), when the guard of the next block is right again. ``Torn``
    comes last, if at all.
    """
    source = _Source(chunks)
    first_line = source.take(len(MAGIC))
    trusted = first_line == MAGIC
    if not trusted:
        if len(first_line) < len(MAGIC) and MAGIC.startswith(first_line):
            yield Torn(0)
            return
        yield Fault("magic", f"the file begins with {first_line!r}, expected {MAGIC!r}", 0)
    # The chain so far; where the stored one was wrong, the one stored and the one computed.
    links: tuple[bytes, ...] = (first_link(),)
    while True:
        offset = source.offset
        head = source.take(HEAD_BYTES)
        if not head:
            return
        if len(head) < HEAD_BYTES:
            if trusted:
                yield Torn(offset)
            return
        start, guard = head[:_START_BYTES], head[_START_BYTES:]
        guarded = tuple(link for link in links if guard_of(link, start) == guard)
        if not guarded:
            yield Fault("guard", "the block's type and length do not match its guard", offset)
            if not trusted:
                return
        length = int.from_bytes(start[1:], "big")
        if length > MAX_STORED:
            if guarded:
                message = f"the block has {length} B, at most {MAX_STORED} allowed"
                yield Fault("frame", message, offset)
            return
        rest = source.take(length + CHAIN_BYTES)
        if len(rest) < length + CHAIN_BYTES:
            if guarded:
                yield Torn(offset)
            return
        stored, written = rest[:length], rest[length:]
        computed = tuple(next_link(link, start, stored) for link in guarded or links)
        linked = written in computed
        if not linked:
            yield Fault("chain", "the block's bytes do not match its chain value", offset)
        links = (written,) if linked else (written, computed[0])
        trusted = bool(guarded) or linked
        yield Block(offset, start[:1], stored)


class TranscriptReader:
    """A transcript's header and entries, as far as they can be read; it reads once, as a stream.

    Iteration stops where the file is damaged or torn, and ``fault`` or ``torn`` say why. What the
    entries say is not judged (``verification`` does).

    Args:
        chunks: the file's bytes, or its parts in order.

    Attributes:
        header: what the transcript is about.
        fault: the damage at which reading stopped.
        torn: where the file breaks off inside a block.
        ending: the closing record, once all entries have been read.
        stored: how many bytes of the file have been read.

    Raises:
        TranscriptError: not even the header can be read.
    """

    def __init__(self, chunks: bytes | Iterable[bytes]) -> None:
        self.fault: Fault | None = None
        self.torn: Torn | None = None
        self.ending: Ending | None = None
        self.stored = 0
        self._blocks = read(chunks)
        self._entries = self._read_entries()
        self.header = self._read_header()

    def __iter__(self) -> Iterator[Entry]:
        return self._entries

    def _next_block(self) -> Block | None:
        item = next(self._blocks, None)
        match item:
            case Fault():
                self.fault = item
            case Torn():
                self.torn = item
            case Block():
                self.stored = item.end
                return item
        return None

    def _read_header(self) -> Header:
        block = self._next_block()
        if self.torn is not None:
            raise TranscriptError("the file ends before its header does", offset=self.torn.offset)
        if self.fault is not None:
            raise TranscriptError(self.fault.message, offset=self.fault.offset)
        if block is None:
            raise TranscriptError("the file ends before its header begins", offset=len(MAGIC))
        if block.kind != HEADER:
            raise TranscriptError("the first block is not a header", offset=block.offset)
        try:
            return decode_header(block.content())
        except TranscriptError as error:
            raise TranscriptError(str(error), offset=block.offset) from error

    def _read_entries(self) -> Iterator[Entry]:
        index = 0
        while (block := self._next_block()) is not None:
            try:
                if self.ending is not None:
                    raise TranscriptError("a block after the closing record")
                if block.kind == ENTRIES:
                    for encoded in split_entries(block.content(self.header)):
                        if index >= block.most_entries:
                            raise TranscriptError(TOO_MANY)
                        yield decode_entry(encoded)
                        index += 1
                elif block.kind == CLOSING:
                    self.ending = decode_ending(block.content(self.header))
                else:
                    raise TranscriptError(f"a block of type {block.kind!r} among the entries")
            except TranscriptError as error:
                self.fault = Fault("entries", str(error), block.offset)
                return


class _Source:
    """Cuts chunks into pieces of the sizes asked for; ``offset`` counts what was taken."""

    __slots__ = ("_chunks", "_held", "_ready", "offset")

    def __init__(self, chunks: bytes | Iterable[bytes]) -> None:
        if isinstance(chunks, bytes | bytearray | memoryview):
            view = memoryview(chunks)
            chunks = (bytes(view[i : i + _SLICE]) for i in range(0, len(view), _SLICE))
        self._chunks = iter(chunks)
        self._ready: deque[memoryview] = deque()
        self._held = 0
        self.offset = 0

    def take(self, size: int) -> bytes:
        """The next ``size`` bytes, or what is left if that is less."""
        while self._held < size:
            chunk = next(self._chunks, None)
            if chunk is None:
                break
            if chunk:
                self._ready.append(memoryview(chunk))
                self._held += len(chunk)
        parts: list[memoryview] = []
        wanted = min(size, self._held)
        self._held -= wanted
        self.offset += wanted
        while wanted:
            first = self._ready.popleft()
            parts.append(first[:wanted])
            if len(first) > wanted:
                self._ready.appendleft(first[wanted:])
            wanted -= len(parts[-1])
        return b"".join(parts)
