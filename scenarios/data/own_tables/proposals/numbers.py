"""Proposals for columns of numbers: ranges, or a category for each."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from protocol.surveys.dataframes import number_text
from scenarios.data.own_tables.coding import number_in
from scenarios.data.own_tables.proposals.codes import far_codes
from scenarios.data.own_tables.proposals.columns import (
    FEW_ROWS,
    FEW_TEXTS,
    Answers,
    Decision,
    Limits,
    Matter,
    Proposed,
    left_out,
    scale_decision,
    with_missing,
    with_other,
)
from scenarios.data.own_tables.proposals.wordings import tells_who
from scenarios.data.own_tables.question import Question, named_bins

_CODE = re.compile("0[0-9]")

_PLAIN = 12
"""Maximum number of different numbers that become a category each."""

_DIGITS, _DIFFERENT = 5, 0.9


def read_numbers(counts: Mapping[str, int], decimal: str) -> dict[str, float] | None:
    """The number in each cell, or None if one has none."""
    found: dict[str, float] = {}
    for cell in counts:
        number = number_in(cell, decimal)
        # Numbers with a leading 0 are codes, such as postcodes.
        if number is None or _CODE.match(cell):
            return None
        found[cell] = number
    return found


def propose_numbers(
    name: str, answers: Answers, found: dict[str, float], limits: Limits
) -> Proposed:
    """The proposal for a column of numbers.

    Args:
        answers: in it.
        found: the number in each of its cells.
        limits: limits of the proposal.
    """
    by_number: Counter[float] = Counter()
    for cell, times in answers.counts.items():
        by_number[found[cell]] += times
    codes = far_codes(by_number)
    own = tuple(sorted(cell for cell, number in found.items() if number in codes))
    decisions = []
    if codes:
        times = sum(by_number.pop(code) for code in codes)
        named = ", ".join(map(number_text, codes))
        low, high = number_text(min(by_number)), number_text(max(by_number))
        said = f"{named} beside {low} to {high}: missing, it seems; taken for no answer"
        change = "If it is an answer, delete missing_cells (without edges, add it to categories)."
        decisions.append(Decision(Matter.ANSWERS, said, times, change))
    cells = {cell: number for cell, number in found.items() if number in by_number}
    proposed = _of_answers(name, by_number, cells, limits)
    questions = tuple(
        with_missing(replace(question, missing_cells=own), answers)
        for question in proposed.questions
    )
    decisions += proposed.decisions
    if questions and not questions[0].edges:
        decisions.append(_meaning(questions[0], sorted(by_number), by_number.total()))
    return Proposed(name, questions, proposed.notes, tuple(decisions))


def _of_answers(
    name: str, by_number: Counter[float], cells: Mapping[str, float], limits: Limits
) -> Proposed:
    ordered = sorted(by_number)
    whole = all(number == int(number) for number in ordered)
    low, high = number_text(ordered[0]), number_text(ordered[-1])
    rows = by_number.total()
    if whole and len(ordered) == rows >= FEW_ROWS and ordered[-1] - ordered[0] == rows - 1:
        return left_out(name, f"{low} to {high}, each once, so they number the rows", rows)
    if len(ordered) > limits.most and tells_who(name):
        return left_out(name, "identifies people, by its name", rows)
    differ = whole and rows >= FEW_ROWS and len(ordered) > _DIFFERENT * rows
    if differ and ordered[0] > 0 and len(low) == len(high) >= _DIGITS:
        why = f"nearly all different, {len(low)} digits each, so they may identify people"
        return left_out(name, why, rows)
    if len(ordered) <= min(_PLAIN, limits.most - 1) and len(cells) == len(ordered):
        spelt = {number: cell for cell, number in cells.items()}
        question = Question(
            name=name, categories=tuple(spelt[number] for number in ordered), ordinal=True
        )
        notes = (f"{len(ordered)} different numbers, {low} to {high}",)
        return Proposed(name, (question,), notes)
    edges = edges_between(by_number, limits.ranges)
    if not edges:
        return left_out(name, f"{low} almost everywhere", rows)
    question = Question(name=name, edges=edges, ordinal=True, categories=named_bins(edges))
    notes = (f"numbers from {low} to {high}, cut into {len(edges) + 1} ranges",)
    return Proposed(name, (question,), notes)


def _meaning(question: Question, numbers: Sequence[float], rows: int) -> Decision:
    """The decision whether a few numbers are codes."""
    low, high = number_text(numbers[0]), number_text(numbers[-1])
    if len(numbers) > 2:
        return scale_decision(question, f"{low} to {high}", rows)
    named = ", ".join(map(number_text, numbers))
    change = "Write what they mean, where people are asked."
    return Decision(
        Matter.MEANING, f"{named}: codes without labels, taken as they are", rows, change
    )


def propose_mixed(name: str, answers: Answers, decimal: str, limits: Limits) -> Proposed | None:
    """Propose for a column that is mostly numbers: its ranges, and one category for the texts.

    None if it has too many different texts, or too few numbers.
    """
    counts = answers.counts
    texts = Counter(
        {cell: times for cell, times in counts.items() if number_in(cell, decimal) is None}
    )
    numbers = Counter({cell: times for cell, times in counts.items() if cell not in texts})
    if len(texts) > FEW_TEXTS or numbers.total() < counts.total() / 2:
        return None
    if len(numbers) <= _PLAIN or (found := read_numbers(numbers, decimal)) is None:
        return None
    proposed = propose_numbers(name, answers._replace(counts=numbers), found, limits)
    if not proposed.questions or not proposed.questions[0].edges:
        return None
    question, lost = with_other(proposed.questions[0], texts, counts.total(), "no numbers, so ")
    return proposed._replace(questions=(question,), decisions=(*proposed.decisions, lost))


def edges_between(counts: Counter[float], bins: int) -> tuple[float, ...]:
    """Edges with few digits between ranges with about equally many rows."""
    ordered = sorted(counts)
    rows, below, at = counts.total(), 0, 0
    edges: list[float] = []
    for place, number in enumerate(ordered[1:], 1):
        below += counts[ordered[place - 1]]
        if below >= rows * (at + 1) / bins:
            edges.append(_shortest_number(ordered[place - 1], number))
            at = math.floor(bins * below / rows)
    return tuple(edges[: bins - 1])


def _shortest_number(low: float, high: float) -> float:
    """The number in ``(low, high]`` with the fewest digits."""
    for digits in range(-15, 16):
        rounded = round(high, digits)
        for candidate in (rounded, round(rounded - 10.0**-digits, digits)):
            if low < candidate <= high:
                return candidate
    return high
