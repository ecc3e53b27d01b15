"""Statement of the figures of accountants."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from protocol.accounting.composition import Composition
from protocol.accounting.pld import Opinion
from protocol.accounting.shuffling import Amplification
from scenarios.statement.statement import Section, Statement

Figure: TypeAlias = Composition | Amplification


def state_figures(
    of: Sequence[str], figures: Mapping[str, Figure | str], values: Mapping[str, Any]
) -> Statement:
    """Statement of figures with delta, neighbours and assumption, or the reason for a gap.

    Args:
        of: the composed mechanisms, in lines.
        figures: the figures by name.
        values: the figures by their names in JSON.
    """
    return Statement(
        title="\n".join(of),
        sections=tuple(_section(name, figure) for name, figure in figures.items()),
        values=values,
    )


def _section(name: str, figure: Figure | str) -> Section:
    if isinstance(figure, str):
        return Section(key=name, title=f"{name}: {figure}")
    return Section(
        key=name,
        title=f"{name}: epsilon {figure.epsilon:.8g} at delta {figure.delta:g}",
        notes=(
            f"between  {figure.relation}",
            f"assumes  {figure.assumption}",
            f"method   {figure.method}",
        ),
    )


def figure_values(figure: Figure) -> dict[str, Any]:
    """A figure with its assumptions, for JSON."""
    return {
        "epsilon": figure.epsilon,
        "delta": figure.delta,
        "relation": figure.relation,
        "assumption": figure.assumption,
        "method": figure.method,
    }


def seconded(exact: Composition, second: Opinion) -> Composition:
    """Second opinion on an exact figure, which brackets the true one."""
    least = "infinite" if math.isinf(second.lower) else f"at least {second.lower:.8g}"
    cells = f", with losses in cells of {second.interval:.2g}" if second.interval else ""
    method = f"second opinion, by dp-accounting: {least}{cells}"
    return msgspec.structs.replace(exact, epsilon=second.epsilon, method=method, tight=False)
