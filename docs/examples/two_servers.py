"""Two servers add up shares of everybody's counts: neither of them sees an answer."""

from typing import Annotated

import numpy as np

import protocol as sv

WORDS = sv.ArraySpec(dtype="u4", shape=("survey.cells",))


class Begin(sv.Message, frozen=True):
    """A request to send shares."""


class Share(sv.Message, frozen=True):
    """One of two shares of the counts of a party's respondents, modulo 2**32."""

    sealed = True
    share: Annotated[sv.Array, WORDS]


class Subtotal(sv.Message, frozen=True):
    """The sum of the shares that a server has received, and from which parties."""

    total: Annotated[sv.Array, WORDS]
    counted: bytes


class Total(sv.Message, frozen=True):
    """The counts of all respondents."""

    counts: Annotated[
        sv.Array, sv.ArraySpec(dtype="u4", shape=("survey.cells",), most="respondents")
    ]


class TwoServers(sv.Variant, frozen=True):
    """Additive shares between two servers."""

    name = "two-servers"
    roles = ("server", "server")
    messages = (Begin, Share, Subtotal, Total)
    public = (Begin,)
    derived = (Total,)

    async def party(self, me, records):
        begin = await me.receive(Begin, sv.AGGREGATOR)
        cells = self.survey.cells
        counts = np.bincount(sv.join_codes(records.codes, self.survey.sizes), minlength=cells)
        first = (me.stream_for(begin).words(cells) >> np.uint64(32)).astype(np.uint32)
        for server, share in zip(me.roster.of("server"), (first, counts - first), strict=True):
            await me.send(server, Share(share=share.astype(np.uint32)))

    async def server(self, me):
        got = await me.gather(Share, me.roster.parties, within=self.patience)
        total = sum((each.share for each in got.values()), np.zeros(self.survey.cells, np.uint32))
        await me.send(sv.AGGREGATOR, Subtotal(total=total, counted=me.roster.bitmap(got)))

    async def aggregator(self, me, parties):
        await me.broadcast(parties, Begin())
        sums = await me.gather(Subtotal, me.roster.of("server"), at_least=2)
        first, second = sums.values()
        if first.counted != second.counted:
            raise sv.QuorumError(kind="Share", answered=0, at_least=1, missing=parties)
        return Total(counts=first.total + second.total)

    def reveals(self, message, seen):
        if isinstance(message, Share):
            return sv.Hidden.in_shares(sv.ExactCounts(self.survey.names), 2)
        return sv.Merging() if isinstance(message, Subtotal) else super().reveals(message, seen)

    def estimate(self, result):
        table = self.published(result, Total).counts.astype(np.int64).reshape(self.survey.sizes)
        return sv.LinearEstimate(sv.ExactTables(self.survey, {self.survey.names: table}))
