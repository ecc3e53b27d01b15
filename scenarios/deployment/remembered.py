"""What a party keeps: what it heard, so that it answers the same again, and its notices."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
import trio

from parties.actor import Channel
from protocol.messages import SWITCH, Envelope
from scenarios.errors import UsageError
from scenarios.files.writing import GrowingFile, lock, naming, open_private, sync_folder

KEY_BYTES = 32

BLOCK = 1024
"""Notices grow by this many bytes at a time, so that their size does not reveal their content."""

_HEAD = """\
What this party noted when it answered, or that there was nothing to note.
Keep it to yourself. A notice depends on the answers: telling anybody that one is here, or that
none is, reveals an answer.
"""


class Memory:
    """What a party heard in one session, as digests in a file.

    Args:
        file: open at its end, with no other name.
        before: the digests in it already.
    """

    def __init__(self, file: GrowingFile, before: bytes) -> None:
        self._file = file
        self._before = before
        self._now = b""

    def heard(self, envelope: Envelope) -> bool:
        """Note a message; False if it differs from what was heard the first time."""
        said = msgspec.msgpack.encode((envelope.sender, envelope.kind, envelope.body))
        self._now += hashlib.sha256(said).digest()
        if not (self._before.startswith(self._now) or self._now.startswith(self._before)):
            return False
        if len(self._now) > len(self._before):
            # On disk before it is acted on, so that a crash does not make this party forget.
            self._file.write(self._now[len(self._before) :])
            self._file.sync()
            self._before = self._now
        return True


@contextmanager
def remembering(path: Path, key: bytes) -> Generator[Memory]:
    """A party's memory of a session, locked while the block runs.

    Args:
        path: the file, made on first use.
        key: 32 bytes that identify the records answered with, without revealing them.

    Raises:
        UsageError: other records have answered in this session, another program is answering, or
            the file is not a regular one or has another name.
        OSError: the file cannot be written; names it.
    """
    descriptor = open_private(path, os.O_RDWR | os.O_CREAT, sole=True)
    with os.fdopen(descriptor, "r+b", buffering=0) as file:
        lock(descriptor, path, f"{path.parent}: another program is answering from this folder")
        with naming(path):
            earlier = file.read()
        # A shorter file is left by a program that died before it could answer.
        if len(earlier) >= KEY_BYTES and earlier[:KEY_BYTES] != key:
            raise UsageError(
                f"{path.parent}: other records have answered in this session; "
                "a second report would reveal more than one"
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
    """A link that breaks when a message differs from those of this party's first answer.

    The same question always gets the same report. A different question would get another report,
    which costs privacy anew.

    Args:
        link: the party's own.
        memory: of the messages of this session.
    """

    def __init__(self, link: Channel, memory: Memory) -> None:
        self._link = link
        self._memory = memory
        self.send_nowait = link.send_nowait
        self.send_many = link.send_many

    async def receive_many(self) -> list[Envelope]:
        """Wait for at least one envelope.

        Raises:
            trio.BrokenResourceError: one differs from the first time.
        """
        return self._checked(await self._link.receive_many())

    def receive_nowait(self) -> list[Envelope]:
        """Envelopes that have arrived; raises as ``receive_many``."""
        return self._checked(self._link.receive_nowait())

    def _checked(self, envelopes: list[Envelope]) -> list[Envelope]:
        for envelope in envelopes:
            # The switch only reports departures.
            if envelope.sender != SWITCH and not self._memory.heard(envelope):
                raise trio.BrokenResourceError(
                    "it sent other messages than when this party answered before, and two answers "
                    "would reveal more than one"
                )
        return envelopes


@contextmanager
def noting(path: Path) -> Generator[Callable[[Sequence[str]], None]]:
    """A function that adds the notices of one answer to a party's file; earlier entries stay.

    An entry is as large as one without any notices.

    Args:
        path: the file, made on first use.

    Raises:
        UsageError: not a regular file, or one with another name.
        OSError: it cannot be opened, or written; names the file.
    """
    descriptor = open_private(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, sole=True)

    def note(notices: Sequence[str]) -> None:
        noted = "".join(f"- {text}\n" for text in notices or ("nothing",))
        content = (_HEAD + noted).encode()
        file = GrowingFile(descriptor, path)
        # The entry ends with a line of spaces.
        file.write(content + b" " * (-(len(content) + 1) % BLOCK) + b"\n")
        file.sync()

    try:
        yield note
    finally:
        os.close(descriptor)
