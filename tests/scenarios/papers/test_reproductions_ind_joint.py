"""The reproductions of RR-Ind-Joint: against closed forms, the live protocol and the paper."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from protocol import KeepUniform
from protocol.errors import UsageError
from protocol.estimators.independent import product_mean_squared_error
from protocol.estimators.joint import mean_squared_error
from scenarios import Context, Reproduced, Row
from scenarios.data.correlated import correlated_counts
from scenarios.papers.ind_joint import experiments as ind_joint
from scenarios.papers.ind_joint.accuracy import joint_wins
from scenarios.papers.ind_joint.experiments import CURVES, Design
from tests.scenarios.reproduced import measured, reproduce

SCENARIOS = {s.name: s for s in ind_joint.SCENARIOS}


# Section 3.3


def rows_by(done: Reproduced, *names: str) -> dict[tuple[Any, ...], Row]:
    found = {tuple(row.settings.get(name) for name in names): row for row in done.rows}
    assert len(found) == len(done.rows)
    return found


def cells(row: Row) -> list[float]:
    return [measured(row)[name] for name in ind_joint.CELLS]


def test_example_has_the_corrected_values_beside_the_printed_ones() -> None:
    done = reproduce("ind-joint-example", runs=50)
    rows = rows_by(done, "shows", "of")
    data = rows["Cramer's V", "data and stated reports"]
    assert data.measured == pytest.approx({"data": 2 / 3, "reports": 0.2})
    joint = rows["RR-Ind-Joint", "stated reports"]
    assert cells(joint) == pytest.approx([0.45, 0.05, 0.05, 0.45])
    assert measured(joint)["mae"] == pytest.approx(0.075)
    assert measured(joint)["cramers_v"] == pytest.approx(0.8)
    assert isinstance(joint.printed, dict)
    assert [joint.printed[c] for c in ind_joint.CELLS] == [0.375, 0.075, 0.275, 0.375]
    assert "rounded lambda" in joint.remark
    product = rows["RR-Ind", "stated reports"]
    assert cells(product) == pytest.approx([0.25] * 4)
    assert "product of the data's true margins" in product.remark
    # Two ways to get what is printed.
    for key in (("RR-Ind", "true margins"), ("RR-Ind-Joint", "expected reports rounded to 1/10")):
        row = rows[key]
        assert isinstance(row.printed, dict)
        assert cells(row) == pytest.approx([row.printed[c] for c in ind_joint.CELLS])
        assert measured(row)["mae"] == pytest.approx(row.printed["mae"])
    rounded = rows["RR-Ind-Joint", "expected reports rounded to 1/10"]
    assert sum(cells(rounded)) == pytest.approx(1.1)
    hundredth = rows["RR-Ind-Joint", "expected reports rounded to 1/100"]
    assert measured(hundredth)["mae"] == pytest.approx(0.01)
    # Real runs are much farther off than rounding alone.
    for n, printed in ((10, 0.05), (100, 0.01)):
        repeat = rows["RR-Ind-Joint", f"{n} parties, repeated"]
        assert repeat.printed == {"mae": printed}
        assert measured(repeat)["mae"] > 3 * printed
    assert "n = 36 on" in done.notes[-1]
    keep = KeepUniform.with_diagonal(2, diagonal=0.75)
    assert not joint_wins(ind_joint.DATA / 10, (keep, keep), 35)


# Table 1


def test_table_1_without_sampling_is_the_printed_one() -> None:
    done = reproduce("ind-joint-table-1", mode="exact", runs=7)
    assert done.runs == 1
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
    lengths = {axis: len(values) for axis, values in CURVES.values()}
    assert lengths == {"v": 11, "epsilon": 20, "n": 4, "d": 19}
    points = [row for row in done.rows if "cramers_v" in measured(row)]
    numbers = [row.settings["figure"] for row in points]
    assert numbers == [n for n in range(1, 13) for _ in CURVES.get(n, ("", (0,)))[1]]
    assert {row.settings["mode"] for row in points} == {"sampled"}
    for name in ("Figure 5", "Figure 6", "Figure 7", "Figure 8", "Figures 9 to 12"):
        (note,) = [note for note in done.notes if note.startswith(f"{name}:")]
        assert "better one" in note
    # An infinite break-even is null in JSON.
    independent = next(row for row in done.result()["rows"] if row.get("v") == 0)
    assert independent["measured"]["break_even_n"] is None


@pytest.mark.parametrize("number", CURVES)
def test_curves_are_those_of_the_closed_forms(number: int) -> None:
    axis, points = CURVES[number]
    for row, point in zip(figure(number), points, strict=True):
        values, design = measured(row), Design(**{axis: point})
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


def test_rounded_to_whole_respondents_the_error_falls_like_one_over_n() -> None:
    rows = figure(7, reading="printed")
    errors = [measured(row)["rr_ind_joint_mae"] for row in rows]
    assert errors[2] == pytest.approx(0.0108, abs=1e-4)
    assert errors[3] == pytest.approx(0.00108, abs=1e-5)


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


# By messages


def test_example_by_messages() -> None:
    done = reproduce("ind-joint-example", Context(by_messages=True))
    assert done.outcome is not None
    assert len(done.outcome.endings) == 10
    values = done.outcome.estimate.table("A", "B").values
    expected = np.mean(np.abs(values - ind_joint.DATA / 10))
    assert measured(done.rows[1])["mae"] == pytest.approx(expected)


def test_figures_by_messages() -> None:
    done = reproduce("ind-joint-figures", Context(by_messages=True), figure=4, mode="exact")
    assert done.rows[0].settings["mode"] == "sampled"
    assert all(row.standard_error for row in done.rows[1:])
    assert done.outcome is not None
    values = done.outcome.estimate.table("A", "B").values
    table = np.array([list(measured(row).values()) for row in done.rows[1:]])
    np.testing.assert_allclose(table, values, atol=1e-12)
    curve = reproduce("ind-joint-figures", Context(by_messages=True), figure=7, n=1000)
    assert curve.outcome is not None
    assert curve.outcome.records is not None
    truth = curve.outcome.records.distribution(["A", "B"])
    error = np.mean((curve.outcome.estimate.table("A", "B").values - truth) ** 2)
    assert measured(curve.rows[0])["rr_ind_joint_mse"] == pytest.approx(error)


def test_reports_by_messages_differ_among_runs() -> None:
    context = Context(by_messages=True, transport="local")
    for repeats in (1, 2):
        given = {"figure": 2, "parties": 3, "repeats": repeats}
        _, *rows = reproduce("ind-joint-figures", context, **given).rows
        errors = [figure.standard_error for row in rows for figure in row.figures()]
        assert any((error or 0) > 0 for error in errors) == (repeats > 1)


def test_adult_by_messages() -> None:
    done = reproduce("ind-joint-table-1", Context(by_messages=True), parties=20, mode="exact")
    assert done.outcome is not None
    assert len(done.outcome.endings) == 20
    truth = done.outcome.records
    assert truth is not None
    (row,) = done.rows
    assert row.settings["mode"] == "sampled"
    pair = row.settings["pair"].split(", ")
    estimate = done.outcome.estimate.table(*pair).values
    error = np.mean((estimate - truth.distribution(pair)) ** 2)
    assert measured(row)["rr_ind_joint_mse"] == pytest.approx(error)
    ages = reproduce("ind-joint-figures", Context(by_messages=True), parties=20, figure=12)
    assert ages.outcome is not None
    assert ages.outcome.variant.survey.names == ("sex", "age")


# Parameters


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
