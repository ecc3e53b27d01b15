"""Numbers as people write them on the command line."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import click

_MOST_EPSILON = 100.0
_NUMBER = re.compile(r"[0-9]*[.,]?[0-9]+")


def extra_hint(error: click.ClickException, arguments: Sequence[str]) -> str:
    """End of the error about a surplus number after an option's value."""
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


def _hint(text: str, *, whole: bool = False) -> str:
    """End of the error about a malformed number: a hint, or else a full stop."""
    from scenarios.wording.numbers import number_hint

    return number_hint(text, whole=whole) or "."


class Amount(click.FloatRange):
    """A finite number within bounds."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if math.isnan(number):
            self.fail(f"{value!r} is not a number{_hint(str(value))}", param, ctx)
        if math.isinf(number):
            self.fail(f"{value!r}: expected a finite number.", param, ctx)
        if self.max == 1 < number <= 100:
            meant = f"did you mean {number / 100:g}?"
            self.fail(
                f"{value!r} is not in the range {self._describe_range()}; {meant}", param, ctx
            )
        return float(super().convert(value, param, ctx))


class Whole(click.IntRange):
    """A whole number within bounds."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            number = int(value)
        except ValueError:
            hint = _hint(str(value), whole=True)
            self.fail(f"{value!r} is not a whole number{hint}", param, ctx)
        return int(super().convert(number, param, ctx))


class Count(click.ParamType):  # type: ignore[type-arg]  # takes none before click 8.4
    """Number, written as 1000000, 1_000_000 or 1e6.

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
            hint = _hint(str(value), whole=True)
            expected = f"expected an integer from 1 to {self._most:,}"
            self.fail(f"{value!r}: {expected}{hint}", param, ctx)
        return int(exact)


def _epsilons_hint(text: str) -> str:
    """End of the error about a list of epsilons: the same list with commas, or a number's hint."""
    several = re.split(r"[;\s]+", text.strip())
    if len(several) > 1 and all(map(_NUMBER.fullmatch, several)):
        return f"; did you mean {','.join(several)}?"
    return _hint(text)


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
                    f"commas between them{_epsilons_hint(str(value))}",
                    param,
                    ctx,
                )
            if epsilon not in found:
                found.append(epsilon)
        return tuple(found)
