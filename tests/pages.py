"""Audits as pages, of small surveys: for tests of what they say, and in a browser."""

from __future__ import annotations

import functools
import re
from html.parser import HTMLParser
from typing import Any

from protocol import (
    AGGREGATOR,
    Attribute,
    Coalition,
    PartyId,
    Survey,
    judge_coalition,
    worst_coalition,
)
from protocol.accounting.composition import Composition, DominatingPairs
from protocol.audit.at_delta import WorstRespondent, worst_respondent
from protocol.audit.audit import Audit, audit
from protocol.audit.coalition.coalition import Observer
from protocol.audit.linkage import link
from protocol.estimators.inference.intervals import USUAL, Intervals
from protocol.session.roster import Roster
from protocol.transcript.header import read_charter
from protocol.transcript.reader import TranscriptReader
from protocol.variants import BUILT_IN, RRIndependent, SecureSumVariant
from scenarios import Context, find_scenario, town
from scenarios.report.page.audit import audit_page
from scenarios.report.page.run import run_page
from scenarios.statement.audits.judged import Judged
from scenarios.surveys.watching.rounds import Round, split_rounds
from scenarios.surveys.watching.standings import StandingWriter
from tests.recorded.runs import recorded

HOSTILE = (
    "<script>alert(1)</script>",
    "\"><img src=x onerror='alert(1)'>",
    "\u202egnihton\u202c \x1b[31mred\x07",
    "</style></title><svg onload=alert(1)>",
    "{{ 7*7 }} {% raw %} &lt;b&gt; \u05e9\u05dc\u05d5\u05dd",
)
"""Names that want to be more than names."""


VOID = {"meta", "br", "link", "img", "input", "hr", "wbr", "base"}
"""Elements that have no end."""


class Page(HTMLParser):
    """A page read strictly: elements nest, and everything that matters is kept."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: dict[str, list[str]] = {}
        self.words: list[str] = []
        self.within: list[tuple[str, ...]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        self.within.append(tuple(self.open))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        self.within.append(tuple(self.open))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data.strip())
            if "style" not in self.open:
                self.words.append(data)

    def attributes(self, name: str) -> list[str]:
        return [attrs[name] for _, attrs in self.elements if name in attrs]

    def tags(self, *names: str) -> list[dict[str, str]]:
        return [attrs for tag, attrs in self.elements if tag in names]

    @property
    def said(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))


def style_of(text: str) -> str:
    """The style sheet of a page."""
    [style] = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    assert isinstance(style, str)
    return style


def audited(file: bytes, observer: Observer | None = None) -> Audit:
    """What an audit finds in a transcript of one of the project's own variants."""
    variant = BUILT_IN[TranscriptReader([file]).header.variant]
    return audit(lambda: [file], variant, observer=observer)


def rounds(file: bytes) -> list[Round]:
    """The rounds of a transcript."""
    reader = TranscriptReader([file])
    return split_rounds(Roster(reader.header.roster), reader)


def judged_of(content: bytes, found: Audit | None = None, **options: Any) -> Judged:
    """What an audit of a transcript found, and what was computed beside it."""
    if found is None:
        known = options.get("coalition")
        found = audited(content, None if known is None else known.coalition)
    arguments: dict[str, Any] = {
        "file": "transcript.svt.zst",
        "header": TranscriptReader([content]).header,
        "audit": found,
        "linkage": link(found.ledger),
        **options,
    }
    return Judged(**arguments)


def worst_of(found: Composition, *, everybody: bool = True) -> WorstRespondent:
    """A respondent of whom a composition says how much was learned."""
    return WorstRespondent(PartyId("party-01"), DominatingPairs(None, False), found, everybody)


def page_of(
    content: bytes, found: Audit | None = None, *, said: list[Round] | None = None, **options: Any
) -> str:
    """The page of a transcript; ``said`` instead of its rounds."""
    return audit_page(
        judged_of(content, found, **options), rounds(content) if said is None else said
    )


def replay_page_of(content: bytes, intervals: Intervals = USUAL) -> str:
    """The page of a transcript with its steps."""
    reader = TranscriptReader([content])
    variant = BUILT_IN[reader.header.variant]
    steps = StandingWriter(read_charter(reader.header, variant), intervals)
    found = audit(lambda: [content], variant, folds=[steps])
    return audit_page(judged_of(content, found, intervals=intervals), rounds(content), steps)


def full_page_of(file: bytes, conspirators: int) -> str:
    """The page with a coalition of the aggregator and so many parties, and all the rest."""
    parties = [name for name, _ in TranscriptReader([file]).header.roster[1 : conspirators + 1]]
    coalition = Coalition((AGGREGATOR, *map(PartyId, parties)))
    found = audited(file, coalition)
    return page_of(
        file,
        found,
        coalition=judge_coalition(found.charter, TranscriptReader([file]), coalition),
        worst=worst_coalition(found.charter, TranscriptReader([file]), 1),
        worst_respondent=worst_respondent(found.ledger, 1e-6, settled=False),
    )


@functools.cache
def run_page_of(name: str, settings: tuple[tuple[str, str], ...] = ()) -> str:
    """The page of a scenario that was run."""
    scenario = find_scenario(name)
    return run_page(name, scenario.run(scenario.configure(dict(settings)), Context()))


@functools.cache
def independent() -> bytes:
    """A small town, each attribute randomized by itself."""
    records = town(60, seed=1)
    return recorded(RRIndependent.with_keep(records.survey, 0.6), records, signed=True).content


@functools.cache
def summed() -> bytes:
    """A secure sum among a few."""
    records = town(24, seed=2)
    return recorded(
        SecureSumVariant(survey=records.survey), records, parties=12, signed=True
    ).content


def hostile_survey() -> Survey:
    """A survey whose every name wants to be more; what cannot be printed, it cannot hold."""
    names = [name for name in HOSTILE if name.isprintable()]
    return Survey(
        names[0], tuple(Attribute(name=name, categories=("no", *names)) for name in names)
    )
