"""Frequencies and means of keys from counts of PrivKV's reports.

Horigome, Kikuchi and Yu, Expectation-Maximization Estimation for Key-Value Data Randomized with
Local Differential Privacy, section 3, as corrected. Counts are those of ``tally``: shape (..., d,
3), per key how often each of ``SYMBOLS`` was reported, and every estimate has shape (..., d). A key
without a report has no estimate: NaN. A standard error is NaN, unknown, for a missing estimate, for
one report, and if too few of its reports differ.

Reports determine the shares of three states of a key: missing, held with a value that becomes +1,
and held with one that becomes -1. The paper's EM has a fourth, as it distinguishes the sign of a
missing key's fake, which reports do not show. So its likelihood is largest on a whole line, and the
end of EM depends on its start. Away from the borders, its means are between those of ``moment``,
which counts fakes as values, and those of ``maximum_likelihood``, which knows that fakes are fair.
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from protocol.randomizers.exact import Floats
from protocol.randomizers.keyvalue import ABSENT, MINUS, PLUS, PrivKV
from protocol.variants.keyvalue.counts import (
    binomial_deviation,
    checked,
    deviation,
    known,
    ratio,
    tally,
)
from protocol.variants.keyvalue.em import MOST_ITERATIONS, TOLERANCE, EMEstimate, em, table_1

__all__ = [
    "MOST_ITERATIONS",
    "TOLERANCE",
    "EMEstimate",
    "KeyValueEstimate",
    "em",
    "maximum_likelihood",
    "moment",
    "table_1",
    "tally",
]

# The edges of the simplex of (absent, +1, -1), by the states at their ends.
_EDGES = ((ABSENT, PLUS), (ABSENT, MINUS), (PLUS, MINUS))


class KeyValueEstimate(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Estimates of every key, with standard errors; each of shape (..., d).

    Args:
        frequencies: the shares of the respondents who hold the key.
        means: the means of the values of the key's holders.
        frequency_errors: standard errors of ``frequencies``.
        mean_errors: standard errors of ``means``.
    """

    frequencies: Floats
    means: Floats
    frequency_errors: Floats
    mean_errors: Floats


# Moments


def moment(
    counts: ArrayLike,
    randomizer: PrivKV,
    *,
    clip: bool = True,
    debias: bool = False,
    fakes: ArrayLike = 0.0,
    virtual: int = 0,
) -> KeyValueEstimate:
    """PrivKV's own estimates, by the method of moments.

    With N reports on a key, c of them with the key, n+ and n- of these with either sign: ``f = (c/N
    - q_1)/(p_1 - q_1)`` and ``m = ((n+ - n-)/(n+ + n-))/(2 p_2 - 1)``. f is unbiased. m is the
    unbiased mean of all reports with the key, including fakes, which have the share ``q_1 (1-f) /
    (p_1 f + q_1 (1-f))``: so the mean of a rare key is close to that of the fakes. ``debias``
    removes the fakes: ``m = ((n+ - n-)/(N (2 p_2 - 1)) - q_1 (1-f) m_fake) / (p_1 f)``, consistent,
    and with a larger variance.

    ``virtual`` iterations are rounds of PrivKVM without respondents (Ye, Hu, Meng and Zheng,
    PrivKV, 2019; derived here). With w the share of held keys among those reported, a round whose
    fakes have the mean m' finds ``m_1 = w m + (1-w) m'``, and one more with the fakes m_1 would
    find ``m_1 + (1-w) (m_1 - m')``. After v of them the mean is ``m_1 + ((1-w) + ... + (1-w)**v)
    (m_1 - m')``, and in the limit that of ``debias``.

    Standard errors are those of independent respondents: of f, binomial with c/N; of m given c,
    binomial with n+/c, after virtual iterations given the fakes' mean and w too; of a debiased m by
    the delta method at the observed shares.

    Args:
        counts: as from ``tally``.
        randomizer: that of the reports; for PrivKVM, that of one round.
        clip: whether means are cut to [-1, 1]. Frequencies are never clipped, as their published
            errors are those of unclipped, signed frequencies.
        debias: as above; without it ``fakes`` has no effect.
        fakes: the mean of the fakes, one for all or of shape (..., d); 0 in PrivKV.
        virtual: number of iterations without respondents; not with ``debias``.

    Raises:
        ValueError: counts or fakes of another shape, or that are out of range.
    """
    table = checked(counts)
    total = table.sum(axis=-1)
    held = total - table[..., ABSENT]
    p_1, q_1 = randomizer.key_response.diagonal, randomizer.key_response.off_diagonal
    share = ratio(held, total)
    frequencies = (share - q_1) / (p_1 - q_1)
    frequency_errors = binomial_deviation(share, total) / (p_1 - q_1)
    laws = symbol_laws(randomizer, fakes, total.shape)
    if debias:
        shares = ratio(table, total[..., np.newaxis])
        inverse = _inverse(laws)
        means, _, mean_errors = _state_estimates(_product(shares, inverse), shares, total, inverse)
    else:
        keep = 2 * randomizer.value_response.diagonal - 1
        sign = ratio(table[..., PLUS] - table[..., MINUS], held)
        means, mean_errors = sign / keep, 2 * binomial_deviation((1 + sign) / 2, held) / keep
        if virtual:
            faked = 1 - np.clip(ratio(p_1 * frequencies, share), 0.0, 1.0)
            further = sum(faked**step for step in range(1, virtual + 1))
            means = means + further * (means - np.asarray(fakes))
            mean_errors = mean_errors * (1 + further)
    if clip:
        means = np.clip(means, -1, 1)
    return KeyValueEstimate(
        frequencies=frequencies,
        means=means,
        frequency_errors=known(frequency_errors, total),
        mean_errors=known(mean_errors, total),
    )


def _state_estimates(
    states: Floats, law: Floats, total: Floats, inverse: Floats
) -> tuple[Floats, Floats, Floats]:
    """Means of estimated states, and standard errors of frequencies and means.

    They are by the delta method for ``states = shares @ inverse``, with multinomial shares of a
    law. A frequency that is not positive gives no mean.
    """
    frequency = states[..., PLUS] + states[..., MINUS]
    means = ratio(states[..., PLUS] - states[..., MINUS], frequency)
    # How f and f m change with the shares; f is 1 less the missing.
    by_frequency = -inverse[..., ABSENT]
    by_total = inverse[..., PLUS] - inverse[..., MINUS]
    by_mean = by_total - means[..., np.newaxis] * by_frequency
    return (
        means,
        deviation(by_frequency, law, total),
        ratio(deviation(by_mean, law, total), frequency),
    )


def symbol_laws(randomizer: PrivKV, fakes: ArrayLike, shape: tuple[int, ...]) -> Floats:
    """Per key the law of the symbol given the state, shape (..., 3, 3) or (3, 3)."""
    matrix = randomizer.matrix()
    found = _fakes(fakes, shape)
    if not found.any():
        return matrix
    laws = np.broadcast_to(matrix, (*shape, 3, 3)).copy()
    share = (1 + (2 * randomizer.value_response.diagonal - 1) * found) / 2
    turned = randomizer.key_response.off_diagonal
    laws[..., ABSENT, PLUS], laws[..., ABSENT, MINUS] = turned * share, turned * (1 - share)
    return laws


# Maximum likelihood of three states


def maximum_likelihood(
    counts: ArrayLike, randomizer: PrivKV, *, fakes: ArrayLike = 0.0
) -> KeyValueEstimate:
    """The likeliest shares of the three states: missing, held with +1, held with -1.

    In closed form: the inverse of the law if that is a distribution, else the likeliest point of
    the edges: on each, a root of a quadratic or an end, for the likelihood is concave.

    Standard errors are by the delta method for the unconstrained estimate at the fitted law. They
    ignore that an estimate on an edge cannot leave the simplex. Where the frequency is 0 the mean
    and its standard error are NaN.

    Args:
        counts: as from ``tally``.
        randomizer: that of the reports.
        fakes: the mean of the fakes, one for all or of shape (..., d); 0 in PrivKV.

    Raises:
        ValueError: counts or fakes of another shape, or that are out of range.
    """
    table = checked(counts)
    total = table.sum(axis=-1)
    laws = symbol_laws(randomizer, fakes, total.shape)
    inverse = _inverse(laws)
    shares = ratio(table, total[..., np.newaxis])
    states = _product(shares, inverse)
    outside = (states < 0).any(axis=-1)
    if outside.any():
        of_each = np.broadcast_to(laws, (*total.shape, 3, 3))
        states[outside] = _likeliest_edge(shares[outside], of_each[outside])
    means, frequency_errors, mean_errors = _state_estimates(
        states, _product(states, laws), total, inverse
    )
    return KeyValueEstimate(
        frequencies=states[..., PLUS] + states[..., MINUS],
        means=means,
        frequency_errors=known(frequency_errors, total),
        mean_errors=known(mean_errors, total),
    )


def _likeliest_edge(shares: Floats, laws: Floats) -> Floats:
    """The likeliest shares of states with at least one share of 0, shape (k, 3).

    On the edge from state i to j the law is ``a + t b``. If it is positive, its score has the sign
    of a quadratic ``A t**2 + B t + C``. The score falls, so if its signs at the ends differ, there
    is one root between.
    """
    best = np.zeros_like(shares)
    highest = np.full(len(shares), -np.inf)
    for i, j in _EDGES:
        t = likeliest_share(shares, laws[:, i], laws[:, j])
        law = laws[:, i] + t[:, np.newaxis] * (laws[:, j] - laws[:, i])
        law = np.where(shares > 0, law, 1.0)
        with np.errstate(divide="ignore"):  # The reports may be impossible here.
            likelihood = (shares * np.log(law)).sum(axis=-1)
        better = likelihood > highest
        highest[better] = likelihood[better]
        best[better] = 0.0
        best[better, i], best[better, j] = 1 - t[better], t[better]
    return best


def likeliest_share(shares: Floats, first: Floats, second: Floats) -> Floats:
    """The likeliest share of the second of two laws of symbols in a mixture, all (k, 3): (k,)."""
    return _root(*_quadratic(shares, first, second - first))


def _quadratic(shares: Floats, a: Floats, b: Floats) -> tuple[Floats, Floats, Floats]:
    """Coefficients A, B and C of ``sum_z s_z b_z prod_{w != z} (a_w + b_w t)``."""
    second, first, constant = (np.zeros(len(shares)) for _ in range(3))
    for z in range(3):
        u, v = (w for w in range(3) if w != z)
        weight = shares[:, z] * b[:, z]
        second += weight * b[:, u] * b[:, v]
        first += weight * (a[:, u] * b[:, v] + a[:, v] * b[:, u])
        constant += weight * a[:, u] * a[:, v]
    return second, first, constant


def _root(second: Floats, first: Floats, constant: Floats) -> Floats:
    """Root in 0 to 1 at which the quadratic falls through 0, or the nearest end."""
    t = np.where(constant <= 0, 0.0, 1.0)
    inner = (constant > 0) & (second + first + constant < 0)
    a, b, c = second[inner], first[inner], constant[inner]
    root = np.sqrt(np.maximum(b * b - 4 * a * c, 0))
    # The form that does not subtract nearly equal numbers; a is negative where b is positive.
    positive = b > 0
    lower = np.where(positive, -1.0, root - b)
    t[inner] = np.where(positive, (b + root) / np.where(positive, -2 * a, 1.0), 2 * c / lower)
    return np.clip(t, 0, 1)


def _fakes(fakes: ArrayLike, shape: tuple[int, ...]) -> Floats:
    found = np.asarray(fakes, np.float64)
    if found.ndim > len(shape) or found.shape != shape[len(shape) - found.ndim :]:
        raise ValueError(f"fakes of shape {found.shape}: expected one, or {shape}")
    if not (np.abs(found) <= 1).all():
        raise ValueError("the mean of a fake is outside [-1, 1]")
    return found


def _inverse(laws: Floats) -> Floats:
    return np.asarray(np.linalg.inv(laws), np.float64)


def _product(rows: Floats, matrices: Floats) -> Floats:
    """Each row times its matrix, or times the single one, shape (..., 3)."""
    found: Floats = np.matmul(rows[..., np.newaxis, :], matrices)[..., 0, :]
    return found
