"""Laws of means of weights: against every sequence of reports, tilted laws and regressions."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import optimize

from protocol.estimators.inference.cumulants import CumulantLaw
from protocol.estimators.inference.laws import About
from protocol.estimators.inference.scores import weighted_law
from protocol.randomizers.exact import Floats
from tests.enumeration import keep

MANY = 10**12
"""So many reports that the variance is as good as known."""

WEIGHTS = np.array([-1.0, 0.5, 2.0, 3.0])
RANDOMIZER = keep(4, 0.4).matrix()
SCORES = np.linalg.solve(RANDOMIZER, WEIGHTS)
ANSWERS = np.array([0.7, 0.2, 0.05, 0.05])
REPORTS = ANSWERS @ RANDOMIZER
MEAN = float(ANSWERS @ WEIGHTS)


def law_of(n: int, *, seen: int = MANY, squares: float | None = None) -> CumulantLaw:
    return weighted_law(
        MEAN,
        SCORES,
        REPORTS,
        n,
        squares=float(ANSWERS @ WEIGHTS**2) if squares is None else squares,
        least=-1.0,
        most=3.0,
        seen=seen,
    )


def at(law: CumulantLaw, about: About, truth: float) -> tuple[float, float]:
    variance, third = law.cumulants[about].at(np.asarray(truth))
    return float(variance), float(third)


def tilted(shares: Floats, scores: Floats, mean: float) -> Floats:
    """The exponential tilt of a law under which scores have another mean."""

    def at_rate(rate: float) -> Floats:
        found = shares * np.exp(rate * (scores - scores.mean()))
        return found / found.sum()

    rate = optimize.brentq(lambda one: float(at_rate(one) @ scores) - mean, -5, 5, xtol=1e-14)
    return at_rate(rate)


def test_about_a_population_it_is_the_law_of_every_sequence_of_reports() -> None:
    n = 3
    variance = third = 0.0
    for drawn in product(range(4), repeat=n):
        chance = float(np.prod(REPORTS[list(drawn)]))
        error = float(SCORES[list(drawn)].mean()) - MEAN
        variance += chance * error**2
        third += chance * error**3
    assert at(law_of(n), "population", MEAN) == pytest.approx((variance, third))


def test_given_the_answers_it_is_that_of_every_report_of_each() -> None:
    """Their variance is averaged over the respondents."""
    n = 5
    variances = [float(row @ (SCORES - row @ SCORES) ** 2) for row in RANDOMIZER]
    expected = float(ANSWERS @ variances) / n
    assert at(law_of(n), "respondents", MEAN)[0] == pytest.approx(expected)


def test_variances_change_with_the_truth_as_those_of_tilted_reports() -> None:
    n, step = 7, 1e-3
    law = law_of(n)
    expected = []
    for mean in (MEAN - step, MEAN + step):
        shares = tilted(REPORTS, SCORES, mean)
        expected.append(float(shares @ (SCORES - mean) ** 2) / n)
    found = [at(law, "population", mean)[0] for mean in (MEAN - step, MEAN + step)]
    assert found[1] - found[0] == pytest.approx(expected[1] - expected[0], rel=1e-4)


@pytest.mark.parametrize("truth", [0.0, 0.2, 0.7, 1.0])
def test_of_two_scores_it_is_exact_whatever_the_truth_is(truth: float) -> None:
    """Warner's question, asked of weights of which the least is not 0."""
    p, n, likely = 0.8, 9, 0.35
    randomizer = np.array([[p, 1 - p], [1 - p, p]])
    weights = np.array([2.0, 5.0])
    answers = np.array([1 - likely, likely])
    law = weighted_law(
        float(answers @ weights),
        np.linalg.solve(randomizer, weights),
        answers @ randomizer,
        n,
        squares=float(answers @ weights**2),
        least=2.0,
        most=5.0,
        seen=MANY,
    )
    given = 9 * p * (1 - p) / (2 * p - 1) ** 2 / n
    mean = 2 + 3 * truth
    assert at(law, "respondents", mean)[0] == pytest.approx(given)
    assert at(law, "population", mean)[0] == pytest.approx(given + 9 * truth * (1 - truth) / n)


def test_mean_squares_that_no_answers_have_are_the_nearest_that_some_have() -> None:
    """What reports say of them may be off by more: those of answers at both ends, or all alike."""
    ends = 2 * MEAN + 3  # As (most + least) t - most least.
    for wild, nearest in ((50.0, ends), (-50.0, ends - 4.0)):
        one, other = law_of(5, squares=wild), law_of(5, squares=nearest)
        for truth in (MEAN, 2.5):
            found = at(one, "respondents", truth)
            assert found == pytest.approx(at(other, "respondents", truth))
            assert at(one, "population", truth) == at(other, "population", truth)
    alike, apart = (at(law_of(5, squares=one), "respondents", MEAN)[0] for one in (-50.0, 50.0))
    assert alike - apart == pytest.approx(4.0 / 5)


def test_a_variance_from_some_reports_is_widened_by_what_no_line_explains() -> None:
    """Squared deviations less their regression on the scores have this variance."""
    n, seen = 5, 4000
    deviations = SCORES - MEAN
    spread = float(REPORTS @ deviations**2)
    line = np.stack([np.ones(4), deviations], axis=1)
    roots = np.sqrt(REPORTS)
    fitted, *_ = np.linalg.lstsq(line * roots[:, None], deviations**2 * roots, rcond=None)
    doubt = float(REPORTS @ (deviations**2 - line @ fitted) ** 2) / seen / spread**2
    one_more = float(np.ptp(SCORES)) ** 2 / 4 / seen
    for about in ("population", "respondents"):
        known = at(law_of(n), about, MEAN)[0] + one_more / n
        found = at(law_of(n, seen=seen), about, MEAN)[0] / known
        assert found - 1 == pytest.approx(doubt / (1 - doubt), rel=0.02)
    # It is as many as the reports if nobody says so.
    assert weighted_law(MEAN, SCORES, REPORTS, n, squares=2.0, least=-1.0, most=3.0).cumulants[
        "population"
    ].variance == pytest.approx(law_of(n, seen=n, squares=2.0).cumulants["population"].variance)


@pytest.mark.parametrize("n", [2, 5, 10])
def test_of_reports_that_are_all_alike_the_variance_is_the_largest_there_is(n: int) -> None:
    """Few reports that agree say nothing of how far others are spread."""
    alike = np.array([0.0, 1.0, 0.0, 0.0])
    value = float(SCORES[1])
    law = weighted_law(value, SCORES, alike, n, squares=0.25, least=-1.0, most=3.0)
    largest = float(np.ptp(SCORES)) ** 2 / 4
    assert at(law, "population", value) == pytest.approx((largest / n, 0.0))


def test_of_one_score_nothing_is_known() -> None:
    law = weighted_law(1.0, np.ones(4), REPORTS, 5, squares=1.0, least=1.0, most=1.0)
    assert law.cumulants == {}
    assert float(law.steps) == 0
