"""Whatever bytes come, the hub refuses them and lives: no crash, no hang, no unbounded memory."""

from __future__ import annotations

import tracemalloc
from contextlib import suppress

import msgspec
import pytest
import trio
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from parties.session import run_session
from protocol import AGGREGATOR, PartyId, RemoteProtocolError
from protocol.messages import DONE, Envelope
from protocol.session.exchange import Exchange
from protocol.simulation.setting import Setting
from protocol.wire.codec import encode_envelope
from tests.live import LOOPBACK, Live, Sockets, entered, framed, sockets, town
from transports import handshake
from transports.base import Limits
from transports.switch import Switch

WHERE = town(4)
SESSION = WHERE.charter.session
EVIL = PartyId("party-4")
# The evil member enters like anyone else, in a process that may be busy: its frames are hurried.
LIMITS = Limits(handshake=5.0, frame=0.2, idle=5.0)

names = st.one_of(
    st.sampled_from([*WHERE.identities, "record", "switch", "", "nobody", "é\ud7ff"]), st.text()
)
small = st.binary(max_size=60)
nonces = st.one_of(st.binary(min_size=32, max_size=32), small)
sessions = st.one_of(st.just(SESSION), small)

plain = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.floats(), small),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
values = plain.map(msgspec.msgpack.encode)
hellos = st.builds(
    handshake.Hello,
    st.one_of(st.just(handshake.VERSION), st.text(max_size=20)),
    sessions,
    names,
    nonces,
).map(handshake.encode)
proofs = st.builds(handshake.Proof, st.binary(max_size=70)).map(handshake.encode)
envelopes = st.builds(
    Envelope,
    sessions,
    names,
    names,
    st.one_of(st.integers(-2, 3), st.integers(-(2**63), 2**63 - 1)),
    st.one_of(st.sampled_from(WHERE.charter.codec.names), st.text(max_size=10)),
    st.binary(max_size=200),
).map(encode_envelope)
nested = st.sampled_from(
    [b"\x91" * 900, b"\x81\xa1a" * 300, b"\xdc\xff\xff", b"\xdf" + b"\xff" * 4]
)


@st.composite
def mangled(draw: st.DrawFn, payloads: st.SearchStrategy[bytes]) -> bytes:
    """Frames, some cut, some with a byte changed, some that announce another length."""
    out = bytearray()
    for payload in draw(st.lists(payloads, min_size=1, max_size=4)):
        frame = bytearray(framed(payload))
        match draw(st.sampled_from(["whole", "cut", "flip", "length"])):
            case "cut":
                del frame[draw(st.integers(0, len(frame))) :]
            case "flip":
                frame[draw(st.integers(0, len(frame) - 1))] ^= draw(st.integers(1, 255))
            case "length":
                frame[:4] = draw(st.binary(min_size=4, max_size=4))
            case _:
                pass
        out += frame
    return bytes(out)


strangers = st.one_of(
    st.binary(max_size=300),
    mangled(st.one_of(hellos, proofs, envelopes, values, nested)),
)
members = st.one_of(
    st.binary(max_size=300),
    mangled(st.one_of(envelopes, hellos, values, nested)),
)


async def speak(wire: trio.SocketStream, words: bytes) -> None:
    """Say it, and listen until the other side has enough."""
    with suppress(trio.BrokenResourceError):
        await wire.send_all(words)
        await wire.send_eof()
        while await wire.receive_some():
            pass


async def campaign(where: Setting, first: list[bytes], second: list[bytes]) -> None:
    """Strangers and one member talk nonsense while an honest survey runs."""
    done = Live(where)
    honest = {name: held for name, held in where.holdings.items() if name != EVIL}
    with trio.fail_after(300):
        async with (
            sockets(Switch(done.exchange, LIMITS), where.identities.__getitem__) as hub,
            trio.open_nursery() as nursery,
        ):
            for words in first:
                nursery.start_soon(_stranger, hub, words)
            async with entered(hub, where.charter, where.identities[EVIL]) as wire:
                nursery.start_soon(speak, wire, b"".join(second))
                done.run = await run_session(where.charter, _Joined(hub), where.streams, honest)
    done.close()
    assert {done.endings[name] for name in honest} == {DONE}
    assert int(done.published.counts.sum()) >= len(honest)
    assert all(entry.link in ("", EVIL) for entry in done.refused())
    assert all(len(entry.excerpt) <= 256 for entry in done.refused())


class _Joined(Sockets):
    """A hub at which the evil party is not waited for: it is there already, or gone."""

    def __init__(self, hub: Sockets) -> None:
        vars(self).update(vars(hub))

    async def joined(self, members: object, *, within: float) -> None:
        await self.hub.joined([name for name in WHERE.holdings if name != EVIL], within=60.0)


async def _stranger(hub: Sockets, words: bytes) -> None:
    async with await trio.open_tcp_stream(LOOPBACK, hub.port) as wire:
        await speak(wire, words)


QUICK = settings(
    deadline=None,
    max_examples=15,
    phases=[Phase.explicit, Phase.generate, Phase.target],
    suppress_health_check=list(HealthCheck),
)


@given(
    first=st.lists(strangers, max_size=6),
    second=st.lists(members, max_size=4),
)
@QUICK
async def test_an_honest_survey_completes_among_nonsense(
    first: list[bytes], second: list[bytes]
) -> None:
    await campaign(WHERE, first, second)


@pytest.mark.slow
@given(
    first=st.lists(strangers, max_size=20),
    second=st.lists(members, max_size=20),
)
@settings(QUICK, max_examples=1500)
async def test_an_honest_survey_completes_among_much_nonsense(
    first: list[bytes], second: list[bytes]
) -> None:
    await campaign(WHERE, first, second)


@given(step=st.sampled_from([handshake.Hello, handshake.Proof, handshake.Welcome]), words=strangers)
@settings(deadline=None, max_examples=300)
def test_a_step_of_the_handshake_decodes_or_is_refused(
    step: type[msgspec.Struct], words: bytes
) -> None:
    for payload in (words, words[4:]):
        try:
            decoded = handshake.decode(step, payload)
        except RemoteProtocolError:
            continue
        assert isinstance(decoded, step)


async def test_announced_sizes_cost_no_memory() -> None:
    """The hub does not allocate what a frame announces and does not bring."""
    cap = WHERE.charter.codec.max_envelope
    exchange = Exchange(WHERE.charter)
    async with sockets(
        Switch(exchange, Limits(handshake=5.0)), WHERE.identities.__getitem__
    ) as hub:
        tracemalloc.start()
        try:
            async with entered(hub, WHERE.charter, WHERE.identities[EVIL]) as wire:
                await wire.send_all(cap.to_bytes(4, "big") + b"x")
                for _ in range(20):
                    await _stranger(hub, b"\x00\x00\x04\x00" + bytes(1020))
                    await _stranger(hub, b"\x7f\xff\xff\xff" + bytes(4096))
                _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 8 * 1024 * 1024
    assert AGGREGATOR not in exchange.departed
