"""What keeps a party that answers again from telling more than it told the first time."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import trio

from parties.actor import Channel
from protocol.messages import SWITCH, Envelope
from scenarios.files.writing import GrowingFile, lock, naming, open_private, sync_folder
from scenarios.running.errors import UsageError

KEY_BYTES = 32


class Memory:
    """What a party heard in one session, as digests in a file, and with which records it answered.

    Args:
        file: open for writing at its end, nobody else's.
        before: what it holds already.
    """

    def __init__(self, file: GrowingFile, before: bytes) -> None:
        self._file = file
        self._before = before
        self._now = b""

    def heard(self, envelope: Envelope) -> bool:
        """Note a message; whether it is as the first time, or new after all that was heard then."""
        said = msgspec.msgpack.encode((envelope.sender, envelope.kind, envelope.body))
        self._now += hashlib.sha256(said).digest()
        if not (self._before.startswith(self._now) or self._now.startswith(self._before)):
            return False
        if len(self._now) > len(self._before):
            # On disk before it is acted on: a crash must not make this party forget.
            self._file.write(self._now[len(self._before) :])
            self._file.sync()
            self._before = self._now
        return True


@contextmanager
def remembering(path: Path, key: bytes) -> Generator[Memory]:
    """A party's memory of a session, locked while the block runs.

    Args:
        path: the file; it is made at the first time.
        key: 32 bytes that stand for the records answered with, without telling them.

    Raises:
        UsageError: other records have answered in this session, or another program is answering;
            or the file is not a regular one, or has another name too.
        OSError: the file cannot be written; it says which one, whatever the block made of it.
    """
    descriptor = open_private(path, os.O_RDWR | os.O_CREAT, sole=True)
    with os.fdopen(descriptor, "r+b", buffering=0) as file:
        lock(descriptor, path, f"{path.parent}: another program is answering from this folder")
        with naming(path):
            earlier = file.read()
        # A shorter one is of a program that died before it could answer.
        if len(earlier) >= KEY_BYTES and earlier[:KEY_BYTES] != key:
            raise UsageError(
                f"{path.parent}: other records have answered in this session, "
                "and a second report would tell more than one"
            )
        growing = GrowingFile(descriptor, path)
        if len(earlier) < KEY_BYTES:
            with naming(path):
                file.seek(0)
                file.truncate()
            growing.write(key)
            growing.sync()
            sync_folder(path.parent)
        with growing.surfacing():
            yield Memory(growing, earlier[KEY_BYTES:])


class SameAgain:
    """A link that breaks as soon as something else is heard than when this party answered before.

    To the same question the same records give the same report, however often it is asked. Another
    question gets another report, and every report costs privacy anew: whoever may ask again and
    again, each time a little differently, would learn everything.

    Args:
        link: the party's own.
        memory: of what was heard before, and is from now on.
    """

    def __init__(self, link: Channel, memory: Memory) -> None:
        self._link = link
        self._memory = memory
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
            # Who has left is no question.
            if envelope.sender != SWITCH and not self._memory.heard(envelope):
                raise trio.BrokenResourceError(
                    "it sent something else than when this party answered before, and two answers "
                    "would reveal more than one"
                )
        return envelopes
