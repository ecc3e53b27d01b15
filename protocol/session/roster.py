"""Roster: every member's id and identity key, known to all before the first message."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from hashlib import sha512
from typing import NamedTuple

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from protocol.crypto.key_agreement import Agreed, AgreementKey
from protocol.crypto.merkle import joint_path, joint_root, leaf_hash, merkle_root, tree_levels
from protocol.errors import LocalProtocolError
from protocol.messages import AGGREGATOR, PartyId, party_id

KEY_BYTES = 32

_PRIME = 2**255 - 19
_SIGN = 1 << 255
# A point of order 8 has this y or its negative (RFC 8032, section 5.1, for the curve).
_OF_ORDER_8 = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
# The y of every point of order 1, 2, 4 or 8, and all numbers that are y a second time, plus p.
_UNFIT = frozenset((0, 1, _PRIME - 1, _OF_ORDER_8, _PRIME - _OF_ORDER_8, *range(_PRIME, _SIGN)))


def roster_leaf(name: str, key: bytes) -> bytes:
    """A member as a leaf of the roster's Merkle tree; all keys have one length."""
    return key + name.encode()


def check_keys(members: Sequence[tuple[PartyId, bytes]]) -> None:
    """Refuse malformed identity keys, keys of low order, and keys of two members.

    Anybody can sign for a key of low order. A key and its negative, which differ in the sign of x
    alone, have one holder and agree on the same secrets: they count as one key. A key may be no
    point of the curve: that check would take longer than the rest of a survey's start, and nobody
    can sign for such a key.

    Raises:
        ValueError: names the member.
    """
    for name, key in members:
        if len(key) != KEY_BYTES:
            raise ValueError(f"the key of {name!r:.80} has {len(key)} bytes, not {KEY_BYTES}")
    ys = [key_holder(key) for _, key in members]
    different = set(ys)
    if not _UNFIT.isdisjoint(different):
        weak = next(name for (name, _), y in zip(members, ys, strict=True) if y in _UNFIT)
        raise ValueError(f"the key of {weak!r:.80} is of low order or not canonical")
    if len(different) != len(ys):
        first: dict[int, PartyId] = {}
        for (name, _), y in zip(members, ys, strict=True):
            if first.setdefault(y, name) is not name:
                raise ValueError(f"{first[y]!r:.80} and {name!r:.80} have the same key")


def key_holder(point: bytes) -> int:
    """The y of a key, which it shares with its negative alone: both have one holder."""
    return int.from_bytes(point, "little") % _SIGN


@functools.lru_cache(maxsize=1 << 17)
def agreement_key(key: bytes) -> bytes:
    """The public X25519 key of an Ed25519 identity key, so one roster serves for both.

    The map between the two forms of the curve is ``u = (1 + y) / (1 - y)`` (RFC 7748, section 4.1).

    Args:
        key: a public Ed25519 key, 32 bytes; its top bit is the sign of x and is not used.
    """
    y = key_holder(key)
    u = (1 + y) * pow(1 - y, -1, _PRIME) % _PRIME if (1 - y) % _PRIME else 0
    return u.to_bytes(KEY_BYTES, "little")


def is_signature(signature: bytes, content: bytes, *, key: bytes) -> bool:
    """True if the holder of a public Ed25519 key signed ``content``; False for a malformed key.

    Every signature of a record is checked here. The key A and the signature's point R must be
    canonical and not of low order, S below the group's order, and ``[S]B - [k]A`` equal to R (RFC
    8032, section 5.1.7, without the cofactor).
    """
    if not _UNFIT.isdisjoint((key_holder(key), key_holder(signature[:KEY_BYTES]))):
        return False
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, content)
    except (InvalidSignature, ValueError):
        return False
    return True


class Signed(NamedTuple):
    """Signature to be checked; the fields are the arguments of ``is_signature``."""

    signature: bytes
    content: bytes
    key: bytes


def are_signatures(claims: Sequence[Signed]) -> list[bool]:
    """Check several signatures, as ``is_signature``."""
    return [is_signature(claim.signature, claim.content, key=claim.key) for claim in claims]


class Identity:
    """A member's Ed25519 identity key, which signs and agrees on keys.

    Args:
        name: the member.
        secret: 32 bytes, from a keystream in a simulation, from the operating system otherwise.
        agreed: the shared secrets of a simulation in this process, as for ``AgreementKey``.
    """

    __slots__ = ("_agreed", "_agreement", "_key", "_secret", "name")

    def __init__(self, name: PartyId, secret: bytes, agreed: Agreed | None = None) -> None:
        if len(secret) != KEY_BYTES:
            raise ValueError(f"expected a secret of {KEY_BYTES} bytes, got {len(secret)}")
        self.name = name
        self._secret = secret
        self._key: Ed25519PrivateKey | None = None
        self._agreed = agreed
        self._agreement: AgreementKey | None = None

    @property
    def public(self) -> bytes:
        """The public key, 32 bytes."""
        return self.private_key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)

    @property
    def private_key(self) -> Ed25519PrivateKey:
        """The private key, made at its first use since it takes half a kilobyte."""
        if self._key is None:
            self._key = Ed25519PrivateKey.from_private_bytes(self._secret)
        return self._key

    def sign(self, content: bytes) -> bytes:
        """An Ed25519 signature, 64 bytes."""
        return self.private_key.sign(content)

    def agree(self, key: bytes) -> bytes:
        """Agree by X25519 with the holder of another identity key on 32 secret bytes.

        Raises:
            ValueError: the other key is of low order, so that everybody knows the secret.
        """
        return self.agreement.agree(agreement_key(key))

    @property
    def agreement(self) -> AgreementKey:
        """The X25519 key of this identity (``agreement_key``)."""
        if self._agreement is None:
            # Ed25519 multiplies by the first half of this hash (RFC 8032, section 5.1.5).
            self._agreement = self.fresh_key(sha512(self._secret).digest()[:32])
        return self._agreement

    def fresh_key(self, secret: bytes) -> AgreementKey:
        """A key of this member for one session, for secrets apart from those of its identity.

        Args:
            secret: 32 bytes.
        """
        return AgreementKey(secret, self._agreed)

    def __repr__(self) -> str:
        return f"Identity({self.name!r})"


class Roster(msgspec.Struct, frozen=True, dict=True):
    """The members of a survey, the aggregator first, then the services, then the parties.

    A member's place determines its role. A leaf of the roster's tree holds no role, but the root
    commits to every place.

    Args:
        members: (id, public Ed25519 key of 32 bytes) of each.
        roles: the roles of the services, at the places after the aggregator.

    Raises:
        ValueError: the aggregator is not first, an id occurs twice, there are more roles than
            members, or as ``check_keys``.
    """

    members: tuple[tuple[PartyId, bytes], ...]
    roles: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.members or self.members[0][0] != AGGREGATOR:
            raise ValueError(f"the first member of a roster is {AGGREGATOR!r}")
        if len(self.roles) >= len(self.members):
            raise ValueError(f"{len(self.roles)} services on a roster of {len(self.members)}")
        if len(self.position) != len(self.members):
            raise ValueError("a roster names every member once")
        for name, _ in self.members:
            party_id(name)
        check_keys(self.members)

    @functools.cached_property
    def position(self) -> dict[PartyId, int]:
        """Each member's place on the roster, from 0."""
        return {name: i for i, (name, _) in enumerate(self.members)}

    @functools.cached_property
    def leaves(self) -> tuple[bytes, ...]:
        """The leaf hashes of the roster's Merkle tree, one per member."""
        return tuple(leaf_hash(roster_leaf(name, key)) for name, key in self.members)

    @functools.cached_property
    def levels(self) -> tuple[tuple[bytes, ...], ...]:
        """All levels of the roster's Merkle tree, the leaf hashes first."""
        return tree_levels(self.leaves)

    @functools.cached_property
    def root(self) -> bytes:
        """Root of the roster's tree: it commits to every member's place, id and key.

        It is computed without keeping the tree, since every worker of a survey has the roster.
        """
        return merkle_root(roster_leaf(name, key) for name, key in self.members)

    @functools.cached_property
    def others(self) -> tuple[PartyId, ...]:
        """All members but the aggregator."""
        return tuple(name for name, _ in self.members[1:])

    @functools.cached_property
    def services(self) -> tuple[PartyId, ...]:
        """The members without records, apart from the aggregator."""
        return tuple(name for name, _ in self.members[1 : 1 + len(self.roles)])

    @functools.cached_property
    def parties(self) -> tuple[PartyId, ...]:
        """The members that hold records."""
        return self.others[len(self.roles) :]

    def serves(self, name: PartyId) -> bool:
        """Check whether a member is the aggregator or a service."""
        return self.position.get(name, len(self)) <= len(self.roles)

    def role(self, name: PartyId) -> str:
        """The role of a member: ``aggregator``, ``party``, or that of a service."""
        place = self.position[name]
        return (AGGREGATOR, *self.roles)[place] if self.serves(name) else "party"

    def of(self, role: str) -> tuple[PartyId, ...]:
        """The services of a role, in the order of the roster.

        Raises:
            LocalProtocolError: there is none.
        """
        found = tuple(n for n, each in zip(self.services, self.roles, strict=True) if each == role)
        if not found:
            raise LocalProtocolError(f"there is no {role!r} among the roles of this survey")
        return found

    def __len__(self) -> int:
        return len(self.members)

    def __contains__(self, name: object) -> bool:
        return name in self.position

    def __repr__(self) -> str:
        return f"Roster({len(self.parties)} parties)"

    def key(self, name: PartyId) -> bytes:
        """A member's public key."""
        return self.members[self.position[name]][1]

    def own(self, name: PartyId) -> PartyId:
        """A member's name as the roster holds it, so that equal names share one string."""
        return self.members[self.position[name]][0]

    def verify(self, name: PartyId, signature: bytes, content: bytes) -> bool:
        """Check whether ``name`` signed ``content``."""
        return name in self and is_signature(signature, content, key=self.key(name))

    def bitmap(self, names: Iterable[PartyId]) -> bytes:
        """A set of members as bits, least significant first, in roster order."""
        bits = bytearray((len(self) + 7) // 8)
        for name in names:
            i = self.position[name]
            bits[i >> 3] |= 1 << (i & 7)
        return bytes(bits)

    def members_in(self, bitmap: bytes) -> Sequence[PartyId]:
        """The members of a bitmap, in roster order.

        Raises:
            ValueError: the bitmap is of another roster's length, or sets bits past its end.
        """
        if len(bitmap) != (len(self.members) + 7) // 8:
            raise ValueError(
                f"bitmap of {len(bitmap)} bytes: expected {(len(self.members) + 7) // 8}, one bit "
                f"for each of {len(self.members)} members"
            )
        value = int.from_bytes(bitmap, "little")
        if value >> len(self.members):
            raise ValueError(
                f"the bitmap has bits set beyond the {len(self.members)} members of the roster"
            )
        return [name for i, (name, _) in enumerate(self.members) if bitmap[i >> 3] >> (i & 7) & 1]

    def known_to(self, name: PartyId) -> Roster:
        """Roster as a party knows it: who serves, itself, and the root over all."""
        place = self.position[name]
        own = self.members[place][1]
        return Excerpt(
            members=(*self.members[: 1 + len(self.roles)], (name, own)),
            roles=self.roles,
            place=place,
            size=len(self),
            over=self.root,
        )

    def inclusion_path_at(self, place: int) -> tuple[bytes, ...]:
        """The inclusion path of the member at a place."""
        return joint_path(self.levels, [place])

    def membership_proof(self, place: int) -> tuple[bytes, ...]:
        """Proof that the aggregator and the member at a place are on the roster."""
        return joint_path(self.levels, (0, place))


class Excerpt(Roster, frozen=True, kw_only=True, dict=True):
    """Excerpt of a roster for one party: who serves, itself, and the root over all members.

    Only these members have a key here and can be sent to. Methods that need all members raise
    ``LocalProtocolError``. ``Roster.known_to`` and ``verify_excerpt`` make excerpts.

    Args:
        members: the aggregator, the services and the party.
        roles: the roles of the services.
        place: the party's place on the roster.
        size: the number of members of the roster.
        over: the root of the roster's Merkle tree, 32 bytes.
    """

    place: int
    size: int
    over: bytes

    def __post_init__(self) -> None:
        """Skip the checks: the members come from a checked roster, or from ``verify_excerpt``."""

    @functools.cached_property
    def position(self) -> dict[PartyId, int]:
        *serving, (party, _) = self.members
        return {**{name: place for place, (name, _) in enumerate(serving)}, party: self.place}

    @property
    def root(self) -> bytes:
        return self.over

    @functools.cached_property
    def leaves(self) -> tuple[bytes, ...]:
        raise self._unknown()

    @functools.cached_property
    def others(self) -> tuple[PartyId, ...]:
        raise self._unknown()

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        return f"Excerpt({self.members[-1][0]!r}, {self.size - 1 - len(self.roles)} parties)"

    def key(self, name: PartyId) -> bytes:
        return dict(self.members)[name]

    def known_to(self, name: PartyId) -> Roster:
        return self

    def members_in(self, bitmap: bytes) -> Sequence[PartyId]:
        raise self._unknown()

    def _unknown(self) -> LocalProtocolError:
        return LocalProtocolError(
            f"{self.members[-1][0]!r} knows only itself and who serves of the roster; a variant "
            "whose parties need all of it says whole_roster = True"
        )


def verify_excerpt(
    party: tuple[PartyId, bytes],
    aggregator: bytes,
    *,
    place: int,
    size: int,
    root: bytes,
    proof: Sequence[bytes],
) -> Roster:
    """Excerpt of a roster for a party, from a proof (``Roster.membership_proof``).

    Args:
        party: its id and key.
        aggregator: the aggregator's key.
        place: the party's place on the roster.
        size: the number of members of the roster.
        root: the root of the roster's Merkle tree.
        proof: the proof that both are on the roster.

    Raises:
        ValueError: the proof does not hold, or as ``Roster``.
    """
    two = Roster(((AGGREGATOR, aggregator), party))
    if not 1 <= place < size:
        raise ValueError(f"place {place} on a roster of {size} members")
    leaves = {
        0: leaf_hash(roster_leaf(AGGREGATOR, aggregator)),
        place: leaf_hash(roster_leaf(*party)),
    }
    if joint_root(leaves, count=size, path=proof) != root:
        raise ValueError(
            f"the aggregator and {party[0]!r} at place {place} are not proved to be on the roster"
        )
    return Excerpt(members=two.members, place=place, size=size, over=root)
