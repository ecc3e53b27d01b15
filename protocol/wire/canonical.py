"""Reads stored data with exactly one encoding: entries, heads, receipts."""

from __future__ import annotations

from typing import TypeVar

import msgspec

T = TypeVar("T")

MALFORMED = (msgspec.MsgspecError, ValueError, OverflowError, RecursionError)
"""Errors that decoding a value, or encoding it again, may raise."""

_encode = msgspec.msgpack.Encoder().encode


def canonical(content: bytes, decoder: msgspec.msgpack.Decoder[T], *, what: str) -> T:
    """Decode bytes that are the only encoding of their content.

    Args:
        content: as stored.
        decoder: reads them.
        what: the name of the content, for the error message.

    Raises:
        ValueError: malformed, or not canonical.
    """
    try:
        value = decoder.decode(content)
        again = _encode(value)
    except MALFORMED as error:
        raise ValueError(f"malformed {what}: {error}") from error
    if again != content:
        raise ValueError(f"the {what}'s encoding is not canonical")
    return value
