"""Seals what one member tells another: who carries it learns nothing and changes nothing.

Two members agree on a secret by X25519 from their identity keys on the roster. From it HKDF (RFC
5869; extracted with SHA-256, expanded with SHA-512) derives, for what they do in a session, one key
per direction, kind and salt, and each key seals one box with ChaCha20-Poly1305 (RFC 8439). The salt
follows from all that is sealed, as in SIV (RFC 5297): no key ever seals two contents.

A box by itself is sealed with a fresh key that seals nothing else, so that it does not say whose it
is, and so that whoever knows its sender's identity key does not open it.
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
"""How much longer a sealed box is than what it holds."""

SALT_BYTES = 16
TAG_BYTES = 16

HIDDEN_BYTES = 32
"""What two members know with a box beside what is in it."""

_KEY = 32
_NONCE = bytes(12)


def edge_key(secret: bytes, *, context: bytes) -> bytes:
    """The key of two members (HKDF-Extract), 32 bytes.

    Args:
        secret: what both agree on by X25519.
        context: what the key is for, such as a session; the same on both sides.
    """
    return hmac.digest(context, secret, "sha256")


class Edge:
    """Secret that two members share, from the side of one of them. It never shows.

    Args:
        me: this member.
        peer: the other one.
        key: of both, 32 bytes (``edge_key``).
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
        """Open what the other member has sealed.

        Returns:
            What is inside, and what is hidden with it.

        Raises:
            RemoteProtocolError: it is not what the other has sealed, or was bound to another thing.
        """
        keys = self._derive(kind, self._peer, self._me, salt)
        try:
            return ChaCha20Poly1305(keys[:_KEY]).decrypt(_NONCE, box, bound), keys[_KEY:]
        except InvalidTag:
            raise RemoteProtocolError(
                f"the {kind} of {self._peer.decode()} does not open", field="box"
            ) from None

    def secret(self, purpose: str) -> bytes:
        """32 bytes that these two know and nobody else, the same at both ends.

        Args:
            purpose: what they are for; no kind of box.
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
    """Seal what one message holds for other members, one box for each.

    Args:
        stream: of the member that seals. The salt is keyed by it, however much was drawn from it,
            so the same letters get the same boxes, and other letters get another salt.
        kind: names what is inside.
        letters: whom with, the content, and what the box is bound to: it opens only where the same
            is given.

    Returns:
        The salt of all boxes, ``SALT_BYTES``; the boxes; and with each ``HIDDEN_BYTES`` that the
        other will know with it and nobody else.
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
    """Seal a box by itself, ``BOX_BYTES`` longer than its content; its key's public half is first.

    Args:
        key: fresh; it must never seal another content.
        reader: the public X25519 key of whoever is to open it.
        bound: what the box is bound to: it opens only where the same is given.

    Raises:
        ValueError: the reader's key is of low order.
    """
    once = _alone(key.agree(reader), key.public, reader)
    return key.public + ChaCha20Poly1305(once).encrypt(_NONCE, content, bound)


def open_alone(key: AgreementKey, box: bytes, *, bound: bytes) -> bytes:
    """The content of a box by itself.

    Args:
        key: the reader's.

    Raises:
        RemoteProtocolError: it was not sealed for this key, or bound to another thing.
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
