"""Opens sealed messages with the auditor's keys, and counts those that it cannot open.

Without a reader's key, a message is charged by the declaration of its kind alone.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from protocol.audit.disclosure import Disclosure
from protocol.audit.walk import Step
from protocol.errors import ProtocolError
from protocol.messages import Boxed, Message, PartyId
from protocol.session.charter import Charter
from protocol.session.roles import Boxes, open_boxes
from protocol.transcript.entries import Sent


class SealedFor(msgspec.Struct, frozen=True):
    """Content sealed for one member.

    Args:
        reader: the member.
        messages: how many.
        opened: how many of them its key opens; None if the auditor does not have it.
        boxes: how many boxes in these are opened by keys that the auditor has.
        closed: how many are not.
    """

    reader: PartyId
    messages: int
    opened: int | None
    boxes: int = 0
    closed: int = 0


class InsideWriter:
    """Counts sealed messages from the steps of a transcript.

    Args:
        charter: the survey.
        disclosed: the members' keys, as far as known.
    """

    def __init__(self, charter: Charter, disclosed: Iterable[Disclosure]) -> None:
        self._charter = charter
        self._keys = {
            known.member: Boxes(charter.session, charter.roster, known.identity, None)
            for known in disclosed
            if known.identity is not None
        }
        self._found: dict[PartyId, SealedFor] = {}

    def add(self, step: Step) -> None:
        """Take the next step, as ``Fold.add``."""
        envelope, message = step.envelope, step.message
        if not isinstance(step.entry, Sent) or envelope is None or not isinstance(message, Boxed):
            return
        reader = envelope.recipient
        found = self._found.get(reader, SealedFor(reader, 0, 0 if reader in self._keys else None))
        opened, boxes, closed = found.opened, found.boxes, found.closed
        if opened is not None:
            codec = self._charter.codec
            try:
                inside = codec.unseal(envelope, message, self._keys[reader].open)
            except ProtocolError:
                pass
            else:
                opened += 1
                more, less = self._boxes_in(inside)
                boxes, closed = boxes + more, closed + less
        self._found[reader] = SealedFor(reader, found.messages + 1, opened, boxes, closed)

    def _boxes_in(self, message: Message) -> tuple[int, int]:
        """Numbers of opened and unopened boxes in a message."""
        opened = closed = 0
        codec = self._charter.codec
        for field, kind in codec.held(message).items():
            boxes = getattr(message, field)
            known = [open_boxes(own, codec, kind, boxes) for own in self._keys.values()]
            several = sum(any(column) for column in zip(*known, strict=True))
            opened, closed = opened + several, closed + len(boxes) - several
        return opened, closed

    @property
    def found(self) -> tuple[SealedFor, ...]:
        """Sealed content by reader, in the order of their first message."""
        return tuple(self._found.values())
