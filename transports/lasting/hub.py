"""The aggregator's end of lasting links, which outlive connections and acknowledge messages.

A party's messages are acknowledged once they are on disk. A party that loses its connection has
some time to reconnect; both sides resume where they were. None of this is on record.
"""

from __future__ import annotations

import math
import ssl
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress

import trio

from protocol.errors import RemoteProtocolError
from protocol.messages import AGGREGATOR, LINK_CLOSED, NEVER_CAME, SWITCH, Envelope, PartyId
from protocol.session.exchange import Delivery
from protocol.session.roster import Identity
from protocol.transcript.checkpoints import SignedCheckpoint
from protocol.transcript.consistency import Consistency
from protocol.transcript.receipts import Acknowledgement, Shown
from protocol.wire.codec import ENVELOPE_BYTES, encode_envelope
from transports import handshake
from transports.admission import Network
from transports.background import running
from transports.base import Link
from transports.connection import Connection
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
from transports.lasting.older import OlderRecordError, checkpoint_in
from transports.listening import Caller, first_end, listen
from transports.mailbox import Mailbox
from transports.memory import MemoryLink
from transports.records.commits import Commits
from transports.switch import Switch
from transports.tcp import TcpHub

KEPT_BYTES = 256 * 1024 * 1024
"""Maximum size of delivered messages that are kept for redelivery."""

GRACE = 60.0
"""Seconds that a party has to reconnect."""

STAYED_AWAY = "did not come back"
"""Reason for the departure of a party that does not return after the hub has restarted."""

_LAST_SECONDS = 1.0


class LastingHub(TcpHub):
    """A switch that parties reach over TCP or TLS by links that outlive a connection.

    Use it in ``async with open_lasting(switch, identity) as (hub, port)``.

    Args:
        commits: commits of the record: deliveries and acknowledgements wait until the record is
            durable. Without it they do not wait, and there are no receipts.
        grace: seconds that a party has to reconnect before it is given up.
    """

    version = VERSION

    def __init__(
        self,
        switch: Switch,
        identity: Identity,
        *,
        tls: ssl.SSLContext | None = None,
        trusted: Sequence[Network] = (),
        commits: Commits | None = None,
        grace: float = GRACE,
    ) -> None:
        super().__init__(switch, identity, tls=tls, trusted=trusted)
        self.commits = commits
        self._grace = grace
        self._lines: dict[PartyId, Line] = {}
        # Lines without a connection, in the order of the losses.
        self._lost: dict[Line, None] = {}
        self._some_lost = trio.Event()
        # Lines lost after the party's last message, without a goodbye.
        self._unsure: set[Line] = set()
        self._fewer = trio.Event()
        self._kept = 0
        self._progress = trio.Event()
        self._met = trio.Event()
        self._older: OlderRecordError | None = None

    def _check_hello(self, hello: handshake.Hello) -> None:
        charter = self._switch.exchange.charter
        held = checkpoint_in(hello, charter)
        if held is not None and held.session != charter.session:
            # The party has seen a later attempt, and will refuse to go back.
            self.stop(OlderRecordError(hello.party, held, None))

    def _caller(self, hello: handshake.Hello) -> Caller:
        line = self._lines.get(hello.party)
        if line is None:
            line = self._lines[hello.party] = Line(self, self._switch, hello.party)
        return Visit(line, checkpoint_in(hello, self._switch.exchange.charter))

    def stop(self, older: OlderRecordError) -> None:
        """Make ``watch`` end the hub: its record lacks acknowledged messages."""
        self._older = self._older or older
        self._some_lost.set()

    @asynccontextmanager
    async def lead(self) -> AsyncGenerator[Link]:
        """The aggregator's link; closed at the end of the block, unless the block raises.

        After an error, another program may resume the session.
        """
        link = MemoryLink(self._switch, AGGREGATOR)
        yield link
        link.close()

    def expect(self, handed: Mapping[PartyId, Sequence[Envelope]], *, within: float) -> None:
        """Resume the links of an earlier program; their parties may reconnect.

        Args:
            handed: envelopes delivered to each party, in order.
            within: seconds that the parties have to reconnect.
        """
        due = trio.current_time() + within
        for name, envelopes in handed.items():
            line = self._lines[name] = Line(self, self._switch, name)
            if line.resume(envelopes, due):
                self._lost[line] = None
            elif line.unsure:
                self.doubt(line)
        self._some_lost.set()

    async def emptied(self) -> None:
        """Wait until no party is connected or may still reconnect for its last messages."""
        while True:
            await super().emptied()
            if not self._lost and not self._unsure:
                return
            self._fewer = trio.Event()
            await self._fewer.wait()

    async def joined(
        self, members: Iterable[PartyId], *, within: float, reason: str = NEVER_CAME
    ) -> None:
        await super().joined(members, within=within, reason=reason)
        self._find_departed()

    async def watch(self) -> None:
        """Give up parties that do not reconnect in time, until cancelled.

        Raises:
            OlderRecordError: a party holds a checkpoint that the record lacks.
        """
        while True:
            if self._older is not None:
                raise self._older
            now = trio.current_time()
            for line in [line for line in self._lost if line.due <= now]:
                self.find(line)
                line.give_up()
            self._some_lost = trio.Event()
            with trio.move_on_at(min((line.due for line in self._lost), default=math.inf)):
                await self._some_lost.wait()

    def give_up(self) -> dict[PartyId, str]:
        """Give up all parties without a connection; return them with the reasons."""
        lost = [(line.name, line.give_up()) for line in self._lost]
        for line in list(self._lost):
            self.find(line)
        return {name: why for name, why in lost if why is not None}

    async def acknowledged(self) -> None:
        """Wait until every connected party has received its acknowledgements."""
        due = {line: line.accepted for line in self._lines.values()}
        while any(line.owes(count) for line, count in due.items()):
            self._progress = trio.Event()
            await self._progress.wait()

    async def returned(self, within: float) -> list[PartyId]:
        """Wait for all present parties without a last message on record to reconnect.

        Args:
            within: seconds to wait.

        Returns:
            The parties that have not reconnected, in roster order.
        """
        with trio.move_on_after(within):
            while self.unmet:
                self._met = trio.Event()
                await self._met.wait()
        return self.unmet

    @property
    def unmet(self) -> list[PartyId]:
        """Present parties that may hold a checkpoint and have not shown it, in roster order."""
        exchange = self._switch.exchange
        met = {name for name, line in self._lines.items() if line.met}
        return [
            name
            for name in exchange.charter.roster.parties
            if name not in met and name not in exchange.departed and not exchange.has_ended(name)
        ]

    @property
    def owed(self) -> list[PartyId]:
        """Parties that hold receipts of missing messages and have not repeated them all."""
        exchange = self._switch.exchange
        lines = self._lines.items()
        return [name for name, line in lines if line.owed and not exchange.has_ended(name)]

    def write_off(self, parties: Iterable[PartyId]) -> None:
        """Owe parties nothing any more; the record says so."""
        for name in parties:
            self._lines[name].owed = False

    def dismiss(self, parties: Iterable[PartyId], reason: str) -> None:
        """Detach parties that have not come."""
        for name in parties:
            self._switch.detach(name, reason)
        self._find_departed()

    def _find_departed(self) -> None:
        for line in [line for line in self._lost if line.departed]:
            self.find(line)

    def advance(self) -> None:
        """Note an acknowledgement, or the end of a connection."""
        self._progress.set()

    def meet(self, line: Line) -> None:
        """Note that a party has shown the checkpoint that it holds."""
        line.met = True
        self._met.set()

    def lose(self, line: Line, *, held: bool) -> None:
        """Note a lost connection; its party has some time to reconnect.

        Args:
            held: whether the connection was of any use. If not, the time runs on from an earlier
                loss.
        """
        due = trio.current_time() + self._grace
        line.due = due if held else min(line.due, due)
        self._lost[line] = None
        self._some_lost.set()

    def find(self, line: Line) -> None:
        """Note that a party has reconnected, or is no longer waited for."""
        self._lost.pop(line)
        self._fewer.set()

    def doubt(self, line: Line) -> None:
        """Note a connection lost after the party's last message: it may lack some of ours."""
        self._unsure.add(line)

    def settle(self, line: Line) -> None:
        """Note that a party has received everything."""
        self._unsure.discard(line)
        self._fewer.set()

    @property
    def crowded(self) -> bool:
        """True if more than ``KEPT_BYTES`` is kept."""
        return self._kept > KEPT_BYTES

    def keep(self, size: int) -> None:
        """Count bytes kept for redelivery; negative if dropped."""
        self._kept += size


class Line:
    """A party's link at the hub's end, across all of its connections.

    Args:
        hub: the hub of the link.
        switch: relays the party's envelopes.
        name: the party.

    Attributes:
        visit: the current or last connection.
        port: deliveries that were not handed over yet.
        end: number of deliveries handed over so far. Notices of the switch have no numbers, as they
            are not on record; every connection gets all of them.
        received: the largest number of deliveries that the party has confirmed.
        due: time at which the party is given up if it is not connected.
        owed: whether the party holds a receipt of messages that the restored record lacks.
        met: whether the party has shown the checkpoint that it holds.
        alive: number of ``Alive`` frames received.
    """

    def __init__(self, hub: LastingHub, switch: Switch, name: PartyId) -> None:
        self.hub = hub
        self.switch = switch
        self.name = name
        self.visit: Visit | None = None
        self.port: Mailbox[Delivery] = Mailbox(0)
        self.end = 0
        self.received = 0
        self.due = math.inf
        self.owed = False
        self.met = False
        self.alive = 0
        self._handed: deque[Envelope] = deque()
        # Each with the number of deliveries before it.
        self._notices: list[tuple[int, Envelope]] = []
        self._lost: str | None = None
        self._resumed = False

    @property
    def notices(self) -> int:
        """Number of notices handed over."""
        return len(self._notices)

    @property
    def accepted(self) -> int:
        """Number of accepted envelopes of the party."""
        return self.switch.exchange.accepted(self.name)

    @property
    def departed(self) -> bool:
        """True if the party's departure is on record."""
        return self.name in self.switch.exchange.departed

    @property
    def unsure(self) -> bool:
        """True if the party has left after its last message without a goodbye."""
        exchange = self.switch.exchange
        return exchange.has_ended(self.name) and exchange.departed.get(self.name) != LINK_CLOSED

    def owes(self, accepted: int) -> bool:
        """Check whether the party is connected, and lacks the acknowledgement of so many."""
        visit = self.visit
        return visit is not None and not visit.over.is_set() and visit.acknowledged < accepted

    def resume(self, handed: Sequence[Envelope], due: float) -> bool:
        """Resume the link of an earlier program.

        Args:
            handed: envelopes delivered to the party, in order.
            due: time at which the party is given up.

        Returns:
            True if the party has not left, so that it is waited for.
        """
        self._resumed = True
        for envelope in handed:
            self._handed.append(envelope)
            self.hub.keep(_kept_size(envelope))
        self.end = len(handed)
        self.forget(self.end)
        if self.departed:
            self.port.end()
            self.free()
            return False
        self._lost, self.due = STAYED_AWAY, due
        return True

    async def committed(self) -> None:
        """Wait until the record is durable."""
        if self.hub.commits is not None:
            await self.hub.commits.caught_up()

    async def welcome(self, held: SignedCheckpoint | None) -> Accepted:
        """The first frame to the party, once its content is durable.

        Args:
            held: the party's checkpoint.
        """
        commits = self.hub.commits
        log: Consistency | None = None
        restored: Shown | None = None
        if held is not None and commits is not None:
            log = commits.recorder.compared(held)
            if not commits.recorder.extends(held):
                restored = commits.recorder.shown_restored(held)
            await commits.caught_up()
        return Accepted(self.accepted, self.end, log, restored)

    def older_than(self, held: SignedCheckpoint | None) -> OlderRecordError | None:
        """Error if the record lacks what the party's checkpoint covers; None otherwise.

        None also for a restored record, which says so: then the party is owed a place in it.
        """
        commits = self.hub.commits
        if held is None or commits is None or commits.recorder.extends(held):
            return None
        if commits.recorder.shown_restored(held) is not None:
            self.owed = True
            return None
        return OlderRecordError(self.name, held, commits.recorder.checkpoint)

    @property
    def acknowledgement(self) -> Acknowledgement | None:
        """The party's receipt; None before its head is durable."""
        commits = self.hub.commits
        return None if commits is None else commits.acknowledged.get(self.name)

    def begin(self, visit: Visit) -> None:
        """Accept a connection in place of the one before.

        Raises:
            RemoteProtocolError: the party has left.
        """
        exchange = self.switch.exchange
        before = self.visit
        known = before is not None or self._resumed
        if self.departed and not (known and exchange.has_ended(self.name)):
            raise RemoteProtocolError(f"{self.name!r} has left this session", field="party")
        if self._lost is not None:
            self.hub.find(self)
        if before is None:
            if not self.departed:
                self.port = self.switch.attach(self.name)
                self.port.watcher = self.tell
        elif self._lost is not None:
            self.switch.rejoin(self.name)
        else:
            before.scope.cancel()
            if before.held:
                self.due = math.inf
        self._lost = None
        while before is not None and before.over.is_set():
            before = before.before
        visit.before = before
        self.visit = visit

    def lose(self, visit: Visit, why: str) -> None:
        """Handle the end of a connection without a goodbye; after its last message it has left."""
        if self.visit is not visit or self.departed:
            return
        if self.switch.exchange.has_ended(self.name):
            self.hub.doubt(self)
            self.switch.detach(self.name, why)
            return
        self._lost = why
        self.hub.lose(self, held=visit.held)
        self.switch.lose(self.name)

    def give_up(self) -> str | None:
        """Give up the party if it is not connected; return the reason."""
        why, self._lost = self._lost, None
        if why is not None:
            self.switch.detach(self.name, why)
            self.free()
        return why

    def free(self) -> None:
        """Drop everything kept for a party that cannot reconnect."""
        if self.departed and not self.switch.exchange.has_ended(self.name):
            self.hub.keep(-sum(map(_kept_size, self._handed)))
            self._handed.clear()
            self._notices.clear()

    def tell(self) -> None:
        """Wake the connection to look for news."""
        if self.visit is not None:
            self.visit.news.set()

    def take(self, most: int) -> None:
        """Hand over at least ``most`` bytes of deliveries, if there are so many."""
        size = 0

        def enough(delivery: Delivery) -> bool:
            nonlocal size
            size += len(delivery.encoded or delivery.envelope.body)
            return size >= most

        taken = self.port.take_until(enough)
        # Recorded as delivered before it is written: an answer must not precede its cause.
        self.switch.taken(taken)
        for delivery in taken:
            if delivery.envelope.sender == SWITCH:
                self._notices.append((self.end, delivery.envelope))
                continue
            self._handed.append(delivery.envelope)
            self.hub.keep(_kept_size(delivery.envelope))
            self.end += 1

    def forget(self, written: int) -> None:
        """Drop the oldest written deliveries while too much is kept."""
        most = self.switch.limits.mailbox
        while self.hub.crowded and self.first() + most < written:
            self.hub.keep(-_kept_size(self._handed.popleft()))

    def first(self) -> int:
        """Number of the first kept delivery."""
        return self.end - len(self._handed)

    def payloads(self, written: int, noticed: int, most: int) -> tuple[list[bytes], int, int]:
        """Encoded deliveries and notices from these numbers on, of little more than ``most`` bytes.

        Returns:
            The encodings, and the numbers of the next delivery and notice.
        """
        payloads: list[bytes] = []
        size = 0
        while size < most:
            if noticed < len(self._notices) and self._notices[noticed][0] <= written:
                envelope = self._notices[noticed][1]
                noticed += 1
            elif written < self.end:
                envelope = self._handed[written - self.first()]
                written += 1
            else:
                break
            payloads.append(encode_envelope(envelope))
            size += len(payloads[-1])
        return payloads, written, noticed


def _kept_size(envelope: Envelope) -> int:
    """Estimated bytes of an envelope in memory."""
    return ENVELOPE_BYTES + len(envelope.body)


class Visit(Caller):
    """One connection of a party, at the hub's end.

    Args:
        line: the party's link.
        held: the newest checkpoint that the party holds.

    Attributes:
        before: the connection that this one replaces.
        scope: cancelled when this one is replaced.
        over: set when the connection is finished.
        news: set when there may be something to send.
        acknowledged: number of envelopes acknowledged over it.
    """

    def __init__(self, line: Line, held: SignedCheckpoint | None = None) -> None:
        self.before: Visit | None = None
        self.scope = trio.CancelScope()
        self.over = trio.Event()
        self.news = trio.Event()
        self.acknowledged = 0
        self._line = line
        self._held = held
        self._written = 0
        self._noticed = 0
        self._told = 0
        self._given = False
        self._asked = False
        self._since = math.inf
        self._accepted = line.accepted
        self._heard = False

    @property
    def held(self) -> bool:
        """True if it was of use: envelopes passed, or it lasted with nothing to hand over."""
        line = self._line
        if self._heard or line.accepted > self._accepted:
            return True
        lasted = trio.current_time() >= self._since + line.switch.limits.alive
        return lasted and not len(line.port) and self._written == line.end

    @property
    def _said_all(self) -> bool:
        """True if everything handed over has been written to this connection."""
        return self._written == self._line.end and self._noticed == self._line.notices

    def enter(self) -> tuple[bytes, int]:
        line = self._line
        try:
            line.begin(self)
        except RemoteProtocolError as error:
            older = line.older_than(self._held)
            if older is None:
                raise
            line.hub.stop(older)
            raise RemoteProtocolError(str(older)) from error
        cap = line.switch.exchange.charter.codec.max_envelope
        return handshake.encode(handshake.Welcome(line.name)), cap

    def leave(self, reason: str) -> None:
        self.over.set()
        self._line.lose(self, reason)

    async def carry(self, connection: Connection) -> None:
        line = self._line
        why: str | None = None
        try:
            with self.scope:
                why = await self._carry(connection)
        finally:
            self.over.set()
            line.hub.advance()
        if line.visit is not self:
            with suppress(trio.BrokenResourceError), trio.move_on_after(_LAST_SECONDS):
                await connection.send([encode(Replaced())])
        elif why is None:
            line.switch.detach(line.name, LINK_CLOSED)
            line.hub.settle(line)
        else:
            line.lose(self, why)
        if line.visit is self:
            line.free()
        await connection.aclose()

    async def _carry(self, connection: Connection) -> str | None:
        """Relay both ways; return why it ended, or None after a goodbye."""
        line = self._line
        while self.before is not None:
            # What the earlier connection has accepted counts; it accepts nothing more.
            await self.before.over.wait()
            self.before = self.before.before
        try:
            await connection.send([encode(await line.welcome(self._held))])
            frame = read_frame(await connection.receive())
            if not isinstance(frame, Received):
                raise unexpected(frame, Received)
            older = line.older_than(self._held)
            if older is not None:
                # The party leaves once it has the frame.
                with suppress(trio.EndOfChannel), trio.move_on_after(_LAST_SECONDS):
                    await connection.receive()
                line.hub.stop(older)
                return str(older)
            line.hub.meet(line)
            self._written = frame.deliveries
            if self._written < line.first():
                raise RemoteProtocolError("more was sent to it than is kept", field="link")
            if self._written > line.end:
                # Another hub may have handed those over: this one has nothing to send.
                return "it has received more than was handed to it"
            self._since, self._accepted = trio.current_time(), line.accepted
            self._heard = self._written > line.received
            line.received = max(line.received, self._written)
        except RemoteProtocolError as error:
            self._refuse(error)
            return None
        except (trio.BrokenResourceError, trio.EndOfChannel) as end:
            return str(end) or "the connection ended"
        return await first_end(
            lambda: self._incoming(connection), lambda: self._outgoing(connection)
        )

    def _refuse(self, error: RemoteProtocolError) -> None:
        """Remove the party for a violation, unless it has left or this connection was replaced."""
        switch, name = self._line.switch, self._line.name
        if self._line.visit is self and not self._line.departed:
            switch.exchange.refuse(name, str(error), now=switch.now)
            switch.detach(name, f"refused: {error}")

    async def _incoming(self, connection: Connection) -> None:
        line = self._line
        while True:
            try:
                while not len(connection):
                    await connection.fill()
                for payload in connection.take():
                    frame = read_frame(payload)
                    if isinstance(frame, Goodbye):
                        return
                    await self._take(frame, payload)
            except RemoteProtocolError as error:
                self._refuse(error)
            except trio.BrokenResourceError:
                if not line.departed:
                    raise
            if line.departed or line.visit is not self:
                # Nothing more is accepted; the other direction says goodbye, or is cancelled.
                await trio.sleep_forever()

    async def _take(self, frame: Frame | Envelope, payload: bytes) -> None:
        line = self._line
        if line.departed or line.visit is not self:
            return
        if isinstance(frame, Alive):
            line.alive += 1
            most = line.switch.limits.envelopes
            if line.alive > most:
                said = f"it has said more than {most} times that it is there"
                raise RemoteProtocolError(said, field="link")
            self._asked = True
            self.news.set()
            return
        if not isinstance(frame, Envelope):
            raise unexpected(frame, Alive, Goodbye)
        await line.switch.relay(line.name, (frame,), (payload,))
        self.news.set()

    async def _outgoing(self, connection: Connection) -> None:
        line = self._line
        limits = line.switch.limits
        while True:
            accepted = line.accepted
            # Only once all was written: otherwise the kept bytes would be unbounded.
            if len(line.port) and line.visit is self and self._said_all:
                line.take(limits.write)
            payloads, self._written, self._noticed = line.payloads(
                self._written, self._noticed, limits.write
            )
            ended = line.port.closed and self._said_all
            line.forget(self._written)
            if payloads or ended or accepted > self._told:
                await line.committed()
                payloads += self._acknowledgements(accepted)
                if ended:
                    payloads.append(encode(Goodbye()))
                await connection.send(payloads)
                self.acknowledged = self._told
                line.hub.advance()
                if ended:
                    return
                continue
            self.news = trio.Event()
            with trio.move_on_after(0.0 if self._asked else limits.alive) as quiet:
                await self.news.wait()
            if quiet.cancelled_caught:
                self._asked = False
                await connection.send([encode(Alive())])

    def _acknowledgements(self, accepted: int) -> Iterator[bytes]:
        """Acknowledgements of so many envelopes; the receipt is sent once."""
        if accepted > self._told:
            self._told = accepted
            yield encode(Durable(accepted))
        given = self._line.acknowledgement
        if given is not None and not self._given:
            self._given = True
            yield encode(Acknowledged(given))


@asynccontextmanager
async def open_lasting(
    switch: Switch,
    identity: Identity,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    tls: ssl.SSLContext | None = None,
    trusted: Sequence[Network] = (),
    commits: Commits | None = None,
    grace: float = GRACE,
) -> AsyncGenerator[tuple[LastingHub, int]]:
    """Run a switch and let parties connect to it by lasting links.

    Args:
        identity: the aggregator.
        port: the port to listen at; 0 lets the system choose.
        tls: for TLS, a context of ``transports.tls.server_context``.
        trusted: addresses with connections that are never dropped in favour of strangers.
        commits: commits of the record: nothing is sent before the record is durable.
        grace: seconds that a party has to reconnect.

    Yields:
        The hub and its port.

    Raises:
        OSError: the address cannot be listened at.
    """
    hub = LastingHub(switch, identity, tls=tls, trusted=trusted, commits=commits, grace=grace)
    async with running(hub.watch), listen(hub, switch.run, host=host, port=port) as opened:
        yield opened
