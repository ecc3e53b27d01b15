"""Rosters: names, keys, signatures and bitmaps."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.messages import AGGREGATOR, RECORD, SWITCH, PartyId, party_id
from protocol.roster import Identity, Roster
from tests.protocol.simulation import STREAMS, roster_of

ROSTER = roster_of(20)
NAMES = (AGGREGATOR, *ROSTER.parties)


@pytest.mark.parametrize("text", ["a", "0", "aggregator", "party-12", "a--b", "x" * 63])
def test_good_names(text: str) -> None:
    assert party_id(text) == text


@pytest.mark.parametrize(
    "text",
    ["", "-a", "a-", "A", "a.b", "a b", "a_b", "\u00e4", "a\n", "x" * 64, RECORD, SWITCH],
)
def test_bad_names(text: str) -> None:
    with pytest.raises(ValueError, match="party id"):
        party_id(text)


def test_members_in_order() -> None:
    assert ROSTER.parties == tuple(f"party-{i}" for i in range(1, 21))
    assert len(ROSTER) == 21
    assert AGGREGATOR in ROSTER
    assert "party-21" not in ROSTER
    assert RECORD not in ROSTER
    assert [ROSTER.position[name] for name in NAMES] == list(range(21))


@pytest.mark.parametrize(
    ("names", "why"),
    [
        ((), "first member"),
        (("anna",), "first member"),
        (("anna", AGGREGATOR), "first member"),
        ((AGGREGATOR, "anna", "anna"), "once"),
        ((AGGREGATOR, AGGREGATOR), "once"),
        ((AGGREGATOR, "Anna"), "party id"),
        ((AGGREGATOR, SWITCH), "reserved"),
    ],
)
def test_refused_rosters(names: tuple[str, ...], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Roster(tuple((PartyId(name), bytes(32)) for name in names))


def test_keys_have_32_bytes() -> None:
    with pytest.raises(ValueError, match="31 bytes"):
        Roster(((AGGREGATOR, bytes(31)),))


def test_signatures() -> None:
    anna = Identity(PartyId("party-1"), STREAMS.stream("party-1", "identity").bytes(32))
    signature = anna.sign(b"content")
    assert ROSTER.key(anna.name) == anna.public
    assert ROSTER.verify(anna.name, signature, b"content")
    assert not ROSTER.verify(anna.name, signature, b"contents")
    assert not ROSTER.verify(anna.name, signature[:-1], b"content")
    assert not ROSTER.verify(PartyId("party-2"), signature, b"content")
    assert not ROSTER.verify(PartyId("nobody"), signature, b"content")
    weak = Roster(((AGGREGATOR, bytes(32)),))
    assert not weak.verify(AGGREGATOR, signature, b"content")


def test_keys_do_not_show() -> None:
    secret = b"\x07secret key of anna, 32 bytes..."
    identity = Identity(PartyId("anna"), secret)
    assert repr(identity) == "Identity('anna')"
    assert repr(ROSTER) == "Roster(20 parties)"


@settings(deadline=None)
@given(st.sets(st.sampled_from(NAMES)))
def test_bitmaps_round_trip(names: set[PartyId]) -> None:
    bitmap = ROSTER.bitmap(names)
    assert len(bitmap) == 3
    assert list(ROSTER.members_in(bitmap)) == [name for name in NAMES if name in names]


def test_layout_of_bitmaps() -> None:
    assert ROSTER.bitmap([AGGREGATOR, PartyId("party-8")]) == b"\x01\x01\x00"
    assert ROSTER.bitmap([PartyId("party-20")]) == b"\x00\x00\x10"


@pytest.mark.parametrize("bitmap", [b"", b"\x00\x00", bytes(4), b"\x00\x00\x20", b"\x00\x00\xff"])
def test_bitmaps_of_other_rosters(bitmap: bytes) -> None:
    with pytest.raises(ValueError, match="bitmap"):
        ROSTER.members_in(bitmap)
