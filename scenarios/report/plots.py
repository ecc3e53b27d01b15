"""What reproductions that are not converted yet draw with."""

from __future__ import annotations

from collections.abc import Sequence

from scenarios.report.pictures import rows as _rows
from scenarios.report.pictures.drawing import Plot
from scenarios.report.pictures.style import COLOURS as COLOURS
from scenarios.report.pictures.style import GREY as GREY
from scenarios.report.pictures.style import MARKERS as MARKERS
from scenarios.running.reproduction import Picture, Row

WHISKERS = "whiskers: one standard error over the runs"


def plot_rows(
    rows: Sequence[Row],
    *,
    x: str | None = None,
    by: Sequence[str] | None = None,
    label: str = "",
    title: str = "",
) -> Plot:
    """As ``pictures.rows.plot_rows``."""
    names = {"": label} if label else {}
    picture = Picture(x=x, by=None if by is None else tuple(by), names=names, title=title)
    return _rows.plot_rows(rows, picture)
