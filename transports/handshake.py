"""HELLO and WELCOME: mutual authentication before any envelope.

1. The party: ``Hello`` with protocol version, survey, its id, a nonce, and over a lasting link the
   newest checkpoint that it holds.
2. The hub: ``Challenge`` with the attempt, its own nonce and the aggregator's signature over all.
3. The party: ``Proof``, its signature over the same, if it takes part in that attempt.
4. The hub: ``Welcome``, or at any point ``Refusal`` with the reason.

An attempt in one handshake proves nothing in another, as both nonces are fresh.

Both signatures are by the identity keys of the roster, over everything sent so far.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from protocol.errors import RemoteProtocolError
from protocol.messages import AGGREGATOR, SESSION_BYTES, PartyId
from protocol.session.roster import Identity, Roster
from protocol.session.terms import check_attempt
from protocol.transcript.checkpoints import SignedCheckpoint

VERSION = "sottovoce/1"
MAX_BYTES = 1024
"""The cap of a frame before a connection is welcome."""

NONCE_BYTES = 32

S = TypeVar("S", bound=msgspec.Struct)


class Hello(msgspec.Struct, frozen=True, array_like=True, tag=True, forbid_unknown_fields=True):
    """Request to be let in: party, survey (``Charter.survey_id``) and its newest checkpoint."""

    version: str
    survey: bytes
    party: PartyId
    nonce: bytes
    held: SignedCheckpoint | None = None


class Challenge(msgspec.Struct, frozen=True, array_like=True, tag=True, forbid_unknown_fields=True):
    """Attempt at the survey, the hub's nonce, and the aggregator's signature."""

    attempt: int
    nonce: bytes
    signature: bytes


class Proof(msgspec.Struct, frozen=True, array_like=True, tag=True, forbid_unknown_fields=True):
    """The party's signature over hello and challenge."""

    signature: bytes


class Welcome(msgspec.Struct, frozen=True, array_like=True, tag=True, forbid_unknown_fields=True):
    """Envelopes may follow."""

    party: PartyId


class Refusal(msgspec.Struct, frozen=True, array_like=True, tag=True, forbid_unknown_fields=True):
    """The connection ends here."""

    reason: str


encode = msgspec.msgpack.Encoder().encode


def decode(kind: type[S], payload: bytes) -> S:
    """Decode the step that is due.

    Raises:
        RemoteProtocolError: another message, a malformed one, or a refusal with its reason.
    """
    try:
        step: S = msgspec.msgpack.decode(payload, type=kind)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        try:
            refusal = msgspec.msgpack.decode(payload, type=Refusal)
        except (msgspec.DecodeError, ValueError, RecursionError):
            raise RemoteProtocolError(
                f"expected {kind.__name__}: {error}", field="hello"
            ) from error
        raise RemoteProtocolError(f"refused: {refusal.reason}") from error
    return step


def check_hello(hello: Hello, survey: bytes, version: str = VERSION) -> None:
    """Check a hello before the hub signs anything.

    Raises:
        RemoteProtocolError: the hello does not fit this survey.
    """
    if hello.version != version:
        raise RemoteProtocolError(f"{hello.version!r:.40}, expected {version!r}", field="version")
    if hello.survey != survey or len(hello.survey) != SESSION_BYTES:
        raise RemoteProtocolError("another survey", field="survey")
    if len(hello.nonce) != NONCE_BYTES:
        raise RemoteProtocolError(f"{len(hello.nonce)} B, expected {NONCE_BYTES}", field="nonce")


def challenge(identity: Identity, hello: Hello, attempt: int, nonce: bytes) -> Challenge:
    """The hub's answer to a hello."""
    said = statement(b"challenge", hello, attempt, nonce)
    return Challenge(attempt, nonce, identity.sign(said))


def check_challenge(roster: Roster, hello: Hello, challenged: Challenge) -> None:
    """Check a challenge before the party believes the attempt in it.

    Raises:
        RemoteProtocolError: not the aggregator's, or an impossible attempt.
    """
    attempt, nonce = challenged.attempt, challenged.nonce
    said = statement(b"challenge", hello, attempt, nonce)
    if len(nonce) != NONCE_BYTES or not roster.verify(AGGREGATOR, challenged.signature, said):
        raise RemoteProtocolError(
            "the challenge is not signed by the aggregator", field="challenge"
        )
    try:
        check_attempt(attempt)
    except ValueError as error:
        raise RemoteProtocolError(str(error), field="challenge") from error


def prove(identity: Identity, hello: Hello, challenged: Challenge) -> Proof:
    """The party's answer to a challenge that it has checked."""
    said = statement(b"proof", hello, challenged.attempt, challenged.nonce)
    return Proof(identity.sign(said))


def check_proof(roster: Roster, hello: Hello, attempt: int, nonce: bytes, proof: Proof) -> None:
    """The hub's last check.

    Raises:
        RemoteProtocolError: the proof is not the party's.
    """
    said = statement(b"proof", hello, attempt, nonce)
    if not roster.verify(hello.party, proof.signature, said):
        raise RemoteProtocolError(f"the proof is not signed by {hello.party!r}", field="proof")


def statement(purpose: bytes, hello: Hello, attempt: int, nonce: bytes) -> bytes:
    """Statement that one side vouches for: its purpose, and all that was sent so far."""
    return b"sottovoce " + purpose + b"\0" + encode((hello, attempt, nonce))
