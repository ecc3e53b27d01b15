"""Length-prefixed frames over a stream of bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from protocol.errors import RemoteProtocolError

_LENGTH = struct.Struct(">I")
PREFIX_BYTES = _LENGTH.size


def frames(payloads: Iterable[bytes]) -> bytes:
    """Several frames in one piece, for one write."""
    parts = []
    for payload in payloads:
        parts.append(_LENGTH.pack(len(payload)))
        parts.append(payload)
    return b"".join(parts)


class FrameReader:
    """Cuts a stream into frames.

    It holds at most one unfinished frame and the input of the last ``feed``.

    Args:
        cap: the largest payload allowed, in bytes; it may be changed between frames.
    """

    def __init__(self, cap: int) -> None:
        self.cap = cap
        self._buffer = bytearray()

    @property
    def in_frame(self) -> bool:
        """True if a frame has begun and not ended."""
        return bool(self._buffer)

    def feed(self, received: bytes | bytearray | memoryview) -> list[bytes]:
        """Take input; return the payloads that are whole now.

        The result does not depend on how the stream was cut: frames before one that is too large
        are returned first, and the next call raises.

        Raises:
            RemoteProtocolError: a frame announces more bytes than the cap.
        """
        buffer = self._buffer
        buffer += received
        payloads: list[bytes] = []
        start, held = 0, len(buffer)
        content = b""
        while held - start >= PREFIX_BYTES:
            (length,) = _LENGTH.unpack_from(buffer, start)
            if length > self.cap:
                if payloads:
                    break
                raise RemoteProtocolError(
                    f"a frame of {length} B, at most {self.cap} allowed", field="frame"
                )
            end = start + PREFIX_BYTES + length
            if held < end:
                break
            if not payloads:
                # One copy for all frames that are whole: slices of bytes are quicker than views.
                content = bytes(buffer)
            payloads.append(content[start + PREFIX_BYTES : end])
            start = end
        del buffer[:start]
        return payloads
