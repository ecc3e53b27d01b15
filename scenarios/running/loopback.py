"""Parties of this process that are connected by sockets of this machine."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from protocol.errors import UsageError
from protocol.messages import AGGREGATOR, PartyId
from protocol.simulation.setting import Setting
from scenarios.running.credentials import credentials_issuer
from transports.switch import Switch
from transports.tcp import TcpHub, connect_tcp, open_tcp
from transports.tls import client_context, server_context

if TYPE_CHECKING:
    import ssl

    from transports.base import Link

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Loopback:
    """All members in this process, the parties connected by sockets."""

    hub: TcpHub
    port: int
    setting: Setting
    context: Callable[[PartyId], ssl.SSLContext | None]

    def connect(self, member: PartyId) -> AbstractAsyncContextManager[Link]:
        if member == AGGREGATOR:
            return self.hub.connect(member)
        return connect_tcp(
            LOOPBACK,
            self.port,
            charter=self.setting.charter,
            identity=self.setting.identities[member],
            tls=self.context(member),
        )

    async def joined(self, members: Iterable[PartyId], *, within: float) -> None:
        await self.hub.joined(members, within=within)


@asynccontextmanager
async def open_loopback(
    switch: Switch, setting: Setting, *, secured: bool
) -> AsyncGenerator[Loopback]:
    """The aggregator's switch listening on this machine, and a function to connect parties."""
    issue = credentials_issuer(setting.streams) if secured else None

    def context(member: PartyId) -> ssl.SSLContext | None:
        if issue is None:
            return None
        make = server_context if member == AGGREGATOR else client_context
        return issue(setting.identities[member]).context(make)

    identity, tls = setting.identities[AGGREGATOR], context(AGGREGATOR)
    async with open_tcp(switch, identity, host=LOOPBACK, tls=tls) as (hub, port):
        yield Loopback(hub, port, setting, context)


def allow_connections(sockets: int, *, strangers: int = 0) -> None:
    """Raise the limit on open files as far as needed and allowed.

    Args:
        strangers: number of additional sockets, if the system allows so many.

    Raises:
        UsageError: the system does not allow that many.
    """
    try:
        import resource
    except ImportError:
        return
    needed = sockets + 64
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and needed > hard:
        raise UsageError(
            f"{sockets} sockets needed in one process, {hard} open files allowed by the system: "
            f"use fewer parties, or allow {needed} (ulimit -n)"
        )
    needed += strangers
    if hard != resource.RLIM_INFINITY:
        needed = min(needed, hard)
    if soft != resource.RLIM_INFINITY and needed > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
