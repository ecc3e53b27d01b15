"""Parameters of scenarios, from the fields of variants and the arguments of functions.

A parameter is declared once, where it is used: name, type and default come from a field or an
argument, and help from the first sentence on it in the docstring.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, NamedTuple, TypeVar, cast, get_args, get_type_hints

import msgspec
from msgspec import Meta

from protocol.errors import UsageError
from protocol.estimators.projection import Projection
from protocol.session.variant import Variant

P = TypeVar("P", bound=msgspec.Struct)
T = TypeVar("T")

Positive = Annotated[int, Meta(ge=1, le=10_000_000)]
"""Positive number of things."""

Share = Annotated[float, Meta(ge=0, le=1)]
"""Share, from none to all."""

Part = Annotated[float, Meta(ge=0, lt=1)]
"""Share below all."""


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of most scenarios.

    Args:
        parties: over how many the records are spread; one each.
        drop: share of parties that vanish.
        project: of the tables reported: none, clip, simplex or em.
    """

    parties: Positive | None = None
    drop: Part = 0.0
    project: Projection = "none"


class _Parameter(NamedTuple):
    type: Any
    default: Any
    help: str


def settable(
    own: type[P],
    *sources: Callable[..., object],
    names: Sequence[str] = (),
    renamed: Mapping[str, str] | None = None,
    **defaults: object,
) -> type[P]:
    """Parameters of a scenario: its own, and those of variants and functions.

    Args:
        own: a struct of the scenario's own parameters; one of the same name in a source is hidden.
        sources: classes of variants or other structs, and functions with named arguments.
        names: which parameters there are, and in which order; all, the last source's first, if none
            is named.
        renamed: what a parameter is called outside, where that is not its name.
        defaults: other defaults than the sources', or the missing ones.

    Returns:
        A struct with all fields of ``own`` that are named, and the others.

    Raises:
        TypeError: an unknown name, or a parameter without a default.
    """
    known: dict[str, _Parameter] = {}
    every: tuple[Callable[..., object], ...] = (own, *sources)
    for source in every:
        known = _parameters(source) | known
    fields = []
    for name in names or known:
        if name not in known:
            raise TypeError(f"parameter {name!r}: expected one of {', '.join(known)}")
        default = defaults.get(name, known[name].default)
        if default is msgspec.NODEFAULT:
            raise TypeError(f"parameter {name!r} has no default")
        outside = (renamed or {}).get(name, name.replace("_", "-"))
        annotation = known[name].type
        if known[name].help and not description(annotation):
            annotation = Annotated[annotation, Meta(description=known[name].help)]
        fields.append((name, annotation, msgspec.field(default=default, name=outside)))
    parameters = msgspec.defstruct(
        "Parameters", fields, frozen=True, kw_only=True, forbid_unknown_fields=True
    )
    return cast("type[P]", parameters)


def made(source: Callable[..., T], parameters: msgspec.Struct, **given: object) -> T:
    """A variant, or another value, from the parameters that its maker takes.

    Args:
        source: as for ``settable``.
        parameters: of the scenario.
        given: further arguments, which win over parameters.

    Raises:
        UsageError: in place of a ValueError.
    """
    fields = parameters.__struct_fields__
    taken = {name: getattr(parameters, name) for name in _parameters(source) if name in fields}
    with parameters_checked():
        return source(**{**taken, **given})


def wanted_keep(p: float | None, epsilon: float | None, *, default: float) -> float | None:
    """The keep probability that is asked for, or None where an epsilon is.

    Raises:
        UsageError: both are set.
    """
    if p is not None and epsilon is not None:
        raise UsageError("set p or epsilon, not both")
    return default if p is None and epsilon is None else p


@contextmanager
def parameters_checked() -> Generator[None]:
    """Turn errors of a variant's mathematics into usage errors.

    Raises:
        UsageError: instead of a ValueError of the block.
    """
    try:
        yield
    except ValueError as error:
        raise UsageError(str(error)) from error


def description(annotation: object) -> str:
    """Description in an annotation's ``msgspec.Meta``, or an empty text."""
    metas = [m for m in getattr(annotation, "__metadata__", ()) if isinstance(m, Meta)]
    return next((meta.description for meta in metas if meta.description), "")


def choices(annotation: object) -> str:
    """The texts that an annotation allows, with ``or`` between them; empty if it allows others."""
    parts = [annotation, *get_args(annotation)]
    texts = [text for part in parts for text in get_args(part) if isinstance(text, str)]
    return " or ".join(dict.fromkeys(texts))


def _parameters(source: Callable[..., object]) -> dict[str, _Parameter]:
    """Keyword arguments, without the survey and the fields that all variants share."""
    hints = get_type_hints(source, include_extras=True)
    helps = argument_helps(source)
    hidden = {"context", *Variant.__struct_fields__}
    return {
        name: _Parameter(
            hints[name],
            msgspec.NODEFAULT if given.default is given.empty else given.default,
            helps.get(name, ""),
        )
        for name, given in inspect.signature(source).parameters.items()
        if name not in hidden
    }


def argument_helps(source: Callable[..., object]) -> dict[str, str]:
    """The first sentence on each argument in the docstring of a function, or a class and bases."""
    helps = {}
    bases: Sequence[object] = inspect.getmro(source) if isinstance(source, type) else (source,)
    for part in reversed(bases):
        _, _, arguments = (inspect.cleandoc(part.__doc__ or "")).partition("Args:\n")
        arguments = re.split(r"\n(?=\S)", arguments)[0]
        for name, text in re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", arguments, re.MULTILINE):
            sentence = re.split(r"\.(?:\s|$)", " ".join(text.split()))[0]
            helps[name] = sentence.replace("``", "")
    return helps
