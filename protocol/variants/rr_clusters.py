"""RR-Clusters: learn which attributes depend on each other, agree on clusters, randomize those."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from protocol.arrays import Array, ArraySpec, Bounds, name_of, smallest_dtype
from protocol.codec import SCALAR_BYTES, Kind
from protocol.errors import LocalProtocolError, PrivacyError, ProtocolError, RemoteProtocolError
from protocol.estimators.clustering import Clusters
from protocol.estimators.counts import Counts
from protocol.estimators.dependence import MEASURES, Dependences
from protocol.estimators.joint import Block, JointEstimate
from protocol.messages import AGGREGATOR, Message, PartyId
from protocol.privacy.events import Derived, Masked, Plain, PrivacyEvent, Public
from protocol.records import Records
from protocol.roles import Me, Seen
from protocol.sharing.sums import SecureSum
from protocol.variant import Claim, Variant
from protocol.variants.negotiation import Dependence, Negotiated, Negotiation
from protocol.variants.pair_rr import pair_event, randomized_pairs, waived
from protocol.variants.reports import (
    Ask,
    Report,
    codes_of,
    consent,
    event_of,
    fits,
    pooled,
    randomized,
    sizes_of,
)


class Pilot(Message, frozen=True):
    """The question of section 4.1: every attribute by itself."""

    survey: bytes
    blocks: tuple[Block, ...]


class PilotReport(Message, frozen=True):
    """The answer to it, (k, m)."""

    codes: Array


class Proposal(Message, frozen=True):
    """The clusters that the aggregator proposes, and the reports that it computed them from."""

    clusters: Clusters
    codes: Array
    counts: Array


class Clustered(Message, frozen=True):
    """The published result.

    Args:
        clusters: what was agreed on.
        codes, counts: how often each randomized record was reported, as in ``Pooled``.
        pilot_codes, pilot_counts: the same of the reports that the dependences were learned from.
        totals: or the summed counts of all pairs.
        accused: whose shares, words or reports did not hold, a bitmap.
    """

    clusters: Clusters
    codes: Array
    counts: Array
    pilot_codes: Array
    pilot_counts: Array
    totals: Array
    accused: bytes


class RRClusters(Variant, frozen=True, kw_only=True):
    """RR-Clusters of Domingo-Ferrer and Soria-Comas, Multi-Dimensional Randomized Response.

    Dependences are learned in one of three ways (4.1, 4.2, 4.3), Algorithm 1 makes clusters of
    them, and every cluster is randomized as one at the matched epsilon (6.3.2, corrected). With
    4.2 and 4.3 every party computes the clusters by itself, and goes on only if its neighbours
    hold the same totals and clusters. With 4.1 the aggregator proposes them and publishes what they
    follow from; a party checks that, and that its own report is in it.

    Args:
        p: the keep probability of an attribute by itself; of a pair, where pairs are randomized.
        tv: T_v, the most combinations of categories in a cluster.
        td: T_d, the least dependence of clusters that are merged.
        dependence: how dependences are learned.
        measure: of dependence: auto, or the name of one.
        sums: the profile of the secure sum and its bounds.
    """

    name = "rr-clusters"
    heeds = (Pilot, Ask)

    p: Annotated[float, Meta(gt=0, lt=1)]
    tv: Annotated[int, Meta(ge=1)]
    td: Annotated[float, Meta(ge=0)]
    dependence: Dependence = "secure-sum"
    measure: str = "auto"
    sums: SecureSum = SecureSum()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.measure not in ("auto", *MEASURES):
            raise ValueError(f"measure {self.measure!r}: expected auto, {', '.join(MEASURES)}")
        if len(self.survey.names) < 2:
            raise ValueError("clusters take at least 2 attributes")

    @functools.cached_property
    def negotiation(self) -> Negotiation:
        """How clusters follow from what is learned."""
        return Negotiation(
            survey=self.survey,
            dependence=self.dependence,
            p=self.p,
            tv=self.tv,
            td=self.td,
            measure=self.measure,
        )

    @property
    def by_reports(self) -> bool:
        """Whether dependences are learned from independently randomized reports (4.1)."""
        return self.dependence in ("rr", "rr-debiased")

    async def party(self, me: Me, records: Records) -> None:
        """Learn the clusters, make sure of them, report."""
        if self.by_reports:
            negotiated = await self._by_reports(me, records)
        else:
            negotiated = await self._by_sums(me, records)
        ask = await me.receive(Ask, AGGREGATOR)
        if ask.blocks != negotiated.blocks:
            raise PrivacyError("asked to randomize other clusters than negotiated")
        consent(self.survey, negotiated.blocks, ask)
        codes = randomized(records, ask.blocks, me, ask)
        await me.send(AGGREGATOR, Report(codes.astype(self._report_dtype)))

    async def _by_reports(self, me: Me, records: Records) -> Negotiated:
        pilot = await me.receive(Pilot, AGGREGATOR)
        if (pilot.survey, pilot.blocks) != (self.survey.digest, self.negotiation.pilot):
            raise PrivacyError("asked with another survey or other randomizers than agreed")
        codes = randomized(records, pilot.blocks, me, pilot).astype(self.survey.dtype)
        await me.send(AGGREGATOR, PilotReport(codes))
        proposal = await me.receive(Proposal, AGGREGATOR)
        negotiated, reported = self._checked(proposal)
        if not all(row.tobytes() in reported for row in codes):
            raise RemoteProtocolError("this party's report is not in it", field="Proposal.codes")
        return negotiated

    async def _by_sums(self, me: Me, records: Records) -> Negotiated:
        negotiation, sums = self.negotiation, self.sums
        begin = await sums.begun(me, survey=self.survey.digest)
        if self.dependence == "pair-rr":
            values = randomized_pairs(negotiation.layout, negotiation.pairs, records, me, begin)
        else:
            values = negotiation.layout.counted(negotiation.layout.cells_of(records))
        summed = await sums.contribute(
            me,
            begin,
            values,
            groups=negotiation.layout.groups,
            respondents=len(records),
            most=len(me.roster.parties) * self.max_records,
            quorum=self.quorum,
            everyone=True,
        )
        if summed is None:
            raise LocalProtocolError("a sum for everyone that did not come")
        negotiated = negotiation.from_totals(summed.totals)
        await sums.agree(me, summed, negotiated.digest)
        return negotiated

    async def aggregator(self, me: Me, parties: Sequence[PartyId]) -> Clustered:
        """Learn the dependences, ask by cluster, pool."""
        survey = self.survey
        pilot = Counts.of(np.zeros((0, len(survey.sizes)), survey.dtype), survey.sizes)
        totals, accused = np.zeros(0, np.uint32), set[PartyId]()
        if self.by_reports:
            await me.broadcast(parties, Pilot(self.survey.digest, self.negotiation.pilot))
            answers = await me.gather(
                PilotReport, parties, within=self.patience, at_least=self.quorum
            )
            reported = np.concatenate([answer.codes for answer in answers.values()])
            pilot = Counts.of(reported, self.survey.sizes)
            negotiated = self.negotiation.from_reports(pilot)
            willing = tuple(answers)
            proposal = Proposal(negotiated.clusters, pilot.codes, pilot.counts.astype(np.uint32))
            await me.broadcast(willing, proposal)
        else:
            summed = await self.sums.collect(
                me,
                survey=self.survey.digest,
                groups=self.negotiation.layout.groups,
                max_records=self.max_records,
                within=self.patience,
                quorum=self.quorum,
                everyone=True,
            )
            totals, accused = summed.totals.astype(np.uint32), set(summed.accused)
            negotiated = self.negotiation.from_totals(totals)
            willing = await self.sums.carry(me, summed, within=self.patience, quorum=self.quorum)
        await me.broadcast(willing, Ask(self.survey.digest, negotiated.blocks))
        reports = await me.gather(Report, willing, within=self.patience, at_least=self.quorum)
        fit = {name: r.codes for name, r in reports.items() if fits(r.codes, negotiated.blocks)}
        accused.update(name for name in reports if name not in fit)
        if len(fit) < self.quorum:
            raise ProtocolError(f"{len(fit)} reports fit the clusters, {self.quorum} needed")
        codes = codes_of(self.survey, negotiated.blocks, np.concatenate(list(fit.values())))
        counts = Counts.of(codes, self.survey.sizes)
        return Clustered(
            negotiated.clusters,
            counts.codes,
            counts.counts.astype(np.uint32),
            pilot.codes,
            pilot.counts.astype(np.uint32),
            totals,
            me.roster.bitmap(sorted(accused)),
        )

    def reveals(self, message: Message, seen: Seen) -> PrivacyEvent:
        """A report's randomizers are those it was asked with; unasked, it may be anything."""
        match message:
            case Pilot() | Ask():
                return Public()
            case Proposal() | Clustered():
                return Derived()
            case PilotReport():
                asked = seen.last(Pilot, AGGREGATOR)
                return self._report_event(asked)
            case Report():
                return self._report_event(seen.last(Ask, AGGREGATOR))
            case _:
                event = self.sums.reveals(message, self.told)
                return Plain(self.survey.names) if event is None else event

    @functools.cached_property
    def told(self) -> PrivacyEvent:
        """What a party's contribution to the sum tells, whoever puts everything together."""
        if self.dependence == "pair-rr":
            return pair_event(self.survey, self.negotiation.pairs)
        return Masked(self.survey.names)

    def _report_event(self, asked: Pilot | Ask | None) -> PrivacyEvent:
        if asked is None or asked.survey != self.survey.digest:
            return Plain(self.survey.names)
        event = self._events.get(asked.blocks)
        if event is None:
            try:
                sizes_of(self.survey, asked.blocks)
            except ValueError:
                return Plain(self.survey.names)
            event = self._events[asked.blocks] = event_of(asked.blocks)
        return event

    @functools.cached_property
    def _events(self) -> dict[tuple[Block, ...], PrivacyEvent]:
        # There are two at most that a party answers to: the pilot's and the clusters'.
        return {}

    @property
    def _largest(self) -> int:
        """The most cells that a cluster can have."""
        return max(min(self.tv, self.survey.cells), *self.survey.sizes)

    @property
    def _report_dtype(self) -> np.dtype[np.unsignedinteger]:
        return smallest_dtype(self._largest)

    def kinds(self, parties: int) -> tuple[Kind, ...]:
        survey, m = self.survey, len(self.survey.sizes)
        respondents = parties * self.max_records
        asked = SCALAR_BYTES + 4 * len(msgspec.msgpack.encode(self.negotiation.pilot))
        cells = self.negotiation.layout.cells if not self.by_reports else 0
        codes = ArraySpec(
            dtype=name_of(survey.dtype), shape=(Bounds(0, respondents), m), high=survey.sizes
        )
        counts = ArraySpec(dtype="u4", shape=(Bounds(0, respondents),), low=1, high=respondents + 1)
        ways: tuple[Kind, ...]
        if self.by_reports:
            held = (Bounds(1, self.max_records), m)
            own = ArraySpec(dtype=name_of(survey.dtype), shape=held, high=survey.sizes)
            ways = (
                Kind(Pilot, scalar_bytes=asked),
                Kind(PilotReport, codes=own),
                Kind(Proposal, scalar_bytes=asked, codes=codes, counts=counts),
            )
        else:
            ways = self.sums.kinds(cells=cells, parties=parties, respondents=respondents)
        return (
            *ways,
            Kind(Ask, scalar_bytes=asked),
            Kind(
                Report,
                # How many columns there are is negotiated, and so is what each may hold.
                codes=ArraySpec(
                    dtype=name_of(self._report_dtype),
                    shape=(Bounds(1, self.max_records), Bounds(1, m)),
                    high=self._largest,
                ),
            ),
            Kind(
                Clustered,
                scalar_bytes=asked + parties,
                codes=codes,
                counts=counts,
                pilot_codes=codes,
                pilot_counts=counts,
                totals=ArraySpec(dtype="u4", shape=(Bounds(0, cells),), high=respondents + 1),
            ),
        )

    def negotiated(self, result: Message) -> Negotiated:
        """The dependences and the clusters that a published result stands on.

        Raises:
            ValueError: the clusters do not follow from the counts beside them.
        """
        if not isinstance(result, Clustered):
            raise LocalProtocolError(f"{result.kind()!r} is no result of {self.name!r}")
        if self.by_reports:
            counts = pooled(self.survey, result.pilot_codes, result.pilot_counts)
            negotiated = self.negotiation.from_reports(counts)
        else:
            if len(result.totals) != self.negotiation.layout.cells:
                raise ValueError(f"{len(result.totals)} totals of {self.negotiation.layout.cells}")
            negotiated = self.negotiation.from_totals(result.totals)
        if negotiated.clusters != result.clusters:
            raise ValueError("the clusters do not follow from the counts beside them")
        return negotiated

    def dependences(self, result: Message) -> Dependences:
        """The dependences that a published result stands on.

        Raises:
            ValueError: as ``negotiated``.
        """
        return self.negotiated(result).dependences

    def estimate(self, result: Message) -> JointEstimate:
        blocks = self.negotiated(result).blocks
        if not isinstance(result, Clustered):
            raise LocalProtocolError(f"{result.kind()!r} is no result of {self.name!r}")
        counts = pooled(self.survey, result.codes, result.counts)
        return JointEstimate(self.survey, blocks, counts)

    def _checked(self, proposal: Proposal) -> tuple[Negotiated, frozenset[bytes]]:
        """What a proposal's reports lead to, and its rows."""
        known = self._proposals.get(id(proposal))
        if known is not None and known[0] is proposal:
            return known[1]
        try:
            counts = pooled(self.survey, proposal.codes, proposal.counts)
            negotiated = self.negotiation.from_reports(counts)
        except ValueError as error:
            raise RemoteProtocolError(str(error), field="Proposal") from error
        if negotiated.clusters != proposal.clusters:
            raise RemoteProtocolError("does not follow from the reports", field="Proposal.clusters")
        found = negotiated, frozenset(row.tobytes() for row in proposal.codes)
        self._proposals.clear()
        self._proposals[id(proposal)] = proposal, found
        return found

    @functools.cached_property
    def _proposals(self) -> dict[int, tuple[Proposal, tuple[Negotiated, frozenset[bytes]]]]:
        # A broadcast reaches tens of thousands of parties of one process as one object.
        return {}

    def claims(self) -> tuple[Claim, ...]:
        single = math.fsum(block.randomizer.epsilon for block in self.negotiation.pilot)
        matched = Claim(
            source="Multi-Dimensional Randomized Response, section 6.3.2",
            says="the release by clusters costs what RR-Independent costs",
            epsilon=single,
        )
        if self.dependence == "pair-rr":
            return matched, waived(self.negotiation.pairs)
        if self.dependence == "secure-sum":
            return matched, Claim(
                source="Multi-Dimensional Randomized Response, section 4.2",
                says="exact counts of pairs are no risk, as no pair identifies anybody",
                epsilon=None,
            )
        return (matched,)
