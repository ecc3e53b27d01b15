"""Numbers that the papers print, as data: a TOML file per paper, a table per experiment."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import msgspec


class Printed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The printed figures of an experiment.

    Args:
        where: in the paper they are: the item and its section, for our copies have no pages.
        runs: of how many runs each is; None if it is exact. Where the paper does not say it, 1 is
            taken, so that nothing is said to differ that might not.
        by: the settings that tell rows apart.
        figures: the names of the figures in a row; one without a name is the only one.
        rows: the values of the settings, then the figures, as the paper has them; ``nan`` for what
            it does not print.
    """

    where: str
    runs: int | None = None
    by: tuple[str, ...] = ()
    figures: tuple[str, ...] = ("",)
    rows: tuple[tuple[Any, ...], ...]

    def of(self, settings: Mapping[str, Any]) -> dict[str, float]:
        """The figures of a row, those that are printed."""
        wanted = [settings.get(name) for name in self.by]
        for row in self.rows:
            key, values = list(row[: len(self.by)]), row[len(self.by) :]
            if key == wanted:
                pairs = zip(self.figures, values, strict=True)
                return {name: float(value) for name, value in pairs if value == value}
        return {}


@functools.cache
def printed() -> Mapping[str, Printed]:
    """All that is printed, by experiment."""
    found: dict[str, Printed] = {}
    for file in files(__name__).iterdir():
        if file.name.endswith(".toml"):
            found |= msgspec.toml.decode(file.read_bytes(), type=dict[str, Printed])
    return found


def printed_figures(name: str) -> Printed | None:
    """The printed figures of an experiment, if there are any."""
    return printed().get(name)
