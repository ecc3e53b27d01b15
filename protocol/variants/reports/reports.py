"""Base of RR-Independent, RR-Joint and their relatives: one round of randomized reports.

The aggregator sends the randomizers with its question. Each party checks the cost, draws one report
per respondent, and sends them. The aggregator pools the reports.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Generator, Iterable, Sequence
from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.accounting.accountants import PureAccountant
from protocol.accounting.events import Composed, Plain, PrivacyEvent, Randomized
from protocol.crypto.randomness import Stream
from protocol.errors import CannotTabulateError, PrivacyError
from protocol.estimators.counts import Counts
from protocol.estimators.joint import Block, JointReports
from protocol.estimators.linear import LinearEstimate
from protocol.messages import AGGREGATOR, SCALAR_BYTES, Message
from protocol.randomizers import join_codes, randomize_columns, split_codes
from protocol.session.roles import Seen
from protocol.session.tabulation import Respondents, Stage, Totals
from protocol.surveys.records import Records
from protocol.surveys.survey import Survey
from protocol.variants.reports.by_stratum import weighted
from protocol.variants.reports.one_report import OneReport
from protocol.wire.arrays import Array, ArraySpec, Bounds, smallest_dtype

MAX_COUNTED = 2**26
"""The most combinations of answers when respondents are counted in cohorts."""


class Ask(Message, frozen=True):
    """The question: which attributes are randomized together, and how."""

    scalar_bytes = "ask_bytes"

    survey: bytes
    blocks: tuple[Block, ...]


class Report(Message, frozen=True):
    """The randomized answers of one party's respondents.

    Args:
        codes: (k, b) unsigned; column j is a cell of block j's product domain, row-major.
    """

    codes: Annotated[
        Array, ArraySpec(shape=(Bounds(1, "max_records"), "block_sizes"), high="block_sizes")
    ]


class Pooled(Message, frozen=True):
    """The published result: the number of reports of each randomized record.

    Args:
        codes: (u, m) distinct randomized records, sorted.
        counts: (u,) the number of reports of each.
    """

    codes: Annotated[
        Array, ArraySpec(shape=(Bounds(1, "respondents"), "survey.sizes"), high="survey.sizes")
    ]
    counts: Annotated[
        Array, ArraySpec(dtype="u4", shape=(Bounds(1, "respondents"),), low=1, most="respondents")
    ]


def cells_per_block(survey: Survey, blocks: tuple[Block, ...]) -> tuple[int, ...]:
    """The number of cells of each block.

    Raises:
        ValueError: the blocks are not a partition of the attributes, or a randomizer is not of its
            block's size.
    """
    named = [name for block in blocks for name in block.attributes]
    if sorted(named) != sorted(survey.names):
        raise ValueError("the blocks must name every attribute of the survey once")
    sizes = []
    for block in blocks:
        size = math.prod(survey.sizes[axis] for axis in survey.axes(block.attributes))
        if block.randomizer.size != size:
            raise ValueError(
                f"block {'+'.join(block.attributes)} has {size} cells, "
                f"its randomizer {block.randomizer.size}"
            )
        sizes.append(size)
    return tuple(sizes)


def blocks_event(blocks: tuple[Block, ...]) -> PrivacyEvent:
    """Event of one report drawn with these blocks."""
    return Composed(tuple(Randomized(block.randomizer, block.attributes) for block in blocks))


def consent(survey: Survey, own: tuple[Block, ...], ask: Ask) -> None:
    """Refuse a question that is about another survey, or that costs more than agreed.

    Raises:
        PrivacyError: names the attribute, what is asked and what was agreed.
    """
    if ask.survey != survey.digest:
        raise PrivacyError("asked about another survey than the one agreed to")
    if ask.blocks == own:
        return
    if [block.attributes for block in ask.blocks] != [block.attributes for block in own]:
        raise PrivacyError("asked to randomize other attributes together than agreed to")
    try:
        cells_per_block(survey, ask.blocks)
    except ValueError as error:
        raise PrivacyError(f"asked with randomizers that do not fit: {error}") from error
    accountant = PureAccountant()
    asked = accountant.judge(blocks_event(ask.blocks))
    agreed = accountant.judge(blocks_event(own))
    if asked.record > agreed.record:
        raise PrivacyError(
            f"asked for epsilon {asked.record:.6g} per record, agreed to {agreed.record:.6g}"
        )
    for block in ask.blocks:
        # If the agreed cost is unbounded, comparing costs is void.
        if block not in own and any(
            math.isinf(agreed.attributes[name]) for name in block.attributes
        ):
            raise PrivacyError(
                f"asked for another randomizer on {'+'.join(block.attributes)} than agreed to"
            )
    for name, epsilon in asked.attributes.items():
        if epsilon > agreed.attributes[name]:
            raise PrivacyError(
                f"asked for epsilon {epsilon:.6g} on {name!r}, "
                f"agreed to {agreed.attributes[name]:.6g}"
            )


class Blockwise(OneReport[Ask, Report, Report], frozen=True):
    """Base of the protocols with one report per respondent, randomized block by block.

    A subclass has the ``blocks``: attributes that are randomized together, and their randomizers.
    """

    heeds = (Ask,)
    messages = (Ask, Report, Pooled)

    def __post_init__(self) -> None:
        super().__post_init__()
        cells_per_block(self.survey, self.blocks)

    @functools.cached_property
    def block_sizes(self) -> tuple[int, ...]:
        """The number of cells of each block."""
        return cells_per_block(self.survey, self.blocks)

    @property
    def blocks(self) -> tuple[Block, ...]:
        """A partition of the attributes, each part with its randomizer."""
        raise NotImplementedError

    @functools.cached_property
    def ask_bytes(self) -> int:
        """The most bytes of a question."""
        return SCALAR_BYTES + 2 * len(msgspec.msgpack.encode(self.blocks))

    def question(self) -> Ask:
        return Ask(self.survey.digest, self.blocks)

    def consent(self, question: Ask) -> None:
        consent(self.survey, self.blocks, question)

    def answer(self, records: Records, question: Ask, stream: Stream) -> Report:
        return Report(randomized(records, question.blocks, stream))

    def pooled(self, reports: Sequence[Report]) -> Pooled:
        cells = np.concatenate([report.codes for report in reports])
        counts = Counts.of(cells_to_codes(self.survey, self.blocks, cells), self.survey.sizes)
        return Pooled(counts.codes, counts.counts.astype(np.uint32))

    def stages(self, people: int) -> Generator[Stage, Totals, Pooled]:
        """One question, and a count of every combination of answers.

        Raises:
            CannotTabulateError: there are more than ``MAX_COUNTED`` combinations, or strata have
                weights.
        """
        self.check_unweighted()
        if self.survey.cells > MAX_COUNTED:
            raise CannotTabulateError(
                f"variant {self.name!r} cannot be tabulated: the survey has {self.survey.cells:,} "
                f"combinations of answers, at most {MAX_COUNTED:,} can be counted"
            )
        totals = yield Stage(self.question(), people)
        counts = Counts.from_table(totals.reshape(self.survey.sizes))
        return Pooled(counts.codes, counts.counts)

    def count(self, stage: Stage, parties: Iterable[Respondents]) -> Totals:
        """Number of reports of each combination."""
        survey, blocks = self.survey, self.blocks
        cells = [
            join_codes(
                cells_to_codes(survey, blocks, self.heard(party, stage.asked).codes), survey.sizes
            )
            for party in parties
        ]
        counts = np.bincount(np.concatenate(cells), minlength=survey.cells)
        return counts.astype(np.int64, copy=False)

    def report_reveals(self, report: Report, seen: Seen) -> PrivacyEvent:
        """Event of a report, by the randomizers of the question; without one, the true answers."""
        ask = seen.get(Ask, AGGREGATOR)
        if ask is None or ask.survey != self.survey.digest:
            return Plain(self.survey.names)
        if ask.blocks == self.blocks:
            return self.report_event
        try:
            cells_per_block(self.survey, ask.blocks)
        except ValueError:
            # The answer to a malformed question may reveal anything.
            return Plain(self.survey.names)
        return blocks_event(ask.blocks)

    @functools.cached_property
    def report_event(self) -> PrivacyEvent:
        """Event of a report that is drawn with the agreed blocks."""
        return blocks_event(self.blocks)

    def most(self) -> float:
        """Sum of the epsilons of the agreed blocks, which no question may exceed."""
        return PureAccountant().judge(self.report_event).record

    @weighted
    def estimate(self, result: Message) -> LinearEstimate[JointReports]:
        found = self.published(result, Pooled)
        counts = pooled(self.survey, found.codes, found.counts)
        return LinearEstimate(JointReports(self.survey, self.blocks, counts))


def randomized(
    records: Records, blocks: tuple[Block, ...], stream: Stream
) -> NDArray[np.unsignedinteger]:
    """Answers drawn with these blocks, (k, b): one randomized cell per respondent and block."""
    # A list, not a generator, for speed: this is done for every party.
    randomizers = tuple([block.randomizer for block in blocks])
    return randomize_columns(randomizers, block_cells(records, blocks), stream)


def fits(codes: NDArray[np.unsignedinteger], blocks: tuple[Block, ...]) -> bool:
    """True if reports can come from these blocks."""
    sizes = np.array([block.randomizer.size for block in blocks], np.uint64)
    return codes.shape[1] == len(blocks) and bool((codes < sizes).all())


def pooled(survey: Survey, codes: Array, counts: Array) -> Counts:
    """Number of reports of each randomized record, from a published result.

    Raises:
        ValueError: records that are not distinct and in order, or another number of counts.
    """
    if len(counts) != len(codes) or not len(codes) or not is_rising(codes):
        raise ValueError(
            "expected one count for each record, and distinct records in lexicographic order"
        )
    totals = counts.astype(np.int64)
    return Counts(survey.sizes, codes, totals, int(totals.sum()))


def block_cells(records: Records, blocks: tuple[Block, ...]) -> NDArray[np.unsignedinteger]:
    """Records (k, m) as one cell per block, (k, b), of the dtype of reports."""
    survey = records.survey
    dtype = smallest_dtype(max([block.randomizer.size for block in blocks]))
    if [block.attributes for block in blocks] == [(name,) for name in survey.names]:
        return records.codes.astype(dtype, copy=False)
    cells = np.empty((len(records), len(blocks)), dtype)
    for column, block in enumerate(blocks):
        axes = list(survey.axes(block.attributes))
        cells[:, column] = join_codes(records.codes[:, axes], [survey.sizes[a] for a in axes])
    return cells


def cells_to_codes(
    survey: Survey, blocks: tuple[Block, ...], cells: NDArray[np.unsignedinteger]
) -> NDArray[np.unsignedinteger]:
    """The inverse of ``block_cells``: (n, b) cells as (n, m) codes of the survey's attributes."""
    codes = np.empty((len(cells), len(survey.sizes)), survey.dtype)
    for column, block in enumerate(blocks):
        axes = list(survey.axes(block.attributes))
        if len(axes) == 1:
            codes[:, axes[0]] = cells[:, column]
            continue
        codes[:, axes] = split_codes(cells[:, column], [survey.sizes[a] for a in axes])
    return codes


def is_rising(codes: NDArray[np.unsignedinteger]) -> bool:
    """Check whether rows are distinct and in lexicographic order."""
    steps = codes[1:].astype(np.int64) - codes[:-1]
    first = np.argmax(steps != 0, axis=1)
    return bool((np.take_along_axis(steps, first[:, np.newaxis], axis=1) > 0).all())
