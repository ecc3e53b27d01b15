"""Constraints of an XLSForm: which numbers and days it takes."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from typing import TypeVar

from scenarios.data.own_tables.coding import number_in
from scenarios.data.own_tables.dates import USUAL_ORDER, date_in

T = TypeVar("T", float, datetime.date)

_BOUND = re.compile(r"\.\s*(<=|>=|<|>)\s*(.+)")
_FLIPPED = re.compile(r"(.+?)\s*(<=|>=|<|>)\s*\.")
_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_DATE = re.compile(r"date\(\s*['\"]([0-9]{4}-[0-9]{2}-[0-9]{2})['\"]\s*\)")


def number(text: str) -> float | None:
    """The number in a text; None if it is not a number."""
    return number_in(text.strip(), ".")


def day(text: str) -> datetime.date | None:
    """The day in a text such as ``date('2000-01-31')``; None if it is not a day."""
    found = _DATE.fullmatch(text.strip())
    return None if found is None else date_in(found[1], USUAL_ORDER)


def bounds(
    constraint: str, parse: Callable[[str], T | None], *, whole: bool = False
) -> tuple[T | None, T | None]:
    """The lowest and the highest answer that a constraint allows; None where it names none.

    Args:
        constraint: comparisons with ``.``, the answer, with ``and`` between them; others do not
            widen what these allow.
        parse: reads what the answer is compared with; None if it is something else.
        whole: whether answers are whole numbers, so that those above 0 begin with 1.
    """
    lows: list[T] = []
    highs: list[T] = []
    if re.search(r"\b(or|not|if)\b", constraint):
        return None, None
    for part in re.split(r"\band\b", " ".join(constraint.split())):
        sign, other = _parse_comparison(part)
        limit = parse(other)
        if limit is None:
            continue
        if whole and isinstance(limit, float) and sign in ("<", ">"):
            limit += 1 if sign == ">" else -1
        (lows if sign.startswith(">") else highs).append(limit)
    return max(lows, default=None), min(highs, default=None)


def _parse_comparison(part: str) -> tuple[str, str]:
    """The operator and the number in a comparison with the answer; empty texts if there is none."""
    text = part.strip().lstrip("( ")
    while text.endswith(")") and text.count(")") > text.count("("):
        text = text[:-1].rstrip()
    if (found := _BOUND.fullmatch(text)) is not None:
        return found[1], found[2]
    if (found := _FLIPPED.fullmatch(text)) is not None:
        return _MIRRORED[found[2]], found[1]
    return "", ""
