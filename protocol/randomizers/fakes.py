"""One answer of a record, drawn by lot, is randomized, and all others are fake.

Arcolezi, Couchot, Al Bouna and Xiao, Random Sampling Plus Fake Data: Multidimensional Frequency
Estimates With Local Differential Privacy, CIKM 2021, section 3: RS+FD with GRR. The drawn answer is
not revealed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from protocol.crypto.randomness import WORDS, Stream
from protocol.errors import UnsupportedEventError
from protocol.randomizers.exact import DIGITS, check_column, log_fraction, odds
from protocol.randomizers.keep import KeepUniform
from protocol.randomizers.pairs import Dominating, ThreePoint
from protocol.randomizers.randomizer import OutputClass, Randomizer
from protocol.wire.arrays import Array, ArraySpec, dtype_name, smallest_dtype

MAX_INPUTS = 2**64
"""The most combinations of answers."""

MOST_CLASSES = 2**18
"""The most classes of reports of a law that is listed."""


class FakeData(Randomizer, frozen=True, tag="rs-fd"):
    """Randomize one attribute of a record, drawn uniformly; draw all others uniformly.

    **Its law.** Attribute j is kept with probability ``a_j`` if it is drawn. With ``c_j`` its
    number of categories, a report y of a record x has ``1 / (c_1 ... c_m)`` times the mean over
    the attributes of ``1 - a_j``, and ``c_j a_j`` more where ``y_j = x_j``. The ratio is largest
    for two records that differ everywhere, at the report that is one of them.

    Args:
        sizes: the number of categories of each attribute.
        thresholds: each is m times a multiple of 2**-64 by which a column of reports keeps:
            ``a_j = m thresholds[j] / 2**64``.

    Raises:
        ValueError: not one threshold for each of some sizes, one out of range, or 2**64
            combinations or more.
    """

    sizes: tuple[int, ...]
    thresholds: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.sizes or len(self.sizes) != len(self.thresholds):
            raise ValueError(
                f"{len(self.thresholds)} thresholds of {len(self.sizes)} sizes: expected one each"
            )
        if self.size >= MAX_INPUTS:
            raise ValueError("too many combinations of answers: expected fewer than 2**64")
        for place in range(len(self.sizes)):
            self.drawn(place)

    @classmethod
    def with_epsilon(cls, sizes: Sequence[int], *, epsilon: float) -> FakeData:
        """The paper's parameters: the drawn answer is randomized with ``ln(m (e**epsilon - 1) +
        1)``.

        By the authors, the fakes reduce the epsilon of a report to ``epsilon``. That holds for two
        records that differ in one attribute, if all have equal sizes. The whole record has the
        raised figure.

        Raises:
            ValueError: ``epsilon`` is not positive and finite, or too small, or as the class.
        """
        context, m = Context(prec=DIGITS), len(sizes)
        gained = context.multiply(context.subtract(odds(epsilon), Decimal(1)), Decimal(m))
        thresholds = []
        for size in sizes:
            keep = context.divide(gained, context.add(gained, Decimal(size)))
            whole = min(int(context.multiply(keep, Decimal(WORDS))), WORDS - 1)
            if whole < m:
                raise ValueError(f"epsilon {epsilon}: too small for a keep probability of 2**-64")
            thresholds.append(whole // m)
        return cls(tuple(sizes), tuple(thresholds))

    @property
    def size(self) -> int:
        """The number of combinations of answers; an input is one, in row-major order."""
        return math.prod(self.sizes)

    def drawn(self, place: int) -> KeepUniform:
        """Randomizer of an attribute that was drawn."""
        return KeepUniform(self.sizes[place], len(self.sizes) * self.thresholds[place])

    def column(self, place: int) -> KeepUniform:
        """Randomizer of an attribute's column of reports, whether it is a fake or not."""
        return KeepUniform(self.sizes[place], self.thresholds[place])

    @property
    def report(self) -> ArraySpec:
        """One code of each attribute."""
        dtype = dtype_name(smallest_dtype(max(self.sizes)))
        return ArraySpec(dtype=dtype, shape=(len(self.sizes),), high=self.sizes)

    @property
    def epsilon(self) -> float:
        """Epsilon of two records that differ everywhere, of the exact thresholds, rounded once."""
        return log_fraction(self._ratio(range(len(self.sizes))))

    def attribute_epsilon(self, place: int) -> float:
        """Epsilon of two records that differ in this attribute alone, in nats."""
        return log_fraction(self._ratio([place]))

    def _ratio(self, places: Sequence[int]) -> Fraction:
        """The largest ratio for two records that differ in these attributes."""
        base, gains = _weights(self)
        return 1 + sum((gains[place] for place in places), Fraction(0)) / base

    @property
    def dominating(self) -> Dominating:
        """Dominating pair of the epsilon and the attributes' mean distance: an upper bound."""
        ratio = self._ratio(range(len(self.sizes)))
        kept = sum((Fraction(t, WORDS) for t in self.thresholds), Fraction(0))
        return Dominating((ThreePoint.bounded(ratio, kept),), False)

    def law(self, first: int, second: int) -> tuple[OutputClass, ...]:
        """A report by how many of its codes are the first record's, and the second's.

        Attributes of one size and threshold count alike.

        Raises:
            UnsupportedEventError: there are more than 2**18 of them.
        """
        return _law(self, first, second).classes

    def classify(self, reports: Array, first: int, second: int) -> NDArray[np.intp]:
        """The class of every report, shape (k,)."""
        law = _law(self, first, second)
        places: NDArray[np.intp] = np.zeros(len(reports), np.intp)
        for group in law.groups:
            columns = reports[:, list(group.places)]
            counts = [(columns == codes).sum(axis=1) for codes in group.codes]
            place = counts[0] if len(counts) == 1 else counts[0] * group.radix + counts[1]
            places = places * group.length + place
        found: NDArray[np.intp] = law.lookup[places]
        return found

    def farthest(self, code: int) -> int:
        """The record with another code of every attribute."""
        codes = _codes(self, code)
        return _joined(self, [(c + 1) % size for c, size in zip(codes, self.sizes, strict=True)])

    def best_guess(self, *others: Randomizer) -> float | None:
        """Best guess: not known, only epsilon bounds it."""
        return None

    def randomize(self, codes: NDArray[np.unsignedinteger], stream: Stream) -> Array:
        """Randomize every record by itself.

        Args:
            codes: combinations of answers below ``size``, shape (k,), of an unsigned type.
            stream: the source of the draws.

        Returns:
            Shape ``(k, m)``.

        Raises:
            ValueError: another shape, an unsuitable type, or a code that is not below ``size``.
        """
        check_column(codes, self.size)
        m, dtype = len(self.sizes), self.report.dtype
        sampled = stream.integers(m, len(codes))
        reports = stream.integers(np.array(self.sizes, np.uint64), (len(codes), m)).astype(dtype)
        rest = codes.astype(np.uint64)
        for place in reversed(range(m)):
            rest, own = np.divmod(rest, np.uint64(self.sizes[place]))
            rows = sampled == place
            reports[rows, place] = self.drawn(place).randomize(own[rows].astype(dtype), stream)
        return reports


class _Weights(NamedTuple):
    """Parts of a report's probability, times m and the number of combinations.

    Args:
        base: the part of every report.
        gains: for each attribute, the part added if its code is the record's.
    """

    base: Fraction
    gains: tuple[Fraction, ...]


class _Group(NamedTuple):
    """Attributes with equal gains.

    Args:
        places: the attributes.
        codes: the first record's codes of these, and the second's if they differ.
        radix: one more than the number of attributes.
        length: the number of outcomes: counts, or pairs of counts.
    """

    places: tuple[int, ...]
    codes: tuple[NDArray[np.uint64], ...]
    radix: int
    length: int


class _Outcome(NamedTuple):
    """Possible outcome of one group.

    Args:
        place: its place among the group's outcomes.
        share: its probability under uniform codes.
        gains: the parts that it adds to either record's probability.
    """

    place: int
    share: Fraction
    gains: tuple[Fraction, Fraction]


class _Law(NamedTuple):
    """Classes of reports relative to two records, with the classification of reports."""

    classes: tuple[OutputClass, ...]
    groups: tuple[_Group, ...]
    lookup: NDArray[np.intp]


@lru_cache(maxsize=256)
def _weights(randomizer: FakeData) -> _Weights:
    m = len(randomizer.sizes)
    kept = [Fraction(m * threshold, WORDS) for threshold in randomizer.thresholds]
    gains = tuple(size * a for size, a in zip(randomizer.sizes, kept, strict=True))
    return _Weights(m - sum(kept, Fraction(0)), gains)


@lru_cache(maxsize=64)
def _law(randomizer: FakeData, first: int, second: int) -> _Law:
    base, gains = _weights(randomizer)
    one, two = _codes(randomizer, first), _codes(randomizer, second)
    # Attributes that count alike: of one size and threshold, where the records differ or do not.
    alike: dict[tuple[int, int, bool], list[int]] = {}
    for place, size in enumerate(randomizer.sizes):
        key = (size, randomizer.thresholds[place], one[place] == two[place])
        alike.setdefault(key, []).append(place)
    groups, outcomes = [], []
    for (size, _, same), places in alike.items():
        radix, given = len(places) + 1, (one,) if same else (one, two)
        codes = tuple(np.array([c[place] for place in places], np.uint64) for c in given)
        groups.append(_Group(tuple(places), codes, radix, radix ** len(given)))
        outcomes.append(list(_outcomes(len(places), size, gains[places[0]], same=same)))
    cells = math.prod(group.length for group in groups)
    if cells > MOST_CLASSES:
        raise UnsupportedEventError(
            f"randomizer 'FakeData' does not bring its law of records {first} and {second}: it has "
            f"{cells:,} classes of reports, listed up to {MOST_CLASSES:,}"
        )
    lookup = np.full(cells, -1, np.intp)
    classes = []
    for number, combination in enumerate(itertools.product(*outcomes)):
        place = 0
        for group, outcome in zip(groups, combination, strict=True):
            place = place * group.length + outcome.place
        lookup[place] = number
        share = math.prod((outcome.share for outcome in combination), start=Fraction(1))
        share /= len(randomizer.sizes)
        one_weight, other_weight = (
            base + sum((outcome.gains[record] for outcome in combination), Fraction(0))
            for record in (0, 1)
        )
        classes.append(OutputClass(share * one_weight, share * other_weight))
    return _Law(tuple(classes), tuple(groups), lookup)


def _outcomes(d: int, size: int, gain: Fraction, *, same: bool) -> Iterator[_Outcome]:
    """Outcomes of d uniform codes: the number equal to a record's, or to each of two records'."""
    for ours in range(d + 1):
        for theirs in [0] if same else range(d + 1 - ours):
            rest = d - ours - theirs
            ways = math.comb(d, ours) * math.comb(d - ours, theirs)
            share = Fraction(ways * (size - (1 if same else 2)) ** rest, size**d)
            if not share:
                continue
            if same:
                yield _Outcome(ours, share, (ours * gain, ours * gain))
            else:
                yield _Outcome(ours * (d + 1) + theirs, share, (ours * gain, theirs * gain))


def _codes(randomizer: FakeData, code: int) -> list[int]:
    """A record's codes of the attributes."""
    codes = []
    for size in reversed(randomizer.sizes):
        code, own = divmod(code, size)
        codes.append(own)
    return codes[::-1]


def _joined(randomizer: FakeData, codes: Sequence[int]) -> int:
    """The inverse of ``_codes``."""
    joined = 0
    for own, size in zip(codes, randomizer.sizes, strict=True):
        joined = joined * size + own
    return joined
