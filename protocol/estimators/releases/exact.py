"""Exact counts of some tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from protocol.estimators.dependence.association import TestResult, exact_test
from protocol.estimators.dependence.pair_reports import PairReports
from protocol.estimators.inference.cumulants import CumulantLaw, Cumulants
from protocol.estimators.inference.laws import (
    About,
    DeferredLaw,
    ErrorLaw,
)
from protocol.estimators.inference.scores import (
    check_covariance,
    law_of_mean,
    multinomial,
    weighted_law,
)
from protocol.estimators.likelihood import Reported
from protocol.estimators.linear import Source
from protocol.estimators.tables import (
    Cells,
    Estimated,
    change_by_one,
    marginal,
    standard_errors,
)
from protocol.randomizers.exact import Floats
from protocol.randomizers.mixing import FakesMixing
from protocol.surveys.survey import Survey


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class ExactTables(Source):
    """Exact counts of some tables: no error but that of sampling from a population.

    That one is unknown where nobody or everybody is in a cell.

    Args:
        survey: what was asked.
        counts: by the names of their attributes, tables of one total.

    Raises:
        ValueError: no table, one of another shape than its attributes', or of another total.
    """

    survey: Survey
    counts: dict[tuple[str, ...], NDArray[np.int64]]

    def __post_init__(self) -> None:
        if not self.counts:
            raise ValueError("expected at least one table")
        for names, table in self.counts.items():
            shape = self.survey.sizes_of(names)
            if table.shape != shape:
                raise ValueError(f"the table of {names} has shape {table.shape}, expected {shape}")
        if len({int(table.sum()) for table in self.counts.values()}) > 1 or self.n < 1:
            raise ValueError("tables must have one total, and it must be positive")
        margins: dict[str, NDArray[np.int64]] = {}
        for names, table in self.counts.items():
            for name in names:
                margin = marginal(table, names, (name,))
                if not np.array_equal(margins.setdefault(name, margin), margin):
                    raise ValueError(f"the tables disagree on the counts of {name!r}")

    def __repr__(self) -> str:
        return f"<ExactTables: n={self.n}, {len(self.counts)} tables>"

    @property
    def n(self) -> int:
        """The number of respondents."""
        return int(next(iter(self.counts.values())).sum())

    def exact(self, *names: str) -> NDArray[np.int64]:
        """The exact counts of some attributes, in any order, from a table that holds them all.

        Raises:
            SurveyError: an unknown or repeated name.
            ValueError: no name, or no table holds them all.
        """
        self.survey.axes(names)
        for known, table in self.counts.items():
            if names and set(names) <= set(known):
                return marginal(table, known, names)
        raise ValueError(
            f"no table has {', '.join(names)} together"
            if names
            else "expected at least one attribute"
        )

    def cells(self, names: tuple[str, ...]) -> Cells:
        """Exact shares; their standard error given the data is 0."""
        shares = self.exact(*names) / self.n
        return Cells(
            np.ascontiguousarray(shares),
            standard_errors=np.zeros(shares.shape),
            population_errors=standard_errors(
                shares * (1 - shares) / self.n,
                shares / self.n,
                change_by_one(shares, (0.0, 1.0), self.n, sampled=1.0),
            ),
            law=DeferredLaw(partial(self._law, shares), partial(self._covariance, shares)),
        )

    def independence(self, first: str, second: str) -> TestResult:
        """Pearson's test of the counts."""
        return exact_test(self.exact(first, second))

    def pair_reports(self, first: str, second: str) -> PairReports:
        """As ``Estimate.pair_reports``."""
        return PairReports.exact(self.exact(first, second) / self.n, self.n)

    def reported(self, names: Sequence[str]) -> tuple[Reported, ...]:
        """Exact counts are reports that are always kept: EM ends at their shares."""
        counts = self.exact(*names)
        kept = FakesMixing(places=(0,), keep=1.0, fakes=np.zeros(counts.size))
        return (Reported((tuple(names),), counts.reshape(-1), (kept,)),)

    def mean(self, names: tuple[str, ...], weights: Floats) -> Estimated:
        """The exact mean of a weight."""
        counts = self.exact(*names)
        shares = counts / self.n
        value = float((counts * weights).sum()) / self.n

        def of_set(inside: NDArray[np.bool_]) -> ErrorLaw:
            return self._law(np.asarray(shares[inside].sum()))

        return Estimated(value, 0.0, law_of_mean(weights, of_set, partial(self._mean_law, shares)))

    def _law(self, shares: Floats) -> CumulantLaw:
        """About a population, counts are binomial."""
        return CumulantLaw.of_counts(shares, self.n, other=0.0, gain=1.0)

    def _mean_law(self, shares: Floats, weights: Floats) -> ErrorLaw:
        squares = float((shares * weights**2).sum())
        least, most = float(weights.min()), float(weights.max())
        value = float((shares * weights).sum())
        law = weighted_law(value, weights, shares, self.n, squares=squares, least=least, most=most)
        without = Cumulants(np.zeros(3), np.zeros(4))
        return replace(law, cumulants={**law.cumulants, "respondents": without})

    def _covariance(self, shares: Floats, about: About) -> Floats:
        check_covariance(shares.size)
        if about == "respondents":
            return np.zeros((shares.size, shares.size))
        return multinomial(shares, self.n)

    def pairs(self) -> dict[tuple[str, str], Cells]:
        """The cells of every pair that is counted together."""
        return {
            pair: self.cells(pair)
            for pair in combinations(self.survey.names, 2)
            if any(set(pair) <= set(known) for known in self.counts)
        }
