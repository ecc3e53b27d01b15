"""Reports through a shuffler: the aggregator never learns which report is whose."""

from collections.abc import Sequence
from typing import Annotated

import numpy as np

from protocol import (
    AGGREGATOR,
    Array,
    ArraySpec,
    Bounds,
    Epsilon,
    KeepUniform,
    LinearEstimate,
    Me,
    Merging,
    Message,
    PartyId,
    PrivacyEvent,
    Randomized,
    Records,
    Sealed,
    Seen,
    Tallies,
    Variant,
    join_codes,
    sealed_bytes,
)


class Ask(Message, frozen=True):
    """A request to report."""


class Report(Message, frozen=True):
    """A report of one respondent, which only the aggregator reads."""

    code: Annotated[Array, ArraySpec(dtype="u4", shape=(1,), high="survey.cells")]


class Reports(Message, frozen=True):
    """A box with the report of each of a party's respondents, for the shuffler to pass on."""

    sealed = True
    boxes: Annotated[
        Array, ArraySpec(dtype="u1", shape=(Bounds(1, "max_records"), "box"), holds=Report)
    ]


class Batch(Message, frozen=True):
    """All boxes, in random order."""

    sealed = True
    boxes: Annotated[
        Array, ArraySpec(dtype="u1", shape=(Bounds(0, "respondents"), "box"), holds=Report)
    ]


class Tally(Message, frozen=True):
    """The number of reports of each combination of answers."""

    totals: Annotated[Array, ArraySpec(dtype="u4", shape=("survey.cells",), most="respondents")]


class Shuffled(Variant, frozen=True):
    """Reports through a shuffler.

    Args:
        epsilon: of a report, in nats.
    """

    name = "shuffled"
    roles = ("shuffler",)
    messages = (Ask, Report, Reports, Batch, Tally)
    public = (Ask,)
    derived = (Tally,)
    box = sealed_bytes(Report(code=np.zeros(1, np.uint32)))
    epsilon: Epsilon = 1.0

    @property
    def randomizer(self) -> KeepUniform:
        return KeepUniform.with_epsilon(self.survey.cells, epsilon=self.epsilon)

    async def party(self, me: Me, records: Records) -> None:
        ask = await me.receive(Ask, AGGREGATOR)
        codes = join_codes(records.codes, self.survey.sizes)
        drawn = self.randomizer.randomize(codes, me.stream_for(ask)).astype(np.uint32)
        boxes = me.seal(AGGREGATOR, [Report(code=drawn[i : i + 1]) for i in range(len(drawn))])
        await me.send(*me.roster.of("shuffler"), Reports(boxes=boxes))

    async def shuffler(self, me: Me) -> None:
        got = await me.gather(Reports, me.roster.parties, within=self.patience)
        boxes = np.concatenate(
            [np.zeros((0, self.box), np.uint8), *(r.boxes for r in got.values())]
        )
        await me.send(
            AGGREGATOR, Batch(boxes=boxes[me.stream.derive("order").permutation(len(boxes))])
        )

    async def aggregator(self, me: Me, parties: Sequence[PartyId]) -> Tally:
        await me.broadcast(parties, Ask())
        batch = await me.receive(Batch, *me.roster.of("shuffler"))
        codes = [int(report.code[0]) for report in me.open(Report, batch.boxes) if report]
        return Tally(totals=np.bincount(codes, minlength=self.survey.cells).astype(np.uint32))

    def reveals(self, message: Message, seen: Seen) -> PrivacyEvent:
        if isinstance(message, Reports):
            return Sealed(AGGREGATOR, Randomized(self.randomizer, self.survey.names))
        return Merging() if isinstance(message, Batch) else super().reveals(message, seen)

    def estimate(self, result: Message) -> LinearEstimate[Tallies]:
        totals = self.published(result, Tally).totals.astype(np.int64)
        names, reports = self.survey.names, int(totals.sum())
        return LinearEstimate(Tallies(self.survey, names, self.randomizer, totals, reports))

    def most(self) -> float:
        return self.randomizer.epsilon
