"""An estimate made of the tables of groups of attributes, each from reports of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from protocol.estimators.consistency import Overlaps
from protocol.estimators.estimate import Estimate
from protocol.estimators.projection import Projection
from protocol.estimators.tables import (
    Estimated,
    Table,
    marginal,
    standard_error,
    standard_errors,
)
from protocol.surveys.survey import Survey


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Group:
    """The table of one group.

    Attributes:
        names: the attributes.
        shares: the raw estimate, of the attributes' shape.
        errors: its standard errors, of the same shape, NaN where they are unknown.
        reported: the observed shares of the reports that it is made of, of the same shape; NaN
            where they are not known.
        keep: the keep probability that they were drawn with.
        n: the number of reports.
    """

    names: tuple[str, ...]
    shares: NDArray[np.float64]
    errors: NDArray[np.float64]
    reported: NDArray[np.float64]
    keep: float
    n: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class GroupedEstimate(Estimate):
    """Tables of groups of attributes; an attribute may be in many of them.

    A table that several groups can give is their mean, weighted by their reports. Each group's
    respondents count as a random sample, so both kinds of standard error are the same, and take in
    who was asked what. They treat groups as independent, which they are where a respondent answers
    one. From a single report they are unknown, and where all reports on a group are the same.

    Args:
        survey: what was asked.
        groups: the tables.
        respondents: how many have answered anything.

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
            shape = self.sizes_of(group.names)
            if {group.shares.shape, group.errors.shape, group.reported.shape} != {shape}:
                raise ValueError(f"the table of {group.names} has another shape than {shape}")

    def __repr__(self) -> str:
        return f"<GroupedEstimate: n={self.n}, {len(self.groups)} groups>"

    @property
    def n(self) -> int:
        """The number of respondents."""
        return self.respondents

    def table(self, *names: str, projection: Projection = "none") -> Table:
        """Of attributes that are in one group together."""
        found = self._holding(names)
        n = sum(group.n for group in found)
        values = np.zeros(self.sizes_of(names))
        variance, most = np.zeros_like(values), np.zeros_like(values)
        for group in found:
            values += group.n * marginal(group.shares, group.names, names)
            variance += group.n**2 * _variance(group, names)
            most += group.n / group.keep**2
        errors = standard_errors(variance if n > 1 else np.zeros_like(values), most) / n
        raw = Table(
            names=names,
            categories=tuple(self.survey.attribute(name).categories for name in names),
            values=values / n,
            standard_errors=errors,
            population_errors=errors.copy(),
            n=n,
        )
        return raw.projected(projection)

    def query(self, names: Sequence[str], weights: ArrayLike) -> Estimated:
        """Of attributes that are in one group together."""
        given = self.checked_weights(names, weights)
        found = self._holding(names)
        n = sum(group.n for group in found)
        value = variance = squares = 0.0
        for group in found:
            value += group.n * float((marginal(group.shares, group.names, names) * given).sum())
            reported = marginal(group.reported, group.names, names)
            mean, square = float((reported * given).sum()), float((reported * given**2).sum())
            variance += group.n * max(0.0, square - mean**2) / group.keep**2
            squares += group.n * square / group.keep**2
        if np.ptp(given) == 0:
            return Estimated(value / n, 0.0)
        return Estimated(value / n, standard_error(variance / n**2, squares / n**2))

    def marginals(self, projection: Projection = "none") -> dict[str, Table]:
        """The table of every attribute by itself; NaN where nobody has reported on it."""
        reported = {name for group in self.groups if group.n for name in group.names}
        return {
            name: self.table(name, projection=projection) if name in reported else self._none(name)
            for name in self.survey.names
        }

    def pairs(self, projection: Projection = "none") -> list[Table]:
        """The table of every pair that some group holds."""
        return [
            self.table(*pair, projection=projection)
            for pair in combinations(self.survey.names, 2)
            if any(group.n and set(pair) <= set(group.names) for group in self.groups)
        ]

    def tables(self) -> dict[tuple[str, ...], NDArray[np.float64]]:
        """The raw table of every group that somebody has answered."""
        return {group.names: group.shares for group in self.groups if group.n}

    def disagreement(self) -> float:
        """The largest difference between what two groups say of the attributes they share."""
        return self._overlaps().disagreement()

    def consistent(self) -> GroupedEstimate:
        """The nearest tables that agree, without negative entries and of total 1.

        The more reports a group has, the less its table moves. The standard errors are unknown.

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

    def _none(self, name: str) -> Table:
        """Of an attribute without a report: nothing is known."""
        attribute = self.survey.attribute(name)
        unknown = np.full(attribute.size, np.inf)
        return Table(
            names=(name,),
            categories=(attribute.categories,),
            values=np.full(attribute.size, np.nan),
            standard_errors=unknown,
            population_errors=unknown.copy(),
            n=0,
        )

    def _holding(self, names: Sequence[str]) -> list[Group]:
        self.survey.axes(names)
        found = [g for g in self.groups if names and g.n and set(names) <= set(g.names)]
        if not found:
            raise ValueError(f"no group has {', '.join(names) or 'no attribute'} together")
        return found


def _variance(group: Group, names: Sequence[str]) -> NDArray[np.float64]:
    """The variance of one group's estimate of these attributes.

    Of a part of the group it follows from all its reports as if they had been drawn with one
    table, which is somewhat too large if there were several.
    """
    if len(names) == len(group.names):
        return marginal(group.errors**2, group.names, names)
    reported = marginal(group.reported, group.names, names)
    return reported * (1 - reported) / (group.keep**2 * group.n)
