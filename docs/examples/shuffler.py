"""Reports through a shuffler: the aggregator never learns which report is whose."""

from typing import Annotated

import numpy as np

import protocol as sv


class Ask(sv.Message, frozen=True):
    """A request to report."""


class Report(sv.Message, frozen=True):
    """A report of one respondent, which only the aggregator reads."""

    code: Annotated[sv.Array, sv.ArraySpec(dtype="u4", shape=(1,), high="survey.cells")]


BOXES = sv.ArraySpec(dtype="u1", shape=(sv.Bounds(0, "respondents"), "box"), holds=Report)


class Reports(sv.Message, frozen=True):
    """A box with the report of each of a party's respondents, for the shuffler to pass on."""

    sealed = True
    boxes: Annotated[sv.Array, BOXES]


class Batch(sv.Message, frozen=True):
    """All boxes, in random order."""

    sealed = True
    boxes: Annotated[sv.Array, BOXES]


class Tally(sv.Message, frozen=True):
    """The number of reports of each combination of answers."""

    totals: Annotated[
        sv.Array, sv.ArraySpec(dtype="u4", shape=("survey.cells",), most="respondents")
    ]


class Shuffled(sv.Variant, frozen=True):
    """Reports through a shuffler; epsilon is of a report, in nats."""

    name = "shuffled"
    roles = ("shuffler",)
    messages = (Ask, Report, Reports, Batch, Tally)
    public = (Ask,)
    derived = (Tally,)
    box = sv.sealed_bytes(Report(code=np.zeros(1, np.uint32)))
    epsilon: sv.Epsilon = 1.0

    @property
    def randomizer(self):
        return sv.KeepUniform.with_epsilon(self.survey.cells, epsilon=self.epsilon)

    async def party(self, me, records):
        ask = await me.receive(Ask, sv.AGGREGATOR)
        codes = sv.join_codes(records.codes, self.survey.sizes)
        drawn = self.randomizer.randomize(codes, me.stream_for(ask)).astype(np.uint32)
        boxes = me.seal(sv.AGGREGATOR, [Report(code=drawn[i : i + 1]) for i in range(len(drawn))])
        await me.send(*me.roster.of("shuffler"), Reports(boxes=boxes))

    async def shuffler(self, me):
        got = await me.gather(Reports, me.roster.parties, within=self.patience)
        boxes = np.concatenate([np.zeros((0, self.box), "u1"), *(r.boxes for r in got.values())])
        order = me.stream.derive("order").permutation(len(boxes))
        await me.send(sv.AGGREGATOR, Batch(boxes=boxes[order]))

    async def aggregator(self, me, parties):
        await me.broadcast(parties, Ask())
        batch = await me.receive(Batch, *me.roster.of("shuffler"))
        codes = [int(report.code[0]) for report in me.open(Report, batch.boxes) if report]
        return Tally(totals=np.bincount(codes, minlength=self.survey.cells).astype(np.uint32))

    def reveals(self, message, seen):
        if isinstance(message, Reports):
            return sv.Sealed(sv.AGGREGATOR, sv.Randomized(self.randomizer, self.survey.names))
        return sv.Merging() if isinstance(message, Batch) else super().reveals(message, seen)

    def estimate(self, result):
        totals = self.published(result, Tally).totals.astype(np.int64)
        names, reports = self.survey.names, int(totals.sum())
        return sv.LinearEstimate(sv.Tallies(self.survey, names, self.randomizer, totals, reports))
