"""Sessions in which members exchange parcels, to check transports with."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import trio
import trio.testing

from protocol.accounting.events import PrivacyEvent, Public
from protocol.messages import AGGREGATOR, SESSION_BYTES, Envelope, Message, PartyId
from protocol.session.charter import Charter
from protocol.session.exchange import Exchange
from protocol.session.roles import Seen
from protocol.session.roster import Identity, Roster
from protocol.session.variant import Variant
from protocol.surveys.survey import Attribute, Survey
from protocol.transcript.entries import Entry
from protocol.transcript.header import header_of
from protocol.transcript.reader import TranscriptReader
from protocol.transcript.recorder import Recorder
from protocol.transcript.verification import verify
from protocol.wire.codec import Kind
from transports.base import Hub, Limits, Link
from transports.switch import Switch

MEMBERS = 50
"""The number of members on the roster of a check."""

LARGE = 4 * 1024 * 1024
"""The largest parcel, in bytes."""

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


def identity_of(member: PartyId) -> Identity:
    """The identity key of a member of a check; the keys of TLS certificates should be these."""
    return Identity(member, hashlib.sha256(b"sottovoce check " + member.encode()).digest())


def charter_of(parties: int = MEMBERS - 1) -> Charter:
    """The charter of a check: an aggregator and ``party-1``, ``party-2`` ..."""
    names = [AGGREGATOR, *(PartyId(f"party-{i}") for i in range(1, parties + 1))]
    survey = Survey("check", (Attribute(name="answer", categories=("no", "yes")),))
    return Charter(
        session=bytes(range(SESSION_BYTES)),
        variant=Postal(survey=survey),
        roster=Roster(tuple((name, identity_of(name).public) for name in names)),
    )


class Post:
    """One session of a check."""

    def __init__(self, limits: Limits | None) -> None:
        self.charter = charter_of()
        self.parties = self.charter.roster.parties
        self._content: list[bytes] = []
        self._recorder = Recorder(self._content.append, header_of(self.charter, transport="check"))
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
        parcel = self.charter.codec.decode(envelope.kind, envelope.body)
        require(isinstance(parcel, Parcel), f"a {envelope.kind!r} arrived instead of a parcel")
        return parcel.number if isinstance(parcel, Parcel) else -1

    def entries(self) -> list[Entry]:
        """What was recorded, once the session is over."""
        self._recorder.close()
        verification = verify(self._content)
        require(verification.intact, f"the record is not intact: {verification.faults[:3]}")
        return list(TranscriptReader(self._content))


@asynccontextmanager
async def session(
    open_hub: OpenHub, *members: PartyId, limits: Limits | None = None
) -> AsyncGenerator[tuple[Post, list[Link]]]:
    """A session with some members connected."""
    post = Post(limits)
    async with open_hub(post.switch) as hub, _connected(hub, members) as links:
        yield post, links


@asynccontextmanager
async def _connected(hub: Hub, members: Sequence[PartyId]) -> AsyncGenerator[list[Link]]:
    if not members:
        yield []
        return
    async with hub.connect(members[0]) as link, _connected(hub, members[1:]) as links:
        yield [link, *links]


def require(holds: bool, sentence: str) -> None:
    if not holds:
        raise AssertionError(sentence)


class Pusher:
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
        """Return when nothing has moved for a while."""
        seen = -1
        while seen != self.sent:
            seen = self.sent
            await trio.testing.wait_all_tasks_blocked(0.05)
