"""Proposals for columns with labels for their cells."""

from __future__ import annotations

from scenarios.data.own_tables.proposals.columns import (
    Answers,
    Limits,
    Proposed,
    scale_decision,
    with_missing,
    worded,
)
from scenarios.data.own_tables.proposals.texts import propose_texts
from scenarios.data.own_tables.proposals.wordings import ordered_scale
from scenarios.data.own_tables.question import Question
from scenarios.data.own_tables.sheets import Labels


def propose_labels(name: str, answers: Answers, labels: Labels, limits: Limits) -> Proposed | None:
    """The proposal for a column with labels for all answers; None otherwise."""
    values = labels.values
    if not values or not answers.counts.keys() <= values.keys():
        return None
    if len(values) >= limits.most:
        return propose_texts(name, answers, limits)
    categories, shown = tuple(values), [*values.values()]
    scale = ordered_scale(shown)
    is_scale = labels.ordinal or (scale is not None and scale in (shown, shown[::-1]))
    question = Question(
        name=name,
        categories=categories,
        ordinal=is_scale and len(categories) > 1,
        missing_cells=tuple(labels.missing),
    )
    question = with_missing(question, answers)
    if len(question.categories) < 2:
        return None
    ends = f"{shown[0]!r} to {shown[-1]!r}"
    decisions = (scale_decision(question, ends, answers.counts.total()),) if is_scale else ()
    return Proposed(name, (question,), (f"{len(values)} labels",), decisions)


def with_labels(proposed: Proposed, labels: Labels) -> Proposed:
    """The same proposal with the file's labels, and its codes for no answer."""
    if not proposed.questions:
        return proposed
    codes = [f"{cell} {label!r}" if label else cell for cell, label in labels.missing.items()]
    none = [*codes, *labels.ranges]
    notes = (f"no answer, by the file: {', '.join(none)}",) if none else ()
    words = None
    if len(proposed.questions) == 1:
        [question] = proposed.questions
        named = {} if question.edges else labels.values
        words = worded(question, labels.ask, "", named)
    return proposed.after(notes)._replace(words=words)
