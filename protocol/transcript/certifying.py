"""Certified messages: the cosignatures of witnesses show that all members get the same one.

An inclusion proof in the log of the record would not show that, since one log can hold two messages
that contradict each other. So every certified message has a log of its own, with this one leaf. A
cosigner of a log cosigns one root per size, so an honest witness certifies one message and no other
in its place. The requests are those for any checkpoint (``protocol.transcript.witnessing``).
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from protocol.crypto.merkle import leaf_hash
from protocol.errors import ProtocolError, QuorumError, RemoteProtocolError
from protocol.messages import AGGREGATOR, Message, PartyId
from protocol.session.roles import Me
from protocol.session.roster import Identity, check_keys
from protocol.transcript.checkpoints import (
    MAX_SIGNATURES,
    SignedCheckpoint,
    read_note,
    sign_checkpoint,
)
from protocol.transcript.cosignatures import WitnessKey, cosigned, read_witness_key
from protocol.wire.arrays import encode_message

M = TypeVar("M", bound=Message)

MOST_CERTIFIED = 4
"""The most messages of a session that are certified: witnesses keep something of each."""

_LINE_BYTES = 1280
"""No line of a note is longer: a name of 255 characters may take four bytes for each."""


class Witnesses(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """Named witnesses, a number of which have to cosign a certified message.

    Args:
        keys: their verifier keys, ``NAME+ID+KEY``.
        needed: how many have to cosign, more than half of them; by default all.

    Raises:
        ValueError: no key, too many, two of one holder, a malformed one, or a number that two
            disjoint groups of them reach.
    """

    keys: tuple[str, ...]
    needed: Annotated[int, Meta(ge=1, lt=MAX_SIGNATURES)] | None = None

    def __post_init__(self) -> None:
        if not 0 < len(self.keys) < MAX_SIGNATURES:
            raise ValueError(
                f"{len(self.keys)} witnesses: expected 1 to {MAX_SIGNATURES - 1} verifier keys"
            )
        check_keys([(PartyId(witness.name), witness.key) for witness in self.read])
        if not len(self.keys) < 2 * self.quorum <= 2 * len(self.keys):
            raise ValueError(
                f"{self.quorum} of {len(self.keys)} witnesses: expected more than half of them, or "
                "two groups could certify two things"
            )

    @functools.cached_property
    def read(self) -> tuple[WitnessKey, ...]:
        """Their names and keys."""
        return tuple(map(read_witness_key, self.keys))

    @property
    def quorum(self) -> int:
        """The number of witnesses that have to cosign."""
        return len(self.keys) if self.needed is None else self.needed

    @property
    def honest(self) -> int:
        """The number of honest ones that it takes: any two groups that are enough share one."""
        return 2 * (len(self.keys) - self.quorum) + 1

    @property
    def note_bytes(self) -> int:
        """A bound on the bytes of a certificate."""
        return _LINE_BYTES * (len(self.keys) + 3)


class Certificate(Message, frozen=True):
    """A certificate of a message of the aggregator's: the checkpoint of a log with it alone.

    Args:
        round: which of the certified messages of the session it is for, from 0.
        note: the checkpoint, signed by the aggregator and by witnesses.
    """

    scalar_bytes = "certificate bytes"

    round: int
    note: str


def certified_log(session: bytes, number: int) -> bytes:
    """The session's stand-in in the origin of the log of a certified message, 32 bytes.

    Args:
        session: the session's id.
        number: which of its certified messages it is for, from 0.
    """
    return hashlib.sha256(b"sottovoce certified 1\0" + session + bytes([number])).digest()


def certified_leaf(message: Message) -> bytes:
    """The one leaf of the log of a certified message."""
    return message.kind().encode() + b"\0" + encode_message(message)


def to_cosign(
    signer: Identity, *, session: bytes, number: int, statement: bytes
) -> SignedCheckpoint:
    """The checkpoint that witnesses are to cosign, signed by the aggregator.

    Args:
        statement: the leaf.
    """
    log = certified_log(session, number)
    return sign_checkpoint(signer, session=log, size=1, root=leaf_hash(statement))


def certificate_fault(
    certificate: Certificate,
    message: Message,
    witnesses: Witnesses,
    *,
    session: bytes,
    key: bytes,
) -> str | None:
    """The reason why a certificate does not certify a message, in words; None if it does.

    Args:
        session: the session's id.
        key: the aggregator's public key.
    """
    try:
        signed = read_note(certificate.note)
        found = cosigned(certificate.note, witnesses.read, needed=witnesses.quorum)
    except ValueError as error:
        return f"a malformed certificate: {error}"
    if (signed.session, signed.key) != (certified_log(session, certificate.round), key):
        return "the certificate is of another log than that of this message"
    if (signed.size, signed.root) != (1, leaf_hash(certified_leaf(message))):
        return "the certificate is of another message"
    if not signed.valid:
        return "the certificate is not signed by the aggregator"
    if not found.enough:
        return (
            f"{found.holders} of {len(witnesses.keys)} witnesses have cosigned it, expected "
            f"{witnesses.quorum}"
        )
    return None


async def certify(
    me: Me,
    recipients: Sequence[PartyId],
    message: Message,
    witnesses: Witnesses | None,
    *,
    number: int,
) -> None:
    """The aggregator's side: have a message certified, then send the certificate and the message.

    Args:
        witnesses: the witnesses; without them the message is sent as it is.
        number: the number of the certified message in the session, below ``MOST_CERTIFIED``.

    Raises:
        ProtocolError: too few witnesses have cosigned it.
    """
    if witnesses is None:
        await me.broadcast(recipients, message)
        return
    try:
        found = await me.obtain(Certificate, certified_leaf(message), round=number)
    except QuorumError as error:
        raise ProtocolError(
            f"{message.kind()!r} was not certified: expected {witnesses.quorum} of "
            f"{len(witnesses.keys)} witnesses to cosign it; a run in one process asks none"
        ) from error
    # A replay takes it from the record.
    fault = _fault(me, found, message, witnesses)
    if fault is not None:
        raise ProtocolError(f"{message.kind()!r} was not certified: {fault}")
    await me.broadcast(recipients, found)
    await me.broadcast(recipients, message)


async def receive_certified(
    me: Me, kind: type[M], witnesses: Witnesses | None, *, number: int
) -> M:
    """A party's side: wait for a message of the aggregator and its certificate.

    Args:
        witnesses: the witnesses; without them no certificate is needed.
        number: the number of the certified message in the session.

    Raises:
        RemoteProtocolError: its certificate does not hold.
    """
    if witnesses is None:
        return await me.receive(kind, AGGREGATOR)
    found = await me.receive(Certificate, AGGREGATOR, round=number)
    message = await me.receive(kind, AGGREGATOR)
    fault = _fault(me, found, message, witnesses)
    if fault is not None:
        raise RemoteProtocolError(fault, field="Certificate.note")
    return message


def _fault(me: Me, found: Certificate, message: Message, witnesses: Witnesses) -> str | None:
    key = me.roster.key(AGGREGATOR)
    return certificate_fault(found, message, witnesses, session=me.session, key=key)
