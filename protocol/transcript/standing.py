"""Standing: who was counted by which closings of the aggregator, and the root of all that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

import msgspec
import numpy as np

from protocol.crypto.merkle import Tree, root_of
from protocol.messages import Closed, PartyId
from protocol.session.roles import Topic
from protocol.wire.canonical import canonical

MAX_CLOSINGS = 1 << 16
"""Maximum number of closings that are counted."""

MAX_BITMAP_BYTES = 1 << 24
"""Maximum size of all bitmaps together, in bytes: what a file can make a verifier keep."""

MAX_KIND_BYTES = 255
"""Maximum length of the name of a closing's kind, in bytes of UTF-8."""

_BLOCK = 128
"""The number of members whose bitmaps are spread out at once, a multiple of 8."""

_encode = msgspec.msgpack.Encoder().encode
_closings = msgspec.msgpack.Decoder(Closed)
_Bits = np.ndarray[tuple[int, ...], np.dtype[np.uint8]]


class Standing(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Where one member stands at the end.

    Args:
        member: its id.
        count, root: how many envelopes it has sent, and the root of its tree.
        counted: the closings of the aggregator that counted it, in their order.
        missed: those that awaited it and did not count it.
        signed: whether it has said a head.
    """

    member: PartyId
    count: Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
    root: bytes
    counted: tuple[Topic, ...]
    missed: tuple[Topic, ...]
    signed: bool


def standing_leaf(standing: Standing) -> bytes:
    """The leaf of a member's standing."""
    return _encode(standing)


class Standings:
    """Collects the standing of all members from the closings of the aggregator.

    Memory holds the bitmaps as they come, up to ``MAX_BITMAP_BYTES``: who can write a file can
    write closings of everybody that take next to nothing in it.

    Args:
        members: in roster order.
    """

    __slots__ = ("_bitmaps", "_members", "_signed", "_topics")

    def __init__(self, members: Sequence[PartyId]) -> None:
        self._members = tuple(members)
        self._topics: list[Topic] = []
        self._bitmaps = bytearray()
        self._signed: set[PartyId] = set()

    def sign(self, member: PartyId) -> None:
        """A member has said a head."""
        self._signed.add(member)

    def add(self, body: bytes) -> None:
        """Take the body of the aggregator's next ``Closed``.

        One that is malformed or comes after so many that there is no room for it counts nobody.
        """
        taken = 2 * ((len(self._members) + 7) // 8)
        if len(self._topics) >= MAX_CLOSINGS or len(self._bitmaps) + taken > MAX_BITMAP_BYTES:
            return
        try:
            closed = canonical(body, _closings, what="closing")
        except ValueError:
            return
        if len(closed.of.encode()) > MAX_KIND_BYTES:
            return
        if self._fits(closed.awaited) and self._fits(closed.counted):
            self._topics.append((closed.of, closed.round))
            self._bitmaps += closed.awaited
            self._bitmaps += closed.counted

    def of(self, place: int, said: Tree) -> Standing:
        """A member's standing.

        Args:
            place: its position in the roster.
            said: its tree.
        """
        [columns] = self._columns(place, place + 1)
        return self._standing(place, said, *columns)

    def leaves(self, trees: Mapping[str, Tree]) -> Iterator[bytes]:
        """The leaves of all members in roster order."""
        for first in range(0, len(self._members), _BLOCK):
            end = min(first + _BLOCK, len(self._members))
            for place, columns in enumerate(self._columns(first, end), first):
                said = trees[self._members[place]]
                yield standing_leaf(self._standing(place, said, *columns))

    def root(self, trees: Mapping[str, Tree]) -> bytes:
        """The root over the standing of all members, 32 bytes."""
        return root_of(self.leaves(trees))

    def _standing(
        self, place: int, said: Tree, counted: tuple[Topic, ...], missed: tuple[Topic, ...]
    ) -> Standing:
        member = self._members[place]
        signed = member in self._signed
        return Standing(member, said.count, said.root(), counted, missed, signed)

    def _columns(self, first: int, end: int) -> Iterator[tuple[tuple[Topic, ...], ...]]:
        """Where each of these members was counted, and where it was missed."""
        size = (len(self._members) + 7) // 8
        kept = np.frombuffer(self._bitmaps, np.uint8).reshape(-1, 2, size)
        part = kept[:, :, first // 8 : (end + 7) // 8]
        awaited, counted = part[:, 0], part[:, 1]
        columns: list[_Bits] = []
        for bitmaps in (counted, awaited & ~counted):
            bits = np.unpackbits(bitmaps, axis=1, bitorder="little")[:, first % 8 :]
            columns.append(np.ascontiguousarray(bits.T[: end - first]))
        del kept, part, awaited, counted  # While they are there nothing can be added.
        before: list[bytes] = []
        named: tuple[tuple[Topic, ...], ...] = ()
        for rows in zip(*columns, strict=True):
            # Most members were counted wherever the one before them was.
            pattern = [row.tobytes() for row in rows]
            if pattern != before:
                before, named = pattern, tuple(self._named(row) for row in rows)
            yield named

    def _named(self, closings: _Bits) -> tuple[Topic, ...]:
        return tuple(self._topics[i] for i in np.flatnonzero(closings).tolist())

    def _fits(self, bitmap: bytes) -> bool:
        """Whether a bitmap is as long as the roster, and names nobody beyond it."""
        size = len(self._members)
        if len(bitmap) != (size + 7) // 8:
            return False
        return size % 8 == 0 or bitmap[-1] >> (size % 8) == 0
