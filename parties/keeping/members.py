"""A member as it is in memory, and the secrets in its folder."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from parties.keeping.writing import not_regular, write_once
from protocol.crypto.randomness import SECRET_BYTES
from protocol.errors import UsageError
from protocol.session.charter import Charter
from protocol.session.roster import Identity

SECRET = "secret"
"""The file of the secret that a party's randomness follows from."""


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """Content of a member's folder."""

    folder: Path
    charter: Charter
    identity: Identity


def own_secret(folder: Path, name: str = SECRET) -> bytes:
    """A member's secret, 32 bytes, drawn on the first call.

    Args:
        folder: the member's.
        name: of the file; by default, of the secret that a party's randomness follows from.

    Raises:
        UsageError: its file is not a secret.
        OSError: it cannot be written.
    """
    path = folder / name
    if not path.exists():
        # Half a secret would lock the party out.
        with contextlib.suppress(FileExistsError):
            write_once(path, os.urandom(SECRET_BYTES))
    return secret_in(path)


def known_secret(folder: Path) -> bytes:
    """The secret of a party that has answered, 32 bytes.

    Raises:
        UsageError: its file is missing, or not a secret.
    """
    path = folder / SECRET
    if not path.exists():
        raise UsageError(f"{path}: no such file; nobody has answered from this folder")
    return secret_in(path)


def secret_in(path: Path) -> bytes:
    """The secret in a file, 32 bytes.

    Raises:
        UsageError: it is missing, or not a secret.
        OSError: it cannot be read.
    """
    if not path.exists():
        raise UsageError(f"{path}: no such file")
    if not path.is_file():
        raise not_regular(path)
    secret = path.read_bytes()
    if len(secret) != SECRET_BYTES:
        raise UsageError(f"{path}: expected {SECRET_BYTES} bytes")
    return secret


def key_secret(content: bytes, path: Path) -> bytes:
    """The secret of a private Ed25519 key in PEM, 32 bytes.

    Raises:
        UsageError: it is not such a key; the message names the file.
    """
    try:
        key = load_pem_private_key(content, None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise UsageError(f"{path}: expected a private key in PEM without a password") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise UsageError(f"{path}: expected an Ed25519 key")
    return key.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())
