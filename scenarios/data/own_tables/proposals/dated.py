"""Proposals for columns of dates: ranges of months, quarters or years."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Sequence
from itertools import islice

from scenarios.data.own_tables.dates import UNITS, USUAL_ORDER, Unit, date_in, date_orders
from scenarios.data.own_tables.proposals.columns import (
    FEW_TEXTS,
    Answers,
    Decision,
    Limits,
    Matter,
    Proposed,
    left_out,
    with_missing,
    with_other,
)
from scenarios.data.own_tables.proposals.numbers import edges_between
from scenarios.data.own_tables.question import Question

_TRIED, _MOST = 200, 0.95
_NO_DATES = frozenset(
    datetime.date(*day)
    for day in ((1, 1, 1), (1111, 11, 11), (1899, 12, 30), (1900, 1, 1), (1970, 1, 1))
) | {datetime.date(2099, 12, 31), datetime.date(2999, 12, 31), datetime.date(9999, 12, 31)}
_FAR = 5 * 365
_PILED = 5


def propose_dates(name: str, answers: Answers, limits: Limits) -> Proposed | None:
    """The proposal for a column of dates; None for other columns."""
    counts = answers.counts
    orders = _orders(counts)
    if not orders:
        return None
    order = orders[0]
    days = {cell: day for cell in counts if (day := date_in(cell, order)) is not None}
    texts = Counter({cell: times for cell, times in counts.items() if cell not in days})
    if len(texts) > FEW_TEXTS or texts.total() > (1 - _MOST) * counts.total():
        return None
    dated = Counter[datetime.date]()
    for cell, day in days.items():
        dated[day] += counts[cell]
    none = _no_dates(dated)
    decisions = []
    own = tuple(sorted(cell for cell, day in days.items() if day in none))
    if own:
        said = f"{', '.join(own)}: no such days, it seems; taken for no answer"
        times = sum(dated.pop(day) for day in none)
        change = "If it is a day, delete missing_cells."
        decisions.append(Decision(Matter.ANSWERS, said, times, change))
    cut = cut_dates(dated, limits.ranges)
    rows = counts.total()
    if cut is None:
        return left_out(
            name, f"all dates are in {UNITS[0].text(UNITS[0].number(min(dated)))}", rows
        )
    unit, firsts = cut
    question = Question(
        name=name,
        edges=tuple(map(unit.begins, firsts)),
        dates=None if order == USUAL_ORDER else order,
        categories=unit.ranges(firsts),
        ordinal=True,
        missing_cells=own,
    )
    decisions.insert(0, _date_decision(dated, unit, firsts, orders, rows))
    if texts:
        question, lost = with_other(question, texts, rows, "no dates, so ")
        decisions.append(lost)
    return Proposed(name, (with_missing(question, answers),), (), tuple(decisions))


def _date_decision(
    dated: Counter[datetime.date],
    unit: Unit,
    firsts: Sequence[int],
    orders: Sequence[str],
    rows: int,
) -> Decision:
    said = (
        f"dates from {min(dated)} to {max(dated)}, cut into {len(firsts) + 1} ranges of "
        f"{unit.name}s"
    )
    if orders[0] != USUAL_ORDER:
        said += f", read as {orders[0]}"
    if len(orders) > 1:
        said += f" (they could be {orders[1]})"
    change = "For other ranges change edges, and delete categories"
    for longer in UNITS:
        others = sorted({longer.number(day) for day in dated})[1:]
        if longer.months > unit.months and others:
            edges = ", ".join(str(longer.begins(first)) for first in others)
            change += f"; for {longer.name}s: edges = [{edges}]"
    return Decision(Matter.ANSWERS, said, rows, f"{change}.")


def _orders(counts: Counter[str]) -> list[str]:
    """Date orders that fit nearly all cells, the best first."""
    some = [*islice(counts, _TRIED)]
    tried = {order for cell in some for order in date_orders([cell])}
    if not tried:
        return []
    fitting = {
        order: sum(times for cell, times in counts.items() if date_in(cell, order) is not None)
        for order in date_orders(())
        if order in tried
    }
    most = max(fitting.values())
    if most < _MOST * counts.total():
        return []
    return [order for order, times in fitting.items() if times == most]


def _no_dates(dated: Counter[datetime.date]) -> set[datetime.date]:
    """Days that stand for a missing date: far from all others, or far more frequent."""
    found = set[datetime.date]()
    others = Counter({day: dated[day] for day in dated if day not in _NO_DATES})
    for day in _NO_DATES & dated.keys() if others else ():
        low, high = min(others), max(others)
        is_far = (low - day).days > _FAR or (day - high).days > _FAR
        if is_far or dated[day] > max(_PILED, _PILED * max(others.values())):
            found.add(day)
    return found


def cut_dates(dated: Counter[datetime.date], most: int) -> tuple[Unit, list[int]] | None:
    """The shortest unit that needs at most so many ranges, and the starts of the ranges.

    If even years are too many, they are joined into ranges with about equally many rows. None if
    all dates are in one month.
    """
    counts, unit = Counter[int](), UNITS[0]
    for longer in UNITS:
        found = Counter[int]()
        for day, times in dated.items():
            found[longer.number(day)] += times
        if len(found) == 1:
            break
        counts, unit = found, longer
        if len(counts) <= most:
            return unit, sorted(counts)[1:]
    edges = edges_between(Counter({float(each): times for each, times in counts.items()}), most)
    return (unit, [*map(int, edges)]) if edges else None
