"""A party's end of a lasting link: it connects again, and knows what of its words is on disk."""

from __future__ import annotations

import math
import random
import ssl
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

import msgspec
import trio

from protocol.errors import RemoteProtocolError
from protocol.messages import SWITCH, Envelope, PartyId
from protocol.session.charter import Charter
from protocol.session.roster import Identity
from protocol.transcript.checkpoints import SignedCheckpoint
from protocol.transcript.consistency import Consistency
from protocol.transcript.receipts import Acknowledgement, Shown
from protocol.wire.codec import encode_envelope
from transports.background import running
from transports.base import Limits
from transports.connection import Connection
from transports.dialing import (
    TurnedAwayError,
    dial,
    plain_reason,
    race,
    resolve_addresses,
    root_cause,
)
from transports.lasting.frames import (
    VERSION,
    Accepted,
    Acknowledged,
    Alive,
    Durable,
    Frame,
    Goodbye,
    Received,
    Replaced,
    encode,
    read_frame,
    unexpected,
)
from transports.listening import first_end
from transports.mailbox import Mailbox, MailboxLink
from transports.tcp import introduce

PATIENCE = 300.0
"""The longest that a party goes without a sign of life, at first and later, in seconds."""

LAST = 3.0
"""The time that the last try may take longer, in seconds."""

SHORTEST = 2.0
"""The shortest silence after which a connection is taken to be lost, in seconds."""

SOON, LATE = 0.1, 10.0
"""The longest pause before a second try, and before any: they double, and the pause is drawn."""

WINDOW = 4 * 1024 * 1024
"""How many bytes may wait to be written before the sender waits."""

_SILENT = "silent for too long"
_REPLACED = "another program has connected as this party"

Dial = Callable[[float], Awaitable[Connection]]
"""Connects within so many seconds."""


class Holding(Protocol):
    """A party's hold on the aggregator's record, which it demands to find there again."""

    def newest(self) -> SignedCheckpoint | None:
        """The newest checkpoint that it holds; None for none."""

    def missing(self, log: Consistency | None, restored: Shown | None) -> str | None:
        """The reason why the record that is shown is not that of the checkpoint.

        None if it is, and if it shows that it was restored: then all is said again.
        """


class Patience:
    """The time for which one goes on trying to reach the hub, with growing pauses.

    Args:
        seconds: for how long.
        since: from when on; by default from now on.

    Attributes:
        last: when the last try has to end.
    """

    def __init__(self, seconds: float, *, since: float | None = None) -> None:
        self._until = (trio.current_time() if since is None else since) + seconds
        self.last = self._until + LAST
        self._pause = SOON

    @property
    def left(self) -> float:
        """The time that a try may take, in seconds."""
        return max(self.last - trio.current_time(), 0.0)

    async def pause(self) -> bool:
        """Wait before the next try; False, at once, if it has taken too long."""
        left = self._until - trio.current_time()
        if left <= 0.0:
            return False
        # Drawn, so that those who lost the hub together come back together once at most.
        await trio.sleep(min(self._pause * random.uniform(0.5, 1.0), left))
        self._pause = min(2 * self._pause, LATE)
        return True


class LastingLink(MailboxLink[Envelope]):
    """A party's link that outlives its connections.

    A connection by which nothing has come, and by which the hub was not heard for ``limits.alive``
    seconds either, is a try that failed. A hub that breaks the rules of the link ends it. A party
    that says that it is there is told the same, so the hub is heard as often as it is asked.

    Args:
        dial: connects and introduces the party.
        member: the party.
        limits: the deadlines.
        patience: how long to go on without a sign of life of the hub, in seconds.
        missing: as ``Holding`` has it; by default nothing is demanded.

    Attributes:
        why: why the link is over for good; None while it is not; empty if the hub ended it.
        lost: why no connection could be made again; None if it has not come to that.
    """

    def __init__(
        self,
        dial: Dial,
        member: PartyId,
        limits: Limits,
        patience: float,
        missing: Callable[[Consistency | None, Shown | None], str | None] = lambda *_: None,
    ) -> None:
        super().__init__(member, Mailbox(limits.mailbox))
        self.why: str | None = None
        self.lost: ConnectionError | None = None
        self._dial = dial
        self._limits = limits
        self._patience = patience
        self._missing = missing
        # What was said and is not acknowledged; the first has the number ``_durable``.
        self._said: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._durable = 0
        # How many the hub has said are durable: more than were said, if an earlier program did.
        self._acknowledged = 0
        # How many it has accepted; None before it has said so.
        self._accepted: int | None = None
        self._written = 0
        self._received = 0
        # How many have come that were waited for; how many say that the hub is there.
        self._came = 0
        self._alive = 0
        # How many frames have come since it was told what is accepted, over all connections.
        self._heard = 0
        # Whether it has waited long enough for what is not acknowledged.
        self._waited = False
        # The last that this connection has acknowledged, and whether it has given a receipt.
        self._told = 0
        self._ended = False
        self._given: Acknowledgement | None = None
        self._leaving = False
        self._news = trio.Event()
        self._waiting = trio.lowlevel.ParkingLot()

    def send_nowait(self, envelopes: Sequence[Envelope]) -> int:
        self._check_open()
        sent = 0
        for envelope in envelopes:
            if self._waiting_bytes >= WINDOW:
                break
            payload = encode_envelope(envelope)
            self._said.append(payload)
            if self._durable + len(self._said) > self._written:
                self._waiting_bytes += len(payload)
            sent += 1
        self._forget()
        self._news.set()
        return sent

    async def send_many(self, envelopes: Sequence[Envelope]) -> None:
        self._check_open()
        await trio.lowlevel.checkpoint()
        while envelopes := envelopes[self.send_nowait(envelopes) :]:
            await self._waiting.park()

    async def acknowledged(self) -> bool:
        """Wait until all that was said is on the hub's disk, or the link is over.

        What comes meanwhile is dropped. If nothing is acknowledged for as long as one goes on
        without a sign of life, or as a goodbye may take, it waits no longer.

        Returns:
            Whether all of it is.
        """
        return await self._until(lambda: not self._said)

    async def acknowledgement(self) -> Acknowledgement | None:
        """Wait as ``acknowledged``, and for what makes a receipt, which comes after this party's
        head.

        Returns:
            What the hub has given, which is not checked; None if not all is acknowledged, or
            nothing was given.
        """
        done = await self._until(lambda: not self._said and self._given is not None)
        return self._given if done else None

    async def _until(self, done: Callable[[], bool]) -> bool:
        """Wait until something is so, the link is over, or nothing has come for too long."""
        self.mail.close()
        most = max(self._patience, self._limits.goodbye)
        while not done() and self.why is None and not self._waited:
            before = self._acknowledged
            with trio.move_on_after(most) as waited:
                while not done() and self.why is None and self._acknowledged == before:
                    await self._waiting.park()
            self._waited = waited.cancelled_caught
        return done()

    async def aclose(self) -> None:
        """Wait until all that was said is acknowledged, for a while; then say goodbye."""
        if self._closed:
            await trio.lowlevel.checkpoint()
            return
        self._closed = True
        with trio.move_on_after(self._limits.goodbye):
            if not self._waited:
                await self.acknowledged()
            self._leaving = True
            self._news.set()
            while self.why is None:
                await self._waiting.park()

    def close(self) -> None:
        """Close at once: what was not written is lost."""
        self._closed = True
        self._end("closed")

    async def run(self, connection: Connection) -> None:
        """Carry what is said and heard over this connection, and over others when it is lost."""
        patience: Patience | None = None
        while True:
            came, lasts = self._came, trio.current_time() + self._limits.alive
            try:
                why = await self._carry(connection, patience)
            finally:
                await connection.end()
            if why is None or self._leaving:
                self._end("")
                return
            if self.why is not None:
                return
            if patience is None or self._came > came or connection.heard >= lasts:
                patience = Patience(self._patience, since=connection.heard)
            elif not await patience.pause():
                self._lose(ConnectionError(why))
                return
            try:
                connection = await patiently(self._dial, patience)
            except TurnedAwayError as error:
                self._lose(error)
                return
            except ConnectionError as error:
                self._lose(ConnectionError(f"{why}; {error}"))
                return

    async def _carry(self, connection: Connection, patience: Patience | None) -> str | None:
        """Carry both ways over one connection.

        Args:
            patience: of the party that has lost another one; the hub has to show soon that it
                reads this one. None for the first.

        Returns:
            Why it ended, or None if the hub has said goodbye.
        """
        now = trio.current_time()
        last = quiet = math.inf
        if patience is not None:
            last, quiet = max(patience.last, now + LAST), LAST / 2
        heard = self._heard

        async def wear_out() -> None:
            await trio.sleep_until(last)
            if self._heard == heard:
                raise trio.BrokenResourceError(_SILENT)
            await trio.sleep_forever()

        try:
            with trio.fail_at(min(last, now + self._limits.idle)):
                await connection.send([encode(Received(self._received))])
                frame = read_frame(await connection.receive())
            if isinstance(frame, Replaced):
                self._end(_REPLACED)
                return None
            if not isinstance(frame, Accepted):
                raise unexpected(frame, Accepted, Replaced)
            missing = self._missing(frame.log, frame.restored)
            if missing is not None:
                self._end(missing)
                return None
            self._resume(frame.envelopes, frame.deliveries)
        except RemoteProtocolError as error:
            self._break(error)
            return None
        except trio.TooSlowError:
            return _SILENT
        except (trio.BrokenResourceError, trio.EndOfChannel) as end:
            return _why_ended(end)
        return await first_end(
            lambda: _plainly(self._incoming(connection)),
            lambda: _plainly(self._outgoing(connection, quiet)),
            wear_out,
        )

    def _resume(self, accepted: int, handed: int) -> None:
        """Go on after what the hub has accepted.

        That may be less than before: what it has not acknowledged is lost if it crashes.

        Raises:
            RemoteProtocolError: that is more than it can have.
            trio.EndOfChannel: it is less than it has acknowledged or handed over.
        """
        if accepted < self._acknowledged or handed < self._received:
            self._end("the aggregator has begun anew")
            raise trio.EndOfChannel
        # At first, what an earlier program may have said.
        most = self._limits.envelopes if self._accepted is None else self._written
        if accepted > most:
            raise RemoteProtocolError(f"{accepted} accepted, of {most} at most", field="link")
        self._accepted = self._written = accepted
        self._told = 0
        self._ended = False
        waiting = range(accepted - self._durable, len(self._said))
        self._waiting_bytes = sum(len(self._said[place]) for place in waiting)

    async def _incoming(self, connection: Connection) -> None:
        try:
            while True:
                while not len(connection):
                    await connection.fill()
                for payload in connection.take():
                    self._heard += 1
                    frame = read_frame(payload)
                    if isinstance(frame, Goodbye):
                        return
                    if isinstance(frame, Replaced):
                        self._end(_REPLACED)
                        return
                    if isinstance(frame, Envelope):
                        await self._hear(frame)
                    else:
                        self._count(frame)
        except RemoteProtocolError as error:
            self._break(error)

    async def _hear(self, envelope: Envelope) -> None:
        mail = self.mail
        if mail.full:
            await mail.room()
        if envelope.sender != SWITCH:
            self._received += 1
            self._came += not mail.closed
        mail.put(envelope)

    def _count(self, frame: Frame) -> None:
        """Take a frame that does not end the link: as many as there can be reasons for.

        Raises:
            RemoteProtocolError: there is no reason to say it.
        """
        most = self._limits.envelopes
        if isinstance(frame, Alive):
            self._alive += 1
            if self._alive > most:
                said = f"it has said more than {most} times that it is there"
                raise RemoteProtocolError(said, field="link")
            return
        if isinstance(frame, Acknowledged):
            if self._ended:
                raise RemoteProtocolError("two receipts over one connection", field="link")
            self._ended = True
            self._came += self._given is None
            self._given = self._given or frame.given
            self._waiting.unpark_all()
            return
        if not isinstance(frame, Durable):
            raise unexpected(frame, Acknowledged, Alive, Durable, Goodbye, Replaced)
        durable = frame.envelopes
        first = max(self._told + 1, self._acknowledged)
        if not first <= durable <= self._written:
            said = f"{durable} acknowledged after {first - 1}, of {self._written} that were written"
            raise RemoteProtocolError(said, field="link")
        self._came += durable > self._acknowledged
        self._told = self._acknowledged = durable
        self._forget()
        self._waiting.unpark_all()

    async def _outgoing(self, connection: Connection, quiet: float) -> None:
        """Say what there is to say; after a first quiet of so many seconds, that one is there."""
        limits = self._limits
        quiet = min(quiet, limits.alive)
        while True:
            payloads: list[bytes] = []
            size = 0
            for place in range(self._written - self._durable, len(self._said)):
                payloads.append(self._said[place])
                size += len(payloads[-1])
                if size >= limits.write:
                    break
            if payloads:
                self._written += len(payloads)
                self._waiting_bytes -= size
                self._waiting.unpark_all()
            elif self._leaving:
                await connection.send([encode(Goodbye())])
                await trio.sleep_forever()  # Until the hub has read it.
            else:
                self._news = trio.Event()
                with trio.move_on_after(quiet) as waited:
                    await self._news.wait()
                if not waited.cancelled_caught:
                    continue
                quiet = limits.alive
                payloads.append(encode(Alive()))
            await connection.send(payloads)

    def _forget(self) -> None:
        """Keep what is acknowledged no longer."""
        while self._said and self._durable < self._acknowledged:
            self._said.popleft()
            self._durable += 1

    def _break(self, error: RemoteProtocolError) -> None:
        """The hub has broken a rule of the link."""
        self._end(f"the aggregator broke the rules of the link: {error}")

    def _lose(self, lost: ConnectionError) -> None:
        """No connection can be made again."""
        self.lost = lost
        self._end(str(lost))

    def _end(self, why: str) -> None:
        if self.why is None:
            self.why = why
            self.mail.end()
            self._waiting.unpark_all()

    def _take(self, most: int | None) -> list[Envelope]:
        return self.mail.take_nowait(most)

    async def _wait(self) -> None:
        try:
            await super()._wait()
        except trio.EndOfChannel:
            if self.why:
                raise trio.BrokenResourceError(self.why) from None
            raise

    def _check_open(self) -> None:
        self._check()
        if self.why is not None:
            raise trio.BrokenResourceError(self.why or "the hub has ended the link")


async def patiently(dial: Dial, patience: Patience) -> Connection:
    """Connect, trying again until that has taken too long.

    Raises:
        TurnedAwayError: the two ends do not accept each other.
        ConnectionError: the last try's.
    """
    while True:
        try:
            return await dial(patience.left)
        except TurnedAwayError:
            raise
        except ConnectionError:
            if not await patience.pause():
                raise


@asynccontextmanager
async def connect_lasting(
    host: str,
    port: int,
    *,
    charter: Charter,
    identity: Identity,
    tls: ssl.SSLContext | None = None,
    limits: Limits | None = None,
    patience: float = PATIENCE,
    join: Callable[[int], object] | None = None,
    holding: Holding | None = None,
) -> AsyncGenerator[LastingLink]:
    """A party's link to the aggregator's switch, over as many connections as it takes.

    Args:
        identity: the party and its key; the roster holds the public part.
        tls: for TLS, a context of ``transports.tls.client_context``.
        patience: how long to go on without a sign of life of the hub, in seconds: until it was
            reached, and after it was heard last. The last try may take ``LAST`` seconds more. A
            connection on which nothing is heard for half as long is taken to be lost.
        join: as ``connect_tcp`` has it; called once. The link stays with that attempt.
        holding: what the party holds of the aggregator's record; by default nothing.

    Raises:
        TurnedAwayError: the two ends do not accept each other.
        ConnectionError: the hub was out of reach for so long; says why in one line.
    """
    limits = _party_limits(limits or Limits(), patience)
    joined: list[int] = [] if join is not None else [charter.attempt]

    def rejoin(attempt: int) -> None:
        if join is not None and not joined:
            join(attempt)
            joined.append(attempt)
        elif attempt != joined[0]:
            said = f"the aggregator is at attempt {attempt}, this party at {joined[0]}"
            raise RemoteProtocolError(said, field="attempt")

    async def dialed(within: float) -> Connection:
        last = trio.current_time() + within

        async def contend(address: str, alone: Callable[[], None]) -> Connection:
            def challenged(attempt: int) -> None:
                alone()
                rejoin(attempt)

            async def enter(connection: Connection) -> None:
                held = None if holding is None else holding.newest()
                await introduce(
                    connection, charter, identity, version=VERSION, join=challenged, held=held
                )

            left = max(last - trio.current_time(), 0.0)
            connection, _ = await dial(address, port, enter, tls=tls, limits=limits, within=left)
            return connection

        return await race(await resolve_addresses(host, port, within=within), contend)

    first = await patiently(dialed, Patience(patience))
    missing = (lambda *_: None) if holding is None else holding.missing
    link = LastingLink(dialed, identity.name, limits, patience, missing)

    async def carried() -> None:
        await link.run(first)

    async with running(carried):
        try:
            yield link
        finally:
            await link.aclose()


def _party_limits(limits: Limits, patience: float) -> Limits:
    """The limits of a party: a silence leaves it half its patience, and has three signs of life."""
    idle = min(limits.idle, max(patience / 2, SHORTEST))
    return msgspec.structs.replace(limits, idle=idle, alive=min(limits.alive, idle / 3))


async def _plainly(direction: Awaitable[None]) -> None:
    """One direction of a connection, which breaks in words for a person."""
    try:
        await direction
    except trio.BrokenResourceError as error:
        raise trio.BrokenResourceError(_why_ended(error)) from None


def _why_ended(end: Exception) -> str:
    """The reason for a connection's end, in words for a person."""
    return plain_reason(root_cause(end)) if end.__cause__ else str(end) or "the connection ended"
