"""What is on record of a secure sum, and which of its masks a coalition knows.

What a party contributes is its values under masks. In the sparse profile that is a mask of its own
and one per neighbour, which of two neighbours one adds and the other takes away. In the literal one
two parties' shares for each other act like such a mask: their difference is in the broadcast of
one, and with the opposite sign in that of the other. So a contribution is a row over a value and
the masks that the coalition does not know, and elimination tells which sums follow.

A mask is from a party's secret and the key that the aggregator gave it for its neighbour's. Whoever
put another key there knows the mask, and no record says who that was.
"""

from __future__ import annotations

import functools
from collections.abc import Collection
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from protocol.audit.coalition.elimination import Flags, Places, linked
from protocol.sharing.graph import mirror

NOBODY = -1
"""The place of somebody who is not on record, or not among the parties."""


class SumRecord:
    """What is on record of one secure sum, by place among the roster's parties.

    What a coalition sees of it is noted while it is read; whose masks it knows is asked later.

    Args:
        parties: how many the roster has.
        neighbours: of every party.
        profile: of the sum.

    Attributes:
        hoods: (n, k) everybody's neighbours, ``NOBODY`` where the record does not say.
        joined: (n, k) which of them had joined.
        dealt: (n, k) which of them had dealt by what the party was told: it has a mask with those.
        survivors: (n, k) which of them had uploaded by what the party was told.
        foreign: (n, k) which of them it was given another mask key for than they joined with.
        rejected: (n, k) which of them dealt it what it could not open, by its own account.
        contributed: (n,) who has uploaded or broadcast.
        opened: (n,) of whom one secret was published, if the coalition reads it: of those in the
            total the seed of the own mask, of others the secret of the mask key.
        garbled: (n,) whose contribution cannot be read.
        deals_seen, dealt_seen, contributions_seen, unmasked_seen: which of that the coalition sees;
            ``dealt_seen`` is of what a party was dealt.
        counted: (n,) whose values are in the total, by the record.
        recounted: the same by every later closing that says something else.
        total_seen: whether the coalition knows the total.
        contributed_at: (n,) the number of the entry with the contribution.
        total_at: that of the first entry that tells the coalition the total.
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
        self.foreign: Flags = np.zeros((n, k), np.bool_)
        self.rejected: Flags = np.zeros((n, k), np.bool_)
        self.deals_seen: Flags = np.zeros(n, np.bool_)
        self.dealt_seen: Flags = np.zeros(n, np.bool_)
        self.contributed: Flags = np.zeros(n, np.bool_)
        self.opened: Flags = np.zeros(n, np.bool_)
        self.garbled: Flags = np.zeros(n, np.bool_)
        self.contributions_seen: Flags = np.zeros(n, np.bool_)
        self.unmasked_seen: Flags = np.zeros(n, np.bool_)
        self.counted: Flags | None = None
        self.recounted: list[Flags] = []
        self.total_seen = False
        self.contributed_at: Places = np.full(n, NOBODY, np.int64)
        self.total_at: int | None = None

    @property
    def parties(self) -> int:
        """How many the roster has."""
        return len(self.hoods)

    @property
    def neighbours(self) -> int:
        """Of every party."""
        return int(self.hoods.shape[1])

    @property
    def totals(self) -> list[Flags]:
        """Whose values are in the total, (n,): of those who contributed, whoever is counted.

        All if the record does not say. If it says different things, there is one for each, for
        nothing tells which is true.
        """
        if self.counted is None:
            return [self.contributed]
        there = self.contributed | self.garbled
        found = [counted & there for counted in (self.counted, *self.recounted)]
        return list({flags.tobytes(): flags for flags in found}.values())

    @functools.cached_property
    def doubted(self) -> Flags:
        """(n, k) masks with a neighbour that hide nothing: somebody else may know them.

        Those between two of whom either was given a key that is not the other's, or could not open
        what the other dealt. A box is bound to both keys, so it does not open where one is not what
        its owner joined with; it may be damaged for other reasons, and a record that was altered
        may show the right keys.
        """
        if self.profile == "literal":  # Its boxes are sealed with identity keys alone.
            return np.zeros(self.hoods.shape, np.bool_)
        flags = (self.foreign | self.rejected) & (self.hoods >= 0)
        return flags | self.theirs(flags) if flags.any() else flags

    @functools.cached_property
    def back(self) -> NDArray[np.int32]:
        """(n, k) in which column of a neighbour's row the party stands; ``NOBODY`` if in none."""
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
        """(n, k) what is noted in each neighbour's row about the party; False if nothing is."""
        return (self.back >= 0) & flags[self.hoods, self.back]


class Known(NamedTuple):
    """What a coalition knows of one sum.

    Args:
        seen: (n,) honest parties whose contribution it sees.
        totals: (n,) honest parties in the total, for each that it may be; none if it is not known.
        opened: (n,) honest parties whose mask key and own mask follow from shares.
        mask_keys: (n,) whose masks with everybody are known.
        key_shares: (n, k) whose shares of each party's mask key are known, by row.
        unknown: (n, k) the unknown masks of those that are seen, by row.
        under_own: (n,) who is seen and has an own mask that is not known.
        covered: (n,) who is seen and has an unknown mask that no other contribution takes off.
        links: (e, 2) honest parties with an unknown mask that both contributions have.
        components: the places of those that are seen, as such masks link them; in the order of
            their first.
    """

    seen: Flags
    totals: tuple[Flags, ...]
    opened: Flags
    mask_keys: Flags
    key_shares: Flags
    unknown: Flags
    under_own: Flags
    covered: Flags
    links: NDArray[np.int32]
    components: tuple[Places, ...]

    def is_open(self, part: Places) -> bool:
        """Whether the sum over a component follows from its contributions."""
        # What covers one of them is in no other row, so elimination takes the component with it.
        return not self.covered[part].any()

    @property
    def sets(self) -> list[Places]:
        """The sets whose sums follow at once: such components, and what the total is made of."""
        opened = [part for part in self.components if self.is_open(part)]
        return opened + [np.flatnonzero(total) for total in self.totals]


def known_of(
    record: SumRecord,
    members: Flags,
    insiders: Flags,
    *,
    unmasks: bool,
    threshold: int,
) -> Known:
    """What a coalition knows.

    Args:
        members: (n,) whose values it knows, for they are its own.
        insiders: (n,) members, and those whose keys it has.
        unmasks: whether it can open what is sealed for the aggregator.
        threshold: how many shares give a secret.
    """
    n = record.parties
    own_shares = key_shares = np.zeros(record.hoods.shape, np.bool_)
    own, keys = np.ones(n, np.bool_), insiders
    if record.profile == "sparse":
        own_shares, key_shares = _shares_of(record, insiders, unmasks=unmasks)
        # Where nothing tells which of two totals is true, both secrets count as published.
        summed = np.stack(record.totals)
        own = insiders | (own_shares.sum(axis=1) >= threshold)
        own |= record.opened & summed.any(axis=0)
        keys = insiders | (key_shares.sum(axis=1) >= threshold)
        keys |= record.opened & ~summed.all(axis=0)
    seen = record.contributions_seen & ~members
    under_own = seen & ~own
    # The masks in what is seen: with all that had dealt by what the party was told.
    hiding = record.dealt & (record.hoods >= 0) & ~record.doubted
    hiding &= record.hoods != np.arange(n)[:, None]
    unknown = hiding & (seen & ~keys)[:, None] & ~keys[record.hoods]
    here, there = _entries_of(record, unknown, under_own)
    masks = np.minimum(here, there) * np.int64(n) + np.maximum(here, there)
    groups = linked(here, masks, np.where(here < there, np.int8(1), np.int8(-1)), rows=n)
    covered = np.zeros(n, np.bool_)
    covered[here[groups.left]] = True
    once = ~groups.left & (here < there)
    return Known(
        seen=seen,
        totals=tuple(total & ~members for total in record.totals if record.total_seen),
        opened=own & keys & ~insiders,
        mask_keys=keys,
        key_shares=key_shares,
        unknown=unknown,
        under_own=under_own,
        covered=covered,
        links=np.stack([here[once], there[once]], axis=1),
        components=tuple(part for part in groups.members if seen[part[0]]),
    )


def _entries_of(
    record: SumRecord, unknown: Flags, under_own: Flags
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Unknown masks by the party in whose row they are, (e,), and the one whom it has them with.

    A mask of its own a party has with itself.
    """
    n = record.parties
    flat = np.flatnonzero(unknown)
    pairs = flat // record.neighbours * n + record.hoods.ravel()[flat]
    pairs = np.append(pairs, np.flatnonzero(under_own) * (n + 1))
    pairs.sort()
    # A record that breaks the rules may name a neighbour twice.
    here, there = np.divmod(pairs[np.diff(pairs, prepend=-1) > 0], n)
    return here.astype(np.int32), there.astype(np.int32)


def _shares_of(record: SumRecord, insiders: Flags, *, unmasks: bool) -> tuple[Flags, Flags]:
    """Whose shares of each party's secrets are known, by that party and its row, (n, k).

    Args:
        insiders: (n,) whose keys are known.
        unmasks: whether what is sealed for the aggregator can be opened.

    Returns:
        Those of the own mask's seed, and those of the mask key.
    """
    their_dealt = record.theirs(record.dealt)
    theirs = insiders[record.hoods] & (record.hoods >= 0)
    sealed = record.deals_seen[:, None] & record.joined
    handed = record.dealt_seen[record.hoods] & their_dealt
    pooled = theirs & (sealed | handed)
    if not unmasks:
        return pooled, pooled
    revealed = record.unmasked_seen[record.hoods] & their_dealt
    survived = record.theirs(record.survivors)
    return pooled | (revealed & survived), pooled | (revealed & ~survived)


def flags_of(places: Collection[int], parties: int) -> Flags:
    """Places as flags, (n,)."""
    flags = np.zeros(parties, np.bool_)
    flags[list(places)] = True
    return flags
