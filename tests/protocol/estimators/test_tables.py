"""Tables of estimates: rows, projections, and how they are shown."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow
import pytest

from protocol import Block, Counts, JointReports, LinearEstimate, Table
from protocol.estimators.inference.laws import About
from tests.enumeration import keep, survey_of


def small_table() -> Table:
    return Table(
        names=("sex", "<b>"),
        categories=(("f", "m"), ("x & y", "z")),
        values=np.array([[0.7, 0.4], [-0.1, 0.0]]),
        standard_errors=np.full((2, 2), 0.05),
        population_errors=np.full((2, 2), 0.06),
        n=20,
    )


def test_rows_of_a_table() -> None:
    rows = small_table().rows()
    assert len(rows) == 4
    half = NormalDist().inv_cdf(0.975) * 0.05
    expected = {"value": 0.4, "standard_error": 0.05, "low": 0.4 - half, "high": 0.4 + half}
    assert rows[1] == pytest.approx({"sex": "f", "<b>": "z", **expected})
    assert [row["value"] for row in rows] == [0.7, 0.4, -0.1, 0.0]


def test_the_ends_in_rows_are_those_of_the_level_and_the_subject() -> None:
    table = small_table()
    asked: list[tuple[float, About]] = [
        (0.5, "respondents"),
        (0.99, "respondents"),
        (0.99, "population"),
    ]
    for level, about in asked:
        low, high = table.interval(level, about)
        rows = table.rows(level, about)
        assert [row["low"] for row in rows] == low.ravel().tolist()
        assert [row["high"] for row in rows] == high.ravel().tolist()
    unknown = replace(table, standard_errors=None).rows()
    assert {(row["standard_error"], row["low"], row["high"]) for row in unknown} == {(None,) * 3}
    with pytest.raises(ValueError, match="level"):
        table.rows(1.5)


def test_the_columns_of_a_table() -> None:
    table = small_table()
    found = table.columns(0.9, "population")
    assert {name: column.tolist() for name, column in found.items()} == {
        "sex": ["f", "f", "m", "m"],
        "<b>": ["x & y", "z", "x & y", "z"],
        "value": [0.7, 0.4, -0.1, 0.0],
        "standard_error": [0.06] * 4,
        "low": table.interval(0.9, "population").low.ravel().tolist(),
        "high": table.interval(0.9, "population").high.ravel().tolist(),
    }
    found["value"][0] = 1.0
    assert table.values[0, 0] == 0.7


def frames() -> list[tuple[Callable[[Any], Any], Callable[[Any, str], list[Any]]]]:
    return [
        (pandas.DataFrame, lambda frame, name: frame[name].tolist()),
        (polars.DataFrame, lambda frame, name: frame[name].to_list()),
        (pyarrow.table, lambda frame, name: frame[name].to_pylist()),
    ]


@pytest.mark.parametrize(("make", "column"), frames(), ids=["pandas", "polars", "pyarrow"])
def test_frames_take_the_columns_as_they_are(
    make: Callable[[Any], Any], column: Callable[[Any, str], list[Any]]
) -> None:
    table = replace(small_table(), standard_errors=None)
    frame = make(table.columns())
    assert frame.shape == (4, 6)
    assert column(frame, "sex") == ["f", "f", "m", "m"]
    assert {type(text) for text in column(frame, "<b>")} == {str}
    assert column(frame, "value") == table.values.ravel().tolist()
    for name in ("standard_error", "low", "high"):
        assert all(math.isnan(number) for number in column(frame, name))


def test_projected_tables_keep_the_errors_of_the_raw_values() -> None:
    raw = small_table()
    clipped, nearest = raw.projected("clip"), raw.projected("simplex")
    assert (raw.projection, clipped.projection, nearest.projection) == ("none", "clip", "simplex")
    np.testing.assert_allclose(clipped.values, [[7 / 11, 4 / 11], [0, 0]])
    np.testing.assert_allclose(nearest.values, [[0.65, 0.35], [0, 0]])
    assert raw.values[1, 0] == -0.1
    np.testing.assert_array_equal(clipped.standard_errors, raw.standard_errors)
    np.testing.assert_array_equal(nearest.population_errors, raw.population_errors)
    assert clipped.projected("clip") is clipped
    with pytest.raises(ValueError, match="already projected"):
        clipped.projected("simplex")
    with pytest.raises(ValueError, match="expected 'none'"):
        raw.projected("euclid")


def test_tables_are_short_in_text_and_escaped_in_html() -> None:
    table = small_table()
    assert repr(table) == "<Table: sex[2] x <b>[2], n=20, projection=none>"
    shown = table._repr_html_()
    assert "&lt;b&gt;" in shown
    assert "<b>" not in shown
    assert "x &amp; y" in shown
    assert shown.count("<tr>") == 5
    assert "<th>95 % interval</th>" in shown
    assert "<td>0.400000</td><td>[0.302002, 0.497998]</td>" in shown
    assert "95 % intervals about the respondents: they allow for randomization alone" in shown
    assert "lies outside its interval" in shown


def test_html_of_a_large_table_is_cut() -> None:
    estimate = LinearEstimate(
        JointReports(
            survey_of(200),
            (Block(("a",), keep(200, 0.5)),),
            Counts.of(np.zeros((1, 1), np.uint8), (200,)),
        )
    )
    shown = estimate.table("a")._repr_html_()
    assert shown.count("<tr>") == 61
    assert "<p>and 140 more rows</p>" in shown


def test_an_estimate_shows_the_first_shares_of_all_its_attributes() -> None:
    survey = survey_of(2, 3, 100, 4)
    blocks = tuple(
        Block((name,), keep(size, 0.5))
        for name, size in zip(survey.names, survey.sizes, strict=True)
    )
    estimate = LinearEstimate(
        JointReports(survey, blocks, Counts.of(np.zeros((5, 4), np.uint8), survey.sizes))
    )
    shown = estimate._repr_html_()
    assert shown.count("<tr>") == 61
    assert "<p>and 49 more rows</p>" in shown
    names = re.findall("<tr><td>(.)</td>", shown)
    assert [names.count(name) for name in survey.names] == [2, 3, 55, 0]
    share = estimate.table("b").values[2]
    assert f"<td>{survey.attribute('b').categories[2]}</td><td>{share:.6f}</td>" in shown
    assert "&lt;LinearEstimate from &lt;JointReports: n=5, 4 blocks&gt;&gt;" in shown


def test_tables_are_consistent_and_read_only() -> None:
    table = small_table()
    with pytest.raises(ValueError, match="read-only"):
        table.values[0, 0] = 1
    square = np.zeros((2, 2))
    with pytest.raises(ValueError, match="shape"):
        Table(
            names=("a", "b"),
            categories=(("x", "y"), ("x", "y", "z")),
            values=square,
            standard_errors=square,
            population_errors=square,
            n=1,
        )


def test_a_table_whose_attribute_is_named_like_a_column_has_no_rows() -> None:
    line = np.array([0.5, 0.5])
    table = Table(
        names=("value",),
        categories=(("x", "y"),),
        values=line,
        standard_errors=line,
        population_errors=line,
        n=1,
    )
    for asked in (table.rows, table.columns):
        with pytest.raises(ValueError, match="'value'"):
            asked()
