"""One walk over a transcript: what is decoded, how often, and what of it is held."""

from __future__ import annotations

import itertools
import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol import AGGREGATOR, RECORD, Coalition, Message, PartyId
from protocol.audit.audit import audit
from protocol.audit.coalition.judge import found, worst_found
from protocol.audit.disclosure import Disclosure, disclosed_by_seed
from protocol.audit.ledger import LedgerWriter
from protocol.audit.replay import ReplayWriter
from protocol.audit.walk import BLOCK, BLOCK_BYTES, Fold, Step, Walk, fold, steps, walk
from protocol.messages import Envelope
from protocol.simulation.rehearsal import Rehearsal
from protocol.simulation.setting import make_setting
from protocol.surveys.limits import OVERHEAD, Held, TooMuchError
from protocol.transcript.entries import Delivered, Departed, Sent
from protocol.transcript.reader import TranscriptReader
from protocol.transcript.verification import verify
from protocol.wire import codec as wire
from protocol.wire.codec import Codec, decode_envelope, encode_envelope
from tests.every_variant import Example, examples
from tests.protocol.sessions import Numbers, Word, answers, charter_of, talk
from tests.tiers import thinned

CHARTER = charter_of(talk())
ONE, TWO = (PartyId(f"party-{i}") for i in (1, 2))
LARGE = Numbers(np.arange(1000, dtype=np.uint16))
EVERY = pytest.mark.parametrize(
    "example", thinned(examples(), 14), ids=lambda example: example.name
)


def sent(sender: str, seq: int, message: Message | bytes, *, to: str) -> Sent:
    if isinstance(message, bytes):
        kind, body = "Word", message
    else:
        kind, body = message.kind(), CHARTER.codec.encode(message)
    item = Envelope(CHARTER.session, PartyId(sender), PartyId(to), seq, kind, body)
    return Sent(at=0, envelope=encode_envelope(item))


def came(sender: str, seq: int, *, to: str, repeat: bool = False) -> Delivered:
    return Delivered(at=0, sender=PartyId(sender), recipient=PartyId(to), seq=seq, repeat=repeat)


def counted(monkeypatch: pytest.MonkeyPatch, run: Callable[[], object]) -> Counter[str]:
    """How often envelopes and messages are decoded meanwhile."""
    calls: Counter[str] = Counter()
    decode, canonical = Codec.decode, wire.canonical

    def message(self: Codec, name: str, body: bytes) -> Message:
        calls["message"] += 1
        return decode(self, name, body)

    def envelope(encoded: bytes, decoder: Any, *, what: str) -> Any:
        calls["envelope"] += 1
        return canonical(encoded, decoder, what=what)

    with monkeypatch.context() as patch:
        patch.setattr(Codec, "decode", message)
        patch.setattr(wire, "canonical", envelope)
        run()
    return calls


@EVERY
def test_an_audit_decodes_everything_once(
    example: Example, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting = make_setting(example.variant, answers(example.variant.survey, 6), seed=1)
    done = Rehearsal(setting)
    known = tuple(disclosed_by_seed(setting.charter, 1))
    there = tuple(steps(setting.charter.codec, done.entries))
    everything = sum(isinstance(step.entry, Sent) for step in there)

    def replay() -> None:
        writer = ReplayWriter(setting.charter, known)
        for step in there:
            writer.add(step)
        writer.replays()

    def all_of_it() -> None:
        reader = TranscriptReader(done.content)
        writer = LedgerWriter(setting.charter)
        audit(lambda: [done.content], type(example.variant), reader=reader, ledger=writer)
        found([writer], Coalition((ONE, TWO)))
        worst_found(writer, 2)

    replayed = counted(monkeypatch, replay)
    verified = counted(monkeypatch, lambda: verify(done.content))
    calls = counted(monkeypatch, all_of_it)
    assert calls["envelope"] == everything + verified["envelope"]
    assert 0 < calls["message"] <= everything + replayed["message"] + verified["message"]


def test_what_is_delivered_is_what_was_sent_and_once() -> None:
    entries = [
        sent(AGGREGATOR, 0, Word("x"), to=ONE),
        sent(ONE, 0, b"\xc1", to=AGGREGATOR),
        Sent(at=0, envelope=b"?"),
        came(AGGREGATOR, 0, to=ONE),
        came(AGGREGATOR, 0, to=ONE, repeat=True),
        came(ONE, 0, to=AGGREGATOR),
        came(TWO, 0, to=ONE),
        Departed(at=0, party=ONE, reason="lost"),
        sent(AGGREGATOR, 1, Word("end"), to=RECORD),
        came(AGGREGATOR, 1, to=ONE),
    ]
    found = list(steps(CHARTER.codec, entries))
    assert [step.number for step in found] == list(range(10))
    assert [step.entry for step in found] == entries
    assert [step.said for step in found] == [None] * 3 + [0, None, 1] + [None] * 4
    assert found[3].envelope == found[0].envelope
    assert found[3].message == found[0].message == Word("x")
    assert (found[5].envelope, found[5].message) == (found[1].envelope, None)
    assert [bool(step.malformed) for step in found] == [False, True, True] + [False] * 7
    assert [step.envelope is None for step in found] == [i in (2, 4, 6, 7, 9) for i in range(10)]


def test_without_bodies_it_is_told_what_was_delivered_and_not_what_it_says() -> None:
    entries = [sent(AGGREGATOR, 0, Word("x"), to=ONE), came(AGGREGATOR, 0, to=ONE)]
    said, heard = steps(CHARTER.codec, entries, bodies=False)
    assert said.message == Word("x")
    assert said.envelope is not None
    assert heard.envelope is not None
    assert (heard.said, heard.message, heard.envelope.body) == (0, None, b"")
    assert heard.envelope.kind == "Word"


def test_what_is_under_way_is_counted_until_it_is_delivered() -> None:
    size = len(CHARTER.codec.encode(LARGE))
    held = Held(lambda: 0)
    going = Walk(CHARTER.codec, held)
    first = going.add(sent(AGGREGATOR, 0, LARGE, to=ONE))
    assert held._bytes == size + OVERHEAD
    # Of what is said to several there is one object.
    second = going.add(sent(AGGREGATOR, 8, LARGE, to=TWO))
    assert second.message is first.message
    assert held._bytes == size + 2 * OVERHEAD
    going.add(sent(ONE, 0, LARGE, to=AGGREGATOR))
    going.add(sent(TWO, 0, LARGE, to=AGGREGATOR))
    assert held._bytes == 3 * size + 4 * OVERHEAD
    # Whoever repeats a number has one envelope under way.
    going.add(sent(TWO, 0, LARGE, to=AGGREGATOR))
    going.add(sent(TWO, 1, LARGE, to=RECORD))
    assert held._bytes == 3 * size + 4 * OVERHEAD
    going.add(came(AGGREGATOR, 0, to=ONE))
    assert held._bytes == 3 * size + 3 * OVERHEAD
    going.add(came(AGGREGATOR, 8, to=TWO))
    assert held._bytes == 2 * size + 2 * OVERHEAD
    going.add(came(ONE, 0, to=AGGREGATOR))
    going.add(came(TWO, 0, to=AGGREGATOR))
    assert held._bytes == 0


@pytest.mark.slow
def test_a_question_to_a_crowd_takes_little_for_each() -> None:
    held = Held(lambda: 0)
    going = Walk(CHARTER.codec, held)
    crowd = [f"party-{i}" for i in range(10_000)]
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for seq, name in enumerate(crowd):
        said = going.add(sent(AGGREGATOR, seq, LARGE, to=name)).message
    taken = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert 0.8 * taken < held._bytes < 1.2 * taken
    assert held._bytes < 170 * len(crowd)
    for seq, name in enumerate(crowd):
        step = going.add(came(AGGREGATOR, seq, to=name))
        assert step.said == seq
        assert step.message is said
        assert step.envelope == decode_envelope(sent(AGGREGATOR, seq, LARGE, to=name).envelope)
    assert held._bytes == 0


LONG = 255 * "\N{GREEK SMALL LETTER OMEGA}"
LONG_BYTES = sys.getsizeof(LONG)


def test_long_names_are_counted_while_they_are_under_way() -> None:
    held = Held(lambda: 0)
    going = Walk(CHARTER.codec, held)
    for sender, kind, to in ((LONG, "Word", ONE), (ONE, LONG, TWO), (TWO, "Word", LONG)):
        item = Envelope(CHARTER.session, PartyId(sender), PartyId(to), 0, kind, b"")
        going.add(Sent(at=0, envelope=encode_envelope(item)))
    assert held._bytes > 3 * (LONG_BYTES + OVERHEAD)
    for sender in (LONG, ONE, TWO):
        going.add(came(sender, 0, to=ONE))
    assert held._bytes == 0
    # Of a broadcast the sender's once, the recipients' each.
    for seq in range(16):
        going.add(sent(LONG, seq, LARGE, to=LONG))
    assert held._bytes > 17 * LONG_BYTES
    for seq in range(15):
        going.add(came(LONG, seq, to=LONG))
    assert 2 * LONG_BYTES < held._bytes < 2 * LONG_BYTES + 3 * len(CHARTER.codec.encode(LARGE))
    going.add(came(LONG, 15, to=LONG))
    assert held._bytes == 0


def test_long_names_are_counted_while_they_wait_for_a_role() -> None:
    held = Held(lambda: 0)
    going = Walk(CHARTER.codec)
    writer = ReplayWriter(CHARTER, [Disclosure(member=AGGREGATOR)], held)
    taken = []
    for kind, sender in ((LONG, ONE), ("Word", LONG), ("Word", ONE)):
        item = Envelope(CHARTER.session, PartyId(sender), AGGREGATOR, 0, kind, b"")
        going.add(Sent(at=0, envelope=encode_envelope(item)))
        before = held._bytes
        writer.add(going.add(came(sender, 0, to=AGGREGATOR)))
        taken.append(held._bytes - before)
    *long, usual = taken
    assert min(long) >= usual + LONG_BYTES


@pytest.mark.parametrize("first", [b"\xc1", b"\xc0"])
def test_no_more_is_kept_than_is_counted(first: bytes) -> None:
    """Of one that was read, next to nothing is; of malformed bodies no two are one object."""
    held = Held(lambda: 0)
    going = Walk(CHARTER.codec, held)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for seq in range(320):
        body = (first if seq % 2 else b"\xc1") + bytes(20_000)
        going.add(sent(AGGREGATOR, seq, body, to=LONG))
    taken = tracemalloc.get_traced_memory()[0] - before
    assert 0.8 * taken < held._bytes
    for seq in range(320):
        if seq % 16:
            going.add(came(AGGREGATOR, seq, to=LONG))
    taken = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert 0.8 * taken < held._bytes


_SPOKEN = st.builds(
    sent,
    st.sampled_from((AGGREGATOR, ONE)),
    st.integers(0, 40),
    st.sampled_from((Word("x"), Word("y"), LARGE, b"\xc1")),
    to=st.sampled_from((ONE, TWO, TWO, AGGREGATOR, RECORD)),
)
_HEARD = st.builds(
    came, st.sampled_from((AGGREGATOR, ONE)), st.integers(0, 40), to=st.sampled_from((ONE, TWO))
)


@st.composite
def broadcasts(draw: st.DrawFn) -> list[Sent]:
    """The same to several, under numbers that follow one another."""
    first, count = draw(st.integers(0, 30)), draw(st.integers(2, 20))
    word = draw(st.sampled_from((Word("x"), LARGE)))
    return [sent(AGGREGATOR, first + i, word, to=(ONE, TWO)[i % 2]) for i in range(count)]


@pytest.mark.slow
@pytest.mark.parametrize("bodies", [True, False])
@given(st.lists(st.lists(_SPOKEN | _HEARD, max_size=4) | broadcasts(), max_size=12))
def test_whatever_is_sent_is_delivered_as_it_was(
    bodies: bool, parts: list[list[Sent | Delivered]]
) -> None:
    under_way: dict[tuple[str, int], int] = {}
    entries = list(itertools.chain.from_iterable(parts))
    last = [came(name, seq, to=ONE) for name in (AGGREGATOR, ONE) for seq in range(50)]
    held = Held(lambda: 0)
    going = Walk(CHARTER.codec, held, bodies=bodies)
    there: list[Step] = []
    for number, entry in enumerate((*entries, *last)):
        there.append(going.add(entry))
        step = there[-1]
        if isinstance(entry, Sent):
            assert step.envelope == decode_envelope(entry.envelope)
            if step.envelope.recipient != RECORD:
                under_way[step.envelope.sender, step.envelope.seq] = number
            continue
        of = under_way.pop((entry.sender, entry.seq), None)
        assert step.said == of
        if of is None:
            assert step.envelope is None
        else:
            said = there[of]
            assert said.envelope is not None
            assert step.message is (said.message if bodies else None)
            body = said.envelope.body if bodies else b""
            assert step.envelope == msgspec.structs.replace(said.envelope, body=body)
        waiting = [there[number].envelope for number in under_way.values()]
        least = {e.kind + str(e.body): len(e.body) * bodies for e in waiting if e is not None}
        names = sum(sys.getsizeof(e.recipient) for e in waiting if e is not None)
        assert held._bytes >= sum(least.values()) + names
    assert held._bytes == 0


def test_steps_come_in_blocks_of_bounded_size() -> None:
    small = [sent(AGGREGATOR, i, Word("x"), to=ONE) for i in range(2 * BLOCK + 1)]
    assert [len(block) for block in walk(CHARTER.codec, small)] == [BLOCK, BLOCK, 1]
    large = [sent(AGGREGATOR, i, LARGE, to=ONE) for i in range(1100)]
    for block in walk(CHARTER.codec, large):
        sizes = [len(step.entry.envelope) for step in block if isinstance(step.entry, Sent)]
        assert sum(sizes[:-1]) < BLOCK_BYTES
        assert len(block) < BLOCK


class Few(Fold):
    """Has room for so many steps."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.taken: list[int] = []

    def add(self, step: Step) -> None:
        if len(self.taken) == self.room:
            raise TooMuchError("no room")
        self.taken.append(step.number)


def test_a_fold_without_room_stops_by_itself() -> None:
    entries = [sent(AGGREGATOR, i, Word("x"), to=ONE) for i in range(5)]
    few, all_of_them = Few(2), Few(9)
    fold(walk(CHARTER.codec, entries), few, all_of_them)
    assert (few.taken, str(few.stopped)) == ([0, 1], "no room")
    assert (all_of_them.taken, all_of_them.stopped) == ([0, 1, 2, 3, 4], None)


def test_where_too_much_is_under_way_every_fold_stops_after_it() -> None:
    entries = [sent(ONE, i, LARGE, to=AGGREGATOR) for i in range(5)]
    size = len(CHARTER.codec.encode(LARGE)) + OVERHEAD
    stopped, full = Few(1), Few(9)
    fold(walk(CHARTER.codec, entries, Held(lambda: 0, 2 * size)), stopped, full)
    assert (stopped.taken, str(stopped.stopped)) == ([0], "no room")
    assert full.taken == [0, 1, 2]
    assert "for a file of this length" in str(full.stopped)
