"""Places as a party's own machine would answer in them, for tests of what takes their answers."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import msgspec
import trio
import trio.testing

from parties.actor import aggregator, run_machine
from protocol import AGGREGATOR, PartyId, Records
from protocol.crypto.randomness import Streams
from protocol.messages import ROLE_STREAM
from protocol.session.charter import Charter
from protocol.session.exchange import Exchange
from protocol.session.machine import Machine
from protocol.session.roster import Identity
from protocol.transcript.header import make_header
from protocol.transcript.recorder import Recorder
from protocol.wire.codec import decode_envelope, encode_envelope
from tests.recorded.signed import setting
from transports.background import running
from transports.memory import MemoryLink
from transports.records.commits import Commits
from transports.records.recording import recording
from transports.switch import Switch
from transports.web.gateway import STATE_PURPOSE, Gateway, OnRecord, Page
from transports.web.http import Request, Response

_encode = msgspec.msgpack.Encoder(order="deterministic").encode
PAGE = Page(b"<!doctype html>", "default-src 'none'")


def answer(
    charter: Charter,
    identity: Identity,
    records: Records,
    question: bytes,
    *,
    secret: bytes = bytes(32),
    budget: float | None = None,
) -> bytes:
    """The body that a place posts: an answer and a head, as its own machine says them.

    Args:
        question: the encoded envelope of it.
        secret: of the place's randomness; another one draws another report.
        budget: as of ``Machine``; one that is too small makes it decline.
    """
    stream = Streams(secret, charter.session).stream(identity.name, ROLE_STREAM)
    machine = Machine(
        charter, identity.name, stream, records=records, identity=identity, budget=budget
    )
    machine.start(0.0)
    machine.receive(decode_envelope(question), 0.0)
    said = machine.take()
    assert machine.finished
    assert len(said) == 2
    return _encode([encode_envelope(each) for each in said])


def inclusion_path_at(party: str, body: bytes) -> str:
    """The path that a place posts this body to."""
    return f"/answer/{party}/{hashlib.sha256(body).hexdigest()}"


class State(NamedTuple):
    """What a place is told of itself.

    Args:
        answered: whether it has answered, or declined.
        receipt, note: of its report, once the survey is over.
        open: whether it can still answer.
    """

    answered: bool
    receipt: bytes | None
    note: str | None
    open: bool


class Post:
    """What is asked of a gateway, as if by requests of its own."""

    def __init__(self, gateway: Gateway, charter: Charter) -> None:
        self.gateway = gateway
        self.charter = charter

    async def __call__(
        self, path: str, body: bytes | None = None, *, address: str = "192.0.2.1", **headers: str
    ) -> Response:
        """The response to a GET of the path, or a POST with a body."""
        given = {name.encode(): value.encode() for name, value in headers.items()}
        request = Request(path=path, headers=given, address=address)
        refused = self.gateway.early(request)
        if refused is not None:
            return refused
        paths = self.gateway.paths
        methods = paths.get(path) or paths[path[: path.find("/", 1) + 1]]
        handler = methods["GET" if body is None else "POST"]
        return await handler(msgspec.structs.replace(request, body=body or b""))

    async def answer(self, party: str, body: bytes, **options: Any) -> Response:
        """The response to an answer."""
        return await self(inclusion_path_at(party, body), body, **options)

    async def question(self, party: str) -> bytes:
        """What a place is asked."""
        return bytes(msgspec.msgpack.decode((await self(f"/place/{party}")).body)[4])

    async def state(self, identity: Identity) -> State:
        """What a place is told of itself."""
        statement = STATE_PURPOSE + _encode((self.charter.session, identity.name))
        body = _encode((identity.name, identity.sign(statement)))
        return State(*msgspec.msgpack.decode((await self("/state", body)).body))


class Held:
    """A survey among places in this process, all of it recorded.

    Args:
        where: who takes part.

    Attributes:
        content: of the record so far.
        post: asks its gateway.
    """

    def __init__(self, where: Any = None, *, grain: float = 0.0, proxied: bool = False) -> None:
        self.where = where or setting()
        self.charter: Charter = self.where.charter
        self.content = bytearray()
        self.said = OnRecord(self.charter.roster.parties)
        header = make_header(self.charter, transport="tls", program="test")
        self.recorder = Recorder(
            self.content.extend,
            header,
            signer=self.where.identities[AGGREGATOR],
            secret=bytes(32),
            acknowledging=True,
            watch=self.said.take,
        )
        self.exchange = Exchange(self.charter, recorder=self.recorder)
        self.switch = Switch(self.exchange, grain=grain)
        self.commits = Commits(self.recorder, lambda: None)
        self.gateway = Gateway(self.charter, self.said, PAGE, proxied=proxied)
        self.post = Post(self.gateway, self.charter)
        streams = Streams(bytes(32), self.charter.session)
        self.machine = aggregator(
            self.charter, streams=streams, identity=self.where.identities[AGGREGATOR]
        )

    @asynccontextmanager
    async def asking(self) -> AsyncGenerator[Post]:
        """While places can answer; at the end, whoever has not is counted out."""
        async with recording(self.recorder, self.commits):

            async def ask() -> None:
                link = MemoryLink(self.switch, AGGREGATOR)
                await run_machine(self.machine, link)
                link.close()

            self.gateway.open(self.switch, self.commits, None)
            async with running(ask):
                await trio.testing.wait_all_tasks_blocked()
                yield self.post
                for name in self.charter.roster.parties:
                    if name not in self.exchange.departed:
                        self.switch.detach(name, "never came")
                while not self.machine.finished:  # noqa: ASYNC110
                    await trio.sleep(0.001)
            self.gateway.close()

    async def body(self, party: PartyId, **options: Any) -> bytes:
        """What a place posts that holds its record."""
        question = await self.post.question(party)
        records, identity = self.where.holdings[party], self.where.identities[party]
        return answer(self.charter, identity, records, question, **options)
