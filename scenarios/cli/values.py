"""Options as values: a command gets one frozen value in place of many single options."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar, cast, dataclass_transform

import click

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


def option(*flags: str, **settings: Any) -> Any:
    """A field that an option gives, declared as by ``click.option``, under the field's name."""
    return field(metadata={"by": lambda name: click.option(*flags, name, **settings)})


def shared(by: Callable[[F], F]) -> Any:
    """A field set by a shared argument, a shared option, or ``gathers``.

    Args:
        by: the decorator, by which a command gets something of the field's name.
    """
    return field(metadata={"by": lambda name: by})


def part(cls: type) -> Any:
    """A field with a class of options as its value."""
    return field(metadata={"by": lambda name: takes(cls, name)})


@dataclass_transform(
    frozen_default=True, kw_only_default=True, field_specifiers=(option, shared, part)
)
def frozen_options(cls: type[T]) -> type[T]:
    """Make a class a frozen, slotted value, with fields by ``option``, ``shared``, ``part``."""
    return dataclass(frozen=True, slots=True, kw_only=True)(cls)


def takes(cls: type, name: str = "options") -> Callable[[F], F]:
    """Give a command all options that such a class has, in the order of its fields, as one value.

    Args:
        cls: the class.
        name: name of the value as passed to the command.
    """
    return gathers(name, cls, *(each.metadata["by"](each.name) for each in fields(cls)))


def gathers(name: str, make: Callable[..., Any], *options: Callable[[F], F]) -> Callable[[F], F]:
    """Give a command several options as one value.

    Args:
        name: name of the value as passed to the command.
        make: makes the value from the options, passed by the names of its parameters.
        options: decorators, such as ``click.option``.
    """
    names = tuple(inspect.signature(make).parameters)

    def with_options(command: F) -> F:
        @functools.wraps(command)
        def gathered(*args: Any, **given: Any) -> Any:
            own = {each: given.pop(each) for each in names}
            return command(*args, **{name: make(**own)}, **given)

        made = cast(F, gathered)
        for option in reversed(options):
            made = option(made)
        return made

    return with_options
