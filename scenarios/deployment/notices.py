"""A party's private notices, kept in its folder."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from scenarios.files.writing import GrowingFile, open_private

BLOCK = 1024
"""The file grows by this many bytes at a time, so that its size does not reveal its content."""

_HEAD = """\
What this party noted when it answered, or that there was nothing to note.
Keep it to yourself. A notice depends on the answers: telling anybody that one is here, or that
none is, reveals an answer.
"""


class Notebook:
    """A party's notices of one session.

    Args:
        file: open at its end, with no other name.
    """

    def __init__(self, file: GrowingFile) -> None:
        self._file = file

    def write(self, notices: Sequence[str]) -> None:
        """Add the notices of one answer, in an entry as large as one without any.

        Raises:
            OSError: it cannot be written; names the file.
        """
        noted = "".join(f"- {text}\n" for text in notices or ("nothing",))
        content = (_HEAD + noted).encode()
        # The entry ends with a line of spaces.
        padded = content + b" " * (-(len(content) + 1) % BLOCK) + b"\n"
        self._file.write(padded)
        self._file.sync()


@contextmanager
def noting(path: Path) -> Generator[Notebook]:
    """Open a party's notebook; earlier entries stay.

    Args:
        path: the file, made on first use.

    Raises:
        UsageError: not a regular file, or one with another name.
        OSError: it cannot be opened.
    """
    descriptor = open_private(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, sole=True)
    try:
        yield Notebook(GrowingFile(descriptor, path))
    finally:
        os.close(descriptor)
