"""Header, entries, blocks and canonical digest as bytes."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, TypeVar

import msgspec
import zstandard

from protocol.crypto.merkle import Tree, root_of
from protocol.errors import TranscriptError
from protocol.messages import (
    AGGREGATOR,
    KERNEL_KINDS,
    NAME_CHARACTERS,
    SESSION_BYTES,
    Name,
    PartyId,
    party_id,
)
from protocol.session.roster import check_keys
from protocol.wire.canonical import canonical

T = TypeVar("T")

FORMAT = 1
MAGIC = b"sottovoce transcript 1\n"
"""The first line of every transcript: name and version of the format."""

HEADER, ENTRIES, CLOSING = b"H", b"E", b"C"
"""The types of block."""

HEAD_BYTES = 13
"""The bytes at the start of a block: its type, the stored length and the guard."""

CHAIN_BYTES = 32
EXCERPT_BYTES = 256
REASON_CHARACTERS = 1024
"""The longest reason that an entry gives for a refusal or a departure."""

STATEMENT_BYTES = 512
"""Maximum size of a checkpoint's statement, in bytes."""

MAX_BODY = (1 << 26) + (1 << 16)
"""The largest body cap that a header may declare: 2**24 numbers of 4 bytes and 64 KiB more."""

SLACK_BYTES = 1 << 24
"""Maximum size of a block beyond one body, in bytes once expanded."""

HEADER_BYTES = 1 << 22
"""Size to which any header may expand, in bytes, however short it is stored."""

HEADER_RATIO = 8
"""How many times its stored length a longer header may expand to: keys cannot be compressed, so a
roster hardly shrinks."""

MAX_HEADER = 1 << 26
"""Maximum size of a header, in bytes once expanded."""

MAX_STORED = (SLACK_BYTES + MAX_BODY) + ((SLACK_BYTES + MAX_BODY) >> 8) + 1024
"""The most bytes a block can be stored in: zstandard's bound for incompressible content."""

_GUARD_BYTES = 8
_ZSTD_FRAME = b"\x28\xb5\x2f\xfd"
_U32 = struct.Struct(">I")
_MALFORMED = (msgspec.MsgspecError, ValueError, OverflowError, RecursionError)

Count = Annotated[int, msgspec.Meta(ge=0)]
Reason = Annotated[str, msgspec.Meta(max_length=REASON_CHARACTERS)]


class Header(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a transcript is about.

    Args:
        format: ``FORMAT``.
        variant: the variant's name.
        parameters: its public parameters, as plain values.
        survey: the survey, as plain values.
        session: 16 bytes.
        roster: (id, public key of 32 bytes) of each member, the aggregator first.
        kinds: every kind of message that may occur, the kernel's included.
        max_body: the most bytes that an envelope's body takes.
        recording: what is recorded; ``"full"`` is everything.
        seed: the simulation's, below 2**64; a transcript with a seed protects nobody.
        transport: what carried the messages.
        program: the version of the program that recorded.
    """

    format: int
    variant: str
    parameters: dict[str, Any]
    survey: dict[str, Any]
    session: bytes
    roster: tuple[tuple[PartyId, bytes], ...]
    kinds: tuple[str, ...]
    max_body: int
    recording: str
    seed: int | None
    transport: str | None
    program: str

    def __repr__(self) -> str:
        return (
            f"Header(variant={self.variant!r}, session={self.session.hex()}, "
            f"roster of {len(self.roster)}, {'no seed' if self.seed is None else 'seeded'})"
        )


class _Timed(
    msgspec.Struct, frozen=True, kw_only=True, array_like=True, tag=True, forbid_unknown_fields=True
):
    """Something that happened ``at`` so many microseconds after the start."""

    at: Count


class Sent(_Timed, frozen=True, kw_only=True):
    """An envelope, canonically encoded, was accepted from its sender."""

    envelope: bytes

    def __repr__(self) -> str:
        return f"Sent(at={self.at}, envelope of {len(self.envelope)} B)"


class Delivered(_Timed, frozen=True, kw_only=True):
    """An envelope was handed to its recipient; ``repeat`` marks the network's own duplicate."""

    sender: Name
    recipient: Name
    seq: Count
    repeat: bool


class Refused(_Timed, frozen=True, kw_only=True):
    """Bytes from a link were refused; ``excerpt`` is how they began, 256 bytes at most."""

    link: Annotated[str, msgspec.Meta(max_length=NAME_CHARACTERS)]
    reason: Reason
    excerpt: Annotated[bytes, msgspec.Meta(max_length=EXCERPT_BYTES)]

    def __repr__(self) -> str:
        return f"Refused(at={self.at}, link={self.link!r}, reason={self.reason!r})"


class Departed(_Timed, frozen=True, kw_only=True):
    """A party is gone; nothing comes from it any more."""

    party: Name
    reason: Reason


class Checkpoint(_Timed, frozen=True, kw_only=True):
    """What the aggregator signed of all entries before (``protocol.transcript.checkpoints``)."""

    statement: Annotated[bytes, msgspec.Meta(max_length=STATEMENT_BYTES)]
    signature: Annotated[bytes, msgspec.Meta(min_length=64, max_length=64)]

    def __repr__(self) -> str:
        return f"Checkpoint(at={self.at}, statement of {len(self.statement)} B)"


class Ending(
    msgspec.Struct, frozen=True, kw_only=True, array_like=True, tag=True, forbid_unknown_fields=True
):
    """The closing record: how many entries there are, their canonical digest, how the run ended."""

    entries: Count
    digest: Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
    complete: bool
    reason: str


Entry = Sent | Delivered | Refused | Departed | Checkpoint

_encode = msgspec.msgpack.Encoder(order="deterministic").encode
_decode_header = msgspec.msgpack.Decoder(Header).decode
_decode_ending = msgspec.msgpack.Decoder(Ending)
_decode_entry: msgspec.msgpack.Decoder[Entry] = msgspec.msgpack.Decoder(
    Sent | Delivered | Refused | Departed | Checkpoint
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
    if not (_is_plain(header.parameters) and _is_plain(header.survey)):
        raise TranscriptError("malformed header: parameters or survey hold more than plain values")
    if encode_header(header) != content:
        raise TranscriptError("the header's encoding is not canonical")
    return header


def problems_of(header: Header) -> tuple[str, ...]:
    """What is wrong with a header that could be decoded; nothing, if it is sound."""
    names = [name for name, _ in header.roster]
    kernel = {kind.kind() for kind in KERNEL_KINDS}
    checks = (
        (header.format == FORMAT, f"format {header.format}, expected {FORMAT}"),
        (
            len(header.session) == SESSION_BYTES,
            f"session of {len(header.session)} bytes, expected {SESSION_BYTES}",
        ),
        (names[:1] == [AGGREGATOR], "the aggregator is not the first of the roster"),
        (len(set(names)) == len(names), "a member of the roster occurs twice"),
        (all(map(_is_party_id, names)), "a member of the roster has an invalid id"),
        *_keys_problem(header.roster),
        (len(set(header.kinds)) == len(header.kinds), "a kind occurs twice"),
        (kernel <= set(header.kinds), "a kernel kind is missing"),
        (
            0 < header.max_body <= MAX_BODY,
            f"cap on bodies of {header.max_body} bytes: out of range",
        ),
        (header.recording == "full", f"unknown recording profile {header.recording!r:.40}"),
        (header.seed is None or header.seed >= 0, "a negative seed"),
        (
            _is_plain(header.parameters) and _is_plain(header.survey),
            "parameters or survey hold more than plain values",
        ),
    )
    return tuple(problem for sound, problem in checks if not sound)


def _keys_problem(members: tuple[tuple[PartyId, bytes], ...]) -> Iterator[tuple[bool, str]]:
    try:
        check_keys(members)
    except ValueError as error:
        yield False, str(error)


def _is_party_id(name: str) -> bool:
    try:
        party_id(name)
    except ValueError:
        return False
    return True


def _is_plain(value: object) -> bool:
    """Whether a value consists of JSON types and bytes."""
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Mapping):
            if not all(isinstance(key, str) for key in value):
                return False
            waiting.extend(value.values())
        elif isinstance(value, list | tuple):
            waiting.extend(value)
        elif not (value is None or isinstance(value, bool | int | float | str | bytes)):
            return False
    return True


def encode_entry(entry: Entry | Ending) -> bytes:
    """An entry or the closing record as a msgpack array, its name first."""
    return _encode(entry)


def decode_entry(content: bytes) -> Entry:
    """The inverse of ``encode_entry``, for entries.

    Raises:
        TranscriptError: malformed, or not the one encoding of what it says.
    """
    return _canonical(content, _decode_entry, "entry")


def decode_ending(content: bytes) -> Ending:
    """The inverse of ``encode_entry``, for the closing record.

    Raises:
        TranscriptError: malformed, or not the one encoding of what it says.
    """
    return _canonical(content, _decode_ending, "closing record")


def _canonical(content: bytes, decoder: msgspec.msgpack.Decoder[T], what: str) -> T:
    try:
        return canonical(content, decoder, what=what)
    except ValueError as error:
        raise TranscriptError(str(error)) from error


def split_entries(content: bytes) -> Iterator[bytes]:
    """The encoded entries in an entries block.

    Raises:
        TranscriptError: there is none, or the last one is cut short.
    """
    if not content:
        raise TranscriptError("the block is empty: expected at least one entry")
    start = 0
    while start < len(content):
        if start + _U32.size > len(content):
            raise TranscriptError("an entry's length is cut short")
        (length,) = _U32.unpack_from(content, start)
        start += _U32.size
        if length > len(content) - start:
            raise TranscriptError("an entry is cut short")
        yield content[start : start + length]
        start += length


def first_link() -> bytes:
    """The chain before the first block, 32 bytes."""
    return hashlib.blake2b(MAGIC, digest_size=CHAIN_BYTES).digest()


def guard_of(chain: bytes, start: bytes) -> bytes:
    """The guard, 8 bytes, over the chain so far and a block's type and length (5 bytes)."""
    return hashlib.blake2b(chain + start, digest_size=_GUARD_BYTES).digest()


def next_link(chain: bytes, start: bytes, stored: bytes) -> bytes:
    """The chain after a block, 32 bytes, over the chain so far, type, length and what is stored."""
    link = hashlib.blake2b(chain + start, digest_size=CHAIN_BYTES)
    link.update(stored)
    return link.digest()


def expand(stored: bytes, *, limit: int) -> bytes:
    """The content of a block from its zstandard frame.

    Raises:
        TranscriptError: not exactly one frame that states its size, or more than ``limit`` bytes.
    """
    if not stored.startswith(_ZSTD_FRAME):
        raise TranscriptError("the block is not a zstandard frame")
    try:
        size = zstandard.get_frame_parameters(stored).content_size
        if size == zstandard.CONTENTSIZE_UNKNOWN:
            raise TranscriptError("the block does not state the size of its content")
        if size > limit:
            raise TranscriptError(f"the block expands to {size} B, at most {limit} allowed")
        # For empty content the library would not look at the rest of the frame.
        if size == 0:
            raise TranscriptError("the block is empty")
        return zstandard.ZstdDecompressor().decompress(stored, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise TranscriptError(f"malformed zstandard frame: {error}") from error


def party_leaf(name: str, count: int, root: bytes) -> bytes:
    """A member's leaf of the main tree: how much it has said, and the root of its own tree."""
    return _encode((name, count, root))


class CanonicalDigest:
    """The digest of who said what, whatever the order of recording: DESIGN's canonical transcript.

    It is the RFC 9162 root over the header's leaf and, in roster order, (sender, count, root) of
    every member, where root is that of the member's own tree of encoded envelopes in order of seq.
    The header's leaf binds format, variant, parameters, survey, session, roster, kinds and seed (so
    that a simulation cannot pass for a survey); not the transport, the program or the recording.

    ``trees`` holds each member's tree; append a member's encoded envelopes there.
    """

    __slots__ = ("_leaf", "_order", "trees")

    def __init__(self, header: Header) -> None:
        self._leaf = _encode(
            (
                header.format,
                header.variant,
                header.parameters,
                header.survey,
                header.session,
                header.roster,
                header.kinds,
                header.seed,
            )
        )
        self._order = tuple(name for name, _ in header.roster)
        self.trees: dict[str, Tree] = {name: Tree() for name in self._order}

    def digest(self) -> bytes:
        """The digest of what has been appended so far, 32 bytes."""
        return root_of(self.leaves())

    def leaves(self) -> Iterator[bytes]:
        """The leaves of the main tree: the header's, and of every member in roster order."""
        yield self._leaf
        for name in self._order:
            tree = self.trees[name]
            yield party_leaf(name, tree.count, tree.root())
