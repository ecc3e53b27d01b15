"""RR-Clusters with a negotiation, sketched to see whether the kernel carries it unchanged."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from protocol.accounting.events import (
    Derived,
    Plain,
    PrivacyEvent,
    Public,
)
from protocol.errors import PrivacyError
from protocol.estimators.joint import Block
from protocol.messages import AGGREGATOR, DONE, Envelope, Message, PartyId
from protocol.randomizers import KeepUniform, join_codes, randomize_columns
from protocol.session.fates import PASS, Fate, Verdict
from protocol.session.roles import Me, Seen
from protocol.session.variant import Variant
from protocol.surveys.records import Records
from protocol.surveys.survey import Survey
from protocol.variants.reports.reports import event_of, sizes_of
from protocol.wire.arrays import Array, ArraySpec, Bounds
from protocol.wire.codec import Kind
from tests.protocol.sessions import (
    SURVEY,
    answers,
    charter_of,
    envelope,
    everywhere,
    holdings_of,
    machine_of,
    words_of,
)

ONE, TWO, THREE = (PartyId(f"party-{i}") for i in (1, 2, 3))


class Begin(Message, frozen=True):
    """The aggregator's first word."""


class First(Message, frozen=True):
    """Every attribute randomized by itself."""

    codes: Array


class Proposal(Message, frozen=True):
    """Which attributes the aggregator wants randomized together."""

    blocks: tuple[Block, ...]


class Agreed(Message, frozen=True):
    """A party's consent."""


class Second(Message, frozen=True):
    """Every cluster randomized as one; what a code means depends on the clusters."""

    codes: Array


class Clustered(Message, frozen=True):
    """The result: the clusters and the mean code of each."""

    blocks: tuple[Block, ...]
    answered: int
    totals: Array


def clusters_of(survey: Survey, p: float, together: bool) -> tuple[Block, ...]:
    """One cluster of all attributes, or one of each."""
    names = [survey.names] if together else [(name,) for name in survey.names]
    sizes = [math.prod(survey.attribute(n).size for n in cluster) for cluster in names]
    return tuple(
        Block(cluster, KeepUniform.with_keep(size, p=p))
        for cluster, size in zip(names, sizes, strict=True)
    )


class Clusters(Variant, frozen=True):
    """Randomize, look for dependence, agree on clusters, randomize again by cluster."""

    name = "sketch-clusters"

    p: float = 0.6

    def kinds(self, parties: int) -> tuple[Kind, ...]:
        m = len(self.survey.names)
        reports = (Bounds(1, self.max_records), Bounds(1, m))
        return (
            Kind(Begin),
            Kind(First, codes=ArraySpec(dtype="u2", shape=(Bounds(1, self.max_records), m))),
            Kind(Proposal),
            Kind(Agreed),
            # The range of a code is negotiated, so no specification can hold it.
            Kind(Second, codes=ArraySpec(dtype="u2", shape=reports, high=self.survey.cells)),
            Kind(Clustered, totals=ArraySpec(dtype="u8", shape=(Bounds(1, m),))),
        )

    async def party(self, me: Me, records: Records) -> None:
        await me.receive(Begin, AGGREGATOR)
        single = clusters_of(self.survey, self.p, together=False)
        randomizers = tuple(block.randomizer for block in single)
        codes = records.codes.astype(np.uint16)
        await me.send(AGGREGATOR, First(randomize_columns(randomizers, codes, me.stream)))
        proposal = await me.receive(Proposal, AGGREGATOR)
        if proposal.blocks not in (clusters_of(self.survey, self.p, t) for t in (True, False)):
            raise PrivacyError("asked with clusters that were not agreed to")
        await me.send(AGGREGATOR, Agreed())
        columns = []
        for block in proposal.blocks:
            axes = list(self.survey.axes(block.attributes))
            columns.append(join_codes(records.codes[:, axes], [self.survey.sizes[a] for a in axes]))
        cells = np.stack(columns, axis=1).astype(np.uint16)
        randomizers = tuple(block.randomizer for block in proposal.blocks)
        await me.send(AGGREGATOR, Second(randomize_columns(randomizers, cells, me.stream)))

    async def aggregator(self, me: Me, parties: Sequence[PartyId]) -> Clustered:
        await me.broadcast(parties, Begin())
        firsts = await me.gather(
            First, parties, within=self.patience, at_least=self.quorum_of(len(parties))
        )
        pilot = np.concatenate([first.codes for first in firsts.values()]).astype(np.int64)
        centred = pilot - pilot.mean(axis=0)
        together = bool(abs((centred[:, 0] * centred[:, 1]).sum()) > 0.2 * len(pilot))
        blocks = clusters_of(self.survey, self.p, together)
        await me.broadcast(firsts, Proposal(blocks))
        willing = await me.gather(Agreed, tuple(firsts), within=self.patience)
        seconds = await me.gather(
            Second, tuple(willing), within=self.patience, at_least=self.quorum_of(len(parties))
        )
        codes = [second.codes for second in seconds.values()]
        # A sender who keeps to the specification may still not keep to the clusters.
        fitting = [c for c in codes if c.shape[1] == len(blocks)]
        totals = np.concatenate(fitting).sum(axis=0, dtype=np.uint64)
        return Clustered(blocks, len(fitting), totals)

    def reveals(self, message: Message, seen: Seen) -> PrivacyEvent:
        match message:
            case First():
                return event_of(clusters_of(self.survey, self.p, together=False))
            case Proposal() | Clustered():
                return Derived()
            case Begin() | Agreed():
                return Public()
            case Second():
                proposal = seen.get(Proposal, AGGREGATOR)
                try:
                    if proposal is not None and sizes_of(self.survey, proposal.blocks):
                        return event_of(proposal.blocks)
                except ValueError:
                    pass
        return Plain(self.survey.names)


def records_with(dependence: bool, n: int) -> Records:
    """Answers to both questions that are the same, or that have nothing to do with each other."""
    codes = answers(SURVEY, n).codes.copy()
    if dependence:
        codes[:, 1] = 2 * codes[:, 0]
    return Records.from_codes(SURVEY, codes)


@pytest.mark.parametrize("dependence", [True, False])
def test_clusters_are_negotiated(dependence: bool) -> None:
    charter = charter_of(Clusters(survey=SURVEY, p=0.9), parties=40)
    outcome = everywhere(charter, holdings_of(charter, records_with(dependence, 40)))
    result = outcome.run.result
    assert isinstance(result, Clustered)
    assert result.blocks == clusters_of(SURVEY, 0.9, together=dependence)
    assert result.answered == 40
    assert set(outcome.run.endings.values()) == {DONE}
    assert outcome.follows()
    # What the second report told depends on what was negotiated, and so does the ledger.
    single, chosen = (
        math.fsum(math.log1p(b.randomizer.size * 0.9 / 0.1) for b in blocks)
        for blocks in (clusters_of(SURVEY, 0.9, together=False), result.blocks)
    )
    ledger = outcome.ledgers(AGGREGATOR).ledger(AGGREGATOR)
    assert ledger.record_epsilon == pytest.approx(single + chosen, abs=1e-9)


def test_clusters_that_were_not_agreed_to_are_declined() -> None:
    charter = charter_of(Clusters(survey=SURVEY, p=0.6))
    machine = machine_of(charter, ONE)
    machine.start(0.0)
    greedy = Proposal(clusters_of(SURVEY, 0.99, together=True))
    for seq, message in enumerate((Begin(), greedy)):
        machine.receive(envelope(charter, AGGREGATOR, seq, message, to=ONE), 0.0)
    assert [e.kind for e in words_of(machine)] == ["First", "Declined"]
    assert isinstance(machine.failure, PrivacyError)


def test_a_party_that_leaves_the_negotiation_is_counted_out() -> None:
    charter = charter_of(Clusters(survey=SURVEY, p=0.9), parties=40)

    def crash(item: Envelope) -> Fate:
        early = (item.sender, item.kind) in ((ONE, "First"), (TWO, "Agreed"), (THREE, "Second"))
        return Fate(Verdict.CRASH) if early else PASS

    outcome = everywhere(charter, holdings_of(charter, records_with(True, 40)), fate=crash)
    assert isinstance(outcome.run.result, Clustered)
    assert outcome.run.result.answered == 37
    assert outcome.follows()
