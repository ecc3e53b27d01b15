"""Values in a file that only ever grows, a line of JSON each."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from parties.keeping.writing import GrowingFile, locked_growing, naming, not_regular, whole_lines
from protocol.errors import UsageError
from protocol.wire.undecoded import Undecoded

L = TypeVar("L")

_LOST = "what was begun or spent"


class Lines(Generic[L]):
    """The values of an open file; an added value is on disk before the call returns."""

    def __init__(self, file: GrowingFile, values: list[L]) -> None:
        self._file = file
        self.values = values

    def is_there(self) -> bool:
        """Return whether the file still has its path: it was not moved, deleted or replaced."""
        return self._file.is_there()

    def add(self, *values: L) -> None:
        """Add values in one write.

        Raises:
            OSError: they cannot be written.
        """
        self._file.write(b"".join(msgspec.json.encode(value) + b"\n" for value in values))
        self._file.sync()
        self.values.extend(values)


@contextmanager
def open_lines(
    path: Path, decoder: msgspec.json.Decoder[L], busy: str | None, *, lost: str = _LOST
) -> Generator[Lines[L]]:
    """The values of a file, as ``writing.locked_growing`` opens it; half a line is cut off.

    Args:
        path, busy: as there.
        decoder: of a line.
        lost: what is not known if the file is malformed.

    Raises:
        UsageError: as there, or the file is malformed.
        OSError: as there.
    """
    with locked_growing(path, busy, whole=whole_lines) as (content, file):
        yield Lines(file, _decoded(content, decoder, path, lost))


def lines_in(path: Path, decoder: msgspec.json.Decoder[L], *, lost: str = _LOST) -> list[L]:
    """The values of a file, for reading; none if there is no such file.

    Args:
        path: of the file.
        decoder: of a line.
        lost: what is not known if the file is malformed.

    Raises:
        UsageError: the file is malformed, or not a regular one.
        OSError: it cannot be read; names it.
    """
    if not path.exists():
        return []
    if not path.is_file():
        raise not_regular(path)
    with naming(path):
        content = path.read_bytes()
    return _decoded(content[: whole_lines(content)], decoder, path, lost)


def unknown(path: Path, error: object, lost: str = _LOST) -> UsageError:
    """The error for a malformed file."""
    return UsageError(f"{path}: {error}; {lost} is not known")


def _decoded(content: bytes, decoder: msgspec.json.Decoder[L], path: Path, lost: str) -> list[L]:
    try:
        return [decoder.decode(line) for line in content.splitlines()]
    except (msgspec.DecodeError, ValueError) as error:
        raise unknown(path, Undecoded.of(error), lost) from error
