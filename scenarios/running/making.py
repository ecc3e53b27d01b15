"""A variant from its parameters, as a person writes them: in a plan, or after ``--set``."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, get_type_hints

import msgspec

from protocol.errors import SurveyError, UsageError
from protocol.session.variant import Variant, plain_parameters
from protocol.surveys.survey import Survey
from protocol.wire.undecoded import Undecoded
from scenarios.running.parameters import choices, parameters_checked
from scenarios.wording.hints import parameter_hint
from scenarios.wording.numbers import number_hint

MAKERS: Mapping[str, str] = {"noise": "with_noise", "p": "with_keep", "epsilon": "with_epsilon"}
"""Parameters that a constructor turns into others, if the class has it and no such field."""

ANSWERED_BY_PAGES = (
    *("rr-independent", "rr-joint", "rr-ind-joint", "spl", "smp", "rs-fd", "numeric-mean"),
    *("inp-rr", "inp-ps", "inp-ht", "marg-rr", "marg-ps", "marg-ht", "privkv"),
)
"""The variants that a page can answer."""


def make_variant(
    cls: type[Variant], survey: Survey, given: Mapping[str, Any], *, strict: bool, hint: str = ""
) -> Variant:
    """A variant with these parameters.

    Args:
        given: parameters by name. Shorthands in ``MAKERS``, if the class has such a constructor and
            no such field, go to the constructor, together with its other keyword arguments.
        strict: whether a text is refused where a number is expected.
        hint: the end of the error if it cannot be made, after all parameters are known.

    Raises:
        UsageError: a parameter is unknown, missing, or out of range.
    """
    fields = {info.name for info in msgspec.structs.fields(cls)} - {"survey"}
    shorts = shorthands(cls)
    named = [name for name in shorts if name in given]
    if len(named) > 1:
        raise UsageError(f"variant {cls.name!r}: expected {' or '.join(named)}, not both")
    makers = [getattr(cls, MAKERS[name]) for name in named or shorts]
    options = {name for maker in makers for name in _options(maker)}
    for name in given:
        if name not in fields and name not in shorts and name not in options:
            known = sorted({*fields, *shorts, *options})
            raise UsageError(
                f"variant {cls.name!r} has no parameter {name!r}{parameter_hint(name, known)}"
            )
        if not named and name in options and name not in fields:
            raise UsageError(f"parameter {name!r}: expected {' or '.join(shorts)} besides")
    values = dict(given)
    with parameters_checked():
        if named:
            [maker], [short] = makers, named
            types = {short: _types(maker).get(short, float), **_options(maker)}
            taken = {name: values.pop(name) for name in types if name in values}
            converted = {
                name: _convert(name, value, types[name], strict=strict)
                for name, value in taken.items()
            }
            _check_epsilon(short, converted[short])
            try:
                values = {**plain_parameters(maker(survey, **converted)), **values}
            except ValueError as error:
                if isinstance(error, SurveyError):
                    raise
                raise UsageError(f"parameter {short!r} = {given[short]!r}: {error}") from error
        elif shorts and not is_enough(cls, values):
            raise UsageError(f"variant {cls.name!r}: expected {' or '.join(shorts)}{hint}")
        try:
            described = {**values, "survey": msgspec.to_builtins(survey)}
            return msgspec.convert(described, cls, strict=strict)
        except msgspec.ValidationError as error:
            why, name = Undecoded.of(error)
            if name not in given:
                raise UsageError(f"variant {cls.name!r} cannot be made: {why}{hint}") from error
            raise UsageError(f"parameter {name!r} = {given[name]!r}: {why}") from error


def _check_epsilon(name: str, value: Any) -> None:
    """Refuse a malformed epsilon before it is split among attributes.

    Raises:
        UsageError: the epsilon is malformed.
    """
    if name == "epsilon" and isinstance(value, int | float) and not 0 < value < math.inf:
        raise UsageError(f"parameter {name!r} = {value!r}: expected a positive finite number")


def shorthands(cls: type[Variant]) -> list[str]:
    """Shorthands among ``p`` and ``epsilon`` that this variant's constructors take."""
    fields = cls.__struct_fields__
    return [name for name, maker in MAKERS.items() if name not in fields and hasattr(cls, maker)]


def is_enough(cls: type[Variant], given: Mapping[str, Any]) -> bool:
    """Check whether every field without a default is given."""
    required = {info.name for info in msgspec.structs.fields(cls) if info.required}
    return given.keys() >= required - {"survey"}


def _types(maker: Callable[..., Variant]) -> dict[str, Any]:
    hints: dict[str, Any] = {}
    with suppress(NameError):  # A person's own may name what is imported for type checkers alone.
        hints = get_type_hints(maker)
    return {name: hints.get(name, Any) for name in inspect.signature(maker).parameters}


def _options(maker: Callable[..., Variant]) -> dict[str, Any]:
    """Types of keyword-only arguments, by name."""
    given = inspect.signature(maker).parameters.values()
    named = {each.name for each in given if each.kind is inspect.Parameter.KEYWORD_ONLY}
    return {name: kind for name, kind in _types(maker).items() if name in named}


def _convert(name: str, value: Any, kind: Any, *, strict: bool) -> Any:
    try:
        return msgspec.convert(value, kind, strict=strict)
    except msgspec.ValidationError as error:
        allowed = choices(kind)
        why = f"expected {allowed}" if allowed else Undecoded.of(error).why
        hint = number_hint(str(value), whole="whole number" in why)
        raise UsageError(f"parameter {name!r} = {value!r}: {why}{hint}") from None
