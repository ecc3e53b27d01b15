"""``sottovoce explain``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from protocol.audit.walk import Fold, Step
from protocol.errors import ProtocolError
from protocol.estimators.conclusions import conclusions
from protocol.estimators.estimate import Estimate
from protocol.estimators.inference.words import Intervals
from protocol.estimators.joint import Block
from protocol.messages import PartyId
from protocol.randomizers import split_codes
from protocol.randomizers.exact import Floats
from protocol.session.variant import Variant
from protocol.surveys.records import Records
from protocol.transcript.entries import Sent as SentEntry
from protocol.variants.reports.reports import Ask, Blockwise, Report
from scenarios.cli.inspect import reader_of
from scenarios.cli.options import (
    budget_options,
    interval_options,
    transcript_argument,
    variant_option,
)
from scenarios.cli.paths import READ_FILE, WRITTEN_FILE
from scenarios.deployment.respondents import read_records
from scenarios.errors import UsageError, printable
from scenarios.files.transcripts import Transcript, open_transcript
from scenarios.files.writing import prepare_output, write_whole
from scenarios.report.formatting import count
from scenarios.report.one_respondent import Proof, Respondent, Sent, one_respondent
from scenarios.running.loading import variant_of

MOST_CELLS = 2**16
"""The most combinations of answers whose joint distribution is estimated."""

MOST_SHOWN = 60
"""The most categories of all attributes together that a picture has room for."""


class _Reports(Fold):
    """The reports on record, by party, shape (k, b), and how they were asked for."""

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
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Which of the party's respondents, in the order of its records.",
)
@click.option(
    "--records",
    type=READ_FILE,
    help="Everybody's answers, party by party as on the roster: a CSV or Parquet file. They are "
    "shown as the truth, of a simulation or trial.",
)
@click.option(
    "--out",
    type=WRITTEN_FILE,
    help="The .svg file to write, by default PARTY.svg.",
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

    The record is audited first. Exit 1, with no picture, if its result does not follow. Variants
    that ask once, block by block, are explained, such as rr-independent and rr-joint.
    """
    opened = open_transcript(transcript)
    reader = reader_of(opened, transcript)
    cls = variant_of(reader.header, variant)
    if not issubclass(cls, Blockwise):
        raise UsageError(
            f"{transcript}: is of {reader.header.variant!r}; expected a variant that asks once, "
            "block by block, such as 'rr-independent'"
        )
    reports = _Reports()
    audited = opened.audit(cls, reader=reader, folds=[reports])
    if audited.verdict != "sound" or audited.estimate is None or audited.ledger is None:
        click.echo(
            printable(
                f"sottovoce: {transcript}: its audit does not find it sound: see 'sottovoce audit'"
            ),
            err=True,
        )
        return 1
    made = audited.charter.variant
    who = PartyId(party)
    if who not in reports.codes:
        raise UsageError(f"{transcript}: no report of a party {party!r}")
    own = reports.codes[who]
    if respondent > len(own):
        raise UsageError(
            f"--respondent {respondent}: {party} speaks for {count(len(own), 'respondent')}"
        )
    held = None if records is None else _held(records, made, reports)
    path = Path(f"{party}.svg") if out is None else out
    prepare_output(path)
    survey = made.survey
    sizes = sum(survey.sizes)
    if sizes > MOST_SHOWN:
        raise UsageError(
            f"{transcript}: asks for {sizes} categories; a picture has room for {MOST_SHOWN}"
        )
    cells = own[respondent - 1]
    place = respondent if len(own) > 1 else 0
    answers: list[str] = []
    truth = []
    if held is not None:
        before = sum(len(reports.codes[one]) for one in reports.codes if one < who)
        row = held.codes[before + respondent - 1]
        answers = [
            attribute.categories[code]
            for attribute, code in zip(survey.attributes, row, strict=True)
        ]
        truth = [
            np.bincount(column, minlength=size) / len(held.codes)
            for column, size in zip(held.codes.T, survey.sizes, strict=True)
        ]
    found = Respondent(
        party=party,
        place=place,
        respondents=audited.estimate.n,
        attributes=survey.attributes,
        sent=_sent(made, reports.blocks, cells),
        conclusions=conclusions(survey, reports.blocks, cells, _prior(audited.estimate)),
        tables=audited.estimate.marginals(),
        epsilon=audited.ledger.everybody[who].loss.record,
        proof=_proof(opened, cls, who),
        answers=answers,
        truth=truth,
    )
    write_whole(path, one_respondent(found, intervals))
    click.echo(printable(f"written: {path}"))
    return 0


def _held(path: Path, made: Variant, reports: _Reports) -> Records:
    """Everybody's answers.

    Raises:
        UsageError: they are not those of as many respondents as have reported.
    """
    held = read_records(path, made.survey)
    reported = sum(map(len, reports.codes.values()))
    if len(held.codes) != reported:
        raise UsageError(
            f"--records {path}: {count(len(held.codes), 'row')}; expected one for each of the "
            f"{count(reported, 'respondent')} that have reported"
        )
    return held


def _sent(made: Variant, blocks: Sequence[Block], cells: NDArray[Any]) -> tuple[Sent, ...]:
    """What was reported of each attribute."""
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


def _prior(estimate: Estimate) -> Floats:
    """What is published of all respondents, as probabilities of one's answers.

    The joint distribution, or that of attributes that are independent where it has too many cells.
    """
    survey = estimate.survey
    if survey.cells <= MOST_CELLS:
        prior: Floats = estimate.table(*survey.names, projection="em").values
        return prior
    prior = np.ones(())
    for table in estimate.marginals("simplex").values():
        prior = np.multiply.outer(prior, table.values)
    return prior


def _proof(opened: Transcript, cls: type[Variant], who: PartyId) -> Proof | None:
    """Where the report is; None of a record without a checkpoint over it."""
    try:
        receipt, checkpoint = opened.prove(cls, who)
    except ProtocolError:
        return None
    if not receipt.counted:
        return None
    report = receipt.counted[0].report
    return Proof(report.index, checkpoint.size, len(report.path))
