"""Texts in CSV files that a spreadsheet would read as formulas."""

from __future__ import annotations

import re

_FORMULA = re.compile(r"'*(?![+-][0-9]+(?:[.,][0-9]+)?\Z)[=+\-@\t\r]")


def escape_formula(text: str) -> str:
    """A text for a CSV file, with an apostrophe before what a spreadsheet takes for a formula.

    Such a text begins with ``=``, ``+``, ``-``, ``@``, a tab or a carriage return, and is not a
    number; or it is one with apostrophes before it.
    """
    return f"'{text}" if _FORMULA.match(text) else text


def unescape_formula(text: str) -> str:
    """The text that ``escape_formula`` has made this of; others stay as they are."""
    return text[1:] if text[:1] == "'" and _FORMULA.match(text) else text
