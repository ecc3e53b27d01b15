"""How far any cell may be off before a survey is held."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from protocol import KeepUniform, MatrixRandomizer, Randomizer, UnaryEncoding, largest_errors
from protocol.estimators.inference.largest_errors import reported_errors
from protocol.estimators.inference.laws import About
from protocol.randomizers.exact import Floats
from tests.statistical import ALPHA
from tests.tiers import paired

N = 2_000
UNEVEN = np.array([0.5, 0.3, 0.15, 0.05])
KEEP = KeepUniform.with_keep(4, p=0.6)
LAW = [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.3, 0.5]]


def test_expressions_5_and_6_are_as_they_are_printed() -> None:
    quantile = stats.chi2.isf(0.05 / 4, 1)
    found = reported_errors(UNEVEN, N)
    assert found.absolute == pytest.approx(math.sqrt(quantile * 0.25 / N))
    assert found.relative == pytest.approx(math.sqrt(quantile * 0.95 / 0.05 / N))


def test_carried_to_the_answers_they_are_divided_by_the_keep_probability() -> None:
    alike = np.full(4, 0.25)
    found = largest_errors([KEEP], N, shares=alike)
    printed = reported_errors(alike, N).absolute
    assert found.absolute == pytest.approx(printed / 0.6)
    assert found.relative == pytest.approx(4 * printed / 0.6)


def test_a_bound_needs_no_more_than_the_expressions_give() -> None:
    reported = KEEP.matrix().T @ UNEVEN
    found = largest_errors([KEEP], N, shares=UNEVEN)
    assert found.absolute < reported_errors(reported, N).absolute / 0.6
    errors = np.sqrt(reported * (1 - reported) / N) / 0.6
    assert 2 * stats.norm.sf(found.absolute / errors).sum() == pytest.approx(0.05)
    assert 2 * stats.norm.sf(found.relative * UNEVEN / errors).sum() == pytest.approx(0.05)


def test_without_noise_it_is_the_bound_of_thompson() -> None:
    kept = KeepUniform.with_keep(20, p=1 - 1e-9)
    # At 95 % his table has 1.27359; duality is at most some percent above.
    assert 1.27359 <= N * largest_errors([kept], N).absolute ** 2 < 1.31
    assert largest_errors([kept], N, about="respondents").absolute < 1e-4


RANDOMIZERS: dict[str, list[Randomizer]] = {
    "keep": [KEEP],
    "a matrix": [MatrixRandomizer.from_probabilities(LAW)],
    "unary": [UnaryEncoding.optimized(4, epsilon=1.0)],
    "two attributes": [KeepUniform.with_keep(3, p=0.3), MatrixRandomizer.from_probabilities(LAW)],
}


@pytest.mark.parametrize(("name", "about"), paired([*RANDOMIZERS], ["population", "respondents"]))
def test_no_shares_have_a_larger_bound_than_unknown_ones(name: str, about: About) -> None:
    randomizers = RANDOMIZERS[name]
    shape = tuple(one.size for one in randomizers)
    worst = largest_errors(randomizers, N, about=about)
    assert math.isinf(worst.relative)
    rng = np.random.default_rng(5)
    cells = math.prod(shape)
    tried = [*np.eye(cells), *rng.dirichlet(np.full(cells, 0.1), 50), np.full(cells, 1 / cells)]
    bounds = [
        largest_errors(randomizers, N, shares=shares.reshape(shape), about=about).absolute
        for shares in tried
    ]
    assert max(bounds) <= worst.absolute * (1 + 1e-9)
    assert worst.absolute < 1.3 * max(bounds)


@pytest.mark.parametrize("name", ["keep", "a matrix", "two attributes"])
def test_all_cells_are_within_it_in_as_many_surveys_as_it_says(name: str) -> None:
    randomizers = RANDOMIZERS[name]
    shape = tuple(one.size for one in randomizers)
    shares = np.random.default_rng(1).dirichlet(np.full(math.prod(shape), 2.0))
    law: Floats = np.ones((1, 1))
    for one in randomizers:
        law = np.kron(law, one.matrix()).astype(np.float64)
    bound = largest_errors(randomizers, N, shares=shares.reshape(shape)).absolute
    reports = np.random.default_rng(2).multinomial(N, law.T @ shares, 4_000) / N
    errors = np.abs(reports @ np.linalg.inv(law) - shares).max(axis=1)
    hits = int((errors <= bound).sum())
    assert stats.binomtest(hits, 4_000, 0.95, "less").pvalue > ALPHA
    assert hits < 0.99 * 4_000
    # Expression (5), which is about the reports, is no bound of the answers.
    printed = int((errors <= reported_errors(law.T @ shares, N).absolute).sum())
    assert stats.binomtest(printed, 4_000, 0.95, "less").pvalue < ALPHA


def test_what_cannot_be_bounded_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one randomizer"):
        largest_errors([], N)
    with pytest.raises(ValueError, match=r"shape \(3,\): expected \(4,\)"):
        largest_errors([KEEP], N, shares=[0.2, 0.3, 0.5])
    with pytest.raises(ValueError, match="probability distribution"):
        largest_errors([KEEP], N, shares=[0.2, 0.3, 0.5, 0.5])
    with pytest.raises(ValueError, match="0 reports"):
        largest_errors([KEEP], 0)
    with pytest.raises(ValueError, match="level 1"):
        reported_errors(UNEVEN, N, level=1)
