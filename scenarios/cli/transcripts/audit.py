"""``sottovoce audit``: audit of a transcript, with keys disclosed to the auditor."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from parties.keeping.writing import prepare_output, write_whole
from protocol.accounting.spending import DELTA
from protocol.audit.audit import Audit
from protocol.errors import UsageError
from protocol.estimators.inference.intervals import Intervals
from protocol.messages import PartyId
from protocol.session.charter import Charter
from protocol.surveys.limits import Held
from protocol.transcript.entries import Header
from protocol.transcript.header import read_charter
from scenarios.cli.estimates import calibration_options, interval_options
from scenarios.cli.numbers import Amount, Whole
from scenarios.cli.options import (
    PublishedCheckpoint,
    budget_options,
    details_option,
    digest_option,
    is_given,
    json_option,
    print_json,
    print_page,
    print_statement,
    transcript_argument,
    variant_option,
)
from scenarios.cli.paths import READ_FILE, READ_FOLDER, TEXT_WITH_FILE, WRITTEN_FILE
from scenarios.cli.transcripts.inspect import exit_code, open_reader
from scenarios.cli.transcripts.observer import ObserverOptions, stranger
from scenarios.cli.values import frozen_options, option, part, shared, takes
from scenarios.files.kinds import PAGES, check_ending
from scenarios.running.calibrating import Calibration
from scenarios.running.engines.checking import ChecksMeanwhile
from scenarios.running.loading import variant_class
from scenarios.statement.audits.judging import Asked, judge
from scenarios.surveys.disclosures import disclosures
from scenarios.surveys.watching.reading import reading
from scenarios.surveys.watching.standings import StandingWriter
from scenarios.wording.formatting import cut, some

_ALONE = "--tap and --key are ignored by --worst"


@frozen_options
class AuditOptions:
    """The transcript and the options of ``sottovoce audit``."""

    transcript: Path = shared(transcript_argument)
    observer: ObserverOptions = part(ObserverOptions)
    variant: str | None = shared(variant_option)
    trail: PartyId | None = option(
        "--trail", metavar="PARTY", help="Show the messages behind one party's figures."
    )
    worst: int | None = option(
        "--worst",
        type=Whole(min=0),
        metavar="C",
        help="Search for the most damaging coalition of the aggregator and C parties, without "
        "--tap and --key.",
    )
    replay: bool = option(
        "--replay",
        is_flag=True,
        help="With --html: also show the survey step by step, with a slider over the steps. Only "
        "the page's owner may read it.",
    )
    members: tuple[Path, ...] = option(
        "--member",
        multiple=True,
        type=READ_FOLDER,
        help="The folder of a member, as 'sottovoce keys' made it, to replay the member with its "
        "keys; repeat for each.",
    )
    records: tuple[str, ...] = option(
        "--records",
        multiple=True,
        type=TEXT_WITH_FILE,
        metavar="[PARTY=]FILE",
        help="A CSV or Parquet file to replay parties from: for a simulation everybody's records, "
        "else those of a party whose --member folder is given. Whether the records are true cannot "
        "be shown.",
    )
    plan: Path | None = option(
        "--plan",
        type=READ_FILE,
        help="With --records: the plan of the survey, which says how the files are read. By "
        "default their cells are the categories.",
    )
    delta: float = option(
        "--delta",
        type=Amount(min=0, max=1, max_open=True),
        default=DELTA,
        show_default=True,
        help="The probability with which the tighter epsilon may not hold.",
    )
    pld: bool = option(
        "--pld",
        is_flag=True,
        help="Add a second opinion on the tighter epsilon, by dp-accounting.",
    )
    spot: int | None = option(
        "--spot",
        type=Whole(min=1),
        metavar="K",
        help="Draw K of the counted places, for the auditor to call the people and ask whether "
        "they were counted.",
    )
    spot_words: str = option(
        "--spot-words",
        default="",
        metavar="TEXT",
        help="With --spot: words that the auditor chooses once the record is published. The draw "
        "depends on them.",
    )
    html: Path | None = option(
        "--html",
        type=WRITTEN_FILE,
        help="An HTML file to write the audit into, as one page.",
    )
    calibration: Calibration = shared(calibration_options)
    intervals: Intervals = shared(interval_options())
    digest: bytes | None = shared(digest_option)
    published: PublishedCheckpoint = part(PublishedCheckpoint)
    as_json: bool = shared(json_option)
    details: bool = shared(details_option)

    def check(self) -> None:
        """Check everything that does not need the transcript.

        Raises:
            UsageError: options that do not fit together.
        """
        if self.replay and self.html is None:
            raise UsageError("--replay: expected --html too, for the page that shows the steps")
        if self.spot_words and self.spot is None:
            raise UsageError("--spot-words: expected --spot K too, for the draw")

    def ask(self, header: Header, charter: Charter) -> Asked:
        """Request for an audit of the transcript that begins so.

        Raises:
            UsageError: options that do not fit the transcript or each other.
        """
        observer = self.observer.observer(charter.roster)
        if self.trail is not None and self.trail not in charter.roster:
            raise UsageError(f"--trail: {stranger(charter.roster, self.trail)}")
        self.calibration.check(charter.variant.survey)
        checkpoint, by = self.published.read()
        disclosed = disclosures(
            charter,
            seed=header.seed if isinstance(header.seed, int) else None,
            folders=self.members,
            records=self.records,
            plan=self.plan,
            variant=self.variant,
        )
        return Asked(
            observer=observer,
            trail=self.trail,
            worst=self.worst,
            delta=self.delta,
            second_opinion=self.pld,
            digest=self.digest,
            checkpoint=checkpoint,
            cosigned=by,
            disclosed=tuple(disclosed),
            intervals=self.intervals,
            spot=self.spot,
            spot_words=self.spot_words,
            rounds=self.html is not None,
        )

    def notes(self, found: Audit) -> tuple[str, ...]:
        """Notes on further questions to the audit, in a sentence each."""
        if found.disclosed:
            names = some(map(cut, found.disclosed), len(found.disclosed), 4)
            return (
                f"the disclosed records of {names} can be subtracted from the sum, and hide nobody "
                "else in it",
            )
        if found.replays:
            return ()
        hint = "--records FILE" if found.simulated else "--member FOLDER and --records PARTY=FILE"
        return (f"no party was replayed: that takes its records and its keys ({hint})",)


@click.command()
@takes(AuditOptions)
@budget_options
def audit(options: AuditOptions) -> int:
    """Audit TRANSCRIPT: who was counted, what was learned, and whether the result follows.

    Exit 0 if the record is sound, that is whole and its result follows, 1 if it is broken or
    incomplete, 3 if the audit could not be finished, 4 if the record is intact and its result
    cannot be checked without the aggregator's folder (--member). Privacy is a verdict of its own.
    It takes the file alone, and optionally the keys and records that members hand to the auditor.
    """
    options.check()
    transcript, html, as_json = options.transcript, options.html, options.as_json
    with reading(transcript, times=2, silent=as_json) as opened, ChecksMeanwhile() as checks:
        if html is not None:
            from scenarios.report.page.audit import BEGINS

            check_ending("--html", html, PAGES)
            prepare_output(html, own=BEGINS)
        reader = open_reader(opened, transcript)
        cls = variant_class(reader.header, options.variant)
        charter = read_charter(reader.header, cls)
        asked = options.ask(reader.header, charter)
        steps = None
        if options.replay:
            steps = StandingWriter(charter, options.intervals, Held(lambda: reader.stored))
        judged, rounds = judge(
            opened,
            cls,
            asked,
            file=transcript.name,
            reader=reader,
            folds=() if steps is None else (steps,),
            checks=checks,
        )
    found, observer = judged.audit, options.observer
    judged = replace(
        judged,
        worst_notes=(_ALONE,) if observer.taps or observer.keys else (),
        notes=options.notes(found),
    )
    if options.calibration.files and found.estimate is not None:
        judged = replace(judged, calibrated=options.calibration.of(found.estimate))
    from scenarios.statement.audits.audit import statement

    said = statement(judged)
    if html is not None:
        from scenarios.report.page.audit import BEGINS, audit_page

        page = audit_page(judged, rounds, steps, said=said)
        write_whole(html, page, private=options.replay, own=BEGINS)
    if as_json:
        from scenarios.report.values import statement_values

        print_json(statement_values(said))
    else:
        # A requested figure at a delta is always shown.
        print_statement(said, details=options.details or is_given("--delta", "--pld"))
        if html is not None:
            alone = ", which only its owner may read" if options.replay else ""
            click.echo(f"written: {html}{alone}")
            print_page(html)
    return exit_code(found.verdict)
