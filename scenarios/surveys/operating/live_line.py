"""Progress of a survey in one line of a terminal, rewritten twice a second."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import TextIO

import trio

from scenarios.errors import printable
from scenarios.surveys.operating.progress import Counts, Phase, Progress

EVERY = 0.5
"""The seconds between two writes."""

_ERASE = "\r\x1b[K"
_COLUMNS = 80


def progress_line(counts: Counts) -> str:
    """Progress of a survey in one line."""
    said = [f"{counts.joined} of {counts.parties} joined"]
    if counts.phase is Phase.BEGINNING and counts.needed:
        said = [f"{counts.cosigned} of {counts.needed} witnesses have cosigned"]
    if counts.phase is Phase.ASKING and counts.awaiting:
        said.append(f"{counts.answered} of {counts.awaited} answered ({counts.awaiting})")
    if counts.declined:
        said.append(f"{counts.declined} declined")
    if counts.gone:
        said.append(f"gone: {_counts_text(counts.gone)}")
    if counts.refused:
        said.append(f"connections refused: {_counts_text(counts.refused)}")
    if counts.left is not None:
        said.append(f"{counts.left:.0f} s left")
    return printable(f"{counts.phase.value}: {'; '.join(said)}")


async def show(progress: Progress, terminal: TextIO) -> None:
    """Keep the line up to date until cancelled; then remove it.

    A terminal that takes nothing, after Ctrl-S, holds up a thread and not the survey.
    """
    shown = _Line(terminal)
    try:
        while True:
            width = shutil.get_terminal_size((_COLUMNS, 24)).columns - 1
            line = progress_line(progress.counts())[:width]
            await trio.to_thread.run_sync(shown.write, line, abandon_on_cancel=True)
            await trio.sleep(EVERY)
    finally:
        shown.remove()


def _counts_text(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {word}" for word, count in sorted(counts.items()))


class _Line:
    """A line that one thread writes and another removes, without waiting for the terminal."""

    def __init__(self, terminal: TextIO) -> None:
        self._terminal = terminal
        self._writing = threading.Lock()
        self._over = False

    def write(self, line: str) -> None:
        with self._writing:
            self._write(_ERASE + line)
        if self._over:
            self.remove()

    def remove(self) -> None:
        """Remove the line; a thread that is writing it removes it itself."""
        self._over = True
        if self._writing.acquire(blocking=False):
            self._write(_ERASE)
            self._writing.release()

    def _write(self, text: str) -> None:
        # The survey goes on without its terminal.
        with suppress(OSError):
            self._terminal.write(text)
            self._terminal.flush()
