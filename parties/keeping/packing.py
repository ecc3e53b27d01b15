"""Transcripts as files: packed into Zstandard frames (RFC 8878), one for each write.

A frame has a checksum, which distinguishes a whole write from one that a crash cut.
"""

from __future__ import annotations

import itertools
import re
import struct
from collections.abc import Callable, Iterable, Iterator

import zstandard

from protocol.errors import UnopenedError
from protocol.transcript.entries import MAGIC
from protocol.transcript.log import LOG_SECRET_BYTES

PACKED = b"\x28\xb5\x2f\xfd"
"""The first bytes of every frame."""

MAX_WINDOW = 1 << 23
"""The largest window of a frame, in bytes."""

MAX_FRAME = 1 << 26
"""The most bytes that a frame may hold once unpacked."""

PART_BYTES = 1 << 20
"""The most bytes that are put into one frame."""

SECTOR = 512
"""The least that a disk writes at once, in bytes: in a frame, zeros begin at a multiple of it."""

_U32 = struct.Struct(">I")
_SKIPPED = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18")
_LEVEL = 3
_SLICE = 1 << 11
"""The packed bytes read at once: unpacked they may be 32,768 times as long."""


class Packer:
    """Packs the bytes of a transcript as they come."""

    __slots__ = ("_compressor",)

    def __init__(self) -> None:
        self._compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)

    def pack(self, content: bytes) -> bytes:
        """Frames that hold this content."""
        parts = range(0, len(content), PART_BYTES)
        return b"".join(self._compressor.compress(content[i : i + PART_BYTES]) for i in parts)


class Unpacked:
    """The content of a file, packed or not: its parts in order, once.

    Args:
        chunks: the file's bytes, or its parts in order.

    Attributes:
        stored: the number of bytes of the file read so far, up to the end of a frame.
        torn: whether the file ends inside a frame, which is not given out.

    Raises:
        UnopenedError: (while it is read) a frame is malformed, or holds too much.
    """

    def __init__(self, chunks: bytes | Iterable[bytes]) -> None:
        self.torn = False
        self.stored = 0
        self._chunks = iter([chunks] if isinstance(chunks, bytes) else chunks)

    def __iter__(self) -> Iterator[bytes]:
        start = b""
        while len(start) < len(PACKED) and (chunk := next(self._chunks, None)) is not None:
            start += chunk
        if not start:
            return
        whole = itertools.chain([start], self._chunks)
        is_packed = agree(start, PACKED) or _SKIPPED.match(start)
        yield from self._frames(whole) if is_packed else self._plain(whole)

    def _plain(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            self.stored += len(chunk)
            yield chunk

    def _frames(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        decompressor = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW)
        frame, content, read, held = None, [], 0, 0
        for part in (slices := _slices(chunks)):
            rest = part
            while rest:
                frame = frame or decompressor.decompressobj()
                try:
                    content.append(frame.decompress(rest))
                except zstandard.ZstdError as error:
                    if not content and not any(map(any, itertools.chain([rest], slices))):
                        self.torn = True  # Zeros in place of bytes that a crash lost.
                        return
                    is_large = "memory" in str(error)
                    why = "takes too much memory to unpack" if is_large else "damaged"
                    message = f"malformed zstandard frame: {why}"
                    raise UnopenedError(message, offset=self.stored) from error
                held += len(content[-1])
                left = frame.unused_data if frame.eof else b""
                read += len(rest) - len(left)
                if held > MAX_FRAME:
                    message = f"a frame holds more than {MAX_FRAME:,} B"
                    raise UnopenedError(message, offset=self.stored)
                rest = left
                if frame.eof:
                    self.stored = read
                    frame, held = None, 0
                    yield _join_parts(content)
        self.torn = frame is not None


def _join_parts(parts: list[bytes]) -> bytes:
    """Join the parts and clear the list, since a frame may hold megabytes."""
    whole = b"".join(parts)
    parts.clear()
    return whole


def record_start(secret: bytes) -> bytes:
    """The first bytes of the file of a record with a log of this secret, 32 bytes."""
    return Packer().pack(MAGIC + secret)


def whole_length(chunks: Callable[[], Iterable[bytes]]) -> int:
    """Count the bytes, from a file's start, of whole frames that end with a whole record.

    After them comes the beginning of a write that a crash cut, perhaps with zeros in place of its
    rest.

    Args:
        chunks: gives the file's bytes in parts, from the start.

    Raises:
        UnopenedError: a frame is malformed in a way that no crash causes.
    """
    try:
        return _whole_length(chunks())
    except UnopenedError as error:
        zeros = _zeros_start(chunks(), error.offset or 0)
        if zeros is None:
            raise
    return _whole_length(_beginning(chunks(), zeros))


def _zeros_start(chunks: Iterable[bytes], frame: int) -> int | None:
    """Place of the zeros at the end of a file, if a crash can have left them; else None.

    Args:
        frame: where the malformed frame begins. The zeros begin there, or at a sector in it.
    """
    length = written = 0
    for chunk in chunks:
        nonzero = len(chunk.rstrip(b"\0"))
        written = length + nonzero if nonzero else written
        length += len(chunk)
    begin = frame if written <= frame else -(-written // SECTOR) * SECTOR
    return begin if begin < length else None


def _beginning(chunks: Iterable[bytes], length: int) -> Iterator[bytes]:
    for chunk in chunks:
        yield chunk[:length]
        length -= len(chunk)
        if length <= 0:
            return


def _whole_length(chunks: Iterable[bytes]) -> int:
    file = Unpacked(chunks)
    whole, missing, length = 0, len(MAGIC) + LOG_SECRET_BYTES, b""
    for part in file:
        at = 0
        while at < len(part):
            step = min(missing, len(part) - at)
            at, missing = at + step, missing - step
            if not missing and at < len(part):
                more = part[at : at + _U32.size - len(length)]
                length, at = length + more, at + len(more)
                if len(length) == _U32.size:
                    (missing,) = _U32.unpack(length)
                    length = b""
        if not (missing or length):
            whole = file.stored
    return whole


def agree(one: bytes, other: bytes) -> bool:
    """Check whether one of them begins with the other."""
    return one.startswith(other) or other.startswith(one)


def _slices(chunks: Iterable[bytes]) -> Iterator[bytes]:
    for chunk in chunks:
        for at in range(0, len(chunk), _SLICE):
            yield chunk[at : at + _SLICE]
