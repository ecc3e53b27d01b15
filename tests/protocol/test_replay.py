"""Replays: what follows from a record, what does not, and what cannot be told."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import numpy as np
import pytest

from protocol.codec import decode_envelope
from protocol.errors import ProtocolError
from protocol.exchange import Exchange
from protocol.fates import PASS, Fate, FateRule, Verdict, deliver_all
from protocol.local import ROLE_STREAM, run_locally
from protocol.messages import AGGREGATOR, Closed, Envelope, Message, PartyId
from protocol.randomness import Stream
from protocol.replay import Replay, WithheldError, WithheldStream, replay_aggregator
from protocol.roles import Me
from protocol.setting import Setting, setting_of
from protocol.transcript.entries import Delivered, Sent
from protocol.transcript.reader import TranscriptReader
from protocol.transcript.recorder import Recorder
from protocol.variant import Variant
from protocol.variants import RRIndependent
from tests.protocol.simulation import SURVEY, Turn, Word, answers, talk

Heard = dict[PartyId, list[Envelope]]
TWO = PartyId("party-2")


def run(
    variant: Variant, *, fate: FateRule = deliver_all, parties: int = 3
) -> tuple[Setting, Heard, list[Envelope]]:
    """A run: its setting, what the aggregator heard and what it said."""
    setting = setting_of(variant, answers(SURVEY, parties), seed=1)
    parts: list[bytes] = []
    recorder = Recorder(parts.append, setting.charter.header())
    exchange = Exchange(setting.charter, recorder=recorder, fate=fate)
    # A run that failed has a record too.
    with contextlib.suppress(ProtocolError):
        run_locally(exchange, setting.streams, setting.holdings)
    recorder.close()
    sent: dict[tuple[PartyId, int], Envelope] = {}
    heard: Heard = {}
    for entry in TranscriptReader(b"".join(parts)):
        if isinstance(entry, Sent):
            envelope = decode_envelope(entry.envelope)
            sent[envelope.sender, envelope.seq] = envelope
        elif isinstance(entry, Delivered) and entry.recipient == AGGREGATOR:
            heard.setdefault(entry.sender, []).append(sent[entry.sender, entry.seq])
    return setting, heard, [e for e in sent.values() if e.sender == AGGREGATOR]


def replayed(
    setting: Setting, heard: Heard, said: list[Envelope], *, seeded: bool = False
) -> Replay:
    stream = setting.streams.stream(AGGREGATOR, ROLE_STREAM) if seeded else None
    return replay_aggregator(setting.charter, heard=heard, said=said, stream=stream)


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
    setting, heard, said = run(talk(party=repeating, aggregator=asking))
    replay = replayed(setting, heard, said)
    assert replay == Replay(True, Word("party-1+party-2+party-3"), ())


@pytest.mark.parametrize("verdict", [Verdict.DROP, Verdict.CUT, Verdict.CRASH])
def test_a_run_with_losses_follows(verdict: Verdict) -> None:
    def decide(envelope: Envelope) -> Fate:
        lost = envelope.sender == TWO and envelope.seq == 1
        return Fate(verdict, 0.0) if lost else PASS

    setting, heard, said = run(talk(party=repeating, aggregator=asking), fate=decide)
    assert len(heard[TWO]) < 3
    replay = replayed(setting, heard, said)
    assert replay.follows is True
    assert replay.differences == ()


def test_who_came_late_is_not_counted_in_the_replay_either() -> None:
    def decide(envelope: Envelope) -> Fate:
        late = envelope.sender == TWO and envelope.seq == 0
        return Fate(Verdict.PASS, 6.0) if late else PASS

    setting, heard, said = run(talk(party=repeating, aggregator=asking), fate=decide)
    assert len(heard[TWO]) == 3
    replay = replayed(setting, heard, said)
    assert replay.follows is True


def test_a_run_without_a_quorum_follows_to_its_end() -> None:
    def decide(envelope: Envelope) -> Fate:
        return Fate(Verdict.DROP, 0.0) if envelope.kind == "Report" else PASS

    setting, heard, said = run(RRIndependent.with_keep(SURVEY, 0.5), fate=decide)
    replay = replayed(setting, heard, said)
    assert (replay.follows, replay.result) == (True, None)


def test_a_role_that_draws_cannot_be_followed_without_its_seed() -> None:
    setting, heard, said = run(talk(party=once, aggregator=drawing))
    assert replayed(setting, heard, said) == Replay(None, None, ())
    replay = replayed(setting, heard, said, seeded=True)
    assert replay.follows is True
    assert replay.result == setting.charter.codec.decode(said[-1].kind, said[-1].body)


def test_a_deceit_before_the_draw_is_found_without_the_seed() -> None:
    setting, heard, said = run(talk(party=once, aggregator=drawing))
    charter = setting.charter
    body = charter.codec.encode(Turn(0, "stark"))
    place = next(i for i, e in enumerate(said) if e.kind == "Turn")
    said[place] = Envelope(charter.session, AGGREGATOR, said[place].recipient, place, "Turn", body)
    assert replayed(setting, heard, said).follows is False


def test_a_deceit_just_before_the_draw_is_found_without_the_seed() -> None:
    async def telling(me: Me) -> Message:
        await me.broadcast(me.roster.parties, Word("hello"))
        return Word(str(int(me.stream.integers(1000))))

    setting, heard, said = run(talk(aggregator=telling))
    assert replayed(setting, heard, said).follows is None
    body = setting.charter.codec.encode(Word("jello"))
    e = said[1]
    said[1] = Envelope(e.session, e.sender, e.recipient, e.seq, e.kind, body)
    replay = replayed(setting, heard, said)
    assert replay.follows is False
    assert "#1: the record has another 'Word'" in replay.differences[0]


def test_other_randomness_is_found_with_the_seed() -> None:
    setting, heard, said = run(talk(party=once, aggregator=drawing))
    other = replay_aggregator(setting.charter, heard=heard, said=said, stream=Stream(bytes(32)))
    assert other.follows is False
    assert "another 'Word'" in other.differences[0]


def test_a_role_that_behaves_otherwise_is_found() -> None:
    setting, heard, said = run(talk(party=repeating, aggregator=asking))
    other = setting_of(
        talk(party=repeating, aggregator=drawing), answers(SURVEY, 3), seed=setting.seed
    )
    replay = replay_aggregator(other.charter, heard=heard, said=said, stream=Stream(bytes(32)))
    assert replay.follows is False
    assert "the record has 'Turn' instead of 'Word'" in replay.differences[0]


def without(kind: str) -> Callable[[list[Envelope]], list[Envelope]]:
    return lambda said: [e for e in said if e.kind != kind]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda said: said[:-1], "'Word' follows but is not on record"),
        (lambda said: [*said, said[-1]], "1 envelopes of the aggregator do not follow"),
        (without("Closed"), "closing of 'Turn': not on record"),
        (lambda said: said[:3], "closing of 'Turn': not on record"),
        (lambda said: [], "'Turn' follows but is not on record"),
    ],
)
def test_other_words_do_not_follow(
    change: Callable[[list[Envelope]], list[Envelope]], says: str
) -> None:
    setting, heard, said = run(talk(party=repeating, aggregator=asking))
    replay = replayed(setting, heard, change(said))
    assert replay.follows is False
    assert says in replay.differences[0]


@pytest.mark.parametrize("of", ["Word", "Nosuch"])
def test_a_closing_of_something_else_is_found(of: str) -> None:
    setting, heard, said = run(talk(party=repeating, aggregator=asking))
    codec = setting.charter.codec
    place = next(i for i, e in enumerate(said) if e.kind == "Closed")
    closed = codec.decode("Closed", said[place].body)
    assert isinstance(closed, Closed)
    forged = codec.encode(Closed(of, closed.round, closed.awaited, closed.counted))
    e = said[place]
    said[place] = Envelope(e.session, e.sender, e.recipient, e.seq, e.kind, forged)
    replay = replayed(setting, heard, said)
    assert "the record closes something else here" in replay.differences[0]


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_counted_message_that_was_not_delivered_is_found(lost: int) -> None:
    setting, heard, said = run(talk(party=repeating, aggregator=asking))
    del heard[TWO][lost]
    replay = replayed(setting, heard, said)
    assert replay.follows is False
    assert "party-2 is counted, but no such message was delivered" in replay.differences[0]


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
