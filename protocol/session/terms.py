"""What a session's id binds: what was agreed before the first message, by whom, and the attempt."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from protocol.wire.schemas import KindSchema

SESSION_PURPOSE = b"sottovoce session 2\0"
"""What is hashed to the id of a survey's first attempt begins with it."""

ATTEMPT_PURPOSE = b"sottovoce attempt 1\0"
"""What is hashed to the id of a later attempt begins with it."""

MOST_ATTEMPTS = 100
"""The most attempts at one survey: folders of parties and witnesses hold something of each."""

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


def survey_id_of(*, terms: bytes, roster: bytes, members: int) -> bytes:
    """The id of a survey, 32 bytes: that of the session which is its first attempt.

    Args:
        terms: their hash.
        roster: the root of the roster's tree.
        members: how many the roster has, the aggregator included.
    """
    return hashlib.sha256(SESSION_PURPOSE + _encode((terms, roster, members))).digest()


def session_of(survey_id: bytes, attempt: int) -> bytes:
    """The id of the session that is an attempt at a survey, 32 bytes.

    Raises:
        ValueError: the attempt is not from 1 to ``MOST_ATTEMPTS``.
    """
    check_attempt(attempt)
    if attempt == 1:
        return survey_id
    return hashlib.sha256(ATTEMPT_PURPOSE + _encode((survey_id, attempt))).digest()


def is_attempt(number: int) -> bool:
    """Whether a survey can have so many attempts."""
    return 1 <= number <= MOST_ATTEMPTS


def check_attempt(attempt: int) -> None:
    """Refuse an attempt that cannot be.

    Raises:
        ValueError: it is not from 1 to ``MOST_ATTEMPTS``.
    """
    if not is_attempt(attempt):
        raise ValueError(f"attempt {attempt}: expected 1 to {MOST_ATTEMPTS}")
