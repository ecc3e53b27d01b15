"""Intervals of counts, against exact tails and by every outcome that there is."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from protocol.estimators.inference.cumulants import (
    CumulantLaw,
    Cumulants,
    Errors,
    Offsets,
    above,
    below,
    count_cumulants,
)
from protocol.estimators.inference.laws import About
from tests.tiers import thinned

LAWS = [(0.55, 0.45), (0.95, 0.05), (0.19, 0.09), (0.91, 0.01), (0.5, 0.0001)]
"""How likely a report counts whose respondent is in the set, and is not."""

Floats = NDArray[np.float64]


def reported(n: int, inside: int, hit: float, other: float) -> Floats:
    """The law of the count of n reports of respondents of whom so many are in the set."""
    one = stats.binom.pmf(np.arange(inside + 1), inside, hit)
    rest = stats.binom.pmf(np.arange(n - inside + 1), n - inside, other)
    return np.convolve(one, rest)


def law_of_count(about: About, n: int, of: int, inside: int, hit: float, other: float) -> Floats:
    """The same of n who are drawn from ``of``, or of a population with this share."""
    if about == "population":
        share = inside / of
        return stats.binom.pmf(np.arange(n + 1), n, other + (hit - other) * share)
    drawn = range(max(0, n - of + inside), min(n, inside) + 1)
    parts = [stats.hypergeom.pmf(x, of, inside, n) * reported(n, x, hit, other) for x in drawn]
    return np.sum(parts, axis=0)


@pytest.mark.parametrize("about", ["respondents", "population"])
@pytest.mark.parametrize(("n", "of"), [(6, 6), (5, 12)])
def test_cumulants_are_those_of_every_outcome(about: About, n: int, of: int) -> None:
    for hit, other in LAWS:
        gain = hit - other
        found = count_cumulants(n, Offsets.alike(n, other), gain, about=about, of=of)
        for inside in range(of + 1):
            law = law_of_count(about, n, of, inside, hit, other)
            mean = law @ np.arange(n + 1)
            centred = np.arange(n + 1) - mean
            variance, third = found.at(np.array(inside / of))
            assert mean == pytest.approx(n * (other + gain * inside / of), abs=1e-12)
            assert variance == pytest.approx(law @ centred**2, abs=1e-12)
            assert third == pytest.approx(law @ centred**3, abs=1e-12)


def test_reports_with_different_offsets_add_up() -> None:
    others = np.array([0.1, 0.3, 0.3, 0.05])
    offsets = Offsets(others.sum(), (others**2).sum(), (others**3).sum())
    found = count_cumulants(4, offsets, 0.4, about="population", of=4)
    parts = [
        count_cumulants(1, Offsets.alike(1, other), 0.4, about="population", of=1)
        for other in others
    ]
    added = parts[0].plus(parts[1]).plus(parts[2]).plus(parts[3])
    np.testing.assert_allclose(found.variance, added.variance, atol=1e-14)
    np.testing.assert_allclose(found.third, added.third, atol=1e-14)


def test_tails_of_a_count_are_binomial() -> None:
    n, share = 40, 0.17
    counts = np.arange(n + 1, dtype=np.float64)
    ones = np.ones(n + 1)
    variance = n * share * (1 - share)
    errors = Errors(counts - n * share, variance * ones, variance * (1 - 2 * share) * ones, ones)
    law = stats.binom(n, share)
    own = 0.5 + 0.5 * np.exp(-variance / 5)
    np.testing.assert_allclose(below(errors), law.cdf(counts - 1) + own * law.pmf(counts))
    np.testing.assert_allclose(above(errors), law.sf(counts) + own * law.pmf(counts))


def coverage(
    about: About, n: int, of: int, hit: float, other: float, factor: float = 1.0
) -> tuple[Floats, NDArray[np.bool_]]:
    """How often intervals hold each share that there can be, and which shares have many reports
    and are two standard errors inside the range.

    Args:
        factor: of the cumulants, for a law that is wrong.
    """
    counts, gain = np.arange(n + 1), hit - other
    values = (counts / n - other) / gain
    law = CumulantLaw.of_counts(values, n, other=other, gain=gain, of=of)
    wrong = {
        side: Cumulants(known.variance * factor, known.third)
        for side, known in law.cumulants.items()
    }
    found = CumulantLaw(values=values, cumulants=wrong, steps=law.steps).interval(0.95, about)
    assert (found.low <= found.high).all()
    assert (found.low < found.high).all()
    insides = np.unique(np.linspace(0, of, 41).astype(int))
    shares = insides / of
    laws = [law_of_count(about, n, of, inside, hit, other) for inside in insides]
    covered = [
        law[(found.low <= share) & (share <= found.high)].sum()
        for law, share in zip(laws, shares, strict=True)
    ]
    errors = [np.sqrt(law @ (values - share) ** 2) for law, share in zip(laws, shares, strict=True)]
    inner = np.minimum(shares, 1 - shares) > 2 * np.array(errors)
    return np.array(covered), inner & (n * (other + gain * shares) >= 30)


@pytest.mark.parametrize("about", ["respondents", "population"])
@pytest.mark.parametrize(
    ("n", "of"),
    thinned([(1, 1), (2, 2), (5, 5), (5, 40), (20, 20), (20, 30), (120, 120), (80, 120)], 1),
)
def test_intervals_cover_by_every_outcome(about: About, n: int, of: int) -> None:
    for hit, other in LAWS:
        covered, inner = coverage(about, n, of, hit, other)
        assert covered.min() >= 0.93, (hit, other)
        # A count with few steps in a standard error covers more or less from share to share.
        assert (covered[inner] <= 0.98).all(), (hit, other)
        assert not inner.any() or covered[inner].mean() <= 0.965, (hit, other)


def test_a_variance_that_is_too_small_is_seen() -> None:
    covered, _ = coverage("population", 100, 100, 0.55, 0.45, factor=0.7)
    assert covered.min() < 0.92


def test_exact_counts_have_intervals_of_no_width_and_binomial_ones_of_a_population() -> None:
    law = CumulantLaw.of_counts([0.0, 0.25, 1.0], 20, other=0.0, gain=1.0)
    low, high = law.interval(0.95, "respondents")
    np.testing.assert_array_equal(low, [0, 0.25, 1])
    np.testing.assert_array_equal(high, [0, 0.25, 1])
    low, high = law.interval(0.95, "population")
    assert low[0] == 0
    assert high[2] == 1
    assert 0.05 < high[0] < 0.17
    assert low[1] < 0.25 < high[1]


def test_what_no_report_is_about_is_unknown() -> None:
    law = CumulantLaw.of_counts([0.3, 0.3], [0, 10], other=0.1, gain=0.5, of=10)
    for ends in law.interval(0.95, "respondents"):
        assert np.isnan(ends).tolist() == [True, False]


def test_intervals_are_never_empty() -> None:
    law = CumulantLaw.of_counts([-3.0, 4.0], 50, other=0.45, gain=0.1)
    low, high = law.interval(0.5, "population")
    assert (low >= 0).all()
    assert (high <= 1).all()
    assert (high - low > 0.01).all()
