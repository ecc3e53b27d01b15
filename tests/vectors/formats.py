"""The formats of messages, trees, notes and transcripts, computed without the program's code."""

from __future__ import annotations

import base64
import functools
import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR, ECB

FOLDER = Path(__file__).parent
SAFE = 2**53
"""Beyond this, JSON's readers round integers: larger ones are written as strings."""

Case = dict[str, Any]


def number(n: int) -> int | str:
    return n if -SAFE <= n <= SAFE else str(n)


def content_of(parts: Sequence[str], pieces: dict[str, str]) -> bytes:
    """The bytes of which a file of the vectors consists."""
    content = []
    for part in parts:
        text, _, times = part.partition("*")
        content.append(bytes.fromhex(pieces.get(text, text)) * int(times or 1))
    return b"".join(content)


def sha256(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def based(content: bytes) -> str:
    return base64.b64encode(content).decode()


def keystream(key: bytes, size: int) -> bytes:
    return Cipher(AES256(key), CTR(bytes(16))).encryptor().update(bytes(size))


# --- msgpack, the shortest form of everything


class Raw(NamedTuple):
    """An item as it is written, in whichever form."""

    encoded: bytes


def packed(value: Any) -> bytes:
    match value:
        case None:
            return b"\xc0"
        case bool():
            return b"\xc3" if value else b"\xc2"
        case int():
            return packed_int(value)
        case float():
            return b"\xcb" + struct.pack(">d", value)
        case str():
            text = value.encode()
            return sized(len(text), (0xA0, 32), (0xD9, 0xDA, 0xDB)) + text
        case bytes():
            return sized(len(value), None, (0xC4, 0xC5, 0xC6)) + value
        case list():
            head = sized(len(value), (0x90, 16), (None, 0xDC, 0xDD))
            return head + b"".join(packed(item) for item in value)
        case dict():
            head = sized(len(value), (0x80, 16), (None, 0xDE, 0xDF))
            return head + b"".join(packed(key) + packed(item) for key, item in value.items())
        case Raw():
            return value.encoded
    raise TypeError(type(value))


def packed_int(n: int) -> bytes:
    if -32 <= n < 128:
        return struct.pack(">b", n)
    for start, forms in ((0xCC, "BHIQ"), (0xD0, "bhiq")):
        for place, form in enumerate(forms):
            try:
                return bytes([start + place]) + struct.pack(">" + form, n)
            except struct.error:
                continue
    raise ValueError(n)


def sized(length: int, fixed: tuple[int, int] | None, forms: tuple[int | None, int, int]) -> bytes:
    if fixed and length < fixed[1]:
        return bytes([fixed[0] + length])
    for start, form, most in zip(forms, "BHI", (2**8, 2**16, 2**32), strict=True):
        if start is not None and length < most:
            return bytes([start]) + struct.pack(">" + form, length)
    raise ValueError(length)


# --- GF(256)


def times(a: int, b: int) -> int:
    product = 0
    while b:
        if b & 1:
            product ^= a
        a <<= 1
        if a & 0x100:
            a ^= 0x11B
        b >>= 1
    return product


def reciprocal(a: int) -> int:
    return next(b for b in range(256) if times(a, b) == 1)


# --- Merkle trees, as RFC 9162 defines them


def tree_hash(leaves: Sequence[bytes]) -> bytes:
    if not leaves:
        return sha256(b"")
    if len(leaves) == 1:
        return sha256(b"\0" + leaves[0])
    k = split(len(leaves))
    return sha256(b"\1" + tree_hash(leaves[:k]) + tree_hash(leaves[k:]))


def split(n: int) -> int:
    return 1 << (n - 1).bit_length() - 1


def inclusion_path_at(m: int, leaves: Sequence[bytes]) -> list[bytes]:
    if len(leaves) == 1:
        return []
    k = split(len(leaves))
    if m < k:
        return [*inclusion_path_at(m, leaves[:k]), tree_hash(leaves[k:])]
    return [*inclusion_path_at(m - k, leaves[k:]), tree_hash(leaves[:k])]


def proof_of(m: int, leaves: Sequence[bytes], whole: bool = True) -> list[bytes]:
    if m == len(leaves):
        return [] if whole else [tree_hash(leaves)]
    k = split(len(leaves))
    if m <= k:
        return [*proof_of(m, leaves[:k], whole), tree_hash(leaves[k:])]
    return [*proof_of(m - k, leaves[k:], False), tree_hash(leaves[:k])]


def log_leaves(secret: bytes, contents: Sequence[bytes]) -> list[bytes]:
    """The leaves of a transcript's log: a salt, then the content, or 0 and its hash."""
    leaves = []
    for index, content in enumerate(contents):
        # One block of the cipher, of the place.
        place = index.to_bytes(16, "big")
        salt = Cipher(AES256(secret), ECB()).encryptor().update(place)
        leaves.append(salt + (content if len(content) <= 1024 else b"\0" + sha256(content)))
    return leaves


# --- members and their notes


@dataclass(frozen=True)
class Member:
    """A holder of an Ed25519 key, which follows from the name."""

    name: str

    @functools.cached_property
    def secret(self) -> bytes:
        return hashlib.shake_256(f"key of {self.name}".encode()).digest(32)

    @functools.cached_property
    def _signer(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self.secret)

    @functools.cached_property
    def key(self) -> bytes:
        return self._signer.public_key().public_bytes_raw()

    def sign(self, content: bytes) -> bytes:
        return self._signer.sign(content)


def signature_line(name: str, kind: int, key: bytes, signature: bytes) -> str:
    key_id = sha256(name.encode() + b"\n" + bytes([kind]) + key)[:4]
    return f"\u2014 {name} {based(key_id + signature)}\n"


def checkpoint_text(session: bytes, key: bytes, size: int, root: bytes) -> str:
    return f"sottovoce/{session.hex()}/{key.hex()}\n{size}\n{based(root)}\n"


def note_of(text: str, signer: Member) -> str:
    name = text.split("\n")[0]
    return f"{text}\n{signature_line(name, 1, signer.key, signer.sign(text.encode()))}"


def cosignature(text: str, witness: Member, time: int = 1_750_000_000) -> str:
    statement = f"cosignature/v1\ntime {time}\n{text}".encode()
    signature = struct.pack(">Q", time) + witness.sign(statement)
    return signature_line(witness.name, 4, witness.key, signature)


# --- transcripts

MAGIC = b"sottovoce transcript 3\n"
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


def framed(content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + content


def head_statement(session: bytes, sender: str, count: int, said: bytes, heard: bytes) -> bytes:
    return b"sottovoce head 2\0" + packed([session, sender, count, said, heard])


def session_of(fields: dict[str, Any]) -> bytes:
    terms = sha256(packed([fields[name] for name in BOUND]))
    root = tree_hash([key + name.encode() for name, key in fields["roster"]])
    bound = packed([terms, root, len(fields["roster"])])
    return sha256(b"sottovoce session 3\0" + bound)[:31] + bytes([fields["attempt"]])
