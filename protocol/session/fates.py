"""Fates of an envelope on its way: the vocabulary of fault injection."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import msgspec

from protocol.messages import Envelope


class Verdict(Enum):
    """Fate of an envelope."""

    PASS = "pass"
    DROP = "drop"
    DUPLICATE = "duplicate"
    CUT = "cut"
    CRASH = "crash"


class Fate(msgspec.Struct, frozen=True):
    """A verdict, and a delay in seconds if it passes.

    ``DROP`` loses the envelope; ``DUPLICATE`` delivers it twice; ``CUT`` loses it and the sender's
    link with it; ``CRASH`` ends the sender before it has sent it.
    """

    verdict: Verdict = Verdict.PASS
    delay: float = 0.0


PASS = Fate()

FateRule = Callable[[Envelope], Fate]
