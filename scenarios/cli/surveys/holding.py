"""``sottovoce aggregate``, ``close``, ``abandon`` and ``rehearse``: a survey for real."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol, Unpack

import click

from parties.keeping.members import Member
from parties.keeping.record_names import (
    PARTIAL,
    RECORD_FILES,
    RESULT,
    TRANSCRIPT,
    checkpoint_path,
)
from parties.keeping.writing import write_whole
from protocol.errors import ProtocolError, UsageError
from protocol.estimators.inference.intervals import Intervals
from protocol.estimators.projection import Projection
from protocol.messages import AGGREGATOR
from protocol.session.charter import Charter
from protocol.session.variant import Variant
from protocol.surveys.survey import Survey
from protocol.transcript.checkpoints import MAX_SIGNATURES
from protocol.transcript.recorder import Recorder
from scenarios.cli.estimates import (
    beside_options,
    calibration_options,
    interval_options,
    project_option,
)
from scenarios.cli.numbers import Amount, Whole
from scenarios.cli.options import (
    clear,
    details_option,
    force_option,
    json_option,
    json_text,
    out_option,
    own_variant_option,
    parse_address,
    print_statement,
    trusted_option,
    witnesses_option,
)
from scenarios.cli.paths import READ_FILE, READ_FOLDER, WRITTEN_LOG, ReadPath
from scenarios.cli.surveys.answering import folder_argument, member_in
from scenarios.cli.values import frozen_options, option, part, shared, takes
from scenarios.errors import COMPLAINT, printable, say
from scenarios.report.beside import Beside
from scenarios.running.calibrating import Calibration
from scenarios.running.outcomes import Outcome
from scenarios.running.scenario import Finished
from scenarios.statement.runs import state_run
from scenarios.statement.statement import Statement
from scenarios.surveys.holding.aggregating import aggregate_survey
from scenarios.surveys.holding.attempts import Opening, abandon_survey, make_ready
from scenarios.surveys.holding.waiting import await_answers, check_open, waits, witness_seconds
from scenarios.surveys.operating.by_hand import note
from scenarios.surveys.operating.joining import close_joining
from scenarios.surveys.operating.outfit import operating
from scenarios.surveys.rehearsing import RESULT_FOLDER
from scenarios.surveys.survey_plan import read_plan
from scenarios.surveys.witnessing.asking import (
    WitnessAt,
    begin,
    check_named,
    check_newest,
    cosign_checkpoint,
    witness_at,
)
from scenarios.wording.formatting import nats, some
from scenarios.wording.withstanding import coins_sentence, sums_sentences
from transports.admission import Network

_NAMED = 20
"""Maximum number of parties named when an attempt is abandoned."""


@frozen_options
class PublishOptions:
    """Options for publishing a survey's estimates, and further files with them."""

    calibration: Calibration = shared(calibration_options)
    intervals: Intervals = shared(interval_options())
    project: Projection = shared(project_option)
    beside: Beside = shared(beside_options)

    @property
    def words(self) -> list[str | float | Path]:
        """The options as words of a command line."""
        words: list[str | float | Path] = ["--level", self.intervals.level]
        words += ["--about", self.intervals.about, "--project", self.project]
        for flag, path in self.beside.options.items():
            words += [flag, path]
        for path in self.calibration.files:
            words += ["--calibrate", path, "--calibrate-by", self.calibration.method]
        return words

    def check(self, survey: Survey) -> None:
        """Check that files can be written and read, before the survey begins.

        Raises:
            UsageError, OSError: as ``Beside.check`` and ``Calibration.check``.
        """
        self.beside.check()
        self.calibration.check(survey)

    def state(self, outcome: Outcome[Variant]) -> tuple[Finished, Statement]:
        """A finished survey for publication, and its statement.

        The survey is published in any case: an estimate that cannot be calibrated or projected is
        published without, with a message.
        """
        done = Finished(outcome=outcome, projection=self.project)
        try:
            done = done.calibrated(self.calibration)
        except UsageError as error:
            say(f"{error}; the estimate is not calibrated")
        try:
            return done, state_run("survey", done, self.intervals)
        except (ProtocolError, ValueError) as error:
            if self.project == "none":
                raise
            say(f"--project {self.project}: {error}; the shares stay raw")
        return replace(self, project="none").state(outcome)


@frozen_options
class HeldOptions:
    """Options of holding a survey, over TLS or pages: the aggregator's folder, and settings."""

    folder: Path = shared(folder_argument)
    out: Path = shared(
        out_option(
            f"The folder for {TRANSCRIPT}, its checkpoint and {RESULT}; a run that fails "
            f"leaves {TRANSCRIPT}{PARTIAL}.",
            *RECORD_FILES,
        )
    )
    force: bool = shared(force_option)
    witness: tuple[tuple[str, str], ...] = option(
        "--witness",
        nargs=2,
        multiple=True,
        metavar="URL NAME+ID+KEY",
        help="A witness, and its verifier key, to be asked to cosign the first checkpoint, before "
        "the first question, and the last one; repeat for each.",
    )
    witnesses: int | None = shared(witnesses_option)
    log_json: str | None = option(
        "--log-json",
        type=WRITTEN_LOG,
        metavar="FILE",
        help="Log what happens, in counts, as lines of JSON: at the end of FILE, or '-' for "
        "standard error.",
    )
    metrics: str | None = option(
        "--metrics",
        metavar="HOST:PORT",
        help="Serve /metrics, for Prometheus, and /healthz here; port 0 takes a free one. Whoever "
        "reaches it can read the counts.",
    )
    trusted: tuple[Network, ...] = shared(trusted_option)
    resume: bool = option(
        "--resume",
        is_flag=True,
        help="Go on with the interrupted attempt, in the same record: answers that parties have "
        "sent count, and parties come back by themselves. Without one, begin the survey.",
    )
    without_missing: bool = option(
        "--without-missing",
        is_flag=True,
        help="After 'restore': count out parties that may hold receipts of messages missing from "
        "the record, if they do not come back or cannot send them again. The record says so. "
        "Without this option nothing is published in that case.",
    )
    published: PublishOptions = part(PublishOptions)
    as_json: bool = shared(json_option)
    details: bool = shared(details_option)

    def asked_witnesses(self) -> tuple[list[WitnessAt], int]:
        """The witnesses to ask, and the number of cosignatures needed.

        Raises:
            UsageError: too many witnesses, too few, or a malformed one.
        """
        asked = [witness_at(url, key) for url, key in self.witness]
        if len(asked) >= MAX_SIGNATURES:
            raise UsageError(f"--witness: {len(asked)} given, at most {MAX_SIGNATURES - 1} allowed")
        needed = len(asked) if self.witnesses is None else self.witnesses
        if needed > len(asked):
            raise UsageError(f"--witnesses: expected at most {len(asked)}, the number of --witness")
        return asked, needed


class Hold(Protocol):
    """Function that holds a survey at fixed addresses."""

    def __call__(
        self,
        member: Member,
        *,
        listening: Callable[[str], object],
        publish: Callable[[Outcome[Variant]], object],
        **opening: Unpack[Opening],
    ) -> object:
        """Hold the survey; arguments as for ``aggregate_survey``."""


def hold_survey(
    options: HeldOptions, member: Member, hold: Hold, *, witnesses_within: float
) -> None:
    """Hold a survey, and write and print its result.

    Args:
        options: the command's options.
        member: the aggregator, from the options' folder.
        hold: holds the survey.
        witnesses_within: seconds for which witnesses are asked for the first checkpoint.

    Raises:
        UsageError, OSError, ProtocolError, StoppedError: as ``hold``, or a file that cannot be
            written.
    """
    asked, needed = options.asked_witnesses()
    check_named(member.charter, asked)
    published, out = options.published, options.out
    published.check(member.charter.variant.survey)
    if not make_ready(member, out / TRANSCRIPT, resume=options.resume):
        clear(out, force=options.force, before=functools.partial(note, options.folder, "force"))

    done: Finished | None = None
    stated = Statement()

    def publish(outcome: Outcome[Variant]) -> None:
        nonlocal done, stated
        done, stated = published.state(outcome)
        write_whole(out / RESULT, json_text(stated.values) + "\n", private=True)
        if asked:
            _cosign(out / TRANSCRIPT, asked)

    def listening(where: str) -> None:
        say(f"listening on {where}")
        for said in sums_sentences(member.charter.variant, len(member.charter.roster) - 1):
            say(said)

    def taken(charter: Charter) -> None:
        if charter.attempt > 1:
            say(_attempt_cost(charter.attempt, member))

    served = None if options.metrics is None else parse_address(options.metrics)
    opened = operating(
        options.folder, log=options.log_json, address=served, trusted=options.trusted
    )
    with opened as (operation, metrics_at):
        if metrics_at:
            say(f"metrics at http://{metrics_at}/metrics")

        def begun(recorder: Recorder) -> str:
            return begin(
                recorder, asked, needed=needed, within=witnesses_within, operation=operation
            )

        hold(
            member,
            transcript=out / TRANSCRIPT,
            listening=listening,
            taken=taken,
            begin=begun if asked else None,
            witnesses=asked,
            go_on=functools.partial(check_newest, witnesses=asked) if asked else None,
            publish=publish,
            resume=options.resume,
            without_missing=options.without_missing,
            operation=operation,
        )
    assert done is not None, "hold has published the survey"
    print_statement(stated, as_json=options.as_json, details=options.details)
    for path in published.beside.write("survey", done, published.intervals):
        say(f"written: {path}")


def _cosign(transcript: Path, witnesses: Sequence[WitnessAt]) -> None:
    """Have a transcript's checkpoint cosigned; report each witness's answer."""
    for answer in cosign_checkpoint(transcript, witnesses):
        said = "has cosigned" if answer.line else f"has NOT cosigned: {answer.why}"
        say(f"witness {answer.witness.key.name} {said}")


@frozen_options
class AggregateOptions:
    """The options of ``sottovoce aggregate``."""

    held: HeldOptions = part(HeldOptions)
    variant: str | None = shared(own_variant_option)
    listen: str = option(
        "--listen",
        metavar="HOST:PORT",
        required=True,
        help="The address to wait for parties at; port 0 takes a free one, which is printed.",
    )
    joining: float = option(
        "--joining",
        type=Amount(min=0),
        default=60.0,
        show_default=True,
        help="Seconds to wait for all parties to connect; then the survey begins without the "
        "others. Witnesses get as long before that. A survey of one question with a closing time "
        "waits for no party: they answer whenever they come.",
    )


@click.command()
@takes(AggregateOptions)
def aggregate(options: AggregateOptions) -> None:
    """Hold a survey as the aggregator whose keys are in FOLDER: ask, and publish the result.

    With --witness it does not begin before enough of them have cosigned its first checkpoint.
    """
    held = options.held
    member = member_in(held.folder, options.variant)
    host, port = parse_address(options.listen)
    if waits(member.charter.variant):
        check_open(member)
        hold = functools.partial(await_answers, parties=(host, port))
        hold_survey(held, member, hold, witnesses_within=witness_seconds(member.charter))
        return
    hold = functools.partial(aggregate_survey, host=host, port=port, joining=options.joining)
    hold_survey(held, member, hold, witnesses_within=options.joining)


@click.command()
@folder_argument
@click.option(
    "--early",
    is_flag=True,
    help="Close a survey before its closing time. The record says so for every party that has not "
    "answered.",
)
def close(folder: Path, early: bool) -> None:
    """Begin the survey that 'aggregate' holds from FOLDER without those who have not joined yet.

    Of one that is answered whenever somebody comes, until it closes: take no more answers, and
    publish.
    """
    if close_joining(folder, early=early):
        click.echo("the survey is closed: whoever has not answered is counted out")
    else:
        click.echo("the joining ends: whoever is not connected is counted out")


@click.command()
@folder_argument
@own_variant_option
@click.option(
    "--out",
    type=READ_FOLDER,
    required=True,
    help=f"The folder with the record of the attempt, {TRANSCRIPT}{PARTIAL}.",
)
@click.option(
    "--lost",
    is_flag=True,
    help="Abandon it although its record is lost or damaged. Then no record says that it ended; a "
    "damaged one stays as it is.",
)
def abandon(folder: Path, variant: str | None, out: Path, lost: bool) -> None:
    """Declare that the attempt which the aggregator of FOLDER has begun will not go on.

    Its record stays, and says so under the aggregator's signature. The survey can be held once
    more then, as another attempt.
    """
    member = member_in(folder, variant)
    attempt, ended, damaged = abandon_survey(member, out / TRANSCRIPT, lost=lost)
    click.echo(f"attempt {attempt} is abandoned; {_attempt_cost(attempt + 1, member)}")
    if damaged is not None:
        said = "is damaged and stays as it is, so it does not say that the attempt is abandoned"
        click.echo(printable(f"{damaged}: {said}"))
    if ended is None:
        click.echo(f"which parties were told that they are done in attempt {attempt} is not known")
    elif ended:
        click.echo(
            f"these parties may think that they are done, and count in attempt {attempt + 1} only "
            f"if they answer again: {some(ended, len(ended), _NAMED)}"
        )


def _attempt_cost(attempt: int, member: Member) -> str:
    asked, parties = member.charter.variant, len(member.charter.roster) - 1
    cost = f"epsilon {nats(asked.most())} per respondent at most"
    if coins := coins_sentence(asked, parties):
        cost = f"{coins[0].lower()}{coins[1:-1]}"
    return (
        f"attempt {attempt}: a party that answered an earlier one pays again, {cost}, if its "
        "budget allows"
    )


@frozen_options
class RehearseOptions:
    """The plan and the options of ``sottovoce rehearse``."""

    plan: Path = shared(click.argument("plan", type=READ_FILE))
    records: Path = option(
        "--records",
        type=ReadPath(path_type=Path, exists=True),
        required=True,
        help="A CSV or Parquet file, spread evenly over the parties; or a folder with such a file "
        "for each party, named like it.",
    )
    parties: int | None = option(
        "--parties",
        type=Whole(1, 500),
        metavar="N",
        help="Number of parties that the records of a file are spread over.",
    )
    out: Path = shared(
        out_option(
            "The folder, new or empty, for the members' folders, their records and the result.",
            *(f"{RESULT_FOLDER}/{name}" for name in RECORD_FILES),
        )
    )
    kill: str | None = option(
        "--kill",
        type=click.Choice(["party", "aggregator"]),
        help="Kill a party after its first message from the aggregator, and start it again; or the "
        "aggregator after the first message on record, and go on with --resume. Exit 1 if neither "
        "was killed.",
    )
    published: PublishOptions = part(PublishOptions)
    as_json: bool = shared(json_option)
    details: bool = shared(details_option)


@click.command()
@takes(RehearseOptions)
def rehearse(options: RehearseOptions) -> int:
    """Hold the survey of PLAN on this machine, every member a process of its own, over TLS.

    It prints what 'sottovoce aggregate' prints. Exit 0 if all parties ended well.
    """
    from scenarios.surveys.rehearsing import MEMBERS, split_records
    from scenarios.surveys.rehearsing import rehearse as held_by_processes

    read, out, kill = read_plan(options.plan), options.out, options.kill
    published = options.published
    published.check(read.variant.survey)
    failed: list[str] = []

    def hear(line: str) -> None:
        """Pass on a line of the aggregator; its errors come last, as parties may explain them."""
        if line.startswith(COMPLAINT):
            failed.append(line)
        else:
            say(line)

    try:
        rehearsed = held_by_processes(
            read,
            split_records(options.records, read, options.parties),
            out,
            kill=kill,
            reported=[
                *published.words,
                *(["--json"] if options.as_json else []),
                *(["--details"] if options.details else []),
            ],
            hear=hear,
        )
    except KeyboardInterrupt:
        said = f"hold it again, with another --out or with {out} deleted"
        say(f"interrupted; a rehearsal cannot be resumed: {said}")
        raise
    click.echo(rehearsed.said, nl=False)
    for name, ending in rehearsed.endings.items():
        say(f"{name}: {ending}")
    for line in failed:
        say(line)
    unkilled = kill is not None and rehearsed.killed is None
    if unkilled:
        say(f"--kill {kill}: nobody was killed, the survey ended too soon")
    if rehearsed.code == 0:
        record, folder = out / RESULT_FOLDER / TRANSCRIPT, out / MEMBERS / AGGREGATOR
        named = ["--checkpoint", checkpoint_path(record), "--member", folder]
        if read.own is not None:
            named += ["--variant", read.own]
        command = shlex.join(map(str, ("sottovoce", "audit", record, *named)))
        say(f"to audit it: {command}")
    return rehearsed.code or (1 if rehearsed.endings or unkilled else 0)
