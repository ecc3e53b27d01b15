"""Frames over a stream of bytes, with a deadline for everything that waits for the other side."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import trio

from protocol.wire.framing import FrameReader, frames
from transports.base import Limits

_CHUNK = 65536
_CLOSING_SECONDS = 1.0


class Connection:
    """One side of a connection.

    Args:
        wire: the stream.
        cap: the largest payload that the other side may send, in bytes.
        limits: the deadlines.
        patient: wait for as long as the other side takes to read: it has others to wait for.

    Attributes:
        patient: as passed in; it may be changed.
        heard: time of the last arrival; at first, of the beginning.
    """

    def __init__(
        self, wire: trio.abc.Stream, *, cap: int, limits: Limits, patient: bool = False
    ) -> None:
        self._wire = wire
        self._reader = FrameReader(cap)
        self._limits = limits
        self.patient = patient
        self.heard = trio.current_time()
        self._whole: deque[bytes] = deque()
        self._frame_due = float("inf")
        self._torn = False
        self._filling = False
        self._filled: trio.Event | None = None

    def __len__(self) -> int:
        """Number of arrived payloads that were not taken."""
        return len(self._whole)

    def raise_cap(self, cap: int) -> None:
        """Allow larger frames from here on."""
        self._reader.cap = cap

    async def send(self, payloads: Iterable[bytes]) -> None:
        """Write frames in one piece. A send that is cancelled breaks the connection.

        Raises:
            trio.BrokenResourceError: the connection broke, or the other side does not read.
        """
        if self._torn:
            raise trio.BrokenResourceError("an earlier write was cut short")
        self._torn = True
        if self.patient:
            await self._wire.send_all(frames(payloads))
            self._torn = False
            return
        with trio.move_on_after(self._limits.stall):
            await self._wire.send_all(frames(payloads))
            self._torn = False
        if self._torn:
            raise trio.BrokenResourceError("the other side does not read")

    async def receive(self) -> bytes:
        """The next payload.

        Raises: as ``fill``.
        """
        while not self._whole:
            await self.fill()
        return self._whole.popleft()

    def take(self) -> list[bytes]:
        """The payloads that are there."""
        payloads = list(self._whole)
        self._whole.clear()
        return payloads

    async def fill(self) -> None:
        """Read once; perhaps some payloads are whole now. A cancelled read loses nothing.

        Raises:
            trio.EndOfChannel: the other side ended between two frames.
            trio.BrokenResourceError: it ended inside one, broke, or was too slow.
            RemoteProtocolError: a frame is too large.
        """
        reader = self._reader
        due = trio.current_time() + self._limits.idle
        if reader.in_frame:
            due = min(due, self._frame_due)
        received = None
        self._filling = True
        try:
            with trio.move_on_at(due):
                received = await self._wire.receive_some(_CHUNK)
        finally:
            self._filling = False
            if self._filled is not None:
                self._filled.set()
        if received is None:
            raise trio.BrokenResourceError("silent for too long")
        self.heard = trio.current_time()
        was_in_frame = reader.in_frame
        if not received:
            if was_in_frame:
                raise trio.BrokenResourceError("the connection ended inside a frame")
            raise trio.EndOfChannel
        whole = reader.feed(received)
        self._whole.extend(whole)
        if reader.in_frame and (whole or not was_in_frame):
            self._frame_due = trio.current_time() + self._limits.frame

    async def drain(self) -> None:
        """Read and forget until the other side ends; another task may be reading too.

        Raises: as ``fill``.
        """
        while True:
            if self._filling:
                self._filled = trio.Event()
                await self._filled.wait()
            else:
                await self.fill()
                self._whole.clear()

    async def aclose(self) -> None:
        """Close; TLS says goodbye if that is quick."""
        with trio.move_on_after(_CLOSING_SECONDS):
            await self._wire.aclose()

    async def end(self) -> None:
        """Close for good and release everything; nobody may use it any more."""
        try:
            await self.aclose()
        finally:
            _empty(self._wire)


async def end(wire: trio.abc.Stream) -> None:
    """Close a stream at once and for good; nobody may use it any more."""
    try:
        await trio.aclose_forcefully(wire)
    finally:
        _empty(wire)


def _empty(wire: trio.abc.Stream) -> None:
    """Release what a closed TLS stream holds.

    Trio's TLS stream refers to itself, so OpenSSL's 36 kB would stay until a garbage collection,
    which is rarer the more objects there are.
    """
    if isinstance(wire, trio.SSLStream):
        vars(wire).clear()


async def turn_away(wire: trio.SocketStream) -> None:
    """Close such that the last bytes arrive: unread input would make the system reset."""
    with trio.move_on_after(_CLOSING_SECONDS):
        try:
            await wire.send_eof()
            while await wire.receive_some(_CHUNK):
                pass
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # The other side has gone already.
    await trio.aclose_forcefully(wire)
