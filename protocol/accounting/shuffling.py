"""Amplification by shuffling: the privacy loss of n unlinkable reports.

There are two upper bounds on the central epsilon, for any randomizer and for randomized response.

Both come down to one game. T independent uniform draws from k values are tallied. One of them, the
respondent's, is replaced by her report: value 0 (under Q value 1) with probability p, and every
other with q, where ``p + (k-1) q = 1``. A tally with counts n0 of value 0 and n1 of value 1 is
``k q + k (p-q) n0 / T`` times as likely as if all draws were uniform, under Q with n1 in place of
n0. So the divergence is a sum over binomial laws, of terms linear in n0.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np

from protocol.accounting.losses import binomial
from protocol.randomizers.exact import Floats, check_epsilon
from protocol.randomizers.keep import KeepUniform

RELATION = "any two records of one respondent, the others' the same (replace one)"
"""The neighbouring relation of the central figure."""

ASSUMPTION = (
    "the reports reach the observer unlinkable (shuffled or summed), all n are drawn with this "
    "randomizer, and the other n-1 respondents are honest"
)
"""The assumption that amplification rests on."""

MOST_RESPONDENTS = 10**8
"""The most respondents for which the arithmetic has been checked."""


# Above this epsilon, copies of a report are too rare to hide anything.
_LARGEST_EPSILON = 200.0
# The share of delta that is given up for tails.
_TAILS = 1e-9
_SMALLEST = 1e-300
# Relative errors of the incomplete beta function stay below 2e-11 up to 10**8 draws.
_ROUNDING = 5e-11
# Leading bits that a number of draws keeps, for k = 2 and for more values.
_FINE, _COARSE = 16, 9
# The bracket around epsilon, relative to it, at which the search ends.
_PRECISION = 1e-9


class Amplification(msgspec.Struct, frozen=True, kw_only=True):
    """A bound on the privacy loss of one of n respondents with unlinkable reports.

    Args:
        epsilon: central, in nats, never above ``local``.
        delta: the probability with which epsilon may fail.
        local: epsilon of each respondent's randomizer.
        n: the number of respondents, this one included.
        relation: the neighbouring relation.
        assumption: what the figure rests on.
        method: how it was computed.
    """

    epsilon: float
    delta: float
    local: float
    n: int
    relation: str
    assumption: str
    method: str


def any_randomizer(epsilon: float, *, n: int, delta: float) -> Amplification:
    """Amplification of every randomizer of this epsilon, which all n respondents use.

    Feldman, McMillan and Talwar, Hiding Among the Clones, 2021, Theorem 3.1. Let R0 and R1 be the
    laws of the report for the respondent's two records. They are mixtures ``(e**epsilon Q0 + Q1) /
    (1 + e**epsilon)`` and the reverse (Kairouz, Oh and Viswanath), and every other report's law is
    at least ``e**-epsilon (R0 + R1)/2 = e**-epsilon (Q0 + Q1)/2``. So each of the others is, with
    probability ``e**-epsilon``, a fair draw of Q0 or Q1. With all other reports revealed to the
    observer, the rest is the game with k = 2.

    Raises:
        ValueError: ``epsilon`` is not positive and finite, ``n`` not from 1 to 10**8, or ``delta``
            not between 0 and 1.
    """
    _check(n, delta)
    check_epsilon(epsilon)
    found = epsilon
    if epsilon < _LARGEST_EPSILON:
        kept, blanket = math.tanh(epsilon / 2), 2 / (1 + math.exp(epsilon))
        game = _Game(2, kept, blanket, n=n, hidden=math.exp(-epsilon), delta=delta)
        found = game.epsilon(delta, epsilon)
    return _bound(found, delta, epsilon, n, "clones of any randomizer")


def randomized_response(keep: KeepUniform, *, n: int, delta: float) -> Amplification:
    """Amplification of randomized response over k categories, which all n respondents use.

    A report is a uniform draw with probability ``k q``, else the true answer (the blanket of
    Balle, Bell, Gascon and Nissim, The Privacy Blanket of the Shuffle Model, 2019). With the kept
    answers of the others revealed to the observer, the rest is the game with this k, where T - 1 is
    binomial of n - 1 and ``k q``.

    Raises:
        ValueError: ``n`` is not from 1 to 10**8, or ``delta`` not between 0 and 1.
    """
    _check(n, delta)
    blanket = keep.size * keep.off_diagonal
    game = _Game(keep.size, keep.keep, blanket, n=n, hidden=blanket, delta=delta)
    found = game.epsilon(delta, keep.epsilon)
    # The bound for any randomizer holds too.
    found = min(found, any_randomizer(keep.epsilon, n=n, delta=delta).epsilon)
    return _bound(found, delta, keep.epsilon, n, f"blanket of {keep.size}-ary randomized response")


def _check(n: int, delta: float) -> None:
    if not 1 <= n <= MOST_RESPONDENTS:
        raise ValueError(f"{n} respondents: expected 1 to {MOST_RESPONDENTS}")
    if not 0 < delta < 1:
        raise ValueError(f"delta {delta}: expected more than 0 and less than 1")


def _bound(found: float, delta: float, local: float, n: int, method: str) -> Amplification:
    return Amplification(
        epsilon=min(found, local),
        delta=delta,
        local=local,
        n=n,
        relation=RELATION,
        assumption=ASSUMPTION,
        method=f"upper bound: {method}, numerical",
    )


class _Game:
    """Upper bound on the divergence in the game of the module's docstring.

    Args:
        k: the number of values.
        kept: p - q.
        blanket: k q, which adds up to 1 with ``kept``; both are given, as either may be tiny.
        n: the number of respondents.
        hidden: the probability that another's report is one of the draws.
        delta: tails of 1e-9 of it are given up.
    """

    def __init__(
        self, k: int, kept: float, blanket: float, *, n: int, hidden: float, delta: float
    ) -> None:
        self._k, self._kept, self._blanket = k, kept, blanket
        tail = max(_TAILS * delta, _SMALLEST)
        first, masses = binomial(n - 1, hidden, tail / 4)
        self._lost, self._negligible = tail / 2, tail / 16
        draws: Floats = first + 1.0 + np.arange(len(masses), dtype=np.float64)
        draws, masses = _rounded_draws(draws, masses, _COARSE if k > 2 else _FINE)
        if k > 2:
            draws, others, masses = self._columns(draws, masses, tail)
            self._left = draws - others
        else:
            others = draws
            self._left = draws
        # Per column: T, the factor of e**epsilon in the term, and the probability.
        self._draws, self._others, self._masses = draws, others, masses
        self._share = 1 / 2 if k == 2 else 1 / (k - 1)

    def _columns(self, draws: Floats, masses: Floats, tail: float) -> tuple[Floats, Floats, Floats]:
        """A column for each T and n1. Given these, n0 is binomial, of T - n1 and 1/(k-1)."""
        parts = []
        for each, mass in zip(draws.tolist(), masses.tolist(), strict=True):
            # Given n1 the respondent's side is at most k/(k-1) <= 2 times as likely.
            first, inner = binomial(int(each), 1 / self._k, tail / 8)
            others = first + np.arange(len(inner), dtype=np.float64)
            parts.append((np.full(len(inner), each), others, mass * inner))
        self._lost += tail / 4
        whole = [np.concatenate(part) for part in zip(*parts, strict=True)]
        return whole[0], whole[1], whole[2]

    def delta(self, epsilon: float) -> float:
        """Lower bound on the divergence at ``e**epsilon``, by sums over binomial laws.

        The term is ``c n0/T - e**epsilon c n1/T - b``, with ``c = k (p-q)`` and ``b = k q
        (e**epsilon - 1)``. Given n1 it is summed over the n0 for which it is positive; with k = 2,
        where n0 = T - n1, over such n1, and those are few. Sums of x over a tail of m draws are
        ``m r`` times a tail of m - 1.
        """
        m, r = self._left, self._share
        growth = math.exp(epsilon)
        unit = self._k * self._kept / self._draws
        base = self._blanket * math.expm1(epsilon)
        if self._k == 2:
            flat = np.full_like(m, self._k * self._kept - base)
            steep = -unit * (1 + growth)
            # The fewest n0 for which the term is positive, and the fewest of m - 1 then.
            least = m - (np.ceil(flat / -steep) - 1)
            further = least
        else:
            flat = -base - unit * growth * self._others
            steep = unit
            least = np.floor(flat / -steep) + 1
            further = least - 1
        # A tail from x above the mean is at most e**(-x**2 / (2 (v + x/3))), by Bernstein.
        excess = np.maximum(least - 1 - m * r, 0.0)
        tails = np.exp(-(excess**2) / (2 * (m * r * (1 - r) + excess / 3) + _SMALLEST))
        # The terms are at most their probability under P, which is at most twice the column's tail.
        kept = np.flatnonzero((least <= m) & (tails > self._negligible))
        m = m[kept]
        one = flat[kept] * _upper_tail(m, least[kept], r)
        other = steep[kept] * m * r * _upper_tail(m - 1, further[kept], r)
        terms = np.maximum(one + other, 0.0) + _ROUNDING * (abs(one) + abs(other))
        return self._lost + 2 * self._negligible + float(self._masses[kept] @ terms)

    def epsilon(self, delta: float, local: float) -> float:
        """An epsilon with a delta of at most this, close to the least one."""
        if self.delta(0.0) <= delta:
            return 0.0
        if self.delta(local) > delta:
            return local
        wanted = math.sqrt(-math.log(delta))

        def excess(epsilon: float) -> float:
            """Excess over the wanted delta, on a scale that is nearly linear in epsilon."""
            return wanted - math.sqrt(-math.log(min(self.delta(epsilon), 1.0)))

        # Imported here: it takes longer than all of this package.
        from scipy.optimize import brentq

        found = float(brentq(excess, 0.0, local, xtol=_SMALLEST, rtol=_PRECISION / 4))
        while excess(found) > 0:
            found *= 1 + _PRECISION / 4
        return min(found, local)


def _rounded_draws(draws: Floats, masses: Floats, bits: int) -> tuple[Floats, Floats]:
    """Numbers of draws rounded down to some leading bits, in the same steps at every n.

    Fewer draws reveal no less: an observer can add uniform draws itself.
    """
    _, exponents = np.frexp(draws)
    units = np.exp2(np.maximum(exponents - bits, 0))
    rounded, places = np.unique(np.floor(draws / units) * units, return_inverse=True)
    return rounded, np.bincount(places, masses).astype(np.float64)


def _upper_tail(m: Floats, least: Floats, chance: float) -> Floats:
    """The probability that a binomial of m draws is at least ``least``."""
    from scipy.special import betainc

    found: Floats = betainc(np.maximum(least, 1.0), np.maximum(m - least + 1, 1.0), chance)
    return np.where(least < 1, 1.0, np.where(least > m, 0.0, found))
