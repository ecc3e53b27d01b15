"""RR-Clusters: clusters follow from the counts, everybody knows them, and the cost is charged."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol import (
    AGGREGATOR,
    Derived,
    ExactCounts,
    PartyId,
    Plain,
    Public,
    QuorumError,
    Records,
    SecureSum,
    Seen,
    Survey,
)
from protocol.audit.audit import Audit, audit
from protocol.estimators.dependence.dependence import dependences
from protocol.messages import DONE, Declined
from protocol.session.exchange import Exchange
from protocol.testing import contract
from protocol.variants import RRClusters
from protocol.variants.clusters.clustering import cluster, matched_blocks
from protocol.variants.clusters.negotiation import Dependence
from protocol.variants.clusters.rr_clusters import Clustered, Pilot, PilotReport, Proposal
from protocol.variants.reports.reports import Ask, Report
from protocol.variants.sums.pair_rr import pair_randomizers
from protocol.variants.sums.tallies import all_pairs
from scenarios import EXECUTORS
from tests.enumeration import survey_of
from tests.protocol.sessions import charter_of, everywhere, holdings_of, rehearsed
from tests.protocol.sharing.test_sums import LITERAL, SPARSE, STRICT, vanishing
from tests.protocol.sharing.test_sums_attacks import Rewrite, change, rewriting
from tests.recorded.forgeries import Forgery
from tests.recorded.runs import Run, recorded
from tests.tiers import paired, thinned

ONE, TWO, THREE = (PartyId(f"party-{i}") for i in (1, 2, 3))
SURE = 1 - 2**-40
WAYS: tuple[Dependence, ...] = ("rr", "rr-debiased", "secure-sum", "pair-rr")
BY_SUMS: tuple[Dependence, ...] = WAYS[2:]
THREEFOLD = survey_of(2, 3, 2)


def variant_of(
    dependence: Dependence, *, p: float = 0.7, sums: SecureSum = SPARSE, **terms: Any
) -> RRClusters:
    fields: dict[str, Any] = {"tv": 6, "td": 0.3, **terms}
    return RRClusters(survey=THREEFOLD, p=p, dependence=dependence, sums=sums, **fields)


def dependent(n: int) -> Records:
    """Answers in which b follows from a, and c has nothing to do with either."""
    codes = np.zeros((n, 3), np.uint8)
    codes[:, 0] = np.arange(n) % 2
    codes[:, 1] = 2 * codes[:, 0]
    codes[:, 2] = np.arange(n) // 2 % 2
    return Records(THREEFOLD, codes)


RECORDS = dependent(6)

test_by_reports = contract(variant_of("rr"), RECORDS, executors=EXECUTORS)
test_by_debiased_reports = pytest.mark.slow(
    contract(variant_of("rr-debiased"), RECORDS, executors=EXECUTORS, parties=3)
)
test_by_exact_counts = pytest.mark.slow(
    contract(variant_of("secure-sum"), RECORDS, executors=EXECUTORS, parties=4)
)
test_by_exact_counts_as_printed = pytest.mark.slow(
    contract(variant_of("secure-sum", sums=LITERAL), RECORDS, executors=EXECUTORS, parties=3)
)
test_by_randomized_pairs = pytest.mark.slow(
    contract(variant_of("pair-rr"), RECORDS, executors=EXECUTORS, parties=4)
)
test_by_randomized_pairs_as_printed = pytest.mark.slow(
    contract(variant_of("pair-rr", sums=LITERAL), RECORDS, executors=EXECUTORS, parties=3)
)


def session(
    variant: RRClusters,
    n: int = 8,
    *,
    rewrite: Rewrite | None = None,
    gone: Mapping[PartyId, str] | None = None,
) -> Run:
    charter = charter_of(variant, n)
    exchange = rewriting(charter.codec, rewrite) if rewrite else Exchange
    holdings = holdings_of(charter, dependent(n))
    return rehearsed(charter, holdings, exchange=exchange, fate=vanishing(gone or {}))


def kernel_result(trial: Run) -> Clustered:
    if trial.failure is not None:
        raise trial.failure
    assert isinstance(trial.result, Clustered)
    return trial.result


@pytest.mark.slow
@pytest.mark.parametrize(("way", "td"), paired(WAYS, [0.3, 1.1]))
def test_clusters_are_those_of_algorithm_1_on_what_was_learned(way: Dependence, td: float) -> None:
    """With almost no noise every way learns the true dependences, and reports the true answers."""
    variant = variant_of(way, p=SURE, td=td)
    charter = charter_of(variant, 40)
    records = dependent(40)
    result = everywhere(charter, holdings_of(charter, records)).published
    assert isinstance(result, Clustered)
    expected = (("a", "b"), ("c",)) if td < 1 else (("a",), ("b",), ("c",))
    assert result.clusters == expected
    learned = dependences(
        [records.counts(pair) for pair in all_pairs(THREEFOLD)],
        THREEFOLD,
        measure="auto",
        method="secure-sum",
        epsilon=np.inf,
    )
    assert cluster(learned, THREEFOLD, tv=6, td=td) == expected
    estimate = variant.estimate(result)
    final = variant.final(result)
    assert final.source.blocks == matched_blocks(THREEFOLD, expected, p=SURE)
    for names in (("a",), ("a", "b"), ("c", "a"), THREEFOLD.names):
        for made in (estimate, final):
            assert np.allclose(made.table(*names).values, records.distribution(names), atol=1e-9)
    found = variant.negotiated(result).dependences
    assert (found.method, found.measure, found.names) == (way, "cramers-v", THREEFOLD.names)
    if way != "rr-debiased":
        assert np.allclose(found.matrix, learned.matrix, atol=1e-6)
    assert result.learned == 40
    pairs = np.concatenate([records.counts(pair).reshape(-1) for pair in all_pairs(THREEFOLD)])
    assert result.totals.tolist() == pairs.tolist()


@pytest.mark.parametrize("way", thinned(WAYS, 1))
def test_the_cost_of_learning_is_part_of_the_ledger(way: Dependence) -> None:
    variant = variant_of(way)
    trial_charter = charter_of(variant, 8)
    outcome = everywhere(trial_charter, holdings_of(trial_charter, dependent(8)))
    result = outcome.published
    assert isinstance(result, Clustered)
    ledger = outcome.ledger(AGGREGATOR)
    # By the closed form, not by what the variant says of itself.
    single = math.fsum(math.log1p(size * 0.7 / 0.3) for size in (2, 3, 2))
    release = math.fsum(b.randomizer.epsilon for b in variant.negotiated(result).blocks)
    assert release == pytest.approx(single, abs=1e-9)
    if way == "secure-sum":
        assert ledger.record_epsilon == math.inf
        assert "exact counts of a, b, c" in ledger.unbounded[0]
        return
    learning = single
    if way == "pair-rr":
        pairs = [r.epsilon for r in pair_randomizers(THREEFOLD, 0.7)]
        learning = math.fsum(math.log1p(size * 0.7 / 0.3) for size in (6, 4, 6))
        assert math.fsum(pairs) == pytest.approx(learning, abs=1e-9)
        assert ledger.record_epsilon == pytest.approx(math.fsum([*pairs, release]), abs=1e-12)
    assert ledger.record_epsilon == pytest.approx(learning + single, abs=1e-9)
    assert ledger.unbounded == ()
    first, *others = variant.claims()
    assert first.epsilon == pytest.approx(single, abs=1e-9)
    assert len(others) == (way == "pair-rr")


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_clusters_that_were_not_negotiated_are_refused(way: Dependence) -> None:
    other = matched_blocks(THREEFOLD, (("a",), ("b",), ("c",)), p=0.7)
    milder = matched_blocks(THREEFOLD, (("a", "b"), ("c",)), p=0.6)
    for blocks in (other, milder):
        variant = variant_of(way, p=SURE)
        trial = session(variant, rewrite=change("Ask", None, TWO, blocks=blocks))
        why = "asked to randomize other clusters than negotiated"
        assert trial.refusals() == {TWO: why}
        assert trial.messages("Report", TWO) == []
        assert kernel_result(trial).counts.sum() == 7
        trial = session(variant, rewrite=change("Ask", None, TWO, survey=bytes(32)))
        assert "another survey" in trial.refusals()[TWO]


def apart(old: Any) -> Any:
    """Other counts of a and b together, with the same counts of each."""
    old[[0, 5]] -= 1
    old[[2, 3]] += 1
    return old


@pytest.mark.parametrize("way", BY_SUMS)
def test_other_totals_for_one_end_before_any_report(way: Dependence) -> None:
    trial = session(
        variant_of(way, p=SURE, sums=STRICT), rewrite=change("Totals", None, TWO, totals=apart)
    )
    assert set(trial.refusals()) == set(trial.charter.roster.parties)
    assert all("is not confirmed by" in why for why in trial.refusals().values())
    assert trial.messages("Report") == []
    assert isinstance(trial.failure, QuorumError)


@pytest.mark.parametrize(("way", "codes"), paired(WAYS, [[[0, 0, 0]], [[0]], [[5, 5]]]), ids=str)
def test_a_report_that_does_not_fit_the_clusters_is_left_out(
    way: Dependence, codes: list[list[int]]
) -> None:
    """Two clusters of 6 and 2 cells: three columns, one column, a cell that there is not."""
    rewrite = change("Report", TWO, codes=np.array(codes, np.uint8))
    trial = session(variant_of(way, p=SURE), rewrite=rewrite)
    result = kernel_result(trial)
    assert trial.names(result.accused) == [TWO]
    assert int(result.counts.sum()) == 7
    others = np.delete(dependent(8).codes, 1, axis=0)
    rows, counts = np.unique(others, axis=0, return_counts=True)
    assert (result.codes.tolist(), result.counts.tolist()) == (rows.tolist(), counts.tolist())


def test_too_few_reports_that_fit_give_no_result() -> None:
    rewrite = change("Report", TWO, codes=np.zeros((1, 3), np.uint8))
    trial = session(variant_of("rr", p=SURE, quorum=8), rewrite=rewrite)
    assert "7 reports fit the clusters, 8 needed" in str(trial.failure)


@pytest.mark.slow
@settings(deadline=None, max_examples=25)
@given(
    st.sampled_from(WAYS),
    st.dictionaries(
        st.sampled_from([ONE, TWO, THREE]),
        st.sampled_from(["Join", "Upload", "Unmask", "Tags", "PilotReport", "Report"]),
        max_size=2,
    ),
)
def test_whoever_vanishes_is_counted_out(way: Dependence, gone: dict[PartyId, str]) -> None:
    trial = session(variant_of(way, p=SURE), 8, gone=gone)
    spoken = {"PilotReport"} if way in WAYS[:2] else {"Upload", "Unmask"}
    left = {name for name, kind in gone.items() if kind in spoken | {"Join", "Tags", "Report"}}
    result = kernel_result(trial)
    kept = [i for i, name in enumerate(trial.charter.roster.parties) if name not in left]
    rows, counts = np.unique(dependent(8).codes[kept], axis=0, return_counts=True)
    assert (result.codes.tolist(), result.counts.tolist()) == (rows.tolist(), counts.tolist())
    assert {n for n, end in trial.endings.items() if end == DONE} == {
        name for name in trial.charter.roster.parties if name not in left
    }


@pytest.mark.parametrize("kind", ["Join", "Deal", "Partial", "Tags"])
def test_nobody_may_be_missing_from_a_literal_sum(kind: str) -> None:
    trial = session(variant_of("secure-sum", sums=LITERAL), 5, gone={TWO: kind})
    assert isinstance(trial.failure, QuorumError)
    assert (trial.failure.kind, trial.failure.missing) == (kind, (TWO,))


def audited(variant: RRClusters, forge: Any = None) -> Audit:
    run = recorded(variant, dependent(8))
    file = run.content
    if forge is not None:
        forgery = Forgery(file)
        [entry] = [e[2] for e in forgery.entries if e[0] == "Sent" and e[2][4] == "Clustered"]
        codec = run.charter.codec
        entry[5] = codec.encode(forge(codec.decode("Clustered", entry[5])))
        file = forgery.write()
    return audit(lambda: [file], RRClusters)


@pytest.mark.parametrize("way", thinned(WAYS, 1))
def test_audits(way: Dependence) -> None:
    variant = variant_of(way, p=SURE)
    found = audited(variant)
    assert found.findings == ()
    assert found.verdict == "sound"
    apart = (("a",), ("b",), ("c",))
    found = audited(variant, lambda old: msgspec.structs.replace(old, clusters=apart))
    assert found.verdict == "broken"
    assert any("the clusters do not follow" in str(finding) for finding in found.findings)
    assert any("the record has another 'Clustered'" in str(finding) for finding in found.findings)
    found = audited(variant, lambda old: msgspec.structs.replace(old, counts=old.counts + 1))
    assert any("the record has another 'Clustered'" in str(finding) for finding in found.findings)


def test_what_messages_tell() -> None:
    variant = variant_of("rr")
    report, seen = Report(np.zeros((1, 2), np.uint8)), Seen()
    blocks = matched_blocks(THREEFOLD, (("a", "b"), ("c",)), p=0.7)
    assert variant.reveals(report, seen) == Plain(THREEFOLD.names)
    assert variant.reveals(PilotReport(report.codes), seen) == Plain(THREEFOLD.names)
    seen.add(TWO, Ask(THREEFOLD.digest, blocks))
    assert variant.reveals(report, seen) == Plain(THREEFOLD.names)
    seen.add(AGGREGATOR, Pilot(THREEFOLD.digest, variant.negotiation.pilot))
    assert variant.reveals(report, seen) == Plain(THREEFOLD.names)
    assert variant.reveals(PilotReport(report.codes), seen) != Plain(THREEFOLD.names)
    seen.add(AGGREGATOR, Ask(THREEFOLD.digest, blocks))
    assert variant.reveals(report, seen) != Plain(THREEFOLD.names)
    assert variant.reveals(Ask(THREEFOLD.digest, blocks), seen) == Public()
    totals = np.zeros(16, np.uint32)
    assert variant.reveals(Proposal((), 0, totals), seen) == Derived()
    assert (
        variant.reveals(Clustered((), report.codes, totals, 0, 0, totals, b""), seen) == Derived()
    )
    assert variant.reveals(Declined("terms"), seen) == Plain(THREEFOLD.names)
    assert variant_of("secure-sum").contribution_event == ExactCounts(THREEFOLD.names)


@pytest.mark.parametrize(
    ("terms", "says"),
    [
        ({"measure": "mood"}, "measure 'mood'"),
        ({"tv": 0}, "tv 0: expected 1 to"),
        ({"tv": 2**32 + 1}, "tv 4294967297: expected 1 to"),
        ({"td": math.inf}, "td inf: expected a finite number"),
        ({"td": math.nan}, "td nan: expected a finite number"),
    ],
)
def test_parameters_are_checked(terms: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        variant_of("rr", **terms)


def test_clusters_take_two_attributes_and_a_result_of_their_own() -> None:
    alone = Survey("alone", THREEFOLD.attributes[:1])
    with pytest.raises(ValueError, match="at least 2 attributes"):
        RRClusters(survey=alone, p=0.5, tv=4, td=0.1)
    result = kernel_result(session(variant_of("secure-sum")))
    short = msgspec.structs.replace(result, totals=result.totals[1:])
    with pytest.raises(ValueError, match="totals: table 0 sums to"):
        variant_of("secure-sum").estimate(short)
    long = msgspec.structs.replace(result, totals=np.append(result.totals, np.uint32(0)))
    with pytest.raises(ValueError, match="reshape"):
        variant_of("secure-sum").estimate(long)
    for learned in (0, 7, 9):
        other = msgspec.structs.replace(result, learned=learned)
        with pytest.raises(ValueError, match=r"totals: (table 0 sums|0 respondents)"):
            variant_of("secure-sum").estimate(other)
