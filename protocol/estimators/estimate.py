"""Interface of every estimate: tables, weighted means and counts."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from protocol.errors import NoLikelihoodError, SurveyError
from protocol.estimators.calibration.calibrated import Calibrated
from protocol.estimators.counts import Counts
from protocol.estimators.inference.intervals import USUAL, interval_figures
from protocol.estimators.inference.laws import LEVEL, SIDES, About, Interval, NormalLaw, exact_law
from protocol.estimators.inference.notebooks import html_table
from protocol.estimators.likelihood import GAP, STEPS, Fit, Reported, likeliest
from protocol.estimators.projection import Projection
from protocol.estimators.tables import Cells, Estimated, Table
from protocol.randomizers.exact import Floats
from protocol.surveys.records import Records
from protocol.surveys.survey import Survey

if TYPE_CHECKING:
    from protocol.estimators.dependence.association import TestResult
    from protocol.estimators.dependence.pair_reports import PairReports


class Keyed(Protocol):
    """Shares of respondents that hold each of d keys, and the means of their values, shape (d,)."""

    @property
    def survey(self) -> Survey:
        """The keys, each missing or held."""

    @property
    def frequencies(self) -> Floats:
        """The shares of respondents that hold each key."""

    @property
    def means(self) -> Floats:
        """The means of each key's values."""

    def frequency_intervals(self, level: float = LEVEL, about: About = "respondents") -> Interval:
        """Intervals of the shares."""

    def mean_intervals(self, level: float = LEVEL, about: About = "respondents") -> Interval:
        """Intervals of the means."""


class Answers(ABC):
    """Interface shared by an estimate and its source, with defaults.

    Attributes:
        survey: the survey that was asked.
    """

    __slots__ = ()

    survey: Survey

    @property
    @abstractmethod
    def n(self) -> int:
        """The number of respondents it is about."""

    @abstractmethod
    def cells(self, names: tuple[str, ...]) -> Cells:
        """The raw cells of the table of some attributes, none of them unknown or repeated.

        Raises:
            ValueError: no name, or a table that this result cannot give.
        """

    def mean(self, names: tuple[str, ...], weights: Floats) -> Estimated:
        """The mean of a weight that varies, of shape ``survey.sizes_of(names)``.

        By default it follows from the cells, with a normal error from their covariance. If that is
        unknown, a weight on a single cell has the error of the cell.

        Raises:
            ValueError: no name, or attributes that this result does not have together.
        """
        cells = self.cells(names)
        value = float(np.sum(cells.values * weights))
        given, sampled = (_error_of_mean(cells, weights, about) for about in SIDES)
        least, most = float(weights.min()), float(weights.max())
        law = NormalLaw.of_errors(value, given, sampled, least=least, most=most)
        return Estimated(value, given, law)

    @property
    def keyed(self) -> Keyed | None:
        """Keys and their values, of a result that gives both; None by default."""
        return None

    @property
    def whole_reports(self) -> Counts | None:
        """The randomized whole records that it is made of; None if there are none."""
        return None

    @property
    def weighted_n(self) -> float | None:
        """Kish's effective sample size of its design weights; None without weights."""
        return None

    @property
    def clusters(self) -> Sequence[tuple[str, ...]]:
        """A partition of the survey into attributes that were randomized together; may be empty."""
        return ()

    @property
    def calibration(self) -> Calibrated | None:
        """Its calibration to known margins; None if it was not calibrated."""
        return None

    def pair_reports(self, first: str, second: str) -> PairReports | None:
        """The reports on two attributes for tests of dependence; None if they lack that form.

        Raises:
            SurveyError: an unknown name, or one attribute twice.
            ValueError: this result has no table of them.
        """
        return None

    def consistent(self) -> Self:
        """The estimate with tables that agree on the attributes they share.

        Raises:
            ValueError: no two tables could disagree, or they are too large to be made to agree.
        """
        raise ValueError("it has no tables of groups that could disagree")

    def reported(self, names: Sequence[str]) -> Sequence[Reported]:
        """The counts of reports, with their laws, for the likelihood of a table.

        Raises:
            SurveyError, ValueError: as ``table``.
            NoLikelihoodError: what is published does not have the likelihood of the reports.
        """
        raise NoLikelihoodError(f"{type(self).__name__} has no likelihood of its reports")


class Estimate(Answers):
    """Estimate from a published result about the respondents."""

    __slots__ = ()

    def table(self, *names: str, projection: Projection = "none") -> Table:
        """The joint distribution of some attributes, in any order.

        Raises:
            SurveyError: an unknown or repeated name.
            ValueError: no name, an unknown projection, or a table that this result cannot give.
            NoLikelihoodError: ``em``, of a result that has no likelihood (``likeliest``).
        """
        self.survey.sizes_of(names)
        return self._table(names, self.cells(names), projection)

    def likeliest(
        self, *names: str, prior: float = 1.0, gap: float = GAP, at_most: int = STEPS
    ) -> Table:
        """``table(*names, projection="em")``, with choices: see ``likelihood.likeliest``.

        The values are biased. Errors and intervals are those of the unbiased estimate.

        Args:
            names: the attributes, in any order.
            prior: the parameter of a Dirichlet prior, the same for every cell, at least 1; at 1
                there is none.
            gap: the most that the log-likelihood may be below its maximum, in nats.
            at_most: the most steps; the table's ``fit`` says whether they were enough.

        Raises:
            SurveyError: an unknown or repeated name.
            ValueError: as ``table``, or a number out of range.
            NoLikelihoodError: what is published does not have the likelihood of the reports.
        """
        raw = self.table(*names)
        return raw.fitted(*self._likeliest(names, prior=prior, gap=gap, at_most=at_most))

    def query(self, names: Sequence[str], weights: ArrayLike) -> Estimated:
        """The mean over the respondents of a weight that depends on some attributes.

        A constant weight is its own mean, without error.

        Args:
            names: the attributes.
            weights: one finite number per combination of their categories, of shape
                ``(size of the first, size of the second, ...)``; 0 and 1 for the share of a set.

        Raises:
            SurveyError: an unknown or repeated name.
            ValueError: no name, weights of another shape or not finite, or attributes that this
                result does not have together.
        """
        given = self.checked_weights(names, weights)
        found = self.mean(tuple(names), given)
        if np.ptp(given) == 0:
            value = float(given.flat[0])
            return Estimated(value, 0.0, exact_law(value), 0.0)
        return replace(found, span=float(np.ptp(given)))

    def _repr_html_(self) -> str:
        """The share of every category, or the mean of every attribute, as an HTML table."""
        means = self.attribute_means()
        if means:
            figures = (
                ((name,), figure)
                for name, mean in means.items()
                for figure in interval_figures(mean.value, USUAL.of(mean))
            )
            return html_table(repr(self), ["mean of"], figures, len(means), figure="{:.6g}")
        shares = []
        for name in self.survey.names:
            table = self.table(name)
            found = interval_figures(table.values, USUAL.of(table))
            for category, figure in zip(table.categories[0], found, strict=True):
                shares.append(((name, category), figure))
        total = sum(self.survey.sizes)
        return html_table(repr(self), ["attribute", "category"], shares, total)

    def recoded(self, records: Records) -> Records:
        """The true answers as records of this estimate's attributes, for comparison.

        Raises:
            SurveyError: the records are of another survey.
        """
        if records.survey != self.survey:
            raise SurveyError("the records are of another survey than the estimate")
        return records

    def marginals(self, projection: Projection = "none") -> dict[str, Table]:
        """The table of every attribute by itself, in the survey's order."""
        return {name: self.table(name, projection=projection) for name in self.survey.names}

    def pairs(self, projection: Projection = "none") -> list[Table]:
        """The table of every pair of attributes, (first, second), (first, third) and so on."""
        pairs = combinations(self.survey.names, 2)
        return [self.table(*pair, projection=projection) for pair in pairs]

    def independence(self, first: str, second: str) -> TestResult:
        """A test that two attributes are independent in the population of the respondents.

        It is Wald's test of the raw table with its covariance, which includes the noise, unless a
        result has a better test.

        Raises:
            SurveyError: an unknown name, or one attribute twice.
            ValueError: this result has no table of them or no covariance of it, or too few reports.
        """
        # Imported late, as tests are rare.
        from protocol.estimators.dependence.association import wald_test

        table = self.table(first, second)
        return wald_test(table.values, table.covariance("population"))

    def attribute_means(self) -> Mapping[str, Estimated]:
        """The means of numeric attributes, of results that give these and no tables."""
        return {}

    def true_means(self, records: Records) -> Mapping[str, float]:
        """True means of these records, as ``attribute_means`` estimates them.

        Raises:
            SurveyError: the records are of another survey.
        """
        return {}

    def checked_weights(self, names: Sequence[str], weights: ArrayLike) -> Floats:
        """The weights of a query as an array.

        Raises:
            SurveyError, ValueError: as ``query``.
        """
        expected = self.survey.sizes_of(names)
        given = np.asarray(weights, np.float64)
        if given.shape != expected:
            raise ValueError(
                f"weights of shape {given.shape}, expected {expected} for {tuple(names)}"
            )
        if not np.isfinite(given).all():
            raise ValueError("a weight is not finite")
        return given

    def count(
        self,
        where: Mapping[str, Collection[str]] | None = None,
        *,
        names: Sequence[str] | None = None,
        subset: Collection[Sequence[str]] | None = None,
    ) -> Estimated:
        """The number of respondents with answers in a set, with its standard error.

        The set is either ``where`` or ``names`` with ``subset``.

        Args:
            where: per attribute the categories that count; every one of them must hold.
            names: the attributes that ``subset`` is about.
            subset: combinations of one category of each of ``names``; a repeated one counts once.

        Raises:
            SurveyError: an unknown attribute or category, or a repeated attribute.
            ValueError: not exactly one of the two forms, no attribute, a text instead of a
                collection of texts, or a combination of another length.
        """
        if where is not None and names is None and subset is None:
            names = tuple(where)
            weights = self._weights_where(where)
        elif where is None and names is not None and subset is not None:
            weights = self._weights_subset(names, subset)
        else:
            raise ValueError("expected either where, or both names and subset")
        return self.query(names, weights).times(self.n)

    def _weights_where(self, where: Mapping[str, Collection[str]]) -> Floats:
        weights = np.ones(())
        for name, categories in where.items():
            if isinstance(categories, str):
                raise ValueError(f"{name!r}: expected a collection of categories, got one text")
            attribute = self.survey.attribute(name)
            inside = np.zeros(attribute.size)
            inside[[attribute.code(category) for category in categories]] = 1.0
            weights = np.multiply.outer(weights, inside)
        return weights

    def _weights_subset(
        self, names: Sequence[str], subset: Collection[Sequence[str]]
    ) -> NDArray[np.float64]:
        weights = np.zeros(self.survey.sizes_of(names))
        attributes = [self.survey.attribute(name) for name in names]
        for combination in subset:
            if isinstance(combination, str) or len(combination) != len(attributes):
                raise ValueError(
                    f"combination {combination!r}: expected one category of each of {names}"
                )
            cell = zip(attributes, combination, strict=True)
            weights[tuple(attribute.code(category) for attribute, category in cell)] = 1.0
        return weights

    def _table(self, names: tuple[str, ...], cells: Cells, projection: Projection) -> Table:
        values, given, sampled, law, n = cells
        raw = Table(
            names=names,
            categories=tuple(self.survey.attribute(name).categories for name in names),
            values=values,
            standard_errors=given,
            population_errors=sampled,
            n=self.n if n is None else n,
            law=law,
        )
        if projection != "em" or np.isnan(values).all():
            return raw.projected(projection)
        return raw.fitted(*self._likeliest(names, prior=1.0, gap=GAP, at_most=STEPS))

    def _likeliest(
        self, names: tuple[str, ...], *, prior: float, gap: float, at_most: int
    ) -> tuple[Floats, Fit]:
        reported = self.reported(names)
        all_names = [name for one in reported for group in one.groups for name in group]
        extra = tuple(dict.fromkeys(name for name in all_names if name not in names))
        return likeliest(
            reported,
            dict(zip(names, self.survey.sizes_of(names), strict=True)),
            extra=dict(zip(extra, self.survey.sizes_of(extra), strict=True)),
            prior=prior,
            gap=gap,
            at_most=at_most,
        )


def _error_of_mean(cells: Cells, weights: Floats, about: About) -> float | None:
    """The standard error of the mean of a weight; None where it is unknown."""
    errors = cells.standard_errors if about == "respondents" else cells.population_errors
    if errors is not None and not errors.any():
        return 0.0
    flat, variance = weights.reshape(-1), None
    if cells.law is not None:
        # The covariance may be unknown, or have too many cells.
        with suppress(ValueError):
            variance = float(flat @ cells.law.covariance(about) @ flat)
    if variance is None:
        if errors is None or np.count_nonzero(flat) > 1:
            return None
        variance = float(np.sum(np.square(flat * errors.reshape(-1)), where=flat != 0))
    return math.sqrt(variance) if variance > 0 else None
