"""Heads: what parties sign, what the hub takes, and what a verifier holds against a record."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence

import msgspec
import pytest

from protocol import (
    AGGREGATOR,
    RECORD,
    Derived,
    LocalProtocolError,
    Me,
    Message,
    PartyId,
    PrivacyError,
    QuorumError,
    RemoteProtocolError,
    Seen,
)
from protocol.audit.ledger import LedgerWriter
from protocol.audit.walk import steps
from protocol.crypto.merkle import EMPTY_ROOT, Tree, leaf_hash, merkle_root
from protocol.messages import HEAD_BYTES, Declined, Envelope, Head, Wait
from protocol.session.exchange import Exchange
from protocol.session.fates import Verdict
from protocol.session.heads import Heard, decode_head, head_statement, sign_head
from protocol.session.roles import EARLY_PER_SENDER
from protocol.session.roster import Identity
from protocol.session.variant import message_event
from protocol.transcript.entries import Sent
from protocol.transcript.header import make_header
from protocol.transcript.recorder import Recorder
from protocol.transcript.verification import verify
from protocol.variants.reports.reports import Ask
from protocol.wire.codec import encode_envelope
from tests.protocol.sessions import Turn, Word, envelope, silent
from tests.protocol.talks import ONE, THREE, TWO, aggregator, collect, hear, party, started
from tests.recorded.runs import recorded
from tests.recorded.signed import PARTIES, VARIANT, finished_run, rewritten, setting, signed_run
from transports.faults import Fault

Waited = tuple[int, str, int, list[tuple[int, int, bytes]]]


def head_in(outbox: list[Envelope]) -> Head:
    """The last envelope, which has to be a head."""
    last = outbox[-1]
    assert (last.kind, last.recipient, last.seq) == ("Head", RECORD, len(outbox) - 1)
    return msgspec.msgpack.decode(last.body, type=Head)


def waits_in(outbox: list[Envelope]) -> list[tuple[int, str, int, tuple[tuple[int, int], ...]]]:
    """What the head in an outbox lists."""
    return [(w.said, w.kind, w.round, w.heard) for w in head_in(outbox).waits]


async def talk(me: Me) -> None:
    await me.broadcast((AGGREGATOR, TWO), Word("to both"))
    await me.receive(Word, THREE)
    await me.send(AGGREGATOR, Word("to one"))


def test_a_party_ends_with_a_head_over_all_it_has_said_and_heard() -> None:
    machine = started(party(talk))
    charter = machine.charter
    word = envelope(charter, THREE, 7, Word("x"), to=ONE)
    outbox = machine.take()
    machine.receive(word, 0.0)
    outbox += machine.take()
    assert [e.kind for e in outbox] == ["Word", "Word", "Word", "Head"]
    assert waits_in(outbox) == [(2, "Word", -1, ((3, 7),))]
    said = merkle_root(encode_envelope(e) for e in outbox[:-1])
    heard = merkle_root(
        [msgspec.msgpack.encode([2, "Word", -1, [[3, 7, leaf_hash(encode_envelope(word))]]])]
    )
    signed = b"sottovoce head 2\0" + msgspec.msgpack.encode(
        [charter.session, "party-1", 3, said, heard]
    )
    assert charter.roster.verify(ONE, head_in(outbox).signature, signed)


def test_a_party_that_says_and_hears_nothing_signs_for_that() -> None:
    machine = started(party(silent))
    outbox = machine.take()
    assert waits_in(outbox) == []
    charter = machine.charter
    signed = b"sottovoce head 2\0" + msgspec.msgpack.encode(
        [charter.session, "party-1", 0, EMPTY_ROOT, EMPTY_ROOT]
    )
    assert charter.roster.verify(ONE, head_in(outbox).signature, signed)


async def listen_long(me: Me) -> None:
    for round_ in range(1000):
        with contextlib.suppress(QuorumError):
            await me.receive(Turn, AGGREGATOR, round=round_, within=0.0)


def test_a_party_that_has_heard_more_than_a_head_holds_ends_without_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Head, "scalar_bytes", 4096)
    machine = started(party(listen_long))
    while not machine.finished:
        machine.expire(0.0)
    assert "'Head' takes" in str(machine.failure)
    assert "Head" not in {e.kind for e in machine.take()}


async def listen(me: Me) -> None:
    """Wait for what is there, what comes in time, what does not, and for somebody who is gone."""
    await me.gather(Turn, (THREE, AGGREGATOR, TWO), round=1)
    for wait in (
        me.gather(Turn, (AGGREGATOR, TWO, THREE), round=2, within=5.0),
        me.gather(Turn, (TWO, THREE), round=3, within=5.0, at_least=2),
        me.receive(Turn, TWO, round=4),
        me.receive(Turn, AGGREGATOR, round=5, within=5.0),
    ):
        with contextlib.suppress(QuorumError):
            await wait


SAID = tuple(
    (sender, Turn(round_, "x"))
    for sender, round_ in ((AGGREGATOR, 1), (TWO, 1), (THREE, 1), (AGGREGATOR, 2), (THREE, 3))
)
"""All that is said to a party that listens."""


def heard_of(order: Sequence[int]) -> list[Envelope]:
    """The outbox of a party that listens, where what is said comes in this order."""
    machine = started(party(listen))
    for place in order:
        sender, message = SAID[place]
        item = envelope(machine.charter, sender, 10 + place, message, to=ONE)
        # The second has no effect, and what nobody awaits neither.
        machine.receive(item, 0.0)
        machine.receive(item, 0.0)
    hear(machine, TWO, Turn(9, "never awaited"), seq=90)
    machine.expire(10.0)
    hear(machine, TWO, Turn(2, "late"), seq=91)
    machine.expire(20.0)
    machine.gone(TWO, "left", 20.0)
    machine.expire(30.0)
    assert machine.finished
    return machine.take()


def test_a_head_lists_what_each_wait_returned() -> None:
    assert waits_in(heard_of(range(5))) == [
        (0, "Turn", 1, ((0, 10), (2, 11), (3, 12))),
        (1, "Turn", 2, ((0, 13),)),
        (2, "Turn", 3, ((3, 14),)),
        (3, "Turn", 4, ()),
        (3, "Turn", 5, ()),
    ]


@pytest.mark.parametrize("order", [(2, 4, 0, 3, 1), (1, 0, 3, 2, 4)])
def test_a_head_does_not_depend_on_the_order_of_arrival(order: Sequence[int]) -> None:
    assert heard_of(order) == heard_of(range(5))


def test_a_refusal_is_signed_as_far_as_the_party_came() -> None:
    async def refuse(me: Me) -> None:
        await me.receive(Word, AGGREGATOR)
        raise PrivacyError("too dear")

    machine = started(party(refuse))
    hear(machine, AGGREGATOR, Word("x"))
    outbox = machine.take()
    assert [e.kind for e in outbox] == ["Declined", "Head"]
    assert waits_in(outbox) == [(0, "Word", -1, ((0, 0),))]


def test_who_is_asked_too_much_signs_without_the_open_wait() -> None:
    machine = started(party(lambda me: me.gather(Word, (AGGREGATOR, TWO))))
    hear(machine, TWO, Word("x"))
    for i in range(EARLY_PER_SENDER + 1):
        hear(machine, AGGREGATOR, Turn(i, "junk"), seq=i)
    outbox = machine.take()
    assert [e.kind for e in outbox] == ["Declined", "Head"]
    assert waits_in(outbox) == []


def test_who_is_cut_off_or_fails_signs_nothing() -> None:
    async def fail(me: Me) -> None:
        await me.send(AGGREGATOR, Word("x"))
        raise ValueError("a bug")

    async def wait(me: Me) -> None:
        await me.send(AGGREGATOR, Word("x"))
        await me.receive(Word, AGGREGATOR)

    assert [e.kind for e in started(party(fail)).take()] == ["Word"]
    waiting = started(party(wait))
    waiting.abandon("its link has ended")
    assert [e.kind for e in waiting.take()] == ["Word"]


def test_the_aggregator_gives_no_head() -> None:
    machine = started(aggregator(collect))
    machine.expire(10.0)
    assert [e.kind for e in machine.take()] == ["Closed", "Word"]


def test_a_key_that_does_not_sign_costs_no_words() -> None:
    class Broken(Identity):
        def sign(self, content: bytes) -> bytes:
            raise LocalProtocolError("no key")

    async def speak(me: Me) -> None:
        await me.broadcast((AGGREGATOR, TWO), Word("x"))

    machine = party(speak)
    machine._identity = Broken(ONE, bytes(32))
    machine.start(0.0)
    assert [e.kind for e in machine.take()] == ["Word"] * 2
    assert isinstance(machine.failure, LocalProtocolError)
    assert machine.finished


def test_a_head_tells_whoever_can_guess_what_it_is_over() -> None:
    assert message_event(VARIANT, Head((), bytes(64)), Seen(), RECORD) == Derived()
    # So it is charged, even if nothing is published afterwards.
    outcome = recorded(VARIANT, 3)
    writer = LedgerWriter(outcome.charter)
    for step in steps(outcome.charter.codec, outcome.entries):
        writer.add(step)
        if isinstance(step.message, Head):
            break
    assert writer.ledger(TWO).unsigned[ONE].loss.record > 0


def test_a_head_is_no_message_between_members() -> None:
    machine = started(aggregator(collect))
    hear(machine, ONE, Head((), bytes(64)))
    assert [kept.reason for kept in machine.kept] == [
        "kind: not a kind that members send each other"
    ]


class Hub:
    """An exchange with a recorder, one party's side of it, and the aggregator's."""

    def __init__(self, *, judge_heads: bool = True) -> None:
        self.where = setting()
        self.charter = self.where.charter
        self.parts: list[bytes] = []
        self.recorder = Recorder(
            self.parts.append, make_header(self.charter, seed=1), judge_heads=judge_heads
        )
        self.exchange = Exchange(self.charter, recorder=self.recorder)
        self.exchange.attach(ONE)
        self.exchange.attach(AGGREGATOR)
        self.said = Tree()
        # (place, seq, hash) of what the aggregator has said to the party: delivered, under way, to
        # another, and delivered again.
        self.asked = [
            self.ask(0, ONE),
            self.ask(1, ONE, delivered=False),
            self.ask(2, TWO),
            self.ask(3, ONE),
        ]

    def ask(self, seq: int, to: PartyId, *, delivered: bool = True) -> tuple[int, int, bytes]:
        ask = Ask(VARIANT.survey.digest, VARIANT.blocks)
        item = envelope(self.charter, AGGREGATOR, seq, ask, to=to)
        ruling = self.exchange.accept(AGGREGATOR, [item], now=0.0)
        if delivered:
            self.exchange.delivered(ruling.deliveries, now=0.0)
        return 0, seq, leaf_hash(encode_envelope(item))

    def send(self, message: Message, *, to: PartyId = RECORD) -> None:
        seq = self.said.count
        item = envelope(self.charter, ONE, seq, message, to=to)
        self.exchange.accept(ONE, [item], now=0.0)
        self.said.append(encode_envelope(item))

    def head(self, *waits: Waited, by: PartyId = ONE) -> Head:
        """A head that the party could sign."""
        heard = Heard()
        for wait in waits:
            heard.add(*wait)
        identity = self.where.identities[by]
        return sign_head(identity, session=self.charter.session, said=self.said, heard=heard)


def test_the_hub_takes_a_head_that_fits_and_nothing_after_it() -> None:
    hub = Hub()
    hub.send(hub.head((0, "Ask", -1, [hub.asked[0]]), (0, "Ask", 2, []), (0, "?", 1, [])))
    with pytest.raises(RemoteProtocolError, match="after the sender's head"):
        hub.send(hub.head())
    hub.recorder.close()
    assert verify(b"".join(hub.parts)).signed_by == (ONE,)


NOT_DELIVERED = "no such '.*' was delivered"
TWICE = "out of order or heard twice"
UNFIT: dict[str, tuple[Callable[[Hub], list[Waited]], str]] = {
    "never sent": (lambda hub: [(0, "Ask", -1, [(0, 9, bytes(32))])], NOT_DELIVERED),
    "a large number": (lambda hub: [(0, "Ask", -1, [(0, 2**63 - 1, bytes(32))])], NOT_DELIVERED),
    "of nobody": (lambda hub: [(0, "Ask", -1, [(99, 0, bytes(32))])], NOT_DELIVERED),
    "of who said nothing": (lambda hub: [(0, "Ask", -1, [(2, 0, bytes(32))])], NOT_DELIVERED),
    "under way": (lambda hub: [(0, "Ask", -1, [hub.asked[1]])], NOT_DELIVERED),
    "to another": (lambda hub: [(0, "Ask", -1, [hub.asked[2]])], NOT_DELIVERED),
    "another kind": (lambda hub: [(0, "Report", -1, [hub.asked[0]])], NOT_DELIVERED),
    "an unknown kind": (lambda hub: [(0, "?", -1, [hub.asked[0]])], NOT_DELIVERED),
    "another content": (lambda hub: [(0, "Ask", -1, [(0, 0, bytes(32))])], "has not signed"),
    "twice in one wait": (lambda hub: [(0, "Ask", -1, [hub.asked[0]] * 2)], TWICE),
    "twice in two waits": (lambda hub: [(0, "Ask", i, [hub.asked[0]]) for i in (1, 2)], TWICE),
    "two of one sender": (lambda hub: [(0, "Ask", -1, [hub.asked[0], hub.asked[3]])], TWICE),
    "said too much": (lambda hub: [(1, "Ask", -1, [])], "a wait after 1 envelopes: expected 0 to"),
    "said falls": (lambda hub: [(1, "Ask", 1, []), (0, "Ask", 2, [])], "expected 1 to 1"),
}


@pytest.mark.parametrize("what", UNFIT)
def test_heads_that_do_not_fit_the_record(what: str) -> None:
    """The hub refuses them, and a verifier finds them on the record of a hub that does not."""
    waits, reason = UNFIT[what]
    for judged in (True, False):
        hub = Hub(judge_heads=judged)
        if what == "said falls":
            hub.send(Declined("terms"), to=AGGREGATOR)
        head = hub.head(*waits(hub))
        if judged:
            with pytest.raises(RemoteProtocolError, match=reason):
                hub.send(head)
        else:
            hub.send(head)
            hub.recorder.close()
            found = verify(b"".join(hub.parts))
            assert [(fault.rule, found.signed) for fault in found.faults] == [("head", "none")]
            assert re.search(reason, found.faults[0].message)


def test_the_hub_refuses_heads_that_are_not_signed_by_their_sender() -> None:
    forged = msgspec.structs.replace(Hub().head(), signature=bytes(64))
    for head in (forged, Hub().head(by=TWO)):
        with pytest.raises(RemoteProtocolError, match="has not signed"):
            Hub().send(head)
        # Of ones own program parties are believed to sign.
        Hub(judge_heads=False).send(head)
    with pytest.raises(RemoteProtocolError, match="sent by a party to the record"):
        Hub().send(Hub().head(), to=AGGREGATOR)


def test_a_run_in_which_all_sign() -> None:
    found = verify(signed_run().content)
    assert found.intact
    assert found.signed == "all"
    assert found.signed_by == setting().charter.roster.parties
    assert found.unsigned == ()


def test_a_run_in_which_some_sign() -> None:
    """One has no key here, one crashes before it has said anything."""
    found = verify(
        finished_run(
            setting(), (Fault(verdict=Verdict.CRASH, sender=THREE),), unsigned=(ONE,)
        ).content
    )
    assert found.intact
    assert found.signed == "some"
    assert found.unsigned == (ONE,)
    assert len(found.signed_by) == PARTIES - 2
    nobody = verify(finished_run(setting(), unsigned=setting().charter.roster.parties).content)
    assert (nobody.intact, nobody.signed, nobody.signed_by) == (True, "none", ())


def test_a_malformed_head_is_a_fault() -> None:
    run = signed_run()
    [head] = run.said("Head", ONE)
    place = run.entries.index(Sent(at=0, envelope=encode_envelope(head)))
    good = head.body
    for other in (good[:-1], good + b"\0", b"", b"\xc1", b"\x92\x90\xc4\x00"):
        found = verify(rewritten(run, lambda _, body=other: run.retold(place, body)).content)
        assert [fault.rule for fault in found.faults] == ["head"]
        assert ONE not in found.signed_by


def test_a_statement_binds_all_that_it_says() -> None:
    base = {"session": bytes(16), "sender": ONE, "count": 1, "said": bytes(32), "heard": bytes(32)}
    changes = (
        {"session": b"\1" * 16},
        {"sender": TWO},
        {"count": 2},
        {"said": b"\1" * 32},
        {"heard": b"\1" * 32},
    )
    statements = {head_statement(**{**base, **change}) for change in ({}, *changes)}
    assert len(statements) == 6


@pytest.mark.parametrize(("more", "read"), [(0, True), (1, False)])
def test_a_head_has_at_most_so_many_bytes(more: int, read: bool) -> None:
    """Whatever a header of somebody else's allows: a reader unfolds it in memory."""
    empty = len(msgspec.msgpack.encode(Head((Wait(0, "", -1, ()),) * 70_000, bytes(64))))
    waits = (Wait(0, "", -1, ()),) * ((HEAD_BYTES - (empty - 70_000 * 5)) // 5)
    body = msgspec.msgpack.encode(Head(waits, bytes(64)))
    body = msgspec.msgpack.encode(
        Head((Wait(0, "x" * (HEAD_BYTES - len(body) + more), -1, ()), *waits[1:]), bytes(64))
    )
    assert len(body) == HEAD_BYTES + more
    found = decode_head(Envelope(bytes(32), ONE, RECORD, 0, "Head", body))
    assert (found is not None) == read
