"""Privacy: what accountants say of events, and ledgers of runs."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.codec import encode_envelope
from protocol.errors import PrivacyError, UnsupportedEventError
from protocol.estimators.joint import Block
from protocol.messages import AGGREGATOR, RECORD, Closed, Declined, Envelope, Left, Message, PartyId
from protocol.privacy.accountants import NOTHING, Loss, PureAccountant, total
from protocol.privacy.events import (
    Composed,
    Derived,
    ExactCounts,
    Masked,
    Plain,
    PrivacyEvent,
    Public,
    Randomized,
)
from protocol.privacy.ledger import LedgerWriter
from protocol.randomizers import KeepUniform, MatrixRandomizer
from protocol.roles import Me, Seen
from protocol.transcript.entries import Delivered, Sent
from protocol.variant import event_of
from protocol.variants import RRIndependent, RRJoint
from protocol.variants.reports import Ask, Pooled, Report
from tests.protocol.simulation import (
    SURVEY,
    Turn,
    Word,
    answers,
    charter_of,
    envelope,
    holdings_of,
    locally,
    talk,
)

ONE, TWO, THREE = (PartyId(f"party-{i}") for i in (1, 2, 3))
SMOKES = KeepUniform.with_keep(2, p=0.7)
DRINKS = KeepUniform.with_keep(3, p=0.6)


def judge(event: PrivacyEvent) -> Loss:
    return PureAccountant().judge(event)


def epsilon(size: int, p: float) -> float:
    """``ln(1 + r p / (1 - p))``, written out."""
    return math.log1p(size * p / (1 - p))


def test_nothing_is_told() -> None:
    for event in (Public(), Derived(), Composed(()), Composed((Public(), Derived()))):
        loss = judge(event)
        assert (loss.record, dict(loss.attributes), loss.unbounded) == (0.0, {}, ())


def test_one_randomizer() -> None:
    loss = judge(Randomized(DRINKS, ("drinks",)))
    assert loss.record == pytest.approx(epsilon(3, 0.6), abs=1e-12)
    assert dict(loss.attributes) == {"drinks": loss.record}


def test_attributes_randomized_together_bear_the_whole_cost_each() -> None:
    joint = KeepUniform.with_keep(6, p=0.5)
    loss = judge(Randomized(joint, ("smokes", "drinks")))
    assert loss.record == pytest.approx(epsilon(6, 0.5), abs=1e-12)
    assert dict(loss.attributes) == {"smokes": loss.record, "drinks": loss.record}


def test_a_matrix_with_a_zero_can_rule_an_answer_out() -> None:
    matrix = MatrixRandomizer.from_probabilities([[0.5, 0.5, 0], [0, 0.5, 0.5], [0.5, 0, 0.5]])
    loss = judge(Randomized(matrix, ("drinks",)))
    assert loss.record == math.inf
    assert loss.unbounded == ("a report on drinks can rule an answer out",)


@pytest.mark.parametrize(
    ("event", "why"),
    [
        (Plain(("smokes",)), "true answers"),
        (ExactCounts(("smokes",)), "exact counts"),
        (Masked(("smokes",), ("party-2",)), "exact sum"),
    ],
)
def test_what_is_not_private_costs_infinity(event: PrivacyEvent, why: str) -> None:
    loss = judge(Composed((Randomized(DRINKS, ("drinks",)), event)))
    assert loss.record == math.inf
    assert loss.attributes["smokes"] == math.inf
    assert loss.attributes["drinks"] == DRINKS.epsilon
    assert why in loss.unbounded[0]


class Novel(PrivacyEvent, frozen=True):
    """An event that no accountant knows."""


@pytest.mark.parametrize("event", [Novel(), Composed((Public(), Novel()))])
def test_unknown_events_are_refused(event: PrivacyEvent) -> None:
    with pytest.raises(UnsupportedEventError, match="Novel"):
        judge(event)
    assert issubclass(UnsupportedEventError, PrivacyError)


costs = st.floats(0.0, 20.0)
losses = st.lists(
    st.builds(
        lambda a, b: Loss(a + b, {"smokes": a, "drinks": b}),
        costs,
        costs,
    ),
    max_size=8,
)


@settings(deadline=None)
@given(parts=losses)
def test_losses_add_up_in_any_order(parts: list[Loss]) -> None:
    whole = total(parts)
    assert whole.record == math.fsum(p.record for p in parts)
    for name in ("smokes", "drinks"):
        assert whole.attributes.get(name, 0.0) == math.fsum(p.attributes[name] for p in parts)
    assert total(reversed(parts)) == whole
    assert total([NOTHING, *parts, NOTHING]) == whole
    assert whole.record >= max((p.record for p in parts), default=0.0)


def test_the_reasons_add_up_too() -> None:
    plain, counts = judge(Plain(("smokes",))), judge(ExactCounts(("drinks",)))
    whole = total([plain, counts, plain])
    assert whole.unbounded == plain.unbounded + counts.unbounded
    assert whole.record == math.inf


@settings(deadline=None, max_examples=50)
@given(
    sizes=st.lists(st.integers(2, 1000), min_size=1, max_size=8),
    thresholds=st.lists(st.integers(1, 2**64 - 1), min_size=8, max_size=8),
)
def test_a_composition_costs_the_sum(sizes: list[int], thresholds: list[int]) -> None:
    keeps = [KeepUniform(r, t) for r, t in zip(sizes, thresholds, strict=False)]
    event = Composed(tuple(Randomized(k, (f"a{i}",)) for i, k in enumerate(keeps)))
    expected = math.fsum(math.log1p(k.size * k.threshold / (2**64 - k.threshold)) for k in keeps)
    assert judge(event).record == pytest.approx(expected, rel=1e-12, abs=1e-300)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.7, 0.95])
@pytest.mark.parametrize("cls", [RRIndependent, RRJoint])
def test_the_ledger_of_a_run(cls: type[RRIndependent | RRJoint], p: float) -> None:
    charter = charter_of(cls.with_keep(SURVEY, p), parties=5)
    outcome = locally(charter, holdings_of(charter, answers(SURVEY, 5)))
    ledgers = outcome.ledgers(AGGREGATOR, RECORD, ONE)
    parts = (epsilon(2, p), epsilon(3, p)) if cls is RRIndependent else (epsilon(6, p),)
    for observer in (AGGREGATOR, RECORD):
        ledger = ledgers.ledger(observer)
        assert ledger.record_epsilon == pytest.approx(math.fsum(parts), abs=1e-9)
        by_attribute = [ledger.attribute_epsilon[name] for name in SURVEY.names]
        assert by_attribute == pytest.approx(parts * (2 // len(parts)), abs=1e-9)
        assert set(ledger.accounts) == set(charter.roster.parties)
        assert ledger.unbounded == ()
        (charge,) = ledger.accounts[ONE].trail
        assert (charge.seq, charge.kind) == (0, "Report")
    # A party gets nothing from the others, but what is published tells what everything told.
    others = set(charter.roster.parties) - {ONE}
    assert set(ledgers.ledger(ONE).accounts) == others
    assert ledgers.ledger(ONE).record_epsilon == pytest.approx(math.fsum(parts), abs=1e-9)
    assert ledgers.malformed == []


def test_who_observes_what() -> None:
    async def tell_two(me: Me) -> None:
        if me.id == ONE:
            await me.send(TWO, Turn(0, "x"))
            await me.send(AGGREGATOR, Turn(0, "x"))
            await me.note(Turn(0, "x"))

    async def publish(me: Me) -> Message:
        await me.gather(Turn, (ONE,), round=0)
        return Word("done")

    event = Randomized(SMOKES, ("smokes",))
    charter = charter_of(talk(party=tell_two, aggregator=publish, event=event))
    outcome = locally(charter, {name: answers(SURVEY, 1) for name in charter.roster.parties})
    ledgers = outcome.ledgers(AGGREGATOR, RECORD, ONE, TWO, THREE)
    heard = {o: len(ledgers.ledger(o).accounts[ONE].trail) for o in (AGGREGATOR, RECORD, TWO)}
    # The aggregator hosts the switch: it sees what passes between parties, and the record.
    # What the aggregator publishes may tell everybody all that it knows.
    assert heard == {AGGREGATOR: 3, RECORD: 3, TWO: 3}
    assert len(ledgers.ledger(THREE).accounts[ONE].trail) == 3
    assert dict(ledgers.ledger(ONE).accounts) == {}
    assert ledgers.ledger(AGGREGATOR).record_epsilon == pytest.approx(3 * epsilon(2, 0.7))
    assert ledgers.ledger(AGGREGATOR).attribute_epsilon["drinks"] == 0.0


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
        self.writer.add(Sent(at=0, envelope=encode_envelope(item)))
        if delivered:
            self.writer.add(
                Delivered(at=0, sender=item.sender, recipient=item.recipient, seq=seq, repeat=False)
            )

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
    assert event_of(variant, Closed("Word", -1, b"", b""), Seen()) == Public()
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
    book.writer.add(Delivered(at=0, sender=AGGREGATOR, recipient=ONE, seq=0, repeat=False))
    book.sent(AGGREGATOR, ASK, to=ONE)
    book.writer.add(Delivered(at=0, sender=AGGREGATOR, recipient=ONE, seq=0, repeat=True))
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
    assert list(seen) == [
        (ONE, Turn(0, "a")),
        (TWO, Turn(1, "b")),
        (ONE, Turn(1, "c")),
        (ONE, Word("e")),
    ]
    assert seen.last(Turn) == Turn(1, "c")
    assert seen.last(Turn, TWO) == Turn(1, "b")
    assert seen.last(Turn, round=0) == Turn(0, "a")
    assert seen.last(Turn, TWO, round=0) is None
    assert seen.last(Word, ONE) == Word("e")
    assert seen.last(Word, THREE) is None


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
    told = book.writer.ledger(ONE)
    assert set(told.accounts) == {TWO}
    assert told.accounts[TWO].loss == book.writer.ledger(AGGREGATOR).accounts[TWO].loss
