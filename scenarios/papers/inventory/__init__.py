"""Every numbered item of the papers: what is built of it, by which command, with which result.

The items are data, a TOML file per paper beside this one; ``measured.json`` has the figures of ours
that their sentences quote. ``docs/papers.md`` is made of both:

    python -m scenarios.papers.inventory docs/papers.md            # write the page
    python -m scenarios.papers.inventory docs/papers.md --measure  # run all commands first
    python -m scenarios.papers.inventory docs/papers.md --measure rr-table  # only such ones
"""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any, Literal, TypeAlias

import msgspec

CORRECTIONS = "corrections.md"
"""The page that corrects them, beside the page of the papers."""

PAPERS = ("mdrr", "rrij", "rrba", "mr", "privkv", "others")

Values: TypeAlias = Mapping[str, float]


class Figure(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Place of a figure in the JSON of a command.

    Args:
        path: of a result with one answer: its keys, with dots between them.
        figure: of a reproduction: the name of the figure; empty if its rows have only one.
        at: the settings of the rows that are meant; all by default.
        pick: which of them, or what is made of them.
    """

    path: str = ""
    figure: str = ""
    at: Mapping[str, Any] = {}
    pick: Literal["first", "min", "max", "mean"] = "first"

    def of(self, result: Mapping[str, Any]) -> float:
        """The figure.

        Raises:
            KeyError: the result does not have it.
        """
        if self.path:
            found: Any = result
            for key in self.path.split("."):
                found = found[int(key) if isinstance(found, list) else key]
            return float(found)
        values = [
            float(value)
            for row in result["rows"]
            if all(row.get(name) == wanted for name, wanted in self.at.items())
            for value in [_figure(row["measured"], self.figure)]
            if value is not None
        ]
        if not values:
            raise KeyError(f"{self.figure!r} of {dict(self.at)}")
        if self.pick == "mean":
            return sum(values) / len(values)
        return {"first": values[0], "min": min(values), "max": max(values)}[self.pick]


def _figure(measured: Any, name: str) -> float | None:
    if isinstance(measured, Mapping):
        found: float | None = measured.get(name)
        return found
    return None if name else measured


class Item(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A numbered item of a paper.

    Args:
        item: what the paper calls it.
        says: what it has or claims.
        corrected: the section of ``docs/corrections.md`` that corrects it; empty if none does.
        built: where it is, if it is code that can be used by itself.
        command: that gives its figures, without ``sottovoce``; empty if there is none.
        small: further ``--set`` values with which a test can run the command in a moment.
        found: what came out, with figures in braces.
        figures: those of ``found``, by name.
        why: why there is no command.
        data: whether the command needs public data that is not in the package.
    """

    item: str
    says: str
    corrected: str = ""
    built: str = ""
    command: str = ""
    small: tuple[str, ...] = ()
    found: str = ""
    figures: Mapping[str, Figure] = {}
    why: str = ""
    data: bool = False

    def small_command(self) -> list[str]:
        """The arguments of the command, small."""
        return [*shlex.split(self.command), *(part for s in self.small for part in ("--set", s))]


class Paper(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A paper and its items.

    Args:
        name: as the pages shorten it.
        source: who wrote what.
        note: what holds for all of its rows.
        items: in the order of the text.
    """

    name: str
    source: str
    note: str = ""
    items: tuple[Item, ...]

    def key(self, item: Item) -> str:
        """Key of an item's figures."""
        return f"{self.name}, {item.item}"


@functools.cache
def papers() -> tuple[Paper, ...]:
    """All of them."""
    return tuple(
        msgspec.toml.decode((files(__name__) / f"{name}.toml").read_bytes(), type=Paper)
        for name in PAPERS
    )


def known_values() -> Mapping[str, Values]:
    """The figures of ours, by item and name."""
    return msgspec.json.decode(
        (files(__name__) / "measured.json").read_bytes(), type=dict[str, dict[str, float]]
    )


def measure(
    run: Callable[[Sequence[str]], Mapping[str, Any]], *, only: str = ""
) -> Iterator[tuple[str, Values]]:
    """The figures of the items, by their keys; every command is run once.

    Args:
        run: from the arguments of a command to its JSON.
        only: of commands with this text.
    """
    results: dict[str, Mapping[str, Any]] = {}
    for paper in papers():
        for item in paper.items:
            if item.command and only in item.command:
                if item.command not in results:
                    results[item.command] = run(shlex.split(item.command))
                result = results[item.command]
                yield paper.key(item), {n: f.of(result) for n, f in item.figures.items()}


def page() -> str:
    """The page of the papers, as Markdown."""
    values = known_values()
    parts = [(files(__name__) / "intro.txt").read_text().rstrip()]
    everything = [item for paper in papers() for item in paper.items]
    with_command = sum(bool(item.command) for item in everything)
    parts.append(
        f"Of {len(everything)} items {with_command} have a command, and "
        f"{len(everything) - with_command} have the reason why not."
    )
    for paper in papers():
        lines = [f"## {paper.name}", "", paper.source, ""]
        if paper.note:
            lines += [paper.note, ""]
        lines += ["| item | code, command | result |", "|---|---|---|"]
        for item in paper.items:
            name = f"[{item.item}]({CORRECTIONS}#{item.corrected})" if item.corrected else item.item
            places = filter(None, (item.built, item.command.removeprefix("run ")))
            built = ", ".join(f"`{place}`" for place in places)
            said = item.found.format(**values.get(paper.key(item), {})) or item.why
            lines.append(f"| {name}: {item.says} | {built} | {said} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"
