"""Findings of an audit, in words, with the entries behind them."""

from __future__ import annotations

import msgspec

from protocol.messages import PartyId


class Finding(msgspec.Struct, frozen=True):
    """One finding of an audit.

    Args:
        text: the finding.
        entries: the entries of the transcript that show it, counted from 0; empty if something is
            missing, or wrong with the file.
        party: the member that it is about, if it is about one.
    """

    text: str
    entries: tuple[int, ...] = ()
    party: PartyId | None = None

    def __str__(self) -> str:
        return self.text
