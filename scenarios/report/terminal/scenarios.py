"""Scenarios by family, and the parameters of one, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table

from scenarios.running.names import REPRODUCTIONS, SCENARIOS, SURVEYS, summaries_in
from scenarios.wording.plain import line, plain


def families_report(*, parameters: bool) -> Iterator[RenderableType]:
    """The scenarios, then the reproductions, by family: a line each, or with their parameters."""
    widest = max(map(len, SCENARIOS))
    for title, families in (("Scenarios", SURVEYS), ("Reproductions of papers", REPRODUCTIONS)):
        yield plain(title, style="bold underline")
        for family, about in families.items():
            yield line(about, style="dim")
            for name, summary in summaries_in(family).items():
                if parameters:
                    yield named_table(name)
                else:
                    yield plain(f"  {name:<{widest}}  {summary}")
        yield plain("")
    if not parameters:
        yield plain("sottovoce list NAME lists its parameters, --parameters those of all.")


def named_table(name: str) -> RenderableType:
    """The name, summary and parameters of a scenario.

    Args:
        name: name of the scenario, or ``path.py`` or ``path.py:name``.

    Raises:
        UsageError: there is no such scenario.
    """
    # Imported late: it imports the scenario, and all that a scenario needs.
    from scenarios.running.loading import find_scenario

    scenario = find_scenario(name)
    table = Table(box=None, padding=(0, 2, 0, 4), show_header=False)
    for name, default, description in scenario.describe():
        table.add_row(plain(name), plain(default), plain(description), style="dim")
    summary = Padding(plain(scenario.summary), (0, 0, 0, 2))
    return Group(plain(scenario.name, style="bold"), summary, table)
