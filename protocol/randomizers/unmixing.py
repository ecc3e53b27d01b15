"""Inverses of randomization matrices, as operators along one axis of a table.

With Q the inverse of P, rows indexed by the report y and columns by the category v, an estimate is
``pi = lambda Q``. Independent blocks of attributes are combined by mode products: one operator per
axis, never a Kronecker matrix. For a keep randomizer Q, Q*Q (entry by entry) and the transpose of Q
all have the form ``alpha I + beta J``, and with a table of fakes they are a diagonal and one of
rank 1, so nothing of the size of the domain squared is ever made.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.randomizers.exact import Floats


class Moments(NamedTuple):
    """The scores ``Q[y, v]`` of categories v, one number for each.

    Attributes:
        inside: the mean square and the mean cube where the answer is v.
        outside: the same where it is not.
        least, most: the scores there are.
    """

    inside: tuple[Floats, Floats]
    outside: tuple[Floats, Floats]
    least: Floats
    most: Floats

    def reshaped(self, shape: Sequence[int]) -> Moments:
        """The same numbers in arrays of another shape."""
        (square, cube), (other_square, other_cube) = self.inside, self.outside
        return Moments(
            inside=(square.reshape(shape), cube.reshape(shape)),
            outside=(other_square.reshape(shape), other_cube.reshape(shape)),
            least=self.least.reshape(shape),
            most=self.most.reshape(shape),
        )


class KeepUnmixing(msgspec.Struct, frozen=True, kw_only=True):
    """``Q = alpha I + beta J`` on ``cells`` categories, the inverse of a keep randomizer's P.

    ``tabulated`` are the places, within the block, of the attributes that the reports' table
    needs: those that are asked for and no other.
    """

    tabulated: tuple[int, ...]
    cells: int
    alpha: float
    beta: float

    def ends(self) -> tuple[Floats, Floats]:
        """The least and the largest score of every category."""
        return np.full(self.cells, self.beta), np.full(self.cells, self.alpha + self.beta)

    def moments(self, reported: Floats) -> Moments:
        """The moments of the scores of every category, independent of the reports."""
        del reported
        fakes = np.full(self.cells, -self.beta)
        return _two_valued(self.alpha, fakes)

    def mixed(self, table: Floats, axis: int) -> Floats:
        """The shares of the reports, if these are the shares of the answers along an axis."""
        return _mixed(table, axis, alpha=1 / self.alpha, beta=-self.beta / self.alpha)

    def collapsed(self, inside: NDArray[np.bool_]) -> TableUnmixing:
        """Unmixing of two categories: a set of the categories, and all others."""
        return _two_cells(self.alpha, np.full(self.cells, -self.beta), inside, self.tabulated)

    def apply(self, table: Floats, axis: int) -> Floats:
        """``sum_y table_y Q[y, v]`` along an axis of length ``cells``; the shape stays."""
        return _mixed(table, axis, alpha=self.alpha, beta=self.beta)

    def apply_squared(self, table: Floats, axis: int) -> Floats:
        """``sum_y table_y Q[y, v]**2`` along an axis of length ``cells``; the shape stays."""
        diagonal, other = (self.alpha + self.beta) ** 2, self.beta**2
        return _mixed(table, axis, alpha=diagonal - other, beta=other)

    def apply_transposed(self, weights: Floats, axis: int) -> Floats:
        """``sum_v Q[y, v] weights_v`` along an axis of length ``cells``; the shape stays."""
        return self.apply(weights, axis)


class TableUnmixing(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """``Q = (I - (1-p) 1 T^T) / p``, the inverse of a keep randomizer with a table of fakes.

    ``alpha`` is 1/p and ``fakes``, shape ``(cells,)``, is ``(1-p) T / p``: column v of Q is
    ``-fakes[v]``, with alpha added on the diagonal.

    ``tabulated`` are the places, within the block, of the attributes that the reports' table
    needs: those that are asked for and no other.
    """

    tabulated: tuple[int, ...]
    alpha: float
    fakes: Floats

    @property
    def cells(self) -> int:
        """The number of categories."""
        return len(self.fakes)

    def ends(self) -> tuple[Floats, Floats]:
        """The least and the largest score of every category."""
        return -self.fakes, self.alpha - self.fakes

    def moments(self, reported: Floats) -> Moments:
        """The moments of the scores of every category, independent of the reports."""
        del reported
        return _two_valued(self.alpha, self.fakes)

    def mixed(self, table: Floats, axis: int) -> Floats:
        """The shares of the reports, if these are the shares of the answers along an axis."""
        mixed: Floats = table + self._along(self.fakes, table, axis) * table.sum(
            axis=axis, keepdims=True
        )
        return mixed / self.alpha

    def collapsed(self, inside: NDArray[np.bool_]) -> TableUnmixing:
        """Unmixing of two categories: a set of the categories, and all others."""
        return _two_cells(self.alpha, self.fakes, inside, self.tabulated)

    def apply(self, table: Floats, axis: int) -> Floats:
        """``sum_y table_y Q[y, v]`` along an axis of length ``cells``; the shape stays."""
        mixed: Floats = self.alpha * table
        mixed -= self._along(self.fakes, table, axis) * table.sum(axis=axis, keepdims=True)
        return mixed

    def apply_squared(self, table: Floats, axis: int) -> Floats:
        """``sum_y table_y Q[y, v]**2`` along an axis of length ``cells``; the shape stays."""
        added = self.alpha * (self.alpha - 2 * self.fakes)
        mixed: Floats = self._along(added, table, axis) * table
        mixed += self._along(self.fakes**2, table, axis) * table.sum(axis=axis, keepdims=True)
        return mixed

    def apply_transposed(self, weights: Floats, axis: int) -> Floats:
        """``sum_v Q[y, v] weights_v`` along an axis of length ``cells``; the shape stays."""
        faked = self._along(self.fakes, weights, axis) * weights
        mixed: Floats = self.alpha * weights
        mixed -= faked.sum(axis=axis, keepdims=True)
        return mixed

    def _along(self, column: Floats, table: Floats, axis: int) -> Floats:
        """Numbers by category, reshaped to broadcast along one axis of a table."""
        shape = [1] * table.ndim
        shape[axis] = -1
        return column.reshape(shape)


class MatrixUnmixing(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """A dense Q of a small block: rows its reports, columns the categories of some attributes.

    ``tabulated`` are the places, within the block, of the attributes that the reports' table needs:
    all of them, since the law of a part of the report is not that of the part of a record. ``law``
    is P, rows the block's combinations, and ``places`` says which category each is in.
    """

    tabulated: tuple[int, ...]
    inverse: Floats
    law: Floats
    places: NDArray[np.intp]

    @classmethod
    def of(cls, matrix: Floats, sizes: Sequence[int], kept: Sequence[int]) -> MatrixUnmixing:
        """The inverse of a square matrix, on the marginal of some attributes (``check_places``)."""
        inverse = np.linalg.inv(matrix).reshape(-1, *sizes)
        dropped = tuple(place + 1 for place in range(len(sizes)) if place not in kept)
        order = sorted(kept)
        summed = inverse.sum(axis=dropped).transpose(0, *(1 + order.index(place) for place in kept))
        codes = np.unravel_index(np.arange(len(matrix)), sizes)
        kept_codes = tuple(codes[place] for place in kept)
        return cls(
            tabulated=tuple(range(len(sizes))),
            inverse=summed.reshape(len(inverse), -1),
            law=matrix,
            places=np.ravel_multi_index(kept_codes, [sizes[place] for place in kept]),
        )

    @property
    def cells(self) -> int:
        """The number of columns."""
        return int(self.inverse.shape[1])

    def ends(self) -> tuple[Floats, Floats]:
        """The least and the largest score of every category."""
        return self.inverse.min(axis=0), self.inverse.max(axis=0)

    def moments(self, reported: Floats) -> Moments:
        """The moments of the scores of every category.

        Their spread depends on the answers inside and outside of a category, which are taken to be
        distributed as estimated.

        Args:
            reported: the shares of the reports.
        """
        shares: Floats = np.linalg.solve(self.law.T, reported).astype(np.float64, copy=False)
        return matrix_moments(self.law, self.inverse, self.places, shares)

    def mixed(self, table: Floats, axis: int) -> Floats:
        """The shares of the reports for given shares of the answers along an axis.

        Answers that differ only in other attributes count as equally likely.
        """
        members = np.equal.outer(np.arange(self.cells), self.places).astype(np.float64)
        members /= members.sum(axis=1, keepdims=True)
        return _mode_product(table, members @ self.law, axis)

    def collapsed(self, inside: NDArray[np.bool_]) -> MatrixUnmixing:
        """Unmixing of two categories: a set, and all others; reports stay as they are."""
        two = np.stack((self.inverse[:, inside].sum(axis=1), self.inverse[:, ~inside].sum(axis=1)))
        return MatrixUnmixing(
            tabulated=self.tabulated,
            inverse=np.ascontiguousarray(two.T),
            law=self.law,
            places=np.where(inside, 0, 1)[self.places],
        )

    def apply(self, table: Floats, axis: int) -> Floats:
        """``sum_y table_y Q[y, v]``: an axis of reports becomes one of categories."""
        return _mode_product(table, self.inverse, axis)

    def apply_squared(self, table: Floats, axis: int) -> Floats:
        """``sum_y table_y Q[y, v]**2``: an axis of reports becomes one of categories."""
        return _mode_product(table, self.inverse**2, axis)

    def apply_transposed(self, weights: Floats, axis: int) -> Floats:
        """``sum_v Q[y, v] weights_v``: an axis of categories becomes one of reports."""
        return _mode_product(weights, self.inverse.T, axis)


Unmixing: TypeAlias = KeepUnmixing | TableUnmixing | MatrixUnmixing
"""The inverse of any randomizer, on the attributes of its block that are asked for."""


def matrix_moments(
    law: Floats, inverse: Floats, places: NDArray[np.intp], shares: Floats
) -> Moments:
    """The scores of the categories of a dense law.

    Args:
        law: rows the inputs, columns the reports.
        inverse: rows the reports, columns the categories.
        places: the category of each input.
        shares: the estimated shares of the inputs; negative ones count as 0.
    """
    members = np.equal.outer(places, np.arange(inverse.shape[1]))
    likely = np.maximum(shares, 0.0)
    inside, outside = [], []
    for power in (2, 3):
        means = law @ inverse**power
        inside.append(_means(means, likely, members))
        outside.append(_means(means, likely, ~members))
    return Moments(
        inside=(inside[0], inside[1]),
        outside=(outside[0], outside[1]),
        least=inverse.min(axis=0),
        most=inverse.max(axis=0),
    )


def _two_valued(alpha: float, fakes: Floats) -> Moments:
    """Moments of scores ``alpha - fakes`` if v is reported and ``-fakes`` if not.

    The probability that v is reported is ``fakes / alpha`` for other answers, and ``1/alpha`` more
    for v.
    """
    most, least = alpha - fakes, -fakes
    other = fakes / alpha

    def mean(power: int, chance: Floats) -> Floats:
        found: Floats = chance * most**power + (1 - chance) * least**power
        return found

    return Moments(
        inside=(mean(2, other + 1 / alpha), mean(3, other + 1 / alpha)),
        outside=(mean(2, other), mean(3, other)),
        least=least,
        most=most,
    )


def _two_cells(
    alpha: float, fakes: Floats, inside: NDArray[np.bool_], tabulated: tuple[int, ...]
) -> TableUnmixing:
    two = np.array([fakes[inside].sum(), fakes[~inside].sum()])
    return TableUnmixing(tabulated=tabulated, alpha=alpha, fakes=two)


def _means(values: Floats, shares: Floats, members: NDArray[np.bool_]) -> Floats:
    """Weighted mean of each column over its members, plain if they have no share; 0 for none."""
    weights = shares[:, np.newaxis] * members
    weights = np.where(weights.sum(axis=0) > 0, weights, members)
    total = np.maximum(weights.sum(axis=0), np.finfo(np.float64).tiny)
    means: Floats = (weights * values).sum(axis=0) / total
    return means


def _mixed(table: Floats, axis: int, *, alpha: float, beta: float) -> Floats:
    mixed: Floats = alpha * table
    mixed += beta * table.sum(axis=axis, keepdims=True)
    return mixed


def _mode_product(table: Floats, matrix: Floats, axis: int) -> Floats:
    product: Floats = np.tensordot(table, matrix, axes=(axis, 0))
    return np.moveaxis(product, -1, axis)


def marginal(table: Floats, kept: Sequence[int]) -> Floats:
    """The sums over the axes that are not kept, as one axis in row-major order of the kept ones."""
    dropped = tuple(place for place in range(table.ndim) if place not in kept)
    order = sorted(kept)
    summed: Floats = table.sum(axis=dropped)
    return summed.transpose([order.index(place) for place in kept]).reshape(-1)


def check_places(size: int, sizes: Sequence[int], kept: Sequence[int]) -> None:
    """Refuse places that are not some attributes of a block of this size.

    Raises:
        ValueError: the product of the sizes is another, or no place, a repeated one, or one outside
            the block is asked for.
    """
    if size != math.prod(sizes):
        raise ValueError(
            f"randomizer of size {size}, expected {math.prod(sizes)} combinations of categories"
        )
    if not kept or len(set(kept)) < len(kept) or not set(kept) <= set(range(len(sizes))):
        raise ValueError(
            f"places {tuple(kept)}: expected distinct numbers from 0 to {len(sizes) - 1}, at least "
            "one"
        )
