"""People who answer from a page, beside parties over TLS: what each costs the server.

Every side is a server in a process of its own. Its visitors, in another process, make a new
connection each, with a handshake: for the page, the terms, the place and the answer.
"""

from __future__ import annotations

import functools
import hashlib
import os
import resource
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import trio

from benchmarks.transport import files_of, issue
from parties.actor import run_aggregator, run_machine
from parties.keeping.packing import Unpacked
from parties.session import LINGER
from protocol import AGGREGATOR, PartyId
from protocol.audit.proofs.making_receipts import prove_each
from protocol.crypto.randomness import Streams
from protocol.messages import ROLE_STREAM
from protocol.session.exchange import Exchange
from protocol.session.machine import Machine
from protocol.simulation.setting import Setting, make_setting
from protocol.transcript.header import make_header
from protocol.transcript.log import LOG_SECRET_BYTES
from protocol.transcript.receipts import Receipt
from protocol.transcript.recorder import Recorder
from protocol.variants import RRIndependent
from protocol.wire.codec import decode_envelope, encode_envelope
from scenarios import town
from scenarios.report.page.collecting import collecting_page
from scenarios.running.loopback import LOOPBACK, allow_connections
from transports.background import running
from transports.lasting.hub import open_lasting
from transports.lasting.link import connect_lasting
from transports.memory import MemoryLink
from transports.records.commits import Commits
from transports.records.recording import recording
from transports.switch import Switch
from transports.tls import client_context, public_context, server_context
from transports.web import http
from transports.web.gateway import LIMITS, Gateway, OnRecord, Page

KEEP, SEED = 0.7, 1
AT_ONCE = 64
"""Visitors at one time."""

PEOPLE = 10_000

_encode = msgspec.msgpack.Encoder(order="deterministic").encode


class Cost(msgspec.Struct, frozen=True):
    """Cost of a survey to its server.

    Args:
        people: how many answered and were counted.
        computing: processor seconds of its process while they did.
        memory: the most that it held, in bytes.
        seconds: on the clock.
        stored: bytes of the record, unpacked.
        receipts: seconds to make everybody's receipt of the end; 0 where that is not asked.
        proved: how many receipts there are.
    """

    people: int
    computing: float
    memory: int
    seconds: float
    stored: int
    receipts: float = 0.0
    proved: int = 0


def compare_visits(people: int = PEOPLE) -> bool:
    """Print what a visit to the page costs beside a party over TLS; whether all were counted."""
    sides = {"page": _measured("page", people), "TLS party": _measured("party", people)}
    print(f"{people:,} people; server's process, processor time of all its threads")
    for name, cost in sides.items():
        print(
            f"{name:10} {1e3 * cost.computing / people:6.2f} ms each, "
            f"{cost.memory / 2**20:4.0f} MiB at most, {cost.seconds:5.1f} s on the clock, "
            f"{cost.stored / people:5.0f} bytes of record each, {cost.people:,} counted"
        )
    page, party = sides["page"], sides["TLS party"]
    print(f"a page's visit takes {page.computing / party.computing:.2f} times a TLS party's time")
    print(f"receipts of the end: {page.proved:,} in {page.receipts:.1f} s")
    return all(cost.people == people for cost in sides.values()) and page.proved == people


def _measured(side: str, people: int) -> Cost:
    with tempfile.TemporaryDirectory(prefix="sottovoce-") as folder:
        call = f"from benchmarks.visits import *; serve_{side}({folder!r}, {people})"
        done = subprocess.run([sys.executable, "-c", call], check=True, stdout=subprocess.PIPE)
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=Cost)


def serve_page(folder: str, people: int) -> None:
    """Hold a survey of so many visitors to the page, and print its cost."""
    held = _Held(Path(folder), people)
    gateway = Gateway(held.setting.charter, held.said, Page(*collecting_page()))
    tls = public_context()
    tls.load_cert_chain(held.folder / "aggregator.pem", held.folder / "aggregator.key")

    async def hold() -> Cost:
        [listener] = await trio.open_tcp_listeners(0, host=LOOPBACK)
        port = listener.socket.getsockname()[1]
        serve = functools.partial(
            http.serve, [listener], gateway.paths, LIMITS, tls=tls, early=gateway.early
        )
        switch = Switch(held.exchange)
        gateway.open(switch, held.commits, None)
        began, started = time.process_time(), time.perf_counter()
        visiting = functools.partial(_call, "visit_all", folder, port, people)
        async with recording(held.recorder, held.commits), running(serve, visiting):
            link = MemoryLink(switch, AGGREGATOR)
            machine = await run_aggregator(
                held.setting.charter,
                link,
                streams=held.setting.streams,
                identity=held.setting.identities[AGGREGATOR],
            )
            link.close()
            assert machine.failure is None, machine.failure
            await held.commits.caught_up()
            await trio.sleep(1.0)
        return held.cost(began, started)

    cost = trio.run(hold)
    started = time.perf_counter()
    chunks = functools.partial(Unpacked, held.path.read_bytes())
    found, _ = prove_each(chunks, RRIndependent)
    proved = sum(isinstance(receipt, Receipt) for _, receipt in found)
    spent = time.perf_counter() - started
    done = msgspec.structs.replace(cost, receipts=spent, proved=proved)
    print(msgspec.json.encode(done).decode())


def serve_party(folder: str, people: int) -> None:
    """Hold a survey of so many parties over TLS, and print its cost."""
    held = _Held(Path(folder), people)
    charter, mine = held.setting.charter, held.setting.identities[AGGREGATOR]
    tls = server_context(**files_of(held.folder, AGGREGATOR))

    async def hold() -> Cost:
        began, started = time.process_time(), time.perf_counter()
        switch = Switch(held.exchange)
        opened = open_lasting(switch, mine, tls=tls, commits=held.commits)
        async with recording(held.recorder, held.commits), opened as (hub, port):
            answering = functools.partial(_call, "answer_all", folder, port, people)
            async with running(answering), hub.connect(AGGREGATOR) as link:
                machine = await run_aggregator(
                    charter, link, streams=held.setting.streams, identity=mine
                )
            # Whoever's goodbye was lost is not waited for.
            with trio.move_on_after(LINGER):
                await hub.emptied()
            hub.give_up()
        assert machine.failure is None, machine.failure
        return held.cost(began, started)

    print(msgspec.json.encode(trio.run(hold)).decode())


def visit_all(folder: str, port: int, people: int) -> None:
    """Visit the page for everybody, ``AT_ONCE`` at a time."""
    setting = _setting(people)
    context = ssl.create_default_context(cafile=str(Path(folder) / "authority.pem"))

    async def visit(party: PartyId) -> None:
        wire = await trio.open_tcp_stream(LOOPBACK, port)
        stream = trio.SSLStream(wire, context, server_hostname=AGGREGATOR, https_compatible=True)
        async with stream:
            for path in ("/", "/terms"):
                await _ask(stream, "GET", path)
            place = await _ask(stream, "GET", f"/place/{party}")
            body = _body(setting, party, msgspec.msgpack.decode(place)[4])
            digest = hashlib.sha256(body).hexdigest()
            await _ask(stream, "POST", f"/answer/{party}/{digest}", body)

    _each(setting, visit)


def answer_all(folder: str, port: int, people: int) -> None:
    """Answer for all parties over TLS, ``AT_ONCE`` at a time."""
    setting = _setting(people)
    charter = setting.charter

    async def answer(party: PartyId) -> None:
        identity = setting.identities[party]
        tls = client_context(**files_of(Path(folder), party))
        async with connect_lasting(
            LOOPBACK, port, charter=charter, identity=identity, tls=tls
        ) as link:
            await run_machine(_machine(setting, party), link)
            assert await link.acknowledgement() is not None, party

    _each(setting, answer)


class _Held:
    """A survey's record and its switch."""

    def __init__(self, folder: Path, people: int) -> None:
        self.folder = folder
        self.path = folder / "record"
        self.setting = _setting(people)
        charter = self.setting.charter
        issue(folder, self.setting)
        allow_connections(people)
        self.said = OnRecord(charter.roster.parties)
        self._file = self.path.open("wb", buffering=0)
        self.recorder = Recorder(
            self._file.write,
            make_header(charter, transport="tls"),
            signer=self.setting.identities[AGGREGATOR],
            secret=bytes(LOG_SECRET_BYTES),
            acknowledging=True,
            watch=self.said.take,
        )
        self.commits = Commits(self.recorder, lambda: os.fsync(self._file.fileno()))
        self.exchange = Exchange(charter, recorder=self.recorder)

    def cost(self, began: float, started: float) -> Cost:
        """Cost since these readings of the clocks."""
        return Cost(
            people=len(self.said.digests),
            computing=time.process_time() - began,
            memory=1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
            seconds=time.perf_counter() - started,
            stored=self.path.stat().st_size,
        )


async def _call(what: str, folder: str, port: int, people: int) -> None:
    call = f"from benchmarks.visits import *; {what}({folder!r}, {port}, {people})"
    await trio.run_process([sys.executable, "-c", call])


def _each(setting: Setting, visit: Callable[[PartyId], Awaitable[None]]) -> None:
    async def all_of_them() -> None:
        room = trio.CapacityLimiter(AT_ONCE)

        async def one(party: PartyId) -> None:
            async with room:
                await visit(party)

        async with trio.open_nursery() as nursery:
            for party in setting.charter.roster.parties:
                nursery.start_soon(one, party)

    trio.run(all_of_them)


async def _ask(stream: trio.abc.Stream, method: str, path: str, body: bytes = b"") -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    await stream.send_all(head.encode() + body)
    got = bytearray()
    while b"\r\n\r\n" not in got:
        got += await stream.receive_some(65536) or _broken()
    top, _, rest = bytes(got).partition(b"\r\n\r\n")
    if not top.startswith(b"HTTP/1.1 200 "):
        raise RuntimeError(top.decode())
    length = int(top.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    while len(rest) < length:
        rest += await stream.receive_some(65536) or _broken()
    return rest


def _broken() -> bytes:
    raise RuntimeError("the server has closed the connection")


def _body(setting: Setting, party: PartyId, question: bytes) -> bytes:
    machine = _machine(setting, party)
    machine.start(0.0)
    machine.receive(decode_envelope(question), 0.0)
    return _encode([encode_envelope(each) for each in machine.take()])


def _machine(setting: Setting, party: PartyId) -> Machine:
    stream = Streams(bytes(32), setting.charter.session).stream(party, ROLE_STREAM)
    return Machine(
        setting.charter,
        party,
        stream,
        records=setting.holdings[party],
        identity=setting.identities[party],
    )


@functools.cache
def _setting(people: int) -> Setting:
    records = town(people, seed=SEED)
    variant = RRIndependent.with_keep(records.survey, KEEP)
    return make_setting(msgspec.structs.replace(variant, patience=None), records, seed=SEED)
