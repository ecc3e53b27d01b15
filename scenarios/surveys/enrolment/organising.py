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
    files_of,
    names_of,
    new_authority,
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
    read_letter,
    written,
)
from scenarios.surveys.holding.waiting import waits
from scenarios.surveys.members import KEY, ROSTER, decoded
from scenarios.surveys.survey_plan import Plan
from transports.certificates import private_pem

INVITATIONS, REFUSALS, ADMISSIONS, POOL = "invitations", "refusals", "admissions", "spares"
"""The folders of what is handed out, a file for each party."""

SEALED = "sealed"
"""The folder that there is once the roster is fixed: the aggregator's own, and the admissions."""

_ENROLMENT, _REQUESTS = "enrolment.json", "requests.jsonl"


class _Enrolment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Invited parties: name and invitation's public key, of which the last counts."""

    agreed: Agreed
    invited: tuple[tuple[PartyId, PublicKey], ...]


def invite(plan: Plan, parties: Sequence[str], folder: Path) -> Invitation:
    """Draw a one-time invitation for every party; the organiser keeps public keys of them.

    Args:
        plan: of the survey.
        parties: their names.
        folder: the organiser's, new or empty; everything appears in it at once.

    Returns:
        One of them.

    Raises:
        UsageError: an invalid or repeated name, what a survey cannot be held with, or a folder that
            is not empty.
        OSError: a file cannot be written; none is left.
    """
    names = names_of(parties)
    check_parties(plan.variant, names)
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder}: exists and is not empty; invitations are never overwritten")
    agreed = Agreed.planned(plan)
    organiser = Identity(AGGREGATOR, os.urandom(SECRET_BYTES))
    with appearing_in(folder, sync=True) as new:
        (new / INVITATIONS).mkdir(PRIVATE_FOLDER)
        invited = []
        for name in names:
            invitation = _drawn(name, organiser.public, agreed)
            write_private(new / INVITATIONS / f"{name}.json", written(invitation))
            invited.append((name, invitation.identity.public))
        write_private(new / KEY, private_pem(organiser.private_key))
        write_private(new / _REQUESTS, b"")
        enrolment = _Enrolment(agreed, tuple(invited))
        write_private(new / _ENROLMENT, msgspec.json.encode(enrolment))
    return invitation


def invite_again(folder: Path, party: str) -> Path:
    """Draw a new invitation for a party; the one before, and what it was used for, is void.

    Raises:
        UsageError: nobody of that name was invited, or the roster is sealed.
        OSError: a file cannot be written.
    """
    with _open(folder) as enrolling:
        if party not in enrolling.invited:
            raise UsageError(f"{party!r:.80} was not invited")
        organiser = _read_organiser(folder)
        invitation = _drawn(PartyId(party), organiser.public, enrolling.agreed)
        enrolment = _Enrolment(
            enrolling.agreed,
            (*enrolling.invited.items(), (invitation.party, invitation.identity.public)),
        )
        path = folder / INVITATIONS / f"{party}.json"
        make_folder(path.parent)
        # First what it is checked by: an invitation that nobody knows could not be used.
        write_whole(folder / _ENROLMENT, msgspec.json.encode(enrolment), private=True)
        write_whole(path, written(invitation), private=True)
    return path


class Admitted(NamedTuple):
    """Outcome of some requests.

    Args:
        new: how many were admitted.
        before: how many were admitted already, with the same key.
        refused: file and reason of each other.
        total: how many are admitted now.
        invited: how many are invited.
        late: whoever asked after the roster was sealed, and the folder of the spare place to hand
            to each.
    """

    new: int
    before: int
    refused: tuple[tuple[Path, str], ...]
    total: int
    invited: int
    late: tuple[tuple[PartyId, Path], ...] = ()


def admit(folder: Path, requests: Iterable[Path]) -> Admitted:
    """Admit whoever asks with an invitation that was not used, and refuse everybody else.

    If an invitation was used before, with another key, a refusal is written, which the organiser
    hands to whoever asked. It has both requests, which prove the second use.

    Whoever asks after the roster was sealed gets a spare place, as long as one is left. Its key is
    not the one that was asked with, but one that the organiser has drawn.

    Args:
        folder: the organiser's.
        requests: files, or folders of files.

    Raises:
        UsageError: the folder is not an organiser's, or the roster is sealed and has no spare
            places.
        OSError: a file cannot be read or written; what was admitted before stays so.
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
        sealed: the folder.
        seated: everybody who was admitted before it was sealed.
    """

    sealed: Path
    seated: frozenset[PartyId]

    @classmethod
    def of(cls, folder: Path) -> _Pool | None:
        """Those of an organiser's folder; None while its roster is not sealed."""
        sealed = folder / SEALED
        if not sealed.exists():
            return None
        path = sealed / AGGREGATOR / ROSTER
        expect_file(path, "seal")
        members = decoded(path.read_bytes(), RosterFile, path).members
        return cls(sealed, frozenset(name for name, _ in members))

    def hand_out(self, party: PartyId) -> Path:
        """Hand out a place to a party that comes late; its folder.

        Raises:
            ValueError: none is left.
        """
        place = hand_out(self.sealed / AGGREGATOR, party)
        if place is None:
            raise ValueError("the roster is sealed, and no spare place is left")
        return self.sealed / POOL / place


def seal(folder: Path, own: str | None, *, days: int | None = None, spare: int = 0) -> Charter:
    """Fix the roster: the aggregator's folder, and an admission for every party.

    Args:
        folder: the organiser's.
        own: ``PATH.py:Class``, where the variant is not a built-in one.
        days: how long the certificates are valid; by default a month, and a month after a survey
            closes.
        spare: how many places more there are for parties that come late. The organiser draws their
            keys.

    Returns:
        The charter.

    Raises:
        UsageError: the folder is not an organiser's, or the roster is sealed, or too few parties
            are admitted for what the survey promises; or nobody can come late to it.
        OSError: a file cannot be written; nothing is sealed then.
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
            for name, files in files_of(charter, roster, authority, whole_roster=whole):
                if name == AGGREGATOR:
                    own_files = {KEY: private_pem(organiser.private_key)}
                    if pool:
                        own_files[SPARES] = as_json(list(pool))
                    write_folder(sealed / AGGREGATOR, own_files | files)
                    continue
                if name in pool:
                    key = private_pem(pool[name].private_key)
                    write_folder(sealed / POOL / name, {KEY: key, **files})
                    continue
                text = {file: content.decode() for file, content in files.items()}
                claims = tuple(enrolling.claims.get(name, ()))
                admission = Admission(name, text, claims, bytes(64)).signed(organiser)
                write_private(sealed / ADMISSIONS / f"{name}.json", written(admission))
    return charter.charter(variant, roster)


def _drawn_pool(
    variant: Variant, spare: int, invited: Collection[PartyId]
) -> dict[PartyId, Identity]:
    """Draw the keys of so many spare places.

    Raises:
        UsageError: nobody can come late to such a survey, or a place has an invited party's name.
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
        agreed: what is asked, and how.
        invited: the public key of each party's invitation.
        admitted: the request that counts, by party.
        claims: the refused requests of an invitation, by party.
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
        """Take in what is on disk already."""
        name = request.party
        if name in self._again and not request.is_by(self.invited[name]):
            return  # By an invitation that was replaced.
        if name in self.admitted:
            self.claims.setdefault(name, []).append(request)
        else:
            self.admitted[name] = request
            self._holders[key_holder(request.key)] = name

    def judge(self, request: Request, agreed: bytes) -> Request | None:
        """The request of this invitation that counts; None if it is the first.

        Raises:
            ValueError: it cannot be granted.
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
        """Admit it."""
        self._write(request)
        self.replay(request)

    def claim(self, request: Request) -> None:
        """Keep what a used invitation was used for, as far as there is room."""
        claims = self.claims.get(request.party, [])
        known = any(each.key == request.key for each in claims)
        if not known and len(claims) < MOST_CLAIMS:
            self._write(request)
            self.replay(request)

    def sync(self) -> None:
        """Sync what was admitted, once for all."""
        if self._file.failure is None:
            self._file.sync()

    def _write(self, request: Request) -> None:
        self._file.write(msgspec.json.encode(request) + b"\n")


@contextmanager
def _open(folder: Path, *, late: bool = False) -> Generator[_Enrolling]:
    """An organiser's folder, locked, while its roster is not sealed, or while it has spare places.

    Args:
        late: whether spare places will do.
    """
    path, file = folder / _ENROLMENT, folder / _REQUESTS
    for each in (path, file):
        expect_file(each, "invite")
    busy = f"{folder}: another program is enrolling"
    with locked_growing(file, busy, whole=whole_lines) as (content, growing):
        # Under the lock: another program may have sealed it until then.
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


def _drawn(name: PartyId, organiser: bytes, agreed: Agreed) -> Invitation:
    return Invitation(name, organiser, os.urandom(SECRET_BYTES), agreed)


def _read_organiser(folder: Path) -> Identity:
    path = folder / KEY
    expect_file(path, "invite")
    return Identity(AGGREGATOR, key_secret(path.read_bytes(), path))


def _refuse(folder: Path, first: Request, request: Request) -> Path:
    path = folder / REFUSALS / f"{request.party}-{request.key.hex()[:16]}.json"
    make_folder(path.parent)
    write_whole(path, written(Refusal(first, request)), private=True)
    return path


def _files_in(requests: Iterable[Path]) -> Iterator[Path]:
    for path in requests:
        if path.is_dir():
            yield from sorted(path.iterdir())
        else:
            yield path
