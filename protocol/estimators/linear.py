"""The estimate that is linear in what was counted, and what it is made from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Generic, Self, TypeVar

from protocol.errors import NoLikelihoodError
from protocol.estimators.calibration.calibrated import Calibrated
from protocol.estimators.counts import Counts
from protocol.estimators.dependence.association import TestResult
from protocol.estimators.dependence.pair_reports import PairReports
from protocol.estimators.estimate import Estimate
from protocol.estimators.likelihood import Reported
from protocol.estimators.projection import Projection
from protocol.estimators.tables import Cells, Estimated, Table
from protocol.randomizers.exact import Floats
from protocol.surveys.survey import Survey


class Source(ABC):
    """Unbiased estimates of shares, linear in what was counted, with errors in closed form.

    It is what a ``LinearEstimate`` is made from: the counts of a protocol, or another estimate
    that is changed linearly.

    Attributes:
        survey: what was asked.
    """

    __slots__ = ()

    survey: Survey

    @property
    @abstractmethod
    def n(self) -> int:
        """The number of respondents."""

    @abstractmethod
    def cells(self, names: tuple[str, ...]) -> Cells:
        """The raw cells of a table: as ``Estimate.cells``."""

    @abstractmethod
    def mean(self, names: tuple[str, ...], weights: Floats) -> Estimated:
        """The mean of a weight, not the same for all, of shape ``survey.sizes_of(names)``.

        Raises:
            ValueError: no name, or attributes that it says nothing about together.
        """

    def marginals(self) -> Mapping[str, Cells]:
        """The cells of every attribute by itself, in the survey's order."""
        return {name: self.cells((name,)) for name in self.survey.names}

    def pairs(self) -> Mapping[tuple[str, str], Cells]:
        """The cells of every pair of attributes that it has together, in the survey's order."""
        return {pair: self.cells(pair) for pair in combinations(self.survey.names, 2)}

    def reported(self, names: Sequence[str]) -> Sequence[Reported]:
        """The counts of reports that a table is fitted to, with their laws.

        Raises:
            SurveyError, ValueError: as ``cells``.
            NoLikelihoodError: what is published does not have the likelihood of the reports.
        """
        raise NoLikelihoodError(f"{type(self).__name__} has no likelihood of its reports")

    def independence(self, first: str, second: str) -> TestResult | None:
        """A test that two attributes are independent; None if Wald's of their table is the best.

        Raises:
            SurveyError, ValueError: as ``Estimate.independence``.
        """
        return None

    def pair_reports(self, first: str, second: str) -> PairReports | None:
        """As ``Estimate.pair_reports``."""
        return None

    @property
    def whole_reports(self) -> Counts | None:
        """As ``Estimate.whole_reports``."""
        return None

    @property
    def clusters(self) -> Sequence[tuple[str, ...]]:
        """As ``Estimate.clusters``."""
        return ()

    @property
    def calibration(self) -> Calibrated | None:
        """As ``Estimate.calibration``."""
        return None

    def consistent(self) -> Self:
        """A source whose tables agree.

        Raises:
            ValueError: no two tables could disagree, or they are too large to be made to agree.
        """
        raise ValueError("it has no tables of groups that could disagree")


S = TypeVar("S", bound=Source, covariant=True)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class LinearEstimate(Estimate, Generic[S]):
    """Unbiased tables, means and counts of what was asked.

    Args:
        source: what it is made from.
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

    def _query(self, names: tuple[str, ...], weights: Floats) -> Estimated:
        return self.source.mean(names, weights)

    def marginals(self, projection: Projection = "none") -> dict[str, Table]:
        """The table of every attribute by itself, in the survey's order."""
        found = self.source.marginals()
        return {name: self._made((name,), cells, projection) for name, cells in found.items()}

    def pairs(self, projection: Projection = "none") -> list[Table]:
        """The table of every pair of attributes that the source has together."""
        return [self._made(pair, cells, projection) for pair, cells in self.source.pairs().items()]

    def independence(self, first: str, second: str) -> TestResult:
        found = self.source.independence(first, second)
        return Estimate.independence(self, first, second) if found is None else found

    def pair_reports(self, first: str, second: str) -> PairReports | None:
        return self.source.pair_reports(first, second)

    @property
    def whole_reports(self) -> Counts | None:
        return self.source.whole_reports

    @property
    def clusters(self) -> Sequence[tuple[str, ...]]:
        return self.source.clusters

    @property
    def calibration(self) -> Calibrated | None:
        return self.source.calibration

    def consistent(self) -> LinearEstimate[S]:
        return LinearEstimate(self.source.consistent())

    def _reported(self, names: Sequence[str]) -> Sequence[Reported]:
        return self.source.reported(names)
