"""The scenario of means: what it prints, its JSON, its picture and the audit of it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from protocol.estimators.inference.intervals import Intervals
from scenarios import Context, Finished, find_scenario
from scenarios.report.pictures.drawing import draw_figure
from scenarios.report.pictures.shares import plot_finished
from tests.scenarios.command import sottovoce
from tests.tiers import thinned


@pytest.mark.parametrize("mechanism", thinned(["one-bit", "piecewise"], 1))
def test_means_errors_and_truth_everywhere(tmp_path: Path, mechanism: str) -> None:
    out, plot, page = tmp_path / "out", tmp_path / "means.svg", tmp_path / "audit.html"
    arguments = ["--set", f"mechanism={mechanism}", "--set", "residents=3000"]
    ran = sottovoce("run", "town-means", *arguments, "--out", out, "--plot", plot)
    assert ran.code == 0, ran.err
    values = json.loads((out / "result.json").read_text())
    means = values["estimate"]["means"]
    assert list(means) == ["age", "income"]
    for name, found in means.items():
        true = values["truth"]["means"][name]
        assert abs(found["mean"] - true) < 6 * found["standard_error"]
        assert values["error"]["means"][name] == abs(found["mean"] - true)
        rows = [line.strip("│ ") for line in ran.out.splitlines() if line.startswith("│")]
        (line,) = [row for row in rows if row.startswith(name)]
        ends = values["estimate"]["intervals"]["means"][name]
        assert ends["low"] < found["mean"] < ends["high"]
        digits = 2 if name == "age" else 0
        for number in (true, found["mean"], *ends.values()):
            assert f"{number:.{digits}f}" in line
    assert 18 < values["truth"]["means"]["age"] < 98
    assert "<svg" in plot.read_text()
    audited = sottovoce("audit", out / "transcript.svt.zst", "--json", "--html", page).json
    assert audited["result"]["means"] == means
    assert audited["result"]["follows"] is True
    assert audited["result"]["intervals"]["means"] == values["estimate"]["intervals"]["means"]
    assert "95 % intervals about the respondents" in page.read_text()
    refused = sottovoce("run", "town-means", "--synthetic", tmp_path / "x.csv")
    assert refused.code == 2


def test_means_and_their_intervals_in_a_notebook() -> None:
    scenario = find_scenario("town-means")
    done = scenario.run(scenario.configure({"residents": 500}), Context(transport="local"))
    assert isinstance(done, Finished)
    mean = done.reported.attribute_means()["age"]
    low, high = mean.interval()
    said = f"<td>age</td><td>{mean.value:.6g}</td><td>[{low:.6g}, {high:.6g}]</td>"
    for shown in (done.outcome._repr_html_(), done.reported._repr_html_()):
        assert said in shown
        assert "95 % intervals about the respondents" in shown


def test_the_intervals_of_means_are_drawn_on_axes_of_their_own() -> None:
    scenario = find_scenario("town-means")
    asked = Intervals(0.8, "population")
    done = scenario.run(scenario.configure({"residents": 500}), Context(transport="local"))
    assert isinstance(done, Finished)
    figure = draw_figure(plot_finished(done, asked))
    for axes, mean in zip(figure.axes, done.reported.attribute_means().values(), strict=True):
        lines = [np.asarray(line.get_xdata(), float).tolist() for line in axes.get_lines()]
        assert [mean.value] in lines
        for end in asked.of(mean):
            assert [pytest.approx(end, nan_ok=True)] in lines
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert "80 % interval about the population" in labels
