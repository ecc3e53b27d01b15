"""What accountants find, as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.text import Text

from scenarios.statement.compositions import Figure


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
