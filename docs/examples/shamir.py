"""Three servers hold shares of everybody's counts: any two of them tell the total."""

from typing import Annotated

import numpy as np

import protocol as sv

PRIME = 2**31 - 1
ELEMENTS = sv.ArraySpec(dtype="u8", shape=("survey.cells",), high=PRIME)


class Begin(sv.Message, frozen=True):
    """A request to send shares."""


class Share(sv.Message, frozen=True):
    """The value of a line at a server's place, for each count of a party's respondents."""

    sealed = True
    share: Annotated[sv.Array, ELEMENTS]


class Subtotal(sv.Message, frozen=True):
    """The sum of the shares that a server has received, and from which parties."""

    total: Annotated[sv.Array, ELEMENTS]
    counted: bytes


class Total(sv.Message, frozen=True):
    """The counts of all respondents."""

    counts: Annotated[
        sv.Array, sv.ArraySpec(dtype="u8", shape=("survey.cells",), most="respondents")
    ]


class Shamir(sv.Variant, frozen=True):
    """Shamir's shares among three servers, two of which are enough."""

    name = "shamir"
    roles = ("server", "server", "server")
    messages = (Begin, Share, Subtotal, Total)
    public = (Begin,)
    derived = (Total,)

    async def party(self, me, records):
        begin = await me.receive(Begin, sv.AGGREGATOR)
        cells = self.survey.cells
        counts = np.bincount(sv.join_codes(records.codes, self.survey.sizes), minlength=cells)
        slopes = me.stream_for(begin).integers(PRIME, cells).astype(np.int64)
        for place, server in enumerate(me.roster.of("server"), 1):
            share = (counts + place * slopes) % PRIME
            await me.send(server, Share(share=share.astype(np.uint64)))

    async def server(self, me):
        got = await me.gather(Share, me.roster.parties, within=self.patience)
        total = sum((each.share for each in got.values()), np.zeros(self.survey.cells, np.uint64))
        await me.send(sv.AGGREGATOR, Subtotal(total=total % PRIME, counted=me.roster.bitmap(got)))

    async def aggregator(self, me, parties):
        await me.broadcast(parties, Begin())
        servers = me.roster.of("server")
        sums = await me.gather(Subtotal, servers, within=self.patience, at_least=2)
        places = {name: place for place, name in enumerate(servers, 1)}
        for a, one in sums.items():
            for b, other in sums.items():
                if places[a] < places[b] and one.counted == other.counted:
                    rise = pow(places[b] - places[a], -1, PRIME)
                    at_a, at_b = one.total.astype(np.int64), other.total.astype(np.int64)
                    counts = (at_a * places[b] - at_b * places[a]) % PRIME * rise % PRIME
                    return Total(counts=counts.astype(np.uint64))
        raise sv.QuorumError(kind="Share", answered=0, at_least=1, missing=parties)

    def reveals(self, message, seen):
        if isinstance(message, Share):
            return sv.Hidden.in_shares(sv.ExactCounts(self.survey.names), 2)
        return sv.Merging() if isinstance(message, Subtotal) else super().reveals(message, seen)

    def estimate(self, result):
        table = self.published(result, Total).counts.astype(np.int64).reshape(self.survey.sizes)
        return sv.LinearEstimate(sv.ExactTables(self.survey, {self.survey.names: table}))
