"""Reproductions of the first paper: what its tables, figures and example report."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path

import pytest
from rich.console import Console
from scipy import stats

from protocol import AdjustedEstimate, Estimate, JointReports, Message
from protocol.errors import UsageError
from protocol.variants import RRIndependent
from scenarios import Context, Finished, Reproduced, simulate, state_run, town
from scenarios.data.town import TOWN
from scenarios.papers.printed import printed
from scenarios.papers.rr import evaluation, statements
from scenarios.papers.rr.shared import ADJUSTED, CLUSTERS, INDEPENDENT, METHODS, RANDOMIZED
from scenarios.report.terminal.statement import statement_report
from scenarios.statement.runs import run_values
from tests.scenarios.command import write_adult
from tests.scenarios.reproduced import measured, reproduce

# The tables


def values(done: Reproduced) -> list[float]:
    return [figure.measured for row in done.rows for figure in row.figures()]


def test_the_transcribed_tables_are_whole() -> None:
    small, large = (
        {row[:3]: row[3] for row in printed()[f"rr-table-{table}"].rows} for table in (1, 2)
    )
    assert small.keys() == large.keys() == {tuple(cell.values()) for cell in evaluation.CELLS}
    # Every cell falls with six times as many records.
    assert all(large[cell] < small[cell] for cell in small)
    assert sum(small.values()) == pytest.approx(8.729)
    assert sum(large.values()) == pytest.approx(6.554)


def test_a_table_reports_every_setting(tmp_path: Path) -> None:
    write_adult(tmp_path)
    done = reproduce("rr-table-1", Context(data=tmp_path), runs=30)
    assert done.result()["rows"][0]["printed"] == 0.335
    assert [row.settings["tv"] for row in done.rows[:4]] == [50, 100, 300, 50]
    assert all(row.remark.startswith("clusters {") for row in done.rows)


@pytest.mark.slow
def test_table_1_on_adult() -> None:
    """Where errors come from independence between clusters, 200 runs say enough."""
    done = reproduce("rr-table-1", runs=200)
    assert any("replicates" in note for note in done.notes)

    def of(done: Reproduced, p: float, tv: int) -> list[float]:
        cell = {"p": p, "tv": tv}
        return [
            row.figures()[0].measured for row in done.rows if cell.items() <= row.settings.items()
        ]

    assert all(0.08 < value < 0.14 for value in of(done, 0.7, 50))
    assert all(0.045 < value < 0.085 for value in of(done, 0.7, 300))
    assert all(0.28 < value < 0.45 for value in of(done, 0.1, 300))
    # Unmixed pair by pair, nothing is lost between clusters.
    corrected = reproduce("rr-table-1", runs=200, reading="corrected", p=0.7)
    assert all(value < 0.035 for value in of(corrected, 0.7, 50))


@pytest.mark.slow
def test_the_reconstruction_is_near_the_printed_tables() -> None:
    logs = []
    for name in ("rr-table-1", "rr-table-2"):
        done = reproduce(name, runs=200, reading="reconstruction", td=0.1)
        found = [figure for row in done.rows for figure in row.figures()]
        logs += [math.log(one.measured / (one.printed or 0)) for one in found]
    assert len(logs) == 24
    assert math.sqrt(sum(log**2 for log in logs) / 24) < 0.25


@pytest.mark.slow
def test_a_table_by_messages_is_one_setting_through_live_parties(tmp_path: Path) -> None:
    records = write_adult(tmp_path)
    context = Context(data=tmp_path, by_messages=True)
    given = {"runs": 200, "repeats": 10, "parties": 5, "p": 0.5, "tv": 100, "td": 0.1}
    done = reproduce("rr-table-1", context, **given)
    assert done.outcome is not None
    assert done.outcome.variant.name == "rr-clusters"
    assert (done.outcome.counted, done.outcome.records) == (5, records)
    (row,) = done.rows
    assert row.settings == {"p": 0.5, "td": 0.1, "tv": 100}
    first = reproduce("rr-table-1", context, runs=5, parties=5).rows[0]
    assert first.settings == {"p": 0.7, "td": 0.1, "tv": 50}
    # What is measured by messages is in the law of what is drawn.
    drawn = reproduce("rr-table-1", Context(data=tmp_path), runs=300, p=0.5, tv=100).rows[0]
    [live], [law] = row.figures(), drawn.figures()
    errors = [error for error in (live.standard_error, law.standard_error) if error]
    assert len(errors) == 2
    assert live.measured == pytest.approx(law.measured, abs=4 * math.hypot(*errors))


# The figures


def test_figure_1_is_the_root_of_a_quantile() -> None:
    done = reproduce("rr-figure-1")
    expected = [math.sqrt(stats.chi2.isf(0.05 / row.settings["r"], 1)) for row in done.rows]
    assert values(done) == pytest.approx(expected, rel=1e-9)
    assert any("from 2 on" in note for note in done.notes)


def test_figure_2_on_adult() -> None:
    done = reproduce("rr-figure-2", runs=200)
    found = {(row.settings["method"], row.settings["sigma"]): measured(row) for row in done.rows}
    assert list(found) == [
        (m, sigma) for m in (RANDOMIZED, INDEPENDENT) for sigma in evaluation.SIGMAS
    ]
    for sigma in evaluation.SIGMAS:
        for error in ("absolute error", "relative error"):
            assert found[INDEPENDENT, sigma][error] < 0.6 * found[RANDOMIZED, sigma][error]
    assert found[RANDOMIZED, 0.1]["relative error"] == pytest.approx(0.31, abs=0.08)
    assert found[INDEPENDENT, 0.1]["relative error"] == pytest.approx(0.135, abs=0.04)


@pytest.mark.slow
def test_figure_3_has_every_method_at_every_p_and_coverage(tmp_path: Path) -> None:
    write_adult(tmp_path)
    done = reproduce("rr-figure-3", Context(data=tmp_path), runs=2)
    assert len(done.rows) == 4 * 5 * 9
    assert {row.settings["method"] for row in done.rows} == set(METHODS)
    for name, methods in (("2", {RANDOMIZED, INDEPENDENT}), ("3", {CLUSTERS, CLUSTERS + ADJUSTED})):
        context = Context(data=tmp_path, by_messages=True)
        heard = reproduce(f"rr-figure-{name}", context, runs=20)
        assert heard.outcome is not None
        assert {row.settings["method"] for row in heard.rows} == methods


def test_figure_3_takes_the_best_thresholds_of_table_1() -> None:
    found = [evaluation.best_thresholds(p) for p in (0.1, 0.3, 0.5, 0.7)]
    assert found == [(50, 0.3), (50, 0.3), (50, 0.1), (100, 0.3)]


@pytest.mark.slow
def test_figure_3_on_adult_agrees_with_the_law_of_counts() -> None:
    done = reproduce("rr-figure-3", runs=40)
    found = {
        (row.settings["p"], row.settings["method"]): row.figures()[0]
        for row in done.rows
        if row.settings["sigma"] == 0.1
    }
    table = reproduce("rr-table-1", tv=50, td=0.1)
    drawn = {row.settings["p"]: row.figures()[0] for row in table.rows}
    for p in (0.1, 0.3, 0.5):
        whole, law = found[p, CLUSTERS], drawn[p]
        assert whole.standard_error is not None
        assert law.standard_error is not None
        error = math.hypot(whole.standard_error, law.standard_error)
        assert abs(whole.measured - law.measured) < 6 * error
    # Section 6.5: for larger p adjustment helps, wherever it is plugged in.
    for method in (INDEPENDENT, CLUSTERS):
        assert found[0.7, method + ADJUSTED].measured < 0.8 * found[0.7, method].measured


# The example


def test_the_example_reports_what_the_paper_prints_and_how_slowly_it_comes() -> None:
    done = reproduce("rr-adjustment-example")
    first, *middle, last = done.rows
    assert not any(figure.differs for row in (first, last) for figure in row.figures())
    for row, sweeps in zip(middle, statements.SWEEPS, strict=True):
        found = measured(row)
        assert found["margin error"] == pytest.approx(1 / (4 * sweeps + 4), rel=1e-9)
        assert found["Pr(a2, b1)"] == pytest.approx(1 / (4 * sweeps + 4), rel=1e-9)
        assert found["Pr(a1, b1)"] + found["Pr(a2, b1)"] == pytest.approx(0.5)


@pytest.mark.parametrize("name", ["rr-adjustment-example", "rr-figure-1"])
def test_what_sends_nothing_cannot_run_by_messages(name: str) -> None:
    with pytest.raises(UsageError, match="nothing is sent"):
        reproduce(name, Context(by_messages=True))


# Estimates without standard errors in the reports


class AdjustedReports(RRIndependent, frozen=True):
    """RR-Independent, estimated by RR-Adjustment."""

    name = "adjusted-reports"

    def estimate(self, result: Message) -> Estimate:
        joint = super().estimate(result)
        assert isinstance(joint.source, JointReports)
        return AdjustedEstimate.of(joint)


def test_an_outcome_reports_an_estimate_without_standard_errors() -> None:
    outcome = simulate(AdjustedReports.with_keep(TOWN, 0.6), town(200, seed=1))
    summary = run_values(Finished(outcome=outcome))
    assert set(summary["estimate"]["standard_errors"].values()) == {None}
    json.dumps(summary, allow_nan=False)
    console = Console(record=True, width=120, file=io.StringIO())
    for part in statement_report(state_run("town", Finished(outcome=outcome))):
        console.print(part)
    said = console.export_text()
    assert said.count(" unknown │") == 13
    assert "or where the error of the estimate is not known" in " ".join(said.split())
    assert outcome._repr_html_()
