"""Text on a terminal, and what it shows as text."""

from __future__ import annotations

from collections.abc import Iterable
from io import StringIO

from rich.console import Console, RenderableType
from rich.text import Text

from scenarios.errors import printable


def plain(content: str, style: str = "") -> Text:
    """Text as it is: neither markup nor control characters of a transcript do anything."""
    return Text(printable(content), style=style)


def printed(parts: Iterable[RenderableType], *, width: int = 100) -> str:
    """What a terminal without colours shows of the parts of a report."""
    console = Console(width=width, color_system=None, soft_wrap=True, file=StringIO())
    with console.capture() as capture:
        for part in parts:
            console.print(part)
    return capture.get()
