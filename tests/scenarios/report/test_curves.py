"""Errors over epsilon in one picture: what is drawn where, and what is named."""

from __future__ import annotations

import math

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from scenarios.report.curves import Curve, Point, plot_curves
from scenarios.report.plots import COLOURS, WHISKERS, Plot


def drawn(plot: Plot) -> tuple[Figure, Axes]:
    figure = Figure()
    plot(figure)
    [axes] = figure.axes
    return figure, axes


CURVES = (
    Curve(
        "one",
        line=[(4.0, 0.01), (1.0, 0.1)],
        points=[Point(1.0, 0.11, 0.02), Point(4.0, 0.012, 0.002)],
    ),
    Curve("$two$", line=[(1.0, 0.1), (4.0, 0.0101)]),
    Curve("exact", line=[(1.0, 0.0)], points=[Point(1.0, 0.0, 0.0), Point(4.0, math.nan)]),
)


def test_lines_are_predicted_and_points_are_measured() -> None:
    figure, axes = drawn(plot_curves(CURVES, title="a plan", label="error"))
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    first, points, _, _, second, *markers = axes.get_lines()
    assert [marker.get_marker() for marker in markers] == [points.get_marker()]
    assert list(first.get_xdata()) == [1.0, 4.0]
    assert list(first.get_ydata()) == [0.1, 0.01]
    assert list(points.get_ydata()) == [0.11, 0.012]
    assert (first.get_color(), second.get_color()) == COLOURS[:2]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1", "4"]
    assert axes.get_xlabel() == "epsilon\nexact: no error to draw"
    [legend] = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["measured", "predicted"]
    assert legend.get_title().get_text() == WHISKERS


def test_each_curve_is_named_at_its_end() -> None:
    _, axes = drawn(plot_curves(CURVES, title="a plan", label="error"))
    one, two = axes.texts
    assert (one.get_text(), one.get_color()) == (r"\$two\$", COLOURS[1])
    assert (two.get_text(), two.get_color()) == ("one", COLOURS[0])
    assert two.xy[1] - one.xy[1] >= 0.04


def test_there_may_be_nothing_to_draw() -> None:
    _, axes = drawn(plot_curves([Curve("none")], title="t", label="error"))
    assert axes.get_xlabel() == "epsilon\nnone: no error to draw"
    assert not axes.get_lines()


@pytest.mark.parametrize("epsilons", [[1.0], [0.5, 1.0, 1.01, 100.0]])
def test_any_epsilons_can_be_drawn(epsilons: list[float]) -> None:
    lone = Curve("v", [(e, 1 / e) for e in epsilons], [Point(e, 1 / e) for e in epsilons])
    figure, axes = drawn(plot_curves([lone], title="t", label="error"))
    assert figure.legends[0].get_title().get_text() == ""
    low, high = axes.get_xlim()
    assert low < epsilons[0] <= epsilons[-1] < high
