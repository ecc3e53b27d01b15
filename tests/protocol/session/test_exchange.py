"""The exchange: what it refuses, whom it tells, and in which order things arrive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol import AGGREGATOR, RECORD, PartyId, RemoteProtocolError
from protocol.messages import SWITCH, Envelope, Left
from protocol.session.exchange import Delivery, Exchange, Ruling
from protocol.session.fates import PASS, Fate, Verdict
from protocol.transcript.entries import EXCERPT_BYTES, Delivered, Departed, Hindered, Refused, Sent
from protocol.transcript.header import make_header
from protocol.transcript.reader import TranscriptReader
from protocol.transcript.recorder import Recorder
from protocol.wire.codec import encode_envelope
from tests.protocol.sessions import Word, charter_of, envelope, talk

CHARTER = charter_of(talk(), parties=4)
ONE, TWO, THREE, FOUR = CHARTER.roster.parties


class Hub:
    """An exchange with everybody connected, its record and its fates at hand."""

    def __init__(self, *members: PartyId) -> None:
        self.parts: list[bytes] = []
        self.recorder = Recorder(self.parts.append, make_header(CHARTER, seed=1))
        self.fates: dict[int, Fate] = {}
        self.exchange = Exchange(
            CHARTER, recorder=self.recorder, fate=lambda e: self.fates.get(e.seq, PASS)
        )
        self.seqs: dict[PartyId, int] = {}
        for member in members or (AGGREGATOR, *CHARTER.roster.parties):
            self.exchange.attach(member)

    def send(
        self, sender: PartyId, recipient: PartyId, *, now: float = 0.0, fate: Fate = PASS
    ) -> Sequence[Delivery]:
        ruling = self.rule(sender, recipient, now=now, fate=fate)
        assert ruling.ends is None
        return ruling.deliveries

    def rule(
        self, sender: PartyId, recipient: PartyId, *, now: float = 0.0, fate: Fate = PASS
    ) -> Ruling:
        seq = self.seqs.get(sender, 0)
        self.seqs[sender] = seq + 1
        self.fates[seq] = fate
        return self.exchange.accept(
            sender, [envelope(CHARTER, sender, seq, Word("x"), to=recipient)], now=now
        )

    def entries(self) -> list[Any]:
        self.recorder.flush()
        return list(TranscriptReader(b"".join(self.parts)))


def notices_of(deliveries: Sequence[Delivery]) -> list[tuple[PartyId, Left]]:
    """To whom, and what, notices say."""
    notices = []
    for delivery in deliveries:
        notice = CHARTER.codec.decode(delivery.envelope.kind, delivery.envelope.body)
        assert delivery.envelope.sender == SWITCH
        assert isinstance(notice, Left)
        notices.append((delivery.envelope.recipient, notice))
    return notices


GOOD = envelope(CHARTER, ONE, 0, Word("x"), to=TWO)


def test_what_is_good_is_delivered_and_recorded() -> None:
    hub = Hub()
    ruling = hub.exchange.accept(ONE, [GOOD], now=1.0)
    (delivery,) = ruling.deliveries
    assert delivery.envelope is GOOD
    assert (delivery.due, delivery.repeat, ruling.ends) == (0.0, False, None)
    hub.exchange.delivered(ruling.deliveries, now=2.0)
    sent, delivered = hub.entries()
    assert isinstance(sent, Sent)
    assert sent.envelope == delivery.encoded
    assert delivered == Delivered(at=2_000_000, sender=ONE, recipient=TWO, seq=0, repeat=False)
    assert (hub.exchange.messages, hub.exchange.bytes) == (1, len(sent.envelope))


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"session": bytes(16)}, "session"),
        ({"session": b""}, "session"),
        ({"sender": TWO}, "sender"),
        ({"sender": AGGREGATOR}, "sender"),
        ({"sender": SWITCH}, "sender"),
        ({"seq": 1}, "seq"),
        ({"seq": -1}, "seq"),
        ({"recipient": ONE}, "recipient"),
        ({"recipient": PartyId("nobody")}, "recipient"),
        ({"recipient": SWITCH}, "recipient"),
        ({"kind": "Report"}, "kind"),
        ({"kind": ""}, "kind"),
        ({"body": bytes(5000)}, "Word"),
    ],
    ids=str,
)
def test_refusals_are_named_and_recorded(change: dict[str, Any], field: str) -> None:
    hub = Hub()
    with pytest.raises(RemoteProtocolError) as caught:
        hub.exchange.accept(ONE, [msgspec.structs.replace(GOOD, **change)], now=0.0)
    assert caught.value.field == field
    (refused,) = hub.entries()
    assert isinstance(refused, Refused)
    assert (refused.link, refused.reason) == (ONE, str(caught.value))
    # It may be an honest party's report, and the record is for others to read.
    assert refused.excerpt == b""
    assert (hub.exchange.messages, hub.exchange.bytes) == (0, 0)
    assert hub.exchange.accept(ONE, [GOOD], now=0.0).deliveries


def test_a_repeated_number_is_refused() -> None:
    hub = Hub()
    hub.exchange.accept(ONE, [GOOD], now=0.0)
    with pytest.raises(RemoteProtocolError, match="seq: 0, expected 1"):
        hub.exchange.accept(ONE, [GOOD], now=0.0)
    with pytest.raises(RemoteProtocolError, match="seq: 2, expected 1"):
        hub.exchange.accept(ONE, [msgspec.structs.replace(GOOD, seq=2)], now=0.0)


def test_long_foreign_text_is_cut() -> None:
    hub = Hub()
    for change in ({"sender": "x" * 10_000}, {"recipient": "x" * 10_000}, {"kind": "x" * 10_000}):
        with pytest.raises(RemoteProtocolError) as caught:
            hub.exchange.accept(ONE, [msgspec.structs.replace(GOOD, **change)], now=0.0)
        assert len(str(caught.value)) < 200
    assert all(len(entry.excerpt) <= EXCERPT_BYTES for entry in hub.entries())


def test_the_record_is_told_and_nobody_else() -> None:
    hub = Hub()
    assert hub.send(ONE, RECORD, fate=Fate(Verdict.CRASH)) == ()
    assert hub.exchange.messages == 1


def test_connecting() -> None:
    hub = Hub(AGGREGATOR, ONE)
    with pytest.raises(RemoteProtocolError, match="not on the roster"):
        hub.exchange.attach(PartyId("nobody"))
    with pytest.raises(RemoteProtocolError, match="connected already"):
        hub.exchange.attach(ONE)
    hub.exchange.leave(ONE, "closed its link", now=0.0)
    hub.exchange.leave(TWO, "never came", now=0.0)
    for gone in (ONE, TWO):
        with pytest.raises(RemoteProtocolError, match="has left"):
            hub.exchange.attach(gone)
    assert dict(hub.exchange.departed) == {ONE: "closed its link", TWO: "never came"}


def test_who_is_not_connected_is_not_heard() -> None:
    hub = Hub(AGGREGATOR)
    assert hub.exchange.accept(ONE, [GOOD], now=0.0) == Ruling()
    hub.exchange.attach(ONE)
    hub.exchange.leave(ONE, "x", now=0.0)
    assert hub.exchange.accept(ONE, [GOOD], now=0.0) == Ruling()
    assert [type(entry) for entry in hub.entries()] == [Departed]


def test_notices_go_to_whom_it_concerns() -> None:
    hub = Hub()
    hub.send(ONE, TWO)
    hub.send(THREE, ONE)
    hub.send(FOUR, AGGREGATOR)
    expected = Left(ONE, "crashed")
    assert notices_of(hub.exchange.leave(ONE, "crashed", now=0.0)) == [
        (AGGREGATOR, expected),
        (TWO, expected),
        (THREE, expected),
    ]
    assert hub.exchange.leave(ONE, "again", now=0.0) == []
    assert hub.exchange.leave(PartyId("nobody"), "x", now=0.0) == []


def test_everybody_learns_that_the_aggregator_is_gone() -> None:
    hub = Hub(AGGREGATOR, ONE, TWO, THREE)
    hub.exchange.leave(TWO, "x", now=0.0)
    notices = notices_of(hub.exchange.leave(AGGREGATOR, "closed its link", now=0.0))
    # The fourth has not come yet; its mail waits for it.
    assert [name for name, _ in notices] == [ONE, THREE, PartyId("party-4")]


def test_writing_to_who_is_gone_brings_a_notice() -> None:
    hub = Hub(AGGREGATOR, ONE)
    assert notices_of(hub.exchange.leave(TWO, "never came", now=0.0)) == [
        (AGGREGATOR, Left(TWO, "never came"))
    ]
    assert notices_of(hub.send(ONE, TWO)) == [(ONE, Left(TWO, "never came"))]
    assert hub.exchange.messages == 1


def test_notices_are_not_on_record_as_messages() -> None:
    hub = Hub()
    hub.exchange.delivered(hub.exchange.leave(ONE, "crashed", now=0.0), now=0.0)
    assert [type(entry) for entry in hub.entries()] == [Departed]


def test_fates() -> None:
    hub = Hub()
    assert hub.send(ONE, TWO, fate=Fate(Verdict.DROP)) == ()
    twice = hub.send(ONE, TWO, fate=Fate(Verdict.DUPLICATE))
    assert [(d.envelope.seq, d.repeat) for d in twice] == [(1, False), (1, True)]
    cut = hub.rule(ONE, TWO, fate=Fate(Verdict.CUT))
    assert cut == Ruling((), "link cut")
    crash = hub.rule(THREE, TWO, fate=Fate(Verdict.CRASH))
    assert crash == Ruling((), "crashed")
    sent = [entry for entry in hub.entries() if isinstance(entry, Sent)]
    # What a crash prevents was never sent; what is lost was.
    assert len(sent) == 3
    assert hub.exchange.messages == 3


def test_delays_keep_the_order_of_a_pair_and_no_other() -> None:
    hub = Hub()
    (first,) = hub.send(ONE, TWO, now=1.0, fate=Fate(delay=4.0))
    (second,) = hub.send(ONE, TWO, now=2.0)
    (aside,) = hub.send(ONE, THREE, now=2.0)
    (third,) = hub.send(ONE, TWO, now=3.0, fate=Fate(delay=1.0))
    (later,) = hub.send(ONE, TWO, now=7.0, fate=Fate(delay=1.0))
    assert [d.due for d in (first, second, aside, third, later)] == [5.0, 5.0, 0.0, 5.0, 8.0]


def test_a_notice_does_not_overtake_what_was_said_before() -> None:
    hub = Hub()
    hub.send(ONE, TWO, now=1.0, fate=Fate(delay=4.0))
    hub.send(ONE, AGGREGATOR, now=1.0)
    due = {n.envelope.recipient: n.due for n in hub.exchange.leave(ONE, "crashed", now=2.0)}
    assert due == {AGGREGATOR: 0.0, TWO: 5.0}


@settings(deadline=None, max_examples=60)
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from([(ONE, TWO), (ONE, THREE), (TWO, ONE)]),
            st.floats(0.0, 3.0),
            st.sampled_from([0.0, 0.0, 0.5, 2.0]),
        ),
        max_size=30,
    )
)
def test_due_times_of_a_pair_never_fall(
    steps: list[tuple[tuple[PartyId, PartyId], float, float]],
) -> None:
    hub = Hub()
    now = 0.0
    due: dict[tuple[PartyId, PartyId], float] = {}
    for pair, pause, delay in steps:
        now += pause
        (delivery,) = hub.send(*pair, now=now, fate=Fate(delay=delay))
        arrives = max(now, delivery.due)
        assert arrives >= now + delay
        assert arrives >= due.get(pair, 0.0)
        due[pair] = arrives


def test_a_bare_exchange_keeps_no_record() -> None:
    exchange = Exchange(CHARTER)
    exchange.attach(ONE)
    exchange.refuse("10.0.0.9:4000", "not a frame", now=0.0)
    with pytest.raises(RemoteProtocolError):
        exchange.accept(ONE, [msgspec.structs.replace(GOOD, seq=3)], now=0.0)
    assert notices_of(exchange.leave(ONE, "x", now=0.0)) == [(AGGREGATOR, Left(ONE, "x"))]
    assert exchange.messages == 0


def test_a_member_cannot_pass_for_the_switch() -> None:
    hub = Hub()
    forged = Envelope(CHARTER.session, SWITCH, TWO, 0, "Left", b"")
    with pytest.raises(RemoteProtocolError, match="sender"):
        hub.exchange.accept(ONE, [forged], now=0.0)


@pytest.mark.parametrize(
    "change",
    [
        {"session": bytes(32)},
        {"sender": TWO},
        {"recipient": AGGREGATOR},
        {"recipient": RECORD},
        {"recipient": FOUR},
        {"recipient": ONE},
        {"seq": 0},
        {"seq": 3},
        {"kind": "Ask"},
        {"kind": "Declined"},
        {"kind": "Declined", "recipient": AGGREGATOR},
        {"kind": "Head"},
        {"body": CHARTER.codec.encode(Word("longer"))},
        {"body": bytes(5000)},
        {},
    ],
    ids=str,
)
@pytest.mark.parametrize("at_hand", [True, False])
def test_batches_are_ruled_as_envelope_by_envelope(change: dict[str, Any], at_hand: bool) -> None:
    said = [msgspec.structs.replace(GOOD, seq=seq) for seq in range(5)]
    said[2] = msgspec.structs.replace(said[2], **change)
    encoded = [*map(encode_envelope, said)] if at_hand else None
    outcomes = []
    for most in (1, 4, None):
        parts: list[bytes] = []
        recorder = Recorder(parts.append, make_header(CHARTER, seed=1))
        exchange = Exchange(CHARTER, recorder=recorder)
        exchange.attach(ONE)
        exchange.leave(FOUR, "x", now=0.0)
        deliveries: list[Delivery] = []
        taken, refusal = 0, ""
        while taken < len(said) and not refusal:
            try:
                ruling = exchange.accept(
                    ONE, said, now=0.0, encoded=encoded, start=taken, most=most
                )
            except RemoteProtocolError as error:
                refusal = str(error)
            else:
                taken += ruling.taken
                deliveries += ruling.deliveries
        recorder.flush()
        entries = list(TranscriptReader(b"".join(parts)))
        counts = exchange.messages, exchange.bytes, exchange.accepted(ONE)
        outcomes.append((taken, refusal, deliveries, entries, counts))
    assert outcomes[0] == outcomes[1] == outcomes[2]


def test_envelopes_alike_are_ruled_at_once() -> None:
    exchange = Exchange(CHARTER)
    exchange.attach(ONE)
    said = [msgspec.structs.replace(GOOD, seq=seq) for seq in range(4)]
    ruling = exchange.accept(ONE, said, now=0.0, most=3)
    assert (ruling.taken, [d.envelope for d in ruling.deliveries]) == (3, said[:3])


@pytest.mark.parametrize(("kind", "to"), [("Declined", AGGREGATOR), ("Head", RECORD)])
def test_last_words_are_ruled_alone(kind: str, to: PartyId) -> None:
    exchange = Exchange(CHARTER)
    exchange.attach(ONE)
    last = msgspec.structs.replace(GOOD, kind=kind, recipient=to)
    said = [last, msgspec.structs.replace(last, seq=1)]
    assert exchange.accept(ONE, said, now=0.0).taken == 1
    with pytest.raises(RemoteProtocolError, match=r"an envelope (after|other than)"):
        exchange.accept(ONE, said, now=0.0, start=1)


@pytest.mark.parametrize(
    ("fate", "held"),
    [
        (Fate(Verdict.DROP), True),
        (Fate(Verdict.CUT), True),
        (Fate(delay=4.0), True),
        (Fate(Verdict.DUPLICATE), False),
        (PASS, False),
    ],
)
def test_what_is_lost_or_delayed_is_said_to_be(fate: Fate, held: bool) -> None:
    hub = Hub()
    hub.rule(ONE, TWO, now=1.0, fate=fate)
    sent, *hindered = [entry for entry in hub.entries() if not isinstance(entry, Departed)]
    assert isinstance(sent, Sent)
    expected = Hindered(at=1_000_000, sender=ONE, recipient=TWO, seq=0)
    assert hindered == ([expected] if held else [])


def test_what_waits_behind_something_delayed_is_delayed() -> None:
    hub = Hub()
    for now, fate in ((1.0, Fate(delay=4.0)), (2.0, PASS), (6.0, PASS)):
        hub.send(ONE, TWO, now=now, fate=fate)
    hindered = [entry.seq for entry in hub.entries() if isinstance(entry, Hindered)]
    assert hindered == [0, 1]
