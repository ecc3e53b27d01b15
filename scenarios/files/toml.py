"""Reads TOML files, which may be anybody's."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec

from protocol.errors import UsageError
from scenarios.files.budget import within_usual_budget
from scenarios.wording.hints import parameter_hint

T = TypeVar("T")

_HEADER = re.compile(r"\s*(\[\[?)\s*([\w-]+)\s*\]\]?\s*(#.*)?$")
_UNKNOWN = re.compile(r"unknown field `([^`]+)`")
_LINE = re.compile(r"\(at line ([0-9]+),")
_COMMA = re.compile(r"\s*[\w-]+\s*=\s*([0-9]*),([0-9]+)\s*(?:#.*)?$")
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
        with within_usual_budget(path):
            return msgspec.toml.decode(path.read_bytes(), type=kind)
    except msgspec.ValidationError as error:
        raise misplaced(path, error, kind) from error
    except (msgspec.DecodeError, ValueError) as error:
        raise UsageError(f"{path}: not valid TOML: {error}{_comma_hint(path, error)}") from error
    except RecursionError as error:
        raise UsageError(f"{path}: nested too deeply") from error


def _comma_hint(path: Path, error: Exception) -> str:
    """The end of an error about a line with a number that has a comma for its point."""
    place = _LINE.search(str(error))
    if place is None:
        return ""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    number = _COMMA.match(lines[int(place[1]) - 1]) if int(place[1]) <= len(lines) else None
    return f"; did you mean {number[1]}.{number[2]}?" if number is not None else ""


def misplaced(path: Path, error: msgspec.ValidationError, kind: object) -> UsageError:
    """An error about a field of a file that has been read, with its line and column.

    Args:
        path: of the file.
        error: of msgspec.
        kind: the type that it should have been.
    """
    found = _PLACE.search(str(error))
    if found is None:
        return UsageError(f"{path}: {error}")
    table, number, field = found.groups()
    said = str(error)
    if "RFC3339" in said and table == "attributes":
        said = "expected numbers, or dates such as 2026-01-31"
    if "missing_cells" in said and said.startswith("Expected `str`"):
        said += '; cells are texts, also where they are numbers: "99", not 99'
    unknown = _UNKNOWN.search(said)
    if unknown is not None:
        field = unknown[1]
        known = _fields(kind, table)
        said = f"no field {field!r} in {table}{parameter_hint(field, known)}" if known else said
    return UsageError(f"{path}: {where(path, table, int(number or 0), field)}{said}")


def _fields(kind: object, table: str) -> tuple[str, ...]:
    """The fields that each table of this name may have, in a file of this type."""
    inner: list[Any] = [get_type_hints(kind).get(table)]
    while inner:
        one = inner.pop()
        if isinstance(one, type) and issubclass(one, msgspec.Struct):
            return one.__struct_fields__
        inner += get_args(one)
    return ()


def where(path: Path, table: str, number: int = 0, field: str | None = None) -> str:
    """``line L, column C: ``, of a field's value; of its table where it has none, or nothing.

    Args:
        path: of a valid TOML file.
        table: the name of the table, or of a field above all tables.
        number: which of the tables of that name, from 0.
        field: the name of the field; None for the table as a whole.
    """
    place = _place_of(path, table, number, field)
    return "" if place is None else f"line {place[0]}, column {place[1]}: "


def _place_of(path: Path, table: str, number: int, field: str | None) -> tuple[int, int] | None:
    """The line and the column, from 1."""
    seen: Counter[str] = Counter()
    here, found = None, None
    for line, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        header = _HEADER.match(text)
        if header is not None:
            here = header[2]
            seen[here] += 1
            if here == table and seen[here] == number + 1:
                found = line, header.start(1) + 1
        wanted = table if here is None else field
        is_inside = found is not None and (here, seen[table]) == (table, number + 1)
        if wanted is not None and (here is None or is_inside):
            value = re.match(rf"\s*{re.escape(wanted)}\s*=\s*", text)
            if value is not None:
                return line, value.end() + 1
    return found
