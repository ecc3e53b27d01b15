"""HELLO and WELCOME: how two ends authenticate each other before any envelope passes.

1. The party: ``Hello`` with protocol version, session, its id and a nonce.
2. The hub: ``Challenge`` with its own nonce and the aggregator's signature over both.
3. The party: ``Proof``, its signature over both.
4. The hub: ``Welcome``, or at any point ``Refusal`` with the reason.

Both signatures are by the identity keys of the roster, over everything said so far.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from protocol.errors import RemoteProtocolError
from protocol.messages import AGGREGATOR, SESSION_BYTES, PartyId
from protocol.session.roster import Identity, Roster

VERSION = "sottovoce/1"
MAX_BYTES = 1024
"""The cap of a frame before a connection is welcome."""

NONCE_BYTES = 32

S = TypeVar("S", bound=msgspec.Struct)


class Hello(msgspec.Struct, frozen=True, array_like=True, tag=True, forbid_unknown_fields=True):
    """Who wants in, and to what."""

    version: str
    session: bytes
    party: PartyId
    nonce: bytes


class Challenge(msgspec.Struct, frozen=True, array_like=True, tag=True, forbid_unknown_fields=True):
    """The hub's nonce, and the aggregator's signature over hello and nonce."""

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
        RemoteProtocolError: it is another one, malformed, or a refusal (whose reason it gives).
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


def check_hello(hello: Hello, session: bytes, version: str = VERSION) -> None:
    """What the hub asks of a hello before it signs anything.

    Raises:
        RemoteProtocolError: says what does not fit.
    """
    if hello.version != version:
        raise RemoteProtocolError(f"{hello.version!r:.40}, expected {version!r}", field="version")
    if hello.session != session or len(hello.session) != SESSION_BYTES:
        raise RemoteProtocolError("another session", field="session")
    if len(hello.nonce) != NONCE_BYTES:
        raise RemoteProtocolError(f"{len(hello.nonce)} B, expected {NONCE_BYTES}", field="nonce")


def challenge(identity: Identity, hello: Hello, nonce: bytes) -> Challenge:
    """The hub's answer to a hello."""
    return Challenge(nonce, identity.sign(statement(b"challenge", hello, nonce)))


def prove(identity: Identity, roster: Roster, hello: Hello, challenged: Challenge) -> Proof:
    """The party's answer to a challenge.

    Raises:
        RemoteProtocolError: the challenge is not the aggregator's.
    """
    said = statement(b"challenge", hello, challenged.nonce)
    if len(challenged.nonce) != NONCE_BYTES or not roster.verify(
        AGGREGATOR, challenged.signature, said
    ):
        raise RemoteProtocolError(
            "the challenge is not signed by the aggregator", field="challenge"
        )
    return Proof(identity.sign(statement(b"proof", hello, challenged.nonce)))


def check_proof(roster: Roster, hello: Hello, nonce: bytes, proof: Proof) -> None:
    """The hub's last check.

    Raises:
        RemoteProtocolError: the proof is not the party's.
    """
    if not roster.verify(hello.party, proof.signature, statement(b"proof", hello, nonce)):
        raise RemoteProtocolError(f"the proof is not signed by {hello.party!r}", field="proof")


def statement(purpose: bytes, hello: Hello, nonce: bytes) -> bytes:
    """What one side vouches for: what it does, and all that was said so far."""
    return b"sottovoce " + purpose + b"\0" + encode((hello, nonce))
