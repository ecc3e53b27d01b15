"""Keys with values as a survey: every key is an attribute that is missing, or a number."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from protocol.errors import SurveyError
from protocol.surveys.records import Records
from protocol.surveys.survey import Attribute, Survey, listed, shown

MISSING = "missing"
"""The first category of every key: it is not held."""

HELD = "held"
"""The category of a key that is held, where its value does not matter."""


def key_survey(title: str, keys: Sequence[str], levels: Sequence[Sequence[float]]) -> Survey:
    """A survey of keys.

    Args:
        title: of the survey.
        keys: their names.
        levels: the possible values of each key, in [-1, 1]: a sequence per key.

    Raises:
        SurveyError: a key without a value, with one outside [-1, 1] or with one twice, or keys and
            levels of different number.
    """
    if len(levels) != len(keys):
        raise SurveyError(f"{len(keys)} keys, but the values of {len(levels)}")
    attributes = []
    for key, values in zip(keys, levels, strict=True):
        categories = (MISSING, *(repr(float(value)) for value in values))
        attributes.append(Attribute(name=key, categories=categories, ordinal=True, missing=MISSING))
    survey = Survey(title, tuple(attributes))
    key_values(survey)
    return survey


def key_values(survey: Survey) -> NDArray[np.float64]:
    """The value of each code of each key, shape (d, most categories).

    NaN stands for a missing key, and fills the rows of keys with fewer values than others.

    Raises:
        SurveyError: an attribute that is not a key, or a value outside [-1, 1].
    """
    values = np.full((len(survey.attributes), max(survey.sizes)), math.nan)
    for row, attribute in zip(values, survey.attributes, strict=True):
        if attribute.categories[0] != MISSING or attribute.missing != MISSING:
            raise SurveyError(
                f"expected a key, with {MISSING!r} as its first category for an empty answer",
                column=attribute.name,
            )
        for place, category in enumerate(attribute.categories[1:], 1):
            row[place] = _number(category, attribute.name)
    return values


def key_records(survey: Survey, holdings: Sequence[Mapping[str, float]]) -> Records:
    """Records of respondents from their keys and values.

    Raises:
        SurveyError: no respondent, an unknown key, a value outside [-1, 1], or one that the survey
            does not offer; names it, and the holding (from 1).
    """
    codes = np.zeros((len(holdings), len(survey.attributes)), np.int64)
    offered = key_values(survey)
    for row, holding in enumerate(holdings):
        for key, value in holding.items():
            if key not in survey.names:
                raise SurveyError(
                    f"unknown key {shown(key)}; the survey has {listed(survey.names, 8)}",
                    row=row + 1,
                )
            place = survey.index(key)
            if not -1 <= value <= 1:
                raise SurveyError(
                    f"value {shown(value)} is outside [-1, 1]", row=row + 1, column=key
                )
            (found,) = np.nonzero(offered[place] == value)
            if not len(found):
                categories = survey.attributes[place].categories[1:]
                raise SurveyError(
                    f"value {shown(value)} is not offered; expected one of {listed(categories, 8)}",
                    row=row + 1,
                    column=key,
                )
            codes[row, place] = found[0]
    return Records(survey, codes)


def held_survey(survey: Survey) -> Survey:
    """The same keys, each missing or held."""
    return Survey(
        survey.title,
        tuple(
            Attribute(name=name, categories=(MISSING, HELD), missing=MISSING)
            for name in survey.names
        ),
    )


def held_records(records: Records) -> Records:
    """Records of the keys that each respondent holds, without their values."""
    return Records(held_survey(records.survey), (records.codes > 0).astype(np.uint8))


def _number(category: str, key: str) -> float:
    try:
        value = float(category)
    except ValueError:
        value = math.nan
    if not -1 <= value <= 1:
        raise SurveyError(f"category {shown(category)}: expected a number in [-1, 1]", column=key)
    return value
