"""What keeps a party that answers again from telling more than it told the first time."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import msgspec
import trio

from parties.actor import Channel
from protocol.messages import SWITCH, Envelope


class SameAgain:
    """A link that breaks as soon as something else is heard than when this party answered before.

    To the same question the same records give the same report, however often it is asked. Another
    question gets another report, and every report costs privacy anew: whoever may ask again and
    again, each time a little differently, would learn everything.

    Args:
        link: the party's own.
        path: what was heard before, and is from now on: a digest of every message, in order.
    """

    def __init__(self, link: Channel, path: Path) -> None:
        self._link = link
        self._path = path
        self._before = path.read_bytes() if path.exists() else b""
        self._now = b""
        self.send_nowait = link.send_nowait
        self.send_many = link.send_many

    async def receive_many(self) -> list[Envelope]:
        """Wait for at least one envelope.

        Raises:
            trio.BrokenResourceError: it is another than the first time.
        """
        return self._checked(await self._link.receive_many())

    def receive_nowait(self) -> list[Envelope]:
        """What is there; raises as ``receive_many``."""
        return self._checked(self._link.receive_nowait())

    def _checked(self, envelopes: list[Envelope]) -> list[Envelope]:
        for envelope in envelopes:
            if envelope.sender == SWITCH:
                continue  # Who has left is no question.
            said = msgspec.msgpack.encode((envelope.sender, envelope.kind, envelope.body))
            self._now += hashlib.sha256(said).digest()
        if not (self._before.startswith(self._now) or self._now.startswith(self._before)):
            raise trio.BrokenResourceError(
                "it said something else than when this party answered before, "
                "and two answers would tell more than one"
            )
        if len(self._now) > len(self._before):
            # On record before it is acted on: a crash must not make this party forget.
            _append(self._path, self._now[len(self._before) :])
            self._before = self._now
        return envelopes


def _append(path: Path, content: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
