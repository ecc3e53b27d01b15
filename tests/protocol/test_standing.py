"""Standing: who was counted where, by hand, from malformed closings, and of a large roster."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from protocol.messages import Closed, PartyId
from protocol.transcript.merkle import Tree
from protocol.transcript.standing import Standings
from tests.transcripts import merkle

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
    assert standings.root(trees) == merkle(list(standings.leaves(trees)))


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
