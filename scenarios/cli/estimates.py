"""Options of commands that report estimates: intervals, margins, projections, further files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click

from protocol.errors import UsageError
from protocol.estimators.inference.intervals import Intervals
from protocol.estimators.inference.laws import LEVEL, About
from protocol.estimators.projection import Projection
from scenarios.cli.numbers import Amount
from scenarios.cli.options import is_given
from scenarios.cli.paths import READ_FILE, WRITTEN_FILE
from scenarios.cli.values import F, gathers
from scenarios.running.calibrating import METHODS, Calibration

if TYPE_CHECKING:
    from protocol.estimators.calibration.calibrated import Method
    from scenarios.report.beside import Beside


def interval_options(usual: About = "respondents") -> Callable[[F], F]:
    """``--level`` and ``--about``; the command gets ``intervals``.

    Args:
        usual: default subject of the intervals, without ``--about`` and ``--calibrate``.
    """
    return gathers(
        "intervals",
        _intervals,
        click.option(
            "--level",
            type=Amount(min=0, max=1, min_open=True, max_open=True),
            default=LEVEL,
            show_default=True,
            help="The confidence level of intervals.",
        ),
        click.option(
            "--about",
            type=click.Choice(get_args(About)),
            default=usual,
            show_default=True,
            help="What intervals are about: the shares among the respondents, or among a "
            "population of which they are a simple random sample.",
        ),
    )


def _intervals(level: float, about: About) -> Intervals:
    if is_given("--calibrate") and not is_given("--about"):
        return Intervals(level, "population")
    return Intervals(level, about)


def _calibration(files: tuple[Path, ...], method: Method) -> Calibration:
    if not files and is_given("--calibrate-by"):
        raise UsageError("--calibrate-by: expected --calibrate too")
    return Calibration(files, method)


calibration_options = gathers(
    "calibration",
    _calibration,
    click.option(
        "--calibrate",
        "files",
        multiple=True,
        type=READ_FILE,
        metavar="FILE",
        help="A CSV file of known margins of the population that estimates are made to agree with: "
        "attribute,category,share, or names of attributes and then share; count may stand for "
        "share. Repeat for each. Intervals are then about the population.",
    ),
    click.option(
        "--calibrate-by",
        "method",
        type=click.Choice(METHODS),
        default="linear",
        show_default=True,
        help="How: linear has the least variance if respondents are a random sample; "
        "post-stratified, to one margin, is right also if some of its cells respond more; raking "
        "weighs records, never negatively.",
    ),
)
"""``--calibrate`` and ``--calibrate-by``; the command gets ``calibration``."""

synthetic_option = click.option(
    "--synthetic",
    type=WRITTEN_FILE,
    help="A .csv file for synthetic records, as many as there are respondents.",
)


def _beside(plot: Path | None, synthetic: Path | None, html: Path | None) -> Beside:
    from scenarios.report.beside import Beside

    return Beside(plot, synthetic, html)


beside_options = gathers(
    "beside",
    _beside,
    click.option(
        "--plot",
        type=WRITTEN_FILE,
        help="A .png, .svg or .pdf file to draw the result into; needs matplotlib.",
    ),
    synthetic_option,
    click.option(
        "--html",
        type=WRITTEN_FILE,
        help="An HTML file for the result, its privacy and the messages, as one page.",
    ),
)
"""``--plot``, ``--synthetic`` and ``--html``; the command gets ``beside``."""

project_option = click.option(
    "--project",
    type=click.Choice(get_args(Projection)),
    default="none",
    show_default=True,
    help="What is done to raw shares, which may be below 0, to make them proper.",
)
