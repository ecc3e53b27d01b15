"""A variant from its parameters, as a person writes them: in a plan, or after ``--set``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from protocol.errors import UsageError
from protocol.session.variant import Variant, parameters_of
from protocol.surveys.survey import Survey
from scenarios.running.parameters import parameters_checked
from scenarios.wording.hints import parameter_hint

MAKERS: Mapping[str, str] = {"p": "with_keep", "epsilon": "with_epsilon"}
"""Parameters that a constructor turns into randomizers, if the class has it and no such field."""


def make_variant(
    cls: type[Variant], survey: Survey, given: Mapping[str, Any], *, strict: bool, hint: str = ""
) -> Variant:
    """A variant with these parameters.

    Args:
        cls: the variant's class.
        survey: what is asked.
        given: by name. ``p`` and ``epsilon`` go to ``with_keep`` and ``with_epsilon`` if the class
            has these and no such field.
        strict: whether a text is refused where a number is expected.
        hint: the end of the error if it cannot be made, after all parameters are known.

    Raises:
        UsageError: a parameter is unknown, missing, or out of range; it says which.
    """
    fields = {info.name for info in msgspec.structs.fields(cls)} - {"survey"}
    shorts = shorthands(cls)
    named = [name for name in shorts if name in given]
    if len(named) > 1:
        raise UsageError(f"variant {cls.name!r}: expected p or epsilon, not both")
    for name in given:
        if name not in fields and name not in shorts:
            known = sorted({*fields, *shorts})
            raise UsageError(
                f"variant {cls.name!r} has no parameter {name!r}{parameter_hint(name, known)}"
            )
    values = dict(given)
    with parameters_checked():
        if named:
            maker = getattr(cls, MAKERS[named[0]])
            made = maker(survey, _number(named[0], values.pop(named[0]), strict=strict))
            values = {**parameters_of(made), **values}
        elif shorts and not is_enough(cls, values):
            raise UsageError(f"variant {cls.name!r}: expected {' or '.join(shorts)}{hint}")
        try:
            described = {**values, "survey": msgspec.to_builtins(survey)}
            return msgspec.convert(described, cls, strict=strict)
        except msgspec.ValidationError as error:
            raise UsageError(f"variant {cls.name!r} cannot be made: {error}{hint}") from error


def shorthands(cls: type[Variant]) -> list[str]:
    """Which of ``p`` and ``epsilon`` this variant's constructors take."""
    fields = cls.__struct_fields__
    return [name for name, maker in MAKERS.items() if name not in fields and hasattr(cls, maker)]


def is_enough(cls: type[Variant], given: Mapping[str, Any]) -> bool:
    """Whether every field without a default is given."""
    required = {info.name for info in msgspec.structs.fields(cls) if info.required}
    return given.keys() >= required - {"survey"}


def _number(name: str, value: Any, *, strict: bool) -> float:
    try:
        return msgspec.convert(value, float, strict=strict)
    except msgspec.ValidationError:
        raise UsageError(f"parameter {name!r} = {value!r}: expected a number") from None
