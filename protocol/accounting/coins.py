"""Coins in a sum: the number that is needed, and their cost."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

from protocol.accounting.composition import ExactAccountant
from protocol.accounting.events import Coins, Merged
from protocol.accounting.shuffling import MOST_RESPONDENTS
from protocol.accounting.sums import MOST_COINS
from protocol.randomizers.coins import FAIR, SIDES, Noise
from protocol.randomizers.exact import check_epsilon

MOST_TABLES = 10**4
"""The most tables for which coins are sized."""

# The most that a figure may be below the epsilon asked for, relative to it.
_WASTE = 0.02


@lru_cache(maxsize=1024)
def sized(epsilon: float, delta: float, *, tables: int, honest: int) -> Noise:
    """The fewest coins with a certified epsilon of at most this among so many honest parties.

    A party adds the fewest fair coins that are enough. Where that is clearly more than enough, the
    coins get the smallest chance with which so many are enough.

    Args:
        epsilon: in nats.
        delta: the probability for which epsilon need not hold.
        tables: the number of tables; a respondent is in one cell of each.
        honest: the least number of honest parties, this one included.

    Raises:
        ValueError: ``epsilon`` is not positive and finite, ``delta`` not between 0 and 1,
            ``tables`` not from 1 to 10**4, ``honest`` not from 1 to 10**8, or 2**30 coins are too
            few.
    """
    _check(delta, tables, honest)
    check_epsilon(epsilon)
    # The loss is nearly normal: of this variance in units of the coins' own.
    width = math.sqrt(-2 * math.log(delta)) + math.sqrt(-2 * math.log(delta) + 2 * epsilon)
    guess = 2 * tables * (width / (2 * epsilon)) ** 2

    def excess(trials: int, chance: int, honest: int = honest) -> float:
        return coins_epsilon(trials, chance, tables=tables, honest=honest, delta=delta) - epsilon

    if honest > 1 and excess(1, FAIR, honest - 1) <= 0:
        # A coin's variance is r(1 - r), so that r is about this if that is small.
        start = SIDES * guess / honest
        chance = _least(lambda chance: excess(1, chance), start, FAIR)
        return Noise(trials=1, chance=chance)
    try:
        most = MOST_COINS // honest
        trials = _least(lambda trials: excess(trials, FAIR), 4 * guess / honest, most)
    except ValueError as error:
        raise ValueError(
            f"epsilon {epsilon} for {tables} tables at delta {delta}: needs more than {MOST_COINS} "
            "coins for each cell"
        ) from error
    if excess(trials, FAIR) > -_WASTE * epsilon:
        return Noise(trials=trials)
    # Fair coins are more than enough: as many of a smaller chance will do.
    chance = _least(lambda chance: excess(trials, chance), FAIR / 2, FAIR)
    return Noise(trials=trials, chance=chance)


@lru_cache(maxsize=1024)
def coins_epsilon(trials: int, chance: int, *, tables: int, honest: int, delta: float) -> float:
    """The epsilon at a delta of tables with such coins, in a sum over honest parties.

    Args:
        trials: one party's coins of a cell.
        chance: of each to be 1, in units of 2**-16: 1 to 2**15.
        tables: the number of tables; a respondent is in one cell of each.
        honest: the number of honest parties that add coins, the respondent's own included.
        delta: the probability for which epsilon need not hold.

    Returns:
        An upper bound, in nats; infinite if the coins are too few for this delta.

    Raises:
        ValueError: a figure is out of bounds.
    """
    _check(delta, tables, honest)
    event = Coins(trials, chance, (("",),) * tables)
    return ExactAccountant(delta).judge([Merged(event, honest)]).epsilon


def _check(delta: float, tables: int, honest: int) -> None:
    if not 0 < delta < 1:
        raise ValueError(f"delta {delta}: expected more than 0 and less than 1")
    if not 1 <= tables <= MOST_TABLES:
        raise ValueError(f"{tables} tables: expected 1 to {MOST_TABLES}")
    if not 1 <= honest <= MOST_RESPONDENTS:
        raise ValueError(f"{honest} honest parties: expected 1 to {MOST_RESPONDENTS}")


def _least(excess: Callable[[int], float], guess: float, most: int) -> int:
    """The least number of coins, or chance, that suffices.

    Raises:
        ValueError: there is an excess at ``most``.
    """
    low, high = 0, min(max(1, round(guess)), most)
    while excess(high) > 0:
        if high == most:
            raise ValueError("too few")
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        if excess(middle) > 0:
            low = middle
        else:
            high = middle
    return high
