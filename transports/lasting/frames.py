"""Frames of a lasting link other than envelopes.

At first the party sends the number of deliveries it has received, and the hub the number of
envelopes it has accepted. Each side goes on from there, so a lost connection loses no message. From
then on a frame is an envelope or one of these. None of them is on record.

These are encoded as maps and envelopes as lists, so neither can be taken for the other.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from protocol.errors import RemoteProtocolError
from protocol.messages import Envelope
from protocol.transcript.consistency import Consistency
from protocol.transcript.receipts import Acknowledgement, Shown
from protocol.wire.codec import decode_envelope

VERSION = "sottovoce lasting/1"

Count = Annotated[int, msgspec.Meta(ge=0)]


class Frame(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """Message of one end of a link to the other about the link."""


class Received(Frame, frozen=True):
    """Number of deliveries that the party has received."""

    deliveries: Count


class Accepted(Frame, frozen=True):
    """Numbers of accepted envelopes of the party, and of deliveries to it.

    A party with a checkpoint also receives ``log``: the last checkpoint on the hub's disk, with a
    proof that it extends the party's. Without such a proof it is sent all the same: the hub's
    record is older, and both sides keep the two checkpoints. A restored record sends the entry that
    says so (``restored``).
    """

    envelopes: Count
    deliveries: Count
    log: Consistency | None = None
    restored: Shown | None = None


class Durable(Frame, frozen=True):
    """Number of envelopes of the party that are on the hub's disk."""

    envelopes: Count


class Acknowledged(Frame, frozen=True):
    """Receipt for all envelopes of the party, its head included, which are on disk."""

    given: Acknowledgement


class Alive(Frame, frozen=True):
    """There is nothing else to say."""


class Replaced(Frame, frozen=True):
    """The hub ends this connection: the party has a newer one."""


class Goodbye(Frame, frozen=True):
    """The last frame of either end: it has nothing more to say."""


encode = msgspec.msgpack.Encoder().encode

_frames = msgspec.msgpack.Decoder(
    Received | Accepted | Durable | Acknowledged | Alive | Replaced | Goodbye
)
_MAPS = range(0x80, 0x90)


def read_frame(payload: bytes) -> Frame | Envelope:
    """Decode a frame of a lasting link.

    Raises:
        RemoteProtocolError: malformed.
    """
    if not payload or payload[0] not in _MAPS:
        return decode_envelope(payload)
    try:
        frame: Frame = _frames.decode(payload)
    except (msgspec.MsgspecError, RecursionError):
        # The cause would quote the other end's input.
        raise RemoteProtocolError(f"malformed frame of {len(payload)} B", field="link") from None
    return frame


def unexpected(frame: Frame | Envelope, *expected: type[Frame]) -> RemoteProtocolError:
    """Error about a frame of an unexpected kind."""
    kinds = " or ".join(kind.__name__ for kind in expected)
    return RemoteProtocolError(f"{type(frame).__name__}, expected {kinds}", field="link")
