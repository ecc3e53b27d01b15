"""Terms of a real survey, as files have them, and the charter that follows."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from protocol.crypto.merkle import HASH_BYTES
from protocol.errors import UsageError
from protocol.estimators.analysis import Analysis
from protocol.messages import NONCE_BYTES, PartyId
from protocol.session.charter import Charter
from protocol.session.roster import KEY_BYTES, Roster, verify_excerpt
from protocol.session.variant import Variant, build, plain_parameters
from protocol.transcript.entries import MAX_BODY
from protocol.wire.codec import Codec
from scenarios.running.loading import built_in_variant
from scenarios.running.parameters import parameters_checked
from scenarios.surveys.own_variant import Pin, own_variant
from scenarios.surveys.survey_plan import Plan

MOST_PARTIES = 100_000
"""Maximum number of parties of a survey."""

Nonce = Annotated[bytes, Meta(min_length=NONCE_BYTES, max_length=NONCE_BYTES)]
Hash = Annotated[bytes, Meta(min_length=HASH_BYTES, max_length=HASH_BYTES)]
PublicKey = Annotated[bytes, Meta(min_length=KEY_BYTES, max_length=KEY_BYTES)]

Way: TypeAlias = Literal["request", "folder", "link"]
"""Way in which a party came by its key: it made it and asked, or was handed a folder or a link."""


class Agreed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Terms of a survey, agreed before enrolment.

    Args:
        variant: the name of the protocol.
        pin: pin of the variant's file; None for a built-in variant.
        parameters: the variant's parameters.
        survey: the survey.
        analysis: the announced analysis, if there is one.
        nonce: sets the survey apart from others of the same plan.
    """

    variant: str
    pin: Pin | None
    parameters: dict[str, Any]
    survey: dict[str, Any]
    analysis: Analysis | None
    nonce: Nonce

    @classmethod
    def planned(cls, plan: Plan) -> Agreed:
        """Terms of a plan, with a nonce that is drawn."""
        return cls(
            plan.variant.name,
            plan.pin,
            plain_parameters(plan.variant),
            msgspec.to_builtins(plan.variant.survey),
            plan.analysis,
            os.urandom(NONCE_BYTES),
        )

    def digest(self) -> bytes:
        """A hash of all of it, 32 bytes."""
        content = msgspec.msgpack.Encoder(order="deterministic").encode(
            [getattr(self, name) for name in Agreed.__struct_fields__]
        )
        return hashlib.sha256(b"sottovoce agreed 1\0" + content).digest()

    def build(self, own: str | None, path: Path) -> Variant:
        """The variant, never one of a class that a file alone names.

        Args:
            own: ``PATH.py:Class``; None for a built-in variant.
            path: the file that says this, for messages.

        Raises:
            UsageError: another variant than is agreed.
            SurveyError: the parameters are not those of the variant.
        """
        return build(self._class(own, path), parameters=self.parameters, survey=self.survey)

    def _class(self, own: str | None, path: Path) -> type[Variant]:
        if self.pin is None:
            if own not in (None, self.variant):
                raise UsageError(
                    f"{path}: its variant is {self.variant}, a built-in one; expected no "
                    f"--variant {own}"
                )
            return built_in_variant(self.variant)
        if own is None:
            raise UsageError(
                f"{path}: its variant is {self.pin.name} in a file with SHA-256 "
                f"{self.pin.digest}; expected --variant PATH.py:{self.pin.name}"
            )
        return own_variant(own, self.pin)[0]


class CharterFile(Agreed, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Charter in every member's folder: the terms, and the roster's root.

    Args:
        members: number of members, with the aggregator.
        roster: the roster's root.
        enrolled: origins of the parties' keys in roster order: so many of one way, then so many of
            the next.

    Raises:
        ValueError: the origins of the keys are of another number of parties.
    """

    members: Annotated[int, Meta(ge=2, le=MOST_PARTIES + 1)]
    roster: Hash
    enrolled: tuple[tuple[Way, Annotated[int, Meta(ge=1)]], ...]

    def __post_init__(self) -> None:
        parties = sum(number for _, number in self.enrolled)
        if parties != self.members - 1:
            raise ValueError(
                f"it says of {parties:,} parties how they came by their keys; expected "
                f"{self.members - 1:,}"
            )

    @classmethod
    def of(cls, agreed: Agreed, roster: Roster, *enrolled: tuple[Way, int]) -> CharterFile:
        """Charter file of an agreement and its roster.

        Args:
            agreed: the terms of the survey.
            roster: all members.
            enrolled: numbers of parties by origin of their keys, in roster order, without zeros.
        """
        fields = {name: getattr(agreed, name) for name in Agreed.__struct_fields__}
        ways = tuple((way, number) for way, number in enrolled if number)
        return cls(**fields, members=len(roster), roster=roster.root, enrolled=ways)

    def charter(self, variant: Variant, roster: Roster) -> Charter:
        """The charter of this variant and roster.

        Raises:
            ValueError: a roster or an analysis that cannot be.
        """
        return Charter(
            variant=variant,
            roster=roster,
            nonce=self.nonce,
            analysis=self.analysis,
            code=None if self.pin is None else bytes.fromhex(self.pin.digest),
            enrolled=self.enrolled,
        )

    def agreed(self) -> Agreed:
        """The terms, without the roster."""
        return Agreed(*(getattr(self, name) for name in Agreed.__struct_fields__))


class PlaceFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Place of a party on the roster.

    Args:
        party: the party's id.
        place: on the roster, from 1.
        aggregator: the aggregator's public key.
        proof: proof that both are on the roster (``Roster.membership_proof``).
    """

    party: PartyId
    place: int
    aggregator: PublicKey
    proof: Annotated[tuple[Hash, ...], Meta(max_length=64)]

    def excerpt(self, own: bytes, charter: CharterFile) -> Roster:
        """Roster as the party with this public key knows it.

        Raises:
            ValueError: they are not proved to be on it.
        """
        return verify_excerpt(
            (self.party, own),
            self.aggregator,
            place=self.place,
            size=charter.members,
            root=charter.roster,
            proof=self.proof,
        )


class RosterFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All members; for the aggregator, and for parties that need them.

    Args:
        members: id and public key of each, the aggregator first.
    """

    members: Annotated[tuple[tuple[PartyId, PublicKey], ...], Meta(max_length=MOST_PARTIES + 1)]


def check_parties(variant: Variant, parties: Sequence[PartyId]) -> None:
    """Refuse parties that a survey cannot be held with.

    Raises:
        UsageError: too few for the variant, too many, one in no stratum, messages too large for a
            transcript, or a variant with services, which have no folders yet.
    """
    if variant.roles:
        raise UsageError(
            f"variant {variant.name!r} has services ({', '.join(variant.roles)}): expected one "
            "without, for services run in simulations and tests alone"
        )
    if variant.quorum is not None and variant.quorum > len(parties):
        raise UsageError(
            f"quorum = {variant.quorum}: expected at most {len(parties)}, the number of parties"
        )
    if len(parties) > MOST_PARTIES:
        raise UsageError(f"{len(parties):,} parties: expected at most {MOST_PARTIES:,}")
    with parameters_checked():
        for party in parties if variant.strata else ():
            variant.stratum(party)
        size = Codec(variant.kinds(len(parties)), members=len(parties) + 1).max_body
    if size > MAX_BODY:
        raise UsageError(
            f"max_records = {variant.max_records}: a message could have {size:,} bytes; a "
            f"transcript allows {MAX_BODY:,}"
        )
