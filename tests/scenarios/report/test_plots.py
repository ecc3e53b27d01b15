"""What pictures show: axes, labels, legends, and the values that were given."""

from __future__ import annotations

import math
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from protocol.estimators.inference.words import Intervals, Shown
from protocol.surveys.records import Records
from protocol.surveys.survey import Attribute, Survey
from protocol.variants import RRIndependent
from scenarios.datasets.town import town
from scenarios.errors import UsageError
from scenarios.report.plots import (
    WHISKERS,
    Plot,
    draw_intervals,
    plot_finished,
    plot_of,
    plot_rows,
    rendered,
)
from scenarios.running.reproduction import Reproduced, Row
from scenarios.running.scenario import Context, Finished


def drawn(plot: Plot) -> Figure:
    figure = Figure()
    plot(figure)
    return figure


def finished(records: Records | None = None, **extra: Any) -> Finished:
    records = town(60, seed=1) if records is None else records
    variant = RRIndependent.with_keep(records.survey, 0.5)
    return Finished(outcome=Context(transport="local").simulate(variant, records), extra=extra)


def texts_of(svg: bytes) -> set[str]:
    """The texts of a picture: matplotlib draws each, and names it in a comment."""
    builder = ElementTree.TreeBuilder(insert_comments=True)
    tree = ElementTree.fromstring(svg, ElementTree.XMLParser(target=builder))
    assert tree.tag == "{http://www.w3.org/2000/svg}svg"
    comments = [e for e in tree.iter() if not isinstance(e.tag, str)]
    return {(comment.text or "").strip() for comment in comments}


def legend_of(figure: Figure) -> list[str]:
    [legend] = figure.legends
    return [text.get_text() for text in legend.get_texts()]


def table(ps: Sequence[float] = (0.1, 0.3, 0.5), tvs: Sequence[int] = (50, 100)) -> list[Row]:
    return [
        Row(
            settings={"p": p, "td": td, "tv": tv},
            measured=p + td + tv,
            standard_error=0.01,
            printed=p + td,
        )
        for p in ps
        for td in (0.1, 0.2)
        for tv in tvs
    ]


def test_curves_by_panel_and_colour() -> None:
    figure = drawn(plot_rows(table(), label="relative error", title="rr-table-1"))
    left, right = figure.axes
    assert [axes.get_title() for axes in (left, right)] == ["td = 0.1", "td = 0.2"]
    assert (left.get_xlabel(), left.get_ylabel()) == ("p", "relative error")
    assert legend_of(figure) == ["tv = 50", "tv = 100", "measured", "printed"]
    lines = {
        (tuple(np.round(np.asarray(line.get_ydata(), float), 6)), line.get_linestyle())
        for line in right.get_lines()
        if len(np.asarray(line.get_xdata())) == 3
    }
    # The caps of error bars are lines without a line.
    assert {(ys, style) for ys, style in lines if style != "None"} == {
        ((50.3, 50.5, 50.7), "-"),
        ((100.3, 100.5, 100.7), "-"),
        ((0.3, 0.5, 0.7), "--"),
    }
    bars: Any = right.collections
    lengths = [np.ptp(segment[:, 1]) for some in bars for segment in some.get_segments()]
    assert lengths == pytest.approx([0.02] * 6)
    colours = {line.get_color() for line in right.get_lines() if line.get_linestyle() == "-"}
    assert len(colours) == 2


def test_settings_are_chosen_by_the_caller() -> None:
    figure = drawn(plot_rows(table(), x="tv", by=("p", "td")))
    assert [axes.get_title() for axes in figure.axes] == ["p = 0.1", "p = 0.3", "p = 0.5"]
    assert figure.axes[0].get_xlabel() == "tv"
    assert legend_of(figure)[:2] == ["td = 0.1", "td = 0.2"]
    with pytest.raises(ValueError, match="sigma"):
        plot_rows(table(), x="sigma")
    with pytest.raises(ValueError, match="at least one row"):
        plot_rows([])


def test_points_are_joined_in_order() -> None:
    figure = drawn(plot_rows(table(ps=(0.5, 0.1, 0.3))))
    for line in figure.axes[0].get_lines():
        xs = list(np.asarray(line.get_xdata(), float))
        assert xs == sorted(xs)


def test_every_named_figure_has_a_panel_of_its_own() -> None:
    rows = [
        Row(
            settings={"n": n},
            measured={"mse": 1 / n, "v": math.inf if n == 10 else 0.5},
            printed={"mse": 1 / n},
        )
        for n in (10, 100, 1000, 10_000)
    ]
    figure = drawn(plot_rows(rows))
    assert [axes.get_ylabel() for axes in figure.axes] == ["mse", "v"]
    mse, v = figure.axes
    assert (mse.get_xscale(), mse.get_yscale(), v.get_yscale()) == ("log", "log", "linear")
    assert np.isnan(np.asarray(v.get_lines()[0].get_ydata(), float)).tolist() == [
        *[True, False, False, False]
    ]
    assert legend_of(figure) == ["measured", "printed"]


def test_without_a_number_to_go_along_every_row_is_a_line() -> None:
    rows = [
        Row(settings={"of": of, "d": [2, 3]}, measured=value, standard_error=e, printed=printed)
        for of, value, e, printed in (("reports", 0.2, 0.125, 0.3), ("data", 0.6, None, None))
    ]
    figure = drawn(plot_rows(rows, label="V"))
    [axes] = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["of = reports", "of = data"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("V", "setting")
    measured, low, high, printed = (
        np.asarray(line.get_xdata(), float) for line in axes.get_lines()
    )
    assert measured.tolist() == [0.2, 0.6]
    assert (high - low)[0] == 0.25
    assert printed.tolist() == [0.3, pytest.approx(math.nan, nan_ok=True)]
    assert legend_of(figure) == ["measured", "printed"]


def test_many_colours_or_panels_become_lines() -> None:
    for tvs in (range(1, 20), range(1, 3)):
        plot = plot_rows(table(ps=(0.1, 0.2, 0.3), tvs=tvs), x="p", by=("tv",))
        assert (drawn(plot).axes[0].get_ylabel() == "setting") == (len(tvs) > 7)
    panels = plot_rows(table(tvs=range(1, 20)), x="p", by=("tv", "td"))
    assert drawn(panels).axes[0].get_ylabel() == "setting"


def test_marginals_beside_the_truth() -> None:
    done = finished()
    figure = drawn(plot_finished(done, title="quickstart"))
    estimate, records = done.outcome.estimate, done.outcome.records
    assert records is not None
    panels: dict[str, Axes] = {axes.get_ylabel(): axes for axes in figure.axes}
    assert tuple(panels) == records.survey.names
    for name, axes in panels.items():
        found = estimate.table(name)
        assert axes.get_xlabel() == "share of respondents"
        labels = [label.get_text() for label in axes.get_yticklabels()]
        assert labels == list(records.survey.attribute(name).categories)
        widths = [patch.get_width() for patch in axes.patches]
        assert widths == pytest.approx(records.distribution([name]).tolist())
        points = axes.get_lines()[0]
        assert np.asarray(points.get_xdata()) == pytest.approx(found.values)
        for ends, expected in zip(ends_in(axes), found.interval(), strict=True):
            assert ends == pytest.approx(expected)
    assert legend_of(figure) == ["estimate", "truth", "95 % interval about the respondents"]


def test_intervals_are_those_that_were_asked_for() -> None:
    done = finished()
    table, widths = done.outcome.estimate.table("district"), set()
    for asked in (Intervals(0.5), Intervals(0.99), Intervals(0.99, "population")):
        figure = drawn(plot_finished(done, asked))
        low, high = ends_in(figure.axes[0])
        for ends, expected in zip((low, high), table.interval(*asked), strict=True):
            assert ends == pytest.approx(expected)
        widths.add(round(float(np.sum(high - low)), 6))
        assert legend_of(figure)[-1] == asked.legend
        assert figure.axes[0].get_xlabel() == f"share of {asked.about}"
    assert len(widths) == 3


def test_a_projected_share_stands_beside_the_interval_of_the_raw_one() -> None:
    done = replace(finished(), projection="simplex")
    figure = drawn(plot_finished(done))
    table = done.outcome.estimate.table("district")
    points = np.asarray(figure.axes[0].get_lines()[0].get_xdata(), float)
    assert points == pytest.approx(table.projected("simplex").values)
    assert ends_in(figure.axes[0])[0] == pytest.approx(table.interval().low)
    assert legend_of(figure) == [
        "estimate, projected (simplex)",
        "truth",
        "95 % interval about the respondents, of the raw estimate",
    ]


def test_what_is_unknown_has_a_point_and_no_ink_around_it() -> None:
    figure = Figure()
    axes = figure.subplots()
    figures = [Shown(-0.1, 0.0, 0.3), Shown(0.5, math.nan, math.nan)]
    draw_intervals(axes, [0, 1], figures, Intervals())
    assert np.asarray(axes.get_lines()[0].get_xdata()).tolist() == [-0.1, 0.5]
    low, high = ends_in(axes)
    assert (low[0], high[0]) == (0.0, pytest.approx(0.3))
    assert np.isnan([low[1], high[1]]).all()


def ends_in(axes: Axes) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Where the drawn intervals begin and end."""
    low, high = (np.asarray(line.get_xdata(), float) for line in axes.get_lines()[1:3])
    return low, high


def test_the_whiskers_of_repeated_runs_are_said_to_be_standard_errors() -> None:
    figure = drawn(plot_rows(table()))
    assert figure.legends[0].get_title().get_text() == WHISKERS
    without = [Row(settings={"p": p}, measured=p) for p in (0.1, 0.2)]
    assert drawn(plot_rows(without)).legends[0].get_title().get_text() == ""


def test_labels_are_in_the_file() -> None:
    texts = texts_of(rendered(plot_of("quickstart", finished()), ".svg"))
    assert {"share of respondents", "district", "clinic", "heart disease", "truth"} <= texts
    assert "quickstart: Town" in texts


def test_texts_are_no_formulas_and_drive_nothing() -> None:
    prices = ("$1-$2", "$\\frac$", "a_b^c")
    survey = Survey("A $survey$", (Attribute(name="$x$", categories=prices),))
    records = Records(survey, np.array([[0], [1], [2]], np.uint8))
    picture = rendered(plot_finished(finished(records)), ".svg")
    assert b"<title>A $survey$</title>" in picture
    texts = texts_of(picture)
    assert {"A $survey$", "$x$", "$1-$2", "$\\frac$", "a_b^c"} <= texts
    row = Row(settings={"$p$": 0.1, "of": "$y$"}, measured={"$v$": 1.0})
    other = Row(settings={"$p$": 0.2, "of": "\x1b[31m"}, measured={"$v$": 1.0})
    texts = texts_of(rendered(plot_rows([row, other]), ".svg"))
    assert {"$p$", "$v$", "of = $y$", "of = \\x1b[31m"} <= texts


def test_dependence_is_a_map() -> None:
    matrix = [[1.0, 0.25], [0.25, 1.0]]
    done = finished(dependence={"attributes": ["age", "clinic"], "matrix": matrix})
    figure = drawn(plot_finished(done))
    [axes] = [axes for axes in figure.axes if axes.get_images()]
    assert np.asarray(axes.get_images()[0].get_array()).tolist() == matrix
    assert [label.get_text() for label in axes.get_yticklabels()] == ["age", "clinic"]
    assert {text.get_text() for text in axes.texts} == {"1.00", "0.25"}
    assert {"dependence", "attribute"} <= texts_of(rendered(plot_finished(done), ".svg"))
    named = finished(dependence={"attributes": ["a"], "matrix": [[1.0]], "measure": "cramers-v"})
    assert "dependence (cramers-v)" in texts_of(rendered(plot_finished(named), ".svg"))


def test_dependences_have_their_intervals_below_them() -> None:
    low, high = ((1.0, 0.1), (0.1, 1.0)), ((1.0, 0.4), (0.4, 1.0))
    intervals = {"level": 0.9, "about": "population", "low": np.array(low), "high": np.array(high)}
    found = {"attributes": ["a", "b"], "matrix": [[1.0, 0.25], [0.25, 1.0]], "measure": "v"}
    figure = drawn(plot_finished(finished(dependence={**found, "intervals": intervals})))
    [axes] = [axes for axes in figure.axes if axes.get_images()]
    assert {text.get_text() for text in axes.texts} == {"1.00", "0.25\n[0.10, 0.40]"}
    label = "dependence (v),\nwith its 90 % interval about the population"
    assert label in [other.get_xlabel() for other in figure.axes]
    unknown = {**intervals, "low": np.full((2, 2), np.nan)}
    figure = drawn(plot_finished(finished(dependence={**found, "intervals": unknown})))
    [axes] = [axes for axes in figure.axes if axes.get_images()]
    assert "0.25\nunknown" in {text.get_text() for text in axes.texts}


def test_what_is_reported_is_what_is_drawn() -> None:
    done, other = finished(), finished(town(90, seed=2))
    done = Finished(outcome=done.outcome, estimate=other.outcome.estimate)
    axes = drawn(plot_finished(done)).axes[0]
    expected = other.outcome.estimate.table(axes.get_ylabel()).values
    assert np.asarray(axes.get_lines()[0].get_xdata()) == pytest.approx(expected)


@pytest.mark.parametrize(
    "dependence",
    [[[1.0]], {"attributes": ["a"]}, {"attributes": ["a", "b"], "matrix": [[1.0, 0.2]]}],
)
def test_a_dependence_of_another_form_is_told(dependence: object) -> None:
    with pytest.raises(UsageError, match="dependence"):
        plot_of("x", finished(dependence=dependence))


def test_nothing_to_draw_is_told() -> None:
    with pytest.raises(UsageError, match="no rows"):
        plot_of("x", Reproduced(reproduction="x", runs=1, rows=()))


@pytest.mark.parametrize("ending", [".svg", ".pdf", ".png"])
def test_pictures_hold_no_date(ending: str) -> None:
    content = rendered(plot_rows(table()), ending)
    assert not re.search(rb"dc:date|CreationDate", content)


def test_the_command_line_does_not_import_matplotlib() -> None:
    code = (
        "import sys; from scenarios.cli import main\n"
        "try: main(['list'])\n"
        "except SystemExit: pass\n"
        "import scenarios.report.plots\n"
        "sys.exit('matplotlib' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL).returncode == 0
