"""Cosignatures of witnesses on checkpoints (C2SP, tlog-cosignature), and keys to check them by."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence

import msgspec

from protocol.messages import PartyId
from protocol.session.roster import Identity, check_keys, is_signature, key_holder
from protocol.transcript.checkpoints import (
    KEY_ID_BYTES,
    MAX_SIGNATURES,
    SIGNATURE_BYTES,
    from_base64,
    key_id,
    signature_line,
    split_note,
    to_base64,
)

COSIGNATURE = 4
"""The type of an Ed25519 cosignature of a checkpoint."""

NAME_CHARACTERS = 255
"""The longest name of a witness."""

MAX_TIME = (1 << 63) - 1

_NAME = re.compile(r"[^\s+\x00-\x1f\ud800-\udfff]+")
_KEY_ID = re.compile(r"[0-9a-f]{8}")
_TIME = struct.Struct(">Q")


class WitnessKey(msgspec.Struct, frozen=True):
    """A witness's name and public Ed25519 key.

    Raises:
        ValueError: the name is empty, too long, or has white space, ``+``, control characters or
            lone surrogates; or the key has another length, is of low order, or is not canonical.
    """

    name: str
    key: bytes

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or len(self.name) > NAME_CHARACTERS:
            raise ValueError(
                f"witness name {self.name!r:.80}: expected 1 to {NAME_CHARACTERS} characters, "
                "in UTF-8, without white space, '+' and control characters"
            )
        check_keys([(PartyId(self.name), self.key)])

    @property
    def id(self) -> bytes:
        """Id of this key in a signature line, after its name, 4 bytes."""
        return key_id(self.name, COSIGNATURE, self.key)

    @property
    def text(self) -> str:
        """The verifier key, ``name+id+key`` (C2SP, signed-note)."""
        return f"{self.name}+{self.id.hex()}+{to_base64(bytes([COSIGNATURE]) + self.key)}"


def read_witness_key(text: str) -> WitnessKey:
    """A witness's key from its verifier key.

    Raises:
        ValueError: malformed, of another type, or the id is not that of the name and key.
    """
    parts = text.split("+", 2)
    if len(parts) != 3 or not _KEY_ID.fullmatch(parts[1]):
        raise ValueError(f"verifier key {text!r:.120}: expected NAME+ID+KEY")
    kind, key = (found := from_base64(parts[2]))[:1], found[1:]
    if kind != bytes([COSIGNATURE]):
        raise ValueError(
            f"verifier key {text!r:.120}: expected type {COSIGNATURE}, an Ed25519 cosigner"
        )
    witness = WitnessKey(parts[0], key)
    if witness.id.hex() != parts[1]:
        raise ValueError(f"verifier key {text!r:.120}: the id is not that of the name and key")
    return witness


def cosign(identity: Identity, *, name: str, text: bytes, time: int) -> str:
    """The line by which a witness cosigns a checkpoint.

    Args:
        identity: holds the witness's key.
        name: the witness's.
        text: the checkpoint's text.
        time: seconds since 1970.
    """
    number = key_id(name, COSIGNATURE, identity.public)
    signature = identity.sign(_statement(text, time))
    return signature_line(name, number + _TIME.pack(time) + signature)


def cosigned_at(text: bytes, signature: bytes, key: WitnessKey) -> int | None:
    """Time at which a witness cosigned a checkpoint, in seconds since 1970; None if it has not.

    Args:
        text: the checkpoint's text.
        signature: of a signature line: key id, time and signature.
        key: the witness's.
    """
    if len(signature) != KEY_ID_BYTES + _TIME.size + SIGNATURE_BYTES:
        return None
    (time,) = _TIME.unpack_from(signature, KEY_ID_BYTES)
    own = signature[KEY_ID_BYTES + _TIME.size :]
    valid = time <= MAX_TIME and is_signature(own, _statement(text, time), key=key.key)
    return int(time) if valid and signature.startswith(key.id) else None


def _statement(text: bytes, time: int) -> bytes:
    return b"cosignature/v1\ntime %d\n" % time + text


class Cosigned(msgspec.Struct, frozen=True, kw_only=True):
    """Cosigners of a checkpoint, among some witnesses.

    Args:
        by: name and earliest time, in seconds since 1970, of each that has cosigned.
        missing: the names of those that have not.
        invalid: the names of those with a signature in their name that is not theirs.
        needed: the number demanded.
        keys: the keys of those witnesses.
        holders: the number of keys that have cosigned; a key with two names counts once.
    """

    by: tuple[tuple[str, int], ...]
    missing: tuple[str, ...]
    invalid: tuple[str, ...]
    needed: int
    keys: tuple[WitnessKey, ...]
    holders: int

    @property
    def enough(self) -> bool:
        """True if enough have cosigned it, and no cosignature is forged."""
        return self.holders >= self.needed and not self.invalid

    def also(self, note: str | None) -> Cosigned:
        """Cosigners of another checkpoint, among the same witnesses; none without a note.

        Raises:
            ValueError: a malformed note.
        """
        if note is not None:
            return cosigned(note, self.keys, needed=self.needed)
        missing = tuple(key.name for key in self.keys)
        return msgspec.structs.replace(self, by=(), missing=missing, invalid=(), holders=0)


def cosigned(note: str, keys: Sequence[WitnessKey], *, needed: int | None = None) -> Cosigned:
    """Cosigners of a checkpoint, among these witnesses. Lines of others are ignored.

    Args:
        note: the note of the checkpoint.
        keys: the keys of the witnesses.
        needed: the number demanded; by default all.

    Raises:
        ValueError: a malformed note, or more demanded than there are.
    """
    demanded = len(keys) if needed is None else needed
    if not 0 < demanded <= len(keys):
        raise ValueError(f"{demanded} witnesses demanded: expected 1 to {len(keys)}")
    text, lines = split_note(note)
    by, missing, invalid = [], [], []
    holders = set()
    for key in keys:
        own = [s for name, s in lines if name == key.name and s.startswith(key.id)]
        times = [cosigned_at(text.encode(), signature, key) for signature in own]
        found = [time for time in times if time is not None]
        if len(found) < len(times):
            invalid.append(key.name)
        elif found:
            by.append((key.name, min(found)))
            holders.add(key_holder(key.key))
        else:
            missing.append(key.name)
    return Cosigned(
        by=tuple(by),
        missing=tuple(missing),
        invalid=tuple(invalid),
        needed=demanded,
        keys=tuple(keys),
        holders=len(holders),
    )


def cosignature_line(answer: str, note: str, key: WitnessKey) -> str:
    """The cosignature of a witness on a checkpoint, from among the lines that it answered with.

    Raises:
        ValueError: malformed lines, or no valid cosignature of this witness among them.
    """
    text, _ = split_note(note)
    _, lines = split_note(f"{text}\n{answer}")
    for name, signature in lines:
        if name == key.name and cosigned_at(text.encode(), signature, key) is not None:
            return signature_line(name, signature)
    raise ValueError(f"no valid cosignature of {key.name!r:.80} in the answer")


def with_lines(note: str, lines: Sequence[str]) -> str:
    """A note with further signature lines.

    Raises:
        ValueError: a malformed note, or more signatures than it may have.
    """
    there = len(split_note(note)[1])
    new = [line for line in dict.fromkeys(lines) if f"\n{line}" not in note]
    if there + len(new) > MAX_SIGNATURES:
        raise ValueError(f"{there + len(new)} signatures, at most {MAX_SIGNATURES} allowed")
    return note + "".join(new)
