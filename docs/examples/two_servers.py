"""Two servers add up shares of everybody's answer: neither of them sees an answer."""

from collections.abc import Sequence
from typing import Annotated

import numpy as np

from protocol import (
    AGGREGATOR,
    Array,
    ArraySpec,
    ExactCounts,
    ExactTables,
    Hidden,
    LinearEstimate,
    Me,
    Merging,
    Message,
    PartyId,
    PrivacyEvent,
    Records,
    Seen,
    Variant,
    join_codes,
)

WORDS = ArraySpec(dtype="u4", shape=("survey.cells",))


class Begin(Message, frozen=True):
    """A request to send shares."""


class Share(Message, frozen=True):
    """One of two shares of the counts of a party's respondents, modulo 2**32."""

    sealed = True
    share: Annotated[Array, WORDS]


class Subtotal(Message, frozen=True):
    """The sum of the shares that a server has received."""

    total: Annotated[Array, WORDS]


class Total(Message, frozen=True):
    """The counts of all respondents."""

    counts: Annotated[Array, ArraySpec(dtype="u4", shape=("survey.cells",), most="respondents")]


class TwoServers(Variant, frozen=True):
    """Additive shares between two servers."""

    name = "two-servers"
    roles = ("server", "server")
    messages = (Begin, Share, Subtotal, Total)
    public = (Begin,)
    derived = (Total,)

    async def party(self, me: Me, records: Records) -> None:
        begin = await me.receive(Begin, AGGREGATOR)
        cells = self.survey.cells
        counts = np.bincount(join_codes(records.codes, self.survey.sizes), minlength=cells)
        first = (me.stream_for(begin).words(cells) >> np.uint64(32)).astype(np.uint32)
        for server, share in zip(me.roster.of("server"), (first, counts - first), strict=True):
            await me.send(server, Share(share=share.astype(np.uint32)))

    async def server(self, me: Me) -> None:
        got = await me.gather(Share, me.roster.parties, within=self.patience)
        total = sum((each.share for each in got.values()), np.zeros(self.survey.cells, np.uint32))
        await me.send(AGGREGATOR, Subtotal(total=total))

    async def aggregator(self, me: Me, parties: Sequence[PartyId]) -> Total:
        await me.broadcast(parties, Begin())
        sums = await me.gather(Subtotal, me.roster.of("server"), at_least=2)
        first, second = sums.values()
        return Total(counts=first.total + second.total)

    def reveals(self, message: Message, seen: Seen) -> PrivacyEvent:
        if isinstance(message, Share):
            return Hidden.in_shares(ExactCounts(self.survey.names), 2)
        return Merging() if isinstance(message, Subtotal) else super().reveals(message, seen)

    def estimate(self, result: Message) -> LinearEstimate[ExactTables]:
        counts = self.published(result, Total).counts.astype(np.int64)
        table = counts.reshape(self.survey.sizes)
        return LinearEstimate(ExactTables(self.survey, {self.survey.names: table}))
