"""Shamir's secret sharing, byte by byte, over GF(256).

The field is GF(2)[x] modulo the AES polynomial x^8 + x^4 + x^3 + x + 1 (0x11b). Each byte of a
secret is the value at 0 of a polynomial of degree below the threshold that is otherwise uniform,
and share number s is its value at s + 1 (Shamir, How to Share a Secret, 1979).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from protocol.crypto.octets import Octets
from protocol.crypto.randomness import Stream

MAX_SHARES = 255
"""The number of points other than 0."""

_POLYNOMIAL = 0x11B
_ORDER = 255
# How many products, and rows of weights, are computed at once, so that they stay in the cache.
_PRODUCTS_AT_ONCE = 2**16
_ROWS_AT_ONCE = 2**11


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array


def _powers() -> Octets:
    """The powers 0 to 254 of the generator."""
    powers = np.empty(_ORDER, np.uint8)
    power = 1
    for exponent in range(_ORDER):
        powers[exponent] = power
        power ^= power << 1  # times 3, which is x + 1
        if power > 0xFF:
            power ^= _POLYNOMIAL
    return powers


def _logarithms(powers: Octets) -> NDArray[np.intp]:
    """Logarithms to the generator's base, with 0 in place of the logarithm of 0."""
    logarithms = np.zeros(256, np.intp)
    logarithms[powers] = np.arange(_ORDER)
    return logarithms


def _products(powers: Octets, logarithms: NDArray[np.intp]) -> Octets:
    """``a b`` at ``256 a + b``."""
    table: Octets = powers[(logarithms[:, None] + logarithms) % _ORDER]
    table[0] = table[:, 0] = 0
    return table.ravel()


def _times(left: NDArray[np.intp], right: NDArray[np.integer]) -> Octets:
    """Products in the field, element by element."""
    return _PRODUCTS.take(256 * left + right)


def _factors() -> NDArray[np.intp]:
    """``s_b(x) / s_b(2**b)`` at (b, x), where s_b is the polynomial that vanishes below 2**b.

    ``s_0(x) = x`` and ``s_{b+1}(x) = s_b(x) (s_b(x) + s_b(2**b))``.
    """
    rows = []
    values = np.arange(256)
    for bit in range(8):
        divisor = values[1 << bit]
        inverse = _POWERS[-_LOGARITHMS[divisor] % _ORDER]
        rows.append(_times(values, inverse).astype(np.intp))
        values = _times(values, values ^ divisor).astype(np.intp)
    return np.stack(rows)


_POWERS: Octets = _frozen(_powers())
_LOGARITHMS: NDArray[np.intp] = _frozen(_logarithms(_POWERS))
_PRODUCTS: Octets = _frozen(_products(_POWERS, _LOGARITHMS))
_FACTORS: NDArray[np.intp] = _frozen(_factors())
# The logarithm of a - b at (a, b), 0 on the diagonal. In single precision, in which a sum of up to
# 255 of them is exact.
_LOGARITHMS_OF_DIFFERENCES: NDArray[np.float32] = _frozen(
    _LOGARITHMS[np.arange(256)[:, None] ^ np.arange(256)].astype(np.float32)
)


def share(secrets: Octets, *, shares: int, threshold: int, stream: Stream) -> Octets:
    """Share a secret of L bytes; fewer than ``threshold`` shares reveal nothing about it.

    The secret is the polynomial's first coefficient in the basis of ``_evaluate``, and the others
    are drawn uniformly. Every polynomial of degree below the threshold with the secret at 0 is then
    equally likely, as with uniform coefficients of the powers of x.

    Args:
        secrets: shape (L,); each byte is shared by itself.
        shares: how many to make, at most 255.
        threshold: how many it takes to reconstruct, 1 to ``shares``.
        stream: gives ``(threshold - 1) * L`` bytes.

    Returns:
        shape (shares, L); row s is the values at s + 1.

    Raises:
        ValueError: the secret is not a row of bytes, or a number is out of range.
    """
    if secrets.dtype != np.uint8 or secrets.ndim != 1:
        raise ValueError(f"a secret of {secrets.dtype}, {secrets.shape}: expected a row of bytes")
    if not 1 <= threshold <= shares <= MAX_SHARES:
        raise ValueError(
            f"threshold {threshold} of {shares} shares: "
            f"expected 1 <= threshold <= shares <= {MAX_SHARES}"
        )
    length = len(secrets)
    drawn = stream.bytes((threshold - 1) * length)
    coefficients = np.zeros((1 << shares.bit_length(), length), np.uint8)
    coefficients[0] = secrets
    coefficients[1:threshold] = np.frombuffer(drawn, np.uint8).reshape(threshold - 1, length)
    values = _evaluate(coefficients)
    return values[1 : shares + 1].copy()


def _evaluate(coefficients: Octets) -> Octets:
    """Values at 0 to 2**m - 1 of polynomials with 2**m coefficients, by an additive FFT, in place.

    Coefficient i is that of ``X_i``, the product of ``s_b(x) / s_b(2**b)`` over the bits b of i. It
    is of degree i, and 0 at 0 but for ``X_0 = 1`` (Lin, Chung and Han, Novel Polynomial Basis and
    Its Application to Reed-Solomon Erasure Codes, 2014, section III). Evaluating point by point
    takes 3 to 25 times as long.
    """
    rows, length = coefficients.shape
    for bit in reversed(range(rows.bit_length() - 1)):
        halves = coefficients.reshape(rows >> (bit + 1), 2, 1 << bit, length)
        # Each pair (f, g) becomes f + X g. X is one value on the first half of a block of points,
        # and that value + 1 on the second.
        first, second = halves[:, 0], halves[:, 1]
        factors = _FACTORS[bit, : rows : 2 << bit]
        first ^= _times(factors[:, None, None], second)
        second ^= first
    return coefficients


def reconstruct(shares: Octets, places: NDArray[np.integer]) -> Octets:
    """The secrets that the given shares determine, each by Lagrange interpolation at 0.

    All t shares of a row are used, so t has to be at least the threshold. From fewer, or with a
    wrong or misplaced share, the secret is wrong, and nothing shows it. A commitment binds the
    holder of a share to it.

    Args:
        shares: shape (n, t, L): t shares of each of n secrets of L bytes.
        places: shape (n, t): the number of each share, from 0; distinct within a row.

    Returns:
        shape (n, L).

    Raises:
        ValueError: a wrong shape or type, no share, or a number outside 0..254 or twice in a row.
    """
    if shares.dtype != np.uint8 or shares.ndim != 3 or shares.shape[1] < 1:
        raise ValueError(f"shares of {shares.dtype}, {shares.shape}: expected bytes (n, t, L)")
    if places.shape != shares.shape[:2] or not np.issubdtype(places.dtype, np.integer):
        raise ValueError(f"places of {places.dtype}, {places.shape}: expected a number per share")
    if places.size and not (places.min() >= 0 and places.max() < MAX_SHARES):
        raise ValueError(f"places from {places.min()} to {places.max()}: expected 0 to 254")
    n, t, length = shares.shape
    weights = np.empty((n, t), np.uint8)
    for start in range(0, n, _ROWS_AT_ONCE):
        part = slice(start, start + _ROWS_AT_ONCE)
        weights[part] = _weights_at_zero(places[part].astype(np.intp) + 1)
    secrets = np.empty((n, length), np.uint8)
    step = max(1, _PRODUCTS_AT_ONCE // max(1, t * length))
    for start in range(0, n, step):
        part = slice(start, start + step)
        terms = _times(weights[part, :, None].astype(np.intp), shares[part])
        secrets[part] = np.bitwise_xor.reduce(terms, axis=1)
    return secrets


def _weights_at_zero(points: NDArray[np.intp]) -> Octets:
    """Lagrange's weights at 0: of point i, the product of ``x_j / (x_j - x_i)`` over j != i.

    Raises:
        ValueError: a point is twice in a row.
    """
    held = np.zeros((len(points), 256), np.float32)
    np.put_along_axis(held, points, 1, axis=1)
    if np.any(np.count_nonzero(held, axis=1) < points.shape[1]):
        raise ValueError("a share is given twice: expected distinct places")
    # The sum of log(x_j - x) over a row's points j, for every x at once.
    sums = held @ _LOGARITHMS_OF_DIFFERENCES
    below = np.take_along_axis(sums, points, axis=1).astype(np.intp)
    above = _LOGARITHMS[points]
    exponents = above.sum(axis=1, keepdims=True) - above - below
    weights: Octets = _POWERS[exponents % _ORDER]
    return weights
