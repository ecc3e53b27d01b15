"""The rule by which one way to ask is recommended of all."""

from __future__ import annotations

import math
from random import Random

import pytest

from protocol.variants import RRJoint
from scenarios.designing.candidates import Candidate
from scenarios.designing.costs import Dropouts, Traffic
from scenarios.designing.designing import Row
from scenarios.designing.predicting import Prediction
from scenarios.designing.recommending import Recommendation, recommend
from scenarios.designing.summing import AmongHonest
from tests.scenarios.designing.surveys import survey_of

VARIANT = RRJoint.with_epsilon(survey_of(2, 2), 1.0)
TABLE = ("q0", "q1")
GOOD, FAIR, POOR = 0.01, 0.03, 0.08


def row(
    name: str,
    error: float,
    *,
    epsilon: float = 1.0,
    spent: float | None = None,
    honest: bool = False,
    ends: bool = True,
    page: bool = True,
    rounds: int = 1,
    bits: float = 80.0,
    runs: int = 0,
    certain: bool = True,
) -> Row:
    """A way to ask whose only table has four cells, all with the same error."""
    among = AmongHonest(epsilon, 1e-6, 60, 100) if honest else None
    spent = (math.inf if honest else epsilon) if spent is None else spent
    return Row(
        epsilon=epsilon,
        candidate=Candidate(VARIANT, name, "", among=among),
        prediction=Prediction(error, {TABLE: error}, error, runs, 0.0, {TABLE: error}),
        spent=spent,
        at_delta=None,
        traffic=Traffic(1.0, bits, 1.0, 80.0, rounds),
        trusted="",
        dropouts=Dropouts(ends, ""),
        by_page=page,
        certain=certain,
    )


def picked(*rows: Row) -> tuple[str | None, ...]:
    """The names of the picks, which no order of the rows changes."""
    found = [_names(recommend(rows))]
    for seed in range(5):
        mixed = [*rows]
        Random(seed).shuffle(mixed)
        found.append(_names(recommend(mixed)))
    assert len({*found}) == 1
    return found[0]


def _names(picks: Recommendation) -> tuple[str | None, ...]:
    return tuple(None if one is None else f"{one.candidate.name}@{one.epsilon:g}" for one in picks)


def test_the_errors_of_these_tests_have_the_usefulness_that_they_are_named_by() -> None:
    found = [row("a", error).usefulness for error in (GOOD, FAIR, POOR)]
    assert found == ["good", "fair", "poor"]


def test_the_least_epsilon_that_is_good_and_the_most_exact_of_these() -> None:
    rows = (
        row("fair", FAIR, epsilon=1),
        row("good", GOOD, epsilon=2),
        row("better", GOOD / 2, epsilon=2),
        row("best", GOOD / 4, epsilon=4),
    )
    assert picked(*rows) == ("better@2", "fair@1", "best@4")


def test_what_rests_on_honest_others_is_never_recommended() -> None:
    rows = (
        row("sum", GOOD / 100, epsilon=1, honest=True),
        row("poor", POOR, epsilon=1),
        row("fair", FAIR, epsilon=4),
    )
    assert picked(*rows) == ("fair@4", "fair@4", "sum@1")
    assert picked(rows[0]) == (None, None, "sum@1")


def test_if_none_is_good_the_least_error() -> None:
    rows = (row("a", FAIR, epsilon=4), row("b", FAIR * 1.2, epsilon=2), row("c", POOR, epsilon=1))
    assert picked(*rows) == ("a@4", "b@2", "a@4")


def test_if_none_is_useful_none_is_the_most_private() -> None:
    assert picked(row("a", POOR, epsilon=4), row("b", 1.0, epsilon=2)) == ("a@4", None, "a@4")


@pytest.mark.parametrize(
    ("less", "more"),
    [
        (row("less", GOOD, page=True, bits=900), row("more", GOOD, page=False)),
        (row("less", GOOD, rounds=1, bits=900), row("more", GOOD, rounds=5)),
        (row("less", GOOD, bits=80), row("more", GOOD, bits=160)),
        (row("less", GOOD, spent=0.5), row("more", GOOD)),
    ],
    ids=["page", "rounds", "bytes", "epsilon"],
)
def test_of_errors_that_are_alike_the_one_that_asks_less(less: Row, more: Row) -> None:
    nearly = more._replace(prediction=more.prediction._replace(rmse=GOOD / 1.04))
    assert picked(less, nearly) == ("less@1",) * 3
    clearly = more._replace(prediction=more.prediction._replace(rmse=GOOD / 1.06))
    assert picked(less, clearly)[2] == "more@1"


def test_a_rounded_epsilon_is_what_was_allowed() -> None:
    """A search for parameters ends just below it."""
    assert picked(row("a", GOOD, spent=0.9999), row("b", GOOD / 2, spent=1.0))[0] == "b@1"


def test_exact_counts_and_what_ends_without_a_result_are_left_out() -> None:
    counts = row("counts", 0.0, spent=math.inf)
    ends = row("ends", GOOD / 2, ends=False)
    assert picked(counts, ends, row("a", GOOD)) == ("a@1",) * 3
    assert picked(counts, ends) == (None, None, None)


def test_an_uncertain_place_is_not_the_most_exact() -> None:
    sure = row("sure", GOOD, certain=False)
    simulated = row("simulated", GOOD / 2, runs=40, certain=False)
    assert picked(sure, simulated)[2] == "sure@1"
    assert picked(sure, simulated._replace(certain=True))[2] == "simulated@1"
    assert picked(simulated)[2] == "simulated@1"
