"""Standard errors of rare cells: unknown where too few reports tell of them, never far too small.

A cell of about one expected report often has none, and its estimated variance is then that of an
empty cell. All counts that may come in are gone through, with their chances.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from protocol import (
    Block,
    CombinedReleases,
    Counts,
    Estimate,
    ExactTables,
    JointReports,
    LinearEstimate,
    PrivKV,
    Release,
    Survey,
    Tallies,
)
from protocol.estimators.inference.laws import About
from protocol.estimators.tables import FEWEST, change_by_one, standard_errors
from protocol.variants.keyvalue.moments import KeyValueEstimate, maximum_likelihood, moment
from protocol.variants.oracles.estimate import AttributeShares
from protocol.variants.oracles.names import frequency_oracle
from tests.enumeration import keep, survey_of

N, SIZE, KEEP = 2000, 50, 0.99
ABOUT: tuple[About, About] = ("respondents", "population")
ONE = survey_of(SIZE)
TWO = survey_of(SIZE, SIZE)


def joint(survey: Survey, table: np.ndarray) -> LinearEstimate[JointReports]:
    blocks = tuple(
        Block((name,), keep(size, KEEP))
        for name, size in zip(survey.names, survey.sizes, strict=True)
    )
    return LinearEstimate(JointReports(survey, blocks, Counts.from_table(table)))


def reported(count: int) -> np.ndarray:
    """So many reports of the first category, the others spread evenly."""
    counts = np.full(SIZE, (N - count) // (SIZE - 1))
    counts[-1] += N - counts[1:].sum() - count
    counts[0] = count
    return counts


def crossed(count: int) -> np.ndarray:
    """So many in the first cell of two attributes, where both first categories are rare."""
    table = np.zeros((SIZE, SIZE), np.int64)
    table[0, 1:3], table[1:3, 0] = 20, 20
    table[0, 0] = count
    table[1:, 1:] += (N - table.sum()) // (SIZE - 1) ** 2
    table[-1, -1] += N - table.sum()
    return table


def tallied(oracle: str, count: int) -> LinearEstimate[Tallies]:
    """The first category's tally less what is expected of nobody in it is so many reports."""
    randomizer = frequency_oracle(oracle, SIZE, epsilon=9.0)
    support = randomizer.support
    rest = float(support.other) + float(support.gain) / (SIZE - 1)
    totals = np.full(SIZE, round(N * rest))
    totals[0] = count
    return LinearEstimate(Tallies(ONE, ("a",), randomizer, totals, N))


def combined(count: int) -> LinearEstimate[CombinedReleases]:
    final = joint(TWO, crossed(count))
    return LinearEstimate(CombinedReleases(TWO, (Release.of_reports(final.source),), final.source))


CASES: dict[str, tuple[Callable[[int], Estimate], tuple[str, ...]]] = {
    "reports": (lambda count: joint(ONE, reported(count)), ("a",)),
    "reports apart": (lambda count: joint(TWO, crossed(count)), ("a", "b")),
    "releases": (combined, ("a", "b")),
    "exact": (lambda count: LinearEstimate(ExactTables(ONE, {("a",): reported(count)})), ("a",)),
    "grr": (lambda count: tallied("grr", count), ("a",)),
    "oue": (lambda count: tallied("oue", count), ("a",)),
    "smp": (
        lambda count: LinearEstimate(
            AttributeShares(
                ONE,
                (tallied("grr", count).source.randomizer,),
                (reported(count),),
                np.array([N]),
                4 * N,
            )
        ),
        ("a",),
    ),
}


def scaled_error(estimate: Estimate, names: tuple[str, ...], about: About) -> float:
    table = estimate.table(*names)
    errors = table.standard_errors if about == "respondents" else table.population_errors
    assert errors is not None
    return float(errors[(0,) * len(names)])


@pytest.mark.parametrize("expected", [0.5, 1, 2, 5])
@pytest.mark.parametrize("case", CASES)
def test_no_known_error_is_far_too_small(case: str, expected: float) -> None:
    """Of a Poisson count, the deviation of the estimate is at least that of the count."""
    make, names = CASES[case]
    gain = {"exact": 1.0, "oue": 0.5}.get(case, KEEP)
    deviation = math.sqrt(expected) / N / gain
    wrong = known = 0.0
    for count in range(30):
        error = scaled_error(make(count), names, "population")
        chance = float(stats.poisson.pmf(count, expected))
        known += chance * (not math.isnan(error))
        wrong += chance * (error < deviation / 3)
    assert wrong < 1e-3
    assert (known > 0.9) == (expected == 5)


@pytest.mark.parametrize("case", CASES)
def test_two_reports_tell_an_error_and_one_does_not(case: str) -> None:
    make, names = CASES[case]
    errors = [scaled_error(make(count), names, "population") for count in range(4)]
    assert np.isnan(errors[:2]).all()
    assert not np.isnan(errors[2:]).any()
    weights = np.zeros([SIZE] * len(names))
    weights[(0,) * len(names)] = 1.0
    for count in (0, 3):
        # The interval knows that the share of an empty cell may be more than 0.
        found = make(count).query(names, weights)
        low, high = found.interval(about="population")
        assert 0 <= low < high
        assert high > 1 / N


@pytest.mark.parametrize("about", ABOUT)
def test_what_many_reports_tell_stays_known(about: About) -> None:
    table = joint(ONE, reported(40)).table("a")
    errors = table.standard_errors if about == "respondents" else table.population_errors
    assert not np.isnan(errors).any()
    np.testing.assert_allclose(errors.ravel() ** 2, table.covariance(about).diagonal())


def test_an_error_given_the_answers_is_known_where_the_noise_is() -> None:
    """Of two categories every report has the same noise, so none need be in the cell."""
    survey = survey_of(2)
    estimate = joint(survey, np.array([0, 400]))
    table = estimate.table("a")
    assert not np.isnan(table.standard_errors).any()
    assert np.isnan(table.population_errors).all()


def test_one_rule() -> None:
    n, values = 100, np.array([0.0, 0.01, 0.02, 0.5, 0.98, 0.99, 1.0])
    variances = values * (1 - values) / n
    each = change_by_one(values, (0.0, 1.0), n, sampled=1.0)
    found = standard_errors(variances, variances, each)
    assert np.isnan(found).tolist() == [True, True, False, False, False, True, True]
    assert FEWEST == 2


@pytest.mark.parametrize("estimator", [moment, maximum_likelihood])
def test_keys_that_few_hold(estimator: Callable[..., KeyValueEstimate]) -> None:
    randomizer = PrivKV.with_epsilon(1, key_epsilon=12.0, value_epsilon=12.0)
    for held, known in ((0, False), (1, False), (3, True)):
        found = estimator(np.array([[N - held, held - held // 3, held // 3]]), randomizer)
        assert np.isnan(found.frequency_errors[0]) != known
