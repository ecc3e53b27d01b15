"""Ledgers written entry by entry: odd orders, odd messages, and what is passed on."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import msgspec
import numpy as np
import pytest

from protocol import (
    AGGREGATOR,
    RECORD,
    Block,
    Coalition,
    KeepUniform,
    LocalProtocolError,
    Message,
    PartyId,
    Plain,
    Public,
    Seen,
)
from protocol.audit.audit import audit
from protocol.audit.ledger import LedgerWriter, merged
from protocol.audit.walk import Step, steps
from protocol.messages import NO_ROUND, Closed, Declined, Envelope, Head, Left, Wait
from protocol.session.fates import Fate, Verdict
from protocol.session.roles import message_topic
from protocol.session.variant import message_event
from protocol.transcript.entries import Delivered, Entry, Sent
from protocol.variants import RRIndependent
from protocol.variants.reports.reports import Ask, Pooled, Report
from protocol.wire.codec import encode_envelope
from tests.every_variant import examples
from tests.protocol.sessions import SURVEY, Turn, Word, charter_of, envelope, talk
from tests.recorded.runs import fate_of, recorded

ONE, TWO, THREE = (PartyId(f"party-{i}") for i in (1, 2, 3))
SMOKES = KeepUniform.with_keep(2, p=0.7)
DRINKS = KeepUniform.with_keep(3, p=0.6)
VARIANT = RRIndependent.with_keep(SURVEY, 0.7)
CHARTER = charter_of(VARIANT)
ASK = Ask(SURVEY.digest, VARIANT.blocks)
REPORT = Report(np.array([[1, 2]], np.uint8))
WEAKER = tuple(
    Block(block.attributes, KeepUniform.with_keep(block.randomizer.size, p=0.1))
    for block in VARIANT.blocks
)


class Book:
    """A ledger written of entries.

    Args:
        signed: whether all parties have signed for having heard, at once, what was delivered.
    """

    def __init__(self, *, signed: bool = True) -> None:
        self.signed = signed
        self.entries: list[Entry] = []
        self.seqs: dict[str, int] = {}

    @property
    def writer(self) -> LedgerWriter:
        writer, walked = LedgerWriter(CHARTER), self.walked
        writer.start(self.heads() if self.signed else {})
        for step in walked:
            writer.add(step)
        return writer

    @property
    def walked(self) -> list[Step]:
        return list(steps(CHARTER.codec, self.entries))

    def heads(self) -> dict[PartyId, bytes]:
        """The heads of parties to whom nothing is lost."""
        said: Counter[PartyId] = Counter()
        waits: dict[PartyId, list[Wait]] = {name: [] for name in CHARTER.roster.parties}
        for step in self.walked:
            envelope, message = step.envelope, step.message
            if isinstance(step.entry, Sent) and envelope is not None:
                said[envelope.sender] += 1
            elif envelope is not None and message is not None and envelope.recipient in waits:
                slot = CHARTER.roster.position[envelope.sender], envelope.seq
                wait = Wait(said[envelope.recipient], *message_topic(message), (slot,))
                waits[envelope.recipient].append(wait)
        return {name: head_body(*listed) for name, listed in waits.items()}

    def sent(
        self,
        sender: str,
        message: Message | Envelope,
        *,
        to: str = AGGREGATOR,
        delivered: bool = True,
    ) -> None:
        seq = self.seqs.get(sender, 0)
        self.seqs[sender] = seq + 1
        if isinstance(message, Message):
            item = envelope(CHARTER, sender, seq, message, to=to)
        else:
            item = msgspec.structs.replace(message, seq=seq)
        self.add(Sent(at=0, envelope=encode_envelope(item)))
        if delivered:
            self.add(
                Delivered(at=0, sender=item.sender, recipient=item.recipient, seq=seq, repeat=False)
            )

    def add(self, entry: Entry) -> None:
        self.entries.append(entry)

    @property
    def epsilon(self) -> float:
        return self.writer.ledger(AGGREGATOR).record_epsilon


def head_body(*waits: Wait) -> bytes:
    return msgspec.msgpack.encode(Head(waits, bytes(64)))


AGREED = math.fsum(block.randomizer.epsilon for block in VARIANT.blocks)
LESS = math.fsum(block.randomizer.epsilon for block in WEAKER)


def test_an_answer_to_a_question() -> None:
    book = Book()
    book.sent(AGGREGATOR, ASK, to=ONE)
    book.sent(ONE, REPORT)
    assert book.epsilon == AGREED
    book.sent(ONE, REPORT)
    assert book.epsilon == 2 * AGREED


def test_an_answer_to_a_milder_question_costs_less() -> None:
    book = Book()
    book.sent(AGGREGATOR, Ask(SURVEY.digest, WEAKER), to=ONE)
    book.sent(ONE, REPORT)
    assert book.epsilon == LESS < AGREED


def test_a_milder_question_afterwards_makes_nothing_cheaper() -> None:
    book = Book()
    book.sent(AGGREGATOR, ASK, to=ONE)
    book.sent(AGGREGATOR, Ask(SURVEY.digest, WEAKER), to=ONE)
    book.sent(ONE, REPORT)
    assert book.epsilon == AGREED


@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(None, id="never asked"),
        pytest.param(Ask(bytes(32), VARIANT.blocks), id="about another survey"),
        pytest.param(Ask(SURVEY.digest, ()), id="about nothing"),
        pytest.param(Ask(SURVEY.digest, WEAKER[:1]), id="about one attribute"),
        pytest.param(
            Ask(SURVEY.digest, (Block(("drinks",), SMOKES), Block(("smokes",), DRINKS))),
            id="of other sizes",
        ),
        pytest.param(Ask(SURVEY.digest, (*WEAKER, Block(("weight",), SMOKES))), id="about more"),
    ],
)
def test_an_answer_to_no_question_may_be_anything(ask: Ask | None) -> None:
    book = Book()
    if ask is not None:
        book.sent(AGGREGATOR, ask, to=ONE)
    book.sent(ONE, REPORT)
    assert book.epsilon == math.inf
    ledger = book.writer.ledger(AGGREGATOR)
    assert set(ledger.attribute_epsilon.values()) == {math.inf}
    assert "true answers" in ledger.unbounded[0]


def test_a_question_under_way_is_no_question() -> None:
    book = Book()
    book.sent(AGGREGATOR, ASK, to=ONE, delivered=False)
    book.sent(AGGREGATOR, ASK, to=TWO)
    book.sent(ONE, REPORT)
    assert book.epsilon == math.inf


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("Report", b"\xc1"),
        ("Report", b""),
        ("Report", msgspec.msgpack.encode([["u1", [1, 2], b"\x02\x00"]])),
        ("Nothing", b""),
    ],
)
def test_malformed_words_may_be_the_answers_themselves(kind: str, body: bytes) -> None:
    book = Book()
    book.sent(AGGREGATOR, ASK, to=ONE)
    book.sent(ONE, Envelope(CHARTER.session, ONE, AGGREGATOR, 0, kind, body))
    assert book.epsilon == math.inf
    assert set(book.writer.ledger(AGGREGATOR).attribute_epsilon.values()) == {math.inf}
    assert len(book.writer.malformed) == 1
    assert book.writer.malformed[0].startswith("party-1 #0:")


@pytest.mark.parametrize("message", [ASK, Left(TWO, "smokes=yes")])
def test_kinds_out_of_place_may_be_the_answers_themselves(message: Message) -> None:
    book = Book()
    book.sent(ONE, message)
    assert book.epsilon == (0.0 if message is ASK else math.inf)


def test_the_kernels_kinds_have_events_in_every_variant() -> None:
    variant = talk()
    assert variant.reveals(Word("x"), Seen()) == Public()
    assert message_event(variant, Closed("Word", -1, 0, b"", b""), Seen(), RECORD) == Public()
    assert message_event(variant, Declined("terms"), Seen(), RECORD) == Public()
    assert message_event(variant, Left(ONE, "x"), Seen(), RECORD) == Plain(SURVEY.names)
    assert message_event(variant, Word("x"), Seen(), RECORD) == Public()


def test_a_refusal_costs_nothing() -> None:
    book = Book()
    book.sent(ONE, Declined("terms"))
    assert book.epsilon == 0.0
    assert dict(book.writer.ledger(AGGREGATOR).accounts) == {}


def test_the_aggregator_has_no_records_to_tell_of() -> None:
    book = Book()
    book.sent(AGGREGATOR, REPORT, to=ONE)
    book.sent(AGGREGATOR, Envelope(CHARTER.session, AGGREGATOR, TWO, 0, "Report", b"\xc1"), to=TWO)
    for observer in (AGGREGATOR, RECORD):
        assert dict(book.writer.ledger(observer).accounts) == {}
    assert len(book.writer.malformed) == 1


def test_a_duplicate_does_not_count_and_nothing_undelivered_is_seen() -> None:
    book = Book()
    book.add(Delivered(at=0, sender=AGGREGATOR, recipient=ONE, seq=0, repeat=False))
    book.sent(AGGREGATOR, ASK, to=ONE)
    book.add(Delivered(at=0, sender=AGGREGATOR, recipient=ONE, seq=0, repeat=True))
    book.sent(ONE, REPORT)
    assert book.epsilon == AGREED


def test_a_ledger_shows_no_messages() -> None:
    book = Book()
    book.sent(AGGREGATOR, ASK, to=ONE)
    book.sent(ONE, REPORT)
    shown = repr(book.writer.ledger(AGGREGATOR))
    assert shown == f"Ledger(observer='aggregator', parties=1, record_epsilon={AGREED:.6g})"


DEARER = tuple(
    Block(block.attributes, KeepUniform.with_keep(block.randomizer.size, p=0.59))
    for block in VARIANT.blocks
)


def heard_of(*waits: Wait) -> LedgerWriter:
    """A ledger of two answers to questions of different cost, by what party-1 has signed for."""
    book = Book()
    for blocks in (WEAKER, DEARER):
        book.sent(AGGREGATOR, Ask(SURVEY.digest, blocks), to=ONE)
    book.sent(ONE, REPORT)
    book.sent(ONE, REPORT)
    writer = LedgerWriter(CHARTER)
    writer.start({ONE: head_body(*waits)})
    for step in book.walked:
        writer.add(step)
    return writer


def test_an_answer_is_charged_by_what_its_party_has_signed_for() -> None:
    """Not by what was delivered first, or at all."""
    dear = math.fsum(block.randomizer.epsilon for block in DEARER)
    heard = Wait(0, "Ask", NO_ROUND, ((0, 1),))
    assert heard_of(heard).ledger(AGGREGATOR).record_epsilon == 2 * dear
    heard = Wait(0, "Ask", NO_ROUND, ((0, 0),))
    assert heard_of(heard).ledger(AGGREGATOR).record_epsilon == 2 * LESS


def test_what_was_heard_after_an_answer_does_not_explain_it() -> None:
    nothing, later = Wait(0, "Ask", NO_ROUND, ()), Wait(1, "Ask", NO_ROUND, ((0, 0),))
    account = heard_of(nothing, later).ledger(AGGREGATOR).accounts[ONE]
    assert [charge.loss.record for charge in account.trail] == [math.inf, LESS]
    assert heard_of().ledger(AGGREGATOR).record_epsilon == math.inf


def test_what_is_said_before_it_could_be_heard_may_be_anything() -> None:
    book = Book()
    book.sent(AGGREGATOR, ASK, to=ONE, delivered=False)
    book.sent(ONE, REPORT)
    book.add(Delivered(at=0, sender=AGGREGATOR, recipient=ONE, seq=0, repeat=False))
    book.sent(ONE, REPORT)
    writer = LedgerWriter(CHARTER)
    writer.start({ONE: head_body(Wait(0, "Ask", NO_ROUND, ((0, 0),)))})
    for step in book.walked:
        writer.add(step)
    trail = writer.ledger(AGGREGATOR).accounts[ONE].trail
    assert [charge.loss.record for charge in trail] == [math.inf, AGREED]
    assert writer.malformed == ["party-1 #0: what it reveals is unknown (TranscriptError)"]


@pytest.mark.parametrize(
    ("asked", "epsilon"),
    [((), math.inf), ((WEAKER,), AGREED), ((VARIANT.blocks,), AGREED), ((DEARER,), AGREED)],
)
def test_who_has_not_signed_is_charged_the_most_apart(asked: Any, epsilon: float) -> None:
    """Whatever the record says that it was asked; and more, if that follows from the record."""
    book = Book(signed=False)
    for blocks in asked:
        book.sent(AGGREGATOR, Ask(SURVEY.digest, blocks), to=ONE)
    book.sent(ONE, REPORT)
    ledger = book.writer.ledger(AGGREGATOR)
    assert (ledger.record_epsilon, dict(ledger.accounts)) == (0.0, {})
    assert (ledger.unsigned_epsilon, set(ledger.unsigned)) == (epsilon, {ONE})
    assert [charge.kind for charge in ledger.unsigned[ONE].trail] == ["Report"]
    assert ledger.attribute_epsilon == dict.fromkeys(SURVEY.names, 0.0)


def test_who_has_said_nothing_is_not_charged() -> None:
    book = Book(signed=False)
    book.sent(AGGREGATOR, ASK, to=ONE)
    book.sent(ONE, Declined("terms"))
    assert dict(book.writer.ledger(AGGREGATOR).unsigned) == {}


def test_who_leaves_between_two_rounds_may_have_told_more() -> None:
    """Where questions do not matter, too: a record may leave the later reports out."""
    [example] = [each for each in examples() if each.name == "privkvm"]
    most = example.variant.most()
    gone = fate_of(Fate(Verdict.CRASH), ONE, seq=1)
    run = recorded(example.variant, example.records, fate=gone)
    ledger = audit(lambda: (run.content,), type(example.variant)).ledger
    told = math.fsum(charge.loss.record for charge in ledger.unsigned[ONE].trail)
    assert 0 < told < most
    assert (set(ledger.unsigned), ledger.unsigned_epsilon) == ({ONE}, most)
    assert ledger.record_epsilon == pytest.approx(most)


def test_what_unsigned_parties_told_in_several_sessions_adds_up() -> None:
    """Who has not signed in one of them counts as unsigned in all."""
    ledgers = []
    for signed in (True, False):
        book = Book(signed=signed)
        book.sent(AGGREGATOR, ASK, to=ONE)
        book.sent(ONE, REPORT)
        ledgers.append(book.writer.ledger(AGGREGATOR))
    both = merged(ledgers)
    assert (dict(both.accounts), both.unsigned_epsilon) == ({}, 2 * AGREED)
    assert merged(ledgers[:1]).record_epsilon == AGREED


def test_a_variant_that_does_not_say_its_most_is_charged_everything() -> None:
    class Boundless(RRIndependent, frozen=True):
        def most(self) -> float:
            raise ValueError("unknown")

    charter = charter_of(Boundless.with_keep(SURVEY, 0.6))
    writer, book = LedgerWriter(charter), Book()
    book.sent(AGGREGATOR, ASK, to=ONE)
    book.sent(ONE, REPORT)
    for step in book.walked:
        writer.add(step)
    assert writer.ledger(AGGREGATOR).unsigned_epsilon == math.inf


def test_what_had_been_seen() -> None:
    seen = Seen()
    seen.add(ONE, Turn(0, "a"))
    seen.add(TWO, Turn(1, "b"))
    seen.add(ONE, Turn(1, "c"))
    seen.add(ONE, Turn(1, "d"))
    seen.add(ONE, Word("e"))
    seen.add(ONE, Word("f"))
    assert seen.get(Turn, ONE, round=0) == Turn(0, "a")
    assert seen.get(Turn, ONE, round=1) == Turn(1, "c")
    assert seen.get(Turn, TWO, round=1) == Turn(1, "b")
    assert seen.get(Turn, TWO, round=0) is None
    assert seen.get(Word, ONE) == Word("e")
    assert seen.get(Word, THREE) is None


@pytest.mark.parametrize(("kind", "round_"), [(Turn, None), (Word, 0)])
def test_a_kind_in_rounds_is_looked_up_by_its_round(
    kind: type[Message], round_: int | None
) -> None:
    """Which of two is the later one a ledger cannot tell: it knows what was delivered alone."""
    with pytest.raises(LocalProtocolError, match="give a round if, and only if"):
        Seen().get(kind, AGGREGATOR, round=round_)


@pytest.mark.parametrize("word", [ASK, Pooled(REPORT.codes, np.array([1], np.uint32))])
def test_what_is_passed_on_tells_what_had_passed(word: Message) -> None:
    """The aggregator may hide what it knows even in a question."""
    book = Book()
    for party in (ONE, TWO, THREE):
        book.sent(AGGREGATOR, ASK, to=party)
    book.sent(TWO, REPORT)
    assert dict(book.writer.ledger(ONE).accounts) == {}
    book.sent(AGGREGATOR, word, to=ONE)
    book.sent(THREE, REPORT)
    learned = book.writer.ledger(ONE)
    assert set(learned.accounts) == {TWO}
    assert learned.accounts[TWO].loss == book.writer.ledger(AGGREGATOR).accounts[TWO].loss


def test_nobody_learns_from_her_own_words() -> None:
    alone = Coalition((ONE,))
    book = Book()
    book.sent(AGGREGATOR, ASK, to=TWO)
    book.sent(TWO, REPORT)
    # What cannot be read may pass on anything, to whoever hears it.
    book.sent(ONE, Envelope(CHARTER.session, ONE, THREE, 0, "Report", b"?"))
    assert not book.writer.ledger(ONE).accounts
    assert not book.writer.ledger(alone).accounts
