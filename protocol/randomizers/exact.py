"""Arithmetic of randomizers: codes of a domain, and exact integers."""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from protocol.wire.arrays import Array

Codes = TypeVar("Codes", bound=np.unsignedinteger)
Floats: TypeAlias = NDArray[np.float64]

DIGITS = 60
"""The decimal digits of intermediate results: far more than the 20 of a word."""


# Beyond this, e**-epsilon is far below 2**-64 and the nearest threshold is 2**64 - 1 anyway.
_LARGEST_EPSILON = 200


def check_epsilon(epsilon: float) -> None:
    """Refuse an epsilon that is not positive and finite.

    Raises:
        ValueError: it is not.
    """
    if not (epsilon > 0 and math.isfinite(epsilon)):
        raise ValueError(f"epsilon {epsilon}: expected a positive finite number")


def odds(epsilon: float, parts: int = 1) -> Decimal:
    """``e**(epsilon/parts)`` in decimal arithmetic, the same on every platform.

    For an epsilon so large that no threshold distinguishes it from infinity, it is that of the
    largest.

    Raises:
        ValueError: as ``check_epsilon``.
    """
    check_epsilon(epsilon)
    context = Context(prec=DIGITS)
    return context.exp(context.divide(Decimal(min(epsilon, _LARGEST_EPSILON)), Decimal(parts)))


@lru_cache(maxsize=1024)
def log_ratio(numerator: int, denominator: int) -> float:
    """``ln(numerator / denominator)`` of exact integers, correctly rounded on every platform."""
    context = Context(prec=DIGITS)
    return float(context.ln(context.divide(Decimal(numerator), Decimal(denominator))))


def log_fraction(ratio: Fraction) -> float:
    """``ln(ratio)`` of an exact positive ratio, correctly rounded on every platform."""
    return log_ratio(ratio.numerator, ratio.denominator)


def check_type(codes: Array, size: int) -> None:
    """Refuse codes of a type that cannot hold all categories of a domain.

    Raises:
        ValueError: not of an unsigned type that holds ``size - 1``.
    """
    if codes.dtype.kind != "u" or 1 << 8 * codes.dtype.itemsize < size:
        raise ValueError(f"codes of type {codes.dtype}: expected unsigned, holding {size} values")


def check_codes(codes: NDArray[np.unsignedinteger], size: int) -> None:
    """Refuse codes that are not categories of a domain, or a type that cannot hold all of it.

    Raises:
        ValueError: not of an unsigned type that holds ``size - 1``, or not below ``size``.
    """
    check_type(codes, size)
    if codes.size and int(codes.max()) >= size:
        raise ValueError(f"code {int(codes.max())}: expected less than {size}")


def check_column(codes: NDArray[np.unsignedinteger], size: int) -> None:
    """Refuse codes of another shape than (k,), one per respondent, or outside of a domain.

    Raises:
        ValueError: of another shape, or as ``check_codes``.
    """
    if codes.ndim != 1:
        raise ValueError(f"codes of shape {codes.shape}: expected (k,)")
    check_codes(codes, size)


def group_sums(groups: NDArray[np.integer], values: Floats, number: int) -> Floats:
    """The sums of values by group, numbered from 0, shape ``(number,)``."""
    return np.bincount(groups, values, number).astype(np.float64, copy=False)
