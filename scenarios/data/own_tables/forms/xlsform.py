"""XLSForms, as ODK, KoboToolbox and others take them: sheets ``survey`` and ``choices``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from protocol.errors import UsageError
from protocol.surveys.survey import listed, shown
from scenarios.data.own_tables.forms.asked import Asked, Choice, references
from scenarios.data.own_tables.forms.constraints import bounds, day, number
from scenarios.data.own_tables.forms.form import Form, language_tag, tag_in
from scenarios.data.own_tables.forms.pages import (
    Page,
    Row,
    is_workbook,
    text_page,
    workbook_pages,
)
from scenarios.data.own_tables.proposals.columns import (
    Decision,
    Limits,
    Matter,
    Proposed,
    left_out,
)
from scenarios.wording.hints import did_you_mean

_SHEETS = ("survey", "choices", "settings")

_RENAMED = {
    "list name": "list_name",
    "value": "name",
    "caption": "label",
    "question": "label",
    "relevance": "relevant",
    "bind:relevant": "relevant",
    "bind::relevant": "relevant",
    "bind:required": "required",
    "bind::required": "required",
    "bind:constraint": "constraint",
    "bind::constraint": "constraint",
}
_SPOKEN = ("label", "hint")

_TYPES = {
    "int": "integer",
    "string": "text",
    "dateTime": "datetime",
    "select one": "select_one",
    "select1": "select_one",
    "select multiple": "select_multiple",
    "select all that apply": "select_multiple",
    "begin group": "begin_group",
    "end group": "end_group",
    "begin repeat": "begin_repeat",
    "end repeat": "end_repeat",
    "odk:rank": "rank",
}

_LEFT_OUT = {
    "text": "free text, which may identify people",
    "note": "a note, which asks nothing",
    **dict.fromkeys(("calculate", "hidden", "xml-external", "csv-external"), "computed or hidden"),
    **dict.fromkeys(
        (
            "start",
            "end",
            "today",
            "deviceid",
            "subscriberid",
            "simserial",
            "phonenumber",
            "username",
            "email",
            "audit",
            "start-geopoint",
            "background-audio",
            "background-geopoint",
            "instanceid",
        ),
        "recorded by the device, which may identify people",
    ),
    **dict.fromkeys(("geopoint", "geotrace", "geoshape"), "a place, which may identify people"),
    **dict.fromkeys(("image", "audio", "video", "file", "barcode"), "a file or a code"),
    **dict.fromkeys(("acknowledge", "trigger"), "a confirmation"),
    **dict.fromkeys(
        ("begin_score", "score__row", "end_score", "begin_rank", "rank__level", "end_rank"),
        "a table of questions",
    ),
    **dict.fromkeys(("begin_kobomatrix", "end_kobomatrix"), "a table of questions"),
    "time": "a time of day",
    "rank": "a ranking",
}
_NUMBERS = ("integer", "decimal", "range")
_DATES = ("date", "datetime")
_SELECTS = ("select_one", "select_multiple")
_FROM_FILE = ("select_one_from_file", "select_multiple_from_file", "select_one_external")
_GROUPS = ("begin_group", "end_group", "begin_repeat", "end_repeat")
_KNOWN = (*_SELECTS, *_FROM_FILE, *_NUMBERS, *_DATES, *_GROUPS, *_LEFT_OUT)

_OTHER = Choice("other", "Other")
_YES = ("yes", "true", "true()", "1")
_OR_OTHER = re.compile(" (or_other|or other|or specify other)$", re.IGNORECASE)
_RANGE = {"start": 1.0, "end": 10.0, "step": 1.0}
_REFERENCE = re.compile(r"\$\{[^}]*\}")


def is_survey(path: Path, names: Sequence[str]) -> bool:
    """Return whether a CSV file with these columns is the sheet ``survey`` of a form."""
    return path.name.lower() == "survey.csv" and {"type", "name"} <= {*map(_usual_name, names)}


def xlsform(path: Path, limits: Limits, language: str | None = None) -> Form:
    """The form in a workbook, in a folder of CSV files, or in ``survey.csv`` and files beside it.

    Args:
        path: path of the workbook, the folder or the file.
        limits: to what is proposed.
        language: language of the labels, by name or tag; by default the form's own.

    Raises:
        UsageError: it is malformed, says in which sheet, row and column; or it lacks the language.
    """
    pages = _pages(path)
    if "survey" not in pages:
        raise UsageError(f"{path}: no sheet 'survey'; it has {listed([*pages])}")
    survey, choices = pages["survey"], pages.get("choices")
    survey.expect("type", "name")
    settings = pages["settings"].rows[:1] if "settings" in pages else ()
    spoken = _language(path, pages, settings, language)
    lists = {} if choices is None else _lists(choices, spoken, settings)
    title = settings[0]("form_title") if settings else ""
    reader = _Reader(survey, choices, lists, spoken, limits)
    usual = spoken or _default_language(settings)
    tag = tag_in(usual) if usual else language_tag(language)
    return Form(str(path), title, tag, tuple(reader.proposals()))


def _pages(path: Path) -> dict[str, Page]:
    if is_workbook(path):
        return workbook_pages(path, _SHEETS, _usual_name)
    folder = path if path.is_dir() else path.parent
    files = {each.name.lower(): each for each in sorted(folder.glob("*.csv"))}
    if "survey.csv" not in files:
        raise UsageError(f"{path}: no file survey.csv in this folder; expected an XLSForm")
    found = {name: files[f"{name}.csv"] for name in _SHEETS if f"{name}.csv" in files}
    return {name: text_page(file, _usual_name) for name, file in found.items()}


def _usual_name(column: str) -> str:
    """The usual spelling of a column's name, with its language: ``label::English (en)``."""
    lower = column.lower()
    if lower in _RENAMED:
        return _RENAMED[lower]
    base, sign, language = column.partition("::")
    if not sign:
        base, sign, language = column.partition(":")
    base = base.strip().lower()
    base = _RENAMED.get(base, base)
    language = language.strip()
    return f"{base}::{language}" if base in _SPOKEN and language else lower if sign else base


def _language(
    path: Path, pages: Mapping[str, Page], settings: Sequence[Row], wanted: str | None
) -> str:
    """The language of the labels, as the columns name it; empty for labels without a language.

    Raises:
        UsageError: the form does not have the one that is wanted.
    """
    named = [name for page in pages.values() for name in page.columns]
    there = [*dict.fromkeys(name[7:] for name in named if name.startswith("label::"))]
    usual = _default_language(settings)
    if wanted is None:
        if usual in there:
            return usual
        return "" if "label" in named or not there else there[0]
    for language in there:
        if wanted.casefold() in (language.casefold(), tag_in(language).casefold()):
            return language
    if usual and wanted.casefold() in (usual.casefold(), tag_in(usual).casefold()):
        return ""
    if not there and not usual:
        return ""
    raise UsageError(f"{path}: no language {shown(wanted)}; it has {listed(there or [usual])}")


def _default_language(settings: Sequence[Row]) -> str:
    return settings[0]("default_language") if settings else ""


def _text_in(row: Row, column: str, language: str) -> str:
    """A row's text in a language, or else its text without a language."""
    return (row(f"{column}::{language}") if language else "") or row(column)


def _lists(page: Page, language: str, settings: Sequence[Row]) -> dict[str, list[Choice]]:
    """The choices of each list, by name.

    Raises:
        UsageError: a choice without a list or a name, or two of one list with the same name.
    """
    page.expect("list_name", "name")
    repeated = bool(settings) and settings[0]("allow_choice_duplicates").lower() in _YES
    lists: dict[str, list[Choice]] = {}
    for row in page.rows:
        if not row("list_name") and not row("name"):
            continue
        for column in ("list_name", "name"):
            if not row(column):
                raise page.error(row, column, "is empty")
        choices = lists.setdefault(row("list_name"), [])
        if any(each.name == row("name") for each in choices):
            if repeated:
                continue
            said = f"list {shown(row('list_name'))} has {shown(row('name'))} twice"
            raise page.error(row, "name", said)
        choices.append(Choice(row("name"), _text_in(row, "label", language)))
    return lists


class _Type(NamedTuple):
    """A type of a question.

    Args:
        name: in one spelling.
        about: the rest of the cell, such as the name of a list.
        has_other: whether another answer may be written.
    """

    name: str
    about: str = ""
    has_other: bool = False


def _type(text: str) -> _Type:
    words = " ".join(text.split())
    stem = _OR_OTHER.sub("", words)
    has_other, words = stem != words, stem
    for spelling, name in _TYPES.items():
        if re.match(rf"{re.escape(spelling)}( |$)", words, re.IGNORECASE):
            rest = words[len(spelling) :].strip()
            return _Type(name, rest.removeprefix("from ").strip(), has_other)
    name, _, about = words.partition(" ")
    return _Type(name.lower(), about.strip(), has_other)


class _Reader:
    def __init__(
        self,
        page: Page,
        choices: Page | None,
        lists: Mapping[str, Sequence[Choice]],
        language: str,
        limits: Limits,
    ) -> None:
        self._page = page
        self._choices = choices
        self._lists = lists
        self._language = language
        self._limits = limits
        self._groups: list[Row] = []
        self._named = set[str]()

    def proposals(self) -> Iterator[Proposed]:
        for row in self._page.rows:
            if row("disabled").lower() in _YES or not (row("type") or row("name")):
                continue
            if not row("type"):
                raise self._page.error(row, "type", "is empty")
            found = _type(row("type"))
            if found.name in _GROUPS:
                self._group(row, found.name)
                continue
            yield self._question(row, found)
        if self._groups:
            raise self._page.error(self._groups[-1], "type", "this group has no end_group")

    def _group(self, row: Row, kind: str) -> None:
        if kind.endswith("repeat"):
            raise self._page.error(
                row,
                "type",
                f"{kind} {shown(row('name'))}: a repeat has as many answers as people like; "
                "expected each question once. Delete it, or plan it by itself",
            )
        if kind == "begin_group":
            self._groups.append(row)
        elif not self._groups:
            raise self._page.error(row, "type", "end_group, but no group has begun")
        else:
            self._groups.pop()

    def _question(self, row: Row, kind: _Type) -> Proposed:
        if kind.name not in _KNOWN:
            hint = did_you_mean(kind.name, _KNOWN)
            if hint:
                raise self._page.error(row, "type", f"no type {shown(kind.name)}{hint}")
            return left_out(row("name") or kind.name, f"type {shown(kind.name)} is not read", 0)
        name = row("name")
        if kind.name in _LEFT_OUT:
            return left_out(name or f"row {row.number}", _LEFT_OUT[kind.name], 0)
        if not name:
            raise self._page.error(row, "name", "is empty")
        if name.casefold() in self._named:
            # Groups may share names of questions; data then prefix the names of the groups.
            name = "/".join((*(each("name") for each in self._groups), name))
        if name.casefold() in self._named:
            raise self._page.error(row, "name", f"{shown(name)} is there twice")
        self._named.add(name.casefold())
        if kind.name in _FROM_FILE:
            return left_out(name, "choices from another file", 0)
        if kind.name in _SELECTS:
            return self._select(row, name, kind)
        if kind.name in _DATES:
            first, last = bounds(row("constraint"), day)
            return self._make_asked(row, name).date(first, last, self._limits)
        asked = self._make_asked(row, name)
        if kind.name == "range":
            low, high, step = (self._parameter(row, *each) for each in _RANGE.items())
            whole = low.is_integer() and step.is_integer()
            return asked.number(low, high, self._limits, whole=whole)
        whole = kind.name == "integer"
        lowest, highest = bounds(row("constraint"), number, whole=whole)
        return asked.number(lowest, highest, self._limits, whole=whole)

    def _parameter(self, row: Row, name: str, usual: float) -> float:
        """A number among the parameters of a row, such as ``start=1 end=10``."""
        found = re.search(rf"(?:^|[\s,;]){name}\s*=\s*([^\s,;]+)", row("parameters").lower())
        if found is None:
            return usual
        given = number(found[1])
        if given is None:
            raise self._page.error(row, "parameters", f"{name} {shown(found[1])} is not a number")
        return given

    def _select(self, row: Row, name: str, kind: _Type) -> Proposed:
        choices = [*self._list(row, kind)]
        if kind.has_other and all(each.name != _OTHER.name for each in choices):
            choices.append(_OTHER)
        asked = self._make_asked(row, name, [each.label for each in choices])
        if kind.name == "select_one":
            return asked.choices(choices, self._limits)
        for each in choices:
            if " " in each.name:
                said = f"choice {shown(each.name)} of a select_multiple has a blank"
                raise self._page.error(row, "type", said)
        return asked.boxes(choices, self._limits)

    def _list(self, row: Row, kind: _Type) -> Sequence[Choice]:
        """The choices of the list that a question names.

        Raises:
            UsageError: there is no such list.
        """
        if not kind.about:
            raise self._page.error(row, "type", f"{kind.name} names no list of choices")
        found = self._lists.get(kind.about)
        if found is not None:
            return found
        if self._choices is None:
            raise self._page.error(
                row, "type", f"{kind.name} names the list {shown(kind.about)}; no sheet 'choices'"
            )
        raise self._page.error(
            row,
            "type",
            f"{kind.name} names the list {shown(kind.about)}, and {self._choices.name} has no "
            f"such list; lists: {', '.join(self._lists) or 'none'}",
        )

    def _make_asked(self, row: Row, name: str, labels: Sequence[str] = ()) -> Asked:
        ask, hint = (_text_in(row, column, self._language) for column in _SPOKEN)
        remarks = references(_REFERENCE, (ask, hint, *labels))
        if row("choice_filter"):
            said = "its choices depend on another answer; a plan offers all of them"
            remarks += (Decision(Matter.MEANING, said, 0),)
        if self._groups:
            said = "in a group; the plan expects data without the names of groups"
            column = "-".join((*(each("name") for each in self._groups), row("name")))
            change = f"Then write column = '{column}', or with / for each -."
            remarks += (Decision(Matter.MEANING, said, 0, change),)
        conditions = [each("relevant") for each in (*self._groups, row) if each("relevant")]
        return Asked(
            name,
            ask,
            hint,
            required=row("required").lower() in _YES,
            condition=" and ".join(conditions),
            remarks=remarks,
        )
