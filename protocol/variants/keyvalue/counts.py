"""Counts of PrivKV's reports, and arithmetic that its estimators share."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from protocol.estimators.tables import standard_errors
from protocol.randomizers.exact import Floats
from protocol.randomizers.keyvalue import SYMBOLS, KeyValueReports


def tally(reports: KeyValueReports, *, keys: int) -> NDArray[np.int64]:
    """Number of reports of each symbol and key, shape (keys, 3), columns by their codes.

    Raises:
        ValueError: shapes differ, or a key or symbol is not there.
    """
    if reports.keys.shape != reports.symbols.shape or reports.keys.ndim != 1:
        raise ValueError(
            f"keys of shape {reports.keys.shape} and symbols of shape {reports.symbols.shape}: "
            "expected (n,) for both"
        )
    if reports.keys.dtype.kind != "u" or reports.symbols.dtype.kind != "u":
        raise ValueError("keys and symbols: expected unsigned codes")
    if reports.keys.size and int(reports.keys.max()) >= keys:
        raise ValueError(f"key {int(reports.keys.max())}: expected less than {keys}")
    if reports.symbols.size and int(reports.symbols.max()) >= len(SYMBOLS):
        raise ValueError(f"symbol {int(reports.symbols.max())}: expected less than {len(SYMBOLS)}")
    cells = reports.keys.astype(np.int64) * len(SYMBOLS) + reports.symbols
    return np.bincount(cells, minlength=keys * len(SYMBOLS)).reshape(keys, len(SYMBOLS))


def checked(counts: ArrayLike) -> Floats:
    """Counts as floats.

    Raises:
        ValueError: another shape than (..., d, 3), or a count that is negative or not finite.
    """
    table = np.asarray(counts)
    if table.shape[-1:] != (3,) or table.ndim < 2 or table.dtype.kind not in "iuf":
        raise ValueError(f"{table.dtype} counts of shape {table.shape}: expected (..., d, 3)")
    if not (table >= 0).all() or not np.isfinite(table).all():
        raise ValueError("a count is negative or not finite")
    return table.astype(np.float64)


def deviation(gradient: Floats, law: Floats, total: Floats) -> Floats:
    """Standard deviation of ``shares @ gradient`` for multinomial shares of a law (delta method).

    NaN with too few reports (``standard_errors``).
    """
    mean = (law * gradient).sum(axis=-1)
    squares = (gradient - mean[..., np.newaxis]) ** 2
    return standard_errors(
        ratio((law * squares).sum(axis=-1), total),
        ratio((law * gradient**2).sum(axis=-1), total),
        ratio(squares.max(axis=-1), total**2),
    )


def binomial_deviation(share: Floats, total: Floats) -> Floats:
    """Standard deviation of a share of so many reports; NaN with too few."""
    pair = np.stack([share, 1 - share], axis=-1)
    return deviation(np.array([1.0, 0.0]), pair, total)


def ratio(above: Floats, below: Any) -> Floats:
    """A quotient, NaN where the divisor is not positive."""
    shape = np.broadcast_shapes(np.shape(above), np.shape(below))
    found: Floats = np.full(shape, math.nan)
    np.divide(above, below, out=found, where=np.broadcast_to(np.asarray(below) > 0, shape))
    return found


def known(errors: Floats, reports: Floats) -> Floats:
    """Standard errors, NaN where there are fewer than two reports."""
    return np.where(reports > 1, errors, math.nan)
