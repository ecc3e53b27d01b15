"""Attributes with equally spaced numbers as categories."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from protocol.errors import SurveyError
from protocol.surveys.survey import Attribute, shown

# Short, so that arithmetic is cheap for every survey.
_NUMBER = re.compile(r"[+-]?[0-9]{1,15}(\.[0-9]{1,15})?")


@dataclass(frozen=True, slots=True)
class Scale:
    """The numbers of an attribute: ``middle + half t`` for t of a grid from -1 to 1.

    Args:
        middle: half way between the least and the largest number.
        half: the distance of these from it.
    """

    middle: Fraction
    half: Fraction

    def mean(self, value: float) -> float:
        """A mean of the grid as one of these numbers."""
        return float(self.middle) + float(self.half) * value

    def error(self, error: float) -> float:
        """A standard error of the grid as one of these numbers."""
        return float(self.half) * error


def attribute_scale(attribute: Attribute) -> Scale:
    """The scale of an attribute.

    Raises:
        SurveyError: a category that is not a decimal number, or numbers that do not rise in equal
            steps.
    """
    numbers = [_number(category, attribute.name) for category in attribute.categories]
    step = numbers[1] - numbers[0]
    for category, (before, number) in zip(attribute.categories[1:], pairwise(numbers), strict=True):
        if step <= 0 or number - before != step:
            raise SurveyError(
                f"category {shown(category)}: expected numbers that rise in equal steps",
                column=attribute.name,
            )
    return Scale((numbers[0] + numbers[-1]) / 2, (numbers[-1] - numbers[0]) / 2)


def _number(category: str, name: str) -> Fraction:
    if _NUMBER.fullmatch(category) is None:
        raise SurveyError(
            f"category {shown(category)}: expected a number such as 12 or -0.5", column=name
        )
    return Fraction(category)
