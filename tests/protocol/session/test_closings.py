"""Closings in ranges: cut up, put together again, and refused where they do not fit."""

from __future__ import annotations

import msgspec
import pytest

from protocol.messages import Closed
from protocol.session.closings import Closings, counts, make_closings

MEMBERS = 2 * 4096 + 9
AWAITED = bytes([0xFF]) * 1025 + b"\x01"
COUNTED = bytes([0x55]) * 1025 + b"\x01"
WORDS = ("Word", 3)


def ranges(members: int = MEMBERS) -> list[Closed]:
    length = (members + 7) // 8
    return make_closings(WORDS, awaited=AWAITED[:length], counted=COUNTED[:length])


@pytest.mark.parametrize(("members", "expected"), [(8, 1), (4096, 1), (4104, 2), (MEMBERS, 3)])
def test_a_wait_is_closed_range_by_range(members: int, expected: int) -> None:
    said = ranges(members)
    assert [each.first for each in said] == [4096 * i for i in range(expected)]
    assert all(len(each.counted) <= 512 for each in said)
    closings = Closings(members)
    *early, whole = map(closings.add, said)
    assert early == [None] * (expected - 1)
    length = (members + 7) // 8
    assert whole == Closed(*WORDS, 0, AWAITED[:length], COUNTED[:length])
    # The next wait begins anew.
    assert [closings.add(each) for each in said][-1] == whole


FIRST, SECOND, THIRD = ranges()
WRONG = {
    "the second first": ([SECOND], "expected place 0"),
    "one left out": ([FIRST, THIRD], "expected place 4096"),
    "one twice": ([FIRST, FIRST], "expected place 4096"),
    "of another kind": ([FIRST, msgspec.structs.replace(SECOND, of="Turn")], "rest of that of"),
    "of another round": ([FIRST, msgspec.structs.replace(SECOND, round=4)], "rest of that of"),
    "between two ranges": ([msgspec.structs.replace(FIRST, first=1)], "from place 1 on"),
    "beyond the roster": ([msgspec.structs.replace(THIRD, first=3 * 4096)], "of 8201 members"),
    "too short": ([msgspec.structs.replace(FIRST, counted=bytes(511))], "bitmap of 511 bytes"),
    "too long": ([msgspec.structs.replace(FIRST, awaited=bytes(513))], "bitmap of 513 bytes"),
    "bits beyond": (
        [FIRST, SECOND, msgspec.structs.replace(THIRD, counted=b"\0\x02")],
        "bits set beyond 9 members",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_ranges_that_do_not_fit(what: str) -> None:
    said, says = WRONG[what]
    closings = Closings(MEMBERS)
    for each in said[:-1]:
        assert closings.add(each) is None
    with pytest.raises(ValueError, match=says):
        closings.add(said[-1])


def test_whom_a_range_counts() -> None:
    counted = {
        place
        for place in range(-1, MEMBERS + 9)
        for each in ranges()
        if counts(each, place, members=MEMBERS)
    }
    assert counted == set(range(0, MEMBERS, 2))
    assert not counts(SECOND, 0, members=MEMBERS)
    assert counts(THIRD, MEMBERS - 1, members=MEMBERS)
    assert not counts(THIRD, MEMBERS - 1, members=MEMBERS - 1)
