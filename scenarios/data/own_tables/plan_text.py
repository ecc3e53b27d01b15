"""A proposed plan as a TOML file that a person reads and edits."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from protocol.surveys.dataframes import number_text
from protocol.surveys.limits import MAX_RECORDS
from scenarios.data.own_tables.proposing import Proposal
from scenarios.data.own_tables.question import Question
from scenarios.errors import printable

_WIDTH = 100
EPSILON, DELTA = 2.0, 1e-6


class Terms(NamedTuple):
    """On what terms people are asked.

    Args:
        variant: its name.
        epsilon: what a respondent's answers may cost, in nats; None if nothing bounds that.
        noise: what is added to counts, ``coins`` or ``none``; None if it does not count.
        delta: of coins, the probability for which epsilon need not hold.
        parties: how many take part, for whom coins are sized; 0 where it does not matter.
    """

    variant: str = "rr-independent"
    epsilon: float | None = EPSILON
    noise: str | None = None
    delta: float = DELTA
    parties: int = 0


USUAL = Terms()


def plan_text(proposal: Proposal, title: str, terms: Terms = USUAL) -> str:
    """The text of a plan, a TOML file, with what was found in comments.

    Args:
        proposal: what is asked.
        title: of the survey.
        terms: on which it is asked.
    """
    return "\n".join(_lines(proposal, title, terms)) + "\n"


def _lines(proposal: Proposal, title: str, terms: Terms) -> Iterator[str]:
    written = proposal.format
    asked = sum(each.question is not None for each in proposal.columns)
    yield from _comment(
        f"A first plan for {Path(proposal.source).name}: {proposal.rows:,} rows, {asked} of "
        f"{len(proposal.columns)} columns. Read it, and change what does not fit."
    )
    yield from _comment(
        "Categories, ranges and the comments below were made from the answers in that table, so "
        "they reveal something of them. Where the answers are secret, write categories that follow "
        "only from what is asked, and delete the comments before you hand this on."
    )
    yield ""
    yield f"title = {toml_text(title)}"
    yield from _terms(terms)
    yield f"max_records = {min(proposal.rows, MAX_RECORDS)}    # most respondents of one party"
    yield ""
    yield "[records]                     # how tables of answers are written"
    if written.delimiter is not None:
        yield f"delimiter = {toml_text(written.delimiter)}"
    if written.encoding is not None:
        yield f"encoding = {toml_text(written.encoding)}"
    if not written.header:
        yield "header = false                # columns are called 'column 1' and so on"
    if written.decimal != ".":
        yield f"decimal = {toml_text(written.decimal)}"
    yield f"missing_cells = {_array(map(toml_text, written.missing_cells), 'missing_cells = ')}"
    yield from _comment("these cells stand for no answer, and so do empty ones")
    for each in proposal.columns:
        yield ""
        if each.question is None:
            yield from _comment(f"{each.column}: {'; '.join(each.notes)}")
            continue
        yield "[[attributes]]"
        for note in each.notes:
            yield from _comment(note)
        yield from _question(each.question)


def _terms(terms: Terms) -> Iterator[str]:
    """What is asked by, and what that may cost, each line with what it means."""
    yield _said(f"variant = {toml_text(terms.variant)}", "the protocol")
    if terms.noise == "none":
        yield _said('noise = "none"', "exact sums: no epsilon bounds what they tell")
    elif terms.noise is not None:
        yield _said(f"noise = {toml_text(terms.noise)}", 'in every cell; "none" sums exactly')
        yield _said(f"epsilon = {terms.epsilon}", "of a respondent, if enough parties are honest")
        yield _said(f"delta = {terms.delta}", "with which probability that need not hold")
        yield _said(f"parties = {terms.parties}", "how many take part, for whom coins are sized")
    else:
        yield _said(f"epsilon = {terms.epsilon}", "what a respondent's answers may cost, in nats")


def _said(line: str, means: str) -> str:
    return f"{line:<28}  # {means}"


def _question(question: Question) -> Iterator[str]:
    yield f"name = {toml_text(question.name)}"
    if question.edges:
        yield f"edges = {_array(map(number_text, question.edges), 'edges = ')}"
    yield f"categories = {_array(map(toml_text, question.categories), 'categories = ')}"
    if question.ordinal:
        yield "ordinal = true"
    if question.missing is not None:
        yield f"missing = {toml_text(question.missing)}"
    if question.other is not None:
        yield f"other = {toml_text(question.other)}"
    if question.ignore_case:
        yield "ignore_case = true"


def toml_text(text: str) -> str:
    """A text in TOML. It takes all of JSON's ways to escape; DEL it wants escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _array(parts: Iterable[str], before: str) -> str:
    """An array on one line if it fits, else on several."""
    items: Sequence[str] = [*parts]
    line = f"[{', '.join(items)}]"
    if len(before) + len(line) <= _WIDTH:
        return line
    rows = [""]
    for item in items:
        if rows[-1] and len(rows[-1]) + len(item) + 6 > _WIDTH:
            rows.append("")
        rows[-1] += f"{' ' if rows[-1] else '    '}{item},"
    return "\n".join(("[", *rows, "]"))


def _comment(text: str) -> Iterator[str]:
    for line in textwrap.wrap(printable(text), _WIDTH - 2):
        yield f"# {line}"
