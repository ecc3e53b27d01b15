"""RRBA: randomized response block aggregation, on groups of attributes, block by block."""

from __future__ import annotations

import functools
import math
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import Annotated

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from protocol.accounting.events import (
    Composed,
    OneOf,
    Plain,
    PrivacyEvent,
    Public,
    Randomized,
    single_events,
)
from protocol.crypto.randomness import WORDS
from protocol.errors import CannotTabulateError, LocalProtocolError, PrivacyError
from protocol.estimators.linear import LinearEstimate
from protocol.messages import AGGREGATOR, Message, PartyId
from protocol.randomizers.table import KeepElseTable, Tables
from protocol.session.roles import Me, Seen, Topic
from protocol.session.so_far import SoFar, Waiting
from protocol.session.tabulation import Respondents, Stage, Totals
from protocol.session.variant import Claim, Drawn, Probability, Variant
from protocol.surveys.limits import Workload, workload_of_groups
from protocol.surveys.records import Records
from protocol.variants.reports.one_report import check_valid
from protocol.variants.rrba.blocks import (
    Release,
    ReportLaw,
    Running,
    Update,
    integer_weights,
    steepest,
)
from protocol.variants.rrba.grouped import Group, GroupTables
from protocol.variants.rrba.plan import Extent, Mode, Plan, Tail
from protocol.variants.rrba.stopping import Stopping, enough
from protocol.wire.arrays import Array, ArraySpec, Bounds, smallest_dtype
from protocol.wire.codec import Kind

MAX_BLOCKS = 10_000
"""The most blocks that respondents in cohorts are asked in."""

_REMEMBERED = 256
"""The most questions of one process that are remembered, and the most events of each."""


class Question(Message, frozen=True):
    """Question to a party, the same for all parties with the same views.

    Args:
        block: the number of the block, from 0.
        over: the survey is over, and nothing is asked.
        groups: the groups in the views of the party's respondents, rising.
        weights: the weights of fakes in the cells of each group, which sum to 2**64.
    """

    block: int
    over: bool
    groups: Array
    weights: Array


class _AnswerLaw:
    """Law of the answers to a question.

    Args:
        tables: the randomizer of each group, rising.
        excess: why a table costs more than agreed; empty if none does.

    Attributes:
        together: all tables, in this order.
        events: events of one respondent's answers, by the groups answered about.
    """

    def __init__(self, tables: Mapping[int, KeepElseTable], excess: str) -> None:
        self.tables = tables
        self.excess = excess
        self.events: dict[bytes, PrivacyEvent] = {}

    @functools.cached_property
    def together(self) -> Tables:
        return Tables(list(self.tables.values()))


class Answers(Message, frozen=True):
    """Randomized answers of a party's respondents, one row each.

    Args:
        respondents: the number of the respondent, from 0, rising.
        groups: the group answered about.
        codes: the randomized cell of that group.
    """

    respondents: Array
    groups: Array
    codes: Array


class Block(Message, frozen=True):
    """Said to the record after every block: how often each cell was reported."""

    round: int
    counts: Array


class Released(Message, frozen=True):
    """The published result, over all groups' cells.

    Args:
        blocks: the number of blocks asked.
        answered: the number of respondents that have answered.
        shares: the raw estimate, signed.
        errors: its standard errors; 0 where they are unknown.
        counts: the number of reports of each cell.
    """

    blocks: int
    answered: int
    shares: Array
    errors: Array
    counts: Array


class RRBA(Variant, frozen=True, kw_only=True):
    """Randomized Response Block Aggregation, with the corrections of its privacy and its estimate.

    The aggregator asks in blocks. A client has a view, drawn by lot: disjoint groups of k
    attributes. It answers about all of them, or about one that it draws. An answer is true with
    probability p. Otherwise it is drawn from the group's table, which the aggregator makes from the
    blocks before.

    Args:
        k: attributes in a group.
        p: the keep probability of every group; or
        epsilon: what an answer may cost at most; p follows for every group from its size.
        mix: share of uniform in the table of fakes. It is the paper's lambda. At 1 the tables have
            no effect, which costs the least for the same error.
        block: parties per block. ``sequential`` asks one after the other.
        mode: ``blocked`` or ``sequential``.
        groups: of its view a client answers about: ``one``, or the whole ``view``. The whole costs
            the sum.
        tail: a last block that is not full: ``keep`` or ``drop``. Dropped, it is not asked.
        stopping: ``never``, ``pooled``, ``printed`` or ``widened``. When no further block is asked.
        width: half-width to stop at, when ``pooled``. That of the widest interval counts.
        alpha: 1 less the level of the intervals that stopping goes by.
        update: ``pooled``, ``last`` or ``average``. What tables of fakes are made of.
        release: ``pooled`` or ``last-two``. What is published of the blocks.
        allow_unbounded: allow tables with a zero, which cost infinity.
    """

    name = "rrba"
    heeds = (Question,)
    derived = (Question, Block, Released)

    k: Annotated[int, Meta(ge=1, le=6)] = 2
    p: Probability | None = None
    epsilon: Annotated[float, Meta(gt=0, le=100)] | None = None
    mix: Annotated[float, Meta(ge=0, le=1)] = 1.0
    block: Annotated[int, Meta(ge=1)] = 250
    mode: Mode = "blocked"
    groups: Extent = "one"
    tail: Tail = "keep"
    stopping: Stopping = "never"
    width: Annotated[float, Meta(gt=0)] = 0.01
    alpha: Annotated[float, Meta(gt=0, lt=1)] = 0.05
    update: Update = "pooled"
    release: Release = "pooled"
    allow_unbounded: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.p is None) == (self.epsilon is None):
            raise ValueError("set p or epsilon, one of them")
        if not self.k <= len(self.survey.names):
            raise ValueError(f"k = {self.k}: expected 1 to {len(self.survey.names)} attributes")
        if self.mix == 0 and not self.allow_unbounded:
            raise ValueError(
                "mix 0 allows a table with a zero, under which a report can give an answer away: "
                "set a mix above 0, or allow_unbounded"
            )
        if self.mix == 0 and self.epsilon is not None:
            raise ValueError(
                "mix 0: no p keeps an answer within epsilon; set a mix above 0, or set p"
            )

    def workload(self) -> Workload:
        return workload_of_groups(self.survey.sizes, self.k)

    @functools.cached_property
    def plan(self) -> Plan:
        """Groups, views, lots and keep probabilities."""
        return Plan(
            survey=self.survey,
            k=self.k,
            p=self.p,
            epsilon=self.epsilon,
            mix=self.mix,
            extent=self.groups,
        )

    def party_blocks(self, parties: Sequence[PartyId]) -> Iterator[tuple[PartyId, ...]]:
        """Blocks of parties that are asked together, in roster order."""
        size = 1 if self.mode == "sequential" else self.block
        for start in range(0, len(parties), size):
            members = tuple(parties[start : start + size])
            if len(members) == size or self.tail == "keep" or start == 0:
                yield members

    @property
    def contribution(self) -> type[Message]:
        """The answers, to whichever block."""
        return Answers

    def running(self) -> Running:
        """State of an aggregator before the first block."""
        return Running(self.plan.cells, np.array(self.plan.thresholds) / WORDS, self.update)

    def so_far(self, session: bytes) -> SoFar:
        """The estimate after the blocks so far."""
        return _BlocksSoFar(self, session)

    async def party(self, me: Me, records: Records) -> None:
        """Receive the block's tables, consent, answer."""
        question = await me.receive(Question, AGGREGATOR)
        if question.over:
            return
        lots = self.plan.lots(me.session, me.id, len(records))
        respondents, groups = self.plan.chosen(lots, me.stream_for(question, "groups"))
        law = self._agreed_law(question)
        if not set(groups.tolist()) <= law.tables.keys():
            raise PrivacyError("asked about other groups than drawn by lot")
        cells = self.plan.layout.cells_at(records, respondents, groups).astype(self._code_dtype)
        which = np.searchsorted(question.groups, groups)
        codes = law.together.randomize(cells, which, me.stream_for(question))
        await me.send(
            AGGREGATOR,
            Answers(respondents.astype("<u4"), groups.astype(self._group_dtype), codes),
        )

    def _agreed_law(self, question: Question) -> _AnswerLaw:
        """Law of the answers to a question, if they cost no more than agreed.

        Raises:
            PrivacyError: names the group.
        """
        try:
            law = self._answer_law(question)
        except ValueError as error:
            raise PrivacyError(f"asked with malformed tables: {error}") from error
        if law.excess:
            raise PrivacyError(law.excess)
        return law

    def _answer_law(self, question: Question) -> _AnswerLaw:
        """Law of the answers to a question.

        Raises:
            ValueError: the question's tables are malformed.
        """
        asked = question.groups.tobytes(), question.weights.tobytes()
        known = self._laws.get(asked)
        if known is None:
            if len(self._laws) >= _REMEMBERED:
                self._laws.clear()
            tables = self.plan.tables(question.groups, question.weights)
            known = self._laws[asked] = _AnswerLaw(tables, self._excess(tables))
        return known

    def _excess(self, tables: Mapping[int, KeepElseTable]) -> str:
        """Complaint about a table that costs more than agreed; empty if none does."""
        for group, table in tables.items():
            least, agreed = min(table.weights), self.plan.least[group]
            if least < agreed:
                return (
                    f"asked with a table of {self.plan.group_names[group]} with a probability "
                    f"of {least / WORDS:.3g}, agreed to at least {agreed / WORDS:.3g}"
                )
        return ""

    @functools.cached_property
    def _laws(self) -> dict[tuple[bytes, bytes], _AnswerLaw]:
        # Many parties of one process get equal questions.
        return {}

    async def aggregator(self, me: Me, parties: Sequence[PartyId]) -> Released:
        """Ask block by block, update the tables, publish."""
        plan, running = self.plan, self.running()
        answered, valid, asked = 0, 0, 0
        blocks = list(self.party_blocks(parties))
        for number, members in enumerate(blocks):
            weights = integer_weights(plan.cells, running.tables(self.mix))
            for groups, about in plan.by_views(me.session, members, self.max_records).items():
                part = weights[plan.places(groups)]
                kinds = np.array(groups, self._group_dtype)
                await me.broadcast(about, Question(number, False, kinds, part))
            asked += len(members)
            answers = await me.gather(Answers, members, within=self.patience)
            counts, respondents, fitting = self.counted(me.session, answers)
            running.add(counts, weights / WORDS)
            answered += respondents
            valid += fitting
            await me.note(Block(number, counts.astype(np.uint32)))
            if enough(running, self.stopping, alpha=self.alpha, width=self.width):
                break
        nothing = np.zeros(0, self._group_dtype), np.zeros(0, np.uint64)
        await me.broadcast(parties[asked:], Question(running.blocks, True, *nothing))
        # Parties that were not asked are not missing.
        check_valid(valid, self.quorum_of(asked), "valid answers")
        return self.released(running, answered, np.dtype(np.uint32))

    def stages(self, people: int) -> Generator[Stage, Totals, Released]:
        """One question for each block of ``block`` respondents: the weights of all cells.

        Raises:
            CannotTabulateError: there are more than ``MAX_BLOCKS`` blocks.
        """
        plan, size = self.plan, 1 if self.mode == "sequential" else self.block
        running = self.running()
        blocks = people // size if self.tail == "drop" and people > size else -(-people // size)
        if blocks > MAX_BLOCKS:
            raise CannotTabulateError(
                f"variant {self.name!r} cannot be tabulated: {people:,} respondents are {blocks:,} "
                f"blocks of {size:,}, expected at most {MAX_BLOCKS:,}: set a larger block"
            )
        answered = 0
        for number in range(blocks):
            weights = integer_weights(plan.cells, running.tables(self.mix))
            asked = min(size, people - number * size)
            rest = min(blocks * size, people) - number * size - asked
            totals = yield Stage((number, weights), asked, group=number, rest=rest)
            running.add(totals, weights / WORDS)
            answered += asked
            if enough(running, self.stopping, alpha=self.alpha, width=self.width):
                break
        return self.released(running, answered, np.dtype(np.int64))

    def count(self, stage: Stage, parties: Iterable[Respondents]) -> Totals:
        """Number of reports of each cell of each group."""
        number, weights = stage.asked
        questions: dict[tuple[int, ...], Question] = {}
        counts = np.zeros(self.plan.layout.cells, np.int64)
        for party in parties:
            me = party.me
            groups = self.plan.asked(me.session, me.id, self.max_records)
            if groups not in questions:
                kinds = np.array(groups, self._group_dtype)
                part = weights[self.plan.places(groups)]
                questions[groups] = Question(number, False, kinds, part)
            answers = party.ask(questions[groups], kind=Answers)
            counted, valid, _ = self.counted(me.session, {me.id: answers})
            if valid != len(party):
                raise LocalProtocolError(f"{valid} of {len(party)} respondents have valid answers")
            counts += counted
        return counts

    def released(self, running: Running, answered: int, dtype: np.dtype[np.integer]) -> Released:
        """The result after some blocks.

        Args:
            running: the state after them.
            answered: the number of respondents that have answered.
            dtype: the type of the counts.
        """
        errors = running.errors(self.release)
        return Released(
            running.blocks,
            answered,
            running.raw(self.release),
            np.where(np.isfinite(errors), errors, 0.0),
            running.counts.astype(dtype),
        )

    def counted(
        self, session: bytes, answers: dict[PartyId, Answers]
    ) -> tuple[NDArray[np.int64], int, int]:
        """Number of reports of each cell, of respondents and of parties, by valid answers."""
        fitting, respondents = [], 0
        for party, answer in answers.items():
            if self.plan.fits(
                session,
                party,
                answer.respondents,
                answer.groups,
                answer.codes,
                most=self.max_records,
            ):
                fitting.append(answer)
                respondents += int(np.count_nonzero(np.bincount(answer.respondents)))
        none = np.zeros(0, np.int64)
        groups = np.concatenate([none, *(answer.groups for answer in fitting)])
        codes = np.concatenate([none, *(answer.codes for answer in fitting)])
        cells = self.plan.cells.starts[groups] + codes
        counts = np.bincount(cells, minlength=self.plan.layout.cells).astype(np.int64)
        return counts, respondents, len(fitting)

    def reveals(self, message: Message, seen: Seen) -> PrivacyEvent:
        """Event of answers: their randomizers are the tables of the question."""
        if not isinstance(message, Answers):
            return super().reveals(message, seen)
        question = seen.get(Question, AGGREGATOR)
        return Plain(self.survey.names) if question is None else self._event(message, question)

    def _event(self, answers: Answers, question: Question) -> PrivacyEvent:
        if not len(answers.respondents) == len(answers.groups) == len(answers.codes):
            return Plain(self.survey.names)
        try:
            law = self._answer_law(question)
            if len(answers.groups) > self.plan.view_table.shape[1] or answers.respondents.any():
                return self._answers_event(answers, law.tables)
            # Answers of one respondent: those with the same view have the same event.
            groups = answers.groups.tobytes()
            event = law.events.get(groups)
            if event is None:
                if len(law.events) >= _REMEMBERED:
                    law.events.clear()
                event = law.events[groups] = self._answers_event(answers, law.tables)
            return event
        except (ValueError, KeyError):
            # No table of the question fits these answers.
            return Plain(self.survey.names)

    def _answers_event(self, answers: Answers, tables: Mapping[int, KeepElseTable]) -> PrivacyEvent:
        """Event of answers that were drawn with these tables.

        Raises:
            KeyError: an answer is about a group without a table.
        """
        asked = {
            group: Randomized(tables[group], self.plan.group_names[group])
            for group in np.unique(answers.groups).tolist()
        }
        if not asked:
            return Public()
        order = np.argsort(answers.respondents, kind="stable")
        ends = np.flatnonzero(np.diff(answers.respondents[order])) + 1
        lists = dict.fromkeys(tuple(own.tolist()) for own in np.split(answers.groups[order], ends))
        alternatives = (
            asked[own[0]] if len(own) == 1 else Composed(tuple(asked[group] for group in own))
            for own in lists
        )
        different = tuple(dict.fromkeys(alternatives))
        return different[0] if len(different) == 1 else OneOf(different)

    def drawn(self, message: Message, event: PrivacyEvent, records: Records) -> list[Drawn] | None:
        """The answers about each group, with their tables from the event."""
        draws = [part for part in single_events(event) if isinstance(part, Randomized)]
        if not isinstance(message, Answers) or not draws:
            return None
        found, asked = [], {draw.attributes: draw for draw in draws}
        for group in np.unique(message.groups).tolist():
            rows = message.groups == group
            one = asked[self.plan.group_names[group]]
            found.append(Drawn(one, message.respondents[rows], message.codes[rows]))
        return found

    @functools.cached_property
    def _group_dtype(self) -> np.dtype[np.unsignedinteger]:
        return smallest_dtype(len(self.plan.group_names))

    @functools.cached_property
    def _code_dtype(self) -> np.dtype[np.unsignedinteger]:
        return smallest_dtype(max(self.plan.layout.groups))

    def kinds(self, parties: int) -> tuple[Kind, ...]:
        numbers, cells = len(self.plan.group_names), self.plan.layout.cells
        longest = self.plan.view_table.shape[1]
        most = self.max_records * (1 if self.groups == "one" else longest)
        rows, table = (Bounds(1, most),), ArraySpec(dtype="f8", shape=(cells,), low=-(2**53))
        reports = parties * self.max_records * longest
        counts = ArraySpec(dtype="u4", shape=(cells,), high=reports + 1)
        return (
            Kind(
                Question,
                scalar_bytes=64,
                groups=ArraySpec(shape=(Bounds(0, numbers),), high=numbers),
                weights=ArraySpec(dtype="u8", shape=(Bounds(0, cells),)),
            ),
            Kind(
                Answers,
                scalar_bytes=64,
                respondents=ArraySpec(dtype="u4", shape=rows, high=self.max_records),
                groups=ArraySpec(shape=rows, high=numbers),
                codes=ArraySpec(shape=rows, high=max(self.plan.layout.groups)),
            ),
            Kind(Block, scalar_bytes=64, counts=counts),
            Kind(Released, scalar_bytes=64, shares=table, errors=table, counts=counts),
        )

    def most(self) -> float:
        """Cost of one answer, or of one about every group of a view, with the costliest tables.

        A costliest table has ``T``, the least weight that a party consents to, in some category. An
        answer then costs ``ln(1 + p / ((1-p) T))``, which is infinite if ``mix`` is 0.
        """
        plan, sizes = self.plan, self.plan.layout.groups
        if not self.mix:
            return math.inf
        each = [
            KeepElseTable(threshold=threshold, weights=steepest(size, self.mix)).epsilon
            for threshold, size in zip(plan.thresholds, sizes, strict=True)
        ]
        if self.groups == "one":
            return max(each)
        return max(math.fsum(each[group] for group in view) for view in plan.views)

    def estimate(self, result: Message) -> LinearEstimate[GroupTables]:
        released = self.published(result, Released)
        groups = tuple(
            self._group(released, number) for number in range(len(self.plan.group_names))
        )
        return LinearEstimate(GroupTables(self.survey, groups, released.answered))

    def _group(self, released: Released, number: int) -> Group:
        """Published tables of one group."""
        shape = self.plan.layout.shapes[number]
        start = int(self.plan.cells.starts[number])
        part = slice(start, start + math.prod(shape))
        counts, raw, errors = (
            array[part].reshape(shape)
            for array in (released.counts, released.shares, released.errors)
        )
        keep, n = self.plan.thresholds[number] / WORDS, int(counts.sum())
        law = ReportLaw.of(
            counts, raw, errors, keep=keep, mix=self.mix, pooled=self.release == "pooled"
        )
        return Group(
            names=self.plan.group_names[number],
            shares=raw,
            errors=np.where(errors > 0, errors, np.nan),
            # The counts are of all blocks, and cannot describe the last two alone.
            reported=counts / max(n, 1) if self.release == "pooled" else np.full(shape, np.nan),
            raw=raw,
            fakes=law.fakes,
            fakes_squared=law.fakes_squared,
            keep=keep,
            n=n,
            expected=law.reported,
            worth=law.worth,
        )

    def claims(self) -> tuple[Claim, ...]:
        keep = max(self.plan.thresholds) / WORDS
        theorem = Claim(
            source="RRBA, theorem 4.1",
            says="an answer costs ln(1/(1-p)), whatever the table",
            epsilon=-math.log1p(-keep),
            per="answer",
        )
        if self.epsilon is None:
            return (theorem,)
        return theorem, Claim(
            source="the survey's configuration",
            says="an answer about any group costs at most the parameter epsilon",
            epsilon=self.epsilon,
            per="answer",
        )


class _BlocksSoFar(SoFar):
    """Estimate from the blocks that are closed so far."""

    made_of = (Answers,)

    def __init__(self, variant: RRBA, session: bytes) -> None:
        self._variant = variant
        self._session = session
        self._running = variant.running()
        self._answered = 0
        self._estimate: LinearEstimate[GroupTables] | None = None

    def closed(self, topic: Topic, counted: Mapping[PartyId, Message]) -> None:
        answers = {name: said for name, said in counted.items() if isinstance(said, Answers)}
        weights = integer_weights(self._running.cells, self._running.tables(self._variant.mix))
        counts, respondents, _ = self._variant.counted(self._session, answers)
        self._running.add(counts, weights / WORDS)
        self._answered += respondents
        self._estimate = None

    def estimate(self, waiting: Waiting) -> LinearEstimate[GroupTables] | None:
        if self._answered and self._estimate is None:
            released = self._variant.released(self._running, self._answered, np.dtype(np.uint32))
            self._estimate = self._variant.estimate(released)
        return self._estimate
