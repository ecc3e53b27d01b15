"""Attempts at a survey in a member's folder, those of an aggregator or of a party."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta

from parties.keeping.lines import L, Lines, lines_in, open_lines
from parties.keeping.members import own_secret
from parties.keeping.writing import naming, sync_folder
from protocol.accounting.spending import Cost, delta_left, largest, together
from protocol.errors import RemoteProtocolError, UsageError
from protocol.session.terms import MOST_ATTEMPTS
from protocol.wire.undecoded import Undecoded

ATTEMPTS = "attempts"
"""The file in a member's folder, locked while the member takes part. It only ever grows."""

LOG_SECRET, STREAM_SECRET = "log-secret", "stream-secret"
"""First words of the aggregator's files for the secret of a log and for that of the aggregator's
randomness. They are there until the attempt is over: without the first nobody could begin the same
log again, without the second nobody could go on with the attempt.
"""

RESTORED = "restored"
"""The file in a folder that was restored from a backup with the number of the attempt that goes on,
or begins, from an older copy; it is there until the attempt's record says so."""

Attempt = Annotated[int, Meta(ge=1, le=MOST_ATTEMPTS)]
Nats = Annotated[float, Meta(ge=0)]
Honest = tuple[Annotated[int, Meta(ge=1)], ...]


class Allowance(NamedTuple):
    """The most that may be spent per respondent.

    Args:
        epsilon: in nats; infinite for any amount.
        delta: 0 to allow only pure epsilon; infinite for any.
    """

    epsilon: float = math.inf
    delta: float = math.inf

    def rest(self, cost: Cost) -> Allowance:
        """The allowance that is left after a cost."""
        return Allowance(
            budget_rest(self.epsilon, cost.epsilon), delta_left(self.delta, cost.delta)
        )


class Taken(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An attempt that the aggregator has taken a number for.

    Args:
        attempt: its number.
        header: the SHA-256 of its record's header, hexadecimal.
        state: ``taken`` while others have seen at most its first checkpoint, ``begun`` once they
            may have seen more, ``over`` once it is published or will not go on.
    """

    attempt: Attempt
    header: str
    state: Literal["taken", "begun", "over"]


class Answer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The cost of a party's answer in an attempt, noted before the answer leaves.

    Args:
        attempt: its number.
        allowed: the most epsilon that it was allowed to spend; None is infinite.
        allowed_delta: the most delta; None is infinite.
        epsilon: the most that it may have spent; None is infinite.
        delta: the most delta.
        honest: the assumptions of the cost, as for a ``Cost``.
    """

    attempt: Attempt
    allowed: Nats | None
    allowed_delta: Nats | None
    epsilon: Nats | None
    delta: Nats
    honest: Honest

    @property
    def cost(self) -> Cost:
        """All that it may have spent."""
        return Cost(json_nats(self.epsilon), self.delta, self.honest)

    @property
    def allowance(self) -> Allowance:
        """All that it was allowed to spend."""
        return Allowance(json_nats(self.allowed), json_nats(self.allowed_delta))


_TAKEN = msgspec.json.Decoder(Taken)
_ANSWER = msgspec.json.Decoder(Answer)


class Counter:
    """The aggregator's attempts. No number is signed for two logs.

    Args:
        folder: the aggregator's.
        lines: of its file.
    """

    def __init__(self, folder: Path, lines: Lines[Taken]) -> None:
        self.folder = folder
        self._lines = lines

    @property
    def last(self) -> Taken | None:
        """The last attempt; None if there was none."""
        return self._lines.values[-1] if self._lines.values else None

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

    @property
    def restored(self) -> bool:
        """Check whether the last attempt is of a restored folder and its record does not say so.

        Raises:
            RuntimeError: no attempt was taken.
            UsageError: the file that says so is malformed.
        """
        return restored_attempt(self.folder) == self._current().attempt

    def note_restored(self) -> None:
        """Note that the record now says that it was restored.

        Raises:
            OSError: it cannot be noted.
        """
        (self.folder / RESTORED).unlink(missing_ok=True)
        sync_folder(self.folder)

    def begin(self) -> None:
        """Note that others may now see more of the last attempt than its first checkpoint.

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
            UsageError: the folder was moved or deleted meanwhile.
            OSError: it cannot be written.
        """
        if self._current().state != "over":
            self._lines.add(msgspec.structs.replace(self._current(), state="over"))
        self._erase()

    def _erase(self) -> None:
        """Erase the secrets of the last attempt.

        Raises:
            UsageError: the folder is not where it was.
            OSError: they cannot be erased.
        """
        if not self._lines.is_there():
            secrets = " and ".join(map(self._secret, (LOG_SECRET, STREAM_SECRET)))
            raise UsageError(
                f"{self.folder}: was moved or deleted while it was in use; attempt "
                f"{self._current().attempt} is over, and its secrets stay where the folder is: "
                f"{secrets}"
            )
        for kind in (LOG_SECRET, STREAM_SECRET):
            name = self._secret(kind)
            # A program that was killed may have left a temporary file.
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
    with _open(folder, _TAKEN) as lines:
        yield Counter(folder, lines)


def attempts_in(folder: Path) -> list[Taken]:
    """The aggregator's attempts as they stand, the last state of each, for reading.

    Raises:
        UsageError: the file is malformed.
        OSError: it cannot be read; names it.
    """
    return [*{line.attempt: line for line in lines_in(folder / ATTEMPTS, _TAKEN)}.values()]


def unfinished(folder: Path, attempt: int) -> UsageError:
    """The error for a new attempt while one is not over."""
    return UsageError(
        f"{folder}: attempt {attempt} has begun and is not over: --resume goes on with it, and "
        "'sottovoce abandon' declares that it will not go on"
    )


def restored_attempt(folder: Path) -> int | None:
    """The attempt that a restored folder of an aggregator goes on with, or begins.

    None if it was not restored, or if the attempt's record says so already.

    Raises:
        UsageError: the file that says so is malformed.
        OSError: it cannot be read.
    """
    path = folder / RESTORED
    if not path.exists():
        return None
    with naming(path):
        content = path.read_bytes()
    try:
        return msgspec.json.decode(content, type=Attempt)
    except msgspec.DecodeError as error:
        raise UsageError(f"{path}: {Undecoded.of(error)}") from error


class Answers:
    """Answers of a party to one survey: what was allowed and spent in each attempt.

    The party's folder keeps them, so that the party sends the same again in an attempt, and answers
    no earlier one. They name no respondent and no other survey. A purse (``purse.Purse``) has the
    spending of each respondent over all surveys. Each can replace the other if one is lost or an
    older copy.

    Args:
        lines: of its file.
    """

    def __init__(self, lines: Sequence[Answer]) -> None:
        self._lines = lines

    @property
    def _last(self) -> dict[int, Answer]:
        """The last line of each attempt, by its number."""
        return {line.attempt: line for line in self._lines}

    @property
    def attempts(self) -> tuple[int, ...]:
        """The attempts with a noted answer."""
        return tuple(sorted(self._last))

    def spent(self, attempt: int) -> Cost:
        """The cost of one attempt, per respondent."""
        said = self._last.get(attempt)
        return Cost() if said is None else said.cost

    def before(self, attempt: int) -> Cost:
        """The cost of earlier attempts, per respondent."""
        return together(self.spent(earlier) for earlier in range(1, attempt))

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

    def allowed(self, attempt: int, rest: Allowance | None, *, most: float) -> Allowance:
        """The most that may be spent in an attempt, per respondent.

        An allowance noted for the attempt still holds, so that the same is sent again; or the rest,
        if that is less by now.

        Args:
            attempt: its number.
            rest: what is left of an allowance; by default, once something was spent, the most
                epsilon that one attempt can cost, and nothing if that is unbounded.
            most: that, at most (``Variant.most_among``).
        """
        said = self._last.get(attempt)
        if said is not None:
            before = said.allowance
            if rest is None:
                return before
            return Allowance(min(before.epsilon, rest.epsilon), min(before.delta, rest.delta))
        if rest is not None:
            return rest
        spent = self.before(attempt).epsilon
        if spent == 0.0:
            return Allowance()
        return Allowance(budget_rest(most, spent) if math.isfinite(most) else 0.0)


class OpenAnswers(Answers):
    """The answers of a party that takes part, noted on disk before they are sent.

    Args:
        lines: of its file.
    """

    def __init__(self, lines: Lines[Answer]) -> None:
        super().__init__(lines.values)
        self._file = lines

    def note(self, attempt: int, *, allowed: Allowance, cost: Cost) -> None:
        """Note the cost of a message before it is sent.

        Nothing is noted before the party has sent again all that it has paid for: that is paid, and
        a message beyond its budget is not sent.

        Args:
            attempt: the number of the attempt.
            allowed: as ``allowed`` gave it.
            cost: the most that will have been spent in it.

        Raises:
            OSError: it cannot be written.
        """
        said = self._last.get(attempt)
        if said is not None:
            paid, before = said.cost, said.allowance
            if cost.epsilon < paid.epsilon:
                return
            cost = largest((cost, paid))
            if cost == paid and allowed.epsilon >= before.epsilon and allowed.delta >= before.delta:
                return
        # In JSON, infinite is null.
        self._file.add(
            Answer(
                attempt=attempt,
                allowed=allowed.epsilon,
                allowed_delta=allowed.delta,
                epsilon=cost.epsilon,
                delta=cost.delta,
                honest=cost.honest,
            )
        )


@contextmanager
def open_answers(folder: Path) -> Generator[OpenAnswers]:
    """A party's answers, locked while the block runs.

    Raises:
        UsageError: another program is answering, or the file is malformed.
        OSError: it cannot be written; names it.
    """
    with _open(folder, _ANSWER) as lines:
        yield OpenAnswers(lines)


def answers_in(folder: Path) -> Answers:
    """A party's answers, for reading.

    Raises:
        UsageError: the file is malformed.
        OSError: it cannot be read; names it.
    """
    return Answers(lines_in(folder / ATTEMPTS, _ANSWER))


def _open(folder: Path, decoder: msgspec.json.Decoder[L]) -> AbstractContextManager[Lines[L]]:
    busy = f"{folder}: another program is taking part from this folder"
    return open_lines(folder / ATTEMPTS, decoder, busy)


def budget_rest(budget: float, before: float) -> float:
    """Rest of a budget, not below 0; of an infinite one, all of it."""
    if budget == math.inf:
        return math.inf
    return max(budget - before, 0.0)


def hashed(content: bytes) -> str:
    """The SHA-256 of a header, hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def json_nats(nats: float | None) -> float:
    """An epsilon as it is written down: None, which JSON has instead of infinite, is infinite."""
    return math.inf if nats is None else nats
