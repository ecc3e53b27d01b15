"""A party's side of enrolment: it makes its own keys, asks to be admitted, and takes its place."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

from parties.keeping.members import Member, key_secret
from parties.keeping.writing import make_folder, naming, sync_folder
from protocol.crypto.randomness import SECRET_BYTES
from protocol.errors import SurveyError, UsageError
from protocol.messages import AGGREGATOR
from protocol.session.roster import Identity, is_signature
from protocol.session.variant import Variant
from scenarios.surveys.enrolment.agreed import CharterFile
from scenarios.surveys.enrolment.folders import expect_file, put_files, write_folder
from scenarios.surveys.enrolment.letters import (
    ANSWER,
    LARGEST_ADMISSION,
    Admission,
    Invitation,
    Refusal,
    Request,
    encode_letter,
    read_letter,
)
from scenarios.surveys.members import (
    AUTHORITY,
    CERTIFICATE,
    CHARTER,
    INVITATION,
    KEY,
    PLACE,
    REQUEST,
    ROSTER,
    decoded,
    read_member,
    tls_context,
)
from transports.certificates import private_pem
from transports.tls import client_context

_ADMITTED = frozenset({AUTHORITY, CERTIFICATE, CHARTER})


class Joined(NamedTuple):
    """Request of a party.

    Args:
        invitation: the party's invitation.
        variant: the protocol, with what is asked.
        request: the file to hand to the organiser.
    """

    invitation: Invitation
    variant: Variant
    request: Path


def join(path: Path, folder: Path, own: str | None) -> Joined:
    """Make a party's keys in its folder, and the request to be admitted with them.

    Repeating it with the same invitation and folder changes nothing.

    Args:
        path: the invitation's path.
        folder: the party's, new or empty.
        own: ``PATH.py:Class``, where the variant is not a built-in one.

    Raises:
        UsageError: the invitation is malformed or asks what cannot be, or the folder has something
            else in it.
        OSError: a file cannot be written; none is left.
    """
    invitation = read_letter(path, Invitation)
    try:
        variant = invitation.agreed.build(own, path)
        if invitation.agreed.analysis is not None:
            invitation.agreed.analysis.check(variant.survey)
    except (SurveyError, ValueError) as error:
        raise UsageError(f"{path}: {error}") from error
    joined = Joined(invitation, variant, folder / REQUEST)
    if folder.exists() and any(folder.iterdir()):
        if not (folder / REQUEST).exists() or _invitation_in(folder) != invitation:
            raise UsageError(f"{folder}: exists and is not empty; keys are never overwritten")
        return joined
    identity = Identity(invitation.party, os.urandom(SECRET_BYTES))
    files = {
        KEY: private_pem(identity.private_key),
        INVITATION: encode_letter(invitation),
        REQUEST: encode_letter(invitation.request(identity)),
    }
    make_folder(folder.parent)
    with naming(folder):
        new = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name[:100]}."))
        try:
            write_folder(new / "folder", files)
            for name in files:
                with (new / "folder" / name).open("rb") as file:
                    os.fsync(file.fileno())
            # Once the request is handed in, losing this key loses the place.
            sync_folder(new / "folder")
            # An empty folder is replaced.
            os.rename(new / "folder", folder)
            sync_folder(folder.parent)
        finally:
            shutil.rmtree(new, ignore_errors=True)
    return joined


class Accepted(NamedTuple):
    """Outcome of a party's request.

    Args:
        member: the member in its folder; None if it was refused.
        claims: uses of the party's invitation by others: the refused requests if the party was
            admitted, the admitted request if it was refused.
    """

    member: Member | None
    claims: tuple[Request, ...]


def accept(folder: Path, path: Path, own: str | None) -> Accepted:
    """Take the organiser's answer: an admission is put into the folder.

    Repeating it with the same admission changes nothing.

    Args:
        folder: the party's.
        path: path of the answer, an admission or a refusal.
        own: ``PATH.py:Class``, where the variant is not a built-in one.

    Raises:
        UsageError: the answer is malformed, not the organiser's, another party's, or of another
            survey than the invitation; or the party was admitted otherwise before.
        OSError: a file cannot be written.
    """
    invitation = _invitation_in(folder)
    public = _identity_in(folder, invitation).public
    answer: Refusal | Admission = read_letter(path, ANSWER, LARGEST_ADMISSION)
    if isinstance(answer, Refusal):
        _check_refusal(answer, invitation, public, path)
        return Accepted(None, (answer.first,))
    _check_admission(answer, invitation, path)
    claims = tuple(each for each in answer.claims if each.key != public)
    if not all(each.is_by(invitation.identity.public) for each in claims):
        raise UsageError(f"{path}: a claim in it is not signed by the invitation")
    member = _put(answer, folder, path, own)
    return Accepted(member, claims)


def _check_refusal(refusal: Refusal, invitation: Invitation, public: bytes, path: Path) -> None:
    agreed, key = invitation.agreed.digest(), invitation.identity.public
    if refusal.refused.key != public or refusal.first.key == public:
        raise UsageError(f"{path}: it does not refuse the request in this folder")
    try:
        refusal.first.check(agreed, key)
    except ValueError as error:
        raise UsageError(f"{path}: the request that it prefers: {error}") from error


def _check_admission(admission: Admission, invitation: Invitation, path: Path) -> None:
    if not is_signature(admission.signature, admission.statement, key=invitation.organiser):
        raise UsageError(f"{path}: it is not signed by the organiser who sent the invitation")
    if admission.party != invitation.party:
        raise UsageError(f"{path}: it admits {admission.party!r}, not {invitation.party!r}")
    if not _ADMITTED < set(admission.files) <= _ADMITTED | {PLACE, ROSTER}:
        raise UsageError(f"{path}: expected {', '.join(sorted(_ADMITTED))} and {PLACE}")
    charter = decoded(admission.files[CHARTER].encode(), CharterFile, path)
    if charter.agreed().digest() != invitation.agreed.digest():
        raise UsageError(f"{path}: it is for something else than the invitation asked")


def _put(admission: Admission, folder: Path, path: Path, own: str | None) -> Member:
    put_files(
        {name: text.encode() for name, text in admission.files.items()},
        folder,
        path,
        lambda new: _check_member(new, admission, folder, own),
        "this party was admitted before, with another {}; keep both admissions, they show that the "
        "organiser signed two",
    )
    return read_member(folder, own)


def _check_member(new: Path, admission: Admission, folder: Path, own: str | None) -> None:
    """Check that new files and the folder's key make a member."""
    member = read_member(new, own, key=folder / KEY)
    invited, charter = _invitation_in(folder), member.charter
    if member.identity.name != admission.party:
        raise UsageError(f"its place is {member.identity.name!r}'s, not {admission.party!r}'s")
    if charter.roster.key(AGGREGATOR) != invited.organiser:
        raise UsageError("its aggregator is not the organiser who sent the invitation")
    if charter.roster.position[admission.party] not in charter.places_enrolled("request"):
        raise UsageError("it says that this party was handed its key, which the party has made")
    tls_context(new, client_context, key=folder / KEY)


def _invitation_in(folder: Path) -> Invitation:
    path = folder / INVITATION
    expect_file(path, "join")
    return read_letter(path, Invitation)


def _identity_in(folder: Path, invitation: Invitation) -> Identity:
    path = folder / KEY
    expect_file(path, "join")
    return Identity(invitation.party, key_secret(path.read_bytes(), path))
