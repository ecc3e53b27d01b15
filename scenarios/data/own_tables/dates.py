"""Dates as people write them in tables, and the ranges of a calendar."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import pairwise, permutations
from typing import NamedTuple

USUAL_ORDER = "y-m-d"
"""The order in which a date is written that nothing else is said of."""

_ORDER = re.compile("([dmy])([-./])([dmy])([-./])([dmy])")
_DIGITS = {"d": "[0-9]{1,2}", "m": "[0-9]{1,2}", "y": "[0-9]{4}"}
_TIME = "(?:[T ,]+[0-9]{1,2}:[0-9]{2}.*)?"

# Days first: most of the world writes so where it does not begin with the year.
_TRIED = tuple(
    sign.join(order)
    for order in ("ymd", "dmy", "mdy", *map("".join, permutations("dmy")))
    for sign in "-./"
)


def is_order(text: str) -> bool:
    """Check whether a text is a date order, such as ``d.m.y`` or ``y-m-d``."""
    found = _ORDER.fullmatch(text)
    return found is not None and {found[1], found[3], found[5]} == {*"dmy"}


def date_in(cell: str, order: str) -> datetime.date | None:
    """The date in a tidied cell; None for anything else, also for a day that no calendar has.

    Args:
        cell: a time of day after the date is passed over.
        order: order of day, month and year, as in ``is_order``; years have four digits.
    """
    found = _pattern(order).fullmatch(cell)
    if found is None:
        return None
    try:
        return datetime.date(int(found["y"]), int(found["m"]), int(found["d"]))
    except ValueError:
        return None


def date_orders(cells: Iterable[str]) -> list[str]:
    """Orders of day, month and year in which all the cells are dates, the likeliest first."""
    orders = [*dict.fromkeys(_TRIED)]
    for cell in cells:
        orders = [order for order in orders if date_in(cell, order) is not None]
        if not orders:
            break
    return orders


@cache
def _pattern(order: str) -> re.Pattern[str]:
    one, sign, two, other, three = [*order]
    named = [f"(?P<{part}>{_DIGITS[part]})" for part in (one, two, three)]
    return re.compile(rf"{named[0]}\{sign} ?{named[1]}\{other} ?{named[2]}{_TIME}")


class Unit(NamedTuple):
    """A range of the calendar.

    Args:
        name: the period's name.
        months: its number of months.
    """

    name: str
    months: int

    def number(self, day: datetime.date) -> int:
        """Number of the unit that a day is in, counted from the year 0."""
        return (12 * day.year + day.month - 1) // self.months

    def begins(self, number: int) -> datetime.date:
        """The first day of one."""
        year, month = divmod(number * self.months, 12)
        return datetime.date(year, month + 1, 1)

    def text(self, number: int) -> str:
        """A period as people write it."""
        day = self.begins(number)
        part = {1: f"-{day.month:02}", 3: f" Q{day.month // 3 + 1}", 12: ""}[self.months]
        return f"{day.year:04}{part}"

    def ranges(self, firsts: Iterable[int]) -> tuple[str, ...]:
        """Names of ranges of periods; the first and last range are open.

        Args:
            firsts: with which each but the first range begins, rising.
        """
        return (*self._ranges([*firsts]),)

    def _ranges(self, firsts: list[int]) -> Iterator[str]:
        yield f"before {self.text(firsts[0])}"
        for first, after in pairwise(firsts):
            last = "" if after == first + 1 else f" to {self.text(after - 1)}"
            yield f"{self.text(first)}{last}"
        yield f"{self.text(firsts[-1])} or later"


UNITS = (Unit("month", 1), Unit("quarter", 3), Unit("year", 12))
"""All periods, from shortest to longest."""
