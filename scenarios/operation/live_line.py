"""The line on a terminal that says how a survey goes; it is written over twice a second."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from typing import TextIO

import trio

from scenarios.errors import printable
from scenarios.operation.progress import Counts, Phase, Progress

EVERY = 0.5
"""The seconds between two writes."""

_ERASE = "\r\x1b[K"
_COLUMNS = 80


def line_of(counts: Counts) -> str:
    """How a survey goes, in a line."""
    said = [f"{counts.joined} of {counts.parties} joined"]
    if counts.phase is Phase.ASKING and counts.awaiting:
        said.append(f"{counts.answered} of {counts.awaited} answered ({counts.awaiting})")
    if counts.declined:
        said.append(f"{counts.declined} declined")
    if counts.gone:
        said.append(f"gone: {_listed(counts.gone)}")
    if counts.refused:
        said.append(f"connections refused: {_listed(counts.refused)}")
    if counts.left is not None:
        said.append(f"{counts.left:.0f} s left")
    return printable(f"{counts.phase.value}: {'; '.join(said)}")


async def show(progress: Progress, terminal: TextIO) -> None:
    """Keep the line up to date until cancelled; it is removed then."""
    try:
        while True:
            width = shutil.get_terminal_size((_COLUMNS, 24)).columns - 1
            _write(terminal, _ERASE + line_of(progress.counts())[:width])
            await trio.sleep(EVERY)
    finally:
        _write(terminal, _ERASE)


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {word}" for word, count in sorted(counts.items()))


def _write(terminal: TextIO, text: str) -> None:
    try:
        terminal.write(text)
        terminal.flush()
    except OSError:
        pass  # The terminal is gone, and the survey is not.
