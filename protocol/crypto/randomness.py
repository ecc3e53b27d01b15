"""Keystream randomness, the only source of draws that protect a person.

A stream is the AES-256 counter-mode keystream of a key that HKDF-SHA256 (RFC 5869) derives from a
32-byte secret, one key per session, party and purpose. So a draw is reproducible to the bit on
every platform, adding a party leaves the others' draws alone, and every probability that is
compared with a word is an exact multiple of 2**-64. Where the secret comes from is the caller's
affair: from a scenario's seed in a simulation, from the operating system in a deployment.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import struct
import sys

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR
from numpy.typing import NDArray

from protocol.messages import NONCE_BYTES

WORDS = 2**64
"""The number of values of a word: the denominator of every probability."""

SECRET_BYTES = 32

_SEED = b"sottovoce seed 1\0"
_SESSION = b"sottovoce session 1"
_STREAM = b"sottovoce stream 1"
_CHILD = b"sottovoce child 1\0"
# Every key is used for one keystream, so the counter block may start at zero.
_START = CTR(bytes(16))
_LAST = np.uint64(WORDS - 1)
_SWAPPED = sys.byteorder != "little"
# How many remainders are computed at once, so that words and quotients stay in the cache.
_AT_ONCE = 2**12


def secret_of(seed: int) -> bytes:
    """The 32-byte secret of a simulation's seed. It protects nobody, as the seed gives it away.

    Raises:
        ValueError: the seed is negative.
    """
    if seed < 0:
        raise ValueError(f"seed {seed}: expected an integer of at least 0")
    return hashlib.sha256(_SEED + seed.to_bytes((seed.bit_length() + 7) // 8, "big")).digest()


def public_nonce(secret: bytes) -> bytes:
    """The public 16-byte nonce of a secret; the secret does not follow from it.

    Raises:
        ValueError: the secret has not 32 bytes.
    """
    _check_secret(secret)
    return hmac.digest(secret, _SESSION, "sha256")[:NONCE_BYTES]


def _check_secret(secret: bytes) -> None:
    if len(secret) != SECRET_BYTES:
        raise ValueError(f"expected a secret of {SECRET_BYTES} bytes, got {len(secret)}")


def expand(key: bytes, info: bytes) -> bytes:
    """HKDF-Expand with SHA-256 to one block of 32 bytes (RFC 5869, section 2.3, with L = 32)."""
    return hmac.digest(key, info + b"\x01", "sha256")


class Streams:
    """All streams of one session, from one secret: HKDF-SHA256 with the session id as salt.

    In a simulation the salt is a nonce, so the streams depend on the seed alone. The streams of two
    different (party, purpose) pairs are independent, and the same pair always gets the same words.
    """

    __slots__ = ("_key",)

    def __init__(self, secret: bytes, session: bytes) -> None:
        """Extract the session's key.

        Raises:
            ValueError: the secret has not 32 bytes, or the session id or nonce not 16 at least.
        """
        _check_secret(secret)
        if len(session) < NONCE_BYTES:
            raise ValueError(
                f"expected a session id of at least {NONCE_BYTES} bytes, got {len(session)}"
            )
        self._key = hmac.digest(session, secret, "sha256")

    @classmethod
    def of_seed(cls, seed: int) -> Streams:
        """All streams of a simulation's seed.

        Raises:
            ValueError: the seed is negative.
        """
        secret = secret_of(seed)
        return cls(secret, public_nonce(secret))

    def __repr__(self) -> str:
        return "Streams(<secret>)"

    def stream(self, party: str, purpose: str) -> Stream:
        """The stream of one party for one purpose, from its start."""
        name = party.encode()
        # The length keeps ("ab", "c") and ("a", "bc") apart.
        info = _STREAM + struct.pack(">I", len(name)) + name + purpose.encode()
        return Stream(expand(self._key, info))


class Stream:
    """Uniform words from the AES-256-CTR keystream of one key, in order: each is given out once.

    Words are read little-endian on every platform, and how the draws are cut does not matter:
    ``words(a)`` then ``words(b)`` are the two parts of ``words(a + b)``.
    """

    __slots__ = ("_key", "_keystream")

    def __init__(self, key: bytes) -> None:
        """Take a key of 32 bytes that nothing else uses.

        Raises:
            ValueError: the key has not 32 bytes.
        """
        if len(key) != SECRET_BYTES:
            raise ValueError(f"expected a key of {SECRET_BYTES} bytes, got {len(key)}")
        self._key = key
        # Made at the first draw: a stream that is only there to derive others costs no cipher.
        self._keystream: CipherContext | None = None

    def __repr__(self) -> str:
        return "Stream(<key>)"

    def derive(self, purpose: str) -> Stream:
        """An independent child stream; drawing from either never changes the other.

        The same purpose always gives the same child, however much was drawn before.
        """
        return Stream(expand(self._key, _CHILD + purpose.encode()))

    def _open(self) -> CipherContext:
        self._keystream = Cipher(AES256(self._key), _START).encryptor()
        return self._keystream

    def bytes(self, n: int) -> bytes:
        """The next ``n`` bytes of the keystream."""
        return (self._keystream or self._open()).update(bytes(n))

    def words(self, n: int) -> NDArray[np.uint64]:
        """The next ``n`` uniform 64-bit words, shape ``(n,)``."""
        drawn = np.zeros(n, np.uint64)
        if n:
            # In place: the keystream is the encryption of zeros.
            octets = drawn.data.cast("B")
            (self._keystream or self._open()).update_into(octets, octets)
            if _SWAPPED:
                drawn.byteswap(inplace=True)
        return drawn

    def bernoulli(self, threshold: int, size: int | tuple[int, ...]) -> NDArray[np.bool_]:
        """Independent bits that are true with probability exactly ``threshold / 2**64``.

        Each takes one word for any threshold.

        Raises:
            ValueError: the threshold is not in 0..2**64.
        """
        if not 0 <= threshold <= WORDS:
            raise ValueError(f"threshold {threshold}: expected 0 to 2**64")
        drawn = self.words(_cells(size)).reshape(size)
        if threshold == WORDS:
            return np.ones(drawn.shape, np.bool_)
        return drawn < np.uint64(threshold)

    def integers(
        self, high: int | NDArray[np.integer], size: int | tuple[int, ...] | None = None
    ) -> NDArray[np.uint64]:
        """Independent integers, each exactly uniform on ``0 <= value < high``.

        A word in the incomplete last run of ``high`` values is refused and drawn again.

        Args:
            high: one bound for all (1 to 2**64), or an array of bounds (at least 1).
            size: the shape of the result, to which an array of bounds is broadcast; without it the
                shape is that of ``high``.

        Raises:
            ValueError: a bound below 1 or above 2**64, or bounds that do not fit the size.
        """
        shape = _shape(size) if size is not None else np.shape(high)
        if isinstance(high, int):
            if not 1 <= high <= WORDS:
                raise ValueError(f"bound {high}: expected 1 to 2**64")
            drawn = self.words(_cells(shape))
            last = np.uint64(WORDS - 1 - WORDS % high)
            while np.count_nonzero(over := drawn > last):
                refused = np.flatnonzero(over)
                drawn[refused] = self.words(refused.size)
            return modulo(drawn, high).reshape(shape)
        if not (np.issubdtype(high.dtype, np.integer) and np.all(high >= 1)):
            raise ValueError("bounds: expected integers of at least 1")
        bounds = np.broadcast_to(high.astype(np.uint64), shape).reshape(-1)
        drawn = self.words(bounds.size)
        # 2**64 mod b in words: (2**64 - 1) mod b + 1, which is b itself when b divides 2**64.
        lasts = _LAST - (_LAST % bounds + np.uint64(1)) % bounds
        while np.count_nonzero(over := drawn > lasts):
            refused = np.flatnonzero(over)
            drawn[refused] = self.words(refused.size)
        return (drawn % bounds).reshape(shape)

    def permutation(self, n: int) -> NDArray[np.int64]:
        """A uniform permutation of ``0..n-1``: all n! orders are exactly equally likely.

        The order that sorts n words is uniform if they all differ, so words with a tie among
        them (chance about n**2 / 2**65) are all drawn again.
        """
        while True:
            drawn = self.words(n)
            order = np.argsort(drawn)
            ranked = drawn[order]
            if not np.any(ranked[1:] == ranked[:-1]):
                return order.astype(np.int64, copy=False)


def modulo(words: NDArray[np.uint64], size: int) -> NDArray[np.uint64]:
    """``words % size`` for one size of 1 to 2**64, in place: the given array is overwritten."""
    if size == WORDS:
        return words
    divisor = np.uint64(size)
    for start in range(0, len(words), _AT_ONCE):
        part = words[start : start + _AT_ONCE]
        # numpy divides by one number with multiplications, but takes remainders with divisions.
        quotients = part // divisor
        quotients *= divisor
        part -= quotients
    return words


def _shape(size: int | tuple[int, ...]) -> tuple[int, ...]:
    return (size,) if isinstance(size, int) else size


def _cells(size: int | tuple[int, ...]) -> int:
    return math.prod(_shape(size))
