"""The charter: what every member knows before the first message is sent."""

from __future__ import annotations

import functools

import msgspec

from protocol.accounting.accountants import PureAccountant
from protocol.session.roster import Roster
from protocol.session.variant import Variant
from protocol.surveys.limits import check_respondents
from protocol.wire.codec import Codec


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
