"""What is measured: numbers that an estimate gives an interval for, and the truth about them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from protocol import Interval, Table
from protocol.estimators.inference.laws import About
from tests.coverage_gate.grid import Point
from tests.coverage_gate.laws import Law

LEVEL = 0.95
"""Of the intervals."""

ABOUT: tuple[About, ...] = ("respondents", "population")


class Number(Protocol):
    """An estimate of one number."""

    @property
    def value(self) -> float:
        """The estimate."""
        ...

    @property
    def standard_error(self) -> float | None:
        """Given the data; None where it is unknown."""
        ...

    def interval(self, level: float, about: About) -> Interval:
        """Of a confidence level."""
        ...


Answer: TypeAlias = Table | Number

Reader: TypeAlias = Callable[[Answer, About], Interval]
"""How the interval of an answer is asked for; a planted fault is another one of these."""


def read(answer: Answer, about: About) -> Interval:
    """The interval that the program gives."""
    return answer.interval(LEVEL, about)


class Said(NamedTuple):
    """One number of an estimate.

    Args:
        target: what it is, such as "cell" or "query".
        answer: the estimate.
        place: the cell, if the answer is a table.
        unbiased: whether the value is meant to be right on average, and its standard error to be
            that of its distance from the truth.
    """

    target: str
    answer: Answer
    place: tuple[int, ...] = ()
    unbiased: bool = True

    @property
    def value(self) -> float:
        """The number."""
        if isinstance(self.answer, Table):
            return float(self.answer.values[self.place])
        return self.answer.value

    def error(self, about: About) -> float:
        """Its standard error; NaN where it is unknown, or not about the truth."""
        if not self.unbiased:
            return math.nan
        errors: Any
        if isinstance(self.answer, Table):
            table = self.answer
            errors = table.standard_errors if about == "respondents" else table.population_errors
            return math.nan if errors is None else float(errors[self.place])
        errors = self.answer.standard_error if about == "respondents" else None
        return math.nan if errors is None else float(errors)

    def ends(self, reader: Reader, about: About) -> tuple[float, float]:
        """The ends of its interval."""
        low, high = reader(self.answer, about)
        if self.place:
            return float(np.asarray(low)[self.place]), float(np.asarray(high)[self.place])
        return float(low), float(high)


class Counted(NamedTuple):
    """Numbers that follow from one count, whose law is known: coverage is a sum over the counts.

    Args:
        about: whose shares the truth is.
        truth: of every target.
        law: of the count.
        said: what an estimate says that is made of such a count.
        slope: by how much an estimate grows with the count.
        bounds: the least and the largest that the truth could be.
    """

    about: About
    truth: dict[str, float]
    law: Law
    said: Callable[[int], Sequence[Said]]
    slope: dict[str, float]
    bounds: dict[str, tuple[float, float]]


class Drawn(NamedTuple):
    """A number of an estimate made of counts that were drawn, and the truth about it.

    Args:
        said: the number.
        respondents: what it is of those who were drawn; NaN where it is not measured.
        population: what it is of those that they were drawn from; NaN likewise.
        bounds: the least and the largest that it could be.
    """

    said: Said
    respondents: float
    population: float
    bounds: tuple[float, float] = (0.0, 1.0)


class Estimator(NamedTuple):
    """An estimator on its part of the grid; one of the two ways to measure it is given.

    Args:
        name: that of the variant, and what else tells it apart.
        points: of the grid.
        counted: the numbers that follow from one count, at a point.
        drawn: one run of a survey at a point, everything drawn anew.
    """

    name: str
    points: tuple[Point, ...]
    counted: Callable[[Point], Iterator[Counted]] | None = None
    drawn: Callable[[Point, np.random.Generator], Iterator[Drawn]] | None = None
