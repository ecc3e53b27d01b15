"""Heads: what parties sign, what the hub takes, and what a verifier holds against a record."""

from __future__ import annotations

import msgspec
import pytest

from protocol.accounting.events import Derived
from protocol.audit.ledger import LedgerWriter
from protocol.audit.walk import steps
from protocol.crypto.merkle import EMPTY_ROOT, Tree, root_of
from protocol.errors import LocalProtocolError, PrivacyError, RemoteProtocolError
from protocol.messages import AGGREGATOR, RECORD, Envelope, Head, Message, PartyId
from protocol.session.exchange import Exchange
from protocol.session.fates import Verdict
from protocol.session.heads import fault_of, head_statement, is_signed, sign_head
from protocol.session.roles import Me, Seen
from protocol.session.roster import Identity
from protocol.session.variant import event_of
from protocol.transcript.entries import Sent
from protocol.transcript.header import header_of
from protocol.transcript.recorder import Recorder
from protocol.transcript.verification import verify
from protocol.wire.codec import decode_envelope, encode_envelope
from tests.protocol.sessions import Word
from tests.protocol.talks import ONE, TWO, aggregator, collect, hear, party, started
from tests.recorded.runs import recorded
from tests.recorded.signed import PARTIES, THREE, VARIANT, run_of, setting, signed_run
from transports.faults import Fault


def head_in(outbox: list[Envelope]) -> tuple[Envelope, Head]:
    """The last envelope, which has to be a head."""
    last = outbox[-1]
    decoded = msgspec.msgpack.decode(last.body, type=Head)
    assert (last.kind, last.recipient, last.seq) == ("Head", RECORD, len(outbox) - 1)
    return last, decoded


async def talk(me: Me) -> None:
    await me.broadcast((AGGREGATOR, TWO), Word("to both"))
    await me.send(AGGREGATOR, Word("to one"))


def test_a_party_ends_with_a_head_over_all_it_has_said() -> None:
    machine = started(party(talk))
    outbox = machine.take()
    assert [e.kind for e in outbox] == ["Word", "Word", "Word", "Head"]
    _, head = head_in(outbox)
    assert head.count == 3
    assert head.root == root_of(encode_envelope(e) for e in outbox[:-1])
    charter = machine.charter
    key = charter.roster.key(ONE)
    assert is_signed(head, session=charter.session, sender=ONE, key=key)
    signed = b"sottovoce head 1\0" + msgspec.msgpack.encode(
        [charter.session, "party-1", 3, head.root]
    )
    assert charter.roster.verify(ONE, head.signature, signed)


def test_a_party_that_says_nothing_signs_for_that() -> None:
    async def listen(me: Me) -> None:
        await me.receive(Word, AGGREGATOR)

    machine = started(party(listen))
    assert machine.take() == []
    hear(machine, AGGREGATOR, Word("x"))
    _, head = head_in(machine.take())
    assert (head.count, head.root) == (0, EMPTY_ROOT)


def test_a_refusal_is_signed_too() -> None:
    async def refuse(me: Me) -> None:
        raise PrivacyError("too dear")

    outbox = started(party(refuse)).take()
    assert [e.kind for e in outbox] == ["Declined", "Head"]
    assert head_in(outbox)[1].count == 1


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

    machine = party(talk)
    machine._identity = Broken(ONE, bytes(32))
    machine.start(0.0)
    assert [e.kind for e in machine.take()] == ["Word"] * 3
    assert isinstance(machine.failure, LocalProtocolError)
    assert machine.finished


def test_a_head_tells_whoever_can_guess_what_it_is_over() -> None:
    assert event_of(VARIANT, Head(0, EMPTY_ROOT, bytes(64)), Seen()) == Derived()
    # So it is charged, even if nothing is published afterwards.
    outcome = recorded(VARIANT, 3)
    writer = LedgerWriter(outcome.charter, (TWO,))
    for step in steps(outcome.charter.codec, outcome.entries):
        writer.add(step)
        if isinstance(step.message, Head):
            break
    assert writer.ledger(TWO).accounts[ONE].loss.record > 0


def test_a_head_is_no_message_between_members() -> None:
    machine = started(aggregator(collect))
    hear(machine, ONE, Head(0, EMPTY_ROOT, bytes(64)))
    assert [kept.reason for kept in machine.kept] == [
        "kind: not a kind that members send each other"
    ]


class Hub:
    """An exchange with a recorder, and one party's side of it."""

    def __init__(self, *, check_signatures: bool = True) -> None:
        self.where = setting()
        self.charter = self.where.charter
        self.parts: list[bytes] = []
        self.recorder = Recorder(self.parts.append, header_of(self.charter, seed=1))
        self.exchange = Exchange(
            self.charter, recorder=self.recorder, check_signatures=check_signatures
        )
        self.exchange.attach(ONE)
        self.said = Tree()

    def send(self, message: Message, *, to: PartyId = RECORD) -> None:
        body = self.charter.codec.encode(message)
        seq = self.said.count
        envelope = Envelope(self.charter.session, ONE, to, seq, message.kind(), body)
        self.exchange.accept(ONE, envelope, now=0.0)
        self.said.append(encode_envelope(envelope))

    def head(self, *, by: PartyId = ONE) -> Head:
        identity = self.where.identities[by]
        return sign_head(identity, session=self.charter.session, said=self.said)


def test_the_hub_takes_a_head_that_fits_and_nothing_after_it() -> None:
    hub = Hub()
    hub.send(hub.head())
    with pytest.raises(RemoteProtocolError, match="after the sender's head"):
        hub.send(hub.head())
    hub.recorder.close()
    assert verify(b"".join(hub.parts)).signed_by == (ONE,)


def test_the_hub_refuses_heads_that_would_be_held_against_it() -> None:
    good = Hub().head()
    for forged, reason in (
        (msgspec.structs.replace(good, count=1), "does not match the envelopes"),
        (msgspec.structs.replace(good, root=bytes(32)), "does not match the envelopes"),
        (msgspec.structs.replace(good, signature=bytes(64)), "not signed"),
        (Hub().head(by=TWO), "not signed"),
    ):
        with pytest.raises(RemoteProtocolError, match=reason):
            Hub().send(forged)
    with pytest.raises(RemoteProtocolError, match="sent by a party to the record"):
        Hub().send(good, to=AGGREGATOR)


def test_parties_of_ones_own_program_are_believed_to_sign() -> None:
    unsigned = msgspec.structs.replace(Hub().head(), signature=bytes(64))
    Hub(check_signatures=False).send(unsigned)
    with pytest.raises(RemoteProtocolError, match="does not match the envelopes"):
        Hub(check_signatures=False).send(msgspec.structs.replace(unsigned, count=1))


def test_a_run_in_which_all_sign() -> None:
    found = verify(signed_run().content)
    assert found.intact
    assert found.signed == "all"
    assert found.signed_by == setting().charter.roster.parties
    assert found.unsigned == ()


def test_a_run_in_which_some_sign() -> None:
    """One has no key here, one crashes before it has said anything."""
    found = verify(
        run_of(setting(), (Fault(verdict=Verdict.CRASH, sender=THREE),), unsigned=(ONE,)).content
    )
    assert found.intact
    assert found.signed == "some"
    assert found.unsigned == (ONE,)
    assert len(found.signed_by) == PARTIES - 2
    nobody = verify(run_of(setting(), unsigned=setting().charter.roster.parties).content)
    assert (nobody.intact, nobody.signed, nobody.signed_by) == (True, "none", ())


def test_judging_heads_one_by_one() -> None:
    where = setting()
    session = where.charter.session
    keys = {str(name): key for name, key in where.charter.roster.members}
    sent = [decode_envelope(e.envelope) for e in signed_run().entries if isinstance(e, Sent)]
    report, head = (e for e in sent if e.sender == ONE)
    said = Tree()
    said.append(encode_envelope(report))

    def judged(envelope: Envelope, tree: Tree = said, session: bytes = session) -> str | None:
        before, key = (tree.count, tree.root()), keys[envelope.sender]
        return fault_of(envelope, session=session, said=before, key=key)

    assert judged(head) is None
    mismatch = "the head over 1 does not match the envelopes before it, 0"
    assert judged(head, Tree()) == mismatch
    malformed = "malformed head: expected one sent by a party to the record"
    assert judged(msgspec.structs.replace(head, recipient=AGGREGATOR)) == malformed
    assert judged(msgspec.structs.replace(head, body=head.body + b"\0")) == malformed
    assert judged(msgspec.structs.replace(head, sender=AGGREGATOR)) == malformed
    unsigned = "the head is not signed by its sender"
    assert judged(msgspec.structs.replace(head, sender=TWO)) == unsigned
    assert judged(head, session=b"\0" * 16) == unsigned
    anothers = msgspec.structs.replace(head, sender=TWO)
    assert fault_of(anothers, session=session, said=None, key=None) is None


def test_a_statement_binds_all_that_it_says() -> None:
    base = {"session": bytes(16), "sender": ONE, "count": 1, "root": bytes(32)}
    changes = ({"session": b"\1" * 16}, {"sender": TWO}, {"count": 2}, {"root": b"\1" * 32})
    statements = {head_statement(**{**base, **change}) for change in ({}, *changes)}
    assert len(statements) == 5
