"""The session: starts every member, the aggregator last, and sees each of them to its end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import trio

from parties.actor import Channel, run_aggregator, run_machine
from protocol.accounting.spending import DELTA
from protocol.crypto.randomness import Streams
from protocol.messages import AGGREGATOR, NEVER_CAME, ROLE_STREAM, PartyId
from protocol.session.charter import Charter
from protocol.session.machine import Machine
from protocol.session.roster import Identity
from protocol.session.run import Run, finished_run, machine_ending
from protocol.surveys.records import Records

JOINING = 60.0
LINGER = 30.0


class Connecting(Protocol):
    """Methods of a transport that a party needs."""

    def connect(self, member: PartyId) -> AbstractAsyncContextManager[Channel]:
        """A member's link."""


class Hub(Connecting, Protocol):
    """Methods of a transport that a session needs."""

    async def joined(self, members: Iterable[PartyId], *, within: float) -> None:
        """Wait until all are connected; members that have not come by then are gone."""


async def run_session(
    charter: Charter,
    hub: Hub,
    streams: Streams,
    holdings: Mapping[PartyId, Records],
    *,
    identities: Mapping[PartyId, Identity] | None = None,
    budget: float | None = None,
    honest: int = 0,
    delta: float = DELTA,
    joining: float = JOINING,
    linger: float = LINGER,
) -> Run:
    """Run all members of a survey as tasks of this process.

    A party that fails, leaves or is late does not end the survey: it is counted out, and the run's
    ``endings`` say so. Parties without records never come.

    Args:
        identities: the members' keys, for roles that sign or seal.
        budget, honest, delta: for each party, as for ``Machine``.
        joining: how long the aggregator waits for parties to connect, in seconds.
        linger: how long parties may take to end after the aggregator has, in seconds.

    Raises:
        ProtocolError: the aggregator's role failed.
    """
    roster = charter.roster
    endings: dict[PartyId, str] = dict.fromkeys(roster.others, NEVER_CAME)
    keys = identities or {}
    held = {**dict.fromkeys(roster.services), **holdings}
    async with trio.open_nursery() as nursery:
        start_members(
            nursery,
            charter,
            hub,
            streams,
            held,
            endings,
            identities=keys,
            budget=budget,
            honest=honest,
            delta=delta,
        )
        aggregator = await lead_session(
            charter,
            hub,
            streams,
            identity=keys.get(AGGREGATOR),
            absent=[name for name in roster.parties if name not in holdings],
            joining=joining,
        )
        nursery.cancel_scope.deadline = trio.current_time() + linger
    return finished_run(aggregator, endings)


async def lead_session(
    charter: Charter,
    hub: Hub,
    streams: Streams,
    *,
    identity: Identity | None = None,
    absent: Sequence[PartyId] = (),
    joining: float = JOINING,
) -> Machine:
    """Run the aggregator of a survey once all others are connected or gone.

    Args:
        identity: the aggregator's key.
        absent: the parties that will not come.
        joining: how long the others may take to connect, in seconds.
    """
    async with hub.connect(AGGREGATOR) as link:
        await hub.joined(absent, within=0.0)
        await hub.joined(charter.roster.others, within=joining)
        return await run_aggregator(charter, link, streams=streams, identity=identity)


def start_members(
    nursery: trio.Nursery,
    charter: Charter,
    hub: Connecting,
    streams: Streams,
    holdings: Mapping[PartyId, Records | None],
    endings: MutableMapping[PartyId, str],
    *,
    identities: Mapping[PartyId, Identity],
    budget: float | None = None,
    honest: int = 0,
    delta: float = DELTA,
) -> None:
    """Start parties and services of a survey as tasks of this process.

    Args:
        nursery: the nursery of their tasks.
        holdings: their names, and the records of each; None for a service.
        endings: takes the ending of each.
    """

    async def live(me: PartyId) -> None:
        stream = streams.stream(me, ROLE_STREAM)
        machine = Machine(
            charter,
            me,
            stream,
            records=holdings[me],
            identity=identities.get(me),
            budget=budget,
            honest=honest,
            delta=delta,
        )
        try:
            async with hub.connect(me) as link:
                endings[me] = "did not end in time"
                endings[me] = machine_ending(await run_machine(machine, link))
        except ConnectionError as error:
            endings[me] = f"could not connect: {error}"

    for name in holdings:
        nursery.start_soon(live, name)
