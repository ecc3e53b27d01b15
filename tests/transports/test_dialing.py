"""Whoever cannot connect is told why and what to do, in one line without the system's own words."""

from __future__ import annotations

import datetime
import errno
import os
import re
import socket
import ssl
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from protocol import AGGREGATOR, PartyId
from tests.live import LOOPBACK, Certificates
from transports.base import Limits
from transports.certificates import Authority
from transports.connection import Connection
from transports.dialing import StrangerError, TurnedAwayError, dial, plain_reason, resolve_addresses
from transports.testing import HANGS, identify

A = PartyId("party-1")
RAW = re.compile(r"errno|SSL:|_ssl|\[|\bE[A-Z]{4,}\b|[A-Z]+_[A-Z]+|Errno|Error")
"""What only a system or OpenSSL would say."""

Peer = Callable[[trio.SocketStream], Awaitable[None]]


@asynccontextmanager
async def peer(what: Peer) -> AsyncGenerator[int]:
    """The port of a server that does this with every connection."""
    [listener] = await trio.open_tcp_listeners(0, host=LOOPBACK)
    async with trio.open_nursery() as nursery:

        async def attend(stream: trio.SocketStream) -> None:
            try:
                await what(stream)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                pass
            finally:
                await trio.aclose_forcefully(stream)

        nursery.start_soon(trio.serve_listeners, attend, [listener])
        yield listener.socket.getsockname()[1]
        nursery.cancel_scope.cancel()


async def complained(
    port: int, tls: ssl.SSLContext | None, *, host: str = LOOPBACK, limits: Limits | None = None
) -> ConnectionError:
    """Why a party cannot connect; none of it is in words for programmers."""

    async def enter(connection: Connection) -> None:
        await connection.receive()
        raise AssertionError("it was let in")

    with trio.fail_after(HANGS), pytest.raises(ConnectionError) as caught:
        await dial(host, port, enter, tls=tls, limits=limits or Limits())
    [line] = str(caught.value).splitlines()
    assert not RAW.search(line), line
    return caught.value


async def _web_server(stream: trio.SocketStream) -> None:
    await stream.receive_some()
    await stream.send_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")


async def _mail_server(stream: trio.SocketStream) -> None:
    await stream.send_all(b"220 mail.example ESMTP\r\n")
    await stream.receive_some()


async def _resets(stream: trio.SocketStream) -> None:
    await stream.receive_some()
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def _ends(stream: trio.SocketStream) -> None:
    await stream.receive_some()


async def _garbles(stream: trio.SocketStream) -> None:
    await stream.receive_some()
    await stream.send_all(b"\x16\x03\x03\x00\x06\x02\x00\x00\x02\xff\xff")
    await stream.receive_some()


async def _old_server(stream: trio.SocketStream) -> None:
    """The alert of a server that speaks no version of TLS that this party does."""
    await stream.receive_some()
    await stream.send_all(b"\x15\x03\x03\x00\x02\x02\x46")


def _secured(context: ssl.SSLContext) -> Peer:
    async def talk(stream: trio.SocketStream) -> None:
        secured = trio.SSLStream(stream, context, server_side=True)
        await secured.do_handshake()
        await secured.receive_some()

    return talk


@pytest.mark.parametrize(
    ("what", "says"),
    [
        (_web_server, "does not speak TLS: a web server or another program is at this port"),
        (_mail_server, "does not speak TLS"),
        (_resets, "the connection was cut off, by the other side or by what is in between"),
        (_ends, "ended TLS: it does not accept this certificate, or is something else"),
        (_garbles, "garbled on the way"),
        (_old_server, "the other side speaks another TLS: something else is at this port"),
    ],
)
async def test_what_is_no_aggregator_is_named(what: Peer, says: str, tmp_path: Path) -> None:
    tls = Certificates(tmp_path).client(identify(A))
    async with peer(what) as port:
        error = await complained(port, tls)
    assert says in str(error)
    # It may be what is in between, and gone the next time.
    assert not isinstance(error, TurnedAwayError)


def _issued(folder: Path, begins: datetime.timedelta, days: int = 1) -> ssl.SSLContext:
    """An aggregator whose certificates are valid at another time."""
    there = Certificates(folder)
    now = datetime.datetime.now(datetime.UTC)
    there._authority = Authority(there._authority._key, now=now + begins, days=days)
    there.authority.write_bytes(there._authority.pem)
    return there.server(identify(AGGREGATOR))


@pytest.mark.parametrize(
    ("server", "says"),
    [
        (
            lambda folder: _issued(folder, datetime.timedelta(days=-3)),
            "certificate has expired: check the clocks of both machines",
        ),
        (
            lambda folder: _issued(folder, datetime.timedelta(days=3)),
            "certificate is not valid yet: check the clocks of both machines",
        ),
        (
            lambda folder: Certificates(folder / "other", seed=b"other").server(
                identify(AGGREGATOR)
            ),
            "certificate is not one that is trusted for this address: another survey or server is "
            "there, or something in between answers for it",
        ),
        (
            lambda folder: Certificates(folder).server(identify(PartyId("party-2"))),
            "the certificate names party-2, expected 'aggregator'",
        ),
    ],
    ids=["expired", "not yet", "another survey", "another member"],
)
async def test_a_certificate_that_is_not_the_aggregators_is_named(
    server: Callable[[Path], ssl.SSLContext], says: str, tmp_path: Path
) -> None:
    context = server(tmp_path)
    tls = Certificates(tmp_path / "mine").client(identify(A))
    tls.load_verify_locations(tmp_path / "authority.pem") if says.count("clock") else None
    async with peer(_secured(context)) as port:
        error = await complained(port, tls)
    assert says in str(error)
    assert isinstance(error, StrangerError)


async def test_an_aggregator_that_does_not_take_the_certificate_is_named(tmp_path: Path) -> None:
    right, other = Certificates(tmp_path), Certificates(tmp_path / "other", seed=b"other")
    tls = other.client(identify(A))
    tls.load_verify_locations(right.authority)
    async with peer(_secured(right.server(identify(AGGREGATOR)))) as port:
        error = await complained(port, tls)
    assert "does not accept this certificate" in str(error)


async def test_nobody_listens(tmp_path: Path) -> None:
    async with peer(_ends) as port:
        pass
    for host in (LOOPBACK, "localhost"):
        assert "nobody listens there" in str(await complained(port, None, host=host))


@pytest.mark.parametrize(
    ("what", "says"),
    [
        (_ends, "closed the connection without a word"),
        (_web_server, "speaks another protocol (is TLS on at one end only?)"),
    ],
)
async def test_without_tls(what: Peer, says: str) -> None:
    async def enter(connection: Connection) -> None:
        await connection.send([b"hello"])
        await connection.receive()

    async with peer(what) as port:
        with trio.fail_after(HANGS), pytest.raises(ConnectionError, match=re.escape(says)):
            await dial(LOOPBACK, port, enter, tls=None, limits=Limits())


class Resolver(trio.abc.HostnameResolver):
    """Names by a test."""

    def __init__(self, answer: Exception | list[str] | None) -> None:
        self.answer = answer

    async def getaddrinfo(self, host: object, port: object, *others: object) -> list[object]:
        if self.answer is None:
            await trio.sleep_forever()
        if isinstance(self.answer, Exception):
            raise self.answer
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 0, "", (one, port)) for one in self.answer or ()
        ]

    async def getnameinfo(self, *_: object) -> tuple[str, str]:
        raise AssertionError("nobody asks for a name")


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "no host has this name"),
        (
            socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"),
            "the name cannot be looked up: check this machine's network",
        ),
        (UnicodeError("label too long"), "no host has this name"),
        (None, "was not looked up in time"),
        (["127.0.0.1", "127.0.0.2", "127.0.0.1"], None),
    ],
)
async def test_names(
    answer: Exception | list[str] | None, says: str | None, autojump_clock: object
) -> None:
    before = trio.socket.set_custom_hostname_resolver(Resolver(answer))
    try:
        if says is None:
            assert await resolve_addresses("host.example", 1, within=1.0) == (
                "127.0.0.1",
                "127.0.0.2",
            )
            return
        with pytest.raises(ConnectionError, match=says) as caught:
            await resolve_addresses("host.example", 1, within=1.0)
        assert not RAW.search(str(caught.value))
        if answer is not None:
            assert says in str(await complained(1, None, host="host.example"))
    finally:
        trio.socket.set_custom_hostname_resolver(before)


async def test_addresses_of_numbers_are_themselves() -> None:
    assert await resolve_addresses(LOOPBACK, 1, within=1.0) == (LOOPBACK,)
    assert await resolve_addresses("::1", 1, within=1.0) == ("::1",)
    assert await resolve_addresses("fe80::1%1", 1, within=1.0) == ("fe80::1%1",)


class Broken(trio.abc.SocketFactory):
    """A system that makes no sockets."""

    def __init__(self, error: int) -> None:
        self.error = error

    def socket(self, *_: object) -> trio.socket.SocketType:
        raise OSError(self.error, os.strerror(self.error))


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (errno.EMFILE, "this machine has too many files open: end other programs or raise"),
        (errno.ENETUNREACH, "no way to this host: check the address and this machine's network"),
        (errno.EHOSTUNREACH, "no way to this host"),
        (errno.ETIMEDOUT, "no answer: check the address, and whether a firewall is in between"),
        (errno.EACCES, "this machine does not allow it: check its firewall"),
    ],
)
async def test_a_machine_that_cannot_connect(error: int, says: str) -> None:
    before = trio.socket.set_custom_socket_factory(Broken(error))
    try:
        assert says in str(await complained(1, None))
    finally:
        trio.socket.set_custom_socket_factory(before)


def test_every_error_of_the_system_has_words() -> None:
    for number in errno.errorcode:
        said = plain_reason(OSError(number, os.strerror(number)))
        assert os.strerror(number) not in said
        assert len(said.splitlines()) == 1
    assert plain_reason(TimeoutError("timed out")) == plain_reason(OSError(errno.ETIMEDOUT, "?"))
    assert not RAW.search(plain_reason(ssl.SSLError(1, "[SSL: SOMETHING_NEW] something new")))
