"""A first plan for a person's own table: what its columns hold, as attributes to ask about.

Whatever is proposed follows from the answers in the table, so it tells about them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from protocol.errors import SurveyError, UsageError
from protocol.surveys.dataframes import text_of
from protocol.surveys.survey import Attribute, listed
from scenarios.data.own_tables.coding import number_in
from scenarios.data.own_tables.counting import counted, sampled
from scenarios.data.own_tables.opening import open_sheet, reading
from scenarios.data.own_tables.proposals.columns import (
    LISTED,
    Answers,
    Decision,
    Limits,
    Matter,
    Proposed,
    left_out,
    unused,
)
from scenarios.data.own_tables.proposals.dated import of_dates
from scenarios.data.own_tables.proposals.lists import of_lists
from scenarios.data.own_tables.proposals.numbers import numbers_of, of_mixed, of_numbers
from scenarios.data.own_tables.proposals.texts import of_texts
from scenarios.data.own_tables.sheets import Format, Source, tidied
from scenarios.wording.formatting import count, some

MISSING = frozenset(("na", "n/a", "#n/a", "nan", "null", "?", "-", "."))
"""Cells that stand for no answer, beside an empty one, in small or capital letters."""

BINS, MOST, RARE = 8, 50, 10
"""Into how many ranges numbers are cut, the most categories of an attribute, and how many rows an
answer must have to be a category, by default. In a small table one of a hundred is enough."""


class Proposal(NamedTuple):
    """What is proposed for a table.

    Args:
        source: what the table is called.
        rows: how many it has.
        format: how it is written, with the cells that were taken for no answer.
        columns: what is proposed for each.
    """

    source: str
    rows: int
    format: Format
    columns: tuple[Proposed, ...]

    def decisions(self) -> list[str]:
        """Decisions that a person has to make, a line each, those first that concern most rows.

        Columns of which the same is to be decided share a line.
        """
        columns: dict[tuple[Matter, str], list[str]] = {}
        rows: Counter[tuple[Matter, str]] = Counter()
        for each in self.columns:
            for decision in each.decisions:
                key = decision.matter, decision.said
                columns.setdefault(key, []).append(each.column)
                rows[key] = max(rows[key], decision.rows)
        return [
            f"{some(columns[key], len(columns[key]))}: {key[1]} ({count(rows[key], 'row')})"
            for key in sorted(columns, key=lambda key: (key[0], -rows[key]))
        ]


def propose(
    source: Source,
    *,
    bins: int = BINS,
    most: int = MOST,
    rare: int = RARE,
    ignore_case: bool = True,
    header: bool | None = None,
) -> Proposal:
    """Propose attributes for the columns of a table.

    What is proposed is made from the answers in the table, so it reveals something of them.
    ``plan_text`` writes it down for a person to read and edit.

    Args:
        source: the path of a CSV or Parquet file, or a table in memory, of pandas, polars or
            Arrow, or a mapping from names to columns.
        bins: into how many ranges numbers are cut, at least 2.
        most: the most categories of an attribute, at least 3; rarer answers are joined.
        rare: texts in fewer rows than this are joined, and in fewer than one of a hundred; at
            least 1.
        ignore_case: texts that differ by case or blanks alone are one category; else they are
            several.
        header: whether the first row of a CSV file names the columns; None if it should, and is
            to be refused where it looks like a record.

    Raises:
        UsageError: it cannot be read, its rows do not make a table, none of its columns can be
            asked about, or a number is out of range.
    """
    for name, given, least in (("bins", bins, 2), ("most", most, 3), ("rare", rare, 1)):
        if given < least:
            raise UsageError(f"{name} {given}: expected at least {least}")
    with reading(source):
        return _proposal(source, Limits(bins, most, rare, ignore_case), header)


def _proposal(source: Source, limits: Limits, header: bool | None) -> Proposal:
    sheet = open_sheet(source, Format(header=header is not False))
    decimal = "."
    if sheet.delimiter != ",":
        decimal = _decimal_of([_merged(counter) for counter in sampled(sheet)])
    rows, missing, alike_names = 0, set[str](), []
    proposed: dict[str, Proposed] = {}
    for name, counter in counted(sheet):
        rows = counter.total()
        answers = _merged(counter, decimal)
        missing |= answers.missing.keys() - {""}
        if _is_answer(name, answers, decimal):
            alike_names.append(name)
        proposed[name] = _proposed(name, answers, decimal, limits)
    if not rows:
        raise UsageError(f"{sheet.source}: has no records")
    if header is None and sheet.delimiter is not None and 2 * len(alike_names) > len(sheet.names):
        raise UsageError(
            f"{sheet.source}: the first row looks like a record, not like names: "
            f"{listed(sheet.names)}; expected names, or --no-header where there are none (--header "
            "if these are the names)"
        )
    columns = tuple(_apart(proposed[name], sheet.names) for name in sheet.names)
    if not any(each.questions for each in columns):
        said = "; ".join(f"{each.column}: {each.decisions[-1].said}" for each in columns[:LISTED])
        raise UsageError(f"{sheet.source}: no column to ask about ({said})")
    written = Format(
        delimiter=sheet.delimiter,
        encoding=sheet.encoding,
        header=header is not False,
        decimal=decimal,
        missing_cells=tuple(sorted(missing)),
    )
    return Proposal(sheet.source, rows, written, columns)


def _apart(proposed: Proposed, names: Sequence[str]) -> Proposed:
    """The same, with no attribute of a list called like a column."""
    questions = tuple(
        each if each.column is None else replace(each, name=unused(each.name, names))
        for each in proposed.questions
    )
    return proposed._replace(questions=questions)


def _merged(cells: Mapping[Any, int], decimal: str = ".") -> Answers:
    counts: Counter[str] = Counter()
    missing: Counter[str] = Counter()
    spelt: dict[str, Any] = {}
    respelt: Counter[str] = Counter()
    for cell, times in cells.items():
        text = tidied(text_of(cell, decimal) or "")
        if not text or text.lower() in MISSING:
            missing[text] += times
            continue
        counts[text] += times
        # Numbers have one spelling.
        if isinstance(cell, str) and spelt.setdefault(text, cell) != cell:
            respelt[text] += times
    return Answers(counts, missing, respelt)


def _is_answer(name: str, answers: Answers, decimal: str) -> bool:
    """Whether the name of a column could be one of its answers."""
    if name in answers.counts:
        return True
    number = number_in(name, decimal)
    if number is None or not answers.counts:
        return False
    found = numbers_of(answers.counts, decimal)
    return found is not None and min(found.values()) <= number <= max(found.values())


def _decimal_of(columns: Sequence[Answers]) -> str:
    """A comma if more columns are numbers with it than with a point.

    Of numbers whose points all set thousands apart, in a table without commas between its fields,
    it is the comma as well.
    """

    def numbers(decimal: str) -> list[Answers]:
        return [each for each in columns if each.counts and numbers_of(each.counts, decimal)]

    commas, points = numbers(","), numbers(".")
    thousands = any("." in cell for each in commas for cell in each.counts)
    return "," if len(commas) > len(points) or (thousands and len(commas) == len(points)) else "."


def _proposed(name: str, answers: Answers, decimal: str, limits: Limits) -> Proposed:
    counts = answers.counts
    notes, decisions = [], []
    try:
        Attribute(name=name, categories=("a", "b"))
    except SurveyError as error:
        return left_out(name, str(error), counts.total())
    if answers.missing:
        notes.append(f"{answers.missing.total():,} of {answers.rows:,} without an answer")
    if answers.respelt:
        named = some(map(repr, sorted(answers.respelt)), len(answers.respelt), LISTED)
        said = f"spellings joined that differ only in blanks or accents: {named}"
        decisions.append(Decision(Matter.ANSWERS, said, answers.respelt.total()))
    if not counts:
        return left_out(name, "it is empty", answers.rows, notes)
    if len(counts) == 1 and not answers.missing:
        return left_out(name, "all rows are the same", answers.rows, notes)
    found = numbers_of(counts, decimal)
    if found is not None:
        return of_numbers(name, answers, found, limits).after(notes, decisions)
    proposed = (
        of_dates(name, answers, limits)
        or of_lists(name, answers, limits)
        or of_mixed(name, answers, decimal, limits)
        or of_texts(name, answers, limits)
    )
    return proposed.after(notes, decisions if proposed.questions else ())
