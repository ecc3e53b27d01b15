"""Errors over epsilon in one picture: what is drawn where, and what is named."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from scenarios.report.pictures.curves import Curve, Point, leader, plot_curves
from scenarios.report.pictures.drawing import Plot, draw_figure
from scenarios.report.pictures.style import COLOURS


def only(plot: Plot) -> tuple[Figure, Axes]:
    figure = draw_figure(plot)
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
    figure, axes = only(plot_curves(CURVES, title="a plan", label="error"))
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    first, points, _, _, second = axes.get_lines()
    assert list(first.get_xdata()) == [1.0, 4.0]
    assert list(first.get_ydata()) == [0.1, 0.01]
    assert list(points.get_ydata()) == [0.11, 0.012]
    assert (first.get_color(), second.get_color()) == COLOURS[:2]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1", "4"]
    assert axes.get_xlabel() == "ε per respondent"
    said = figure.texts[-1].get_text()
    assert said == "whiskers: 95 % intervals over the runs; exact: no error to draw"
    bars: Any = axes.collections[0]
    lengths = [float(np.ptp(segment[:, 1])) for segment in bars.get_segments()]
    assert lengths == pytest.approx([2 * 1.96 * 0.02, 2 * 1.96 * 0.002], rel=1e-3)
    [legend] = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["measured", "predicted"]


def test_each_curve_is_named_at_its_end() -> None:
    _, axes = only(plot_curves(CURVES, title="a plan", label="error"))
    one, two = axes.texts
    assert (one.get_text(), one.get_color()) == (r"\$two\$", COLOURS[1])
    assert (two.get_text(), two.get_color()) == ("one", COLOURS[0])
    lower, upper = (text.get_window_extent() for text in (one, two))
    assert lower.y1 <= upper.y0 + 2


def test_there_may_be_nothing_to_draw() -> None:
    figure, axes = only(plot_curves([Curve("none")], title="t", label="error"))
    assert figure.texts[-1].get_text() == "none: no error to draw"
    assert not axes.get_lines()


def test_the_lowest_curve_is_named() -> None:
    assert leader(CURVES) == "exact has the smallest error at 1 of 2 ε"
    assert leader(CURVES[:2]) == "$two$ has the smallest error at every ε"
    assert leader([Curve("none")]) == "no errors to compare"


@pytest.mark.parametrize("epsilons", [[1.0], [0.5, 1.0, 1.01, 100.0]])
def test_any_epsilons_can_be_drawn(epsilons: list[float]) -> None:
    lone = Curve("v", [(e, 1 / e) for e in epsilons], [Point(e, 1 / e) for e in epsilons])
    figure, axes = only(plot_curves([lone], title="t", label="error"))
    assert len(figure.texts) == 1  # The title alone: no error is known, so there are no whiskers.
    low, high = axes.get_xlim()
    assert low < epsilons[0] <= epsilons[-1] < high
