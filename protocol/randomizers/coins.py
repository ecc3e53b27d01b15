"""Coins that parties add to their counts, so that the sum of all reveals little about anyone.

To each cell, each party adds the number of its coins that come up. The coins of h honest parties
together are binomial, exactly, with h times as many coins.
"""

from __future__ import annotations

import math
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from protocol.crypto.randomness import Stream

SIDES = 2**16
"""The chance of a coin is given in units of 1 of this."""

FAIR = SIDES // 2
"""The chance of a fair coin, and the largest."""

MOST_TRIALS = 2**20
"""The most coins of one party for one cell."""

_AT_ONCE = 2**20
# The chance that counts of honest parties are refused: 2**-40.
_RARITY = 41 * math.log(2)


class Noise(msgspec.Struct, frozen=True, kw_only=True):
    """Coins that a party adds to each cell of a sum.

    Args:
        trials: the number of coins.
        chance: the chance of each to come up, in units of ``2**-16``; at most a half.
    """

    trials: Annotated[int, Meta(ge=1, le=MOST_TRIALS)]
    chance: Annotated[int, Meta(ge=1, le=FAIR)] = FAIR

    @property
    def mean(self) -> float:
        """The mean number of coins that a party adds to a cell."""
        return self.trials * self.chance / SIDES

    def deviation(self, parties: int) -> float:
        """The standard deviation of a cell's coins, in counts, for several parties together."""
        share = self.chance / SIDES
        return math.sqrt(self.trials * parties * share * (1 - share))

    def draw(self, stream: Stream, cells: int) -> NDArray[np.uint32]:
        """The number of coins that came up for each cell, (cells,).

        Exactly binomial: of each coin 16 bits of the keystream are compared with the chance, and
        of fair ones one bit is counted.
        """
        per_cell = (self.trials + 7) // 8 if self.chance == FAIR else 2 * self.trials
        at_once = max(1, _AT_ONCE // per_cell)
        found = np.empty(cells, np.uint32)
        for start in range(0, cells, at_once):
            count = min(at_once, cells - start)
            octets = np.frombuffer(stream.bytes(count * per_cell), np.uint8)
            if self.chance == FAIR:
                bits = np.unpackbits(octets.reshape(count, per_cell), axis=1, count=self.trials)
                up = bits.sum(axis=1, dtype=np.uint32)
            else:
                words = octets.view("<u2").reshape(count, self.trials)
                up = (words < self.chance).sum(axis=1, dtype=np.uint32)
            found[start : start + count] = up
        return found

    def slack(self, cells: int, parties: int) -> tuple[int, int]:
        """Bounds on the number of coins of a table, with an error probability of ``2**-40``.

        Args:
            cells: the cells of the table.
            parties: the number of parties.
        """
        trials, chance = cells * parties * self.trials, self.chance / SIDES
        mean, variance = trials * chance, trials * chance * (1 - chance)
        width = bernstein(variance, _RARITY)
        return max(0, math.ceil(mean - width)), min(trials, math.floor(mean + width))


def bernstein(variance: float, rarity: float) -> float:
    """The distance of a binomial number from its mean but with probability ``2 e**-rarity``.

    By Bernstein's inequality it is x or more with ``2 e**(-x**2 / (2 (v + x/3)))`` at most.
    """
    return rarity / 3 + math.sqrt(rarity**2 / 9 + 2 * variance * rarity)
