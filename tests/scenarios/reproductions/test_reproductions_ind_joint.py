"""The reproductions of RR-Ind-Joint: against closed forms, the live protocol and the paper."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from protocol.estimators.independent import product_mean_squared_error
from protocol.estimators.joint import mean_squared_error
from protocol.randomizers import KeepUniform
from scenarios.datasets.correlated import correlated_counts
from scenarios.errors import UsageError
from scenarios.reproductions.ind_joint import example as ind_joint
from scenarios.reproductions.ind_joint import figures as ind_joint_figures
from scenarios.reproductions.ind_joint.accuracy import joint_wins
from scenarios.reproductions.ind_joint.curves import CURVES, Design
from scenarios.running.reproduction import Reproduced, Row
from scenarios.running.scenario import Context
from tests.scenarios.reproduced import measured, reproduce

SCENARIOS = {s.name: s for s in (*ind_joint.SCENARIOS, *ind_joint_figures.SCENARIOS)}


# Section 3.3


def rows_by(done: Reproduced, *names: str) -> dict[tuple[Any, ...], Row]:
    found = {tuple(row.settings.get(name) for name in names): row for row in done.rows}
    assert len(found) == len(done.rows)
    return found


def cells(row: Row) -> list[float]:
    return [measured(row)[name] for name in ind_joint.CELLS]


def test_example_has_the_corrected_values_beside_the_printed_ones() -> None:
    done = reproduce("ind-joint-example", runs=50)
    rows = rows_by(done, "shows", "of", "n")
    data = rows["Cramer's V", "data and stated reports", None]
    assert data.measured == pytest.approx({"data": 2 / 3, "reports": 0.2})
    joint = rows["RR-Ind-Joint", "stated reports", None]
    assert cells(joint) == pytest.approx([0.45, 0.05, 0.05, 0.45])
    assert measured(joint)["mae"] == pytest.approx(0.075)
    assert measured(joint)["cramers_v"] == pytest.approx(0.8)
    assert isinstance(joint.printed, dict)
    assert [joint.printed[c] for c in ind_joint.CELLS] == [0.375, 0.075, 0.275, 0.375]
    assert "rounded lambda" in joint.remark
    product = rows["RR-Ind", "stated reports", None]
    assert cells(product) == pytest.approx([0.25] * 4)
    assert "product of the data's true margins" in product.remark
    # Two ways to get what is printed.
    for key in (("RR-Ind", "true margins"), ("RR-Ind-Joint", "expected reports rounded to 1/10")):
        row = rows[(*key, None)]
        assert isinstance(row.printed, dict)
        assert cells(row) == pytest.approx([row.printed[c] for c in ind_joint.CELLS])
        assert measured(row)["mae"] == pytest.approx(row.printed["mae"])
    rounded = rows["RR-Ind-Joint", "expected reports rounded to 1/10", None]
    assert sum(cells(rounded)) == pytest.approx(1.1)
    hundredth = rows["RR-Ind-Joint", "expected reports rounded to 1/100", None]
    assert measured(hundredth)["mae"] == pytest.approx(0.01)
    # Real runs are much farther off than rounding alone.
    for n, printed in ((10, 0.05), (100, 0.01)):
        repeat = rows["RR-Ind-Joint", "repeats", n]
        assert repeat.printed == {"mae": printed}
        assert measured(repeat)["mae"] > 3 * printed
    assert "n = 36 on" in done.notes[-1]
    keep = KeepUniform.with_diagonal(2, diagonal=0.75)
    assert not joint_wins(ind_joint.DATA / 10, (keep, keep), 35)


# Table 1


def test_table_1_without_sampling_is_the_printed_one() -> None:
    done = reproduce("ind-joint-table-1", mode="exact", runs=7)
    assert done.runs == 1
    assert "exact" in done.notes[0]
    for row in done.rows:
        assert isinstance(row.printed, dict)
        assert row.settings["mode"] == "exact"
        assert row.standard_error is None
        assert measured(row)["cramers_v"] == pytest.approx(row.printed["cramers_v"], abs=5e-8)
        # The paper cuts its last digit.
        assert 0 <= measured(row)["rr_ind_mse"] / row.printed["rr_ind_mse"] - 1 < 0.01
        assert measured(row)["rr_ind_joint_mse"] < 1e-31
        assert "round-off" in row.remark
    assert [row.settings["d"] for row in done.rows] == [[2, 2], [2, 5], [16, 15]]


def test_table_1_with_sampling_has_the_error_of_a_run() -> None:
    done = reproduce("ind-joint-table-1", runs=200)
    assert done.runs == 200
    assert "sampled" in done.notes[0]
    found = []
    for row in done.rows:
        values, errors = measured(row), row.standard_error
        assert isinstance(errors, dict)
        pair = [KeepUniform.with_keep(size, p=0.5) for size in row.settings["d"]]
        z = values["rr_ind_joint_mse"] - mean_squared_error(pair, 32_561)
        assert abs(z) < 6 * errors["rr_ind_joint_mse"]
        assert values["rr_ind_joint_mse"] < values["rr_ind_mse"]
        found.append(values["break_even_n"])
    assert found == [458, 4573, 2460]


# Figures


def figure(number: int, *, seed: int = 1, **given: Any) -> list[Row]:
    context = Context(seed=seed)
    return list(reproduce("ind-joint-figures", context, figure=number, runs=20, **given).rows)


def test_all_figures_are_there() -> None:
    done = reproduce("ind-joint-figures", runs=3)
    numbers = [row.settings["figure"] for row in done.rows]
    lengths = {5: 11, 6: 20, 7: 4, 8: 19}
    assert numbers == [n for n in range(1, 13) for _ in range(lengths.get(n, 1))]
    assert {row.settings["mode"] for row in done.rows} == {"sampled"}
    for name in ("Figures 1 to 4", *(f"Figure {n}" for n in lengths), "Figures 9 to 12"):
        (note,) = [note for note in done.notes if note.startswith(f"{name}:")]
        assert "better one" in note
    for row in done.rows:
        assert row.printed is None
    # An infinite break-even is null in JSON.
    independent = next(row for row in done.result()["rows"] if row.get("v") == 0)
    assert independent["measured"]["break_even_n"] is None
    json.dumps(done.result(), allow_nan=False)


def test_numbers_of_a_figure_depend_on_the_seed_alone() -> None:
    assert figure(6) == figure(6)
    assert [row.measured for row in figure(6)] != [row.measured for row in figure(6, seed=2)]
    # The design that all figures share is run anew in each.
    points = [
        measured(row)["rr_ind_joint_mse"]
        for number in CURVES
        for row in figure(number)
        if row.settings.items() >= Design().settings.items()
    ]
    assert len(set(points)) == len(points) == 4


def test_grids_are_those_of_the_paper() -> None:
    grids = {axis: [design.settings[axis] for design in points] for axis, points in CURVES.values()}
    assert grids["v"] == pytest.approx(np.arange(11) / 10)
    assert grids["epsilon"] == pytest.approx(np.arange(1, 21) / 10)
    assert grids["n"] == [10, 100, 1000, 10_000]
    assert grids["d"] == list(range(2, 21))
    assert Design().settings == {"n": 1000, "d": 10, "v": 0.5, "epsilon": 1.0}


@pytest.mark.parametrize("number", CURVES)
def test_curves_are_those_of_the_closed_forms(number: int) -> None:
    for row, design in zip(figure(number), CURVES[number][1], strict=True):
        values, errors = measured(row), row.standard_error
        assert isinstance(errors, dict)
        assert {name: row.settings[name] for name in design.settings} == design.settings
        truth = correlated_counts(design.n, d=design.d, v=design.v) / design.n
        product = product_mean_squared_error(truth, design.keeps, design.n).total
        joint = mean_squared_error(design.keeps, design.n)
        # Twenty runs: nearly the right size, which a curve of another design is not.
        assert 0.5 < values["rr_ind_joint_mse"] / joint < 2
        assert 0.4 < values["rr_ind_mse"] / product < 2.5
        wins = joint_wins(design.truth, design.keeps, design.n)
        assert wins == (values["break_even_n"] <= design.n)


def test_exact_curves_are_the_bias_alone() -> None:
    rows = figure(5, mode="exact")
    errors = [measured(row)["rr_ind_mae"] for row in rows]
    vs = np.array([row.settings["v"] for row in rows])
    # "MAE is proportional to V."
    np.testing.assert_allclose(errors, vs * errors[-1], atol=1e-15)
    for row in rows:
        assert measured(row)["cramers_v"] == pytest.approx(row.settings["v"], abs=1e-7)
        assert measured(row)["rr_ind_joint_mae"] < 1e-15
        assert row.standard_error is None
    assert "exact" in reproduce("ind-joint-figures", figure=5, mode="exact").notes[0]


def test_rounded_data_with_another_v_are_remarked_on() -> None:
    rows = figure(7)
    assert [bool(row.remark) for row in rows] == [True, True, False, False]
    assert measured(rows[0])["cramers_v"] == pytest.approx(1)


def test_one_table_alone_has_its_cells() -> None:
    summary, *rows = figure(4)
    assert len(rows) == 10
    table = np.array([list(measured(row).values()) for row in rows])
    assert table.sum() == pytest.approx(1)
    assert table.min() < 0
    for row in rows:
        assert isinstance(row.standard_error, dict)
        assert set(row.standard_error) == set(measured(row))
    # The summary is of all runs, the cells of the first.
    assert measured(summary)["mse"] == pytest.approx(
        mean_squared_error(Design().keeps, 1000), rel=0.3
    )
    errors = np.array([list(row.standard_error.values()) for row in rows])
    assert np.mean(errors**2) == pytest.approx(mean_squared_error(Design().keeps, 1000), rel=0.1)
    data, *true = figure(1)
    table = np.array([list(measured(row).values()) for row in true])
    np.testing.assert_allclose(table, correlated_counts(1000, d=10, v=0.5) / 1000)
    assert data.measured == pytest.approx({"cramers_v": 0.5007, "mse": 0, "mae": 0}, abs=1e-4)


def test_figures_of_adult_with_age() -> None:
    data, *true = figure(9)
    assert data.settings["attributes"] == ["sex", "age"]
    table = np.array([list(measured(row).values()) for row in true])
    assert [row.settings["sex"] for row in true] == ["Female", "Male"]
    assert np.rint(table * 32_561).astype(int).tolist() == [
        [810, 5752, 3388, 783, 38],
        [847, 10915, 8205, 1740, 83],
    ]
    bias = measured(figure(11)[0])["mse"]
    assert measured(figure(12)[0])["mse"] < bias


# One run by messages


def test_example_by_messages() -> None:
    done = reproduce("ind-joint-example", Context(by_messages=True))
    assert done.runs == 1
    assert done.outcome is not None
    assert len(done.outcome.endings) == 10
    (row,) = [r for r in done.rows if r.settings["of"] == "repeats" and r.printed]
    values = done.outcome.estimate.table("A", "B").values
    expected = np.mean(np.abs(values - ind_joint.DATA / 10))
    assert measured(row)["mae"] == pytest.approx(expected)
    assert isinstance(row.standard_error, dict)
    assert all(math.isnan(error) for error in row.standard_error.values())


def test_figures_by_messages() -> None:
    done = reproduce("ind-joint-figures", Context(by_messages=True), figure=4, mode="exact")
    assert "sampled" in done.notes[0]
    assert done.rows[0].settings["mode"] == "sampled"
    assert all(row.standard_error for row in done.rows[1:])
    assert done.outcome is not None
    assert done.runs == 1
    assert len(done.outcome.endings) == 1000
    values = done.outcome.estimate.table("A", "B").values
    table = np.array([list(measured(row).values()) for row in done.rows[1:]])
    np.testing.assert_allclose(table, values, atol=1e-12)
    (point,) = reproduce("ind-joint-figures", Context(by_messages=True), figure=7).rows
    assert measured(point)["rr_ind_joint_mse"] == pytest.approx(measured(done.rows[0])["mse"])
    together = reproduce("ind-joint-figures", Context(by_messages=True))
    assert [row.settings["figure"] for row in together.rows] == [1, 2, 3, 4]


def test_adult_by_messages() -> None:
    done = reproduce("ind-joint-table-1", Context(by_messages=True), parties=20, mode="exact")
    assert done.runs == 1
    assert done.outcome is not None
    assert len(done.outcome.endings) == 20
    truth = done.outcome.records
    assert truth is not None
    for row, pair in zip(done.rows, ind_joint.PAIRS, strict=True):
        assert row.settings["mode"] == "sampled"
        estimate = done.outcome.estimate.table(*pair).values
        error = np.mean((estimate - truth.distribution(pair)) ** 2)
        assert measured(row)["rr_ind_joint_mse"] == pytest.approx(error)
    ages = reproduce("ind-joint-figures", Context(by_messages=True), parties=20, figure=12)
    assert ages.outcome is not None
    assert ages.outcome.variant.survey.names == ("sex", "age")
    with pytest.raises(UsageError, match="more than the 32561 records"):
        reproduce("ind-joint-table-1", Context(by_messages=True), parties=40_000)


# Parameters and pictures


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("ind-joint-figures", {"figure": 13}),
        ("ind-joint-figures", {"figure": 0}),
        ("ind-joint-figures", {"mode": "rounded"}),
        ("ind-joint-table-1", {"p": 1}),
        ("ind-joint-example", {"runs": 0}),
    ],
)
def test_parameters_are_checked(name: str, given: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="parameter"):
        SCENARIOS[name].configure(given)


DRAWN = [
    pytest.param("ind-joint-example", {}, 6, id="example"),
    pytest.param("ind-joint-table-1", {}, 1, id="table"),
    # Panels, and a scale beside each heat map.
    pytest.param("ind-joint-figures", {}, 12 + 4, id="figures"),
    pytest.param("ind-joint-figures", {"figure": 8, "mode": "exact"}, 1, id="curve"),
]


@pytest.mark.parametrize(("name", "given", "panels"), DRAWN)
def test_pictures_are_drawn_and_labelled(name: str, given: dict[str, Any], panels: int) -> None:
    done = reproduce(name, **given, runs=2)
    assert done.plot is not None
    picture = Figure()
    done.plot(picture)
    picture.draw_without_rendering()
    assert len(picture.axes) == panels
    for axes in picture.axes:
        if axes.get_visible():
            assert axes.get_xlabel() or axes.get_ylabel()


def test_break_even_is_marked_where_something_is_sampled() -> None:
    for mode, lines in (("sampled", 1), ("exact", 0)):
        picture = Figure()
        done = reproduce("ind-joint-figures", figure=7, mode=mode, runs=2)
        assert done.plot is not None
        done.plot(picture)
        labels = [line.get_label() for line in picture.axes[0].get_lines()]
        assert labels.count("equal squared error") == lines
