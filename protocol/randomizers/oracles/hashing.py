"""Local hashing: a code is hashed to one of a few values, which is randomized.

Wang, Blocki, Li and Jha, Locally Differentially Private Protocols for Frequency Estimation, USENIX
Security 2017, section 4.3: with two values (BLH), or with about ``e**epsilon + 1`` (OLH).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from protocol.crypto.randomness import Stream
from protocol.randomizers.exact import check_column
from protocol.randomizers.keep import KeepUniform
from protocol.randomizers.randomizer import OutputClass, Randomizer, Support
from protocol.wire.arrays import Array, ArraySpec, dtype_name, smallest_dtype

MAX_REPORTS = 2**63
"""The most different reports."""

MAX_INPUTS = 2**32
"""The most inputs of which counts can be made."""

_LARGEST_GROUPS = 2**16
# With more functions than that, or than reports and codes, reports are counted one by one.
_MOST_FUNCTIONS = 2**22
# Sums of digits of some reports that are kept at one time.
_SUMS_AT_ONCE = 2**20


class LocalHashing(Randomizer, frozen=True, tag="hashing"):
    """A code is hashed by a function drawn for each report, and its hash randomized.

    **The family.** Values are the numbers modulo g, ``groups``. With r the smallest prime factor of
    g, a code x is written as k digits ``x_1 ... x_k`` of base r, and

        ``h(x) = b + a_1 x_1 + ... + a_k x_k  mod g``

    with b and all ``a_i`` uniform modulo g. Two different codes differ in a digit by d with
    ``0 < |d| < r``, so that d has an inverse modulo g and ``a_i d`` is uniform; hence both hashes
    are uniform and independent: the family is exactly 2-universal, and two codes collide with
    probability ``1/g`` exactly. Three codes are not independent, so that how often a report counts
    for two other codes is not known, nor is a covariance.

    **The report** is one number: ``value + g (b + g a_1 + g**2 a_2 + ...)``, where the value is the
    hash, kept with probability ``threshold / 2**64`` and else drawn from all g.

    Raises:
        ValueError: ``size`` is not in 2..2**32, ``groups`` not in 2..2**16, ``threshold`` not in
            1..2**64-1, or there are 2**63 reports or more.
    """

    symmetric = True

    size: int
    groups: int
    threshold: int

    def __post_init__(self) -> None:
        if not 2 <= self.size <= MAX_INPUTS:
            raise ValueError(f"size {self.size}: expected 2 to 2**32 inputs")
        if not 2 <= self.groups <= _LARGEST_GROUPS:
            raise ValueError(f"groups {self.groups}: expected 2 to 2**16 values")
        KeepUniform(self.groups, self.threshold)
        if not _fits(self.size, self.groups):
            raise ValueError(
                f"{self.groups} values of {self.size} codes: expected fewer than 2**63 reports"
            )

    @classmethod
    def binary(cls, size: int, *, epsilon: float) -> LocalHashing:
        """Hashes of one bit (BLH), with the largest keep probability within ``epsilon``.

        Raises:
            ValueError: as ``KeepUniform.with_epsilon``.
        """
        return cls(size, 2, KeepUniform.with_epsilon(2, epsilon=epsilon).threshold)

    @classmethod
    def optimized(cls, size: int, *, epsilon: float) -> LocalHashing:
        """Hashes of ``round(e**epsilon) + 1`` values (OLH), with the largest keep probability.

        If that makes too many reports, it is the nearest prime that does not.

        Raises:
            ValueError: as ``KeepUniform.with_epsilon``, or the domain is too large.
        """
        KeepUniform.with_epsilon(2, epsilon=epsilon)
        groups = round(math.exp(min(epsilon, math.log(_LARGEST_GROUPS)))) + 1
        if not _fits(size, groups):
            fitting = (number for number in _primes_near(groups) if _fits(size, number))
            groups = next(fitting, 2)
        return cls(size, groups, KeepUniform.with_epsilon(groups, epsilon=epsilon).threshold)

    @property
    def base(self) -> int:
        """The base of a code's digits, r."""
        return _least_factor(self.groups)

    @property
    def digits(self) -> int:
        """The number of a code's digits, k."""
        return _digits(self.size, self.base)

    @property
    def functions(self) -> int:
        """Number of functions in the family: ``groups**(digits + 1)``."""
        return int(self.groups ** (self.digits + 1))

    @property
    def keep(self) -> KeepUniform:
        """Randomizer of the hashed value."""
        return KeepUniform(self.groups, self.threshold)

    @property
    def report(self) -> ArraySpec:
        """A function and a value, as one number."""
        reports = self.groups * self.functions
        return ArraySpec(dtype=dtype_name(smallest_dtype(reports)), shape=(), high=reports)

    @property
    def epsilon(self) -> float:
        """Epsilon of the randomized hash, for two codes with different hashes."""
        return self.keep.epsilon

    def law(self, first: int, second: int) -> tuple[OutputClass, ...]:
        """The value is the hash of neither code, of the first, of the second, or of both."""
        own, rest, _ = self.keep.law(0, 1)
        p, q, g = own.first, rest.first, self.groups
        same, apart = Fraction(1, g), Fraction(g - 1, g)
        neither = same * (1 - p) + apart * (1 - p - q)
        return (
            OutputClass(neither, neither, (False, False)),
            OutputClass(apart * p, apart * q, (True, False)),
            OutputClass(apart * q, apart * p, (False, True)),
            OutputClass(same * p, same * p, (True, True)),
        )

    def classify(self, reports: Array, first: int, second: int) -> NDArray[np.uint8]:
        """The class of every report, shape (k,)."""
        values = reports.astype(np.uint64) % np.uint64(self.groups)
        one, two = (self._hashes(reports, code) == values for code in (first, second))
        classes: NDArray[np.uint8] = one.astype(np.uint8) + np.uint8(2) * two.astype(np.uint8)
        return classes

    @property
    def support(self) -> Support:
        """A report counts for every code that its function hashes to its value."""
        p = self.keep.law(0, 1)[0].first
        return Support(hit=p, other=Fraction(1, self.groups), both_hit=p / self.groups)

    def tally(self, reports: Array) -> NDArray[np.int64]:
        """Number of reports that count for every code, shape ``(size,)``.

        Raises:
            ValueError: another shape or dtype, or a number that is not a report.
        """
        if not self.fits(reports):
            raise ValueError(
                f"reports of type {reports.dtype} and shape {reports.shape}: expected unsigned "
                f"numbers below {self.groups * self.functions}, shape (k,)"
            )
        if self.functions <= min(_MOST_FUNCTIONS, max(1, len(reports)) * self.size):
            return self._tally_by_digits(reports)
        return self._tally_by_reports(reports)

    def _tally_by_reports(self, reports: Array) -> NDArray[np.int64]:
        """The same tally, report by report, from the sums of the two halves of a code's digits.

        A report counts for x if the sum of the low digits is value less offset less the sum of the
        high digits.
        """
        g, base, low = self.groups, self.base, self.digits // 2
        cells = base**low, base ** (self.digits - low)
        totals = np.zeros(cells[::-1], np.int64)
        rows = max(1, _SUMS_AT_ONCE // max(cells))
        for start in range(0, len(reports), rows):
            rest, values = np.divmod(reports[start : start + rows].astype(np.int64), g)
            rest, offsets = np.divmod(rest, g)
            rest, sums = _sums_of_digits(rest, g, base, low)
            _, left = _sums_of_digits(rest, g, base, self.digits - low)
            wanted = (values - offsets - left) % g
            narrow = smallest_dtype(g)
            sums, wanted = sums.astype(narrow), wanted.astype(narrow)
            for place, row in enumerate(wanted):
                totals[place] += np.count_nonzero(sums == row, axis=1)
        return totals.reshape(-1)[: self.size]

    def _tally_by_digits(self, reports: Array) -> NDArray[np.int64]:
        """The same tally, digit by digit: reports that differ in settled digits alone are merged.

        A report counts for x if ``value - b = a_1 x_1 + ... + a_k x_k`` modulo g. Counts by that
        difference, the remaining coefficients and the settled digits of x need no more cells than
        there are functions.
        """
        g, base, digits = self.groups, self.base, self.digits
        values, functions = np.divmod(reports.astype(np.int64), g)[::-1]
        coefficients, offsets = np.divmod(functions, g)
        wanted = (values - offsets) % g
        counts = np.bincount(coefficients * g + wanted, minlength=g ** (digits + 1))
        # Axes: coefficients left (the next one last), their required sum, digits settled.
        counts = counts.reshape(-1, g, 1)
        for _ in range(digits):
            left, settled = counts.shape[0] // g, counts.shape[2]
            rows = counts.reshape(left, g, g, settled)
            found = np.zeros((left, g, base, settled), counts.dtype)
            for coefficient in range(g):
                for digit in range(base):
                    shift = -(coefficient * digit) % g
                    found[:, :, digit] += np.roll(rows[:, coefficient], shift, axis=1)
            counts = found.reshape(left, g, base * settled)
        return np.ascontiguousarray(counts[0, 0, : self.size]).astype(np.int64)

    def randomize(self, codes: NDArray[np.unsignedinteger], stream: Stream) -> Array:
        """Randomize every code by itself: draw a function, hash, and randomize the hash.

        Args:
            codes: below ``size``, shape (k,), of an unsigned type that holds them.
            stream: the source of the draws.

        Returns:
            Shape (k,): functions and values, as ``report`` says.

        Raises:
            ValueError: another shape, an unsuitable type, or a code that is not below ``size``.
        """
        check_column(codes, self.size)
        functions = stream.integers(self.functions, len(codes)).astype(np.uint64)
        reports = functions * np.uint64(self.groups)
        hashes = self._hashes(reports, codes.astype(np.uint64))
        values = self.keep.randomize(hashes.astype(np.uint32), stream)
        reports += values
        return reports.astype(self.report.dtype)

    def _hashes(self, reports: Array, codes: int | NDArray[np.uint64]) -> NDArray[np.uint64]:
        """The hashes of codes by the functions of reports, shape (k,)."""
        g, base = np.uint64(self.groups), np.uint64(self.base)
        rest, hashes = np.divmod(reports.astype(np.uint64) // g, g)
        left = np.asarray(codes, np.uint64)
        for _ in range(self.digits):
            rest, coefficients = np.divmod(rest, g)
            left, digit = np.divmod(left, base)
            hashes = hashes + coefficients * digit
        found: NDArray[np.uint64] = hashes % g
        return found


def _sums_of_digits(
    rest: NDArray[np.int64], groups: int, base: int, digits: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Remaining coefficients, (k,), and all sums of the next ones, (cells, k)."""
    sums = np.zeros((1, len(rest)), np.int64)
    for _ in range(digits):
        rest, coefficients = np.divmod(rest, groups)
        steps = np.arange(base)[:, np.newaxis, np.newaxis] * coefficients
        sums = (steps + sums).reshape(-1, len(rest)) % groups
    return rest, sums


@lru_cache(maxsize=1024)
def _least_factor(number: int) -> int:
    """The smallest prime factor of a number above 1."""
    for factor in range(2, math.isqrt(number) + 1):
        if number % factor == 0:
            return factor
    return number


def _primes_near(number: int) -> Iterator[int]:
    """All candidate primes for a number of values, the nearest first; of two, the smaller first."""
    primes = _primes()
    above = bisect_left(primes, number)
    below = above - 1
    while below >= 0 or above < len(primes):
        if above == len(primes) or (
            below >= 0 and number - primes[below] <= primes[above] - number
        ):
            yield primes[below]
            below -= 1
        else:
            yield primes[above]
            above += 1


@lru_cache(maxsize=1)
def _primes() -> Sequence[int]:
    sieve = np.ones(_LARGEST_GROUPS, np.bool_)
    sieve[:2] = False
    for factor in range(2, math.isqrt(_LARGEST_GROUPS) + 1):
        sieve[factor * factor :: factor] = False
    return tuple(np.flatnonzero(sieve).tolist())


def _fits(size: int, groups: int) -> bool:
    """Check whether reports are few enough."""
    digits = _digits(size, _least_factor(groups))
    return groups <= _LARGEST_GROUPS and int(groups ** (digits + 2)) < MAX_REPORTS


@lru_cache(maxsize=1024)
def _digits(size: int, base: int) -> int:
    """Number of digits of a base in the codes below ``size``."""
    digits = 1
    while base**digits < size:
        digits += 1
    return digits
