"""Files in members' folders."""

from __future__ import annotations

import datetime
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from parties.keeping.writing import (
    PRIVATE_FOLDER,
    make_folder,
    naming,
    open_private,
    sync_folder,
    write_once,
)
from protocol.crypto.randomness import SECRET_BYTES
from protocol.errors import UsageError
from protocol.messages import AGGREGATOR, PartyId, party_id
from protocol.session.charter import Charter
from protocol.session.roster import Identity, Roster
from protocol.surveys.survey import Survey
from scenarios.surveys.enrolment.agreed import (
    Agreed,
    CharterFile,
    PlaceFile,
    RosterFile,
    check_parties,
)
from scenarios.surveys.members import AUTHORITY, CERTIFICATE, CHARTER, KEY, PLACE, ROSTER
from scenarios.surveys.survey_plan import Plan
from transports.certificates import Authority, private_pem

MOST_DAYS = 3650
"""Maximum validity of certificates in days."""

_AFTERWARDS = 30
_UNFINISHED = ".new."
"""Prefix of a folder with entries that have not appeared yet."""


def party_ids(parties: Sequence[str]) -> list[PartyId]:
    """The ids of parties.

    Raises:
        UsageError: one is invalid, reserved or repeated.
    """
    try:
        names = [party_id(name) for name in parties]
    except ValueError as error:
        raise UsageError(str(error)) from error
    if len({AGGREGATOR, *names}) != len(names) + 1:
        repeated = next(name for name, times in Counter([AGGREGATOR, *names]).items() if times > 1)
        raise UsageError(
            f"party id {repeated!r}: expected distinct names, other than the aggregator's"
        )
    return names


def spare_names(spare: int) -> list[PartyId]:
    """Ids of so many spare places next to named places."""
    width = len(str(spare))
    return [PartyId(f"spare-{number:0{width}}") for number in range(1, spare + 1)]


def member_files(
    charter: CharterFile,
    roster: Roster,
    authority: Authority,
    *,
    whole_roster: bool,
    without: Collection[PartyId] = (),
) -> Iterator[tuple[PartyId, dict[str, bytes]]]:
    """Every member, and the files of its folder but its key, in the order of the roster.

    Args:
        charter: the terms, with this roster.
        roster: all members.
        authority: issuer of the certificates.
        whole_roster: whether parties need all members.
        without: parties that get no folder.
    """
    agreed = as_json(charter)
    everybody = as_json(RosterFile(roster.members))
    certifying = authority.pem
    for place, (name, key) in enumerate(roster.members):
        if name in without:
            continue
        files = {
            AUTHORITY: certifying,
            CERTIFICATE: authority.issue(name, key),
        }
        if name == AGGREGATOR or whole_roster:
            files[ROSTER] = everybody
        else:
            aggregator = roster.members[0][1]
            files[PLACE] = as_json(
                PlaceFile(name, place, aggregator, roster.membership_proof(place))
            )
        yield name, {**files, CHARTER: agreed}


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Make a private folder with these files."""
    folder.mkdir(PRIVATE_FOLDER)
    for name, content in files.items():
        write_private(folder / name, content)


def write_private(path: Path, content: bytes) -> None:
    """Make a private file, without a sync: the caller syncs all files together.

    Raises:
        FileExistsError: something has that name.
        OSError: it cannot be written.
    """
    descriptor = open_private(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def expect_file(path: Path, command: str) -> None:
    """Check that a file is in a folder that a command makes.

    Raises:
        UsageError: the file is missing; names the command.
    """
    if not path.exists():
        raise UsageError(f"{path}: no such file; 'sottovoce {command}' makes this folder")


def put_files(
    files: Mapping[str, bytes],
    folder: Path,
    source: Path,
    check: Callable[[Path], None],
    otherwise: str,
) -> None:
    """Put the files of a member next to its key; equal files change nothing.

    Args:
        files: contents by name, with the charter.
        folder: the member's, with its key.
        source: origin of the files, for messages.
        check: refuses what does not make a member together with the key; it is given a folder that
            has the files alone.
        otherwise: the error about a file with other content, with a ``{}`` for its name.

    Raises:
        UsageError: ``check`` refuses them, or a file has another content; nothing is put then.
        OSError: a file cannot be written.
    """
    for name, content in files.items():
        if (folder / name).exists() and (folder / name).read_bytes() != content:
            raise UsageError(f"{folder / name}: {otherwise.format(name)}")
    # The key is read in place: a killed program leaves no copy of it.
    with tempfile.TemporaryDirectory() as made:
        new = Path(made)
        for name, content in files.items():
            write_private(new / name, content)
        try:
            check(new)
        except UsageError as error:
            raise UsageError(f"{source}: {str(error).replace(f'{new}{os.sep}', '')}") from error
    # The charter comes last, as it completes a member's folder.
    for name in sorted(files, key=lambda name: name == CHARTER):
        if not (folder / name).exists():
            write_once(folder / name, files[name])


@contextmanager
def appearing_in(out: Path, *, sync: bool = False) -> Generator[Path]:
    """A folder with entries that appear in another folder all at once after the block.

    Args:
        out: folder where they appear; it is made.
        sync: whether they are on disk before.

    Raises:
        OSError: a file cannot be written; none is left.
    """
    make_folder(out)
    with naming(out):
        new = Path(tempfile.mkdtemp(dir=out, prefix=_UNFINISHED))
        try:
            yield new
            if sync:
                os.sync()  # One call for all: 100,000 syncs of single files take minutes.
            for entry in sorted(new.iterdir()):
                os.rename(entry, out / entry.name)
            sync_folder(out)
        finally:
            shutil.rmtree(new, ignore_errors=True)


def remove_unfinished(out: Path) -> None:
    """Remove leftovers of a killed ``appearing_in``, which may contain a key.

    The caller makes sure that no other program uses the folder.

    Raises:
        OSError: it cannot be removed.
    """
    for entry in out.iterdir():
        if entry.name.startswith(_UNFINISHED) and entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)


def valid_days(survey: Survey, days: int | None) -> int:
    """Number of days that the certificates of a survey are valid.

    Args:
        days: the given number; None for a month, or for a month after the survey closes.

    Raises:
        UsageError: they end before the survey, or its closing is past or too far away.
    """
    if survey.closing is None:
        return _AFTERWARDS if days is None else days
    left = survey.closing - datetime.datetime.now(datetime.UTC)
    if left <= datetime.timedelta(0):
        raise UsageError(f"closes {survey.closes}: expected a time to come")
    if left.days + 1 + _AFTERWARDS > MOST_DAYS:
        raise UsageError(
            f"closes {survey.closes}: expected within {MOST_DAYS - _AFTERWARDS:,} days from now"
        )
    if days is not None and datetime.timedelta(days) < left:
        raise UsageError(f"--days {days}: the survey closes in {left.days + 1:,} days")
    return left.days + 1 + _AFTERWARDS if days is None else days


def new_authority(days: int) -> Authority:
    """The certificate authority of a survey, with a new key, valid from now on for some days."""
    now = datetime.datetime.now(datetime.UTC)
    key = Ed25519PrivateKey.generate()
    return Authority(key, now=now, days=days)


def make_keys(
    plan: Plan, parties: Sequence[str], out: Path | str, *, days: int | None = None
) -> Charter:
    """Make every member's private folder, keys included, for a rehearsal or a trial.

    The caller holds all private keys until they are handed out.

    Args:
        parties: their names.
        out: the folder for the members' folders, new or empty; they appear all at once.
        days: days for which certificates are valid.

    Returns:
        The charter.

    Raises:
        UsageError: an invalid or repeated name, too few parties for the variant, messages too large
            for a transcript, or a folder that is not empty.
        OSError: a file cannot be written; none is left.
    """
    out = Path(out)
    names = party_ids(parties)
    check_parties(plan.variant, names)
    if out.exists() and any(out.iterdir()):
        raise UsageError(f"{out}: exists and is not empty; keys are never overwritten")
    authority = new_authority(valid_days(plan.variant.survey, days))
    identities = {name: Identity(name, os.urandom(SECRET_BYTES)) for name in (AGGREGATOR, *names)}
    roster = Roster(tuple((name, identity.public) for name, identity in identities.items()))
    charter = CharterFile.of(Agreed.planned(plan), roster, ("folder", len(names)))
    with appearing_in(out) as new:
        for name, files in member_files(
            charter, roster, authority, whole_roster=plan.variant.whole_roster
        ):
            key = private_pem(identities[name].private_key)
            write_folder(new / name, {KEY: key, **files})
    return charter.charter(plan.variant, roster)


def as_json(value: object) -> bytes:
    """A value as a file that people can read, too."""
    return msgspec.json.format(msgspec.json.encode(value), indent=1)
