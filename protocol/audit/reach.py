"""Knowledge of a set of members, taps and keys: the messages that it sees, and in which form.

The messages are walked from the last to the first. A member is unknown, or known by the sum or the
random order of what it had received (``Merging``), or by anything that follows from that. Once
known, it is known for all messages before. A head is a hash of what its sender has sent and
received, so it confirms guesses of messages that are not sealed.

1. A message is seen by its sender, its recipient, a tap on their link, and the aggregator, which
   hosts the switch.
2. A box is opened by its reader's key, and by its reader if that is known by anything.
3. A message that follows from others makes their receiver, its sender, known. The aggregator is
   known by anything once it sends anything; but no key opens messages that it only passes on.
4. A message known only as merged is charged as ``Merged``, with the number of honest parties that
   are merged; for one alone, the event itself.
5. A masked part is a row of a linear system, and is charged by what follows from all rows that
   are seen (``protocol.audit.coalition.elimination``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TypeAlias

from protocol.accounting.events import (
    Composed,
    Hidden,
    Merged,
    Merging,
    OneOf,
    PrivacyEvent,
    Public,
    Sealed,
    layers,
)
from protocol.audit.coalition.coalition import Coalition
from protocol.audit.coalition.elimination import Coefficient, eliminated, reduced
from protocol.audit.passed import ANYTHING, MERGED, Passed, Row, Told, Unknown, passes
from protocol.messages import AGGREGATOR, PartyId
from protocol.session.roster import Roster

CELLS = 2**20
"""The most numbers in the rows of a record; of more, nothing is taken for hidden."""

Batch: TypeAlias = tuple[PartyId, int]
"""Member that merged something, and the place of the message that reveals it."""


def masked_rows(passed: Passed) -> dict[int, Row]:
    """The row of every message that masks hide, or that merges such, by its place.

    Empty if there are more than ``CELLS`` numbers in them.
    """
    rows: dict[int, Row] = {}
    cells = 0
    sent: dict[PartyId | None, list[int]] = {}
    for place, told in enumerate(passed.told):
        for part in layers(told.event):
            if isinstance(part, Hidden | Merging):
                row = _row(told, part, passed.roster)
                for there in sent.get(told.sender, ()):
                    added = isinstance(part, Merging) or passed.told[there].kind in part.onto
                    if added and passed.received(there, place):
                        _add(row, rows[there])
                cells += len(row)
                if cells > CELLS:
                    return {}
                if row:
                    rows[place] = row
                    sent.setdefault(told.recipient, []).append(place)
    return rows


def _row(told: Told, part: Hidden | Merging, roster: Roster) -> Row:
    """A sender's own row in a message."""
    sender, recipient = told.sender, told.recipient
    row: Row = {}
    if isinstance(part, Hidden):
        at = roster.position.get(recipient or AGGREGATOR, 0)
        for mask in part.masks:
            _add(row, {("mask", sender, mask.name): mask.factor * at**mask.power})
        if not isinstance(part.event, Public):
            _add(row, {("own", sender, (told.kind, told.round)): 1})
    return row


def learned(passed: Passed, coalition: Coalition) -> Iterator[tuple[Told, PrivacyEvent]]:
    """Messages that reveal something to the coalition, and what they reveal."""
    if passed.rows is None:
        passed.rows = masked_rows(passed)
    hears = coalition.hears
    host = max((at for to, at in passed.hosted.items() if hears(AGGREGATOR, to)), default=0)
    walk = _Walk(coalition, passed)
    walk.back(host)
    found = sorted((*walk.events(), *walk.values(passed.rows)), key=lambda each: each[0])
    return ((passed.told[place], event) for place, event in found)


class _Walk:
    """A walk back over the messages."""

    def __init__(self, coalition: Coalition, passed: Passed) -> None:
        self._coalition = coalition
        self._passed = passed
        self._told = passed.told
        self._headed = passed.headed
        self._known: dict[PartyId, int] = {}
        self._full: frozenset[PartyId] = frozenset()
        # Where each member merges, the last first, and the batch that it merges into.
        self._batches: dict[PartyId, list[tuple[int, Batch]]] = {}
        self._found: list[tuple[int, PrivacyEvent]] = []
        self._merged: list[tuple[int, PrivacyEvent, Batch | None]] = []
        self._seen: list[int] = []

    def back(self, host: int) -> None:
        """Walk over all messages, the last first.

        Args:
            host: before this place the aggregator is known by anything.
        """
        for place in range(len(self._told) - 1, -1, -1):
            if place < host:
                self._know(AGGREGATOR, ANYTHING)
            self._look(place)

    def _look(self, place: int) -> None:
        told = self._told[place]
        sender = told.sender
        event = self._clear_event(told, place)
        if not isinstance(event, Public):
            if _has_row(event):
                self._seen.append(place)
            self._found.append((place, _without_masks(event)))
            self._pass_on(told, event, place)
        receiver = told.recipient or AGGREGATOR
        if self._known.get(receiver, 0) < MERGED:
            return
        opened = _opened(told.event, self._full | self._coalition.insiders | {receiver})
        # A receiver passes on unchanged what it cannot read.
        if _has_row(opened) and not _has_row(_opened(told.event, {receiver})):
            self._seen.append(place)
        if opened == event or receiver not in self._batches:
            return
        batch = self._first_batch(place, receiver)
        self._merged.append((place, _without_masks(opened), batch))
        if batch is not None and passes(layers(opened)):
            self._know(sender, MERGED)
            self._batches.setdefault(sender, []).append((place, batch))

    def _first_batch(self, place: int, receiver: PartyId) -> Batch | None:
        """The first batch with a message; None if the message came too late for all."""
        batches = reversed(self._batches[receiver])
        return next((into for at, into in batches if self._passed.received(place, at)), None)

    def _clear_event(self, told: Told, place: int) -> PrivacyEvent:
        """Event of a message without its masked part."""
        sender, recipient = told.sender, told.recipient
        keys, receiver = self._coalition.insiders, recipient or AGGREGATOR
        if self._coalition.hears(sender, recipient):
            return _opened(told.event, self._full | keys)
        if receiver in self._full:
            # A message that is passed on may have boxes that another member opens.
            return _opened(told.event, self._full | keys)
        if AGGREGATOR in self._full:
            return _opened(told.event, self._full)
        if max(self._headed.get(sender, 0), self._headed.get(receiver, 0)) > place:
            return _opened(told.event, ())
        return Public()

    def _pass_on(self, told: Told, event: PrivacyEvent, place: int) -> None:
        """Reach a sender through a message derived from those that it received."""
        sender, how = told.sender, passes(layers(event))
        if how == MERGED:
            self._batches.setdefault(sender, []).append((place, (sender, place)))
        if how:
            self._know(sender, how)

    def _know(self, member: PartyId, how: int) -> None:
        if how > self._known.get(member, 0):
            self._known[member] = how
            if how == ANYTHING:
                self._full |= {member}

    def events(self) -> Iterator[tuple[int, PrivacyEvent]]:
        """Events of single messages, without masked parts."""
        yield from self._found
        members: dict[Batch | None, set[PartyId]] = {}
        for place, _, batch in self._merged:
            sender = self._told[place].sender
            if batch is not None and sender not in self._coalition.members:
                members.setdefault(batch, set()).add(sender)
        for place, event, batch in self._merged:
            honest = len(members.get(batch, ()))
            # A variant does not declare whether it adds up or shuffles, so a message may stay
            # together.
            yield place, Merged(event, honest, linked=True) if honest > 1 else event

    def values(self, rows: Mapping[int, Row]) -> Iterator[tuple[int, PrivacyEvent]]:
        """Events that follow from the known rows."""
        if not rows:
            for place, told in enumerate(self._told):
                yield from ((place, p.event) for p in layers(told.event) if isinstance(p, Hidden))
            return
        own = self._coalition.members
        seen = [
            {unknown: times for unknown, times in rows[place].items() if unknown[1] not in own}
            for place in dict.fromkeys(self._seen)
            if place in rows
        ]
        if not seen:
            return
        hidden = {unknown for row in seen for unknown in row if unknown[0] == "mask"}
        honest = _crowd_sizes([*reduced(eliminated(seen, hidden)).values()])
        for place, told in enumerate(self._told):
            unknown = "own", told.sender, (told.kind, told.round)
            crowd = honest.pop(unknown, 0) if place in rows else 0
            for part in layers(told.event) if crowd else ():
                if isinstance(part, Hidden):
                    yield place, part.event if crowd == 1 else Merged(part.event, crowd)


def _crowd_sizes(rows: Sequence[Mapping[Unknown, Coefficient]]) -> dict[Unknown, int]:
    """Least number of parties in a sum with a value, for every value in some rows.

    Args:
        rows: reduced rows.
    """
    columns: dict[Unknown, list[tuple[int, object]]] = {}
    for number, row in enumerate(rows):
        for unknown, times in row.items():
            columns.setdefault(unknown, []).append((number, times))
    found: dict[Unknown, int] = {}
    # Values with equal columns stay together: each sum that follows has all of them or none.
    classes: dict[tuple[tuple[int, object], ...], set[PartyId]] = {}
    for unknown, column in columns.items():
        classes.setdefault(tuple(column), set()).add(unknown[1])
    for row in rows:
        alone = len({unknown[1] for unknown in row}) == 1
        for unknown in row:
            crowd = len(classes[tuple(columns[unknown])])
            # A class of one that does not follow by itself is in sums with others alone.
            crowd = 1 if alone else max(2, crowd)
            found[unknown] = min(crowd, found.get(unknown, crowd))
    return found


def _has_row(event: PrivacyEvent) -> bool:
    """Check whether a message has a row, its own or a merged one."""
    return any(isinstance(part, Hidden | Merging) for part in layers(event))


def _add(row: Row, other: Mapping[Unknown, int]) -> None:
    for unknown, times in other.items():
        total = row.get(unknown, 0) + times
        if total:
            row[unknown] = total
        else:
            row.pop(unknown, None)


def _opened(event: PrivacyEvent, readers: Collection[PartyId]) -> PrivacyEvent:
    """Event for observers that open boxes for these readers."""
    match event:
        case Sealed(reader, inner):
            return _opened(inner, readers) if reader in readers else Public()
        case Composed(events) | OneOf(events):
            parts = tuple(_opened(part, readers) for part in events)
            if parts == events:
                return event
            if all(isinstance(part, Public) for part in parts):
                return Public()
            return type(event)(parts)
        case _:
            return event


def _without_masks(event: PrivacyEvent) -> PrivacyEvent:
    """An event without masked parts, which are charged by rows."""
    if isinstance(event, Hidden):
        return Public()
    if isinstance(event, Composed | OneOf) and any(
        isinstance(part, Hidden) for part in layers(event)
    ):
        return type(event)(tuple(_without_masks(part) for part in event.events))
    return event
