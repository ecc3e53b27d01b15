"""Options of commands that report estimates: intervals, margins, projections, files beside."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

import click

from protocol.errors import UsageError
from protocol.estimators.inference.laws import LEVEL, About
from protocol.estimators.inference.words import Intervals
from protocol.estimators.projection import Projection
from scenarios.cli.numbers import Amount
from scenarios.cli.options import F, is_given
from scenarios.cli.paths import READ_FILE, WRITTEN_FILE
from scenarios.running.calibrating import METHODS, Calibration

if TYPE_CHECKING:
    from protocol.estimators.calibration.calibrated import Method


def interval_options(usual: About = "respondents") -> Callable[[F], F]:
    """``--level`` and ``--about``; the command gets ``intervals``.

    Args:
        usual: what intervals are about if it is not said.
    """

    def with_options(command: F) -> F:
        @click.option(
            "--level",
            type=Amount(min=0, max=1, min_open=True, max_open=True),
            default=LEVEL,
            show_default=True,
            help="The confidence level of intervals.",
        )
        @click.option(
            "--about",
            type=click.Choice(get_args(About)),
            default=usual,
            show_default=True,
            help="Whose shares intervals are about: those of the respondents, whose answers were "
            "randomized, or those of a population of which they are a simple random sample.",
        )
        @functools.wraps(command)
        def chosen(*args: Any, level: float, about: About, **given: Any) -> Any:
            return command(*args, intervals=Intervals(level, about), **given)

        return cast(F, chosen)

    return with_options


def calibration_options(command: F) -> F:
    """``--calibrate`` and ``--calibrate-by``; the command gets ``calibration``."""

    @click.option(
        "--calibrate",
        "margins",
        multiple=True,
        type=READ_FILE,
        metavar="FILE",
        help="A CSV file of known margins of the population that estimates are made to agree with: "
        "attribute,category,share, or names of attributes and then share; count may stand for "
        "share. Repeat for each. Intervals are then about the population.",
    )
    @click.option(
        "--calibrate-by",
        "method",
        type=click.Choice(METHODS),
        default="linear",
        show_default=True,
        help="How: linear has the least variance if respondents are a random sample; "
        "post-stratified, to one margin, is right also if some of its cells respond more; raking "
        "weighs records, never negatively.",
    )
    @functools.wraps(command)
    def chosen(*args: Any, margins: tuple[Path, ...], method: Method, **given: Any) -> Any:
        if not margins and is_given("method"):
            raise UsageError("--calibrate-by: expected --calibrate too")
        if margins and not is_given("about"):
            given["about"] = "population"
        return command(*args, calibration=Calibration(margins, method), **given)

    return cast(F, chosen)


synthetic_option = click.option(
    "--synthetic",
    type=WRITTEN_FILE,
    help="A .csv file for synthetic records, as many as there are respondents.",
)


def beside_options(command: F) -> F:
    """``--plot``, ``--synthetic`` and ``--html``; the command gets ``beside``."""

    @click.option(
        "--plot",
        type=WRITTEN_FILE,
        help="A .png, .svg or .pdf file to draw the result into; needs matplotlib.",
    )
    @synthetic_option
    @click.option(
        "--html",
        type=WRITTEN_FILE,
        help="An HTML file to write the result, what it cost and what was said into, as one page.",
    )
    @functools.wraps(command)
    def chosen(
        *args: Any, plot: Path | None, synthetic: Path | None, html: Path | None, **given: Any
    ) -> Any:
        from scenarios.report.beside import Beside

        return command(*args, beside=Beside(plot, synthetic, html), **given)

    return cast(F, chosen)


project_option = click.option(
    "--project",
    type=click.Choice(get_args(Projection)),
    default="none",
    show_default=True,
    help="What is done to raw shares, which may be below 0, to make them proper.",
)
