"""The gallery: a picture of every reproduction, and the page that shows them."""

from __future__ import annotations

import dataclasses
import math
import re
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import msgspec
import numpy as np
import pytest
from matplotlib.axes import Axes

from scenarios import Row, find_scenario
from scenarios.papers.gallery import draw, page, picture, reproductions, run
from scenarios.report.pictures.drawing import draw_figure as figure_of
from scenarios.report.pictures.ratios import plot_ratios
from scenarios.running.names import MODULES
from scenarios.running.reproduction import Picture
from tests.scenarios.pictures import faults
from tests.tiers import slow

DOCS = Path(__file__).parents[3] / "docs"
PICTURES = DOCS / "gallery"
MOST_BYTES = 2_200_000
NUMBER = r"-?\d+\.?\d*"
MOST_POINTS = 2.0
"""Largest difference of coordinates that versions of matplotlib and fonts may make."""
COORDINATES = ("width", "height", "viewBox", "x", "y", "d", "transform")


def names() -> set[str]:
    modules = [name for name in MODULES if name.startswith("scenarios.papers.")]
    return {name for module in modules for name in MODULES[module]}


def test_the_page_shows_a_picture_of_every_reproduction() -> None:
    said = (DOCS / "gallery.md").read_text(encoding="utf-8")
    shown = re.findall(r"!\[[^\]]{10,}\]\(gallery/(.+)\.svg\)", said)
    assert sorted(shown) == sorted(names())
    assert {scenario.name for scenario in reproductions()} == names()
    assert said == page(PICTURES)


def test_the_pictures_are_those_that_are_named_and_small() -> None:
    assert {path.name for path in PICTURES.iterdir()} == {f"{name}.svg" for name in names()}
    assert sum(path.stat().st_size for path in PICTURES.iterdir()) <= MOST_BYTES


class Mark(NamedTuple):
    """An element of a picture: its tag, text, style and path's letters, and its coordinates."""

    looks: tuple[str, ...]
    at: list[float]


def marks(svg: bytes) -> list[Mark]:
    """Elements of a picture, without names of elements, fonts and matplotlib's version."""
    root = ElementTree.fromstring(svg)
    for metadata in root.findall("{*}metadata"):
        root.remove(metadata)
    found = []
    for element in root.iter():
        letters = re.sub(rf"{NUMBER}|\s", "", element.get("d", ""))
        declared = sorted(re.split(r";\s*", element.get("style", "")))
        style = [one for one in declared if not one.startswith("font")]
        coordinates = " ".join(element.get(name, "") for name in COORDINATES)
        found.append(
            Mark(
                (element.tag, (element.text or "").strip(), letters, *style),
                [float(number) for number in re.findall(NUMBER, coordinates)],
            )
        )
    return found


def apart(one: list[Mark], other: list[Mark]) -> float:
    """Largest difference between coordinates of two pictures, infinite if they look different."""
    if [(mark.looks, len(mark.at)) for mark in one] != [
        (mark.looks, len(mark.at)) for mark in other
    ]:
        return math.inf
    pairs = zip(one, other, strict=True)
    return max(abs(x - y) for mine, its in pairs for x, y in zip(mine.at, its.at, strict=True))


@pytest.mark.parametrize(
    "name", ["rr-figure-1", *map(slow, ["rr-adjustment-example", "privkv-table-2"])]
)
def test_a_picture_is_made_again_alike(name: str) -> None:
    # A closed form: what is drawn depends on no number of runs.
    kept = marks((PICTURES / f"{name}.svg").read_bytes())
    assert apart(kept, marks(draw(run(find_scenario(name))))) <= MOST_POINTS


def test_a_picture_of_other_figures_is_not_alike() -> None:
    done = run(find_scenario("privkv-table-2"))
    kept = marks((PICTURES / "privkv-table-2.svg").read_bytes())
    first, *others = done.rows
    assert isinstance(first.measured, dict)
    measured = {name: 1.1 * figure for name, figure in first.measured.items()}
    higher = msgspec.structs.replace(first, measured=measured)
    other = marks(draw(dataclasses.replace(done, rows=(higher, *others))))
    assert apart(kept, other) > MOST_POINTS


def test_pictures_are_alike_whatever_their_ids_and_last_digits() -> None:
    """matplotlib makes ids from the last bits of coordinates, which depend on the processor."""
    kept = (PICTURES / "rr-figure-1.svg").read_bytes()
    other = re.sub(rb"#\w{11}\b", b"#m0123456789", re.sub(rb"(\.\d)\d", rb"\g<1>0", kept))
    assert other != kept
    assert apart(marks(kept), marks(other)) < 0.1
    assert apart(marks(kept), marks(kept.replace(b">categories r<", b">categories<"))) == math.inf


def test_figures_that_need_other_data_are_left_out() -> None:
    done = run(find_scenario("privkv-figures"), runs=2)
    assert {row.settings["figure"] for row in done.rows} == {*range(1, 7), 11, 12, 13}
    assert done.runs == 2


def ratios(*found: tuple[float, float, float | None]) -> list[Row]:
    """Rows of measured figures, their errors and what is printed."""
    return [
        Row(settings={"p": p}, measured=measured, standard_error=error, printed=printed)
        for p, (measured, error, printed) in enumerate(found)
    ]


def points(axes: Axes) -> list[tuple[float, float, str]]:
    """Where the marks are, and how they are filled."""
    marks = [line for line in axes.get_lines() if line.get_marker() == "o"]
    places = [np.asarray(mark.get_xydata(), float).ravel() for mark in marks]
    fills = [str(mark.get_markerfacecolor()) for mark in marks]
    return [(float(x), float(y), fill) for (x, y), fill in zip(places, fills, strict=True)]


def test_printed_figures_are_ratios_with_intervals_and_a_line_at_one() -> None:
    rows = ratios((1.1, 0.1, 1.0), (6.0, 0.5, 4.0), (1.0, 0.1, None), (0.1, 0.1, 0.0))
    plot = plot_ratios(rows, Picture(), runs=7)
    [axes] = figure_of(plot).axes
    (_, first, filled), (_, second, hollow) = points(axes)
    assert (first, second) == (1.1, 1.5)
    assert (filled == "white", hollow == "white") == (False, True)
    bars: Any = axes.collections
    lengths = [float(np.ptp(bar.get_segments()[0][:, 1])) for bar in bars]
    assert lengths == pytest.approx([0.392, 0.49], rel=1e-3)
    assert [1.0, 1.0] in [np.asarray(line.get_ydata()).tolist() for line in axes.get_lines()]
    title, notes = figure_of(plot).get_suptitle(), figure_of(plot).texts[-1].get_text()
    assert title == "2 of 3 printed figures agree with the measured ones"
    assert notes == "7 runs; whiskers: 95 % intervals; 1 printed as 0 left out"
    assert faults(plot) == []


@pytest.mark.slow
def test_without_printed_figures_the_picture_is_the_reproductions_own() -> None:
    own = run(find_scenario("rrba-figure-4"), runs=2)
    assert figure_of(picture(own)).axes[0].get_ylabel() == "epsilon of a report"
    compared = run(find_scenario("rr-table-1"), runs=5)
    assert figure_of(picture(compared)).axes[0].get_ylabel() == "measured / printed"
    assert faults(picture(compared), "rr-table-1") == []
