"""The plan of a real survey, a TOML file: what is asked, by which variant, on what terms."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from protocol.errors import SurveyError
from protocol.estimators.analysis import Analysis
from protocol.session.variant import Variant
from protocol.surveys.survey import Survey
from protocol.variants import RRIndependent
from protocol.variants.keyvalue.records import key_survey
from scenarios.deployment.own_variant import Pin, own_variant
from scenarios.errors import UsageError
from scenarios.files.toml import line_of, misplaced, read_toml
from scenarios.own_data.coding import Coding, Question
from scenarios.own_data.sheets import Format
from scenarios.running.loading import built_in_variant, split_path
from scenarios.running.making import make_variant
from scenarios.running.parameters import parameters_checked


class Key(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A key that respondents may hold, with the values that it can have, from -1 to 1."""

    name: str
    values: tuple[float, ...]


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan asks: attributes, or keys with values."""

    title: str
    attributes: tuple[Question, ...] = ()
    keys: tuple[Key, ...] = ()

    def survey(self) -> Survey:
        """The survey.

        Raises:
            UsageError: neither attributes nor keys, or both.
            SurveyError: they are not those of a survey.
        """
        if bool(self.attributes) == bool(self.keys):
            raise UsageError("expected either [[attributes]] or [[keys]]")
        if self.attributes:
            return Survey(self.title, tuple(each.attribute() for each in self.attributes))
        names = [key.name for key in self.keys]
        return key_survey(self.title, names, [key.values for key in self.keys])


class _Planned(Asked, frozen=True, kw_only=True):
    """What every plan has; whatever else is in it is a parameter of its variant.

    Args:
        variant: its name, or ``FILE.py:Class``.
        analysis: what is announced of it.
        records: how tables of records are written.
    """

    variant: str = RRIndependent.name
    analysis: Analysis | None = None
    records: Format | None = None


class Plan(NamedTuple):
    """A plan that has been read.

    Args:
        variant: with its survey and parameters.
        analysis: what is announced of it; None if nothing is.
        coding: how tables of records are read.
        pin: what pins the variant's file; None for a built-in variant.
        own: that file and the class in it, ``PATH.py:Class``.
    """

    variant: Variant
    analysis: Analysis | None
    coding: Coding
    pin: Pin | None = None
    own: str | None = None


def read_plan(path: Path | str) -> Plan:
    """Read a plan.

    A variant ``FILE.py:Class`` is looked for beside the plan, and run.

    Raises:
        UsageError: the file is not valid TOML, or not a plan; names the field.
        CannotFinishError: it takes more than is given to a file of its length.
        OSError: it cannot be read.
    """
    path = Path(path)
    content = read_toml(path, dict[str, Any])
    try:
        common = {name: content.pop(name) for name in _Planned.__struct_fields__ if name in content}
        planned = msgspec.convert(common, _Planned)
    except msgspec.ValidationError as error:
        raise misplaced(path, error) from error
    cls, pin, own = None, None, None
    if split_path(planned.variant)[0] is not None:
        own = str(path.parent / planned.variant)
        cls, pin = own_variant(own)
    try:
        with parameters_checked():
            survey = _survey(path, planned)
            coding = Coding.of(survey, planned.attributes, planned.records)
            if planned.analysis is not None:
                planned.analysis.check(survey)
            cls = cls or built_in_variant(planned.variant)
            variant = make_variant(cls, survey, content, strict=True)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error
    return Plan(variant, planned.analysis, coding, pin, own)


def _survey(path: Path, planned: Asked) -> Survey:
    """What a plan asks.

    Raises:
        UsageError: an attribute is none, with the line on which it begins.
        SurveyError: as ``Asked.survey``.
    """
    for number, question in enumerate(planned.attributes):
        try:
            question.attribute()
        except SurveyError as error:
            line = line_of(path, "attributes", number, None)
            raise UsageError(f"line {line}: {error}" if line else str(error)) from error
    return planned.survey()
