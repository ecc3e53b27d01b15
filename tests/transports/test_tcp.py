"""TCP and TLS keep the contract, and whoever should not get in is told so and recorded."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import msgspec
import pytest
import trio
import trio.testing
import trustme

from parties.session import run_session
from protocol import AGGREGATOR, PartyId, RemoteProtocolError
from protocol.messages import DONE
from protocol.session.charter import Charter
from protocol.session.exchange import Exchange
from protocol.session.roster import Identity
from protocol.simulation.setting import make_setting
from protocol.transcript.entries import Refused, Sent
from protocol.variants import RRIndependent
from protocol.wire.codec import encode_envelope
from scenarios import town
from scenarios.data.town import TOWN
from scenarios.running.loopback import open_loopback
from tests.live import LOOPBACK, Certificates, Sockets, entered, framed, sockets
from transports import handshake
from transports.admission import KEPT, trusted_network
from transports.background import running
from transports.base import Limits
from transports.handshake import Challenge
from transports.listening import listen
from transports.switch import Switch
from transports.tcp import TcpHub, connect_tcp, open_tcp
from transports.testing import HANGS, Post, check_transport, identify, make_charter
from transports.tls import require_certificates

A, B = PartyId("party-1"), PartyId("party-2")


async def test_tcp_keeps_the_contract() -> None:
    await check_transport(partial(sockets, identify=identify))


@pytest.mark.slow
async def test_tls_keeps_the_contract(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    await check_transport(partial(sockets, identify=identify, certificates=certificates))


class Trusted(Certificates):
    """Certificates of an authority by trustme, with keys that are not the parties' identities."""

    def __init__(self) -> None:
        self._ca = trustme.CA()
        self._contexts: dict[str, ssl.SSLContext] = {}

    def server(self, identity: Identity) -> ssl.SSLContext:
        return self._context(identity, ssl.PROTOCOL_TLS_SERVER)

    def client(self, identity: Identity) -> ssl.SSLContext:
        return self._context(identity, ssl.PROTOCOL_TLS_CLIENT)

    def _context(self, identity: Identity, side: int) -> ssl.SSLContext:
        if identity.name not in self._contexts:
            context = require_certificates(ssl.SSLContext(side))
            self._ca.issue_cert(identity.name).configure_cert(context)
            self._ca.configure_trust(context)
            self._contexts[identity.name] = context
        return self._contexts[identity.name]


@pytest.mark.slow
async def test_tls_with_other_certificates_keeps_the_contract() -> None:
    await check_transport(partial(sockets, identify=identify, certificates=Trusted()))


@asynccontextmanager
async def listening(
    certificates: Certificates | None = None, limits: Limits | None = None
) -> AsyncGenerator[tuple[Post, Sockets]]:
    post = Post(limits)
    async with sockets(post.switch, identify, certificates) as hub:
        yield post, hub


async def enter(
    hub: Sockets,
    *,
    charter: Charter | None = None,
    identity: Identity | None = None,
    tls: ssl.SSLContext | None = None,
    limits: Limits | None = None,
) -> str:
    """Try to get in; the one line that says why not."""
    with pytest.raises(OSError) as caught:  # noqa: PT011 - the line is checked by the caller
        async with connect_tcp(
            LOOPBACK,
            hub.port,
            charter=charter or make_charter(),
            identity=identity or identify(A),
            tls=tls,
            limits=limits,
        ):
            raise AssertionError("it was let in")
    [line] = str(caught.value).splitlines()
    return line


async def recorded(post: Post, hub: Sockets, count: int = 1) -> str:
    """Why the hub refused, once it has; nobody but the refused may have been recorded."""
    with trio.fail_after(HANGS):
        while hub.hub.refused.total() < count:
            await trio.testing.wait_all_tasks_blocked(0.01)
        await post.switch.emptied()
    refused = [entry for entry in post.entries() if isinstance(entry, Refused)]
    assert [entry.link for entry in refused] == [""] * count
    return refused[-1].reason


def stranger(name: str = "stranger") -> Identity:
    return Identity(PartyId(name), b"s" * 32)


async def test_an_unknown_party() -> None:
    async with listening() as (post, hub):
        assert "'stranger' is not on the roster" in await enter(hub, identity=stranger())
        assert "'stranger' is not on the roster" in await recorded(post, hub)
        assert hub.hub.refused == {"not admitted": 1}


async def test_nobody_enters_as_the_aggregator() -> None:
    async with listening() as (post, hub):
        line = await enter(hub, identity=identify(AGGREGATOR))
        assert "'aggregator' is not on the roster" in line
        assert "aggregator" in await recorded(post, hub)


async def test_a_wrong_identity_key() -> None:
    async with listening() as (post, hub):
        assert "not signed by 'party-1'" in await enter(hub, identity=stranger(A))
        assert "not signed by 'party-1'" in await recorded(post, hub)
        assert hub.hub.refused == {"not proved": 1}


async def test_another_attempt_than_expected() -> None:
    """The hub is in attempt 1; a party stays away before it has proved who it is."""
    async with listening() as (post, hub):
        again = make_charter().again(2)
        assert await enter(hub, charter=again) == "attempt: 1, expected 2"
        assert "ended" in await recorded(post, hub)


async def test_whoever_joins_learns_the_attempt() -> None:
    heard: list[int] = []
    async with (
        listening() as (_, hub),
        connect_tcp(
            LOOPBACK,
            hub.port,
            charter=make_charter().again(7),
            identity=identify(A),
            join=heard.append,
        ),
    ):
        pass
    assert heard == [1]


def challenged(attempt: int, nonce: bytes = b"n" * 32) -> tuple[handshake.Hello, Challenge]:
    hello = handshake.Hello(handshake.VERSION, make_charter().survey_id, A, b"a" * 32)
    return hello, handshake.challenge(identify(AGGREGATOR), hello, attempt, nonce)


def test_a_challenge_names_its_attempt_to_one_hello() -> None:
    roster = make_charter().roster
    hello, challenge = challenged(2)
    handshake.check_challenge(roster, hello, challenge)
    replaced = msgspec.structs.replace
    for other, said in (
        # An old one, to a party that has come again.
        (replaced(hello, nonce=b"b" * 32), challenge),
        (replaced(hello, party=B), challenge),
        (replaced(hello, survey=bytes(32)), challenge),
        (hello, replaced(challenge, attempt=3)),
        (hello, replaced(challenge, nonce=b"m" * 32)),
        (hello, challenged(2, b"short")[1]),
    ):
        with pytest.raises(RemoteProtocolError, match="not signed by the aggregator"):
            handshake.check_challenge(roster, other, said)


@pytest.mark.parametrize("attempt", [0, -1, 101, 2**63])
def test_an_attempt_that_cannot_be(attempt: int) -> None:
    hello, challenge = challenged(attempt)
    with pytest.raises(RemoteProtocolError, match="expected 1 to 100"):
        handshake.check_challenge(make_charter().roster, hello, challenge)


def test_a_proof_is_of_one_attempt() -> None:
    roster, (hello, challenge) = make_charter().roster, challenged(2)
    proof = handshake.prove(identify(A), hello, challenge)
    handshake.check_proof(roster, hello, 2, challenge.nonce, proof)
    with pytest.raises(RemoteProtocolError, match="not signed by 'party-1'"):
        handshake.check_proof(roster, hello, 1, challenge.nonce, proof)


async def test_another_survey() -> None:
    async with listening() as (post, hub):
        other = msgspec.structs.replace(make_charter(), nonce=b"x" * 16)
        assert "another survey" in await enter(hub, charter=other)
        assert "another survey" in await recorded(post, hub)
        assert hub.hub.refused == {"another survey": 1}


async def test_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    async with listening() as (post, hub):
        hello = handshake.Hello("sottovoce/0", post.charter.survey_id, A, bytes(32))
        async with await trio.open_tcp_stream(LOOPBACK, hub.port) as wire:
            await wire.send_all(framed(handshake.encode(hello)))
            answer = await wire.receive_some()
            assert b"Refusal" in answer
            assert b"'sottovoce/0', expected 'sottovoce/1'" in answer
        assert "version" in await recorded(post, hub)


async def test_an_aggregator_that_is_another() -> None:
    post = Post(None)
    async with open_tcp(post.switch, stranger("aggregator")) as (hub, port):
        loopback = Sockets(hub, port, post.charter, identify, lambda _: None, Limits())
        assert "not signed by the aggregator" in await enter(loopback)
        assert "ended" in await recorded(post, loopback)


async def test_a_second_connection_of_a_party() -> None:
    async with listening() as (post, hub), hub.connect(A):
        assert "connected already" in await enter(hub)
        assert hub.hub.refused == {"not admitted": 1}
    [refused] = [entry for entry in post.entries() if isinstance(entry, Refused)]
    assert "connected already" in refused.reason


async def test_nobody_there() -> None:
    async with listening() as (_, hub):
        pass
    assert (await enter(hub)).startswith("nobody listens there: ")


def other_authority(folder: Path) -> ssl.SSLContext:
    return Certificates(folder / "other", seed=b"other").client(identify(A))


def unknown_certificate(folder: Path) -> ssl.SSLContext:
    """Trusts the right authority, and shows a certificate of another."""
    right, other = Certificates(folder), Certificates(folder / "other", seed=b"other")
    context = require_certificates(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    context.load_verify_locations(right.authority)
    context.load_cert_chain(*other.files(identify(A)))
    return context


def no_certificate(folder: Path) -> ssl.SSLContext:
    context = require_certificates(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    context.load_verify_locations(Certificates(folder).authority)
    return context


def anothers_certificate(folder: Path) -> ssl.SSLContext:
    return Certificates(folder).client(identify(B))


def old_version(folder: Path) -> ssl.SSLContext:
    context = Certificates(folder).client(identify(A))
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    return context


@pytest.mark.parametrize(
    ("context", "line", "reason"),
    [
        (other_authority, "certificate is not one that is trusted", ""),
        (unknown_certificate, "does not accept this certificate", "VERIFY_FAILED"),
        (no_certificate, "does not accept this certificate", "did not return"),
        (anothers_certificate, "the certificate names party-2, expected 'party-1'", "party-2"),
        (old_version, "TLS", "PROTOCOL"),
        (lambda _: None, "without a word", "WRONG_VERSION_NUMBER"),
    ],
    ids=["authority", "unknown", "none", "another's", "old", "plain"],
)
async def test_tls_refuses(
    context: Callable[[Path], ssl.SSLContext | None], line: str, reason: str, tmp_path: Path
) -> None:
    async with listening(Certificates(tmp_path)) as (post, hub):
        assert line in await enter(hub, tls=context(tmp_path))
        assert reason in await recorded(post, hub)


async def test_a_hub_with_a_partys_certificate_is_not_the_aggregator(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    post = Post(None)
    tls = certificates.server(identify(B))
    async with open_tcp(post.switch, identify(AGGREGATOR), tls=tls) as (hub, port):
        loopback = Sockets(
            hub, port, post.charter, identify, certificates.client, post.switch.limits
        )
        line = await enter(loopback, tls=certificates.client(identify(A)))
        assert "the certificate names party-2, expected 'aggregator'" in line


async def test_a_tls_client_on_a_plain_port(tmp_path: Path) -> None:
    async with listening() as (post, hub):
        line = await enter(hub, tls=Certificates(tmp_path).client(identify(A)))
        assert "TLS" in line
        assert "a frame of" in await recorded(post, hub)


async def test_tls_uses_1_3_and_no_tickets(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    server, client = (
        certificates.server(identify(AGGREGATOR)),
        certificates.client(identify(A)),
    )
    assert server.num_tickets == 0
    for context in (server, client):
        assert context.minimum_version is ssl.TLSVersion.TLSv1_3
        assert context.verify_mode is ssl.CERT_REQUIRED


QUICK = Limits(handshake=0.2, frame=0.2, idle=0.2)


@pytest.mark.parametrize(
    ("secured", "start"),
    [(False, b""), (False, b"\0"), (False, b"\0\0\0\x40abc"), (True, b""), (True, b"\x16\x03\x01")],
)
async def test_the_handshake_has_a_deadline(secured: bool, start: bytes, tmp_path: Path) -> None:
    certificates = Certificates(tmp_path) if secured else None
    async with listening(certificates, QUICK) as (post, hub):
        async with await trio.open_tcp_stream(LOOPBACK, hub.port) as wire:
            if start:
                await wire.send_all(start)
            with trio.fail_after(HANGS):
                while await wire.receive_some():
                    pass
        assert "took too long" in await recorded(post, hub)


async def test_a_hub_that_says_nothing_is_given_up() -> None:
    [listener] = await trio.open_tcp_listeners(0, host=LOOPBACK)
    async with listener:
        port = listener.socket.getsockname()[1]
        hub = Sockets(None, port, make_charter(), identify, lambda _: None, QUICK)
        assert (await enter(hub, limits=QUICK)).startswith("no welcome in time")


def inside(hub: Sockets) -> AbstractAsyncContextManager[trio.SocketStream]:
    """A party's bare stream, after its welcome."""
    return entered(hub, make_charter(), identify(A))


async def until_gone(switch: Switch, member: PartyId = A) -> str:
    with trio.fail_after(HANGS):
        while member not in switch.exchange.departed:
            await trio.testing.wait_all_tasks_blocked(0.01)
    return switch.exchange.departed[member]


async def test_a_frame_has_a_deadline() -> None:
    async with listening(limits=Limits(frame=0.2)) as (post, hub), inside(hub) as wire:
        payload = framed(bytes(1000))
        with trio.fail_after(HANGS):
            try:
                # A drop at a time: every read brings something, and the frame never ends.
                for i in range(len(payload) - 1):
                    await wire.send_all(payload[i : i + 1])
                    with trio.move_on_after(0.02):
                        if not await wire.receive_some():
                            break
            except trio.BrokenResourceError:
                pass
        assert i < len(payload) - 2
        assert await until_gone(post.switch) == "silent for too long"


async def test_silence_has_a_deadline() -> None:
    async with listening(limits=Limits(idle=0.2)) as (post, hub), inside(hub) as wire:
        with trio.fail_after(HANGS):
            assert await wire.receive_some() == b""
        assert await until_gone(post.switch) == "silent for too long"


@pytest.mark.parametrize(
    ("junk", "reason"),
    [
        (b"\xff\xff\xff\xff", "a frame of 4294967295 B"),
        (framed(b"\x93garbage"), "envelope"),
        (framed(b"\xc1"), "envelope"),
    ],
    ids=["oversize", "garbage", "reserved"],
)
async def test_junk_ends_the_link_and_is_recorded(junk: bytes, reason: str) -> None:
    async with listening() as (post, hub), inside(hub) as wire:
        await wire.send_all(junk)
        assert reason in await until_gone(post.switch)
    [refused] = [entry for entry in post.entries() if isinstance(entry, Refused)]
    assert refused.link == A
    assert refused.excerpt == b""


async def test_what_came_before_junk_in_one_write_counts() -> None:
    async with listening() as (post, hub), inside(hub) as wire:
        good = [encode_envelope(parcel) for parcel in post.parcels(A, AGGREGATOR, [0, 1, 2])]
        await wire.send_all(b"".join(map(framed, [*good[:2], b"\xc1", good[2]])))
        assert "envelope" in await until_gone(post.switch)
    entries = post.entries()
    assert [entry.envelope for entry in entries if isinstance(entry, Sent)] == good[:2]
    assert sum(isinstance(entry, Refused) for entry in entries) == 1


async def test_ending_inside_a_frame_is_no_goodbye() -> None:
    async with listening() as (post, hub):
        async with inside(hub) as wire:
            await wire.send_all(framed(b"abc")[:-1])
        assert await until_gone(post.switch) == "the connection ended inside a frame"


@pytest.mark.parametrize("said", [b"", b"\x16"])
async def test_strangers_who_say_little_keep_nobody_out(said: bytes) -> None:
    """The parties come last, and would wait 300 s for the strangers' handshakes to run out."""
    variant = RRIndependent.with_keep(TOWN, 0.5)
    where = make_setting(variant, town(8, seed=1), seed=1)
    limits = Limits(unfinished=64, unfinished_each=64, handshake=300.0)
    strangers = 96
    switch = Switch(Exchange(where.charter), limits)
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        hub = await enter(open_loopback(switch, where, secured=True))
        for _ in range(strangers):
            wire = await trio.open_tcp_stream(LOOPBACK, hub.port)
            stack.push_async_exit(wire)
            await wire.send_all(said)
        with trio.fail_after(limits.handshake / 2):
            run = await run_session(
                where.charter, hub, where.streams, where.holdings, identities=where.identities
            )
    assert set(run.endings.values()) == {DONE}
    assert hub.hub.refused.total() >= strangers - limits.unfinished


@pytest.mark.parametrize("addresses", [1, 100])
async def test_a_known_party_comes_back_within_a_second(addresses: int) -> None:
    """Three hundred strangers say a word each, and come again whenever they are turned away."""
    async with listening() as (_, hub), AsyncExitStack() as stack:
        crowd: list[socket.socket] = []

        def call(place: int) -> socket.socket:
            made = socket.socket()
            made.bind((f"127.0.3.{1 + place % addresses}", 0))
            made.connect((LOOPBACK, hub.port))
            made.setblocking(False)
            made.send(b"\0")
            return made

        async def call_again() -> None:
            while True:
                for place, made in enumerate(crowd):
                    if is_closed(made):
                        made.close()
                        crowd[place] = call(place)
                await trio.sleep(0.01)

        crowd += map(call, range(300))
        stack.callback(lambda: [made.close() for made in crowd])
        await stack.enter_async_context(running(call_again))
        await trio.sleep(0.2)
        began = time.process_time()
        async with hub.connect(A):
            # Of this process, which is the strangers', too: others may be using the machine.
            assert time.process_time() - began < 1


def is_closed(made: socket.socket) -> bool:
    try:
        return not made.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


async def test_only_so_many_are_unfinished() -> None:
    limits = Limits(unfinished=6, unfinished_each=6)
    async with listening(limits=limits) as (post, hub), AsyncExitStack() as stack:
        # Members who come all at once have places.
        places = max(6, len(post.charter.roster))
        for _ in range(places + 14):
            stack.push_async_exit(await trio.open_tcp_stream(LOOPBACK, hub.port))
            await trio.testing.wait_all_tasks_blocked()
        assert len(hub.hub.admission) == places
        assert hub.hub.refused == {"too slow": 14}
    reasons = [entry.reason for entry in post.entries() if isinstance(entry, Refused)]
    assert reasons[:14] == ["it made room for others"] * 14


async def test_a_trusted_party_gets_in_when_all_places_are_taken() -> None:
    """Strangers do not take the last places, and a party of another address would push one out."""
    post = Post(Limits(unfinished=80, unfinished_each=80))
    made = TcpHub(post.switch, identify(AGGREGATOR), trusted=[trusted_network(LOOPBACK)])
    async with listen(made, post.switch.run, host=LOOPBACK, port=0) as (hub, port):
        with ExitStack() as stack:
            for last in range(1, 90):
                caller = stack.enter_context(socket.socket())
                caller.bind((f"127.0.3.{last}", 0))
                caller.connect((LOOPBACK, port))
                await trio.testing.wait_all_tasks_blocked()
            assert len(hub.admission) == 80 - KEPT
            there = Sockets(hub, port, post.charter, identify, lambda _: None, Limits())
            async with there.connect(A), there.connect(B):
                assert post.switch.connected == 2


async def test_only_so_many_strangers_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("protocol.session.exchange.STRANGERS", 3)
    async with listening() as (post, hub):
        for _ in range(5):
            await enter(hub, identity=stranger())
        with trio.fail_after(HANGS):
            while hub.hub.refused.total() < 5:
                await trio.testing.wait_all_tasks_blocked(0.01)
    assert len([entry for entry in post.entries() if isinstance(entry, Refused)]) == 3


async def test_a_cancelled_send_breaks_the_link_and_does_not_garble_it() -> None:
    limits = Limits(mailbox=2, stall=float("inf"))
    async with listening(limits=limits) as (post, hub):
        async with hub.connect(B) as b:
            async with hub.connect(A) as a:
                parcels = post.parcels(A, B, range(600), bytes(65536))
                with trio.CancelScope() as scope:
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(a.send_many, parcels)
                        await trio.testing.wait_all_tasks_blocked(0.1)
                        scope.cancel()
                with pytest.raises(trio.BrokenResourceError, match="cut short"):
                    await a.send(parcels[-1])
                nursery_done = trio.Event()

                async def read() -> None:
                    seen = 0
                    while (envelope := await b.receive()).kind == "Parcel":
                        assert envelope == parcels[seen]
                        seen += 1
                    nursery_done.set()

                async with trio.open_nursery() as nursery:
                    nursery.start_soon(read)
                    await a.aclose()
            assert nursery_done.is_set()
        assert await until_gone(post.switch) == "the connection ended inside a frame"
