"""A group of commands that imports a command's module when the command is called."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from scenarios.wording.hints import did_you_mean


def option_hint(error: click.NoSuchOption, context: click.Context) -> str:
    """The end of an error about an unknown option: the nearest one, or where all are listed."""
    known = [name for each in context.command.params for name in each.opts if name[:2] == "--"]
    asked = f"sottovoce {context.info_name}" if context.parent else "sottovoce"
    return did_you_mean(error.option_name, known, similar=0.7) or f"; '{asked} --help' lists all"


class Place(NamedTuple):
    """Place where a command is defined, and a one-line summary.

    Args:
        module: a module of ``scenarios.cli``, with its package if it has one.
        summary: for the list of all commands.
        attribute: the command in its module, if that is not its name.
    """

    module: str
    summary: str
    attribute: str = ""


class LazyGroup(click.Group):
    """Commands that are listed, summarized and completed without importing them.

    Args:
        sections: sections of the list of all commands: by title, the places of their commands.
    """

    def __init__(
        self, *args: Any, sections: Mapping[str, Mapping[str, Place]], **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self._sections = sections
        self._places = {
            name: place for places in sections.values() for name, place in places.items()
        }

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self._places]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = self._places.get(cmd_name)
        if place is None:
            return None
        module = importlib.import_module(f"scenarios.cli.{place.module}")
        command: click.Command = getattr(module, place.attribute or cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not name.startswith("-") and name not in self._places and not ctx.resilient_parsing:
            hint = did_you_mean(name, self._places) or "; 'sottovoce --help' lists all"
            # Another file may hide the package: checked before any import of it.
            from protocol.errors import UsageError

            raise UsageError(f"no command {name!r}{hint}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            # On an interrupt, click itself prints an empty line.
            raise click.exceptions.Abort(*error.args) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, self._places))
        for title, places in self._sections.items():
            with formatter.section(title):
                rows = [(name.ljust(width), place.summary) for name, place in places.items()]
                formatter.write_dl(rows)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [
            CompletionItem(name, help=place.summary)
            for name, place in sorted(self._places.items())
            if name.startswith(incomplete)
        ]
