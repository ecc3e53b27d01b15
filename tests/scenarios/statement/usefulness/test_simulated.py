"""Tables of many surveys are as useful as is said of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from protocol.estimators.estimate import Estimate
from protocol.estimators.usefulness import GRADES, MarginOfError, margin_of_error
from protocol.surveys.records import Records
from protocol.variants import BUILT_IN
from scenarios.running.making import make_variant
from scenarios.running.tabulating import tabulate
from tests.enumeration import survey_of

SURVEY = survey_of(2, 3, 5)
SIZES = (300, 3_000, 30_000)
ASKED = ("rr-independent", "rr-joint", "smp")


def people() -> Records:
    """Answers that are not all equally common."""
    draws = np.random.default_rng(5)
    columns = [draws.binomial(size - 1, 0.35, 2_000) for size in SURVEY.sizes]
    return Records(SURVEY, np.stack(columns, axis=1).astype(SURVEY.dtype))


def judged(surveys: int) -> Iterator[tuple[MarginOfError, bool, bool]]:
    """Tables of simulated surveys: the margin, whether all shares are within it, or its step."""
    held = people()
    for seed in range(surveys):
        for name in ASKED:
            for n in SIZES:
                found = asked(name, held, n, seed)
                for table in (*found.marginals().values(), *found.pairs()):
                    margin = margin_of_error(table, "population")
                    off = np.abs(table.values - held.distribution(table.names)).max()
                    edges = [g.edge(margin.cells) for g in GRADES if g.name == margin.word]
                    yield margin, off <= margin.margin, not edges or off <= edges[0]


def asked(name: str, held: Records, n: int, seed: int) -> Estimate:
    variant = make_variant(BUILT_IN[name], SURVEY, {"epsilon": 2.0}, strict=True)
    return tabulate(variant, held, n=n, seed=seed).estimate


def as_they_say(surveys: int, least: float) -> None:
    found = list(judged(surveys))
    words = [margin.word for margin, *_ in found]
    assert {"good", "fair", "poor"} <= {*words}
    assert np.mean([within for _, within, _ in found]) >= least
    for word in ("good", "fair"):
        assert np.mean([kept for margin, _, kept in found if margin.word == word]) >= least


def test_tables_are_as_useful_as_is_said() -> None:
    as_they_say(2, 0.9)


@pytest.mark.slow
def test_tables_of_many_surveys_are_as_useful_as_is_said() -> None:
    as_they_say(25, 0.95)
