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
    """Honest parties whose contributions are connected by masks that the coalition does not know.

    Args:
        parties: in roster order.
        determined: whether their sum follows from their uploads.
        hidden_by: why it does not; empty if it does.
    """

    parties: Parties
    determined: bool
    hidden_by: str = ""


class SumFinding(msgspec.Struct, frozen=True, kw_only=True):
    """View of a coalition on one secure sum.

    Args:
        profile: of the sum.
        event: the event of a known contribution: true counts, or randomized ones; one of several if
            they differ.
        contributed: the number of parties with contributions on record.
        honest: the number of these that are not the coalition's own, with or without known keys.
        uploads_seen: the number of honest parties' masked contributions that the coalition sees.
        total_known: whether it knows the total.
        opened: honest parties with all secrets known from its shares.
        unknown_masks: the number of masks between two honest parties that it does not know.
        masks: these masks, if they are not too many to list; else empty.
        components: of the graph of those masks on the honest parties with a seen contribution.
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
        """The fewest parties with a sum that these contributions determine; None if none has."""
        sizes = [len(part.parties) for part in self.components if part.determined]
        return min(sizes, default=None)


class Pair(msgspec.Struct, frozen=True):
    """Two parties whose sum or difference is determined, but neither contribution by itself."""

    first: PartyId
    second: PartyId
    relation: Literal["sum", "difference"]


class CoalitionFinding(msgspec.Struct, frozen=True, kw_only=True):
    """Knowledge of a coalition.

    Args:
        coalition: the coalition.
        sums: its view of each secure sum on record, in order.
        determined: the sets of honest parties with an exact sum that follows, from all sums
            together. Any other sum of honest parties that follows is a linear combination of these
            and of the ``mixed`` ones.
        mixed: sets with a sum that follows, overlapping others, that cannot be taken apart.
        searched: no sum over fewer parties follows than over the smallest set named here. With one
            sum on record this always holds.
        exposed: the sets of one party. Only their number protects the respondents of these, and the
            randomization of their contribution, if any.
        pairs: sums and differences of two.
        whole: whether all sums on record were taken in; if not, more may follow.
        ledger: what the coalition learned, message by message.
        remarks: messages that break the rules of a sum, and how they were counted.
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
        """The fewest honest parties with an exact sum that follows; None if none does."""
        sizes = [len(parties) for parties in (*self.determined, *self.mixed)]
        if self.pairs and any(pair.relation == "sum" for pair in self.pairs):
            sizes.append(2)
        return min(sizes, default=None)


class WorstCoalition(msgspec.Struct, frozen=True):
    """The most damaging coalition of a size that was found.

    Args:
        coalition: the coalition; the aggregator is one more than the size asked for.
        finding: its knowledge.
        exact: whether no coalition of that size reveals a smaller set of honest parties.
        search: the search, in words.
    """

    coalition: Coalition
    finding: CoalitionFinding
    exact: bool
    search: str
