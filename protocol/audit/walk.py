"""One walk over a transcript: every envelope and message is decoded once, for all folds.

Envelopes under way are kept only here, and are limited, so that a hostile file cannot fill the
memory.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import msgspec

from protocol.errors import RemoteProtocolError
from protocol.messages import AGGREGATOR, RECORD, Envelope, Message, PartyId
from protocol.surveys.limits import UNLIMITED, Held, TooMuchError
from protocol.transcript.entries import Delivered, Entry, Sent
from protocol.transcript.spoken import Handed
from protocol.wire.codec import Codec, decode_envelope

BLOCK = 1_000
"""Maximum number of steps in a block."""

BLOCK_BYTES = 2**20
"""Number of bytes of envelopes at which a block ends."""


class Step(msgspec.Struct, frozen=True):
    """An entry, and what it is about.

    Args:
        number: its place in the transcript, from 0.
        entry: as recorded.
        envelope: the envelope sent or delivered. None if it is malformed, was never sent or was
            delivered before, and for all other entries.
        message: the envelope's message; None if it is malformed.
        malformed: why a sent entry has no envelope or no message.
        said: for a delivery, the number of the entry where it was sent.
        lost: for a sent envelope, that it is never delivered.
    """

    number: int
    entry: Entry
    envelope: Envelope | None = None
    message: Message | None = None
    malformed: str = ""
    said: int | None = None
    lost: bool = False


class Fold:
    """Takes all steps of a walk, and stops where it would have to hold too much.

    Attributes:
        stopped: why it did not take all of them; None if it did.
    """

    stopped: TooMuchError | None = None

    def start(self, heads: Mapping[PartyId, bytes]) -> None:
        """Take the bodies of the parties' sound heads, before the first step."""

    def add(self, step: Step) -> None:
        """Take the next step.

        Raises:
            TooMuchError: more is held than there may be.
        """
        raise NotImplementedError


class _Said(NamedTuple):
    """An envelope under way, the number of its entry, and the bytes that are held for it."""

    number: int
    envelope: Envelope
    message: Message | None
    size: int


_GROUP = 16
"""Number of consecutive numbers of a sender that share a ``_Broadcast``."""

_GROUP_BYTES = 1024
"""The bytes of memory that a group takes, without its message."""

_MEMBER_BYTES = 32
"""The bytes of memory that an envelope of a group takes, without its recipient's name."""

_SHORT = 160
"""Total length of an envelope's names that ``OVERHEAD`` includes."""


class _Broadcast:
    """Envelopes of one sender with equal messages, and with numbers that differ in the last digit.

    Digits are of base ``_GROUP``. The recipient and the entry of each envelope are kept.

    Args:
        said: one of the envelopes.

    Attributes:
        count: the number of envelopes under way.
    """

    __slots__ = ("_entries", "_recipients", "count", "said")

    def __init__(self, said: _Said) -> None:
        self.said = said
        self.count = 0
        self._entries = [-1] * _GROUP
        self._recipients = [said.envelope.recipient] * _GROUP
        self.put(said.number, said.envelope)

    def put(self, number: int, envelope: Envelope) -> None:
        """Add an envelope under way, by the number of its entry."""
        place = envelope.seq % _GROUP
        self._entries[place], self._recipients[place] = number, envelope.recipient
        self.count += 1

    def take(self, seq: int) -> _Said | None:
        """Take out the envelope of a number; None if it is not under way."""
        place = seq % _GROUP
        number, self._entries[place] = self._entries[place], -1
        if number < 0:
            return None
        self.count -= 1
        said, recipient = self.said, self._recipients[place]
        # Its name is not kept for longer than it is counted.
        self._recipients[place] = said.envelope.recipient
        envelope = msgspec.structs.replace(said.envelope, recipient=recipient, seq=seq)
        return _Said(number, envelope, said.message, said.size)


class Walk:
    """Makes steps of entries, in the order they were recorded.

    Args:
        codec: of the survey's kinds.
        held: limits the memory that a file from anybody can take.
        bodies: whether deliveries come with their messages; if not, next to nothing is kept.
        handed: the delivered envelopes (``Verification.handed``), so that no others are kept;
            without it, all are.
    """

    def __init__(
        self,
        codec: Codec,
        held: Held = UNLIMITED,
        *,
        bodies: bool = True,
        handed: Handed | None = None,
    ) -> None:
        self._codec = codec
        self._held = held
        self._handed = handed
        self._bodies = bodies
        self._number = 0
        self._under_way: dict[tuple[PartyId, int], _Said] = {}
        # By the sender and the digits of the numbers but the last.
        self._groups: dict[tuple[PartyId, int], _Broadcast] = {}
        # A message under way to several members is kept once, with their number.
        self._shared: dict[tuple[str, bytes], tuple[int, _Said]] = {}

    def step(self, entry: Entry) -> Step:
        """The next step; an envelope that it sends is under way only after ``keep``."""
        number = self._number
        self._number += 1
        if isinstance(entry, Sent):
            return self._sent(number, entry)
        if isinstance(entry, Delivered):
            said = self._forget((entry.sender, entry.seq))
            if said is not None:
                return Step(number, entry, said.envelope, said.message, said=said.number)
        return Step(number, entry)

    def keep(self, step: Step) -> None:
        """Keep the envelope of a step as under way from now on.

        Raises:
            TooMuchError: more is under way than there may be.
        """
        envelope = step.envelope
        if not isinstance(step.entry, Sent) or envelope is None or envelope.recipient == RECORD:
            return
        self._forget((envelope.sender, envelope.seq))
        if step.lost:
            return
        body, message = envelope.body, step.message
        if not self._bodies:
            envelope = msgspec.structs.replace(envelope, body=b"")
            said = _Said(step.number, envelope, None, 0)
        else:
            size = len(body) if message is None else self._codec.held_bytes(message, body)
            said = _Said(step.number, envelope, message, size)
        if not self._join(said):
            self._held.take(self._share(said) + _long_names(envelope, envelope.recipient))
            self._under_way[envelope.sender, envelope.seq] = said

    def _join(self, said: _Said) -> bool:
        """Add an envelope to its broadcast; False if there is none."""
        envelope = said.envelope
        sender, seq = envelope.sender, envelope.seq
        group = self._groups.get((sender, seq // _GROUP))
        if group is None:
            before = self._under_way.get((sender, seq - 1)) if seq % _GROUP else None
            if before is None or not _is_alike(before.envelope, envelope):
                return False
            del self._under_way[sender, seq - 1]
            group = self._groups[sender, seq // _GROUP] = _Broadcast(before)
            names, recipient = _long_names(envelope), before.envelope.recipient
            self._held.drop(_long_names(before.envelope, recipient))
            self._held.take(_member_bytes(recipient) + names, overhead=_GROUP_BYTES)
        elif not _is_alike(group.said.envelope, envelope):
            return False
        self._held.take(_member_bytes(envelope.recipient), overhead=0)
        group.put(said.number, envelope)
        return True

    def add(self, entry: Entry) -> Step:
        """The next step, with its envelope kept as under way.

        Raises:
            TooMuchError: more is under way than there may be.
        """
        step = self.step(entry)
        self.keep(step)
        return step

    def _sent(self, number: int, entry: Sent) -> Step:
        try:
            envelope = decode_envelope(entry.envelope)
        except RemoteProtocolError as error:
            return Step(number, entry, malformed=str(error))
        slot = envelope.sender, envelope.seq
        lost = self._handed is not None and slot not in self._handed
        if self._is_shared(envelope):
            _, same = self._shared.get((envelope.kind, envelope.body), (0, None))
            if same is not None and same.message is not None:
                envelope = msgspec.structs.replace(envelope, body=same.envelope.body)
                return Step(number, entry, envelope, same.message, lost=lost)
        try:
            message = self._codec.decode(envelope.kind, envelope.body)
        except RemoteProtocolError as error:
            return Step(number, entry, envelope, malformed=str(error), lost=lost)
        return Step(number, entry, envelope, message, lost=lost)

    def _forget(self, key: tuple[PartyId, int]) -> _Said | None:
        said = self._under_way.pop(key, None)
        if said is not None:
            names = _long_names(said.envelope, said.envelope.recipient)
            self._held.drop(self._unshare(said) + names)
            return said
        sender, seq = key
        place = sender, seq // _GROUP
        group = self._groups.get(place)
        said = None if group is None else group.take(seq)
        if group is None or said is None:
            return None
        self._held.drop(_member_bytes(said.envelope.recipient), overhead=0)
        if not group.count:
            del self._groups[place]
            names = _long_names(said.envelope)
            self._held.drop(self._unshare(said) + names, overhead=_GROUP_BYTES)
        return said

    def _share(self, said: _Said) -> int:
        """Share the message of an envelope; returns the bytes that this adds."""
        if said.message is None or not self._is_shared(said.envelope):
            return said.size
        key = said.envelope.kind, said.envelope.body
        times, first = self._shared.get(key, (0, said))
        self._shared[key] = times + 1, first
        return 0 if times else said.size

    def _unshare(self, said: _Said) -> int:
        """Stop sharing the message of an envelope; returns the bytes that this frees."""
        if said.message is None or not self._is_shared(said.envelope):
            return said.size
        key = said.envelope.kind, said.envelope.body
        times, first = self._shared.pop(key)
        if times > 1:
            self._shared[key] = times - 1, first
        return 0 if times > 1 else said.size

    def _is_shared(self, envelope: Envelope) -> bool:
        # Messages to the aggregator are kept longer, until its role takes them.
        return self._bodies and envelope.recipient not in (AGGREGATOR, RECORD)


def _member_bytes(recipient: PartyId) -> int:
    return _MEMBER_BYTES + sys.getsizeof(recipient)


def _long_names(envelope: Envelope, recipient: str = "") -> int:
    """Bytes of an envelope's session, sender, kind and perhaps recipient, if they are long."""
    names = envelope.session, envelope.sender, envelope.kind, recipient
    return sum(map(sys.getsizeof, names)) if sum(map(len, names)) > _SHORT else 0


def _is_alike(one: Envelope, other: Envelope) -> bool:
    """Check whether two envelopes of one sender are of one broadcast."""
    return (one.session, one.kind, one.body) == (other.session, other.kind, other.body) and (
        AGGREGATOR not in (one.recipient, other.recipient)
    )


def walk(
    codec: Codec,
    entries: Iterable[Entry],
    held: Held = UNLIMITED,
    *,
    bodies: bool = True,
    handed: Handed | None = None,
) -> Iterator[Sequence[Step]]:
    """The steps of a transcript, a block of them at a time; the arguments are those of ``Walk``.

    Raises:
        TooMuchError: more is under way than allowed; the folds know it by then.
    """
    going = Walk(codec, held, bodies=bodies, handed=handed)
    block: list[Step] = []
    size = 0
    for entry in entries:
        step = going.step(entry)
        block.append(step)
        try:
            going.keep(step)
        except TooMuchError:
            yield block
            raise
        size += len(entry.envelope) if isinstance(entry, Sent) else 0
        if len(block) >= BLOCK or size >= BLOCK_BYTES:
            yield block
            block, size = [], 0
    if block:
        yield block


def steps(
    codec: Codec,
    entries: Iterable[Entry],
    held: Held = UNLIMITED,
    *,
    bodies: bool = True,
    handed: Handed | None = None,
) -> Iterator[Step]:
    """The steps of a transcript, one by one; the arguments are those of ``Walk``."""
    return chain.from_iterable(walk(codec, entries, held, bodies=bodies, handed=handed))


def fold(
    blocks: Iterable[Sequence[Step]], *folds: Fold, heads: Mapping[PartyId, bytes] | None = None
) -> None:
    """Give every step to every fold, or as many as it has room for.

    Args:
        heads: the bodies of the parties' sound heads; without them, all are unsigned.
    """
    going = list(folds)
    for each in going:
        each.start(heads or {})
    try:
        for block in blocks:
            for each in tuple(going):
                add = each.add
                try:
                    for step in block:
                        add(step)
                except TooMuchError as error:
                    each.stopped = error
                    going.remove(each)
            if not going:
                return
    except TooMuchError as error:
        for each in going:
            each.stopped = error
