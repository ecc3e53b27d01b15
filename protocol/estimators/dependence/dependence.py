"""Dependence between attributes, from exact or from randomized tables.

Domingo-Ferrer and Soria-Comas, Multi-Dimensional Randomized Response, section 4 (Equations 8 and 9)
and the three ways to learn dependences, sections 4.1 to 4.3, as corrected.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from protocol.estimators.dependence.pair_reports import PairReports
from protocol.estimators.dependence.quadratic import QuadraticLaw, holm
from protocol.estimators.dependence.strength import (
    StrengthLaw,
    covariances_law,
    cramers_law,
    pearsons_law,
)
from protocol.estimators.inference.laws import LEVEL, About, Interval, checked, critical
from protocol.estimators.joint import JointReports
from protocol.estimators.linear import LinearEstimate
from protocol.estimators.projection import project
from protocol.estimators.releases.noisy import NoisyTables
from protocol.randomizers.exact import Floats
from protocol.surveys.survey import Attribute, Survey

# A smaller share of a row or column is the rounding of a zero: no respondent stands for it.
_EMPTY = 1e-12

_ATTENUATED = "randomized answers depend less on each other than the answers do"
_ROOT = "near 0 the root of an unbiased square is biased"
_NOISY = "noise in the estimated tables adds to dependences, and clipping takes from them"

Laws: TypeAlias = Callable[[About], QuadraticLaw]
"""A law for each of those whom it may be about, made when it is asked for."""

Correction: TypeAlias = Literal["none", "holm", "benjamini-hochberg"]
"""What is done to the p-values of many pairs: nothing, a bound on the chance of any false
rejection (Holm 1979), or one on the expected share of false ones among the rejected (Benjamini and
Hochberg 1995)."""

Measured: TypeAlias = tuple[float, Floats | None]
"""A measure of a table, and its slope: the derivative by every share, shifted so that its mean over
the table is 0; None where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A measure of dependence of a two-way table.

    Attributes:
        name: what results call it.
        measured: of shares of shape (r_i, r_j), none negative, with a total of 1.
        largest: its greatest value, which caps the deviations.
        law: the law of its unbiased square, from reports on two attributes; None if none is known.
    """

    name: str
    measured: Callable[[Floats], Measured]
    largest: float = 1.0
    law: StrengthLaw | None = None

    def __call__(self, table: ArrayLike) -> float:
        """The measure of counts or shares, shape (r_i, r_j).

        Raises:
            ValueError: not two axes, a negative or not finite entry, or no positive one.
        """
        return self.measured(_shares(table))[0]


def _cramers_v(shares: Floats) -> Measured:
    rows, columns = (np.flatnonzero(shares.sum(axis=axis) > _EMPTY) for axis in (1, 0))
    filled = shares[np.ix_(rows, columns)]
    smaller = min(filled.shape) - 1
    first, second = filled.sum(axis=1, keepdims=True), filled.sum(axis=0, keepdims=True)
    excess = filled / first / second - 1.0
    v = math.sqrt(max(0.0, float(np.sum((filled - first * second) * excess))) / max(1, smaller))
    if not (smaller and v):
        return 0.0, None
    weighted = excess * filled
    slope = np.zeros(shares.shape)
    slope[np.ix_(rows, columns)] = (
        2 * excess
        - weighted.sum(axis=1, keepdims=True) / first
        - weighted.sum(axis=0, keepdims=True) / second
    ) / (2 * v * smaller)
    return min(1.0, v), slope


def _pearson(shares: Floats) -> Measured:
    first, second = _centred(shares)
    variances = float(shares.sum(axis=1) @ first**2), float(shares.sum(axis=0) @ second**2)
    if min(variances) <= _EMPTY:
        return 0.0, None
    first, second = first / math.sqrt(variances[0]), second / math.sqrt(variances[1])
    r = float(first @ shares @ second)
    slope = np.outer(first, second) - r / 2 * (first[:, None] ** 2 + second**2)
    return min(1.0, abs(r)), math.copysign(1.0, r) * slope


def _covariance(shares: Floats) -> Measured:
    first, second = _centred(shares)
    value = float(first @ shares @ second)
    return abs(value), math.copysign(1.0, value) * (np.outer(first, second) - value)


cramers_v = Measure(name="cramers-v", measured=_cramers_v, law=cramers_law)
"""Cramer's V: 0 is independence, 1 complete dependence (Equation 9, as corrected).

``V = sqrt(sum_ab (o_ab - e_ab)**2 / e_ab / n / min(r - 1, c - 1))`` with e the counts expected
under independence, over the r rows and c columns that are not empty; 0 with one row or column.
"""

pearson = Measure(name="pearson", measured=_pearson, law=pearsons_law)
"""The absolute correlation of two attributes' codes (Equation 8), 0 if one is constant."""

covariance = Measure(name="covariance", measured=_covariance, largest=math.inf, law=covariances_law)
"""The absolute covariance of two attributes' codes.

It alone keeps its order when every attribute is kept with the same probability p: each becomes
p**2 of what it was (Proposition 1, Corollary 1).
"""

MEASURES: Mapping[str, Measure] = MappingProxyType(
    {measure.name: measure for measure in (cramers_v, pearson, covariance)}
)
"""The measures by name. ``auto`` stands for ``measure_for``."""


def measure_for(first: Attribute, second: Attribute, measure: str | Measure = "auto") -> Measure:
    """The measure of this name for two attributes, or the one given.

    ``auto`` is Pearson's ``|r|`` if both are ordinal, else Cramer's V (section 4).

    Raises:
        ValueError: an unknown name.
    """
    if isinstance(measure, Measure):
        return measure
    if measure == "auto":
        measure = "pearson" if first.ordinal and second.ordinal else "cramers-v"
    if measure not in MEASURES:
        raise ValueError(f"measure {measure!r}: expected auto, {', '.join(MEASURES)}")
    return MEASURES[measure]


class Dependence(NamedTuple):
    """Dependence of two attributes, and how much it varies by chance."""

    first: str
    second: str
    value: float
    deviation: float


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Dependences:
    """The dependence of every pair of attributes, and what it cost to learn it.

    Attributes:
        names: the attributes, m of them, in the survey's order.
        measure: the name of the measure; ``auto`` if it was chosen pair by pair.
        method: how it was learnt, for a reader.
        matrix: shape (m, m), symmetric and finite. In the diagonal stands 1, whatever the measure.
        deviations: shape (m, m), symmetric: the standard deviations of the matrix given the
            respondents' answers, 0 for exact counts and in the diagonal. They are about its own
            mean: where that is not the true dependence, they do not say how far off it is.
        epsilon: what it cost each respondent, by sequential composition; infinite for exact counts.
        biased: why the mean of the matrix is not the true dependence; empty if it is.
        law: given about whom the true dependences are, the law of their unbiased squares, in the
            order of ``combinations(names, 2)``. It is about the measure itself, however biased the
            matrix is. None if it is unknown.

    Raises:
        ValueError: a field is not as described, or a deviation or epsilon is negative.
    """

    names: tuple[str, ...]
    measure: str
    method: str
    matrix: Floats
    deviations: Floats
    epsilon: float
    biased: str = ""
    law: Laws | None = None

    def __post_init__(self) -> None:
        m = len(self.names)
        for name in ("matrix", "deviations"):
            array = np.array(getattr(self, name), np.float64)
            if array.shape != (m, m) or not np.array_equal(array, array.T):
                raise ValueError(f"{name} of shape {array.shape}: expected symmetric ({m}, {m})")
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        spread = self.deviations
        if not (np.isfinite(self.matrix).all() and (spread >= 0).all() and self.epsilon >= 0):
            raise ValueError("a dependence is not finite, or a deviation or epsilon is negative")

    def __repr__(self) -> str:
        spent = f"epsilon={self.epsilon:.6g}"
        return f"<Dependences: m={len(self.names)}, {self.measure}, {self.method}, {spent}>"

    @property
    def standard_errors(self) -> Floats | None:
        """Standard errors of the matrix, shape (m, m); None where it is biased."""
        return None if self.biased else self.deviations

    @property
    def cautious(self) -> Floats:
        """The dependences less what independent attributes might well show, shape (m, m).

        They are roots of the unbiased squares less two deviations that these would have without
        dependence, at least 0; 1 in the diagonal, NaN where the law is unknown. The larger a pair's
        table, the larger these deviations: ranked so, no pair is first for being uncertain.
        """
        return self._square(self.law and self.law("respondents").cautious, 1.0)

    def interval(self, level: float = LEVEL, about: About = "respondents") -> Interval:
        """The true dependences that the reports do not contradict, each end of shape (m, m).

        They invert the law of the unbiased square, so they hold the true measure even where the
        matrix is biased. NaN where the law is unknown, 1 in the diagonal.

        Raises:
            ValueError: the level is not above 0 and below 1, or an unknown ``about``.
        """
        critical(level)
        law = self.law and self.law(checked(about))
        low, high = law.interval(level) if law else (None, None)
        return Interval(self._square(low, 1.0), self._square(high, 1.0))

    def p_values(self, correction: Correction = "holm") -> Floats:
        """P-values of the dependence of each pair of attributes, shape (m, m).

        They are those of tests of independence in a population of which the respondents are a
        random sample, by the estimate's law without dependence: randomization is part of it. For
        Pearson's r and covariances it is correlation that is tested. NaN in the diagonal and where
        the law is unknown; such pairs do not count for the correction.

        Raises:
            ValueError: an unknown correction.
        """
        if correction not in get_args(Correction):
            allowed = ", ".join(get_args(Correction))
            raise ValueError(f"correction {correction!r:.60}: expected {allowed}")
        if self.law is None:
            return self._square(None, math.nan)
        found = self.law("population").p_values()
        known = ~np.isnan(found)
        if correction == "holm":
            found[known] = holm(found[known])
        elif correction == "benjamini-hochberg" and known.any():
            # Imported here: it takes longer than all of this package.
            from scipy.stats import false_discovery_control

            found[known] = false_discovery_control(found[known])
        return self._square(found, math.nan)

    def _square(self, values: Floats | None, diagonal: float) -> Floats:
        """Values of every pair as a symmetric matrix; NaN for None."""
        m = len(self.names)
        matrix = np.full((m, m), np.nan)
        np.fill_diagonal(matrix, diagonal)
        if values is not None:
            first, second = np.triu_indices(m, 1)
            matrix[first, second] = matrix[second, first] = values
        return matrix

    @classmethod
    def joined(
        cls, names: Sequence[str], pairs: Sequence[Dependences], *, epsilon: float
    ) -> Dependences:
        """Dependences of single pairs, in the order of ``combinations(names, 2)``, as one matrix.

        All but what is joined is that of the first one.

        Args:
            epsilon: of all pairs together.
        """
        m = len(names)
        matrix, deviations = np.eye(m), np.zeros((m, m))
        first, second = np.triu_indices(m, 1)
        for array, parts in ((matrix, "matrix"), (deviations, "deviations")):
            array[first, second] = array[second, first] = [
                getattr(pair, parts)[0, 1] for pair in pairs
            ]
        return replace(
            pairs[0],
            names=tuple(names),
            matrix=matrix,
            deviations=deviations,
            epsilon=epsilon,
            law=_stacked([pair.law for pair in pairs]),
        )

    def pairs(self) -> Iterator[Dependence]:
        """Every pair of attributes by falling dependence, ties in the order of the attributes."""
        pairs = combinations(range(len(self.names)), 2)
        # The sort is stable, so ties stay in the order of the attributes.
        for i, j in sorted(pairs, key=lambda pair: -float(self.matrix[pair])):
            value, deviation = float(self.matrix[i, j]), float(self.deviations[i, j])
            yield Dependence(self.names[i], self.names[j], value, deviation)


def dependences(
    tables: Sequence[NDArray[Any]],
    survey: Survey,
    *,
    measure: str | Measure = "auto",
    method: str,
    epsilon: float,
) -> Dependences:
    """Dependences from exact counts of every pair of attributes (section 4.2).

    Args:
        tables: counts of shape (r_i, r_j) in the order of ``combinations(survey.names, 2)``.
        survey: what was asked.
        measure: its name, or one of your own.
        method, epsilon: as in ``Dependences``.

    Raises:
        ValueError: other tables, an unknown measure, or what the measure refuses.
    """
    shapes = list(combinations(survey.sizes, 2))
    if [table.shape for table in tables] != shapes:
        raise ValueError(f"tables of shapes {[t.shape for t in tables]}, expected {shapes}")
    given = iter(tables)

    def learned(_: tuple[str, str], chosen: Measure) -> _Learned:
        table = next(given)
        value = chosen(table)
        if chosen.law is None:
            return _Learned(value, 0.0)
        filled = table[table.any(axis=1)][:, table.any(axis=0)]
        counted = PairReports.exact(filled / table.sum(), int(table.sum()))
        return _Learned(value, 0.0, partial(_law_of_exact, value, partial(chosen.law, counted)))

    return _gathered(survey, measure, learned, method, epsilon, "")


def raw_dependences(
    estimate: LinearEstimate[JointReports], *, measure: str | Measure = "auto"
) -> Dependences:
    """The measure of the randomized reports themselves, as section 4.1 prints it.

    It is biased: keep probabilities p_i and p_j make V about ``p_i p_j`` times as large, and n
    reports add a floor of about ``sqrt((max r - 1) / n)``. The deviations, by the delta method, are
    those of the reports' own measure.

    Raises:
        ValueError: an unknown measure, a table of more than 2**27 cells, or an attribute that has
            no keep randomizer of its own.
    """
    return _gathered(
        estimate.survey,
        measure,
        partial(_of_reports, estimate),
        "raw",
        report_epsilon(estimate),
        _ATTENUATED,
    )


def debiased_dependences(
    estimate: LinearEstimate[JointReports | NoisyTables],
    *,
    measure: str | Measure = "auto",
    epsilon: float | None = None,
) -> Dependences:
    """Estimate the measures themselves, without the bias that noise brings.

    The square of a measure is estimated without bias, by taking off what noise adds to it on
    average, which follows from the design (``strength``); where less than nothing is left it is 0.
    It takes any estimate: of attributes that were randomized by themselves (section 4.1), of pairs
    (4.3) or of clusters, or from counts with noise (4.2). A measure without a law is that of the
    estimated table, as in ``pairwise_dependences``.

    Args:
        estimate: from reports, or from counts of every pair.
        measure: its name, or one of your own.
        epsilon: what it cost each respondent; by default that of the reports, and infinite of
            counts.

    Raises:
        ValueError: an unknown measure, a table of more than 2**27 cells, or two attributes that one
            dense matrix randomized together.
    """

    def learned(pair: tuple[str, str], chosen: Measure) -> _Learned:
        laws = _laws(estimate, pair, chosen)
        if laws is None:
            return _unmixed(estimate, pair, chosen)
        law = laws("respondents")
        value, deviation = law.measure.item(), law.deviation.item()
        if math.isnan(value) and estimate.pair_reports(*pair) is None:
            raise ValueError(
                f"{' and '.join(pair)}: one matrix randomized them together; expected a keep "
                "randomizer, or one of each attribute"
            )
        if math.isnan(value):
            value, deviation = 0.0, chosen.largest
        return _Learned(value, min(deviation, chosen.largest), laws)

    if epsilon is None:
        epsilon = report_epsilon(estimate)
    return _gathered(estimate.survey, measure, learned, "debiased", epsilon, _ROOT)


def pairwise_dependences(
    survey: Survey,
    estimates: Sequence[LinearEstimate[JointReports]],
    *,
    measure: str | Measure = "auto",
) -> Dependences:
    """The measure of every table of pairs that were randomized one by one (section 4.3).

    Tables are projected by clip-and-rescale first. It is biased: noise adds to V, up to
    ``sqrt(sum_ab var_ab / (pi_a pi_b) / min(r_i - 1, r_j - 1))``, and clipping takes from it. The
    deviations are by the delta method, with clipped cells left out. Where the measure has no slope
    (V of 0, a constant attribute) they are its largest value.

    One respondent enters every pair, so epsilon is the sum over the pairs: the paper's waiver of
    sequential composition does not hold.

    Raises:
        ValueError: an unknown measure, or not one estimate of each pair of attributes, in the order
            of ``combinations(survey.names, 2)``.
    """
    pairs = list(combinations(survey.attributes, 2))
    if [estimate.survey.attributes for estimate in estimates] != pairs:
        raise ValueError("expected one estimate of each pair of attributes, in their order")
    given = iter(estimates)
    epsilon = math.fsum(map(report_epsilon, estimates))
    return _gathered(
        survey, measure, lambda *a: _unmixed(next(given), *a), "pairs", epsilon, _NOISY
    )


def report_epsilon(estimate: LinearEstimate[JointReports | NoisyTables]) -> float:
    """Cost of a report to its respondent: the sum of the blocks' epsilons; infinite for counts."""
    if isinstance(estimate.source, NoisyTables):
        return math.inf
    return math.fsum(block.randomizer.epsilon for block in estimate.source.blocks)


class _Learned(NamedTuple):
    """The dependence of a pair, its deviation, and the laws of its unbiased square."""

    value: float
    deviation: float
    law: Laws | None = None


def _gathered(
    survey: Survey,
    measure: str | Measure,
    learned: Callable[[tuple[str, str], Measure], _Learned],
    method: str,
    epsilon: float,
    biased: str,
) -> Dependences:
    m = len(survey.names)
    matrix, deviations = np.eye(m), np.zeros((m, m))
    laws: list[Laws | None] = []
    for i, j in combinations(range(m), 2):
        chosen = measure_for(survey.attributes[i], survey.attributes[j], measure)
        found = learned((survey.names[i], survey.names[j]), chosen)
        matrix[[i, j], [j, i]], deviations[[i, j], [j, i]] = found.value, found.deviation
        laws.append(found.law)
    return Dependences(
        survey.names,
        measure if isinstance(measure, str) else measure.name,
        method,
        matrix,
        deviations,
        epsilon,
        biased,
        _stacked(laws),
    )


def _stacked(laws: Sequence[Laws | None]) -> Laws:
    """The laws of single pairs as one, made once."""

    @functools.cache
    def law(about: About) -> QuadraticLaw:
        return QuadraticLaw.stacked([None if law is None else law(about) for law in laws])

    return law


def _law_of_exact(value: float, sampled: Laws, about: About) -> QuadraticLaw:
    """The law of a measure of exact counts: that of sampling, or none."""
    return QuadraticLaw.certain(value) if about == "respondents" else sampled(about)


def _laws(
    estimate: LinearEstimate[JointReports | NoisyTables], pair: tuple[str, str], measure: Measure
) -> Laws | None:
    """The law of a measure's unbiased square, made when it is asked for; None if it has none."""
    strength = measure.law
    if strength is None:
        return None
    reports = functools.cache(partial(estimate.pair_reports, *pair))

    @functools.cache
    def law(about: About) -> QuadraticLaw:
        known = reports()
        return QuadraticLaw.stacked([None]) if known is None else strength(known, about)

    return law


def _unmixed(
    estimate: LinearEstimate[JointReports | NoisyTables], pair: tuple[str, str], measure: Measure
) -> _Learned:
    raw = estimate.table(*pair).values
    laws = _laws(estimate, pair, measure)
    value, slope = measure.measured(project(raw, "clip"))
    if slope is None:
        return _Learned(value, measure.largest, laws)
    by_raw = np.where(raw > 0, slope, 0.0) / float(raw[raw > 0].sum())
    error = estimate.query(pair, by_raw).standard_error
    return _Learned(value, measure.largest if error is None else min(error, measure.largest), laws)


def _of_reports(
    estimate: LinearEstimate[JointReports], pair: tuple[str, str], measure: Measure
) -> _Learned:
    laws = _laws(estimate, pair, measure)
    value, slope = measure.measured(
        _shares(estimate.source.counts.table(estimate.survey.axes(pair)))
    )
    if slope is None:
        return _Learned(value, measure.largest, laws)
    # A query's weights are of answers; with the mean slope of an answer's reports, every report
    # counts by the slope itself.
    for axis, keep in enumerate(_keeps(estimate, pair)):
        slope = keep * slope + (1 - keep) * slope.mean(axis=axis, keepdims=True)
    error = estimate.query(pair, slope).standard_error
    return _Learned(value, measure.largest if error is None else min(error, measure.largest), laws)


def _keeps(estimate: LinearEstimate[JointReports], pair: tuple[str, str]) -> list[float]:
    """The keep probabilities of two attributes that were randomized by themselves."""
    own = {block.attributes: block.randomizer for block in estimate.source.blocks}
    keeps = []
    for name in pair:
        alone = own.get((name,))
        if alone is None or alone.uniform_keep is None:
            raise ValueError(f"{name!r} has no keep randomizer of its own")
        keeps.append(alone.uniform_keep)
    return keeps


def _shares(table: ArrayLike) -> Floats:
    counts = np.asarray(table, np.float64)
    if counts.ndim != 2 or (counts < 0).any():
        raise ValueError(f"table of shape {counts.shape}: expected two axes and no negative entry")
    return project(counts, "clip")


def _centred(shares: Floats) -> tuple[Floats, Floats]:
    """The codes of both attributes less their means."""
    rows, columns = np.arange(shares.shape[0]), np.arange(shares.shape[1])
    return rows - shares.sum(axis=1) @ rows, columns - shares.sum(axis=0) @ columns
