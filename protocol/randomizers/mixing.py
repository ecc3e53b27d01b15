"""Randomization matrices as operators along one axis of a table; ``unmixing`` has the inverses.

With P the matrix, rows indexed by the category x and columns by the report y, shares pi of the
categories give reports the law ``f = pi P``. Blocks of attributes are combined by mode products:
one operator per axis, never a Kronecker matrix. A randomizer that keeps or fakes has
``P = a I + 1 t^T``, so nothing of the size of the domain squared is ever made.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec
import numpy as np

from protocol.randomizers.exact import Floats


class FakesMixing(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """``P = a I + 1 t^T``: keep with probability a, else report v with probability ``t_v/(1-a)``.

    Args:
        places: of the attributes, within the block, whose combinations the categories are; reports
            are such combinations too.
        keep: a.
        fakes: t, shape ``(cells,)``, with a total of ``1 - a``.
    """

    places: tuple[int, ...]
    keep: float
    fakes: Floats

    @property
    def shared(self) -> Floats:
        """The least probability of every report over all categories, shape ``(cells,)``."""
        return self.fakes

    def apply(self, shares: Floats, axis: int) -> Floats:
        """``sum_x shares_x P[x, y]`` along an axis; the shape stays."""
        mixed: Floats = shares.sum(axis=axis, keepdims=True) * self._along(shares.ndim, axis)
        mixed += self.keep * shares
        return mixed

    def apply_transposed(self, weights: Floats, axis: int) -> Floats:
        """``sum_y P[x, y] weights_y`` along an axis; the shape stays."""
        mixed: Floats = self.keep * weights
        mixed += (weights * self._along(weights.ndim, axis)).sum(axis=axis, keepdims=True)
        return mixed

    def _along(self, ndim: int, axis: int) -> Floats:
        """One number per category in the shape that spreads it over the other axes of a table."""
        return self.fakes.reshape([-1 if place == axis else 1 for place in range(ndim)])


class MatrixMixing(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """Any P of a small block.

    Args:
        places: of all attributes of the block, for the law of a part of a report is not that of
            the part of a record.
        matrix: P, shape ``(cells, reports)``.
    """

    places: tuple[int, ...]
    matrix: Floats

    @property
    def shared(self) -> Floats:
        """The least probability of every report over all categories, shape ``(reports,)``."""
        least: Floats = self.matrix.min(axis=0)
        return least

    def apply(self, shares: Floats, axis: int) -> Floats:
        """``sum_x shares_x P[x, y]``: an axis of categories becomes one of reports."""
        return np.moveaxis(np.tensordot(shares, self.matrix, axes=(axis, 0)), -1, axis)

    def apply_transposed(self, weights: Floats, axis: int) -> Floats:
        """``sum_y P[x, y] weights_y``: an axis of reports becomes one of categories."""
        return np.moveaxis(np.tensordot(weights, self.matrix, axes=(axis, 1)), -1, axis)


Mixing: TypeAlias = FakesMixing | MatrixMixing
"""The law of any randomizer's reports, on the attributes of its block that are asked for."""
