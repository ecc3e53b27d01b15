"""Numbers as people write them on the command line."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import click

_MOST_EPSILON = 100.0
_NUMBER = re.compile(r"[0-9]*[.,]?[0-9]+")


def _dotted(text: str) -> str:
    """The end of an error about a number that may have a comma for its point."""
    if re.fullmatch(r"\s*\d*,\d+\s*", text) is None:
        return ""
    return f"; did you mean {text.strip().replace(',', '.')}?"


def extra_hint(error: click.ClickException, arguments: Sequence[str]) -> str:
    """The end of an error about a number that stands after an option's value, beside it."""
    given = error.ctx if isinstance(error, click.UsageError) else None
    if given is None or "extra argument" not in error.message:
        return ""
    for option in given.command.params:
        for name in option.opts:
            place = arguments.index(name) if name in arguments else len(arguments)
            pair = arguments[place + 1 : place + 3]
            if len(pair) == 2 and all(map(_NUMBER.fullmatch, pair)):
                both = isinstance(option.type, Epsilons)
                meant = f"did you mean {name} {','.join(pair)}?" if both else "it takes one number"
                return f": {name} {' '.join(pair)}; {meant}"
    return ""


class Amount(click.FloatRange):
    """A number within bounds; NaN is refused, though it is beyond no bound."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        hint = _dotted(str(value))
        if hint:
            self.fail(f"{value!r} is not a number{hint}", param, ctx)
        number: float = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number


class Count(click.ParamType):  # type: ignore[type-arg]  # takes none before click 8.4
    """How many, written as 1000000, 1_000_000 or 1e6.

    Args:
        most: the largest that is taken.
    """

    name = "number"

    def __init__(self, most: int) -> None:
        self._most = most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            exact = float(value) if "e" in str(value).lower() else int(value)
        except (OverflowError, ValueError):
            exact = 0.5
        if not math.isfinite(exact) or exact != int(exact) or not 1 <= exact <= self._most:
            self.fail(f"{value!r}: expected an integer from 1 to {self._most:,}.", param, ctx)
        return int(exact)


class Epsilons(click.ParamType):  # type: ignore[type-arg]  # takes none before click 8.4
    """Several epsilons, with commas between them."""

    name = "E,E,..."

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, ...]:
        found: list[float] = []
        for text in str(value).split(","):
            try:
                epsilon = float(text)
            except ValueError:
                epsilon = math.nan
            if not 0 < epsilon <= _MOST_EPSILON:
                self.fail(
                    f"{text.strip()!r}: expected numbers above 0 and up to {_MOST_EPSILON:g}, with "
                    f"commas between them{_dotted(str(value)) or '.'}",
                    param,
                    ctx,
                )
            if epsilon not in found:
                found.append(epsilon)
        return tuple(found)
