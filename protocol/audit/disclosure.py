"""Disclosures of members to an auditor: keys, randomness, records. No ``repr`` shows any of it."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from protocol.crypto.key_agreement import AgreementKey
from protocol.crypto.randomness import SECRET_BYTES, Stream, Streams
from protocol.errors import SurveyError, WithheldError
from protocol.messages import AGGREGATOR, IDENTITY_STREAM, ROLE_STREAM, PartyId
from protocol.session.charter import Charter
from protocol.session.roster import Identity
from protocol.surveys.records import Records


class WithheldStream(Stream):
    """Stands for a stream that was not disclosed: drawing from it raises ``WithheldError``."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(bytes(32))

    def derive(self, purpose: str) -> Stream:
        return self

    def bytes(self, n: int) -> builtins.bytes:
        raise WithheldError("the record does not hold this role's randomness")

    def words(self, n: int) -> NDArray[np.uint64]:
        raise WithheldError("the record does not hold this role's randomness")


class WithheldIdentity(Identity):
    """Stands for an identity that was not disclosed: using it raises ``WithheldError``."""

    __slots__ = ()

    def __init__(self, name: PartyId) -> None:
        super().__init__(name, bytes(32))

    def sign(self, content: builtins.bytes) -> builtins.bytes:
        raise WithheldError("the record does not hold this role's identity key")

    @property
    def agreement(self) -> AgreementKey:
        raise WithheldError("the record does not hold this role's identity key")


@dataclass(frozen=True, slots=True, kw_only=True)
class Disclosure:
    """Disclosure of a member to the auditor.

    Args:
        member: the member.
        stream: its role's randomness, from the start.
        identity: its key.
        records: its records, if it is a party.
    """

    member: PartyId
    stream: Stream | None = None
    identity: Identity | None = None
    records: Records | None = None

    def __repr__(self) -> str:
        return f"Disclosure({self.member!r})"


def follows_from_seed(charter: Charter, seed: int, member: PartyId) -> bool:
    """Compare a member's key on the roster with that of a simulation with this seed."""
    secret = Streams.of_seed(seed).stream(member, IDENTITY_STREAM).bytes(SECRET_BYTES)
    return Identity(member, secret).public == charter.roster.key(member)


def disclosed_by_seed(
    charter: Charter, seed: int, records: Records | None = None
) -> Iterator[Disclosure]:
    """Disclosures by a simulation's seed: of all that serve, and with records of everybody.

    Args:
        records: of all respondents, in order; they are distributed as in a simulation.

    Raises:
        SurveyError: the records are of another survey, or fewer than the parties; or the keys on
            the roster do not follow from the seed.
    """
    streams = Streams.of_seed(seed)
    held: dict[PartyId, Records] = {}
    if records is not None:
        if records.survey != charter.variant.survey:
            raise SurveyError("the records are of another survey than the transcript")
        parties = charter.roster.parties
        held = dict(zip(parties, records.split(len(parties)), strict=True))
    for member in (AGGREGATOR, *charter.roster.services, *held):
        identity = Identity(member, streams.stream(member, IDENTITY_STREAM).bytes(SECRET_BYTES))
        if held and not follows_from_seed(charter, seed, member):
            raise SurveyError(f"the key of {member} does not follow from the transcript's seed")
        stream = streams.stream(member, ROLE_STREAM)
        yield Disclosure(member=member, stream=stream, identity=identity, records=held.get(member))
