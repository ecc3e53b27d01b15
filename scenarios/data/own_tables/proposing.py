"""A first plan for a user's own table: its columns as attributes.

The proposal depends on the answers in the table, so it reveals something about them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from protocol.errors import SurveyError, UsageError
from protocol.surveys.dataframes import cell_text
from protocol.surveys.survey import Attribute, listed
from scenarios.data.own_tables.coding import number_in
from scenarios.data.own_tables.counting import count_answers, sampled
from scenarios.data.own_tables.forms.form import UNKNOWN, Form, language_tag
from scenarios.data.own_tables.forms.reading import form_in, is_form
from scenarios.data.own_tables.opening import open_sheet, reading
from scenarios.data.own_tables.proposals.columns import (
    LISTED,
    Answers,
    Decision,
    Limits,
    Matter,
    Proposed,
    Words,
    left_out,
    unused,
)
from scenarios.data.own_tables.proposals.dated import propose_dates
from scenarios.data.own_tables.proposals.labelled import propose_labels, with_labels
from scenarios.data.own_tables.proposals.lists import propose_lists
from scenarios.data.own_tables.proposals.numbers import propose_mixed, propose_numbers, read_numbers
from scenarios.data.own_tables.proposals.texts import propose_texts
from scenarios.data.own_tables.sheets import Format, Labels, Sheet, Source, tidied
from scenarios.wording.formatting import count, some

MISSING = frozenset(("na", "n/a", "n.a.", "#n/a", "nan", "null", "?", "-", "."))
"""Cells that stand for no answer, beside an empty one, in small or capital letters."""

BINS, MOST, RARE = 8, 50, 10
"""Into how many ranges numbers are cut, the most categories of an attribute, and how many rows an
answer must have to be a category, by default. In a small table one of a hundred is enough."""


class Proposal(NamedTuple):
    """Proposal for a table.

    Args:
        source: name of the table.
        rows: number of rows.
        format: the table's format, with the cells taken for no answer.
        columns: a proposal for each column.
        title: title of the survey; empty if the source has none.
        language: the tag of that of the words.
    """

    source: str
    rows: int
    format: Format
    columns: tuple[Proposed, ...]
    title: str = ""
    language: str = UNKNOWN

    @property
    def is_of_form(self) -> bool:
        """True for a proposal from a form, which has no rows."""
        return self.rows == 0

    @property
    def words(self) -> tuple[Words, ...]:
        """The words of its questions, as far as the source has any."""
        return tuple(each.words for each in self.columns if each.words is not None)

    def decisions(self) -> list[str]:
        """Decisions for a person, one per line, those that concern most rows first.

        Columns with equal decisions share a line.
        """
        columns: dict[tuple[Matter, str], list[str]] = {}
        rows: Counter[tuple[Matter, str]] = Counter()
        for each in self.columns:
            for decision in each.decisions:
                key = decision.matter, decision.said
                columns.setdefault(key, []).append(each.column)
                rows[key] = max(rows[key], decision.rows)
        lines = [
            f"{some(columns[key], len(columns[key]))}: {key[1]}{concerned(rows[key])}"
            for key in sorted(columns, key=lambda key: (key[0], -rows[key]))
        ]
        if self.words and self.language == UNKNOWN:
            lines.append("texts: their language is not known; write its tag, such as en")
        return lines


def concerned(rows: int) -> str:
    """End of a line with a number of rows; empty for 0."""
    return f" ({count(rows, 'row')})" if rows else ""


def propose(
    source: Source,
    *,
    bins: int = BINS,
    most: int = MOST,
    rare: int = RARE,
    ignore_case: bool = True,
    header: bool | None = None,
    language: str | None = None,
) -> Proposal:
    """Propose attributes for the columns of a table, or for the questions of a form.

    A proposal for a table depends on its answers, so it reveals something about them. ``plan_text``
    writes it for a person to read and edit.

    Args:
        source: the path of a table, a file of CSV, Parquet, SPSS or Stata; that of a form, an
            XLSForm or a data dictionary of REDCap; or a table in memory, of pandas, polars or
            Arrow, or a mapping from names to columns.
        bins: into how many ranges numbers are cut, at least 2.
        most: the most categories of an attribute, at least 3; rarer answers are joined.
        rare: texts in fewer rows than this are joined, and in fewer than one of a hundred; at
            least 1.
        ignore_case: texts that differ by case or blanks alone are one category; else they are
            several.
        header: whether the first row of a CSV file names the columns; None if it should, and is
            to be refused where it looks like a record.
        language: language of the words, by tag; for an XLSForm also by its own name.

    Raises:
        UsageError: it cannot be read, its rows do not make a table, it is a malformed form, none of
            its columns can be asked about, a number is out of range, or there are no words for a
            language.
    """
    for name, given, least in (("bins", bins, 2), ("most", most, 3), ("rare", rare, 1)):
        if given < least:
            raise UsageError(f"{name} {given}: expected at least {least}")
    with reading(source):
        limits = Limits(bins, most, rare, ignore_case)
        path = Path(source) if isinstance(source, str | PathLike) else None
        if path is not None and is_form(path):
            return _form_proposal(form_in(path, limits, language))
        sheet = open_sheet(source, Format(header=header is not False))
        if path is not None and is_form(path, sheet.names):
            return _form_proposal(form_in(path, limits, language))
        if language is not None and not sheet.labels:
            raise UsageError(
                f"{sheet.source}: language {language!r}: expected a form, or a file of SPSS or "
                "Stata; a table has no words"
            )
        return _proposal(sheet, limits, header)._replace(language=language_tag(language))


def _form_proposal(form: Form) -> Proposal:
    _expect_questions(form.source, form.columns, "question")
    return Proposal(form.source, 0, Format(), form.columns, form.title, form.language)


def _expect_questions(source: str, columns: Sequence[Proposed], what: str = "column") -> None:
    """Refuse a source that has nothing to ask.

    Raises:
        UsageError: the source has nothing to ask; gives the reasons of the first columns.
    """
    if not any(each.questions for each in columns):
        said = "; ".join(f"{each.column}: {each.decisions[-1].said}" for each in columns[:LISTED])
        raise UsageError(f"{source}: no {what} to ask about ({said or 'it has none'})")


def _proposal(sheet: Sheet, limits: Limits, header: bool | None) -> Proposal:
    decimal = "."
    if sheet.delimiter != ",":
        decimal = _guess_decimal([_merge(counter) for counter in sampled(sheet)])
    rows, missing, alike_names = 0, set[str](), []
    proposed: dict[str, Proposed] = {}
    for name, counter in count_answers(sheet):
        rows = counter.total()
        answers = _merge(counter, decimal)
        missing |= answers.missing.keys() - {""}
        if _is_answer(name, answers, decimal):
            alike_names.append(name)
        proposed[name] = _propose_labelled(name, answers, decimal, limits, sheet.labels.get(name))
    if not rows:
        raise UsageError(f"{sheet.source}: has no records")
    if header is None and sheet.delimiter is not None and 2 * len(alike_names) > len(sheet.names):
        raise UsageError(
            f"{sheet.source}: the first row looks like a record, not like names: "
            f"{listed(sheet.names)}; expected names, or --no-header where there are none (--header "
            "if these are the names)"
        )
    columns = tuple(_rename_clashes(proposed[name], sheet.names) for name in sheet.names)
    _expect_questions(sheet.source, columns)
    written = Format(
        delimiter=sheet.delimiter,
        encoding=sheet.encoding,
        header=header is not False,
        decimal=decimal,
        missing_cells=tuple(sorted(missing)),
    )
    return Proposal(sheet.source, rows, written, columns)


def _rename_clashes(proposed: Proposed, names: Sequence[str]) -> Proposed:
    """The same proposal, with attributes of lists renamed where they clash with columns."""
    questions = tuple(
        each if each.column is None else replace(each, name=unused(each.name, names))
        for each in proposed.questions
    )
    return proposed._replace(questions=questions)


def _merge(cells: Mapping[Any, int], decimal: str = ".") -> Answers:
    counts: Counter[str] = Counter()
    missing: Counter[str] = Counter()
    spelt: dict[str, Any] = {}
    respelt: Counter[str] = Counter()
    for cell, times in cells.items():
        text = tidied(cell_text(cell, decimal) or "")
        if not text or text.lower() in MISSING:
            missing[text] += times
            continue
        counts[text] += times
        # Numbers have one spelling.
        if isinstance(cell, str) and spelt.setdefault(text, cell) != cell:
            respelt[text] += times
    return Answers(counts, missing, respelt)


def _is_answer(name: str, answers: Answers, decimal: str) -> bool:
    """Check whether a column's name could be one of its answers."""
    if name in answers.counts:
        return True
    number = number_in(name, decimal)
    if number is None or not answers.counts:
        return False
    found = read_numbers(answers.counts, decimal)
    return found is not None and min(found.values()) <= number <= max(found.values())


def _guess_decimal(columns: Sequence[Answers]) -> str:
    """A comma if more columns are numbers with it than with a point.

    A comma also if all points separate thousands, in a table without commas between its fields.
    """

    def numbers(decimal: str) -> list[Answers]:
        return [each for each in columns if each.counts and read_numbers(each.counts, decimal)]

    commas, points = numbers(","), numbers(".")
    thousands = any("." in cell for each in commas for cell in each.counts)
    return "," if len(commas) > len(points) or (thousands and len(commas) == len(points)) else "."


def _propose_labelled(
    name: str, answers: Answers, decimal: str, limits: Limits, labels: Labels | None
) -> Proposed:
    if labels is None:
        return _propose(name, answers, decimal, limits)
    proposed = propose_labels(name, answers, labels, limits)
    return with_labels(proposed or _propose(name, answers, decimal, limits), labels)


def _propose(name: str, answers: Answers, decimal: str, limits: Limits) -> Proposed:
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
    found = read_numbers(counts, decimal)
    if found is not None:
        return propose_numbers(name, answers, found, limits).after(notes, decisions)
    proposed = (
        propose_dates(name, answers, limits)
        or propose_lists(name, answers, limits)
        or propose_mixed(name, answers, decimal, limits)
        or propose_texts(name, answers, limits)
    )
    return proposed.after(notes, decisions if proposed.questions else ())
