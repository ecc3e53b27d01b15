"""Writes transcripts, notes and proofs from ``docs/transcript-format.md``, without the program.

It writes what it is told to, also what the document forbids. All bytes follow from the arguments.
"""

from __future__ import annotations

import functools
import hashlib
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.vectors.make import (
    based,
    inclusion_path_at,
    log_leaves,
    packed,
    proof_of,
    sha256,
    some,
    tree_hash,
)

MAGIC = b"sottovoce transcript 3\n"


# --- members and their signatures


@dataclass(frozen=True)
class Member:
    """A holder of an Ed25519 key, which follows from the name unless another's is given."""

    name: str
    of: str | None = field(default=None, kw_only=True)

    @functools.cached_property
    def secret(self) -> bytes:
        return some(f"key of {self.of or self.name}", 32)

    @functools.cached_property
    def _signer(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self.secret)

    @functools.cached_property
    def key(self) -> bytes:
        return self._signer.public_key().public_bytes_raw()

    def sign(self, content: bytes) -> bytes:
        return self._signer.sign(content)


# --- Ed25519, by hand where a signature shall be wrong in a way that libraries do not make

PRIME, ORDER = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493
EIGHTH = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
"""The y of a point of order 8; that of the others is its negative."""

_D = -121665 * pow(121666, -1, PRIME) % PRIME

Point = tuple[int, int]


def point_of(y: int, odd: bool = False) -> Point:
    """The point with this y whose x is odd, or even."""
    square = (y * y - 1) * pow(_D * y * y + 1, -1, PRIME) % PRIME
    x = pow(square, (PRIME + 3) // 8, PRIME)
    if x * x % PRIME != square:
        x = x * pow(2, (PRIME - 1) // 4, PRIME) % PRIME
    if x * x % PRIME != square:
        raise ValueError("not a point of the curve")
    return (x if x % 2 == odd else PRIME - x), y


def added(one: Point, other: Point) -> Point:
    (a, b), (c, d) = one, other
    t = _D * a * b * c * d
    x = (a * d + b * c) * pow(1 + t, -1, PRIME)
    return x % PRIME, (b * d + a * c) * pow(1 - t, -1, PRIME) % PRIME


NOWHERE: Point = (0, 1)
"""The point of order 1."""


def multiplied(times: int, point: Point) -> Point:
    found = NOWHERE
    while times:
        if times & 1:
            found = added(found, point)
        point, times = added(point, point), times >> 1
    return found


def encoded_point(point: Point) -> bytes:
    return (point[1] | (point[0] & 1) << 255).to_bytes(32, "little")


BASE = point_of(4 * pow(5, -1, PRIME) % PRIME)


@dataclass(frozen=True)
class OddMember(Member):
    """A member whose key or signatures are made in an odd way.

    Args:
        shift: a point of low order that is added to its key.
        nonce: what the signature's point is a multiple by; None for any.
        turn: a point of low order that is added to the signature's point.
        written: the signature's point as it is written.
        fits: how the hash of point, key and content ends, in its lower three bits.
    """

    shift: Point = NOWHERE
    nonce: int | None = None
    turn: Point = NOWHERE
    written: bytes | None = None
    fits: int | None = None

    @functools.cached_property
    def _number(self) -> int:
        half = int.from_bytes(hashlib.sha512(self.secret).digest()[:32], "little")
        return half & (1 << 254) - 8 | 1 << 254

    @functools.cached_property
    def key(self) -> bytes:
        return encoded_point(added(multiplied(self._number, BASE), self.shift))

    def sign(self, content: bytes) -> bytes:
        for attempt in range(1000):
            nonce = attempt + 1000 if self.nonce is None else self.nonce
            point = encoded_point(added(multiplied(nonce, BASE), self.turn))
            point = self.written or point
            hashed = hashlib.sha512(point + self.key + content).digest()
            times = int.from_bytes(hashed, "little") % ORDER
            if self.fits is None or times % 8 == self.fits:
                break
        return point + ((nonce + times * self._number) % ORDER).to_bytes(32, "little")


AGGREGATOR, ANN, BOB = Member("aggregator"), Member("ann"), Member("bob")
WITNESS, OTHER_WITNESS = Member("witness.example/one"), Member("witness.example/two")


# --- notes


def origin(session: bytes, key: bytes) -> str:
    return f"sottovoce/{session.hex()}/{key.hex()}"


def signature_line(name: str, kind: int, key: bytes, signature: bytes) -> str:
    key_id = sha256(name.encode() + b"\n" + bytes([kind]) + key)[:4]
    return f"\u2014 {name} {based(key_id + signature)}\n"


def checkpoint_text(session: bytes, key: bytes, size: int, root: bytes) -> str:
    return f"{origin(session, key)}\n{size}\n{based(root)}\n"


def note_of(text: str, signer: Member = AGGREGATOR, signature: bytes | None = None) -> str:
    name = text.split("\n")[0]
    signature = signer.sign(text.encode()) if signature is None else signature
    return f"{text}\n{signature_line(name, 1, signer.key, signature)}"


def padded(note: str, characters: int) -> str:
    """The note with lines of others up to so many characters."""
    missing = characters - len(note)
    lines = []
    while missing:
        bare = len(signature_line("", 4, WITNESS.key, bytes(72)))
        size = missing if missing < 600 else 300
        lines.append(signature_line("x" * (size - bare), 4, WITNESS.key, bytes(72)))
        missing -= size
    return note + "".join(lines)


def cosignature(
    text: str, witness: Member, time: int = 1_750_000_000, name: str | None = None
) -> str:
    statement = f"cosignature/v1\ntime {time}\n{text}".encode()
    signature = struct.pack(">Q", time) + witness.sign(statement)
    return signature_line(name or witness.name, 4, witness.key, signature)


def verifier_key(witness: Member) -> str:
    kind = b"\x04" + witness.key
    key_id = sha256(witness.name.encode() + b"\n" + kind)[:4]
    return f"{witness.name}+{key_id.hex()}+{based(kind)}"


# --- transcripts


def framed(content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + content


def head_statement(session: bytes, sender: str, count: int, said: bytes, heard: bytes) -> bytes:
    return HEAD + packed([session, sender, count, said, heard])


BOUND = (
    "variant",
    "code",
    "parameters",
    "survey",
    "analysis",
    "neighbours",
    "nonce",
    "roles",
    "enrolled",
    "kinds",
)
"""The fields of the header that the terms bind."""


def terms_of(fields: dict[str, Any]) -> bytes:
    return sha256(packed([fields[name] for name in BOUND]))


def roster_leaves(roster: Iterable[Any]) -> list[bytes]:
    return [key + name.encode() for name, key in roster]


def session_of(fields: dict[str, Any]) -> bytes:
    root = tree_hash(roster_leaves(fields["roster"]))
    bound = packed([terms_of(fields), root, len(fields["roster"])])
    return sha256(b"sottovoce session 3\0" + bound)[:31] + bytes([fields["attempt"]])


NEIGHBOURS = (
    "one respondent's whole record is replaced; who takes part, how many respondents each party "
    "has, and when anybody speaks are public"
)

MOST = 256
"""The most bytes of a body here."""

_OCTETS, _TEXT = ["bytes", 0, None], ["str", 0, None]
HEAD = b"sottovoce head 2\0"
SIGNED = "session", "sender", "count", "said", "heard"
_NUMBER = ["int", 0, 2**63 - 1]
_PAIR = ["struct", [["0", _NUMBER], ["1", _NUMBER]]]
_WAIT = [
    ["said", _NUMBER],
    ["kind", ["str", 0, 255]],
    ["round", ["int", -1, 2**63 - 1]],
    ["heard", ["list", _PAIR, 0, None]],
]

KERNEL: dict[str, list[Any]] = {
    "Closed": [
        ["of", _TEXT],
        ["round", ["int", -1, 2**63 - 1]],
        ["first", ["int", 0, 2**63 - 1]],
        ["awaited", ["bytes", 0, 512]],
        ["counted", ["bytes", 0, 512]],
    ],
    "Declined": [["why", ["enum", ["message", "terms"]]]],
    "Left": [["party", _TEXT], ["reason", _TEXT]],
    "Head": [["waits", ["list", ["struct", _WAIT], 0, None]], ["signature", ["bytes", 64, 64]]],
}
"""The kinds that every header has, with their fields."""

KINDS: list[Any] = [
    ["Ask", MOST, []],
    ["Report", MOST, [["code", ["int", 0, 1]]]],
    ["Result", MOST, [["counts", ["array", "u8", [[2, 2]], 0, 3]]]],
    *([name, 4 * MOST if name == "Head" else MOST, fields] for name, fields in KERNEL.items()),
]


class Transcript:
    """The record of a survey as it is written.

    Args:
        fields: of the header, other than they are by default. The session follows from the rest
            unless it is given.
    """

    def __init__(self, members: Sequence[Member] = (AGGREGATOR, ANN, BOB), **fields: Any) -> None:
        self.members = members
        self.secret = some("secret of the log", 32)
        self.fields: dict[str, Any] = {
            "variant": "Sample",
            "code": None,
            "parameters": {"epsilon": 1.5, "quorum": 2},
            "survey": {"attributes": [["smoker", ["no", "yes"]]]},
            "analysis": None,
            "neighbours": NEIGHBOURS,
            "nonce": some("nonce", 16),
            "roles": None,
            "enrolled": None,
            "attempt": 1,
            "session": b"",
            "roster": [[member.name, member.key] for member in members],
            "kinds": KINDS,
            "seed": None,
            "transport": "memory",
            "program": "vectors",
        } | fields
        if not self.fields["session"]:
            self.fields["session"] = session_of(self.fields)
        self.session: bytes = self.fields["session"]
        self.roster: list[Any] = self.fields["roster"]
        # Of every record its bytes, and whether it is a leaf of the log.
        self.records: list[tuple[bytes, bool]] = []
        self.said: dict[str, list[bytes]] = {member.name: [] for member in members}
        # By leaf, the number of an envelope; by sender and number, its kind and bytes.
        self.sequence: dict[int, int] = {}
        self.envelopes: dict[tuple[str, int], tuple[str, bytes]] = {}
        # By member, what its role has waited for, and what its head says and signs.
        self.waits: dict[str, list[Any]] = {}
        self.heads: dict[str, list[Any]] = {}
        self.add(packed(self.fields))

    def add(self, content: bytes, *, leaf: bool = True) -> None:
        """A record, of these bytes."""
        self.records.append((content, leaf))

    @property
    def size(self) -> int:
        """How many leaves the log has."""
        return sum(leaf for _, leaf in self.records)

    def entry(self, *parts: Any) -> None:
        """An entry, or something like it."""
        self.add(packed(list(parts)))

    def say(self, sender: str, recipient: str, kind: str, body: bytes, **other: Any) -> int:
        """A ``Sent``; ``other`` replaces parts of the envelope. Returns its number."""
        number: int = other.get("seq", len(self.said.get(sender, ())))
        parts = [other.get("session", self.session), sender, recipient, number, kind, body]
        self.sequence[self.size] = number
        self.sent(packed(parts), sender)
        self.envelopes[sender, number] = kind, packed(parts)
        return number

    def sent(self, envelope: bytes, sender: str = "") -> None:
        """A ``Sent`` of these bytes, which count as the sender's if it is a member."""
        if sender in self.said:
            self.said[sender].append(envelope)
        self.entry("Sent", 10 * len(self.records), envelope)

    def got(self, sender: str, recipient: str, seq: int, repeat: bool = False) -> None:
        """A ``Delivered``. Its recipient has waited for that very message, and no other."""
        self.entry("Delivered", 10 * len(self.records), sender, recipient, seq, repeat)
        kind, _ = self.envelopes.get((sender, seq), ("", b""))
        if recipient in self.said and not repeat:
            wait = [len(self.said[recipient]), kind, -1, [[self.place(sender), seq]]]
            self.waits.setdefault(recipient, []).append(wait)

    def tell(self, sender: str, recipient: str, kind: str, body: bytes) -> int:
        """Something that is said and delivered."""
        seq = self.say(sender, recipient, kind, body)
        self.got(sender, recipient, seq)
        return seq

    def close(self, kind: str, counted: bytes, **other: Any) -> int:
        fields = {"kind": kind, "round": -1, "first": 0, "awaited": counted, "counted": counted}
        return self.say("aggregator", "record", "Closed", packed(list((fields | other).values())))

    def place(self, name: str) -> int:
        """A member's place on the roster; the number of members for anybody else."""
        names = [member for member, _ in self.roster]
        return names.index(name) if name in names else len(names)

    def heard_leaf(self, wait: list[Any]) -> bytes:
        said, kind, round_, heard = wait
        named = []
        for place, seq in heard:
            name = self.roster[place][0] if place < len(self.roster) else ""
            _, envelope = self.envelopes.get((name, seq), ("", b""))
            named.append([place, seq, sha256(b"\0" + envelope)])
        return packed([said, kind, round_, named])

    def head(self, member: Member, waits: list[Any] | None = None, **other: Any) -> int:
        """A party's head; ``other`` replaces what is in it or signed by it."""
        waits = self.waits.get(member.name, []) if waits is None else waits
        said = self.said[member.name]
        heard = other.get("heard") or tree_hash([self.heard_leaf(wait) for wait in waits])
        signed = {
            "session": self.session,
            "sender": member.name,
            "count": len(said),
            "said": tree_hash(said),
            "heard": heard,
        } | {name: value for name, value in other.items() if name in SIGNED}
        statement = other.get("purpose", HEAD) + packed(list(signed.values()))
        signature = other.get("signature", other.get("signer", member).sign(statement))
        self.heads[member.name] = [signed["count"], signed["said"], signed["heard"], signature]
        body = other.get("body", packed([waits, signature]))
        return self.say(member.name, other.get("recipient", "record"), "Head", body)

    # What it comes to.

    @property
    def leaves(self) -> list[bytes]:
        return log_leaves(self.secret, [content for content, leaf in self.records if leaf])

    @property
    def root(self) -> bytes:
        return tree_hash(self.leaves)

    @property
    def digest(self) -> bytes:
        return self.digest_of([self.session, self.fields.get("seed")])

    def digest_of(self, first: list[Any]) -> bytes:
        """The digest; ``first`` is what stands in its first leaf."""
        leaves = [packed(first)]
        for name, _ in self.roster:
            said = self.said.get(name, [])
            leaves.append(packed([name, len(said), tree_hash(said)]))
        return tree_hash(leaves)

    def end(self, **other: Any) -> None:
        """The ``Ending``; ``other`` replaces what is in it."""
        fields = {"log": self.root, "complete": True, "reason": ""} | other
        self.entry("Ending", *fields.values())

    def text(self, **other: Any) -> str:
        """A checkpoint's text; ``other`` replaces what is in it."""
        leaves = self.leaves
        size = other.get("size", len(leaves))
        root = other.get("root", tree_hash(leaves[:size]))
        key = other.get("key", self.roster[0][1])
        return checkpoint_text(other.get("session", self.session), key, size, root)

    def note(self, **other: Any) -> str:
        return note_of(self.text(**other), self.members[0])

    def check(self, note: str | None = None) -> str:
        """A ``Checkpoint``, by default the right one."""
        note = self.note() if note is None else note
        self.add(packed(["Checkpoint", note]), leaf=False)
        return note

    def consistency(self, first: int, note: str, leaves: int | None = None) -> str:
        """The proof from an earlier size to a later checkpoint."""
        hashes = proof_of(first, self.leaves[:leaves]) if first else []
        return "\n".join([f"old {first}", *map(based, hashes), "", note])

    def shown(self, index: int) -> list[Any]:
        """A leaf of the log with its inclusion proof."""
        contents = [content for content, leaf in self.records if leaf]
        leaves = self.leaves
        return [index, leaves[index][:16], contents[index], inclusion_path_at(index, leaves)]

    @property
    def start(self) -> bytes:
        """What comes before the first record."""
        return MAGIC + self.secret

    @property
    def chunks(self) -> list[bytes]:
        """The log, in pieces: what comes before the first record, the fields of the header, the
        entries."""
        header, *entries = [framed(content) for content, _ in self.records]
        fields = []
        for name, value in self.fields.items():
            items = list(map(packed, value)) if isinstance(value, list) else []
            whole = packed(name) + packed(value)
            fields += [whole[: len(whole) - sum(map(len, items))], *items]
        size = len(header) - sum(map(len, fields))
        if header[size:] != b"".join(fields):
            size, fields = len(header), []
        return [self.start, header[:size], *fields, *entries]

    @property
    def log(self) -> bytes:
        return b"".join(self.chunks)
