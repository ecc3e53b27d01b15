"""Exact counts of some tables."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from protocol.estimators.releases.noisy import NoisyTables
from protocol.surveys.survey import Survey


class ExactTables(NoisyTables):
    """Exact counts of some tables, with no error but that of sampling from a population.

    The sampling error is unknown where nobody or everybody is in a cell.

    Args:
        survey: the survey that was asked.
        counts: by the names of their attributes, tables of one total.

    Raises:
        ValueError: no table, one of another shape than its attributes' or of another total, or
            tables that disagree.
    """

    __slots__ = ()

    def __init__(self, survey: Survey, counts: Mapping[tuple[str, ...], NDArray[np.int64]]) -> None:
        totals = [int(table.sum()) for table in counts.values()]
        if len(set(totals)) > 1 or min(totals, default=1) < 1:
            raise ValueError("tables must have one total, and it must be positive")
        super().__init__(survey, counts, respondents=max(totals, default=1))

    def exact(self, *names: str) -> NDArray[np.int64]:
        """The exact counts of some attributes, in any order, from a table that holds them all.

        Raises:
            SurveyError: an unknown or repeated name.
            ValueError: no name, or no table holds them all.
        """
        return self._counts(names)
