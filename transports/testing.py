"""Checks a transport against the contract of ``transports.base``, for authors of transports.

Members of a session without roles exchange parcels.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress

import msgspec
import trio
import trio.testing

from protocol.accounting.events import PrivacyEvent, Public
from protocol.messages import AGGREGATOR, SESSION_BYTES, SWITCH, Envelope, Message, PartyId
from protocol.session.charter import Charter
from protocol.session.exchange import Exchange
from protocol.session.roles import Seen
from protocol.session.roster import Identity, Roster
from protocol.session.variant import Variant
from protocol.surveys.survey import Attribute, Survey
from protocol.transcript.entries import Departed, Entry, Refused
from protocol.transcript.header import make_header
from protocol.transcript.log import LOG_SECRET_BYTES
from protocol.transcript.reader import TranscriptReader
from protocol.transcript.recorder import Recorder
from protocol.transcript.verification import verify
from protocol.wire.codec import Kind
from transports.base import Hub, Limits, Link
from transports.switch import Switch

__all__ = ["Post", "check_transport", "identify", "make_charter"]

MEMBERS = 50
"""The number of members on the roster of a check."""

LARGE = 4 * 1024 * 1024
"""The largest parcel, in bytes."""

HANGS = 300.0
"""Seconds after which a check is taken to hang, on a machine with much else to do."""

_ENDS = (trio.EndOfChannel, trio.BrokenResourceError)

OpenHub = Callable[[Switch], AbstractAsyncContextManager[Hub]]
"""Opens a hub around a switch and runs the switch while the block runs."""


class Parcel(Message, frozen=True):
    """A numbered parcel."""

    number: int
    content: bytes


class Postal(Variant, frozen=True):
    """A variant without roles: its only kind is the parcel."""

    name = "postal"

    def kinds(self, parties: int) -> tuple[Kind, ...]:
        return (Kind(Parcel, scalar_bytes=LARGE + 64),)

    def reveals(self, message: Message, seen: Seen) -> PrivacyEvent:
        return Public()


def identify(member: PartyId) -> Identity:
    """The identity key of a member of a check; the keys of TLS certificates should be these."""
    return Identity(member, hashlib.sha256(b"sottovoce check " + member.encode()).digest())


def make_charter(parties: int = MEMBERS - 1) -> Charter:
    """The charter of a check: an aggregator and ``party-1``, ``party-2`` ..."""
    names = [AGGREGATOR, *(PartyId(f"party-{i}") for i in range(1, parties + 1))]
    survey = Survey("check", (Attribute(name="answer", categories=("no", "yes")),))
    return Charter(
        variant=Postal(survey=survey),
        roster=Roster(tuple((name, identify(name).public) for name in names)),
    )


class Post:
    """One session of a check."""

    def __init__(self, limits: Limits | None) -> None:
        self.charter = make_charter()
        self.parties = self.charter.roster.parties
        self._content: list[bytes] = []
        self._recorder = Recorder(
            self._content.append,
            make_header(self.charter, transport="check"),
            secret=bytes(LOG_SECRET_BYTES),
        )
        self.switch = Switch(Exchange(self.charter, recorder=self._recorder), limits)
        self._sent: dict[PartyId, int] = defaultdict(int)

    def parcels(
        self, sender: PartyId, recipient: PartyId, numbers: Iterable[int], content: bytes = b""
    ) -> list[Envelope]:
        """The next envelopes of a sender."""
        made = []
        for number in numbers:
            body = self.charter.codec.encode(Parcel(number, content))
            seq = self._sent[sender]
            self._sent[sender] += 1
            made.append(Envelope(self.charter.session, sender, recipient, seq, "Parcel", body))
        return made

    def number(self, envelope: Envelope) -> int:
        """The number of a parcel."""
        _require(envelope.kind == "Parcel", f"a {envelope.kind!r} arrived instead of a parcel")
        return msgspec.msgpack.decode(envelope.body, type=Parcel).number

    def entries(self) -> list[Entry]:
        """Entries that were recorded, once the session is over."""
        self._recorder.close()
        verification = verify(self._content)
        _require(verification.intact, f"the record is not intact: {verification.faults[:3]}")
        return list(TranscriptReader(self._content))


@asynccontextmanager
async def _session(
    open_hub: OpenHub, *members: PartyId, limits: Limits | None = None
) -> AsyncGenerator[tuple[Post, list[Link]]]:
    """A session with some members connected."""
    post = Post(limits or _patient())
    async with open_hub(post.switch) as hub, AsyncExitStack() as stack:
        yield post, [await stack.enter_async_context(hub.connect(name)) for name in members]


def _require(holds: bool, sentence: str) -> None:
    if not holds:
        raise AssertionError(sentence)


class _Pusher:
    """Sends parcels one by one and counts them."""

    def __init__(self, link: Link, parcels: Sequence[Envelope]) -> None:
        self.sent = 0
        self._link = link
        self._parcels = parcels

    async def push(self) -> None:
        for parcel in self._parcels:
            await self._link.send(parcel)
            self.sent += 1

    async def until_it_waits(self) -> None:
        """Return once nothing has moved for a while."""
        seen = -1
        while seen != self.sent:
            seen = self.sent
            await trio.testing.wait_all_tasks_blocked(0.05)


async def check_transport(open_hub: OpenHub, *, lasting: bool = False) -> None:
    """Check a transport against the contract. It takes some seconds.

    Args:
        open_hub: given a switch, opens a hub whose ``connect`` gives any member of the switch's
            charter its link; for transports that authenticate, ``identify`` has the keys. The
            block around the hub runs the switch. It is called once per check.
        lasting: whether a member's second connection takes the place of its first.

    Raises:
        AssertionError: the first rule that is broken, in a sentence.
    """
    for check in (
        _check_order,
        _check_many,
        _check_early,
        _check_large,
        _check_closing,
        _check_closing_with_mail,
        _check_closed_while_used,
        _check_cancelled_receives,
        _check_backpressure,
        _check_stall,
        _check_cut,
        _check_refusals,
        _check_taking_over if lasting else _check_connecting,
        _check_leaving,
    ):
        with trio.move_on_after(HANGS) as scope:
            await check(open_hub)
        _require(
            not scope.cancelled_caught,
            f"{check.__name__.lstrip('_')}: no end after {HANGS:g} seconds",
        )


def _patient(**changed: float) -> Limits:
    """Limits under which no link ends because the machine is slow."""
    slow = {"handshake": HANGS, "frame": HANGS, "stall": HANGS}
    return msgspec.structs.replace(Limits(), **{**slow, **changed})


async def _receive(link: Link, count: int) -> list[Envelope]:
    """Receive ``count`` envelopes, using every method of a link."""
    received: list[Envelope] = []
    while len(received) < count:
        received.append(await link.receive())
        received += link.receive_nowait()
        if len(received) < count:
            received += await link.receive_many()
    return received


async def _send(link: Link, envelopes: Sequence[Envelope]) -> None:
    """Send envelopes, using every method of a link."""
    for i in range(0, len(envelopes), 10):
        batch = envelopes[i : i + 10]
        await link.send(batch[0])
        rest = batch[1:]
        await link.send_many(rest[link.send_nowait(rest) :])


async def _read_to_end(link: Link) -> None:
    """Read until the link ends."""
    with suppress(*_ENDS):
        while True:
            await link.receive_many()


_A, _B, _C = PartyId("party-1"), PartyId("party-2"), PartyId("party-3")


async def _check_order(open_hub: OpenHub) -> None:
    count = 1000
    async with _session(open_hub, _A, _B, limits=_patient(mailbox=8)) as (post, (a, b)):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_send, a, post.parcels(_A, _B, range(count)))
            received = await _receive(b, count)
        received += b.receive_nowait()
        numbers = [post.number(envelope) for envelope in received]
        _require(len(set(numbers)) == len(numbers), "an envelope arrived twice")
        _require(set(numbers) == set(range(count)), "an envelope was lost")
        _require(numbers == list(range(count)), "envelopes of one sender arrived out of order")


async def _check_many(open_hub: OpenHub) -> None:
    each = 10
    post = Post(_patient(mailbox=8))
    members = (AGGREGATOR, *post.parties)
    inbox: dict[PartyId, list[Envelope]] = {}
    got_all = dict.fromkeys(members, 2 * each)
    got_all[AGGREGATOR] = each * len(post.parties)
    got_all[post.parties[0]] = each
    ready = trio.Event()
    connected = 0

    async with open_hub(post.switch) as hub:

        async def live(me: PartyId) -> None:
            nonlocal connected
            async with hub.connect(me) as link, trio.open_nursery() as nursery:
                connected += 1
                if connected == len(members):
                    ready.set()
                await ready.wait()
                nursery.start_soon(speak, me, link)
                inbox[me] = await _receive(link, got_all[me])
                if len(inbox) == len(members):
                    heard.set()
                # Nobody leaves early, or notices would come between the parcels.
                await heard.wait()

        async def speak(me: PartyId, link: Link) -> None:
            if me == AGGREGATOR:
                for i in range(each):
                    for party in post.parties:
                        await link.send(*post.parcels(me, party, [i]))
                return
            place = post.parties.index(me)
            for i in range(each):
                await link.send(*post.parcels(me, AGGREGATOR, [i]))
                if place + 1 < len(post.parties):
                    await link.send(*post.parcels(me, post.parties[place + 1], [i]))

        heard = trio.Event()
        async with trio.open_nursery() as nursery:
            for name in members:
                nursery.start_soon(live, name)
    for name, envelopes in inbox.items():
        by_sender: dict[PartyId, list[int]] = defaultdict(list)
        for envelope in envelopes:
            if envelope.sender != SWITCH:
                by_sender[envelope.sender].append(post.number(envelope))
        _require(
            all(numbers == list(range(each)) for numbers in by_sender.values())
            and sum(map(len, by_sender.values())) == got_all[name],
            f"with {len(members)} members, {name!r} did not get everything once and in order",
        )
    post.entries()


async def _check_early(open_hub: OpenHub) -> None:
    post = Post(_patient(mailbox=4))
    parcels = post.parcels(_A, _B, range(10))
    async with (
        open_hub(post.switch) as hub,
        hub.connect(_A) as a,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(a.send_many, parcels)
        await trio.testing.wait_all_tasks_blocked(0.05)
        async with hub.connect(_B) as b:
            received = await _receive(b, len(parcels))
    _require(received == parcels, "what was sent to a member before it connected was lost")


async def _check_large(open_hub: OpenHub) -> None:
    content = hashlib.shake_128(b"large").digest(LARGE)
    async with _session(open_hub, AGGREGATOR, _A) as (post, (hub, a)):
        for sender, recipient, out, into in ((_A, AGGREGATOR, a, hub), (AGGREGATOR, _A, hub, a)):
            [parcel] = post.parcels(sender, recipient, [0], content)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(out.send, parcel)
                received = await into.receive()
            _require(received == parcel, f"a parcel of {LARGE} bytes did not arrive as it was sent")


async def _check_closing(open_hub: OpenHub) -> None:
    count = 20
    async with _session(open_hub, _A, _B) as (post, (a, b)):
        async with trio.open_nursery() as nursery:

            async def send_and_close() -> None:
                await a.send_many(post.parcels(_A, _B, range(count)))
                await a.aclose()

            nursery.start_soon(send_and_close)
            received = await _receive(b, count + 1)
        senders = [envelope.sender for envelope in received]
        _require(
            senders[:count] == [_A] * count, "what was sent before a link was closed did not arrive"
        )
        _require(
            senders[count:] == [SWITCH], "who had heard from a member was not told that it left"
        )
        parcels = post.parcels(_A, _B, [0])
        uses: dict[str, Callable[[], object]] = {
            "send": lambda: a.send(parcels[0]),
            "send_many": lambda: a.send_many(parcels),
            "send_nowait": lambda: a.send_nowait(parcels),
            "receive": a.receive,
            "receive_many": a.receive_many,
            "receive_nowait": a.receive_nowait,
        }
        for name, use in uses.items():
            try:
                under_way = use()
                if isinstance(under_way, Awaitable):
                    await under_way
            except trio.ClosedResourceError:
                continue
            raise AssertionError(f"{name} on a link that was closed: no ClosedResourceError")
        await a.aclose()
    departures = [entry.party for entry in post.entries() if isinstance(entry, Departed)]
    _require(departures.count(_A) == 1, "a departure was not recorded once")


async def _check_closing_with_mail(open_hub: OpenHub) -> None:
    limits = _patient(mailbox=4)
    async with (
        _session(open_hub, _A, _B, limits=limits) as (post, (a, b)),
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(b.send_many, post.parcels(_B, _A, range(400), _BULK))
        parcels = post.parcels(_A, _B, range(100), _BULK)

        async def send_and_close() -> None:
            await a.send_many(parcels)
            await a.aclose()

        nursery.start_soon(send_and_close)
        await trio.testing.wait_all_tasks_blocked(0.05)
        received = [await b.receive() for _ in parcels]
        _require(received == parcels, "who closes with unread mail loses what it had sent before")


async def _check_closed_while_used(open_hub: OpenHub) -> None:
    outcome: list[str] = []
    async with _session(open_hub, _A) as (_, (a,)), trio.open_nursery() as nursery:

        async def wait() -> None:
            try:
                await a.receive()
            except trio.ClosedResourceError:
                outcome.append("closed")
            except _ENDS as error:
                outcome.append(type(error).__name__)

        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        await a.aclose()
    _require(
        outcome == ["closed"],
        f"a receive that waits while its link is closed: {outcome}, not ClosedResourceError",
    )


async def _check_cancelled_receives(open_hub: OpenHub) -> None:
    count = 1500
    received: list[Envelope] = []
    async with _session(open_hub, _A, _B, limits=_patient(mailbox=8)) as (post, (a, b)):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_send, a, post.parcels(_A, _B, range(count)))
            turn = 0
            while len(received) < count:
                turn += 1
                async with trio.open_nursery() as attempt:
                    attempt.start_soon(_cancel_soon, attempt.cancel_scope, turn % 5)
                    if turn % 2:
                        received.append(await b.receive())
                    else:
                        received += await b.receive_many()
                    attempt.cancel_scope.cancel()
        numbers = [post.number(envelope) for envelope in received]
        _require(numbers == list(range(count)), "cancelled receives lost or repeated envelopes")


async def _cancel_soon(scope: trio.CancelScope, turns: int) -> None:
    for _ in range(turns):
        await trio.lowlevel.checkpoint()
    scope.cancel()


_BULK, _BULKS = bytes(65536), 600


async def _check_backpressure(open_hub: OpenHub) -> None:
    limits = _patient(mailbox=4, stall=float("inf"))
    async with _session(open_hub, _A, _B, limits=limits) as (post, (a, b)):
        pusher = _Pusher(a, post.parcels(_A, _B, range(_BULKS), _BULK))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pusher.push)
            await pusher.until_it_waits()
            _require(
                pusher.sent < _BULKS,
                f"{pusher.sent * len(_BULK)} bytes were sent to a member that does not read, and "
                "the sender never had to wait",
            )
            received = await _receive(b, _BULKS)
        numbers = [post.number(envelope) for envelope in received]
        _require(numbers == list(range(_BULKS)), "envelopes that had to wait were lost or mixed up")


async def _check_stall(open_hub: OpenHub) -> None:
    limits = _patient(mailbox=4, stall=0.2)
    async with _session(open_hub, _A, _B, limits=limits) as (post, (a, b)):
        # It ends only if the member that does not read is cut off.
        await _Pusher(a, post.parcels(_A, _B, range(_BULKS), _BULK)).push()
        await _read_to_end(b)
        notices = [e for e in a.receive_nowait() or await a.receive_many() if e.sender == SWITCH]
        _require(len(notices) == 1, f"{len(notices)} notices that a member was cut off, not one")


async def _check_cut(open_hub: OpenHub) -> None:
    async with _session(open_hub, _A, _B) as (post, (a, b)):
        await a.send_many(post.parcels(_A, _B, [0]))
        await b.receive()
        post.switch.detach(_A, "cut off by the check")
        await _read_to_end(a)
        notice = await b.receive()
        _require(notice.sender == SWITCH, "nobody was told that a member was cut off")
        try:
            await _Pusher(a, post.parcels(_A, _B, range(_BULKS), _BULK)).push()
        except trio.BrokenResourceError:
            return
        raise AssertionError("a member that was cut off can send on: no BrokenResourceError")


async def _check_refusals(open_hub: OpenHub) -> None:
    too_large = make_charter().codec.max_body + 1
    forgeries: dict[str, Callable[[Envelope], Envelope]] = {
        "another's name": lambda e: msgspec.structs.replace(e, sender=_C),
        "a number too high": lambda e: msgspec.structs.replace(e, seq=e.seq + 1),
        "a number again": lambda e: msgspec.structs.replace(e, seq=e.seq - 1),
        "another session": lambda e: msgspec.structs.replace(e, session=bytes(SESSION_BYTES)),
        "an unknown recipient": lambda e: msgspec.structs.replace(e, recipient=PartyId("nobody")),
        "itself as recipient": lambda e: msgspec.structs.replace(e, recipient=_A),
        "an unknown kind": lambda e: msgspec.structs.replace(e, kind="Bomb"),
        "too many bytes": lambda e: msgspec.structs.replace(e, body=bytes(too_large)),
    }
    for what, forge in forgeries.items():
        async with _session(open_hub, _A, _B, _C) as (post, (a, b, c)):
            first, second = post.parcels(_A, _B, [0, 1])
            await a.send(first)
            forged = forge(second)
            # Some transports refuse at once; over others the sender learns it when it reads.
            with suppress(trio.BrokenResourceError):
                await a.send(forged)
            await _read_to_end(a)
            received = [(await b.receive()).sender, (await b.receive()).sender]
            _require(received == [_A, SWITCH], f"{what}: was delivered, or the link did not end")
            _require(not c.receive_nowait(), f"{what}: reached somebody else")
        refused = [entry for entry in post.entries() if isinstance(entry, Refused)]
        _require(
            [(entry.link, entry.excerpt) for entry in refused] == [(_A, b"")],
            f"{what}: was not recorded as refused, once and without its content",
        )


async def _check_connecting(open_hub: OpenHub) -> None:
    post = Post(None)
    async with open_hub(post.switch) as hub, hub.connect(_A):
        await _check_refused(hub, "a second connection of a member")


async def _check_taking_over(open_hub: OpenHub) -> None:
    post = Post(None)
    parcels = post.parcels(_B, _A, range(2))
    async with open_hub(post.switch) as hub, hub.connect(_B) as b, hub.connect(_A) as old:
        await b.send(parcels[0])
        await old.receive()
        async with hub.connect(_A) as new:
            await _read_to_end(old)
            await b.send(parcels[1])
            received = await _receive(new, 2)
    _require(received == parcels, "a member's second connection did not get all that was sent")


async def _check_leaving(open_hub: OpenHub) -> None:
    async with open_hub(Post(None).switch) as hub:
        async with hub.connect(_A):
            pass
        await _check_refused(hub, "a connection of a member that has left")


async def _check_refused(hub: Hub, what: str) -> None:
    try:
        async with hub.connect(_A):
            pass
    except ConnectionError as error:
        _require(bool(str(error)) and "\n" not in str(error), f"{what}: refused without a reason")
        return
    raise AssertionError(f"{what}: was not refused with a ConnectionError")
