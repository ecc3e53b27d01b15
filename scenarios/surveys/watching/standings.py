"""Progress of a survey, step by step, from a running survey or from a transcript."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import islice, repeat
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from protocol.audit.ledger import Charging
from protocol.audit.walk import Fold, Step, Walk
from protocol.errors import ProtocolError
from protocol.estimators.estimate import Estimate, Keyed
from protocol.estimators.inference.intervals import USUAL, Intervals, Shown, interval_figures
from protocol.messages import (
    AGGREGATOR,
    RECORD,
    Closed,
    Declined,
    Envelope,
    Head,
    Message,
    PartyId,
)
from protocol.session.charter import Charter
from protocol.session.roles import Topic, message_topic
from protocol.session.so_far import SoFar
from protocol.sharing.messages import Opening
from protocol.surveys.limits import UNLIMITED, Held
from protocol.surveys.survey import Attribute
from protocol.transcript.entries import Delivered, Entry, Sent
from scenarios.surveys.watching.tally import LEFT, Ended, Tally, wait_name

MOST = 50
"""Maximum number of steps kept, besides the last one."""

PARTS = 20
"""Number of steps per round: one is due each time this fraction of the parties has answered."""

LINES = 26
"""Maximum number of estimated figures in a step."""

FOLLOWED = 2**18
"""Maximum number of table cells; larger surveys have no estimates on the way."""

WORK = 2**26
"""Maximum work on a record: number of cells over all closings and estimates."""

_EACH = 2**10
"""Fixed work of a closing, in cells."""

_NAMED = 64
"""Bytes that it takes to remember that a party was awaited."""

HELD, MEAN = "Held by", "Mean"
"""Estimates about keys: the share that holds a key, and the mean of its values."""

Cause: TypeAlias = Literal["answers", "wait", "result", "unreadable", "stopped", "end"]
"""Cause of a step: new ``answers``, the end of a ``wait``, the published ``result``, an
``unreadable`` result, reading that ``stopped`` early, or the ``end`` of a record without a result.
"""


class Line(NamedTuple):
    """One estimated figure with its interval; None for unknown numbers.

    Args:
        of: an attribute, or ``HELD`` or ``MEAN`` for keys.
        name: a category or a key; empty for a single figure.
        value: the raw estimate.
        low, high: ends of the interval.
        scale: smallest and largest possible value.
    """

    of: str
    name: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    scale: tuple[float, float] | None = (0.0, 1.0)


_KERNEL = (Closed.kind(), Head.kind())

_NOTHING: tuple[tuple[Line, ...], int] = (), 0


class Wait(NamedTuple):
    """A finished wait of the aggregator.

    Args:
        name: kind of the awaited message, with its round if it has one.
        awaited, counted: number of awaited parties, and number of counted ones.
    """

    name: str
    awaited: int
    counted: int


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of a survey after an entry of its record.

    Args:
        cause: the cause of this step.
        entry: number of the entry.
        at: time of the entry in microseconds since the start.
        round: the round, from 1; every wait of the aggregator ends a round.
        wait: the wait that has ended; None for other causes.
        asked: number of parties that were sent something in this round.
        answered: number of asked parties that have answered.
        late: number of parties that have answered in this round after the wait for them.
        parties: number of parties on the roster.
        contributed: number of parties with a report in time, in any round.
        done: number of parties that have sent their last message.
        gone: number of parties that left without closing their link.
        declined: number of parties that declined.
        messages: number of messages sent.
        epsilon: largest epsilon of a respondent in nats, without secure sums.
        sums: whether a party has contributed to a secure sum, which epsilon does not bound.
        respondents: number of respondents in the estimate; None without an estimate.
        lines: the first figures of the estimate.
        more: number of further attributes or keys.
        keys: whether the estimate is about keys.
        why: why there is no estimate; empty if there is one.
    """

    cause: Cause
    entry: int
    at: int
    round: int
    wait: Wait | None
    asked: int
    answered: int
    late: int
    parties: int
    contributed: int
    done: int
    gone: int
    declined: int
    messages: int
    epsilon: float
    sums: bool
    respondents: int | None
    lines: tuple[Line, ...]
    more: int
    keys: bool
    why: str


class StandingWriter(Fold):
    """Collects standings from the steps of a record.

    A standing is due at the end of every wait, and each time another ``1/PARTS`` of the parties has
    answered. Beyond ``MOST`` standings, every second one about answers is dropped, repeatedly; then
    every second one about waits. The privacy loss of a message follows from what had been delivered
    to its sender, as heads come last.

    A party's first message on a topic is kept until the wait for it ends, as in an inbox. If an
    estimate fails or takes too much work, no further one is made.

    Args:
        charter: the survey's charter.
        intervals: level and subject of the intervals.
        held: limit on the memory used for an untrusted file.

    Attributes:
        failed: why estimates have stopped; empty while they have not.
        tally: progress in numbers of parties and messages.
    """

    def __init__(
        self, charter: Charter, intervals: Intervals = USUAL, held: Held = UNLIMITED
    ) -> None:
        self._charter = charter
        self._intervals = intervals
        self._held = held
        self._charging = Charging(charter, held)
        self._walk = Walk(charter.codec)
        self.failed = ""
        self._work, self._cells = 0, _EACH
        self._so_far, self._made_of = self._begin()
        self.tally = Tally(charter.roster)
        contribution = charter.variant.contribution
        self._contribution = None if contribution is None else contribution.kind()
        self._part = max(1, len(self.tally.parties) // PARTS)
        self._contributions = 0
        self._asked: set[PartyId] = set()
        self._answered: set[PartyId] = set()
        self._late: set[PartyId] = set()
        # By topic: messages not counted yet, and parties that were awaited.
        self._waiting: dict[Topic, dict[PartyId, Message]] = {}
        self._awaited: dict[Topic, set[PartyId]] = {}
        self._contributed: set[PartyId] = set()
        self._spent: dict[PartyId, float] = {}
        self._sums = False
        # The last estimate with its figures.
        self._estimated: tuple[Estimate, tuple[tuple[Line, ...], int]] | None = None
        self._result: Message | None = None
        self._unreadable = False
        self._last: Step | None = None
        # By cause: the number of due steps, and the interval at which they are kept.
        self._steps: dict[Cause, int] = {"answers": 0, "wait": 0}
        self._every: dict[Cause, int] = {"answers": 1, "wait": 1}
        self._kept: list[tuple[int, Standing]] = []

    def take(self, entry: Entry) -> Standing | None:
        """Take the next entry as it is recorded; return the standing if one is due."""
        return self.add(self._walk.add(entry))

    def add(self, step: Step) -> Standing | None:  # type: ignore[override]  # it says what is new
        """Take the next step of the record; return the standing if one is due."""
        self._last = step
        told = self._charging.add(step)
        ended = self.tally.add(step)
        if told is not None and told.charge is not None and told.sender in self.tally.parties:
            loss = 0.0 if told.charge.summed else told.charge.loss.record
            self._spent[told.sender] = self._spent.get(told.sender, 0.0) + loss
            self._sums = self._sums or told.charge.summed
        match step.entry:
            case Sent() if step.envelope is not None and step.envelope.sender == AGGREGATOR:
                return self._take_sent(step, step.envelope, ended)
            case Delivered() if step.envelope is not None and step.message is not None:
                return self._take_delivered(step, step.envelope, step.message)
        return None

    @property
    def due(self) -> int:
        """Number of due steps, including dropped ones and the last."""
        return sum(self._steps.values()) + 1

    def standings(self) -> tuple[Standing, ...]:
        """The kept standings, and the last one, which has the published result if there is one."""
        kept = tuple(standing for _, standing in self._kept)
        if self._last is None:
            return kept
        return (*kept, self._standing(self._last, self._last_cause()))

    def _last_cause(self) -> Cause:
        if self.stopped is not None:
            return "stopped"
        if self._unreadable:
            return "unreadable"
        return "end" if self._result is None else "result"

    def _begin(self) -> tuple[SoFar, frozenset[str]]:
        """The running estimate, and the kinds of messages that it uses; empty if too large."""
        variant = self._charter.variant
        cells = variant.workload().cells
        self._cells += cells
        self._too_large = cells > FOLLOWED
        if self._too_large:
            self.failed = f"too large to follow: {cells:,} cells, at most {FOLLOWED:,}"
            return SoFar(), frozenset()
        try:
            found = variant.so_far(self._charter.session)
            return found, frozenset(kind.kind() for kind in found.made_of)
        except Exception as error:
            # A user's own variant may fail.
            self.failed = _failure(error)
            return SoFar(), frozenset()

    def _take_sent(self, step: Step, envelope: Envelope, ended: Ended | None) -> Standing | None:
        message = step.message
        to_record = envelope.recipient == RECORD and envelope.kind not in _KERNEL
        # A sum is opened before the result, and a failing run may end with that.
        to_record &= not isinstance(message, Opening)
        self._result = message if to_record else None
        self._unreadable = to_record and message is None
        if envelope.recipient in self.tally.parties:
            self._asked.add(envelope.recipient)
        if message is not None and not isinstance(message, Closed):
            self._update_estimate(self._so_far.said, message)
        if ended is None or ended.malformed:
            return None
        self._close((ended.kind, ended.round), ended)
        name = wait_name(ended.kind, ended.round)
        wait = Wait(name, len(ended.awaited), len(ended.counted))
        found = self._due(step, "wait", wait)
        # Early answers count towards the coming wait.
        self._answered.difference_update(ended.awaited)
        self._asked, self._late = set(), set()
        return found

    def _close(self, topic: Topic, ended: Ended) -> None:
        awaited = self._awaited.setdefault(topic, set())
        before = len(awaited)
        awaited.update(ended.awaited)
        self._held.take(_NAMED * (len(awaited) - before))
        waiting = self._waiting.get(topic, {})
        come = {name: waiting.pop(name) for name in ended.awaited if name in waiting}
        counted = {name: come[name] for name in ended.counted if name in come}
        if topic[0] in self._made_of:
            self._count_work()
            self._update_estimate(self._so_far.closed, topic, counted)

    def _take_delivered(self, step: Step, envelope: Envelope, message: Message) -> Standing | None:
        sender = envelope.sender
        if envelope.recipient != AGGREGATOR or sender not in self.tally.parties:
            return None
        if isinstance(message, Head | Declined):
            return None
        topic = message_topic(message)
        if sender in self._awaited.get(topic, ()):
            self._late.add(sender)
            return None
        self._answered.add(sender)
        if envelope.kind in self._made_of:
            waiting = self._waiting.setdefault(topic, {})
            if sender in waiting:
                return None
            self._held.take(self._charter.codec.held_bytes(message, envelope.body))
            waiting[sender] = message
        elif envelope.kind != self._contribution or sender in self._contributed:
            return None
        self._contributed.add(sender)
        self._contributions += 1
        return None if self._contributions % self._part else self._due(step, "answers")

    def _update_estimate(self, update: Callable[..., object], *arguments: object) -> None:
        """Pass something on to the variant's running estimate, unless that has failed."""
        if self.failed:
            return
        try:
            update(*arguments)
        except Exception as error:
            self.failed = _failure(error)

    def _count_work(self) -> None:
        self._work += self._cells
        if self._work > WORK:
            self.failed = self.failed or "too much work to follow"

    def _due(self, step: Step, cause: Cause, wait: Wait | None = None) -> Standing | None:
        self._steps[cause] += 1
        number = self._steps[cause]
        if number % self._every[cause]:
            return None
        found = self._standing(step, cause, wait)
        self._kept.append((number, found))
        if len(self._kept) > MOST:
            self._drop_every_second()
        return found

    def _drop_every_second(self) -> None:
        dropped: Cause = "wait"
        if any(standing.cause == "answers" for _, standing in self._kept):
            dropped = "answers"
        self._every[dropped] *= 2
        self._kept = [
            (number, standing)
            for number, standing in self._kept
            if standing.cause != dropped or number % self._every[dropped] == 0
        ]

    def _standing(self, step: Step, cause: Cause, wait: Wait | None = None) -> Standing:
        tally, respondents, (lines, more), keys, why = self.tally, None, _NOTHING, False, ""
        try:
            estimate = self._estimate(cause)
            if estimate is not None:
                lines, more = self._lines(estimate)
                respondents, keys = estimate.n, estimate.keyed is not None
        except Exception as error:
            # A user's own variant may fail on this record.
            why = _failure(error)
        if respondents is None and not why:
            last = type(self._so_far) is SoFar or cause not in ("answers", "wait")
            why = "none before the result" if last else "none yet"
        return Standing(
            cause=cause,
            entry=step.number,
            at=step.entry.at,
            round=tally.rounds.number - (wait is not None),
            wait=wait,
            asked=len(self._asked),
            answered=len(self._answered & self._asked),
            late=len(self._late),
            parties=len(tally.parties),
            contributed=len(self._contributed),
            done=len(tally.done),
            gone=sum(word != LEFT for word in tally.departed.values()),
            declined=len(tally.declined),
            messages=tally.messages,
            epsilon=max(self._spent.values(), default=0.0),
            sums=self._sums,
            respondents=respondents,
            lines=lines,
            more=more,
            keys=keys,
            why=why,
        )

    def _lines(self, estimate: Estimate) -> tuple[tuple[Line, ...], int]:
        """``_lines`` of an estimate, computed once as long as the estimate is the same."""
        if self._estimated is None or self._estimated[0] is not estimate:
            self._count_work()
            self._estimated = estimate, _lines(estimate, self._intervals)
        return self._estimated[1]

    def _estimate(self, cause: Cause) -> Estimate | None:
        if self._too_large:
            raise ValueError(self.failed)
        if self._result is not None and cause == "result":
            return self._charter.variant.estimate(self._result)
        if self.failed:
            raise ValueError(self.failed)
        return self._so_far.estimate(self._waiting)


def _failure(error: Exception) -> str:
    known = isinstance(error, ProtocolError | ValueError)
    return str(error) if known else f"{type(error).__name__}: {error}"


def _lines(estimate: Estimate, intervals: Intervals) -> tuple[tuple[Line, ...], int]:
    """The first figures of an estimate, and the number of further attributes or keys."""
    if estimate.keyed is not None:
        return _keys(estimate.keyed, intervals)
    means = estimate.attribute_means()
    if means:
        found = [
            _line(name, "", interval_figures(mean.value, intervals.of(mean))[0], None)
            for name, mean in islice(means.items(), LINES)
        ]
        return tuple(found), len(means) - len(found)
    lines: list[Line] = []
    attributes = estimate.survey.attributes
    for place, attribute in enumerate(attributes):
        if lines and len(lines) + attribute.size > LINES:
            return tuple(lines), len(attributes) - place
        lines += islice(_shares(estimate, attribute, intervals), LINES)
    return tuple(lines), 0


def _shares(estimate: Estimate, attribute: Attribute, intervals: Intervals) -> Iterator[Line]:
    try:
        table = estimate.table(attribute.name)
    except ValueError:
        # The result has no table of this attribute, or none yet.
        yield from (Line(attribute.name, category) for category in attribute.categories)
        return
    shown = interval_figures(table.values, intervals.of(table))
    for category, figure in zip(table.categories[0], shown, strict=True):
        yield _line(attribute.name, category, figure, (0.0, 1.0))


def _keys(estimate: Keyed, intervals: Intervals) -> tuple[tuple[Line, ...], int]:
    names, most = estimate.survey.names, LINES // 2
    shares = interval_figures(estimate.frequencies, estimate.frequency_intervals(*intervals))
    means = interval_figures(estimate.means, estimate.mean_intervals(*intervals))
    lines = [
        *map(_line, repeat(HELD), names[:most], shares, repeat((0.0, 1.0))),
        *map(_line, repeat(MEAN), names[:most], means, repeat((-1.0, 1.0))),
    ]
    return tuple(lines), max(0, len(names) - most)


def _line(of: str, name: str, shown: Shown, scale: tuple[float, float] | None) -> Line:
    value, low, high = (figure if math.isfinite(figure) else None for figure in shown)
    return Line(of, name, value, low, high, scale)
