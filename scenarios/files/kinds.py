"""Kinds of files that users mistake for others, by their first bytes and names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from protocol.errors import UsageError

_ZSTANDARD = b"\x28\xb5\x2f\xfd"
_STARTS = (
    (b"sottovoce transcript ", "a transcript", ""),
    (b"sottovoce receipt ", "a receipt", ""),
    (b"PK\x03\x04", "a spreadsheet or an archive", "save its table as CSV or Parquet"),
    (b"\xd0\xcf\x11\xe0", "an old spreadsheet", "save its table as CSV"),
    (b"\x1f\x8b", "compressed", "unpack it first"),
    (_ZSTANDARD, "compressed", "unpack it first"),
    (b"PAR1", "a Parquet file", ""),
    (b"ARROW1", "an Arrow file", "save its table as Parquet or CSV"),
    (b"SQLite format 3\0", "a database", "save its table as CSV or Parquet"),
    (b"%PDF-", "a PDF document", ""),
    (b"\x89PNG", "a picture", ""),
    (b"\xff\xd8\xff", "a picture", ""),
    (b"<!", "a web page", ""),
    (b"<html", "a web page", ""),
    (b"<?xml", "an XML file", ""),
    (b'{"', "a JSON file", ""),
    (b"{\n", "a JSON file", ""),
)
_ENDINGS = {
    ".csv": "a table",
    ".tsv": "a table",
    ".txt": "a text",
    ".parquet": "a table",
    ".toml": "a plan",
    ".py": "a Python file",
    ".svt": "a transcript",
}
_LONGEST = 32


PAGES = (".html", ".htm")
"""Suffixes of pages."""


class Kind(NamedTuple):
    """Kind that a file seems to be of.

    Args:
        what: name of the kind, such as ``a transcript``.
        advice: command that makes a table of it; empty if there is none.
    """

    what: str
    advice: str


def detect_kind(path: Path) -> Kind | None:
    """The kind of an unexpected file; None for an unknown kind.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        begins = file.read(_LONGEST)
    if begins.startswith(_ZSTANDARD) and ".svt" in path.suffixes:
        return Kind("a transcript", "")
    for start, what, advice in _STARTS:
        if begins.startswith(start) or begins.lower().startswith(start):
            return Kind(what, advice)
    what = _ENDINGS.get(path.suffix.lower(), "")
    return Kind(what, "") if what and begins else None


def check_ending(what: str, path: Path, endings: Sequence[str]) -> None:
    """Check the suffix of an output file.

    Args:
        what: names it: an option, or an argument.
        endings: allowed ones, in small letters.

    Raises:
        UsageError: it ends otherwise, as the name of another kind of file.
    """
    if path.suffix.lower() not in endings:
        raise UsageError(f"{what} {path}: expected a name that ends in {', '.join(endings)}")
