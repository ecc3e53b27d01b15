"""The scale of usefulness: the margin of error and its steps."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from protocol import Estimated, MarginOfError, PrivKV, Table, key_survey, margin_of_error
from protocol.estimators.usefulness import GRADES, even_guess, margin_of_number, margins_of_error
from protocol.variants.keyvalue.estimate import KeyValueTables


def table_of(values: list[float], error: float) -> Table:
    cells = np.array(values)
    return Table(
        names=("a",),
        categories=(tuple(map(str, range(cells.size))),),
        values=cells,
        standard_errors=np.full(cells.shape, error),
        population_errors=np.full(cells.shape, 2 * error),
        n=1000,
    )


@pytest.mark.parametrize(
    ("cells", "margin", "word"),
    [
        (2, 0.0, "good"),
        (2, 0.03, "good"),
        (2, 0.031, "fair"),
        (2, 0.1, "fair"),
        (2, 0.101, "poor"),
        (2, 0.474, "poor"),
        (2, 0.475, "none"),
        (20, 0.0125, "good"),
        (20, 0.013, "fair"),
        (20, 0.05, "fair"),
        (20, 0.051, "poor"),
        (20, 0.3, "none"),
        (2, math.inf, "none"),
        (2, math.nan, "unknown"),
    ],
)
def test_a_word_by_the_margin_and_how_many_cells(cells: int, margin: float, word: str) -> None:
    assert MarginOfError(("a",), cells, margin).word == word


def test_the_margin_is_to_the_farther_end_of_an_interval_that_holds_with_all_others() -> None:
    found = margin_of_error(table_of([0.5, 0.5], 0.01))
    # Of two cells each is at 97.5 %.
    assert found.margin == pytest.approx(2.2414 * 0.01, abs=1e-5)
    assert margin_of_error(table_of([0.5, 0.5], 0.01), "population").margin == pytest.approx(
        2 * found.margin
    )
    # A raw share that noise has put out of range is far from every truth.
    assert margin_of_error(table_of([-0.2, 1.2], 0.05)).margin >= 0.2
    assert not margin_of_error(table_of([-0.2, 1.2], 0.05)).says_nothing
    assert margin_of_error(table_of([-0.4, 1.4], 5.0)).says_nothing
    projected = table_of([0.6, 0.4], 0.01).projected("none")
    off = replace(projected, values=np.array([0.7, 0.3]), law=projected._law())
    assert margin_of_error(off).margin == pytest.approx(0.1 + found.margin, abs=1e-4)


def test_what_is_not_said_is_of_no_use_and_an_error_that_is_not_known_is_unknown() -> None:
    table = table_of([0.5, 0.5], 0.01)
    assert margin_of_error(replace(table, values=np.full(2, np.nan))).word == "none"
    assert margin_of_error(replace(table, standard_errors=None)).word == "unknown"
    assert margin_of_error(table_of([0.5, 0.5], 0.0)).word == "good"


def test_a_number_is_judged_as_a_share_of_its_range() -> None:
    one = Estimated(40.0, 1.0, span=100.0)
    assert margin_of_number(("a",), one, "respondents").margin == pytest.approx(0.0196, abs=1e-4)
    assert margin_of_number(("a",), one.times(3), "respondents").word == "good"
    assert margin_of_number(("a",), replace(one, span=math.inf), "respondents").word == "unknown"
    assert margin_of_number(("a",), Estimated(3.0, 0.0), "respondents").word == "good"


def test_of_a_key_the_share_of_holders_and_the_mean_of_its_values_are_judged() -> None:
    asked = key_survey("keys", ["a", "b", "c"], [[-1, 0, 1]] * 3)
    # Many hold the first, few the second, and nobody reports on the third.
    counts = np.array([[[4000, 9000, 7000], [16_900, 1_560, 1_540], [0, 0, 0]]])
    randomizer = PrivKV.with_budget(3, epsilon=4.0)
    tables = KeyValueTables(
        asked=asked, randomizer=randomizer, estimator="likelihood", counts=counts
    )
    found = {(one.of, one.names[0]): one for one in margins_of_error(tables, "population")}
    assert [found["shares", name].word for name in "abc"] == ["good", "good", "none"]
    assert [found["mean", name].word for name in "abc"] == ["good", "fair", "none"]
    ends = tables.mean_intervals(about="population")
    half = max(ends.high[0] - tables.means[0], tables.means[0] - ends.low[0])
    # Its range is 2 long.
    assert found["mean", "a"].margin == pytest.approx(half / 2)
    assert math.isinf(found["mean", "c"].margin)


@pytest.mark.parametrize("cells", [2, 3, 10, 100])
def test_an_even_guess_is_within_its_margin_as_often_as_is_said(cells: int) -> None:
    tables = np.random.default_rng(cells).dirichlet(np.ones(cells), 20_000)
    off = np.abs(tables - 1 / cells).max(axis=1)
    assert 0.94 < np.mean(off <= even_guess(cells)) < 0.96
    assert even_guess(cells) > GRADES[-1].edge(cells)
