"""``sottovoce invite``, ``join``, ``admit``, ``seal``, ``accept`` and ``keys``: enrolment."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import click

from protocol.errors import UsageError
from protocol.messages import AGGREGATOR
from protocol.transcript.checkpoints import log_origin
from scenarios.cli.numbers import Whole
from scenarios.cli.options import out_option, own_variant_option, print_facts
from scenarios.cli.paths import NEW_FOLDER, READ_FILE, READ_FOLDER, READ_PATH
from scenarios.cli.values import F
from scenarios.errors import printable
from scenarios.files.budget import within_usual_budget
from scenarios.surveys.enrolment.agreed import MOST_PARTIES
from scenarios.surveys.enrolment.folders import MOST_DAYS, make_keys
from scenarios.surveys.enrolment.joining import accept as accepted_by
from scenarios.surveys.enrolment.joining import join as joined_by
from scenarios.surveys.enrolment.organising import (
    ADMISSIONS,
    INVITATIONS,
    POOL,
    SEALED,
    invite_again,
)
from scenarios.surveys.enrolment.organising import admit as admitted_by
from scenarios.surveys.enrolment.organising import invite as invited_by
from scenarios.surveys.enrolment.organising import seal as sealed_by
from scenarios.surveys.preflight import Known, survey_facts
from scenarios.surveys.survey_plan import read_plan
from scenarios.wording.announced import described
from scenarios.wording.formatting import count as counted
from scenarios.wording.withstanding import coins_sentence, sums_sentences

_LARGEST_LIST = 1 << 24

_organiser = click.argument("folder", type=READ_FOLDER)
_days = click.option(
    "--days",
    type=Whole(1, MOST_DAYS),
    help="Number of days that the certificates are valid, from now on; by default 30, and until 30 "
    "days after a survey closes.",
)


def _party_options(command: F) -> F:
    options = (
        click.option(
            "--party",
            "parties",
            multiple=True,
            metavar="ID",
            help="The name of a party; repeat for each, or give --count or --names.",
        ),
        click.option(
            "--count",
            type=Whole(1, MOST_PARTIES),
            metavar="N",
            help="Number of parties, named party-1 to party-N (with leading zeros).",
        ),
        click.option(
            "--names", type=READ_FILE, help="A file with the name of a party in each line."
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def _party_names(parties: tuple[str, ...], count: int | None, names: Path | None) -> Sequence[str]:
    if bool(parties) + bool(count) + bool(names) != 1:
        raise UsageError("expected --party ID for each party, or --count N, or --names FILE")
    if count:
        width = len(str(count))
        return [f"party-{i:0{width}}" for i in range(1, count + 1)]
    return parties if names is None else listed_in(names)


def listed_in(names: Path) -> Sequence[str]:
    """The ids in a file, one in each line.

    Raises:
        UsageError: the text is too long, or not ASCII.
        OSError: it cannot be read.
    """
    with names.open("rb") as file:
        content = file.read(_LARGEST_LIST + 1)
    if len(content) > _LARGEST_LIST:
        raise UsageError(f"{names}: expected at most {_LARGEST_LIST:,} bytes")
    try:
        return content.decode("ascii").split()
    except UnicodeDecodeError as error:
        raise UsageError(f"{names}: expected ids of a-z, 0-9 and hyphens") from error


@click.command()
@click.argument("plan", type=READ_PATH)
@_party_options
@click.option(
    "--out",
    type=NEW_FOLDER,
    help="The organiser's folder, new or empty.",
)
@click.option(
    "--again",
    metavar="ID",
    help="With the organiser's folder in place of PLAN: draw a new invitation for this party. The "
    "earlier one, and a request made with it, become void.",
)
def invite(
    plan: Path,
    parties: tuple[str, ...],
    count: int | None,
    names: Path | None,
    out: Path | None,
    again: str | None,
) -> None:
    """Draw a one-time invitation to the survey of PLAN, a TOML file, for every party.

    Hand each to its party alone, over a way that you trust: whoever uses it first has the place.
    """
    if again is not None:
        if parties or count or names or out is not None:
            raise UsageError("--again: expected the organiser's folder and nothing else")
        path = invite_again(plan, again)
        click.echo(printable(f"{path}: a new invitation; the one before no longer counts"))
        return
    if out is None:
        raise UsageError("expected --out FOLDER, for the invitations")
    invitation = invited_by(read_plan(plan), _party_names(parties, count, names), out)
    click.echo(f"a file for each party is in {out / INVITATIONS}; hand it to that party alone")
    click.echo(f"the organiser's key: {invitation.organiser.hex()}")


@click.command()
@click.argument("invitation", type=READ_FILE)
@own_variant_option
@out_option("The folder for this party's keys, new or empty.")
def join(invitation: Path, variant: str | None, out: Path) -> None:
    """Make a party's own keys in a folder, and the request to be admitted with them.

    It shows what will be asked, and at what cost. The private key stays in the folder.
    """
    with within_usual_budget(invitation):
        joined = joined_by(invitation, out, variant)
        agreed = joined.invitation.agreed
        facts = [*survey_facts(joined.variant, agreed.analysis)]
    print_facts(
        [
            Known("member", f"{joined.invitation.party}, once admitted."),
            *facts,
            Known("organiser", f"has the key {joined.invitation.organiser.hex()}."),
        ]
    )
    click.echo(f"hand {joined.request} to the organiser; the rest of {out} is for you alone")


@click.command()
@_organiser
@click.argument("requests", type=READ_PATH, nargs=-1, required=True)
def admit(folder: Path, requests: tuple[Path, ...]) -> int:
    """Admit whoever made one of REQUESTS, files or folders of files.

    FOLDER is the organiser's. A request whose invitation was used before, with another key, is
    refused, and a file is written that proves it. Once the roster is sealed, whoever asks gets one
    of its spare places. Exit 1 if anything was refused.
    """
    found = admitted_by(folder, requests)
    for path, why in found.refused:
        click.echo(printable(f"{path}: refused: {why}"))
    for party, place in found.late:
        click.echo(
            f"{party} comes late: hand {place} to it alone; it answers from that folder. You drew "
            "the key in it."
        )
    click.echo(
        f"{found.new:,} admitted, {found.before:,} admitted before, {len(found.refused):,} "
        f"refused; in all {found.total:,} of {found.invited:,} who are invited"
    )
    return 1 if found.refused else 0


@click.command()
@_organiser
@own_variant_option
@_days
@click.option(
    "--spare",
    type=Whole(0, MOST_PARTIES),
    default=0,
    metavar="K",
    help="Number of spare places for invited parties that ask later: 'admit' hands them out. You "
    "draw their keys, so you could answer in such a place until its party does.",
)
def seal(folder: Path, variant: str | None, days: int | None, spare: int) -> None:
    """Fix the roster: all who are admitted take part, and nobody else.

    FOLDER is the organiser's. It gets the aggregator's folder and an admission for every party.
    """
    charter = sealed_by(folder, variant, days=days, spare=spare)
    parties = counted(len(charter.roster) - 1 - spare, "party", "parties")
    root = f"its root is {charter.roster.root.hex()}"
    more = f" and {counted(spare, 'spare place')}" if spare else ""
    click.echo(f"the roster is sealed, with {parties}{more}; {root}")
    if spare:
        click.echo(
            f"spare places are in {folder / SEALED / POOL}: 'sottovoce admit' says which to hand "
            "to whom; you hold their keys"
        )
    click.echo(f"hand each file in {folder / SEALED / ADMISSIONS} to its party")
    aggregator = shlex.quote(str(folder / SEALED / AGGREGATOR))
    hold = f"sottovoce aggregate {aggregator} --listen 0.0.0.0:7001 --out result"
    click.echo(f"hold the survey with, for instance: {hold}")
    origin = log_origin(charter.session, charter.roster.key(AGGREGATOR))
    click.echo(f"for a witness: --trust {origin}")


@click.command()
@click.argument("folder", type=READ_FOLDER)
@click.argument("answer", type=READ_FILE)
@own_variant_option
def accept(folder: Path, answer: Path, variant: str | None) -> int:
    """Put the organiser's ANSWER to a request into FOLDER, the party's.

    Exit 0 if the party is admitted, and 1 if somebody else had used its invitation before.
    """
    with within_usual_budget(answer):
        accepted = accepted_by(folder, answer, variant)
    keys = ", ".join(claim.key.hex() for claim in accepted.claims)
    if accepted.member is None:
        click.echo(f"refused: somebody else used your invitation before you, with the key {keys}")
        click.echo("tell the organiser, over another way, and ask for a new invitation")
        return 1
    roster = accepted.member.charter.roster
    parties = counted(len(roster) - 1, "party", "parties")
    click.echo(f"admitted as {accepted.member.identity.name}, in a survey of {parties}")
    asked = accepted.member.charter.variant
    for said in sums_sentences(asked, len(roster) - 1):
        click.echo(said)
    if coins := coins_sentence(asked, len(roster) - 1):
        click.echo(coins)
    click.echo(f"the roster's root is {roster.root.hex()}")
    if accepted.claims:
        click.echo(
            f"warning: somebody else used your invitation too, with the key {keys}; the organiser "
            "refused that"
        )
    return 0


@click.command()
@click.argument("plan", type=READ_FILE)
@_party_options
@out_option("The folder for the members' folders, new or empty: keys are never overwritten.")
@_days
def keys(
    plan: Path,
    parties: tuple[str, ...],
    count: int | None,
    names: Path | None,
    out: Path,
    days: int | None,
) -> None:
    """Make everybody's keys for a rehearsal or a trial of the survey that PLAN describes.

    Each member gets its own folder, to be handed to that member alone. Whoever runs this has had
    all private keys; with 'sottovoce invite', parties make their own.
    """
    listed = _party_names(parties, count, names)
    read = read_plan(plan)
    charter = make_keys(read, listed, out, days=days)
    click.echo(f"{len(charter.roster)} folders in {out}; each holds one member's private key")
    if read.pin is not None:
        click.echo(f"every member takes {read.pin.name} in a file with SHA-256 {read.pin.digest}")
    origin = log_origin(charter.session, charter.roster.key(AGGREGATOR))
    if charter.analysis is not None:
        click.echo(printable(f"announced: {described(charter.analysis)}"))
    click.echo(f"for a witness: --trust {origin}")
