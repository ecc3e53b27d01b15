"""Proposals for columns of texts: a category for each answer that enough people give."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from scenarios.data.own_tables.coding import number_in
from scenarios.data.own_tables.proposals.codes import is_code
from scenarios.data.own_tables.proposals.columns import (
    FEW_ROWS,
    LISTED,
    Answers,
    Decision,
    Limits,
    Matter,
    Proposed,
    is_fit,
    left_out,
    scale_decision,
    with_missing,
    with_other,
)
from scenarios.data.own_tables.proposals.wordings import (
    identifying,
    is_free_text,
    no_answers,
    ordered_scale,
    tells_who,
)
from scenarios.data.own_tables.question import Question, normalize
from scenarios.wording.formatting import some

_SENTENCES = 0.2
"""More different sentences than this share of the rows are free text."""


def propose_texts(name: str, answers: Answers, limits: Limits) -> Proposed:
    """The proposal for a column of texts."""
    counts, rows = answers.counts, answers.counts.total()
    why = _why_left_out(name, counts, limits)
    if why is not None:
        return left_out(name, why, rows)
    own = _codes(counts)
    decisions = []
    if own:
        times = sum(counts[cell] for cell in own)
        counts = Counter({cell: times for cell, times in counts.items() if cell not in own})
        said = f"{', '.join(own)} among texts: missing, it seems; taken for no answer"
        change = "If it is an answer, delete missing_cells, and add it to categories."
        decisions.append(Decision(Matter.ANSWERS, said, times, change))
    if same := _spelling_groups(counts):
        decisions.append(_case(same, counts, joined=limits.ignore_case))
        if limits.ignore_case:
            counts = Counter(counts)
            for first, *others in same:
                counts[first] += sum(counts.pop(text) for text in others)
    if len(counts) == 1 and not own and not answers.missing:
        return left_out(name, "all rows are the same, but for case or blanks", rows)
    kept = _kept_answers(counts, answers, limits, has_none=bool(own))
    if not kept and not answers.missing:
        return left_out(name, "every answer is too rare, or cannot be a category", rows)
    joined = Counter({cell: times for cell, times in counts.items() if cell not in kept})
    scale = ordered_scale(kept)
    question = Question(
        name=name,
        categories=tuple(scale or sorted(kept)),
        ordinal=scale is not None,
        missing_cells=own,
        ignore_case=bool(same) and limits.ignore_case,
    )
    if joined:
        question, lost = with_other(question, joined, rows)
        decisions.append(lost)
    question = with_missing(question, answers)
    if chosen := no_answers(kept):
        decisions.append(_missing_decision(chosen, counts))
    if scale is not None:
        decisions.append(scale_decision(question, f"{scale[0]!r} to {scale[-1]!r}", rows))
    notes = (f"{len(answers.counts):,} different answers",)
    return Proposed(name, (question,), notes, tuple(decisions))


def _why_left_out(name: str, counts: Mapping[str, int], limits: Limits) -> str | None:
    rows, different = sum(counts.values()), len(counts)
    what = identifying(counts)
    if what is not None:
        return f"{what}, which identify people"
    if different > max(FEW_ROWS, _SENTENCES * rows) and is_free_text(counts):
        return f"free text, {different:,} different ones"
    if different > max(FEW_ROWS, rows / 2):
        return f"{different:,} different texts, which may identify people"
    if different > limits.most and tells_who(name):
        return f"identifies people, by its name, and has {different:,} different texts"
    return None


def _missing_decision(chosen: list[str], counts: Mapping[str, int]) -> Decision:
    """The decision about answers that may stand for a missing answer."""
    named = some(map(repr, chosen), len(chosen), LISTED)
    said = f"{named}: taken as categories of their own"
    change = 'If they are no answers, write missing = "no answer", and them as missing_cells.'
    return Decision(Matter.MEANING, said, sum(counts[text] for text in chosen), change)


def _codes(counts: Mapping[str, int]) -> tuple[str, ...]:
    """Numbers among texts that may stand for a missing answer."""
    numbers = {cell: number for cell in counts if (number := number_in(cell, ".")) is not None}
    if not numbers or len(numbers) == len(counts) or not all(map(is_code, numbers.values())):
        return ()
    return tuple(sorted(numbers))


def _kept_answers(
    counts: Counter[str], answers: Answers, limits: Limits, *, has_none: bool
) -> list[str]:
    """Answers that become categories, the most frequent first."""
    rare = answers.few(limits.rare)
    kept = [cell for cell in counts if counts[cell] >= rare and is_fit(cell)]
    kept.sort(key=lambda cell: (-counts[cell], cell))
    room = limits.most - (has_none or bool(answers.missing))
    if len(kept) > room or len(kept) < len(counts):
        kept = kept[: room - 1]
    return kept


def _case(same: list[list[str]], counts: Mapping[str, int], *, joined: bool) -> Decision:
    pairs = ["; ".join((" = ".join(map(repr, texts)),)) for texts in same]
    named = some(pairs, len(pairs), LISTED)
    rows = sum(counts[text] for _, *others in same for text in others)
    if not joined:
        change = "Without --keep-case each is taken for the first of these."
        said = f"spellings that differ by case or blanks, kept apart: {named}"
        return Decision(Matter.ANSWERS, said, rows, change)
    said = f"spellings of one answer joined: {named}"
    change = "If they are different answers, delete ignore_case, and add them to categories."
    return Decision(Matter.ANSWERS, said, rows, change)


def _spelling_groups(counts: Mapping[str, int]) -> list[list[str]]:
    """Groups of texts that differ only in case or blanks, the most frequent first."""
    groups: dict[str, list[str]] = {}
    for text in sorted(counts, key=lambda text: (-counts[text], text)):
        groups.setdefault(normalize(text), []).append(text)
    return [group for group in groups.values() if len(group) > 1]
