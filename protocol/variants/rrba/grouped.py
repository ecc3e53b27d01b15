"""Tables of groups of attributes, each from reports of its own."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from protocol.errors import NoLikelihoodError
from protocol.estimators.dependence.association import TestResult, noise_aware_test
from protocol.estimators.dependence.pair_reports import PairReports
from protocol.estimators.inference.cumulants import (
    CumulantLaw,
    Cumulants,
    Offsets,
    count_cumulants,
)
from protocol.estimators.inference.laws import SIDES, About, ErrorLaw
from protocol.estimators.inference.scores import (
    check_covariance,
    law_of_mean,
    multinomial,
    two_valued,
    weighted_law,
)
from protocol.estimators.likelihood import Reported
from protocol.estimators.linear import Source
from protocol.estimators.overlapping import Overlaps
from protocol.estimators.tables import (
    Cells,
    Estimated,
    marginal,
    standard_error,
    standard_errors,
)
from protocol.randomizers.exact import Floats
from protocol.randomizers.mixing import FakesMixing
from protocol.surveys.survey import Survey


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Group:
    """The table of one group.

    Attributes:
        names: the attributes.
        shares: the raw estimate, of the attributes' shape.
        errors: its standard errors, of the same shape, NaN where they are unknown.
        reported: the observed shares of its reports, of the same shape; NaN if unknown.
        raw: the unbiased estimate, of the same shape, even if ``shares`` was changed.
        fakes: the mean over the reports of the probability of each cell under fakes, of the same
            shape.
        fakes_squared: the mean of the squares.
        expected: the likely shares of the reports, of the same shape.
        keep: the keep probability of the reports.
        n: the number of reports.
        worth: the number of equally weighted reports with the error of ``raw``; 0 if that is
            unknown.
    """

    names: tuple[str, ...]
    shares: NDArray[np.float64]
    errors: NDArray[np.float64]
    reported: NDArray[np.float64]
    raw: NDArray[np.float64]
    fakes: NDArray[np.float64]
    fakes_squared: NDArray[np.float64]
    expected: NDArray[np.float64]
    keep: float
    n: int
    worth: float


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class GroupTables(Source):
    """Tables of groups of attributes; an attribute may be in many of them.

    A table that several groups have is their mean, weighted by reports. Each group's respondents
    count as a random sample, so both kinds of standard error are the same and include the draw of
    the groups. Groups are treated as independent, which holds if a respondent answers about one.
    Errors are unknown for a single report, and if all reports on a group are the same.

    Intervals about the respondents also use the share of them that reported: the larger it is, the
    less sampling adds.

    Args:
        survey: the survey that was asked.
        groups: the tables.
        respondents: the number of respondents with any answer.

    Raises:
        ValueError: no group with a report, or a table of another shape than its attributes'.
    """

    survey: Survey
    groups: tuple[Group, ...]
    respondents: int

    def __post_init__(self) -> None:
        if not any(group.n for group in self.groups):
            raise ValueError("no reports: expected at least one")
        for group in self.groups:
            shape = self.survey.sizes_of(group.names)
            arrays = (group.shares, group.errors, group.reported, group.raw)
            if {array.shape for array in (*arrays, group.fakes, group.fakes_squared)} != {shape}:
                raise ValueError(f"the table of {group.names} has another shape than {shape}")

    def __repr__(self) -> str:
        return f"<GroupTables: n={self.n}, {len(self.groups)} groups>"

    @property
    def n(self) -> int:
        """The number of respondents."""
        return self.respondents

    def cells(self, names: tuple[str, ...]) -> Cells:
        """Mean of attributes that are in one group together."""
        found = self._holding(names)
        n = sum(group.n for group in found)
        values = np.zeros(self.survey.sizes_of(names))
        variance, most, each = (np.zeros_like(values) for _ in range(3))
        for group in found:
            values += group.n * marginal(group.shares, group.names, names)
            variance += group.n**2 * _variance(group, names)
            most += group.n / group.keep**2
            likely = marginal(group.expected, group.names, names)
            each = np.maximum(each, np.maximum(likely, 1 - likely) ** 2 / group.keep**2)
        errors = standard_errors(variance if n > 1 else np.zeros_like(values), most, each) / n
        return Cells(
            values / n,
            errors,
            errors.copy(),
            n=n,
            law=self._law(
                found,
                [_Part.of(group, names) for group in found],
                partial(self._covariance, found, names),
            ),
        )

    def independence(self, first: str, second: str) -> TestResult | None:
        """The noise-aware test where one group has them both."""
        found = self._only(first, second)
        if found is None:
            return None
        group, shares, fakes = found
        return noise_aware_test(np.rint(shares * group.n), keep=group.keep, fakes=fakes)

    def pair_reports(self, first: str, second: str) -> PairReports | None:
        """Reports as of ``Estimate.pair_reports``; None unless exactly one group has both."""
        found = self._only(first, second)
        if found is None:
            return None
        group, shares, fakes = found
        return PairReports.together(shares, group.n, keep=group.keep, fakes=fakes / fakes.sum())

    def _only(
        self, first: str, second: str
    ) -> tuple[Group, NDArray[np.float64], NDArray[np.float64]] | None:
        """The only group with both attributes, its reports and fakes; None if there are more."""
        group, *others = self._holding((first, second))
        if others or np.isnan(group.reported).any():
            return None
        shares, fakes = (
            marginal(table, group.names, (first, second)) for table in (group.reported, group.fakes)
        )
        return group, shares, fakes

    def reported(self, names: Sequence[str]) -> list[Reported]:
        """Reports of every group that has the attributes.

        Which reports came in which block is not published, so a report counts as one of a block
        drawn by lot: fakes are drawn from the mean of the blocks' tables.
        """
        found = []
        for group in self._holding(names):
            shares, fakes = (
                marginal(table, group.names, names).reshape(-1)
                for table in (group.reported, group.fakes)
            )
            if np.isnan(shares).any():
                raise NoLikelihoodError("how often each cell was reported is not known")
            counts = np.rint(shares * group.n).astype(np.int64)
            mixing = FakesMixing(places=(0,), keep=group.keep, fakes=(1 - group.keep) * fakes)
            found.append(Reported((tuple(names),), counts, (mixing,)))
        return found

    def mean(self, names: tuple[str, ...], weights: Floats) -> Estimated:
        """Mean of attributes that are in one group together."""
        found = self._holding(names)
        n = sum(group.n for group in found)
        value = variance = squares = each = 0.0
        for group in found:
            value += group.n * float((marginal(group.shares, group.names, names) * weights).sum())
            reported = marginal(group.reported, group.names, names)
            mean, square = float((reported * weights).sum()), float((reported * weights**2).sum())
            variance += group.n * max(0.0, square - mean**2) / group.keep**2
            squares += group.n * square / group.keep**2
            each = max(each, float(((weights - mean) ** 2).max()) / group.keep**2)
        error = standard_error(variance / n**2, squares / n**2, each / n**2)
        if two_valued(weights) is None and not all(group.worth for group in found):
            return Estimated(value / n, error)
        law = law_of_mean(
            weights, partial(self._set_law, found, names), partial(self._mean_law, found, names)
        )
        return Estimated(value / n, error, law)

    def marginals(self) -> dict[str, Cells]:
        """The cells of every attribute by itself; NaN without a report."""
        reported = {name for group in self.groups if group.n for name in group.names}
        return {
            name: self.cells((name,)) if name in reported else self._none(name)
            for name in self.survey.names
        }

    def pairs(self) -> dict[tuple[str, str], Cells]:
        """The cells of every pair that some group holds."""
        return {
            pair: self.cells(pair)
            for pair in combinations(self.survey.names, 2)
            if any(group.n and set(pair) <= set(group.names) for group in self.groups)
        }

    def tables(self) -> dict[tuple[str, ...], NDArray[np.float64]]:
        """The raw table of every group with a report."""
        return {group.names: group.shares for group in self.groups if group.n}

    def disagreement(self) -> float:
        """The largest difference between the tables of two groups on common attributes."""
        return self._overlaps().disagreement()

    def consistent(self) -> Self:
        """The nearest tables that agree, without negative entries and of total 1.

        The more reports a group has, the less its table moves. The standard errors are unknown;
        intervals are those of the raw tables.

        Raises:
            ValueError: the tables are too large to be made to agree.
        """
        tables = self._overlaps().nearest()
        groups = []
        for group in self.groups:
            shares = tables.get(group.names, group.shares)
            unknown = np.full(shares.shape, np.nan)
            groups.append(replace(group, shares=shares, errors=unknown, reported=unknown))
        return replace(self, groups=tuple(groups))

    def _overlaps(self) -> Overlaps:
        weights = {group.names: group.n for group in self.groups if group.n}
        return Overlaps(self.tables(), self.survey, weights)

    def _none(self, name: str) -> Cells:
        """Unknown cells of an attribute without a report."""
        size = self.survey.attribute(name).size
        return Cells(np.full(size, np.nan), np.full(size, np.inf), np.full(size, np.inf), n=0)

    def _law(
        self,
        found: Sequence[Group],
        parts: Sequence[_Part],
        covariances: Callable[[About], NDArray[np.float64]] | None = None,
    ) -> CumulantLaw:
        """Variance of the report-weighted mean over groups, and its law."""
        n = sum(group.n for group in found)
        worth = sum(group.worth for group in found)
        known = all(group.worth for group in found)
        steps = [group.n / (n * (group.worth or 1.0) * group.keep) for group in found]
        cumulants: dict[About, Cumulants] = {}
        for about in SIDES:
            each = [
                count_cumulants(
                    group.worth,
                    part.offsets,
                    group.keep,
                    about=about,
                    of=self.n,
                    together=worth,
                ).times(step)
                for group, part, step in zip(found, parts, steps, strict=True)
            ]
            cumulants[about] = functools.reduce(Cumulants.plus, each)
        values = (
            np.sum([group.n * part.raw for group, part in zip(found, parts, strict=True)], axis=0)
            / n
        )
        return CumulantLaw(
            values=values if known else np.full(values.shape, np.nan),
            cumulants=cumulants,
            steps=np.full(values.shape, max(steps)),
            covariances=covariances,
        )

    def _covariance(
        self, found: Sequence[Group], names: Sequence[str], about: About
    ) -> NDArray[np.float64]:
        """Covariance of a table's cells, as if all reports of a group had one table."""
        check_covariance(math.prod(self.survey.sizes_of(names)))
        n = sum(group.n for group in found)
        worth = sum(group.worth for group in found)
        if not all(group.worth for group in found):
            raise ValueError("the covariance is not known: a group's errors are unknown")
        raw: NDArray[np.float64] = np.sum(
            [group.n / n * marginal(group.raw, group.names, names) for group in found], axis=0
        )
        covariance = np.zeros((raw.size, raw.size))
        for group in found:
            fakes = marginal(group.fakes, group.names, names)
            reported = group.keep * raw + (1 - group.keep) * fakes
            weight = (group.n / n / group.keep) ** 2 / group.worth
            covariance += weight * multinomial(reported, 1)
        if about == "respondents":
            # The factor by which sampling adds less than in a sample of a population.
            missing = 1.0 if self.n <= worth else (worth - 1) / (self.n - 1)
            covariance -= missing / worth * multinomial(raw, 1)
        return covariance

    def _set_law(
        self, found: Sequence[Group], names: Sequence[str], inside: NDArray[np.bool_]
    ) -> ErrorLaw:
        return self._law(found, [_Part.within(group, names, inside) for group in found])

    def _mean_law(
        self, found: Sequence[Group], names: Sequence[str], weights: NDArray[np.float64]
    ) -> ErrorLaw:
        n, worth = sum(group.n for group in found), sum(group.worth for group in found)
        scores, shares, value, squares = [], [], 0.0, 0.0
        for group in found:
            raw, fakes = (marginal(each, group.names, names) for each in (group.raw, group.fakes))
            rest = (1 - group.keep) * float((fakes * weights).sum())
            scores.append((weights.ravel() - rest) / group.keep)
            shares.append(group.n / n * marginal(group.expected, group.names, names).ravel())
            value += group.n / n * float((raw * weights).sum())
            squares += group.n / n * float((raw * weights**2).sum())
        each, likely = np.concatenate(scores), np.concatenate(shares)
        reports = max(1, round(worth))
        law = weighted_law(
            value,
            each,
            likely,
            reports,
            squares=squares,
            least=float(weights.min()),
            most=float(weights.max()),
            seen=n,
        )
        return law.of_sample(reports, self.n)

    def _holding(self, names: Sequence[str]) -> list[Group]:
        self.survey.axes(names)
        found = [g for g in self.groups if names and g.n and set(names) <= set(g.names)]
        if not found:
            raise ValueError(f"no group has {', '.join(names) or 'no attribute'} together")
        return found


class _Part(NamedTuple):
    """Estimate of one group on some cells.

    Attributes:
        raw: the unbiased estimates of their shares.
        offsets: the probability of each under fakes.
    """

    raw: NDArray[np.float64]
    offsets: Offsets

    @classmethod
    def of(cls, group: Group, names: Sequence[str]) -> _Part:
        """Estimate of the combinations of some of the group's attributes.

        For a part of the group, the squares of the fakes' probabilities are taken to be the least
        possible. That gives the largest variance, and is exact if all reports had one table.
        """
        raw, fakes = (marginal(each, group.names, names) for each in (group.raw, group.fakes))
        if len(names) < len(group.names):
            return cls(raw, _offsets(group, fakes, fakes**2))
        squared = marginal(group.fakes_squared, group.names, names)
        return cls(raw, _offsets(group, fakes, squared))

    @classmethod
    def within(cls, group: Group, names: Sequence[str], inside: NDArray[np.bool_]) -> _Part:
        """Estimate of a set of combinations, as one cell."""
        raw, fakes = (
            np.asarray(marginal(each, group.names, names)[inside].sum())
            for each in (group.raw, group.fakes)
        )
        return cls(raw, _offsets(group, fakes, fakes**2))


def _offsets(group: Group, fakes: NDArray[np.float64], squared: NDArray[np.float64]) -> Offsets:
    """Probabilities of reports of some cells by respondents outside of them."""
    rest = 1 - group.keep
    # The mean cube is not known; of one table it is this.
    cubed = np.divide(squared**2, fakes, out=np.zeros_like(fakes), where=fakes > 0)
    return Offsets(
        group.worth * rest * fakes,
        group.worth * rest**2 * squared,
        group.worth * rest**3 * cubed,
    )


def _variance(group: Group, names: Sequence[str]) -> NDArray[np.float64]:
    """The variance of one group's estimate of these attributes.

    For a part of the group it is computed as if all reports had one table, which is somewhat too
    large if there were several.
    """
    if len(names) == len(group.names):
        return marginal(group.errors**2, group.names, names)
    reported = marginal(group.reported, group.names, names)
    return reported * (1 - reported) / (group.keep**2 * group.n)
