"""Counted cells of a column, and proposals for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from msgspec.structs import replace

from protocol.errors import SurveyError
from protocol.surveys.survey import Attribute
from protocol.surveys.texts import Group, Wording
from scenarios.data.own_tables.question import Question, normalize
from scenarios.wording.formatting import some

NO_ANSWER, OTHER = "no answer", "other"
"""Names of categories that no cell names."""

LISTED = 12
"""Maximum number of listed answers."""

FEW_ROWS, FEW_TEXTS = 20, 12
"""Maximum number of rows with different answers, and of texts among numbers or dates."""

MANY = 0.2
"""Share of a column's rows from which joining them is worth a remark."""


class Limits(NamedTuple):
    """Limits to telling categories apart, as ``propose`` is given them."""

    bins: int
    most: int
    rare: int
    ignore_case: bool

    @property
    def ranges(self) -> int:
        """Maximum number of ranges of a column, without the category for no answer."""
        return min(self.bins, self.most - 1)


class Answers(NamedTuple):
    """Cells of a column: frequencies of tidied answers, and of cells for no answer.

    Args:
        counts: frequency of each answer.
        missing: frequency of each cell for no answer; the empty text stands for empty cells.
        respelt: number of rows with other spellings of each answer, which differ by blanks or
            Unicode form.
    """

    counts: Counter[str]
    missing: Counter[str]
    respelt: Counter[str]

    @property
    def rows(self) -> int:
        """The number of rows, with and without an answer."""
        return self.counts.total() + self.missing.total()

    def few(self, rare: int) -> int:
        """Number of rows below which an answer is rare: in a small table one of a hundred."""
        return min(rare, self.rows // 100)


class Matter(IntEnum):
    """Kinds of decisions; those that change the meaning of answers come first."""

    ANSWERS = 0
    LEFT_OUT = 1
    MEANING = 2


class Decision(NamedTuple):
    """One thing that a person has to decide about a column.

    Args:
        matter: kind of decision.
        said: the finding, and the proposal that follows.
        rows: number of rows concerned; 0 for a question without answers so far.
        change: the change to make in the plan if the proposal does not fit.
    """

    matter: Matter
    said: str
    rows: int
    change: str = ""


class Words(NamedTuple):
    """The words of a column's questions, as people read them.

    Args:
        wordings: wordings of questions, by language.
        group: the heading over them, if they are boxes to tick.
    """

    wordings: tuple[Wording, ...]
    group: Group | None = None


class Proposed(NamedTuple):
    """A proposal for a column.

    Args:
        column: the column's name.
        questions: the proposed questions: none for a column to leave out, several for a column that
            lists ticked answers.
        notes: findings, one per line.
        decisions: decisions for a person.
        words: wording of the questions; None to use their names.
    """

    column: str
    questions: tuple[Question, ...]
    notes: tuple[str, ...] = ()
    decisions: tuple[Decision, ...] = ()
    words: Words | None = None

    def after(self, notes: Sequence[str], decisions: Sequence[Decision] = ()) -> Proposed:
        """The same proposal with further notes before its own."""
        return self._replace(notes=(*notes, *self.notes), decisions=(*decisions, *self.decisions))


def left_out(column: str, why: str, rows: int, notes: Sequence[str] = ()) -> Proposed:
    """No question about a column, and why."""
    change = "To ask it, write an attribute with categories that many people share."
    decision = Decision(Matter.LEFT_OUT, f"left out: {why}", rows, change)
    return Proposed(column, (), (*notes,), (decision,))


def with_missing(question: Question, answers: Answers) -> Question:
    """The question with a category for no answer if there are such cells; it is unordered then."""
    return with_no_answer(question) if answers.missing or question.missing_cells else question


def with_no_answer(question: Question) -> Question:
    """The question with a category for no answer."""
    name = unused(NO_ANSWER, question.categories)
    categories = (*question.categories, name)
    return replace(question, categories=categories, missing=name, ordinal=False)


def with_other(
    question: Question, joined: Counter[str], rows: int, what: str = ""
) -> tuple[Question, Decision]:
    """The question with a category for other answers, and a decision on what that loses.

    Args:
        question: without it.
        joined: the further answers.
        rows: number of rows with an answer.
        what: they are.
    """
    other = unused(OTHER, question.categories)
    ordered = sorted(joined, key=lambda cell: (-joined[cell], cell))
    times = joined.total()
    named = some(map(repr, ordered), len(ordered), LISTED)
    said = f"{what}joined as {other!r}: {named}"
    if times > MANY * rows:
        said = f"caution, {times / rows:.0%} of the answers are lost: {said}"
    change = "Add to categories those that you want to keep."
    categories = (*question.categories, other)
    return (
        replace(question, categories=categories, other=other, ordinal=False),
        Decision(Matter.ANSWERS, said, times, change),
    )


def scale_decision(question: Question, ends: str, rows: int) -> Decision:
    """The decision about answers that seem to have an order.

    Args:
        ends: the first answer to the last one.
        rows: number of rows with an answer.
    """
    if question.ordinal:
        said = f"{ends}: taken for an ordered scale"
        return Decision(Matter.MEANING, said, rows, "If it is none, delete ordinal.")
    further = " and ".join(filter(None, (question.other, question.missing)))
    said = f"{ends}: a scale, taken without its order, in which {further!r} has no place"
    change = "Where nobody gives such an answer, delete its category, and write ordinal = true."
    return Decision(Matter.MEANING, said, rows, change)


def worded(question: Question, ask: str, hint: str, labels: Mapping[str, str]) -> Words | None:
    """The words of a question; None where there are none.

    Args:
        ask: text of the question.
        hint: explanation of the question.
        labels: labels of categories, as far as they have any.
    """
    if not ask and not labels:
        return None
    shown = tuple(labels.get(each) or each for each in question.categories)
    twice = {label for label, times in Counter(shown).items() if times > 1}
    shown = tuple(
        f"{label} ({category})" if label in twice else label
        for label, category in zip(shown, question.categories, strict=True)
    )
    named = () if shown == question.categories else shown
    wording = Wording(attribute=question.name, ask=ask or question.name, help=hint, labels=named)
    return Words((wording,))


def unused(name: str, categories: Sequence[str]) -> str:
    """A name for a further category, unlike all the others."""
    while normalize(name) in map(normalize, categories):
        name = f"({name})"
    return name


def is_fit(category: str) -> bool:
    """Return whether a text may be a category, and part of the name of an attribute."""
    try:
        Attribute(name="a", categories=(category, category + "b"))
    except SurveyError:
        return False
    return True
