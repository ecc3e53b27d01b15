"""Laws of sums of combined releases: against every report of each answer, by dense matrices."""

from __future__ import annotations

import numpy as np
import pytest

from protocol.estimators.inference.laws import About
from protocol.estimators.inference.scores import weighted_law
from protocol.estimators.releases.combined_errors import Combination
from protocol.randomizers.exact import Floats
from tests.enumeration import keep

SHARES = np.array([0.7, 0.2, 0.05, 0.05])
WEIGHTS = np.array([-1.0, 0.5, 2.0, 3.0])
MEAN = float(SHARES @ WEIGHTS)
ABOUT: tuple[About, About] = ("respondents", "population")
MANY = 10**9


def of_one_attribute(n: int, *parts: tuple[int, float, float]) -> Combination:
    """Releases by their number of reports, their weight, and what of an answer they keep."""
    numbers, weights, keeps = zip(*parts, strict=True)
    ones = np.ones(len(parts))
    return Combination(
        values=SHARES,
        n=n,
        numbers=np.array(numbers, np.float64),
        weights=np.stack([ones / len(parts), np.array(weights)], axis=1),
        keeps=np.stack([ones, np.array(keeps)], axis=1),
    )


def at(found: Combination, about: About, truth: float = MEAN) -> tuple[float, float]:
    """Cumulants as those of one respondent."""
    variance, third = found.sum_law(WEIGHTS).cumulants[about].at(np.asarray(truth))
    return float(variance) * found.n, float(third) * found.n**2


def counted(weight: float, kept: float) -> tuple[Floats, Floats]:
    """The laws of the reports of one release, by answer, and what each report counts."""
    law = keep(4, kept).matrix()
    return law, weight * np.linalg.solve(law, WEIGHTS - WEIGHTS.mean())


def exact(*parts: tuple[int, float, float]) -> dict[About, tuple[float, float]]:
    """Cumulants of what one respondent reports to all releases."""
    variance = third = together = 0.0
    for _, weight, kept in parts:
        law, scores = counted(weight, kept)
        means = law @ scores
        seconds = law @ scores**2 - means**2
        variance += float(SHARES @ seconds)
        third += float(SHARES @ (law @ scores**3 - 3 * means * (law @ scores**2) + 2 * means**3))
        together += float(SHARES @ (seconds * (WEIGHTS - MEAN)))
    spread, skew = (float(SHARES @ (WEIGHTS - MEAN) ** power) for power in (2, 3))
    return {
        "respondents": (variance, third),
        "population": (variance + spread, third + 3 * together + skew),
    }


@pytest.mark.parametrize("about", ABOUT)
def test_a_sum_of_two_releases_has_the_cumulants_of_all_reports(about: About) -> None:
    parts = ((MANY, 0.3, 0.5), (MANY, 0.7, 0.8))
    found = at(of_one_attribute(MANY, *parts), about)
    assert found == pytest.approx(exact(*parts)[about], rel=1e-6)


@pytest.mark.parametrize("about", ABOUT)
@pytest.mark.parametrize("truth", [-0.5, MEAN, 2.5])
def test_one_release_has_the_law_of_a_weighted_mean(about: About, truth: float) -> None:
    """Whatever the truth is, as that law has it, which is made in another way."""
    part = (MANY, 1.0, 0.4)
    law, scores = counted(1.0, 0.4)
    other = weighted_law(
        MEAN,
        scores + WEIGHTS.mean(),
        SHARES @ law,
        MANY,
        squares=float(SHARES @ WEIGHTS**2),
        least=-1.0,
        most=3.0,
    )
    variance, third = at(of_one_attribute(MANY, part), about, truth)
    expected, _ = other.cumulants[about].at(np.asarray(truth))
    assert variance == pytest.approx(float(expected) * MANY, rel=1e-6)
    assert third == pytest.approx(exact(part)[about][1], rel=1e-6)


@pytest.mark.parametrize("truth", [-0.5, MEAN, 2.5])
def test_respondents_of_a_population_vary_about_it(truth: float) -> None:
    """By ``(most - t) (t - least)`` less what lies between, the same whatever the truth is."""
    found = of_one_attribute(MANY, (MANY, 0.3, 0.5), (MANY, 0.7, 0.8))
    given, sampled = (at(found, about, truth)[0] for about in ABOUT)
    spread = float(SHARES @ (WEIGHTS - MEAN) ** 2)
    inside = (3 - MEAN) * (MEAN + 1) - spread
    assert sampled - given == pytest.approx((3 - truth) * (truth + 1) - inside, rel=1e-6)


@pytest.mark.parametrize("parts", [((1.0, 0.4),), ((0.4, 0.4), (0.6, 0.7))])
def test_a_variance_of_few_respondents_is_widened_by_what_no_line_explains(
    parts: tuple[tuple[float, float], ...],
) -> None:
    """That of squared deviations given the answers, and of what they are on average."""
    n = 4000
    deviations = WEIGHTS - MEAN
    both, doubt_given, squares, reach = float(SHARES @ deviations**2), 0.0, deviations**2, 0.0
    expected = exact(*((n, *part) for part in parts))["population"]
    slope = expected[1] / expected[0]
    squares = squares - slope * deviations
    for weight, kept in parts:
        law, scores = counted(weight, kept)
        own = law @ scores**2 - (law @ scores) ** 2
        both += float(SHARES @ own)
        squares = squares + own
        reach = max(reach, float(np.ptp(scores)))
    # The average squares are a weight of their own, which is reported as the answers are.
    for weight, kept in parts:
        law, _ = counted(weight, kept)
        scores = weight * np.linalg.solve(law, squares - squares.mean())
        doubt_given += float(SHARES @ (law @ scores**2 - (law @ scores) ** 2))
    doubt = (doubt_given + float(SHARES @ squares**2) - float(SHARES @ squares) ** 2) / n / both**2
    for about in ABOUT:
        known = exact(*((n, *part) for part in parts))[about][0] + reach**2 / 4 / n
        found = at(of_one_attribute(n, *((n, *part) for part in parts)), about)[0] / known
        assert found - 1 == pytest.approx(doubt / (1 - doubt), rel=0.02)


def test_of_respondents_who_are_alike_only_one_more_report_counts() -> None:
    """Exact counts of one answer: nothing varies but what another respondent could add."""
    found = Combination(
        values=np.array([1.0, 0.0]),
        n=10,
        numbers=np.array([10.0]),
        weights=np.ones((1, 2)),
        keeps=np.ones((1, 2)),
    )
    law = found.sum_law(np.array([1.0, 3.0]))
    sampled, given = (law.cumulants[about].at(np.asarray(1.0)) for about in ABOUT[::-1])
    # Between two answers that are 2 apart, the largest variance there is.
    assert sampled == pytest.approx((1.0 / 10, 0.0))
    assert given == (0.0, 0.0)


def test_constant_weights_have_no_error() -> None:
    found = of_one_attribute(5, (5, 1.0, 0.4)).sum_law(np.full(4, 2.0))
    for about in ABOUT:
        assert found.cumulants[about].at(np.asarray(2.0)) == pytest.approx((0.0, 0.0))
