"""The server of pages: its lives, its disk, and what it says when it lies."""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Sequence
from random import Random
from typing import Literal, NamedTuple

import msgspec
import trio

from parties.actor import aggregator, run_machine
from protocol import AGGREGATOR, PartyId, ProtocolError
from protocol.audit.proofs.making_receipts import prove_each
from protocol.crypto.randomness import Streams
from protocol.messages import LINK_CLOSED, NEVER_CAME, WITHDRAWN, Envelope
from protocol.session.charter import Charter
from protocol.session.exchange import Exchange
from protocol.session.machine import Machine
from protocol.session.run import published_result
from protocol.simulation.setting import Setting
from protocol.transcript.entries import MAGIC, Ending, Sent
from protocol.transcript.header import make_header
from protocol.transcript.log import LOG_SECRET_BYTES
from protocol.transcript.reader import Records, TranscriptReader
from protocol.transcript.receipts import Receipt, encode_receipt
from protocol.transcript.recorder import Recorder
from protocol.transcript.resuming import Past, catch_up
from protocol.wire.codec import decode_envelope
from scenarios.surveys.holding.attempts import ABANDONED
from scenarios.surveys.holding.waiting import GRAIN
from tests.system.pages.schedule import CLOSES, Down, Lie, Withdrawn
from tests.transports.web.places import PAGE
from transports.background import running
from transports.memory import MemoryLink
from transports.records.commits import Commits
from transports.records.recording import recording
from transports.switch import Switch
from transports.web.gateway import Gateway, OnRecord
from transports.web.http import Request, Response

PAUSE = 5.0
"""Seconds between two attempts, and before receipts are served."""

PARTING = 1.0
"""Seconds for acknowledgements that are under way when the survey has ended."""

ADDRESS = "192.0.2.1"
"""All places have one: they are in a school."""

ATTEMPTS = 3
"""The last attempt is not given up."""

State = Literal["complete", "failed", "abandoned"]
_U32 = struct.Struct(">I")
_encode = msgspec.msgpack.Encoder(order="deterministic").encode


class Disk:
    """The file of an attempt's record: what was written, and how much of it is synced."""

    def __init__(self) -> None:
        self.content = bytearray()
        self.synced = 0

    def sync(self) -> None:
        """All that was written is durable."""
        self.synced = len(self.content)

    def lose(self, random: Random) -> None:
        """The power fails: of what was not synced, a part is left."""
        del self.content[random.randint(self.synced, len(self.content)) :]

    def cut(self) -> None:
        """Cut off what is not a whole record."""
        place = len(MAGIC) + LOG_SECRET_BYTES
        while place + _U32.size <= len(self.content):
            size = _U32.unpack_from(self.content, place)[0]
            if place + _U32.size + size > len(self.content):
                break
            place += _U32.size + size
        del self.content[place:]
        self.synced = min(self.synced, place)


class Attempt(NamedTuple):
    """An attempt that is over.

    Args:
        charter: of it.
        content: its record.
        state: how it ended.
    """

    charter: Charter
    content: bytes
    state: State


class ServerGoneError(OSError):
    """Nobody answers, or whoever was about to was killed."""


class Server:
    """Holds attempts until one is complete, then shows receipts.

    Args:
        where: who takes part.
        faults: what goes wrong with it.
        random: what is not in the faults.

    Attributes:
        attempts: that are over.
        attempt: the number of the one that is under way, or the last.
        began, begun: when it began, and what tells that each has.
        showing: whether receipts are shown, and the survey is over for good.
        errors: what was raised that nothing reckons with.
        statuses: of all replies, in order.
        notes: of checkpoints that were told to anybody.
        lives: how many there were.
    """

    disk: Callable[[], Disk] = Disk
    said: Callable[..., OnRecord] = OnRecord
    gateway: Callable[..., Gateway] = Gateway

    def __init__(self, where: Setting, faults: tuple[object, ...], random: Random) -> None:
        self.where = where
        self.attempts: list[Attempt] = []
        self.attempt = 0
        self.began = 0.0
        self.begun = {number: trio.Event() for number in range(1, ATTEMPTS + 1)}
        self.showing = trio.Event()
        self.errors: list[BaseException] = []
        self.statuses: list[tuple[str, int]] = []
        self.notes: set[str] = set()
        self.lives = 0
        self._random = random
        self._downs = sorted((f for f in faults if isinstance(f, Down)), key=lambda f: f.at)
        self._withdrawn = [f for f in faults if isinstance(f, Withdrawn)]
        self._lies = [f for f in faults if isinstance(f, Lie)]
        self._forgotten = False
        self._open: Gateway | None = None
        self._scopes: set[trio.CancelScope] = set()
        self._life: trio.CancelScope | None = None
        self._down: Down | None = None

    @property
    def now(self) -> float:
        """Seconds since the attempt began."""
        return trio.current_time() - self.began

    def lies(self, what: str) -> bool:
        """Whether the server lies so by now."""
        return any(one.what == what and self.now >= one.at for one in self._lies)

    async def ask(self, path: str, body: bytes | None) -> Response:
        """What the server replies.

        Raises:
            ServerGoneError: nothing.
        """
        gateway = self._open
        if gateway is None:
            raise ServerGoneError("down")
        with trio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                response = await self._handle(gateway, path, body)
            finally:
                self._scopes.discard(scope)
            self.statuses.append((path.split("/")[1], response.status))
            return self._lied(path, response)
        raise ServerGoneError("killed")

    async def _handle(self, gateway: Gateway, path: str, body: bytes | None) -> Response:
        request = Request(path=path, headers={}, address=ADDRESS)
        try:
            refused = gateway.early(request)
            if refused is not None:
                return refused
            paths = gateway.paths
            methods = paths.get(path) or paths[path[: path.find("/", 1) + 1]]
            handler = methods["GET" if body is None else "POST"]
            return await handler(msgspec.structs.replace(request, body=body or b""))
        except Exception as error:
            self.errors.append(error)
            return Response(500, b"error\n")

    def _lied(self, path: str, response: Response) -> Response:
        if path == "/terms" and response.status == 200 and not self._lies:
            note = msgspec.msgpack.decode(response.body)[4]
            self.notes |= {note} - {None}
        if path == "/state" and self.lies("unanswered") and response.status == 200:
            return Response(200, _encode((False, None, None, True)))
        if self.lies("errors") and self._random.random() < 0.25:
            return Response(self._random.choice((500, 502, 404)), b"<h1>Sorry</h1>")
        if self.lies("garbage") and self._random.random() < 0.25:
            content = bytearray(response.body) or bytearray(b"\0")
            content[self._random.randrange(len(content))] ^= 1 << self._random.randrange(8)
            garbage = (b"<h1>Welcome to our hotspot</h1>", bytes(content))
            return Response(200, self._random.choice(garbage))
        return response

    async def run(self) -> None:
        """Hold attempts, then show receipts, until cancelled."""
        for number in range(1, ATTEMPTS + 1):
            charter = self.where.charter.again(number)
            self.attempt, self.began = number, trio.current_time()
            self.begun[number].set()
            disk = type(self).disk()
            state = await self._hold(charter, disk, last=number == ATTEMPTS)
            self.attempts.append(Attempt(charter, bytes(disk.content), state))
            await trio.sleep(PAUSE)
            if state == "complete":
                break
        self._show()
        await trio.sleep_forever()

    def _show(self) -> None:
        """Show who was counted, as ``serve_receipts`` does."""
        charter, content, state = self.attempts[-1]
        said = type(self).said(charter.roster.parties)
        for entry in TranscriptReader(content):
            said.take(entry)
        gateway = type(self).gateway(charter, said, PAGE)
        if state == "complete":
            variant = type(charter.variant)
            proved, covering = prove_each(lambda: [content], variant, sorted(said.answered))
            gateway.receipts = {
                name: (encode_receipt(found), covering.note)
                for name, found in proved
                if isinstance(found, Receipt)
            }
            gateway.close(covering.note)
        else:
            gateway.close()
        self._open = gateway
        self.showing.set()

    async def _hold(self, charter: Charter, disk: Disk, *, last: bool) -> State:
        """Hold an attempt through all its lives."""
        while True:
            state: State | None = None
            self.lives += 1
            with trio.CancelScope() as self._life:
                async with running(functools.partial(self._watch, disk)):
                    state = await _Life(self, charter, disk).run()
            self._open = self._life = None
            if state is not None:
                return state
            down, self._down = self._down, None
            assert down is not None
            await trio.sleep(down.away)
            if down.then == "anew" and not last:
                state = await _Life(self, charter, disk).abandon()
                disk.sync()
                return state

    async def _watch(self, disk: Disk) -> None:
        """Kill the server at the times of its faults, until cancelled."""
        for lie in self._lies:
            if lie.what == "forgets" and not self._forgotten:
                await trio.sleep(max(0.0, lie.at - self.now))
                self._forgotten = True
                self._forget(disk)
        while self._downs:
            down = self._downs[0]
            await trio.sleep(max(0.0, down.at - self.now))
            if down.sync is not None:
                return
            self.kill(self._downs.pop(0), disk)

    def _forget(self, disk: Disk) -> None:
        """Drop the end of the record, from some answer on that was acknowledged, and go on."""
        ends, place = [], len(MAGIC) + LOG_SECRET_BYTES
        for number, record in enumerate(Records(bytes(disk.content))):
            if number and _is_of_place(record):
                ends.append(place)
            place += _U32.size + len(record)
        if ends:
            del disk.content[self._random.choice(ends) :]
            self.kill(Down(0.0, None, False, 0, 1.0, "resume"), disk)

    def kill(self, down: Down, disk: Disk) -> None:
        """The server ends at once."""
        self._down = down
        if down.power:
            disk.lose(Random(down.torn))
        self._open = None
        for scope in self._scopes:
            scope.cancel()
        if self._life is not None:
            self._life.cancel()

    def at_sync(self, disk: Disk, when: str) -> bool:
        """Whether the server ends at a sync of its disk; it has ended then."""
        due = self._downs and self._downs[0].sync == when and self.now >= self._downs[0].at
        if due:
            self.kill(self._downs.pop(0), disk)
        return bool(due)

    @property
    def killed(self) -> bool:
        """Whether it was, and is not up again."""
        return self._down is not None

    @property
    def withdrawals(self) -> list[tuple[PartyId, float]]:
        """The places that are withdrawn, and when."""
        parties = self.where.charter.roster.parties
        by_time = sorted(self._withdrawn, key=lambda one: one.at)
        return [(parties[one.place], one.at) for one in by_time]


def _is_of_place(record: bytes) -> bool:
    item = msgspec.msgpack.decode(record)
    return item[0] == "Sent" and decode_envelope(item[2]).sender != AGGREGATOR


class _Life:
    """A life of the server, from its start to its end: as ``aggregating`` and ``collecting``."""

    def __init__(self, server: Server, charter: Charter, disk: Disk) -> None:
        self._server = server
        self._charter = charter
        self._disk = disk
        self._number = server.lives
        self._said = type(server).said(charter.roster.parties)
        self._gateway = type(server).gateway(charter, self._said, PAGE)
        self._past: Past | None = None
        if disk.content:
            self._read_back()
        else:
            self._begin()

    async def run(self) -> State:
        """Go on with the attempt, from its first question or from where its record ends."""
        server, past, recorder, charter = self._server, self._past, self._recorder, self._charter
        identity = server.where.identities[AGGREGATOR]
        machine = aggregator(
            charter, streams=Streams(bytes(32), charter.session), identity=identity
        )
        unsaid = None
        if past is not None:
            if past.began is not None:
                unsaid = catch_up(machine, past, start=trio.current_time() - past.at)
            recorder.go_on()
            if unsaid is not None:
                unsaid = past.close(unsaid)
        try:
            if past is None or past.ending is None:
                commits = Commits(recorder, self._sync)
                final = lambda error: isinstance(error, ProtocolError)  # noqa: E731
                async with recording(recorder, commits, final=final):
                    await self._carry(machine, unsaid, commits)
                    published_result(machine)
            elif not past.ending.complete:
                return "failed"
            published_result(machine)
        except ProtocolError:
            self._disk.sync()
            return "failed"
        self._disk.sync()
        return "complete"

    async def abandon(self) -> State:
        """Declare that the attempt does not go on, as ``abandon_survey`` does."""
        past, recorder = self._past, self._recorder
        assert past is not None
        recorder.go_on()
        if past.ending is not None:
            return "complete" if past.ending.complete else "failed"
        recorder.close(complete=False, reason=ABANDONED)
        return "abandoned"

    def _begin(self) -> None:
        charter, disk = self._charter, self._disk
        self._recorder = Recorder(
            self._write,
            make_header(charter, transport="tls", program="test"),
            signer=self._server.where.identities[AGGREGATOR],
            secret=bytes([charter.attempt]) * 32,
            acknowledging=True,
            watch=self._said.take,
        )
        self._exchange = Exchange(charter, recorder=self._recorder)
        disk.sync()

    def _read_back(self) -> None:
        self._disk.cut()
        records = Records(bytes(self._disk.content))
        header = records.header(next(iter(records)))
        self._recorder = Recorder(
            self._write,
            header,
            signer=self._server.where.identities[AGGREGATOR],
            secret=records.secret,
            acknowledging=True,
            watch=self._said.take,
            resumed=True,
        )
        self._exchange = Exchange(self._charter, recorder=self._recorder)
        self._past = Past(self._charter, self._recorder, self._exchange)
        self._past.read(records)

    def _write(self, content: bytes) -> None:
        if self._server.lives == self._number and not self._server.killed:
            self._disk.content += content

    def _sync(self) -> None:
        """Called in the place of a thread."""
        if self._server.at_sync(self._disk, "before"):
            return
        self._disk.sync()
        self._server.at_sync(self._disk, "after")

    async def _carry(
        self, machine: Machine, unsaid: Sequence[Envelope] | None, commits: Commits
    ) -> None:
        past, exchange = self._past, self._exchange
        switch = Switch(exchange, passed=0.0 if past is None else past.at, grain=GRAIN)
        if past is not None:
            switch.hand_again(past.waiting.values())
        first = self._recorder.checkpoint
        self._gateway.open(switch, commits, None if first is None else first.note)
        self._server._open = self._gateway
        if AGGREGATOR not in exchange.departed:
            watching = functools.partial(self._close, switch)
            withdrawing = functools.partial(self._withdraw, switch)
            async with running(watching, withdrawing):
                link = MemoryLink(switch, AGGREGATOR)
                await run_machine(machine, link, unsaid=unsaid)
                link.close()
        self._gateway.close()
        await commits.caught_up()
        await trio.sleep(PARTING)
        self._server._open = None

    async def _close(self, switch: Switch) -> None:
        await trio.sleep(max(0.0, CLOSES - self._server.now))
        exchange = switch.exchange
        for name in self._charter.roster.parties:
            if name not in exchange.departed:
                switch.detach(name, LINK_CLOSED if exchange.has_ended(name) else NEVER_CAME)

    async def _withdraw(self, switch: Switch) -> None:
        exchange = switch.exchange
        for place, at in self._server.withdrawals:
            await trio.sleep(max(0.0, at - self._server.now))
            if not exchange.has_ended(place) and place not in exchange.departed:
                switch.detach(place, WITHDRAWN)


def machine_ending(content: bytes) -> Ending | None:
    """The last entry of a record, if it has one."""
    reader = TranscriptReader(content)
    for _ in reader:
        pass
    return reader.ending


def sent_by(content: bytes, place: PartyId) -> list[bytes]:
    """What a place has said by a record, encoded envelopes in order."""
    found = (each.envelope for each in TranscriptReader(content) if isinstance(each, Sent))
    return [each for each in found if decode_envelope(each).sender == place]
