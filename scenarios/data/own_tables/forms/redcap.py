"""Data dictionaries of REDCap: a CSV file with a row for each field."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from protocol.surveys.survey import shown
from scenarios.data.own_tables.coding import number_in
from scenarios.data.own_tables.dates import USUAL_ORDER, date_in
from scenarios.data.own_tables.forms.asked import Asked, Choice, references
from scenarios.data.own_tables.forms.form import Form, language_tag
from scenarios.data.own_tables.forms.pages import Page, Row, text_page
from scenarios.data.own_tables.proposals.columns import Limits, Proposed, left_out
from scenarios.wording.hints import did_you_mean

_NAME, _TYPE, _LABEL = "Variable / Field Name", "Field Type", "Field Label"
_CHOICES = "Choices, Calculations, OR Slider Labels"
_NOTE = "Field Note"
_VALIDATION = "Text Validation Type OR Show Slider Number"
_MIN, _MAX = "Text Validation Min", "Text Validation Max"
_IDENTIFIER, _BRANCHING, _REQUIRED = (
    "Identifier?",
    "Branching Logic (Show field only if...)",
    "Required Field?",
)
_OF_API = {
    "field_name": _NAME,
    "field_type": _TYPE,
    "field_label": _LABEL,
    "select_choices_or_calculations": _CHOICES,
    "field_note": _NOTE,
    "text_validation_type_or_show_slider_number": _VALIDATION,
    "text_validation_min": _MIN,
    "text_validation_max": _MAX,
    "identifier": _IDENTIFIER,
    "branching_logic": _BRANCHING,
    "required_field": _REQUIRED,
}
"""Names of columns as REDCap's interface for programs has them."""

_RENAMED = {name.lower(): name for name in _OF_API.values()} | _OF_API

_LEFT_OUT = {
    "calc": "computed from other fields",
    "descriptive": "a note, which asks nothing",
    "file": "a file",
    "notes": "free text, which may identify people",
    "sql": "choices from a database",
    "signature": "a file",
}
_ONE = ("radio", "dropdown", "select")
_FIXED = {
    "yesno": (Choice("1", "Yes"), Choice("0", "No")),
    "truefalse": (Choice("1", "True"), Choice("0", "False")),
}
_KNOWN = (*_ONE, *_FIXED, *_LEFT_OUT, "checkbox", "slider", "text")
_SLIDER = (0.0, 100.0)
_TAG = re.compile(r"<[^<>]{1,1000}>")
_REFERENCE = re.compile(r"\[[a-z][a-z0-9_]*\]")


def is_dictionary(names: Sequence[str]) -> bool:
    """Check for the columns of a data dictionary."""
    return {_NAME, _TYPE, _CHOICES} <= {*map(_usual_name, names)}


def redcap_dictionary(path: Path, limits: Limits, language: str | None = None) -> Form:
    """The form in a data dictionary.

    Args:
        limits: to what is proposed.
        language: the tag of that of its labels.

    Raises:
        UsageError: the dictionary is malformed; the message gives row and column.
    """
    tag = language_tag(language)
    page = text_page(path, _usual_name)
    seen = set[str]()
    for row in page.rows:
        if row(_NAME) in seen:
            raise page.error(row, _NAME, f"{shown(row(_NAME))} is there twice")
        seen.add(row(_NAME))
    columns = [_propose(page, row, limits) for row in page.rows[1:]]
    first = [left_out(row(_NAME), "the number of the record", 0) for row in page.rows[:1]]
    return Form(str(path), "", tag, (*first, *columns))


def _usual_name(column: str) -> str:
    return _RENAMED.get(column.lower(), column)


def _propose(page: Page, row: Row, limits: Limits) -> Proposed:
    name, kind = row(_NAME), row(_TYPE).lower()
    if not name:
        raise page.error(row, _NAME, "is empty")
    if kind not in _KNOWN:
        hint = did_you_mean(kind, _KNOWN)
        if hint or not kind:
            raise page.error(row, _TYPE, f"no type {shown(kind)}{hint}")
        return left_out(name, f"type {shown(kind)} is not read", 0)
    if row(_IDENTIFIER).lower() in ("y", "yes", "1", "true"):
        return left_out(name, "identifies people, says the dictionary", 0)
    if kind in _LEFT_OUT:
        return left_out(name, _LEFT_OUT[kind], 0)
    if kind == "text" and not row(_VALIDATION):
        return left_out(name, _LEFT_OUT["notes"], 0)
    if kind == "text":
        return _propose_validated(row, _make_asked(row), limits)
    if kind == "slider":
        given = (number_in(row(column), ".") for column in (_MIN, _MAX))
        low, high = (
            usual if number is None else number
            for usual, number in zip(_SLIDER, given, strict=True)
        )
        return _make_asked(row).number(low, high, limits, whole=True)
    choices = _FIXED.get(kind) or _choices(page, row)
    asked = _make_asked(row, [each.label for each in choices])
    if kind == "checkbox":
        columns = [f"{name}___{_column_ending(each.name)}" for each in choices]
        return asked.boxes(choices, limits, columns)
    return asked.choices(choices, limits)


def _propose_validated(row: Row, asked: Asked, limits: Limits) -> Proposed:
    """The proposal for a text that REDCap validates as a number or a date."""
    kind = row(_VALIDATION).lower()
    if kind.startswith(("date_", "datetime_")):
        first, last = (date_in(row(column), USUAL_ORDER) for column in (_MIN, _MAX))
        return asked.date(first, last, limits)
    if kind.endswith("comma_decimal"):
        return asked.not_asked("a number with a decimal comma; to ask it, write its edges")
    if kind in ("integer", "number") or kind.startswith("number_"):
        low, high = (number_in(row(column), ".") for column in (_MIN, _MAX))
        return asked.number(low, high, limits, whole=kind == "integer")
    return asked.not_asked(f"text of the kind {kind}, which may identify people")


def _make_asked(row: Row, labels: Sequence[str] = ()) -> Asked:
    ask, hint = (_plain(row(column)) for column in (_LABEL, _NOTE))
    return Asked(
        row(_NAME),
        ask,
        hint,
        required=row(_REQUIRED).lower() in ("y", "yes", "1", "true"),
        condition=row(_BRANCHING),
        remarks=references(_REFERENCE, (ask, hint, *labels)),
    )


def _choices(page: Page, row: Row) -> list[Choice]:
    """The choices in a cell: ``1, Yes | 2, No``.

    Raises:
        UsageError: a choice without a code, one code twice, or none at all.
    """
    choices: list[Choice] = []
    for part in filter(str.strip, row(_CHOICES).split("|")):
        code, comma, label = (text.strip() for text in part.partition(","))
        if not comma or not code:
            said = f"{shown(part.strip())}: expected a code, a comma and a label"
            raise page.error(row, _CHOICES, said)
        if any(each.name == code for each in choices):
            raise page.error(row, _CHOICES, f"code {shown(code)} is there twice")
        choices.append(Choice(code, _plain(label)))
    if not choices:
        raise page.error(row, _CHOICES, "is empty; expected choices such as '1, Yes | 2, No'")
    return choices


def _column_ending(code: str) -> str:
    """A code as it ends the name of a column: in small letters, with ``_`` for ``-`` and ``.``."""
    return re.sub("[^a-z0-9_]", "", re.sub("[-.]", "_", code.lower()))


def _plain(text: str) -> str:
    return " ".join(_TAG.sub(" ", text).split())
