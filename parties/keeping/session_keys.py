"""Source of a party's randomness: its secret, its records, and the session."""

from __future__ import annotations

import hashlib
from pathlib import Path

from parties.keeping.members import known_secret, own_secret, secret_in
from protocol.crypto.randomness import Stream, Streams, expand
from protocol.messages import ROLE_STREAM, PartyId
from protocol.session.charter import Charter
from protocol.sharing.messages import is_summed
from protocol.surveys.records import Records

SINGLE_USE = "single-use"
"""First word of a party's file for the secret of one session, if it adds up in that session."""


def session_key(folder: Path, charter: Charter, records: Records) -> bytes:
    """The key of a party's randomness in a session, 32 bytes; it is on disk before it is used.

    A report that is drawn twice is the same, which costs nothing. Masks in a sum must not be the
    same: two sums under one mask reveal their difference. So the randomness of a party in a sum
    also depends on a secret of this session, drawn on the first call. A folder restored from an
    earlier copy draws another.

    Raises:
        UsageError: a file is not a secret.
        OSError: one cannot be written.
    """
    key = _records_key(own_secret(folder), records)
    if not _is_single_use(charter):
        return key
    return _single_use(key, own_secret(folder, _file_name(charter)))


def known_session_key(folder: Path, charter: Charter, records: Records) -> bytes:
    """The key of ``session_key``, for a party that has answered.

    Raises:
        UsageError: a file is missing, or not a secret.
    """
    key = _records_key(known_secret(folder), records)
    if not _is_single_use(charter):
        return key
    return _single_use(key, secret_in(folder / _file_name(charter)))


def session_mark(key: bytes, session: bytes) -> bytes:
    """Mark of one key's answers in a session, 32 bytes; it reveals neither."""
    return expand(key, b"heard" + session)


def role_stream(key: bytes, session: bytes, party: PartyId) -> Stream:
    """The randomness of a party's role."""
    return Streams(key, session).stream(party, ROLE_STREAM)


def _records_key(secret: bytes, records: Records) -> bytes:
    about = hashlib.sha256(records.codes.tobytes()).digest()
    return expand(secret, b"sottovoce records 1" + about)


def _single_use(key: bytes, secret: bytes) -> bytes:
    return expand(key, b"sottovoce single use 1" + secret)


def _is_single_use(charter: Charter) -> bool:
    return is_summed(charter.variant, len(charter.roster) - 1)


def _file_name(charter: Charter) -> str:
    return f"{SINGLE_USE}-{charter.session.hex()}"
