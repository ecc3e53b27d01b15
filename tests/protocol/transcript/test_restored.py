"""Records that go on from an older copy: they say so, and show it to whoever holds more."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import pytest

from protocol import AGGREGATOR, LocalProtocolError, PartyId, TranscriptError
from protocol.audit.audit import RESTORED, audit
from protocol.session.exchange import Exchange
from protocol.transcript.checkpoints import SignedCheckpoint, sign_checkpoint
from protocol.transcript.consistency import consistency_problems
from protocol.transcript.entries import Delivered, Departed, Restored, Sent
from protocol.transcript.header import make_header
from protocol.transcript.reader import Records, TranscriptReader
from protocol.transcript.receipts import Shown, is_restored
from protocol.transcript.recorder import RESTORED_NAMES, Recorder
from protocol.transcript.resuming import Past
from protocol.transcript.verification import verify
from protocol.wire.codec import decode_envelope
from tests.recorded.signed import ONE, TWO, setting, signed_run

SECRET = bytes(range(32))


class Written(NamedTuple):
    """A record as it grows, and who writes it."""

    parts: list[bytes]
    recorder: Recorder

    @property
    def content(self) -> bytes:
        self.recorder.flush()
        return b"".join(self.parts)

    def say(self, first: int, stop: int) -> None:
        """Record some of the small run, entry by entry."""
        sent = {}
        for place, entry in enumerate(signed_run().entries[:stop]):
            if place >= first and isinstance(entry, Departed):
                self.recorder.departed(entry.party, entry.reason, now=entry.at / 1e6)
            if isinstance(entry, Sent):
                envelope = decode_envelope(entry.envelope)
                sent[envelope.sender, envelope.seq] = envelope
                if place >= first:
                    self.recorder.sent(envelope, now=entry.at / 1e6)
            if place >= first and isinstance(entry, Delivered):
                self.recorder.delivered(sent[entry.sender, entry.seq], now=entry.at / 1e6)

    def checkpoint(self) -> SignedCheckpoint:
        """What the aggregator signs of it now."""
        return signed_of(self.recorder)


def signed_of(recorder: Recorder) -> SignedCheckpoint:
    """What the aggregator signs of a record now."""
    where = setting()
    root = recorder._log.root()
    return sign_checkpoint(
        where.identities[AGGREGATOR],
        session=where.charter.session,
        size=recorder.size,
        root=root,
    )


def begun() -> Written:
    parts: list[bytes] = []
    where = setting()
    recorder = Recorder(
        parts.append,
        make_header(where.charter),
        signer=where.identities[AGGREGATOR],
        secret=SECRET,
        acknowledging=True,
    )
    return Written(parts, recorder)


def rolled_back(copied: int, without: tuple[PartyId, ...] = ()) -> tuple[SignedCheckpoint, Written]:
    """What a party holds of a record, and the record that goes on from an older copy."""
    first, second = begun(), begun()
    entries = len(signed_run().entries)
    first.say(0, entries)
    second.say(0, copied)
    second.recorder.restore(without, now=1.0)
    second.say(copied, entries)
    return first.checkpoint(), second


@pytest.mark.parametrize("at", range(1, len(signed_run().entries), 3))
def test_a_record_extends_what_it_has_kept(at: int) -> None:
    record = begun()
    record.say(0, at)
    held = record.checkpoint()
    record.say(at, at + 2)
    assert record.recorder.extends(held)
    assert consistency_problems(record.recorder.compared(held), held) == ()
    assert record.recorder.shown_restored(held) is None


def test_an_older_copy_extends_nothing_newer() -> None:
    for copied in range(1, len(signed_run().entries) - 1):
        first, second = begun(), begun()
        first.say(0, copied + 1)
        second.say(0, copied)
        held = first.checkpoint()
        assert not second.recorder.extends(held)
        found = consistency_problems(second.recorder.compared(held), held)
        assert found[0] == "the earlier checkpoint does not come before the later one"


def test_a_record_that_was_restored_shows_that_to_whoever_holds_more() -> None:
    held, record = rolled_back(3)
    recorder = record.recorder
    assert not recorder.extends(held)
    later, shown = recorder.compared(held).later, recorder.shown_restored(held)
    assert shown is not None
    assert is_restored(shown, later, held)
    # Whoever holds what the copy had is shown that it is kept, and is owed nothing.
    early = begun()
    early.say(0, 3)
    assert recorder.extends(early.checkpoint())
    assert recorder.shown_restored(early.checkpoint()) is None


def test_what_does_not_show_it_is_refused() -> None:
    held, record = rolled_back(3)
    later, shown = record.recorder.compared(held).later, record.recorder.shown_restored(held)
    assert shown is not None
    replace = msgspec.structs.replace
    salt, path = record.recorder._log.shown(2, later.size)
    assert not is_restored(replace(shown, index=shown.index + 1), later, held)
    assert not is_restored(replace(shown, salt=bytes(16)), later, held)
    assert not is_restored(replace(shown, content=shown.content[:-1] + b"\xa0"), later, held)
    assert not is_restored(Shown(index=2, salt=salt, content=b"\x90", path=path), later, held)
    assert not is_restored(shown, later, replace(held, size=shown.index))


def test_an_audit_says_so() -> None:
    for without in ((), (ONE, TWO)):
        _, record = rolled_back(3, without)
        record.recorder.close()
        content = record.content
        found = audit(lambda content=content: [content], type(setting().charter.variant))
        [remark] = found.remarks
        assert (remark.text.startswith(RESTORED), remark.entries) == (True, (3,))
        assert (", and without party-1, party-2: " in remark.text) is bool(without)
        assert verify(content).faults == ()
        assert found.verdict == "sound"


def test_who_holds_more_finds_that_it_is_another_record() -> None:
    held, record = rolled_back(3)
    record.recorder.close()
    assert verify(record.content, checkpoint=held).published == "differs"


def test_it_names_members_only() -> None:
    with pytest.raises(LocalProtocolError, match="not on the roster"):
        begun().recorder.restore([PartyId("carl")], now=0.0)


def test_of_many_names_each_entry_has_some() -> None:
    record = begun()
    record.recorder.restore([ONE] * (RESTORED_NAMES + 1), now=0.0)
    found = [entry for entry in TranscriptReader(record.content) if isinstance(entry, Restored)]
    assert [len(entry.without) for entry in found] == [RESTORED_NAMES, 1]


def test_whoever_goes_on_with_it_knows() -> None:
    _, record = rolled_back(3, (ONE,))
    where, parts = setting(), list[bytes]()
    recorder = Recorder(
        parts.append,
        make_header(where.charter),
        signer=where.identities[AGGREGATOR],
        secret=SECRET,
        acknowledging=True,
        resumed=True,
    )
    records = Records([record.content])
    records.header(next(iter(records)))
    Past(where.charter, recorder, Exchange(where.charter, recorder=recorder)).read(records)
    assert recorder.restored == record.recorder.restored == 4
    recorder.go_on()
    assert parts == []


def test_the_checkpoint_after_it_is_written_if_a_crash_has_lost_it() -> None:
    where, parts = setting(), list[bytes]()
    record = begun()
    record.recorder.restore(now=0.0)
    _, *rest = Records([record.content])
    resumed = Recorder(
        parts.append,
        make_header(where.charter),
        signer=where.identities[AGGREGATOR],
        secret=SECRET,
        acknowledging=True,
        resumed=True,
    )
    for content in rest[:-1]:
        resumed.recall(content)
    resumed.go_on()
    assert resumed.checkpoint is not None
    assert resumed.checkpoint.size == 2


def test_a_name_that_is_on_no_roster_is_refused_when_it_is_read() -> None:
    record = begun()
    item = msgspec.msgpack.encode(Restored(at=0, without=("carl",)))
    with pytest.raises(TranscriptError, match="not on the roster"):
        record.recorder.recall(item)
