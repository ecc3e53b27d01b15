"""Statements and their parts: verdicts, checks, tables, estimates, sections."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from scenarios.wording.formatting import count

if TYPE_CHECKING:
    from protocol.estimators.inference.intervals import Intervals, Shown

State: TypeAlias = Literal["good", "bad", "care", "open", "note"]
"""How a check came out; ``care`` is for what a reader must know, ``open`` for what nobody can know,
``note`` for what is neither good nor bad by itself."""

WORDS: Mapping[State, str] = MappingProxyType(
    {"good": "Holds", "bad": "Fails", "care": "Caution", "open": "Unknown", "note": "Note"}
)
"""A state in a word, for readers who do not see its mark."""


Place: TypeAlias = Literal["result", "body", "aside"]
"""Where a terminal shows a section: a ``result`` comes before the verdicts, in place of what was
found, an ``aside`` not at all, for there is room on a page alone."""

SO_FAR = "As far as the record could be read: "
"""What an answer begins with that more of the record might change."""


@dataclass(frozen=True, slots=True)
class Check:
    """A question that was put to the record, and the answer in a sentence.

    Args:
        about: what it is about, in a few words.
        state: how it came out.
        says: the sentence.
        link: the section that says more.
    """

    about: str
    state: State
    says: str
    link: str


@dataclass(frozen=True, slots=True)
class Bar:
    """Figures to be drawn beside their numbers, one above the other.

    Args:
        shares: each as a share of the largest one; None where there is none, may be infinite.
    """

    shares: tuple[float | None, ...]


Cell: TypeAlias = str | Bar


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A table.

    Args:
        key: its id, once in a statement.
        caption: what it holds.
        columns: the heads; one that begins with ``#`` is of numbers, one that begins with ``~`` of
            bars for the numbers beside it.
        rows: the cells; the first of a row is its head.
        more: what was left out, in words.
        wide: it may need more room than a phone has.
    """

    key: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    more: str = ""
    wide: bool = True

    @property
    def heads(self) -> tuple[tuple[str, str], ...]:
        """Name and class of every column."""
        kinds = {"#": "number", "~": "picture"}
        return tuple((name.lstrip("#~"), kinds.get(name[:1], "")) for name in self.columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """Estimates with their intervals, to be drawn and listed.

    Args:
        key: its id, once in a statement.
        name: what they are of.
        heads: what its name is of, what tells the estimates apart, and what one is.
        labels: of each.
        figures: as many, with the ends of their intervals.
        truth: of the first of them, where it is known.
        intervals: their level, and what they are about.
        limits: beyond them nothing is drawn; None for shares, which are written in percent.
        drawn: how many are drawn at most.
        each: what they are of, as a plural.
    """

    key: str
    name: str
    heads: tuple[str, str, str]
    labels: tuple[str, ...]
    figures: tuple[Shown, ...]
    truth: tuple[float, ...] = ()
    intervals: Intervals
    limits: tuple[float, float] | None = None
    drawn: int = 20
    each: str = "categories"


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of a statement: a heading, the answer in a sentence, and what it rests on.

    Args:
        key: its id.
        title: the heading.
        lead: the answer, if there is one. Of a ``result`` it stands on a page alone: in a terminal
            the tables are the answer.
        notes: further sentences.
        code: lines to be copied as they are.
        reasons: why the answer is what it is, as a list.
        facts: names and values, in pairs.
        grids: tables.
        panels: estimates with their intervals.
        total: of how many panels these are the first.
        place: where a terminal shows it.
        brief: the sentences that a terminal shows of it without details; None for all of it.
    """

    key: str
    title: str
    lead: str = ""
    notes: tuple[str, ...] = ()
    code: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    grids: tuple[Grid, ...] = ()
    panels: tuple[Panel, ...] = ()
    total: int = 0
    place: Place = "body"
    brief: tuple[str, ...] | None = None


class Step(NamedTuple):
    """A step of a scale, the best first: what it is called, and where it ends."""

    name: str
    edge: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Scale that a verdict is a step of.

    Args:
        of: what it is a scale of, in a word.
        goes_by: what its edges are, in a clause.
        steps: the best first; the last has no end.
        says: what the steps mean, in sentences.
        place: where the verdict stands: from 0, the best end, to 1; None if that is not known.
    """

    of: str
    goes_by: str
    steps: tuple[Step, ...]
    says: str
    place: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """An answer in a word.

    Args:
        about: what it is on, in a word; empty if that need not be said.
        word: the verdict.
        state: how that is to be taken.
        says: why, in a sentence.
        reasons: what a reader has to know beside it, in sentences.
        caveat: why it is of the design and not of this record, in a sentence; empty if it is of
            both.
        brief: the sentences that a terminal shows without details, the answer first: all that is
            bad, and all that a figure rests on; None for ``says`` and ``reasons``.
    """

    about: str = ""
    word: str
    state: State
    says: str
    reasons: tuple[str, ...] = ()
    caveat: str = ""
    brief: tuple[str, ...] | None = None

    @property
    def key(self) -> str:
        """Its id."""
        return (self.about or "verdict").lower()

    @property
    def title(self) -> str:
        """Subject of the verdict, in words that stand before it; empty if there are none."""
        return f"{self.about} of the design" if self.caveat else self.about

    @property
    def means(self) -> str:
        """Meaning of the verdict, in one short sentence."""
        return self.says

    @property
    def scale(self) -> Scale | None:
        """The scale that it goes by, if there is one."""
        return None

    @property
    def values(self) -> Mapping[str, Any]:
        """The figures that it follows from, by their names in JSON."""
        return {}


@dataclass(frozen=True, slots=True)
class Coverage:
    """Number of those who were awaited that were counted.

    Args:
        of: what was awaited: a kind of message, or all that the estimate is made of.
        about: what that is, where its name alone does not say it.
        counted, awaited: how many parties.
        each: what is counted: parties, or their answers where they were awaited repeatedly.
    """

    of: str
    about: str
    counted: int
    awaited: int
    each: tuple[str, str] = ("party", "parties")

    @property
    def says(self) -> str:
        """The two figures in words."""
        return f"{self.counted:,} of {count(self.awaited, *self.each)}"


class Fact(NamedTuple):
    """One figure: what it is, the figure, and what stands below it."""

    name: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """Statement of a result.

    Args:
        title: what it is of; empty if that need not be said.
        found: the largest figures; None if there is none.
        verdicts: such as on the record and on privacy.
        coverage: who was counted, for the estimate and in each wait.
        facts: figures that stand by themselves.
        checks: every question that was put to it, with its answer.
        sections: what the answers rest on.
        values: the figures, which ``as_json`` takes, by their names in JSON.
    """

    title: str = ""
    found: Grid | None = None
    verdicts: tuple[Verdict, ...] = ()
    coverage: tuple[Coverage, ...] = ()
    facts: tuple[Fact, ...] = ()
    checks: tuple[Check, ...] = ()
    sections: tuple[Section, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
