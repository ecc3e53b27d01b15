"""The interface of randomizers: a value with its law, and all that follows from the law.

An author gives ``size``, ``randomize`` and the law, and the rest is computed. Anything that does
not follow is refused by name (``UnsupportedEventError``), and never guessed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, NamedTuple, NoReturn

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.crypto.randomness import Stream
from protocol.errors import UnsupportedEventError
from protocol.randomizers.exact import Floats, group_sums, log_fraction
from protocol.randomizers.mixing import MatrixMixing, Mixing
from protocol.randomizers.pairs import Dominating, ThreePoint, dominating_of_laws, largest_ratio
from protocol.randomizers.unmixing import MatrixUnmixing, Unmixing, check_places
from protocol.wire.arrays import Array, ArraySpec, Bounds, dtype_name, smallest_dtype

MOST_INPUTS = 64
"""The most inputs that are compared two by two, if one pair does not stand for all."""

MOST_ROWS = 1024
"""The most rows of a law as a table: its inverse takes cubic time."""

MOST_REPORTS = 2**16
"""The most combinations of reports that a best guess enumerates."""


class OutputClass(NamedTuple):
    """Class of reports with equal evidence about two inputs.

    Args:
        first: the probability of a report of this class given the first input, exact.
        second: the same given the second input.
        supports: whether such a report counts for the first input, and for the second; None if
            estimates do not use such counts.
    """

    first: Fraction
    second: Fraction
    supports: tuple[bool, bool] | None = None


class Support(msgspec.Struct, frozen=True, kw_only=True):
    """Support: the probabilities that a report counts for an input, and estimates from the counts.

    Wang, Blocki, Li and Jha, Locally Differentially Private Protocols for Frequency Estimation,
    USENIX Security 2017, section 3.

    Args:
        hit: the probability that a report counts for its own input.
        other: the probability that it counts for any one other input.
        both_hit: the probability that it counts for its own input and one other; None if unknown.
        both_other: the probability that it counts for two other inputs; None if unknown.
    """

    hit: Fraction
    other: Fraction
    both_hit: Fraction | None = None
    both_other: Fraction | None = None

    @property
    def gain(self) -> Fraction:
        """``hit - other``."""
        return self.hit - self.other

    def shares(self, totals: NDArray[np.integer], n: int) -> Floats:
        """``(totals/n - other) / (hit - other)``: unbiased, raw and signed.

        Args:
            totals: the number of reports that count for each input, shape ``(..., size)``.
            n: the number of reports.
        """
        shares: Floats = (totals / n - float(self.other)) / float(self.gain)
        return shares

    def variances(self, shares: Floats, n: int) -> Floats:
        """The variances of the estimated shares, given answers with these shares."""
        hit, other = float(self.hit), float(self.other)
        found: Floats = other * (1 - other) + shares * (hit * (1 - hit) - other * (1 - other))
        return found / (n * float(self.gain) ** 2)

    def covariance(self, shares: Floats, n: int) -> Floats:
        """The covariance matrix of the estimated shares given the answers, ``(size, size)``.

        Raises:
            UnsupportedEventError: ``both_hit`` or ``both_other`` is unknown.
        """
        own, rest = self._count_covariances()
        either = np.add.outer(shares, shares)
        found: Floats = (rest + either * (own - rest)) / (n * float(self.gain) ** 2)
        np.fill_diagonal(found, self.variances(shares, n))
        return found

    def sum_variances(
        self, shares: Floats, n: int, groups: NDArray[np.integer], weights: Floats
    ) -> Floats:
        """The variances of weighted sums of ``shares``, as ``Randomizer.sum_variances``.

        Raises:
            UnsupportedEventError: as ``covariance``.
        """
        own, rest = self._count_covariances()
        number = int(groups.max()) + 1

        def sums(values: Floats) -> Floats:
            return group_sums(groups, values, number)

        squares = weights**2
        apart = rest * (sums(weights) ** 2 - sums(squares))
        apart += (
            2 * (own - rest) * (sums(weights) * sums(weights * shares) - sums(squares * shares))
        )
        found: Floats = sums(squares * self.variances(shares, n))
        found += apart / (n * float(self.gain) ** 2)
        return found

    def _count_covariances(self) -> tuple[float, float]:
        """Covariances of a report's two counts: for its own input and another, and for two others.

        Raises:
            UnsupportedEventError: ``both_hit`` or ``both_other`` is unknown.
        """
        if self.both_hit is None or self.both_other is None:
            raise UnsupportedEventError(
                "no covariance: how often a report counts for two inputs is not known; expected a "
                "support with both_hit and both_other"
            )
        own = float(self.both_hit - self.hit * self.other)
        return own, float(self.both_other - self.other**2)


class Randomizer(msgspec.Struct, frozen=True, tag=True):
    """Base of all randomizers: frozen, hashable values whose fields go into a header.

    An author gives

    - ``size``: inputs are the codes 0 to ``size - 1``;
    - ``randomize``;
    - the law, in one of two ways: ``law`` and ``classify``, by classes of reports relative to two
      inputs; or ``row``, where reports are numbers below some few;
    - ``report``: the form of a report, if it is not a code of the domain;
    - ``symmetric = True`` in the class, if ``law`` is the same for any two different inputs.

    The rest is computed from these: epsilon, the dominating pair, estimates and their errors, and
    an attacker's best guess. A closed form may replace any of it, and is checked against the law.
    """

    symmetric: ClassVar[bool] = False
    """True if the law is the same for any two different inputs, so that one pair stands for all."""

    # Given by the author.

    @property
    def size(self) -> int:
        """The number of inputs."""
        self._refuse("the size of its domain")

    @property
    def report(self) -> ArraySpec:
        """Form of one report: its dtype, shape and bounds; by default a code of the domain."""
        return ArraySpec(dtype=dtype_name(smallest_dtype(self.size)), shape=(), high=self.size)

    def randomize(self, codes: NDArray[np.unsignedinteger], stream: Stream) -> Array:
        """Randomize every code by itself.

        Args:
            codes: below ``size``, shape (k,), of an unsigned type that holds them.
            stream: the source of the draws.

        Returns:
            Shape ``(k, *report.shape)``.

        Raises:
            ValueError: another shape, an unsuitable type, or a code that is not below ``size``.
        """
        self._refuse("how to randomize")

    def row(self, code: int) -> Sequence[Fraction]:
        """The probability of every report given an input, if reports are numbers below a few.

        Raises:
            UnsupportedEventError: the law is not given in this way.
        """
        self._refuse("its law as a table")

    def law(self, first: int, second: int) -> tuple[OutputClass, ...]:
        """The classes of reports relative to two different inputs, with their probabilities.

        By default every report is a class of its own, with the probabilities of ``row``.

        Raises:
            UnsupportedEventError: no law is given.
        """
        rows = zip(self._row(first, "its law"), self._row(second, "its law"), strict=True)
        return tuple(OutputClass(one, other) for one, other in rows)

    def classify(self, reports: Array, first: int, second: int) -> NDArray[np.integer]:
        """The class of every report, shape (k,), as an index of ``law(first, second)``.

        By default the report itself, as for ``row``.
        """
        if reports.ndim != 1:
            self._refuse("the classes of its reports")
        return reports

    # Computed from that.

    def reports(self, k: int | Bounds) -> ArraySpec:
        """Form of k reports, for the array field of a message: shape ``(k, *report.shape)``."""
        one = self.report
        return ArraySpec(dtype=one.dtype, shape=(k, *one.shape), high=one.high, low=one.low)

    def fits(self, reports: Array) -> bool:
        """Check whether an array holds reports, one each along its first axis.

        By default whether it has the form that ``report`` declares. Reports that fit are counted,
        and others are left out.
        """
        one = self.report
        return bool(
            reports.ndim == 1 + len(one.shape)
            and reports.shape[1:] == one.shape
            and reports.dtype.kind == one.dtype[0]
            and (one.high is None or (reports < np.array(one.high, np.uint64)).all())
        )

    @property
    def bits(self) -> int:
        """The bits that a report takes on the wire."""
        one = self.report
        return 8 * int(one.dtype[1:]) * one.longest

    @property
    def epsilon(self) -> float:
        """The largest log ratio of a report's probabilities under two inputs, in nats.

        Infinite if a report can rule an input out.
        """
        ratio = _largest_ratio(self)
        return math.inf if ratio is None else log_fraction(ratio)

    @property
    def dominating(self) -> Dominating:
        """The pairs of laws that, composed, dominate one draw."""
        return dominating_by_law(self)

    @property
    def support(self) -> Support:
        """Support, to estimate shares of inputs from counts of reports.

        Raises:
            UnsupportedEventError: the law's classes have no ``supports``, or the randomizer is not
                symmetric.
        """
        return _support(self)

    def tally(self, reports: Array) -> NDArray[np.int64]:
        """Number of reports that count for each input, shape ``(size,)``. Tallies can be added.

        For a table (``is_table``), the number of each report.
        """
        if self.is_table:
            outputs = len(self.row(0))
            return np.bincount(reports.astype(np.intp), minlength=outputs).astype(np.int64)
        totals = np.zeros(self.size, np.int64)
        for code in range(self.size if len(reports) else 0):
            other = 0 if code else 1
            counts = [bool(part.supports and part.supports[0]) for part in self.law(code, other)]
            totals[code] = np.count_nonzero(np.array(counts)[self.classify(reports, code, other)])
        return totals

    def shares(self, totals: NDArray[np.integer], n: int) -> Floats:
        """The estimated shares of the inputs, shape ``(size,)``: unbiased, raw and signed.

        Args:
            totals: the tally of the reports.
            n: the number of reports.

        Raises:
            UnsupportedEventError: reports do not determine the shares.
        """
        if not self.is_table:
            return self.support.shares(totals, n)
        shares: Floats = totals / n @ _inverse(self)
        return shares

    def variances(self, shares: Floats, n: int) -> Floats:
        """The variances of the estimated shares from n reports, given answers with these shares."""
        if not self.is_table:
            return self.support.variances(shares, n)
        return self.covariance(shares, n).diagonal().copy()

    def covariance(self, shares: Floats, n: int) -> Floats:
        """The covariance matrix of the estimated shares, as ``variances``, shape ``(size, size)``.

        Raises:
            UnsupportedEventError: ``support`` has no ``both_hit`` or ``both_other``.
        """
        if not self.is_table:
            return self.support.covariance(shares, n)
        law, inverse = self.matrix(), _inverse(self)
        scatter = np.diag(shares @ law) - law.T @ (shares[:, np.newaxis] * law)
        found: Floats = inverse.T @ scatter @ inverse / n
        return found

    def sum_variances(
        self, shares: Floats, n: int, groups: NDArray[np.integer], weights: Floats
    ) -> Floats:
        """The variances of weighted sums of the estimated shares, as ``variances``.

        Args:
            shares: of the answers, shape ``(size,)``.
            n: the number of reports.
            groups: the number of the sum that each input is in, from 0, ``(size,)``.
            weights: the weight of each input in its sum, ``(size,)``.

        Returns:
            A variance for each sum.

        Raises:
            UnsupportedEventError: as ``covariance``.
        """
        if not self.is_table and type(self).covariance is Randomizer.covariance:
            return self.support.sum_variances(shares, n, groups, weights)
        covariance = self.covariance(shares, n) * np.equal.outer(groups, groups)
        return group_sums(groups, weights * (covariance @ weights), int(groups.max()) + 1)

    def log_ratios(self, reports: Array, first: int, second: int) -> Floats:
        """Log likelihood ratios of reports, the second input to the first, (k,), in nats.

        Infinite ratios are the largest float, with their sign.
        """
        by_class = _class_log_ratios(self, first, second)
        found: Floats = by_class[self.classify(reports, first, second)]
        return found

    def farthest(self, code: int) -> int:
        """The input that a report distinguishes best from the given one."""
        if self.symmetric:
            return self.size - 1 if code < self.size / 2 else 0
        others = [other for other in self._checked_inputs("its farthest input") if other != code]

        def apart(other: int) -> float:
            ratio = largest_ratio([part[:2] for part in self.law(code, other)])
            return math.inf if ratio is None else float(ratio)

        return max(others, key=apart)

    def best_guess(self, *others: Randomizer) -> float | None:
        """Probability of the best guess of an input from a report of this and of each other one.

        The prior is uniform. None if unknown; epsilon bounds it.
        """
        return _best_guess((self, *others))

    @property
    def values(self) -> Sequence[Fraction] | None:
        """The inputs' values, for a randomizer of numbers (``MeanRandomizer``); else None."""
        return None

    @property
    def scores(self) -> Sequence[Fraction] | None:
        """The reports' scores, with the inputs' values as means; None without values."""
        return None

    @property
    def redrawn(self) -> Fraction | None:
        """Probability that a report is drawn without a look at the input; None if unknown."""
        return None

    @property
    def uniform_keep(self) -> float | None:
        """The a of a law ``P = aI + (1-a)/size J``; None for any other law."""
        return None

    def matrix(self) -> Floats:
        """The law as a matrix, with a row per input and a column per report, if both are few."""
        codes = self._table_inputs("its law as a table")
        return np.array([[float(entry) for entry in self.row(code)] for code in codes])

    def unmixing(self, sizes: Sequence[int], kept: Sequence[int]) -> Unmixing:
        """The inverse of the law on the marginal of some attributes.

        By default the whole matrix is inverted, and columns that agree on these attributes are
        added up.

        Args:
            sizes: the number of categories of each attribute of a block, whose product is ``size``;
                inputs and reports are combinations in row-major order.
            kept: the places of the attributes asked for, each at most once; the operator's
                categories are in row-major order of these.

        Raises:
            ValueError: the product of the sizes is not ``size``, or no place, a repeated one, or
                one outside the block is asked for.
            UnsupportedEventError: reports are not codes of the domain.
        """
        check_places(self.size, sizes, kept)
        matrix = self.matrix()
        if matrix.shape != (self.size, self.size):
            self._refuse("reports that are codes of its domain")
        return MatrixUnmixing.of(matrix, sizes, kept)

    def mixing(self, sizes: Sequence[int], kept: Sequence[int]) -> Mixing:
        """The law of the reports that ``tally`` counts, for some attributes (``unmixing``).

        By default the whole matrix, for all attributes.

        Args:
            sizes: the number of categories of each attribute of a block, whose product is ``size``.
            kept: the places of the attributes asked for, each at most once.

        Raises:
            ValueError: as ``unmixing``.
            UnsupportedEventError: tallies do not count single reports, so their likelihood cannot
                be computed.
        """
        check_places(self.size, sizes, kept)
        if not self.is_table:
            self._refuse("the likelihood of its tallies: they count no single reports")
        return MatrixMixing(places=tuple(range(len(sizes))), matrix=self.matrix())

    def inverse(self) -> Floats:
        """Matrix from shares of reports to shares of inputs, for a table (``is_table``).

        Raises:
            UnsupportedEventError: it is not a table, or reports do not determine the shares.
        """
        return _inverse(self)

    @property
    def is_table(self) -> bool:
        """True if the law is given as a table, and not by classes with ``supports``."""
        by_classes = self.symmetric and type(self).law is not Randomizer.law
        return type(self).row is not Randomizer.row and not by_classes

    def _row(self, code: int, what: str) -> Sequence[Fraction]:
        if type(self).row is Randomizer.row:
            self._refuse(what)
        return self.row(code)

    def _checked_inputs(self, what: str, most: int = MOST_INPUTS) -> range:
        if self.size > most:
            self._refuse(
                f"{what}, and its {self.size:,} inputs are too many to go through: at most {most:,}"
            )
        return range(self.size)

    def _table_inputs(self, what: str) -> range:
        return self._checked_inputs(what, MOST_ROWS)

    def _refuse(self, what: str) -> NoReturn:
        raise UnsupportedEventError(f"randomizer {type(self).__name__!r} does not bring {what}")


def pairs_of_inputs(randomizer: Randomizer, what: str) -> Iterator[tuple[int, int]]:
    """Pairs of inputs that stand for all.

    Args:
        what: their purpose, for the error if there are too many.

    Raises:
        UnsupportedEventError: the randomizer is not symmetric and has many inputs.
    """
    if randomizer.symmetric:
        return iter([(0, 1)])
    return itertools.combinations(randomizer._checked_inputs(what), 2)


def _pair_laws(randomizer: Randomizer, what: str) -> Iterator[list[tuple[Fraction, Fraction]]]:
    for first, second in pairs_of_inputs(randomizer, what):
        yield [part[:2] for part in randomizer.law(first, second)]


@lru_cache(maxsize=1024)
def _largest_ratio(randomizer: Randomizer) -> Fraction | None:
    if randomizer.is_table:
        return ratio_of_table(randomizer)
    largest = Fraction(1)
    for law in _pair_laws(randomizer, "its epsilon"):
        ratio = largest_ratio(law)
        if ratio is None:
            return None
        largest = max(largest, ratio)
    return largest


def ratio_of_table(randomizer: Randomizer) -> Fraction | None:
    """The largest ratio of a law that is given as a table; None if infinite.

    Raises:
        UnsupportedEventError: it has more than 1,024 rows.
    """
    return _ratio_and_distance(randomizer)[0]


@lru_cache(maxsize=64)
def _ratio_and_distance(randomizer: Randomizer) -> tuple[Fraction | None, Fraction]:
    """Largest ratio in a column of a table, and a bound on the distance of any two rows.

    The bound is 1 minus the sum of the columns' minima, which any two rows share.
    """
    largest, shared = Fraction(1), Fraction(0)
    rows = [randomizer.row(code) for code in randomizer._table_inputs("its law as a table")]
    for column in zip(*rows, strict=True):
        low, high = min(column), max(column)
        if low == 0 < high:
            return None, Fraction(1)
        if high:
            largest = max(largest, high / low)
            shared += low
    return largest, 1 - shared


@lru_cache(maxsize=64)
def _inverse(randomizer: Randomizer) -> Floats:
    law = randomizer.matrix()
    if np.linalg.matrix_rank(law) < len(law):
        randomizer._refuse("reports that determine the shares of its inputs")
    inverse: Floats = np.linalg.pinv(law).astype(np.float64, copy=False)
    inverse.flags.writeable = False
    return inverse


@lru_cache(maxsize=1024)
def dominating_by_law(randomizer: Randomizer) -> Dominating:
    """The dominating pair by a randomizer's law, not by its own closed form."""
    if randomizer.is_table and randomizer.size > MOST_INPUTS:
        ratio, distance = _ratio_and_distance(randomizer)
        if ratio is None or ratio == 1:
            return Dominating(None if ratio is None else (), ratio == 1)
        return Dominating((ThreePoint.bounded(ratio, distance),), False)
    return dominating_of_laws(_pair_laws(randomizer, "its dominating pair"))


@lru_cache(maxsize=1024)
def _support(randomizer: Randomizer) -> Support:
    if not randomizer.symmetric:
        randomizer._refuse("how its counts become shares")
    hit = other = both = Fraction(0)
    for part in randomizer.law(0, 1):
        if part.supports is None:
            randomizer._refuse("what its reports count for")
        one, two = part.supports
        hit += part.first * one
        other += part.first * two
        both += part.first * (one and two)
    return Support(hit=hit, other=other, both_hit=both)


@lru_cache(maxsize=1024)
def _class_log_ratios(randomizer: Randomizer, first: int, second: int) -> Floats:
    gains = np.array([_log_ratio(part) for part in randomizer.law(first, second)], np.float64)
    gains = np.nan_to_num(gains)
    gains.flags.writeable = False
    return gains


def _log_ratio(part: OutputClass) -> float:
    if part.first == part.second:
        return 0.0
    if not part.first or not part.second:
        return math.inf if part.second else -math.inf
    return log_fraction(part.second / part.first)


@lru_cache(maxsize=256)
def _best_guess(randomizers: tuple[Randomizer, ...]) -> float | None:
    sizes = {one.size for one in randomizers}
    if len(sizes) != 1 or any(type(one).row is Randomizer.row for one in randomizers):
        return None
    size = sizes.pop()
    if size > MOST_INPUTS:
        return None
    tables = [[list(one.row(code)) for code in range(size)] for one in randomizers]
    if math.prod(len(table[0]) for table in tables) * size > MOST_REPORTS:
        return None
    likeliest = Fraction(0)
    for reports in itertools.product(*(range(len(table[0])) for table in tables)):
        likeliest += max(
            math.prod(table[code][report] for table, report in zip(tables, reports, strict=True))
            for code in range(size)
        )
    return float(likeliest / size)
