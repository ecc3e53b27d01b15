"""What a statement is made of: checks, tables and sections."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeAlias

State: TypeAlias = Literal["good", "bad", "care", "open", "note"]
"""How a check came out; ``care`` is for what a reader must know, ``open`` for what nobody can know,
``note`` for what is neither good nor bad by itself."""

WORDS: Mapping[State, str] = MappingProxyType(
    {"good": "Holds", "bad": "Fails", "care": "Caution", "open": "Unknown", "note": "Note"}
)
"""A state in a word, for readers who do not see its mark."""


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
