"""Spot checks: the record itself picks counted places, which an auditor asks by other means."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from heapq import nsmallest

import msgspec

from protocol.messages import PartyId

_CONTEXT = b"sottovoce spot 1\0"


class Spot(msgspec.Struct, frozen=True, kw_only=True):
    """Places drawn for a spot check.

    Args:
        asked: the number to be drawn.
        counted: the number of places that the record counts.
        root: of the log, by the checkpoint of the whole record, 32 bytes; None without a
            checkpoint, and then nothing is drawn.
        size: the number of leaves of that log.
        words: words that the auditor adds to the root; may be empty.
        places: the places drawn, in the order in which they were drawn.
    """

    asked: int
    counted: int
    root: bytes | None
    size: int
    words: str
    places: tuple[PartyId, ...]

    def missed(self, share: float) -> float:
        """Upper bound on the probability that no made-up place is drawn.

        Args:
            share: of the counted places that are made up, from 0 to 1.
        """
        return float((1 - share) ** len(self.places))


def draw_places(
    counted: Sequence[PartyId], root: bytes, number: int, words: str = ""
) -> tuple[PartyId, ...]:
    """Some of the counted places, the same for everybody who has the record and the words.

    The key is SHA-256 of ``sottovoce spot 1``, a zero byte, the root and the words in UTF-8. The
    places drawn are those with the least SHA-256 of the key and their id.

    Args:
        counted: the places to draw from.
        root: of the log, 32 bytes.
        number: how many are drawn; all, if there are fewer.
        words: chosen by the auditor once the root is fixed.
    """
    key = hashlib.sha256(_CONTEXT + root + words.encode()).digest()
    return tuple(
        nsmallest(number, counted, key=lambda name: hashlib.sha256(key + name.encode()).digest())
    )
