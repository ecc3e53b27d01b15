"""``sottovoce audit``: what a transcript, and keys that are handed to the auditor, say together."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from parties.keeping.writing import prepare_output, write_whole
from protocol.audit.audit import Audit
from protocol.errors import UsageError
from protocol.estimators.inference.words import Intervals
from protocol.messages import AGGREGATOR, PartyId
from protocol.surveys.limits import Held
from protocol.transcript.header import charter_of
from scenarios.cli.conspirators import coalition_of, stranger
from scenarios.cli.estimates import calibration_options, interval_options
from scenarios.cli.numbers import Amount
from scenarios.cli.options import (
    budget_options,
    checkpoint_option,
    digest_option,
    json_option,
    print_json,
    print_statement,
    published_checkpoint,
    transcript_argument,
    variant_option,
    witness_key_option,
    witnesses_option,
)
from scenarios.cli.paths import READ_FILE, READ_FOLDER, TEXT_WITH_FILE, WRITTEN_FILE
from scenarios.cli.transcripts.inspect import code_of, reader_of
from scenarios.running.calibrating import Calibration
from scenarios.running.engines.checking import ChecksMeanwhile
from scenarios.running.loading import variant_of
from scenarios.statement.audits.judging import DELTA, judge
from scenarios.surveys.disclosures import disclosures
from scenarios.surveys.watching.reading import reading
from scenarios.surveys.watching.standings import StandingWriter

_ALONE = "--tap and --key are ignored by --worst"


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
    help="With --html: also show the survey step by step, with a slider over the steps. Only the "
    "page's owner may read it.",
)
@click.option(
    "--member",
    "members",
    multiple=True,
    type=READ_FOLDER,
    help="The folder of a member, as 'sottovoce keys' made it, to replay the member with its keys; "
    "repeat for each.",
)
@click.option(
    "--records",
    multiple=True,
    type=TEXT_WITH_FILE,
    metavar="[PARTY=]FILE",
    help="A CSV or Parquet file to replay parties from: for a simulation everybody's records, else "
    "those of a party whose --member folder is given. Whether the records are true cannot be "
    "shown.",
)
@click.option(
    "--plan",
    type=READ_FILE,
    help="With --records: the plan of the survey, which says how the files are read. By default "
    "their cells are the categories.",
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
    type=WRITTEN_FILE,
    help="An HTML file to write the audit into, as one page.",
)
@calibration_options
@interval_options()
@digest_option
@checkpoint_option
@witness_key_option
@witnesses_option
@json_option
@budget_options
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
    plan: Path | None,
    delta: float,
    pld: bool,
    html: Path | None,
    calibration: Calibration,
    intervals: Intervals,
    digest: bytes | None,
    checkpoint: Path | None,
    witness_keys: tuple[str, ...],
    witnesses: int | None,
    as_json: bool,
) -> int:
    """Audit TRANSCRIPT: who was counted, what was learned, and whether the result follows.

    Exit 0 if the record is sound, that is whole and its result follows, 1 if it is broken, 3 if the
    audit could not be finished, 4 if the record is intact and its result cannot be checked without
    the aggregator's folder (--member). Privacy is a verdict of its own. It takes the file alone,
    and optionally the keys and records that members hand to the auditor.
    """
    if replay and html is None:
        raise UsageError("--replay: expected --html too, for the page that shows the steps")
    with reading(transcript, times=2, silent=as_json) as opened, ChecksMeanwhile() as checks:
        if html is not None:
            from scenarios.report.page.audit import BEGINS

            prepare_output(html, own=BEGINS)
        reader = reader_of(opened, transcript)
        header = reader.header
        cls = variant_of(header, variant)
        charter = charter_of(header, cls)
        conspirators = coalition_of(charter.roster, coalition, taps, keys)
        if trail is not None and trail not in charter.roster:
            raise UsageError(f"--trail: {stranger(charter.roster, trail)}")
        calibration.check(charter.variant.survey)
        published, by = published_checkpoint(checkpoint, witness_keys, witnesses)
        disclosed = list(
            disclosures(
                charter,
                seed=header.seed if isinstance(header.seed, int) else None,
                folders=members,
                records=records,
                plan=plan,
                variant=variant,
            )
        )
        steps = StandingWriter(charter, intervals, Held(lambda: reader.stored)) if replay else None
        judged, rounds = judge(
            opened,
            cls,
            file=transcript.name,
            reader=reader,
            observer=PartyId(observer),
            trail=None if trail is None else PartyId(trail),
            coalition=conspirators,
            worst=worst,
            delta=delta,
            second_opinion=pld,
            digest=digest,
            checkpoint=published,
            cosigned=by,
            disclosed=disclosed,
            intervals=intervals,
            with_rounds=html is not None,
            folds=() if steps is None else (steps,),
            checks=checks,
        )
    judged = replace(
        judged,
        worst_notes=(_ALONE,) if taps or keys else (),
        notes=_notes(judged.audit),
    )
    found = judged.audit
    if calibration.files and found.estimate is not None:
        judged = replace(judged, calibrated=calibration.of(found.estimate))
    from scenarios.statement.audits.audit import statement

    said = statement(judged)
    if html is not None:
        from scenarios.report.page.audit import BEGINS, audit_page

        page = audit_page(judged, rounds, steps, said=said)
        write_whole(html, page, private=replay, own=BEGINS)
    if as_json:
        from scenarios.report.values import statement_values

        print_json(statement_values(said))
    else:
        print_statement(said)
        if html is not None:
            alone = ", which only its owner may read" if replay else ""
            click.echo(f"written: {html}{alone}")
    return code_of(found.verdict)


def _notes(found: Audit) -> tuple[str, ...]:
    if found.replays:
        return ()
    hint = "--records FILE" if found.simulated else "--member FOLDER and --records PARTY=FILE"
    return (f"no party's words were replayed: that takes its records and its keys ({hint})",)
