"""Tables and paragraphs for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from protocol.transcript.entries import Header
from scenarios.surveys.watching.rounds import Round, alike_stretches
from scenarios.wording.formatting import others_in, rest
from scenarios.wording.plain import plain

_NOTES = 12
"""Maximum number of notes on equal rounds."""


def header_report(header: Header) -> RenderableType:
    """One line on the survey of a transcript."""
    return plain(
        f"{header.variant}, {others_in(header)}, session {header.session.hex()}, "
        f"attempt {header.attempt}, over {header.transport}"
    )


def rounds_report(rounds: Sequence[Round], about: Callable[[str], str]) -> Iterator[RenderableType]:
    """Messages round by round; equal rounds are joined.

    Args:
        rounds: rounds from ``split_rounds``.
        about: describes a kind of message; empty if unknown.
    """
    explained: set[str] = set()
    for stretch in alike_stretches(rounds):
        table = Table(title=stretch.name.lower(), title_justify="left")
        for column in ("from", "to", "kind"):
            table.add_column(column)
        for column in ("messages", "delivered", "bytes"):
            table.add_column(column, justify="right")
        for flow in stretch.flows:
            table.add_row(
                _members(flow.senders),
                _members(flow.recipients),
                plain(flow.kind),
                f"{flow.messages:,}",
                f"{flow.delivered:,}" if flow.delivered is not None else "",
                f"{flow.bytes:,}",
            )
        yield table
        for kind in dict.fromkeys(flow.kind for flow in stretch.flows):
            if kind not in explained and (what := about(kind)):
                yield plain(f"  {kind}: {what}.", style="dim")
            explained.add(kind)
        for note in stretch.notes[:_NOTES]:
            yield plain(f"  {note}")
        if more := rest(len(stretch.notes), _NOTES):
            yield plain(f"  {more}")


def rows_table(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> RenderableType:
    """The rows of a query."""
    table = Table()
    for column in columns:
        table.add_column(plain(column))
    for row in rows:
        table.add_row(*(plain("" if value is None else str(value)) for value in row))
    return table


def _members(names: Collection[str]) -> Text:
    return plain(next(iter(names))) if len(names) == 1 else plain(f"{len(names):,} members")
