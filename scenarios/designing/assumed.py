"""Assumptions about the unknown answers for predictions of errors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from protocol.randomizers import join_codes
from protocol.randomizers.exact import Floats
from protocol.surveys.records import Records
from protocol.surveys.survey import Survey

Assumption: TypeAlias = Literal["uniform", "worst"]
"""Shares that can be assumed without records."""


class Shares(ABC):
    """Assumed shares of answers.

    Attributes:
        survey: the survey.
        says: the assumption, as the end of a sentence.
    """

    __slots__ = ()

    survey: Survey
    says: str

    @abstractmethod
    def margin(self, names: Sequence[str]) -> Floats:
        """The joint distribution of some attributes, one axis for each."""

    @property
    def cases(self) -> tuple[Shares, ...]:
        """Cases of which the one with the largest error counts; by default one."""
        return (self,)

    @abstractmethod
    def records(self, n: int) -> Records:
        """Answers of n respondents with these shares, to the nearest respondent."""


@dataclass(frozen=True, slots=True)
class Uniform(Shares):
    """All combinations of answers are equally likely."""

    survey: Survey
    says: str = "all combinations of answers are equally likely"

    def margin(self, names: Sequence[str]) -> Floats:
        sizes = [self.survey.sizes[axis] for axis in self.survey.axes(names)]
        return np.full(sizes, 1 / np.prod(sizes, dtype=np.float64))

    def records(self, n: int) -> Records:
        """Drawn once, by a fixed seed: there may be more combinations than respondents."""
        shape = (n, len(self.survey.sizes))
        drawn = np.random.default_rng(n).integers(self.survey.sizes, size=shape)
        return Records(self.survey, drawn.astype(self.survey.dtype))


@dataclass(frozen=True, slots=True)
class Alike(Shares):
    """Equal answers of all respondents, or within each of several equal parts.

    Args:
        survey: the survey.
        codes: categories of every attribute by part; an attribute with fewer repeats its last one.
        says: the assumption in words.
    """

    survey: Survey
    codes: tuple[int, ...] = (0,)
    says: str = "everybody gives the same answers"

    def margin(self, names: Sequence[str]) -> Floats:
        sizes = [self.survey.sizes[axis] for axis in self.survey.axes(names)]
        found = np.zeros(sizes)
        for code in self.codes:
            found[tuple(min(code, size - 1) for size in sizes)] += 1 / len(self.codes)
        return found

    def records(self, n: int) -> Records:
        codes = np.resize(np.array(self.codes), n)[:, np.newaxis]
        last = np.array(self.survey.sizes) - 1
        return Records(self.survey, np.minimum(codes, last).astype(self.survey.dtype))


@dataclass(frozen=True, slots=True)
class Worst(Shares):
    """The worst of four: all combinations equally likely, everybody alike (twice), and halves."""

    survey: Survey
    says: str = (
        "the worst of these: all combinations equally likely, everybody alike, half of the "
        "respondents alike in one way and half in another"
    )

    @property
    def cases(self) -> tuple[Shares, ...]:
        last = max(self.survey.sizes) - 1
        ways = ((0,), (last,), (0, last))
        return (Uniform(self.survey), *(Alike(self.survey, codes) for codes in ways))

    def margin(self, names: Sequence[str]) -> Floats:
        """Margin of the first case."""
        return Uniform(self.survey).margin(names)

    def records(self, n: int) -> Records:
        return Uniform(self.survey).records(n)


@dataclass(frozen=True, slots=True, eq=False)
class Given(Shares):
    """The shares of given records.

    Args:
        held: the records.
        says: the assumption in words.
    """

    held: Records
    says: str = "the answers have the shares that they have in the records given"
    survey: Survey = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "survey", self.held.survey)

    def margin(self, names: Sequence[str]) -> Floats:
        codes, axes = self.held.codes, list(self.survey.axes(names))
        sizes = [self.survey.sizes[axis] for axis in axes]
        cells = join_codes(codes[:, axes], sizes).astype(np.intp)
        found = np.bincount(cells, minlength=int(np.prod(sizes))).astype(np.float64)
        return (found / len(codes)).reshape(sizes)

    def records(self, n: int) -> Records:
        """Every record as often as any other, to one."""
        order = np.random.default_rng(n).permutation(len(self.held))
        return Records(self.held.survey, self.held.codes[np.resize(order, n)])
