"""Reads transcripts as streams: the records of a file, and its header and entries."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from protocol.errors import TranscriptError, UnopenedError
from protocol.surveys.limits import (
    FREE_ENTRIES,
    FREE_VALUES,
    STORED_PER_ENTRY,
    STORED_PER_VALUE,
    TooMuchError,
)
from protocol.transcript.entries import (
    MAGIC,
    MAX_BODY,
    Checkpoint,
    Ending,
    Entry,
    Header,
    decode_header,
    decode_item,
)
from protocol.transcript.log import LOG_SECRET_BYTES
from protocol.wire.msgpack_values import has_more_values

RULES = (
    "magic",
    "length",
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
    "ending",
    "digest",
    "published",
)
"""The names of all rules, in the order of ``docs/transcript-format.md``, section 5."""

ENTRY_SLACK = 1 << 16
"""Maximum size of an entry beyond its body, in bytes."""

FREE_HEADER, HEADER_RATIO = 1 << 22, 8
"""Before the end of its header, a packed file may hold this many bytes, or this many times its own,
if that is more: keys cannot be compressed, so a roster hardly shrinks."""

MAX_HEADER = 1 << 26
"""Maximum size of a header, in bytes."""

_U32 = struct.Struct(">I")
_START_BYTES = len(MAGIC) + LOG_SECRET_BYTES


@dataclass(frozen=True, slots=True)
class Fault:
    """Fault of a transcript: a broken rule, and where.

    Args:
        rule: one of ``RULES``.
        message: what is wrong.
        offset: the byte of the file at which the record begins, if there is such a place.
        entry: the index of the entry, from 0, if there is one.
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


@runtime_checkable
class Stored(Protocol):
    """The unpacked content of a file that may be packed, in parts.

    Attributes:
        stored: the number of bytes of the file itself read so far.
        torn: whether the file ends inside a frame.
    """

    stored: int
    torn: bool

    def __iter__(self) -> Iterator[bytes]: ...


class Records:
    """The records of a file, encoded, in their order: first the header, then what follows it.

    Iteration stops at the end of the file or where reading cannot go on, for the reason in
    ``torn``, ``unopened`` and ``fault``. Memory holds one record and one part of the file.

    Args:
        chunks: the file's bytes, or its parts in order.

    Attributes:
        secret: the secret of the log's salts, once the first record has been read.
        limit: the longest record allowed, in bytes.
        offset: where in the file the last record begins.
        torn: the file ends inside a record or before the first one.
        unopened: why the content of the file could not be read.
        fault: the damage at which reading stopped.
    """

    def __init__(self, chunks: bytes | Iterable[bytes]) -> None:
        self.secret = b""
        self.limit = MAX_HEADER
        self.offset = 0
        self.torn = False
        self.unopened: UnopenedError | None = None
        self.fault: Fault | None = None
        self._file = chunks if isinstance(chunks, Stored) else None
        self._read_bytes = 0
        self._count = 0
        self._parts = iter([chunks] if isinstance(chunks, bytes) else chunks)
        self._held = b""
        self._records = self._read()

    def __iter__(self) -> Iterator[bytes]:
        return self._records

    @property
    def stored(self) -> int:
        """Number of bytes of the file that have been read, packed as it is."""
        return self._read_bytes if self._file is None else self._file.stored

    def header(self, content: bytes) -> Header:
        """The header that the first record holds; the next ones may be as long as it allows.

        Raises:
            TranscriptError: malformed.
            TooMuchError: it has more values than a file of this length may make its reader hold.
        """
        most = FREE_VALUES + self.stored // STORED_PER_VALUE
        if has_more_values(content, most):
            raise TooMuchError(f"the header has more than {most:,} values")
        header = decode_header(content)
        self.limit = longest_entry(header)
        return header

    def _read(self) -> Iterator[bytes]:
        try:
            yield from self._split()
        except UnopenedError as error:
            self.unopened = error

    def _split(self) -> Iterator[bytes]:
        before = -1
        while before < len(self._held) < _START_BYTES:
            before = len(self._held)
            self._fill(before + 1)
            found = self._held[: len(MAGIC)]
            if not MAGIC.startswith(found):
                message = f"the file begins with {found!r}, expected {MAGIC!r}"
                self.fault = Fault("magic", message, 0)
                return
        if len(self._held) < _START_BYTES:
            self.torn = True
            return
        self.secret = self._held[len(MAGIC) : _START_BYTES]
        at, place, most = _START_BYTES, _START_BYTES, 0
        while True:
            held = self._held
            if len(held) - at < _U32.size:
                self._held, held, at = held[at:], b"", 0
                self._fill(_U32.size)
                held = self._held
                if len(held) < _U32.size:
                    break
            (length,) = _U32.unpack_from(held, at)
            end = at + _U32.size + length
            self.offset = place
            if length > self.limit:
                self.fault = Fault("length", f"a record of {length} B, at most {self.limit}", place)
                return
            if end > len(held):
                self._held, held, end, at = held[at:], b"", end - at, 0
                self._fill(end)
                held = self._held
                if end > len(held):
                    break
            self._count += 1
            if self._file is not None and self._count > most:
                most = FREE_ENTRIES + self.stored // STORED_PER_ENTRY
                if self._count > most:
                    raise UnopenedError("more entries than a packed file of this length may have")
            record, place, at = held[at + _U32.size : end], place + (end - at), end
            if at == len(held):
                self._held, held, at = b"", b"", 0  # A part may be as long as its one record.
            yield record
        self.torn = bool(self._held) or (self._file is not None and self._file.torn)

    def _fill(self, size: int) -> None:
        """Read on until this many bytes are held, if there are as many."""
        parts, held = [self._held] if self._held else [], len(self._held)
        while held < size:
            part = next(self._parts, None)
            if part is None:
                break
            parts.append(part)
            held += len(part)
            self._read_bytes += len(part)
            most = max(FREE_HEADER, HEADER_RATIO * self.stored)
            if self._file is not None and not self._count and self._read_bytes > most:
                raise UnopenedError(f"more than {most:,} B before the end of its header")
        self._held = b"".join(parts)


def longest_entry(header: Header) -> int:
    """The longest record after a header, in bytes."""
    return ENTRY_SLACK + min(max(header.longest.values(), default=0), MAX_BODY)


class TranscriptReader:
    """A transcript's header and entries, as far as they can be read; it reads once, as a stream.

    Iteration stops where the file is damaged or torn, with ``fault`` or ``torn`` set. Entries are
    not judged here but in ``verification``.

    Args:
        chunks: the file's bytes, or its parts in order.

    Attributes:
        header: the header.
        fault: the damage at which reading stopped.
        ending: the last entry, once all before have been read.
        notes: the checkpoints read so far.

    Raises:
        TranscriptError: not even the header can be read.
        TooMuchError: the header has more values than a file of this length may.
    """

    def __init__(self, chunks: bytes | Iterable[bytes]) -> None:
        self.fault: Fault | None = None
        self.ending: Ending | None = None
        self.notes: list[str] = []
        self._records = Records(chunks)
        self._items = iter(self._records)
        self._entries = self._read_entries()
        self.header = self._read_header()

    def __iter__(self) -> Iterator[Entry]:
        return self._entries

    @property
    def torn(self) -> bool:
        """True if the file ends inside a record, as after a crash."""
        return self._records.torn

    @property
    def stored(self) -> int:
        """Number of bytes of the file that have been read."""
        return self._records.stored

    @property
    def secret(self) -> bytes:
        """The secret of the log's salts, 32 bytes."""
        return self._records.secret

    @property
    def unopened(self) -> UnopenedError | None:
        """Reason why the content of the file could not be read on, or None."""
        return self._records.unopened

    def _read_header(self) -> Header:
        content, records = next(self._items, None), self._records
        if content is not None:
            return records.header(content)
        if records.unopened is not None:
            raise records.unopened
        if records.fault is not None:
            raise TranscriptError(records.fault.message, offset=records.fault.offset)
        raise TranscriptError("the file ends before its header does", offset=records.stored)

    def _read_entries(self) -> Iterator[Entry]:
        records, index = self._records, 0
        for content in self._items:
            try:
                item = decode_item(content)
                if self.ending is not None and not isinstance(item, Checkpoint):
                    raise TranscriptError("an entry after the last one")
            except TranscriptError as error:
                self.fault = Fault("entries", str(error), records.offset, index)
                return
            match item:
                case Checkpoint():
                    self.notes.append(item.note)
                case Ending():
                    self.ending = item
                case _:
                    yield item
                    index += 1
        self.fault = records.fault
        if records.unopened is not None:
            message = f"it cannot be unpacked: {records.unopened}"
            self.fault = Fault("entries", message, records.offset)
