"""Sealing of messages between two members: carriers learn nothing and change nothing.

Two members agree on a secret by X25519 from their identity keys on the roster. From it HKDF (RFC
5869; extracted with SHA-256, expanded with SHA-512) derives one key per direction, kind and salt in
a session, and each key seals one box with ChaCha20-Poly1305 (RFC 8439). The salt follows from all
that is sealed, as in SIV (RFC 5297): no key ever seals two contents.

A single box is sealed with a fresh key that seals nothing else. So it does not identify its sender,
and the sender's identity key does not open it.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from protocol.crypto.key_agreement import AgreementKey
from protocol.crypto.randomness import Stream
from protocol.errors import RemoteProtocolError
from protocol.messages import PartyId

SEAL_BYTES = 16
"""The bytes of a sealed box beyond its content."""

SALT_BYTES = 16
TAG_BYTES = 16

HIDDEN_BYTES = 32
"""The bytes that two members share with a box, in addition to its content."""

_KEY = 32
_NONCE = bytes(12)


def edge_key(secret: bytes, *, context: bytes) -> bytes:
    """The key of two members (HKDF-Extract), 32 bytes.

    Args:
        secret: the secret that both agree on by X25519.
        context: the purpose of the key, such as a session; the same on both sides.
    """
    return hmac.digest(context, secret, "sha256")


class Edge:
    """Secret that two members share, on the side of one of them.

    Args:
        me: this member.
        peer: the other one.
        key: their common key, 32 bytes (``edge_key``).
    """

    __slots__ = ("_key", "_me", "_peer")

    def __init__(self, me: PartyId, peer: PartyId, key: bytes) -> None:
        self._me = me.encode()
        self._peer = peer.encode()
        self._key = key

    def __repr__(self) -> str:
        return f"Edge({self._me.decode()!r}, {self._peer.decode()!r})"

    @property
    def ends(self) -> tuple[bytes, bytes]:
        """This member and the other, as bytes."""
        return self._me, self._peer

    def _seal(self, kind: str, content: bytes, *, salt: bytes, bound: bytes) -> tuple[bytes, bytes]:
        """The box and its hidden bytes; every content needs a salt of its own."""
        keys = self._derive(kind, self._me, self._peer, salt)
        return ChaCha20Poly1305(keys[:_KEY]).encrypt(_NONCE, content, bound), keys[_KEY:]

    def open(
        self, kind: str, box: bytes, *, salt: bytes, bound: bytes = b""
    ) -> tuple[bytes, bytes]:
        """Open a box of the other member.

        Returns:
            Its content, and its hidden bytes.

        Raises:
            RemoteProtocolError: the other member did not seal it, or it is bound to another
                context.
        """
        keys = self._derive(kind, self._peer, self._me, salt)
        try:
            return ChaCha20Poly1305(keys[:_KEY]).decrypt(_NONCE, box, bound), keys[_KEY:]
        except InvalidTag:
            raise RemoteProtocolError(
                f"the {kind} of {self._peer.decode()} does not open", field="box"
            ) from None

    def secret(self, purpose: str) -> bytes:
        """Secret of these two members alone, 32 bytes, the same at both ends.

        Args:
            purpose: its purpose; not a kind of box.
        """
        one, other = sorted(self.ends)
        return self._derive(purpose, one, other, b"")[:_KEY]

    def tag(self, content: bytes) -> bytes:
        """This member's word that it holds ``content``; only the other can check it."""
        return self._derive("tag", self._me, self._peer, content)[:TAG_BYTES]

    def is_tag(self, tag: bytes, content: bytes) -> bool:
        """Check whether the other member holds the same content."""
        expected = self._derive("tag", self._peer, self._me, content)[:TAG_BYTES]
        return hmac.compare_digest(tag, expected)

    def _derive(self, purpose: str, sender: bytes, recipient: bytes, salt: bytes) -> bytes:
        # HKDF-Expand to one block of SHA-512. Ids hold no NUL, so the parts are kept apart.
        info = b"\0".join((purpose.encode(), sender, recipient, salt))
        return hmac.digest(self._key, info + b"\x01", "sha512")


def seal(
    stream: Stream, kind: str, letters: Sequence[tuple[Edge, bytes, bytes]]
) -> tuple[bytes, list[bytes], list[bytes]]:
    """Seal the parts of one message for other members, one box for each.

    Args:
        stream: the stream of the sealing member. It keys the salt, whatever was drawn before:
            the same letters get the same boxes, and other letters get another salt.
        kind: the kind of the content.
        letters: for each, the member, the content, and the context that the box is bound to, which
            opening requires.

    Returns:
        The salt of all boxes, ``SALT_BYTES``; the boxes; and for each box ``HIDDEN_BYTES`` that
        only the two members know.
    """
    parts = [kind.encode()]
    for edge, content, bound in letters:
        parts += (*edge.ends, bound, content)
    framed = b"".join([len(part).to_bytes(8, "big") + part for part in parts])
    key = stream.derive("salts of boxes").bytes(_KEY)
    salt = hmac.digest(key, framed, "sha256")[:SALT_BYTES]
    sealed = [edge._seal(kind, content, salt=salt, bound=bound) for edge, content, bound in letters]
    return salt, [box for box, _ in sealed], [hidden for _, hidden in sealed]


def seal_alone(key: AgreementKey, reader: bytes, content: bytes, *, bound: bytes) -> bytes:
    """Seal a single box, ``BOX_BYTES`` longer than its content, with the public key first.

    Args:
        key: a fresh key, which must never seal another content.
        reader: the public X25519 key of the reader.
        bound: the context that the box is bound to, which opening requires.

    Raises:
        ValueError: the reader's key is of low order.
    """
    once = _alone(key.agree(reader), key.public, reader)
    return key.public + ChaCha20Poly1305(once).encrypt(_NONCE, content, bound)


def open_alone(key: AgreementKey, box: bytes, *, bound: bytes) -> bytes:
    """The content of a single box.

    Args:
        key: the reader's key.

    Raises:
        RemoteProtocolError: it was not sealed for this key, or is bound to another context.
    """
    try:
        once = _alone(key.agree(box[:_KEY]), box[:_KEY], key.public)
        return ChaCha20Poly1305(once).decrypt(_NONCE, box[_KEY:], bound)
    except (InvalidTag, ValueError):
        raise RemoteProtocolError("it does not open", field="box") from None


def _alone(secret: bytes, public: bytes, reader: bytes) -> bytes:
    # HKDF, extracted with both keys and expanded to one block.
    both = edge_key(secret, context=b"sottovoce box\0" + public + reader)
    return hmac.digest(both, b"key\x01", "sha256")
