"""Replays: what follows from a record, what does not, and what is unknown."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import numpy as np
import pytest

from protocol import (
    AGGREGATOR,
    Array,
    ArraySpec,
    Bounds,
    Kind,
    Me,
    Message,
    PartyId,
    Stream,
    Variant,
)
from protocol.audit.disclosure import Disclosure, WithheldError, WithheldStream
from protocol.audit.replay import Replay, _alike
from protocol.messages import ROLE_STREAM, Closed, Envelope
from protocol.session.fates import PASS, Fate, FateRule, Verdict
from protocol.simulation.setting import Setting, make_setting
from protocol.transcript.entries import Delivered, Entry, Sent
from protocol.variants import RRIndependent
from protocol.wire.codec import decode_envelope, encode_envelope
from tests.protocol.sessions import SURVEY, Turn, Word, answers, talk
from tests.recorded.runs import recorded, replay_member

TWO = PartyId("party-2")


def run(
    variant: Variant, *, fate: FateRule | None = None, parties: int = 3
) -> tuple[Setting, list[Entry]]:
    """A run: its setting, and its record."""
    done = recorded(variant, answers(SURVEY, parties), fate=fate, seeded=fate is not None)
    return done.setting, list(done.entries)


def replayed(setting: Setting, entries: Sequence[Entry], *, seeded: bool = False) -> Replay:
    stream = setting.streams.stream(AGGREGATOR, ROLE_STREAM) if seeded else None
    return replay_member(setting.charter, Disclosure(member=AGGREGATOR, stream=stream), entries)


def said(entries: Sequence[Entry]) -> list[Envelope]:
    """What the aggregator said."""
    sent = [decode_envelope(entry.envelope) for entry in entries if isinstance(entry, Sent)]
    return [envelope for envelope in sent if envelope.sender == AGGREGATOR]


def place_of(entries: Sequence[Entry], wanted: Envelope) -> int:
    return next(
        i
        for i, entry in enumerate(entries)
        if isinstance(entry, Sent) and decode_envelope(entry.envelope) == wanted
    )


def retold(entries: Sequence[Entry], envelope: Envelope, body: bytes) -> list[Entry]:
    """The record with something else in an envelope."""
    other = encode_envelope(msgspec.structs.replace(envelope, body=body))
    place = place_of(entries, envelope)
    return [*entries[:place], Sent(at=0, envelope=other), *entries[place + 1 :]]


async def repeating(me: Me) -> None:
    for number in range(3):
        turn = await me.receive(Turn, AGGREGATOR, round=number)
        await me.send(AGGREGATOR, Turn(number, f"{turn.text} {me.id}"))


async def asking(me: Me) -> Message:
    """Three rounds; what is said in one depends on what was heard in the one before."""
    text = "start"
    for number in range(3):
        await me.broadcast(me.roster.parties, Turn(number, text))
        heard = await me.gather(Turn, me.roster.parties, round=number, within=5.0)
        text = "+".join(turn.text[-7:] for turn in heard.values())
    return Word(text)


async def drawing(me: Me) -> Message:
    await me.broadcast(me.roster.parties, Turn(0, "start"))
    await me.gather(Turn, me.roster.parties, round=0)
    return Word(str(int(me.stream.integers(1000))))


async def once(me: Me) -> None:
    turn = await me.receive(Turn, AGGREGATOR, round=0)
    await me.send(AGGREGATOR, turn)


def test_a_run_of_many_rounds_follows() -> None:
    setting, entries = run(talk(party=repeating, aggregator=asking))
    replay = replayed(setting, entries)
    assert replay.follows is True
    assert replay.result == Word("party-1+party-2+party-3")
    assert replay.compared == len(said(entries)) == 3 * (3 + 1) + 1
    assert (replay.differences, replay.tolerated, replay.unsaid) == ((), (), 0)


LATE = Fate(Verdict.PASS, 6.0)


@pytest.mark.parametrize(
    ("fate", "seq"),
    [*((Fate(one, 0.0), 1) for one in (Verdict.DROP, Verdict.CUT, Verdict.CRASH)), (LATE, 0)],
)
def test_a_run_with_losses_follows(fate: Fate, seq: int) -> None:
    def decide(envelope: Envelope) -> Fate:
        return fate if envelope.sender == TWO and envelope.seq == seq else PASS

    setting, entries = run(talk(party=repeating, aggregator=asking), fate=decide)
    delivered = [e for e in entries if isinstance(e, Delivered) and e.sender == TWO]
    assert (len(delivered) < 3) == (fate is not LATE)
    replay = replayed(setting, entries)
    assert replay.follows is True
    assert replay.differences == ()


def test_a_run_without_a_quorum_follows_to_its_end() -> None:
    def decide(envelope: Envelope) -> Fate:
        return Fate(Verdict.DROP, 0.0) if envelope.kind == "Report" else PASS

    setting, entries = run(RRIndependent.with_keep(SURVEY, 0.5), fate=decide)
    replay = replayed(setting, entries)
    assert (replay.follows, replay.result) == (True, None)


def test_a_role_that_draws_cannot_be_followed_without_its_seed() -> None:
    setting, entries = run(talk(party=once, aggregator=drawing))
    untold = replayed(setting, entries)
    assert (untold.follows, untold.result, untold.differences) == (None, None, ())
    assert "randomness" in untold.why
    replay = replayed(setting, entries, seeded=True)
    assert replay.follows is True
    last = said(entries)[-1]
    assert replay.result == setting.charter.codec.decode(last.kind, last.body)


def test_a_deceit_before_the_draw_is_found_without_the_seed() -> None:
    setting, entries = run(talk(party=once, aggregator=drawing))
    turn = next(e for e in said(entries) if e.kind == "Turn")
    body = setting.charter.codec.encode(Turn(0, "stark"))
    replay = replayed(setting, retold(entries, turn, body))
    assert replay.follows is False
    assert replay.differences[0].entries == (place_of(entries, turn),)


def test_a_deceit_just_before_the_draw_is_found_without_the_seed() -> None:
    async def telling(me: Me) -> Message:
        await me.broadcast(me.roster.parties, Word("hello"))
        return Word(str(int(me.stream.integers(1000))))

    setting, entries = run(talk(aggregator=telling))
    assert replayed(setting, entries).follows is None
    body = setting.charter.codec.encode(Word("jello"))
    replay = replayed(setting, retold(entries, said(entries)[1], body))
    assert replay.follows is False
    assert "#1: the record has another 'Word'" in str(replay.differences[0])


def test_other_randomness_is_found_with_the_seed() -> None:
    setting, entries = run(talk(party=once, aggregator=drawing))
    known = Disclosure(member=AGGREGATOR, stream=Stream(bytes(32)))
    other = replay_member(setting.charter, known, entries)
    assert other.follows is False
    assert "another 'Word'" in str(other.differences[0])


def test_a_role_that_behaves_otherwise_is_found() -> None:
    setting, entries = run(talk(party=repeating, aggregator=asking))
    other = make_setting(
        talk(party=repeating, aggregator=drawing), answers(SURVEY, 3), seed=setting.seed
    )
    replay = replayed(other, entries, seeded=True)
    assert replay.follows is False
    assert "the record has 'Turn' instead of 'Word'" in str(replay.differences[0])


def without(kind: str) -> Callable[[list[Envelope]], list[Envelope]]:
    return lambda said: [e for e in said if e.kind != kind]


@pytest.mark.parametrize(
    ("keep", "says"),
    [
        (lambda said: said[:-1], "'Word' follows but is not on record"),
        (without("Closed"), "closing of 'Turn': not on record"),
        (lambda said: said[:3], "closing of 'Turn': not on record"),
        (lambda said: [], "'Turn' follows but is not on record"),
    ],
)
def test_words_that_are_missing(
    keep: Callable[[list[Envelope]], list[Envelope]], says: str
) -> None:
    setting, entries = run(talk(party=repeating, aggregator=asking))
    own = said(entries)
    gone = {place_of(entries, envelope) for envelope in own if envelope not in keep(own)}
    replay = replayed(setting, [e for i, e in enumerate(entries) if i not in gone])
    assert replay.follows is False
    assert says in str(replay.differences[0])


def test_words_that_are_too_many() -> None:
    setting, entries = run(talk(party=repeating, aggregator=asking))
    again = [*entries, entries[place_of(entries, said(entries)[-1])]]
    [finding] = replayed(setting, again).differences
    assert str(finding) == "1 envelopes of the aggregator do not follow"
    assert finding.entries == (len(entries),)


@pytest.mark.parametrize("of", ["Word", "Nosuch"])
def test_a_closing_of_something_else_is_found(of: str) -> None:
    setting, entries = run(talk(party=repeating, aggregator=asking))
    codec = setting.charter.codec
    envelope = next(e for e in said(entries) if e.kind == "Closed")
    closed = codec.decode("Closed", envelope.body)
    assert isinstance(closed, Closed)
    forged = codec.encode(msgspec.structs.replace(closed, of=of))
    replay = replayed(setting, retold(entries, envelope, forged))
    assert "the record has another closing here" in str(replay.differences[0])


@pytest.mark.parametrize("lost", [0, 1, 2])
@pytest.mark.parametrize("late", [False, True])
def test_a_counted_message_that_was_not_delivered_is_found(lost: int, late: bool) -> None:
    """Not at all, or after it was counted."""
    setting, entries = run(talk(party=repeating, aggregator=asking))
    places = [i for i, e in enumerate(entries) if isinstance(e, Delivered) and e.sender == TWO]
    moved = entries.pop(places[lost])
    replay = replayed(setting, [*entries, moved] if late else entries)
    assert replay.follows is False
    assert "party-2 is counted, but no message of this kind from it was delivered" in str(
        replay.differences[0]
    )


def test_a_withheld_stream_gives_nothing() -> None:
    stream = WithheldStream()
    draws: tuple[Callable[[], object], ...] = (
        lambda: stream.words(1),
        lambda: stream.bytes(1),
        lambda: stream.bernoulli(1, 1),
        lambda: stream.integers(np.array([3])),
        lambda: stream.permutation(3),
        lambda: stream.derive("child").words(1),
    )
    for draw in draws:
        with pytest.raises(WithheldError):
            draw()


async def reckoning(me: Me) -> Message:
    await me.broadcast(me.roster.parties, Turn(0, "start"))
    await me.gather(Turn, me.roster.parties, round=0)
    return Reckoned(12, np.array([1 / 3, 0.0, 1e-17]), np.array([2**63 + 1, 7], np.uint64), 0.1)


class Reckoned(Message, frozen=True):
    """Counts, derived floats, probabilities in units of 2**-64."""

    count: int
    shares: Array
    weights: Array
    mean: float


def reckoned() -> tuple[Setting, list[Entry], Envelope, Reckoned]:
    talker = talk(party=once, aggregator=reckoning)

    class Reckons(type(talker), frozen=True):
        def kinds(self, parties: int) -> tuple[Kind, ...]:
            return (
                *super().kinds(parties),
                Kind(
                    Reckoned,
                    shares=ArraySpec(dtype="f8", shape=(Bounds(0, 9),)),
                    weights=ArraySpec(dtype="u8", shape=(Bounds(0, 9),)),
                ),
            )

    setting, entries = run(Reckons(survey=SURVEY))
    last = said(entries)[-1]
    result = setting.charter.codec.decode(last.kind, last.body)
    assert isinstance(result, Reckoned)
    return setting, entries, last, result


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("shares", np.array([1 / 3 * (1 + 1e-13), 1e-16, 0.0])),
        ("weights", np.array([2**63 + 2**20, 7], np.uint64)),
        ("mean", 0.1 + 1e-17 + 1e-16),
    ],
)
def test_derived_floats_may_differ_in_their_last_places(field: str, value: object) -> None:
    setting, entries, last, result = reckoned()
    changed = msgspec.structs.replace(result, **{field: value})
    other = setting.charter.codec.encode(changed)
    assert other != last.body
    replay = replayed(setting, retold(entries, last, other))
    assert replay.follows is True
    [tolerated] = replay.tolerated
    assert "'Reckoned' has floats that differ by less than 1e-12" in str(tolerated)
    assert tolerated.entries == (place_of(entries, last),)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("count", 13),
        ("shares", np.array([1 / 3 * (1 + 1e-11), 0.0, 1e-17])),
        ("shares", np.array([1 / 3, 1e-11, 1e-17])),
        ("shares", np.array([1 / 3, 0.0])),
        ("weights", np.array([2**63 + 2**30, 7], np.uint64)),
        ("mean", 0.1 + 1e-11),
    ],
)
def test_other_numbers_do_not_follow(field: str, value: object) -> None:
    setting, entries, last, result = reckoned()
    changed = msgspec.structs.replace(result, **{field: value})
    replay = replayed(setting, retold(entries, last, setting.charter.codec.encode(changed)))
    assert replay.follows is False
    assert replay.tolerated == ()


def test_nearly_the_same_to_somebody_else_does_not_follow() -> None:
    setting, entries, last, result = reckoned()
    close = setting.charter.codec.encode(msgspec.structs.replace(result, mean=0.1 + 1e-16))
    other = msgspec.structs.replace(last, recipient=TWO, body=close)
    place = place_of(entries, last)
    told = [*entries[:place], Sent(at=0, envelope=encode_envelope(other)), *entries[place + 1 :]]
    assert replayed(setting, told).follows is False


def test_counts_in_words_of_64_bits_are_exact() -> None:
    _, _, _, result = reckoned()
    small = msgspec.structs.replace(result, weights=np.array([5, 7], np.uint64))
    off = msgspec.structs.replace(result, weights=np.array([5, 8], np.uint64))
    assert _alike(small, small)
    assert not _alike(small, off)


def test_what_was_sent_before_what_was_counted_follows_too() -> None:
    """Members may be heard in another order than they spoke; the aggregator, and a party."""

    async def swapped(me: Me) -> None:
        await me.gather(Word, (AGGREGATOR,))
        turn = await me.receive(Turn, AGGREGATOR, round=0)
        await me.send(AGGREGATOR, Turn(1, turn.text))
        await me.send(AGGREGATOR, Word(me.id))

    async def ask(me: Me) -> Message:
        await me.broadcast(me.roster.parties, Turn(0, "x"))
        await me.broadcast(me.roster.parties, Word("y"))
        words = await me.gather(Word, me.roster.parties)
        turns = await me.gather(Turn, tuple(words), round=1)
        return Word(" ".join(turns))

    setting, entries = run(talk(party=swapped, aggregator=ask))
    assert replayed(setting, entries).follows is True
    known = Disclosure(
        member=TWO,
        stream=setting.streams.stream(TWO, ROLE_STREAM),
        identity=setting.identities[TWO],
        records=setting.holdings[TWO],
    )
    assert replay_member(setting.charter, known, entries).follows is True


async def disclosing(me: Me) -> Message:
    """Says two things that take its key or its randomness, and what follows from both."""
    told = [
        await me.disclose(Turn, lambda: Turn(0, me.sign(b"x").hex()), round=0),
        await me.disclose(Turn, lambda: Turn(1, me.stream.derive("y").bytes(4).hex()), round=1),
    ]
    await me.broadcast(me.roster.parties, Word("done"))
    return Word("-".join(turn.text for turn in told))


def test_what_only_a_key_tells_is_taken_from_the_record() -> None:
    setting, entries = run(talk(aggregator=disclosing))
    known = Disclosure(
        member=AGGREGATOR,
        stream=setting.streams.stream(AGGREGATOR, ROLE_STREAM),
        identity=setting.identities[AGGREGATOR],
    )
    keyless = replayed(setting, entries)
    keyed = replay_member(setting.charter, known, entries)
    assert (keyless.follows, keyed.follows) == (True, True)
    assert keyless.compared == keyed.compared == len(said(entries))
    # Another word for it is found by who can make it; what follows from it, by everybody.
    first, second, *_, result = said(entries)
    encode = setting.charter.codec.encode
    other = retold(entries, first, encode(Turn(0, "aa")))
    for follows, found in (
        (True, replayed(setting, retold(other, result, encode(_joined(setting, "aa", second))))),
        (False, replayed(setting, other)),
        (False, replay_member(setting.charter, known, other)),
    ):
        assert found.follows is follows


def _joined(setting: Setting, text: str, second: Envelope) -> Word:
    turn = setting.charter.codec.decode(second.kind, second.body)
    assert isinstance(turn, Turn)
    return Word(f"{text}-{turn.text}")


def test_what_is_disclosed_has_to_be_on_record_where_it_is_said() -> None:
    setting, entries = run(talk(aggregator=disclosing))
    first, second, *_ = said(entries)
    place = place_of(entries, first)
    for changed in (
        [*entries[:place], *entries[place + 1 :]],
        retold(entries, first, b"\x00"),
        retold(entries, first, setting.charter.codec.encode(Turn(1, "aa"))),
    ):
        found = replayed(setting, changed)
        assert found.follows is False
        assert "was said before what it follows from had been delivered" in str(
            found.differences[0]
        )
    # A record that ends before it says nothing against the aggregator.
    assert replayed(setting, entries[:place]).follows is True
    assert second.seq == first.seq + 1
