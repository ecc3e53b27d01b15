"""Estimates of single attributes from their tallies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from protocol.estimators.likelihood import Reported
from protocol.estimators.linear import Source
from protocol.estimators.releases.tallies import Tallies
from protocol.estimators.tables import Cells, Estimated
from protocol.randomizers import Randomizer
from protocol.randomizers.exact import Floats
from protocol.surveys.survey import Survey


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class AttributeShares(Source):
    """The distribution of every single attribute, with no tables of several.

    If only some respondents reported on an attribute, they are a random sample of all, and standard
    errors and intervals include that sampling. An attribute without a report is NaN.

    Args:
        survey: the survey that was asked.
        randomizers: the randomizer of each attribute's reports.
        totals: of each attribute, ``Randomizer.tally`` of its reports.
        reports: number of reports on each attribute, shape (m,).
        respondents: the number of respondents.

    Raises:
        ValueError: not one of each for every attribute, counts that do not fit, or no respondent.
    """

    survey: Survey
    randomizers: tuple[Randomizer, ...]
    totals: tuple[NDArray[np.int64], ...]
    reports: NDArray[np.int64]
    respondents: int

    def __post_init__(self) -> None:
        m = len(self.survey.names)
        if not len(self.randomizers) == len(self.totals) == len(self.reports) == m:
            raise ValueError(f"expected randomizers, totals and reports of {m} attributes")
        if self.n < 1 or (self.reports > self.n).any():
            raise ValueError(f"expected a respondent, and at most {self.n} reports of an attribute")
        for name in self.survey.names:
            if self._asked(name):
                self._tallies(name)
            elif self.totals[self.survey.index(name)].any():
                raise ValueError(f"counts of {name!r} without a report: expected all 0")

    def __repr__(self) -> str:
        return f"<AttributeShares: m={len(self.survey.names)}, n={self.n}>"

    @property
    def n(self) -> int:
        """The number of respondents."""
        return self.respondents

    def cells(self, names: tuple[str, ...]) -> Cells:
        """The estimated distribution of one attribute.

        Raises:
            ValueError: not one attribute.
        """
        name = self._only(names)
        if self._asked(name):
            return self._tallies(name).cells(names)
        unknown = np.full(self.survey.attribute(name).size, np.nan)
        return Cells(unknown, unknown.copy(), unknown.copy(), n=0)

    def reported(self, names: Sequence[str]) -> Sequence[Reported]:
        """The reports on one attribute."""
        return self._tallies(self._only(names)).reported(names)

    def mean(self, names: tuple[str, ...], weights: Floats) -> Estimated:
        """The mean over the respondents of a weight that depends on one attribute.

        Raises:
            ValueError: not one attribute.
        """
        name = self._only(names)
        if not self._asked(name):
            return Estimated(float("nan"), None)
        return self._tallies(name).mean(names, weights)

    def pairs(self) -> dict[tuple[str, str], Cells]:
        """An empty mapping: attributes were reported separately."""
        return {}

    def _asked(self, name: str) -> int:
        return int(self.reports[self.survey.index(name)])

    def _tallies(self, name: str) -> Tallies:
        """Tallies of those who reported on an attribute."""
        place = self.survey.index(name)
        return Tallies(
            self.survey,
            (name,),
            self.randomizers[place],
            self.totals[place],
            self._asked(name),
            self.n,
        )

    def _only(self, names: Sequence[str]) -> str:
        self.survey.axes(names)
        if len(names) != 1:
            raise ValueError(
                f"{len(names)} attributes: expected one, for each was reported by itself"
            )
        return names[0]
