"""Agreement of the two ends of a shard's connection: members, the handshake, the frames.

The handshake is that of ``transports.handshake``, with the shard's key in place of identity keys: a
worker proves that it was given the shard, and the hub that it gave it.

After it, a frame is a member's place on the roster, in 4 bytes, and

- an envelope to or from that member, or
- a number in 4 bytes: there is room for so many more envelopes of that member, or
- nothing: that member's link has ended.

The aggregator is in no shard: its place without content means that all links at this end are over.
"""

from __future__ import annotations

import hashlib
import hmac

import msgspec

from protocol.errors import RemoteProtocolError
from protocol.messages import PartyId
from transports.base import LOST_WITH
from transports.handshake import NONCE_BYTES, Challenge, Hello, Proof, statement

VERSION = "sottovoce shard/1"
SECRET_BYTES = 32
PLACE_BYTES = 4
COUNT_BYTES = 4
ALL = bytes(PLACE_BYTES)
"""The frame that ends all links at one end."""


class Shard(msgspec.Struct, frozen=True):
    """Neighbours on the roster that live in one worker.

    Args:
        number: the worker's number, from 1.
        first, last: the places of its parties on the roster, both included; the aggregator has 0.
        key: a secret of this shard and this run, 32 bytes.
    """

    number: int
    first: int
    last: int
    key: bytes

    @property
    def name(self) -> PartyId:
        """Name of the worker, in its hello and its certificate."""
        return PartyId(f"worker-{self.number}")

    @property
    def lost(self) -> str:
        """Reason given for the loss of its parties if the worker is gone."""
        return f"{LOST_WITH}{self.number}"

    def __repr__(self) -> str:
        return f"Shard({self.number}, {self.first} to {self.last})"


class Admitted(msgspec.Struct, frozen=True, array_like=True, tag=True, forbid_unknown_fields=True):
    """The last step of the handshake, by the hub.

    ``room`` is how many envelopes of a member may be under way in either direction.
    """

    room: int


def challenge(key: bytes, hello: Hello, attempt: int, nonce: bytes) -> Challenge:
    """The hub's answer to a hello."""
    return Challenge(attempt, nonce, _seal(key, b"challenge", hello, attempt, nonce))


def prove(key: bytes, hello: Hello, challenged: Challenge) -> Proof:
    """The worker's answer to a challenge.

    Raises:
        RemoteProtocolError: the challenge is not of the hub that made the key.
    """
    attempt, nonce = challenged.attempt, challenged.nonce
    expected = _seal(key, b"challenge", hello, attempt, nonce)
    if len(challenged.nonce) != NONCE_BYTES or not hmac.compare_digest(
        challenged.signature, expected
    ):
        raise RemoteProtocolError("the challenge was made with another key", field="challenge")
    return Proof(_seal(key, b"proof", hello, attempt, nonce))


def check_proof(key: bytes, hello: Hello, attempt: int, nonce: bytes, proof: Proof) -> None:
    """The hub's last check.

    Raises:
        RemoteProtocolError: the proof was made with another key.
    """
    if not hmac.compare_digest(proof.signature, _seal(key, b"proof", hello, attempt, nonce)):
        raise RemoteProtocolError("the proof was made with another key", field="proof")


def read_place(payload: bytes) -> int:
    """The place that a frame is about.

    Raises:
        RemoteProtocolError: it has none.
    """
    if len(payload) < PLACE_BYTES:
        raise RemoteProtocolError(f"a frame of {len(payload)} B has no place", field="place")
    return int.from_bytes(payload[:PLACE_BYTES], "big")


def _seal(key: bytes, purpose: bytes, hello: Hello, attempt: int, nonce: bytes) -> bytes:
    return hmac.digest(key, statement(purpose, hello, attempt, nonce), hashlib.sha256)
