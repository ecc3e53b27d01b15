"""Checkpoints: signed notes of C2SP (tlog-checkpoint, signed-note) over the log of a record."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Annotated

import msgspec

from protocol.crypto.merkle import HASH_BYTES
from protocol.messages import MAX_NUMBER, SESSION_BYTES, Count
from protocol.session.roster import KEY_BYTES, Identity, is_signature
from protocol.transcript.entries import NOTE_CHARACTERS, Hash

SIGNATURE_BYTES = 64

MAX_SIGNATURES = 64
"""The most signatures of a note, the aggregator's and others'."""

_ORIGIN = re.compile(r"sottovoce/([0-9a-f]{64})/([0-9a-f]{64})")
_SIZE = re.compile(r"0|[1-9][0-9]{0,18}")
_SIGNED = re.compile(r"\u2014 ([^\s+\x00-\x1f]+) ([A-Za-z0-9+/=]+)")

ED25519 = 1
"""The type of an Ed25519 signature of a note."""

KEY_ID_BYTES = 4


class SignedCheckpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Checkpoint of the record so far, signed by an aggregator.

    Args:
        session: the session's id.
        key: the aggregator's public key.
        size: how many leaves the log has: the header and the entries so far.
        root: the log's root.
        signature: by that key.
    """

    session: Annotated[bytes, msgspec.Meta(min_length=SESSION_BYTES, max_length=SESSION_BYTES)]
    key: Annotated[bytes, msgspec.Meta(min_length=KEY_BYTES, max_length=KEY_BYTES)]
    size: Count
    root: Hash
    signature: Annotated[
        bytes, msgspec.Meta(min_length=SIGNATURE_BYTES, max_length=SIGNATURE_BYTES)
    ]

    def __repr__(self) -> str:
        return f"SignedCheckpoint(size={self.size}, by {self.key.hex()[:16]})"

    @property
    def signed(self) -> bytes:
        """Signed text of the note."""
        return checkpoint_text(self.session, self.key, size=self.size, root=self.root)

    @property
    def valid(self) -> bool:
        """True if the holder of the key has signed it."""
        return is_signature(self.signature, self.signed, key=self.key)

    @property
    def note(self) -> str:
        """The note, signed by the aggregator alone."""
        name = log_origin(self.session, self.key)
        line = signature_line(name, key_id(name, ED25519, self.key) + self.signature)
        return f"{self.signed.decode()}\n{line}"


def log_origin(session: bytes, key: bytes) -> str:
    """The name of a session's log, and of the key that signs it."""
    return f"sottovoce/{session.hex()}/{key.hex()}"


def checkpoint_text(session: bytes, key: bytes, *, size: int, root: bytes) -> bytes:
    """The text of a checkpoint, which is signed."""
    return f"{log_origin(session, key)}\n{size}\n{to_base64(root)}\n".encode()


def sign_checkpoint(
    identity: Identity, *, session: bytes, size: int, root: bytes
) -> SignedCheckpoint:
    """The aggregator's checkpoint of a log."""
    key = identity.public
    signature = identity.sign(checkpoint_text(session, key, size=size, root=root))
    return SignedCheckpoint(session=session, key=key, size=size, root=root, signature=signature)


def read_text(text: str) -> tuple[bytes, bytes, int, bytes]:
    """Session, key, size and root of a checkpoint's text.

    Raises:
        ValueError: it is not one of these three lines.
    """
    lines = text.split("\n")
    if len(lines) != 4 or lines[3]:
        raise ValueError("malformed checkpoint: expected origin, size and root, a line each")
    origin, size = _ORIGIN.fullmatch(lines[0]), _SIZE.fullmatch(lines[1])
    if origin is None or size is None:
        raise ValueError("malformed checkpoint: unknown origin, or a size that is not a number")
    session, key = (bytes.fromhex(part) for part in origin.groups())
    number, root = int(lines[1]), from_base64(lines[2])
    if number > MAX_NUMBER or len(root) != HASH_BYTES:
        raise ValueError(f"malformed checkpoint: size {number}, a root of {len(root)} bytes")
    return session, key, number, root


def read_note(note: str) -> SignedCheckpoint:
    """A checkpoint from a signed note. Signatures of others, such as witnesses, are passed over.

    The aggregator's signature is not checked.

    Raises:
        ValueError: malformed, or without exactly one signature line of the aggregator's key.
    """
    if len(note) > NOTE_CHARACTERS:
        raise ValueError(f"a note of {len(note):,} characters, at most {NOTE_CHARACTERS:,}")
    text, lines = split_note(note)
    session, key, size, root = read_text(text)
    name = log_origin(session, key)
    number = key_id(name, ED25519, key)
    own = [
        signature.removeprefix(number)
        for signer, signature in lines
        if signer == name and signature.startswith(number)
    ]
    if len(own) != 1:
        raise ValueError(f"{len(own)} signatures of the key that is to sign, expected 1")
    values = {"session": session, "key": key, "size": size, "root": root, "signature": own[0]}
    return msgspec.convert(values, SignedCheckpoint)


def split_note(note: str) -> tuple[str, tuple[tuple[str, bytes], ...]]:
    """The text of a signed note, and of every signature line the name, and key id and signature.

    Raises:
        ValueError: malformed.
    """
    text, blank, lines = note.partition("\n\n")
    if not blank or not lines.endswith("\n"):
        raise ValueError("malformed note: expected a text, an empty line and signatures")
    signed = lines[:-1].split("\n")
    if len(signed) > MAX_SIGNATURES:
        raise ValueError(f"{len(signed)} signatures, at most {MAX_SIGNATURES} allowed")
    return text + "\n", tuple(map(_read_line, signed))


def signature_line(name: str, signature: bytes) -> str:
    """The line of a signature, with its line end; key id and signature are given joined."""
    return f"\u2014 {name} {to_base64(signature)}\n"


def _read_line(line: str) -> tuple[str, bytes]:
    found = _SIGNED.fullmatch(line)
    if found is None:
        raise ValueError("malformed note: not a line of a signature")
    signature = from_base64(found[2])
    if len(signature) < 4:
        raise ValueError("malformed note: a signature line without the id of a key")
    return found[1], signature


def key_id(name: str, kind: int, key: bytes) -> bytes:
    """The 4 bytes by which a note's signature names its key (C2SP, signed-note).

    Args:
        name: the key's.
        kind: the type of its signatures, a byte.
        key: the public key, 32 bytes.
    """
    return hashlib.sha256(name.encode() + b"\n" + bytes([kind]) + key).digest()[:KEY_ID_BYTES]


def to_base64(content: bytes) -> str:
    """Bytes in base64 (RFC 4648, section 4)."""
    return base64.b64encode(content).decode()


def from_base64(text: str) -> bytes:
    """The inverse of ``to_base64``.

    Raises:
        ValueError: not base64, or not the one way to write these bytes.
    """
    try:
        content = base64.b64decode(text, validate=True)
    except ValueError:
        content = b""
    if to_base64(content) != text or not text:
        raise ValueError("malformed base64")
    return content
