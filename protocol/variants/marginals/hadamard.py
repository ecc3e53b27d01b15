"""Hadamard coefficients of tables of binary attributes, and estimates of them.

Kulkarni, Cormode and Srivastava, Marginal Release Under Local Differential Privacy. The coefficient
of a set alpha of attributes is ``theta_alpha = sum_x pi(x) (-1)**(sum of x over alpha)``, the mean
of a sign; that of no attribute is 1. The coefficients of the subsets of some attributes are the
transform of their marginal (Barak et al. 2007), so tables that have them from one list agree.
Cells and sets are numbered as ``protocol.randomizers.binary`` has them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from protocol.estimators.tables import standard_errors
from protocol.randomizers.binary import MAX_BINARY_ATTRIBUTES, coefficients, submasks
from protocol.randomizers.exact import Floats
from protocol.randomizers.walsh import Signed, wht


def low_transform(table: NDArray[Signed], k: int) -> NDArray[Signed]:
    """The coefficients of at most k attributes of a whole table, without computing the others.

    A coefficient with k attributes is only summed further, so for small k this takes a few passes
    over the table, not d.

    Args:
        table: shape ``(2**d,)``, d at most 24; it is not changed.
        k: the most attributes of a coefficient.

    Returns:
        One number for each of ``coefficients(d, k)``, of the table's type.

    Raises:
        ValueError: another shape, or k out of range.
    """
    d = table.size.bit_length() - 1
    if table.ndim != 1 or table.size != 1 << d or not 0 <= d <= MAX_BINARY_ATTRIBUTES:
        raise ValueError(f"a table of shape {table.shape}: expected (2**d,), d at most 24")
    if not 0 <= k <= d:
        raise ValueError(f"coefficients of at most {k} attributes: expected 0 to {d}")
    rows = table.reshape(1, -1)
    masks = np.zeros(1, np.uint32)
    for place in range(d):
        halves = rows.reshape(len(rows), 2, -1)
        open_ = np.flatnonzero(np.bitwise_count(masks) < k)
        rows = np.concatenate(
            [halves[:, 0] + halves[:, 1], halves[open_, 0] - halves[open_, 1]], axis=0
        )
        bit = np.uint32(1 << (d - 1 - place))
        masks = np.concatenate([masks, masks[open_] | bit])
    found: NDArray[Signed] = rows[np.argsort(masks), 0]
    return found


def marginal_tables(values: Floats, masks: NDArray[np.uint32], *, d: int, k: int) -> Floats:
    """The marginals that follow from the coefficients of at most k attributes.

    Args:
        values: one for each of ``coefficients(d, k)``.
        masks: of the marginals, shape (t,), all of equally many attributes, at most k.
        d: the number of attributes.
        k: the most attributes of a coefficient.

    Returns:
        Shape ``(t, 2**j)``, every marginal's cells in row-major order.

    Raises:
        ValueError: another number of values, or sets of different sizes or of more than k.
    """
    inside = submasks(masks)
    return from_coefficients(values[coefficient_places(inside, d=d, k=k)])


def from_coefficients(values: Floats) -> Floats:
    """Tables from all their coefficients, shape ``(..., 2**j)``: the transform over ``2**j``."""
    table = wht(np.array(values, np.float64, order="C"))
    table /= table.shape[-1]
    return table


def coefficient_places(masks: NDArray[np.uint32], *, d: int, k: int) -> NDArray[np.int64]:
    """The places of some masks among ``coefficients(d, k)``.

    Raises:
        ValueError: a mask that is not there.
    """
    known = coefficients(d, k)
    places = np.minimum(np.searchsorted(known, masks), len(known) - 1)
    if (known[places] != masks).any():
        raise ValueError(f"expected sets of at most {k} of {d} attributes")
    return places.astype(np.int64, copy=False)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Noise:
    """Noise that a report adds to its respondent's own coefficients, given the answers.

    For two coefficients from one report, of the sets alpha and beta, the covariance given the
    answers is ``own`` where they are equal and else ``shared * theta`` of ``alpha ^ beta``, its
    mean over the respondents.

    Attributes:
        own: of RR on K cells ``((K-1) q(1-q) + p(1-p)) / (p-q)**2``, p of the bit of one's own cell
            and q of any other; of keep ``1/a**2 - 1`` (keep a).
        shared: of RR ``(p(1-p) - q(1-q)) / (p-q)**2``, 0 where bits are flipped alike; of keep
            ``1/a - 1``; None where a report has one coefficient alone.
        gain: probability that a report counts for its respondent's own cell, or sign, less that for
            another.
    """

    own: float
    shared: float | None
    gain: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Coefficients:
    """Unbiased estimates of all ``2**j`` coefficients of t marginals.

    Attributes:
        values: shape ``(t, 2**j)``; the first of each is 1. That of no report is 0.
        reports: number of reports on each, same shape; without meaning for the first.
        common: number of reports that two of them share, shape ``(t, 2**j, 2**j)``; the diagonal is
            ``reports``.
        noise: of a report.
        n: the number of respondents that the reports are a random choice of.
    """

    values: Floats
    reports: NDArray[np.int64]
    common: NDArray[np.int64]
    noise: Noise
    n: int

    def tables(self) -> Floats:
        """The marginals, shape ``(t, 2**j)``."""
        return from_coefficients(self.values)

    def covariance(self, *, population: bool) -> Floats:
        """Unbiased estimates of the covariances of the values, shape ``(t, 2**j, 2**j)``.

        The respondents that report on a coefficient are drawn. Given their number, they are a
        simple random sample of all n. For the sets alpha and beta, estimated from ``m`` and ``m'``
        reports of which ``o`` are common, and gamma their symmetric difference,

            ``Cov = o/(m m') R + kappa (theta_gamma - theta_alpha theta_beta)``

        with R the noise of a report and ``kappa = (o/(m m') - 1/n) n/(n-1)`` given the data (finite
        population sampling), ``o/(m m')`` if the respondents are themselves sampled. The products
        of thetas are estimated without bias: the product of two estimates is too large by Cov.
        NaN with too few reports for that.

        Args:
            population: whether the respondents are a random sample of a population.
        """
        cells = self.values.shape[1]
        place = np.arange(cells)
        # An index might order the axes in memory in another way.
        joint = np.take(self.values, place[:, None] ^ place, axis=1)
        noise = np.zeros_like(joint) if self.noise.shared is None else self.noise.shared * joint
        noise[:, place, place] = self.noise.own
        products = self.reports[:, :, None].astype(np.float64) * self.reports[:, None, :]
        share = np.divide(self.common, products, out=np.zeros_like(joint), where=products > 0)
        kappa = share.copy()
        if not population:
            kappa -= 1 / self.n
            kappa *= self.n / (self.n - 1) if self.n > 1 else 0.0
        raw = share * noise + kappa * (joint - self.values[:, :, None] * self.values[:, None, :])
        # In a single report, sampling cannot be distinguished from noise.
        least = 1 if self.n == 1 and not population else 2
        known = np.minimum(self.reports[:, :, None], self.reports[:, None, :]) >= least
        found: Floats = np.divide(raw, 1 - kappa, out=np.zeros_like(raw), where=known)
        # Only variances are marked as unknown.
        found[:, place, place] = np.where(known[:, place, place], found[:, place, place], np.nan)
        found[:, 0, :] = found[:, :, 0] = 0.0
        return found

    def table_covariance(self, *, population: bool) -> Floats:
        """The covariance matrices of the marginals' cells, shape ``(t, 2**j, 2**j)``.

        A matrix is NaN where a coefficient's variance is.
        """
        found = self.covariance(population=population)
        cells = found.shape[-1]
        unknown = np.isnan(found).any(axis=(1, 2))
        found[unknown] = 0.0
        turned = np.ascontiguousarray(wht(found).transpose(0, 2, 1))
        result: Floats = wht(turned)
        result /= cells**2
        result[unknown] = np.nan
        return result

    def table_errors(self, *, population: bool) -> Floats:
        """The standard errors of the marginals' cells, shape ``(t, 2**j)``.

        NaN where the estimated variance is not known or not positive.
        """
        covariance = self.table_covariance(population=population)
        variances = np.diagonal(covariance, axis1=1, axis2=2)
        # The mean cell's variance is a difference of these squares of coefficients as reported.
        reported = (self.noise.own + 1) / np.maximum(self.reports[:, 1:], 1)
        cells = variances.shape[1]
        scale = reported.sum(axis=1, keepdims=True) / cells**2
        each = self.changes_by_one(np.eye(cells), population=population)
        return standard_errors(variances, np.broadcast_to(scale, variances.shape), each)

    def changes_by_one(self, weights: Floats, *, population: bool) -> Floats:
        """The most that one report adds to the estimated variances of weighted sums of the cells.

        Args:
            weights: shape ``(s, 2**j)``.
            population: as for ``covariance``.

        Returns:
            Shape ``(t, s)``.
        """
        cells = weights.shape[1]
        share = 1 / np.maximum(self.reports[:, 1:], 1)
        kappa = share if population else (share - 1 / self.n) * self.n / max(self.n - 1, 1)
        least = np.maximum(1 - kappa, share)
        if self.noise.shared is None:
            # The variance of a sign is a parabola of its mean.
            slopes = 4 * np.abs(self.values[:, 1:]) * kappa * share / least / self.noise.gain
            turned = wht(weights.copy())[:, 1:] / cells
            found: Floats = (turned**2 * slopes[:, np.newaxis]).max(axis=2)
            return found
        # Reports on cells: as many for each coefficient as the harmonic mean.
        share, kappa, least = (each.mean(axis=1)[:, None, None] for each in (share, kappa, least))
        centred = weights - weights.mean(axis=1, keepdims=True)
        mean = (self.tables() @ centred.T)[:, :, np.newaxis]
        squares = centred**2 - (centred**2).mean(axis=1, keepdims=True)
        change = (share * self.noise.shared + kappa) * squares - 2 * kappa * mean * centred
        step = share / least / self.noise.gain
        found = np.abs(change).max(axis=2) * step[:, :, 0]
        return found
