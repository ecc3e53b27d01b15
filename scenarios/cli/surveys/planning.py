"""``sottovoce plan``."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from parties.keeping.writing import write_whole
from protocol.errors import UsageError
from scenarios.cli.paths import READ_FILE, WRITTEN_FILE
from scenarios.data.own_tables.plan_text import plan_text
from scenarios.data.own_tables.proposing import BINS, MOST, RARE, propose
from scenarios.errors import printable
from scenarios.streams import lossless
from scenarios.wording.formatting import count


@click.command(context_settings={"allow_extra_args": True})
@click.option(
    "--from",
    "data",
    type=READ_FILE,
    help="A table of answers: a CSV file, whose delimiter and encoding are found, or a Parquet "
    "file.  [required]",
)
@click.option("--out", type=WRITTEN_FILE, help="The TOML file for the plan.  [default: print it]")
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
@click.option(
    "--ignore-case",
    is_flag=True,
    help="Take texts for one answer that differ by case or blanks alone.",
)
@click.option(
    "--header/--no-header",
    default=None,
    help="Whether the first row of a CSV file names its columns.  [default: it does, and is "
    "refused where it looks like a record]",
)
@click.pass_context
def plan(
    context: click.Context,
    data: Path | None,
    out: Path | None,
    title: str | None,
    bins: int,
    most: int,
    rare: int,
    ignore_case: bool,
    header: bool | None,
) -> None:
    """Propose a plan for a table of your own: attributes, their categories, ranges of numbers.

    It is a text for a person to read and edit. 'sottovoce preflight PLAN --records FILE' then says
    what is wrong with it, by line and column, or with a table, by row and column. What is lost by a
    plan, such as rare answers that are joined, is named in it. Categories that are made from
    answers reveal something of them.
    """
    if data is None or context.args:
        raise UsageError(
            "expected --from FILE, a table of answers; 'sottovoce preflight PLAN' checks a plan"
        )
    if out is not None and out.exists():
        raise UsageError(f"{out}: exists; give another name, or delete it first")
    proposal = propose(
        data, bins=bins, most=most, rare=rare, ignore_case=ignore_case, header=header
    )
    text = plan_text(proposal, printable(title or data.stem))
    if out is None:
        click.echo(lossless(text), nl=False)
        return
    write_whole(out, text)
    left = [each.column for each in proposal.columns if each.question is None]
    asked = count(len(proposal.columns) - len(left), "attribute")
    without = f", without {', '.join(left)}" if left else ""
    click.echo(printable(f"{count(proposal.rows, 'row')}, {asked}{without}"), err=True)
    click.echo(f"written: {out}")
    tried = shlex.join(("sottovoce", "run", str(out), "--records", str(data)))
    click.echo(f"once you have read it, try it: {tried}")
