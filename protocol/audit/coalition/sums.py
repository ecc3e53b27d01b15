"""Reads secure sums from a transcript's steps."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from protocol.audit.coalition.coalition import Coalition
from protocol.audit.coalition.elimination import Flags
from protocol.audit.coalition.masks import (
    NOBODY,
    Eyes,
    Known,
    SumRecord,
    coalition_knowledge,
    place_flags,
)
from protocol.audit.walk import Step
from protocol.errors import RemoteProtocolError
from protocol.messages import AGGREGATOR, KERNEL_KINDS, RECORD, Closed, Envelope, Message, PartyId
from protocol.session.charter import Charter
from protocol.session.closings import Closings
from protocol.session.variant import Variant
from protocol.sharing.messages import (
    OPENED,
    Deal,
    Dealt,
    Graph,
    Join,
    Opening,
    Partial,
    Partials,
    Survivors,
    Totals,
    Unmask,
    Upload,
)
from protocol.sharing.sparse import survivors_among
from protocol.sharing.sums import Profile, find_secure_sum
from protocol.transcript.entries import Sent

_OF_SPARSE = (Upload, Survivors, Unmask, Opening, Totals)
_READ = (Join, Graph, Deal, Dealt, *_OF_SPARSE, Partial, Partials, Closed)
_KNOWN = frozenset(_READ)
_BY_AGGREGATOR = frozenset((Graph, Dealt, Survivors, Totals, Partials))
_TOLD = (Dealt, Totals, Partials)
"""The kinds by which parties are told what a coalition may use."""

_TO_RECORD = (Closed.kind(), Opening.kind())
_CONTRIBUTIONS = (Upload.kind(), Partial.kind())
_KERNEL = frozenset(kind.kind() for kind in KERNEL_KINDS)

MASKS = 2**22
"""Maximum number of masks over all sums of a record; a single sum may have any number."""

COUNTS = 64
"""Maximum number of different sets of counted parties that are kept for one sum."""

_REMARKS = 20
_NAMED = 5


_Row = tuple[NDArray[Any], ...]
"""Values of one instruction to a party, in the order of ``_NOTED``."""

_NOTED: dict[type[Message], tuple[str, ...]] = {
    Graph: ("hoods", "joined"),
    Dealt: ("dealt",),
    Survivors: ("survivors",),
}
"""Instructions, each sent to a party once, and the fields of ``SumRecord`` with their content."""

_NOTHING, _SAID, _DELIVERED = range(3)


class _UnderWay(NamedTuple):
    """A message under way.

    Args:
        row: the row of an instruction, if it is to be noted.
    """

    record: SumRecord
    kind: type[Message]
    place: int
    row: _Row | None = None


class SumReader:
    """Collects the record of secure sums, in one pass.

    A party that joins again begins the next sum, and all its later messages belong to it. Of
    several instructions of one kind the first delivered one counts, as a party ignores others; if
    none is delivered, the first sent. Memory is a few numbers per party and neighbour, and
    instructions under way.

    Args:
        charter: the survey.

    Attributes:
        records: the record of each sum.
        misplaced: whether a contribution belongs to none of them.
    """

    def __init__(self, charter: Charter) -> None:
        self._charter = charter
        self._places = {name: place for place, name in enumerate(charter.roster.parties)}
        # The profile and degree of sums, by the ``SecureSum`` among the variant's parameters, if
        # any.
        self._profile: Profile = "sparse"
        self._neighbours: int | None = None
        self._threshold: int | None = None
        variant: Variant = charter.variant
        sums = find_secure_sum(variant)
        if sums is not None:
            with contextlib.suppress(ValueError):
                degree = sums.degree(len(charter.roster.parties))
                self._neighbours, self._threshold = degree.neighbours, degree.threshold
                self._profile = sums.profile
        names = set(charter.codec.names)
        self._kinds = {kind.kind() for kind in _READ if kind.kind() in names}
        self._latest = np.full(len(self._places), NOBODY, np.int64)
        # By the number of the entry.
        self._under_way: dict[int | None, _UnderWay] = {}
        # How far instructions have come, by place.
        self._stages: dict[tuple[SumRecord, type[Message]], NDArray[np.uint8]] = defaultdict(
            lambda: np.zeros(len(self._places), np.uint8)
        )
        self._whole = Closings(len(charter.roster))
        self._left_out = 0
        self._remarks: list[str] = []
        self.records: list[SumRecord] = []
        self.misplaced = False

    @property
    def parties(self) -> tuple[PartyId, ...]:
        """Those of the session, in roster order."""
        return self._charter.roster.parties

    @property
    def remarks(self) -> tuple[str, ...]:
        """First few remarks on broken rules of a sum."""
        more = [f"and {self._left_out:,} more remarks"] if self._left_out else []
        return (*self._remarks, *more)

    @property
    def threshold(self) -> int:
        """Number of shares that give a secret; if unknown, the fewest that a sum can have."""
        if self._threshold is not None:
            return self._threshold
        # Of k neighbours it takes more than half.
        return min((record.neighbours for record in self.records), default=0) // 2 + 1

    def eyes(self, coalition: Coalition) -> Eyes:
        """A coalition by place among the parties."""
        names = self._charter.roster.parties
        overhears = coalition.overhears
        return Eyes(
            members=self.flags(coalition.members),
            insiders=self.flags(coalition.insiders),
            up=np.array([overhears(name, AGGREGATOR) for name in names], np.bool_),
            down=np.array([overhears(AGGREGATOR, name) for name in names], np.bool_),
            unmasks=AGGREGATOR in coalition.insiders,
        )

    def flags(self, names: Iterable[PartyId]) -> Flags:
        """Those of them that are parties of this session, (n,)."""
        places = [self._places[name] for name in names if name in self._places]
        return place_flags(places, len(self._places))

    def known(self, coalition: Coalition) -> list[Known]:
        """Knowledge of a coalition on each sum."""
        eyes = self.eyes(coalition)
        return [
            coalition_knowledge(record, record.seen(eyes), eyes, self.threshold)
            for record in self.records
        ]

    def add(self, step: Step) -> SumRecord | None:
        """Take the next step; returns the sum that it contributes to, if it does."""
        if step.envelope is None:
            return None
        if isinstance(step.entry, Sent):
            summed = self._sent(step.envelope, step.message, step.malformed, step.number)
            if step.lost:
                self._under_way.pop(step.number, None)
            return summed
        came = self._under_way.pop(step.said, None)
        if came is None:
            return None
        if came.kind in _TOLD:
            came.record.note(came.kind, came.place, step.number, came=True)
        stages = self._stages.get((came.record, came.kind))
        if stages is not None and stages[came.place] != _DELIVERED:
            stages[came.place] = _DELIVERED
            if came.row is not None:
                _put(came.record, came.kind, came.place, came.row)
        return None

    def _sent(
        self, envelope: Envelope, message: Message | None, malformed: str, number: int
    ) -> SumRecord | None:
        sender, recipient = envelope.sender, envelope.recipient
        for_record = (sender, recipient) == (AGGREGATOR, RECORD)
        if for_record and envelope.kind not in _KERNEL and not isinstance(message, Opening):
            # The published result may reveal every total.
            for record in self.records:
                if record.contributed.any() and record.published_at is None:
                    record.published_at = number
        if envelope.kind not in self._kinds:
            return None
        # An aggregator talks to the record in a few kinds; a party talks to the aggregator.
        place = self._places.get(recipient if sender == AGGREGATOR else sender)
        if place is None and envelope.kind not in _TO_RECORD:
            return None
        if message is None:
            self._remark(f"{sender} #{envelope.seq}: {malformed}")
            if for_record and envelope.kind == Opening.kind():
                self._opened(0, np.ones(len(self._places), np.bool_))
            if place is not None and envelope.kind in _CONTRIBUTIONS:
                self._note_garbled(place)
            return None
        if type(message) not in _KNOWN:
            return None  # Another dialogue's kind of the same name.
        if isinstance(message, Closed):
            if for_record:
                self._closed(message, number)
        elif isinstance(message, Opening):
            # Of a sum that could not be unmasked it has no secrets.
            if for_record:
                self._opened(message.round * OPENED, np.any(message.secrets, axis=1))
        elif place is not None and (sender == AGGREGATOR) == (type(message) in _BY_AGGREGATOR):
            return self._take(message, envelope, place, number)
        return None

    def _take(
        self, message: Message, envelope: Envelope, place: int, number: int
    ) -> SumRecord | None:
        if isinstance(message, Join):
            self._latest[place] += 1
            return None
        record = self._record(place, message)
        contributes = isinstance(message, Upload | Partial)
        if record is None:
            self.misplaced |= contributes
            why = "before any graph, or in one sum too many"
            self._remark(f"{envelope.sender} #{envelope.seq}: {envelope.kind!r} {why}")
            return None
        kind = type(message)
        if kind in _TOLD:
            record.note(kind, place, number, came=False)
            self._under_way[number] = _UnderWay(record, kind, place)
        self._note(record, message, envelope, place, number)
        return record if contributes else None

    def _record(self, place: int, message: Message) -> SumRecord | None:
        index = max(0, int(self._latest[place]))
        neighbours = self._neighbours
        if neighbours is None and isinstance(message, Graph):
            neighbours = len(message.there)
        while neighbours is not None and len(self.records) <= index < self._most_sums(neighbours):
            self.records.append(SumRecord(len(self._places), neighbours, profile=self._profile))
        return self.records[index] if index < len(self.records) else None

    def _most_sums(self, neighbours: int) -> int:
        """Maximum number of sums, as a party could join, and so begin sums, without end."""
        return max(1, MASKS // max(1, len(self._places) * neighbours))

    def _note(
        self, record: SumRecord, message: Message, envelope: Envelope, place: int, number: int
    ) -> None:
        match message:
            case Graph() | Dealt() | Survivors():
                self._note_instruction(record, message, envelope, place, number)
            case Upload() | Partial():
                if record.contributed[place]:
                    self._remark(
                        f"{envelope.sender} contributed twice under the same masks (entries "
                        f"{record.contributed_at[place]} and {number}): whoever sees both knows "
                        "by how much they differ"
                    )
                    return
                if isinstance(message, Partial):
                    record.profile = "literal"
                record.contributed[place] = True
                record.contributed_at[place] = number
            case Deal():
                record.deals[place] = True
            case Unmask():
                record.unmasked[place] = True
            case _:
                pass

    def _note_garbled(self, place: int) -> None:
        index = max(0, int(self._latest[place]))
        if index < len(self.records):
            self.records[index].garbled[place] = True

    def _note_instruction(
        self, record: SumRecord, message: Message, envelope: Envelope, place: int, number: int
    ) -> None:
        """Note an instruction to a party, unless it has one already."""
        kind, row = type(message), self._noted_row(record, message, place)
        if row is None:
            return
        stages = self._stages[record, kind]
        if stages[place] == _NOTHING:
            stages[place] = _SAID
            _put(record, kind, place, row)
        noted = [getattr(record, name)[place] for name in _NOTED[kind]]
        same = all(map(np.array_equal, noted, row))
        if stages[place] == _SAID:
            later = None if same else row
            self._under_way[number] = _UnderWay(record, kind, place, later)
        if not same:
            self._remark(
                f"{envelope.recipient} was sent a second {envelope.kind!r} that says something "
                f"else (entry {number}): what was delivered to it first counts"
            )

    def _noted_row(self, record: SumRecord, message: Message, place: int) -> _Row | None:
        """Row of an instruction; None if it does not fit the sum."""
        match message:
            case Graph() if len(message.names) == record.neighbours:
                named = [self._places.get(PartyId(name), NOBODY) for name in message.names]
                return np.array(named, np.int32), message.there.astype(np.bool_)
            case Dealt():
                return (message.dealt.astype(np.bool_),)
            case Survivors():
                return (_survivors_among(record.hoods[place], message, parties=record.parties),)
            case _:
                return None

    def _names(self, places: Iterable[int]) -> str:
        names = [self._charter.roster.parties[place] for place in places if place >= 0]
        more = [f"{len(names) - _NAMED:,} more"] if len(names) > _NAMED else []
        return ", ".join([*names[:_NAMED], *more]) or "nobody on the roster"

    def _closed(self, said: Closed, number: int) -> None:
        try:
            closed = self._whole.add(said)
        except ValueError as error:
            self._remark(f"the closing of {said.of!r} is malformed: {error}")
            return
        if closed is None or closed.of not in _CONTRIBUTIONS:
            return
        begun = [record for record in self.records if record.contributed.any()]
        closing = [record for record in begun if record.counted is None] or begun
        parties = len(self._places)
        bits = np.unpackbits(np.frombuffer(closed.counted, np.uint8), bitorder="little")
        # The aggregator is the roster's first member.
        counted = bits[1 : parties + 1].astype(np.bool_)
        there = closing[-1].contributed | closing[-1].garbled if closing else np.zeros_like(counted)
        silent = counted & ~there
        if silent.any():
            self._remark(
                f"the closing of {closed.of!r} (entry {number}) counts "
                f"{self._names(np.flatnonzero(silent))}, who had not contributed"
            )
        if not closing:
            return
        record = closing[-1]
        if record.counted is None:
            record.counted = counted
            return
        self._remark(
            f"{closed.of!r} was closed before (this is entry {number}): the total may be over "
            "whomever either of them counts"
        )
        known = (record.counted, *record.recounted)
        if len(known) < COUNTS and not any(np.array_equal(counted, other) for other in known):
            record.recounted.append(counted)

    def _opened(self, first: int, told: Flags) -> None:
        """Note which parties, from a place on, have a secret on record in sums that it may open."""
        for record in self.records:
            rows = record.opened[max(0, first) :][: len(told)]
            rows |= told[: len(rows)]

    def _remark(self, remark: str) -> None:
        if len(self._remarks) < _REMARKS:
            self._remarks.append(remark)
        else:
            self._left_out += 1


def _put(record: SumRecord, kind: type[Message], place: int, row: _Row) -> None:
    for name, values in zip(_NOTED[kind], row, strict=True):
        getattr(record, name)[place] = values


def _survivors_among(
    hood: NDArray[np.int32], message: Survivors, *, parties: int
) -> NDArray[np.bool_]:
    """Neighbours that have uploaded by a message to a party; none if its bitmap is malformed."""
    try:
        among: NDArray[np.bool_] = survivors_among(message.uploaded, parties=parties)[hood]
    except RemoteProtocolError:
        return np.zeros(len(hood), np.bool_)
    return among & (hood >= 0)
