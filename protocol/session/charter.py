"""The charter: the agreed terms and the roster, known to every member before the first message."""

from __future__ import annotations

import functools
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import force_setattr

from protocol.accounting.accountants import PureAccountant
from protocol.estimators.analysis import Analysis
from protocol.messages import NONCE_BYTES
from protocol.session.roster import Roster
from protocol.session.terms import (
    NEIGHBOURS,
    Enrolled,
    Terms,
    attempt_at,
    check_attempt,
    is_attempt,
    session_id,
)
from protocol.session.variant import Variant, plain_parameters
from protocol.surveys.limits import check_respondents
from protocol.wire.codec import Codec


class Charter(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Charter: the variant with its survey, the announced analysis, the roster, and the attempt.

    The session's id binds all of it.

    Args:
        variant: the protocol.
        roster: the members, or the part that a party knows (``Roster.known_to``).
        nonce: 16 bytes that distinguish the survey from others of the same terms.
        analysis: the announced analysis; None if none was announced.
        attempt: the number of times that the aggregator has begun the survey, with this one.
        code: the SHA-256 of the file that the variant is in, or None; by default the variant's.
        enrolled: how the parties got their keys, in roster order; None if unknown.

    Raises:
        ValueError: too many respondents, a nonce of another length, an analysis that does not fit
            the survey, an attempt out of range, or a roster with other services than the variant's.
    """

    variant: Variant
    roster: Roster
    nonce: bytes = bytes(NONCE_BYTES)
    analysis: Analysis | None = None
    attempt: int = 1
    code: bytes | UnsetType | None = UNSET
    enrolled: Enrolled | None = None

    def __post_init__(self) -> None:
        if len(self.nonce) != NONCE_BYTES:
            raise ValueError(f"nonce of {len(self.nonce)} bytes: expected {NONCE_BYTES}")
        if self.code is UNSET:
            force_setattr(self, "code", self.variant.code)
        check_attempt(self.attempt)
        if self.roster.roles != self.variant.roles:
            raise ValueError(
                f"a roster with roles {self.roster.roles}: expected the variant's, "
                f"{self.variant.roles}"
            )
        check_respondents(self.parties, self.variant.max_records)
        if self.analysis is not None:
            self.analysis.check(self.variant.survey)

    @property
    def announced(self) -> dict[str, Any] | None:
        """The announced analysis as plain values, which travel; None if nothing was announced."""
        if self.analysis is None:
            return None
        plain: dict[str, Any] = msgspec.to_builtins(self.analysis)
        return plain

    @functools.cached_property
    def terms(self) -> bytes:
        """The hash of all that was agreed but the roster, 32 bytes."""
        return self.agreed.digest()

    @property
    def agreed(self) -> Terms:
        """All that was agreed but the roster, as plain values."""
        return Terms(
            variant=self.variant.name,
            code=None if self.code is UNSET else self.code,
            parameters=plain_parameters(self.variant),
            survey=msgspec.to_builtins(self.variant.survey),
            analysis=self.announced,
            neighbours=NEIGHBOURS,
            nonce=self.nonce,
            roles=self.variant.roles or None,
            enrolled=self.enrolled,
            kinds=self.codec.schemas,
        )

    @functools.cached_property
    def survey_id(self) -> bytes:
        """The survey's id, 32 bytes: that of the session which is its first attempt."""
        return session_id(terms=self.terms, roster=self.roster.root, members=len(self.roster))

    @functools.cached_property
    def session(self) -> bytes:
        """The session's id, 32 bytes: it is that of no other survey and no other attempt."""
        return attempt_at(self.survey_id, self.attempt)

    @property
    def parties(self) -> int:
        """Number of members that hold records."""
        return len(self.roster) - 1 - len(self.roster.roles)

    def places_enrolled(self, way: str) -> tuple[int, ...]:
        """The places on the roster, from 1, of the parties that came by their keys in this way."""
        places, first = list[int](), 1
        for how, number in self.enrolled or ():
            if how == way:
                places += range(first, first + number)
            first += number
        return tuple(places)

    def again(self, attempt: int) -> Charter:
        """The charter of another attempt at this survey.

        Raises:
            ValueError: the attempt is not from 1 to ``MOST_ATTEMPTS``.
        """
        return msgspec.structs.replace(self, attempt=attempt)

    def find_attempt(self, session: bytes) -> int | None:
        """Number of the attempt at this survey that has this session's id; None if none has."""
        attempt = session[-1] if session else 0
        if is_attempt(attempt) and attempt_at(self.survey_id, attempt) == session:
            return attempt
        return None

    @functools.cached_property
    def codec(self) -> Codec:
        """The codec of this survey's messages."""
        return Codec(self.variant.kinds(self.parties), members=len(self.roster))

    @functools.cached_property
    def accountant(self) -> PureAccountant:
        """The accountant that parties judge their own messages by."""
        return PureAccountant()
