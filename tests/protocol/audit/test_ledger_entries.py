"""Ledgers written entry by entry: odd orders, odd messages, and what is passed on."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest

from protocol.accounting.events import Plain, Public
from protocol.audit.coalition.coalition import Coalition
from protocol.audit.ledger import LedgerWriter
from protocol.audit.walk import Walk
from protocol.errors import LocalProtocolError
from protocol.estimators.joint import Block
from protocol.messages import (
    AGGREGATOR,
    RECORD,
    Closed,
    Declined,
    Envelope,
    Left,
    Message,
    PartyId,
)
from protocol.randomizers import KeepUniform
from protocol.session.roles import Seen
from protocol.session.variant import event_of
from protocol.transcript.entries import Delivered, Entry, Sent
from protocol.variants import RRIndependent
from protocol.variants.reports.reports import Ask, Pooled, Report
from protocol.wire.codec import encode_envelope
from tests.protocol.sessions import SURVEY, Turn, Word, charter_of, envelope, talk

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
    """A ledger written entry by entry."""

    def __init__(self) -> None:
        self.writer = LedgerWriter(CHARTER, (AGGREGATOR, RECORD, ONE))
        self.walk = Walk(CHARTER.codec)
        self.seqs: dict[str, int] = {}

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
        self.writer.add(self.walk.add(entry))

    @property
    def epsilon(self) -> float:
        return self.writer.ledger(AGGREGATOR).record_epsilon


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
    assert event_of(variant, Closed("Word", -1, 0, b"", b""), Seen()) == Public()
    assert event_of(variant, Declined("x"), Seen()) == Public()
    assert event_of(variant, Left(ONE, "x"), Seen()) == Plain(SURVEY.names)
    assert event_of(variant, Word("x"), Seen()) == Public()


def test_a_refusal_costs_nothing() -> None:
    book = Book()
    book.sent(ONE, Declined("too dear"))
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
    book = Book()
    alone = Coalition((ONE,))
    book.writer = LedgerWriter(CHARTER, (ONE, alone))
    book.sent(AGGREGATOR, ASK, to=TWO)
    book.sent(TWO, REPORT)
    # What cannot be read may pass on anything, to whoever hears it.
    book.sent(ONE, Envelope(CHARTER.session, ONE, THREE, 0, "Report", b"?"))
    assert not book.writer.ledger(ONE).accounts
    assert not book.writer.ledger(alone).accounts
