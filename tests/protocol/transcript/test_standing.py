"""Standing: who was counted where, by hand, from malformed closings, and of a large roster."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from protocol.crypto.merkle import Tree
from protocol.messages import Closed, PartyId
from protocol.transcript.standing import MAX_BITMAP_BYTES, MAX_CLOSINGS, Standings
from tests.vectors.make import tree_hash

pack = msgspec.msgpack.encode
MEMBERS = tuple(PartyId(name) for name in ("aggregator", "a", "b", "c"))


def closed(awaited: int, counted: int, *, of: str = "Report", round_: int = -1) -> bytes:
    return pack([of, round_, bytes([awaited]), bytes([counted])])


def test_standings_by_hand() -> None:
    standings = Standings(MEMBERS)
    standings.add(closed(0b1110, 0b0110))
    standings.add(closed(0b1100, 0b1000, of="Answer", round_=2))
    trees = {str(name): Tree() for name in MEMBERS}
    trees["b"].append(b"x")
    of = [standings.of(i, trees[name]) for i, name in enumerate(MEMBERS)]
    report, answer = ("Report", -1), ("Answer", 2)
    assert [(s.counted, s.missed) for s in of] == [
        ((), ()),
        ((report,), ()),
        ((report,), (answer,)),
        ((answer,), (report,)),
    ]
    assert (of[2].count, of[2].root) == (1, trees["b"].root())
    assert standings.root(trees) == tree_hash(list(standings.leaves(trees)))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        pack(["Report", -1, b"\x0e"]),
        closed(0b1110, 0b0110, round_=1).replace(b"\x01\xc4", b"\xcc\x01\xc4", 1),
        closed(0b1110, 0b0110) + b"\0",
        pack(["Report", -1, b"\x0e", b"\x0e\x00"]),
        pack(["Report", -1, b"\x0e", b""]),
        closed(0b11110, 0),
        closed(0, 0b11110),
    ],
)
def test_a_malformed_closing_counts_nobody(body: bytes) -> None:
    standings = Standings(MEMBERS)
    trees = {str(name): Tree() for name in MEMBERS}
    empty = standings.root(trees)
    standings.add(body)
    assert standings.root(trees) == empty


def test_standings_of_a_large_roster() -> None:
    rng = np.random.default_rng(1)
    names = tuple(PartyId(f"p{i}") for i in range(1001))
    standings = Standings(names)
    chosen = rng.integers(0, 2, (3, 1001)).astype(bool)
    for counted in chosen:
        full = np.packbits(np.ones(1001, bool), bitorder="little").tobytes()
        bits = np.packbits(counted, bitorder="little").tobytes()
        standings.add(msgspec.msgpack.encode(Closed("Report", 0, full, bits)))
    for place_ in range(1001):
        standing = standings.of(place_, Tree())
        assert len(standing.counted) == chosen[:, place_].sum()
        assert len(standing.missed) == 3 - chosen[:, place_].sum()


def full(members: int) -> bytes:
    return np.packbits(np.ones(members, bool), bitorder="little").tobytes()


def test_closings_are_remembered_as_they_came() -> None:
    """Two bits for each member and closing, whoever was counted; and no more than fit."""
    names = tuple(PartyId(f"p{i}") for i in range(100_001))
    standings = Standings(names)
    everybody = full(len(names))
    body = pack(["A", -1, everybody, everybody])
    for closings in range(1, 700):
        standings.add(body)
        assert len(standings._bitmaps) == min(closings, 671) * 2 * 12_501 <= MAX_BITMAP_BYTES
    assert len(standings.of(100_000, Tree()).counted) == 671


def test_small_closings_are_bounded_too() -> None:
    standings = Standings(MEMBERS)
    for _ in range(MAX_CLOSINGS + 10):
        standings.add(closed(0b1110, 0b0110))
    counted = standings.of(1, Tree()).counted
    assert len(counted) == MAX_CLOSINGS
    assert len(standings.of(3, Tree()).missed) == MAX_CLOSINGS


@pytest.mark.parametrize(("kind", "counts"), [("\xe4" * 127 + "x", 1), ("\xe4" * 128, 0)])
def test_a_kind_with_a_long_name_counts_nobody(kind: str, counts: int) -> None:
    standings = Standings(MEMBERS)
    standings.add(closed(0b1110, 0b0110, of=kind))
    assert len(standings.of(1, Tree()).counted) == counts


def test_who_has_said_a_head_stands_as_signed() -> None:
    standings = Standings(MEMBERS)
    trees = {str(name): Tree() for name in MEMBERS}
    before = standings.root(trees)
    standings.sign(MEMBERS[2])
    assert [standings.of(i, Tree()).signed for i in range(4)] == [False, False, True, False]
    assert standings.root(trees) != before


@pytest.mark.parametrize("members", [1, 7, 8, 9, 127, 128, 129, 300])
def test_leaves_are_the_standings_one_by_one(members: int) -> None:
    rng = np.random.default_rng(members)
    names = tuple(PartyId(f"p{i}") for i in range(members))
    standings = Standings(names)
    trees = {str(name): Tree() for name in names}
    awaited, chosen = rng.integers(0, 2, (2, 5, members)).astype(bool)
    for i in range(5):
        bits = [np.packbits(row[i], bitorder="little").tobytes() for row in (awaited, chosen)]
        standings.add(pack(["A", i, *bits]))
    leaves = list(standings.leaves(trees))
    for place in range(members):
        counted = [["A", i] for i in range(5) if chosen[i, place]]
        missed = [["A", i] for i in range(5) if awaited[i, place] and not chosen[i, place]]
        root = Tree().root()
        assert leaves[place] == pack([names[place], 0, root, counted, missed, False])
