"""What accountants find, as lines for a terminal and as values for JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from rich.text import Text

from protocol.accounting.composition import Composition
from protocol.accounting.pld import Opinion
from protocol.accounting.shuffling import Amplification

Figure = Composition | Amplification


def seconded(exact: Composition, second: Opinion) -> Composition:
    """What an exact figure is of, as the second opinion has it, which brackets the true one."""
    least = "infinite" if math.isinf(second.lower) else f"at least {second.lower:.8g}"
    cells = f", with losses in cells of {second.interval:.2g}" if second.interval else ""
    method = f"second opinion, by dp-accounting: {least}{cells}"
    return msgspec.structs.replace(exact, epsilon=second.epsilon, method=method, tight=False)


def figure_values(figure: Figure) -> dict[str, Any]:
    """A figure, and what it rests on."""
    names = "epsilon", "delta", "relation", "assumption", "method"
    return {name: getattr(figure, name) for name in names}


def figures_report(figures: Mapping[str, Figure | str]) -> Iterator[Text]:
    """Each figure by its name, with its delta, neighbours and assumption; or why there is none."""
    for name, figure in figures.items():
        if isinstance(figure, str):
            yield Text(f"{name}: {figure}", style="bold")
            continue
        yield Text(f"{name}: epsilon {figure.epsilon:.8g} at delta {figure.delta:g}", style="bold")
        yield Text(f"  between  {figure.relation}", style="dim")
        yield Text(f"  assumes  {figure.assumption}", style="dim")
        yield Text(f"  method   {figure.method}", style="dim")
