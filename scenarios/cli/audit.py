"""``sottovoce audit``: what a transcript, and keys that are handed to the auditor, say together."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec

from protocol.accounting.composition import Composition
from protocol.audit.at_delta import WorstRespondent, worst_respondent
from protocol.audit.audit import Audit
from protocol.audit.coalition.finding import CoalitionFinding, WorstCoalition
from protocol.audit.coalition.judge import CoalitionReading, CoalitionSearch
from protocol.audit.ledger import Account
from protocol.audit.linkage import Linkage, link
from protocol.errors import UnsupportedEventError
from protocol.messages import AGGREGATOR, PartyId
from protocol.session.variant import settled
from protocol.surveys.limits import Held
from protocol.transcript.entries import Header
from protocol.transcript.header import charter_of
from scenarios.cli.conspirators import SilentTaps, coalition_of, stranger
from scenarios.cli.inspect import (
    bytes_of,
    checkpoint_option,
    digest_option,
    json_option,
    print_json,
    reader_of,
    transcript_argument,
)
from scenarios.cli.survey import Amount
from scenarios.deployment.disclosures import disclosures
from scenarios.files.checkpoints import read_checkpoint
from scenarios.files.transcripts import open_transcript
from scenarios.files.writing import write_whole
from scenarios.report.rounds import RoundWriter
from scenarios.running.errors import UsageError
from scenarios.running.loading import built_in_variant, find_variant

_ALONE = "the search has no taps and no keys of others: those that were given are not in it"

DELTA = 1e-6
"""The delta of the tighter figure, unless another one is asked for."""


class Judged(NamedTuple):
    """All that was asked for.

    Args:
        no_delta: why the tighter figure at a delta is missing; empty if it is there, or not needed.
        coalition_notes, worst_notes: what a reader has to know of what was asked.
        notes: what could not be looked at, and why.
    """

    header: Header
    audit: Audit
    account: Account | None
    worst_respondent: WorstRespondent | None
    no_delta: str
    second_opinions: tuple[Composition, ...]
    linkage: Linkage
    coalition: CoalitionFinding | None
    worst: WorstCoalition | None
    coalition_notes: tuple[str, ...]
    worst_notes: tuple[str, ...]
    notes: tuple[str, ...]


@click.command()
@transcript_argument
@click.option(
    "--observer",
    default=AGGREGATOR,
    show_default=True,
    metavar="MEMBER",
    help="Whose knowledge is accounted for: the aggregator, a party, or 'record' for whoever "
    "holds the transcript.",
)
@click.option(
    "--variant",
    metavar="PATH.py:Class",
    help="The class of a variant of your own; a built-in one is found by its name.",
)
@click.option("--trail", metavar="PARTY", help="Show the messages behind one party's figures.")
@click.option(
    "--coalition",
    "coalition",
    multiple=True,
    metavar="A,B,C",
    help="Who conspires: what these members know together. Of several, all of them together.",
)
@click.option(
    "--tap",
    "taps",
    multiple=True,
    metavar="X-Y",
    help="The wire between two members, which the coalition reads besides; repeat for each. X:Y "
    "where names have hyphens.",
)
@click.option(
    "--key",
    "keys",
    multiple=True,
    metavar="MEMBER",
    help="A member whose keys the coalition has besides: what is sealed for or by it is open, its "
    "masks are known; repeat for each.",
)
@click.option(
    "--worst",
    type=click.IntRange(min=0),
    metavar="C",
    help="Search for the most damaging coalition of the aggregator and C parties; it has no taps "
    "and no keys of others.",
)
@click.option(
    "--replay",
    is_flag=True,
    help="Say so if no party's words were replayed, and what that takes. The aggregator's always "
    "are.",
)
@click.option(
    "--member",
    "members",
    multiple=True,
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="A member's folder, as 'sottovoce keys' made it: its words are replayed with its keys. "
    "Repeat for each.",
)
@click.option(
    "--records",
    multiple=True,
    metavar="[PARTY=]FILE",
    help="A CSV file: of a simulation everybody's records, else those of a party whose folder is "
    "given too. Their words are replayed from it; that these are the true records is not shown.",
)
@click.option(
    "--delta",
    type=Amount(min=0, max=1, max_open=True),
    default=DELTA,
    show_default=True,
    help="At which the tighter epsilon is given: the probability with which it may not hold.",
)
@click.option(
    "--pld", is_flag=True, help="Add a second opinion on the tighter epsilon, by dp-accounting."
)
@click.option(
    "--html",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write all of it as one page of HTML.",
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
    digest: str | None,
    checkpoint: Path | None,
    as_json: bool,
) -> int:
    """Judge TRANSCRIPT: who was counted, what was learned, and whether the result follows.

    Exit 0 if the record is intact and its result follows, 1 if not. It works from the file alone,
    and from the keys and records that members hand to the auditor.
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
        digest=bytes_of(digest),
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
        _write_page(transcript, judged, rounds, html)
    if as_json:
        print_json(_values(judged))
    else:
        _print(judged)
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

    if worst is None:
        return ()
    try:
        found = opinion(worst.pairs, delta)
    except (ImportError, ValueError) as error:
        raise UsageError(f"--pld: {error}") from error
    cells = f", with losses in cells of {found.interval:.1g}" if found.interval else ""
    least = "infinite" if math.isinf(found.lower) else f"at least {found.lower:.6g}"
    return (
        msgspec.structs.replace(
            worst.composition,
            epsilon=found.epsilon,
            method=f"second opinion, by dp-accounting: {least}{cells}",
            tight=False,
        ),
    )


def _notes(found: Audit) -> tuple[str, ...]:
    if found.replays:
        return ()
    hint = "--records FILE" if found.simulated else "--member FOLDER and --records PARTY=FILE"
    return (f"no party's words were replayed: that takes its records and its keys ({hint})",)


def _write_page(transcript: Path, judged: Judged, rounds: RoundWriter, path: Path) -> None:
    from scenarios.report.page.page import page

    worst = judged.worst_respondent
    text = page(
        judged.audit,
        title=judged.audit.charter.variant.survey.title,
        transcript_name=transcript.name,
        header=judged.header,
        rounds=rounds.rounds(),
        coalition=judged.coalition,
        worst=judged.worst,
        coalition_notes=judged.coalition_notes,
        linkage=judged.linkage,
        composition=() if worst is None else (worst.composition, *judged.second_opinions),
        everybody=worst is not None and worst.everybody,
        no_delta=judged.no_delta,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, text)


def _values(judged: Judged) -> dict[str, Any]:
    from scenarios.report.coalition import coalition_values, linkage_values, worst_values
    from scenarios.report.values import account_values, audit_values, worst_respondent_values

    values = audit_values(judged.audit)
    worst = judged.worst_respondent
    if worst is not None:
        values["privacy"]["at_delta"] = worst_respondent_values(worst, judged.second_opinions)
    elif judged.no_delta:
        values["privacy"]["at_delta"] = {"exact": None, "others": [], "missing": judged.no_delta}
    values["linkage"] = linkage_values(judged.linkage)
    if judged.coalition is not None:
        values["coalition"] = coalition_values(judged.coalition, notes=judged.coalition_notes)
    if judged.worst is not None:
        values["worst"] = worst_values(judged.worst, notes=judged.worst_notes)
    if judged.account is not None:
        values["trail"] = account_values(judged.account)
    return values


def _print(judged: Judged) -> None:
    from rich.console import Console

    from scenarios.report.coalition import coalition_lines, linkage_lines, worst_lines
    from scenarios.report.judgement import audit_report, lines_report, trail_report

    console = Console(soft_wrap=True)
    parts = audit_report(
        judged.audit,
        notes=judged.notes,
        worst=judged.worst_respondent,
        no_delta=judged.no_delta,
        others=judged.second_opinions,
    )
    for part in parts:
        console.print(part)
    sections = [("Linkage", linkage_lines(judged.linkage))]
    # Why nothing bounds a figure is said once.
    said = set(judged.audit.ledger.unbounded)
    partial = judged.audit.partial
    if (found := judged.coalition) is not None:
        lines = coalition_lines(found, notes=judged.coalition_notes, said=said, partial=partial)
        sections.append(("Coalition", list(lines)))
        said.update(found.ledger.unbounded)
    if judged.worst is not None:
        lines = worst_lines(judged.worst, notes=judged.worst_notes, said=said, partial=partial)
        sections.append(("The worst coalition", list(lines)))
    for title, lines in sections:
        for part in lines_report(title, lines):
            console.print(part)
    if judged.account is not None:
        console.print(trail_report(judged.account))
