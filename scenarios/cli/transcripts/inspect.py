"""``sottovoce query``, ``export`` and ``show``: reading one transcript."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import click

from parties.keeping.writing import check_new_folder, whole_folder
from protocol.audit.audit import Audit, Verdict
from protocol.errors import ProtocolError, TranscriptError, UsageError
from protocol.session.roster import Roster
from protocol.transcript.entries import Header
from protocol.transcript.header import read_charter
from protocol.transcript.reader import TranscriptReader
from protocol.variants import BUILT_IN
from scenarios.cli.options import (
    budget_options,
    json_option,
    print_json,
    print_report,
    transcript_argument,
    variant_option,
)
from scenarios.cli.paths import NEW_FOLDER
from scenarios.errors import CANNOT_FINISH, UNCHECKED, printable
from scenarios.files.kinds import detect_kind
from scenarios.files.parquet import load_pyarrow
from scenarios.files.transcripts import Transcript
from scenarios.running.loading import variant_class
from scenarios.surveys.watching.reading import reading
from scenarios.wording.formatting import count


@click.command()
@transcript_argument
@click.argument("question", metavar="SELECT")
@variant_option
@json_option
@budget_options
def query(transcript: Path, question: str, variant: str | None, as_json: bool) -> int:
    """Query TRANSCRIPT in SQL.

    Its tables are header, roster, sent, delivered, hindered, refused, departed, restored, closing,
    ledger and checkpoint. Only a question that names the ledger takes the variant.

    Exit 1, after the answer, if the transcript cannot be read to its end.
    """
    from scenarios.report import sql
    from scenarios.report.record_tables import LEDGER

    with reading(transcript, silent=as_json) as opened:
        reader = open_reader(opened, transcript)
        roster = read_roster(reader)
        kind = variant_class(reader.header, variant) if LEDGER in question.lower() else None
        with contextlib.closing(sql.load(opened, roster, reader, kind)) as database:
            columns, rows = sql.ask(database, question)
    if as_json:
        print_json([dict(zip(columns, map(sql.plain, row), strict=True)) for row in rows])
    else:
        from scenarios.report.terminal.text import rows_table

        print_report([rows_table(columns, rows)], soft_wrap=False)
    return _read_whole(reader)


@click.command()
@transcript_argument
@click.option(
    "--to",
    "folder",
    type=NEW_FOLDER,
    required=True,
    metavar="DIR",
    help="The folder for the files, new or empty.",
)
@variant_option
@budget_options
def export(transcript: Path, folder: Path, variant: str | None) -> int:
    """Write the tables of TRANSCRIPT as Parquet files.

    They are the tables of 'sottovoce query'. Either all files are there in the end or none.

    If the transcript cannot be read to its end, the files have what could be read, and the command
    says so and exits with 1, or with 3 if it cannot be unpacked.
    """
    load_pyarrow("export")
    check_new_folder(folder)
    from scenarios.report.exporting import export as written
    from scenarios.report.record_tables import record_rows

    with reading(transcript) as opened:
        reader = open_reader(opened, transcript)
        rows = record_rows(
            opened, read_roster(reader), reader, variant_class(reader.header, variant)
        )
        with whole_folder(folder) as new:
            counts = written(new, rows)
    for name, many in counts.items():
        click.echo(printable(f"{folder / name}.parquet: {count(many, 'row')}"))
    code = _read_whole(reader)
    if code:
        click.echo("the record is not whole: these files hold what could be read of it")
    return code


@click.command()
@transcript_argument
@budget_options
def show(transcript: Path) -> int:
    """Show who said what to whom in TRANSCRIPT, round by round.

    Exit 1, after what can be shown, if the transcript cannot be read to its end.
    """
    from scenarios.report.terminal.text import header_report, rounds_report
    from scenarios.surveys.watching.rounds import split_rounds

    with reading(transcript) as opened:
        reader = open_reader(opened, transcript)
        rounds = split_rounds(read_roster(reader), reader)
    said = rounds_report(rounds, _about(reader.header))
    print_report([header_report(reader.header), *said], soft_wrap=False)
    return _read_whole(reader)


def _about(header: Header) -> Callable[[str], str]:
    """Function that describes a kind of message; empty text for an unknown variant."""
    kind = BUILT_IN.get(header.variant)
    with contextlib.suppress(ProtocolError):
        if kind is not None:
            return read_charter(header, kind).codec.about
    return lambda name: ""


def _read_whole(reader: TranscriptReader) -> int:
    """The exit code; complain on standard error if the transcript is cut short or damaged."""
    if reader.fault is not None:
        click.echo(f"sottovoce: reading stopped: {printable(str(reader.fault))}", err=True)
        if reader.unopened:
            return CANNOT_FINISH
    elif reader.ending is None:
        click.echo("sottovoce: incomplete: the file has no end", err=True)
    else:
        return 0
    return 1


def open_reader(transcript: Transcript, path: Path) -> TranscriptReader:
    """The reader of a transcript, its header read.

    Raises:
        UsageError: the header cannot be read.
    """
    try:
        return transcript.entries()
    except TranscriptError as error:
        kind = detect_kind(path)
        if kind is not None and kind.what != "a transcript":
            raise UsageError(f"{path}: {kind.what}; expected a transcript") from error
        raise UsageError(f"{path}: not a readable transcript: {error}") from error


_FOUND: Mapping[Verdict, tuple[int, str]] = MappingProxyType(
    {
        "sound": (0, "finds it sound"),
        "incomplete": (1, "does not find it complete"),
        "broken": (1, "does not find it sound"),
        "unfinished": (CANNOT_FINISH, "cannot be finished"),
        "unchecked": (UNCHECKED, "finds it intact and cannot check the result"),
    }
)
"""The exit code of a verdict on the record, and what the audit does, in words."""


def exit_code(verdict: Verdict) -> int:
    """The exit code of an audit's verdict on the record."""
    return _FOUND[verdict][0]


def refused(audited: Audit, path: Path) -> int:
    """Say that nothing is made of a record that is not sound; the exit code."""
    code, does = _FOUND[audited.verdict]
    click.echo(
        printable(
            f"sottovoce: {path}: its audit {does}, so it is not known what the published result "
            "stands on; 'sottovoce audit' says why"
        ),
        err=True,
    )
    # An unreadable result fails even if the record is sound.
    return code or 1


def read_roster(reader: TranscriptReader) -> Roster:
    """The roster in a transcript's header.

    Raises:
        UsageError: the header is invalid.
    """
    try:
        return Roster(reader.header.roster)
    except ValueError as error:
        raise UsageError(f"the header is not valid: {error}; verify says more") from error
