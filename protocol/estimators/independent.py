"""The joint distribution as a product of margins (RR-Ind), with its errors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from protocol.estimators.estimate import Estimate
from protocol.estimators.inference.laws import (
    About,
    DeferredLaw,
    ErrorLaw,
    Interval,
    NormalLaw,
    checked,
)
from protocol.estimators.inference.products import product_interval
from protocol.estimators.inference.scores import check_covariance, product
from protocol.estimators.joint import JointReports, mean_squared_error
from protocol.estimators.likelihood import Fit
from protocol.estimators.linear import LinearEstimate
from protocol.estimators.tables import FEWEST, Cells, Estimated, Table, standard_errors
from protocol.randomizers import KeepUniform
from protocol.randomizers.exact import Floats
from protocol.surveys.survey import Survey, check_partition
from protocol.wire.arrays import MAX_TABLE_CELLS

D = TypeVar("D", bound=np.generic)

# Smaller shares are the rounding of 0, which no derivative is made of.
_LEAST = 1e-12

Groups: TypeAlias = tuple[tuple[str, ...], ...]


class _FirstOrder(NamedTuple):
    """Variances of products of margins, by cell.

    Attributes:
        given: first-order variance given the data.
        sampled: first-order variance about a population.
        scale: the size of the terms that ``sampled`` is a difference of.
        second: second-order variance given the data.
    """

    given: Floats
    sampled: Floats
    scale: Floats
    second: Floats


class _Margins(NamedTuple):
    """The tables of the groups concerned, and their shares broadcast to a table's axes."""

    tables: list[Table]
    shares: list[Floats]

    @property
    def parts(self) -> list[tuple[str, ...]]:
        """The attributes of each."""
        return [table.names for table in self.tables]


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class ProductEstimate(Estimate):
    """Joint distributions on the assumption that groups of attributes are independent.

    A table is the outer product of the groups' unbiased tables: RR-Ind of Kikuchi and
    Domingo-Ferrer (RR-Ind-Joint, Algorithm 2) where every group is one attribute.

    **Errors are around the product of the true margins, not around the true distribution.** The
    bias of the assumption is in none of them, and does not shrink with more reports
    (``product_mean_squared_error`` has both).

    Args:
        joint: the estimate with the tables that are multiplied.
        groups: a partition of the survey's attributes into groups taken to be independent; by
            default its blocks. Attributes that were randomized together share a group, so that the
            groups' reports are independent given the data.

    Raises:
        SurveyError: a group names an attribute that the survey does not have.
        ValueError: the groups are not a partition, or separate what was randomized together.
    """

    joint: LinearEstimate[JointReports]
    groups: Groups = ()
    survey: Survey = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "survey", self.joint.survey)
        groups = self.groups or tuple(block.attributes for block in self.joint.source.blocks)
        object.__setattr__(self, "groups", groups)
        check_partition(self.survey, groups)
        group_of = {name: place for place, group in enumerate(groups) for name in group}
        for block in self.joint.source.blocks:
            if len({group_of[name] for name in block.attributes}) > 1:
                raise ValueError(
                    f"attributes {block.attributes} were randomized together: "
                    "they cannot be in different groups"
                )

    def __repr__(self) -> str:
        return f"<ProductEstimate: n={self.n}, {len(self.groups)} groups>"

    @property
    def n(self) -> int:
        """The number of reports."""
        return self.joint.n

    def cells(self, names: tuple[str, ...]) -> Cells:
        """The product of the tables of the groups concerned.

        Errors are of first order (delta method). A report y enters cell v by
        ``h_y = sum_g prod_{k != g} pi_k(v_k) Q_g[y_g, v_g]``, with Q_g the inverse of group g's
        randomization matrix. Given the data the groups' reports are independent, so the variance is
        the sum of the groups' own, each times ``prod_{k != g} pi_k(v_k)**2``. With respondents
        sampled from a population it is the variance of h_y over n, in which two groups g and k have
        the covariance ``pi_gk(v_g, v_k) - pi_g(v_g) pi_k(v_k)``, taken from the joint estimate.
        What is left out is of order 1/n**2: the products of two groups' own variances. An error is
        unknown where that is the larger part, or where an error of the joint estimate is unknown.
        """
        sizes = self.survey.sizes_of(names)
        if math.prod(sizes) > MAX_TABLE_CELLS:
            raise ValueError(f"a table of {math.prod(sizes)} cells, more than {MAX_TABLE_CELLS}")
        margins = self.margins(names)
        found = self.first_order(names, margins)
        given_known, sampled_known = (np.ones(sizes, np.bool_) for _ in range(2))
        for table in margins.tables:
            for known, errors in (
                (given_known, table.standard_errors),
                (sampled_known, table.population_errors),
            ):
                known &= ~np.isnan(self.spread(_known(errors), names, table.names))
        given = np.where(given_known, found.given, np.nan)
        sampled = np.where(sampled_known, found.sampled, np.nan)
        return Cells(
            product(margins.shares),
            standard_errors=standard_errors(given, found.given, found.second / FEWEST),
            # Sampling adds to the variance: half of it without is too few reports too.
            population_errors=standard_errors(
                sampled, found.scale, np.maximum(found.given / 2, found.second) / FEWEST
            ),
            law=ProductLaw(self, names),
        )

    def first_order(self, names: Sequence[str], margins: _Margins) -> _FirstOrder:
        """The variances of the cells of a table, known or not."""
        sizes, parts, shares = self.survey.sizes_of(names), margins.parts, margins.shares
        slopes = [np.where(np.abs(share) > _LEAST, share, 0.0) for share in shares]
        given, sampled, scale, second = (np.zeros(sizes) for _ in range(4))
        owns: list[Floats] = []
        for place, part in enumerate(parts):
            slope = _product_without(slopes, place) ** 2
            owns.append(self.spread(self.joint.source.variances(part, "respondents"), names, part))
            own = self.spread(self.joint.source.variances(part, "population"), names, part)
            given += slope * owns[-1]
            sampled += slope * own
            scale += slope * np.abs(own)
            for other in range(place):
                both = [name for name in names if name in (*parts[place], *parts[other])]
                together = self.spread(self.joint.table(*both).values, names, both)
                covariance = (together - shares[place] * shares[other]) / self.n
                rest = product([m for at, m in enumerate(slopes) if at not in (place, other)]) ** 2
                added = 2 * rest * slopes[place] * slopes[other] * covariance
                sampled += added
                scale += np.abs(added)
                second += rest * owns[place] * owns[other]
        return _FirstOrder(given, sampled, scale, second)

    def mean(self, names: tuple[str, ...], weights: Floats) -> Estimated:
        """The mean of a weight that depends on some attributes, if the groups were independent.

        The error is of first order, given the data, around the value of the true margins: every
        group's tables are weighted with the derivative, for group g
        ``sum_{v without v_g} w_v prod_{k != g} pi_k(v_k)``, and the groups' variances add up.
        Sampling from a population adds the variance of the sum of the groups' derivatives, which
        is that of a weight of their joint table.
        """
        margins = self.margins(names)
        value = float(np.sum(weights * product(margins.shares)))
        variance: float | None = 0.0
        influence = np.zeros(weights.shape)
        for place, part in enumerate(margins.parts):
            summed = tuple(axis for axis, name in enumerate(names) if name not in part)
            others = _product_without(margins.shares, place)
            derivative = (weights * others).sum(axis=summed, keepdims=True)
            influence = influence + derivative
            error = self.joint.query(part, derivative.squeeze(summed)).standard_error
            variance = None if error is None or variance is None else variance + error**2
        error = math.sqrt(variance) if variance else None

        def law() -> ErrorLaw:
            joint = self.joint.table(*names, projection="clip").values
            sampled = float((joint * influence**2).sum() - (joint * influence).sum() ** 2) / self.n
            whole = None if error is None else math.sqrt(error**2 + max(sampled, 0.0))
            least, most = float(weights.min()), float(weights.max())
            return NormalLaw.of_errors(value, error, whole, least=least, most=most)

        return Estimated(value, error, DeferredLaw(law))

    def _likeliest(
        self, names: tuple[str, ...], *, prior: float, gap: float, at_most: int
    ) -> tuple[Floats, Fit]:
        """The product of the groups' likeliest tables, as the likelihood is a product too."""
        parts = self.parts(names)
        found = [
            self.joint._likeliest(part, prior=prior, gap=gap / len(parts), at_most=at_most)
            for part in parts
        ]
        fits = [fit for _, fit in found]
        fit = Fit(
            log_likelihood=math.fsum(fit.log_likelihood for fit in fits),
            gap=math.fsum(fit.gap for fit in fits),
            steps=max(fit.steps for fit in fits),
            converged=all(fit.converged for fit in fits),
        )
        tables = [
            self.spread(shares, names, part) for part, (shares, _) in zip(parts, found, strict=True)
        ]
        return product(tables), fit

    def parts(self, names: Sequence[str]) -> list[tuple[str, ...]]:
        """The attributes asked for of each group concerned, in the order of ``names``."""
        if not names:
            raise ValueError("expected at least one attribute")
        parts = [tuple(name for name in names if name in group) for group in self.groups]
        return [part for part in parts if part]

    def margins(self, names: Sequence[str]) -> _Margins:
        """The tables of the groups concerned."""
        tables = [self.joint.table(*part) for part in self.parts(names)]
        return _Margins(tables, [self.spread(one.values, names, one.names) for one in tables])

    def spread(self, cells: NDArray[D], names: Sequence[str], part: Sequence[str]) -> NDArray[D]:
        """A part's table with an axis for each of ``names``, of length 1 for other attributes."""
        sizes = self.survey.sizes_of(names)
        return cells.reshape(
            [size if name in part else 1 for name, size in zip(names, sizes, strict=True)]
        )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ProductLaw(ErrorLaw):
    """The law of products of groups' shares, around the products of the groups' true shares.

    The distance of the groups from independence is not in it (``ProductError``).
    """

    estimate: ProductEstimate
    names: tuple[str, ...]

    def interval(self, level: float, about: About) -> Interval:
        """Interval as of ``product_interval``.

        About a population the groups have the same respondents, so their errors are correlated.
        Each end is farther from the estimate by the root of the ratio of variances.
        """
        tables, shares = margins = self.estimate.margins(self.names)

        def table_interval(table: Table, inner: float) -> Interval:
            return Interval(*(self._spread(end, table) for end in table.interval(inner, about)))

        intervals = [partial(table_interval, table) for table in tables]
        low, high = product_interval(shares, intervals, level)
        if checked(about) == "respondents" or len(tables) == 1:
            return Interval(low, high)
        centre = product([np.clip(share, 0.0, 1.0) for share in shares])
        wider = self._widened(margins)
        return Interval(
            np.clip(centre - (centre - low) * wider, 0.0, 1.0),
            np.clip(centre + (high - centre) * wider, 0.0, 1.0),
        )

    def covariance(self, about: About) -> Floats:
        """Covariance of first order, as the errors of ``ProductEstimate.cells``."""
        tables, _ = self.estimate.margins(self.names)
        sizes = self.estimate.survey.sizes_of(self.names)
        check_covariance(math.prod(sizes))
        cells, factors = [], []
        for table in tables:
            numbers = self._spread(np.arange(table.values.size).reshape(table.values.shape), table)
            cells.append(np.broadcast_to(numbers, sizes).reshape(-1))
            factors.append(table.values.reshape(-1)[cells[-1]])
        slopes = [_product_without(factors, at) for at in range(len(tables))]
        total = np.zeros((math.prod(sizes),) * 2)
        for place, table in enumerate(tables):
            own = table.covariance(checked(about))[np.ix_(cells[place], cells[place])]
            total += np.outer(slopes[place], slopes[place]) * own
            for other in range(place if about == "population" else 0):
                joint = self.estimate.joint.table(*table.names, *tables[other].names).values
                apart = np.multiply.outer(table.values, tables[other].values)
                between = (joint - apart).reshape(table.values.size, -1) / self.estimate.n
                between = between[np.ix_(cells[place], cells[other])]
                between = np.outer(slopes[place], slopes[other]) * between
                total += between + between.T
        return total

    def _spread(self, cells: NDArray[D], table: Table) -> NDArray[D]:
        return self.estimate.spread(cells, self.names, table.names)

    def _widened(self, margins: _Margins) -> Floats:
        """Root of the ratio of the variance about a population to that of independent groups."""
        alone = np.zeros(())
        for place, table in enumerate(margins.tables):
            variances = self.estimate.joint.source.variances(table.names, "population")
            own = self._spread(variances, table)
            alone = alone + _product_without(margins.shares, place) ** 2 * own
        whole = self.estimate.first_order(self.names, margins).sampled
        ratio = np.divide(whole, alone, out=np.ones_like(whole), where=alone > 0)
        found: Floats = np.sqrt(np.clip(ratio, 1.0, len(margins.tables)))
        return found


def _product_without(factors: Sequence[Floats], place: int) -> Floats:
    return product([*factors[:place], *factors[place + 1 :]])


class ProductError(NamedTuple):
    """Mean squared error per cell of a product of margins.

    ``variance`` vanishes with more reports, ``squared_bias`` does not.
    """

    variance: float
    squared_bias: float

    @property
    def total(self) -> float:
        """The mean squared error around the truth."""
        return self.variance + self.squared_bias


def product_mean_squared_error(
    truth: Floats, randomizers: Sequence[KeepUniform], n: int
) -> ProductError:
    """The exact mean squared error per cell of a raw product of margins (RR-Ind), given the data.

    Over K cells in all, with P_j the sum of the squares of margin j and
    ``G_j = (1/a_j**2 - 1)(1 - 1/r_j) / n`` the sum of its estimate's variances, the variance is
    ``(prod_j (P_j + G_j) - prod_j P_j) / K``, for the margins' estimates are unbiased and
    independent given the data. The squared bias is the mean over the cells of the squared distance
    from the truth to the product of its own margins. Nothing is approximated; the error of
    RR-Ind-Joint is ``protocol.estimators.joint.mean_squared_error``.

    Args:
        truth: the true joint distribution, one axis per randomizer.
        randomizers: of the attributes, one per axis.
        n: the number of reports.

    Raises:
        ValueError: no randomizer, axes that do not match the randomizers, or no report.
    """
    if not randomizers or truth.shape != tuple(keep.size for keep in randomizers):
        raise ValueError(
            f"a distribution of shape {truth.shape} and {len(randomizers)} randomizers: "
            "expected one axis of the same size for each"
        )
    axes = range(truth.ndim)
    margins = [
        truth.sum(axis=tuple(other for other in axes if other != axis), keepdims=True)
        for axis in axes
    ]
    squares = [float(np.sum(margin**2)) for margin in margins]
    spreads = [keep.size * mean_squared_error([keep], n) for keep in randomizers]
    exact = math.prod(p + g for p, g in zip(squares, spreads, strict=True)) - math.prod(squares)
    bias = float(np.sum((truth - product(margins)) ** 2))
    return ProductError(exact / truth.size, bias / truth.size)


def _known(errors: Floats | None) -> Floats:
    # A joint estimate has all of its errors; other estimates may lack some.
    if errors is None:
        raise ValueError("expected an estimate whose tables have standard errors")
    return errors
