"""``sottovoce verify``, ``query`` and ``show``: what a transcript says."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from protocol.errors import TranscriptError
from protocol.session.roster import Roster
from protocol.transcript.reader import TranscriptReader
from scenarios.files.checkpoints import (
    checkpoints_of,
    read_checkpoint,
    write_checkpoints,
    write_evidence,
)
from scenarios.files.transcripts import Transcript, open_transcript
from scenarios.running.errors import UsageError, printable

if TYPE_CHECKING:
    from rich.console import RenderableType

transcript_argument = click.argument("transcript", type=click.Path(path_type=Path))
digest_option = click.option(
    "--digest",
    metavar="HEX",
    help="The digest as published elsewhere, 64 hexadecimal digits: the record must have it.",
)
checkpoint_option = click.option(
    "--checkpoint",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The checkpoint as published elsewhere, at the end or earlier: the record must extend it.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")


@click.command()
@transcript_argument
@digest_option
@checkpoint_option
@click.option(
    "--evidence",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="If the checkpoint contradicts the one on record, write both signatures into FILE.",
)
@click.option(
    "--checkpoints",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="If nothing is wrong so far, write every checkpoint on record into FOLDER, to publish.",
)
@json_option
def verify(
    transcript: Path,
    digest: str | None,
    checkpoint: Path | None,
    evidence: Path | None,
    checkpoints: Path | None,
    as_json: bool,
) -> int:
    """Check that TRANSCRIPT is what was recorded: exit 0 if intact, 1 with every fault found."""
    if evidence is not None and checkpoint is None:
        raise UsageError("--evidence: it takes a --checkpoint to contradict")
    opened = open_transcript(transcript)
    verification = opened.verify(
        digest=bytes_of(digest),
        checkpoint=None if checkpoint is None else read_checkpoint(checkpoint),
    )
    if evidence is not None and verification.equivocation is not None:
        write_evidence(verification.equivocation, evidence)
    if checkpoints is not None and verification.header is not None and not verification.faults:
        write_checkpoints(checkpoints_of(opened.entries(), verification.checkpoints), checkpoints)
    if as_json:
        from scenarios.report.values import verification_values

        print_json(verification_values(verification))
    else:
        from scenarios.report.terminal.statement import verification_report

        print_report(verification_report(verification))
    return 0 if verification.intact else 1


@click.command()
@transcript_argument
@click.argument("question", metavar="SELECT")
@json_option
def query(transcript: Path, question: str, as_json: bool) -> int:
    """Ask TRANSCRIPT in SQL: tables header, roster, sent, delivered, refused, departed, checkpoint.

    Exit 1, after the answer, if the transcript could not be read to its end.
    """
    from scenarios.report import sql

    reader = reader_of(open_transcript(transcript), transcript)
    with contextlib.closing(sql.load(roster_of(reader), reader)) as database:
        columns, rows = sql.ask(database, question)
    if as_json:
        print_json([dict(zip(columns, map(sql.plain, row), strict=True)) for row in rows])
    else:
        from rich.console import Console

        from scenarios.report.terminal.text import rows_table

        Console().print(rows_table(columns, rows))
    return _read_whole(reader)


@click.command()
@transcript_argument
def show(transcript: Path) -> int:
    """Show who said what to whom in TRANSCRIPT, round by round.

    Exit 1, after what there is, if the transcript could not be read to its end.
    """
    from rich.console import Console

    from scenarios.report.rounds import rounds_of
    from scenarios.report.terminal.text import header_report, rounds_report

    reader = reader_of(open_transcript(transcript), transcript)
    console = Console()
    roster = roster_of(reader)
    console.print(header_report(reader.header))
    for part in rounds_report(rounds_of(roster, reader)):
        console.print(part)
    return _read_whole(reader)


def _read_whole(reader: TranscriptReader) -> int:
    """Say on standard error if there may be more than what was read."""
    if reader.fault is not None:
        click.echo(f"sottovoce: reading stopped: {printable(str(reader.fault))}", err=True)
    elif reader.ending is None:
        click.echo("sottovoce: incomplete: the file has no end", err=True)
    else:
        return 0
    return 1


def reader_of(transcript: Transcript, path: Path) -> TranscriptReader:
    """Header and entries.

    Raises:
        UsageError: no header can be read.
    """
    try:
        return transcript.entries()
    except TranscriptError as error:
        raise UsageError(f"{path}: not a readable transcript: {error}") from error


def roster_of(reader: TranscriptReader) -> Roster:
    """Who takes part.

    Raises:
        UsageError: the header is not sound.
    """
    try:
        return Roster(reader.header.roster)
    except ValueError as error:
        raise UsageError(f"the header is not valid: {error}; verify says more") from error


def bytes_of(digest: str | None) -> bytes | None:
    """A digest that a person gave.

    Raises:
        UsageError: it is none.
    """
    if digest is None:
        return None
    try:
        content = bytes.fromhex(digest)
    except ValueError:
        content = b""
    if len(content) != 32:
        raise UsageError(f"--digest {digest!r}: expected 64 hexadecimal digits")
    return content


def print_json(values: object) -> None:
    """Print values as JSON and nothing else."""
    click.echo(json.dumps(values, indent=1, allow_nan=False))


def print_report(parts: Iterable[RenderableType]) -> None:
    """Print what a report is made of; long lines are left to the terminal to wrap."""
    from rich.console import Console

    console = Console(soft_wrap=True)
    for part in parts:
        console.print(part)
