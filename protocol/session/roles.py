"""Roles and what they may await. A role sends and waits; a machine runs it.

A role that awaits anything else is at fault.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Generator, Iterable, Sequence
from types import coroutine
from typing import Any, TypeVar, cast

import msgspec
import numpy as np

from protocol.accounting.events import PrivacyEvent
from protocol.crypto.randomness import Stream
from protocol.errors import LocalProtocolError, RemoteProtocolError, WithheldError
from protocol.messages import AGGREGATOR, BOX_BYTES, NO_ROUND, RECORD, Message, PartyId
from protocol.session.roster import Identity, Roster, agreement_key
from protocol.wire.arrays import Array, encode_message
from protocol.wire.codec import Codec

M = TypeVar("M", bound=Message)

EARLY_PER_SENDER = 64
"""How many messages of one kind of one sender may wait for a role that does not await them yet."""

Topic = tuple[str, int]
"""What a gather or its closing is about: a kind of message and a round."""


def message_topic(message: Message) -> Topic:
    """The kind and the round of a message; ``NO_ROUND`` of a kind that carries none."""
    return message.kind(), getattr(message, "round", NO_ROUND)


def check_round(kind: type[Message], round_: int | None) -> None:
    """Refuse a missing round for a kind with a field ``round``, and a round for any other.

    Raises:
        LocalProtocolError: the round is missing, or the kind has none.
    """
    if ("round" in kind.__struct_fields__) != (round_ is not None):
        raise LocalProtocolError(
            f"{kind.kind()!r}: give a round if, and only if, the kind has a field 'round'"
        )


class Send(msgspec.Struct, frozen=True):
    """Effect: hand one message to these recipients."""

    recipients: tuple[PartyId, ...]
    message: Message


class Gather(msgspec.Struct, frozen=True):
    """Effect: wait for one message of a kind from each of these senders.

    ``about`` is what a message from outside the session is to be about (``Me.obtain``).
    """

    kind: type[Message]
    senders: tuple[PartyId, ...]
    round: int | None
    within: float | None
    at_least: int
    noted: bool
    about: bytes = b""

    @property
    def topic(self) -> Topic:
        """Topic that it waits for."""
        return self.kind.kind(), NO_ROUND if self.round is None else self.round


Effect = Send | Gather


@coroutine
def _perform(effect: Effect) -> Generator[Effect, Any, Any]:
    return (yield effect)


class Seen:
    """The messages that a member's role has taken, by sender, kind and round."""

    __slots__ = ("_messages",)

    def __init__(self) -> None:
        self._messages: dict[tuple[PartyId, Topic], Message] = {}

    def add(self, sender: PartyId, message: Message) -> None:
        """Note what another member said; of one sender, kind and round the first is kept."""
        self._messages.setdefault((sender, message_topic(message)), message)

    def get(self, kind: type[M], sender: PartyId, *, round: int | None = None) -> M | None:
        """The message of a kind and round that a sender said first, or None.

        Args:
            round: of a kind that has a field ``round``; of no other.

        Raises:
            LocalProtocolError: a round is missing, or given for a kind that has none.
        """
        check_round(kind, round)
        message = self._messages.get((sender, (kind.kind(), NO_ROUND if round is None else round)))
        return message if type(message) is kind else None


def open_boxes(own: Boxes, codec: Codec, kind: type[M], boxes: Array) -> list[M | None]:
    """The messages in boxes for a member, as ``Me.open``."""
    found: list[M | None] = []
    for box in boxes:
        try:
            content = own.open(box.tobytes(), kind.kind().encode())
            found.append(cast(M, codec.read(kind.kind(), content)))
        except RemoteProtocolError:
            found.append(None)
    return found


def sealed_bytes(message: Message) -> int:
    """Length in bytes of a box with a message like this one: the length of its row."""
    return len(encode_message(message)) + BOX_BYTES


def _asked(question: Message) -> str:
    """The hash of a question: whoever decodes it once for many parties hashes it once."""
    known: str | None = question.__dict__.get("asked")
    if known is None:
        asked = question.kind().encode() + b"\0" + encode_message(question)
        known = question.__dict__["asked"] = hashlib.sha256(asked).hexdigest()
    return known


class Boxes:
    """Boxes that a member seals for others, each with a fresh key, and those of others that it
    opens.

    Args:
        session: the session's id, which every box is bound to.
        roster: what the member knows of it.
        identity: the member's key, which opens; None if it runs without.
        stream: the member's randomness, which keys are drawn from; who only opens has none.

    Attributes:
        sealed: the public keys of the boxes so far.
    """

    __slots__ = ("_identity", "_roster", "_session", "_stream", "sealed")

    def __init__(
        self, session: bytes, roster: Roster, identity: Identity | None, stream: Stream | None
    ) -> None:
        self._session = session
        self._roster = roster
        self._identity = identity
        self._stream = stream
        self.sealed: list[bytes] = []

    def seal(self, reader: PartyId, content: bytes, bound: bytes) -> bytes:
        """A box of ``BOX_BYTES`` more than its content.

        Raises:
            LocalProtocolError: the reader's key is not known here, or this member runs without its
                own.
        """
        if self._identity is None or self._stream is None:
            raise LocalProtocolError("it seals: its member needs an identity key")
        if reader not in self._roster:
            raise LocalProtocolError(
                f"reader {reader!r}: expected a member whose key is on the roster known here"
            )
        from protocol.crypto.sealing import seal_alone  # Few surveys seal.

        # Of another content, and of the same content once more, the key is another.
        secret = self._stream.derive("keys of boxes").bytes(32)
        counted = len(self.sealed).to_bytes(8, "big")
        parts = (counted, reader.encode(), bound, content)
        framed = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
        key = self._identity.fresh_key(hmac.digest(secret, framed, "sha256"))
        self.sealed.append(key.public)
        public = agreement_key(self._roster.key(reader))
        return seal_alone(key, public, content, bound=self._session + bound)

    def open(self, box: bytes, bound: bytes) -> bytes:
        """The content of a box for this member.

        Raises:
            RemoteProtocolError: it does not open.
            WithheldError: the key is not at hand.
        """
        if self._identity is None:
            raise LocalProtocolError("it opens a box: its member needs an identity key")
        from protocol.crypto.sealing import open_alone

        return open_alone(self._identity.agreement, box, bound=self._session + bound)


class Me:
    """A role's own side: who it is, its keystream, and what it can do.

    Attributes:
        id: this member.
        roster: the members and their keys. A party's has itself and who serves, unless its variant
            says ``whole_roster``.
        session: the session's id.
        stream: this member's own randomness. What answers a question is drawn from
            ``stream_for(question)``.
        withstand: with how many colluders a secure sum has to protect it.
        signed: what it has signed by itself, and the signatures.
        honest: among how many honest parties, itself included, it is summed at least; beside that
            it consents to figures that hold among so many. 0 if it does neither.
    """

    __slots__ = (
        "_afford",
        "_boxes",
        "_codec",
        "_identity",
        "_notice",
        "honest",
        "id",
        "roster",
        "session",
        "signed",
        "stream",
        "withstand",
    )

    def __init__(
        self,
        name: PartyId,
        roster: Roster,
        stream: Stream,
        *,
        session: bytes,
        identity: Identity | None = None,
        boxes: Boxes | None = None,
        codec: Codec | None = None,
        afford: Callable[[PrivacyEvent], object] = lambda event: None,
        notice: Callable[[str], object] = lambda text: None,
        withstand: int = 0,
        honest: int = 0,
    ) -> None:
        self.id = name
        self.roster = roster
        self.session = session
        self.stream = stream
        self.withstand = withstand
        self.honest = honest
        self.signed: tuple[tuple[bytes, bytes], ...] = ()
        self._identity = identity
        self._boxes = boxes or Boxes(session, roster, identity, stream)
        self._codec = codec
        self._afford = afford
        self._notice = notice

    def sign(self, content: bytes) -> bytes:
        """This member's Ed25519 signature, 64 bytes.

        Raises:
            LocalProtocolError: this member runs without its identity key.
        """
        signature = self._own_identity().sign(content)
        self.signed += ((content, signature),)
        return signature

    def agree(self, key: bytes) -> bytes:
        """Agree by X25519 with the holder of an identity key on 32 secret bytes.

        Raises:
            LocalProtocolError: this member runs without its identity key.
            ValueError: the other key is of low order.
        """
        return self._own_identity().agree(key)

    def seal(self, reader: PartyId, messages: Sequence[Message]) -> Array:
        """Boxes that only ``reader`` opens and that do not say whose they are, to be passed on.

        They travel in a field of a sealed kind, whose ``ArraySpec`` says what it ``holds``; the
        event of that kind says ``Sealed(reader, ...)``.

        Returns:
            (k, b) ``u1``, a box of each message in order; b is ``sealed_bytes`` of each.

        Raises:
            LocalProtocolError: the messages take different numbers of bytes, there are none, or as
                ``Boxes.seal``.
        """
        contents = [self._spoken.content(message) for message in messages]
        if len({len(content) for content in contents}) != 1:
            raise LocalProtocolError("messages in boxes: expected some, all of one length")
        boxes = [
            self._boxes.seal(reader, content, message.kind().encode())
            for message, content in zip(messages, contents, strict=True)
        ]
        return np.frombuffer(b"".join(boxes), np.uint8).reshape(len(boxes), -1)

    def open(self, kind: type[M], boxes: Array) -> list[M | None]:
        """The messages in boxes for this member; None where one does not open.

        Args:
            kind: of the messages.
            boxes: (k, b) ``u1``.
        """
        return open_boxes(self._boxes, self._spoken, kind, boxes)

    @property
    def _spoken(self) -> Codec:
        if self._codec is None:
            raise LocalProtocolError("it seals or opens boxes: it needs its survey's codec")
        return self._codec

    def afford(self, event: PrivacyEvent) -> None:
        """Make sure that what is to be told later is within this party's budget.

        A message that costs too much is refused anyway when it is sent; this refuses before others
        rely on it.

        Raises:
            PrivacyError: it says what is left.
        """
        self._afford(event)

    def notice(self, text: str) -> None:
        """Note something for this member alone: it may depend on the records, and is never sent.

        A role goes on after it as if it had noted nothing.
        """
        self._notice(text)

    def _own_identity(self) -> Identity:
        if self._identity is None:
            raise LocalProtocolError(
                "this role signs or agrees on keys: its member needs an identity key", party=self.id
            )
        return self._identity

    def stream_for(self, question: Message, purpose: str = "answer") -> Stream:
        """The randomness to answer a question with; each call starts it anew.

        The same question gets the same randomness, however often it is asked, and another question
        gets independent randomness: what two answers have in common tells nothing.
        """
        return self.stream.derive(f"{purpose} {_asked(question)}")

    async def send(self, recipient: PartyId, message: Message) -> None:
        """Hand a message to one member."""
        await _perform(Send((recipient,), message))

    async def broadcast(self, recipients: Iterable[PartyId], message: Message) -> None:
        """Hand one message to several members; it is encoded once."""
        await _perform(Send(tuple(recipients), message))

    async def note(self, message: Message) -> None:
        """Say something for the record alone."""
        await _perform(Send((RECORD,), message))

    async def disclose(
        self, kind: type[M], make: Callable[[], M], *, round: int | None = None
    ) -> M:
        """Say for the record what follows from this member's key or randomness, and return it.

        It is the aggregator's to do. A replay without what ``make`` needs takes the message from
        the record, so the role has to check what it can of it.

        Args:
            make: makes the message; it draws nothing and changes nothing.
            round: of a kind that is disclosed more than once.
        """
        try:
            message = make()
        except WithheldError:
            message = await self._from_record(kind, round)
        await self.note(message)
        return message

    async def obtain(self, kind: type[M], about: bytes, *, round: int | None = None) -> M:
        """Have a message made outside the session, say it for the record, and return it.

        It is the aggregator's to do, and whoever runs it makes the message (``Machine.asks``). A
        replay takes it from the record, so the role has to check what it can of it.

        Args:
            about: what it is to be about; not empty.
            round: of a kind that is obtained more than once.

        Raises:
            QuorumError: nobody made it.
        """
        message = await self._from_record(kind, round, about)
        await self.note(message)
        return message

    async def _from_record(self, kind: type[M], round: int | None, about: bytes = b"") -> M:
        answers = await _perform(Gather(kind, (RECORD,), round, None, 1, False, about))
        return cast(M, answers[RECORD])

    async def gather(
        self,
        kind: type[M],
        senders: Sequence[PartyId],
        *,
        round: int | None = None,
        within: float | None = None,
        at_least: int = 0,
    ) -> dict[PartyId, M]:
        """Wait for one message of ``kind`` from each of ``senders``.

        Returns when all have answered or are known to be gone, or when ``within`` seconds are
        over: whoever answered, in the order of ``senders``. Who was counted goes on record. A kind
        that comes from one sender more than once carries a field ``round``, and ``round`` says
        which is meant.

        Raises:
            QuorumError: fewer than ``at_least`` answered; it says who is missing.
        """
        effect = Gather(kind, tuple(senders), round, within, at_least, True)
        return cast("dict[PartyId, M]", await _perform(effect))

    async def receive(
        self,
        kind: type[M],
        sender: PartyId,
        *,
        round: int | None = None,
        within: float | None = None,
    ) -> M:
        """Wait for one message of ``kind`` from ``sender``.

        A wait of the aggregator, or one that may run out, goes on record like a ``gather``: whether
        an answer was in time does not show in the answer.

        Raises:
            QuorumError: the sender is gone, or ``within`` seconds are over.
        """
        noted = within is not None or self.id == AGGREGATOR
        answers = await _perform(Gather(kind, (sender,), round, within, 1, noted))
        return cast(M, answers[sender])
