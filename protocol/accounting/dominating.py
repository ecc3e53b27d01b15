"""Which pairs of laws dominate which randomizer; their compositions are in ``losses``."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from protocol.accounting.losses import ThreePoint
from protocol.crypto.randomness import WORDS
from protocol.errors import UnsupportedEventError
from protocol.randomizers import (
    AnyRandomizer,
    KeepElseTable,
    KeepUniform,
    MatrixRandomizer,
    OneHot,
    PrivKV,
    PrivKVM,
)

_KNOWN = (KeepUniform, KeepElseTable, MatrixRandomizer, OneHot, PrivKV, PrivKVM)


class Dominating(NamedTuple):
    """What stands for one draw of a randomizer.

    Args:
        pairs: whose composition dominates the draw; None if a report can rule an answer out.
        tight: whether any two different answers have exactly this loss.
    """

    pairs: tuple[ThreePoint, ...] | None
    tight: bool


@lru_cache(maxsize=1024)
def dominating(randomizer: AnyRandomizer) -> Dominating:
    """The pairs that dominate one draw, from the exact integers of the randomizer.

    - ``KeepUniform``: any two answers have the losses epsilon, 0 and -epsilon. Exact.
    - ``OneHot``: any two codes differ in two bits, each binary randomized response. Exact.
    - ``KeepElseTable``: epsilon and the distance p, which any two answers have. An upper bound
      unless all fakes are equally likely.
    - ``MatrixRandomizer``: epsilon and a bound on the distance, 1 minus the sum of the columns'
      minima. An upper bound.
    - ``PrivKV``: epsilon and the largest distance of its three states. Values between, and keys
      drawn at random, are mixtures, which tell no more. An upper bound.
    - ``PrivKVM``: its key's response and as many draws of the value's as there are rounds, all
      binary; whatever the fakes are, a round is one such draw on a bit. An upper bound.

    Raises:
        UnsupportedEventError: of any other randomizer, also of a class that is derived from one of
            these: it may draw by another law.
    """
    if math.isinf(randomizer.epsilon):
        return Dominating(None, False)
    if type(randomizer) not in _KNOWN:
        names = ", ".join(known.__name__ for known in _KNOWN)
        raise UnsupportedEventError(
            f"randomizer {type(randomizer).__name__!r} is not one of those that can be composed at "
            f"a delta: {names}"
        )
    match randomizer:
        case KeepUniform(size=size, threshold=threshold):
            rest = WORDS - threshold
            ratio = Fraction(size * threshold + rest, rest)
            return Dominating((ThreePoint(ratio, Fraction(threshold, WORDS)),), True)
        case OneHot(threshold=threshold):
            bit = ThreePoint.binary(Fraction(WORDS - threshold, threshold))
            return Dominating((bit, bit), True)
        case KeepElseTable():
            return _of_table(randomizer)
        case MatrixRandomizer(weights=weights):
            columns = list(zip(*weights, strict=True))
            ratio = max(Fraction(max(column), min(column)) for column in columns)
            # The overlap of any two rows is at least what all rows share.
            distance = 1 - Fraction(sum(map(min, columns)), WORDS)
            return Dominating((_bounded(ratio, distance),), False)
        case PrivKV():
            return Dominating((_of_key_value(randomizer),), False)
        case PrivKVM(each=each, rounds=rounds):
            key, value = (
                ThreePoint.binary(_binary_ratio(response))
                for response in (each.key_response, each.value_response)
            )
            return Dominating((key, *(value,) * rounds), False)


def _bounded(ratio: Fraction, distance: Fraction) -> ThreePoint:
    """The pair of this epsilon and distance, which epsilon bounds too."""
    return ThreePoint(ratio, min(distance, (ratio - 1) / (ratio + 1)))


def _binary_ratio(response: KeepUniform) -> Fraction:
    return Fraction(WORDS + response.threshold, WORDS - response.threshold)


def _of_table(randomizer: KeepElseTable) -> Dominating:
    least = min(randomizer.weights)
    fake = (WORDS - randomizer.threshold) * least
    pair = ThreePoint(
        Fraction(WORDS * randomizer.threshold + fake, fake), Fraction(randomizer.threshold, WORDS)
    )
    return Dominating((pair,), least == max(randomizer.weights))


def _of_key_value(randomizer: PrivKV) -> ThreePoint:
    key, value = randomizer.key_response.threshold, randomizer.value_response.threshold
    kept, turned = Fraction(WORDS + key, 2 * WORDS), Fraction(WORDS - key, 2 * WORDS)
    upright, reverse = Fraction(WORDS + value, 2 * WORDS), Fraction(WORDS - value, 2 * WORDS)
    # Rows: a missing key, a held one with value +1 and with value -1; the columns are the symbols.
    rows = (
        (kept, turned / 2, turned / 2),
        (turned, kept * upright, kept * reverse),
        (turned, kept * reverse, kept * upright),
    )
    ratio = max(a / b for one in rows for other in rows for a, b in zip(one, other, strict=True))
    distance = max(
        sum((max(a - b, Fraction(0)) for a, b in zip(one, other, strict=True)), Fraction(0))
        for one in rows
        for other in rows
    )
    return _bounded(ratio, distance)
