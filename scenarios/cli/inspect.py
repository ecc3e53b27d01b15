"""``sottovoce verify``, ``audit``, ``query`` and ``show``: what a transcript says."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import click

from protocol.errors import TranscriptError
from protocol.messages import AGGREGATOR, PartyId
from protocol.roster import Roster
from protocol.transcript.reader import TranscriptReader
from scenarios.errors import UsageError, printable
from scenarios.loading import built_in_variant, find_variant
from scenarios.transcripts import Transcript, open_transcript

_transcript = click.argument("transcript", type=click.Path(path_type=Path))
_digest = click.option("--digest", metavar="HEX", help="The digest as published elsewhere.")
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.command()
@_transcript
@_digest
@_json
def verify(transcript: Path, digest: str | None, as_json: bool) -> int:
    """Check that TRANSCRIPT is what was recorded: exit 0 if intact, 1 with every fault found."""
    verification = open_transcript(transcript).verify(digest=_bytes_of(digest))
    if as_json:
        from scenarios.report.tables import verification_values

        _print_json(verification_values(verification))
    else:
        from rich.console import Console

        from scenarios.report.text import verification_report

        console = Console(soft_wrap=True)
        for part in verification_report(verification):
            console.print(part)
    return 0 if verification.intact else 1


@click.command()
@_transcript
@click.option("--observer", default=AGGREGATOR, show_default=True, help="Whose knowledge.")
@click.option("--variant", metavar="PATH.py:Class", help="The class of a variant of your own.")
@click.option("--trail", metavar="PARTY", help="Show the messages behind one party's figures.")
@_digest
@_json
def audit(
    transcript: Path,
    observer: str,
    variant: str | None,
    trail: str | None,
    digest: str | None,
    as_json: bool,
) -> int:
    """Judge TRANSCRIPT: who was counted, what was learned, and whether the result follows.

    Exit 0 if the record is intact and its result follows, 1 if not. It works from the file alone.
    """
    opened = open_transcript(transcript)
    if variant is not None:
        cls = find_variant(variant)
    else:
        # What a transcript says is looked up, never loaded.
        cls = built_in_variant(_reader(opened, transcript).header.variant)
    judged = opened.audit(cls, observer=PartyId(observer), digest=_bytes_of(digest))
    account = None
    if trail is not None:
        account = judged.ledger.accounts.get(PartyId(trail))
        if account is None:
            raise UsageError(f"{observer!r} learned nothing from a party {trail!r}")
    if as_json:
        from scenarios.report.tables import account_values, audit_values

        values = audit_values(judged)
        if account is not None:
            values["trail"] = account_values(account)
        _print_json(values)
    else:
        from rich.console import Console

        from scenarios.report.text import audit_report, trail_report

        console = Console(soft_wrap=True)
        for part in audit_report(judged):
            console.print(part)
        if account is not None:
            console.print(trail_report(account))
    return 0 if judged.accepted else 1


@click.command()
@_transcript
@click.argument("question", metavar="SELECT")
@_json
def query(transcript: Path, question: str, as_json: bool) -> int:
    """Ask TRANSCRIPT in SQL: tables header, roster, sent, delivered, refused, departed.

    Exit 1, after the answer, if the transcript could not be read to its end.
    """
    from scenarios.report import sql

    reader = _reader(open_transcript(transcript), transcript)
    with contextlib.closing(sql.load(_roster(reader), reader)) as database:
        columns, rows = sql.ask(database, question)
    if as_json:
        _print_json([dict(zip(columns, map(sql.plain, row), strict=True)) for row in rows])
    else:
        from rich.console import Console

        from scenarios.report.text import rows_table

        Console().print(rows_table(columns, rows))
    return _read_whole(reader)


@click.command()
@_transcript
def show(transcript: Path) -> int:
    """Show who said what to whom in TRANSCRIPT, round by round.

    Exit 1, after what there is, if the transcript could not be read to its end.
    """
    from rich.console import Console

    from scenarios.report.rounds import rounds_of
    from scenarios.report.text import header_report, rounds_report

    reader = _reader(open_transcript(transcript), transcript)
    console = Console()
    roster = _roster(reader)
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


def _reader(transcript: Transcript, path: Path) -> TranscriptReader:
    try:
        return transcript.entries()
    except TranscriptError as error:
        raise UsageError(f"{path}: not a readable transcript: {error}") from error


def _roster(reader: TranscriptReader) -> Roster:
    try:
        return Roster(reader.header.roster)
    except ValueError as error:
        raise UsageError(f"a header that is not sound: {error}; verify says more") from error


def _bytes_of(digest: str | None) -> bytes | None:
    if digest is None:
        return None
    try:
        content = bytes.fromhex(digest)
    except ValueError:
        content = b""
    if len(content) != 32:
        raise UsageError(f"--digest {digest!r}: expected 64 hexadecimal digits")
    return content


def _print_json(values: object) -> None:
    click.echo(json.dumps(values, indent=1, allow_nan=False))
