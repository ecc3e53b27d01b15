"""RRBA: randomized response block aggregation, on groups of attributes, block by block."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from typing import Annotated, Literal, TypeAlias

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from protocol.arrays import Array, ArraySpec, Bounds, name_of, smallest_dtype
from protocol.codec import Kind
from protocol.errors import LocalProtocolError, PrivacyError, ProtocolError
from protocol.estimators.blocks import Release, Running, least_weight, weights_of
from protocol.estimators.grouped import Group, GroupedEstimate
from protocol.messages import AGGREGATOR, Message, PartyId
from protocol.privacy.events import (
    Composed,
    Derived,
    OneOf,
    Plain,
    PrivacyEvent,
    Public,
    Randomized,
)
from protocol.randomness import WORDS
from protocol.records import Records
from protocol.roles import Me, Seen
from protocol.variant import Claim, Variant
from protocol.variants.rrba_plan import Extent, Plan

Mode: TypeAlias = Literal["blocked", "sequential"]
"""Version 2 of the paper, blocks of clients, or version 1, one client after the other."""

Tail: TypeAlias = Literal["keep", "drop"]
"""Whether a last block that is not full is asked."""

Stopping: TypeAlias = Literal["never", "pooled", "printed"]
"""When no further block is asked: never, by the pooled half-width, or by the printed rule."""


class Question(Message, frozen=True):
    """What a block is asked with.

    Args:
        block: from 0.
        over: nothing is asked any more.
        weights: (cells,) what fakes are drawn from in every group, each summing to 2**64.
    """

    block: int
    over: bool
    weights: Array


class Answers(Message, frozen=True):
    """Randomized answers of a party's respondents, one row each.

    Args:
        respondents: which of its respondents, from 0, rising.
        groups: about which group.
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
        blocks: how many were asked.
        answered: how many respondents have answered.
        shares: the raw estimate, signed.
        errors: its standard errors; where nobody has reported, 0.
        counts: how often each cell was reported.
    """

    blocks: int
    answered: int
    shares: Array
    errors: Array
    counts: Array


class RRBA(Variant, frozen=True, kw_only=True):
    """Randomized Response Block Aggregation, with the corrections of its privacy and its estimate.

    The aggregator asks in blocks. A client has a view, drawn by lot: groups of k attributes without
    one in common. It answers about one of them, drawn by itself, or about all. An answer is the
    true one with probability p, else it is drawn from the group's table, which the aggregator
    makes of the blocks before.

    Args:
        k: the size of a group.
        p: the keep probability of every group; or
        epsilon: what an answer may cost at most; p follows for every group from its size.
        mix: lambda, the share of the uniform distribution in what fakes are drawn from. At 1 the
            tables have no effect, which costs the least for the same error.
        block: how many clients a block has; ``sequential`` asks one after the other.
        mode: ``blocked`` or ``sequential``.
        groups: whether a client answers about ``one`` group of its view, or about the whole
            ``view``, which costs the sum.
        tail: whether a last block that is not full is asked or left out.
        stopping: when no further block is asked.
        width: for ``pooled``: the largest half-width of an interval that is narrow enough.
        z: how many standard errors make an interval.
        release: what is published of the blocks.
        allow_unbounded: take tables with a zero in them, under which an answer may cost infinity.
    """

    name = "rrba"
    heeds = (Question,)

    k: Annotated[int, Meta(ge=1, le=6)] = 2
    p: Annotated[float, Meta(gt=0, lt=1)] | None = None
    epsilon: Annotated[float, Meta(gt=0, le=100)] | None = None
    mix: Annotated[float, Meta(ge=0, le=1)] = 1.0
    block: Annotated[int, Meta(ge=1)] = 250
    mode: Mode = "blocked"
    groups: Extent = "one"
    tail: Tail = "keep"
    stopping: Stopping = "never"
    width: Annotated[float, Meta(gt=0)] = 0.01
    z: Annotated[float, Meta(gt=0)] = 1.96
    release: Release = "pooled"
    allow_unbounded: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.p is None) == (self.epsilon is None):
            raise ValueError("set p or epsilon, one of them")
        if not self.k <= len(self.survey.names):
            raise ValueError(f"groups of {self.k} of {len(self.survey.names)} attributes")
        if self.mix == 0 and not self.allow_unbounded:
            raise ValueError(
                "mix 0 lets a table have a zero, under which an answer is given away: "
                "set a mix above 0, or allow_unbounded"
            )
        if self.mix == 0 and self.epsilon is not None:
            raise ValueError("without a mix above 0 no p keeps an answer within epsilon: set p")

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

    def blocks_of(self, parties: Sequence[PartyId]) -> Iterator[tuple[PartyId, ...]]:
        """Who is asked together, in roster order."""
        size = 1 if self.mode == "sequential" else self.block
        for start in range(0, len(parties), size):
            members = tuple(parties[start : start + size])
            if len(members) == size or self.tail == "keep" or start == 0:
                yield members

    async def party(self, me: Me, records: Records) -> None:
        """Hear the block's tables, consent, answer."""
        question = await me.receive(Question, AGGREGATOR)
        if question.over:
            return
        self._consent(question)
        lots = self.plan.lots(me.session, me.id, len(records))
        respondents, groups = self.plan.chosen(lots, me.stream_for(question, "groups"))
        cells = self.plan.layout.cells_of(records)[respondents, groups]
        codes = np.empty(len(cells), self._code_dtype)
        stream = me.stream_for(question)
        for group in np.unique(groups).tolist():
            about = groups == group
            randomizer = self.plan.randomizer(group, question.weights)
            codes[about] = randomizer.randomize(cells[about].astype(self._code_dtype), stream)
        await me.send(
            AGGREGATOR,
            Answers(respondents.astype("<u4"), groups.astype(self._group_dtype), codes),
        )

    def _consent(self, question: Question) -> None:
        """Refuse tables that cost more than agreed.

        Raises:
            PrivacyError: names the group.
        """
        known = self._consented.get(id(question))
        if known is question:
            return
        if len(question.weights) != self.plan.layout.cells:
            raise PrivacyError("asked about other groups than agreed")
        totals = np.add.reduceat(question.weights, self.plan.cells.starts)
        least = np.minimum.reduceat(question.weights, self.plan.cells.starts)
        agreed = [least_weight(size, self.mix) for size in self.plan.layout.groups]
        for group, (total, low, floor) in enumerate(
            zip(totals.tolist(), least.tolist(), agreed, strict=True)
        ):
            if total != 0:  # Modulo 2**64.
                raise PrivacyError(f"the table of {self.plan.group_names[group]} does not sum to 1")
            if low < floor:
                raise PrivacyError(
                    f"asked with a table of {self.plan.group_names[group]} with a probability of "
                    f"{low / WORDS:.3g}, agreed to at least {floor / WORDS:.3g}"
                )
        self._consented.clear()
        self._consented[id(question)] = question

    @functools.cached_property
    def _consented(self) -> dict[int, Question]:
        # A broadcast reaches the parties of one process as one object.
        return {}

    async def aggregator(self, me: Me, parties: Sequence[PartyId]) -> Released:
        """Ask block by block, update the tables, publish."""
        running = Running(self.plan.cells, np.array(self.plan.thresholds) / WORDS)
        answered, blocks = 0, list(self.blocks_of(parties))
        asked = 0
        for number, members in enumerate(blocks):
            weights = weights_of(self.plan.cells, running.tables(self.mix))
            await me.broadcast(members, Question(number, False, weights))
            asked += len(members)
            answers = await me.gather(Answers, members, within=self.patience)
            counts, heard = self._counted(me.session, answers)
            running.add(counts, weights / WORDS)
            answered += heard
            await me.note(Block(number, counts.astype(np.uint32)))
            if self._enough(running):
                break
        nobody = np.zeros(0, np.uint64)
        await me.broadcast(parties[asked:], Question(running.blocks, True, nobody))
        if answered < self.quorum:
            raise ProtocolError(f"{answered} respondents answered, {self.quorum} needed")
        errors = running.errors(self.release)
        return Released(
            running.blocks,
            answered,
            running.raw(self.release),
            np.where(np.isfinite(errors), errors, 0.0),
            running.counts.astype(np.uint32),
        )

    def _enough(self, running: Running) -> bool:
        if self.stopping == "pooled":
            return bool((self.z * running.errors() <= self.width).all())
        return self.stopping == "printed" and running.settled(self.z)

    def _counted(
        self, session: bytes, answers: dict[PartyId, Answers]
    ) -> tuple[NDArray[np.int64], int]:
        """How often each cell was reported, by how many respondents; unfit answers do not count."""
        flat, heard = [np.zeros(0, np.int64)], 0
        for party, answer in answers.items():
            groups = answer.groups.astype(np.int64)
            rows = answer.respondents.astype(np.int64)
            if self.plan.fits(session, party, rows, groups, answer.codes, most=self.max_records):
                flat.append(self.plan.cells.starts[groups] + answer.codes)
                heard += len(np.unique(rows))
        cells = self.plan.layout.cells
        return np.bincount(np.concatenate(flat), minlength=cells).astype(np.int64), heard

    def reveals(self, message: Message, seen: Seen) -> PrivacyEvent:
        """An answer's randomizer is the table that it was asked with."""
        match message:
            case Question() | Block() | Released():
                return Derived()
            case Answers():
                question = seen.last(Question, AGGREGATOR)
                if question is not None and len(question.weights) == self.plan.layout.cells:
                    return self._event(message, question)
        return Plain(self.survey.names)

    def _event(self, answers: Answers, question: Question) -> PrivacyEvent:
        groups = np.minimum(answers.groups, len(self.plan.thresholds) - 1)
        told: list[PrivacyEvent] = []
        try:
            for respondent in np.unique(answers.respondents).tolist():
                own = groups[answers.respondents == respondent].tolist()
                parts = [
                    Randomized(
                        self.plan.randomizer(group, question.weights), self.plan.group_names[group]
                    )
                    for group in own
                ]
                told.append(parts[0] if len(parts) == 1 else Composed(tuple(parts)))
        except ValueError:
            return Plain(self.survey.names)
        different = tuple(dict.fromkeys(told))
        if not different:
            return Public()
        return different[0] if len(different) == 1 else OneOf(different)

    @property
    def _group_dtype(self) -> np.dtype[np.unsignedinteger]:
        return smallest_dtype(len(self.plan.group_names))

    @property
    def _code_dtype(self) -> np.dtype[np.unsignedinteger]:
        return smallest_dtype(max(self.plan.layout.groups))

    def kinds(self, parties: int) -> tuple[Kind, ...]:
        cells, respondents = self.plan.layout.cells, parties * self.max_records
        most = self.max_records * (1 if self.groups == "one" else self.plan.view_table.shape[1])
        rows = (Bounds(1, most),)
        floats = ArraySpec(dtype="f8", shape=(cells,), low=-(2**53))
        reports = respondents * self.plan.view_table.shape[1] + 1
        return (
            Kind(
                Question,
                scalar_bytes=64,
                weights=ArraySpec(dtype="u8", shape=(Bounds(0, cells),)),
            ),
            Kind(
                Answers,
                scalar_bytes=64,
                respondents=ArraySpec(dtype="u4", shape=rows, high=self.max_records),
                groups=ArraySpec(
                    dtype=name_of(self._group_dtype), shape=rows, high=len(self.plan.group_names)
                ),
                codes=ArraySpec(
                    dtype=name_of(self._code_dtype), shape=rows, high=max(self.plan.layout.groups)
                ),
            ),
            Kind(
                Block, scalar_bytes=64, counts=ArraySpec(dtype="u4", shape=(cells,), high=reports)
            ),
            Kind(
                Released,
                scalar_bytes=64,
                shares=floats,
                errors=floats,
                counts=ArraySpec(dtype="u4", shape=(cells,), high=reports),
            ),
        )

    def estimate(self, result: Message) -> GroupedEstimate:
        if not isinstance(result, Released):
            raise LocalProtocolError(f"{result.kind()!r} is no result of {self.name!r}")
        groups = []
        for number, (names, shape) in enumerate(
            zip(self.plan.group_names, self.plan.layout.shapes, strict=True)
        ):
            start = int(self.plan.cells.starts[number])
            part = slice(start, start + math.prod(shape))
            n = int(result.counts[part].sum())
            groups.append(
                Group(
                    names=names,
                    shares=result.shares[part].reshape(shape),
                    errors=result.errors[part].reshape(shape),
                    reported=result.counts[part].reshape(shape) / max(n, 1),
                    keep=self.plan.thresholds[number] / WORDS,
                    n=n,
                )
            )
        return GroupedEstimate(self.survey, tuple(groups), result.answered)

    def claims(self) -> tuple[Claim, ...]:
        keep = max(self.plan.thresholds) / WORDS
        return (
            Claim(
                source="RRBA, theorem 4.1",
                says="an answer costs ln(1/(1-p)), whatever the table",
                epsilon=-math.log1p(-keep),
            ),
        )
