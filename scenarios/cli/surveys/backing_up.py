"""``sottovoce backup`` and ``restore``: an aggregator in one file, and from it again."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from parties.keeping.record_names import RECORD_FILES, TRANSCRIPT
from scenarios.cli.options import out_option, own_variant_option
from scenarios.cli.paths import NEW_FOLDER, READ_FILE, READ_FOLDER, WRITTEN_FILE
from scenarios.cli.surveys.answering import folder_argument, member_in
from scenarios.errors import printable
from scenarios.surveys.holding.backups import restore_backup, write_backup


@click.command()
@folder_argument
@click.argument("file", type=WRITTEN_FILE)
@own_variant_option
@click.option(
    "--out",
    type=READ_FOLDER,
    required=True,
    help=f"The folder with the record, {TRANSCRIPT}, whole or growing.",
)
def backup(folder: Path, file: Path, variant: str | None, out: Path) -> None:
    """Copy the aggregator's FOLDER and its record to FILE, also while it holds a survey.

    FILE holds the private keys, so it is readable by its owner alone. It has what was acknowledged
    until now, and nothing later: make one often, and restore the newest.
    """
    made = write_backup(member_in(folder, variant), out, file)
    click.echo(printable(f"{made.files} files are in {file}"))


@click.command()
@click.argument("file", type=READ_FILE)
@click.argument("folder", type=NEW_FOLDER)
@out_option("The folder, new or empty, for the record.", *RECORD_FILES)
def restore(file: Path, folder: Path, out: Path) -> None:
    """Make the aggregator's FOLDER, new or empty, and its record from FILE, a backup of them.

    The record will say that it goes on from an older copy. 'aggregate --resume' publishes nothing
    then before all parties that may hold a receipt have come again: have them run 'answer' once
    more, with the same records, which costs nothing more.
    """
    made = restore_backup(file, folder, out)
    how = "goes on with" if made.begun else "begins"
    command = shlex.join(["sottovoce", "aggregate", str(folder), "--out", str(out), "--resume"])
    click.echo(
        printable(
            f"{made.files} files are restored; '{command}' {how} attempt {made.attempt}, and "
            "publishes nothing before all parties that may hold a receipt have come again"
        )
    )
