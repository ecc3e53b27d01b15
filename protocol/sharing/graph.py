"""Neighbours of each party in a secure sum, and how many are enough.

Each of n parties deals shares to k neighbours, t of which suffice to reconstruct, and agrees on
masks with them (Bell et al., Secure Single-Server Aggregation with (Poly)Logarithmic Overhead,
2020, sections 3 and 4). Up to 255 parties all are neighbours. For more, the graph is a Harary graph
on parties in a uniformly random order, so a party's neighbours are a uniform choice of k out of the
n - 1 others.
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
from protocol.crypto.shamir import MAX_SHARES

COMPLETE = 255
"""Up to this many parties, all are neighbours of each other."""

MANY = 2**15
"""Up to this many parties, 255 neighbours withstand a quarter of all."""

_LEAST_BITS = 2
_MOST_BITS = 1000
# A float holds nothing smaller than 2**-1074.
_NOTHING_BITS = 1100

Columns = TypeVar("Columns", int, NDArray[np.int64])


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """Bound that a secure sum has to withstand, and how surely.

    Args:
        corrupt: the share of the parties that may conspire with the aggregator. None is a third
            of up to 255 parties, a quarter of up to 32,768 and a fifth of more, and at least one
            party.
        dropped: the share of the parties that may be missing in all.
        security: bits: among more than 255 parties, a bound on secrecy fails with probability at
            most ``2**-security``.
        correctness: bits: among more than 255 parties, the sum cannot be finished with probability
            at most ``2**-correctness``.

    Raises:
        ValueError: shares that are negative or together not below 1, or bits outside 2..1000.
    """

    corrupt: float | None = None
    dropped: float = 0.1
    security: int = 40
    correctness: int = 20

    def __post_init__(self) -> None:
        corrupt = self.corrupt or 0.0
        # As negations, so that NaN is refused.
        if not (corrupt >= 0 and self.dropped >= 0 and corrupt + self.dropped < 1):
            raise ValueError(
                f"corrupt {corrupt} and dropped {self.dropped}: "
                "expected shares of at least 0, together below 1"
            )
        for name, bits in (("security", self.security), ("correctness", self.correctness)):
            if not _LEAST_BITS <= bits <= _MOST_BITS:
                raise ValueError(f"{name} {bits}: expected {_LEAST_BITS} to {_MOST_BITS} bits")

    def corrupt_count(self, parties: int) -> int:
        """``floor(corrupt * parties)``, with the share as it is written in decimals."""
        if self.corrupt is not None:
            return _floor(self.corrupt, parties)
        if parties <= COMPLETE:
            return max(1, parties // 3)
        return parties // (4 if parties <= MANY else 5)

    def dropped_count(self, parties: int) -> int:
        """``floor(dropped * parties)``, with the share as it is written in decimals."""
        return _floor(self.dropped, parties)


def _floor(share: float, parties: int) -> int:
    # 0.29 * 100 is below 29 in binary.
    return math.floor(Fraction(repr(float(share))) * parties)


class Degree(msgspec.Struct, frozen=True, kw_only=True):
    """Number of neighbours of a party, and of their shares that reconstruct.

    Args:
        neighbours: k, even, or n - 1 in the complete graph.
        threshold: t, with k/2 < t <= k.
    """

    neighbours: int
    threshold: int


class Withstood(msgspec.Struct, frozen=True, kw_only=True):
    """Number of parties that may conspire with the aggregator in a secure sum.

    They learn one sum over at least ``honest`` honest parties, and nothing else.

    Args:
        parties: n.
        colluders: the number that may conspire, if chosen before the graph is drawn.
        adaptive: the number that may conspire, however they are chosen. It is less only in a sparse
            graph.
        honest: the fewest honest parties in the sum, with that many colluders.
        missing: the number that may be missing in all before parties refuse to unmask, with those
            that never joined.
        readers: whether readers of the record can take the aggregator's part, because the record
            has the opening of the sum.
        witnesses: the number of witnesses that certify the survivor set; 0 for none.
        trusted: the number of these that have to be honest.
        unwitnessed: the number of parties that may conspire, chosen like ``colluders``, if fewer
            witnesses are honest.
    """

    parties: int
    colluders: int
    adaptive: int
    honest: int
    missing: int
    readers: bool = True
    witnesses: int = 0
    trusted: int = 0
    unwitnessed: int = 0


def withstood(parties: int, degree: Degree, bound: Bound, *, certified: bool = False) -> Withstood:
    """The number of colluders that a sum withstands.

    A party reveals its shares for one survivor set, after t neighbours confirmed it. It reveals one
    kind of share of every other party.

    Args:
        certified: whether all surely reveal for one survivor set, each only if it has a mask with
            every neighbour in it.

    Complete graph: ``min(2t - k, t - 1)``, and no more. If honest parties reveal for two sets, each
    of the two camps has at least ``t - c + 1`` honest members, one and those who confirm it, so ``n
    - c >= 2 (t - c + 1)``: that needs ``c >= 2t - k + 1``. With one set for all, only the
    colluders' shares of a hidden secret are known: that needs ``c >= t``. So if it is certified,
    ``t - 1`` are withstood: any two honest parties in it have a mask with each other.

    Sparse graph: ``smallest_degree`` has the colluders that are withstood. However they are chosen,
    fewer than ``2t - k`` are. Two sets of honest parties may have no mask with each other even with
    one survivor set, so a certified one withstands no more.

    A party is in a sum with the t neighbours that confirmed it. In the sparse graph fewer than
    ``2t - k`` of these are corrupt.

    Raises:
        ValueError: the bound demands more.
    """
    k, t = degree.neighbours, degree.threshold
    corrupt = bound.corrupt_count(parties)
    if k < parties - 1:
        return Withstood(
            parties=parties,
            colluders=corrupt,
            adaptive=min(corrupt, 2 * t - k - 1),
            honest=k - t + 2,
            missing=bound.dropped_count(parties),
            unwitnessed=corrupt,
        )
    unwitnessed = min(2 * t - k, t - 1)
    colluders = t - 1 if certified else unwitnessed
    if colluders < corrupt:
        raise ValueError(
            f"{parties} parties of which {k - t} may be missing withstand {max(0, colluders)} who "
            f"conspire with the aggregator, expected at least {corrupt}; allow for fewer, or have "
            "more parties"
        )
    return Withstood(
        parties=parties,
        colluders=colluders,
        adaptive=colluders,
        honest=t + 1 - colluders,
        missing=k - t,
        unwitnessed=unwitnessed,
    )


def smallest_degree(parties: int, bound: Bound, *, certified: bool = False) -> Degree:
    """The fewest neighbours that are enough for this many parties.

    With C = floor(corrupt n) and D = floor(dropped n), up to 255 parties: all are neighbours, and
    ``t = k - D``. It withstands ``min(n - 1 - 2D, n - 2)`` colluders, and no protocol that
    finishes with any D missing withstands more: of ``2D`` honest parties each half sees what it
    would see if the other half had vanished. With a survivor set that others certify it withstands
    ``n - 2 - D``.

    Among more it is the smallest even k for which there is a t such that

    - ``n P[Hypergeometric(n - 1, C, k) >= 2t - k] <= 2**-security``. Both secrets of a party can be
      had only with ``2t - k`` corrupt neighbours: t shares of each, one from every honest neighbour
      and two from every corrupt one, are ``2t <= k + c``. Without it, a party whose masks with
      others are opened has at most ``k - t + c`` neighbours that confirm it, fewer than t, and
      reveals nothing.
    - two disjoint runs of k/2 places, each with at least ``t - k/2`` corrupt ones, are there with
      probability at most ``2**-security``. Two sums are learned only over two disjoint sets of
      honest parties, each of whose members has at least t neighbours that are of its set or
      corrupt. Where going around the circle one set follows the other, r after q, count the
      honest places of k/2 after q and of k/2 before r: each is lost to q or to r, and to both if
      it lies between them, and each of the two may lose ``k - t``. So one of the two runs has
      ``t - k/2`` corrupt places. If those of all such points overlapped, one set would lie within
      k + 2 places; then the runs before its first and after its last member are disjoint, for
      ``n >= 2k + 3``, and have ``t - k/2`` corrupt places each.
    - ``n P[Hypergeometric(n - 1, D, k) > k - t] <= 2**-correctness``: t neighbours of everybody
      stay.

    Of the t that suffice, it is the one with the largest smallest margin, in bits; of equal ones
    the smallest. The choice of corrupt parties must not depend on the order. For the first two
    bounds, the choice of missing ones may.

    Raises:
        ValueError: fewer than two parties, or so many corrupt or missing that no t will do.
    """
    if parties < 2:
        raise ValueError(
            f"parties {parties}: expected at least 2, since a sum over one party shows its values"
        )
    corrupt, dropped = bound.corrupt_count(parties), bound.dropped_count(parties)
    if parties > COMPLETE:
        sparse = _sparse(parties, corrupt=corrupt, dropped=dropped, bound=bound)
        if sparse is None:
            raise ValueError(
                f"{parties} parties of which {corrupt} may conspire and {dropped} may be missing: "
                f"this takes more than {MAX_SHARES} neighbours each; allow for fewer"
            )
        return sparse
    complete = Degree(neighbours=parties - 1, threshold=parties - 1 - dropped)
    withstood(parties, complete, bound, certified=certified)
    return complete


def _sparse(parties: int, *, corrupt: int, dropped: int, bound: Bound) -> Degree | None:
    """The smallest even k with a t, or None if there is none up to 255 and ``(n - 3) / 2``."""
    log_parties = math.log2(parties)
    for k in range(2, min(MAX_SHARES, (parties - 3) // 2) + 1, 2):
        both = _law(population=parties - 1, marked=corrupt, drawn=k)
        lost = _law(population=parties - 1, marked=dropped, drawn=k)
        best: tuple[float, int] | None = None
        for t in range(k // 2 + 1, k + 1):
            margin = min(
                -bound.security - (log_parties + both.tail(2 * t - k)),
                -bound.correctness - (log_parties + lost.tail(k - t + 1)),
            )
            if margin < 0:
                continue
            margin = min(margin, -bound.security - _two_runs(parties, corrupt, k // 2, t - k // 2))
            if margin >= 0 and (best is None or margin > best[0]):
                best = margin, t
        if best is not None:
            return Degree(neighbours=k, threshold=best[1])
    return None


def _two_runs(parties: int, corrupt: int, length: int, least: int) -> float:
    """``log2`` of a bound on P[two disjoint runs of ``length`` places with ``least`` corrupt each].

    Move the first place of a run on: runs with ``least`` corrupt places come in rows. The first run
    of a row has exactly ``least``, a corrupt last place, and an honest place before it. Two
    disjoint runs imply two such first runs that are disjoint, or one such run followed by
    ``length`` places that also have ``least``.
    """
    if least > min(corrupt, length):
        return -math.inf
    one = _law(population=parties, marked=corrupt, drawn=length)
    honest = (parties - length - (corrupt - least)) / (parties - length)
    first = one.point(least) + math.log2(least / length) + math.log2(honest)
    rest = _law(population=parties - length - 1, marked=corrupt - least, drawn=length)
    another = rest.point(least) + math.log2(least / length) + math.log2(parties / 2)
    return math.log2(parties) + first + float(np.logaddexp2(rest.tail(least), another))


class _Law(NamedTuple):
    """Law of the number of marked draws, as ``log2``, from ``start`` on; omitted values have 0."""

    start: int
    points: NDArray[np.float64]
    tails: NDArray[np.float64]

    def point(self, x: int) -> float:
        """``log2 P[X = x]``."""
        place = x - self.start
        return float(self.points[place]) if 0 <= place < len(self.points) else -math.inf

    def tail(self, least: int) -> float:
        """``log2 P[X >= least]``."""
        place = least - self.start
        if place <= 0:
            return 0.0
        return float(self.tails[place]) if place < len(self.tails) else -math.inf


def _law(*, population: int, marked: int, drawn: int) -> _Law:
    """The law of the number of marked draws, without replacement.

    Exact up to rounding in all tails that a float can hold. Values that are farther from the mean
    than Hoeffding's inequality (1963, sections 2 and 6) allows with 2**-1100 are omitted.
    """
    mean = drawn * marked / population
    far = math.sqrt(_NOTHING_BITS * math.log(2) * drawn / 2)
    low = max(0, drawn + marked - population, math.floor(mean - far))
    high = min(marked, drawn, math.ceil(mean + far))
    x = np.arange(low, high, dtype=np.float64)
    ratios = np.log2((marked - x) * (drawn - x) / ((x + 1) * (population - marked - drawn + x + 1)))
    law = np.concatenate(([0.0], np.cumsum(ratios)))
    law -= law.max()
    tails = np.logaddexp2.accumulate(law[::-1])[::-1]
    return _Law(low, law - tails[0], tails - tails[0])


@lru_cache(maxsize=8)
def draw_order(coin: bytes, parties: int) -> NDArray[np.int64]:
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
    """Distances in rank to the neighbours of a party, ascending; with o also n - o.

    Raises:
        ValueError: k is neither even and in 2..n-2 nor n - 1.
    """
    if k < 1 or k >= parties or (k % 2 and k != parties - 1):
        raise ValueError(f"{k} neighbours of {parties} parties: expected an even number, or all")
    offsets = np.arange(1, k + 1)
    offsets[(k + 1) // 2 :] += parties - 1 - k
    return offsets


def mirror(columns: Columns, k: int) -> Columns:
    """Columns of a party in the rows of the neighbours that it has in these columns.

    Offsets are ascending, and two that lead there and back add up to n, so this is ``k - 1 -
    columns``.
    """
    return k - 1 - columns


def neighbours_at(place: int, parties: int, k: int, order: NDArray[np.int64]) -> NDArray[np.int64]:
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
