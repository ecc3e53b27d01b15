"""Reproductions of the first paper: what its tables, figures and example report."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from scipy import stats

from protocol.estimators.calibration.adjustment import AdjustedEstimate
from protocol.estimators.estimate import Estimate
from protocol.estimators.joint import JointEstimate
from protocol.messages import Message
from protocol.variants import RRIndependent
from scenarios.datasets.town import TOWN, town
from scenarios.errors import UsageError
from scenarios.report.plots import rendered
from scenarios.report.terminal.text import outcome_report
from scenarios.reproductions.rr import adjustment as rr_adjustment
from scenarios.reproductions.rr import figures as rr_figures
from scenarios.reproductions.rr import printed_tables as rr_tables
from scenarios.reproductions.rr.shared import ADJUSTED, CLUSTERS, INDEPENDENT, METHODS, RANDOMIZED
from scenarios.running.reproduction import Reproduced
from scenarios.running.scenario import Context, Finished, Scenario
from scenarios.running.simulation import simulate
from tests.scenarios.command import write_adult

# The tables


def table_1(context: Context, **given: Any) -> Reproduced:
    done = rr_tables.SCENARIOS[0].run(rr_tables.Parameters(**given), context)
    assert isinstance(done, Reproduced)
    return done


def figures(done: Reproduced) -> list[float]:
    return [figure.measured for row in done.rows for figure in row.figures()]


def test_the_transcribed_tables_are_whole() -> None:
    for printed in (rr_tables.TABLE_1, rr_tables.TABLE_2):
        assert len(printed) == 12
        assert {len(errors) for errors in printed.values()} == {3}
    # Every cell falls with six times as many records.
    fallen = [
        small < large
        for key, errors in rr_tables.TABLE_2.items()
        for small, large in zip(errors, rr_tables.TABLE_1[key], strict=True)
    ]
    assert all(fallen)
    assert sum(map(sum, rr_tables.TABLE_1.values())) == pytest.approx(8.729)
    assert sum(map(sum, rr_tables.TABLE_2.values())) == pytest.approx(6.554)


def test_a_table_reports_every_setting(tmp_path: Path) -> None:
    write_adult(tmp_path)
    told: list[tuple[int, int]] = []
    context = Context(data=tmp_path, progress=lambda done, total: told.append((done, total)))
    done = table_1(context, runs=30)
    assert told == [(place, 36) for place in range(1, 37)]
    assert (done.reproduction, done.runs) == ("rr-table-1", 30)
    row = done.result()["rows"][0]
    assert {key: row[key] for key in ("p", "td", "tv", "printed")} == {
        "p": 0.1,
        "td": 0.1,
        "tv": 50,
        "printed": 0.335,
    }
    assert row["standard_error"] > 0
    assert [row.settings["tv"] for row in done.rows[:4]] == [50, 100, 300, 50]
    json.dumps(done.result(), allow_nan=False)
    assert all(bool(row.remark) == row.figures()[0].differs for row in done.rows)
    assert figures(table_1(context, runs=30)) == figures(done)
    assert figures(table_1(Context(data=tmp_path, seed=2), runs=30)) != figures(done)


def test_a_part_of_a_table_has_the_numbers_of_the_whole(tmp_path: Path) -> None:
    write_adult(tmp_path)
    context = Context(data=tmp_path)
    whole = {tuple(row.settings.values()): row for row in table_1(context, runs=5).rows}
    part = table_1(context, runs=5, p=0.5, tv=100)
    assert [tuple(row.settings.values()) for row in part.rows] == [
        (0.5, td, 100) for td in (0.1, 0.2, 0.3)
    ]
    assert all(whole[tuple(row.settings.values())] == row for row in part.rows)
    with pytest.raises(UsageError, match=r"'td' = 0.4: the table has 0.1, 0.2, 0.3"):
        table_1(context, td=0.4)


def test_table_1_on_adult() -> None:
    """Where errors come from independence between clusters, 200 runs say enough."""
    done = table_1(Context(), runs=200, p=0.7)
    assert any("replicates" in note for note in done.notes)
    assert sum("clusters {" in note for note in done.notes) == 3
    by_tv = {tv: [r.figures()[0] for r in done.rows if r.settings["tv"] == tv] for tv in (50, 300)}
    assert all(0.08 < figure.measured < 0.14 for figure in by_tv[50])
    assert all(0.045 < figure.measured < 0.085 for figure in by_tv[300])
    low = table_1(Context(), runs=200, p=0.1, tv=300)
    assert all(0.28 < value < 0.45 for value in figures(low))
    assert {row.remark for row in low.rows} == {
        "the printed errors for p <= 0.5 are larger than the paper's own matrices give"
    }


def test_a_table_by_messages_is_one_setting_through_live_parties(tmp_path: Path) -> None:
    records = write_adult(tmp_path)
    done = table_1(Context(data=tmp_path, by_messages=True), runs=200, parties=5, p=0.5, tv=100)
    assert done.runs == 1
    assert done.outcome is not None
    assert done.outcome.variant.name == "rr-clusters"
    assert (done.outcome.counted, done.outcome.records) == (5, records)
    (row,) = done.rows
    assert row.settings == {"p": 0.5, "td": 0.1, "tv": 100}
    assert isinstance(row.standard_error, float)
    assert math.isnan(row.standard_error)
    first = table_1(Context(data=tmp_path, by_messages=True), runs=5, parties=5).rows[0]
    assert first.settings == {"p": 0.7, "td": 0.1, "tv": 50}
    # What is measured by messages is in the law of what is drawn.
    drawn = table_1(Context(data=tmp_path), runs=300, p=0.5, tv=100).rows[0]
    assert row.figures()[0].measured == pytest.approx(drawn.figures()[0].measured, rel=0.3)


# The figures


def run_figure(place: int, context: Context, runs: int) -> Reproduced:
    scenario: Scenario[Any] = rr_figures.SCENARIOS[place - 1]
    done = scenario.run(scenario.configure({"runs": runs}), context)
    assert isinstance(done, Reproduced)
    assert done.reproduction == scenario.name == f"rr-figure-{place}"
    assert all(row.printed is None for row in done.rows)
    json.dumps(done.result(), allow_nan=False)
    return done


def test_figure_1_is_the_root_of_a_quantile() -> None:
    done = run_figure(1, Context(), 1)
    expected = [math.sqrt(stats.chi2.isf(0.05 / r, 1)) for r in rr_figures.CATEGORIES]
    assert figures(done) == pytest.approx(expected, rel=1e-9)
    assert any("from 2 on" in note for note in done.notes)


def test_figure_2_has_both_methods_and_errors_at_every_coverage(tmp_path: Path) -> None:
    write_adult(tmp_path)
    done = run_figure(2, Context(data=tmp_path), 300)
    found = {(r.settings["method"], r.settings["sigma"]): r.measured for r in done.rows}
    assert list(found) == [
        (method, sigma) for method in (RANDOMIZED, INDEPENDENT) for sigma in rr_figures.SIGMAS
    ]
    heard = run_figure(2, Context(data=tmp_path, by_messages=True), 300)
    assert heard.outcome is not None
    assert heard.outcome.counted == 400
    assert heard.runs == 1
    assert {row.standard_error for row in heard.rows} == {None}


def test_figure_2_on_adult() -> None:
    done = run_figure(2, Context(), 200)
    found: dict[Any, Any] = {
        (row.settings["method"], row.settings["sigma"]): row.measured for row in done.rows
    }
    for sigma in rr_figures.SIGMAS:
        for error in ("absolute error", "relative error"):
            assert found[INDEPENDENT, sigma][error] < 0.6 * found[RANDOMIZED, sigma][error]
    assert found[RANDOMIZED, 0.1]["relative error"] == pytest.approx(0.31, abs=0.08)
    assert found[INDEPENDENT, 0.1]["relative error"] == pytest.approx(0.135, abs=0.04)


def test_figure_3_has_every_method_at_every_p_and_coverage(tmp_path: Path) -> None:
    write_adult(tmp_path)
    told: list[tuple[int, int]] = []
    context = Context(data=tmp_path, progress=lambda done, total: told.append((done, total)))
    done = run_figure(3, context, 2)
    assert told == [(place, 8) for place in range(9)]
    assert len(done.rows) == 4 * 5 * 9
    assert {row.settings["method"] for row in done.rows} == set(METHODS)
    assert figures(run_figure(3, context, 2)) == figures(done)
    heard = run_figure(3, Context(data=tmp_path, by_messages=True), 2)
    assert heard.outcome is not None
    assert heard.outcome.variant.name == "rr-clusters"
    assert {row.settings["method"] for row in heard.rows} == {CLUSTERS, CLUSTERS + ADJUSTED}


def test_figure_3_takes_the_best_thresholds_of_table_1() -> None:
    found = [rr_figures.best_thresholds(p) for p in rr_figures.FIGURE_3_P]
    assert found == [(50, 0.3), (50, 0.3), (50, 0.1), (100, 0.3)]


@pytest.mark.slow
def test_figure_3_on_adult_agrees_with_the_law_of_counts() -> None:
    done = run_figure(3, Context(), 40)
    measured = {
        (row.settings["p"], row.settings["method"]): row.figures()[0]
        for row in done.rows
        if row.settings["sigma"] == 0.1
    }
    drawn = {row.settings["p"]: row.figures()[0] for row in table_1(Context(), tv=50, td=0.1).rows}
    for p in (0.1, 0.3, 0.5):
        whole, law = measured[p, CLUSTERS], drawn[p]
        assert whole.standard_error is not None
        assert law.standard_error is not None
        error = math.hypot(whole.standard_error, law.standard_error)
        assert abs(whole.measured - law.measured) < 6 * error
    # Section 6.5: for larger p adjustment helps, wherever it is plugged in.
    for method in (INDEPENDENT, CLUSTERS):
        assert measured[0.7, method + ADJUSTED].measured < 0.8 * measured[0.7, method].measured


# The example


def test_the_example_reports_what_the_paper_prints_and_how_slowly_it_comes() -> None:
    (scenario,) = rr_adjustment.SCENARIOS
    done = scenario.run(scenario.configure({}), Context())
    assert isinstance(done, Reproduced)
    first, *middle, last = done.rows
    assert not any(figure.differs for row in (first, last) for figure in row.figures())
    for row, sweeps in zip(middle, rr_adjustment.SWEEPS, strict=True):
        found = {figure.name: figure.measured for figure in row.figures()}
        assert found["margin error"] == pytest.approx(1 / (4 * sweeps + 4), rel=1e-9)
        assert found["Pr(a2, b1)"] == pytest.approx(1 / (4 * sweeps + 4), rel=1e-9)
        assert found["Pr(a1, b1)"] + found["Pr(a2, b1)"] == pytest.approx(0.5)
    few = scenario.run(scenario.configure({"sweeps": 10}), Context())
    assert len(few.rows) == 4
    json.dumps(done.result(), allow_nan=False)


@pytest.mark.parametrize("scenario", [rr_adjustment.SCENARIOS[0], rr_figures.SCENARIOS[0]])
def test_what_sends_nothing_cannot_run_by_messages(scenario: Any) -> None:
    with pytest.raises(UsageError, match="nothing is sent"):
        scenario.run(scenario.configure({}), Context(by_messages=True))


def test_tables_and_figures_draw_themselves(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    write_adult(tmp_path)
    context = Context(data=tmp_path)
    done = [table_1(context, runs=5), *(run_figure(place, context, 2) for place in (1, 2, 3))]
    for one in done:
        assert one.plot is not None
        drawn = rendered(one.plot, ".svg").decode()
        assert drawn.startswith("<?xml")


# Estimates without standard errors in the reports


class AdjustedReports(RRIndependent, frozen=True):
    """RR-Independent, estimated by RR-Adjustment."""

    name = "adjusted-reports"

    def estimate(self, result: Message) -> Estimate:
        joint = super().estimate(result)
        assert isinstance(joint, JointEstimate)
        return AdjustedEstimate.of(joint)


def test_an_outcome_reports_an_estimate_without_standard_errors() -> None:
    outcome = simulate(AdjustedReports.with_keep(TOWN, 0.6), town(200, seed=1))
    summary = outcome.summary()
    assert set(summary["estimate"]["standard_errors"].values()) == {None}
    json.dumps(summary, allow_nan=False)
    console = Console(record=True, width=120, file=io.StringIO())
    for part in outcome_report("town", Finished(outcome=outcome)):
        console.print(part)
    said = console.export_text()
    assert said.count(" unknown │") == 13
    assert "or where the error of the estimate is not known" in " ".join(said.split())
    assert outcome._repr_html_()
