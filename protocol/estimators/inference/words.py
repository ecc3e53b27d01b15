"""Which intervals a report shows, in words and as figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from itertools import starmap
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from protocol.estimators.inference.laws import LEVEL, About, Interval
from protocol.estimators.likelihood import Fit
from protocol.estimators.projection import Projection

UNKNOWN, EXACT = "unknown", "exact"
"""An interval whose ends are not known, and one of width 0."""

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
    """The level of a report's intervals, and whose shares and means they are about.

    Args:
        level: the confidence level, above 0 and below 1.
        about: the respondents, or a population of which they are a simple random sample.
    """

    level: float = LEVEL
    about: About = "respondents"

    @property
    def name(self) -> str:
        """What one of them is called, as the head of a column."""
        return f"{level_text(self.level)} interval"

    @property
    def says(self) -> str:
        """What they are about, in a sentence without its full stop."""
        return f"{level_text(self.level)} intervals {_SAYS[self.about]}"

    @property
    def legend(self) -> str:
        """The same, in as many words as a picture has room for."""
        return f"{self.name} about the {self.about}"

    def of(self, found: Uncertain) -> Interval:
        """The intervals of a table's raw shares, or of one number."""
        return found.interval(self.level, self.about)


USUAL = Intervals()
"""Those that are reported unless others are asked for."""


class Shown(NamedTuple):
    """A share or a mean beside the ends of its interval, which are NaN where they are unknown."""

    value: float
    low: float
    high: float

    @property
    def exact(self) -> bool:
        """Whether the interval has no width."""
        return self.low == self.high


def level_text(level: float) -> str:
    """A level in percent."""
    return f"{100 * level:.15g} %"


def made_by(projection: Projection) -> str:
    """What was done to shares to make them proper."""
    return "of maximum likelihood (em)" if projection == "em" else f"projected ({projection})"


def figures_of(values: ArrayLike, found: Interval) -> list[Shown]:
    """Values beside their intervals, in row-major order."""
    columns = (np.asarray(each, np.float64).ravel().tolist() for each in (values, *found))
    return list(starmap(Shown, zip(*columns, strict=True)))


def sentences(
    intervals: Intervals,
    figures: Collection[Shown],
    projection: Projection = "none",
    fits: Iterable[Fit | None] = (),
) -> list[str]:
    """What a reader has to know of figures with their intervals, in sentences.

    Args:
        intervals: their level, and what they are about.
        figures: all that are shown.
        projection: what was done to the shares.
        fits: of the tables that are shown, where EM was to fit them.
    """
    known = [figure for figure in figures if not math.isnan(figure.low + figure.high)]
    if known and all(figure.exact for figure in figures):
        return ["These are exact: nothing in them was randomized."]
    found = [f"{intervals.says}."]
    if len(known) < len(figures):
        found.append(
            "An interval is unknown where there are too few reports, where they are too much "
            "alike, or where the error of the estimate is not known."
        )
    if projection != "none":
        found.append(
            f"The shares are {made_by(projection)}, which biases them. An interval is that of the "
            "raw, unbiased estimate, so a share can lie outside its interval."
        )
    elif any(not figure.low <= figure.value <= figure.high for figure in known):
        found.append(
            "A raw estimate can be out of range, such as a share below 0. It then lies outside its "
            "interval, which holds only possible values."
        )
    short = [fit.gap for fit in fits if fit and not fit.converged]
    if short:
        found.append(
            f"EM reached its limit of steps in {len(short):,} of the tables: the log-likelihood "
            f"may be up to {max(short):.2g} below its maximum."
        )
    return found


def bracketed(found: Shown, figure: Callable[[float], str], unit: str = "") -> str:
    """An interval: its ends in brackets, or that they are unknown, or that it has no width."""
    if math.isnan(found.low) or math.isnan(found.high):
        return UNKNOWN
    return EXACT if found.exact else f"[{figure(found.low)}, {figure(found.high)}]{unit}"
