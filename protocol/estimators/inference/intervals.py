"""Intervals to show: their level and subject, and figures with the ends of their intervals."""

from __future__ import annotations

from itertools import starmap
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from protocol.estimators.inference.laws import LEVEL, About, Interval

_SAYS: dict[About, str] = {
    "respondents": "about the respondents: they allow for randomization alone",
    "population": "about the population, if the respondents are a simple random sample of it: they "
    "allow for sampling and randomization",
}


class Uncertain(Protocol):
    """A table, or one estimated number."""

    def interval(self, level: float = LEVEL, about: About = "respondents") -> Interval:
        """The intervals of its raw shares or of the number."""
        ...


class Intervals(NamedTuple):
    """The level and the subject of a report's intervals.

    Args:
        level: the confidence level, above 0 and below 1.
        about: the respondents, or a population of which they are a simple random sample.
    """

    level: float = LEVEL
    about: About = "respondents"

    @property
    def name(self) -> str:
        """Name of one of them, as the head of a column."""
        return f"{level_text(self.level)} interval"

    @property
    def says(self) -> str:
        """Subject of the intervals, in a sentence without its full stop."""
        return f"{level_text(self.level)} intervals {_SAYS[self.about]}"

    def of(self, found: Uncertain) -> Interval:
        """The intervals of a table's raw shares, or of one number."""
        return found.interval(self.level, self.about)


USUAL = Intervals()
"""Those that are reported unless others are asked for."""


class Shown(NamedTuple):
    """A share or a mean with the ends of its interval, NaN where they are unknown."""

    value: float
    low: float
    high: float

    @property
    def exact(self) -> bool:
        """True if the interval has no width."""
        return self.low == self.high


def level_text(level: float) -> str:
    """A level in percent."""
    return f"{100 * level:.15g} %"


def interval_figures(values: ArrayLike, found: Interval) -> list[Shown]:
    """Values with their intervals, in row-major order."""
    columns = (np.asarray(each, np.float64).ravel().tolist() for each in (values, *found))
    return list(starmap(Shown, zip(*columns, strict=True)))
