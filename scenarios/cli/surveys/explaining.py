"""``sottovoce explain``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from parties.keeping.writing import prepare_output, write_whole
from protocol.audit.audit import Audit
from protocol.audit.walk import Fold, Step
from protocol.errors import ProtocolError, UsageError
from protocol.estimators.conclusions import Conclusion, conclusions
from protocol.estimators.estimate import Estimate
from protocol.estimators.inference.intervals import Intervals
from protocol.estimators.joint import Block
from protocol.messages import PartyId
from protocol.randomizers import split_codes
from protocol.session.variant import Variant
from protocol.surveys.records import Records
from protocol.surveys.survey import Survey
from protocol.transcript.entries import Sent as SentEntry
from protocol.variants.reports.reports import Ask, Blockwise, Report
from scenarios.cli.estimates import interval_options
from scenarios.cli.numbers import Whole
from scenarios.cli.options import budget_options, transcript_argument, variant_option
from scenarios.cli.paths import READ_FILE, WRITTEN_FILE
from scenarios.cli.transcripts.inspect import open_reader, refused
from scenarios.errors import printable
from scenarios.files.transcripts import Transcript
from scenarios.report.one_respondent import (
    BEGINS,
    Proof,
    Respondent,
    Sent,
    in_words,
    one_respondent,
)
from scenarios.running.engines.checking import ChecksMeanwhile
from scenarios.running.loading import variant_class
from scenarios.surveys.respondents import read_records
from scenarios.surveys.watching.reading import reading
from scenarios.wording.formatting import count

MOST_CELLS = 2**16
"""Maximum number of combinations of answers for an estimate of their joint distribution."""

MOST_SHOWN = 60
"""Maximum number of categories of all attributes together in a picture."""


class _Reports(Fold):
    """The reports on record, by party, shape (k, b), and the question they answer."""

    def __init__(self) -> None:
        self.codes: dict[PartyId, NDArray[Any]] = {}
        self.blocks: tuple[Block, ...] = ()

    def add(self, step: Step) -> None:
        if step.envelope is None or not isinstance(step.entry, SentEntry):
            return
        if isinstance(step.message, Report):
            self.codes.setdefault(step.envelope.sender, step.message.codes)
        elif isinstance(step.message, Ask):
            self.blocks = step.message.blocks


@click.command()
@transcript_argument
@click.argument("party")
@click.option(
    "--respondent",
    type=Whole(min=1),
    default=1,
    show_default=True,
    help="Which of the party's respondents, in the order of its records.",
)
@click.option(
    "--records",
    type=READ_FILE,
    help="The answers of all who are counted, party by party as on the roster: a CSV or Parquet "
    "file. They are shown as the truth, of a simulation or trial.",
)
@click.option(
    "--out",
    type=WRITTEN_FILE,
    help="The .svg file to write, by default PARTY.svg. Only its owner may read it.",
)
@interval_options()
@variant_option
@budget_options
def explain(
    transcript: Path,
    party: str,
    respondent: int,
    records: Path | None,
    out: Path | None,
    intervals: Intervals,
    variant: str | None,
) -> int:
    """Draw what a respondent of PARTY sent, what that tells about her, and what all reports tell.

    The record is audited first. With no picture, exit 1 if it is broken or incomplete, 3 if its
    audit is unfinished, 4 if its result cannot be checked. Variants that ask once, block by block,
    are explained, such as rr-independent and rr-joint.
    """
    with reading(transcript, times=2) as opened, ChecksMeanwhile() as checks:
        reader = open_reader(opened, transcript)
        cls = variant_class(reader.header, variant)
        if not issubclass(cls, Blockwise):
            raise UsageError(
                f"{transcript}: is of {reader.header.variant!r}; expected a variant that asks "
                "once, block by block, such as 'rr-independent'"
            )
        reports = _Reports()
        audited = opened.audit(cls, reader=reader, folds=[reports], checks=checks)
    if audited.estimate is None or audited.verdict != "sound":
        return refused(audited, transcript)
    made = audited.charter.variant
    who = PartyId(party)
    counted = _counted_reports(audited, reports)
    if who not in counted:
        raise UsageError(f"{transcript}: no report of a party {party!r} is counted")
    own = counted[who]
    if respondent > len(own):
        raise UsageError(
            f"--respondent {respondent}: {party} speaks for {count(len(own), 'respondent')}"
        )
    held = None if records is None else _read_answers(records, made, counted)
    path = Path(f"{party}.svg") if out is None else out
    prepare_output(path, own=BEGINS)
    survey = made.survey
    sizes = sum(survey.sizes)
    if sizes > MOST_SHOWN:
        raise UsageError(
            f"{transcript}: asks for {sizes} categories; a picture has room for {MOST_SHOWN}"
        )
    cells = own[respondent - 1]
    place = respondent if len(own) > 1 else 0
    before = sum(len(counted[one]) for one in [*counted][: [*counted].index(who)])
    answers, truth = ([], []) if held is None else _answers_and_truth(held, before + respondent - 1)
    concluded, together = _draw_conclusions(audited.estimate, reports.blocks, cells)
    found = Respondent(
        party=party,
        place=place,
        respondents=audited.estimate.n,
        attributes=survey.attributes,
        sent=_sent_answers(made, reports.blocks, cells),
        conclusions=concluded,
        together=together,
        source=audited.source,
        tables=audited.estimate.marginals(),
        epsilon=audited.ledger.everybody[who].loss.record,
        proof=_proof(opened, cls, who),
        answers=answers,
        truth=truth,
    )
    write_whole(path, one_respondent(found, intervals), private=True, own=BEGINS)
    for line in in_words(found):
        click.echo(printable(line))
    click.echo(printable(f"written: {path}, which only its owner may read"))
    return 0


def _counted_reports(audited: Audit, reports: _Reports) -> dict[PartyId, NDArray[Any]]:
    """Reports of all counted parties, in roster order, the order of the records."""
    missing = {
        one
        for closing in audited.completeness.closings
        if closing.kind == Report.kind()
        for one in closing.missing
    }
    return {
        one: reports.codes[one]
        for one in audited.charter.roster.parties
        if one in reports.codes and one not in missing
    }


def _answers_and_truth(held: Records, place: int) -> tuple[list[str], list[NDArray[np.float64]]]:
    """The answers of one respondent, and the true shares of every attribute."""
    answered = zip(held.survey.attributes, held.codes[place], strict=True)
    answers = [attribute.categories[code] for attribute, code in answered]
    truth = [
        np.bincount(column, minlength=size) / len(held.codes)
        for column, size in zip(held.codes.T, held.survey.sizes, strict=True)
    ]
    return answers, truth


def _read_answers(path: Path, made: Variant, counted: Mapping[PartyId, NDArray[Any]]) -> Records:
    """The answers of all counted respondents.

    Raises:
        UsageError: they are not those of as many respondents.
    """
    held = read_records(path, made.survey)
    reported = sum(map(len, counted.values()))
    if len(held.codes) != reported:
        raise UsageError(
            f"--records {path}: {count(len(held.codes), 'row')}; expected one for each of the "
            f"{count(reported, 'respondent')} that are counted"
        )
    return held


def _sent_answers(made: Variant, blocks: Sequence[Block], cells: NDArray[Any]) -> tuple[Sent, ...]:
    survey = made.survey
    codes: dict[str, Sent] = {}
    for block, cell in zip(blocks, cells, strict=True):
        sizes = [survey.sizes[axis] for axis in survey.axes(block.attributes)]
        kept = None
        if block.randomizer.size <= MOST_SHOWN and len(sizes) == 1:
            chances = {float(block.randomizer.row(code)[code]) for code in range(sizes[0])}
            kept = chances.pop() if len(chances) == 1 else None
        for name, code in zip(
            block.attributes, split_codes(np.array([cell]), sizes)[0], strict=True
        ):
            codes[name] = Sent(survey.attribute(name).categories[code], kept)
    return tuple(codes[name] for name in survey.names)


def _draw_conclusions(
    estimate: Estimate, blocks: Sequence[Block], cells: NDArray[Any]
) -> tuple[tuple[Conclusion, ...], bool]:
    """Conclusions from a report, and whether they cover all attributes together.

    With too many combinations, each block gives conclusions about its own attributes only.

    Raises:
        UsageError: a block has too many combinations.
    """
    survey = estimate.survey
    parts = [(survey.names, blocks, cells)]
    if survey.cells > MOST_CELLS:
        parts = [
            (block.attributes, [block], cells[place : place + 1])
            for place, block in enumerate(blocks)
        ]
    found: dict[str, Conclusion] = {}
    for names, some, own in parts:
        asked = Survey(survey.title, tuple(survey.attribute(name) for name in names))
        if asked.cells > MOST_CELLS:
            raise UsageError(
                f"{'+'.join(names)}: {asked.cells:,} combinations; expected at most {MOST_CELLS:,}"
            )
        prior = estimate.table(*names, projection="em").values
        for one in conclusions(asked, some, own, prior):
            found[one.attribute] = one
    return tuple(found[name] for name in survey.names), len(parts) == 1


def _proof(opened: Transcript, cls: type[Variant], who: PartyId) -> Proof | None:
    """Proof of the report's place; None where no checkpoint covers the record."""
    try:
        receipt, _ = opened.prove(cls, who)
    except ProtocolError:
        return None
    if not receipt.counted:
        return None
    report = receipt.counted[0].report
    return Proof(report.index, len(report.path))
