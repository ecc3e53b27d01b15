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
"""Outcome of a check; ``care`` is a caution, ``open`` unknown, ``note`` neither good nor bad."""

WORDS: Mapping[State, str] = MappingProxyType(
    {"good": "Holds", "bad": "Fails", "care": "Caution", "open": "Unknown", "note": "Note"}
)
"""Words for the states, for readers who do not see the marks."""


Place: TypeAlias = Literal["result", "body", "aside"]
"""Place of a section in a terminal: a ``result`` comes before the verdicts in place of what was
found; an ``aside`` is only shown on a page."""

SO_FAR = "As far as the record could be read: "
"""Start of an answer that more of the record might change."""


@dataclass(frozen=True, slots=True)
class Check:
    """A check of the record.

    Args:
        about: its subject, in a few words.
        state: its outcome.
        says: the outcome in a sentence.
        link: key of the section with details.
    """

    about: str
    state: State
    says: str
    link: str


@dataclass(frozen=True, slots=True)
class Bar:
    """Bars in a table, one above the other, for numbers in the same row.

    Args:
        shares: lengths as shares of the largest one, possibly infinite; None for no bar.
    """

    shares: tuple[float | None, ...]


Cell: TypeAlias = str | Bar


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A table.

    Args:
        key: its id, unique in a statement.
        caption: its caption.
        columns: the heads; ``#`` marks a column of numbers, and ``~`` one of bars for numbers.
        rows: the cells; the first cell of a row is its head.
        more: words on rows that were left out.
        wide: whether it may be too wide for a phone.
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
    """Estimates with their intervals, for a picture and a table.

    Args:
        key: its id, unique in a statement.
        name: the subject of the estimates, such as an attribute.
        heads: heads for the name, for the labels and for the figures.
        labels: a label for each figure.
        figures: the estimates with their intervals.
        truth: true values of the first figures, where known.
        intervals: level and subject of the intervals.
        limits: limits of the picture; None for shares, which are in percent.
        drawn: maximum number of figures in the picture.
        each: word for the labels, in the plural.
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
    """A part of a statement: a heading, an answer, and its basis.

    Args:
        key: its id.
        title: the heading.
        lead: the answer in a sentence, if there is one. A terminal leaves out the lead of a
            ``result``, as the tables are the answer there.
        notes: further sentences.
        code: lines to copy.
        reasons: reasons for the answer, as a list.
        facts: pairs of names and values.
        grids: tables.
        panels: estimates with their intervals.
        total: number of panels, including those left out.
        place: its place in a terminal.
        brief: sentences that a terminal shows without details; None for the whole section.
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
    """A step of a scale, with its name and its upper end."""

    name: str
    edge: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The scale of a verdict.

    Args:
        of: its subject, in a word.
        goes_by: meaning of its edges, in a clause.
        steps: the steps, best first; the last has no end.
        says: meaning of the steps, in sentences.
        place: the verdict's place from 0 (best) to 1; None if unknown.
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
        about: its subject in a word; may be empty.
        word: the verdict.
        state: the state that it corresponds to.
        says: the reason, in a sentence.
        reasons: further sentences that a reader needs.
        caveat: why it is about the design and not about this record; empty if it is about both.
        brief: sentences that a terminal shows without details, the answer first, with all problems
            and all assumptions; None for ``says`` and ``reasons``.
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
        """The verdict's id."""
        return (self.about or "verdict").lower()

    @property
    def title(self) -> str:
        """Words to put before the verdict; may be empty."""
        return f"{self.about} of the design" if self.caveat else self.about

    @property
    def means(self) -> str:
        """The verdict in one short sentence."""
        return self.says

    @property
    def scale(self) -> Scale | None:
        """The verdict's scale, if it has one."""
        return None

    @property
    def values(self) -> Mapping[str, Any]:
        """The verdict's figures, by their names in JSON."""
        return {}


@dataclass(frozen=True, slots=True)
class Coverage:
    """Number of counted parties among the awaited ones.

    Args:
        of: the awaited kind of message, or the input of the estimate.
        about: explanation of that kind, if its name is not enough.
        counted, awaited: numbers of parties.
        each: word for what is counted: parties, or answers where parties answer repeatedly.
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
    """One figure, with its name and a note."""

    name: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """Statement of a result.

    Args:
        title: its title; may be empty.
        found: the largest figures, if there are any.
        verdicts: the verdicts, such as on the record and on privacy.
        coverage: numbers of counted parties, for the estimate and for each wait.
        facts: single figures.
        checks: all checks.
        sections: the basis of verdicts and checks.
        values: all figures, by their names in JSON; see ``as_json``.
    """

    title: str = ""
    found: Grid | None = None
    verdicts: tuple[Verdict, ...] = ()
    coverage: tuple[Coverage, ...] = ()
    facts: tuple[Fact, ...] = ()
    checks: tuple[Check, ...] = ()
    sections: tuple[Section, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
