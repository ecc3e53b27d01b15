"""Named projections from a raw, signed estimate to proportions, applied last and once."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Projection: TypeAlias = Literal["none", "clip", "simplex", "em"]
"""Ways in which raw shares become proportions. ``none`` leaves them raw, ``clip`` is
``clip_and_rescale``, ``simplex`` is Euclidean. ``em`` is fitted to the reports
(``protocol.estimators.likelihood``), so an estimate alone can do it.
"""


def clip_and_rescale(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Negative entries to 0, the rest rescaled to a total of 1; any shape.

    This is the rule of Domingo-Ferrer and Soria-Comas, section 6.4. It is not the Euclidean
    projection, which the text takes it for: that one takes the same amount from every positive
    entry, where this one takes the same share, and they differ as soon as an entry is negative.

    Raises:
        ValueError: no entry is positive, or one is not finite.
    """
    _check_finite(values)
    clipped = np.maximum(values, 0.0)
    largest = clipped.max(initial=0.0)
    if not largest > 0:
        raise ValueError("no entry is positive: the total cannot be rescaled to 1")
    # Scaled first, so that the total can neither overflow nor vanish.
    clipped /= largest
    clipped /= clipped.sum()
    return clipped


def project_simplex(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The nearest table with entries of at least 0 and a total of 1, in Euclidean distance.

    Any shape, at least one entry.

    Raises:
        ValueError: no entry, or one that is not finite.
    """
    _check_finite(values)
    if not values.size:
        raise ValueError("the table is empty: expected at least one entry")
    return project_rows(values.reshape(-1)).reshape(values.shape)


def project_rows(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """``project_simplex`` of every row along the last axis.

    The same amount theta is subtracted from every entry, down to 0, so that the total is 1; theta
    is found by sorting (Held, Wolfe and Crowder 1974).
    """
    # A common shift does not change the projection; without it large entries would lose digits.
    shifted = values - values.max(axis=-1, keepdims=True)
    falling = np.sort(shifted, axis=-1)[..., ::-1]
    excess = np.cumsum(falling, axis=-1) - 1.0
    ranks = np.arange(1, values.shape[-1] + 1)
    positive = np.count_nonzero(falling * ranks > excess, axis=-1, keepdims=True)
    theta = np.take_along_axis(excess, positive - 1, axis=-1) / positive
    projected: NDArray[np.float64] = np.maximum(shifted - theta, 0.0)
    return projected


def project(values: NDArray[np.float64], projection: Projection) -> NDArray[np.float64]:
    """Apply a projection by its name; ``none`` returns the values themselves.

    Raises:
        ValueError: an unknown name, ``em``, or what the projection refuses.
    """
    match projection:
        case "none":
            return values
        case "clip":
            return clip_and_rescale(values)
        case "simplex":
            return project_simplex(values)
        case "em":
            raise ValueError("projection 'em' needs the reports: expected Estimate.table to do it")
        case _:
            raise ValueError(
                f"projection {projection!r}: expected 'none', 'clip', 'simplex' or 'em'"
            )


def _check_finite(values: NDArray[np.float64]) -> None:
    if not np.isfinite(values).all():
        raise ValueError("an entry is not finite")
