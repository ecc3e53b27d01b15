"""Roles and their effects: a role sends messages and waits for some, and a machine runs it."""

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
"""The most messages of one kind and sender that are kept until a role awaits them."""

Topic = tuple[str, int]
"""A kind of message and a round, which a gather and its closing are about."""


def message_topic(message: Message) -> Topic:
    """The kind and the round of a message; ``NO_ROUND`` for a kind without rounds."""
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

    ``about`` is the subject of a message from outside the session (``Me.obtain``).
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
    """The messages that a member's role has received, by sender, kind and round."""

    __slots__ = ("_messages",)

    def __init__(self) -> None:
        self._messages: dict[tuple[PartyId, Topic], Message] = {}

    def add(self, sender: PartyId, message: Message) -> None:
        """Note a message; the first of each sender, kind and round is kept."""
        self._messages.setdefault((sender, message_topic(message)), message)

    def get(self, kind: type[M], sender: PartyId, *, round: int | None = None) -> M | None:
        """The first message of a kind and round from a sender, or None.

        Args:
            round: the round, for a kind with a field ``round``.

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
    """Length in bytes of a box with a message like this one."""
    return len(encode_message(message)) + BOX_BYTES


def _question_hash(question: Message) -> str:
    """The hash of a question, kept with it: one decoded question may be for many parties."""
    known: str | None = question.__dict__.get("asked")
    if known is None:
        asked = question.kind().encode() + b"\0" + encode_message(question)
        known = question.__dict__["asked"] = hashlib.sha256(asked).hexdigest()
    return known


class Boxes:
    """Sealing and opening of a member's boxes; each is sealed with a fresh key.

    Args:
        session: the session's id, which every box is bound to.
        roster: the part of the roster that the member knows.
        identity: the member's key, which opens boxes; None if it runs without one.
        stream: the member's randomness, which keys are drawn from; None to open only.

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
        """Seal a content in a box for one reader, which is ``BOX_BYTES`` longer.

        Raises:
            LocalProtocolError: the reader's key is not known here, or this member runs without one.
        """
        if self._identity is None or self._stream is None:
            raise LocalProtocolError("it seals: its member needs an identity key")
        if reader not in self._roster:
            raise LocalProtocolError(
                f"reader {reader!r}: expected a member whose key is on the roster known here"
            )
        from protocol.crypto.sealing import seal_alone  # Few surveys seal.

        # The key differs for every content, and each time that a content is sealed again.
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
    """A role's own side: its identity, its randomness, and the effects that it can await.

    Attributes:
        id: this member.
        roster: the members and their keys. A party knows itself and who serves, unless its variant
            has ``whole_roster``.
        session: the session's id.
        stream: this member's own randomness. Answers to a question are drawn from
            ``stream_for(question)``.
        withstand: the fewest colluders that a secure sum must withstand.
        signed: the statements that it has signed, each with the signature.
        honest: the fewest honest parties, itself included, that a secure sum must promise. It then
            consents to figures that rest on so many. 0 for neither.
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
        """Seal messages in boxes that only ``reader`` opens and that do not name their sender.

        They travel in a field of a sealed kind, for others to pass on. The field's ``ArraySpec``
        names the kind that it ``holds``, and the event of the sealed kind is ``Sealed(reader,
        ...)``.

        Returns:
            (k, b) ``u1``, a box of each message in order; b is ``sealed_bytes`` of each.

        Raises:
            LocalProtocolError: no messages, messages of different lengths in bytes, or as
                ``Boxes.seal``.
        """
        contents = [self._survey_codec.content(message) for message in messages]
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
        return open_boxes(self._boxes, self._survey_codec, kind, boxes)

    @property
    def _survey_codec(self) -> Codec:
        if self._codec is None:
            raise LocalProtocolError("it seals or opens boxes: it needs its survey's codec")
        return self._codec

    def afford(self, event: PrivacyEvent) -> None:
        """Check that a message to be sent later is within this party's budget.

        A message that costs too much is refused when it is sent. This refuses it before others rely
        on it.

        Raises:
            PrivacyError: it costs too much; the error says what is left.
        """
        self._afford(event)

    def notice(self, text: str) -> None:
        """Note something for this member alone. It may depend on the records and is never sent.

        The role must then go on as if it had noted nothing.
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

        The same question always gets the same randomness, so asking again reveals nothing new.
        Different questions get independent randomness.
        """
        return self.stream.derive(f"{purpose} {_question_hash(question)}")

    async def send(self, recipient: PartyId, message: Message) -> None:
        """Hand a message to one member."""
        await _perform(Send((recipient,), message))

    async def broadcast(self, recipients: Iterable[PartyId], message: Message) -> None:
        """Hand one message to several members; it is encoded once."""
        await _perform(Send(tuple(recipients), message))

    async def note(self, message: Message) -> None:
        """Send a message to the record alone."""
        await _perform(Send((RECORD,), message))

    async def disclose(
        self, kind: type[M], make: Callable[[], M], *, round: int | None = None
    ) -> M:
        """Send to the record a message made with this member's key or randomness, and return it.

        Only the aggregator does so. A replay that lacks the key or randomness takes the message
        from the record, so the role has to check as much of it as it can.

        Args:
            make: makes the message; it draws nothing and changes nothing.
            round: the round, for a kind that is disclosed more than once.
        """
        try:
            message = make()
        except WithheldError:
            message = await self._from_record(kind, round)
        await self.note(message)
        return message

    async def obtain(self, kind: type[M], about: bytes, *, round: int | None = None) -> M:
        """Obtain a message from outside the session, send it to the record, and return it.

        Only the aggregator does so, and the program that runs it makes the message
        (``Machine.asks``). A replay takes it from the record, so the role has to check as much of
        it as it can.

        Args:
            about: the subject of the message; not empty.
            round: the round, for a kind that is obtained more than once.

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

        It ends when all have answered or are known to be gone, or after ``within`` seconds. The
        members that were counted go on record.

        Args:
            round: the round, for a kind with a field ``round``: one that a sender sends repeatedly.

        Returns:
            The answers, in the order of ``senders``.

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

        A wait of the aggregator, or one with a time limit, goes on record like a ``gather``: an
        answer does not show by itself that it was in time.

        Raises:
            QuorumError: the sender is gone, or ``within`` seconds are over.
        """
        noted = within is not None or self.id == AGGREGATOR
        answers = await _perform(Gather(kind, (sender,), round, within, 1, noted))
        return cast(M, answers[sender])
