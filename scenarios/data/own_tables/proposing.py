"""A first plan for a person's own table: what its columns hold, as attributes to ask about.

Whatever is proposed follows from the answers in the table, so it tells about them.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from protocol.errors import SurveyError, UsageError
from protocol.surveys.dataframes import number_text, text_of
from protocol.surveys.survey import Attribute, listed
from scenarios.data.own_tables.coding import number_in
from scenarios.data.own_tables.counting import counted, sampled
from scenarios.data.own_tables.opening import open_sheet, reading
from scenarios.data.own_tables.question import Question, alike, named_bins
from scenarios.data.own_tables.sheets import Format, Source, tidied
from scenarios.wording.formatting import count, rest, some

MISSING = frozenset(("na", "n/a", "#n/a", "nan", "null", "?", "-", "."))
"""Cells that stand for no answer, beside an empty one, in small or capital letters."""

NO_ANSWER, OTHER = "no answer", "other"
"""What categories are called that no cell names."""

BINS, MOST, RARE = 8, 50, 10
"""Into how many ranges numbers are cut, the most categories of an attribute, and how many rows an
answer must have to be a category, by default. In a small table one of a hundred is enough."""

_CODE = re.compile("0[0-9]")

_PLAIN_NUMBERS = 12
_LISTED = 12
_FEW_ROWS, _FEW_TEXTS = 20, 12

_MANY = 0.2
"""Of what share of a column's rows it is said that they are many to be joined."""


class _Limits(NamedTuple):
    """How far categories are told apart, as ``propose`` is told."""

    bins: int
    most: int
    rare: int
    ignore_case: bool


class Proposed(NamedTuple):
    """What is proposed for a column.

    Args:
        column: its name.
        question: what to ask; None if the column is better left out.
        notes: what was found, what is lost, and why, a line each.
    """

    column: str
    question: Question | None
    notes: tuple[str, ...]


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


def propose(
    source: Source,
    *,
    bins: int = BINS,
    most: int = MOST,
    rare: int = RARE,
    ignore_case: bool = False,
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
        ignore_case: texts that differ by case or blanks alone are one category.
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
        return _proposal(source, _Limits(bins, most, rare, ignore_case), header)


def _proposal(source: Source, limits: _Limits, header: bool | None) -> Proposal:
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
    columns = tuple(proposed[name] for name in sheet.names)
    if not any(each.question for each in columns):
        said = "; ".join(f"{each.column}: {each.notes[-1]}" for each in columns[:_LISTED])
        raise UsageError(f"{sheet.source}: no column to ask about ({said})")
    written = Format(
        delimiter=sheet.delimiter,
        encoding=sheet.encoding,
        header=header is not False,
        decimal=decimal,
        missing_cells=tuple(sorted(missing)),
    )
    return Proposal(sheet.source, rows, written, columns)


class _Answers(NamedTuple):
    """The cells of a column: how often each answer is there, tidied, and each cell for none.

    ``spellings`` counts the cells that differ from others by blanks or by Unicode's ways to write
    the same.
    """

    counts: Counter[str]
    missing: Counter[str]
    spellings: int


def _merged(cells: Mapping[Any, int], decimal: str = ".") -> _Answers:
    counts: Counter[str] = Counter()
    missing: Counter[str] = Counter()
    for cell, times in cells.items():
        text = tidied(text_of(cell, decimal) or "")
        into = missing if not text or text.lower() in MISSING else counts
        into[text] += times
    # Numbers have one spelling, and no answer may be several cells that are not text.
    texts = sum(isinstance(cell, str) for cell in cells)
    return _Answers(counts, missing, max(0, texts - len(counts) - len(missing)))


def _is_answer(name: str, answers: _Answers, decimal: str) -> bool:
    """Whether the name of a column could be one of its answers."""
    if name in answers.counts:
        return True
    number = number_in(name, decimal)
    if number is None or not answers.counts:
        return False
    found = _numbers(answers.counts, decimal)
    return found is not None and min(found.values()) <= number <= max(found.values())


def _decimal_of(columns: Sequence[_Answers]) -> str:
    """A comma if more columns are numbers with it than with a point.

    Of numbers whose points all set thousands apart, in a table without commas between its fields,
    it is the comma as well.
    """

    def numbers(decimal: str) -> list[_Answers]:
        return [each for each in columns if each.counts and _numbers(each.counts, decimal)]

    commas, points = numbers(","), numbers(".")
    thousands = any("." in cell for each in commas for cell in each.counts)
    return "," if len(commas) > len(points) or (thousands and len(commas) == len(points)) else "."


def _numbers(counts: Mapping[str, int], decimal: str) -> dict[str, float] | None:
    """The number in each cell, or None if one has none."""
    found: dict[str, float] = {}
    for cell in counts:
        number = number_in(cell, decimal)
        # What begins with a 0 is a code, such as that of a place.
        if number is None or _CODE.match(cell):
            return None
        found[cell] = number
    return found


def _mixed(
    name: str, answers: _Answers, decimal: str, limits: _Limits, notes: list[str]
) -> Proposed | None:
    """Of a column that is mostly numbers: its ranges, and one category for the texts among them.

    None if it has too many different texts, or too few numbers.
    """
    counts = answers.counts
    texts = {cell: times for cell, times in counts.items() if number_in(cell, decimal) is None}
    numbers = Counter({cell: times for cell, times in counts.items() if cell not in texts})
    if len(texts) > _FEW_TEXTS or numbers.total() < counts.total() / 2:
        return None
    if len(numbers) <= _PLAIN_NUMBERS or (found := _numbers(numbers, decimal)) is None:
        return None
    apart = _Answers(numbers, answers.missing, answers.spellings)
    proposed = _of_numbers(name, apart, found, limits, notes)
    if proposed.question is None or not proposed.question.edges:
        return None
    other = _unused(OTHER, proposed.question.categories)
    named = ", ".join(map(repr, sorted(texts)))
    times = sum(texts.values())
    further = [f"no numbers, so joined as {other!r}, {times:,} rows: {named}"]
    if times > _MANY * counts.total():
        further.append(f"caution: {times / counts.total():.0%} of the rows are joined")
    categories = (*proposed.question.categories, other)
    question = replace(proposed.question, categories=categories, other=other, ordinal=False)
    return Proposed(name, question, (*proposed.notes, *further))


def _proposed(name: str, answers: _Answers, decimal: str, limits: _Limits) -> Proposed:
    counts, notes = answers.counts, []
    rows = counts.total() + answers.missing.total()
    try:
        Attribute(name=name, categories=("a", "b"))
    except SurveyError as error:
        return Proposed(name, None, (str(error),))
    if answers.missing:
        notes.append(f"{answers.missing.total():,} of {rows:,} without an answer")
    if answers.spellings:
        spellings = count(answers.spellings, "spelling")
        notes.append(f"{spellings} merged with others that differ only in blanks or accents")
    if not counts:
        return Proposed(name, None, (*notes, "left out: it is empty"))
    if len(counts) == 1 and not answers.missing:
        return Proposed(name, None, (*notes, "left out: all rows are the same"))
    found = _numbers(counts, decimal)
    if found is None:
        mixed = _mixed(name, answers, decimal, limits, list(notes))
        return mixed or _of_texts(name, answers, limits, notes)
    return _of_numbers(name, answers, found, limits, notes)


def _of_texts(name: str, answers: _Answers, limits: _Limits, notes: list[str]) -> Proposed:
    counts = answers.counts
    if same := _same_but_for_case(counts):
        pairs = [" and ".join(map(repr, texts)) for texts in same[:_LISTED]]
        listed = "; ".join(filter(None, (*pairs, rest(len(same), _LISTED))))
        notes.append(f"differ by case or blanks alone: {listed}")
        if limits.ignore_case:
            counts = Counter(counts)
            for first, *others in same:
                counts[first] += sum(counts.pop(text) for text in others)
            notes.append("each is taken for the first of these, which most rows have")
    rare = min(limits.rare, (counts.total() + answers.missing.total()) // 100)
    rows = counts.total()
    if len(counts) > max(_FEW_ROWS, rows / 2):
        notes.append(
            f"left out: {len(counts):,} different texts in {rows:,} rows, which may identify people"
        )
        return Proposed(name, None, tuple(notes))
    kept = [cell for cell in counts if counts[cell] >= rare and _is_fit(cell)]
    kept.sort(key=lambda cell: (-counts[cell], cell))
    room = limits.most - bool(answers.missing)
    if len(kept) > room or len(kept) < len(counts):
        kept = kept[: room - 1]
    joined = sorted(counts.keys() - set(kept), key=lambda cell: (-counts[cell], cell))
    notes.append(f"{len(counts):,} different answers")
    if not kept and not answers.missing:
        notes.append("left out: every answer is too rare, or cannot be a category")
        return Proposed(name, None, tuple(notes))
    categories = sorted(kept)
    other = None
    if joined:
        other = _unused(OTHER, categories)
        categories.append(other)
        times = sum(counts[cell] for cell in joined)
        named = some(map(repr, joined), len(joined), _LISTED)
        notes.append(f"joined as {other!r}, {times:,} of {rows:,} rows: {named}")
        if times > _MANY * rows:
            notes.append(f"caution: {times / rows:.0%} of the rows are joined")
    question = Question(
        name=name, categories=(*categories,), other=other, ignore_case=limits.ignore_case
    )
    return Proposed(name, _with_missing(question, answers), tuple(notes))


def _same_but_for_case(counts: Mapping[str, int]) -> list[list[str]]:
    """Texts that differ by case or blanks alone, the most frequent ones first."""
    groups: dict[str, list[str]] = {}
    for text in sorted(counts, key=lambda text: (-counts[text], text)):
        groups.setdefault(alike(text), []).append(text)
    return [group for group in groups.values() if len(group) > 1]


def _of_numbers(
    name: str,
    answers: _Answers,
    found: dict[str, float],
    limits: _Limits,
    notes: list[str],
) -> Proposed:
    by_number: Counter[float] = Counter()
    for cell, times in answers.counts.items():
        by_number[found[cell]] += times
    ordered = sorted(by_number)
    whole = all(number == int(number) for number in ordered)
    low, high = number_text(ordered[0]), number_text(ordered[-1])
    rows = by_number.total()
    if whole and len(ordered) == rows >= _FEW_ROWS and ordered[-1] - ordered[0] == rows - 1:
        notes.append(f"left out: {low} to {high}, each once, so they number the rows")
        return Proposed(name, None, tuple(notes))
    if len(ordered) <= min(_PLAIN_NUMBERS, limits.most - 1) and len(answers.counts) == len(ordered):
        notes.append(f"{len(ordered)} different numbers, {low} to {high}")
        cells = {number: cell for cell, number in found.items()}
        question = Question(
            name=name, categories=tuple(cells[number] for number in ordered), ordinal=True
        )
        return Proposed(name, _with_missing(question, answers), tuple(notes))
    edges = _edges(by_number, min(limits.bins, limits.most - 1))
    if not edges:
        notes.append(f"left out: {low} almost everywhere")
        return Proposed(name, None, tuple(notes))
    notes.append(f"numbers from {low} to {high}, cut into {len(edges) + 1} ranges")
    question = Question(name=name, edges=edges, ordinal=True, categories=named_bins(edges))
    return Proposed(name, _with_missing(question, answers), tuple(notes))


def _edges(counts: Counter[float], bins: int) -> tuple[float, ...]:
    """Numbers that cut into ranges of about as many rows, each as short as it can be written."""
    ordered = sorted(counts)
    rows, below, at = counts.total(), 0, 0
    edges: list[float] = []
    for place, number in enumerate(ordered[1:], 1):
        below += counts[ordered[place - 1]]
        if below >= rows * (at + 1) / bins:
            edges.append(_short(ordered[place - 1], number))
            at = math.floor(bins * below / rows)
    return tuple(edges[: bins - 1])


def _short(low: float, high: float) -> float:
    """The number above one and up to another with the fewest digits."""
    for digits in range(-15, 16):
        rounded = round(high, digits)
        for candidate in (rounded, round(rounded - 10.0**-digits, digits)):
            if low < candidate <= high:
                return candidate
    return high


def _with_missing(question: Question, answers: _Answers) -> Question:
    """The question with a category for no answer, if somebody gave none: it has no place in the
    order of the others."""
    if not answers.missing:
        return question
    name = _unused(NO_ANSWER, question.categories)
    categories = (*question.categories, name)
    return replace(question, categories=categories, missing=name, ordinal=False)


def _unused(name: str, categories: Sequence[str]) -> str:
    while alike(name) in map(alike, categories):
        name = f"({name})"
    return name


def _is_fit(category: str) -> bool:
    """Whether a text may be a category."""
    try:
        Attribute(name="a", categories=(category, category + "b"))
    except SurveyError:
        return False
    return True
