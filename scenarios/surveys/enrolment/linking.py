"""Links by which people answer from a web page: each holds the key of one place on the roster."""

from __future__ import annotations

import base64
import csv
import io
import os
import re
import urllib.parse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from parties.keeping.members import Member, key_secret
from parties.keeping.places import LINK, SPARES, linked, spares
from parties.keeping.writing import PRIVATE_FOLDER
from protocol.crypto.randomness import SECRET_BYTES
from protocol.errors import UsageError
from protocol.messages import AGGREGATOR, PartyId
from protocol.session.charter import Charter
from protocol.session.roster import Identity, Roster
from protocol.session.variant import Variant
from protocol.surveys.survey import Survey
from scenarios.running.making import ANSWERED_BY_PAGES
from scenarios.surveys.enrolment.agreed import Agreed, CharterFile, check_parties
from scenarios.surveys.enrolment.folders import (
    appearing_in,
    as_json,
    expect_file,
    member_files,
    new_authority,
    party_ids,
    put_files,
    valid_days,
    write_folder,
    write_private,
)
from scenarios.surveys.enrolment.letters import read_untrusted
from scenarios.surveys.members import (
    AUTHORITY,
    CERTIFICATE,
    CHARTER,
    KEY,
    ROSTER,
    read_member,
    tls_context,
)
from scenarios.surveys.survey_plan import Plan
from transports.certificates import private_pem
from transports.tls import server_context

LINKS, PARTIES = "links", "parties"
"""The folders of what is handed out: links, and the folders of parties that have none."""

TABLE, PAGE = "links.csv", "links.html"
"""The files of links: to be merged into letters, and to be printed."""

_LARGEST_FILE = 1 << 25
_HOST = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)*[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")
_TRIALS = ("localhost", "127.0.0.1")


class Link(msgspec.Struct, frozen=True):
    """A secret link for one person; whoever has it can answer in that person's place.

    Args:
        place: the id of the place on the roster.
        url: with the place's key in it.
        spare: whether it is kept back, to be handed out in another one's place.
    """

    place: PartyId
    url: str
    spare: bool

    def __repr__(self) -> str:
        return f"<Link of {self.place}>"


class Places(NamedTuple):
    """Places of a roster, in its order after the aggregator.

    Args:
        linked: ids of the places that are answered through links.
        spare: ids of the places whose links are kept back.
        parties: ids of the others, who get folders.
    """

    linked: Sequence[str]
    spare: Sequence[str] = ()
    parties: Sequence[str] = ()


def numbered(count: int, spare: int) -> tuple[list[str], list[str]]:
    """Ids of places and of spare places, numbered from 1 with leading zeros."""
    width = len(str(count + spare))
    names = [f"p-{number:0{width}}" for number in range(1, count + spare + 1)]
    return names[:count], names[count:]


def address_of_page(url: str) -> str:
    """The address of a page, ``https://HOST/``, as all links begin.

    Raises:
        UsageError: the URL is malformed. For trials, ``http`` is accepted for this machine.
    """
    wrong = UsageError(
        f"--url {url!r:.200}: expected https://HOST/, or for a trial http://localhost:PORT/"
    )
    if "#" in url:
        raise UsageError("--url: expected the address up to the #; what follows it is secret")
    if not url.isprintable() or " " in url:
        raise wrong
    try:
        parts = urllib.parse.urlsplit(url)
        given, port = parts.hostname or "", parts.port
        host = given.encode("idna").decode() if given else ""
    except (ValueError, UnicodeError) as error:
        raise wrong from error
    trial = parts.scheme == "http" and host in _TRIALS and port
    if not (parts.scheme == "https" or trial) or not _HOST.fullmatch(host):
        raise wrong
    colon = "" if port is None else f":{port}"
    if parts.netloc.lower() != f"{given}{colon}":
        raise wrong
    if parts.path not in ("", "/") or set("?#") & set(url):
        raise UsageError(f"--url {url!r:.200}: expected nothing after the host, the links add it")
    return f"{parts.scheme}://{host}{colon}/"


def make_links(
    plan: Plan,
    places: Places,
    out: Path,
    *,
    url: str,
    page: Callable[[Survey, Sequence[Link]], str],
    organiser: bytes | None = None,
    days: int | None = None,
) -> tuple[Charter, Sequence[Link]]:
    """Draw a key for every place, seal the roster, and write a link for each.

    The caller holds all respondents' keys until the links are handed out and deleted.

    Args:
        places: on its roster.
        out: the folder for the aggregator's folder, the links and the parties' folders, new or
            empty; they appear all at once.
        url: the address of the page.
        page: makes the page of links to print.
        organiser: the aggregator's public key; None to draw one.
        days: days for which certificates are valid; by default until a month after the closing.

    Returns:
        The charter, and the links in the roster's order.

    Raises:
        UsageError: a plan that no page can answer or that has no quorum or closing, a closing that
            is past, an invalid or repeated id, too few parties, a key that nobody can have, or a
            folder that is not empty.
        OSError: a file cannot be written; none is left.
    """
    check_linked(plan.variant, pinned=plan.pin is not None)
    days = valid_days(plan.variant.survey, days)
    address = address_of_page(url)
    names = party_ids([*places.linked, *places.spare, *places.parties])
    kept = {*places.spare}
    # A spare place stands in for another one.
    check_parties(plan.variant, [name for name in names if name not in kept])
    check_parties(plan.variant, names)
    if out.exists() and any(out.iterdir()):
        raise UsageError(f"{out}: exists and is not empty; keys are never overwritten")
    keys = {name: os.urandom(SECRET_BYTES) for name in (AGGREGATOR, *names)}
    identities = {name: Identity(name, secret) for name, secret in keys.items()}
    publics = {name: identity.public for name, identity in identities.items()}
    if organiser is not None:
        publics[AGGREGATOR] = organiser
        del identities[AGGREGATOR]
    try:
        roster = Roster(tuple(publics.items()))
    except ValueError as error:
        raise UsageError(f"--organiser: {error}") from error
    by_folder = len(places.parties)
    written = CharterFile.of(
        Agreed.planned(plan), roster, (LINK, len(names) - by_folder), ("folder", by_folder)
    )
    charter = written.charter(plan.variant, roster)
    links = [
        Link(name, _link(address, name, keys[name], charter.survey_id), name in kept)
        for name in linked(charter)
    ]
    folders = member_files(
        written,
        roster,
        new_authority(days),
        whole_roster=plan.variant.whole_roster,
        without={link.place for link in links},
    )
    with appearing_in(out, sync=True) as new:
        for folder in (LINKS, *((PARTIES,) if places.parties else ())):
            (new / folder).mkdir(PRIVATE_FOLDER)
        for name, files in folders:
            own = {KEY: private_pem(identities[name].private_key)} if name in identities else {}
            if name == AGGREGATOR:
                own[SPARES] = as_json(places.spare)
            write_folder(new / (name if name == AGGREGATOR else f"{PARTIES}/{name}"), own | files)
        write_private(new / LINKS / TABLE, _table(links).encode())
        write_private(new / LINKS / PAGE, page(plan.variant.survey, links).encode())
    return charter, links


def make_key(folder: Path) -> Identity:
    """Make the organiser's own key, for links that somebody else makes.

    Args:
        folder: new or empty.

    Raises:
        UsageError: the folder is not empty.
        OSError: the key cannot be written; none is left.
    """
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder}: exists and is not empty; keys are never overwritten")
    organiser = Identity(AGGREGATOR, os.urandom(SECRET_BYTES))
    with appearing_in(folder, sync=True) as new:
        write_private(new / KEY, private_pem(organiser.private_key))
    return organiser


def take(made: Path, folder: Path) -> Member:
    """Put an aggregator's folder made by somebody else next to the organiser's key.

    Repeating it with the same folder changes nothing.

    Args:
        made: the folder that was received.
        folder: the organiser's, with its key.

    Raises:
        UsageError: what was received is malformed, not for this key, or of another survey than was
            taken before.
        OSError: a file cannot be read or written.
    """
    key = folder / KEY
    expect_file(key, "links --key")
    key_secret(key.read_bytes(), key)
    names = (AUTHORITY, CERTIFICATE, ROSTER, SPARES, CHARTER)
    files = {name: read_untrusted(made / name, _LARGEST_FILE) for name in names}

    def check(new: Path) -> None:
        member = read_member(new, key=key)
        if member.identity.name != AGGREGATOR:
            raise UsageError(
                f"{key} is on its roster as {member.identity.name!r}, not {AGGREGATOR!r}"
            )
        check_linked(member.charter.variant, pinned=member.charter.code is not None)
        tls_context(new, server_context, key=key)
        if not {*spares(new)} <= {*linked(member.charter)}:
            raise UsageError(f"{SPARES}: expected places that have links")

    put_files(files, folder, made, check, "another survey was taken into this folder before")
    return read_member(folder)


def check_linked(variant: Variant, *, pinned: bool = False) -> None:
    """Refuse surveys that people cannot answer through links until they close.

    Args:
        pinned: whether the variant is in a file of its own.

    Raises:
        UsageError: the survey cannot be answered through links.
    """
    can = f"expected one of {', '.join(ANSWERED_BY_PAGES)}"
    if pinned:
        raise UsageError(f"variant {variant.name!r}: no page can run a file of your own; {can}")
    if variant.name not in ANSWERED_BY_PAGES:
        raise UsageError(
            f"variant {variant.name!r}: it asks in several rounds, and a page answers once; {can}"
        )
    if variant.max_records != 1:
        raise UsageError(
            f"max_records = {variant.max_records}: expected 1, for whoever has a link could speak "
            "for so many people"
        )
    if variant.quorum is None:
        raise UsageError(
            "the plan has no quorum: expected how many people must answer, for the half of all who "
            "are invited seldom do"
        )
    if variant.survey.closing is None:
        raise UsageError(
            "the plan has no closes: expected until when answers are taken, such as "
            "closes = 2026-12-15T18:00:00Z"
        )
    if variant.patience is not None:
        raise UsageError(
            f"patience = {variant.patience:g}: expected none, for the survey closes at "
            f"{variant.survey.closes}, and not before"
        )


def _link(address: str, place: str, seed: bytes, survey: bytes) -> str:
    return f"{address}#{place}.{_base64(seed)}.{_base64(survey)}"


def _base64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _table(links: Sequence[Link]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("place", "link", "spare"))
    writer.writerows((link.place, link.url, "yes" if link.spare else "no") for link in links)
    return text.getvalue()
