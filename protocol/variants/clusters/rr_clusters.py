"""RR-Clusters: learn which attributes depend on each other, agree on clusters, randomize those."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from protocol.accounting.accountants import PureAccountant
from protocol.accounting.events import Plain, PrivacyEvent
from protocol.errors import LocalProtocolError, PrivacyError, ProtocolError, RemoteProtocolError
from protocol.estimators.counts import Counts
from protocol.estimators.dependence.dependence import MEASURES
from protocol.estimators.joint import Block, JointReports
from protocol.estimators.linear import LinearEstimate
from protocol.estimators.releases.combined import CombinedReleases
from protocol.estimators.releases.release import Release
from protocol.messages import AGGREGATOR, SCALAR_BYTES, Message, PartyId
from protocol.session.roles import Me, Seen
from protocol.session.so_far import OneWait, SoFar, Waiting
from protocol.session.variant import Claim, Probability, Variant
from protocol.sharing.messages import Totals
from protocol.sharing.sums import SecureSum, Sum, Summed, totals_digest
from protocol.surveys.limits import Workload, workload_of_groups
from protocol.surveys.records import Records
from protocol.variants.clusters.clustering import Clusters
from protocol.variants.clusters.negotiation import Dependence, Negotiated, Negotiation
from protocol.variants.clusters.stability import Draw, Stability, stability
from protocol.variants.reports.reports import (
    Ask,
    Report,
    blocks_event,
    cells_per_block,
    cells_to_codes,
    consent,
    fits,
    pooled,
    randomized,
)
from protocol.variants.sums.pair_rr import pair_event, randomized_pairs, waived
from protocol.variants.sums.tallies import all_pairs
from protocol.wire.arrays import Array, ArraySpec, Bounds, smallest_dtype
from protocol.wire.codec import Kind


class Pilot(Message, frozen=True):
    """The question of section 4.1: every attribute by itself."""

    scalar_bytes = "ask_bytes"

    survey: bytes
    blocks: tuple[Block, ...]


class PilotReport(Message, frozen=True):
    """The answers of one party's respondents, each attribute randomized by itself, (k, m)."""

    codes: Annotated[
        Array, ArraySpec(shape=(Bounds(1, "max_records"), "survey.sizes"), high="survey.sizes")
    ]


class Proposal(Message, frozen=True):
    """The clusters that the aggregator proposes, and the pair tables that they follow from."""

    scalar_bytes = "ask_bytes"

    clusters: Clusters
    respondents: int
    totals: Annotated[
        Array, ArraySpec(dtype="u4", shape=("negotiation.layout.cells",), most="respondents")
    ]


class Clustered(Message, frozen=True):
    """The published result.

    Args:
        clusters: what was agreed on.
        codes, counts: the number of reports of each randomized record, as in ``Pooled``.
        learned: the number of respondents that the dependences were learned from.
        parties: the number of parties that spoke for them.
        totals: the counts of all pairs, true or of reports.
        accused: the parties with invalid shares, messages or reports, a bitmap.
    """

    clusters: Clusters
    codes: Array
    counts: Array
    learned: int
    parties: int
    totals: Array
    accused: bytes


class RRClusters(Variant, frozen=True, kw_only=True):
    """RR-Clusters of Domingo-Ferrer and Soria-Comas, Multi-Dimensional Randomized Response.

    Dependences are learned in one of three ways (4.1, 4.2, 4.3), Algorithm 1 makes clusters of
    them, and every cluster is randomized as one at the matched epsilon (6.3.2, corrected). Every
    party computes the clusters by itself, and goes on only if its neighbours hold the same totals
    and clusters. With 4.2 and 4.3 the totals come from a secure sum. With 4.1 the aggregator sends
    totals and clusters, and a party checks that the clusters follow and that the totals include its
    own report.

    The estimate combines both releases: the counts of pairs and the reports by cluster
    (``CombinedReleases``). Exact counts of pairs stay exact, with their margins. ``final`` is the
    estimate from the reports by cluster alone, as printed.

    The data that the clusters follow from is used again in the estimate. So intervals hold over
    learning and reports together. Given that two attributes are in one cluster, or are not,
    estimates of their pair are biased by a part of a standard error (docs/corrections.md
    has the figures). Exact counts and ``final`` have no such bias.

    Args:
        p: probability of keeping an attribute by itself. It is that of a pair too, where pairs are
            randomized.
        tv: T_v: most combinations in a cluster.
        td: T_d: least dependence of clusters that are merged.
        dependence: learned by rr, rr-debiased, secure-sum or pair-rr.
        measure: of dependence: auto, cramers-v, pearson or covariance.
        sums: the profile of the secure sum and its bounds; with 4.1, which sums nothing, those of
            the neighbours who compare.
    """

    name = "rr-clusters"
    heeds = (Pilot, Ask)
    messages = (Pilot, PilotReport, Proposal, Ask)
    public = (Pilot, Ask)
    derived = (Proposal, Clustered)
    untabulated = "its parties check each other's clusters, so none answers by itself"

    p: Probability
    tv: Annotated[int, Meta(ge=1, le=2**32)]
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
        if not 1 <= self.tv <= 2**32:
            raise ValueError(f"tv {self.tv}: expected 1 to 2**32 combinations")
        if not math.isfinite(self.td):
            raise ValueError(f"td {self.td}: expected a finite number")
        if self.sums.noise is not None and self.dependence != "secure-sum":
            raise ValueError("noise: reports are randomized already, expected none")
        # Computed here, so that a keep probability that fits no domain is refused at once.
        if not (self.negotiation.pilot and self.negotiation.pairs):
            raise ValueError("expected at least 2 attributes to learn a dependence of")

    def workload(self) -> Workload:
        return workload_of_groups(self.survey.sizes, 2)

    @functools.cached_property
    def negotiation(self) -> Negotiation:
        """Rule by which clusters follow from the counts."""
        return Negotiation(
            survey=self.survey,
            dependence=self.dependence,
            p=self.p,
            tv=self.tv,
            td=self.td,
            measure=self.measure,
            noise=self.sums.noise,
        )

    @property
    def by_reports(self) -> bool:
        """True if dependences are learned from independently randomized reports (4.1)."""
        return self.dependence in ("rr", "rr-debiased")

    @property
    def contribution(self) -> type[Message]:
        """Kind of message that the dependences are learned from; the estimate uses it too."""
        return PilotReport if self.by_reports else self.sums.contribution

    def so_far(self, session: bytes) -> SoFar:
        """The estimate from the totals, once known, and the reports by cluster so far."""
        return _SoFar(self)

    async def party(self, me: Me, records: Records) -> None:
        """Learn the clusters, compare them with the neighbours' ones, report."""
        if self.by_reports:
            negotiated = await self._learn_from_reports(me, records)
        else:
            negotiated = await self._learn_from_sums(me, records)
        ask = await me.receive(Ask, AGGREGATOR)
        if ask.blocks != negotiated.blocks:
            raise PrivacyError("asked to randomize other clusters than negotiated")
        consent(self.survey, negotiated.blocks, ask)
        codes = randomized(records, ask.blocks, me.stream_for(ask))
        await me.send(AGGREGATOR, Report(codes.astype(self._report_dtype)))

    async def _learn_from_reports(self, me: Me, records: Records) -> Negotiated:
        sums, event = self.sums, blocks_event(self.negotiation.pilot)
        await sums.begun(me, survey=self.survey.digest, event=event)
        hood = await sums.join(me, respondents=len(records))
        pilot = await me.receive(Pilot, AGGREGATOR)
        if (pilot.survey, pilot.blocks) != (self.survey.digest, self.negotiation.pilot):
            raise PrivacyError("asked with another survey or other randomizers than agreed")
        codes = randomized(records, pilot.blocks, me.stream_for(pilot)).astype(self.survey.dtype)
        await me.send(AGGREGATOR, PilotReport(codes))
        proposal = await me.receive(Proposal, AGGREGATOR)
        totals = proposal.totals.astype(np.int64)
        respondents, groups = proposal.respondents, self.negotiation.layout.groups
        parties, most = hood.joined, hood.respondents
        self.sums.check(totals, respondents, groups, parties, least=len(records), most=most)
        # The aggregator has these reports, so a refusal reveals nothing about them.
        if (totals < self._pair_counts(codes)).any():
            raise RemoteProtocolError("smaller than this party's own counts", field="totals")
        negotiated = self._negotiated(totals, respondents, parties)
        if negotiated.clusters != proposal.clusters:
            raise RemoteProtocolError("does not follow from the tables", field="Proposal.clusters")
        summed = Summed(totals, respondents, hood, totals_digest(totals, respondents))
        await sums.agree(me, summed, negotiated.digest)
        return negotiated

    def _pair_counts(self, codes: NDArray[np.unsignedinteger]) -> NDArray[np.uint32]:
        """The counts of all pairs among some records."""
        layout = self.negotiation.layout
        return layout.counted(layout.table_cells(Records(self.survey, codes)))

    def _negotiated(
        self, totals: NDArray[np.integer], respondents: int, parties: int
    ) -> Negotiated:
        """Negotiate from received totals.

        Raises:
            RemoteProtocolError: they are not counts of the same respondents.
        """
        try:
            return self.negotiation.from_totals(totals, respondents, parties)
        except ValueError as error:
            raise RemoteProtocolError(str(error), field="totals") from error

    async def _learn_from_sums(self, me: Me, records: Records) -> Negotiated:
        negotiation, sums = self.negotiation, self.sums
        parties = len(me.roster) - 1
        begin = await sums.begun(me, survey=self.survey.digest, event=self.contribution_event)
        if self.dependence == "pair-rr":
            values = randomized_pairs(negotiation.layout, negotiation.pairs, records, me, begin)
        else:
            values = negotiation.layout.counted(negotiation.layout.table_cells(records))
        summed = await sums.contribute(
            me,
            values,
            groups=negotiation.layout.groups,
            respondents=len(records),
            most=parties * self.max_records,
            quorum=self.quorum_of(parties),
            everyone=True,
        )
        if summed is None:
            raise LocalProtocolError("expected the totals, since the sum is for everyone")
        negotiated = self._negotiated(summed.totals, summed.respondents, summed.hood.joined)
        await sums.agree(me, summed, negotiated.digest)
        return negotiated

    async def aggregator(self, me: Me, parties: Sequence[PartyId]) -> Clustered:
        """Learn the dependences, ask by cluster, pool."""
        quorum = self.quorum_of(len(parties))
        if self.by_reports:
            summed, negotiated = await self._collect_reports(me, quorum)
        else:
            summed, negotiated = await self._collect_sums(me, quorum)
        willing = await self.sums.carry(me, summed, within=self.patience, quorum=quorum)
        await me.broadcast(willing, Ask(self.survey.digest, negotiated.blocks))
        reports = await me.gather(Report, willing, within=self.patience, at_least=quorum)
        fit = {name: r.codes for name, r in reports.items() if fits(r.codes, negotiated.blocks)}
        if len(fit) < quorum:
            raise ProtocolError(f"{len(fit)} reports fit the clusters, {quorum} needed")
        accused = {*summed.accused, *(name for name in reports if name not in fit)}
        return self.clustered(
            negotiated,
            list(fit.values()),
            learned=summed.respondents,
            parties=len(summed.survivors),
            totals=summed.totals.astype(np.uint32),
            accused=me.roster.bitmap(sorted(accused)),
        )

    async def _collect_reports(self, me: Me, quorum: int) -> tuple[Sum, Negotiated]:
        """Ask for pilot reports, and propose the clusters that follow from their pairs."""
        meeting = await self.sums.meet(
            me,
            survey=self.survey.digest,
            max_records=self.max_records,
            within=self.patience,
            quorum=quorum,
        )
        joined = tuple(meeting.joins)
        needed = self.sums.needed(len(me.roster.parties), quorum)
        await me.broadcast(joined, Pilot(self.survey.digest, self.negotiation.pilot))
        answers = await me.gather(PilotReport, joined, within=self.patience, at_least=needed)
        # Everybody knows how many respondents each party speaks for.
        fit = {
            name: answer.codes
            for name, answer in answers.items()
            if len(answer.codes) == meeting.joins[name].respondents
        }
        if len(fit) < needed:
            raise ProtocolError(f"{len(fit)} pilot reports fit, {needed} needed")
        reported, willing = np.concatenate(list(fit.values())), tuple(fit)
        totals = self._pair_counts(reported)
        negotiated = self.negotiation.from_totals(totals, len(reported), len(fit))
        await me.broadcast(willing, Proposal(negotiated.clusters, len(reported), totals))
        accused = tuple(name for name in answers if name not in fit)
        summed = Sum(totals.astype(np.int64), willing, len(reported), accused, meeting.hoods)
        return summed, negotiated

    async def _collect_sums(self, me: Me, quorum: int) -> tuple[Sum, Negotiated]:
        """Sum the counts of all pairs, from which the clusters follow."""
        summed = await self.sums.collect(
            me,
            survey=self.survey.digest,
            groups=self.negotiation.layout.groups,
            max_records=self.max_records,
            within=self.patience,
            quorum=quorum,
            everyone=True,
        )
        totals = summed.totals.astype(np.uint32)
        try:
            negotiated = self.negotiation.from_totals(
                totals, summed.respondents, len(summed.survivors)
            )
        except ValueError as error:
            raise ProtocolError(f"the totals are not counts: {error}") from error
        return summed, negotiated

    def clustered(
        self,
        negotiated: Negotiated,
        reports: Sequence[NDArray[np.unsignedinteger]],
        *,
        learned: int,
        parties: int,
        totals: NDArray[np.uint32],
        accused: bytes,
    ) -> Clustered:
        """The result.

        Args:
            negotiated: the clusters.
            reports: by cluster, all of which fit.
            learned, parties, totals, accused: as published.
        """
        codes = cells_to_codes(self.survey, negotiated.blocks, np.concatenate(reports))
        counts = Counts.of(codes, self.survey.sizes)
        return Clustered(
            negotiated.clusters,
            counts.codes,
            counts.counts.astype(np.uint32),
            learned,
            parties,
            totals,
            accused,
        )

    def reveals(self, message: Message, seen: Seen) -> PrivacyEvent:
        """Event of a report: its randomizers are those of the question; all answers without one."""
        match message:
            case PilotReport():
                return self._report_event(seen.get(Pilot, AGGREGATOR))
            case Report():
                return self._report_event(seen.get(Ask, AGGREGATOR))
        summed = self.sums.reveals(message, self.contribution_event)
        return super().reveals(message, seen) if summed is None else summed

    @functools.cached_property
    def contribution_event(self) -> PrivacyEvent:
        """Event of a party's contribution to the sum by itself."""
        if self.dependence == "pair-rr":
            return pair_event(self.survey, self.negotiation.pairs)
        return self.sums.event(all_pairs(self.survey), self.survey.names)

    def _report_event(self, asked: Pilot | Ask | None) -> PrivacyEvent:
        if asked is None or asked.survey != self.survey.digest:
            return Plain(self.survey.names)
        event = self._events.get(asked.blocks)
        if event is None:
            try:
                cells_per_block(self.survey, asked.blocks)
            except ValueError:
                return Plain(self.survey.names)
            event = self._events[asked.blocks] = blocks_event(asked.blocks)
        return event

    @functools.cached_property
    def _events(self) -> dict[tuple[Block, ...], PrivacyEvent]:
        # At most two: for the pilot's blocks and for the clusters'.
        return {}

    @property
    def _largest(self) -> int:
        """The most cells that a cluster can have."""
        return max(min(self.tv, self.survey.cells), *self.survey.sizes)

    @property
    def _report_dtype(self) -> np.dtype[np.unsignedinteger]:
        return smallest_dtype(self._largest)

    @property
    def ask_bytes(self) -> int:
        """The most bytes of a question, and of clusters."""
        return SCALAR_BYTES + 4 * len(msgspec.msgpack.encode(self.negotiation.pilot))

    def kinds(self, parties: int) -> tuple[Kind, ...]:
        sizes, respondents = self.survey.sizes, parties * self.max_records
        cells, everybody = self.negotiation.layout.cells, (Bounds(0, respondents),)
        *ways, ask = super().kinds(parties)
        if self.by_reports:
            ways += self.sums.meeting_kinds(parties)
        else:
            ways = [*self.sums.kinds(cells=cells, parties=parties, respondents=respondents)]
        # The number of a report's columns and their cells are negotiated.
        columns = (Bounds(1, self.max_records), Bounds(1, len(sizes)))
        return (
            *ways,
            ask,
            Kind(Report, codes=ArraySpec(shape=columns, high=self._largest)),
            Kind(
                Clustered,
                scalar_bytes=self.ask_bytes + parties,
                codes=ArraySpec(shape=(*everybody, len(sizes)), high=sizes),
                counts=ArraySpec(dtype="u4", shape=everybody, low=1, most=respondents),
                totals=ArraySpec(
                    dtype="u4", shape=(cells,), most=respondents + self.sums.coins(parties)
                ),
            ),
        )

    def negotiated(self, result: Message) -> Negotiated:
        """The dependences and the clusters of a published result.

        Raises:
            ValueError: the clusters do not follow from the published counts.
        """
        found = self.published(result, Clustered)
        totals = found.totals.astype(np.int64)
        try:
            groups = self.negotiation.layout.groups
            self.sums.check(totals, found.learned, groups, found.parties)
        except RemoteProtocolError as error:
            raise ValueError(str(error)) from error
        negotiated = self.negotiation.from_totals(totals, found.learned, found.parties)
        if negotiated.clusters != found.clusters:
            raise ValueError("the clusters do not follow from the published counts")
        return negotiated

    def final(self, result: Message) -> LinearEstimate[JointReports]:
        """The estimate from the reports by cluster alone, as the paper has it.

        Raises:
            ValueError: as ``negotiated``.
        """
        found = self.published(result, Clustered)
        counts = pooled(self.survey, found.codes, found.counts)
        return LinearEstimate(JointReports(self.survey, self.negotiated(result).blocks, counts))

    def stability(self, result: Message, draw: Draw, *, redraws: int = 200) -> Stability:
        """Frequency with which pilots like that of a published result lead to the same clusters.

        Args, errors: as ``protocol.variants.clusters.stability.stability`` and ``negotiated``.
        """
        self.negotiated(result)
        found = self.published(result, Clustered)
        return stability(
            self.negotiation,
            found.totals.astype(np.int64),
            draw,
            respondents=found.learned,
            parties=found.parties,
            redraws=redraws,
        )

    def estimate(self, result: Message) -> LinearEstimate[CombinedReleases]:
        """The estimate from the counts of pairs and the reports by cluster.

        Raises:
            ValueError: as ``negotiated``.
        """
        final, found = self.final(result).source, self.published(result, Clustered)
        totals = found.totals.astype(np.int64)
        learned = self.negotiation.releases(totals, found.learned, found.parties)
        return LinearEstimate(
            CombinedReleases(self.survey, (*learned, Release.of_reports(final)), final)
        )

    def most(self) -> float:
        """Bound on the cost of learning the dependences and of one report by clusters.

        The clusters' epsilons are matched: at most those of their attributes one by one, up to the
        rounding of each sum. Infinite if the dependences are learned from exact counts.
        """
        accountant = PureAccountant()
        by_one = accountant.judge(blocks_event(self.negotiation.pilot)).record
        matched = by_one * (1 + len(self.survey.names) * 2**-52)
        learned = by_one
        if not self.by_reports:
            learned = accountant.judge(self.contribution_event).record
        return math.nextafter(learned + matched, math.inf)

    def claims(self) -> tuple[Claim, ...]:
        single = math.fsum(block.randomizer.epsilon for block in self.negotiation.pilot)
        matched = Claim(
            source="Multi-Dimensional Randomized Response, section 6.3.2",
            says="the release by clusters costs what RR-Independent costs",
            epsilon=single,
            kinds=(Report.kind(),),
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


class _SoFar(OneWait[Report]):
    """Estimate from the totals that were sent, and the reports by cluster so far."""

    def __init__(self, variant: RRClusters) -> None:
        super().__init__(Report)
        self._variant = variant
        self._learned: Totals | Proposal | None = None

    def said(self, message: Message) -> None:
        if isinstance(message, Totals | Proposal):
            self._learned = message

    def estimate(self, waiting: Waiting) -> LinearEstimate[CombinedReleases] | None:
        learned = self._learned
        if learned is None:
            return None
        totals, respondents = learned.totals, learned.respondents
        if self._variant.sums.noise is not None:
            return None  # The number of parties with coins in the totals comes with the result.
        negotiated = self._variant.negotiation.from_totals(totals.astype(np.int64))
        come = [said.codes for said in self.come(waiting).values()]
        reports = [codes for codes in come if fits(codes, negotiated.blocks)]
        if not reports:
            return None
        variant = self._variant
        found = variant.clustered(
            negotiated, reports, learned=respondents, parties=0, totals=totals, accused=b""
        )
        return variant.estimate(found)
