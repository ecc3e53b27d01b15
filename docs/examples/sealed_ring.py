"""A sum that goes around: each party adds its counts to what its neighbour has sealed for it."""

from typing import Annotated

import numpy as np

import protocol as sv

WORDS = sv.ArraySpec(dtype="u4", shape=("survey.cells",))


class Begin(sv.Message, frozen=True):
    """A request to start, or to wait for a neighbour."""


class Start(sv.Message, frozen=True):
    """The first party's counts under a mask, modulo 2**32."""

    sealed = True
    sums: Annotated[sv.Array, WORDS]


class Running(sv.Message, frozen=True):
    """The counts of all parties so far, under the first one's mask."""

    sealed = True
    sums: Annotated[sv.Array, WORDS]


class Unmasked(sv.Message, frozen=True):
    """The counts of all parties."""

    sums: Annotated[sv.Array, WORDS]


class Total(sv.Message, frozen=True):
    """The counts of all respondents."""

    counts: Annotated[
        sv.Array, sv.ArraySpec(dtype="u4", shape=("survey.cells",), most="respondents")
    ]


class SealedRing(sv.Variant, frozen=True):
    """A sum in a ring: only the two neighbours of a party together learn its counts."""

    name = "sealed-ring"
    messages = (Begin, Start, Running, Unmasked, Total)
    public = (Begin,)
    derived = (Total,)
    whole_roster = True

    async def party(self, me, records):
        begin = await me.receive(Begin, sv.AGGREGATOR)
        cells, ring = self.survey.cells, me.roster.parties
        counts = np.bincount(sv.join_codes(records.codes, self.survey.sizes), minlength=cells)
        counts, place = counts.astype(np.uint32), ring.index(me.id)
        before, after = ring[place - 1], ring[(place + 1) % len(ring)]
        if place == 0:
            mask = (me.stream_for(begin).words(cells) >> np.uint64(32)).astype(np.uint32)
            await me.send(after, Start(sums=counts + mask))
            came = await me.receive(Running, before, within=self.patience)
            await me.send(sv.AGGREGATOR, Unmasked(sums=came.sums - mask))
        else:
            kind = Start if place == 1 else Running
            came = await me.receive(kind, before, within=self.patience)
            await me.send(after, Running(sums=came.sums + counts))

    async def aggregator(self, me, parties):
        await me.broadcast(parties, Begin())
        return Total(counts=(await me.receive(Unmasked, parties[0])).sums)

    def reveals(self, message, seen):
        own, start = sv.ExactCounts(self.survey.names), sv.Mask("start")
        if isinstance(message, Start):
            return sv.Hidden(own, masks=(start,))
        if isinstance(message, Running):
            return sv.Hidden(own, onto=("Start", "Running"))
        if isinstance(message, Unmasked):
            return sv.Hidden(sv.Public(), masks=(sv.Mask("start", factor=-1),), onto=("Running",))
        return super().reveals(message, seen)

    def estimate(self, result):
        table = self.published(result, Total).counts.astype(np.int64).reshape(self.survey.sizes)
        return sv.LinearEstimate(sv.ExactTables(self.survey, {self.survey.names: table}))
