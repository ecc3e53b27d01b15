"""What a member's folder knows of the attempts at its survey: which were begun, what they cost."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Generic, Literal, TypeVar

import msgspec
from msgspec import Meta

from parties.keeping.members import own_secret
from parties.keeping.writing import (
    GrowingFile,
    locked_growing,
    naming,
    sync_folder,
    whole_lines,
)
from protocol.errors import RemoteProtocolError, UsageError
from protocol.session.terms import MOST_ATTEMPTS

ATTEMPTS = "attempts"
"""The file in a member's folder, locked while the member takes part. It only ever grows."""

LOG_SECRET, STREAM_SECRET = "log-secret", "stream-secret"
"""What the aggregator's files begin with for the secret of a log, and for that of the aggregator's
randomness. They are there until the attempt is over: without the first nobody could begin the same
log again, without the second nobody could go on with the attempt."""

Attempt = Annotated[int, Meta(ge=1, le=MOST_ATTEMPTS)]
Nats = Annotated[float, Meta(ge=0)]

L = TypeVar("L", bound=msgspec.Struct)


class Taken(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An attempt that the aggregator has taken a number for.

    Args:
        attempt: its number.
        header: the SHA-256 of its record's header, hexadecimal.
        state: ``taken`` while nobody has seen more of it than the first checkpoint, ``begun`` as
            soon as somebody may have, ``over`` once it is published or will not go on.
    """

    attempt: Attempt
    header: str
    state: Literal["taken", "begun", "over"]


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


@contextmanager
def _lines(folder: Path, kind: type[L]) -> Generator[_Lines[L]]:
    path = folder / ATTEMPTS
    busy = f"{folder}: another program is taking part from this folder"
    with locked_growing(path, busy, whole=whole_lines) as (content, growing):
        yield _Lines(growing, _read(content, kind, path))


class Counter:
    """The aggregator's attempts. No number is signed for two logs.

    Args:
        folder: the aggregator's.
        lines: of its file.
    """

    def __init__(self, folder: Path, lines: _Lines[Taken]) -> None:
        self.folder = folder
        self._lines = lines

    @property
    def last(self) -> Taken | None:
        """The last attempt; None if there was none."""
        return self._lines.lines[-1] if self._lines.lines else None

    def take(self, header: Callable[[int], bytes]) -> int:
        """The number of the attempt to make, on disk before anything of it is signed.

        It is that of the last attempt, if that has not begun and would begin the same log. One that
        has begun must be over.

        Args:
            header: the encoded header of an attempt's record.

        Raises:
            UsageError: an attempt is not over, or the survey was begun too often.
            OSError: the number cannot be written.
        """
        last = self.last
        if last is not None and last.state == "begun":
            raise unfinished(self.folder, last.attempt)
        if (
            last is not None
            and last.state == "taken"
            and last.header == hashed(header(last.attempt))
        ):
            return last.attempt
        if last is not None:
            self._erase()
        number = 1 if last is None else last.attempt + 1
        if number > MOST_ATTEMPTS:
            raise UsageError(
                f"{self.folder}: this survey was begun {MOST_ATTEMPTS} times, as often as a "
                "survey can be; make new keys"
            )
        self._lines.add(Taken(attempt=number, header=hashed(header(number)), state="taken"))
        return number

    def secret(self) -> bytes:
        """The secret of the last attempt's log, 32 bytes, drawn on the first call.

        Raises:
            RuntimeError: no attempt was taken.
            UsageError: its file is not a secret.
            OSError: it cannot be written.
        """
        return own_secret(self.folder, self._secret(LOG_SECRET))

    def stream_secret(self) -> bytes:
        """The secret of the aggregator's randomness in the last attempt; as ``secret``.

        Raises:
            UsageError: the attempt has begun, and its secret is not there.
        """
        path = self.folder / self._secret(STREAM_SECRET)
        if self._current().state == "begun" and not path.exists():
            raise UsageError(
                f"{path}: no such file; without it the attempt cannot go on, and 'sottovoce "
                "abandon' declares that it will not"
            )
        return own_secret(self.folder, path.name)

    def begin(self) -> None:
        """Note that from now on somebody may see more of the last attempt.

        Raises:
            RuntimeError: no attempt was taken.
            OSError: it cannot be written.
        """
        if self._current().state == "taken":
            self._lines.add(msgspec.structs.replace(self._current(), state="begun"))

    def finish(self) -> None:
        """Note that the last attempt is over, and erase its secrets.

        Raises:
            RuntimeError: no attempt was taken.
            OSError: it cannot be written.
        """
        if self._current().state != "over":
            self._lines.add(msgspec.structs.replace(self._current(), state="over"))
        self._erase()

    def _erase(self) -> None:
        """Erase the secrets of the last attempt."""
        for kind in (LOG_SECRET, STREAM_SECRET):
            name = self._secret(kind)
            # A program that was killed may have left what it wrote before it had its name.
            for path in (self.folder / name, *self.folder.glob(f".{name}.*")):
                path.unlink(missing_ok=True)
        sync_folder(self.folder)

    def _secret(self, kind: str) -> str:
        return f"{kind}-{self._current().attempt}"

    def _current(self) -> Taken:
        if self.last is None:
            raise RuntimeError("take an attempt before its secret or its beginning")
        return self.last


@contextmanager
def counting(folder: Path) -> Generator[Counter]:
    """The aggregator's attempts, locked while the block runs.

    Raises:
        UsageError: another program is aggregating, or the file is malformed.
        OSError: it cannot be written; names it.
    """
    with _lines(folder, Taken) as lines:
        yield Counter(folder, lines)


def unfinished(folder: Path, attempt: int) -> UsageError:
    """The error for a new attempt while one is not over."""
    return UsageError(
        f"{folder}: attempt {attempt} has begun and is not over: --resume goes on with it, and "
        "'sottovoce abandon' declares that it will not go on"
    )


class Account:
    """What a party has spent at one survey, attempt by attempt. Records have no say in it.

    Args:
        lines: of its file.
    """

    def __init__(self, lines: Sequence[Spent]) -> None:
        self._lines = lines

    @property
    def attempts(self) -> tuple[int, ...]:
        """The attempts in which something was said, or was about to be."""
        return tuple(sorted({line.attempt for line in self._lines}))

    def _of(self, attempt: int) -> Spent | None:
        found = [line for line in self._lines if line.attempt == attempt]
        return found[-1] if found else None

    def before(self, attempt: int) -> float:
        """The epsilon spent in earlier attempts, per respondent."""
        return math.fsum(self.spent(earlier) for earlier in range(1, attempt))

    def spent(self, attempt: int) -> float:
        """The epsilon spent in one attempt, per respondent."""
        said = self._of(attempt)
        return 0.0 if said is None else nats_of(said.epsilon)

    def check(self, attempt: int) -> None:
        """Refuse an attempt before one that this party has answered.

        Raises:
            RemoteProtocolError: it is.
        """
        last = max(self.attempts, default=0)
        if attempt < last:
            raise RemoteProtocolError(
                f"{attempt}, but this party has answered attempt {last}", field="attempt"
            )

    def left(self, attempt: int, rest: float | None, *, most: float) -> float:
        """What may be spent in an attempt, per respondent.

        What was allowed when something was said in it holds on, so that the same is said again; if
        less is left by now, that holds.

        Args:
            attempt: its number.
            rest: what is left of a budget, if need be infinite; by default, once something was
                spent, the most that one attempt can cost, and nothing if that is unbounded.
            most: that, at most (``Variant.most``).
        """
        said = self._of(attempt)
        if said is not None:
            allowed = nats_of(said.budget)
            return allowed if rest is None else min(allowed, rest)
        if rest is not None:
            return rest
        before = self.before(attempt)
        if before == 0.0:
            return math.inf
        return rest_of(most, before) if math.isfinite(most) else 0.0


class OpenAccount(Account):
    """The account of a party that takes part: what it is about to say goes on disk first.

    Args:
        lines: of its file.
    """

    def __init__(self, lines: _Lines[Spent]) -> None:
        super().__init__(lines.lines)
        self._file = lines

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
            paid, allowed = nats_of(said.epsilon), nats_of(said.budget)
            if epsilon < paid or (epsilon == paid and budget >= allowed):
                return
        # In JSON, infinite is null.
        self._file.add(Spent(attempt=attempt, budget=budget, epsilon=epsilon))


@contextmanager
def open_account(folder: Path) -> Generator[OpenAccount]:
    """A party's account, locked while the block runs.

    Raises:
        UsageError: another program is answering, or the file is malformed.
        OSError: it cannot be written; names it.
    """
    with _lines(folder, Spent) as lines:
        yield OpenAccount(lines)


def account_in(folder: Path) -> Account:
    """A party's account, for reading.

    Raises:
        UsageError: the file is malformed.
        OSError: it cannot be read; names it.
    """
    path = folder / ATTEMPTS
    with naming(path):
        content = path.read_bytes() if path.exists() else b""
    return Account(_read(content[: whole_lines(content)], Spent, path))


def rest_of(budget: float, before: float) -> float:
    """What is left of a budget, not below 0; of an infinite one, all of it."""
    if budget == math.inf:
        return math.inf
    return max(budget - before, 0.0)


def hashed(content: bytes) -> str:
    """The SHA-256 of a header, hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def nats_of(nats: float | None) -> float:
    """An epsilon as it is written down: None, which JSON has instead of infinite, is infinite."""
    return math.inf if nats is None else nats
