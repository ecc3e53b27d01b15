"""``sottovoce list``."""

from __future__ import annotations

import click

from scenarios.cli.completion import complete_scenario
from scenarios.cli.options import print_report
from scenarios.report.terminal.scenarios import families_report, named_table


@click.command("list")
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_scenario)
@click.option("--parameters", is_flag=True, help="List the parameters of all of them too.")
def list_(names: tuple[str, ...], parameters: bool) -> None:
    """List the scenarios and reproductions by family; of each NAME, its parameters too."""
    if names:
        print_report([*map(named_table, names)], soft_wrap=False)
    else:
        print_report(families_report(parameters=parameters))
