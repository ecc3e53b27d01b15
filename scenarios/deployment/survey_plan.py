"""The plan of a real survey, a TOML file: what is asked, by which variant, on what terms."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from protocol.estimators.analysis import Analysis
from protocol.session.variant import Variant
from protocol.surveys.survey import Attribute, Survey
from protocol.variants import RRIndependent
from protocol.variants.keyvalue.records import key_survey
from scenarios.deployment.own_variant import Pin, own_variant
from scenarios.errors import UsageError
from scenarios.files.toml import read_toml
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
    attributes: tuple[Attribute, ...] = ()
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
            return Survey(self.title, self.attributes)
        names = [key.name for key in self.keys]
        return key_survey(self.title, names, [key.values for key in self.keys])


class _Planned(Asked, frozen=True, kw_only=True):
    """What every plan has; whatever else is in it is a parameter of its variant."""

    variant: str = RRIndependent.name
    analysis: Analysis | None = None


class Plan(NamedTuple):
    """A plan that has been read.

    Args:
        variant: with its survey and parameters.
        analysis: what is announced of it; None if nothing is.
        pin: what pins the variant's file; None for a built-in variant.
        own: that file and the class in it, ``PATH.py:Class``.
    """

    variant: Variant
    analysis: Analysis | None
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
        raise UsageError(f"{path}: {error}") from error
    cls, pin, own = None, None, None
    if split_path(planned.variant)[0] is not None:
        own = str(path.parent / planned.variant)
        cls, pin = own_variant(own)
    try:
        with parameters_checked():
            survey = planned.survey()
            if planned.analysis is not None:
                planned.analysis.check(survey)
            cls = cls or built_in_variant(planned.variant)
            variant = make_variant(cls, survey, content, strict=True)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error
    return Plan(variant, planned.analysis, pin, own)
