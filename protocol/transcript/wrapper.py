"""The wrapper around a transcript: zstandard frames (RFC 8878), one after another."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

import zstandard

from protocol.errors import TranscriptError

WRAPPED = b"\x28\xb5\x2f\xfd"
"""What every frame begins with."""

MAX_CONTENT = 1 << 23
"""The most bytes that a frame may hold once opened, and its largest window."""

MAX_FRAME = MAX_CONTENT + (MAX_CONTENT >> 8) + 1024
"""The longest frame, in bytes: zstandard's bound for incompressible content."""

PART_BYTES = 1 << 20
"""The most bytes that a recorder puts into one frame."""

_CHECKSUM = 1 << 2
_RUN, _COMPRESSED, _RESERVED = 1, 2, 3
_LEVEL = 3
_SLICE = 1 << 20


class UnopenedError(TranscriptError):
    """The wrapper cannot be opened, so nobody can tell what is in it."""


class Wrapper:
    """Wraps the bytes of a transcript as they come."""

    __slots__ = ("_compressor",)

    def __init__(self) -> None:
        self._compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)

    def wrap(self, content: bytes) -> bytes:
        """Frames that hold this content."""
        parts = range(0, len(content), PART_BYTES)
        return b"".join(self._compressor.compress(content[i : i + PART_BYTES]) for i in parts)


class Unwrapped:
    """What is in a file, whether or not it is wrapped: its parts in order, once.

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
        start = self._source.take(len(WRAPPED))
        if not WRAPPED.startswith(start):
            yield from self._plain(start)
            return
        while start:
            frame = self._frame(start)
            if frame is None:
                self.torn = True
                return
            content = _opened(frame, self.stored)
            self.stored += len(frame)
            yield content
            start = self._source.take(len(WRAPPED))

    def _plain(self, start: bytes) -> Iterator[bytes]:
        while start:
            self.stored += len(start)
            yield start
            start = self._source.take(_SLICE)

    def _frame(self, start: bytes) -> bytes | None:
        """The frame that begins here; None if the file ends inside it."""
        if not WRAPPED.startswith(start):
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
