"""A wait closes in one step with its closing: nothing goes on record between the two."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from random import Random

import pytest
import trio

from parties.actor import Channel
from protocol.audit.completeness import Closing, CompletenessWriter
from protocol.audit.walk import steps
from protocol.messages import AGGREGATOR, Envelope, Message, PartyId
from protocol.session.roles import Me
from protocol.session.variant import Variant
from tests.live import Live, run_live, town
from tests.parties.adversaries import Adversary
from tests.protocol.sessions import Turn, Word, talk
from transports.base import Limits

ROUNDS = 3


class Slow(Adversary):
    """A party that takes its time.

    Args:
        reads, says: when it reads for the first time, and when it says something, in seconds.
    """

    def __init__(self, link: Channel, *, reads: float, says: Sequence[float]) -> None:
        super().__init__(link)
        self.began = trio.current_time()
        self.reads = reads
        self.says = iter(says)

    async def send_many(self, envelopes: Sequence[Envelope]) -> None:
        for envelope in envelopes:
            await trio.sleep_until(self.began + next(self.says, 0.0))
            await super().send_many([envelope])

    async def receive_many(self) -> list[Envelope]:
        await trio.sleep_until(self.began + self.reads)
        return await super().receive_many()


def asking(within: float) -> Variant:
    """All questions are asked at once, and their answers awaited one after the other."""

    async def ask(me: Me) -> Message:
        parties = me.roster.parties
        for number in range(ROUNDS):
            await me.broadcast(parties, Turn(number, "?"))
        heard = [
            len(await me.gather(Turn, parties, round=number, within=within))
            for number in range(ROUNDS)
        ]
        return Word(str(heard))

    async def answer(me: Me) -> None:
        for number in range(ROUNDS):
            await me.receive(Turn, AGGREGATOR, round=number)
            await me.send(AGGREGATOR, Turn(number, "!"))

    return talk(party=answer, aggregator=ask)


def closings(done: Live) -> tuple[Closing, ...]:
    writer = CompletenessWriter(done.charter)
    for step in steps(done.charter.codec, done.entries):
        writer.add(step)
    return writer.completeness().closings


async def held(slow: dict[PartyId, functools.partial[Slow]], *, within: float = 1.0) -> Live:
    where = town(4, variant=asking(within))
    return await run_live(where, limits=Limits(mailbox=1), adversaries=slow)


async def test_what_comes_while_the_aggregator_writes_past_the_deadline_counts(
    autojump_clock: object,
) -> None:
    """It can say that a wait is over when the questions before are written, and not sooner."""
    busy = functools.partial(Slow, reads=5.0, says=())
    late = functools.partial(Slow, reads=0.0, says=(2.0,))
    done = await held({PartyId("party-1"): busy, PartyId("party-2"): late})
    first, *_ = closings(done)
    assert "party-2" not in first.missing
    assert [closing.left_out for closing in closings(done)] == [()] * ROUNDS


@pytest.mark.parametrize("seed", range(40))
async def test_all_that_is_on_record_before_a_closing_is_counted(
    seed: int, autojump_clock: object
) -> None:
    random = Random(seed)

    def some() -> float:
        return random.choice((0.0, 0.5, 1.0, 1.5, 2.0, 3.0))

    slow = {
        PartyId(f"party-{number}"): functools.partial(
            Slow, reads=some(), says=sorted(some() for _ in range(ROUNDS))
        )
        for number in range(1, 5)
    }
    done = await held(slow, within=random.choice((0.0, 0.5, 1.0)))
    assert [closing.left_out for closing in closings(done)] == [()] * ROUNDS
    assert [closing.unheard for closing in closings(done)] == [()] * ROUNDS
