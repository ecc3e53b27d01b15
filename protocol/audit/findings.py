"""A finding: what an auditor has to know, in words, and the entries of the record behind it."""

from __future__ import annotations

import msgspec

from protocol.messages import PartyId


class Finding(msgspec.Struct, frozen=True):
    """One thing that an audit found.

    Args:
        text: what it is.
        entries: the entries of the transcript that show it, counted from 0; there are none where
            something is missing, or wrong with the file.
        party: whom it is about, if it is about one member.
    """

    text: str
    entries: tuple[int, ...] = ()
    party: PartyId | None = None

    def __str__(self) -> str:
        return self.text
