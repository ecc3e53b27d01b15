"""The header and entries of a transcript, their encodings, and the canonical digest."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import msgspec

from protocol.crypto.merkle import HASH_BYTES, Tree, merkle_root
from protocol.errors import TranscriptError
from protocol.messages import (
    AGGREGATOR,
    KERNEL_KINDS,
    NAME_CHARACTERS,
    NONCE_BYTES,
    Count,
    Envelope,
    Name,
    PartyId,
    party_id,
)
from protocol.session.roster import check_keys, roster_leaf
from protocol.session.terms import (
    MOST_ATTEMPTS,
    NEIGHBOURS,
    Enrolled,
    Terms,
    is_attempt,
    session_id,
)
from protocol.wire.canonical import canonical
from protocol.wire.schemas import KindSchema

MAGIC = b"sottovoce transcript 3\n"
"""The first bytes of every transcript: name and version of the format."""

EXCERPT_BYTES = 256
REASON_CHARACTERS = 1024
"""The longest reason that an entry gives for a refusal, a departure or a run that failed."""

NOTE_CHARACTERS = 1 << 14
"""The longest note of a checkpoint: room for many signatures."""

MAX_BODY = (1 << 26) + (1 << 16)
"""The most bytes that a kind may declare: 2**24 numbers of 4 bytes and 64 KiB more."""

MAX_KINDS = 1024
"""The most kinds of message that a header may declare."""

MAX_DEPTH = 64
"""Deepest nesting of the parameters and the survey of a header."""

_MALFORMED = (msgspec.MsgspecError, ValueError, OverflowError, RecursionError)

Hash = Annotated[bytes, msgspec.Meta(min_length=HASH_BYTES, max_length=HASH_BYTES)]
Reason = Annotated[str, msgspec.Meta(max_length=REASON_CHARACTERS)]


WITHHELD: Literal["withheld"] = "withheld"
"""Word in the place of a seed that is kept out of the record."""


class DeclaredKind(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A kind of message that may occur.

    Args:
        name: the name of the kind.
        max_bytes: the most bytes of a body.
        fields: the fields of a body, as plain values (``protocol.wire.schemas``).
    """

    name: str
    max_bytes: int
    fields: list[Any]

    @property
    def round(self) -> int | None:
        """Place of the round in a body; None in a kind without rounds."""
        names = [field[0] if isinstance(field, list) and field else None for field in self.fields]
        return names.index("round") if "round" in names else None

    @classmethod
    def of(cls, schema: KindSchema) -> DeclaredKind:
        """A kind as a header declares it."""
        return msgspec.msgpack.decode(_encode(schema), type=cls)


class Header(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Header of a transcript.

    Args:
        variant: the variant's name.
        code: the SHA-256 of the variant's file; None for a built-in one.
        parameters: its public parameters, as plain values.
        survey: the survey, as plain values.
        analysis: the announced analysis, as plain values; None if none was announced.
        neighbours: the records that epsilon compares; ``NEIGHBOURS``.
        nonce: 16 bytes that distinguish the survey from others of the same terms.
        roles: the roles of the services, at the places after the aggregator; None without any.
        enrolled: how the other members got their keys; None if unknown.
        attempt: the number of times that the aggregator has begun the survey, with this one.
        session: the session's id, which follows from the above, the roster and the kinds.
        roster: (id, public key of 32 bytes) of each member, the aggregator first.
        kinds: every kind of message that may occur, the kernel's included.
        seed: the simulation's seed, below 2**64; None in a survey. Its holder can undo every
            randomization, so a transcript with a seed protects nobody. ``WITHHELD`` keeps it out.
        transport: the transport that carried the messages.
        program: the version of the program that recorded.
    """

    variant: str
    code: Hash | None
    parameters: dict[str, Any]
    survey: dict[str, Any]
    analysis: dict[str, Any] | None
    neighbours: str
    nonce: bytes
    roles: tuple[str, ...] | None
    enrolled: Enrolled | None
    attempt: int
    session: bytes
    roster: tuple[tuple[PartyId, bytes], ...]
    kinds: Annotated[tuple[DeclaredKind, ...], msgspec.Meta(max_length=MAX_KINDS)]
    seed: int | Literal["withheld"] | None
    transport: str | None
    program: str

    @property
    def terms(self) -> bytes:
        """The hash of the agreed terms, 32 bytes (``protocol.session.terms``)."""
        return Terms(*(getattr(self, name) for name in Terms._fields)).digest()

    @property
    def longest(self) -> Mapping[str, int]:
        """The most bytes of a body of each kind."""
        return {kind.name: kind.max_bytes for kind in self.kinds}

    @property
    def rounds(self) -> Mapping[str, int]:
        """Place of the round in a body, of every kind that has one."""
        return {kind.name: kind.round for kind in self.kinds if kind.round is not None}

    def __repr__(self) -> str:
        return (
            f"Header(variant={self.variant!r}, session={self.session.hex()}, "
            f"roster of {len(self.roster)}, {'no seed' if self.seed is None else 'seeded'})"
        )


class _Timed(
    msgspec.Struct, frozen=True, kw_only=True, array_like=True, tag=True, forbid_unknown_fields=True
):
    """An event, ``at`` microseconds after the start."""

    at: Count


class Sent(_Timed, frozen=True, kw_only=True):
    """An envelope, canonically encoded, was accepted from its sender."""

    envelope: bytes

    def __repr__(self) -> str:
        return f"Sent(at={self.at}, envelope of {len(self.envelope)} B)"


class Delivered(_Timed, frozen=True, kw_only=True):
    """An envelope was handed to its recipient; ``repeat`` marks a duplicate by the network."""

    sender: Name
    recipient: Name
    seq: Count
    repeat: bool


class Refused(_Timed, frozen=True, kw_only=True):
    """Bytes from a link were refused; ``excerpt`` is their beginning, at most 256 bytes."""

    link: Annotated[str, msgspec.Meta(max_length=NAME_CHARACTERS)]
    reason: Reason
    excerpt: Annotated[bytes, msgspec.Meta(max_length=EXCERPT_BYTES)]

    def __repr__(self) -> str:
        return f"Refused(at={self.at}, link={self.link!r}, reason={self.reason!r})"


class Departed(_Timed, frozen=True, kw_only=True):
    """A party has left; nothing more comes from it."""

    party: Name
    reason: Reason


class Hindered(_Timed, frozen=True, kw_only=True):
    """The network of a simulation loses or delays the envelope of the entry before."""

    sender: Name
    recipient: Name
    seq: Count


class Restored(_Timed, frozen=True, kw_only=True):
    """The record goes on from an older copy: entries that followed in the original may be lost.

    Args:
        without: the parties that are missing from here on. They may hold receipts of lost entries.
    """

    without: tuple[Name, ...]


class Ending(
    msgspec.Struct, frozen=True, kw_only=True, array_like=True, tag=True, forbid_unknown_fields=True
):
    """The last entry: the root over all entries before, and how the run ended.

    Args:
        log: the root of the log before this entry.
        complete: whether the run came to its end.
        reason: if not, why.
    """

    log: Hash
    complete: bool
    reason: Reason


class Checkpoint(
    msgspec.Struct, frozen=True, kw_only=True, array_like=True, tag=True, forbid_unknown_fields=True
):
    """A signed note over everything before it (``protocol.transcript.checkpoints``).

    It stands among the entries, but is not in the log.
    """

    note: Annotated[str, msgspec.Meta(max_length=NOTE_CHARACTERS)]

    def __repr__(self) -> str:
        return f"Checkpoint(note of {len(self.note)} characters)"


Entry = Sent | Delivered | Refused | Departed | Hindered | Restored
"""Event of a run."""

Item = Entry | Ending | Checkpoint
"""Part of a record after the header."""

_encode = msgspec.msgpack.Encoder(order="deterministic").encode
_decode_header = msgspec.msgpack.Decoder(Header).decode
_decode_item: msgspec.msgpack.Decoder[Item] = msgspec.msgpack.Decoder(
    Sent | Delivered | Refused | Departed | Hindered | Restored | Ending | Checkpoint
)


def encode_header(header: Header) -> bytes:
    """A header as a msgpack map, its fields in their order, the keys inside it sorted.

    Raises:
        TranscriptError: a value that msgpack cannot carry.
    """
    try:
        return _encode(header)
    except (TypeError, *_MALFORMED) as error:
        raise TranscriptError(f"the header cannot be encoded: {error}") from error


def decode_header(content: bytes) -> Header:
    """The inverse of ``encode_header``.

    Raises:
        TranscriptError: malformed, or not the one encoding of what it says.
    """
    try:
        header = _decode_header(content)
    except _MALFORMED as error:
        raise TranscriptError(f"malformed header: {error}") from error
    # Before re-encoding: keys of mixed types cannot be sorted.
    if not _plain(header):
        raise TranscriptError(
            "malformed header: parameters, survey, analysis or kinds hold more than plain "
            "values, or are nested too deeply"
        )
    if encode_header(header) != content:
        raise TranscriptError("the header's encoding is not canonical")
    return header


def header_problems(header: Header) -> tuple[str, ...]:
    """Problems of a header that could be decoded; none if it is sound."""
    names = [name for name, _ in header.roster]
    checks = (
        (
            len(header.nonce) == NONCE_BYTES,
            f"nonce of {len(header.nonce)} bytes, expected {NONCE_BYTES}",
        ),
        (
            is_attempt(header.attempt),
            f"attempt {header.attempt}, expected 1 to {MOST_ATTEMPTS}",
        ),
        (names[:1] == [AGGREGATOR], "the aggregator is not the first of the roster"),
        (len(set(names)) == len(names), "a member of the roster occurs twice"),
        (all(map(_is_party_id, names)), "a member of the roster has an invalid id"),
        *_keys_problem(header.roster),
        *_kinds_problems(header.kinds),
        *_parties_problems(header),
        (header.neighbours == NEIGHBOURS, f"unknown neighbours {header.neighbours!r:.40}"),
        (not isinstance(header.seed, int) or header.seed >= 0, "a negative seed"),
        (
            _plain(header),
            "parameters, survey, analysis or kinds hold more than plain values, or are nested too "
            "deeply",
        ),
    )
    problems = tuple(problem for sound, problem in checks if not sound)
    if not problems and header.session != expected_session(header):
        return ("the session is not that of the terms, the roster and the attempt",)
    return problems


def expected_session(header: Header) -> bytes:
    """The session's id by the rest of a header, 32 bytes.

    Raises:
        ValueError: the attempt is out of range.
    """
    root = merkle_root(roster_leaf(name, key) for name, key in header.roster)
    return session_id(
        terms=header.terms, roster=root, members=len(header.roster), attempt=header.attempt
    )


def _plain(header: Header) -> bool:
    described = all(_is_plain(kind.fields, depth=2) for kind in header.kinds)
    return described and all(map(_is_plain, (header.parameters, header.survey, header.analysis)))


def _parties_problems(header: Header) -> Iterator[tuple[bool, str]]:
    parties, roles, enrolled = len(header.roster) - 1, header.roles, header.enrolled
    if roles is not None:
        yield 0 < len(roles) <= parties, f"{len(roles)} roles for {parties} members"
    if enrolled is not None:
        numbers = [number for _, number in enrolled]
        fits = all(number > 0 for number in numbers) and sum(numbers) == parties
        yield fits, f"it is said of {sum(numbers)} of {parties} members how they were enrolled"


def _keys_problem(members: tuple[tuple[PartyId, bytes], ...]) -> Iterator[tuple[bool, str]]:
    try:
        check_keys(members)
    except ValueError as error:
        yield False, str(error)


def _kinds_problems(kinds: tuple[DeclaredKind, ...]) -> Iterator[tuple[bool, str]]:
    names = {kind.name for kind in kinds}
    yield len(names) == len(kinds), "a kind occurs twice"
    for message in KERNEL_KINDS:
        yield message.kind() in names, f"kind {message.kind()!r} is missing"
    for kind in kinds:
        cap = f"kind {kind.name!r:.80} of at most {kind.max_bytes} bytes: out of range"
        yield 0 < kind.max_bytes <= MAX_BODY, cap


def _is_party_id(name: str) -> bool:
    try:
        party_id(name)
    except ValueError:
        return False
    return True


def _is_plain(value: object, depth: int = 0) -> bool:
    """Check whether a value consists of JSON types and bytes, within bounds."""
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            return False
        return depth < MAX_DEPTH and all(_is_plain(item, depth + 1) for item in value.values())
    if isinstance(value, list | tuple):
        return depth < MAX_DEPTH and all(_is_plain(item, depth + 1) for item in value)
    if isinstance(value, float):
        return not math.isnan(value)
    return value is None or isinstance(value, int | str | bytes)


def encode_item(item: Item) -> bytes:
    """Encode an item that can follow the header, as a msgpack array, its name first."""
    return _encode(item)


def decode_item(content: bytes) -> Item:
    """The inverse of ``encode_item``.

    Raises:
        TranscriptError: malformed, or not the one encoding of what it says.
    """
    try:
        return canonical(content, _decode_item, what="entry")
    except ValueError as error:
        raise TranscriptError(str(error)) from error


class CanonicalDigest:
    """Digest of all envelopes by sender, whatever the order of recording.

    It is the RFC 9162 root over the header's leaf and, in roster order, (sender, count, root) of
    every member, with the root of the member's tree of encoded envelopes in order of seq. The
    header's leaf binds the session, which binds all agreed terms, and the seed, so that a
    simulation cannot pass for a survey. Transport and program are not bound.

    Attributes:
        trees: each member's tree of its encoded envelopes.
    """

    __slots__ = ("_leaf", "_order", "trees")

    def __init__(self, header: Header) -> None:
        self._leaf = _encode((header.session, header.seed))
        self._order = tuple(name for name, _ in header.roster)
        self.trees: dict[str, Tree] = {name: Tree() for name in self._order}

    def add(self, envelope: Envelope, encoded: bytes) -> bytes:
        """Take a member's next envelope; returns its leaf hash."""
        return self.trees[envelope.sender].append(encoded)

    def digest(self) -> bytes:
        """The digest of the envelopes so far, 32 bytes."""
        return merkle_root(self.leaves())

    def leaves(self) -> Iterator[bytes]:
        """The leaves of the main tree: the header's, and of every member in roster order."""
        yield self._leaf
        for name in self._order:
            tree = self.trees[name]
            yield _encode((name, tree.count, tree.root()))
