"""Members' folders in a real survey: charter, certificate, keys and secret."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from parties.keeping.members import Member, key_secret
from protocol.errors import UsageError
from protocol.messages import AGGREGATOR, PartyId
from protocol.session.roster import Identity, Roster
from protocol.wire.undecoded import Undecoded
from scenarios.surveys.enrolment.agreed import CharterFile, PlaceFile, RosterFile

CHARTER, AUTHORITY = "charter.json", "authority.pem"
CERTIFICATE, KEY = "certificate.pem", "identity.key"
PLACE, ROSTER = "place.json", "roster.json"

INVITATION, REQUEST = "invitation.json", "request.json"
"""Files in a party's folder: its invitation, and its request to the organiser."""

S = TypeVar("S", bound=msgspec.Struct)


def read_member(
    folder: Path | str, variant: str | None = None, *, key: Path | None = None
) -> Member:
    """Read a member's folder.

    Args:
        folder: the member's.
        variant: ``PATH.py:Class``, for a survey whose variant is not a built-in one.
        key: the file of the private key; None for the one in the folder.

    Raises:
        UsageError: a file is missing or malformed, or they do not belong together; or another
            variant than the charter pins.
    """
    folder = Path(folder)
    path = folder / CHARTER
    read = decoded(_read_content(path), CharterFile, path)
    own = read.build(variant, path)
    key = key or folder / KEY
    secret = key_secret(_read_content(key), key)
    if (folder / ROSTER).exists():
        roster, name = _member_in_roster(folder, read, secret, key)
    else:
        roster, name = _member_in_place(folder, read, secret)
    try:
        charter = read.charter(own, roster)
        # There may be too few parties for what the variant promises.
        charter.variant.kinds(len(roster) - 1)
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from error
    return Member(folder=folder, charter=charter, identity=Identity(name, secret))


def decoded(content: bytes, kind: type[S], path: Path) -> S:
    """Decode a JSON file.

    Raises:
        UsageError: the file is malformed; names the file and the field.
    """
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, ValueError) as error:
        raise UsageError(f"{path}: {Undecoded.of(error)!s:.400}") from error
    except RecursionError as error:
        raise UsageError(f"{path}: nested too deeply") from error


def _member_in_roster(
    folder: Path, charter: CharterFile, secret: bytes, key_file: Path
) -> tuple[Roster, PartyId]:
    """All members, and the member with this key."""
    path = folder / ROSTER
    read = decoded(_read_content(path), RosterFile, path)
    try:
        roster = Roster(read.members)
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from error
    if (roster.root, len(roster)) != (charter.roster, charter.members):
        raise UsageError(f"{path}: its root is not the one in {CHARTER}")
    public = Identity(AGGREGATOR, secret).public
    for name, key in roster.members:
        if key == public:
            return roster, name
    raise UsageError(f"{key_file}: its public key is not on the roster")


def _member_in_place(folder: Path, charter: CharterFile, secret: bytes) -> tuple[Roster, PartyId]:
    """The roster as a party with this key knows it, and the party's id."""
    path = folder / PLACE
    read = decoded(_read_content(path), PlaceFile, path)
    try:
        return read.excerpt(Identity(read.party, secret).public, charter), read.party
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from error


def tls_context(
    folder: Path, make: Callable[..., ssl.SSLContext], *, key: Path | None = None
) -> ssl.SSLContext:
    """The TLS context of a member.

    Args:
        folder: the member's.
        make: ``server_context`` or ``client_context``.
        key: the file of the private key; None for the one in the folder.

    Raises:
        UsageError: a file is missing, or they do not belong together.
    """
    files = {
        "authority": folder / AUTHORITY,
        "certificate": folder / CERTIFICATE,
        "key": key or folder / KEY,
    }
    for file in files.values():
        if not file.is_file():
            raise _not_a_member(file)
    try:
        return make(**files)
    except OSError as error:
        what = ", ".join(file.name for file in files.values())
        raise UsageError(f"{folder}: {what} do not belong together, or one is damaged") from error


def _read_content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise _not_a_member(path) from error


def _not_a_member(path: Path) -> UsageError:
    if path.name == CHARTER and (path.parent / INVITATION).exists():
        return UsageError(
            f"{path}: no such file; this party has joined, and 'sottovoce accept' puts the "
            "organiser's answer here"
        )
    return UsageError(f"{path}: no such file, so {path.parent} is not a member's folder")
