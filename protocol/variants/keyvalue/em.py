"""Expectation-maximization over counts of PrivKV's reports.

Horigome, Kikuchi and Yu, Expectation-Maximization Estimation for Key-Value Data Randomized with
Local Differential Privacy, sections 3.2 and 3.3, as corrected.
"""

from __future__ import annotations

import math
from functools import cached_property

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from protocol.randomizers.exact import Floats
from protocol.randomizers.keyvalue import ABSENT, MINUS, PLUS, PrivKV
from protocol.variants.keyvalue.counts import checked, deviation, known, ratio

TOLERANCE = 1e-4
"""The precision eta at which EM stops; with it the paper's figures come out."""

MOST_ITERATIONS = 10_000

_BLOCK = 8192

# The share of either value, among those who hold a key, below which the mean is at its edge.
_EDGE = 1e-3


class EMEstimate(msgspec.Struct, frozen=True, kw_only=True, eq=False, dict=True):
    """End of EM, with the estimates.

    Args:
        counts: of the symbols, shape (..., d, 3).
        law: of the symbol given the state, shape (x, 3).
        states: the estimated shares of the x states, shape (..., d, x). The first two are a held
            key with +1 and with -1; then a missing one, with a fake of +1 and of -1, or with any.
        iterations: of every key, shape (..., d); 0 without a report.
        converged: whether the last step was within the tolerance, shape (..., d).
    """

    counts: Floats
    law: Floats
    states: Floats
    iterations: NDArray[np.int64]
    converged: NDArray[np.bool_]

    @property
    def frequencies(self) -> Floats:
        """The shares of the respondents who hold a key, shape (..., d) (Theorem 1, over n)."""
        found: Floats = self.states[..., 0] + self.states[..., 1]
        return found

    @property
    def means(self) -> Floats:
        """The means of the values of the respondents who hold a key, shape (..., d) (Theorem 1)."""
        return ratio(self.states[..., 0] - self.states[..., 1], self.frequencies)

    @cached_property
    def _errors(self) -> tuple[Floats, Floats]:
        """Errors by the delta method, with the exact derivative of the iterations made."""
        states = self.states.reshape(-1, self.states.shape[-1])
        counts = self.counts.reshape(-1, 3)
        steps = self.iterations.reshape(-1)
        total = counts.sum(axis=-1)
        shares = ratio(counts, total[:, np.newaxis])
        slopes = _slopes(shares, self.law, steps)
        frequency = states[:, 0] + states[:, 1]
        means = ratio(states[:, 0] - states[:, 1], frequency)
        by_frequency = slopes[..., 0] + slopes[..., 1]
        by_mean = slopes[..., 0] - slopes[..., 1] - means[:, np.newaxis] * by_frequency
        frequency_errors = known(deviation(by_frequency, shares, total), total)
        mean_errors = known(ratio(deviation(by_mean, shares, total), frequency), total)
        # At an edge EM hardly changes with the reports, but it is not more accurate there.
        held = 1 - self.law[:, ABSENT]
        drawn = (1 - shares[:, ABSENT] - held[2]) / (held[0] - held[2])
        inside = (drawn > 0) & (drawn < 1)
        rarer = np.minimum(states[:, 0], states[:, 1]) > _EDGE * frequency
        shape = self.iterations.shape
        return (
            np.where(inside, frequency_errors, math.nan).reshape(shape),
            np.where(inside & rarer, mean_errors, math.nan).reshape(shape),
        )

    @property
    def frequency_errors(self) -> Floats:
        """Standard errors of ``frequencies``, shape (..., d).

        By the delta method at the observed shares, for EM as it was run, with its uniform start and
        its early stop. They are smaller than those of ``moment``, and do not include the bias of
        that. They are unknown where the key is reported less often than if nobody held it, or more
        than if all did, as EM only tends to 0 or 1 there. All iterations are done again when they
        are first needed.
        """
        return self._errors[0]

    @property
    def mean_errors(self) -> Floats:
        """Standard errors of ``means``, shape (..., d), as ``frequency_errors``.

        They are unknown too where less than a thousandth of those who hold the key have one of the
        two values.
        """
        return self._errors[1]


def table_1(randomizer: PrivKV) -> Floats:
    """The paper's Table 1: the law of the symbol given its four states, shape (4, 3).

    The states are (1, 1), (1, -1), (0, 1) and (0, -1) in this order; columns by symbols' codes.
    """
    p_1, q_1 = randomizer.key_response.diagonal, randomizer.key_response.off_diagonal
    p_2, q_2 = randomizer.value_response.diagonal, randomizer.value_response.off_diagonal
    return np.array(
        [
            [q_1, p_1 * p_2, p_1 * q_2],
            [q_1, p_1 * q_2, p_1 * p_2],
            [p_1, q_1 * p_2, q_1 * q_2],
            [p_1, q_1 * q_2, q_1 * p_2],
        ]
    )


def em(
    counts: ArrayLike,
    randomizer: PrivKV,
    *,
    tolerance: float = TOLERANCE,
    at_most: int = MOST_ITERATIONS,
    tied: bool = False,
) -> EMEstimate:
    """The paper's estimate (Algorithm 1): expectation-maximization from uniform shares of states.

    A respondent's posterior depends on her symbol alone, so respondents with equal symbols are
    added up, and the time of an iteration depends only on the number of keys. Each key stops on its
    own, once none of its shares moves by more than the tolerance. At the default this is well
    before the maximum of the likelihood, which draws estimates to the start.

    Args:
        counts: as from ``tally``; of PrivKV.
        randomizer: that of the reports.
        tolerance: the precision eta.
        at_most: the most iterations.
        tied: three states, where the two fakes of a missing key have equal shares. Then the
            likelihood has one maximum, that of ``maximum_likelihood``. By default the paper's four.

    Raises:
        ValueError: malformed counts, a tolerance that is negative or not
            finite, or no iteration.
    """
    table = checked(counts)
    if not 0 <= tolerance < math.inf:
        raise ValueError(f"tolerance {tolerance}: expected a finite number of at least 0")
    if at_most < 1:
        raise ValueError(f"at most {at_most} iterations: expected at least 1")
    law = randomizer.matrix()[[PLUS, MINUS, ABSENT]] if tied else table_1(randomizer)
    rows = table.reshape(-1, 3)
    # Keys are independent. A block of them stays in the cache, which is several times faster.
    blocks = [
        _iterated(rows[start : start + _BLOCK], law, tolerance=tolerance, at_most=at_most)
        for start in range(0, max(len(rows), 1), _BLOCK)
    ]
    states, iterations, converged = (np.concatenate(part) for part in zip(*blocks, strict=True))
    shape = table.shape[:-1]
    return EMEstimate(
        counts=table,
        law=law,
        states=states.reshape(*shape, len(law)),
        iterations=iterations.reshape(shape),
        converged=converged.reshape(shape),
    )


def _iterated(
    rows: Floats, law: Floats, *, tolerance: float, at_most: int
) -> tuple[Floats, NDArray[np.int64], NDArray[np.bool_]]:
    """The states of some keys, shape (k, x), their iterations, and whether they converged."""
    total = rows.sum(axis=-1)
    states = np.full((len(rows), len(law)), math.nan)
    iterations = np.zeros(len(rows), np.int64)
    converged = np.zeros(len(rows), np.bool_)
    places = np.flatnonzero(total)
    # One column per key: numpy is fast along the long axis.
    shares = np.ascontiguousarray((rows[places] / total[places, np.newaxis]).T)
    current = np.full((len(law), len(places)), 1 / len(law))
    running = np.ones(len(places), np.bool_)
    for step in range(1, at_most + 1):
        if not len(places):
            break
        moved = law @ (shares / (law.T @ current))
        moved *= current
        current -= moved
        stops = (np.abs(current, out=current).max(axis=0) <= tolerance) & running
        current = moved
        if not stops.any():
            continue
        done = places[stops]
        states[done], iterations[done], converged[done] = moved[:, stops].T, step, True
        running &= ~stops
        # Dropping keys costs as much as an iteration, so it is done when half of them are idle.
        if 2 * np.count_nonzero(running) <= len(running):
            places = places[running]
            shares, current = (part[:, running] for part in (shares, current))
            running = np.ones(len(places), np.bool_)
    states[places[running]], iterations[places[running]] = current[:, running].T, at_most
    return states, iterations, converged


def _slopes(shares: Floats, law: Floats, steps: NDArray[np.int64]) -> Floats:
    """The derivative of each key's final states by each of its shares, shape (k, 3, x)."""
    order = np.argsort(-steps, kind="stable")
    sorted_steps = steps[order]
    shares = shares[order]
    states = np.full((len(shares), len(law)), 1 / len(law))
    slopes = np.zeros((len(shares), 3, len(law)))
    one = np.eye(3)
    for step in range(1, int(steps.max(initial=0)) + 1):
        # Keys are sorted by falling iterations, so those that still run come first.
        k = int(np.searchsorted(-sorted_steps, -step, side="right"))
        fitted = states[:k] @ law
        weights = shares[:k] / fitted
        factors = weights @ law.T
        change = (
            one / fitted[:, np.newaxis] - (slopes[:k] @ law) * (weights / fitted)[:, np.newaxis]
        )
        slopes[:k] = slopes[:k] * factors[:, np.newaxis] + states[:k, np.newaxis] * (change @ law.T)
        states[:k] *= factors
    found = np.empty_like(slopes)
    found[order] = slopes
    found[steps == 0] = math.nan
    return found
