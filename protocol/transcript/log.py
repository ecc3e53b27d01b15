"""The log of a record: an RFC 9162 tree over its header and entries, with salted leaves."""

from __future__ import annotations

import hashlib
import hmac

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR, ECB

from protocol.crypto.merkle import Tree, WholeTree
from protocol.crypto.randomness import secret_of

LOG_SECRET_BYTES = 32
SALT_BYTES = 16

LARGEST_LEAF = 1024
"""The longest content, in bytes, that stands in a leaf itself; a longer one does by its hash."""

_SEEDED = b"sottovoce log 2"
_BATCH = 4096
_sha256 = hashlib.sha256


def seed_log_secret(seed: int) -> bytes:
    """The secret of a simulation's log, 32 bytes. It protects nobody.

    Raises:
        ValueError: the seed is negative.
    """
    return hmac.digest(secret_of(seed), _SEEDED, "sha256")


def salts(secret: bytes, first: int, count: int) -> bytes:
    """The salts of several leaves from the first on, concatenated, 16 bytes each.

    A leaf's salt is AES-256 of its place as a big-endian number of 128 bits: a part of the
    counter-mode keystream.
    """
    start = CTR(first.to_bytes(SALT_BYTES, "big"))
    return Cipher(AES256(secret), start).encryptor().update(bytes(SALT_BYTES * count))


def leaf_salt(secret: bytes, leaf: int) -> bytes:
    """The salt of one leaf, 16 bytes, as ``salts`` gives it."""
    return Cipher(AES256(secret), ECB()).encryptor().update(leaf.to_bytes(SALT_BYTES, "big"))


def log_leaf(salt: bytes, content: bytes) -> bytes:
    """A leaf of the log: a salt, and a content or, after a zero byte, the SHA-256 of a long one.

    No content begins with a zero byte, since it is a msgpack array or map.
    """
    return salt + _leaf_content(content)


def _leaf_content(content: bytes) -> bytes:
    return content if len(content) <= LARGEST_LEAF else b"\0" + _sha256(content).digest()


class Log:
    """A log that keeps the roots of complete subtrees, and of the last few leaves all but salts.

    Without its secret, guesses of a leaf's content cannot be tested by its hash.

    Args:
        secret: 32 bytes.
        proving: whether all vertices are kept, for proofs: 64 bytes for each leaf.
    """

    __slots__ = ("_secret", "_tree", "_waiting")

    def __init__(self, secret: bytes, *, proving: bool = False) -> None:
        self._secret = secret
        self._tree: Tree | WholeTree = WholeTree() if proving else Tree()
        self._waiting: list[bytes] = []

    @property
    def size(self) -> int:
        """The number of leaves."""
        return self._tree.count + len(self._waiting)

    @property
    def tree(self) -> WholeTree:
        """The tree of all leaves so far.

        Raises:
            TypeError: it is not kept.
        """
        self._hash()
        if not isinstance(self._tree, WholeTree):
            raise TypeError("a log that proves nothing keeps no tree")
        return self._tree

    def add(self, content: bytes) -> None:
        """Add the header or an entry, encoded."""
        waiting = self._waiting
        waiting.append(content if len(content) <= LARGEST_LEAF else _leaf_content(content))
        if len(waiting) >= _BATCH:
            self._hash()

    def root(self) -> bytes:
        """The root over all leaves so far, 32 bytes."""
        self._hash()
        return self._tree.root()

    def shown(self, index: int, size: int | None = None) -> tuple[bytes, tuple[bytes, ...]]:
        """The salt of a leaf, and its inclusion path in the log of the first ``size`` leaves.

        By default that is the log as it is now.

        Raises:
            IndexError: that log has no such leaf.
            TypeError: as ``tree``.
        """
        return leaf_salt(self._secret, index), self.tree.inclusion_path(index, size)

    def _hash(self) -> None:
        waiting, first = self._waiting, self._tree.count
        salted = salts(self._secret, first, len(waiting))
        starts = range(0, len(salted), SALT_BYTES)
        self._tree.extend(
            [
                _sha256(b"\x00" + salted[i : i + SALT_BYTES] + content).digest()
                for i, content in zip(starts, waiting, strict=True)
            ]
        )
        waiting.clear()

    def __repr__(self) -> str:
        return f"Log({self.size} leaves)"
