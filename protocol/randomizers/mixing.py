"""Randomization matrices as operators along an axis of a table; ``unmixing`` has the inverses.

With P the matrix, rows indexed by the category x and columns by the report y, shares pi of the
categories give reports the law ``f = pi P``. Blocks of attributes are combined by mode products:
one operator per axis, never a Kronecker matrix. All axes before it count as one here, and so do all
behind it, which makes three. A randomizer that keeps or fakes has
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
    def reports(self) -> int:
        """Number of different reports."""
        return len(self.fakes)

    def apply(self, shares: Floats) -> Floats:
        """``sum_x shares_x P[x, y]`` along the middle of three axes; the shape stays."""
        mixed: Floats = self.fakes[:, np.newaxis] * np.add.reduce(shares, 1, keepdims=True)
        mixed += self.keep * shares
        return mixed

    def apply_transposed(self, weights: Floats) -> Floats:
        """``sum_y P[x, y] weights_y`` along the middle of three axes; the shape stays."""
        mixed: Floats = self.keep * weights
        mixed += np.matmul(self.fakes, weights)[:, np.newaxis]
        return mixed


class MatrixMixing(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """Any P of a small block.

    Args:
        places: of all attributes of the block, since the law of a part of a report is not that of
            the part of a record.
        matrix: P, shape ``(cells, reports)``.
    """

    places: tuple[int, ...]
    matrix: Floats

    @property
    def reports(self) -> int:
        """Number of different reports."""
        return int(self.matrix.shape[1])

    def apply(self, shares: Floats) -> Floats:
        """``sum_x shares_x P[x, y]``: the middle of three axes becomes one of reports."""
        mixed: Floats = np.matmul(self.matrix.T, shares)
        return mixed

    def apply_transposed(self, weights: Floats) -> Floats:
        """``sum_y P[x, y] weights_y``: the middle of three axes becomes one of categories."""
        mixed: Floats = np.matmul(self.matrix, weights)
        return mixed


Mixing: TypeAlias = FakesMixing | MatrixMixing
"""The law of any randomizer's reports, on the attributes of its block that are asked for."""
