"""Rosters: names, keys, signatures and bitmaps."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol import AGGREGATOR, RECORD, LocalProtocolError, PartyId, party_id
from protocol.crypto.merkle import leaf_hash, tree_levels
from protocol.messages import SWITCH
from protocol.session import roster
from protocol.session.roster import (
    Identity,
    Roster,
    agreement_key,
    is_signature,
    roster_leaf,
    verify_excerpt,
)
from tests.protocol.sessions import STREAMS, read_roster

ROSTER = read_roster(20)
NAMES = (AGGREGATOR, *ROSTER.parties)
ONE = ROSTER.parties[0]


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
        Roster(tuple((PartyId(name), bytes([i]) * 32) for i, name in enumerate(names, 1)))


def test_keys_have_32_bytes() -> None:
    with pytest.raises(ValueError, match="31 bytes"):
        Roster(((AGGREGATOR, bytes(31)),))


P = 2**255 - 19
D = -121665 * pow(121666, -1, P) % P
ROOT = pow(2, (P - 1) // 4, P)
"""A square root of -1."""


def y_of_order_8() -> set[int]:
    """The y of the points whose double has y = 0, by the law of addition (RFC 8032, 5.1.4)."""
    # y(2Q) = (y^2 + x^2) / (1 - d x^2 y^2) is 0 where x^2 = -y^2; on the curve that leaves
    # d y^4 + 2 y^2 - 1 = 0, a quadratic equation of y^2.
    found = set()
    discriminant = root(4 + 4 * D)
    assert discriminant is not None
    for sign in (1, -1):
        square = (-2 + sign * discriminant) * pow(2 * D, -1, P) % P
        y = root(square)
        if y is not None:
            found |= {y, P - y}
    return found


def root(square: int) -> int | None:
    """A square root modulo p, if there is one."""
    candidate = pow(square, (P + 3) // 8, P)
    for found in (candidate, candidate * ROOT % P):
        if found * found % P == square % P:
            return found
    return None


def encodings(y: int) -> list[bytes]:
    """All ways to write a y, with either sign, in canonical form or not."""
    ways = [way for way in (y, y + P) if way < 2**255]
    return [(way | sign << 255).to_bytes(32, "little") for way in ways for sign in (0, 1)]


TORSION = {0, 1, P - 1} | y_of_order_8()
WEAK = [key for y in sorted(TORSION) for key in encodings(y)]
NOT_CANONICAL = [key for y in range(2**255 - P) for key in encodings(y)[2:]]
WELL_KNOWN = {
    "0100000000000000000000000000000000000000000000000000000000000000",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000080",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
}
"""The eight points, canonical, as many papers and libraries list them."""


def test_there_are_eight_points_of_low_order() -> None:
    # Of y = 1 and y = -1 there is one point each, of all others two.
    assert len(TORSION) == 5
    assert len(WEAK) == 14
    assert {key.hex() for key in WEAK} > WELL_KNOWN
    assert len(NOT_CANONICAL) == 38


@pytest.mark.parametrize("key", [*WEAK, *NOT_CANONICAL], ids=bytes.hex)
def test_a_key_of_low_order_or_not_canonical_is_refused(key: bytes) -> None:
    members = ((AGGREGATOR, Identity(AGGREGATOR, bytes(32)).public), (PartyId("eve"), key))
    with pytest.raises(ValueError, match="'eve' is of low order or not canonical"):
        Roster(members)


ORDER = 2**252 + 27742317777372353535851937790883648493
"""Of the base point."""


def openssl_accepts(signature: bytes, content: bytes, key: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, content)
    except (InvalidSignature, ValueError):
        return False
    return True


def scalar_of(secret: bytes) -> int:
    """What the base point is multiplied by (RFC 8032, section 5.1.5)."""
    half = int.from_bytes(hashlib.sha512(secret).digest()[:32], "little")
    return half & ((1 << 254) - 8) | 1 << 254


def number(digest: bytes) -> int:
    return int.from_bytes(digest, "little")


@pytest.mark.parametrize("key", WEAK, ids=bytes.hex)
def test_with_a_key_of_low_order_anybody_signs_and_nobody_is_believed(key: bytes) -> None:
    """Of a few signatures that need no secret some pass the equation, for every such key."""
    secret = bytes(range(32))
    point = Identity(AGGREGATOR, secret).public
    forged = point + (scalar_of(secret) % ORDER).to_bytes(32, "little")
    contents = [bytes([i]) for i in range(64)]
    accepted = [content for content in contents if openssl_accepts(forged, content, key)]
    assert accepted
    assert not any(is_signature(forged, content, key=key) for content in accepted)


def test_a_signature_with_a_point_of_low_order_is_refused() -> None:
    identity = Identity(AGGREGATOR, bytes(range(32)))
    neutral = (1).to_bytes(32, "little")
    k = number(hashlib.sha512(neutral + identity.public + b"content").digest())
    s = k * scalar_of(bytes(range(32))) % ORDER
    signature = neutral + s.to_bytes(32, "little")
    assert openssl_accepts(signature, b"content", identity.public)
    assert not is_signature(signature, b"content", key=identity.public)


@pytest.mark.parametrize("point", [*WEAK, *NOT_CANONICAL], ids=bytes.hex)
def test_no_signature_has_a_point_of_low_order_or_not_canonical(
    point: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Lenient:
        @staticmethod
        def from_public_bytes(key: bytes) -> Lenient:
            return Lenient()

        def verify(self, signature: bytes, content: bytes) -> None:
            """Whatever it is."""

    identity = Identity(AGGREGATOR, bytes(range(32)))
    signature = identity.sign(b"content")
    monkeypatch.setattr(roster, "Ed25519PublicKey", Lenient)
    assert is_signature(signature, b"content", key=identity.public)
    assert not is_signature(point + signature[32:], b"content", key=identity.public)
    assert not is_signature(signature, b"content", key=point)


def test_the_number_of_a_signature_is_below_the_order() -> None:
    identity = Identity(AGGREGATOR, bytes(range(32)))
    signature = identity.sign(b"content")
    larger = number(signature[32:]) + ORDER
    assert not is_signature(
        signature[:32] + larger.to_bytes(32, "little"), b"content", key=identity.public
    )


def test_one_key_under_two_names_is_refused() -> None:
    one, two = ROSTER.members[1], ROSTER.members[2]
    key = one[1]
    negative = key[:-1] + bytes([key[-1] ^ 0x80])
    for same in (key, negative):
        with pytest.raises(ValueError, match="'party-1' and 'party-2' have the same key"):
            Roster((ROSTER.members[0], one, (two[0], same)))


def test_signatures() -> None:
    anna = Identity(PartyId("party-1"), STREAMS.stream("party-1", "identity").bytes(32))
    signature = anna.sign(b"content")
    assert ROSTER.key(anna.name) == anna.public
    assert ROSTER.verify(anna.name, signature, b"content")
    assert not ROSTER.verify(anna.name, signature, b"contents")
    assert not ROSTER.verify(anna.name, signature[:-1], b"content")
    assert not ROSTER.verify(PartyId("party-2"), signature, b"content")
    assert not ROSTER.verify(PartyId("nobody"), signature, b"content")
    # No point of the curve: nobody can sign with it.
    nowhere = Roster(((AGGREGATOR, b"\2" + bytes(31)),))
    assert not nowhere.verify(AGGREGATOR, signature, b"content")


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


def test_an_identity_key_maps_to_the_agreement_key_that_its_secret_has() -> None:
    """The public map of one key against the secret derivation of RFC 8032, by another way."""
    for i in range(8):
        secret = bytes([i]) * 32
        identity = Identity(ONE, secret)
        scalar = hashlib.sha512(secret).digest()[:32]
        own = X25519PrivateKey.from_private_bytes(scalar)
        expected = own.public_key().public_bytes_raw()
        assert agreement_key(identity.public) == expected


def test_two_members_agree_and_a_third_does_not() -> None:
    one, two, three = (Identity(ONE, bytes([i]) * 32) for i in (1, 2, 3))
    assert one.agree(two.public) == two.agree(one.public)
    assert one.agree(two.public) != one.agree(three.public)


def test_a_key_of_low_order_is_refused() -> None:
    with pytest.raises(ValueError, match="shared"):
        Identity(ONE, bytes(32)).agree((1).to_bytes(32, "little"))


def test_the_root_commits_to_places_ids_and_keys() -> None:
    members = ROSTER.members
    root = tree_levels([leaf_hash(roster_leaf(name, key)) for name, key in members])[-1][0]
    assert ROSTER.root == root
    swapped = Roster((*members[:1], members[2], members[1], *members[3:]))
    assert swapped.root != root


def excerpt(at: int, **changes: object) -> Roster:
    """What the party at this place knows of the roster, by its proof."""
    given: dict[str, Any] = {
        "party": ROSTER.members[at],
        "aggregator": ROSTER.key(AGGREGATOR),
        "place": at,
        "size": len(ROSTER),
        "root": ROSTER.root,
        "proof": ROSTER.membership_proof(at),
        **changes,
    }
    return verify_excerpt(given.pop("party"), given.pop("aggregator"), **given)


@pytest.mark.parametrize("place", [1, 2, 13, 20])
def test_a_party_knows_itself_the_aggregator_and_the_root(place: int) -> None:
    known, name = excerpt(place), NAMES[place]
    assert known == ROSTER.known_to(name)
    assert (known.root, len(known)) == (ROSTER.root, 21)
    assert known.position == {AGGREGATOR: 0, name: place}
    assert known.key(name) == ROSTER.key(name)
    assert known.key(AGGREGATOR) == ROSTER.key(AGGREGATOR)
    assert known.bitmap([name]) == ROSTER.bitmap([name])
    assert NAMES[place - 1 or 3] not in known
    for asked in (lambda: known.parties, lambda: known.leaves, lambda: known.members_in(bytes(3))):
        with pytest.raises(LocalProtocolError, match=r"whole_roster = True"):
            asked()


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"party": ROSTER.members[3]}, "not proved"),
        ({"party": (ROSTER.members[2][0], ROSTER.members[3][1])}, "not proved"),
        ({"aggregator": ROSTER.members[3][1]}, "not proved"),
        ({"aggregator": ROSTER.members[2][1]}, "same key"),
        ({"place": 3}, "not proved"),
        ({"place": 0}, "place 0 on a roster of 21"),
        ({"place": 21}, "place 21 on a roster of 21"),
        ({"size": 50}, "not proved"),
        ({"root": bytes(32)}, "not proved"),
        ({"proof": ()}, "not proved"),
        ({"proof": (*ROSTER.membership_proof(2), bytes(32))}, "not proved"),
        ({"party": (AGGREGATOR, ROSTER.members[2][1])}, "once"),
    ],
)
def test_what_is_not_proved_to_be_on_the_roster(changes: dict[str, object], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        excerpt(2, **changes)
