"""Reads TOML files, which may be anybody's."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import TypeVar

import msgspec

from scenarios.errors import UsageError
from scenarios.running.budget import reading

T = TypeVar("T")

_HEADER = re.compile(r"\s*(\[\[?)\s*([\w-]+)\s*\]\]?\s*(#.*)?$")
_PLACE = re.compile(r" - at `\$\.([\w-]+)(?:\[(\d+)\])?(?:\.([\w-]+))?")


def read_toml(path: Path | str, kind: type[T]) -> T:
    """What is in a TOML file.

    Args:
        path: the file.
        kind: the type of it.

    Raises:
        UsageError: it is not valid TOML, or not of this type; names the field.
        CannotFinishError: it takes more time or memory than is given to a file of its length.
        OSError: it cannot be read.
    """
    path = Path(path)
    try:
        with reading(path):
            return msgspec.toml.decode(path.read_bytes(), type=kind)
    except msgspec.ValidationError as error:
        raise misplaced(path, error) from error
    except (msgspec.DecodeError, ValueError) as error:
        raise UsageError(f"{path}: not valid TOML: {error}") from error
    except RecursionError as error:
        raise UsageError(f"{path}: nested too deeply") from error


def misplaced(path: Path, error: msgspec.ValidationError) -> UsageError:
    """An error about a field of a file that has been read, with its line."""
    place = _PLACE.search(str(error))
    if place is None:
        return UsageError(f"{path}: {error}")
    table, number, field = place.groups()
    line = line_of(path, table, int(number or 0), field)
    return UsageError(f"{path}: line {line}: {error}" if line else f"{path}: {error}")


def line_of(path: Path, table: str, number: int, field: str | None) -> int | None:
    """The line, from 1, on which a field stands; that of its table where it has none.

    Args:
        path: of a valid TOML file.
        table: the name of the table, or of a field above all tables.
        number: which of the tables of that name, from 0.
        field: the name of the field; None for the table as a whole.
    """
    seen: Counter[str] = Counter()
    here, found = None, None
    for place, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        header = _HEADER.match(line)
        if header is not None:
            here = header[2]
            seen[here] += 1
            if here == table and seen[here] == number + 1:
                found = place
        elif (here is None and re.match(rf"\s*{re.escape(table)}\s*=", line)) or (
            found is not None
            and field is not None
            and (here, seen[table]) == (table, number + 1)
            and re.match(rf"\s*{re.escape(field)}\s*=", line)
        ):
            return place
    return found
