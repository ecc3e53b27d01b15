"""Terms that a session's id binds: the agreement before the first message, and the attempt."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

SESSION_PURPOSE = b"sottovoce session 3\0"
"""The beginning of the bytes whose hash is a session's id."""

MOST_ATTEMPTS = 100
"""The most attempts at one survey: folders of parties and witnesses hold something of each."""

NEIGHBOURS = (
    "one respondent's whole record is replaced; who takes part, how many respondents each party "
    "has, and when anybody speaks are public"
)
"""Neighbouring relation of epsilon, in every survey."""

Enrolled = tuple[tuple[str, int], ...]
"""Ways in which parties got their keys, in the roster's order: a number by one, then by another."""

_encode = msgspec.msgpack.Encoder(order="deterministic").encode


class Terms(NamedTuple):
    """All agreed terms but the roster, as plain values.

    Args:
        variant: the name of the variant.
        code: the SHA-256 of its file; None for a built-in one.
        parameters: its public parameters.
        survey: the survey.
        analysis: the announced analysis; None if none was announced.
        neighbours: the records that epsilon compares.
        nonce: distinguishes the survey from others of the same terms.
        roles: the roles of the services, at the places after the aggregator; None without any.
        enrolled: how the other members got their keys; None if unknown.
        kinds: the kinds of message.
    """

    variant: str
    code: bytes | None
    parameters: Mapping[str, Any]
    survey: Mapping[str, Any]
    analysis: Mapping[str, Any] | None
    neighbours: str
    nonce: bytes
    roles: tuple[str, ...] | None
    enrolled: Enrolled | None
    kinds: Sequence[Any]

    def digest(self) -> bytes:
        """Their hash, 32 bytes.

        Raises:
            TypeError, ValueError, OverflowError, RecursionError, MsgspecError: a value that
                msgpack cannot carry.
        """
        return hashlib.sha256(self.encoded()).digest()

    def encoded(self) -> bytes:
        """The bytes that are hashed.

        Raises:
            TypeError, ValueError, OverflowError, RecursionError, MsgspecError: as ``digest``.
        """
        return _encode(tuple(self))


def session_id(*, terms: bytes, roster: bytes, members: int, attempt: int = 1) -> bytes:
    """The id of the session that is an attempt at a survey, 32 bytes.

    The first attempt's stands for the survey itself.

    Args:
        terms: their hash.
        roster: the root of the roster's tree.
        members: how many the roster has, the aggregator included.
        attempt: how many times the aggregator has begun the survey, this time included.

    Raises:
        ValueError: the attempt is not from 1 to ``MOST_ATTEMPTS``.
    """
    first = hashlib.sha256(SESSION_PURPOSE + _encode((terms, roster, members))).digest()
    return attempt_at(first, attempt)


def attempt_at(session: bytes, attempt: int) -> bytes:
    """The session that is another attempt at a session's survey.

    Raises:
        ValueError: the attempt is not from 1 to ``MOST_ATTEMPTS``.
    """
    check_attempt(attempt)
    return session[:-1] + bytes([attempt])


def is_attempt(number: int) -> bool:
    """Check whether a number is one of an attempt."""
    return 1 <= number <= MOST_ATTEMPTS


def check_attempt(attempt: int) -> None:
    """Refuse an attempt that cannot be.

    Raises:
        ValueError: it is not from 1 to ``MOST_ATTEMPTS``.
    """
    if not is_attempt(attempt):
        raise ValueError(f"attempt {attempt}: expected 1 to {MOST_ATTEMPTS}")
