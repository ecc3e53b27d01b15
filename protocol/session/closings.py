"""Closings in ranges of the roster, so that a proof about one member stays small."""

from __future__ import annotations

import msgspec

from protocol.messages import CLOSING_MEMBERS, Closed
from protocol.session.roles import Topic

_BYTES = CLOSING_MEMBERS // 8


def make_closings(topic: Topic, *, awaited: bytes, counted: bytes) -> list[Closed]:
    """The closing of a wait, range by range.

    Args:
        topic: the kind and round awaited.
        awaited, counted: bitmaps over the whole roster (``Roster.bitmap``).
    """
    return [
        Closed(*topic, 8 * i, awaited[i : i + _BYTES], counted[i : i + _BYTES])
        for i in range(0, len(awaited), _BYTES)
    ]


def counts(closed: Closed, place: int, *, members: int) -> bool:
    """Check whether a well-formed range counts the member at this place of the roster."""
    return _names(closed, place, members) and _has(closed.counted, place - closed.first)


def leaves_out(closed: Closed, place: int, *, members: int) -> bool:
    """Check whether a well-formed range awaited the member at this place, and does not count it."""
    return (
        _names(closed, place, members)
        and _has(closed.awaited, place - closed.first)
        and not _has(closed.counted, place - closed.first)
    )


def _names(closed: Closed, place: int, members: int) -> bool:
    """Check whether a range is well-formed and includes the member at this place."""
    try:
        check_range(closed, members)
    except ValueError:
        return False
    return closed.first <= place < closed.first + CLOSING_MEMBERS


def _has(bitmap: bytes, bit: int) -> bool:
    return bool(int.from_bytes(bitmap, "little") >> bit & 1)


class Closings:
    """Puts the ranges of one member's closings together again.

    Args:
        members: how many the roster has.
    """

    def __init__(self, members: int) -> None:
        self._members = members
        self._begun: Closed | None = None

    def add(self, closed: Closed) -> Closed | None:
        """Take the next range.

        Returns:
            Once the last range of a wait has come, all of them as one, over the whole roster.

        Raises:
            ValueError: not the next range, or malformed; the earlier ranges of the wait are
                dropped.
        """
        begun, self._begun = self._begun, None
        check_range(closed, self._members)
        if begun is None:
            begun = Closed(closed.of, closed.round, 0, b"", b"")
        if (begun.of, begun.round) != (closed.of, closed.round):
            raise ValueError(f"closing of {closed.of!r}: expected the rest of that of {begun.of!r}")
        if closed.first != 8 * len(begun.awaited):
            place = 8 * len(begun.awaited)
            raise ValueError(f"closing from place {closed.first} on: expected place {place}")
        whole = msgspec.structs.replace(
            begun, awaited=begun.awaited + closed.awaited, counted=begun.counted + closed.counted
        )
        if closed.first + CLOSING_MEMBERS >= self._members:
            return whole
        self._begun = whole
        return None


def check_range(closed: Closed, members: int) -> None:
    """Check that a range fits the roster, and its bitmaps the range.

    Raises:
        ValueError: one of them does not.
    """
    length = min(CLOSING_MEMBERS, members - closed.first)
    if closed.first < 0 or closed.first % CLOSING_MEMBERS or length <= 0:
        raise ValueError(f"closing from place {closed.first} on, of {members} members")
    for bitmap in (closed.awaited, closed.counted):
        if len(bitmap) != (length + 7) // 8:
            raise ValueError(f"bitmap of {len(bitmap)} bytes for {length} members")
        if int.from_bytes(bitmap, "little") >> length:
            raise ValueError(f"the bitmap has bits set beyond {length} members")
    awaited, counted = (int.from_bytes(b, "little") for b in (closed.awaited, closed.counted))
    if counted & ~awaited:
        raise ValueError("somebody is counted who was not awaited")
