"""How many coins a sum needs, and what is left of them if parties are missing."""

from __future__ import annotations

import itertools
import math

import pytest

from protocol import Coins, Merged, Noise, exact_epsilon
from protocol.accounting.coins import MOST_TABLES, coins_epsilon, sized
from protocol.randomizers.coins import FAIR

DELTA = 1e-6
NEEDED = {
    4: (2080, 573, 161, 48),
    6: (3119, 858, 240, 70),
    8: (4159, 1144, 320, 92),
    28: (14582, 4009, 1118, 321),
}
"""The fair coins of a cell for so many tables, at epsilon .5, 1, 2 and 4 and delta 1e-6."""


@pytest.mark.parametrize("tables", NEEDED)
def test_fair_coins_that_are_needed(tables: int) -> None:
    for epsilon, needed in zip((0.5, 1.0, 2.0, 4.0), NEEDED[tables], strict=True):
        noise = sized(epsilon, DELTA, tables=tables, honest=1)
        trials = noise.trials
        assert noise.chance == FAIR
        assert trials == pytest.approx(needed, rel=0.005)
        figures = [
            coins_epsilon(number, FAIR, tables=tables, honest=1, delta=DELTA)
            for number in (trials, trials - 1)
        ]
        assert figures[0] <= epsilon < figures[1]


@pytest.mark.parametrize("honest", [2, 3, 70, 429, 857, 858])
def test_few_parties_add_fair_coins(honest: int) -> None:
    alone = sized(1.0, DELTA, tables=6, honest=1).trials
    size = sized(1.0, DELTA, tables=6, honest=honest)
    assert size.trials == math.ceil(alone / honest)
    # Where whole coins are too many, their chance is less: the spread is hardly more than it takes.
    assert size.chance == FAIR or honest in (70, 857)
    assert (
        0.98 <= coins_epsilon(size.trials, size.chance, tables=6, honest=honest, delta=DELTA) <= 1.0
    )
    assert size.deviation(honest) == pytest.approx(math.sqrt(alone) / 2, rel=0.02)


@pytest.mark.parametrize(
    ("epsilon", "tables", "honest", "more"),
    [
        (1.0, 6, 859, 1.0),
        (1.0, 6, 11_333, 1.006),
        (2.0, 6, 11_333, 1.024),
        (1.0, 6, 566_666, 1.007),
        (1.0, 28, 17_000, 1.002),
    ],
)
def test_many_parties_add_one_coin(epsilon: float, tables: int, honest: int, more: float) -> None:
    """The least likely one, of hardly more variance than fair coins have."""
    size = sized(epsilon, DELTA, tables=tables, honest=honest)
    assert size.trials == 1
    figures = [
        coins_epsilon(1, chance, tables=tables, honest=honest, delta=DELTA)
        for chance in (size.chance, size.chance - 1)
    ]
    assert figures[0] <= epsilon < figures[1]
    fair = sized(epsilon, DELTA, tables=tables, honest=1)
    assert size.deviation(honest) == pytest.approx(math.sqrt(more) * fair.deviation(1), rel=0.01)


def test_so_many_parties_that_the_rarest_coin_is_enough() -> None:
    assert sized(4.0, DELTA, tables=1, honest=10**8) == Noise(trials=1, chance=1)


def test_half_of_the_honest_are_missing() -> None:
    for honest in (858, 11_333):
        size = sized(1.0, DELTA, tables=6, honest=honest)
        left = coins_epsilon(size.trials, size.chance, tables=6, honest=honest // 2, delta=DELTA)
        assert left == pytest.approx(1.46, abs=0.02)
    # The others alone conspire: one coin of hers hides nothing.
    assert coins_epsilon(size.trials, size.chance, tables=6, honest=1, delta=DELTA) == math.inf


def test_the_figure_is_that_of_the_accountant() -> None:
    pairs = tuple(itertools.combinations("abcd", 2))
    size = sized(1.0, DELTA, tables=6, honest=500)
    event = Merged(Coins(size.trials, size.chance, pairs), 500)
    found = exact_epsilon([event], DELTA)
    assert (
        found.epsilon
        == coins_epsilon(size.trials, size.chance, tables=6, honest=500, delta=DELTA)
        <= 1.0
    )


def test_the_noise_of_a_cell() -> None:
    assert Noise(trials=4).deviation(100) == pytest.approx(10.0)
    assert Noise(trials=1, chance=2**14).deviation(300) == pytest.approx(math.sqrt(300 * 3 / 16))


@pytest.mark.parametrize(
    ("epsilon", "delta", "tables", "honest", "says"),
    [
        (0.0, DELTA, 6, 10, "epsilon 0.0: expected a positive finite number"),
        (math.inf, DELTA, 6, 10, "epsilon inf"),
        (math.nan, DELTA, 6, 10, "epsilon nan"),
        (1.0, 0.0, 6, 10, "delta 0.0: expected more than 0"),
        (1.0, 1.0, 6, 10, "delta 1.0"),
        (1.0, math.nan, 6, 10, "delta nan"),
        (1.0, DELTA, 0, 10, "0 tables: expected 1 to"),
        (1.0, DELTA, MOST_TABLES + 1, 10, "tables: expected 1 to"),
        (1.0, DELTA, 6, 0, "0 honest parties: expected 1 to"),
        (1.0, DELTA, 6, 10**8 + 1, "honest parties: expected 1 to"),
        (1e-5, DELTA, 6, 10, "epsilon 1e-05 for 6 tables at delta 1e-06: needs more than"),
    ],
)
def test_bad_figures(epsilon: float, delta: float, tables: int, honest: int, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        sized(epsilon, delta, tables=tables, honest=honest)
    if "epsilon" not in says:
        with pytest.raises(ValueError, match=says):
            coins_epsilon(1, FAIR, tables=tables, honest=honest, delta=delta)


def test_impossible_coins() -> None:
    for trials, chance in ((0, FAIR), (1, 0), (1, FAIR + 1)):
        with pytest.raises(ValueError, match="coin"):
            coins_epsilon(trials, chance, tables=6, honest=10, delta=DELTA)
