"""The organiser's side of enrolment: invitations, requests, and the roster that is sealed."""

from __future__ import annotations

import collections
import os
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from parties.keeping.members import key_secret
from parties.keeping.places import SPARES, hand_out
from parties.keeping.writing import (
    PRIVATE_FOLDER,
    GrowingFile,
    locked_growing,
    make_folder,
    whole_lines,
    write_whole,
)
from protocol.crypto.randomness import SECRET_BYTES
from protocol.errors import SurveyError, UsageError
from protocol.messages import AGGREGATOR, PartyId
from protocol.session.charter import Charter
from protocol.session.roster import Identity, Roster, key_holder
from protocol.session.variant import Variant
from scenarios.surveys.enrolment.agreed import (
    Agreed,
    CharterFile,
    PublicKey,
    RosterFile,
    Way,
    check_parties,
)
from scenarios.surveys.enrolment.folders import (
    appearing_in,
    as_json,
    expect_file,
    member_files,
    new_authority,
    party_ids,
    remove_unfinished,
    spare_names,
    valid_days,
    write_folder,
    write_private,
)
from scenarios.surveys.enrolment.letters import (
    MOST_CLAIMS,
    Admission,
    Invitation,
    Refusal,
    Request,
    encode_letter,
    read_letter,
)
from scenarios.surveys.holding.waiting import waits
from scenarios.surveys.members import KEY, ROSTER, decoded
from scenarios.surveys.survey_plan import Plan
from transports.certificates import private_pem

INVITATIONS, REFUSALS, ADMISSIONS, POOL = "invitations", "refusals", "admissions", "spares"
"""Folders of what the organiser hands out, with a file or folder for each party."""

SEALED = "sealed"
"""Folder made when the roster is sealed, with the aggregator's folder and the admissions."""

_ENROLMENT, _REQUESTS = "enrolment.json", "requests.jsonl"


class _Enrolment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Invited parties with the public keys of their invitations; a party's last one counts."""

    agreed: Agreed
    invited: tuple[tuple[PartyId, PublicKey], ...]


def invite(plan: Plan, parties: Sequence[str], folder: Path) -> Invitation:
    """Draw a one-time invitation for every party; the organiser keeps only their public keys.

    Args:
        parties: names of the parties.
        folder: the organiser's folder, new or empty; all files appear in it at once.

    Returns:
        The last invitation.

    Raises:
        UsageError: an invalid or repeated name, too few parties for the plan, or a folder that is
            not empty.
        OSError: a file cannot be written; none is left.
    """
    names = party_ids(parties)
    check_parties(plan.variant, names)
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder}: exists and is not empty; invitations are never overwritten")
    agreed = Agreed.planned(plan)
    organiser = Identity(AGGREGATOR, os.urandom(SECRET_BYTES))
    with appearing_in(folder, sync=True) as new:
        (new / INVITATIONS).mkdir(PRIVATE_FOLDER)
        invited = []
        for name in names:
            invitation = _draw_invitation(name, organiser.public, agreed)
            write_private(new / INVITATIONS / f"{name}.json", encode_letter(invitation))
            invited.append((name, invitation.identity.public))
        write_private(new / KEY, private_pem(organiser.private_key))
        write_private(new / _REQUESTS, b"")
        enrolment = _Enrolment(agreed, tuple(invited))
        write_private(new / _ENROLMENT, msgspec.json.encode(enrolment))
    return invitation


def invite_again(folder: Path, party: str) -> Path:
    """Draw a new invitation for a party; the old one and its uses become void.

    Raises:
        UsageError: the party was not invited, or the roster is sealed.
        OSError: a file cannot be written.
    """
    with _open(folder) as enrolling:
        if party not in enrolling.invited:
            raise UsageError(f"{party!r:.80} was not invited")
        organiser = _read_organiser(folder)
        invitation = _draw_invitation(PartyId(party), organiser.public, enrolling.agreed)
        enrolment = _Enrolment(
            enrolling.agreed,
            (*enrolling.invited.items(), (invitation.party, invitation.identity.public)),
        )
        path = folder / INVITATIONS / f"{party}.json"
        make_folder(path.parent)
        # The public key first: without it the invitation would be useless.
        write_whole(folder / _ENROLMENT, msgspec.json.encode(enrolment), private=True)
        write_whole(path, encode_letter(invitation), private=True)
    return path


class Admitted(NamedTuple):
    """Outcome of some requests.

    Args:
        new: number of newly admitted parties.
        before: number of parties that were admitted before with the same key.
        refused: file and reason of each refusal.
        total: number of admitted parties in all.
        invited: number of invited parties.
        late: parties that came after the roster was sealed, with the folders of their spare places.
    """

    new: int
    before: int
    refused: tuple[tuple[Path, str], ...]
    total: int
    invited: int
    late: tuple[tuple[PartyId, Path], ...] = ()


def admit(folder: Path, requests: Iterable[Path]) -> Admitted:
    """Admit requests with an unused invitation, and refuse all others.

    For an invitation that was used before with another key, a refusal is written, to be handed to
    the second user. It contains both requests as proof.

    Requests that come after the roster was sealed get a spare place, while there is one, with a key
    that the organiser has drawn.

    Args:
        folder: the organiser's folder.
        requests: files, or folders of files.

    Raises:
        UsageError: the folder is not an organiser's, or the roster is sealed without spare places.
        OSError: a file cannot be read or written; earlier admissions stay valid.
    """
    new = before = 0
    refused: list[tuple[Path, str]] = []
    late: dict[PartyId, Path] = {}
    with _open(folder, late=True) as enrolling:
        agreed = enrolling.agreed.digest()
        pool = _Pool.of(folder)
        try:
            for path in _files_in(requests):
                try:
                    request = read_letter(path, Request)
                    first = enrolling.judge(request, agreed)
                    used = first is not None and first.key != request.key
                    if pool is not None and not used and request.party not in pool.seated:
                        late[request.party] = pool.hand_out(request.party)
                except (UsageError, ValueError) as error:
                    said = str(error).removeprefix(f"{path}: ")
                    refused.append((path, said))
                    continue
                if first is None:
                    enrolling.add(request)
                    new += 1
                elif not used:
                    before += 1
                else:
                    answer = _refuse(folder, first, request)
                    enrolling.claim(request)
                    said = (
                        f"the invitation of {request.party!r} was used before, with another key; "
                        f"hand {answer} to whoever sent this"
                    )
                    refused.append((path, said))
        finally:
            enrolling.sync()
        total, invited = len(enrolling.admitted), len(enrolling.invited)
    return Admitted(new, before, tuple(refused), total, invited, tuple(late.items()))


class _Pool(NamedTuple):
    """The spare places of a sealed roster.

    Args:
        sealed: the ``SEALED`` folder.
        seated: parties that were admitted before it was sealed.
    """

    sealed: Path
    seated: frozenset[PartyId]

    @classmethod
    def of(cls, folder: Path) -> _Pool | None:
        """The pool of an organiser's folder; None while the roster is not sealed."""
        sealed = folder / SEALED
        if not sealed.exists():
            return None
        path = sealed / AGGREGATOR / ROSTER
        expect_file(path, "seal")
        members = decoded(path.read_bytes(), RosterFile, path).members
        return cls(sealed, frozenset(name for name, _ in members))

    def hand_out(self, party: PartyId) -> Path:
        """Give a late party a place; return the place's folder.

        Raises:
            ValueError: no place is left.
        """
        place = hand_out(self.sealed / AGGREGATOR, party)
        if place is None:
            raise ValueError("the roster is sealed, and no spare place is left")
        return self.sealed / POOL / place


def seal(folder: Path, own: str | None, *, days: int | None = None, spare: int = 0) -> Charter:
    """Fix the roster: write the aggregator's folder, and an admission for every party.

    Args:
        folder: the organiser's folder.
        own: ``PATH.py:Class`` of a variant that is not built in.
        days: days for which certificates are valid; by default a month, or until a month after
            the survey closes.
        spare: number of extra places for late parties, with keys drawn by the organiser.

    Returns:
        The charter.

    Raises:
        UsageError: the folder is not an organiser's, the roster is sealed, too few parties are
            admitted, or spare places are impossible in this survey.
        OSError: a file cannot be written; nothing is sealed.
    """
    with _open(folder) as enrolling:
        try:
            variant = enrolling.agreed.build(own, folder / _ENROLMENT)
        except SurveyError as error:
            raise UsageError(f"{folder / _ENROLMENT}: {error}") from error
        admitted = [name for name in enrolling.invited if name in enrolling.admitted]
        if not admitted:
            raise UsageError(f"{folder}: nobody is admitted")
        check_parties(variant, admitted)
        pool = _drawn_pool(variant, spare, enrolling.invited)
        check_parties(variant, [*admitted, *pool])
        organiser = _read_organiser(folder)
        authority = new_authority(valid_days(variant.survey, days))
        keys = ((name, enrolling.admitted[name].key) for name in admitted)
        drawn = ((name, identity.public) for name, identity in pool.items())
        roster = Roster(((AGGREGATOR, organiser.public), *keys, *drawn))
        ways: list[tuple[Way, int]] = [("request", len(admitted)), ("folder", spare)]
        charter = CharterFile.of(enrolling.agreed, roster, *ways)
        whole = variant.whole_roster
        with appearing_in(folder, sync=True) as new:
            sealed = new / SEALED
            for made in (sealed, sealed / ADMISSIONS, *((sealed / POOL,) if pool else ())):
                made.mkdir(PRIVATE_FOLDER)
            for name, files in member_files(charter, roster, authority, whole_roster=whole):
                if name == AGGREGATOR:
                    own_files = {KEY: private_pem(organiser.private_key)}
                    if pool:
                        own_files[SPARES] = as_json(list(pool))
                    write_folder(sealed / AGGREGATOR, own_files | files)
                elif name in pool:
                    key = private_pem(pool[name].private_key)
                    write_folder(sealed / POOL / name, {KEY: key, **files})
                else:
                    text = {file: content.decode() for file, content in files.items()}
                    claims = tuple(enrolling.claims.get(name, ()))
                    admission = Admission(name, text, claims, bytes(64)).signed(organiser)
                    write_private(sealed / ADMISSIONS / f"{name}.json", encode_letter(admission))
    return charter.charter(variant, roster)


def _drawn_pool(
    variant: Variant, spare: int, invited: Collection[PartyId]
) -> dict[PartyId, Identity]:
    """Draw keys for spare places.

    Raises:
        UsageError: spare places are impossible in this survey, or an invited party has the name of
            one.
    """
    if spare and not waits(variant):
        raise UsageError(
            f"--spare {spare}: expected a survey of one question with closes in its plan and no "
            "patience, for nobody can come late to another"
        )
    if spare and variant.quorum is None:
        raise UsageError(
            f"--spare {spare}: the plan has no quorum: expected how many parties must answer, for "
            "spare places count as parties"
        )
    names = spare_names(spare)
    if taken := sorted({*names} & {*invited}):
        raise UsageError(f"--spare {spare}: {taken[0]!r} is the name of an invited party")
    return {name: Identity(name, os.urandom(SECRET_BYTES)) for name in names}


class _Enrolling:
    """State of an enrolment while it is open.

    Attributes:
        agreed: the terms of the survey.
        invited: public keys of the invitations, by party.
        admitted: the accepted requests, by party.
        claims: refused requests with a used invitation, by party.
    """

    def __init__(self, enrolment: _Enrolment, file: GrowingFile, organiser: bytes) -> None:
        self.agreed = enrolment.agreed
        self.invited = dict(enrolment.invited)
        self.admitted: dict[PartyId, Request] = {}
        self.claims: dict[PartyId, list[Request]] = {}
        again = collections.Counter(name for name, _ in enrolment.invited)
        self._again = {name for name, times in again.items() if times > 1}
        self._file = file
        self._holders = {key_holder(organiser): AGGREGATOR}

    def replay(self, request: Request) -> None:
        """Take in a request from disk."""
        name = request.party
        if name in self._again and not request.is_by(self.invited[name]):
            return  # Its invitation was replaced.
        if name in self.admitted:
            self.claims.setdefault(name, []).append(request)
        else:
            self.admitted[name] = request
            self._holders[key_holder(request.key)] = name

    def judge(self, request: Request, agreed: bytes) -> Request | None:
        """The accepted request with this invitation; None if this is the first.

        Raises:
            ValueError: the request is invalid.
        """
        if request.party not in self.invited:
            raise ValueError(f"{request.party!r:.80} was not invited")
        first = self.admitted.get(request.party)
        request.check(agreed, self.invited[request.party])
        holder = self._holders.get(key_holder(request.key), request.party)
        if holder != request.party:
            raise ValueError(f"its key is that of {holder!r} already")
        return first

    def add(self, request: Request) -> None:
        """Admit a request."""
        self._write(request)
        self.replay(request)

    def claim(self, request: Request) -> None:
        """Keep a refused request with a used invitation, up to ``MOST_CLAIMS``."""
        claims = self.claims.get(request.party, [])
        known = any(each.key == request.key for each in claims)
        if not known and len(claims) < MOST_CLAIMS:
            self._write(request)
            self.replay(request)

    def sync(self) -> None:
        """Sync all admissions to disk."""
        if self._file.failure is None:
            self._file.sync()

    def _write(self, request: Request) -> None:
        self._file.write(msgspec.json.encode(request) + b"\n")


@contextmanager
def _open(folder: Path, *, late: bool = False) -> Generator[_Enrolling]:
    """Lock an organiser's folder for the block; the roster must not be sealed.

    Args:
        late: also accept a sealed roster with spare places.
    """
    path, file = folder / _ENROLMENT, folder / _REQUESTS
    for each in (path, file):
        expect_file(each, "invite")
    busy = f"{folder}: another program is enrolling"
    with locked_growing(file, busy, whole=whole_lines) as (content, growing):
        # Checked under the lock: another program may have sealed it meanwhile.
        spare = late and (folder / SEALED / POOL).exists()
        if (folder / SEALED).exists() and not spare:
            raise UsageError(
                f"{folder / SEALED}: the roster is sealed; nobody is admitted any more"
            )
        remove_unfinished(folder)
        enrolment = decoded(path.read_bytes(), _Enrolment, path)
        enrolling = _Enrolling(enrolment, growing, _read_organiser(folder).public)
        for line in content.splitlines():
            enrolling.replay(decoded(line, Request, file))
        yield enrolling


def _draw_invitation(name: PartyId, organiser: bytes, agreed: Agreed) -> Invitation:
    return Invitation(name, organiser, os.urandom(SECRET_BYTES), agreed)


def _read_organiser(folder: Path) -> Identity:
    path = folder / KEY
    expect_file(path, "invite")
    return Identity(AGGREGATOR, key_secret(path.read_bytes(), path))


def _refuse(folder: Path, first: Request, request: Request) -> Path:
    path = folder / REFUSALS / f"{request.party}-{request.key.hex()[:16]}.json"
    make_folder(path.parent)
    write_whole(path, encode_letter(Refusal(first, request)), private=True)
    return path


def _files_in(requests: Iterable[Path]) -> Iterator[Path]:
    for path in requests:
        if path.is_dir():
            yield from sorted(path.iterdir())
        else:
            yield path
