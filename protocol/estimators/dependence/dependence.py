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
"""The law about the respondents or about the population, computed when it is called."""

Correction: TypeAlias = Literal["none", "holm", "benjamini-hochberg"]
"""Correction of the p-values of many pairs: none, of the chance of any false rejection (Holm 1979),
or of the expected share of false rejections (Benjamini and Hochberg 1995)."""

Measured: TypeAlias = tuple[float, Floats | None]
"""A measure of a table, and its derivatives by every share, shifted to a mean of 0 over the table;
None if there are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A measure of dependence of a two-way table.

    Attributes:
        name: its name in results.
        measured: computes it from shares of shape (r_i, r_j), at least 0, with a total of 1.
        largest: its greatest value, which caps the deviations.
        law: the law of its unbiased square, from reports on two attributes; None if unknown.
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

If every attribute is kept with the same probability p, every covariance shrinks to p**2 of it. So
this measure alone keeps the order of pairs (Proposition 1, Corollary 1).
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
    """The dependence of every pair of attributes, and the privacy cost of learning it.

    Attributes:
        names: the attributes, m of them, in the survey's order.
        measure: the name of the measure; ``auto`` if it was chosen pair by pair.
        method: the method, in words.
        matrix: shape (m, m), symmetric and finite, with 1 in the diagonal for every measure.
        deviations: shape (m, m), symmetric: the standard deviations of the matrix given the
            respondents' answers, 0 for exact counts and in the diagonal. They do not include the
            bias of the matrix.
        epsilon: the cost to each respondent, by sequential composition; infinite for exact counts.
        biased: why the mean of the matrix is not the true dependence; empty if it is.
        law: the law of the unbiased squares, in the order of ``combinations(names, 2)``. It is
            about the true measure, even if the matrix is biased. None if unknown.

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
        """The dependences less those that chance explains, shape (m, m).

        They are the roots of the unbiased squares less two of their deviations under independence,
        at least 0; 1 in the diagonal, NaN if the law is unknown. These deviations are larger for
        larger tables, so no pair ranks first because it is uncertain.
        """
        return self._symmetric(self.law and self.law("respondents").cautious, 1.0)

    def interval(self, level: float = LEVEL, about: About = "respondents") -> Interval:
        """Intervals for the true dependences, each end of shape (m, m).

        They invert the law of the unbiased square, so they cover the true measure even if the
        matrix is biased. NaN if the law is unknown, 1 in the diagonal.

        Raises:
            ValueError: the level is not above 0 and below 1, or an unknown ``about``.
        """
        critical(level)
        law = self.law and self.law(checked(about))
        low, high = law.interval(level) if law else (None, None)
        return Interval(self._symmetric(low, 1.0), self._symmetric(high, 1.0))

    def p_values(self, correction: Correction = "holm") -> Floats:
        """P-values of the dependence of each pair of attributes, shape (m, m).

        The null hypothesis is independence in a population of which the respondents are a random
        sample; for Pearson's r and covariances, no correlation. The law includes randomization. NaN
        in the diagonal and if the law is unknown. Such pairs do not count for the correction.

        Raises:
            ValueError: an unknown correction.
        """
        if correction not in get_args(Correction):
            allowed = ", ".join(get_args(Correction))
            raise ValueError(f"correction {correction!r:.60}: expected {allowed}")
        if self.law is None:
            return self._symmetric(None, math.nan)
        found = self.law("population").p_values()
        known = ~np.isnan(found)
        if correction == "holm":
            found[known] = holm(found[known])
        elif correction == "benjamini-hochberg" and known.any():
            # Imported here, since it takes longer than the whole package.
            from scipy.stats import false_discovery_control

            found[known] = false_discovery_control(found[known])
        return self._symmetric(found, math.nan)

    def _symmetric(self, values: Floats | None, diagonal: float) -> Floats:
        """Symmetric matrix of one value per pair; NaN for None."""
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

        Measure, method and bias are those of the first pair.

        Args:
            epsilon: the cost of all pairs together.
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
            law=_stack_laws([pair.law for pair in pairs]),
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
        survey: the survey that was asked.
        measure: its name, or one of your own.
        method, epsilon: as in ``Dependences``.

    Raises:
        ValueError: other tables, an unknown measure, or what the measure refuses.
    """
    shapes = list(combinations(survey.sizes, 2))
    if [table.shape for table in tables] != shapes:
        raise ValueError(f"tables of shapes {[t.shape for t in tables]}, expected {shapes}")
    by_pair = dict(zip(combinations(survey.names, 2), tables, strict=True))

    def learned(pair: tuple[str, str], chosen: Measure) -> _Learned:
        table = by_pair[pair]
        value = chosen(table)
        if chosen.law is None:
            return _Learned(value, 0.0)
        filled = table[table.any(axis=1)][:, table.any(axis=0)]
        counted = PairReports.exact(filled / table.sum(), int(table.sum()))
        return _Learned(value, 0.0, partial(_exact_law, value, partial(chosen.law, counted)))

    return _all_pairs(survey, measure, learned, method, epsilon, "")


def raw_dependences(
    estimate: LinearEstimate[JointReports], *, measure: str | Measure = "auto"
) -> Dependences:
    """The measure of the randomized reports themselves, as section 4.1 prints it.

    It is biased: keep probabilities p_i and p_j multiply V by about ``p_i p_j``, and n reports add
    a floor of about ``sqrt((max r - 1) / n)``. The deviations, by the delta method, are those of
    the reports' measure.

    Raises:
        ValueError: an unknown measure, a table of more than 2**27 cells, or an attribute that has
            no keep randomizer of its own.
    """
    return _all_pairs(
        estimate.survey,
        measure,
        partial(_measured_reports, estimate),
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
    """Estimate the measures without the bias of noise.

    Noise adds to the square of a measure. Its mean follows from the design (``strength``) and is
    subtracted; negative squares become 0. Any estimate will do: of attributes randomized one by one
    (section 4.1), of pairs (4.3) or clusters, or from noisy counts (4.2). A measure without a law
    is taken from the estimated table, as in ``pairwise_dependences``.

    Args:
        estimate: from reports, or from counts of every pair.
        measure: its name, or one of your own.
        epsilon: the cost to each respondent; by default that of the reports, infinite for counts.

    Raises:
        ValueError: an unknown measure, a table of more than 2**27 cells, or two attributes that one
            dense matrix randomized together.
    """

    def learned(pair: tuple[str, str], chosen: Measure) -> _Learned:
        laws = _square_law(estimate, pair, chosen)
        if laws is None:
            return _measured_estimate(estimate, pair, chosen)
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
    return _all_pairs(estimate.survey, measure, learned, "debiased", epsilon, _ROOT)


def pairwise_dependences(
    survey: Survey,
    estimates: Sequence[LinearEstimate[JointReports]],
    *,
    measure: str | Measure = "auto",
) -> Dependences:
    """The measure of the estimated table of every pair, each randomized by itself (section 4.3).

    Tables are projected by clip-and-rescale first. It is biased: noise adds to V, up to
    ``sqrt(sum_ab var_ab / (pi_a pi_b) / min(r_i - 1, r_j - 1))``, and clipping takes from it. The
    deviations are by the delta method, without clipped cells. If the measure has no derivative (V
    of 0, a constant attribute) they are its largest value.

    Every respondent reports on every pair, so epsilon is the sum over the pairs. The paper's waiver
    of sequential composition does not hold.

    Raises:
        ValueError: an unknown measure, or not one estimate of each pair of attributes, in the order
            of ``combinations(survey.names, 2)``.
    """
    pairs = list(combinations(survey.attributes, 2))
    if [estimate.survey.attributes for estimate in estimates] != pairs:
        raise ValueError("expected one estimate of each pair of attributes, in their order")
    by_pair = dict(zip(combinations(survey.names, 2), estimates, strict=True))

    def learned(pair: tuple[str, str], chosen: Measure) -> _Learned:
        return _measured_estimate(by_pair[pair], pair, chosen)

    epsilon = math.fsum(map(report_epsilon, estimates))
    return _all_pairs(survey, measure, learned, "pairs", epsilon, _NOISY)


def report_epsilon(estimate: LinearEstimate[JointReports | NoisyTables]) -> float:
    """Cost of a report to its respondent: the sum of the blocks' epsilons; infinite for counts."""
    if isinstance(estimate.source, NoisyTables):
        return math.inf
    return math.fsum(block.randomizer.epsilon for block in estimate.source.blocks)


class _Learned(NamedTuple):
    """The dependence of a pair, its deviation, and the law of its unbiased square."""

    value: float
    deviation: float
    law: Laws | None = None


def _all_pairs(
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
        _stack_laws(laws),
    )


def _stack_laws(laws: Sequence[Laws | None]) -> Laws:
    """One law for all pairs, computed once for each of ``about``."""

    @functools.cache
    def law(about: About) -> QuadraticLaw:
        return QuadraticLaw.stacked([None if law is None else law(about) for law in laws])

    return law


def _exact_law(value: float, sampled: Laws, about: About) -> QuadraticLaw:
    """The law of a measure of exact counts: of sampling, or certain about the respondents."""
    return QuadraticLaw.certain(value) if about == "respondents" else sampled(about)


def _square_law(
    estimate: LinearEstimate[JointReports | NoisyTables], pair: tuple[str, str], measure: Measure
) -> Laws | None:
    """The law of a measure's unbiased square; None if it has none."""
    strength = measure.law
    if strength is None:
        return None
    reports = functools.cache(partial(estimate.pair_reports, *pair))

    @functools.cache
    def law(about: About) -> QuadraticLaw:
        known = reports()
        return QuadraticLaw.stacked([None]) if known is None else strength(known, about)

    return law


def _measured_estimate(
    estimate: LinearEstimate[JointReports | NoisyTables], pair: tuple[str, str], measure: Measure
) -> _Learned:
    raw = estimate.table(*pair).values
    laws = _square_law(estimate, pair, measure)
    value, slope = measure.measured(project(raw, "clip"))
    if slope is None:
        return _Learned(value, measure.largest, laws)
    by_raw = np.where(raw > 0, slope, 0.0) / float(raw[raw > 0].sum())
    error = estimate.query(pair, by_raw).standard_error
    return _Learned(value, measure.largest if error is None else min(error, measure.largest), laws)


def _measured_reports(
    estimate: LinearEstimate[JointReports], pair: tuple[str, str], measure: Measure
) -> _Learned:
    laws = _square_law(estimate, pair, measure)
    value, slope = measure.measured(
        _shares(estimate.source.counts.table(estimate.survey.axes(pair)))
    )
    if slope is None:
        return _Learned(value, measure.largest, laws)
    # A query weighs answers. With these weights, the unmixing gives every report its own slope.
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
    """The centred codes of both attributes."""
    rows, columns = np.arange(shares.shape[0]), np.arange(shares.shape[1])
    return rows - shares.sum(axis=1) @ rows, columns - shares.sum(axis=0) @ columns
