"""Shards keep the contract of transports, and let nobody in but the worker that was handed one."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

from protocol.messages import AGGREGATOR, PartyId
from protocol.session.roster import Identity
from tests.live import LOOPBACK, Certificates
from transports.base import Link
from transports.shards.hub import ShardHub, open_shards
from transports.shards.shard import KEY_BYTES, Shard
from transports.shards.worker import WorkerShard, connect_shard
from transports.switch import Switch
from transports.testing import check_transport, identity_of


class Workers:
    """A hub whose parties, in this process, live in shards."""

    def __init__(
        self, switch: Switch, hub: ShardHub, port: int, workers: dict[Shard, WorkerShard]
    ) -> None:
        self.hub = hub
        self.port = port
        self.workers = workers
        self._position = switch.exchange.charter.roster.position

    def connect(self, member: PartyId) -> AbstractAsyncContextManager[Link]:
        if member == AGGREGATOR:
            return self.hub.connect(member)
        place = self._position[member]
        [worker] = [w for s, w in self.workers.items() if s.first <= place <= s.last]
        return worker.connect(member)

    async def joined(self, members: Iterable[PartyId], *, within: float) -> None:
        await self.hub.joined(members, within=within)


def shards_of(switch: Switch, count: int) -> list[Shard]:
    parties = len(switch.exchange.charter.roster.parties)
    ends = [parties * i // count for i in range(count + 1)]
    return [Shard(i + 1, ends[i] + 1, ends[i + 1], os.urandom(KEY_BYTES)) for i in range(count)]


@asynccontextmanager
async def workers(
    switch: Switch, count: int, certificates: Certificates | None = None
) -> AsyncGenerator[Workers]:
    shards = shards_of(switch, count)
    server = certificates.server(identity_of(AGGREGATOR)) if certificates else None
    async with (
        open_shards(switch, shards, tls=server) as (hub, port),
        AsyncExitStack() as stack,
    ):
        entered = {}
        for shard in shards:
            client = certificates.client(Identity(shard.name, shard.key)) if certificates else None
            connecting = connect_shard(
                LOOPBACK,
                port,
                charter=switch.exchange.charter,
                shard=shard,
                tls=client,
                limits=switch.limits,
            )
            entered[shard] = await stack.enter_async_context(connecting)
        yield Workers(switch, hub, port, entered)


async def test_shards_keep_the_contract() -> None:
    await check_transport(partial(workers, count=1))


async def test_shards_over_tls_keep_the_contract(tmp_path: Path) -> None:
    await check_transport(partial(workers, count=7, certificates=Certificates(tmp_path)))
