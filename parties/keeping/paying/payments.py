"""Lines of a purse's file: its people, and their payments."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from typing import Annotated, TypeAlias

import msgspec
import numpy as np
from msgspec import Meta

from parties.keeping.attempts import Honest, json_nats
from parties.keeping.paying.people import MARKS, Marks, Spellings
from parties.keeping.remembered import DIGEST_BYTES
from protocol.accounting.spending import Cost, largest
from protocol.messages import PartyId

_CHECK = b"sottovoce purse 1\0"

Digest = Annotated[bytes, Meta(min_length=32, max_length=32)]


class Release(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One answer of one party, paid for once however often it is sent.

    Args:
        survey: the survey's id.
        session: the id of the attempt at it.
        party: the party.
        drawn: a hash of the source of the answer's randomness, which differs between two answers of
            a party in one session.
    """

    survey: Digest
    session: Digest
    party: PartyId
    drawn: Digest


class Opened(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="purse"):
    """The first line: a hash of the secret that all marks are keyed with.

    A program that died before the secret was on disk has left such a line too, and another follows.
    """

    check: Digest


class Joined(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="joined"):
    """Another purse that was merged into this one: a hash of the secret of its marks."""

    check: Digest


Under = Annotated[int, Meta(ge=0)]
"""The number of a secret that marks are keyed with: 0 for the purse's own, then those joined."""


class People(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="people"):
    """People who pay together, by their marks.

    Args:
        marks: of their ids as spelled, rising, 8 bytes each.
        alike: of the canonical forms of these ids, in the same order.
        under: the secret's number.
    """

    marks: bytes
    alike: bytes
    under: Under = 0

    def __repr__(self) -> str:
        return "<People>"  # A mark is the same wherever a person pays.

    @property
    def spellings(self) -> Spellings:
        """The same as arrays; raises ValueError if they are not two marks of each."""
        return Spellings(np.frombuffer(self.marks, MARKS), np.frombuffer(self.alike, MARKS))


class Told(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="told"):
    """The answer to the question whether people whose ids read alike are one.

    Args:
        one: true if they are one in all spellings; false if each of these spellings is another
            person.
        marks: of the canonical forms if they are one; otherwise of the ids as spelled.
        under: the secret's number.
    """

    one: bool
    marks: bytes
    under: Under = 0

    def __repr__(self) -> str:
        return f"<Told: {'one' if self.one else 'apart'}>"

    @property
    def array(self) -> Marks:
        """The marks as an array."""
        return np.frombuffer(self.marks, MARKS)


class Payment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="paid"):
    """A payment of each of a group for a release, made or about to be when the party died.

    Args:
        release: the release.
        group: the number of the group among the file's, from 0; None for all who pay from this
            purse.
        epsilon: the most that it may have cost each of them; None is infinite.
        delta: the most delta that it may have cost each.
        honest: the assumptions of the cost, as for a ``Cost``.
        heard: the number of messages of the session that the party had received by then.
        digest: the digest of their digests.
    """

    release: Release
    group: Annotated[int, Meta(ge=0)] | None
    epsilon: Annotated[float, Meta(ge=0)] | None
    delta: Annotated[float, Meta(ge=0)]
    honest: Honest
    heard: Annotated[int, Meta(ge=0)]
    digest: Digest

    @property
    def cost(self) -> Cost:
        """The cost that each has paid."""
        return Cost(json_nats(self.epsilon), self.delta, self.honest)

    def follows(self, heard: bytes) -> bool:
        """Check whether a party with these received messages had received the same when it paid."""
        return self.digest == heard_digest(heard[: self.heard * DIGEST_BYTES])


class Recalled(Payment, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="recalled"):
    """Spending in a session that a party's folder knows of, and that this purse may lack.

    Its payers are unknown, so it counts for everybody. It does not count if the purse has payments
    of the same amount for that party's answers in that session, by any payers.
    """


Line: TypeAlias = Opened | Joined | People | Told | Payment | Recalled
LINE: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)


def secret_check(secret: bytes) -> bytes:
    """The hash by which a purse's file names its secret."""
    return hmac.digest(secret, _CHECK, "sha256")


def heard_digest(heard: bytes) -> bytes:
    """The digest of received messages, as in a payment."""
    return hashlib.sha256(heard).digest()


def answer_key(line: Payment) -> tuple[bytes, PartyId]:
    """The answer that is paid for: its session and its party."""
    return line.release.session, line.release.party


def come_to(lines: Iterable[Payment], cost: Cost) -> bool:
    """Return whether payments come to so much, for one answer."""
    paid = largest(line.cost for line in lines)
    return cost.epsilon <= paid.epsilon and cost.delta <= paid.delta
