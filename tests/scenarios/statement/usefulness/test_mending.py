"""What is said to mend estimates does so when it is tried."""

from __future__ import annotations

import numpy as np
import pytest

from protocol.estimators.usefulness import MarginOfError
from protocol.session.variant import Variant
from protocol.surveys.records import Records
from protocol.surveys.survey import Survey
from protocol.variants import BUILT_IN
from scenarios.designing.mending import Mending, mending
from scenarios.running.making import make_variant
from scenarios.running.tabulating import tabulate
from scenarios.statement.usefulness.verdict import margins_of, mended
from tests.enumeration import survey_of

ASKED = [("rr-independent", 2.0), ("rr-joint", 1.5), ("spl", 2.0)]
N = 3_000
SURVEY = survey_of(2, 3, 4)


def people(survey: Survey) -> Records:
    """All combinations are equally likely."""
    codes = np.random.default_rng(3).integers(survey.sizes, size=(60_000, len(survey.sizes)))
    return Records(survey, codes.astype(survey.dtype))


def made(name: str, survey: Survey, epsilon: float) -> Variant:
    return make_variant(BUILT_IN[name], survey, {"epsilon": epsilon}, strict=True)


def margins(variant: Variant, n: int) -> tuple[MarginOfError, ...]:
    return margins_of(tabulate(variant, people(variant.survey), n=n).estimate, "population")


def found(variant: Variant, of: tuple[MarginOfError, ...]) -> Mending:
    said = mended(variant, of, respondents=N, parties=N, about="population")
    assert said is not None
    return said


@pytest.mark.parametrize(("name", "epsilon"), ASKED)
def test_a_survey_that_is_mended_is_as_useful_as_was_said(name: str, epsilon: float) -> None:
    variant = made(name, SURVEY, epsilon)
    before = margins(variant, N)
    assert {"poor"} <= {one.word for one in before} <= {"fair", "poor"}
    said = found(variant, before)
    assert said.to == "fair"
    assert said.respondents
    assert said.epsilon
    assert said.dropped
    assert said.respondents > N
    assert said.epsilon > epsilon
    order = sorted(before, key=lambda one: one.excess)
    kept = {one.names[0] for one in order[: len(order) - said.dropped]}
    fewer = Survey("fewer", tuple(each for each in SURVEY.attributes if each.name in kept))
    for after in (
        margins(variant, said.respondents),
        margins(made(name, SURVEY, said.epsilon), N),
        margins(made(name, fewer, epsilon), N),
    ):
        # A margin varies from survey to survey.
        assert all(scaled(one, 0.97).word in ("good", "fair") for one in after)
    short = margins(variant, round(0.8 * said.respondents))
    assert any(scaled(one, 0.97).word == "poor" for one in short)


def scaled(one: MarginOfError, factor: float) -> MarginOfError:
    return one._replace(margin=factor * one.margin)


def test_what_is_fair_is_to_be_good_and_what_is_good_needs_nothing() -> None:
    variant = made("rr-independent", SURVEY, 2.0)
    fair = tuple(MarginOfError((name,), 2, 0.06) for name in SURVEY.names)
    said = found(variant, fair)
    assert (said.to, said.respondents) == ("good", 12_000)
    assert said.says.startswith("As predicted, good would take about 12,000 respondents, or ε = ")
    good = tuple(MarginOfError((name,), 2, 0.02) for name in SURVEY.names)
    assert mending(variant, good, respondents=N, parties=N, about="respondents") is None


def test_nothing_is_predicted_of_few_of_what_is_not_said_or_of_no_formula() -> None:
    variant = made("rr-independent", SURVEY, 6.0)
    fair = tuple(MarginOfError((name,), 2, 0.06) for name in SURVEY.names)
    assert mended(variant, fair, respondents=20, parties=20, about="respondents") is None
    unsaid = (*fair, MarginOfError(("a",), 2, np.inf))
    assert mending(variant, unsaid, respondents=N, parties=N, about="respondents") is None


def test_what_is_not_wanted_is_dropped_first_and_a_number_takes_more_people_alone() -> None:
    variant = made("rr-independent", SURVEY, 2.0)
    (table,) = [one for one in margins(variant, N) if one.names == ("c",)]
    said = found(variant, (table,))
    assert said.dropped == 1
    pair = found(variant, (MarginOfError(("a", "b"), 6, 0.3),))
    assert pair.epsilon is not None
    number = mending(
        variant,
        (MarginOfError(("a",), 2, 0.06, number=True),),
        respondents=N,
        parties=N,
        about="respondents",
    )
    assert number == Mending("good", 12_000, None, None)


def test_exact_counts_are_mended_by_more_people_alone() -> None:
    variant = make_variant(BUILT_IN["secure-sum"], SURVEY, {"noise": "none"}, strict=True)
    fair = tuple(MarginOfError((name,), 2, 0.06) for name in SURVEY.names)
    said = mending(variant, fair, respondents=N, parties=N, about="population")
    assert said == Mending("good", 12_000, None, None)
