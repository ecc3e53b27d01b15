"""Text for a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable
from io import StringIO

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from scenarios.errors import printable

_BEGINS = re.compile(r"\s+(?:\S+ {2,}|- )?(?=\S)")
"""Indentation of a line: blanks, and a first word followed by several blanks."""


def plain(content: str, style: str = "") -> Text:
    """Text without markup and with control characters made visible."""
    return Text(printable(content), style=style)


def line(content: str, style: str = "") -> Text:
    """Text that takes one line of a terminal, however narrow that is."""
    return Text(printable(content), style=style, no_wrap=True, overflow="ellipsis")


def wrapped(part: RenderableType) -> RenderableType:
    """A part for a terminal: lines wrap at words, below where their own text begins."""
    if not isinstance(part, Text):
        return part
    if part.no_wrap:
        return Group(part)  # By itself a console would wrap it all the same.
    begins = _BEGINS.match(part.plain)
    indent = begins.end() if begins else 0
    if not indent or "\n" in part.plain:
        return part
    columns = Table.grid()
    columns.add_column(width=indent, no_wrap=True)
    columns.add_column()
    head, rest = part.divide([indent])
    columns.add_row(head, rest)
    return columns


def printed(parts: Iterable[RenderableType], *, width: int = 100) -> str:
    """Text of a report's parts on a terminal without colours."""
    console = Console(width=width, color_system=None, soft_wrap=True, file=StringIO())
    with console.capture() as capture:
        for part in parts:
            console.print(part)
    return capture.get()
