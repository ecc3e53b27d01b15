"""What a session's id binds: what was agreed before the first message, and by whom."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from protocol.wire.schemas import KindSchema

SESSION_PURPOSE = b"sottovoce session 2\0"
"""What is hashed to a session's id begins with it."""

_encode = msgspec.msgpack.Encoder(order="deterministic").encode


def terms_of(
    *,
    variant: str,
    parameters: Mapping[str, Any],
    survey: Mapping[str, Any],
    analysis: Mapping[str, Any] | None,
    nonce: bytes,
    kinds: Sequence[KindSchema],
) -> bytes:
    """The hash of what was agreed, 32 bytes: all that a header says of it but the roster.

    Raises:
        TypeError, ValueError, OverflowError, RecursionError, MsgspecError: a value that msgpack
            cannot carry.
    """
    terms = (variant, parameters, survey, analysis, nonce, kinds)
    return hashlib.sha256(_encode(terms)).digest()


def session_of(*, terms: bytes, roster: bytes, members: int) -> bytes:
    """The id of a session, 32 bytes.

    Args:
        terms: their hash.
        roster: the root of the roster's tree.
        members: how many the roster has, the aggregator included.
    """
    return hashlib.sha256(SESSION_PURPOSE + _encode((terms, roster, members))).digest()
