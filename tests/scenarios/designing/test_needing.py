"""The epsilon and the respondents that an error takes, against Warner's variance worked out."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist

import pytest

from protocol.variants import RRIndependent, RRJoint, SecureSumVariant
from scenarios.designing.assumed import Uniform
from scenarios.designing.candidates import Candidate
from scenarios.designing.designing import Setup
from scenarios.designing.needing import (
    Needed,
    epsilon_needed,
    half_width,
    list_ways,
    respondents_needed,
)
from scenarios.designing.targets import parse_target
from tests.scenarios.designing.surveys import survey_of

SURVEY = survey_of(2)
Z = NormalDist().inv_cdf(0.975)


def setup_of(respondents: int, dropout: float = 0.0) -> Setup:
    target = parse_target(SURVEY, "margins")
    return Setup(SURVEY, target, respondents, respondents, Uniform(SURVEY), dropout)


def warner(epsilon: float) -> Candidate:
    return Candidate(RRIndependent.with_epsilon(SURVEY, epsilon), "warner", "")


def epsilon_by_hand(answering: int, error: float) -> float:
    """Of ``p (1-p) / (2p-1)**2 / n``: with d for 2p-1 the error takes 1/d**2 - 1 = 4 n e**2."""
    d = 1 / math.sqrt(1 + 4 * answering * (error / Z) ** 2)
    return math.log((1 + d) / (1 - d))


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
@pytest.mark.parametrize("dropout", [0.0, 0.25])
def test_so_many_are_asked_that_enough_answer(epsilon: float, dropout: float) -> None:
    """However many respondents the design has."""
    keep = math.exp(epsilon) / (1 + math.exp(epsilon))
    answering = keep * (1 - keep) / (2 * keep - 1) ** 2 * (Z / 0.05) ** 2
    found = respondents_needed(setup_of(10, dropout), warner(epsilon), epsilon, 0.05, 0.95)
    assert found is not None
    assert (found.candidate.name, found.epsilon) == ("warner", epsilon)
    assert found.respondents == pytest.approx(answering / (1 - dropout), abs=2.5)
    # All of those who are expected to answer, and no respondent fewer would do.
    assert found.respondents * (1 - dropout) >= math.floor(answering)


def test_a_few_respondents_are_always_asked() -> None:
    found = respondents_needed(setup_of(10, 0.5), warner(2.0), 2.0, 0.9, 0.95)
    more = respondents_needed(setup_of(10, 0.5), warner(2.0), 2.0, 0.8, 0.95)
    assert found is not None
    assert more is not None
    assert found.respondents == more.respondents >= 2


@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_the_least_epsilon_is_that_of_the_formula(dropout: float) -> None:
    """In four digits, rounded up, and set up for what is printed."""
    found = epsilon_needed(
        setup_of(2000, dropout), list_ways(setup_of(2000), RRIndependent), 0.05, 0.95
    )
    assert found is not None
    expected = epsilon_by_hand(round(2000 * (1 - dropout)), 0.05)
    assert expected * (1 - 1e-4) <= found.epsilon <= expected * (1 + 2e-3)
    assert found.epsilon == float(f"{found.epsilon:.4g}")
    assert found.respondents == 2000
    assert found.candidate.variant is not None
    assert found.candidate.variant.most() == pytest.approx(found.epsilon, rel=1e-6)


@pytest.mark.parametrize("error", [0.004, 0.02, 0.03, 0.045, 0.06, 0.1, 0.2, 0.3])
def test_epsilons_of_any_size_are_rounded_up(error: float) -> None:
    """By less than one of the last digit, so that the promise is kept."""
    found = epsilon_needed(setup_of(3000), lambda epsilon: [warner(epsilon)], error, 0.95)
    assert found is not None
    expected = epsilon_by_hand(3000, error)
    assert expected * (1 - 1e-4) <= found.epsilon <= expected * (1 + 1.2e-3)
    variant = found.candidate.variant
    assert variant is not None
    assert variant.most() <= found.epsilon * (1 + 1e-9)
    width = half_width(setup_of(3000), variant, 0.95)
    assert width is not None
    assert width <= error


def test_the_first_way_that_will_do_is_taken() -> None:
    exact = Candidate(SecureSumVariant(survey=SURVEY), "exact", "")
    refused = Candidate(None, "refused", "", "it does not apply")

    def bad(epsilon: float) -> Candidate:
        return Candidate(RRJoint.with_epsilon(SURVEY, epsilon / 4), "bad", "")

    def found(make: Callable[[float], list[Candidate]]) -> Needed | None:
        return epsilon_needed(setup_of(2000), make, 0.05, 0.95)

    one = found(lambda epsilon: [warner(epsilon)])
    of_many = found(lambda epsilon: [refused, exact, bad(epsilon), warner(epsilon)])
    assert one is not None
    assert of_many == one
    # Counts have no epsilon, and neither has what does not apply.
    assert found(lambda epsilon: [refused, exact]) is None
    assert respondents_needed(setup_of(2000), exact, 2.0, 0.05, 0.95) is None
    assert respondents_needed(setup_of(2000), refused, 2.0, 0.05, 0.95) is None


def test_an_error_that_no_epsilon_keeps() -> None:
    """About a population: twenty respondents vary more about it, whatever they report."""
    setup = setup_of(20)._replace(about="population")
    assert epsilon_needed(setup, list_ways(setup, RRIndependent), 0.05, 0.95) is None
