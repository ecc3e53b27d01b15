"""The session: starts every party and the aggregator, and sees each of them to its end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import trio

from parties.actor import Channel, run_aggregator, run_machine
from protocol.crypto.randomness import Streams
from protocol.messages import AGGREGATOR, ROLE_STREAM, PartyId
from protocol.session.charter import Charter
from protocol.session.machine import Machine
from protocol.session.roster import Identity
from protocol.session.run import Run, ending_of, run_of
from protocol.surveys.records import Records

JOINING = 60.0
LINGER = 30.0


class Hub(Protocol):
    """What a session needs of a transport."""

    def connect(self, member: PartyId) -> AbstractAsyncContextManager[Channel]:
        """A member's link."""

    async def joined(self, members: Iterable[PartyId], *, within: float) -> None:
        """Wait until all are connected; who has not come by then is gone."""


async def run_session(
    charter: Charter,
    hub: Hub,
    streams: Streams,
    holdings: Mapping[PartyId, Records],
    *,
    identities: Mapping[PartyId, Identity] | None = None,
    budget: float | None = None,
    joining: float = JOINING,
    linger: float = LINGER,
) -> Run:
    """Run all members of a survey as tasks of this process.

    A party that fails, leaves or is late does not end the survey: it is counted out, and the run's
    ``endings`` say so. Parties without records never come.

    Args:
        identities: the members' keys, for roles that sign or seal.
        joining: how long the aggregator waits for parties to connect, in seconds.
        linger: how long parties may take to end after the aggregator has, in seconds.

    Raises:
        ProtocolError: the aggregator's role failed.
    """
    parties = charter.roster.parties
    endings: dict[PartyId, str] = dict.fromkeys(parties, "never came")
    keys = identities or {}

    async def live(me: PartyId) -> None:
        stream = streams.stream(me, ROLE_STREAM)
        machine = Machine(
            charter, me, stream, records=holdings[me], identity=keys.get(me), budget=budget
        )
        try:
            async with hub.connect(me) as link:
                endings[me] = "did not end in time"
                endings[me] = ending_of(await run_machine(machine, link))
        except ConnectionError as error:
            endings[me] = f"could not connect: {error}"

    async with trio.open_nursery() as nursery:
        for name in parties:
            if name in holdings:
                nursery.start_soon(live, name)
        async with hub.connect(AGGREGATOR) as link:
            await hub.joined([name for name in parties if name not in holdings], within=0.0)
            await hub.joined(parties, within=joining)
            aggregator = await run_aggregator(
                charter, link, streams=streams, identity=keys.get(AGGREGATOR)
            )
        nursery.cancel_scope.deadline = trio.current_time() + linger
    return run_of(aggregator, endings)
