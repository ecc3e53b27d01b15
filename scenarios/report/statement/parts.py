"""What a statement is made of: checks, tables and sections."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from protocol.audit.audit import Verdict as Soundness

State: TypeAlias = Literal["good", "bad", "care", "open", "note"]
"""How a check came out; ``care`` is for what a reader must know, ``open`` for what nobody can know,
``note`` for what is neither good nor bad by itself."""

WORDS: Mapping[State, str] = MappingProxyType(
    {"good": "Holds", "bad": "Fails", "care": "Caution", "open": "Unknown", "note": "Note"}
)
"""A state in a word, for readers who do not see its mark."""


SO_FAR = "As far as the record could be read: "
"""What an answer begins with that more of the record might change."""


Protection: TypeAlias = Literal["none", "weak", "moderate", "strong", "unknown"]
"""How well people are protected; ``unknown`` if more may have been told than is on record."""


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
        """Of every column its name and its class."""
        kinds = {"#": "number", "~": "picture"}
        return tuple((name.lstrip("#~"), kinds.get(name[:1], "")) for name in self.columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of a statement: a heading, the answer in a sentence, and what it rests on.

    Args:
        key: its id.
        title: the heading.
        lead: the answer.
        notes: further sentences.
        reasons: why the answer is what it is, as a list.
        facts: names and values, in pairs.
        grids: tables.
    """

    key: str
    title: str
    lead: str
    notes: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    grids: tuple[Grid, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One of the two verdicts.

    Args:
        about: what it is on, in a word.
        word: the verdict.
        state: how that is to be taken.
        says: why, in a sentence.
        reasons: what a reader has to know beside it, in sentences.
        caveat: why it is of the design and not of this record, in a sentence; empty if it is of
            both.
    """

    about: Literal["Record", "Privacy"]
    word: Soundness | Protection
    state: State
    says: str
    reasons: tuple[str, ...] = ()
    caveat: str = ""

    @property
    def title(self) -> str:
        """What it is on, in words that stand before the verdict."""
        return f"{self.about} of the design" if self.caveat else self.about

    @property
    def means(self) -> str:
        """What it means, in one short sentence."""
        return self.says


def some(names: Iterable[str], total: int, at_most: int = 5) -> str:
    """The first names, and how many more there are.

    Args:
        names: as many as are listed, or more.
        total: how many there are.
        at_most: how many are listed.
    """
    listed = [name for name, _ in zip(names, range(at_most), strict=False)]
    more = total - len(listed)
    return ", ".join(listed) + (f" and {more:,} more" if more > 0 else "")


def rest(total: int, shown: int, what: str) -> str:
    """The line below a list that was cut; empty if it was not."""
    return f"and {total - shown:,} more {what}" if total > shown else ""
