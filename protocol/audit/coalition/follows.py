"""The sums that a coalition knows of honest parties' contributions, from one session or several."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from protocol.accounting.events import Masked, Merged, PrivacyEvent, replaced
from protocol.audit.coalition.coalition import Coalition
from protocol.audit.coalition.elimination import Places
from protocol.audit.coalition.masks import Known, SumRecord
from protocol.audit.coalition.row_space import row_space
from protocol.audit.coalition.sums import SumReader
from protocol.messages import PartyId


class Follows:
    """The sums that follow from a coalition's views of some sessions together.

    Args:
        sessions: for each session, the sums on record and the coalition among its roster.
        disclosed: parties with known keys and records. Their contributions are subtracted, as those
            of members are.

    Attributes:
        names: the parties of all sessions; one name on several rosters is one party.
        views: by session, each sum on record and the coalition's knowledge of it.
        space: the sums that follow, by places among ``names``.
    """

    def __init__(
        self,
        sessions: Sequence[tuple[SumReader, Coalition]],
        disclosed: Collection[PartyId] = (),
    ) -> None:
        everybody = dict.fromkeys(name for sums, _ in sessions for name in sums.parties)
        self.names = tuple(everybody)
        places = {name: place for place, name in enumerate(self.names)}
        self.views: list[list[tuple[SumRecord, Known]]] = []
        sets: list[Places] = []
        # Of how many parties the total would be, if it were known.
        self._at_most: dict[PartyId, int] = {}
        self._disclosed: dict[PartyId, None] = {}
        for sums, coalition in sessions:
            here = np.array([places[name] for name in sums.parties], np.int64)
            knowing = coalition.holding(disclosed)
            views = [*zip(sums.records, sums.known(knowing), strict=True)]
            self.views.append(views)
            members = sums.flags(knowing.members)
            for record, known in views:
                sets += [here[part] for part in known.sets]
                honest = np.flatnonzero(record.contributed & ~members)
                for name in self.named(here[honest]):
                    most = self._at_most.get(name, len(honest))
                    self._at_most[name] = min(most, len(honest))
                told = sums.flags(disclosed) & record.contributed & ~sums.flags(coalition.members)
                self._disclosed |= dict.fromkeys(self.named(here[np.flatnonzero(told)]))
        self.space = row_space(sets, len(self.names))
        self._classes = {
            name: len(part) for part in self.space.determined for name in self.named(part)
        }
        mixed = {place for part in self.space.mixed for place in part.tolist()}
        mixed |= {place for row in self.space.weighted for place in row}
        mixed |= {place for pair in (*self.space.equal, *self.space.opposite) for place in pair}
        self._mixed = {self.names[place] for place in mixed}.difference(self._classes)
        self._told: dict[tuple[PrivacyEvent, int, bool], PrivacyEvent] = {}

    @property
    def exposed(self) -> tuple[PartyId, ...]:
        """Parties with a known contribution, in the order of their places."""
        return tuple(self.names[p[0]] for p in self.space.determined if len(p) == 1)

    def named(self, places: Collection[int] | Places) -> tuple[PartyId, ...]:
        """The parties at some places."""
        return tuple([self.names[place] for place in np.asarray(places, np.int64).tolist()])

    def told(self, party: PartyId, event: PrivacyEvent) -> PrivacyEvent:
        """The event of a party's contribution: its own, or that of a sum with others.

        If several overlapping sums follow, or none yet, it is charged as the most revealing one:
        over this party alone, or over all that contributed. A party that has disclosed its own
        records is charged as for an observer without them, but with all other disclosures.
        """
        honest = self._honest(party)
        bare = self._classes.get(party) == 1
        if party in self._disclosed:
            honest = 1 + min(map(self._honest, self._at_most), default=0)
            bare = honest == 1
        if not honest:  # Its contribution is on record of no sum.
            return event
        key = event, honest, bare
        if key not in self._told:
            self._told[key] = replaced(event, lambda part: _told(part, honest, bare=bare))
        return self._told[key]

    def _honest(self, party: PartyId) -> int:
        """Least number of undisclosed parties in a sum with this party."""
        if party in self._mixed:
            return 1
        return self._classes.get(party, 0) or self._at_most.get(party, 0)


def _told(part: PrivacyEvent, honest: int, *, bare: bool) -> PrivacyEvent:
    if not isinstance(part, Masked):
        return part
    return part.event if bare else Merged(part.event, honest)
