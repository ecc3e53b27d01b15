"""Directives ``commands`` and ``parameters``: tables of what the command line takes."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator

import click
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from scenarios.cli import SECTIONS, commands
from scenarios.running.loading import find_scenario


class Commands(SphinxDirective):
    """Describes every command, by what a person wants to do."""

    def run(self) -> list[nodes.Node]:
        return self.parse_text_to_nodes("\n".join(all_commands()), allow_section_headings=True)


class Parameters(SphinxDirective):
    """Lists the parameters of the scenarios in its argument, those of the same meaning once."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        return self.parse_text_to_nodes("\n".join(parameters(self.arguments[0].split())))


def all_commands() -> Iterator[str]:
    """Every command as Markdown: its usage, its help, and a table of its options."""
    for title, places in SECTIONS.items():
        yield from (f"## {title}", "")
        for name in places:
            yield from _command(name)


def _command(name: str) -> Iterator[str]:
    with click.Context(commands) as parent:
        command = commands.get_command(parent, name)
    assert command is not None
    context = click.Context(command, info_name=name)
    usage = " ".join(["sottovoce", name, *command.collect_usage_pieces(context)])
    yield from (f"### {name}", "", "```text", usage, "```", "")
    for paragraph in inspect.cleandoc(command.help or "").replace("\b\n", "").split("\n\n"):
        yield from (_plain(paragraph), "")
    records = (option.get_help_record(context) for option in command.params)
    rows = ((f"`{record[0]}`", record[1]) for record in records if record)
    yield from _table(("option", "meaning"), rows)


def parameters(names: Iterable[str]) -> Iterator[str]:
    """The parameters of scenarios as a Markdown table."""
    rows = dict.fromkeys(row for name in names for row in find_scenario(name).describe())
    cells = ((f"`{name}`", f"`{default}`" if default else "", says) for name, default, says in rows)
    yield from _table(("parameter", "default", "meaning"), cells)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield f"| {' | '.join(map(_plain, row))} |"
    yield ""


def _plain(text: str) -> str:
    """Text of a terminal on one line, without anything that Markdown takes for its own."""
    escaped = text if text.startswith("`") else text.replace("<", r"\<").replace("*", r"\*")
    return " ".join(escaped.replace("|", r"\|").split())


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("commands", Commands)
    app.add_directive("parameters", Parameters)
    return {"parallel_read_safe": True}
