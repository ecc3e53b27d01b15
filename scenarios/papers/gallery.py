"""A picture of every reproduction, and the page that shows them all:

    python -m scenarios.papers.gallery docs/gallery

draws the pictures into that folder, and writes the page beside it, ``docs/gallery.md``.
"""

from __future__ import annotations

import dataclasses
import html
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from scenarios.report.pictures.drawing import Plot, rendered
from scenarios.report.pictures.ratios import plot_ratios
from scenarios.report.pictures.results import result_plot
from scenarios.running.loading import all_scenarios
from scenarios.running.reproduction import Reproduced
from scenarios.running.scenario import Context, Scenario

RUNS = 100
"""Runs of a picture; the reproduction's default if that is less."""

FEWER: Mapping[str, int] = {"rr-query-sizes": 10, "rrba-honest": 10}
"""The runs of reproductions whose runs take long."""

DRAWN: Mapping[str, tuple[int, ...]] = {"privkv-figures": (1, 2, 3, 4, 5, 6, 11, 12, 13)}
"""The figures that are drawn of a reproduction whose others need data not in the package."""

FONTS = ["DejaVu Sans", "Verdana", "Arial"]
"""Letters of nearly equal widths, for whoever lacks the first."""

_PAGE = """\
# Gallery

<!-- Made by 'python -m scenarios.papers.gallery docs/gallery', as its pictures are. -->

A picture of every reproduction. Where a paper prints figures, each is shown as measured divided by
printed, with its 95 % interval; a hollow mark differs by more than chance and rounding explain.
Where it prints none, the picture is that of `sottovoce run NAME --plot FILE`.

Pictures have seed 1 and at most {runs} runs; [Papers](papers.md) has figures of the default runs.
Of `privkv-figures`, Figures 7 and 8 are missing, as they need MovieLens.
"""


def reproductions() -> Iterator[Scenario[Any]]:
    """The scenarios that are reproductions, in the order of the papers."""
    return (scenario for scenario in all_scenarios() if scenario.reproduces)


def run(scenario: Scenario[Any], runs: int = RUNS) -> Reproduced:
    """A reproduction, done with few runs and without what needs other data."""
    default = getattr(scenario.configure({}), "runs")  # noqa: B009  # all of them have it
    few = min(runs, FEWER.get(scenario.name, runs), default)
    parts = [
        scenario.run(scenario.configure({"runs": few, **chosen}), Context())
        for chosen in [{"figure": one} for one in DRAWN.get(scenario.name, ())] or [{}]
    ]
    done = [part for part in parts if isinstance(part, Reproduced)]
    return dataclasses.replace(done[0], rows=tuple(row for part in done for row in part.rows))


def picture(done: Reproduced) -> Plot:
    """Measured against printed figures; the reproduction's own picture if none is printed."""
    if any(found.printed for row in done.rows for found in row.figures()):
        return plot_ratios(done.rows, done.picture, runs=done.runs)
    return result_plot(done.reproduction, done)


def draw(done: Reproduced) -> bytes:
    """Its picture as SVG, with letters as text: that is shorter, and can be searched."""
    from matplotlib import rc_context

    with rc_context({"svg.fonttype": "none", "font.sans-serif": FONTS}):
        return shortened(rendered(picture(done), ".svg"))


def shortened(svg: bytes) -> bytes:
    """A picture with coordinates to a hundredth of a point, without blanks and names of groups."""

    def short(attribute: re.Match[bytes]) -> bytes:
        text = re.sub(rb"([;:]) ", rb"\1", attribute[0])
        return re.sub(rb"\d+\.\d{3,}", lambda number: b"%.2f" % float(number[0]), text)

    svg = re.sub(rb'<g id="[^"]*"', b"<g", svg)
    svg = re.sub(rb' transform="rotate\(-0 [^"]*"', b"", svg)
    return re.sub(rb'="[^"]*"', short, re.sub(rb"\n\s*", b"\n", svg))


def page(folder: Path) -> str:
    """The page of the pictures in a folder, as Markdown."""
    parts = [_PAGE.format(runs=RUNS).rstrip()]
    for scenario in reproductions():
        headline = _headline((folder / f"{scenario.name}.svg").read_text(encoding="utf-8"))
        parts += [
            f"## {scenario.summary.rstrip('.')}",
            f"`sottovoce run {scenario.name}`",
            f"![{headline}]({folder.name}/{scenario.name}.svg)",
        ]
    return "\n\n".join(parts) + "\n"


def _headline(svg: str) -> str:
    found = re.search(r"<dc:title>(.*?)</dc:title>", svg, re.DOTALL)
    return html.unescape(found[1]) if found else ""


def main(arguments: Sequence[str]) -> int:
    """Draw all pictures into the folder that is named, and write the page beside it."""
    [where] = arguments
    folder = Path(where)
    folder.mkdir(parents=True, exist_ok=True)
    for scenario in reproductions():
        print(scenario.name, file=sys.stderr)
        (folder / f"{scenario.name}.svg").write_bytes(draw(run(scenario)))
    folder.with_suffix(".md").write_text(page(folder), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
