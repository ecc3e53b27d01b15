"""A prefix tree: the frequent values of a large domain, found two bits at a time."""

from typing import Annotated, Literal

import numpy as np

import protocol as sv

COUNTS = sv.ArraySpec(dtype="u4", shape=("survey.cells",), most="respondents")
VALUES = sv.ArraySpec(dtype="u4", shape=(sv.Bounds(1, "max_records"),), high="survey.cells")


class Ask(sv.Message, frozen=True):
    """A request for the prefix of a level's length, from the parties of that level."""

    level: Literal[0, 1, 2, 3]


class Report(sv.Message, frozen=True):
    """The randomized prefix of each respondent."""

    level: Literal[0, 1, 2, 3]
    prefixes: Annotated[sv.Array, VALUES]


class Frequent(sv.Message, frozen=True):
    """The reports on whole values, and the values under prefixes that were frequent."""

    totals: Annotated[sv.Array, COUNTS]
    values: tuple[int, ...]


class PrefixTree(sv.Variant, frozen=True):
    """A frequent value has frequent prefixes; each level asks other parties.

    Args:
        epsilon: of a report, in nats.
        kept: how many prefixes of each level are followed.
    """

    name = "prefix-tree"
    messages = (Ask, Report, Frequent)
    public = (Ask,)
    derived = (Frequent,)
    epsilon: sv.Epsilon = 3.0
    kept: int = 2

    @property
    def levels(self):
        return -(-(self.survey.cells - 1).bit_length() // 2)

    def prefixes(self, codes, level):
        return codes // 4 ** max(self.levels - 1 - level, 0)

    def randomizer(self, level):
        size = int(self.prefixes(self.survey.cells - 1, level)) + 1
        return sv.KeepUniform.with_epsilon(size, epsilon=self.epsilon)

    async def party(self, me, records):
        ask = await me.receive(Ask, sv.AGGREGATOR)
        values = self.prefixes(sv.join_codes(records.codes, self.survey.sizes), ask.level)
        drawn = self.randomizer(ask.level).randomize(values, me.stream_for(ask))
        await me.send(sv.AGGREGATOR, Report(level=ask.level, prefixes=drawn.astype(np.uint32)))

    async def aggregator(self, me, parties):
        followed = {0}
        for level in range(self.levels):
            asked = parties[level :: self.levels]
            await me.broadcast(asked, Ask(level=level))
            got = (await me.gather(Report, asked, within=self.patience)).values()
            reports = [r.prefixes for r in got if r.level == level]
            totals = np.bincount(np.concatenate(reports), minlength=self.survey.cells)
            below = [p for p in range(self.survey.cells) if p // 4 in followed]
            followed = set(sorted(below, key=lambda p: (-totals[p], p))[: self.kept])
        return Frequent(totals=totals.astype(np.uint32), values=tuple(sorted(followed)))

    def reveals(self, message, seen):
        if isinstance(message, Report):
            return sv.Randomized(self.randomizer(message.level), self.survey.names)
        return super().reveals(message, seen)

    def drawn(self, message, event, records):
        values = self.prefixes(sv.join_codes(records.codes, self.survey.sizes), message.level)
        rows = np.arange(len(message.prefixes))
        return [sv.Drawn(event, rows, message.prefixes, values)]

    def estimate(self, result):
        totals = self.published(result, Frequent).totals.astype(np.int64)
        last, n = self.randomizer(self.levels - 1), int(totals.sum())
        return sv.LinearEstimate(sv.Tallies(self.survey, self.survey.names, last, totals, n))
