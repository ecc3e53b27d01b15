"""The analysis that is announced before a survey, and its tables of the published result."""

from __future__ import annotations

import math
from itertools import product, starmap
from typing import NamedTuple, get_args

import msgspec

from protocol.errors import ProtocolError, SurveyError
from protocol.estimators.estimate import Estimate
from protocol.estimators.inference.laws import LEVEL, About
from protocol.estimators.likelihood import Fit
from protocol.estimators.projection import Projection
from protocol.surveys.survey import Survey

MAX_CELLS = 1 << 16
"""The most cells of all announced tables together."""


class Cell(NamedTuple):
    """A combination of categories, with its share and the interval of the raw share.

    The ends are NaN where the interval is unknown.
    """

    categories: tuple[str, ...]
    value: float
    low: float
    high: float


class AnnouncedTable(NamedTuple):
    """An announced table of the published result.

    If the result cannot give it, there are no cells and ``why`` is the reason. ``fit`` is the end
    of EM.
    """

    names: tuple[str, ...]
    cells: tuple[Cell, ...]
    why: str = ""
    fit: Fit | None = None


class Analysis(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Announced analysis: which tables are to be published, and how.

    The estimator of a table is that of the variant (``Estimate.table``).

    Args:
        tables: the attributes of each table, in the order of its axes.
        projection: of the values of each table.
        level: the confidence level of the intervals, above 0 and below 1.
        about: the subject of the intervals.
    """

    tables: tuple[tuple[str, ...], ...]
    projection: Projection = "none"
    level: float = LEVEL
    about: About = "respondents"

    def check(self, survey: Survey) -> None:
        """Check the analysis against a survey.

        Raises:
            SurveyError: no table, one without attributes or of unknown ones, one announced twice,
                too many cells, a level out of range, or an unknown projection or ``about``.
        """
        if not 0 < self.level < 1:
            raise SurveyError(f"analysis: level {self.level}: expected above 0 and below 1")
        for name, given, known in (
            ("projection", self.projection, get_args(Projection)),
            ("about", self.about, get_args(About)),
        ):
            if given not in known:
                allowed = ", ".join(map(repr, known))
                raise SurveyError(f"analysis: {name} {given!r:.60}: expected one of {allowed}")
        if not self.tables or not all(self.tables):
            raise SurveyError("analysis: expected at least one table, and an attribute in each")
        cells = 0
        for names in self.tables:
            try:
                axes = survey.axes(names)
            except SurveyError as error:
                raise SurveyError(f"analysis: {error}") from error
            cells += math.prod(survey.sizes[axis] for axis in axes)
        if cells > MAX_CELLS:
            raise SurveyError(f"analysis: tables of {cells:,} cells, at most {MAX_CELLS:,} allowed")
        if len({frozenset(names) for names in self.tables}) < len(self.tables):
            raise SurveyError("analysis: a table is announced twice")

    def announced_tables(self, estimate: Estimate) -> tuple[AnnouncedTable, ...]:
        """The announced tables, of a published result."""
        return tuple(self._announced_table(estimate, names) for names in self.tables)

    def _announced_table(self, estimate: Estimate, names: tuple[str, ...]) -> AnnouncedTable:
        try:
            table = estimate.table(*names, projection=self.projection)
        except (ProtocolError, ValueError) as error:
            return AnnouncedTable(names, (), str(error))
        interval = table.interval(self.level, self.about)
        columns = (array.ravel().tolist() for array in (table.values, *interval))
        cells = zip(product(*table.categories), *columns, strict=True)
        return AnnouncedTable(names, tuple(starmap(Cell, cells)), fit=table.fit)

    def not_announced(self, estimate: Estimate) -> tuple[str, ...]:
        """Attributes that a result shows by themselves, without an announced table."""
        means = estimate.attribute_means()
        if means:
            return tuple(means)
        return tuple(name for name in estimate.survey.names if (name,) not in self.tables)
