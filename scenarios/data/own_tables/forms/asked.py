"""A question of a form, and its proposal in a plan, before any answers."""

from __future__ import annotations

import datetime
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from msgspec.structs import replace

from protocol.surveys.dataframes import number_text
from protocol.surveys.survey import shown
from protocol.surveys.texts import Group, Wording
from scenarios.data.own_tables.dates import UNITS
from scenarios.data.own_tables.proposals.columns import (
    Decision,
    Limits,
    Matter,
    Proposed,
    Words,
    left_out,
    scale_decision,
    with_no_answer,
    worded,
)
from scenarios.data.own_tables.proposals.dated import cut_dates
from scenarios.data.own_tables.proposals.wordings import ordered_scale
from scenarios.data.own_tables.question import NOT_TICKED_OR_TICKED, Question, named_bins

_SINGLE = 12
"""Maximum number of whole numbers that become a category each."""

_MOST_MONTHS = 12 * 1000
_NICE = (1, 2, 5)


class Choice(NamedTuple):
    """A choice of a question.

    Args:
        name: name in the data.
        label: text for people; empty if there is none.
    """

    name: str
    label: str = ""


class Asked(NamedTuple):
    """A question of a form.

    Args:
        name: the column's name in the data.
        ask: the question as people read it; empty if there is none.
        hint: explanation of the question.
        required: whether everybody has to answer.
        condition: on which it is asked; empty if it always is.
        remarks: further decisions for a person.
    """

    name: str
    ask: str = ""
    hint: str = ""
    required: bool = False
    condition: str = ""
    remarks: tuple[Decision, ...] = ()

    def not_asked(self, why: str) -> Proposed:
        """No attribute, and why."""
        return left_out(self.name, why, 0)

    def choices(self, choices: Sequence[Choice], limits: Limits) -> Proposed:
        """The proposal where one of some choices is the answer."""
        if len(choices) >= limits.most:
            return self.not_asked(f"{len(choices)} choices; --most {limits.most} allows fewer")
        question = Question(name=self.name, categories=tuple(each.name for each in choices))
        if len(choices) == 1 and not self._is_optional:
            return self.not_asked("one choice alone")
        labels = [each.label or each.name for each in choices]
        scale = ordered_scale(labels)
        decisions = []
        is_scale = scale is not None and scale in (labels, labels[::-1])
        if is_scale:
            question = replace(question, ordinal=True)
        question = self._optional(question)
        if is_scale:
            decisions.append(scale_decision(question, f"{labels[0]!r} to {labels[-1]!r}", 0))
        named = {each.name: each.label for each in choices if each.label}
        return self._propose(question, named, decisions)

    def boxes(
        self, choices: Sequence[Choice], limits: Limits, columns: Sequence[str] = ()
    ) -> Proposed:
        """The proposal where any of some choices may be ticked.

        Args:
            choices: the boxes that can be ticked.
            limits: to their number.
            columns: a column for each choice, with 1 if it is ticked and 0 if not. Without them,
                one column lists the ticked names, separated by blanks.
        """
        if len(choices) > limits.most:
            return self.not_asked(f"{len(choices)} boxes; --most {limits.most} allows fewer")
        asked = tuple(
            Question(name=f"{self.name}: {each.name}", column=column, categories=("0", "1"))
            for each, column in zip(choices, columns, strict=False)
        ) or tuple(
            Question(
                name=f"{self.name}: {each.name}",
                column=self.name,
                ticked=each.name,
                separator=" ",
                categories=NOT_TICKED_OR_TICKED,
            )
            for each in choices
        )
        labels = [each.label or each.name for each in choices]
        wordings = tuple(
            Wording(attribute=question.name, ask=label)
            for question, label in zip(asked, labels, strict=True)
        )
        group = None
        if len(asked) == 1 and self.ask:
            wordings = (Wording(attribute=asked[0].name, ask=f"{self.ask} {labels[0]}"),)
        if len(asked) > 1:
            names = tuple(each.name for each in asked)
            group = Group(attributes=names, ask=self.ask or self.name, help=self.hint)
        said = f"{len(asked)} boxes, an attribute for each; an empty cell is a box not ticked"
        change = "Delete an attribute that you do not need: each takes its part of epsilon."
        decisions = (Decision(Matter.ANSWERS, said, 0, change), *self._general_decisions())
        return Proposed(self.name, asked, (), decisions, Words(wordings, group))

    def number(
        self, low: float | None, high: float | None, limits: Limits, *, whole: bool
    ) -> Proposed:
        """The proposal where a number is the answer.

        Args:
            low, high: the lowest and the highest that the form takes; None where it names none.
            limits: to the number of ranges.
            whole: whether it is a whole number.
        """
        if low is None or high is None or not low < high:
            lacking = "lowest" if low is None else "highest"
            why = f"a number, of which the form has no {lacking}; to ask it, write its edges"
            if low is not None and high is not None:
                why = f"a number from {number_text(low)} to {number_text(high)}"
            return self.not_asked(why)
        between = f"{number_text(low)} to {number_text(high)}"
        if whole and high - low < min(_SINGLE, limits.most - 1):
            numbers = range(math.ceil(low), math.floor(high) + 1)
            categories = tuple(map(str, numbers))
            if len(categories) < 2:
                return self.not_asked(f"a number from {between}")
            question = self._optional(Question(name=self.name, categories=categories, ordinal=True))
            return self._propose(question, {}, [scale_decision(question, between, 0)])
        edges = _even_edges(low, high, limits.ranges, whole=whole)
        if not edges:
            return self.not_asked(f"a number from {between}; to ask it, write its edges")
        question = Question(name=self.name, edges=edges, ordinal=True, categories=named_bins(edges))
        cut = f"cut into {len(edges) + 1} ranges of about one width"
        said = f"{between}, {cut}; no answer was looked at"
        change = "For other ranges change edges, and delete categories."
        decision = Decision(Matter.ANSWERS, said, 0, change)
        return self._propose(self._optional(question), {}, [decision])

    def date(
        self, low: datetime.date | None, high: datetime.date | None, limits: Limits
    ) -> Proposed:
        """The proposal where a date is the answer, ``y-m-d`` in the data.

        Args:
            low, high: the first and the last that the form takes; None where it names none.
            limits: to the number of ranges.
        """
        if low is None or high is None or low > high:
            lacking = "first" if low is None else "last"
            return self.not_asked(
                f"a date, of which the form has no {lacking}; to ask it, write its edges"
            )
        month = UNITS[0]
        months = range(month.number(low), month.number(high) + 1)
        cut = None
        if len(months) <= _MOST_MONTHS:
            cut = cut_dates(Counter(map(month.begins, months)), limits.ranges)
        if cut is None:
            return self.not_asked(f"a date from {low} to {high}; to ask it, write its edges")
        unit, firsts = cut
        question = Question(
            name=self.name,
            edges=tuple(map(unit.begins, firsts)),
            categories=unit.ranges(firsts),
            ordinal=True,
        )
        said = f"dates from {low} to {high}, cut into {len(firsts) + 1} ranges of {unit.name}s"
        change = "For other ranges change edges, and delete categories."
        decision = Decision(Matter.ANSWERS, said, 0, change)
        return self._propose(self._optional(question), {}, [decision])

    @property
    def _is_optional(self) -> bool:
        return not self.required or bool(self.condition)

    def _optional(self, question: Question) -> Question:
        return with_no_answer(question) if self._is_optional else question

    def _propose(
        self,
        question: Question,
        labels: Mapping[str, str],
        decisions: Sequence[Decision],
    ) -> Proposed:
        words = worded(question, self.ask, self.hint, labels)
        return Proposed(self.name, (question,), (), (*decisions, *self._general_decisions()), words)

    def _general_decisions(self) -> list[Decision]:
        found = []
        if self.condition:
            said = f"asked only if {shown(self.condition)}; a plan asks everybody"
            change = "Whoever is not concerned needs a category."
            found.append(Decision(Matter.MEANING, said, 0, change))
        return [*found, *self.remarks]


def references(pattern: re.Pattern[str], texts: Iterable[str]) -> tuple[Decision, ...]:
    """The decision about words that refer to other answers, where they do.

    Args:
        pattern: pattern of a reference.
        texts: words of a question.
    """
    found = sorted({each for text in texts for each in pattern.findall(text)})
    if not found:
        return ()
    said = f"its words refer to {', '.join(found)}; write some that stand by themselves"
    return (Decision(Matter.MEANING, said, 0),)


def _even_edges(low: float, high: float, most: int, *, whole: bool) -> tuple[float, ...]:
    """Edges with few digits of at most so many ranges of about equal width."""
    raw = (high - low) / most
    power = 10.0 ** math.floor(math.log10(raw)) if 0 < raw < math.inf else 0.0
    if not power:
        return ()
    for step in (nice * power * ten for ten in (1, 10) for nice in _NICE):
        if whole and step < 1:
            continue
        first, last = math.floor(low / step) + 1, math.ceil(high / step) - 1
        if last - first + 2 <= most:
            digits = max(0, -math.floor(math.log10(step)))
            edges = [round(place * step, digits) for place in range(first, last + 1)]
            # A range at an end is not much narrower than the others.
            if len(edges) > 1 and edges[0] - low < step / 2:
                edges = edges[1:]
            if len(edges) > 1 and high - edges[-1] < step / 2:
                edges = edges[:-1]
            rising = all(below < above for below, above in pairwise((low, *edges, high)))
            return tuple(edges) if rising else ()
    return ()
