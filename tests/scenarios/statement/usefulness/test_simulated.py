"""Tables of many surveys are as useful as is said of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np
import pytest

from protocol import Attribute, Estimate, MarginOfError, Records, Survey, key_survey
from protocol.estimators.usefulness import GRADES, margins_of_error
from protocol.variants import BUILT_IN
from scenarios import tabulate
from scenarios.keyvalue import true_figures
from scenarios.running.making import make_variant
from tests.enumeration import survey_of

SURVEY = survey_of(2, 3, 5)
NUMBERS = Survey(
    "numbers",
    tuple(Attribute(name=name, categories=tuple("01234"), ordinal=True) for name in "ab"),
)
KEYS = key_survey("keys", ["a", "b"], [[-1, 0, 1]] * 2)
SIZES = (300, 3_000, 30_000)
ASKED: tuple[tuple[str, Survey, Mapping[str, Any]], ...] = (
    ("rr-independent", SURVEY, {"epsilon": 2.0}),
    ("rr-joint", SURVEY, {"epsilon": 2.0}),
    ("smp", SURVEY, {"epsilon": 2.0}),
)
COUNTED: tuple[tuple[str, Survey, Mapping[str, Any]], ...] = (
    ("secure-sum", SURVEY, {"noise": "coins", "epsilon": 0.3, "parties": 300}),
    ("pair-counts", SURVEY, {"noise": "coins", "epsilon": 0.3, "parties": 300}),
)
MEANS: tuple[tuple[str, Survey, Mapping[str, Any]], ...] = (
    ("numeric-mean", NUMBERS, {"epsilon": 1.0, "mechanism": "one-bit"}),
    ("numeric-mean", NUMBERS, {"epsilon": 1.0, "mechanism": "piecewise"}),
    ("privkv", KEYS, {"epsilon": 3.0}),
)


class Judged(NamedTuple):
    """What was found of a table or a mean of a simulated survey.

    Args:
        margin: its margin of error.
        within: all of its figures are within the margin.
        kept: they are within the end of its step.
    """

    margin: MarginOfError
    within: bool
    kept: bool


def people(survey: Survey) -> Records:
    """Answers that are not all equally common."""
    draws = np.random.default_rng(5)
    columns = [draws.binomial(size - 1, 0.35, 2_000) for size in survey.sizes]
    return Records(survey, np.stack(columns, axis=1).astype(survey.dtype))


def judged(
    asked: Iterable[tuple[str, Survey, Mapping[str, Any]]], surveys: int
) -> Iterator[Judged]:
    """Tables and means of simulated surveys."""
    for name, survey, parameters in asked:
        held = people(survey)
        variant = make_variant(BUILT_IN[name], survey, parameters, strict=True)
        for seed, n in product(range(surveys), SIZES):
            found = tabulate(variant, held, n=n, seed=seed).estimate
            margins = margins_of_error(found, "population", tables=combinations(survey.names, 2))
            for margin in margins:
                off = farthest(found, margin, held)
                edges = [g.edge(margin.cells) for g in GRADES if g.name == margin.word]
                yield Judged(margin, off <= margin.margin, not edges or off <= edges[0])


def farthest(found: Estimate, margin: MarginOfError, held: Records) -> float:
    """By how much what is judged is off, as a share."""
    if margin.of == "shares":
        table = found.table(*margin.names)
        truth = found.recoded(held).distribution(margin.names)
        return float(np.abs(table.values - truth).max())
    (name,) = margin.names
    if found.keyed is not None:
        place = found.survey.index(name)
        return abs(found.keyed.means[place] - true_figures(held)[1][place]) / 2
    mean = found.attribute_means()[name]
    return abs(mean.value - found.true_means(held)[name]) / mean.span


def as_they_say(
    asked: Iterable[tuple[str, Survey, Mapping[str, Any]]], surveys: int, least: float
) -> None:
    found = list(judged(asked, surveys))
    assert {"good", "fair", "poor"} <= {one.margin.word for one in found}
    for of in {one.margin.of for one in found}:
        assert np.mean([one.within for one in found if one.margin.of == of]) >= least
    for word in ("good", "fair"):
        assert np.mean([one.kept for one in found if one.margin.word == word]) >= least


@pytest.mark.parametrize("asked", [ASKED, COUNTED, MEANS])
def test_tables_and_means_are_as_useful_as_is_said(
    asked: tuple[tuple[str, Survey, Mapping[str, Any]], ...],
) -> None:
    as_they_say(asked, 2, 0.85)


@pytest.mark.slow
@pytest.mark.parametrize(("asked", "surveys"), [(ASKED, 25), (COUNTED, 40), (MEANS, 40)])
def test_of_many_surveys_they_are_as_useful_as_is_said(
    asked: tuple[tuple[str, Survey, Mapping[str, Any]], ...], surveys: int
) -> None:
    as_they_say(asked, surveys, 0.95)
