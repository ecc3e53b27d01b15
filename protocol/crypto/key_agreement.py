"""Agreement of the holders of two X25519 keys (RFC 7748, section 6.1)."""

from __future__ import annotations

import functools
from typing import TypeAlias

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

Agreed: TypeAlias = dict[bytes, bytes]
"""Agreements that one of two keys has asked for and the other has not yet, by both public keys."""

# Many parties of one process have the same neighbours.
_public_key = functools.lru_cache(maxsize=1 << 17)(X25519PublicKey.from_public_bytes)


class AgreementKey:
    """A secret X25519 key.

    Args:
        secret: 32 bytes.
        agreed: the shared secrets of a simulation in this process, so that each is computed once.

    Attributes:
        public: the public key, 32 bytes.
    """

    __slots__ = ("_agreed", "_key", "public")

    def __init__(self, secret: bytes, agreed: Agreed | None = None) -> None:
        self._key = X25519PrivateKey.from_private_bytes(secret)
        self._agreed = agreed
        self.public = self._key.public_key().public_bytes_raw()

    def agree(self, key: bytes) -> bytes:
        """Agree with another key, given by its public key, on 32 secret bytes.

        Raises:
            ValueError: the other key is of low order, so that everybody knows the outcome.
        """
        if self._agreed is None:
            return self._key.exchange(_public_key(key))
        own = self.public
        both = own + key if own < key else key + own
        found = self._agreed.pop(both, None)
        if found is None:
            found = self._agreed[both] = self._key.exchange(_public_key(key))
        return found

    def __repr__(self) -> str:
        return "AgreementKey(<secret>)"
