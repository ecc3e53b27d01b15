"""SVG elements from plain values, with every text escaped."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup, escape

from scenarios.errors import printable
from scenarios.wording.formatting import cut

_GLYPH = 0.58
"""The width of a letter, in sizes of its font, so that texts can be cut to fit."""


def element(name: str, *children: object, **attributes: object) -> Markup:
    """An SVG element; an underscore in an attribute's name stands for a hyphen."""
    written = "".join(
        f' {key.strip("_").replace("_", "-")}="{escape(_number(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    # Names never come from files; values and children are escaped.
    inner = Markup("").join(
        child if isinstance(child, Markup) else escape(printable(str(child))) for child in children
    )
    return Markup(f"<{name}{written}>{inner}</{name}>")


def picture(
    key: str,
    title: str,
    description: str,
    size: tuple[float, float],
    parts: Sequence[Markup],
    *,
    class_: str = "",
) -> Markup:
    """A whole picture.

    Args:
        key: prefix of its ids, unique on a page.
        title: its name, for screen readers.
        description: its description, for screen readers.
        size: width and height.
        parts: elements of the picture.
        class_: class of the style sheet.
    """
    width, height = size
    return element(
        "svg",
        element("title", title, id=f"{key}-title"),
        element("desc", description, id=f"{key}-desc"),
        *parts,
        role="img",
        aria_labelledby=f"{key}-title",
        aria_describedby=f"{key}-desc",
        viewBox=f"0 0 {_number(width)} {_number(height)}",
        width=width,
        height=height,
        class_=class_ or None,
    )


def text_width(content: str, size: float) -> float:
    """Estimated width of a text in a font of a size; ``text`` cuts to fit by it."""
    return len(content) * size * _GLYPH


def text(
    x: float, y: float, content: str, class_: str, *, room: float | None = None, size: float = 12.5
) -> Markup:
    """A text at a place, cut to the room it has.

    Args:
        x, y: start, end or middle of the line, depending on the class.
        content: the text.
        class_: class of the style sheet.
        room: maximum width.
        size: font size.
    """
    if room is not None:
        content = cut(content, max(3, int(room / (size * _GLYPH))))
    return element("text", content, x=x, y=y, class_=class_)


def _number(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.1f}".removesuffix(".0")
    return str(value)
