"""Errors of decoders, in words for a person."""

from __future__ import annotations

import re
from typing import NamedTuple

_KINDS = {
    "array": "a list",
    "bool": "true or false",
    "bytes": "bytes",
    "date": "a date",
    "datetime": "a moment",
    "float": "a number",
    "int": "a whole number",
    "null": "nothing",
    "object": "a table",
    "str": "a text",
}
_BOUNDS = {">": "above", ">=": "of at least", "<": "below", "<=": "of at most"}
_UNITS = {"a list": "entries", "a table": "entries", "a text": "characters", "bytes": ""}
_EXPECTED = re.compile(
    r"Expected `(?P<kinds>[^`]+)`(?P<length> of length)?"
    r"(?: (?P<bound>[<>]=?) (?P<limit>\S+))?(?:, got `(?P<got>[^`]+)`)?"
)
_DECODED = (
    (r"Object missing required field `(.+)`", r"'\1' is missing"),
    (r"Object contains unknown field `(.+)`", r"unknown field '\1'"),
    (r"Invalid enum value (.+)", r"\1 is not one of the possible values"),
    (r"Expected `str` matching regex '(.+)'", r"expected a text like '\\1'"),
    (r"Invalid RFC3339 encoded datetime", "expected a moment such as 2026-12-15T18:00:00Z"),
    (r"Invalid base64 encoded string", "expected bytes in base64"),
    (r"(?:Integer value|Number|Integer) out of range", "the number is too large"),
    (r"Input data was truncated", "it breaks off, or is empty"),
    (r"JSON is malformed: .* \(byte (\d+)\)", r"not JSON, from byte \1 on"),
    (r"Expecting value: line 1 column 1 .*", "not JSON"),
    (r"Expecting .*: line (\d+) column (\d+) .*", r"not JSON, from line \1, column \2, on"),
    (r"'utf-8' codec can't decode .*", "not text in UTF-8"),
)
"""Patterns of decoders' error messages, and the words for a person."""


class Undecoded(NamedTuple):
    """Reason why a value or a file could not be decoded, for a person.

    Args:
        why: the problem, in words.
        place: the field that it is about, such as ``attributes[0].name``; empty for all of it.
    """

    why: str
    place: str = ""

    @classmethod
    def of(cls, error: Exception) -> Undecoded:
        """Reason in an error of a decoder; its own text if it is of no known kind."""
        text, _, place = str(error).partition(" - at `")
        inner = place.rpartition("$")[2].strip("`").removeprefix(".")
        if place.startswith("key"):
            return cls(f"a name: {_in_words(text)}", inner)
        return cls(_in_words(text), inner)

    def __str__(self) -> str:
        return f"{self.place}: {self.why}" if self.place else self.why


def _in_words(text: str) -> str:
    found = _EXPECTED.fullmatch(text)
    if found is None:
        for pattern, words in _DECODED:
            if (other := re.fullmatch(pattern, text)) is not None:
                return other.expand(words)
        return text
    kinds = [_KINDS.get(kind, kind) for kind in found["kinds"].split(" | ") if kind != "null"]
    said = f"expected {' or '.join(kinds)}"
    if found["bound"] is not None:
        bound, limit = _BOUNDS[found["bound"]], re.sub(r"\.0$", "", found["limit"])
        if found["length"]:
            unit = _UNITS.get(kinds[0], "entries")
            return f"{said}, {bound.removeprefix('of ')} {limit} {unit}".rstrip()
        return f"{said} {bound} {limit}"
    got = {**_KINDS, "float": "one with decimals"}.get(found["got"] or "")
    return said if got is None or got in kinds else f"{said}, not {got}"
