"""RR-Clusters by reports: what the aggregator proposes follows from everybody's reports."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from protocol.estimators.counts import Counts
from protocol.estimators.dependence.dependence import debiased_dependences, raw_dependences
from protocol.estimators.joint import JointEstimate
from protocol.surveys.records import Records
from protocol.variants.clusters.clustering import matched_blocks
from protocol.variants.clusters.negotiation import Dependence
from protocol.variants.sums.tallies import all_pairs
from tests.protocol.sessions import answers
from tests.protocol.sharing.test_sums_attacks import change
from tests.protocol.variants.clusters.test_rr_clusters import (
    ONE,
    SURE,
    THREEFOLD,
    TWO,
    WAYS,
    dependent,
    result_of,
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
    whole = learn(JointEstimate(THREEFOLD, variant.negotiation.pilot, counts), measure="auto")
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
    assert result_of(trial).counts.sum() == 7


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
