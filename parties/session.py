"""The session: starts every party and the aggregator, and sees each of them to its end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import trio

from parties.actor import Channel, run_aggregator, run_party
from protocol.charter import Charter
from protocol.local import Run, ending_of, outcome_of
from protocol.machine import Machine
from protocol.messages import AGGREGATOR, PartyId
from protocol.randomness import Streams
from protocol.records import Records

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
    budget: float | None = None,
    joining: float = JOINING,
    linger: float = LINGER,
) -> Run:
    """Run all members of a survey as tasks of this process.

    A party that fails, leaves or is late does not end the survey: it is counted out, and the run's
    ``endings`` say so. Parties without records never come.

    Args:
        joining: how long the aggregator waits for parties to connect, in seconds.
        linger: how long parties may take to end after the aggregator has, in seconds.

    Raises:
        ProtocolError: the aggregator's role failed.
    """
    endings: dict[PartyId, str] = dict.fromkeys(charter.roster.parties, "never came")

    async def live(me: PartyId) -> None:
        endings[me] = "did not end in time"
        try:
            async with hub.connect(me) as link:
                machine = await run_party(
                    charter, me, link, streams=streams, records=holdings[me], budget=budget
                )
        except OSError as error:
            endings[me] = f"could not connect: {error}"
        else:
            endings[me] = ending_of(machine)

    aggregator: Machine | None = None
    async with trio.open_nursery() as nursery:
        for name in charter.roster.parties:
            if name in holdings:
                nursery.start_soon(live, name)
        async with hub.connect(AGGREGATOR) as link:
            await hub.joined(charter.roster.parties, within=joining)
            aggregator = await run_aggregator(charter, link, streams=streams)
        nursery.cancel_scope.deadline = trio.current_time() + linger
    return Run(outcome_of(aggregator), endings)
