"""The charter: what every member knows before the first message is sent."""

from __future__ import annotations

import functools
from typing import Any

import msgspec

from protocol.codec import Codec
from protocol.limits import check_respondents
from protocol.privacy.accountants import PureAccountant
from protocol.roster import Roster
from protocol.transcript.entries import FORMAT, Header
from protocol.variant import Variant, parameters_of


class Charter(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The session's id, the variant with its parameters, and who takes part.

    Args:
        session: 16 bytes.
        variant: the protocol.
        roster: the members.

    Raises:
        ValueError: more respondents than can be counted.
    """

    session: bytes
    variant: Variant
    roster: Roster

    def __post_init__(self) -> None:
        check_respondents(len(self.roster.parties), self.variant.max_records)

    @functools.cached_property
    def codec(self) -> Codec:
        """The codec of this survey's messages."""
        return Codec(self.variant.kinds(len(self.roster.parties)), members=len(self.roster))

    @functools.cached_property
    def accountant(self) -> PureAccountant:
        """The accountant that parties judge their own messages by."""
        return PureAccountant()

    def header(
        self, *, seed: int | None = None, transport: str | None = None, program: str = ""
    ) -> Header:
        """The header of a transcript of this survey."""
        survey: dict[str, Any] = msgspec.to_builtins(self.variant.survey)
        return Header(
            format=FORMAT,
            variant=self.variant.name,
            parameters=parameters_of(self.variant),
            survey=survey,
            session=self.session,
            roster=self.roster.members,
            kinds=self.codec.names,
            max_body=self.codec.max_body,
            recording="full",
            seed=seed,
            transport=transport,
            program=program,
        )
