"""A hub with lasting links whose parties are in this process, and a road that breaks on demand."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from ssl import SSLContext

import trio

from protocol import AGGREGATOR, RECORD, PartyId
from protocol.crypto.merkle import Tree
from protocol.messages import Declined, Envelope
from protocol.session.charter import Charter
from protocol.session.heads import Heard, SaidHead, sign_head
from protocol.session.roster import Identity
from protocol.wire.codec import encode_envelope
from tests.live import LOOPBACK, Certificates
from transports.background import running
from transports.base import Limits, Link
from transports.lasting.hub import LastingHub, open_lasting
from transports.lasting.link import LastingLink, connect_lasting
from transports.records.commits import Commits
from transports.switch import Switch
from transports.testing import identify

GRACE = 0.5
PATIENCE = 20.0


class Road:
    """What all connections go through: it can lose them, garble them, and stop carrying.

    Attributes:
        port: where parties find it.
        open: whether it takes new connections.
        silent: whether it swallows all that is said, as a half-open connection does.
        passed: how many bytes it has carried.
        most: after how many bytes it loses a connection; None for never.
        lost: how many it has lost.
    """

    def __init__(self, listener: trio.SocketListener, hub: int) -> None:
        self.port: int = listener.socket.getsockname()[1]
        self.open = True
        self.silent = False
        self.passed = 0
        self.most: int | None = None
        self.lost = 0
        self._listener = listener
        self.hub = hub
        self._scopes: set[trio.CancelScope] = set()

    async def run(self) -> None:
        async with AsyncExitStack() as wires, trio.open_nursery() as nursery:
            while True:
                near = await wires.enter_async_context(await self._listener.accept())
                if not self.open:
                    await near.aclose()
                    continue
                far = await trio.open_tcp_stream(LOOPBACK, self.hub)
                await wires.enter_async_context(far)
                nursery.start_soon(self._carry, near, far)

    def lose(self) -> None:
        """Lose every connection."""
        for scope in self._scopes:
            scope.cancel()

    async def _carry(self, near: trio.SocketStream, far: trio.SocketStream) -> None:
        with trio.CancelScope() as scope:
            self._scopes.add(scope)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._copy, near, far, scope)
                nursery.start_soon(self._copy, far, near, scope)
        self._scopes.discard(scope)
        self.lost += scope.cancelled_caught
        await trio.aclose_forcefully(near)
        await trio.aclose_forcefully(far)

    async def _copy(
        self, source: trio.SocketStream, target: trio.SocketStream, scope: trio.CancelScope
    ) -> None:
        try:
            while part := await source.receive_some(512 if self.most else 65536):
                if self.silent:
                    await trio.sleep_forever()
                self.passed += len(part)
                if self.most is not None and self.passed >= self.most:
                    self.passed = 0
                    scope.cancel()
                await target.send_all(part)
            await target.send_eof()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            scope.cancel()


class Lasting:
    """A hub whose parties, in this process, have lasting links.

    Attributes:
        hub: the hub.
        road: what their connections go through.
    """

    def __init__(
        self,
        hub: LastingHub,
        road: Road,
        charter: Charter,
        contexts: Callable[[Identity], SSLContext | None],
        limits: Limits,
        patience: float,
        identify: Callable[[PartyId], Identity],
    ) -> None:
        self.hub = hub
        self.road = road
        self._charter = charter
        self._contexts = contexts
        self._limits = limits
        self._patience = patience
        self._identify = identify

    def connect(self, member: PartyId) -> AbstractAsyncContextManager[Link]:
        return self.hub.connect(member) if member == AGGREGATOR else self.party(member)

    def party(self, member: PartyId) -> AbstractAsyncContextManager[LastingLink]:
        identity = self._identify(member)
        return connect_lasting(
            LOOPBACK,
            self.road.port,
            charter=self._charter,
            identity=identity,
            tls=self._contexts(identity),
            limits=self._limits,
            patience=self._patience,
        )

    async def joined(self, members: Iterable[PartyId], *, within: float) -> None:
        await self.hub.joined(members, within=within)


@asynccontextmanager
async def lasting(
    switch: Switch,
    certificates: Certificates | None = None,
    *,
    commits: Commits | None = None,
    grace: float = GRACE,
    patience: float = PATIENCE,
    identify: Callable[[PartyId], Identity] = identify,
) -> AsyncGenerator[Lasting]:
    """A hub on the loopback interface: TLS if there are certificates."""
    mine = identify(AGGREGATOR)
    tls = certificates.server(mine) if certificates else None
    contexts = certificates.client if certificates else lambda _: None
    opened = open_lasting(switch, mine, tls=tls, commits=commits, grace=grace)
    async with opened as (hub, port):
        [listener] = await trio.open_tcp_listeners(0, host=LOOPBACK)
        road = Road(listener, port)
        async with listener, running(road.run):
            charter = switch.exchange.charter
            yield Lasting(hub, road, charter, contexts, switch.limits, patience, identify)


def refusal(charter: Charter, party: PartyId) -> tuple[Envelope, SaidHead]:
    """The words of a party that declines: that it does, and its head."""
    body = charter.codec.encode(Declined("terms"))
    declined = Envelope(charter.session, party, AGGREGATOR, 0, "Declined", body)
    said, heard = Tree(), Heard()
    said.append(encode_envelope(declined))
    head = sign_head(identify(party), session=charter.session, said=said, heard=heard)
    envelope = Envelope(charter.session, party, RECORD, 1, "Head", charter.codec.encode(head))
    return declined, SaidHead(envelope, head.signature, said.root(), heard.tree.root())
