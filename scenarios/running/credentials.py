"""Certificates for the members of a simulation over TLS; its seed is their authority."""

from __future__ import annotations

import datetime
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from protocol.crypto.randomness import Streams
from protocol.messages import AGGREGATOR
from protocol.session.roster import Identity
from transports.certificates import Authority, private_pem

if TYPE_CHECKING:
    import ssl


class Contexts(Protocol):
    """Maker of TLS contexts: ``server_context`` or ``client_context``."""

    def __call__(self, *, authority: Path, certificate: Path, key: Path) -> ssl.SSLContext: ...


class Credentials(msgspec.Struct, frozen=True):
    """A certificate, its key and the authority's certificate, each as PEM."""

    authority: bytes
    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return "<Credentials>"

    def context(self, make: Contexts) -> ssl.SSLContext:
        """A TLS context; OpenSSL reads keys from files."""
        with tempfile.TemporaryDirectory(prefix="sottovoce-") as folder:
            authority, certificate, key = (Path(folder) / name for name in ("a", "c", "k"))
            authority.write_bytes(self.authority)
            certificate.write_bytes(self.certificate)
            key.write_bytes(self.key)
            return make(authority=authority, certificate=certificate, key=key)


def credentials_issuer(streams: Streams) -> Callable[[Identity], Credentials]:
    """Maker of a member's credentials."""
    secret = streams.stream(AGGREGATOR, "authority").bytes(32)
    now = datetime.datetime.now(datetime.UTC)
    authority = Authority(Ed25519PrivateKey.from_private_bytes(secret), now=now, days=1)

    def issue(identity: Identity) -> Credentials:
        key = private_pem(identity.private_key)
        return Credentials(authority.pem, authority.issue(identity.name, identity.public), key)

    return issue
