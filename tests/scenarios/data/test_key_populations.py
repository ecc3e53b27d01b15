"""Populations of keys with values: those of Table 2, and what is drawn from them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from protocol import SurveyError
from protocol.variants.keyvalue.records import key_values
from scenarios import synthetic
from scenarios.data.key_populations import SYNTHETIC, KeyPopulation, Synthetic
from tests.statistical import ALPHA, WRONG

NAN = math.nan


# Synthetic populations


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("Gaussian", (0.49506, 0.10926, -0.00987, 0.43702)),
        # The third is printed as -0.58681, though it is 2 * 0.206598 - 1.
        ("Power-law", (0.20660, 0.062901, -0.58680, 0.25160)),
        ("Linear", (0.51, 0.08330, 0.0, 0.34694)),
    ],
)
def test_statistics_are_those_of_table_2(name: Synthetic, printed: tuple[float, ...]) -> None:
    population = synthetic(name)
    assert (len(population.keys), population.keys[0]) == (50, "1")
    for found, shown in zip(population.statistics(), printed, strict=True):
        digits = len(repr(shown).partition(".")[2])
        assert abs(found - shown) <= 0.5 * 10.0**-digits


def test_populations_are_those_of_the_text() -> None:
    k = np.arange(1, 51)
    gaussian, power, linear = (synthetic(name) for name in SYNTHETIC)
    np.testing.assert_allclose(gaussian.frequencies, np.exp(-((k - 25) ** 2) / 200))
    np.testing.assert_allclose(power.frequencies[[0, 10, 49]], [1, 1.1**-11, 1.49**-11])
    np.testing.assert_allclose(linear.frequencies, k / 50)
    for population in (gaussian, power):
        np.testing.assert_allclose(population.means, 2 * population.frequencies - 1)
    np.testing.assert_allclose(linear.means[[0, 49]], [-1, 1])
    np.testing.assert_allclose(np.diff(linear.means), 2 / 49)


def levels() -> KeyPopulation:
    return KeyPopulation(
        name="levels",
        keys=("a", "b", "c"),
        shares=np.array([[0.2, 0.3], [0.0, 0.0], [0.9, 0.1]]),
        values=np.array([[-1.0, 0.5], [-1.0, 0.5], [0.0, 1.0]]),
    )


def test_frequencies_and_means_are_of_all_levels() -> None:
    population = levels()
    np.testing.assert_allclose(population.frequencies, [0.5, 0, 1])
    np.testing.assert_allclose(population.means, [-0.1, NAN, 0.1])
    found = population.statistics()
    assert found == pytest.approx((0.5, 1 / 6, 0.0, 0.01))


def test_drawn_clients_follow_the_population() -> None:
    n, generator = 40_000, np.random.default_rng(1)
    records = levels().records(n, generator)
    clients = key_values(records.survey)[np.arange(3), records.codes]
    assert clients.shape == (n, 3)
    assert np.isnan(clients[:, 1]).all()
    assert not np.isnan(clients[:, 2]).any()
    observed = [(clients[:, 0] == -1).sum(), (clients[:, 0] == 0.5).sum()]
    observed.append(np.isnan(clients[:, 0]).sum())
    assert sum(observed) == n
    for law, rejected in (([0.2, 0.3, 0.5], False), ([0.2 * WRONG, 0.3, 0.48], True)):
        p_value = stats.chisquare(observed, np.array(law) * n).pvalue
        assert (p_value < ALPHA) == rejected
    # Keys are independent of one another.
    both = ((clients[:, 0] == 0.5) & (clients[:, 2] == 1.0)).sum()
    assert stats.binomtest(int(both), n, 0.03).pvalue > ALPHA
    assert stats.binomtest(int(both), n, 0.03 * 1.25).pvalue < ALPHA
    with pytest.raises(ValueError, match="0 clients"):
        levels().records(0, generator)


def test_a_value_twice_is_no_survey() -> None:
    shares, values = np.full((1, 2), 0.5), np.zeros((1, 2))
    twice = KeyPopulation(name="x", keys=("a",), shares=shares, values=values)
    with pytest.raises(SurveyError, match="repeated"):
        twice.records(3, np.random.default_rng(1))
