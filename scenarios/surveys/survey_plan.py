"""The plan of a real survey in TOML: questions, variant and terms."""

from __future__ import annotations

import datetime
import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from protocol.errors import SurveyError, UsageError
from protocol.estimators.analysis import Analysis
from protocol.session.variant import Variant
from protocol.surveys.records import Records
from protocol.surveys.survey import Survey, moment_text
from protocol.surveys.texts import Texts
from protocol.surveys.weights import check_strata
from protocol.variants import RRIndependent
from protocol.variants.keyvalue.records import key_survey
from scenarios.data.own_tables.coding import Coding
from scenarios.data.own_tables.question import Question
from scenarios.data.own_tables.sheets import Format, Source, tidied
from scenarios.files.toml import misplaced, read_toml, where
from scenarios.running.loading import built_in_variant, split_path
from scenarios.running.making import make_variant
from scenarios.running.parameters import parameters_checked
from scenarios.surveys.own_variant import Pin, own_variant
from scenarios.wording.hints import did_you_mean

_FIELDS = {
    "missing_cells": "missing_cells",
    "ignore_case": "ignore_case",
    "dates: expected edges": "dates",
    "dates '": "dates",
    "ticked: ": "ticked",
    "separator: ": "separator",
    "edges": "edges",
    "other ": "other",
    "missing category": "missing",
    "categor": "categories",
    "the name": "name",
}
"""Words in errors about an attribute, with the field that they are about."""

_ABOUT = (
    (r"^records: (\w+)", "records"),
    (r"^analysis: (\w+)", "analysis"),
    (r"(?:no )?parameter '([\w-]+)'", ""),
    (r"at `\$\.([\w-]+)", ""),
    (r"no (variant) ", ""),
    (r"(?:^|made: )(quorum|max_records|title|closes|patience|weights)\b", ""),
)
"""Patterns of errors that name a field, each with the field's table, if any."""


class Key(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A key that respondents may hold, with the values that it can have, from -1 to 1."""

    name: str
    values: tuple[float, ...]


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """Questions of a plan: attributes, or keys with values, their texts and the closing.

    Args:
        title: the survey's title.
        attributes: the questions.
        keys: keys to ask about instead.
        texts: wordings, by language.
        closes: end of the survey: a date and time with an offset, or text.
    """

    title: str
    attributes: tuple[Question, ...] = ()
    keys: tuple[Key, ...] = ()
    texts: tuple[Texts, ...] = ()
    closes: Any = ""

    def survey(self) -> Survey:
        """The survey.

        Raises:
            UsageError: neither attributes nor keys, or both.
            SurveyError: they are not those of a survey.
        """
        if bool(self.attributes) == bool(self.keys):
            raise UsageError("expected either [[attributes]] or [[keys]]")
        moment = self.closes
        closes = moment_text(moment) if isinstance(moment, datetime.datetime) else str(moment)
        if self.attributes:
            attributes = tuple(each.attribute() for each in self.attributes)
            return Survey(self.title, attributes, self.texts, closes)
        names = [key.name for key in self.keys]
        asked = key_survey(self.title, names, [key.values for key in self.keys])
        return Survey(asked.title, asked.attributes, self.texts, closes)


class _Planned(Asked, frozen=True, kw_only=True):
    """Fields of every plan; all other keys are parameters of the variant.

    Args:
        variant: the variant's name, or ``FILE.py:Class``.
        analysis: the announced analysis.
        records: format of tables of records.
    """

    variant: str = RRIndependent.name
    analysis: Analysis | None = None
    records: Format | None = None


class Plan(NamedTuple):
    """A plan that has been read.

    Args:
        variant: with its survey and parameters.
        analysis: the announced analysis, if there is one.
        coding: reads tables of records.
        pin: pin of the variant's file; None for a built-in variant.
        own: the file and its class, ``PATH.py:Class``.
    """

    variant: Variant
    analysis: Analysis | None
    coding: Coding
    pin: Pin | None = None
    own: str | None = None

    def records(self, source: Source) -> Records:
        """The records in a table, coded by the plan.

        Args:
            source: the path of a CSV or Parquet file, or a table in memory, of pandas, polars or
                Arrow, or a mapping from names to columns.

        Raises:
            UsageError: as ``Coding.records``.
        """
        return self.coding.records(source)

    def records_by_stratum(self, source: Source) -> tuple[Records, list[str] | None]:
        """The records in a table, and the stratum of each; None where the plan has no weights.

        Args:
            source: as in ``records``.

        Raises:
            UsageError: as ``Coding.records``; no column of strata is named, or one that is asked;
                or a stratum without a weight.
        """
        column, weights = self.coding.format.stratum, self.variant.weights
        if weights is UNSET:
            return self.records(source), None
        if column is None:
            raise UsageError(
                "weights: expected stratum in [records] too, the column with each stratum"
            )
        if tidied(column) in {tidied(each.column or each.name) for each in self.coding.questions}:
            raise UsageError(
                f"records: stratum {column!r} is asked by the survey; a weight follows from the "
                "frame, never from an answer"
            )
        records, cells = self.coding.records_beside(source, column)
        strata = [tidied(cell) for cell in cells]
        try:
            check_strata(strata, weights)
        except SurveyError as error:
            raise UsageError(f"{source}: column {column!r}, {error}") from error
        return records, strata


class Questions(NamedTuple):
    """Questions of a plan, by whatever variant.

    Args:
        survey: the questions.
        coding: reads tables of records.
        analysis: the announced analysis, if there is one.
        variant: the name that the plan has for it, or ``FILE.py:Class``.
        parameters: the plan's other keys: the parameters of its variant, unchecked.
    """

    survey: Survey
    coding: Coding
    analysis: Analysis | None
    variant: str
    parameters: dict[str, Any]

    def check_unweighted(self, command: str) -> None:
        """Refuse weights where a command takes respondents to count alike.

        Raises:
            UsageError: the plan has weights.
        """
        if "weights" in self.parameters:
            raise UsageError(
                f"weights: {command} takes respondents to count alike; expected a plan without "
                "[weights]"
            )


def read_questions(path: Path | str) -> Questions:
    """Read the questions of a plan, which may lack a variant.

    Raises:
        UsageError: the file is not valid TOML, or not a plan; names the field.
        CannotFinishError: it takes more than is given to a file of its length.
        OSError: it cannot be read.
    """
    path = Path(path)
    content = read_toml(path, dict[str, Any])
    try:
        common = {name: content.pop(name) for name in _Planned.__struct_fields__ if name in content}
        _check_names(path, common, content)
        planned = msgspec.convert(common, _Planned)
    except msgspec.ValidationError as error:
        raise misplaced(path, error, _Planned) from error
    with _naming_file(path):
        survey = _survey(path, planned)
        _set_patience(content, survey)
        coding = Coding.of(survey, planned.attributes, planned.records)
        if planned.analysis is not None:
            planned.analysis.check(survey)
    return Questions(survey, coding, planned.analysis, planned.variant, content)


def _check_names(path: Path, common: Mapping[str, object], further: Mapping[str, object]) -> None:
    """Refuse names that look like misspelt fields.

    Raises:
        UsageError: a name looks misspelt.
    """
    lacking: dict[str, type] = {"records": dict, "analysis": dict}
    if "title" not in common:
        lacking["title"] = str
    if "attributes" not in common and "keys" not in common:
        lacking |= {"attributes": list, "keys": list}
    several = {"attributes": list, "keys": list}
    for name, value in further.items():
        likely = [each for each in lacking if isinstance(value, lacking[each])]
        likely = [each for each in likely if each not in common]
        likely += [each for each in several if each in common and isinstance(value, several[each])]
        hint = did_you_mean(name, likely)
        if hint:
            raise UsageError(f"{path}: {where(path, name)}no {name!r} in a plan{hint}")


def read_plan(path: Path | str) -> Plan:
    """Read a plan.

    A variant ``FILE.py:Class`` is loaded from the plan's folder, and run.

    Raises:
        UsageError: the file is not valid TOML, or not a plan; names the field.
        CannotFinishError: it takes more than is given to a file of its length.
        OSError: it cannot be read.
    """
    path = Path(path)
    asked = read_questions(path)
    cls, pin, own = None, None, None
    if split_path(asked.variant)[0] is not None:
        own = str(path.parent / asked.variant)
        cls, pin = own_variant(own)
    with _naming_file(path):
        cls = cls or built_in_variant(asked.variant)
        variant = make_variant(cls, asked.survey, asked.parameters, strict=True)
    return Plan(variant, asked.analysis, asked.coding, pin, own)


@contextmanager
def _naming_file(path: Path) -> Generator[None]:
    """Name the file in errors raised in the block.

    Raises:
        UsageError: instead of a ValueError of the block, too.
    """
    try:
        with parameters_checked():
            yield
    except UsageError as error:
        raise UsageError(f"{path}: {_where(path, str(error))}{error}") from error


def _survey(path: Path, planned: Asked) -> Survey:
    names = set[str]()
    for number, question in enumerate(planned.attributes):
        try:
            name = question.attribute().name
            if name in names:
                raise SurveyError("the name is there twice; expected another", column=name)
            names.add(name)
        except SurveyError as error:
            said = str(error).removeprefix(f"column {error.column!r}: ")
            field = next((_FIELDS[word] for word in _FIELDS if word in said), None)
            place = where(path, "attributes", number, field)
            raise UsageError(f"{place}attribute {question.name!r}: {said}") from error
    return planned.survey()


def _set_patience(parameters: dict[str, Any], survey: Survey) -> None:
    """Set the aggregator's patience to the survey's closing time, if it has one.

    Raises:
        UsageError: the plan has a patience, too.
    """
    if not survey.closes:
        return
    if "patience" in parameters:
        raise UsageError("patience: expected none in a plan with closes, which is how long to wait")
    parameters["patience"] = None


def _where(path: Path, said: str) -> str:
    """Line of the plan that an error refers to, as far as its text tells; or empty."""
    if said.startswith("line "):
        return ""
    for pattern, table in _ABOUT:
        found = re.search(pattern, said)
        if found is not None:
            return where(path, table, 0, found[1]) if table else where(path, found[1])
    return ""
