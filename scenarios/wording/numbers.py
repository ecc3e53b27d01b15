"""Numbers as people write them elsewhere."""

from __future__ import annotations

import re

_APART = re.compile(r"[0-9]{1,3}([., '])[0-9]{3}(\1[0-9]{3})*")


def number_hint(text: str, *, whole: bool = False) -> str:
    """End of the error about a number in a foreign notation: its usual spelling.

    Args:
        text: with a comma for its point, thousands set apart, or a percent sign.
        whole: whether a whole number is expected.
    """
    text = text.strip()
    if _APART.fullmatch(text) and (whole or text.count(",") > 1):
        return f"; did you mean {re.sub('[^0-9]', '', text)}?"
    if whole:
        return ""
    if re.fullmatch(r"\d*,\d+", text):
        return f"; did you mean {text.replace(',', '.')}?"
    percent = re.fullmatch(r"(\d+(?:[.,]\d+)?) ?%", text)
    if percent is not None:
        return f"; did you mean {float(percent[1].replace(',', '.')) / 100:g}?"
    return ""
