"""Record of a secure sum, and the masks that a coalition knows.

A contribution is a party's values under masks. In the sparse profile these are a mask of its own
and one per neighbour, which one of the two adds and the other subtracts. In the literal profile two
parties' shares for each other act like such a mask: their difference is in the broadcast of one,
and with the opposite sign in that of the other. So a contribution is a row over a value and the
masks that the coalition does not know, and elimination finds the sums that follow.

A mask between two parties follows from their identity keys on the roster. Without either key, and
without shares of either, it is unknown.
"""

from __future__ import annotations

import functools
from collections.abc import Collection
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from protocol.accounting.events import PrivacyEvent
from protocol.audit.coalition.elimination import Flags, Places, linked
from protocol.messages import Message
from protocol.sharing.graph import mirror
from protocol.sharing.messages import Dealt, Partials, Totals

NOBODY = -1
"""The place of somebody who is not on record, or not among the parties."""


class SumRecord:
    """Record of one secure sum, by place among the roster's parties.

    It is collected in one pass. The views and known masks of coalitions are computed later.

    Args:
        parties: how many the roster has.
        neighbours: of every party.
        profile: of the sum.

    Attributes:
        hoods: (n, k) everybody's neighbours, ``NOBODY`` if unknown.
        joined: (n, k) the neighbours that had joined.
        dealt: (n, k) the neighbours that had dealt, as the party was told: it got their shares, and
            has a mask with each.
        survivors: (n, k) the neighbours that had uploaded, as the party was told.
        contributed: (n,) the parties that have uploaded or broadcast.
        opened: (n,) the parties with one published secret: the seed of the own mask for those in
            the total, the key to the seeds of their masks for others.
        garbled: (n,) the parties with an unreadable contribution.
        deals, unmasked: (n,) the parties that have dealt shares, and that have opened them.
        counted: (n,) the parties with values in the total, by the record.
        recounted: the same by every later closing that differs.
        contributed_at: (n,) the number of the entry with the contribution.
        published_at: the number of the first entry that publishes the total.
        events: the events of contributions, each once.
        told: by kind, (n,) the number of the first entry by which a party was sent it.
        came: by kind, (n,) of the first such entry that was delivered to it.
    """

    def __init__(
        self, parties: int, neighbours: int, *, profile: Literal["literal", "sparse"] = "sparse"
    ) -> None:
        n, k = parties, neighbours
        self.profile = profile
        self.hoods: NDArray[np.int32] = np.full((n, k), NOBODY, np.int32)
        self.joined: Flags = np.zeros((n, k), np.bool_)
        self.dealt: Flags = np.zeros((n, k), np.bool_)
        self.survivors: Flags = np.zeros((n, k), np.bool_)
        self.deals: Flags = np.zeros(n, np.bool_)
        self.unmasked: Flags = np.zeros(n, np.bool_)
        self.contributed: Flags = np.zeros(n, np.bool_)
        self.opened: Flags = np.zeros(n, np.bool_)
        self.garbled: Flags = np.zeros(n, np.bool_)
        self.counted: Flags | None = None
        self.recounted: list[Flags] = []
        self.contributed_at: Places = np.full(n, NOBODY, np.int64)
        self.published_at: int | None = None
        self.events: dict[PrivacyEvent, None] = {}
        self.told: dict[type[Message], Places] = {}
        self.came: dict[type[Message], Places] = {}

    @property
    def parties(self) -> int:
        """Number of parties on the roster."""
        return len(self.hoods)

    @property
    def neighbours(self) -> int:
        """Number of neighbours of every party."""
        return int(self.hoods.shape[1])

    def note(self, kind: type[Message], place: int, number: int, *, came: bool) -> None:
        """Note that a party is sent something of a kind, or that it is delivered to it."""
        noted = (self.came if came else self.told).setdefault(
            kind, np.full(self.parties, NOBODY, np.int64)
        )
        if noted[place] == NOBODY:
            noted[place] = number

    def seen(self, eyes: Eyes) -> Seen:
        """A coalition's view of the sum."""
        nothing = np.full(self.parties, NOBODY, np.int64)

        def known(kind: type[Message]) -> Places:
            told, came = self.told.get(kind, nothing), self.came.get(kind, nothing)
            numbers = np.concatenate([told[eyes.down], came[eyes.members]])
            found: Places = numbers[numbers != NOBODY]
            return found

        dealt_told = self.told.get(Dealt, nothing) != NOBODY
        dealt_came = self.came.get(Dealt, nothing) != NOBODY
        told = [*([] if self.published_at is None else [self.published_at]), *known(Totals)]
        # All broadcasts together give the contributions.
        return Seen(
            deals=self.deals & eyes.up,
            dealt=(dealt_told & eyes.down) | (dealt_came & eyes.members),
            contributions=self.contributed & (eyes.up | bool(len(known(Partials)))),
            unmasked=self.unmasked & eyes.up,
            total_at=int(min(told)) if told else None,
        )

    @property
    def totals(self) -> list[Flags]:
        """Parties with values in the total, (n,): those that contributed and are counted.

        All that contributed, if the record does not say. If the record contradicts itself, there is
        one mask for each version, as any may be true.
        """
        if self.counted is None:
            return [self.contributed]
        there = self.contributed | self.garbled
        found = [counted & there for counted in (self.counted, *self.recounted)]
        return list({flags.tobytes(): flags for flags in found}.values())

    @functools.cached_property
    def back(self) -> NDArray[np.int32]:
        """(n, k) the column of the party in a neighbour's row; ``NOBODY`` if in none."""
        n, k = self.hoods.shape
        own = np.arange(n, dtype=np.int32)[:, None]
        columns = np.broadcast_to(mirror(np.arange(k), k).astype(np.int32), (n, k))
        fits = (self.hoods >= 0) & (self.hoods[self.hoods, columns] == own)
        back = np.where(fits, columns, NOBODY)
        # Only a record that breaks the rules has neighbours elsewhere than they belong.
        for i, c in np.argwhere((self.hoods >= 0) & ~fits).tolist():
            found = np.flatnonzero(self.hoods[self.hoods[i, c]] == i)
            if len(found):
                back[i, c] = found[0]
        return back

    def theirs(self, flags: Flags) -> Flags:
        """(n, k) the flag in each neighbour's row about the party; False without one."""
        return (self.back >= 0) & flags[self.hoods, self.back]


class Eyes(NamedTuple):
    """Members of a coalition, by place among the parties of a roster.

    Args:
        members: (n,) its own parties, with known values.
        insiders: (n,) members, and parties with known keys.
        up: (n,) parties whose messages to the aggregator it sees.
        down: (n,) parties for which it sees the aggregator's messages as they are sent.
        unmasks: whether it can open boxes for the aggregator.
    """

    members: Flags
    insiders: Flags
    up: Flags
    down: Flags
    unmasks: bool

    @classmethod
    def of_aggregator(cls, chosen: Flags) -> Eyes:
        """Those of the aggregator together with some parties, (n,)."""
        everybody = np.ones(len(chosen), np.bool_)
        return cls(chosen, chosen, everybody, everybody, True)


class Seen(NamedTuple):
    """View of a coalition on one sum.

    Args:
        deals, dealt: (n,) parties whose sealed shares for others, and from others, it sees.
        contributions, unmasked: (n,) parties whose contributions, and opened shares, it sees.
        total_at: the number of the first entry that tells it the total; None if none does.
    """

    deals: Flags
    dealt: Flags
    contributions: Flags
    unmasked: Flags
    total_at: int | None


class Known(NamedTuple):
    """Knowledge of a coalition on one sum.

    Args:
        seen: (n,) honest parties with a contribution that it sees.
        total_at: the number of the first entry that tells it the total; None if none does.
        totals: (n,) honest parties in the total, one mask for each possible total; empty if it is
            unknown.
        opened: (n,) honest parties with all masks known from shares.
        keys: (n,) parties with known masks with everybody.
        key_shares: (n, k) known shares of the key to each party's seeds, by row.
        unknown: (n, k) the unknown masks of those that are seen, by row.
        under_own: (n,) seen parties with an unknown mask of their own.
        covered: (n,) seen parties with an unknown mask that no other contribution removes.
        links: (e, 2) honest parties with an unknown mask that both contributions have.
        components: the places of seen parties, connected by such masks, in the order of the first.
    """

    seen: Flags
    total_at: int | None
    totals: tuple[Flags, ...]
    opened: Flags
    keys: Flags
    key_shares: Flags
    unknown: Flags
    under_own: Flags
    covered: Flags
    links: NDArray[np.int32]
    components: tuple[Places, ...]

    def is_open(self, part: Places) -> bool:
        """Check whether the sum over a component follows from its contributions."""
        # A mask of one of them alone is in no other row, so elimination removes the component with
        # it.
        return not self.covered[part].any()

    @property
    def sets(self) -> list[Places]:
        """The sets with sums that follow at once: such components, and the parties of the total."""
        opened = [part for part in self.components if self.is_open(part)]
        return opened + [np.flatnonzero(total) for total in self.totals]


def coalition_knowledge(record: SumRecord, sight: Seen, eyes: Eyes, threshold: int) -> Known:
    """Knowledge of a coalition.

    Args:
        sight: its view, by ``record.seen``.
        threshold: the number of shares that give a secret.
    """
    n = record.parties
    members, insiders = eyes.members, eyes.insiders
    own_shares = key_shares = np.zeros(record.hoods.shape, np.bool_)
    own, keys = np.ones(n, np.bool_), insiders
    if record.profile == "sparse":
        own_shares, key_shares = _known_shares(record, sight, insiders, unmasks=eyes.unmasks)
        # If either of two totals may be true, both secrets count as published.
        summed = np.stack(record.totals)
        own = insiders | (own_shares.sum(axis=1) >= threshold)
        own |= record.opened & summed.any(axis=0)
        keys = insiders | (key_shares.sum(axis=1) >= threshold)
        keys |= record.opened & ~summed.all(axis=0)
    seen = sight.contributions & ~members
    under_own = seen & ~own
    # The masks in seen contributions: with all that had dealt, as the party was told.
    hiding = record.dealt & (record.hoods >= 0)
    hiding &= record.hoods != np.arange(n)[:, None]
    unknown = hiding & (seen & ~keys)[:, None] & ~keys[record.hoods]
    here, there = _mask_entries(record, unknown, under_own)
    masks = np.minimum(here, there) * np.int64(n) + np.maximum(here, there)
    groups = linked(here, masks, np.where(here < there, np.int8(1), np.int8(-1)), rows=n)
    covered = np.zeros(n, np.bool_)
    covered[here[groups.left]] = True
    once = ~groups.left & (here < there)
    return Known(
        seen=seen,
        total_at=sight.total_at,
        totals=tuple(total & ~members for total in record.totals if sight.total_at is not None),
        opened=own & keys & ~insiders,
        keys=keys,
        key_shares=key_shares,
        unknown=unknown,
        under_own=under_own,
        covered=covered,
        links=np.stack([here[once], there[once]], axis=1),
        components=tuple(part for part in groups.members if seen[part[0]]),
    )


def _mask_entries(
    record: SumRecord, unknown: Flags, under_own: Flags
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The party in whose row each unknown mask is, (e,), and the other party of each mask.

    The other party of a party's own mask is the party itself.
    """
    n = record.parties
    flat = np.flatnonzero(unknown)
    pairs = flat // record.neighbours * n + record.hoods.ravel()[flat]
    pairs = np.append(pairs, np.flatnonzero(under_own) * (n + 1))
    pairs.sort()
    # A record that breaks the rules may name a neighbour twice.
    here, there = np.divmod(pairs[np.diff(pairs, prepend=-1) > 0], n)
    return here.astype(np.int32), there.astype(np.int32)


def _known_shares(
    record: SumRecord, sight: Seen, insiders: Flags, *, unmasks: bool
) -> tuple[Flags, Flags]:
    """Known shares of each party's secrets, by the party and the row of its neighbour, (n, k).

    Args:
        insiders: (n,) the parties with known keys.
        unmasks: whether boxes for the aggregator can be opened.

    Returns:
        The shares of the own mask's seed, and of the key to the other seeds.
    """
    their_dealt = record.theirs(record.dealt)
    theirs = insiders[record.hoods] & (record.hoods >= 0)
    sealed = sight.deals[:, None] & record.joined
    handed = sight.dealt[record.hoods] & their_dealt
    pooled = theirs & (sealed | handed)
    if not unmasks:
        return pooled, pooled
    revealed = sight.unmasked[record.hoods] & their_dealt
    survived = record.theirs(record.survivors)
    return pooled | (revealed & survived), pooled | (revealed & ~survived)


def place_flags(places: Collection[int], parties: int) -> Flags:
    """Places as flags, (n,)."""
    flags = np.zeros(parties, np.bool_)
    flags[list(places)] = True
    return flags
