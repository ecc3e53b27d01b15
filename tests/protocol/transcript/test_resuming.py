"""A record that was cut short is read back: who goes on with it stands where it ends."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

import msgspec
import pytest

from protocol import (
    AGGREGATOR,
    LocalProtocolError,
    Me,
    Message,
    PartyId,
    RemoteProtocolError,
    TranscriptError,
)
from protocol.messages import CLOSING_MEMBERS, ROLE_STREAM, Closed, Declined
from protocol.session.exchange import Exchange
from protocol.session.machine import Machine
from protocol.simulation.setting import make_setting
from protocol.testing import Schedule
from protocol.transcript.entries import (
    MAGIC,
    Checkpoint,
    Delivered,
    Departed,
    Ending,
    Refused,
    Sent,
    decode_item,
    encode_item,
)
from protocol.transcript.header import make_header
from protocol.transcript.log import seed_log_secret
from protocol.transcript.reader import Records
from protocol.transcript.recorder import Recorder
from protocol.transcript.resuming import Past, catch_up
from protocol.variants import RRBA, RRJoint
from protocol.variants.reports.reports import Ask
from protocol.wire.codec import decode_envelope, encode_envelope
from tests.every_variant import Example, examples
from tests.recorded.runs import Run, answers
from tests.tiers import slow, thinned

EVERY = pytest.mark.parametrize(
    "example", thinned(examples(), 14), ids=lambda example: example.name
)
pack = msgspec.msgpack.encode
ROUGH = Schedule(seed=3, drop=0.05, delay=0.3, late=90.0, crash=0.2)
"""Some reports are lost, some come too late, and some parties never answer."""


def recorded(example: Example, fate: Schedule | None = None) -> tuple[Run, list[bytes]]:
    """A run, and the records of its file: the header first."""
    options = {} if fate is None else {"fate": fate}
    run = Run(make_setting(example.variant, example.records, seed=1), signed=True, **options)
    return run, list(Records(run.content))


def file_of(run: Run, records: list[bytes]) -> bytes:
    """These records as a file."""
    start = MAGIC + seed_log_secret(run.setting.seed)
    return start + b"".join(struct.pack(">I", len(record)) + record for record in records)


class Resumed:
    """A run of which these records are on disk."""

    def __init__(self, run: Run, records: list[bytes], *, stream: str = ROLE_STREAM) -> None:
        setting = run.setting
        self.parts: list[bytes] = []
        self.recorder = Recorder(
            self.parts.append,
            make_header(setting.charter, seed=setting.seed),
            signer=setting.identities[AGGREGATOR],
            resumed=True,
        )
        self.exchange = Exchange(setting.charter, recorder=self.recorder)
        self.past = Past(setting.charter, self.recorder, self.exchange)
        read = Records(file_of(run, records))
        next(iter(read))
        self.past.read(read)
        self.recorder.go_on()
        self.machine = Machine(
            setting.charter,
            AGGREGATOR,
            setting.streams.stream(AGGREGATOR, stream),
            identity=setting.identities[AGGREGATOR],
        )


def said_by_aggregator(records: list[bytes]) -> list[bytes]:
    items = [decode_item(record) for record in records[1:]]
    sent = [item.envelope for item in items if isinstance(item, Sent)]
    return [encoded for encoded in sent if decode_envelope(encoded).sender == AGGREGATOR]


def cuts(records: list[bytes]) -> list[int]:
    """After how many records a file is cut: at some places, and before the aggregator's result."""
    last = max(
        place
        for place, record in enumerate(records[1:], 1)
        if isinstance(item := decode_item(record), Sent)
        and decode_envelope(item.envelope).sender == AGGREGATOR
    )
    step = max(1, len(records) // 4)
    return sorted({*range(1, len(records), step), last, len(records)})


@EVERY
@pytest.mark.parametrize("fate", [slow(None), ROUGH], ids=["smooth", "rough"])
def test_the_aggregator_says_again_what_is_on_record(
    example: Example, fate: Schedule | None
) -> None:
    run, records = recorded(example, fate)
    words = said_by_aggregator(records)
    unsaid = []
    for cut in cuts(records):
        resumed = Resumed(run, records[:cut])
        rest = catch_up(resumed.machine, resumed.past, start=1000.0)
        before = said_by_aggregator(records[:cut])
        again = [*before, *map(encode_envelope, rest)]
        assert again == words[: len(again)]
        unsaid.append(len(rest))
    assert resumed.machine.finished
    assert (resumed.machine.result is None) == (run.result is None)
    assert fate is not None or any(unsaid)


@EVERY
def test_the_recorder_goes_on_in_the_same_log(example: Example) -> None:
    run, records = recorded(example)
    cut = len(records) // 2
    resumed = Resumed(run, records[:cut])
    recorder = resumed.recorder
    for record in records[cut:]:
        item = decode_item(record)
        match item:
            case Sent():
                recorder.sent(decode_envelope(item.envelope), now=item.at / 1e6)
            case Delivered():
                envelope = run.sent[item.sender, item.seq]
                recorder.delivered(envelope, now=item.at / 1e6)
            case Departed():
                recorder.departed(item.party, item.reason, now=item.at / 1e6)
            case Refused():
                recorder.refused(item.link, item.reason, item.excerpt, now=item.at / 1e6)
            case Ending():
                assert recorder.close(item.complete, item.reason) == run.digest
            case Checkpoint():
                assert recorder.checkpoint is not None
                assert recorder.checkpoint.note == item.note
    assert recorder.checkpoint == run.checkpoint


def example_of(name: str) -> Example:
    return next(example for example in examples() if example.name == name)


def test_a_checkpoint_that_was_not_written_is_written() -> None:
    run, records = recorded(example_of("rr-clusters rr sparse"))
    items = [None, *map(decode_item, records[1:])]
    places = [place for place, item in enumerate(items) if isinstance(item, Checkpoint)]
    assert len(places) > 3
    for place in places:
        resumed = Resumed(run, records[:place])
        item = items[place]
        assert isinstance(item, Checkpoint)
        assert resumed.recorder.checkpoint is not None
        assert resumed.recorder.checkpoint.note == item.note
        assert len(resumed.parts) == 1
        # Once it is there, it is not written again.
        assert Resumed(run, records[: place + 1]).parts == []


def test_after_the_last_entry_nothing_is_recorded() -> None:
    run, records = recorded(example_of("rr-joint"))
    resumed = Resumed(run, records)
    assert resumed.past.ending is not None
    with pytest.raises(LocalProtocolError, match="closed"):
        resumed.recorder.close()


def test_the_exchange_knows_what_was_sent_and_who_has_left() -> None:
    crashes = Schedule(seed=1, crash=0.6)
    run, records = recorded(example_of("rr-clusters rr sparse"), crashes)
    whole = Resumed(run, records)
    departed = [e for e in run.entries if isinstance(e, Departed)]
    assert whole.exchange.departed == {e.party: e.reason for e in departed}
    assert whole.exchange.messages == len(run.sent)
    assert whole.exchange.bytes == sum(len(encode_envelope(e)) for e in run.sent.values())
    for name in run.charter.roster.parties:
        said = [e for e in run.sent.values() if e.sender == name]
        assert whole.exchange.accepted(name) == len(said)
        assert whole.exchange.has_ended(name) == any(e.kind == "Head" for e in said)
    early = next(place for place, record in enumerate(records) if b"Departed" in record)
    resumed = Resumed(run, records[: early + 1])
    told = {(d.envelope.recipient, d.envelope.kind) for d in resumed.exchange.reminders()}
    assert (AGGREGATOR, "Left") in told
    with pytest.raises(RemoteProtocolError, match="has left this session"):
        resumed.exchange.attach(next(iter(resumed.exchange.departed)))
    here = next(n for n in run.charter.roster.parties if n not in resumed.exchange.departed)
    before = resumed.exchange.accepted(here)
    resumed.exchange.attach(here)
    assert resumed.exchange.accepted(here) == before


def test_what_was_sent_and_not_delivered_is_still_to_come() -> None:
    run, records = recorded(example_of("pair-rr literal"))
    for cut in cuts(records):
        past = Resumed(run, records[:cut]).past
        entries = [decode_item(record) for record in records[1:cut]]
        delivered = {(e.sender, e.seq) for e in entries if isinstance(e, Delivered)}
        gone = {e.party for e in entries if isinstance(e, Departed)}
        sent = [decode_envelope(e.envelope) for e in entries if isinstance(e, Sent)]
        assert list(past.waiting.values()) == [
            envelope
            for envelope in sent
            if (envelope.sender, envelope.seq) not in delivered
            and envelope.recipient in run.charter.roster
            and envelope.recipient not in gone
        ]
        assert sum(map(len, past.handed.values())) + len(past.heard) == len(delivered)


class Drawing(RRJoint, frozen=True, kw_only=True):
    """An aggregator that says something drawn first."""

    async def aggregator(self, me: Me, parties: Sequence[PartyId]) -> Message:
        await me.note(Ask(me.stream.bytes(32), ()))
        return await super().aggregator(me, parties)


def test_another_secret_does_not_go_on_with_a_record() -> None:
    example = example_of("rr-joint")
    variant = Drawing.with_keep(example.variant.survey, 0.6)
    run, records = recorded(Example(variant, example.records))
    ends = []
    for stream in (ROLE_STREAM, "a", "b", "c", "d"):
        resumed = Resumed(run, records, stream=stream)
        try:
            catch_up(resumed.machine, resumed.past, start=0.0)
            ends.append("")
        except LocalProtocolError as error:
            ends.append(str(error))
    assert ends[0] == ""
    assert any("not begun by this program" in end for end in ends)


def test_another_program_does_not_go_on_with_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    run, records = recorded(example_of("rrba"))

    async def hasty(self: RRBA, me: Me, parties: Sequence[PartyId]) -> Message:
        return Declined("terms")

    monkeypatch.setattr(RRBA, "aggregator", hasty)
    for cut in cuts(records)[2:]:
        resumed = Resumed(run, records[:cut])
        with pytest.raises(LocalProtocolError, match="not begun by this program"):
            catch_up(resumed.machine, resumed.past, start=0.0)


def test_a_record_that_a_recorder_would_not_have_written_is_refused() -> None:
    run, records = recorded(example_of("rr-joint"))
    items = [None, *map(decode_item, records[1:])]
    sent = next(place for place, item in enumerate(items) if isinstance(item, Sent))
    note = next(place for place, item in enumerate(items) if isinstance(item, Checkpoint))
    delivered = next(place for place, item in enumerate(items) if isinstance(item, Delivered))
    for odd in (
        [*records[: sent + 1], records[sent]],
        [*records[: sent + 1], records[note]],
        [*records[: delivered + 1], records[delivered]],
        [*records, records[sent]],
        [*records[:sent], b"\x90"],
    ):
        with pytest.raises(TranscriptError):
            Resumed(run, odd)


def test_the_open_wait_goes_on_with_the_patience_that_was_left() -> None:
    run, records = recorded(example_of("rr-joint"))
    heard = next(n for n, r in enumerate(records) if b"Delivered" in r and AGGREGATOR.encode() in r)
    resumed = Resumed(run, records[: heard + 1])
    catch_up(resumed.machine, resumed.past, start=500.0 - resumed.past.at)
    patience = run.charter.variant.patience
    assert patience is not None
    assert resumed.past.began is not None
    passed = resumed.past.at - resumed.past.began
    assert resumed.machine.deadline == pytest.approx(500.0 + patience - passed)


def test_a_wait_opens_when_the_one_before_went_on_record() -> None:
    run, records = recorded(example_of("rr-clusters rr sparse"), ROUGH)
    checked = 0
    for cut in range(1, len(records)):
        past = Resumed(run, records[:cut]).past
        late = past.closings and past.heard and past.closings[-1].at > past.heard[-1][0] + 1.0
        if not late or checked == 3:
            continue
        # Time was up: nothing has come for a while.
        resumed = Resumed(run, records[:cut])
        catch_up(resumed.machine, resumed.past, start=0.0)
        waiting = resumed.machine.awaited
        if waiting is not None and waiting.within is not None:
            assert resumed.machine.deadline == past.closings[-1].at + waiting.within
            checked += 1
    assert checked


def test_who_was_not_counted_by_the_range_on_record_is_not_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The program died within a closing, after something had come too late for it."""
    for module in ("protocol.session.closings", "protocol.transcript.resuming"):
        monkeypatch.setattr(f"{module}.CLOSING_MEMBERS", 8)
    monkeypatch.setattr("protocol.session.closings._BYTES", 1)
    variant = example_of("rr-clusters rr sparse").variant
    example = Example(variant, answers(variant.survey, 14))
    run, records = recorded(example, Schedule(seed=2, delay=0.4, late=150.0))
    items = [None, *map(decode_item, records[1:])]
    envelopes = [
        decode_envelope(item.envelope) if isinstance(item, Sent) else None for item in items
    ]
    closing = next(i for i, e in enumerate(envelopes) if e is not None and e.kind == "Closed")
    [first] = Resumed(run, records[: closing + 1]).past.closings
    assert not first.whole
    assert first.missed
    late = next(
        record
        for item, record in zip(items[closing:], records[closing:], strict=True)
        if isinstance(item, Delivered)
        and item.sender in first.missed
        and run.sent[item.sender, item.seq].kind == first.topic[0]
    )
    resumed = Resumed(run, [*records[:closing], late, records[closing]])
    unsaid = catch_up(resumed.machine, resumed.past, start=0.0)
    assert unsaid
    assert unsaid[0].kind == "Closed"


@pytest.mark.parametrize(
    "change",
    [
        lambda closed: b"\xa3no",
        lambda closed: pack(msgspec.structs.replace(closed, awaited=closed.awaited + b"\0")),
        lambda closed: pack(msgspec.structs.replace(closed, awaited=b"\xff" * len(closed.awaited))),
        lambda closed: pack(msgspec.structs.replace(closed, first=CLOSING_MEMBERS)),
    ],
)
def test_a_closing_that_cannot_be_is_refused(change: Callable[[Closed], bytes]) -> None:
    run, records = recorded(example_of("rr-joint"))
    codec = run.setting.charter.codec
    place, sent, envelope = next(
        (place, item, decode_envelope(item.envelope))
        for place, record in enumerate(records[1:], 1)
        if isinstance(item := decode_item(record), Sent)
        and decode_envelope(item.envelope).kind == Closed.kind()
    )
    closed = codec.decode(envelope.kind, envelope.body)
    assert isinstance(closed, Closed)
    forged = encode_envelope(msgspec.structs.replace(envelope, body=change(closed)))
    changed = encode_item(msgspec.structs.replace(sent, envelope=forged))
    with pytest.raises(TranscriptError, match="closing"):
        Resumed(run, [*records[:place], changed])
