"""A transcript as tables in SQLite, in memory and read-only."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator

from protocol.audit.walk import steps
from protocol.session.roster import Roster
from protocol.surveys.limits import Held
from protocol.transcript.entries import Delivered, Departed, Entry, Refused, Sent
from protocol.transcript.reader import TranscriptReader
from protocol.wire.codec import Codec
from scenarios.errors import UsageError
from scenarios.report.rounds import RoundWriter

SCHEMA = """
CREATE TABLE header (key TEXT PRIMARY KEY, value);
CREATE TABLE roster (position INTEGER PRIMARY KEY, member TEXT, key TEXT);
CREATE TABLE sent (entry INTEGER PRIMARY KEY, at REAL, round INTEGER, sender TEXT, recipient TEXT,
                   seq INTEGER, kind TEXT, bytes INTEGER, body BLOB);
CREATE TABLE delivered (entry INTEGER PRIMARY KEY, at REAL, round INTEGER, sender TEXT,
                        recipient TEXT, seq INTEGER, repeated INTEGER);
CREATE TABLE refused (entry INTEGER PRIMARY KEY, at REAL, round INTEGER, link TEXT, reason TEXT,
                      excerpt BLOB);
CREATE TABLE departed (entry INTEGER PRIMARY KEY, at REAL, round INTEGER, member TEXT, reason TEXT);
CREATE TABLE checkpoint (number INTEGER PRIMARY KEY, note TEXT);
"""
"""Times in seconds since the start; ``round`` counts the aggregator's closings, from 1."""

LOADED_BYTES = 2**27
"""How much is loaded of any transcript, however short its file is."""

_READING = (
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
)


def load(roster: Roster, reader: TranscriptReader) -> sqlite3.Connection:
    """Load what can be read of a transcript.

    Raises:
        TooMuchError: its messages take more memory than is given to a file of its length.
    """
    database = sqlite3.connect(":memory:")
    database.executescript(SCHEMA)
    header = reader.header
    values = {
        "variant": header.variant,
        "session": header.session.hex(),
        "attempt": header.attempt,
        "transport": header.transport,
        "seed": None if header.seed is None else str(header.seed),
        "program": header.program,
        "recording": header.recording,
    }
    database.executemany("INSERT INTO header VALUES (?, ?)", values.items())
    members = [(i, name, key.hex()) for i, (name, key) in enumerate(header.roster)]
    database.executemany("INSERT INTO roster VALUES (?, ?, ?)", members)
    held = Held(lambda: reader.stored, LOADED_BYTES)
    for table, row in _rows(roster, reader, held):
        database.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
    database.executemany("INSERT INTO checkpoint VALUES (?, ?)", enumerate(reader.notes))
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
        raise UsageError(f"query: {error} (tables: {', '.join(_tables())})") from error
    if cursor.description is None:
        raise UsageError("query: expected a SELECT")
    columns = [column[0] for column in cursor.description]
    if len(set(columns)) != len(columns):
        raise UsageError("query: two columns have one name; tell them apart with AS")
    return columns, rows


def plain(value: object) -> object:
    """A cell as JSON has it: bytes as hexadecimal digits."""
    return value.hex() if isinstance(value, bytes) else value


def _tables() -> list[str]:
    return re.findall(r"CREATE TABLE (\w+)", SCHEMA)


def _rows(
    roster: Roster, entries: Iterable[Entry], held: Held
) -> Iterator[tuple[str, tuple[object, ...]]]:
    rounds = RoundWriter(roster)
    for step in steps(Codec((), members=len(roster)), entries, bodies=False):
        entry, e = step.entry, step.envelope
        about = (step.number, entry.at / 1e6, rounds.number)
        rounds.add(step)
        match entry:
            # What is malformed, `verify` names.
            case Sent() if e is not None:
                held.take(len(entry.envelope))
                said = (e.kind, len(entry.envelope), e.body)
                yield "sent", (*about, e.sender, e.recipient, _integer(e.seq), *said)
            case Delivered():
                handed = (_integer(entry.seq), int(entry.repeat))
                yield "delivered", (*about, entry.sender, entry.recipient, *handed)
            case Refused():
                held.take(len(entry.link) + len(entry.reason) + len(entry.excerpt))
                yield "refused", (*about, entry.link, entry.reason, entry.excerpt)
            case Departed():
                held.take(len(entry.party) + len(entry.reason))
                yield "departed", (*about, entry.party, entry.reason)


def _integer(value: int) -> int | str:
    """A number as SQLite can hold it; a hostile file has larger ones."""
    return value if value < 2**63 else str(value)
