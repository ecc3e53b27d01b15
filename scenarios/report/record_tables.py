"""A transcript as tables: their columns, and the rows that every entry gives."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator
from typing import Literal, NamedTuple

from protocol.accounting.accountants import Loss
from protocol.audit.ledger import REFUSED, Charging
from protocol.audit.walk import Step, steps, walk
from protocol.messages import NO_ROUND, PartyId
from protocol.session.roster import Roster
from protocol.session.variant import Variant
from protocol.surveys.limits import Held
from protocol.transcript.entries import Delivered, Departed, Hindered, Refused, Restored, Sent
from protocol.transcript.header import read_charter
from protocol.transcript.reader import TranscriptReader
from protocol.wire.codec import Codec
from scenarios.files.transcripts import Transcript
from scenarios.surveys.watching.tally import RoundCounter
from scenarios.wording.formatting import as_json

Kind = Literal["integer", "number", "flag", "text", "bytes"]

Cell = int | float | bool | str | bytes | None
Row = tuple[Cell, ...]


class Column(NamedTuple):
    """A column of a table.

    Args:
        name: the column's name.
        kind: type of its cells, each of which may be missing.
        says: description of its content.
    """

    name: str
    kind: Kind
    says: str


class RecordTable(NamedTuple):
    """A table of entries of the record.

    Args:
        name: the table's name.
        says: description of a row.
        columns: the first one tells rows apart.
    """

    name: str
    says: str
    columns: tuple[Column, ...]


_ENTRY = Column("entry", "integer", "the number of the entry, from 0")
_ABOUT = (
    _ENTRY,
    Column("at", "number", "when it was recorded, in seconds since the start"),
    Column("round", "integer", "the aggregator's closings before it, and 1"),
)
_LINK = (
    Column("sender", "text", "the sender"),
    Column("recipient", "text", "the recipient; record, if for the record alone"),
    Column("seq", "integer", "the sender's number of it; missing from 2**63 on"),
)

LEDGER = "ledger"
"""The table that takes the variant."""

TABLES = (
    RecordTable(
        "header",
        "what the transcript is about",
        (
            Column("key", "text", "variant, session, attempt, transport, seed, ..."),
            Column("value", "text", "of the key"),
        ),
    ),
    RecordTable(
        "roster",
        "a member",
        (
            Column("position", "integer", "the place on the roster, from 0"),
            Column("member", "text", "the id"),
            Column("key", "text", "the public key, in hexadecimal"),
        ),
    ),
    RecordTable(
        "sent",
        "an envelope that was sent",
        (
            *_ABOUT,
            *_LINK,
            Column("kind", "text", "the kind of the message"),
            Column("bytes", "integer", "the length of the envelope"),
            Column("body", "bytes", "the message, encoded"),
        ),
    ),
    RecordTable(
        "delivered",
        "an envelope that was handed to its recipient",
        (*_ABOUT, *_LINK, Column("repeated", "flag", "whether it was delivered before")),
    ),
    RecordTable(
        "hindered",
        "an envelope that the network of a simulation loses or delays",
        (*_ABOUT, *_LINK),
    ),
    RecordTable(
        "refused",
        "something that was refused at a link",
        (
            *_ABOUT,
            Column("link", "text", "the member on the link"),
            Column("reason", "text", "why"),
            Column("excerpt", "bytes", "the first bytes of it"),
        ),
    ),
    RecordTable(
        "departed",
        "a member that left",
        (*_ABOUT, Column("member", "text", "who"), Column("reason", "text", "why")),
    ),
    RecordTable(
        "restored",
        "where the record goes on from an older copy",
        (
            *_ABOUT,
            Column("without", "text", "parties that may hold receipts, with commas"),
        ),
    ),
    RecordTable(
        "closing",
        "a gather of the aggregator that ended",
        (
            *_ABOUT,
            Column("kind", "text", "the kind of message that was awaited"),
            Column("of_round", "integer", "the round of that kind; missing if it has one alone"),
            Column("awaited", "integer", "number of parties awaited"),
            Column("counted", "integer", "number of them counted"),
        ),
    ),
    RecordTable(
        LEDGER,
        "a message that told something of its sender's respondents",
        (
            *_ABOUT,
            Column("party", "text", "the party"),
            Column("seq", "integer", "the sender's number of the message; missing if refused"),
            Column("kind", "text", "the kind of the message; missing if refused"),
            Column("epsilon", "number", "what it revealed, in nats; missing if unbounded"),
            Column("attributes", "text", "the same for each attribute, as a JSON object"),
            Column("unbounded", "text", "why it is unbounded; missing if it is not"),
            Column("summed", "flag", "whether a secure sum hides it"),
            Column("signed", "flag", "whether the party has signed what it sent"),
        ),
    ),
    RecordTable(
        "checkpoint",
        "a checkpoint of the aggregator",
        (Column("number", "integer", "from 0"), Column("note", "text", "the signed note")),
    ),
)
"""All tables, in the order in which their rows come but for those of entries."""


def record_rows(
    transcript: Transcript,
    roster: Roster,
    reader: TranscriptReader,
    variant: type[Variant] | None = None,
) -> Iterator[tuple[str, Row]]:
    """The rows of all tables, each with the table's name, as far as the transcript can be read.

    Rows are not kept in memory, apart from pending ones.

    Args:
        transcript: the transcript; it is verified first, for the ledger.
        roster: the one in its header.
        reader: reader of this transcript, after its header.
        variant: for the ledger, chosen by who asks and never by the transcript; without it, the
            table has no rows.

    Raises:
        SurveyError: for the ledger, the header is of another variant.
        TooMuchError: more is under way than a file of this length may have.
    """
    header = reader.header
    values = {
        "variant": header.variant,
        "session": header.session.hex(),
        "attempt": header.attempt,
        "transport": header.transport,
        "seed": header.seed,
        "program": header.program,
        "code": None if header.code is None else header.code.hex(),
        "neighbours": header.neighbours,
    }
    for key, value in values.items():
        yield "header", (key, None if value is None else str(value))
    for place, (name, public) in enumerate(header.roster):
        yield "roster", (place, name, public.hex())
    if variant is None:
        writer = _Rows(roster, None, ())
        walked = steps(Codec((), members=len(roster)), reader, bodies=False)
    else:
        charter = read_charter(header, variant)
        verification = transcript.verify()
        held = Held(lambda: reader.stored)
        charging = Charging(charter, held)
        charging.start(verification.heads)
        writer = _Rows(roster, charging, verification.heads.keys())
        walked = (
            step
            for block in walk(charter.codec, reader, held, handed=verification.handed)
            for step in block
        )
    for step in walked:
        yield from writer.rows(step)
    for number, note in enumerate(reader.notes):
        yield "checkpoint", (number, note)


class _Rows:
    """Makes rows of steps.

    Args:
        roster: the survey's roster.
        charging: for the ledger; None for no such rows.
        signed: the parties that have signed what they said.
    """

    def __init__(
        self, roster: Roster, charging: Charging | None, signed: Collection[PartyId]
    ) -> None:
        self._rounds = RoundCounter(roster)
        self._charging = charging
        self._signed = signed
        # Thousands of equal events share one loss.
        self._losses: dict[int, tuple[Loss, Row]] = {}

    def rows(self, step: Step) -> Iterator[tuple[str, Row]]:
        entry, e = step.entry, step.envelope
        about = (step.number, entry.at / 1e6, self._rounds.number)
        match entry:
            # `verify` reports malformed entries.
            case Sent() if e is not None:
                said = (e.kind, len(entry.envelope), e.body)
                yield "sent", (*about, e.sender, e.recipient, _integer(e.seq), *said)
            case Delivered():
                handed = (_integer(entry.seq), entry.repeat)
                yield "delivered", (*about, entry.sender, entry.recipient, *handed)
            case Hindered():
                named = entry.sender, entry.recipient, _integer(entry.seq)
                yield "hindered", (*about, *named)
            case Refused():
                yield "refused", (*about, entry.link, entry.reason, entry.excerpt)
            case Departed():
                yield "departed", (*about, entry.party, entry.reason)
            case Restored():
                yield "restored", (*about, ", ".join(entry.without))
        ended = self._rounds.add(step)
        if ended is not None and not ended.malformed:
            of_round = None if ended.round == NO_ROUND else ended.round
            numbers = len(ended.awaited), len(ended.counted)
            yield "closing", (*about, ended.kind, of_round, *numbers)
        told = None if self._charging is None else self._charging.add(step)
        if told is None or told.charge is None:
            return
        charge = told.charge
        said_in = (None, None) if charge.seq == REFUSED else (_integer(charge.seq), charge.kind)
        signed = told.sender in self._signed
        costs = self._costs(charge.loss)
        yield LEDGER, (*about, told.sender, *said_in, *costs, charge.summed, signed)

    def _costs(self, loss: Loss) -> Row:
        known = self._losses.get(id(loss))
        if known is None:
            epsilon = None if math.isinf(loss.record) else loss.record
            attributes = json.dumps(as_json(loss.attributes))
            row = epsilon, attributes, "; ".join(loss.unbounded) or None
            known = self._losses[id(loss)] = loss, row
        return known[1]


def _integer(value: int) -> int | None:
    """A number as a signed 64-bit integer; None if it is larger, as in hostile files."""
    return value if value < 2**63 else None
