"""Transcripts as files: packed into Zstandard frames (RFC 8878), one for each write.

A frame has a checksum, so what a crash has left of a write is told from what was written whole.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Iterable, Iterator

import zstandard

from protocol.errors import UnopenedError
from protocol.transcript.entries import MAGIC
from protocol.transcript.log import LOG_SECRET_BYTES

PACKED = b"\x28\xb5\x2f\xfd"
"""What every frame begins with."""

MAX_CONTENT = 1 << 23
"""The most bytes that a frame may hold once opened, and its largest window."""

MAX_FRAME = MAX_CONTENT + (MAX_CONTENT >> 8) + 1024
"""The longest frame, in bytes: zstandard's bound for incompressible content."""

PART_BYTES = 1 << 20
"""The most bytes that are put into one frame."""

FREE_CONTENT, MOST_RATIO = 1 << 24, 64
"""How much a file may hold whatever its size, in bytes, and how many times its size beyond that.

Entries that are all alike take no room in a file, but whoever reads them has to count them.
"""

SECTOR = 512
"""The least that a disk writes at once, in bytes: in a frame, zeros begin at a multiple of it."""

_U32 = struct.Struct(">I")
_CHECKSUM = 1 << 2
_RUN, _COMPRESSED, _RESERVED = 1, 2, 3
_LEVEL = 3
_SLICE = 1 << 20


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
    """What is in a file, whether or not it is packed: its parts in order, once.

    Args:
        chunks: the file's bytes, or its parts in order.

    Attributes:
        stored: how many bytes of the file have been read.
        torn: whether the file ends inside a frame; what that holds is not given out.

    Raises:
        UnopenedError: (while it is read) a frame is malformed or larger than allowed.
    """

    def __init__(self, chunks: bytes | Iterable[bytes]) -> None:
        self.torn = False
        self.stored = 0
        self._source = _Source(chunks)

    def __iter__(self) -> Iterator[bytes]:
        start = self._source.take(len(PACKED))
        if not PACKED.startswith(start):
            yield from self._plain(start)
            return
        opened = 0
        while start:
            frame = self._frame(start)
            if frame is None:
                self.torn = True
                return
            content = _opened(frame, self.stored)
            self.stored += len(frame)
            opened += len(content)
            if opened > max(FREE_CONTENT, MOST_RATIO * self.stored):
                raise UnopenedError(f"more than {MOST_RATIO} times its size is in it")
            yield content
            start = self._source.take(len(PACKED))

    def _plain(self, start: bytes) -> Iterator[bytes]:
        while start:
            self.stored += len(start)
            yield start
            start = self._source.take(_SLICE)

    def _frame(self, start: bytes) -> bytes | None:
        """The frame that begins here; None if the file ends inside it."""
        if not PACKED.startswith(start):
            raise UnopenedError("not a zstandard frame", offset=self.stored)
        parts = [start, self._source.take(1)]
        if not parts[1]:
            return None
        header = zstandard.frame_header_size(start + parts[1])
        parts.append(self._source.take(header - len(start) - 1))
        length, missing, last = header, header - sum(map(len, parts)), False
        compressed = False
        while not (missing or last):
            head = self._source.take(3)
            if len(head) < 3:
                return None
            block = int.from_bytes(head, "little")
            last, kind, size = bool(block & 1), block >> 1 & 3, block >> 3
            compressed |= kind == _COMPRESSED
            size = 1 if kind == _RUN else size
            if last and parts[1][0] & _CHECKSUM:
                size += 4
            length += 3 + size
            if kind == _RESERVED or length > MAX_FRAME:
                raise UnopenedError("malformed or too long zstandard frame", offset=self.stored)
            parts += [head, self._source.take(size)]
            missing = size - len(parts[-1])
        if missing:
            return None
        if compressed and not parts[1][0] & _CHECKSUM:
            # What a malformed frame holds would depend on the decoder.
            raise UnopenedError("a compressed frame without a checksum", offset=self.stored)
        return b"".join(parts)


def _opened(frame: bytes, offset: int) -> bytes:
    try:
        says = zstandard.get_frame_parameters(frame)
        if not 0 < says.content_size <= MAX_CONTENT or says.window_size > MAX_CONTENT:
            # A size that is not stated is a vast one.
            message = f"a frame states a size or a window that is not 1 to {MAX_CONTENT} B"
            raise UnopenedError(message, offset=offset)
        return zstandard.ZstdDecompressor().decompress(frame, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise UnopenedError(f"malformed zstandard frame: {error}", offset=offset) from error


def start_of(secret: bytes) -> bytes:
    """What the file of a record begins with whose log has this secret, of 32 bytes."""
    return Packer().pack(MAGIC + secret)


def whole_length(chunks: Callable[[], Iterable[bytes]]) -> int:
    """How many bytes of a file, from its start, are whole frames that end with a whole record.

    What comes after them is what a crash has left of a write: the beginning of it, and perhaps
    zeros up to the end of the file in the place of the rest.

    Args:
        chunks: gives the file's bytes in parts, from the start.

    Raises:
        UnopenedError: a frame is malformed otherwise, which no crash does.
    """
    try:
        return _whole_length(chunks())
    except UnopenedError as error:
        zeros = _zeros_in(chunks(), error.offset or 0)
        if zeros is None:
            raise
    return _whole_length(_beginning(chunks(), zeros))


def _zeros_in(chunks: Iterable[bytes], frame: int) -> int | None:
    """Where the zeros begin that a file ends with, if a crash can have left them.

    Args:
        frame: where the frame begins that is malformed. They begin there, or at a sector in it.
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


class _Source:
    """Cuts chunks into pieces of the sizes asked for."""

    __slots__ = ("_chunks", "_held", "_ready")

    def __init__(self, chunks: bytes | Iterable[bytes]) -> None:
        if isinstance(chunks, bytes | bytearray | memoryview):
            view = memoryview(chunks)
            chunks = (bytes(view[i : i + _SLICE]) for i in range(0, len(view), _SLICE))
        self._chunks = iter(chunks)
        self._ready: deque[memoryview] = deque()
        self._held = 0

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
        while wanted:
            first = self._ready.popleft()
            parts.append(first[:wanted])
            if len(first) > wanted:
                self._ready.appendleft(first[wanted:])
            wanted -= len(parts[-1])
        return b"".join(parts)
