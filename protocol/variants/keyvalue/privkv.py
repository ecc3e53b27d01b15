"""PrivKV and PrivKVM: respondents report on one key of many, and on the value that it has."""

from __future__ import annotations

import functools
import math
from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from protocol.accounting.events import (
    Composed,
    OneOf,
    Plain,
    PrivacyEvent,
    Randomized,
)
from protocol.errors import PrivacyError, SurveyError
from protocol.messages import AGGREGATOR, Message, PartyId
from protocol.randomizers.keep import KeepUniform
from protocol.randomizers.keyvalue import (
    ABSENT,
    PLUS,
    ROUNDS,
    SYMBOLS,
    KeyValueReports,
    PrivKV,
    PrivKVM,
)
from protocol.session.roles import Me, Seen, Topic
from protocol.session.so_far import SoFar, Waiting
from protocol.session.tabulation import Respondents, Stage, Totals
from protocol.session.variant import Claim, Drawn, Epsilon, Variant
from protocol.surveys.limits import Workload
from protocol.surveys.records import Records
from protocol.variants.keyvalue.counts import tally
from protocol.variants.keyvalue.estimate import Estimator, KeyValueTables, fakes_after
from protocol.variants.keyvalue.records import key_values
from protocol.variants.reports.one_report import Request, check_valid
from protocol.wire.arrays import Array, ArraySpec, Bounds, smallest_dtype

SOURCE = "Expectation-Maximization Estimation for Key-Value Data"


class Fakes(Message, frozen=True):
    """A further round: the mean of fakes for the key of each of a party's respondents.

    It is empty for a party that is left out, as its first report was not counted.
    """

    scalar_bytes = 64

    round: int
    means: Annotated[Array, ArraySpec(dtype="f8", shape=(Bounds(0, "max_records"),), low=-1)]


class KeyReport(Message, frozen=True):
    """A party's reports: the key that each of its respondents drew, and a symbol for it."""

    scalar_bytes = 64

    round: int
    keys: Annotated[Array, ArraySpec(shape=(Bounds(1, "max_records"),), high="client.keys")]
    symbols: Annotated[Array, ArraySpec(shape=(Bounds(1, "max_records"),), high=len(SYMBOLS))]


class SymbolCounts(Message, frozen=True):
    """The published result: the number of reports of each symbol and key, in every round."""

    scalar_bytes = 64

    counts: Annotated[
        Array,
        ArraySpec(dtype="u4", shape=("repeats", "client.keys", len(SYMBOLS)), most="respondents"),
    ]


class KeyValueCollection(Variant, frozen=True, kw_only=True):
    """Horigome, Kikuchi and Yu, EM Estimation for Key-Value Data Randomized with LDP, section 2.2.

    The survey is of keys (``protocol.variants.keyvalue.records``). Half of epsilon is for holding
    the key that a respondent drew, half for its value.

    Args:
        epsilon: charged for a respondent's reports.
        estimator: likelihood, moment, debiased or em (of privkv). It makes frequencies and means of
            the published counts.
        virtual: rounds that the aggregator works out without asking; of the estimator moment.
    """

    heeds = ()
    messages: ClassVar[tuple[type[Message], ...]] = (Request, KeyReport, SymbolCounts)
    public = (Request,)
    derived = (Fakes, SymbolCounts)

    epsilon: Epsilon
    estimator: Estimator = "likelihood"
    virtual: Annotated[int, Meta(ge=0, le=1000)] = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.virtual and self.estimator != "moment":
            raise ValueError(f"virtual rounds of the estimator {self.estimator}: expected moment")
        # Made here, so that errors are raised at once.
        try:
            _ = self.values, self.client
        except SurveyError as error:
            raise ValueError(f"not a survey of keys: {error}") from error

    def workload(self) -> Workload:
        """One table, of the values of all keys (``values``)."""
        return Workload(1, len(self.survey.sizes) * max(self.survey.sizes))

    @property
    def repeats(self) -> int:
        """Number of rounds."""
        raise NotImplementedError

    @functools.cached_property
    def values(self) -> NDArray[np.float64]:
        """The value that each code of each key stands for, NaN for none."""
        return key_values(self.survey)

    @functools.cached_property
    def client(self) -> PrivKVM:
        """Randomizer of the respondents' reports."""
        return PrivKVM.with_budget(
            len(self.survey.names), epsilon=self.epsilon, rounds=self.repeats
        )

    @property
    def contribution(self) -> type[Message]:
        """The report, in the first round."""
        return KeyReport

    def so_far(self, session: bytes) -> SoFar:
        """The estimate from the first round's reports so far, then from whole rounds."""
        return _Rounds(self)

    async def party(self, me: Me, records: Records) -> None:
        """Receive the question, report; in further rounds, on the same keys."""
        request = await me.receive(Request, AGGREGATOR)
        self.check_asked(request.survey)
        each, stream = self.client.each, me.stream_for(request)
        keys = each.sampled(len(records), stream)
        me.afford(self._event(keys, range(self.repeats)))
        held = self.values[keys, records.codes[np.arange(len(records)), keys]]
        reported = each.perturb_keys(held, stream)
        symbols = each.perturb_values(held, reported, stream)
        await me.send(AGGREGATOR, KeyReport(0, keys, symbols))
        for round_ in range(1, self.repeats):
            question = await me.receive(Fakes, AGGREGATOR, round=round_)
            fakes = question.means
            if not len(fakes):
                return
            if len(fakes) != len(records) or not (np.abs(fakes) <= 1).all():
                raise PrivacyError("asked with values for missing keys outside [-1, 1]")
            stream = me.stream_for(question)
            symbols = each.perturb_values(held, reported, stream, fakes=fakes)
            await me.send(AGGREGATOR, KeyReport(round_, keys, symbols))

    async def aggregator(self, me: Me, parties: Sequence[PartyId]) -> SymbolCounts:
        """Ask, count; in further rounds, send the means of the last one."""
        quorum = self.quorum_of(len(parties))
        await me.broadcast(parties, Request(self.survey.digest))
        answers = await me.gather(
            KeyReport, parties, round=0, within=self.patience, at_least=quorum
        )
        first = {party: report for party, report in answers.items() if self.fits(report)}
        check_valid(len(first), quorum)
        counts = [self.counted(first.values())]
        late = [party for party in parties if party not in first]
        for round_ in range(1, self.repeats):
            fakes = fakes_after(counts[-1], self.client.each)
            for keys, members in _by_keys(first).items():
                places = np.frombuffer(keys, smallest_dtype(self.client.keys))
                await me.broadcast(members, Fakes(round_, fakes[places]))
            if round_ == 1:
                await me.broadcast(late, Fakes(round_, np.zeros(0)))
            answers = await me.gather(
                KeyReport, tuple(first), round=round_, within=self.patience, at_least=quorum
            )
            again = [
                report
                for party, report in answers.items()
                if self.fits(report) and np.array_equal(report.keys, first[party].keys)
            ]
            check_valid(len(again), quorum, f"valid reports in round {round_}")
            counts.append(self.counted(again))
        return SymbolCounts(np.stack(counts).astype(np.uint32))

    def stages(self, people: int) -> Generator[Stage, Totals, SymbolCounts]:
        """One question a round, to the same people, with the fakes of all rounds so far."""
        counts: list[Totals] = []
        fakes: tuple[NDArray[np.float64], ...] = ()
        for round_ in range(self.repeats):
            rest = people * (self.repeats - round_ - 1)
            totals = yield Stage(fakes, people, rest=rest)
            counts.append(totals.reshape(self.client.keys, len(SYMBOLS)))
            fakes = (*fakes, fakes_after(counts[-1], self.client.each))
        return SymbolCounts(np.stack(counts))

    def count(self, stage: Stage, parties: Iterable[Respondents]) -> Totals:
        """Number of reports of each symbol and key in the last round."""
        counts = np.zeros((self.client.keys, len(SYMBOLS)), np.int64)
        for party in parties:
            report = party.ask(Request(self.survey.digest), kind=KeyReport)
            for round_, means in enumerate(stage.asked, 1):
                report = party.ask(Fakes(round_, means[report.keys]), kind=KeyReport)
            counts += self.counted([report])
        return counts.reshape(-1)

    def fits(self, report: KeyReport) -> bool:
        """True if a report has one key for each of its respondents."""
        return 1 <= len(report.keys) == len(report.symbols) <= self.max_records

    def counted(self, reports: Iterable[KeyReport]) -> NDArray[np.int64]:
        """Number of reports of each symbol and key, (d, 3)."""
        each = list(reports)
        keys, symbols = (
            np.concatenate([getattr(report, field) for report in each])
            for field in ("keys", "symbols")
        )
        return tally(KeyValueReports(keys, symbols), keys=self.client.keys)

    def reveals(self, message: Message, seen: Seen) -> PrivacyEvent:
        """Event of a report: a draw on its key, which is drawn whatever is held."""
        if not isinstance(message, KeyReport):
            return super().reveals(message, seen)
        if self.fits(message) and 0 <= message.round < self.repeats:
            return self._event(message.keys, (message.round,))
        return Plain(self.survey.names)

    def drawn(self, message: Message, event: PrivacyEvent, records: Records) -> list[Drawn] | None:
        """The reported signs of each key in a further round.

        The sign of a value is drawn too, and that of a missing key is drawn from a mean. So all
        records have the same input.
        """
        if not isinstance(message, KeyReport) or not message.round:
            return None
        found, alike = [], np.zeros(len(records), np.uint8)
        for key in np.unique(message.keys).tolist():
            rows = np.flatnonzero((message.keys == key) & (message.symbols != ABSENT))
            one = Randomized(self._round_randomizer(message.round), (self.survey.names[key],))
            signs = (message.symbols[rows] == PLUS).astype(np.uint8)
            found.append(Drawn(one, rows, signs, alike))
        return found

    def _event(self, keys: NDArray[np.unsignedinteger], rounds: Iterable[int]) -> PrivacyEvent:
        drawn = [self._round_randomizer(round_) for round_ in rounds]
        alternatives = []
        for key in np.unique(keys).tolist():
            names = (self.survey.names[key],)
            events = tuple(Randomized(randomizer, names) for randomizer in drawn)
            alternatives.append(events[0] if len(events) == 1 else Composed(events))
        return alternatives[0] if len(alternatives) == 1 else OneOf(tuple(alternatives))

    def _round_randomizer(self, round_: int) -> PrivKV | PrivKVM | KeepUniform:
        """Randomizer of a round's new draws."""
        raise NotImplementedError

    def most(self) -> float:
        """Sum of the epsilons of the rounds' draws, on one key."""
        return math.fsum(self._round_randomizer(round_).epsilon for round_ in range(self.repeats))

    def estimate(self, result: Message) -> KeyValueTables:
        return KeyValueTables(
            asked=self.survey,
            randomizer=self.client.each,
            estimator=self.estimator,
            virtual=self.virtual,
            counts=self.published(result, SymbolCounts).counts.astype(np.int64),
        )


class PrivKVVariant(KeyValueCollection, frozen=True, kw_only=True):
    """One round: whether the key is held, and if so the sign of its value."""

    name = "privkv"

    @property
    def repeats(self) -> int:
        return 1

    def _round_randomizer(self, round_: int) -> PrivKV | PrivKVM | KeepUniform:
        return self.client.each

    def claims(self) -> tuple[Claim, ...]:
        return (
            Claim(
                source=SOURCE,
                says="a report costs epsilon_1 of its key and epsilon_2 of its value",
                epsilon=self.client.each.charged,
            ),
        )


class PrivKVMVariant(KeyValueCollection, frozen=True, kw_only=True):
    """Several rounds with reports of the value; missing keys take the last round's mean.

    The key is drawn and perturbed once. A party that misses a round is left out of that round.

    Args:
        rounds: of privkvm. They share the half of epsilon that is for the value.
    """

    name = "privkvm"
    messages = (Request, KeyReport, Fakes, SymbolCounts)

    rounds: Annotated[int, Meta(ge=2, le=100)] = ROUNDS

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.estimator == "em":
            raise ValueError(
                "estimator 'em' needs one round: expected 'moment', 'debiased' or 'likelihood'"
            )

    @property
    def repeats(self) -> int:
        return self.rounds

    def _round_randomizer(self, round_: int) -> PrivKV | PrivKVM | KeepUniform:
        # The aggregator chooses the fakes of further rounds, so a report costs as much as its
        # draws. Without the first round's report a further one would reveal more.
        each = self.client.each
        return each.value_response if round_ else PrivKVM(each=each, rounds=1)

    def claims(self) -> tuple[Claim, ...]:
        return (
            Claim(
                source=SOURCE,
                says="the reports cost epsilon_1 of the key, and epsilon_2 of every round's value",
                epsilon=self.client.epsilon,
            ),
        )


class _Rounds(SoFar):
    """The reports of the first round, and the counts of all finished rounds."""

    made_of = (KeyReport,)

    def __init__(self, variant: KeyValueCollection) -> None:
        self._variant = variant
        self._first: Mapping[PartyId, KeyReport] = {}
        self._counts: list[NDArray[np.int64]] = []
        self._estimate: KeyValueTables | None = None

    def closed(self, topic: Topic, counted: Mapping[PartyId, Message]) -> None:
        # A record of others may have more rounds than there can be.
        over = len(self._counts) == self._variant.repeats
        if over or topic[1] != len(self._counts):
            return
        there = self._fit(counted)
        self._first = self._first if self._counts else there
        if there:
            self._counts.append(self._variant.counted(there.values()))
            self._estimate = None

    def estimate(self, waiting: Waiting) -> KeyValueTables | None:
        if not self._counts:
            there = self._fit(waiting.get((KeyReport.kind(), 0), {}))
            return self._from_counts([self._variant.counted(there.values())]) if there else None
        if self._estimate is None:
            self._estimate = self._from_counts(self._counts)
        return self._estimate

    def _fit(self, reports: Mapping[PartyId, Message]) -> dict[PartyId, KeyReport]:
        """Reports that count: in a further round, those on the keys of the first."""
        found = {}
        for party, report in reports.items():
            if not isinstance(report, KeyReport) or not self._variant.fits(report):
                continue
            first = self._first.get(party)
            same = first is not None and np.array_equal(report.keys, first.keys)
            if same or not self._counts:
                found[party] = report
        return found

    def _from_counts(self, counts: list[NDArray[np.int64]]) -> KeyValueTables:
        return self._variant.estimate(SymbolCounts(np.stack(counts).astype(np.uint32)))


def _by_keys(reports: Mapping[PartyId, KeyReport]) -> dict[bytes, list[PartyId]]:
    """Parties by the keys that they drew, so that each group gets one encoding."""
    found: dict[bytes, list[PartyId]] = {}
    for party, report in reports.items():
        found.setdefault(report.keys.tobytes(), []).append(party)
    return found
