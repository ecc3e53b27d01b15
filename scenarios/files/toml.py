"""Reads untrusted TOML files."""

from __future__ import annotations

import codecs
import re
from collections import Counter
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec

from protocol.errors import UsageError
from protocol.surveys.survey import shown
from protocol.wire.undecoded import Undecoded
from scenarios.files.budget import within_usual_budget
from scenarios.files.kinds import detect_kind
from scenarios.wording.hints import parameter_hint

T = TypeVar("T")

_HEADER = re.compile(r"\s*(\[\[?)\s*([\w-]+)\s*\]\]?\s*(#.*)?$")
_UNKNOWN = re.compile(r"unknown field '([^']+)'")
_LINE = re.compile(r"\(at line ([0-9]+),")
_COMMA = re.compile(r"\s*[\w-]+\s*=\s*([0-9]*),([0-9]+)\s*(?:#.*)?$")
_TWICE = ("Cannot overwrite", "Cannot declare", "Cannot mutate", "Duplicate inline table key")
_CURLY = ("\u201c", "\u201d", "\u201e", "\u2018", "\u2019", "\xab", "`")
_MALFORMED = (
    ("Illegal character '\\n'", "a quote that is opened here is never closed"),
    ("Illegal character '\\r'", "a quote that is opened here is never closed"),
    ("Unterminated string", "a quote that is opened here is never closed"),
    ("Expected '\"", "a quote that is opened here is never closed"),
    ("Expected \"'", "a quote that is opened here is never closed"),
    ("Unclosed array", "a list without its closing ], or without a comma between two entries"),
    ("Unclosed inline table", "a table without its closing }"),
    ("Expected '=' after", "expected NAME = VALUE"),
    ("Expected ']", "expected a closing bracket"),
    ("Expected newline", "expected one NAME = VALUE on this line"),
    ("Invalid date", "no such day or time"),
    ("Invalid value", "expected a text in quotes, a number, true, false or a [list]"),
    ("Invalid statement", "expected NAME = VALUE, [table] or # comment"),
    ("Invalid initial character", "expected a name before ="),
    ("Unescaped", "a backslash in a text is written twice"),
    ("Invalid hex", "a backslash in a text is written twice"),
    ("Illegal character", "a character that cannot stand in a plan"),
)
"""Errors of the TOML reader, with words for people."""

_PLACE = re.compile(r" - at `\$\.([\w-]+)(?:\[(\d+)\])?(?:\.([\w-]+))?")


def read_toml(path: Path | str, kind: type[T]) -> T:
    """Read a TOML file.

    Args:
        kind: the type of it.

    Raises:
        UsageError: the file is not valid TOML, or not of this type; names the field.
        CannotFinishError: it takes more time or memory than is given to a file of its length.
        OSError: it cannot be read.
    """
    path = Path(path)
    try:
        with within_usual_budget(path):
            return msgspec.toml.decode(_text_in(path), type=kind)
    except msgspec.ValidationError as error:
        raise misplaced(path, error, kind) from error
    except (msgspec.DecodeError, ValueError) as error:
        found = detect_kind(path)
        if found is not None and found.what != "a plan":
            raise UsageError(f"{path}: {found.what}; expected a TOML file") from error
        raise UsageError(f"{path}: {_decode_error_words(path, str(error))}") from error
    except RecursionError as error:
        raise UsageError(f"{path}: nested too deeply") from error


def _text_in(path: Path) -> str:
    """The text of a file without its byte order mark.

    Raises:
        UsageError: the file has another encoding; the message gives the line.
        OSError: it cannot be read.
    """
    content = path.read_bytes()
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise UsageError(f"{path}: is in UTF-16; save it in UTF-8")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if (found := detect_kind(path)) is not None and found.what != "a plan":
            raise UsageError(f"{path}: {found.what}; expected a TOML file") from error
        line = content.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{path}: line {line}: is not in UTF-8; save the file in UTF-8") from error


def _decode_error_words(path: Path, said: str) -> str:
    """Error message for a file that is not TOML, with the line."""
    place = _LINE.search(said)
    lines = _text_in(path).splitlines()
    why = next((words for start, words in _MALFORMED if said.startswith(start)), "is malformed")
    if place is None or int(place[1]) > len(lines):
        return f"not valid TOML: {why}"
    number, text = int(place[1]), lines[int(place[1]) - 1].strip()
    name, _, value = (part.strip() for part in text.partition("="))
    if comma := _COMMA.match(text):
        why = f"expected a number; did you mean {comma[1]}.{comma[2]}?"
    elif text.startswith("["):
        if said.startswith(_TWICE):
            why = "is there before; several tables of one name have [[ ]] each time"
    elif said.startswith(_TWICE):
        why = f"{name!r} is set twice"
    elif value[:1] in _CURLY:
        why = f'expected straight quotes, "..."; these are {value[0]}'
    elif value in ("True", "False"):
        why = f"expected {value.lower()}"
    elif re.fullmatch(r"[\w.:-]+", value) and said.startswith("Invalid value"):
        why = f'expected a text in quotes; did you mean "{value}"?'
    return f"not valid TOML: line {number}: {why}: {shown(text)}"


def misplaced(path: Path, error: msgspec.ValidationError, kind: object) -> UsageError:
    """An error about a field of a file that has been read, with its line and column.

    Args:
        kind: the type that it should have been.
    """
    found = _PLACE.search(str(error))
    if found is None:
        return UsageError(f"{path}: {Undecoded.of(error)}")
    table, number, field = found.groups()
    said = Undecoded.of(error).why
    if "RFC3339" in str(error) and table == "attributes":
        said = "expected numbers, or dates such as 2026-01-31"
    if "missing_cells" in str(error) and said.startswith("expected a text"):
        said += '; cells are texts, also where they are numbers: "99", not 99'
    unknown = _UNKNOWN.search(said)
    if unknown is not None:
        field = unknown[1]
        known = _fields(kind, table)
        said = f"no field {field!r} in {table}{parameter_hint(field, known)}" if known else said
    elif field is not None or number is None:
        said = f"{field or table}: {said}"
    return UsageError(f"{path}: {where(path, table, int(number or 0), field)}{said}")


def _fields(kind: object, table: str) -> tuple[str, ...]:
    """Fields allowed in every table of this name."""
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
        path: path of a valid TOML file.
        table: the name of the table, or of a field above all tables.
        number: which of the tables of that name, from 0.
        field: the name of the field; None for the table as a whole.
    """
    place = _locate(path, table, number, field)
    return "" if place is None else f"line {place[0]}, column {place[1]}: "


def _locate(path: Path, table: str, number: int, field: str | None) -> tuple[int, int] | None:
    """Line and column of a table's field, both from 1."""
    seen: Counter[str] = Counter()
    here, found = None, None
    for line, text in enumerate(_text_in(path).splitlines(), 1):
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
