"""Progress of reading a long transcript."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from pathlib import Path

from msgspec.structs import replace

from scenarios.errors import printable
from scenarios.files.transcripts import Transcript, open_transcript
from scenarios.surveys.watching.bars import ongoing
from scenarios.wording.formatting import size

LONG = 2**20
"""The bytes from which on a transcript takes seconds to read."""


@contextlib.contextmanager
def reading(path: Path, *, times: int = 1, silent: bool = False) -> Generator[Transcript]:
    """A transcript in an existing file.

    Args:
        times: number of reads.
        silent: show nothing.

    Raises:
        UsageError: there is no such file.
    """
    opened = open_transcript(path)
    whole = times * path.stat().st_size
    if silent or whole < LONG * times:
        yield opened
        return
    read = 0
    with ongoing(printable(f"reading {path.name}")) as bar:

        def progress(octets: int) -> None:
            nonlocal read
            # The bytes read now are not judged yet.
            bar.share(min(read / whole, 1.0), f"{size(read)} of {size(whole)}")
            read += octets

        yield replace(opened, progress=progress)
