"""Who was left out of a count: who had been heard, and not who had sent more than may wait."""

from __future__ import annotations

import pytest

from protocol.audit.completeness import Completeness, CompletenessWriter
from protocol.audit.walk import Walk, steps
from protocol.messages import AGGREGATOR, DONE, RECORD, Closed, Envelope, Message
from protocol.session.roles import EARLY_PER_SENDER, Me
from protocol.transcript.entries import Delivered, Sent
from protocol.wire.codec import encode_envelope
from tests.protocol.sessions import Turn, Word, charter_of, envelope, talk
from tests.protocol.talks import ALL, ONE, THREE, TWO
from tests.recorded.runs import Run, recorded

FLOOD = EARLY_PER_SENDER + 1


def flooding(rounds: int, *, first: int) -> Run:
    """A survey in which party-1 says many turns before the one that it will be asked for."""

    async def flood(me: Me) -> None:
        if me.id == ONE:
            for i in range(rounds):
                await me.send(AGGREGATOR, Turn(first + i, "junk"))
        await me.send(AGGREGATOR, Turn(5, me.id))
        await me.send(AGGREGATOR, Word(me.id))

    async def ask(me: Me) -> Message:
        await me.gather(Word, ALL)
        turns = await me.gather(Turn, ALL, round=5, within=5.0)
        return Word(" ".join(turns))

    return recorded(talk(party=flood, aggregator=ask), 3)


def completeness_of(outcome: Run) -> Completeness:
    writer = CompletenessWriter(outcome.charter)
    for step in steps(outcome.charter.codec, outcome.entries):
        writer.add(step)
    return writer.completeness()


@pytest.mark.parametrize("rounds", [0, EARLY_PER_SENDER - 1, EARLY_PER_SENDER, 3 * FLOOD])
def test_a_flood_of_the_aggregator_is_held_against_nobody_else(rounds: int) -> None:
    """What there is no room for is not counted, and nobody has left it out."""
    outcome = flooding(rounds, first=1000)
    full = rounds >= EARLY_PER_SENDER
    assert outcome.published == Word("party-2 party-3" if full else "party-1 party-2 party-3")
    assert set(outcome.endings.values()) == {DONE}
    _, closing = completeness_of(outcome).closings
    assert closing.missing == ((ONE,) if full else ())
    assert closing.left_out == closing.unheard == ()
    assert outcome.follows() is True


@pytest.mark.parametrize("rounds", [1, EARLY_PER_SENDER, 3 * FLOOD])
def test_whom_the_aggregator_leaves_out_after_many_rounds_is_found(rounds: int) -> None:
    """A round that was counted takes no room."""
    charter = charter_of(talk())
    everyone = charter.roster.bitmap(ALL)
    writer, walk = CompletenessWriter(charter), Walk(charter.codec)

    def add(item: Envelope) -> None:
        writer.add(walk.add(Sent(at=0, envelope=encode_envelope(item))))
        if item.recipient != RECORD:
            came = Delivered(
                at=0, sender=item.sender, recipient=AGGREGATOR, seq=item.seq, repeat=False
            )
            writer.add(walk.add(came))

    for round_ in range(rounds):
        for name in ALL:
            add(envelope(charter, name, round_, Turn(round_, "x")))
        last = round_ == rounds - 1
        counted = charter.roster.bitmap((TWO, THREE)) if last else everyone
        closed = Closed("Turn", round_, 0, everyone, counted)
        add(envelope(charter, AGGREGATOR, round_, closed, to=RECORD))
    *_, closing = writer.completeness().closings
    assert closing.left_out == (ONE,)
