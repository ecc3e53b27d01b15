"""``sottovoce audit``: what a transcript, and keys that are handed to the auditor, say together."""

from __future__ import annotations

from pathlib import Path

import click

from protocol.accounting.composition import Composition
from protocol.audit.at_delta import WorstRespondent, worst_respondent
from protocol.audit.audit import Audit
from protocol.audit.coalition.judge import CoalitionReading, CoalitionSearch
from protocol.audit.ledger import Account
from protocol.audit.linkage import link
from protocol.errors import UnsupportedEventError
from protocol.messages import AGGREGATOR, PartyId
from protocol.session.variant import settled
from protocol.surveys.limits import Held
from protocol.transcript.header import charter_of
from scenarios.cli.conspirators import SilentTaps, coalition_of, stranger
from scenarios.cli.inspect import reader_of
from scenarios.cli.options import (
    FILE,
    FOLDER,
    Amount,
    checkpoint_option,
    digest_option,
    json_option,
    print_json,
    print_report,
    transcript_argument,
    variant_option,
)
from scenarios.deployment.disclosures import disclosures
from scenarios.files.checkpoints import read_checkpoint
from scenarios.files.transcripts import open_transcript
from scenarios.files.writing import write_whole
from scenarios.report.rounds import RoundWriter
from scenarios.report.statement.judged import Judged
from scenarios.running.errors import UsageError
from scenarios.running.loading import built_in_variant, find_variant

_ALONE = "--tap and --key are ignored by --worst"

DELTA = 1e-6
"""The delta of the tighter figure, unless another one is asked for."""


@click.command()
@transcript_argument
@click.option(
    "--observer",
    default=AGGREGATOR,
    show_default=True,
    metavar="MEMBER",
    help="Whose knowledge to account for: the aggregator, a party, or 'record' for whoever holds "
    "the transcript.",
)
@variant_option
@click.option("--trail", metavar="PARTY", help="Show the messages behind one party's figures.")
@click.option(
    "--coalition",
    "coalition",
    multiple=True,
    metavar="A,B,C",
    help="The members who conspire: say what they know together.",
)
@click.option(
    "--tap",
    "taps",
    multiple=True,
    metavar="X-Y",
    help="A wire that the coalition taps, between two members (X:Y if names have hyphens); repeat "
    "for each.",
)
@click.option(
    "--key",
    "keys",
    multiple=True,
    metavar="MEMBER",
    help="Also give the coalition this member's keys: it can open boxes to or from the member and "
    "knows its masks; repeat for each.",
)
@click.option(
    "--worst",
    type=click.IntRange(min=0),
    metavar="C",
    help="Search for the most damaging coalition of the aggregator and C parties, without --tap "
    "and --key.",
)
@click.option(
    "--replay",
    is_flag=True,
    help="Say what a replay of parties takes if none was replayed; the aggregator always is.",
)
@click.option(
    "--member",
    "members",
    multiple=True,
    type=FOLDER,
    help="The folder of a member, as 'sottovoce keys' made it, to replay the member with its keys; "
    "repeat for each.",
)
@click.option(
    "--records",
    multiple=True,
    metavar="[PARTY=]FILE",
    help="A CSV file to replay parties from: for a simulation everybody's records, else those of a "
    "party whose --member folder is given. Whether the records are true cannot be shown.",
)
@click.option(
    "--delta",
    type=Amount(min=0, max=1, max_open=True),
    default=DELTA,
    show_default=True,
    help="The probability with which the tighter epsilon may not hold.",
)
@click.option(
    "--pld", is_flag=True, help="Add a second opinion on the tighter epsilon, by dp-accounting."
)
@click.option(
    "--html",
    type=FILE,
    help="An HTML file to write the audit into, as one page.",
)
@digest_option
@checkpoint_option
@json_option
def audit(
    transcript: Path,
    observer: str,
    variant: str | None,
    trail: str | None,
    coalition: tuple[str, ...],
    taps: tuple[str, ...],
    keys: tuple[str, ...],
    worst: int | None,
    replay: bool,
    members: tuple[Path, ...],
    records: tuple[str, ...],
    delta: float,
    pld: bool,
    html: Path | None,
    digest: bytes | None,
    checkpoint: Path | None,
    as_json: bool,
) -> int:
    """Audit TRANSCRIPT: who was counted, what was learned, and whether the result follows.

    Exit 0 if the record is intact and its result follows, 1 if not. It takes the file alone, and
    optionally the keys and records that members hand to the auditor.
    """
    opened = open_transcript(transcript)
    if html is not None and html.exists() and html.samefile(transcript):
        raise UsageError(f"--html {html}: is the transcript itself")
    reader = reader_of(opened, transcript)
    header = reader.header
    # What a transcript says is looked up, never loaded.
    cls = built_in_variant(header.variant) if variant is None else find_variant(variant)
    charter = charter_of(header, cls)
    conspirators = coalition_of(charter.roster, coalition, taps, keys)
    if trail is not None and trail not in charter.roster:
        raise UsageError(f"--trail: {stranger(charter.roster, trail)}")
    disclosed = list(disclosures(charter, seed=header.seed, folders=members, records=records))
    silent, known, searched = SilentTaps(conspirators), None, None
    if conspirators is not None:
        known = CoalitionReading(charter, conspirators, Held(lambda: reader.stored))
    if worst is not None:
        searched = CoalitionSearch(charter, worst, Held(lambda: reader.stored))
    rounds = None if html is None else RoundWriter(charter.roster)
    found = opened.audit(
        cls,
        observer=PartyId(observer),
        digest=digest,
        checkpoint=None if checkpoint is None else read_checkpoint(checkpoint),
        disclosed=disclosed,
        reader=reader,
        folds=[each for each in (known, searched, silent, rounds) if each is not None],
    )
    respondent, no_delta = None, ""
    try:
        respondent = worst_respondent(found.ledger, delta, settled=settled(found.charter.variant))
    except UnsupportedEventError as error:
        what = "not computed, nor a second opinion" if pld else "not computed"
        no_delta = f"at delta {delta:g}: {what}: {error}"
    judged = Judged(
        file=transcript.name,
        header=header,
        audit=found,
        account=None if trail is None else _account(found, trail),
        worst_respondent=respondent,
        no_delta=no_delta,
        second_opinions=_second_opinions(respondent, delta) if pld else (),
        linkage=link(found.ledger),
        coalition=None if known is None else known.found(),
        worst=None if searched is None else searched.worst_coalition(),
        coalition_notes=silent.notes,
        worst_notes=(_ALONE,) if taps or keys else (),
        notes=_notes(found) if replay else (),
    )
    if html is not None and rounds is not None:
        from scenarios.report.page.page import page

        html.parent.mkdir(parents=True, exist_ok=True)
        write_whole(html, page(judged, rounds.rounds()))
    if as_json:
        from scenarios.report.values import judged_values

        print_json(judged_values(judged))
    else:
        from scenarios.report.statement.statement import statement
        from scenarios.report.terminal.statement import statement_report

        print_report(statement_report(statement(judged)))
        if html is not None:
            click.echo(f"written: {html}")
    return 0 if found.accepted else 1


def _account(found: Audit, party: str) -> Account:
    account = found.ledger.accounts.get(PartyId(party))
    if account is None:
        raise UsageError(f"{found.ledger.observer!r} learned nothing from a party {party!r}")
    return account


def _second_opinions(worst: WorstRespondent | None, delta: float) -> tuple[Composition, ...]:
    """The same messages judged by ``dp-accounting``, whose figures bracket the true one.

    Raises:
        UsageError: it is not installed, or cannot be asked at this delta.
    """
    from protocol.accounting.pld import opinion
    from scenarios.report.terminal.privacy import seconded

    if worst is None:
        return ()
    try:
        found = opinion(worst.pairs, delta)
    except (ImportError, ValueError) as error:
        raise UsageError(f"--pld: {error}") from error
    return (seconded(worst.composition, found),)


def _notes(found: Audit) -> tuple[str, ...]:
    if found.replays:
        return ()
    hint = "--records FILE" if found.simulated else "--member FOLDER and --records PARTY=FILE"
    return (f"no party's words were replayed: that takes its records and its keys ({hint})",)
