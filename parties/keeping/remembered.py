"""Memory of a party: messages received and sent, so that it answers the same again; notices."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import trio

from parties.actor import Channel
from parties.keeping.writing import (
    GrowingFile,
    locked_growing,
    naming,
    open_private,
    write_whole,
)
from protocol.errors import UsageError
from protocol.messages import SWITCH, Envelope
from protocol.wire.codec import encode_envelope

DIGEST_BYTES = hashlib.sha256().digest_size

KEY_BYTES = DIGEST_BYTES

HEARD = 65_536
"""The most messages that a party takes in one session: a file of 2 MiB. Sums take the most, a few
from each of some hundred others.
"""

BLOCK = 1024
"""Notices fill a multiple of so many bytes, so that their size does not reveal their content."""

_HEAD = """\
What this party noted when it answered, or that there was nothing to note.
Keep it to yourself. A notice depends on the answers: telling anybody that one is here, or that
none is, reveals an answer.
"""
_MARK = "- "
_NOTHING = "nothing"


class Memory:
    """Messages that a party received, or sent, in one session, as digests in a file.

    Args:
        file: open at its end, with no other name.
        before: the digests in it already, whole ones.

    Attributes:
        count: how many envelopes have been noted by this program.
    """

    def __init__(self, file: GrowingFile, before: bytes) -> None:
        self._file = file
        self._known = bytearray(before)
        self._same = True
        self.count = 0

    def again(self, envelope: Envelope) -> bool:
        """Note the next envelope; False if it differs from that of the first time.

        All of it counts: one of another session or with another number has the same words, and
        another fate.
        """
        digest = hashlib.sha256(encode_envelope(envelope)).digest()
        place = self.count * DIGEST_BYTES
        known = bytes(self._known[place : place + DIGEST_BYTES])
        self.count += 1
        # Once it has been otherwise, nothing is as it was.
        self._same = self._same and known in (b"", digest)
        if not self._same:
            return False
        if not known:
            # On disk before it is acted on, so that a crash does not make this party forget.
            self._file.write(digest)
            self._file.sync()
            self._known += digest
        return True

    @property
    def noted(self) -> bytes:
        """The digests of all envelopes that are noted on disk, one after the other."""
        return bytes(self._known)


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
    busy = f"{path.parent}: another program is answering from this folder"
    with locked_growing(path, busy, whole=_whole_length) as (earlier, growing):
        if earlier and earlier[:KEY_BYTES] != key:
            raise UsageError(
                f"{path.parent}: other records have answered in this session; "
                "a second report would reveal more than one"
            )
        if not earlier:
            growing.write(key)
            growing.sync()
        yield Memory(growing, earlier[KEY_BYTES:])


def _whole_length(content: bytes) -> int:
    """Length of the key and the whole digests, without the last one if a crash cut it.

    Each digest is synced before the next is written. So only the last may be partial, or zeros.
    """
    length = len(content) // DIGEST_BYTES * DIGEST_BYTES
    last = content[max(length - DIGEST_BYTES, 0) : length]
    return length if any(last) else length - len(last)


def session_file(folder: Path, what: str, session: bytes) -> Path:
    """A party's file on a session, such as its ``heard`` file."""
    return folder / f"{what}-{session.hex()}"


def noted_in(folder: Path, what: str, session: bytes) -> tuple[bytes, tuple[bytes, ...]]:
    """The key of the records that a party has answered with in a session, and its noted messages.

    Args:
        what: ``heard`` or ``said``.

    Returns:
        The key, as for ``remembering``, and the digests of the messages; both empty if it has not
        answered.

    Raises:
        OSError: the file cannot be read; names it.
    """
    path = session_file(folder, what, session)
    with naming(path):
        content = path.read_bytes() if path.is_file() else b""
    whole = range(KEY_BYTES, _whole_length(content), DIGEST_BYTES)
    digests = tuple(content[at : at + DIGEST_BYTES] for at in whole)
    return content[: min(KEY_BYTES, _whole_length(content))], digests


class SameAgain:
    """A link that breaks when a message differs from those of this party's first answer.

    It also breaks after ``HEARD`` messages, so that an endless hub does not fill the disk.

    The same question always gets the same report. Another question would get another report, which
    costs privacy again. And a party that sends something else than before, from another program for
    example, would sign a second head, which proves a contradiction.

    Args:
        link: the party's link.
        heard: the memory of the received messages of this session.
        said: the memory of the messages that this party sent.
        pay: called with messages before they are sent, to note their cost.
        check: called with messages before the role receives them, to refuse them.
    """

    def __init__(
        self,
        link: Channel,
        heard: Memory,
        said: Memory,
        pay: Callable[[Sequence[Envelope]], object],
        check: Callable[[Envelope], object] = lambda envelope: None,
    ) -> None:
        self._link = link
        self._heard = heard
        self._said = said
        self._pay = pay
        self._check = check

    def send_nowait(self, envelopes: Sequence[Envelope]) -> int:
        """Send as much as possible without waiting; returns the number sent.

        Raises:
            trio.BrokenResourceError: one differs from the first time.
        """
        self._check_said(envelopes)
        return self._link.send_nowait(envelopes)

    async def send_many(self, envelopes: Sequence[Envelope]) -> None:
        """Send all, in order; raises as ``send_nowait``."""
        self._check_said(envelopes)
        await self._link.send_many(envelopes)

    async def receive_many(self) -> list[Envelope]:
        """Wait for at least one envelope.

        Raises:
            trio.BrokenResourceError: one differs from the first time, or there are too many.
        """
        return self._checked(await self._link.receive_many())

    def receive_nowait(self) -> list[Envelope]:
        """Envelopes that have arrived; raises as ``receive_many``."""
        return self._checked(self._link.receive_nowait())

    def _checked(self, envelopes: list[Envelope]) -> list[Envelope]:
        for envelope in envelopes:
            # The switch only reports departures.
            if envelope.sender == SWITCH:
                continue
            if self._heard.count >= HEARD:
                raise trio.BrokenResourceError(
                    f"it sent more than {HEARD} messages, the most that a party takes"
                )
            if not self._heard.again(envelope):
                raise trio.BrokenResourceError(
                    "it sent other messages than when this party answered before, and two answers "
                    "would reveal more than one"
                )
            self._check(envelope)
        return envelopes

    def _check_said(self, envelopes: Sequence[Envelope]) -> None:
        self._pay(envelopes)
        for envelope in envelopes:
            # A message without room comes again.
            if envelope.seq >= self._said.count and not self._said.again(envelope):
                raise trio.BrokenResourceError(
                    "this party would say something else than when it answered before: it has "
                    "another program or a smaller budget, and two answers would reveal more than "
                    "one"
                )


def noting(path: Path) -> Callable[[Sequence[str]], None]:
    """A function that adds the notices of one answer to those in a party's file.

    Each stands there once, and the file is as large as one without any notices: it does not grow,
    however often the party answers.

    Args:
        path: the file, made on first use.

    Raises:
        UsageError: not a regular file, or one with another name.
        OSError: it cannot be opened or read, or later written; names the file.
    """
    descriptor = open_private(path, os.O_RDWR | os.O_CREAT, sole=True)
    with os.fdopen(descriptor, "rb") as file, naming(path):
        lines = file.read().decode(errors="replace").splitlines()
    earlier = [line.removeprefix(_MARK) for line in lines if line.startswith(_MARK)]

    def note(notices: Sequence[str]) -> None:
        found = [text for text in dict.fromkeys((*earlier, *notices)) if text != _NOTHING]
        noted = "".join(f"{_MARK}{text}\n" for text in found or (_NOTHING,))
        content = (_HEAD + noted).encode()
        # The last line is of spaces.
        content += b" " * (-(len(content) + 1) % BLOCK) + b"\n"
        write_whole(path, content, private=True)

    return note
