"""``sottovoce plan``."""

from __future__ import annotations

from pathlib import Path

import click

from scenarios.cli.options import FILE
from scenarios.errors import UsageError, printable
from scenarios.files.writing import write_whole
from scenarios.own_data.plan_text import plan_text
from scenarios.own_data.proposing import BINS, MOST, RARE, Limits, propose
from scenarios.report.formatting import count


@click.command()
@click.option(
    "--from",
    "data",
    type=FILE,
    required=True,
    help="A table of answers: a text file whose first row names its columns. The sign between its "
    "fields and its encoding are found.",
)
@click.option("--out", type=FILE, help="The TOML file for the plan.  [default: print it]")
@click.option("--title", help="Of the survey.  [default: the name of the file]")
@click.option(
    "--bins",
    type=click.IntRange(min=2),
    default=BINS,
    show_default=True,
    help="Into how many ranges numbers are cut.",
)
@click.option(
    "--most",
    type=click.IntRange(min=3),
    default=MOST,
    show_default=True,
    help="The most categories of an attribute; answers that are rarer are joined.",
)
@click.option(
    "--rare",
    type=click.IntRange(min=1),
    default=RARE,
    show_default=True,
    help="How many rows an answer must have to be a category of its own; in a table of less than "
    "a hundred times as many rows, one of a hundred is enough.",
)
def plan(data: Path, out: Path | None, title: str | None, bins: int, most: int, rare: int) -> None:
    """Propose a plan for a table of your own: attributes, their categories, ranges of numbers.

    It is a text for a person to read and edit. What is lost by it, such as rare answers that are
    joined, is named there. Categories that are made from answers reveal something of them.
    """
    if out is not None and out.exists():
        raise UsageError(f"{out}: exists; give another name, or delete it first")
    proposal = propose(data, Limits(bins, most, rare))
    text = plan_text(proposal, title or data.stem)
    if out is None:
        click.echo(text, nl=False)
        return
    write_whole(out, text)
    left = [each.column for each in proposal.columns if each.question is None]
    asked = count(len(proposal.columns) - len(left), "attribute")
    without = f", without {', '.join(left)}" if left else ""
    click.echo(printable(f"{count(proposal.rows, 'row')}, {asked}{without}"), err=True)
    click.echo(f"written: {out}")
