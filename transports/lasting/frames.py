"""What the two ends of a lasting link say beside envelopes, once the party is welcome.

The party begins with how many deliveries it has received before, the hub with how many envelopes
it has accepted before: each goes on from there, so a connection that is lost loses nothing. From
then on a frame is an envelope or one of these. None of them is on record.

An envelope's first byte is that of a list, so no frame can be taken for one.
"""

from __future__ import annotations

from protocol.errors import RemoteProtocolError
from transports.tcp_link import GOODBYE

__all__ = ["ACCEPTED", "ALIVE", "DURABLE", "GOODBYE", "RECEIVED", "REPLACED", "VERSION"]

VERSION = "sottovoce lasting/1"

RECEIVED = b"R"
"""The party has received so many deliveries."""

ACCEPTED = b"A"
"""The hub has accepted so many envelopes of the party, and handed it so many deliveries."""

DURABLE = b"D"
"""So many envelopes of the party are on the hub's disk."""

ALIVE = b"L"
"""There is nothing else to say."""

REPLACED = b"X"
"""The hub ends this connection: the party has a newer one."""

_NUMBER_BYTES = 8


def numbered(kind: bytes, *numbers: int) -> bytes:
    """A frame that says some numbers."""
    return kind + b"".join(number.to_bytes(_NUMBER_BYTES, "big") for number in numbers)


def is_numbered(kind: bytes, payload: bytes, count: int = 1) -> bool:
    """Whether a frame says so many numbers, and is of this kind."""
    return len(payload) == len(kind) + count * _NUMBER_BYTES and payload.startswith(kind)


def numbers_of(kind: bytes, payload: bytes, count: int = 1) -> list[int]:
    """The numbers that a frame says.

    Raises:
        RemoteProtocolError: it is another frame.
    """
    if not is_numbered(kind, payload, count):
        raise RemoteProtocolError(
            f"{payload[:16]!r}, expected {kind!r} and {count} numbers", field="link"
        )
    starts = range(len(kind), len(payload), _NUMBER_BYTES)
    return [int.from_bytes(payload[i : i + _NUMBER_BYTES], "big") for i in starts]
