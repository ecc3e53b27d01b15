"""Letters between organiser and parties until the roster is sealed, by mail or any other way.

An invitation contains a secret key that signs a request for the invited place. Two requests with
different keys, signed by one invitation, prove that it was used twice.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from parties.keeping.writing import naming, not_regular
from protocol.errors import UsageError
from protocol.messages import AGGREGATOR, PartyId, party_id
from protocol.session.roster import Identity, check_keys, is_signature
from scenarios.surveys.enrolment.agreed import Agreed, Hash, PublicKey
from scenarios.surveys.members import S, decoded

MOST_CLAIMS = 4
"""Maximum number of refused requests of one invitation that are kept and shown."""

LARGEST_LETTER = 1 << 20
"""Maximum size of an invitation or a request, in bytes."""

LARGEST_ADMISSION = 1 << 24
"""Maximum size of an admission in bytes: it may hold a whole roster."""

Secret = Annotated[bytes, Meta(min_length=32, max_length=32)]
Signature = Annotated[bytes, Meta(min_length=64, max_length=64)]

_encode = msgspec.msgpack.Encoder(order="deterministic").encode


class Request(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    tag_field="format",
    tag="sottovoce request 1",
):
    """A party asks to be put on the roster with a key.

    Args:
        party: the place that the invitation is for.
        key: the party's public key.
        agreed: the hash of what the invitation says is asked.
        invited: the signature by the invitation's key.
        signed: the signature by the party's key.
    """

    party: PartyId
    key: PublicKey
    agreed: Hash
    invited: Signature
    signed: Signature

    @property
    def statement(self) -> bytes:
        """Statement that both keys sign."""
        return b"sottovoce request 1\0" + _encode((self.agreed, self.party, self.key))

    def is_by(self, invitation: bytes) -> bool:
        """Check whether the holder of an invitation's key has asked for this."""
        return is_signature(self.invited, self.statement, key=invitation)

    def check(self, agreed: bytes, invitation: bytes) -> None:
        """Check that the request is valid.

        Args:
            agreed: the hash of what is asked.
            invitation: the public key of the invitation to this place.

        Raises:
            ValueError: it is for another survey, or not by the invitation, or its key is not the
                sender's or not fit for a roster.
        """
        if self.agreed != agreed:
            raise ValueError("it is for another survey")
        if not self.is_by(invitation):
            raise ValueError(f"it is not signed by the invitation of {self.party!r}")
        check_keys([(self.party, self.key)])
        if not is_signature(self.signed, self.statement, key=self.key):
            raise ValueError(f"it is not signed by the key that it asks for {self.party!r}")


class Invitation(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    tag_field="format",
    tag="sottovoce invitation 1",
):
    """Invitation of one party, secret to that party.

    Args:
        party: the place on the roster.
        organiser: the public key of the organiser, who will be the aggregator.
        secret: secret of the invitation's key.
        agreed: the terms of the survey.
    """

    party: PartyId
    organiser: PublicKey
    secret: Secret
    agreed: Agreed

    def __post_init__(self) -> None:
        if party_id(self.party) == AGGREGATOR:
            raise ValueError("the place of an invitation is a party's")

    def __repr__(self) -> str:
        return f"<Invitation of {self.party}>"

    @property
    def identity(self) -> Identity:
        """The invitation's key."""
        return Identity(self.party, self.secret)

    def request(self, identity: Identity) -> Request:
        """The request of the party with this key."""
        unsigned = Request(
            self.party,
            identity.public,
            self.agreed.digest(),
            bytes(64),
            bytes(64),
        )
        return msgspec.structs.replace(
            unsigned,
            invited=self.identity.sign(unsigned.statement),
            signed=identity.sign(unsigned.statement),
        )


class Refusal(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    tag_field="format",
    tag="sottovoce refusal 1",
):
    """Refusal of a used invitation, with both requests as proof.

    Args:
        first: the request that counts.
        refused: the other.
    """

    first: Request
    refused: Request


class Admission(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    tag_field="format",
    tag="sottovoce admission 1",
):
    """Admission that a party needs for its folder, signed by the organiser.

    Args:
        party: the admitted party.
        files: files of its folder, by name.
        claims: refused requests by the same invitation.
        signature: the organiser's.
    """

    party: PartyId
    files: dict[str, str]
    claims: Annotated[tuple[Request, ...], Meta(max_length=MOST_CLAIMS)]
    signature: Signature

    @property
    def statement(self) -> bytes:
        """Statement that the organiser signs."""
        content = _encode((self.party, self.files, self.claims))
        return b"sottovoce admission 1\0" + hashlib.sha256(content).digest()

    def signed(self, organiser: Identity) -> Admission:
        """The admission with the organiser's signature."""
        return msgspec.structs.replace(self, signature=organiser.sign(self.statement))


ANSWER: Any = Refusal | Admission
"""Answers to a party."""


def read_letter(path: Path, kind: type[S], most: int = LARGEST_LETTER) -> S:
    """Read an untrusted file.

    Args:
        kind: the expected kind.
        most: maximum size in bytes.

    Raises:
        UsageError: the file is too long, malformed, or of another kind.
        OSError: it cannot be read.
    """
    return decoded(read_untrusted(path, most), kind, path)


def read_untrusted(path: Path, most: int) -> bytes:
    """Content of an untrusted file.

    Args:
        most: maximum size in bytes.

    Raises:
        UsageError: the file is too long, or not a regular file.
        OSError: it cannot be read.
    """
    with naming(path):
        if path.exists() and not path.is_file():
            raise not_regular(path)
        with path.open("rb") as file:
            content = file.read(most + 1)
    if len(content) > most:
        raise UsageError(f"{path}: expected at most {most:,} bytes")
    return content


def encode_letter(letter: msgspec.Struct) -> bytes:
    """A letter as a file."""
    return msgspec.json.format(msgspec.json.encode(letter), indent=1) + b"\n"
