"""RR-Clusters by reports: what the aggregator proposes follows from everybody's reports."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from protocol import (
    Counts,
    JointReports,
    LinearEstimate,
    Message,
    PartyId,
    Records,
    SecureSum,
    debiased_dependences,
)
from protocol.estimators.dependence.dependence import raw_dependences
from protocol.messages import Envelope
from protocol.variants import RRClusters
from protocol.variants.clusters.clustering import matched_blocks
from protocol.variants.clusters.negotiation import Dependence
from protocol.variants.clusters.rr_clusters import Proposal
from protocol.variants.reports.reports import Ask
from protocol.variants.sums.tallies import all_pairs
from tests.protocol.sessions import answers, charter_of
from tests.protocol.sharing.test_sums import LITERAL, STRICT
from tests.protocol.sharing.test_sums_attacks import WARY, Rewrite, change
from tests.protocol.variants.clusters.test_rr_clusters import (
    ONE,
    SURE,
    THREE,
    THREEFOLD,
    TWO,
    WAYS,
    dependent,
    kernel_result,
    session,
    variant_of,
)


@pytest.mark.parametrize("way", WAYS[:2])
@pytest.mark.parametrize("p", [0.4, 0.9])
def test_pair_tables_of_reports_say_what_the_reports_say(way: Dependence, p: float) -> None:
    variant = variant_of(way, p=p)
    codes = answers(THREEFOLD, 50).codes.copy()
    codes[:30] = dependent(30).codes
    reports = Records(THREEFOLD, codes)
    tables = np.concatenate([reports.counts(pair).reshape(-1) for pair in all_pairs(THREEFOLD)])
    found = variant.negotiation.from_totals(tables).dependences
    counts = Counts.of(reports.codes, THREEFOLD.sizes)
    learn = raw_dependences if way == "rr" else debiased_dependences
    whole = learn(
        LinearEstimate(JointReports(THREEFOLD, variant.negotiation.pilot, counts)), measure="auto"
    )
    assert np.allclose(found.matrix, whole.matrix, atol=1e-12)
    assert np.allclose(found.deviations, whole.deviations, atol=1e-12)
    assert found.epsilon == pytest.approx(whole.epsilon, abs=1e-12)
    assert found.biased == whole.biased
    assert found.matrix[0, 1] != found.matrix[0, 2]


def shifted(table: int, cells: tuple[int, int]) -> Any:
    """One report in one cell of a table less and one in another more: of as many respondents."""
    starts = (0, 6, 10)

    def shift(old: Any) -> Any:
        old[starts[table] + cells[0]] -= 1
        old[starts[table] + cells[1]] += 1
        return old

    return shift


def without_first(old: Any) -> Any:
    """All reports of a = b = 0 made to one of a = 0, b = 1, so that all margins agree."""
    ab, ac, bc = old[:6].reshape(2, 3), old[6:10].reshape(2, 2), old[10:].reshape(3, 2)
    assert ab[0].sum() == ac[0].sum() == ab[0, 0]
    ab[0, [0, 1]] = ab[0, [1, 0]]
    bc[[0, 1]] = bc[[1, 0]]
    return old


PROPOSALS: dict[str, tuple[dict[str, Any], str]] = {
    "other clusters": ({"clusters": (("a",), ("b",), ("c",))}, "does not follow from the tables"),
    "no clusters": ({"clusters": ()}, "does not follow from the tables"),
    "nobody's reports": (
        {"respondents": 0, "totals": lambda old: old * 0},
        "totals: 0 respondents, expected at least 1",
    ),
    "one respondent less": ({"respondents": 7}, "totals: table 0 sums to 8, expected 7"),
    "one report less": (
        {"totals": lambda old: old - np.eye(1, 16, 5, dtype=np.uint32)[0]},
        "totals: table 0 sums to 7, expected 8",
    ),
    "more than there are": ({"totals": lambda old: old + 1}, "totals: table 0 sums to 14"),
    "margins that contradict": (
        {"totals": shifted(0, (5, 2))},
        "the tables disagree on the counts of 'a'",
    ),
    "without its own": (
        {"totals": without_first},
        "totals: smaller than this party's own counts",
    ),
}


@pytest.mark.parametrize("what", PROPOSALS)
@pytest.mark.parametrize("way", WAYS[:2])
def test_a_proposal_that_does_not_follow_is_refused(way: Dependence, what: str) -> None:
    fields, says = PROPOSALS[what]
    # Half of the reports are a = b = 0, and among them is that of the first party.
    trial = session(variant_of(way, p=SURE), rewrite=change("Proposal", None, ONE, **fields))
    assert says in trial.refusals()[ONE]
    assert trial.messages("Report", ONE) == []
    assert kernel_result(trial).counts.sum() == 7


@pytest.mark.parametrize(
    "fields",
    [
        {"survey": bytes(32)},
        {"blocks": matched_blocks(THREEFOLD, (("a",), ("b",), ("c",)), p=0.8)},
        {"blocks": matched_blocks(THREEFOLD, (("a", "b"), ("c",)), p=0.1)},
    ],
)
def test_a_pilot_that_was_not_agreed_to_is_refused(fields: dict[str, Any]) -> None:
    trial = session(variant_of("rr"), rewrite=change("Pilot", None, TWO, **fields))
    assert "other randomizers than agreed" in trial.refusals()[TWO]
    assert trial.messages("PilotReport", TWO) == []


FITTING = tuple(PartyId(f"party-{i}") for i in (1, 4, 5, 8))
"""Of eight, those whose reports are in the other tables too."""
FOUR = FITTING[1]


def others() -> NDArray[np.uint32]:
    """Tables of as many reports in which b follows from c, not from a."""
    codes = dependent(8).codes.copy()
    codes[:, 1] = 2 * codes[:, 2]
    records = Records(THREEFOLD, codes)
    tables = [records.counts(pair).reshape(-1) for pair in all_pairs(THREEFOLD)]
    return np.concatenate(tables).astype(np.uint32)


def proposing(variant: RRClusters, to: Collection[PartyId]) -> Rewrite:
    """An aggregator that proposes other clusters to some, by tables from which they follow."""

    def rewrite(item: Envelope, message: Message) -> Message | None:
        if item.recipient not in to:
            return None
        if isinstance(message, Proposal):
            totals = others()
            clusters = variant.negotiation.from_totals(totals).clusters
            assert clusters == (("a",), ("b", "c"))
            return Proposal(clusters, message.respondents, totals)
        if isinstance(message, Ask):
            blocks = matched_blocks(THREEFOLD, (("a",), ("b", "c")), p=SURE)
            return Ask(message.survey, blocks)
        return None

    return rewrite


@pytest.mark.parametrize("sums", [WARY, STRICT, LITERAL], ids=["tolerant", "strict", "literal"])
@pytest.mark.parametrize("way", WAYS[:2])
def test_who_alone_is_shown_other_tables_does_not_report(way: Dependence, sums: SecureSum) -> None:
    """Whatever follows from them, and though its own report is in them."""
    variant = variant_of(way, p=SURE, sums=sums)
    trial = session(variant, rewrite=proposing(variant, [FOUR]))
    why = trial.refusals()[FOUR]
    assert why.startswith("Tagged.tags: ")
    assert [m.why for m in trial.messages("Declined", FOUR)] == ["message"]
    assert trial.messages("Report", FOUR) == []
    if sums is WARY:
        # The others take it for one of the two that may be missing.
        assert set(trial.refusals()) == {FOUR}
        assert kernel_result(trial).counts.sum() == 7
    else:
        assert trial.messages("Report") == []


@pytest.mark.parametrize("way", WAYS[:2])
def test_two_camps_with_two_proposals_report_nothing(way: Dependence) -> None:
    variant = variant_of(way, p=SURE, sums=WARY)
    names = charter_of(variant, 8).roster.parties
    trial = session(variant, rewrite=proposing(variant, FITTING))
    assert set(trial.refusals()) == set(names)
    assert trial.messages("Report") == []
    assert trial.failure is not None


@pytest.mark.parametrize("way", WAYS[:2])
def test_whoever_hears_one_proposal_reports(way: Dependence) -> None:
    """Nobody else is hurt by those who vanish, as many as may."""
    gone = {TWO: "PilotReport", THREE: "Tags"}
    trial = session(variant_of(way, p=SURE), gone=gone)
    assert trial.refusals() == {}
    assert kernel_result(trial).learned == 7
    assert kernel_result(trial).counts.sum() == 6


def test_who_reports_for_others_than_it_said_is_left_out() -> None:
    """For how many each speaks everybody has been told, and totals are held against it."""
    variant = variant_of("rr", p=SURE, max_records=2)
    twice = change("PilotReport", TWO, codes=lambda old: np.vstack([old, old]))
    trial = session(variant, rewrite=twice)
    assert trial.names(kernel_result(trial).accused) == [TWO]
    assert kernel_result(trial).learned == 7
    assert trial.refusals() == {}


@pytest.mark.parametrize(
    ("respondents", "says"), [(0, "respondents, expected at least 1"), (9, "at most 8")]
)
def test_tables_of_more_than_joined_are_refused(respondents: int, says: str) -> None:
    by = change("Proposal", None, ONE, respondents=respondents)
    trial = session(variant_of("rr", p=SURE, sums=WARY), rewrite=by)
    assert says in trial.refusals()[ONE]
