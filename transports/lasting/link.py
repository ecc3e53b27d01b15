"""A party's end of a lasting link, which reconnects and tracks what is durable at the hub."""

from __future__ import annotations

import functools
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
"""Seconds for which a party keeps trying without a sign of life of the hub."""

LAST = 3.0
"""Additional seconds for the last try."""

SHORTEST = 2.0
"""The shortest silence after which a connection counts as lost, in seconds."""

SOON, LATE = 0.1, 10.0
"""The longest pause before the second try, and before any try; pauses double and are random."""

WINDOW = 4 * 1024 * 1024
"""Bytes that may wait to be written before the sender waits."""

_SILENT = "silent for too long"
_REPLACED = "another program has connected as this party"

Dial = Callable[[float], Awaitable[Connection]]
"""Function that connects within so many seconds."""


class Holding(Protocol):
    """A party's checkpoint of the aggregator's record, which later records have to extend."""

    def newest(self) -> SignedCheckpoint | None:
        """The newest checkpoint that the party holds, if any."""

    def missing(self, log: Consistency | None, restored: Shown | None) -> str | None:
        """Reason why the shown record does not extend the checkpoint; None if it does.

        None also for a record that proves its restoration: then all messages are sent again.
        """


class Patience:
    """Time limit and growing pauses for tries to reach the hub.

    Args:
        seconds: the time limit.
        since: start of the time; now by default.

    Attributes:
        last: time at which the last try has to end.
    """

    def __init__(self, seconds: float, *, since: float | None = None) -> None:
        self._until = (trio.current_time() if since is None else since) + seconds
        self.last = self._until + LAST
        self._pause = SOON

    @property
    def left(self) -> float:
        """Seconds that a try may take."""
        return max(self.last - trio.current_time(), 0.0)

    async def pause(self) -> bool:
        """Wait before the next try; return False at once if time is up."""
        left = self._until - trio.current_time()
        if left <= 0.0:
            return False
        # Random, so that parties that lost the hub together do not keep returning together.
        await trio.sleep(min(self._pause * random.uniform(0.5, 1.0), left))
        self._pause = min(2 * self._pause, LATE)
        return True


class LastingLink(MailboxLink[Envelope]):
    """A party's link that outlives its connections.

    A connection counts as a failed try if nothing arrived and the hub was silent after the first
    ``limits.alive`` seconds. A hub that violates the protocol of the link ends it. The hub answers
    every ``Alive`` frame, so that it shows a sign of life as often as the party asks for one.

    Args:
        dial: connects and introduces the party.
        member: the party.
        limits: the deadlines.
        patience: seconds to keep trying without a sign of life of the hub.
        missing: as in ``Holding``; by default nothing is demanded.

    Attributes:
        why: why the link has ended; None while it has not; empty if the hub ended it.
        lost: why the party could not reconnect; None if it did not have to give up.
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
        # Sent and not acknowledged; the first has the number ``_durable``.
        self._said: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._durable = 0
        # Number of acknowledged envelopes; may include those of an earlier program.
        self._acknowledged = 0
        # Number of accepted envelopes; None before the hub's first frame.
        self._accepted: int | None = None
        self._written = 0
        self._received = 0
        # Number of awaited frames, and of frames that only show a sign of life.
        self._came = 0
        self._alive = 0
        # Number of frames after the first of each connection.
        self._heard = 0
        # Whether waiting for acknowledgements has timed out.
        self._waited = False
        # Last acknowledgement over this connection, and whether it brought a receipt.
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
        """Wait until everything sent is on the hub's disk, or the link is over.

        Incoming envelopes are dropped meanwhile. The wait ends if nothing is acknowledged for the
        link's patience, or for the time of a goodbye if that is longer.

        Returns:
            True if everything is on disk.
        """
        return await self._until(lambda: not self._said)

    async def acknowledgement(self) -> Acknowledgement | None:
        """Wait as ``acknowledged``, and for the receipt, which follows this party's head.

        Returns:
            The hub's acknowledgement, unchecked; None if something was not acknowledged, or there
            was no receipt.
        """
        done = await self._until(lambda: not self._said and self._given is not None)
        return self._given if done else None

    async def _until(self, done: Callable[[], bool]) -> bool:
        """Wait for a condition, until the link ends or nothing is acknowledged for too long."""
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
        """Wait a while for all acknowledgements; then say goodbye."""
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
        """Close at once; envelopes that were not written are lost."""
        self._closed = True
        self._end("closed")

    async def run(self, connection: Connection) -> None:
        """Carry both directions over this connection, and over new ones when it is lost."""
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
        """Carry both directions over one connection.

        Args:
            patience: time left after the loss of another connection: the hub has to show soon that
                it reads this one. None for the first connection.

        Returns:
            Why it ended; None if the hub said goodbye or the link is over.
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
        """Resume after the envelopes that the hub has accepted.

        They may be fewer than before, as a crash of the hub loses what is not acknowledged.

        Raises:
            RemoteProtocolError: more than were sent.
            trio.EndOfChannel: fewer than were acknowledged or delivered.
        """
        if accepted < self._acknowledged or handed < self._received:
            self._end("the aggregator has begun anew")
            raise trio.EndOfChannel
        # Before the first frame, an earlier program may have sent any number.
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
        """Take a frame that does not end the link.

        Raises:
            RemoteProtocolError: a frame of another kind, or one too many of its kind.
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
        """Send what there is to send, and ``Alive`` frames when there is nothing.

        Args:
            quiet: seconds without anything to send before the first ``Alive`` frame.
        """
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
        """Drop acknowledged envelopes."""
        while self._said and self._durable < self._acknowledged:
            self._said.popleft()
            self._durable += 1

    def _break(self, error: RemoteProtocolError) -> None:
        """End the link after a violation by the hub."""
        self._end(f"the aggregator broke the rules of the link: {error}")

    def _lose(self, lost: ConnectionError) -> None:
        """End the link because the party could not reconnect."""
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
    """Connect, with further tries until time is up.

    Raises:
        TurnedAwayError: the two ends do not accept each other.
        ConnectionError: the error of the last try.
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
        patience: seconds to keep trying without a sign of life of the hub, before and after the
            first connection. The last try may take ``LAST`` seconds more. A connection that is
            silent for half as long counts as lost.
        join: as in ``connect_tcp``; called once. The link stays with that attempt.
        holding: the party's checkpoint of the aggregator's record; by default none.

    Raises:
        TurnedAwayError: the two ends do not accept each other.
        ConnectionError: the hub stayed out of reach; says why in one line.
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

    async with running(functools.partial(link.run, first)):
        try:
            yield link
        finally:
            await link.aclose()


def _party_limits(limits: Limits, patience: float) -> Limits:
    """Limits of a party: silence for half its patience is a loss, and spans three signs of life."""
    idle = min(limits.idle, max(patience / 2, SHORTEST))
    return msgspec.structs.replace(limits, idle=idle, alive=min(limits.alive, idle / 3))


async def _plainly(direction: Awaitable[None]) -> None:
    """Run one direction of a connection, with its error in words for a person."""
    try:
        await direction
    except trio.BrokenResourceError as error:
        raise trio.BrokenResourceError(_why_ended(error)) from None


def _why_ended(end: Exception) -> str:
    """Reason for a connection's end, in words for a person."""
    return plain_reason(root_cause(end)) if end.__cause__ else str(end) or "the connection ended"
