"""Rendering of plots to files."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from protocol.errors import UsageError
from scenarios.errors import install_command
from scenarios.files.kinds import check_ending
from scenarios.report.pictures.style import DPI, STYLE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Plot: TypeAlias = "Callable[[Figure], None]"
"""Draws into an empty figure."""

ENDINGS = (".png", ".svg", ".pdf")


def check_plot(path: Path) -> None:
    """Check that a picture can be drawn into this file, before anything runs.

    Raises:
        UsageError: matplotlib is not installed, or the suffix is not that of a picture.
    """
    check_ending("--plot", path, ENDINGS)
    try:
        import matplotlib.figure  # noqa: F401  # only asked whether it is there
    except ImportError as error:
        raise UsageError(f"--plot needs matplotlib: {install_command('plots')}") from error


def draw_figure(plot: Plot) -> Figure:
    """A picture as a figure of matplotlib, in the style of all pictures."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(STYLE):
        figure = Figure(figsize=(8, 5), dpi=DPI)
        plot(figure)
    return figure


def rendered(plot: Plot, ending: str) -> bytes:
    """Content of a picture file; equal plots give equal files.

    Args:
        plot: draws it.
        ending: one of ``ENDINGS``.
    """
    from matplotlib import rc_context

    kind = ending.lower().removeprefix(".")
    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    figure = draw_figure(plot)
    # The title is for screen readers.
    titles = [figure.get_suptitle(), *(axes.get_title() for axes in figure.axes)]
    title = next(filter(None, titles), "").replace(r"\$", "$").replace("\n", " ")
    content = io.BytesIO()
    with rc_context(STYLE):
        figure.savefig(
            content, format=kind, dpi=DPI, metadata={**undated.get(kind, {}), "Title": title}
        )
    return content.getvalue()
