"""Linear estimates, and the sources that they are made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from protocol.estimators.calibration.calibrated import Calibrated
from protocol.estimators.counts import Counts
from protocol.estimators.estimate import Answers, Estimate
from protocol.estimators.likelihood import Reported
from protocol.estimators.projection import Projection
from protocol.estimators.tables import Cells, Estimated, Table
from protocol.randomizers.exact import Floats
from protocol.surveys.survey import Survey

if TYPE_CHECKING:
    from protocol.estimators.dependence.association import TestResult
    from protocol.estimators.dependence.pair_reports import PairReports


class Source(Answers):
    """Unbiased estimates of shares, linear in the counts, with errors in closed form.

    A ``LinearEstimate`` is made from the counts of a protocol, or from a linear change of another
    estimate.
    """

    __slots__ = ()

    def marginals(self) -> Mapping[str, Cells]:
        """The cells of every attribute by itself, in the survey's order."""
        return {name: self.cells((name,)) for name in self.survey.names}

    def pairs(self) -> Mapping[tuple[str, str], Cells]:
        """The cells of every pair of attributes that it has together, in the survey's order."""
        return {pair: self.cells(pair) for pair in combinations(self.survey.names, 2)}

    def independence(self, first: str, second: str) -> TestResult | None:
        """A test that two attributes are independent; None if Wald's of their table is the best.

        Raises:
            SurveyError, ValueError: as ``Estimate.independence``.
        """
        return None


S = TypeVar("S", bound=Source, covariant=True)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class LinearEstimate(Estimate, Generic[S]):
    """Unbiased tables, means and counts.

    Args:
        source: of the estimates.
    """

    source: S
    survey: Survey = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "survey", self.source.survey)

    def __repr__(self) -> str:
        return f"<LinearEstimate from {self.source!r}>"

    @property
    def n(self) -> int:
        """The number of respondents."""
        return self.source.n

    def cells(self, names: tuple[str, ...]) -> Cells:
        return self.source.cells(names)

    def mean(self, names: tuple[str, ...], weights: Floats) -> Estimated:
        return self.source.mean(names, weights)

    def marginals(self, projection: Projection = "none") -> dict[str, Table]:
        """The table of every attribute by itself, in the survey's order."""
        found = self.source.marginals()
        return {name: self._table((name,), cells, projection) for name, cells in found.items()}

    def pairs(self, projection: Projection = "none") -> list[Table]:
        """The table of every pair of attributes that the source has together."""
        return [self._table(pair, cells, projection) for pair, cells in self.source.pairs().items()]

    def independence(self, first: str, second: str) -> TestResult:
        found = self.source.independence(first, second)
        return Estimate.independence(self, first, second) if found is None else found

    def pair_reports(self, first: str, second: str) -> PairReports | None:
        return self.source.pair_reports(first, second)

    @property
    def whole_reports(self) -> Counts | None:
        return self.source.whole_reports

    @property
    def weighted_n(self) -> float | None:
        return self.source.weighted_n

    @property
    def clusters(self) -> Sequence[tuple[str, ...]]:
        return self.source.clusters

    @property
    def calibration(self) -> Calibrated | None:
        return self.source.calibration

    def consistent(self) -> Self:
        return replace(self, source=self.source.consistent())

    def reported(self, names: Sequence[str]) -> Sequence[Reported]:
        return self.source.reported(names)
