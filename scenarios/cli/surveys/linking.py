"""``sottovoce links`` and ``withdraw``: places that people answer for from a web page."""

from __future__ import annotations

import shlex
import urllib.parse
from collections.abc import Sequence
from pathlib import Path

import click

from parties.keeping.places import Withdrawal, linked
from parties.keeping.places import withdraw as withdrawn_by
from protocol.errors import UsageError
from protocol.messages import AGGREGATOR, PartyId
from protocol.session.charter import Charter
from protocol.session.roster import KEY_BYTES
from protocol.surveys.survey import Survey
from protocol.transcript.checkpoints import log_origin
from scenarios.cli.numbers import Whole
from scenarios.cli.options import print_facts, refuse
from scenarios.cli.paths import NEW_FOLDER, READ_FILE, READ_FOLDER, READ_PATH
from scenarios.cli.surveys.answering import folder_argument, member_in
from scenarios.cli.surveys.enrolling import listed_in
from scenarios.cli.values import frozen_options, option, shared, takes
from scenarios.errors import printable, say
from scenarios.files.budget import within_usual_budget
from scenarios.surveys.enrolment.agreed import MOST_PARTIES
from scenarios.surveys.enrolment.folders import MOST_DAYS, spare_names
from scenarios.surveys.enrolment.linking import (
    LINKS,
    PAGE,
    PARTIES,
    TABLE,
    Link,
    Places,
    make_key,
    make_links,
    numbered,
    take,
)
from scenarios.surveys.holding.waiting import waits
from scenarios.surveys.members import CHARTER, ROSTER
from scenarios.surveys.preflight import Known, survey_facts
from scenarios.surveys.survey_plan import read_plan
from scenarios.wording.announced import described
from scenarios.wording.formatting import count as counted

_OF_PLANS = (
    *("--count", "--names", "--spare", "--party", "--url", "--out", "--organiser"),
    *("--no-qr", "--days"),
)

_MANY = 1000
"""Number of QR codes from which a message announces the wait."""


@frozen_options
class LinksOptions:
    """The plan and the options of ``sottovoce links``."""

    plan: Path | None = shared(click.argument("plan", type=READ_PATH, required=False))
    count: int | None = option(
        "--count",
        type=Whole(1, MOST_PARTIES),
        metavar="N",
        help="Number of places, p-1 to p-N (with leading zeros); or give --names.",
    )
    names: Path | None = option(
        "--names",
        type=READ_FILE,
        help="A file with the id of a place in each line. Ids are public: they are in the record.",
    )
    spare: int = option(
        "--spare",
        type=Whole(0, MOST_PARTIES),
        default=0,
        metavar="K",
        help="Number of links more, to be handed out for lost ones.",
    )
    parties: tuple[str, ...] = option(
        "--party",
        multiple=True,
        metavar="ID",
        help="The name of a party that gets a folder and answers with 'sottovoce answer'; repeat "
        "for each.",
    )
    url: str | None = option(
        "--url",
        metavar="https://HOST/",
        help="The address at which people reach the page of 'sottovoce collect'.",
    )
    out: Path | None = option(
        "--out",
        type=NEW_FOLDER,
        help="The folder, new or empty, for the aggregator's folder, the links and the parties' "
        "folders.",
    )
    organiser: bytes | None = option(
        "--organiser",
        metavar="HEX",
        callback=lambda _, __, text: None if text is None else _public_key(text),
        help="The organiser's public key, from 'links --key', if somebody else makes the links: "
        "then the organiser never has a respondent's key.",
    )
    no_qr: bool = option(
        "--no-qr",
        is_flag=True,
        help=f"Put no QR codes into {PAGE}; they need segno.",
    )
    days: int | None = option(
        "--days",
        type=Whole(1, MOST_DAYS),
        help="Number of days that the certificates are valid, by default until 30 days after the "
        "survey closes.",
    )
    key: Path | None = option(
        "--key",
        type=NEW_FOLDER,
        metavar="FOLDER",
        help="Without a plan: make the organiser's own key in FOLDER, new or empty, and print the "
        "public one for the maker of the links.",
    )
    take: Path | None = option(
        "--take",
        type=READ_FOLDER,
        metavar="FOLDER",
        help="With the aggregator's folder that you received in place of PLAN: join it with the "
        "key in FOLDER, which becomes the aggregator's.",
    )


@click.command()
@takes(LinksOptions)
def links(options: LinksOptions) -> None:
    """Make a link for every person who is to answer the survey of PLAN from a web page.

    Each link holds the key of one place. Whoever makes the links can answer in anybody's place;
    --key and --organiser let somebody else than the organiser make them.
    """
    if options.key is not None:
        if options.plan is not None or options.take is not None:
            raise UsageError("--key: expected no PLAN and no --take")
        refuse(_OF_PLANS, ": expected with PLAN, not with --key")
        click.echo(f"the organiser's key: {make_key(options.key).public.hex()}")
        click.echo(f"the private one is in {options.key}; it is for you alone")
        return
    if options.take is not None:
        if options.plan is None:
            raise UsageError("--take: expected the folder that you were sent, too")
        refuse(_OF_PLANS, ": expected with PLAN, not with --take")
        _take(options.plan, options.take)
        return
    if options.plan is None:
        raise UsageError("expected PLAN, or --key FOLDER")
    _make(options, options.plan)


def _make(options: LinksOptions, path: Path) -> None:
    # Imported late: nothing else here draws pages.
    from scenarios.report.page.links import links_page, qr_codes

    out, url = options.out, options.url
    if out is None or url is None:
        raise UsageError("expected --url https://HOST/ and --out FOLDER")
    draw = None if options.no_qr else qr_codes()
    places = _places(options)

    def page(survey: Survey, made: Sequence[Link]) -> str:
        if draw is not None and len(made) >= _MANY:
            say(f"drawing {len(made):,} QR codes")
        return links_page(survey, made, draw)

    charter, made = make_links(
        read_plan(path),
        places,
        out,
        url=url,
        page=page,
        organiser=options.organiser,
        days=options.days,
    )
    spare = f", {len(places.spare):,} of them spare" if places.spare else ""
    click.echo(
        f"{counted(len(made), 'link')}{spare}, in {out / LINKS}: {TABLE} to be merged into letters "
        f"or mail, {PAGE} to be printed"
    )
    click.echo(
        "these two files allow answers in anybody's place, to you as well: hand each link to one "
        "person, keep spare ones until the survey closes, and then delete both files"
    )
    if places.parties:
        folders = counted(len(places.parties), "folder")
        click.echo(f"{folders} in {out / PARTIES}: hand each to its party alone")
    folder = out / AGGREGATOR
    if options.organiser is None:
        _say_next(charter, folder, url)
        return
    click.echo(
        f"hand {folder} to the organiser, who puts it beside the key with: sottovoce links "
        f"{shlex.quote(folder.name)} --take FOLDER"
    )
    _say_origin(charter)


def _places(options: LinksOptions) -> Places:
    if (options.count is None) == (options.names is None):
        raise UsageError("expected --count N, or --names FILE")
    if options.count is not None:
        return Places(*numbered(options.count, options.spare), options.parties)
    assert options.names is not None, "it is given where --count is not"
    return Places(listed_in(options.names), spare_names(options.spare), options.parties)


def _take(made: Path, folder: Path) -> None:
    # The folder's content is untrusted.
    with within_usual_budget(made / CHARTER, made / ROSTER):
        charter = take(made, folder).charter
        facts = [*survey_facts(charter.variant, charter.analysis)]
    parties = counted(len(charter.roster) - 1, "party", "parties")
    print_facts([Known("member", f"{AGGREGATOR}, in a survey of {parties}."), *facts])
    click.echo("the maker of the links can answer in anybody's place until they are deleted there")
    _say_next(charter, folder)


def _say_next(charter: Charter, folder: Path, url: str = "") -> None:
    """Print the command that collects the answers."""
    if charter.analysis is not None:
        click.echo(printable(f"announced: {described(charter.analysis)}"))
    trial = urllib.parse.urlsplit(url).netloc if url.startswith("http:") else ""
    collect = ["sottovoce", "collect", str(folder), "--listen", trial or "127.0.0.1:7080"]
    collect += [] if trial else ["--behind-proxy"]
    if len(linked(charter)) < len(charter.roster) - 1:
        collect += ["--parties", "0.0.0.0:7081"]
    line = shlex.join([*collect, "--out", "result"])
    click.echo(f"collect the answers with, for instance: {line}")
    _say_origin(charter)


def _say_origin(charter: Charter) -> None:
    origin = log_origin(charter.session, charter.roster.key(AGGREGATOR))
    click.echo(f"for a witness: --trust {origin}")


def _public_key(text: str) -> bytes:
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise UsageError(f"--organiser {text!r:.80}: expected 64 hexadecimal digits")
    return key


@click.command()
@folder_argument
@click.argument("place")
@click.option(
    "--reason",
    metavar="TEXT",
    default="",
    help="Why, in a few words. They are in the record.",
)
@click.option(
    "--instead",
    metavar="SPARE",
    help="The spare place that you have handed out for this one.",
)
@click.option(
    "--although-answered",
    is_flag=True,
    help="Let the spare place answer although this one has: somebody else answered in it.",
)
def withdraw(
    folder: Path, place: str, reason: str, instead: str | None, although_answered: bool
) -> None:
    """Take no answer from PLACE any more, because its link or its folder was lost, say.

    FOLDER is the aggregator's, whether a survey is held from it or not. An answer that was given
    stays, and nobody answers in its stead then.
    """
    if although_answered and instead is None:
        raise UsageError("--although-answered: expected --instead too")
    member = member_in(folder, None)
    if member.identity.name != AGGREGATOR:
        raise UsageError(f"{folder}: is {member.identity.name}'s, not the aggregator's")
    another = None if instead is None else PartyId(instead)
    if not waits(member.charter.variant):
        raise UsageError(
            f"{folder}: expected a survey with a closing time; places of others are not withdrawn"
        )
    withdrawal = Withdrawal(PartyId(place), reason, another, although_answered)
    withdrawn_by(folder, member.charter, withdrawal)
    click.echo(f"{place} takes no answer any more; one that it has given stays")
    if instead is not None:
        rest = "" if although_answered else f", unless {place} has answered; then you are told"
        click.echo(f"{instead} is handed out for it{rest}")
