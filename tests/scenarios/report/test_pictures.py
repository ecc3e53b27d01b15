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

from protocol import Attribute, Records, Survey
from protocol.errors import UsageError
from protocol.estimators.dependence.glance import glance
from protocol.estimators.inference.intervals import Intervals, Shown
from protocol.variants import RRIndependent
from scenarios import Context, Finished, Reproduced, Row, town
from scenarios.report.pictures.drawing import draw_figure, rendered
from scenarios.report.pictures.results import result_plot
from scenarios.report.pictures.rows import finding, plot_rows
from scenarios.report.pictures.shares import draw_intervals, plot_finished
from scenarios.report.pictures.style import DPI, spread
from scenarios.running.reproduction import Picture
from scenarios.wording.decimals import legend_text
from scenarios.wording.formatting import MINUS
from tests.scenarios.pictures import faults
from tests.tiers import slow


def finished(records: Records | None = None, parties: int | None = None) -> Finished:
    records = town(60, seed=1) if records is None else records
    variant = RRIndependent.with_keep(records.survey, 0.5)
    outcome = Context(transport="local").simulate(variant, records, parties=parties)
    return Finished(outcome=outcome)


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


def triangle_notes(figure: Figure) -> str:
    """What stands below the title."""
    notes = figure.texts[-1]
    return notes.get_text().replace("\n", " ")


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


NAMES = {"p": "keep probability p", "tv": "T_v", "td": "T_d", "": "relative error"}


@pytest.mark.slow
def test_curves_by_panel_and_colour() -> None:
    figure = draw_figure(
        plot_rows(table(), Picture(names=NAMES, title="Errors fall with p"), runs=7)
    )
    left, right = figure.axes
    assert [axes.get_title() for axes in (left, right)] == ["T_d = 0.1", "T_d = 0.2"]
    assert (left.get_xlabel(), left.get_ylabel()) == ("keep probability p", "relative error")
    assert figure.get_suptitle() == "Errors fall with p"
    assert triangle_notes(figure) == "7 runs; whiskers: 95 % intervals over the runs"
    assert legend_of(figure) == ["measured", "printed in the paper"]
    assert {text.get_text() for text in right.texts} == {"T_v = 50", "T_v = 100"}
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
    assert lengths == pytest.approx([2 * 1.96 * 0.01] * 6, rel=1e-3)
    colours = {line.get_color() for line in right.get_lines() if line.get_linestyle() == "-"}
    assert len(colours) == 2


@pytest.mark.slow
def test_whiskers_are_as_long_as_the_level_says() -> None:
    figure = draw_figure(plot_rows(table(), level=0.5))
    bars: Any = figure.axes[0].collections
    lengths = [np.ptp(segment[:, 1]) for some in bars for segment in some.get_segments()]
    assert lengths == pytest.approx([2 * 0.6745 * 0.01] * 6, rel=1e-3)
    assert "whiskers: 50 % intervals" in triangle_notes(figure)


def test_curves_do_not_hide_each_other() -> None:
    rows = [Row(settings={"p": p, "of": of}, measured=p) for p in (0.1, 0.5, 0.9) for of in "abc"]
    figure = draw_figure(plot_rows(rows))
    starts = [float(np.asarray(line.get_xdata(), float)[0]) for line in figure.axes[0].get_lines()]
    assert len({round(start, 6) for start in starts}) == 3


@pytest.mark.slow
def test_settings_are_chosen_by_the_caller() -> None:
    figure = draw_figure(plot_rows(table(), Picture(x="tv", by=("p", "td"), names=NAMES)))
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == [f"keep probability p = {p}" for p in (0.1, 0.3, 0.5)]
    assert figure.axes[0].get_xlabel() == "T_v"
    assert {text.get_text() for text in figure.axes[-1].texts} == {"T_d = 0.1", "T_d = 0.2"}
    with pytest.raises(ValueError, match="sigma"):
        plot_rows(table(), Picture(x="sigma"))
    with pytest.raises(ValueError, match="at least one row"):
        plot_rows([])


def test_points_are_joined_in_order() -> None:
    figure = draw_figure(plot_rows(table(ps=(0.5, 0.1, 0.3))))
    for line in figure.axes[0].get_lines():
        xs = list(np.asarray(line.get_xdata(), float))
        assert xs == sorted(xs)


def test_every_named_figure_has_a_panel_of_its_own() -> None:
    figure = draw_figure(plot_rows(errors()))
    assert [axes.get_ylabel() for axes in figure.axes] == ["mse", "v"]
    mse, v = figure.axes
    assert (mse.get_xscale(), mse.get_yscale(), v.get_yscale()) == ("log", "log", "linear")
    assert np.isnan(np.asarray(v.get_lines()[0].get_ydata(), float)).tolist() == [
        *[True, False, False, False]
    ]
    assert legend_of(figure) == ["measured", "printed in the paper"]
    chosen = draw_figure(plot_rows(errors(), Picture(figures=("v",))))
    assert [axes.get_ylabel() for axes in chosen.axes] == ["v"]


def errors() -> list[Row]:
    return [
        Row(
            settings={"n": n},
            measured={"mse": 1 / n, "v": math.inf if n == 10 else 0.5},
            printed={"mse": 1 / n},
        )
        for n in (10, 100, 1000, 10_000)
    ]


def test_figures_of_one_unit_share_a_panel() -> None:
    rows = [Row(settings={"n": n}, measured={"a": 1.0, "b": 2.0}) for n in (1, 2, 3)]
    figure = draw_figure(
        plot_rows(rows, Picture(axis="error", names={"a": "first", "b": "second"}))
    )
    [axes] = figure.axes
    assert axes.get_ylabel() == "error"
    assert {text.get_text() for text in axes.texts} == {"first", "second"}


def test_a_closed_form_is_a_line_and_never_called_measured() -> None:
    rows = [
        Row(
            settings={"n": n},
            measured={"error": 1.1 / n, "law": 1 / n},
            standard_error={"error": 0.1},
        )
        for n in (1, 2, 3)
    ]
    figure = draw_figure(plot_rows(rows, Picture(computed=("law",))))
    [axes] = figure.axes
    styles = [(line.get_marker(), line.get_linestyle()) for line in axes.get_lines()]
    assert (styles[0], styles[-1]) == (("o", "None"), ("None", "-"))
    assert legend_of(figure) == ["measured", "in closed form"]
    alone = draw_figure(plot_rows(rows, Picture(computed=("law",), figures=("law",))))
    assert not alone.legends


def test_a_long_whisker_does_not_flatten_the_figures() -> None:
    rows = [
        Row(settings={"p": p}, measured=0.1 + p / 10, standard_error=50.0 if p == 0.1 else 0.01)
        for p in (0.1, 0.2, 0.3)
    ]
    low, high = draw_figure(plot_rows(rows)).axes[0].get_ylim()
    assert high - low < 0.1


def test_the_round_off_of_a_zero_takes_no_decades() -> None:
    rows = [Row(settings={"n": n}, measured=10.0**-n, printed=1e-33) for n in (1, 2, 3)]
    low, _ = draw_figure(plot_rows(rows)).axes[0].get_ylim()
    assert low > 1e-12


def test_the_finding_is_how_many_figures_agree() -> None:
    rows = [
        Row(settings={"p": p}, measured=1.0, standard_error=0.1, printed=printed)
        for p, printed in ((0.1, 1.05), (0.2, 2.05), (0.3, None))
    ]
    assert finding(rows) == "1 of 2 printed figures agree with the measured ones"
    assert finding(rows[:1]) == "All 1 printed figure agree with the measured ones"
    assert finding(rows[2:]) == ""
    unknown = Row(settings={}, measured=2.0, standard_error=math.nan, printed=1.0)
    assert finding([unknown]).startswith("Too few runs to tell whether 1 printed figure")
    assert finding([rows[0], unknown]).startswith("1 of 2 printed figures agree")
    assert finding([rows[0], unknown]).endswith("too few runs to tell of 1")
    assert draw_figure(plot_rows(rows)).get_suptitle() == finding(rows)
    unprinted = Picture(subject="Errors of nothing")
    assert draw_figure(plot_rows(rows[2:], unprinted)).get_suptitle() == "Errors of nothing"


def test_without_a_number_to_go_along_every_row_is_a_line() -> None:
    rows = [
        Row(settings={"of": of, "d": [2, 3]}, measured=value, standard_error=e, printed=printed)
        for of, value, e, printed in (("reports", 0.2, 0.125, 0.3), ("data", 0.6, None, None))
    ]
    figure = draw_figure(plot_rows(rows, Picture(names={"": "V", "data": "the data"})))
    [axes] = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["reports", "the data"]
    assert axes.get_xlabel() == "V"
    printed, measured, low, high = (
        np.asarray(line.get_xdata(), float) for line in axes.get_lines()
    )
    assert measured.tolist() == [0.2, 0.6]
    assert (high - low)[0] == pytest.approx(2 * 1.96 * 0.125, rel=1e-3)
    assert printed.tolist() == [0.3, pytest.approx(math.nan, nan_ok=True)]
    assert legend_of(figure) == ["measured", "printed in the paper"]


def test_long_labels_have_two_lines_and_rows_without_the_figures_none() -> None:
    rows = [
        Row(settings={"of": "x"}, measured={"other": 1.0}),
        *(Row(settings={"of": of}, measured={"error": 1.0}) for of in "yz"),
    ]
    name = "mean squared error of a cell of the joint table"
    picture = Picture(figures=("error",), names={"error": name})
    [axes] = draw_figure(plot_rows(rows, picture)).axes
    assert axes.get_xlabel() == "mean squared error of a\ncell of the joint table"
    assert [label.get_text() for label in axes.get_yticklabels()] == ["y", "z"]


def test_many_colours_or_panels_become_lines() -> None:
    for tvs in (range(1, 20), range(1, 3)):
        plot = plot_rows(table(ps=(0.1, 0.2, 0.3), tvs=tvs), Picture(x="p", by=("tv",)))
        assert (len(draw_figure(plot).axes[0].get_yticklabels()) > 30) == (len(tvs) > 7)
    panels = draw_figure(plot_rows(table(tvs=range(1, 20)), Picture(x="p", by=("tv", "td"))))
    assert len(panels.axes[0].get_yticklabels()) == 44
    assert "the first 44 of 114 rows" in triangle_notes(panels)
    assert panels.get_figheight() * DPI < 2_000


def test_marginals_beside_the_truth() -> None:
    done = finished()
    figure = draw_figure(plot_finished(done))
    estimate, records = done.outcome.estimate, done.outcome.records
    assert records is not None
    axes = figure.axes[0]
    assert axes.get_xlabel() == "share of respondents (%)"
    assert {text.get_text() for text in axes.texts} == set(records.survey.names)
    attributes = records.survey.attributes
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == [category for one in attributes for category in one.categories]
    true = [share for one in attributes for share in records.distribution([one.name])]
    assert [patch.get_width() for patch in axes.patches] == pytest.approx(100 * np.array(true))
    tables = [estimate.table(one.name) for one in attributes]
    values = np.concatenate([table.values for table in tables])
    assert np.asarray(axes.get_lines()[0].get_xdata()) == pytest.approx(100 * values)
    for place, ends in enumerate(ends_in(axes)):
        expected = np.concatenate([table.interval()[place] for table in tables])
        assert ends == pytest.approx(100 * expected)
    assert legend_of(figure) == ["estimate", "truth", "95 % interval about the respondents"]
    held = sum(
        ((table.interval().low <= share) & (share <= table.interval().high)).sum()
        for table in tables
        for share in [records.distribution(table.names)]
    )
    title = f"Town: {held} of 13 intervals of 95 % hold the true share"
    assert figure.get_suptitle() == title
    assert triangle_notes(figure).startswith("60 respondents; ε ")


@pytest.mark.slow
def test_intervals_that_can_hardly_be_seen_stand_less_the_truth() -> None:
    records = town(2_000, seed=3)
    variant = RRIndependent.with_keep(records.survey, 0.999)
    done = Finished(outcome=Context(transport="local").simulate(variant, records, parties=4))
    figure = draw_figure(plot_finished(done))
    shares, less = figure.axes[:2]
    assert less.get_xlabel() == f"estimate {MINUS} truth\n(points)"
    table = done.outcome.estimate.table("district")
    expected = 100 * (table.values - records.distribution(["district"]))
    points = next(line for line in less.get_lines() if len(np.asarray(line.get_xdata())) == 13)
    assert np.asarray(points.get_xdata(), float)[:3] == pytest.approx(expected)
    assert shares.get_ylim() == less.get_ylim()


@pytest.mark.slow
def test_many_attributes_have_columns_and_what_has_no_room_is_named() -> None:
    categories = tuple(f"c{i}" for i in range(30))
    names = [f"attribute {i}" for i in range(20)]
    survey = Survey("Long", tuple(Attribute(name=name, categories=categories) for name in names))
    codes = np.random.default_rng(1).integers(0, 30, (40, 20)).astype(np.uint8)
    figure = draw_figure(plot_finished(finished(Records(survey, codes))))
    assert len(figure.axes) == 3  # No triangle: of 40 respondents it is too noisy.
    assert figure.get_figheight() * DPI < 2_000
    drawn_names = [text.get_text() for axes in figure.axes for text in axes.texts]
    assert drawn_names == names[: len(drawn_names)]
    assert f"the first {len(drawn_names)} of 20 attributes" in triangle_notes(figure)
    assert "at most 20 categories each" in triangle_notes(figure)


def test_how_attributes_depend_on_each_other_stands_beside_their_shares() -> None:
    done = finished(town(3_000, seed=1), parties=4)
    figure = draw_figure(plot_finished(done))
    seen = glance(done.reported)
    assert seen is not None
    triangle = figure.axes[-1]
    texts = [text.get_text() for text in triangle.texts]
    assert set(done.outcome.variant.survey.names) <= set(texts)
    for pair in seen.dependent:
        assert f"{pair.strength:.2f}".removeprefix("0") in texts
    assert len(texts) == 4 + len(seen.dependent)
    assert "framed: the Chow-Liu tree" in triangle_notes(figure)
    noisy = draw_figure(plot_finished(finished(town(30, seed=1), parties=4)))
    assert len(noisy.axes) == 1
    assert "depend on each other is too noisy to show" in triangle_notes(noisy)


def test_intervals_are_those_that_were_asked_for() -> None:
    done = finished()
    table, widths = done.outcome.estimate.table("district"), set()
    for asked in (Intervals(0.5), Intervals(0.99), Intervals(0.99, "population")):
        figure = draw_figure(plot_finished(done, asked))
        low, high = ends_in(figure.axes[0])
        for ends, expected in zip((low, high), table.interval(*asked), strict=True):
            assert ends[:3] == pytest.approx(100 * expected)
        widths.add(round(float(np.sum(high - low)), 4))
        assert legend_of(figure)[-1] == legend_text(asked)
        assert figure.axes[0].get_xlabel() == f"share of {asked.about} (%)"
    assert len(widths) == 3


@pytest.mark.slow
def test_a_projected_share_stands_beside_the_interval_of_the_raw_one() -> None:
    done = replace(finished(), projection="simplex")
    figure = draw_figure(plot_finished(done))
    table = done.outcome.estimate.table("district")
    points = np.asarray(figure.axes[0].get_lines()[0].get_xdata(), float)
    assert points[:3] == pytest.approx(100 * table.projected("simplex").values)
    assert ends_in(figure.axes[0])[0][:3] == pytest.approx(100 * table.interval().low)
    assert legend_of(figure) == [
        "estimate, projected (simplex)",
        "truth",
        "95 % interval about the respondents, of the raw estimate",
    ]


def test_names_at_ends_keep_apart_and_inside() -> None:
    found = spread([0.5, 0.5, 0.99, 1.0, 0.0], 0.1)
    places = [found[i] for i in sorted(found, key=lambda i: found[i])]
    assert min(np.diff(places)) >= 0.1 - 1e-9
    assert min(places) >= 0
    assert max(places) <= 1
    assert found[4] < min(found[0], found[1]) < max(found[0], found[1]) < found[2] < found[3]


def test_what_is_unknown_has_a_point_and_no_ink_around_it() -> None:
    figures = [Shown(-0.1, 0.0, 0.3), Shown(0.5, math.nan, math.nan)]
    figure = draw_figure(
        lambda figure: draw_intervals(figure.subplots(), [0, 1], figures, Intervals())
    )
    [axes] = figure.axes
    assert np.asarray(axes.get_lines()[0].get_xdata()).tolist() == [-0.1, 0.5]
    low, high = ends_in(axes)
    assert (low[0], high[0]) == (0.0, pytest.approx(0.3))
    assert np.isnan([low[1], high[1]]).all()


def ends_in(axes: Axes) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Where the drawn intervals begin and end."""
    low, high = (np.asarray(line.get_xdata(), float) for line in axes.get_lines()[1:3])
    return low, high


def test_labels_are_in_the_file() -> None:
    texts = texts_of(rendered(result_plot("quickstart", finished()), ".svg"))
    assert {"share of respondents (%)", "district", "clinic", "heart disease", "truth"} <= texts
    assert "intervals of 95 % hold" in " ".join(texts)


@pytest.mark.slow
def test_texts_are_no_formulas_and_drive_nothing() -> None:
    prices = ("$1-$2", "$\\frac$", "a_b^c")
    survey = Survey("A $survey$", (Attribute(name="$x$", categories=prices),))
    records = Records(survey, np.array([[0], [1], [2]], np.uint8))
    picture = rendered(plot_finished(finished(records)), ".svg")
    assert b"<title>A $survey$: " in picture
    texts = texts_of(picture)
    assert {"$x$", "$1-$2", "$\\frac$", "a_b^c"} <= texts
    row = Row(settings={"$p$": 0.1, "of": "$y$"}, measured={"$v$": 1.0})
    other = Row(settings={"$p$": 0.2, "of": "\x1b[31m"}, measured={"$v$": 1.0})
    texts = texts_of(rendered(plot_rows([row, other]), ".svg"))
    assert {"$p$", "$v$", "$y$", "\\x1b[31m"} <= texts


def test_what_is_reported_is_what_is_drawn() -> None:
    done, other = finished(), finished(town(90, seed=2))
    done = Finished(outcome=done.outcome, estimate=other.outcome.estimate)
    axes = draw_figure(plot_finished(done)).axes[0]
    expected = 100 * other.outcome.estimate.table("district").values
    assert np.asarray(axes.get_lines()[0].get_xdata())[:3] == pytest.approx(expected)


def test_nothing_to_draw_is_told() -> None:
    with pytest.raises(UsageError, match="no rows"):
        result_plot("x", Reproduced(reproduction="x", runs=1, rows=()))


@pytest.mark.slow
@pytest.mark.parametrize("ending", [".svg", *map(slow, [".pdf", ".png"])])
def test_pictures_hold_no_date(ending: str) -> None:
    content = rendered(plot_rows(table()), ending)
    assert not re.search(rb"dc:date|CreationDate", content)
    assert content == rendered(plot_rows(table()), ending)


@pytest.mark.slow
def test_the_command_line_does_not_import_matplotlib() -> None:
    code = (
        "import sys; from scenarios.cli import main\n"
        "try: main(['list'])\n"
        "except SystemExit: pass\n"
        "import scenarios.report.pictures.results\n"
        "sys.exit('matplotlib' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL).returncode == 0


def several(figures: Sequence[int] = (1, 2)) -> list[Row]:
    """Rows of several figures of a paper: curves along epsilon and along n, and a table."""
    curves = {1: ("epsilon", (0.5, 1.0, 2.0)), 2: ("n", (10, 100, 1_000, 10_000))}
    return [
        Row(
            settings={"figure": figure, "population": f"town {figure}", axis: value},
            measured={"one": 1 / value, "other": 2 / value},
            standard_error={"one": 0.1 / value, "other": 0.1 / value},
        )
        for figure in figures
        for axis, values in [curves[figure]]
        for value in values
    ]


def a_table(figure: int = 3) -> list[Row]:
    whole = Row(settings={"figure": figure, "shows": "data", "n": 10}, measured={"one": 0.25})
    cells = [
        Row(
            settings={"figure": figure, "shows": "data", "A": answer},
            measured={"B no": share, "B yes": -share},
        )
        for answer, share in (("low", 0.2), ("high", 0.3))
    ]
    return [whole, *cells]


@pytest.mark.slow
def test_every_figure_of_a_paper_has_a_panel_along_its_own_setting() -> None:
    picture = Picture(
        title="Errors of two figures in one picture",
        axis="error of a share",
        names={"figure 2": "error of a mean", "n": "respondents n"},
    )
    plot = plot_rows(several(), picture)
    left, right = draw_figure(plot).axes
    assert [axes.get_title() for axes in (left, right)] == ["Figure 1: town 1", "Figure 2: town 2"]
    assert (left.get_xlabel(), right.get_xlabel()) == ("epsilon", "respondents n")
    assert (left.get_ylabel(), right.get_ylabel()) == ("error of a share", "error of a mean")
    assert (left.get_xscale(), right.get_xscale()) == ("linear", "log")
    # Each curve is at its own figure's points, moved aside a little.
    ends = [
        [list(np.asarray(line.get_ydata(), float)) for line in axes.get_lines()]
        for axes in (left, right)
    ]
    assert [1 / 0.5, 1.0, 0.5] in ends[0]
    assert [0.2, 0.02, 0.002, 0.0002] in ends[1]
    assert faults(plot) == []


def test_figures_of_several_measures_have_a_panel_for_each() -> None:
    figure = draw_figure(plot_rows(several()))
    shown = [(axes.get_title(), axes.get_ylabel()) for axes in figure.axes if axes.get_visible()]
    assert shown == [
        (f"Figure {number}: town {number}", name) for number in (1, 2) for name in ("one", "other")
    ]


@pytest.mark.slow
def test_a_figure_without_an_axis_of_numbers_is_a_table() -> None:
    picture = Picture(title="Curves beside a table", names={"figure 3": "share of respondents"})
    plot = plot_rows([*several((1,)), *a_table()], picture)
    figure = draw_figure(plot)
    [axes] = [axes for axes in figure.axes if axes.get_title() == "Figure 3"]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["no", "yes"]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["low", "high"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("B", "A")
    [shades] = axes.collections
    values = np.asarray(shades.get_array(), float).reshape(2, 2)
    assert values.tolist() == [[0.2, -0.2], [0.3, -0.3]]
    assert "share of respondents" in [axes.get_xlabel() for axes in figure.axes]
    assert faults(plot) == []


@pytest.mark.slow
def test_thirty_figures_stay_below_two_thousand_pixels() -> None:
    rows = [
        Row(settings={"figure": number, "p": p}, measured=p * number)
        for number in range(30)
        for p in (0.1, 0.5)
    ]
    figure = draw_figure(plot_rows(rows, Picture(title="Thirty figures of one paper")))
    assert len([axes for axes in figure.axes if axes.get_visible()]) == 30
    assert max(figure.get_size_inches()) * DPI <= 2_000


def test_rows_without_the_first_setting_have_panels_by_the_next() -> None:
    rows = [
        Row(settings={"table": "T", "mix": mix, "p": p}, measured=p)
        for mix in (0.1, 1.0)
        for p in (0.1, 0.5)
    ]
    rows += [
        Row(settings={"network": "N", "of": of, "p": p}, measured=p)
        for of in ("one", "all")
        for p in (0.1, 0.5)
    ]
    figure = draw_figure(plot_rows(rows, Picture(x="p", by=("table", "network", "mix", "of"))))
    assert [axes.get_title() for axes in figure.axes] == ["T", "N"]
    assert legend_of(figure) == ["mix = 0.1", "mix = 1", "one", "all"]
