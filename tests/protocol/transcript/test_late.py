"""Late is what an aggregator can show: anything else that it says is a finding against it."""

from __future__ import annotations

import io
from collections.abc import Sequence

import msgspec
import pytest

from protocol import AGGREGATOR
from protocol.messages import Closed
from protocol.session.closings import leaves_out
from protocol.transcript.entries import Delivered, Sent
from protocol.transcript.header import make_header
from protocol.transcript.reader import Records
from protocol.transcript.receipts import (
    COUNTED,
    LATE,
    NOT_YET_KNOWN,
    Acknowledgement,
    decode_receipt,
    encode_receipt,
    receipt_problems,
)
from protocol.transcript.recorder import Recorder
from protocol.transcript.verification import verify
from protocol.wire.codec import decode_envelope, encode_envelope
from tests.protocol.transcript.test_acknowledgements import SECRET, acknowledged, made_of
from tests.recorded.late import (
    EVERYBODY,
    HEAD,
    LIES,
    LOG,
    OTHER,
    REPORT,
    closing,
    counted,
    given,
    made,
    named,
)
from tests.recorded.signed import ONE, setting, signed_run

COUNTING = closing(counted=EVERYBODY)
IN_TIME = (OTHER, REPORT, COUNTING, HEAD)


def test_a_late_report_is_shown() -> None:
    receipt, checkpoint = made(given(LOG, named()))
    assert receipt_problems(receipt, checkpoint) == ()
    assert (receipt.word, len(receipt.late), receipt.waiting) == (LATE, 1, 0)
    assert decode_receipt(encode_receipt(receipt)) == receipt


def test_a_report_that_was_counted_is_shown() -> None:
    receipt, checkpoint = made(given(IN_TIME, counted(IN_TIME, COUNTING)))
    assert receipt_problems(receipt, checkpoint) == ()
    assert (receipt.word, receipt.waiting) == (COUNTED, 0)


def test_without_a_closing_it_is_not_yet_known() -> None:
    receipt, checkpoint = made(given((OTHER, REPORT, HEAD)))
    assert receipt_problems(receipt, checkpoint) == ()
    assert (receipt.word, receipt.waiting) == (NOT_YET_KNOWN, 1)


def test_one_report_counted_and_one_not_named_is_not_yet_known() -> None:
    named_once = given(IN_TIME, counted(IN_TIME, COUNTING))
    receipt, checkpoint = made(named_once, 0, 7)
    assert receipt_problems(receipt, checkpoint) == ()
    assert (receipt.word, receipt.waiting) == (NOT_YET_KNOWN, 1)


def test_what_is_no_report_is_passed_over() -> None:
    """The last message of a secure sum may be late: it follows from what the party has received."""
    receipt, checkpoint = made(given(LOG, named()), 7)
    assert receipt_problems(receipt, checkpoint) == ()
    assert (receipt.word, receipt.late) == (NOT_YET_KNOWN, ())


@pytest.mark.parametrize("what", LIES)
def test_what_cannot_be_shown_is_a_finding(what: str) -> None:
    lie, problem = LIES[what]
    assert problem in receipt_problems(*made(lie))


def test_a_receipt_that_drops_a_late_report_says_nothing_of_it() -> None:
    """What is left still shows the head, and does not call the report counted."""
    receipt, checkpoint = made(given(LOG, named()))
    for waiting in (0, 1):
        dropped = msgspec.structs.replace(receipt, late=(), waiting=waiting)
        assert receipt_problems(dropped, checkpoint) == ()
        assert dropped.word == NOT_YET_KNOWN


def late_record(every: int, *, resumed: int | None = None) -> tuple[bytes, Acknowledgement]:
    """The small run in which the first party came after the closing, and its acknowledgement.

    Args:
        every: how many entries are recorded before heads are acknowledged.
        resumed: after how many of what was written another program goes on; None for never.
    """
    where, out = setting(), io.BytesIO()

    def begun(again: bool = False) -> Recorder:
        return Recorder(
            out.write,
            make_header(where.charter),
            signer=where.identities[AGGREGATOR],
            secret=SECRET,
            acknowledging=True,
            resumed=again,
        )

    recorder = begun()
    found: dict[str, Acknowledgement] = {}
    for number, entry in enumerate(late_entries(), 1):
        if isinstance(entry, Sent):
            envelope = decode_envelope(entry.envelope)
            recorder.sent(envelope, now=entry.at / 1e6)
        elif isinstance(entry, Delivered):
            recorder.delivered(signed_run().sent[entry.sender, entry.seq], now=entry.at / 1e6)
        if number % every == 0:
            found.update(recorder.acknowledge())
        if number == resumed:
            recorder.flush()
            _, *items = Records(out.getvalue())
            recorder = begun(again=True)
            for item in items:
                recorder.recall(item)
            recorder.go_on()
    found.update(recorder.acknowledge())
    recorder.close()
    return out.getvalue(), found[ONE]


def late_entries() -> Sequence[Sent | Delivered]:
    """What the small run recorded, with all that the first party said after the closing."""
    mine: list[Sent] = []
    others: list[Sent | Delivered] = []
    for entry in signed_run().entries:
        match entry:
            case Sent():
                envelope = decode_envelope(entry.envelope)
                if envelope.sender == ONE:
                    mine.append(entry)
                    continue
                if envelope.kind == "Closed":
                    bitmaps = (bits.to_bytes(1, "little") for bits in (EVERYBODY, EVERYBODY & ~2))
                    body = msgspec.msgpack.encode(Closed("Report", -1, 0, *bitmaps))
                    other = msgspec.structs.replace(envelope, body=body)
                    entry = msgspec.structs.replace(entry, envelope=encode_envelope(other))
                others.append(entry)
            case Delivered() if entry.sender != ONE:
                others.append(entry)
    return [*others, *mine]


@pytest.mark.parametrize("every", [1, 5, 1000])
def test_an_aggregator_says_who_is_late_and_shows_it(every: int) -> None:
    content, acknowledgement = late_record(every)
    receipt, checkpoint = made(acknowledgement)
    assert receipt_problems(receipt, checkpoint) == ()
    assert receipt.word == LATE
    [late] = receipt.late
    assert late.closing.index < late.before.size <= late.report.index
    assert verify((content,), checkpoint=checkpoint).extends is True
    assert verify((content,), checkpoint=late.before.signed(checkpoint)).extends is True


def test_so_does_one_that_goes_on_with_its_record() -> None:
    """Wherever it was killed."""
    whole = len(late_entries())
    for cut in range(1, whole + 1, 2):
        content, acknowledgement = late_record(3, resumed=cut)
        receipt, checkpoint = made(acknowledgement)
        assert (receipt_problems(receipt, checkpoint), receipt.word) == ((), LATE)
        assert verify((content,), checkpoint=checkpoint).extends is True


def test_who_is_in_time_is_not_called_late() -> None:
    recorded = [entry for entry in signed_run().entries if isinstance(entry, Sent | Delivered)]
    closed = next(
        leaf
        for leaf, entry in enumerate(recorded, 1)
        if isinstance(entry, Sent) and decode_envelope(entry.envelope).kind == "Closed"
    )
    for every in (1, 5, 1000):
        record = acknowledged(every)
        for party in setting().charter.roster.parties:
            receipt, checkpoint = made_of(party, record.given[party])
            assert receipt_problems(receipt, checkpoint) == ()
            is_closed = record.after[party] > closed
            assert receipt.word == (COUNTED if is_closed else NOT_YET_KNOWN)


def test_whom_a_range_leaves_out() -> None:
    closed = Closed("Report", -1, 0, b"\x0e", b"\x06")
    assert [leaves_out(closed, place, members=8) for place in range(-1, 9)] == [
        place == 3 for place in range(-1, 9)
    ]
    assert not leaves_out(closed, 3, members=16)
