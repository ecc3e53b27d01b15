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
from typing import TypeAlias

import msgspec
import numpy as np

from protocol.randomizers.exact import Floats


class KeepUnmixing(msgspec.Struct, frozen=True, kw_only=True):
    """``Q = alpha I + beta J`` on ``cells`` categories, the inverse of a keep randomizer's P.

    ``tabulated`` are the places, within the block, of the attributes that the reports' table
    needs: those that are asked for and no other.
    """

    tabulated: tuple[int, ...]
    cells: int
    alpha: float
    beta: float

    @property
    def slopes(self) -> Floats:
        """How much the mean of ``Q[y, v]**2`` grows per unit of the share of v, ``(cells,)``."""
        return np.full(self.cells, self.alpha + 2 * self.beta)

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

    @property
    def slopes(self) -> Floats:
        """How much the mean of ``Q[y, v]**2`` grows per unit of the share of v, ``(cells,)``."""
        slopes: Floats = self.alpha - 2 * self.fakes
        return slopes

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
        """One number per category in the shape that spreads it over the other axes of a table."""
        shape = [1] * table.ndim
        shape[axis] = -1
        return column.reshape(shape)


class MatrixUnmixing(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """A dense Q of a small block: rows its reports, columns the categories that are asked for.

    ``tabulated`` are the places, within the block, of the attributes that the reports' table
    needs: all of them, for the law of a part of the report is not that of the part of a record.
    """

    tabulated: tuple[int, ...]
    inverse: Floats

    @classmethod
    def of(cls, matrix: Floats, sizes: Sequence[int], kept: Sequence[int]) -> MatrixUnmixing:
        """The inverse of a square matrix, on the marginal of some attributes (``check_places``)."""
        inverse = np.linalg.inv(matrix).reshape(-1, *sizes)
        dropped = tuple(place + 1 for place in range(len(sizes)) if place not in kept)
        order = sorted(kept)
        summed = inverse.sum(axis=dropped).transpose(0, *(1 + order.index(place) for place in kept))
        return cls(tabulated=tuple(range(len(sizes))), inverse=summed.reshape(len(inverse), -1))

    @property
    def cells(self) -> int:
        """The number of columns."""
        return int(self.inverse.shape[1])

    @property
    def slopes(self) -> Floats:
        """About how much the mean of ``Q[y, v]**2`` grows per unit of the share of v, ``(cells,)``.

        It depends on whose share it is taken from; this is the sum of the largest and least score,
        as if there were no others.
        """
        slopes: Floats = self.inverse.max(axis=0) + self.inverse.min(axis=0)
        return slopes

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
    """Refuse what cannot be asked of a block of attributes of so many combinations.

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
