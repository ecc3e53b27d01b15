"""What a member's folder knows of the attempts at its survey: which were begun, what they cost."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Generic, TypeVar

import msgspec
from msgspec import Meta

from protocol.errors import RemoteProtocolError
from protocol.session.terms import MOST_ATTEMPTS
from scenarios.deployment.members import own_secret
from scenarios.errors import UsageError
from scenarios.files.writing import GrowingFile, lock, naming, open_private, sync_folder

ATTEMPTS = "attempts"
"""The file in a member's folder, locked while the member takes part. It only ever grows."""

LOG_SECRET = "log-secret"
"""What the aggregator's file for the secret of a log begins with, until the attempt has begun:
without it the log of that attempt could not be begun again."""

Attempt = Annotated[int, Meta(ge=1, le=MOST_ATTEMPTS)]
Nats = Annotated[float, Meta(ge=0)]

L = TypeVar("L", bound=msgspec.Struct)


class Held(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An attempt of the aggregator's.

    Args:
        attempt: its number.
        header: the SHA-256 of its record's header, hexadecimal.
        begun: whether somebody may have seen more of it than the first checkpoint.
    """

    attempt: Attempt
    header: str
    begun: bool


class Spent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a party has said in an attempt, or was about to say when it died.

    Args:
        attempt: its number.
        budget: the most epsilon that was allowed in it; None is infinite.
        epsilon: the most that it may have spent in it; None is infinite.
    """

    attempt: Attempt
    budget: Nats | None
    epsilon: Nats | None


class _Lines(Generic[L]):
    """The lines of a file, as values, and what is added to them, which is on disk at once."""

    def __init__(self, file: GrowingFile, lines: list[L]) -> None:
        self._file = file
        self.lines = lines

    def add(self, line: L) -> None:
        """Add a line.

        Raises:
            OSError: it cannot be written.
        """
        self._file.write(msgspec.json.encode(line) + b"\n")
        self._file.sync()
        self.lines.append(line)


def _read(content: bytes, kind: type[L], path: Path) -> list[L]:
    try:
        return [msgspec.json.decode(line, type=kind) for line in content.splitlines()]
    except (msgspec.DecodeError, ValueError) as error:
        raise UsageError(f"{path}: {error}; what was begun or spent is not known") from error


def _whole(content: bytes) -> bytes:
    """The whole lines: half a line is left by a program that died before it acted on it."""
    return content[: content.rfind(b"\n") + 1]


@contextmanager
def _lines(folder: Path, kind: type[L]) -> Generator[_Lines[L]]:
    path = folder / ATTEMPTS
    descriptor = open_private(path, os.O_RDWR | os.O_CREAT, sole=True)
    with os.fdopen(descriptor, "r+b", buffering=0) as file:
        lock(descriptor, path, f"{folder}: another program is taking part from this folder")
        with naming(path):
            whole = _whole(file.read())
            file.truncate(len(whole))
            file.seek(0, os.SEEK_END)
        lines = _read(whole, kind, path)
        growing = GrowingFile(descriptor, path)
        growing.sync()
        sync_folder(folder)
        with growing.surfacing():
            yield _Lines(growing, lines)


class Counter:
    """The aggregator's attempts. No number is signed for two logs.

    Args:
        folder: the aggregator's.
        lines: of its file.
    """

    def __init__(self, folder: Path, lines: _Lines[Held]) -> None:
        self._folder = folder
        self._lines = lines

    @property
    def last(self) -> Held | None:
        """The last attempt; None if there was none."""
        return self._lines.lines[-1] if self._lines.lines else None

    def take(self, header: Callable[[int], bytes]) -> int:
        """The number of the attempt to make, on disk before anything of it is signed.

        It is that of the last attempt, if that has not begun and would begin the same log.

        Args:
            header: the encoded header of an attempt's record.

        Raises:
            UsageError: the survey was begun too often.
            OSError: the number cannot be written.
        """
        last = self.last
        if last is not None and not last.begun and last.header == _hashed(header(last.attempt)):
            return last.attempt
        number = 1 if last is None else last.attempt + 1
        if number > MOST_ATTEMPTS:
            raise UsageError(
                f"{self._folder}: this survey was begun {MOST_ATTEMPTS} times, as often as a "
                "survey can be; make new keys"
            )
        self._lines.add(Held(attempt=number, header=_hashed(header(number)), begun=False))
        return number

    def secret(self) -> bytes:
        """The secret of the last attempt's log, 32 bytes, drawn on the first call."""
        return own_secret(self._folder, self._secret)

    def begin(self) -> None:
        """Note that from now on somebody may see more of the last attempt.

        Raises:
            OSError: it cannot be written.
        """
        last = self.last
        if last is not None:
            self._lines.add(msgspec.structs.replace(last, begun=True))
            (self._folder / self._secret).unlink(missing_ok=True)

    @property
    def _secret(self) -> str:
        return f"{LOG_SECRET}-{self.last.attempt if self.last else 0}"


@contextmanager
def counting(folder: Path) -> Generator[Counter]:
    """The aggregator's attempts, locked while the block runs.

    Raises:
        UsageError: another program is aggregating, or the file is malformed.
        OSError: it cannot be written; names it.
    """
    with _lines(folder, Held) as lines:
        yield Counter(folder, lines)


class Purse:
    """What a party has spent, attempt by attempt. Records have no say in it.

    Args:
        lines: of its file.
    """

    def __init__(self, lines: _Lines[Spent]) -> None:
        self._lines = lines

    def _of(self, attempt: int) -> Spent | None:
        found = [line for line in self._lines.lines if line.attempt == attempt]
        return found[-1] if found else None

    def before(self, attempt: int) -> float:
        """The epsilon spent in earlier attempts, per respondent."""
        return math.fsum(self.spent(earlier) for earlier in range(1, attempt))

    def spent(self, attempt: int) -> float:
        """The epsilon spent in one attempt, per respondent."""
        said = self._of(attempt)
        return 0.0 if said is None else _number(said.epsilon)

    def check(self, attempt: int) -> None:
        """Refuse an attempt before one that this party has answered.

        Raises:
            RemoteProtocolError: it is.
        """
        last = max((line.attempt for line in self._lines.lines), default=0)
        if attempt < last:
            raise RemoteProtocolError(
                f"{attempt}, but this party has answered attempt {last}", field="attempt"
            )

    def left(self, attempt: int, budget: float | None, *, most: float) -> float:
        """What may be spent in an attempt, per respondent.

        What was allowed when something was said in it holds on, so that the same is said again; a
        smaller budget lowers it.

        Args:
            attempt: its number.
            budget: the most to spend in all attempts, if need be infinite; by default, once
                something was spent, the most that one attempt can cost, and nothing if that is
                unbounded.
            most: that, at most (``Variant.most``).
        """
        said = self._of(attempt)
        before = self.before(attempt)
        if said is not None:
            allowed = _number(said.budget)
            return allowed if budget is None else min(allowed, _rest(budget, before))
        if budget is not None:
            return _rest(budget, before)
        if before == 0.0:
            return math.inf
        return _rest(most, before) if math.isfinite(most) else 0.0

    def spend(self, attempt: int, *, budget: float, epsilon: float) -> None:
        """Note what this party is about to say, before it says it.

        Nothing is noted while it has not said again all that it has paid for: that is paid, and
        under a budget that it does not fit it is not said.

        Args:
            attempt: its number.
            budget: as ``left`` gave it.
            epsilon: the most that will have been spent in it.

        Raises:
            OSError: it cannot be written.
        """
        said = self._of(attempt)
        if said is not None:
            paid, allowed = _number(said.epsilon), _number(said.budget)
            if epsilon < paid or (epsilon == paid and budget >= allowed):
                return
        # In JSON, infinite is null.
        self._lines.add(Spent(attempt=attempt, budget=budget, epsilon=epsilon))


@contextmanager
def paying(folder: Path) -> Generator[Purse]:
    """A party's purse, locked while the block runs.

    Raises:
        UsageError: another program is answering, or the file is malformed.
        OSError: it cannot be written; names it.
    """
    with _lines(folder, Spent) as lines:
        yield Purse(lines)


def spent_from(folder: Path) -> dict[int, float]:
    """What a party has spent in each attempt, per respondent, in nats; nothing is written.

    Raises:
        UsageError: the file is malformed.
        OSError: it cannot be read.
    """
    path = folder / ATTEMPTS
    lines = _read(_whole(path.read_bytes()), Spent, path) if path.exists() else []
    return {line.attempt: _number(line.epsilon) for line in lines}


def _rest(budget: float, before: float) -> float:
    """What is left of a budget, not below 0; of an infinite one, all of it."""
    if budget == math.inf:
        return math.inf
    return max(budget - before, 0.0)


def _hashed(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _number(nats: float | None) -> float:
    return math.inf if nats is None else nats
