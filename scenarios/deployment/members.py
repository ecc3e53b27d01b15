"""Members' folders in a real survey: charter, certificate, keys and secret."""

from __future__ import annotations

import contextlib
import datetime
import os
import shutil
import ssl
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from msgspec import Meta

from protocol.crypto.randomness import SECRET_BYTES
from protocol.estimators.analysis import Analysis
from protocol.messages import AGGREGATOR, NONCE_BYTES, PartyId, party_id
from protocol.session.charter import Charter
from protocol.session.roster import Identity, Roster
from protocol.session.variant import Variant, build, parameters_of
from protocol.transcript.entries import MAX_BODY
from protocol.wire.codec import Codec
from scenarios.deployment.own_variant import Pin, own_variant
from scenarios.deployment.survey_plan import Plan
from scenarios.errors import UsageError
from scenarios.files.writing import (
    PRIVATE_FOLDER,
    make_folder,
    naming,
    not_regular,
    open_private,
    write_once,
)
from scenarios.running.loading import built_in_variant
from scenarios.running.parameters import parameters_checked
from transports.certificates import Authority, private_pem

CHARTER, AUTHORITY = "charter.json", "authority.pem"
CERTIFICATE, KEY, SECRET = "certificate.pem", "identity.key", "secret"


class _CharterFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    variant: str
    pin: Pin | None
    parameters: dict[str, Any]
    survey: dict[str, Any]
    analysis: Analysis | None
    nonce: Annotated[bytes, Meta(min_length=NONCE_BYTES, max_length=NONCE_BYTES)]
    roster: tuple[tuple[PartyId, bytes], ...]

    def charter(self, variant: Variant) -> Charter:
        """The charter of this variant.

        Raises:
            ValueError: a roster or an analysis that cannot be.
        """
        return Charter(
            variant=variant,
            roster=Roster(self.roster),
            nonce=self.nonce if self.pin is None else self.pin.bind(self.nonce),
            analysis=self.analysis,
        )


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """What is in a member's folder."""

    folder: Path
    charter: Charter
    identity: Identity


def make_keys(plan: Plan, parties: Sequence[str], out: Path | str, *, days: int) -> Charter:
    """Make every member's private folder: charter, authority, certificate and identity key.

    Whoever runs this holds all private keys until they are handed out.

    Args:
        plan: of the survey.
        parties: their names.
        out: the folder for the members' folders, new or empty; they appear all at once.
        days: how long the certificates are valid.

    Returns:
        What every folder says.

    Raises:
        UsageError: an invalid or repeated name, too few parties for the variant, messages too large
            for a transcript, or a folder that is not empty.
        OSError: a file cannot be written; none is left.
    """
    out = Path(out)
    try:
        names = [AGGREGATOR, *(party_id(name) for name in parties)]
    except ValueError as error:
        raise UsageError(str(error)) from error
    if len(set(names)) != len(names):
        raise UsageError("parties: expected distinct names, other than the aggregator's")
    variant = plan.variant
    if variant.quorum is not None and variant.quorum >= len(names):
        raise UsageError(
            f"quorum = {variant.quorum}: expected at most {len(names) - 1}, the number of parties"
        )
    with parameters_checked():
        size = Codec(variant.kinds(len(names) - 1), members=len(names)).max_body
    if size > MAX_BODY:
        raise UsageError(
            f"max_records = {variant.max_records}: a message could have {size:,} bytes; a "
            f"transcript allows {MAX_BODY:,}"
        )
    if out.exists() and any(out.iterdir()):
        raise UsageError(f"{out}: exists and is not empty; keys are never overwritten")
    identities = [Identity(name, os.urandom(SECRET_BYTES)) for name in names]
    charter = _CharterFile(
        variant.name,
        plan.pin,
        parameters_of(variant),
        msgspec.to_builtins(variant.survey),
        plan.analysis,
        os.urandom(NONCE_BYTES),
        tuple((identity.name, identity.public) for identity in identities),
    )
    now = datetime.datetime.now(datetime.UTC)
    authority = Authority(Ed25519PrivateKey.generate(), now=now, days=days)
    encoded = msgspec.json.format(msgspec.json.encode(charter), indent=1)
    make_folder(out)
    with naming(out):
        new = Path(tempfile.mkdtemp(dir=out, prefix=".new."))
        try:
            for identity in identities:
                folder = new / identity.name
                folder.mkdir(PRIVATE_FOLDER)
                _write_private(folder / CHARTER, encoded)
                _write_private(folder / AUTHORITY, authority.pem)
                _write_private(folder / CERTIFICATE, authority.issue(identity))
                _write_private(folder / KEY, private_pem(identity.private_key))
            for name in names:
                os.rename(new / name, out / name)
        finally:
            shutil.rmtree(new, ignore_errors=True)
    return charter.charter(variant)


def read_member(folder: Path | str, variant: str | None = None) -> Member:
    """Read a member's folder.

    Args:
        folder: the member's.
        variant: ``PATH.py:Class``, for a survey whose variant is not a built-in one.

    Raises:
        UsageError: a file is missing or malformed, or they do not belong together; or another
            variant than the charter pins.
    """
    folder = Path(folder)
    content = _content_of(folder / CHARTER)
    try:
        read = msgspec.json.decode(content, type=_CharterFile)
        cls = _class_of(read, variant, folder)
        charter = read.charter(build(cls, parameters=read.parameters, survey=read.survey))
        # There may be too few parties for what the variant promises.
        charter.variant.kinds(len(charter.roster.parties))
    except (msgspec.DecodeError, ValueError) as error:
        raise UsageError(f"{folder / CHARTER}: {error}") from error
    except RecursionError as error:
        raise UsageError(f"{folder / CHARTER}: nested too deeply") from error
    return Member(folder=folder, charter=charter, identity=_identity_in(folder, charter.roster))


def _class_of(read: _CharterFile, variant: str | None, folder: Path) -> type[Variant]:
    """The class of a survey's variant: never one that a charter alone names."""
    if read.pin is None:
        if variant not in (None, read.variant):
            raise UsageError(
                f"{folder / CHARTER}: its variant is {read.variant}, a built-in one; expected "
                f"no --variant {variant}"
            )
        return built_in_variant(read.variant)
    if variant is None:
        raise UsageError(
            f"{folder / CHARTER}: its variant is {read.pin.name} in a file with SHA-256 "
            f"{read.pin.digest}; expected --variant PATH.py:{read.pin.name}"
        )
    return own_variant(variant, read.pin)[0]


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
    return _secret_in(path)


def known_secret(folder: Path) -> bytes:
    """The secret of a party that has answered, 32 bytes.

    Raises:
        UsageError: its file is missing, or not a secret.
    """
    path = folder / SECRET
    if not path.exists():
        raise UsageError(f"{path}: no such file; nobody has answered from this folder")
    return _secret_in(path)


def _secret_in(path: Path) -> bytes:
    if not path.is_file():
        raise not_regular(path)
    secret = path.read_bytes()
    if len(secret) != SECRET_BYTES:
        raise UsageError(f"{path}: expected {SECRET_BYTES} bytes")
    return secret


def tls_context(folder: Path, make: Callable[..., ssl.SSLContext]) -> ssl.SSLContext:
    """The TLS context of a member.

    Args:
        folder: the member's.
        make: ``server_context`` or ``client_context``.

    Raises:
        UsageError: a file is missing, or they do not belong together.
    """
    files = {"authority": AUTHORITY, "certificate": CERTIFICATE, "key": KEY}
    for file in files.values():
        if not (folder / file).is_file():
            raise _not_a_member(folder / file)
    try:
        return make(**{what: folder / file for what, file in files.items()})
    except OSError as error:
        what = ", ".join(files.values())
        raise UsageError(f"{folder}: {what} do not belong together: {error}") from error


def _identity_in(folder: Path, roster: Roster) -> Identity:
    path = folder / KEY
    secret = key_secret(_content_of(path), path)
    anonymous = Identity(AGGREGATOR, secret)
    for name, public in roster.members:
        if public == anonymous.public:
            return Identity(name, secret)
    raise UsageError(f"{path}: its public key is not on the roster")


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


def _content_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise _not_a_member(path) from error


def _not_a_member(path: Path) -> UsageError:
    return UsageError(f"{path}: no such file, so {path.parent} is not a member's folder")


def _write_private(path: Path, content: bytes) -> None:
    descriptor = open_private(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
