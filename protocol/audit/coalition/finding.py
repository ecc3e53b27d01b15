"""Findings on a coalition's knowledge of secure sums, as values."""

from __future__ import annotations

from typing import Literal

import msgspec

from protocol.accounting.events import PrivacyEvent
from protocol.audit.coalition.coalition import Coalition
from protocol.audit.ledger import Ledger
from protocol.messages import PartyId

Parties = tuple[PartyId, ...]


class Component(msgspec.Struct, frozen=True):
    """Honest parties whose contributions hang together by masks that the coalition does not know.

    Args:
        parties: in roster order.
        determined: whether their sum follows from what they have uploaded.
        hidden_by: why it does not; empty if it does.
    """

    parties: Parties
    determined: bool
    hidden_by: str = ""


class SumFinding(msgspec.Struct, frozen=True, kw_only=True):
    """View of a coalition on one secure sum.

    Args:
        profile: of the sum.
        event: what a contribution tells once it is known: true counts, or randomized ones; one of
            several if they differ.
        contributed: how many parties' contributions are on record.
        honest: how many of them are not the coalition's own, with or without known keys.
        uploads_seen: how many of the honest ones' masked contributions the coalition sees.
        total_known: whether it knows the total.
        opened: honest parties all of whose secrets follow from the shares it has.
        unknown_masks: how many masks between two honest parties it does not know.
        masks: which these are, if there are not too many to list; else empty.
        components: of the graph of those masks on the honest parties whose contribution is seen.
        entries: the numbers of the entries that the finding rests on, the first few: how the total
            became known, and the contributions of those that are exposed.
    """

    profile: Literal["literal", "sparse"]
    event: PrivacyEvent
    contributed: int
    honest: int
    uploads_seen: int
    total_known: bool
    opened: Parties
    unknown_masks: int
    masks: tuple[tuple[PartyId, PartyId], ...]
    components: tuple[Component, ...]
    entries: tuple[int, ...]

    @property
    def smallest_component(self) -> int | None:
        """The fewest parties whose sum these contributions determine; None if they do of none."""
        sizes = [len(part.parties) for part in self.components if part.determined]
        return min(sizes, default=None)


class Pair(msgspec.Struct, frozen=True):
    """Two parties of whom the sum or the difference is determined, and neither by herself."""

    first: PartyId
    second: PartyId
    relation: Literal["sum", "difference"]


class CoalitionFinding(msgspec.Struct, frozen=True, kw_only=True):
    """Knowledge of a coalition.

    Args:
        coalition: who conspires.
        sums: what it sees of each secure sum on record, in order.
        determined: the sets of honest parties whose exact sum follows, from all sums together. Any
            other sum of honest parties that follows is a linear combination of these and of the
            ``mixed`` ones.
        mixed: sets whose sum follows that cannot be taken apart, and that overlap others.
        searched: no sum over fewer parties follows than over the smallest set named here. With one
            sum on record this always holds.
        exposed: the sets of one: respondents of these parties have no protection but their
            number, and if the contribution was randomized before, that.
        pairs: sums and differences of two.
        whole: whether all that is on record of sums was taken in; if not, more may follow.
        ledger: what the coalition learned, message by message.
        remarks: what on record breaks the rules of a sum, and how it was counted.
    """

    coalition: Coalition
    sums: tuple[SumFinding, ...]
    determined: tuple[Parties, ...]
    mixed: tuple[Parties, ...]
    searched: bool
    exposed: Parties
    pairs: tuple[Pair, ...]
    whole: bool
    ledger: Ledger
    remarks: tuple[str, ...]

    @property
    def smallest(self) -> int | None:
        """The fewest honest parties of whom the exact sum is known to follow; None if none is."""
        sizes = [len(parties) for parties in (*self.determined, *self.mixed)]
        if self.pairs and any(pair.relation == "sum" for pair in self.pairs):
            sizes.append(2)
        return min(sizes, default=None)


class WorstCoalition(msgspec.Struct, frozen=True):
    """The most damaging coalition of a size that was found.

    Args:
        coalition: it; the aggregator is one more than the size asked for.
        finding: what it knows.
        exact: no coalition of that size brings a smaller set of honest parties to light.
        search: how it was found, in words.
    """

    coalition: Coalition
    finding: CoalitionFinding
    exact: bool
    search: str
