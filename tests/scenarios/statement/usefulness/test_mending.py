"""What is said to mend estimates does so when it is tried."""

from __future__ import annotations

import numpy as np
import pytest

from protocol import Attribute, MarginOfError, Records, Survey, Variant, key_survey
from protocol.estimators.usefulness import margins_of_error
from protocol.variants import BUILT_IN, PairCounts
from protocol.variants.sums.tallies import Counted
from scenarios import tabulate
from scenarios.designing.mending import Mending, mending
from scenarios.designing.predicting import predicted_margins
from scenarios.running.making import make_variant
from scenarios.statement.usefulness.verdict import mended
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
    return margins_of_error(tabulate(variant, people(variant.survey), n=n).estimate, "population")


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
    worst = sorted(before, key=lambda one: -one.excess)
    assert said.dropped == tuple(one.names[0] for one in worst[: len(said.dropped)])
    for after in (
        margins(variant, said.respondents),
        margins(made(name, SURVEY, said.epsilon), N),
        margins(made(name, without(said.dropped), epsilon), N),
    ):
        # A margin varies from survey to survey.
        assert all(scaled(one, 0.97).word in ("good", "fair") for one in after)
    short = margins(variant, round(0.8 * said.respondents))
    assert any(scaled(one, 0.97).word == "poor" for one in short)


def without(dropped: tuple[str, ...]) -> Survey:
    return Survey("fewer", tuple(one for one in SURVEY.attributes if one.name not in dropped))


def scaled(one: MarginOfError, factor: float) -> MarginOfError:
    return one._replace(margin=factor * one.margin)


def test_what_is_fair_is_to_be_good_and_what_is_good_needs_nothing() -> None:
    variant = made("rr-independent", SURVEY, 2.0)
    fair = tuple(MarginOfError((name,), 2, 0.06) for name in SURVEY.names)
    said = found(variant, fair)
    assert (said.to, said.respondents) == ("good", 12_000)
    assert said.says.startswith(
        "For good estimates it would take one of these: about 12,000 respondents; ε = "
    )
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
    assert said.dropped == ("a",)
    pair = found(variant, (MarginOfError(("a", "b"), 6, 0.3),))
    assert pair.epsilon is not None
    number = mending(
        variant,
        (MarginOfError(("a",), 2, 0.06, "count"),),
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


@pytest.mark.parametrize(("name", "epsilon"), [("secure-sum", 0.4), ("pair-counts", 0.5)])
def test_counts_with_coins_are_mended_as_is_said(name: str, epsilon: float) -> None:
    cls, n = BUILT_IN[name], 400
    assert issubclass(cls, Counted)

    def asked(survey: Survey, epsilon: float, parties: int) -> Counted:
        return cls.with_noise(survey, epsilon=epsilon, parties=parties)

    def after(variant: Counted, n: int) -> tuple[str, ...]:
        return tuple(one.word for one in predicted_margins(variant, n, about="population"))

    variant = asked(SURVEY, epsilon, n)
    before = predicted_margins(variant, n, about="population")
    said = mending(variant, before, respondents=n, parties=n, about="population")
    assert said is not None
    assert said.respondents
    assert said.epsilon
    assert said.to == "fair"
    for held in (
        after(asked(SURVEY, epsilon, said.respondents), said.respondents),
        after(asked(SURVEY, said.epsilon, n), n),
    ):
        assert {*held} <= {"good", "fair"}
    fewer = round(0.9 * said.respondents)
    assert "poor" in after(asked(SURVEY, epsilon, fewer), fewer)
    assert "poor" in after(asked(SURVEY, said.epsilon - 0.1, n), n)
    if name == "secure-sum":
        assert said.dropped
        assert {*after(asked(without(said.dropped), epsilon, n), n)} <= {"good", "fair"}


@pytest.mark.parametrize("mechanism", ["one-bit", "piecewise"])
def test_means_are_mended_as_is_said(mechanism: str) -> None:
    names = ("x", "y")
    survey = Survey("means", tuple(number(name) for name in names))

    def asked(epsilon: float, survey: Survey = survey) -> Variant:
        parameters = {"epsilon": epsilon, "mechanism": mechanism}
        return make_variant(BUILT_IN["numeric-mean"], survey, parameters, strict=True)

    before = margins(asked(1.0), 300)
    assert {one.word for one in before} == {"poor"}
    said = mended(asked(1.0), before, respondents=300, parties=300, about="population")
    assert said is not None
    assert said.respondents
    assert said.epsilon
    for after in (margins(asked(1.0), said.respondents), margins(asked(said.epsilon), 300)):
        assert all(scaled(one, 0.97).word in ("good", "fair") for one in after)


def test_the_mean_of_a_key_that_few_hold_is_not_mended_by_a_guess() -> None:
    survey = key_survey("keys", ["a", "b"], [[-1, 1]] * 2)
    variant = make_variant(BUILT_IN["privkv"], survey, {"epsilon": 2.0}, strict=True)
    foreseen = predicted_margins(variant, N)
    assert mending(variant, foreseen, respondents=N, parties=N, about="respondents") is not None
    rare = (*foreseen[:-1], foreseen[-1]._replace(margin=0.5))
    assert mending(variant, rare, respondents=N, parties=N, about="respondents") is None


def test_where_an_interval_is_cut_off_the_prediction_says_how_many_it_takes() -> None:
    variant = made("rr-independent", SURVEY, 0.1)
    whole = predicted_margins(variant, N)
    assert {one.word for one in whole} == {"none"}
    cut_off = tuple(one._replace(margin=min(one.margin, 0.6)) for one in whole)
    said = found(variant, whole)
    assert said.respondents
    assert found(variant, cut_off) == said


def number(name: str) -> Attribute:
    return Attribute(name=name, categories=tuple(map(str, range(5))), ordinal=True)


def test_of_many_counted_cells_the_number_of_respondents_alone_is_said() -> None:
    survey = Survey("wide", tuple(number(f"q{place}") for place in range(30)))
    variant = PairCounts.with_noise(survey, epsilon=1.0, parties=40)
    fair = tuple(MarginOfError((name,), 5, 0.08) for name in survey.names)
    said = mending(variant, fair, respondents=400, parties=40, about="respondents")
    assert said is not None
    assert (said.respondents, said.epsilon, said.dropped) == (1_100, None, None)
