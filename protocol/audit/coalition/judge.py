"""What a coalition knows of secure sums, from a transcript's entries: whose exact sum follows.

What is said here is linear algebra: which sums follow by adding up what is seen. What follows from
the size of numbers, such as that a total of nothing is made of nothings, comes on top.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from protocol.accounting.events import OneOf, PrivacyEvent, Public
from protocol.audit.coalition.coalition import Coalition
from protocol.audit.coalition.elimination import Flags, Places
from protocol.audit.coalition.finding import (
    CoalitionFinding,
    Component,
    Pair,
    SumFinding,
    WorstCoalition,
)
from protocol.audit.coalition.masks import Known, SumRecord, flags_of, known_of
from protocol.audit.coalition.row_space import row_space
from protocol.audit.coalition.search import search
from protocol.audit.coalition.sums import SumReader
from protocol.audit.ledger import LedgerWriter, merged
from protocol.audit.walk import Fold, Step, fold, walk
from protocol.errors import SurveyError
from protocol.messages import AGGREGATOR, PartyId
from protocol.session.charter import Charter
from protocol.surveys.limits import UNLIMITED, Held
from protocol.transcript.entries import Entry
from protocol.transcript.reader import TranscriptReader

LISTED_MASKS = 2_000
"""Maximum number of masks that a finding lists; of more it gives only the number."""

_ENTRIES = 20


def judge_coalition(
    charter: Charter,
    entries: Iterable[Entry],
    coalition: Coalition,
    *,
    heads: Mapping[PartyId, bytes] | None = None,
) -> CoalitionFinding:
    """What a coalition knows, in one pass over a transcript's entries.

    A transcript of a simulation holds its seed, from which everything follows; it is judged as if
    it did not.

    Args:
        heads: the bodies of the parties' sound heads (``Verification.heads``); who has none counts
            as not having signed.

    Raises:
        SurveyError: the coalition names somebody who is not on the roster.
    """
    return judge_sessions([(charter, entries, heads or {})], coalition)


def judge_sessions(
    sessions: Sequence[tuple[Charter, Iterable[Entry], Mapping[PartyId, bytes]]],
    coalition: Coalition,
) -> CoalitionFinding:
    """What a coalition knows from several sessions about the same counts of the same parties.

    Whoever is on several rosters under one name is taken for one party with the same records, so
    that the totals of two sessions may be subtracted. The ledgers add up.

    Raises:
        SurveyError: no session is given, or the coalition names somebody who is not on any roster.
    """
    if not sessions:
        raise SurveyError("expected at least one session")
    names = dict.fromkeys(name for charter, _, _ in sessions for name, _ in charter.roster.members)
    coalition.check(names)
    readings = []
    for charter, entries, heads in sessions:
        held = _held_of(entries)
        reading = CoalitionReading(charter, coalition.among(charter.roster), held)
        fold(walk(charter.codec, entries, held), reading, heads=heads)
        readings.append(reading)
    return _concluded(readings, coalition)


def worst_coalition(
    charter: Charter,
    entries: Iterable[Entry],
    size: int,
    *,
    heads: Mapping[PartyId, bytes] | None = None,
) -> WorstCoalition:
    """The most damaging coalition of the aggregator and ``size`` parties.

    Args:
        heads: as ``judge_coalition`` takes them.

    Raises:
        SurveyError: ``size`` leaves no honest party, or is negative.
    """
    held = _held_of(entries)
    reading = CoalitionSearch(charter, size, held)
    fold(walk(charter.codec, entries, held), reading, heads=heads)
    return reading.worst_coalition()


def _held_of(entries: Iterable[Entry]) -> Held:
    return Held(lambda: entries.stored) if isinstance(entries, TranscriptReader) else UNLIMITED


class CoalitionReading(Fold):
    """What a coalition knows, in one pass over the steps of a session.

    Args:
        charter: the survey.
        coalition: who of its roster.
        held: counts what is kept, of a file that may be anybody's.
    """

    def __init__(self, charter: Charter, coalition: Coalition, held: Held = UNLIMITED) -> None:
        self.charter = charter
        self.coalition = coalition
        self.sums = SumReader(charter, coalition)
        self.ledger = LedgerWriter(charter, held)
        # What contributions to a sum tell, each once.
        self._events: dict[SumRecord, dict[PrivacyEvent, None]] = {}

    def found(self) -> CoalitionFinding:
        """What it knows by the steps so far."""
        return _concluded([self], self.coalition)

    def start(self, heads: Mapping[PartyId, bytes]) -> None:
        self.ledger.start(heads)

    def add(self, step: Step) -> None:
        event, record = self.ledger.add(step), self.sums.add(step)
        if record is not None and event is not None:
            self._events.setdefault(record, {})[event] = None

    @property
    def whole(self) -> bool:
        """Whether all that is on record of sums was taken in."""
        return self.stopped is None and not self.sums.misplaced

    @property
    def remarks(self) -> tuple[str, ...]:
        """What is to be said of the record."""
        unread = () if self.stopped is None else (f"could not finish: {self.stopped}",)
        return (*unread, *self.sums.remarks)

    def flags(self, names: Iterable[PartyId]) -> Flags:
        """Those of them that are parties of this session, by place."""
        roster, first = self.charter.roster, 1 + len(self.charter.roster.roles)
        known = (name for name in names if name in roster and not roster.serves(name))
        places = [roster.position[name] - first for name in known]
        return flags_of(places, len(self.charter.roster.parties))

    def known(self) -> list[Known]:
        """What the coalition knows of each sum."""
        members, insiders = self.coalition.members, self.coalition.insiders
        return [
            known_of(
                record,
                self.flags(members),
                self.flags(insiders),
                unmasks=AGGREGATOR in insiders,
                threshold=self.sums.threshold,
            )
            for record in self.sums.records
        ]

    def finding(self, record: SumRecord, known: Known, exposed: Collection[PartyId]) -> SumFinding:
        """What the coalition sees of a sum."""
        names = self.charter.roster.parties
        members = self.flags(self.coalition.members)
        components = tuple(
            Component(_named(names, part), known.is_open(part), _hidden_by(known, part))
            for part in known.components
        )
        shown = record.contributed_at[self.flags(exposed) & record.contributed]
        published = [] if record.total_at is None else [record.total_at]
        numbers = sorted((*published, *np.sort(shown)[:_ENTRIES].tolist()))
        links = known.links[:LISTED_MASKS] if len(known.links) <= LISTED_MASKS else known.links[:0]
        return SumFinding(
            profile=record.profile,
            event=self._event(record),
            contributed=int(record.contributed.sum()),
            honest=int((record.contributed & ~members).sum()),
            uploads_seen=int(known.seen.sum()),
            total_known=record.total_seen,
            opened=_named(names, np.flatnonzero(known.opened)),
            unknown_masks=len(known.links),
            masks=tuple((names[i], names[j]) for i, j in links.tolist()),
            components=components,
            entries=tuple(numbers),
        )

    def _event(self, record: SumRecord) -> PrivacyEvent:
        events = tuple(self._events.get(record, ()))
        if len(events) > 1:
            return OneOf(events)
        return events[0] if events else Public()


class CoalitionSearch(CoalitionReading):
    """The most damaging coalition of the aggregator and ``size`` parties, in one pass likewise.

    Raises:
        SurveyError: ``size`` leaves no honest party, or is negative.
    """

    def __init__(self, charter: Charter, size: int, held: Held = UNLIMITED) -> None:
        parties = len(charter.roster.parties)
        if not 0 <= size < parties:
            raise SurveyError(
                f"a coalition of {size} of {parties} parties: expected 0 to {parties - 1}"
            )
        # The aggregator sees whatever passes, so what is seen does not depend on who is with it.
        super().__init__(charter, Coalition((AGGREGATOR,)), held)
        self._size = size

    def worst_coalition(self) -> WorstCoalition:
        """Who that is by the steps so far."""
        parties, sums = self.charter.roster.parties, self.sums
        choice = search(
            sums.records, threshold=sums.threshold, parties=len(parties), size=self._size
        )
        self.coalition = Coalition((AGGREGATOR, *(parties[place] for place in choice.places)))
        return WorstCoalition(self.coalition, self.found(), choice.exact, choice.words)


def _concluded(readings: Sequence[CoalitionReading], coalition: Coalition) -> CoalitionFinding:
    everybody = dict.fromkeys(name for r in readings for name in r.charter.roster.parties)
    place_of = {name: place for place, name in enumerate(everybody)}
    names = tuple(everybody)
    views = [
        (reading, record, known)
        for reading in readings
        for record, known in zip(reading.sums.records, reading.known(), strict=True)
    ]
    sets: list[Places] = []
    for reading, _, known in views:
        here = np.array([place_of[name] for name in reading.charter.roster.parties], np.int64)
        sets += [here[part] for part in known.sets]
    space = row_space(sets, len(names))
    exposed = tuple(names[places[0]] for places in space.determined if len(places) == 1)
    pairs = [Pair(names[i], names[j], "difference") for i, j in space.equal]
    pairs += [Pair(names[i], names[j], "sum") for i, j in space.opposite]
    ledgers = [r.ledger.ledger(r.coalition, exposed=frozenset(exposed)) for r in readings]
    return CoalitionFinding(
        coalition=coalition,
        sums=tuple(reading.finding(record, known, exposed) for reading, record, known in views),
        determined=tuple(_named(names, places) for places in space.determined),
        mixed=tuple(_named(names, places) for places in space.mixed),
        searched=space.searched,
        exposed=exposed,
        pairs=tuple(pairs),
        whole=all(reading.whole for reading in readings),
        ledger=merged(ledgers) if len(ledgers) > 1 else ledgers[0],
        remarks=tuple(remark for reading in readings for remark in reading.remarks),
    )


def _named(names: Sequence[PartyId], places: Places) -> tuple[PartyId, ...]:
    return tuple([names[place] for place in places.tolist()])


def _hidden_by(known: Known, part: Places) -> str:
    if known.under_own[part].any():
        return "masks of their own that it cannot open"
    if not known.is_open(part):
        return "masks with parties whose contributions it does not see"
    return ""
