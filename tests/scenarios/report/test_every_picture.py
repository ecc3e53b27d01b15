"""Every picture that the program draws by itself is legible."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from matplotlib.figure import Figure

from scenarios import Context, DatasetError, find_scenario
from scenarios.report.pictures.curves import Curve, Point, leader, plot_curves
from scenarios.report.pictures.drawing import Plot
from scenarios.report.pictures.results import result_plot
from scenarios.report.pictures.style import frame
from scenarios.running.loading import all_scenarios
from tests.scenarios.pictures import faults
from tests.tiers import slow

NAMES = tuple(scenario.name for scenario in all_scenarios())
RUNS = 10
CHEAP = ("quickstart", "town-means", "taxi-tree")
SMALL: dict[str, dict[str, Any]] = {
    "taxi-tree": {"n": 4_096, "parties": 4},
    "taxi-marginals": {"n": 20_000},
    "rrba-alarm": {"n": 3_000},
    "rrba-child": {"n": 3_000},
    "rrba-honest": {"runs": 10, "n": 2_000},
    "rr-query-sizes": {"runs": 2},
    "rrba-consistency": {"runs": 2},
    "marginals-figure-6": {"runs": 3},
    "marginals-figure-7": {"runs": 3},
}


def picture_of(name: str) -> Plot:
    scenario = find_scenario(name)
    fields = {field.name for field in msgspec.structs.fields(scenario.parameters)}
    given = {"runs": RUNS} if "runs" in fields else {}
    done = scenario.run(scenario.configure({**given, **SMALL.get(name, {})}), Context())
    return result_plot(name, done)


@pytest.mark.parametrize(
    "name",
    [name if name in CHEAP else slow(name) for name in NAMES],
)
def test_the_picture_of_a_scenario_is_legible(name: str) -> None:
    try:
        picture = picture_of(name)
    except DatasetError as error:
        pytest.skip(str(error))
    assert faults(picture, *NAMES) == []


def test_the_errors_of_many_variants_are_legible() -> None:
    near = [
        Curve(
            f"variant number {i} of a long name",
            [(epsilon, 0.1 / epsilon + i / 5_000) for epsilon in (0.5, 1.0, 2.0, 4.0)],
            [Point(epsilon, 0.1 / epsilon + i / 5_000, 0.002) for epsilon in (0.5, 1.0, 2.0, 4.0)],
        )
        for i in range(7)
    ]
    assert faults(plot_curves(near, title=leader(near), label="predicted error")) == []


@pytest.mark.slow
def test_what_is_wrong_with_a_picture_is_found() -> None:
    def high(figure: Figure) -> None:
        figure.subplots().set_xlabel("share of respondents")
        frame(figure, "A picture of nothing", size=(7.0, 4.0))
        figure.set_figheight(15)

    def at_an_edge(figure: Figure) -> None:
        figure.subplots().set_xlabel("share of respondents")
        frame(figure, "A picture of nothing", size=(7.0, 4.0))
        figure.text(0.9, 0.5, "m" * 60)

    def overlapping(figure: Figure) -> None:
        axes = figure.subplots()
        axes.set_xlabel("share of respondents")
        axes.text(0.5, 0.5, "one text")
        axes.text(0.51, 0.51, "another")
        frame(figure, "A picture of nothing", size=(7.0, 4.0))

    def internal(figure: Figure) -> None:
        axes = figure.subplots()
        axes.set_xlabel("standard_error")
        axes.set_ylabel("tv")
        frame(figure, "rr-table-1", size=(7.0, 4.0))

    def unlabelled(figure: Figure) -> None:
        figure.subplots()
        frame(figure, "A picture of nothing", size=(7.0, 4.0))

    def found(plot: Plot) -> str:
        return "; ".join(faults(plot, "rr-table-1"))

    assert found(high) == "1050 x 2250 pixels"
    assert "ink at the right edge" in found(at_an_edge)
    assert "leaves the picture" in found(at_an_edge)
    assert found(overlapping) == "'one text' and 'another' overlap"
    assert found(unlabelled) == "an axis without a label"
    names = found(internal)
    for fault in ("title 'rr-table-1'", *(f"name {t!r}" for t in ("standard_error", "tv"))):
        assert fault in names
