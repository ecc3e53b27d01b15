"""A wait closes in one step with its closing: nothing goes on record between the two."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from itertools import filterfalse
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
import trio

from parties.actor import Channel
from protocol import AGGREGATOR, Attribute, Me, Message, PartyId, Survey, Variant
from protocol.audit.audit import audit
from protocol.audit.completeness import Closing, CompletenessWriter
from protocol.audit.walk import steps
from protocol.messages import Envelope
from protocol.session.exchange import Delivery, Exchange, Ruling
from protocol.variants import RRIndependent
from tests.live import Live, run_live, town
from tests.parties.adversaries import Adversary
from tests.protocol.sessions import Turn, Word, talk
from tests.tiers import thinned
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


@pytest.mark.parametrize("seed", thinned(range(40), 15))
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


class Withholding(Exchange):
    """A hub that keeps some contributions from the aggregator's role until its wait is over."""

    def accept(self, link: PartyId, envelopes: Sequence[Envelope], **named: Any) -> Ruling:
        ruling = super().accept(link, envelopes, **named)
        deliveries = [*filterfalse(_says_yes, ruling.deliveries)]
        return msgspec.structs.replace(ruling, deliveries=deliveries)


def _says_yes(delivery: Delivery) -> bool:
    envelope = delivery.envelope
    return envelope.kind == "Report" and envelope.body[-1] == 1


@pytest.mark.parametrize("transport", ["memory", "tcp", "tls"])
@pytest.mark.parametrize("hub", [Exchange, Withholding])
async def test_over_every_transport_a_hub_that_withholds_is_found(
    transport: str, hub: type[Exchange], tmp_path: Path
) -> None:
    plain = Survey("plain", (Attribute(name="smokes", categories=("no", "yes")),))
    where = town(12, variant=RRIndependent.with_keep(plain, 0.6), patience=0.5, quorum=1)
    live = Live(where, exchange=hub)
    done = await run_live(where, transport, folder=tmp_path, live=live)
    found = audit(lambda: [done.content], RRIndependent)
    [closing] = found.completeness.closings
    some = hub is Withholding
    assert 12 - len(closing.missing) == int(done.published.counts.sum())
    assert closing.left_out == closing.missing
    assert bool(closing.missing) == some
    assert [str(f)[:32] for f in found.findings] == ["'Report' was on record before th"] * some
    assert found.verdict == ("broken" if some else "sound")
