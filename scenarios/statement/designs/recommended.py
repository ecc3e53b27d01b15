"""Recommendation among all ways to ask, with two alternatives: sections and values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from scenarios.designing.designing import Designed, Row, Setup
from scenarios.designing.recommending import PICKS, RULE, Recommendation
from scenarios.statement.designs.privacy import privacy_sentence, privacy_word
from scenarios.statement.designs.setting import Values
from scenarios.statement.designs.values import row_lines
from scenarios.statement.statement import Section
from scenarios.statement.usefulness.verdict import mended
from scenarios.wording.announced import table_title
from scenarios.wording.formatting import count, size, upper
from scenarios.wording.withstanding import withstood_in

USEFUL = ("good", "fair")
"""Words for useful estimates."""

IN_PLAN = "In the plan, in place of its variant and parameters:"
"""Sentence above the lines of a plan."""

_LEADS: Mapping[str, str] = MappingProxyType(
    {
        "recommended": "Take this",
        "most_private": "Most private that is still useful",
        "most_exact": "Most exact",
    }
)
_ALSO: Mapping[str, str] = MappingProxyType(
    {"most_private": "the most private that is still useful", "most_exact": "the most exact"}
)


class Reasons(NamedTuple):
    """Sentences on one way to ask; each is empty if there is nothing to say.

    Args:
        error: size of the error, and its usefulness.
        privacy: level of protection, and the honesty that it rests on.
        asks: tasks of the respondents.
        more: better or equally good alternatives.
    """

    error: str
    privacy: str
    asks: str
    more: str

    @property
    def text(self) -> str:
        """All of them."""
        return " ".join(filter(None, self))


def recommended_sections(found: Designed, picks: Recommendation) -> Iterator[Section]:
    """The recommendation first, with the lines of a plan, then the alternatives that differ."""
    if picks.recommended is None:
        yield Section(
            key="recommended",
            title="None can be recommended",
            notes=(
                "Every design that holds whoever conspires is likely to end without a result. "
                f"{found.rows[0].candidate.name} {found.rows[0].dropouts.says}.",
            ),
            place="result",
        )
    seen: list[Row] = []
    for name, row in zip(PICKS, picks, strict=True):
        if row is None or any(row is one for one in seen):
            continue
        seen.append(row)
        lines = row_lines(row) if name == "recommended" else ()
        reasons = reasons_for(found, picks, row).text
        yield Section(
            key=name.replace("_", "-"),
            title=f"{_lead(name, row)}: {_way(row)}",
            notes=(reasons, *((IN_PLAN,) if lines else ())),
            code=lines,
            place="result",
        )


def plan_sections(picks: Recommendation) -> Iterator[Section]:
    """The lines of a plan for each alternative."""
    for name, row in zip(PICKS[1:], picks[1:], strict=True):
        if row is not None and name == next(iter(picks.named(row))):
            lines = row_lines(row)
            if lines:
                yield Section(
                    key=f"plan-{name.replace('_', '-')}",
                    title=f"In the plan, for {_way(row)}",
                    code=lines,
                )


def recommended_values(found: Designed, picks: Recommendation) -> Values:
    """The picks with their reasons, each None if there is no such way, and the rule."""
    return {
        **{
            name: None if row is None else _values(found, picks, row)
            for name, row in zip(PICKS, picks, strict=True)
        },
        "rule": RULE,
    }


def reasons_for(found: Designed, picks: Recommendation, row: Row) -> Reasons:
    """Sentences on one of the picks."""
    return Reasons(
        _on_error(found.setup, picks, row),
        privacy_sentence(row.candidate, row.cost),
        _asks(found.setup, row),
        " ".join(filter(None, _more(found, picks, row))),
    )


def _values(found: Designed, picks: Recommendation, row: Row) -> Values:
    worst = row.least_exact
    return {
        "name": row.candidate.name,
        "chosen": row.candidate.chosen,
        "epsilon": row.epsilon,
        "rests_on": row.rests_on,
        "usefulness": row.usefulness,
        "margin": None if worst is None else worst.margin,
        "margin_of": None if worst is None else worst.names,
        "privacy": privacy_word(row.cost),
        "reasons": [*filter(None, reasons_for(found, picks, row))],
        "plan": "\n".join(row_lines(row)) or None,
    }


def _way(row: Row) -> str:
    return f"{row.candidate.name} at epsilon {row.epsilon:g}"


def _lead(name: str, row: Row) -> str:
    if name == "recommended" and row.usefulness not in USEFUL:
        return "None is useful without trust in others. Nearest"
    return _LEADS[name]


def _on_error(setup: Setup, picks: Recommendation, row: Row) -> str:
    worst = row.least_exact
    if worst is None or math.isnan(worst.margin):
        return "How far its shares may be off is not known."
    named, points = table_title(worst.names), _points(worst.margin)
    word = "no better than a guess" if row.usefulness == "none" else row.usefulness
    if row.prediction.runs:
        points = f"about {points}"
    if row is not picks.recommended:
        return f"Shares of {named} are off by up to {points}: {word}."
    tables = len(setup.target.tables)
    if tables > 1:
        kind = "attribute" if setup.target.ways == 1 else "pair"
        named += f", the least exact of {count(tables, kind)},"
    off = f"in 95 of 100 surveys no share of {named} is off by more than {points}"
    if row.usefulness == "good":
        return f"The least epsilon that is good: {off}."
    if row.usefulness == "fair":
        return f"The least error, as none is good: {off}, which is fair."
    return f"{upper(off)}: {word}."


def _points(margin: float) -> str:
    figure = 100 * margin
    if figure >= 100:
        return "100 points"
    return f"{figure:.1f} points" if figure >= 0.95 else f"{figure:.2g} points"


def _asks(setup: Setup, row: Row) -> str:
    """Sentence on the tasks of respondents."""
    traffic, variant = row.traffic, row.candidate.variant
    if traffic is None or variant is None:
        return "What it asks of people is not known."
    who = "Each person" if setup.parties == setup.respondents else "Each party"
    withstood = withstood_in(variant, setup.parties)
    if withstood is not None:
        stay = "none may leave" if not withstood.missing else f"{withstood.missing:,} may leave"
        sent = size(round(traffic.bits * setup.respondents / setup.parties / 8))
        return (
            f"All {setup.parties:,} are online together for {count(traffic.rounds, 'round')} and "
            f"send {sent} each; {stay} before the end."
        )
    if traffic.rounds > 1 or traffic.messages * setup.respondents > setup.parties:
        return f"{who} answers in {count(traffic.rounds, 'round')} and is online in all of them."
    if row.by_page:
        return "Each person opens a page link, sends one message and leaves."
    return f"{who} sends one message by a program, not by a page link, and leaves."


def _more(found: Designed, picks: Recommendation, row: Row) -> Iterator[str]:
    also = [_ALSO[name] for name in picks.named(row) if name in _ALSO]
    if row is picks.recommended:
        if also and row.usefulness in USEFUL:
            yield f"It is also {' and '.join(also)}."
        yield _mending(found.setup, row)
    good = [
        each.epsilon
        for each in found.rows
        if (each.candidate.name, each.rests_on, each.usefulness)
        == (row.candidate.name, row.rests_on, "good")
        and each.dropouts.withstands
    ]
    if row is not picks.recommended and good and min(good) < row.epsilon:
        yield f"It is good from epsilon {min(good):g} on."


def _mending(setup: Setup, row: Row) -> str:
    """Changes that take the best way whoever conspires to the next step, if any."""
    variant = row.candidate.variant
    if variant is None or row.least_exact is None or row.usefulness == "good":
        return ""
    mending = mended(
        variant,
        row.prediction.margins(variant.survey),
        respondents=setup.answering,
        parties=setup.staying,
        about=setup.about,
    )
    return "" if mending is None else mending.says
