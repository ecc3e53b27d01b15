"""The log of a record: an RFC 9162 tree over its header and entries, with salted leaves."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR, ECB

from protocol.crypto.merkle import Tree
from protocol.crypto.randomness import secret_of

LOG_SECRET_BYTES = 32
SALT_BYTES = 16

LARGEST_LEAF = 1024
"""The longest content, in bytes, that stands in a leaf itself; a longer one does by its hash."""

_SEEDED = b"sottovoce log 2"
_BATCH = 4096
_sha256 = hashlib.sha256


def log_secret_of(seed: int) -> bytes:
    """The secret of a simulation's log, 32 bytes. It protects nobody.

    Raises:
        ValueError: the seed is negative.
    """
    return hmac.digest(secret_of(seed), _SEEDED, "sha256")


def salts(secret: bytes, first: int, count: int) -> bytes:
    """The salts of so many leaves from the first on, one after the other, 16 bytes each.

    A leaf's salt is AES-256 of its place as a big-endian number of 128 bits: a part of the
    counter-mode keystream.
    """
    start = CTR(first.to_bytes(SALT_BYTES, "big"))
    return Cipher(AES256(secret), start).encryptor().update(bytes(SALT_BYTES * count))


def salts_of(secret: bytes, leaves: Sequence[int]) -> bytes:
    """The salts of leaves in any order, as ``salts`` gives them, one after the other."""
    places = b"".join(leaf.to_bytes(SALT_BYTES, "big") for leaf in leaves)
    return Cipher(AES256(secret), ECB()).encryptor().update(places)


def log_leaf(salt: bytes, content: bytes) -> bytes:
    """A leaf of the log: a salt, and a content or, after a zero byte, the SHA-256 of a long one.

    No content begins with a zero byte, for it is a msgpack array or map.
    """
    return salt + _in_leaf(content)


def _in_leaf(content: bytes) -> bytes:
    return content if len(content) <= LARGEST_LEAF else b"\0" + _sha256(content).digest()


class Log:
    """A log that keeps the roots of complete subtrees, and of the last few leaves all but salts.

    Without its secret nobody can test guesses of a leaf's content by its hash.

    Args:
        secret: 32 bytes.
        proving: whether leaf hashes are kept, for proofs: about 70 bytes for each.

    Attributes:
        hashes: the leaf hashes that are kept; ``root`` brings them up to date.
    """

    __slots__ = ("_before", "_proving", "_secret", "_tree", "_waiting", "hashes")

    def __init__(self, secret: bytes, *, proving: bool = False) -> None:
        self._secret = secret
        self._tree = Tree()
        self._waiting: list[bytes] = []
        self._proving = proving
        # The tree of the leaves before those whose hashes are kept.
        self._before = Tree()
        self.hashes: list[bytes] = []

    @property
    def size(self) -> int:
        """The number of leaves."""
        return self._tree.count + len(self._waiting)

    def add(self, content: bytes) -> None:
        """Add the header or an entry, encoded."""
        waiting = self._waiting
        waiting.append(content if len(content) <= LARGEST_LEAF else _in_leaf(content))
        if len(waiting) >= _BATCH:
            self._hash()

    def root(self) -> bytes:
        """The root over all leaves so far, 32 bytes."""
        self._hash()
        return self._tree.root()

    def shown(self, indices: Sequence[int]) -> list[tuple[bytes, tuple[bytes, ...]]]:
        """The salt and the inclusion path of each of these leaves, in the log as it is now.

        Raises:
            IndexError: the hash of such a leaf is not kept.
        """
        self._hash()
        paths = self._before.later_paths(self.hashes, indices)
        salted = salts_of(self._secret, indices)
        starts = range(0, len(salted), SALT_BYTES)
        return [(salted[i : i + SALT_BYTES], path) for i, path in zip(starts, paths, strict=True)]

    def forget(self) -> None:
        """Keep the leaf hashes so far no longer: only later leaves can be shown."""
        self._hash()
        self.hashes.clear()
        self._before = self._tree.copy()

    def _hash(self) -> None:
        waiting, first = self._waiting, self._tree.count
        salted = salts(self._secret, first, len(waiting))
        starts = range(0, len(salted), SALT_BYTES)
        hashes = [
            _sha256(b"\x00" + salted[i : i + SALT_BYTES] + content).digest()
            for i, content in zip(starts, waiting, strict=True)
        ]
        self._tree.extend(hashes)
        if self._proving:
            self.hashes += hashes
        waiting.clear()

    def __repr__(self) -> str:
        return f"Log({self.size} leaves)"
