"""Who is whose neighbour in a secure sum, and how many neighbours are enough.

Each of n parties deals shares to k neighbours, t of which suffice to reconstruct, and agrees on
masks with them (Bell et al., Secure Single-Server Aggregation with (Poly)Logarithmic Overhead,
2020, sections 3 and 4). The graph is a Harary graph on parties in a uniformly random order, so
everybody's neighbours are a uniform choice of k out of the n - 1 others.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.crypto.randomness import Stream

COMPLETE = 24
"""Up to this many parties, all are neighbours of each other."""

_LEAST_BITS = 2
_MOST_BITS = 1000
# A float holds nothing smaller than 2**-1074.
_NOTHING_BITS = 1100

Columns = TypeVar("Columns", int, NDArray[np.int64])


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """What a secure sum has to withstand, and how surely.

    Args:
        corrupt: the share of the parties that may work for the aggregator.
        dropped: the share of the parties that may be gone before the end.
        security: bits: a bound on secrecy fails with probability at most ``2**-security``.
        correctness: bits: the sum cannot be finished with probability at most
            ``2**-correctness``.

    Raises:
        ValueError: shares that are negative or together not below 1, or bits outside 2..1000.
    """

    corrupt: float = 0.05
    dropped: float = 0.1
    security: int = 40
    correctness: int = 20

    def __post_init__(self) -> None:
        # As negations, so that NaN is refused.
        if not (self.corrupt >= 0 and self.dropped >= 0 and self.corrupt + self.dropped < 1):
            raise ValueError(
                f"corrupt {self.corrupt} and dropped {self.dropped}: "
                "expected shares of at least 0, together below 1"
            )
        for name, bits in (("security", self.security), ("correctness", self.correctness)):
            if not _LEAST_BITS <= bits <= _MOST_BITS:
                raise ValueError(f"{name} {bits}: expected {_LEAST_BITS} to {_MOST_BITS} bits")

    def corrupt_of(self, parties: int) -> int:
        """``floor(corrupt * parties)``, with the share as it is written in decimals."""
        return _floor(self.corrupt, parties)

    def dropped_of(self, parties: int) -> int:
        """``floor(dropped * parties)``, with the share as it is written in decimals."""
        return _floor(self.dropped, parties)


def _floor(share: float, parties: int) -> int:
    # 0.29 * 100 is below 29 in binary.
    return math.floor(Fraction(repr(float(share))) * parties)


class Degree(msgspec.Struct, frozen=True, kw_only=True):
    """How many neighbours a party has, and how many of their shares reconstruct.

    Args:
        neighbours: k, even, or n - 1 in the complete graph.
        threshold: t, with k/2 < t <= k.
    """

    neighbours: int
    threshold: int

    @property
    def tolerated(self) -> int:
        """How many neighbours may be corrupt: with one more, 2t > k + c does not hold."""
        return max(0, 2 * self.threshold - self.neighbours - 1)


def degree_of(parties: int, bound: Bound) -> Degree:
    """The fewest neighbours that are enough for so many parties.

    With C = floor(corrupt n) and D = floor(dropped n), the smallest even k below n - 1 for which
    there is a t such that

    - ``n P[Hypergeometric(n - 1, C, k) >= 2t - k] <= 2**-security``. A party is unmasked by t
      shares of its own mask's seed together with t of its key, and an honest neighbour reveals
      one or the other, by what it is told of who survived. An aggregator that tells some this and
      some that gets one share of each honest neighbour and two of each corrupt one: with c
      corrupt neighbours k + c in all, which is less than the 2t that it needs if 2t > k + c.
    - ``n P[Hypergeometric(n - 1, D, k) > k - t] <= 2**-correctness``: t neighbours of everybody
      stay.
    - ``n P[k/2 places in a row are all among C + D] <= 2**-security``. Two honest parties that stay
      with fewer than k/2 gone or corrupt ones between them are neighbours, so the graph on the
      honest ones that stay is connected unless there are two such runs; one is counted here.

    Of the t that will do, it is the one whose smaller margin is the largest, in bits below the
    first two bounds; of equal ones the smallest. In the complete graph, which is taken if no such k
    is below n - 1 or there are at most ``COMPLETE`` parties, t is the smallest with 2t > k + C, and
    all bounds hold with certainty.

    The choice of who is corrupt or gone must not depend on the order. Against an aggregator that
    declares whom it likes to be gone, a party has to refuse if fewer than t of its own neighbours
    are said to have stayed.

    Raises:
        ValueError: fewer than two parties, or so many corrupt or gone that no t will do.
    """
    if parties < 2:
        raise ValueError(
            f"{parties} parties: expected at least 2, since a sum over one party shows its values"
        )
    corrupt, dropped = bound.corrupt_of(parties), bound.dropped_of(parties)
    # The complete graph has a t if and only if k + C < 2(k - D). Where it has none, no k has. For
    # let X neighbours be corrupt and Y gone: X <= 2t - k - 1 and Y <= k - t, each but for 1/(4n) at
    # most, would make E[X + 2Y] <= k - 1 + 3k/(4n) < k, and it is k (C + 2D)/(n - 1) >= k.
    if corrupt + 2 * dropped >= parties - 1:
        raise ValueError(
            f"{parties} parties of which {corrupt} may be corrupt and {dropped} may drop out: "
            "no threshold withstands both; allow fewer dropouts or have more parties"
        )
    if parties > COMPLETE:
        sparse = _sparse(parties, corrupt=corrupt, dropped=dropped, bound=bound)
        if sparse is not None:
            return sparse
    k = parties - 1
    return Degree(neighbours=k, threshold=(k + corrupt) // 2 + 1)


def _sparse(parties: int, *, corrupt: int, dropped: int, bound: Bound) -> Degree | None:
    """The smallest even k below n - 1, or None if there is none.

    Let a and b be the least numbers of corrupt and of gone neighbours that are rare enough, both at
    least 1. There is a t for k if and only if ``2t - k >= a`` and ``k - t + 1 >= b`` can hold
    together: if ``k >= a + 2b - 2``, with a rounded up to an even number. Neither a nor b falls as
    k grows, so no k below ``a + 2b - 2`` will do, and going there, again and again, leads to the
    smallest.
    """
    log_parties = math.log2(parties)
    runs = _log2_runs(parties, corrupt + dropped, bits=bound.security)
    k = 2 * (1 + int(np.argmax(runs <= -bound.security)))
    while k < parties - 1:
        unmasked = _tail(population=parties - 1, marked=corrupt, drawn=k)
        lost = _tail(population=parties - 1, marked=dropped, drawn=k)
        a = unmasked.first_below(-bound.security - log_parties)
        b = lost.first_below(-bound.correctness - log_parties)
        least = a + a % 2 + 2 * b - 2
        if k < least:
            k = least
            continue
        thresholds = range((k + a + 1) // 2, k - b + 2)
        margins = [
            min(
                -(log_parties + unmasked.at(2 * t - k)) - bound.security,
                -(log_parties + lost.at(k - t + 1)) - bound.correctness,
            )
            for t in thresholds
        ]
        return Degree(neighbours=k, threshold=thresholds[margins.index(max(margins))])
    return None


def _log2_runs(parties: int, gone: int, *, bits: int) -> NDArray[np.float64]:
    """``log2(n P[h places in a row are all gone])`` at h - 1, until nothing is left."""
    if not gone:
        return np.array([-np.inf])
    # P <= (gone / n)**h bounds how far it takes to fall below what a float holds.
    enough = (_NOTHING_BITS + math.log2(parties)) / math.log2(parties / gone)
    before = np.arange(min(gone, math.ceil(enough)))
    falling = np.cumsum(np.log2((gone - before) / (parties - before)))
    return np.append(math.log2(parties) + falling, -np.inf)


class _Tail(NamedTuple):
    """``log2 P[X >= start + i]`` at i, from 0 at the first down to -inf at the last."""

    start: int
    log2: NDArray[np.float64]

    def at(self, least: int) -> float:
        """``log2 P[X >= least]``."""
        place = least - self.start
        if place < 0:
            return 0.0
        return float(self.log2[place]) if place < len(self.log2) else -math.inf

    def first_below(self, log2: float) -> int:
        """The smallest x with ``log2 P[X >= x] <= log2``, for a negative ``log2``."""
        return self.start + int(np.argmax(self.log2 <= log2))


def _tail(*, population: int, marked: int, drawn: int) -> _Tail:
    """The upper tail of how many of ``drawn`` draws without replacement are marked.

    Exact but for rounding, in whatever tail a float can hold: what is farther from the mean than
    Hoeffding's inequality (1963, sections 2 and 6) allows with 2**-1100 is left out.
    """
    mean = drawn * marked / population
    far = math.sqrt(_NOTHING_BITS * math.log(2) * drawn / 2)
    low = max(0, drawn + marked - population, math.floor(mean - far))
    high = min(marked, drawn, math.ceil(mean + far))
    x = np.arange(low, high, dtype=np.float64)
    ratios = np.log2((marked - x) * (drawn - x) / ((x + 1) * (population - marked - drawn + x + 1)))
    law = np.concatenate(([0.0], np.cumsum(ratios)))
    law -= law.max()
    tail = np.logaddexp2.accumulate(law[::-1])[::-1]
    return _Tail(low, np.append(tail - tail[0], -np.inf))


@lru_cache(maxsize=8)
def order_of(coin: bytes, parties: int) -> NDArray[np.int64]:
    """The uniformly random order that a public coin of 32 bytes gives, read-only.

    Returns:
        shape (parties,): the place on the roster of each rank.

    Raises:
        ValueError: the coin has not 32 bytes.
    """
    order = Stream(coin).permutation(parties)
    order.flags.writeable = False
    return order


def _offsets(parties: int, k: int) -> NDArray[np.int64]:
    """How many ranks on a party's neighbours are, ascending; with o there is also n - o.

    Raises:
        ValueError: k is neither even and in 2..n-2 nor n - 1.
    """
    if k < 1 or k >= parties or (k % 2 and k != parties - 1):
        raise ValueError(f"{k} neighbours of {parties} parties: expected an even number, or all")
    offsets = np.arange(1, k + 1)
    offsets[(k + 1) // 2 :] += parties - 1 - k
    return offsets


def mirror(columns: Columns, k: int) -> Columns:
    """The columns of the neighbours' rows in which stands who has them in these columns.

    Offsets are ascending, and of two that lead there and back the sum is n, so this is
    ``k - 1 - columns``.
    """
    return k - 1 - columns


def neighbours_of(place: int, parties: int, k: int, order: NDArray[np.int64]) -> NDArray[np.int64]:
    """The neighbours of one place, shape (k,): its row of ``neighbourhoods``.

    Raises:
        ValueError: no such place or number of neighbours, or an order of another length.
    """
    if order.shape != (parties,):
        raise ValueError(f"order of shape {order.shape}: expected ({parties},)")
    if not 0 <= place < parties:
        raise ValueError(f"place {place}: expected 0 to {parties - 1}")
    rank = int(np.argmax(order == place))
    return order[(rank + _offsets(parties, k)) % parties]


def neighbourhoods(order: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """The neighbours of every place, shape (n, k).

    These are the next k/2 ranks around the circle, nearest first, and then the k/2 before,
    farthest first; all others, in this order, if k = n - 1. In row ``neighbours[i, c]``, column
    ``mirror(c, k)`` is i.

    Raises:
        ValueError: k is neither even and in 2..n-2 nor n - 1.
    """
    parties = len(order)
    ranks = np.empty(parties, np.int64)
    ranks[order] = np.arange(parties)
    places: NDArray[np.int64] = order[(ranks[:, None] + _offsets(parties, k)) % parties]
    return places
