"""What sections of a page are made of: checks, tables and facts. What they say is not said here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from markupsafe import Markup

State: TypeAlias = Literal["good", "bad", "care", "open", "note"]
"""How a check came out; ``care`` is for what a reader must know, ``open`` for what nobody can know,
``note`` for what is neither good nor bad by itself."""

Cell: TypeAlias = str | Markup
"""A cell's text, or a picture of this program."""


@dataclass(frozen=True, slots=True)
class Check:
    """A question that was put to the record, and the answer in a sentence.

    Args:
        state: how it came out.
        about: what it is about, in two or three words.
        says: the sentence.
        link: the section that says more.
    """

    state: State
    about: str
    says: str
    link: str = ""


@dataclass(frozen=True, slots=True)
class Fact:
    """One figure at the top: what it is, the figure, and what stands below it."""

    name: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A table.

    Args:
        key: its id, once on a page.
        caption: what it holds.
        columns: the heads; one that begins with ``#`` is of numbers, one that begins with ``~`` of
            pictures of the numbers beside it.
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
    """A part of the page: a heading, the answer in a sentence, and what it rests on.

    Args:
        key: its id, and its template's name.
        title: the heading.
        lead: the answer.
        notes: further sentences.
        grids: tables.
        pictures: drawings, which tables repeat.
        extra: what this section's template alone knows.
    """

    key: str
    title: str
    lead: str
    notes: tuple[str, ...] = ()
    grids: tuple[Grid, ...] = ()
    pictures: tuple[Markup, ...] = ()
    extra: dict[str, object] = field(default_factory=dict)


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


def firsts(rows: Sequence[tuple[Cell, ...]], most: int) -> tuple[tuple[Cell, ...], ...]:
    """As many rows as a page shows."""
    return tuple(rows[:most])
