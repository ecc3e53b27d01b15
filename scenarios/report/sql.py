"""A transcript as tables in SQLite, in memory and read-only."""

from __future__ import annotations

import sqlite3

from protocol.errors import UsageError
from protocol.session.roster import Roster
from protocol.session.variant import Variant
from protocol.surveys.limits import Held
from protocol.transcript.reader import TranscriptReader
from scenarios.files.transcripts import Transcript
from scenarios.report.record_tables import TABLES, Kind, record_rows

_TYPES: dict[Kind, str] = {
    "integer": "INTEGER",
    "number": "REAL",
    "flag": "INTEGER",
    "text": "TEXT",
    "bytes": "BLOB",
}

_HELD = ("sent", "refused", "departed", "restored")
"""The tables whose rows can be long."""

LOADED_BYTES = 2**27
"""Minimum size that is loaded of any transcript."""

_READING = (
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
)


def load(
    transcript: Transcript,
    roster: Roster,
    reader: TranscriptReader,
    variant: type[Variant] | None = None,
) -> sqlite3.Connection:
    """Load the readable part of a transcript; arguments as for ``record_rows``.

    Raises:
        SurveyError: as ``record_rows``.
        TooMuchError: its messages take more memory than is given to a file of its length.
    """
    database = sqlite3.connect(":memory:")
    inserts = {}
    for table in TABLES:
        columns = ", ".join(f"{column.name} {_TYPES[column.kind]}" for column in table.columns)
        key = table.columns[0].name
        database.execute(f"CREATE TABLE {table.name} ({columns}, PRIMARY KEY ({key}))")
        places = ", ".join("?" * len(table.columns))
        inserts[table.name] = f"INSERT INTO {table.name} VALUES ({places})"
    held = Held(lambda: reader.stored, LOADED_BYTES)
    for name, row in record_rows(transcript, roster, reader, variant):
        if name in _HELD:
            held.take(sum(len(cell) for cell in row if isinstance(cell, str | bytes)))
        database.execute(inserts[name], row)
    database.commit()
    database.set_authorizer(
        lambda action, *_: sqlite3.SQLITE_OK if action in _READING else sqlite3.SQLITE_DENY
    )
    return database


def ask(database: sqlite3.Connection, question: str) -> tuple[list[str], list[tuple[object, ...]]]:
    """The columns and rows that a SELECT gives.

    Raises:
        UsageError: SQLite's complaint, or the question is not a SELECT.
    """
    try:
        cursor = database.execute(question)
        rows = cursor.fetchall()
    except (sqlite3.Error, sqlite3.Warning, UnicodeEncodeError) as error:
        tables = ", ".join(table.name for table in TABLES)
        raise UsageError(f"query: {error} (tables: {tables})") from error
    if cursor.description is None:
        raise UsageError("query: expected a SELECT")
    columns = [column[0] for column in cursor.description]
    if len(set(columns)) != len(columns):
        raise UsageError("query: two columns have one name; tell them apart with AS")
    return columns, rows


def plain(value: object) -> object:
    """A cell as JSON has it: bytes as hexadecimal digits."""
    return value.hex() if isinstance(value, bytes) else value
