"""Standing: who was counted by which closings of the aggregator, and the root of all that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np

from protocol.messages import Closed, PartyId
from protocol.transcript.merkle import Tree, root_of

Topic = tuple[str, int]
"""What a closing was of: a kind of message and its round."""

_encode = msgspec.msgpack.Encoder().encode
_decode_closed = msgspec.msgpack.Decoder(Closed).decode


class Standing(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Where one member stands at the end.

    Args:
        member: its id.
        count, root: how many envelopes it has sent, and the root of its tree.
        counted: the closings of the aggregator that counted it, in their order.
        missed: those that awaited it and did not count it.
    """

    member: PartyId
    count: int
    root: bytes
    counted: tuple[Topic, ...]
    missed: tuple[Topic, ...]


def standing_leaf(standing: Standing) -> bytes:
    """The leaf of a member's standing."""
    return _encode(standing)


class Standings:
    """Collects the standing of all members from the closings of the aggregator.

    Memory grows with the number of answers that were counted.

    Args:
        members: in roster order.
    """

    __slots__ = ("_counted", "_members", "_missed", "_topics")

    def __init__(self, members: Sequence[PartyId]) -> None:
        self._members = tuple(members)
        self._topics: list[Topic] = []
        self._counted: dict[int, list[int]] = {}
        self._missed: dict[int, list[int]] = {}

    def add(self, body: bytes) -> None:
        """Take the body of the aggregator's next ``Closed``; a malformed one counts nobody."""
        try:
            closed = _decode_closed(body)
            canonical = _encode(closed)
        except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError):
            return
        if canonical != body:
            return
        awaited, counted = self._bits(closed.awaited), self._bits(closed.counted)
        if awaited is None or counted is None:
            return
        number = len(self._topics)
        self._topics.append((closed.of, closed.round))
        for places, bits in ((self._counted, counted), (self._missed, awaited & ~counted)):
            for place in np.flatnonzero(bits).tolist():
                places.setdefault(place, []).append(number)

    def of(self, place: int, said: Tree) -> Standing:
        """A member's standing.

        Args:
            place: its position in the roster.
            said: its tree.
        """
        topics = self._topics
        return Standing(
            self._members[place],
            said.count,
            said.root(),
            tuple(topics[i] for i in self._counted.get(place, ())),
            tuple(topics[i] for i in self._missed.get(place, ())),
        )

    def leaves(self, trees: Mapping[str, Tree]) -> Iterator[bytes]:
        """The leaves of all members in roster order."""
        for place, member in enumerate(self._members):
            yield standing_leaf(self.of(place, trees[member]))

    def root(self, trees: Mapping[str, Tree]) -> bytes:
        """The root over the standing of all members, 32 bytes."""
        return root_of(self.leaves(trees))

    def _bits(self, bitmap: bytes) -> np.ndarray[tuple[int], np.dtype[np.bool_]] | None:
        """A bitmap over the roster; None if it is of another length or names who is not there."""
        size = len(self._members)
        if len(bitmap) != (size + 7) // 8:
            return None
        bits = np.unpackbits(np.frombuffer(bitmap, np.uint8), bitorder="little").astype(np.bool_)
        return None if bits[size:].any() else bits[:size]
