"""A proposed plan as a TOML file that a person reads and edits."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from protocol.surveys.limits import MAX_RECORDS
from protocol.surveys.texts import Group, Wording
from scenarios.data.own_tables.forms.form import UNKNOWN
from scenarios.data.own_tables.proposals.columns import Proposed
from scenarios.data.own_tables.proposing import Proposal, concerned
from scenarios.data.own_tables.question import Question, edge_text
from scenarios.data.own_tables.sheets import Format
from scenarios.errors import printable

_WIDTH = 100
EPSILON, DELTA = 2.0, 1e-6


class Terms(NamedTuple):
    """Terms of a proposed survey.

    Args:
        variant: name of the variant.
        epsilon: largest cost of a respondent's answers, in nats; None if unbounded.
        noise: noise of counts, ``coins`` or ``none``; None for other variants.
        delta: delta of the coins' epsilon.
        parties: number of parties that coins are sized for; 0 where it does not matter.
    """

    variant: str = "rr-independent"
    epsilon: float | None = EPSILON
    noise: str | None = None
    delta: float = DELTA
    parties: int = 0


USUAL = Terms()


def plan_text(
    proposal: Proposal, title: str, terms: Terms = USUAL, remark: str | None = None
) -> str:
    """Text of a plan in TOML, with findings as comments.

    Args:
        proposal: the proposal.
        title: the survey's title.
        terms: on which it is asked.
        remark: expected usefulness in words, if known.
    """
    return "\n".join(_lines(proposal, title, terms, remark)) + "\n"


def _lines(proposal: Proposal, title: str, terms: Terms, remark: str | None) -> Iterator[str]:
    asked = sum(bool(each.questions) for each in proposal.columns)
    name, of = Path(proposal.source).name, len(proposal.columns)
    what = f"{proposal.rows:,} rows, {asked} of {of} columns"
    if proposal.is_of_form:
        what = f"{asked} of {of} questions"
    yield from _comment(f"A first plan for {name}: {what}. Read it, and change what does not fit.")
    if proposal.is_of_form:
        yield from _comment(
            "It was made from the questions alone, so it reveals nothing of any answers."
        )
    else:
        yield from _revealing()
    yield ""
    yield f"title = {toml_text(title)}"
    if remark is not None:
        yield from _comment(remark)
    yield from _terms(terms)
    if not proposal.is_of_form:
        most = min(proposal.rows, MAX_RECORDS)
        yield f"max_records = {most}    # most respondents of one party"
    yield ""
    yield from _records(proposal.format)
    for each in proposal.columns:
        yield ""
        yield from _column(each)
    if proposal.words:
        yield ""
        yield from _texts(proposal, title)


def _revealing() -> Iterator[str]:
    yield from _comment(
        "Categories, ranges and the comments below were made from the answers in that table, so "
        "they reveal something of them. Where the answers are secret, write categories that follow "
        "only from what is asked, and delete the comments before you hand this on."
    )


def _records(written: Format) -> Iterator[str]:
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


def _column(proposed: Proposed) -> Iterator[str]:
    """Lines on a column: findings, decisions, and its attributes."""
    if not proposed.questions:
        said = [*proposed.notes, *(decision.said for decision in proposed.decisions)]
        yield from _comment(f"{proposed.column}: {'; '.join(said)}")
        return
    for number, question in enumerate(proposed.questions):
        if number:
            yield ""
        yield "[[attributes]]"
        if not number:
            for note in proposed.notes:
                yield from _comment(note)
            for decision in proposed.decisions:
                asked = f"decide: {decision.said}{concerned(decision.rows)}"
                yield from _comment(f"{asked}. {decision.change}".rstrip())
        yield from _question(question)


def _terms(terms: Terms) -> Iterator[str]:
    """Lines on the protocol and its cost, each with its meaning."""
    yield _with_comment(f"variant = {toml_text(terms.variant)}", "the protocol")
    if terms.noise == "none":
        yield _with_comment('noise = "none"', "exact sums: no epsilon bounds what they tell")
    elif terms.noise is not None:
        yield _with_comment(
            f"noise = {toml_text(terms.noise)}", 'in every cell; "none" sums exactly'
        )
        yield _with_comment(
            f"epsilon = {terms.epsilon}", "of a respondent, if enough parties are honest"
        )
        yield _with_comment(f"delta = {terms.delta}", "with which probability that need not hold")
        yield _with_comment(
            f"parties = {terms.parties}", "how many take part, for whom coins are sized"
        )
    else:
        yield _with_comment(
            f"epsilon = {terms.epsilon}", "what a respondent's answers may cost, in nats"
        )


def _with_comment(line: str, means: str) -> str:
    return f"{line:<28}  # {means}"


def _question(question: Question) -> Iterator[str]:
    yield f"name = {toml_text(question.name)}"
    if question.column is not None:
        yield f"column = {toml_text(question.column)}"
    if question.ticked is not None:
        yield f"ticked = {toml_text(question.ticked)}"
    if question.separator is not None:
        yield f"separator = {toml_text(question.separator)}"
    if question.edges:
        yield f"edges = {_array(map(edge_text, question.edges), 'edges = ')}"
    if question.dates is not None:
        yield f"dates = {toml_text(question.dates)}"
    yield f"categories = {_array(map(toml_text, question.categories), 'categories = ')}"
    if question.ordinal:
        yield "ordinal = true"
    if question.missing is not None:
        yield f"missing = {toml_text(question.missing)}"
    if question.missing_cells:
        cells = _array(map(toml_text, question.missing_cells), "missing_cells = ")
        yield f"missing_cells = {cells}"
    if question.other is not None:
        yield f"other = {toml_text(question.other)}"
    if question.ignore_case:
        yield "ignore_case = true"


def _texts(proposal: Proposal, title: str) -> Iterator[str]:
    yield "[[texts]]                     # what people read; asks, consent and contact say who asks"
    if proposal.language == UNKNOWN:
        yield from _comment("decide: their language is not known; write its tag, such as en")
    yield f"language = {toml_text(proposal.language)}"
    yield f"title = {toml_text(title)}"
    for words in proposal.words:
        for wording in words.wordings:
            yield from ("", "[[texts.questions]]", f"attribute = {toml_text(wording.attribute)}")
            yield from _ask(wording)
            if wording.labels:
                yield f"labels = {_array(map(toml_text, wording.labels), 'labels = ')}"
    for words in proposal.words:
        if words.group is not None:
            names = _array(map(toml_text, words.group.attributes), "attributes = ")
            yield from ("", "[[texts.groups]]", f"attributes = {names}")
            yield from _ask(words.group)


def _ask(words: Wording | Group) -> Iterator[str]:
    yield f"ask = {toml_text(words.ask)}"
    if words.help:
        yield f"help = {toml_text(words.help)}"


def toml_text(text: str) -> str:
    """A text in TOML. It takes all of JSON's ways to escape; DEL it wants escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _array(parts: Iterable[str], before: str) -> str:
    """An array, on one line if it fits."""
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
