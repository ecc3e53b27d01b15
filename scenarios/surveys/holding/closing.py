"""The announced closing time of a survey."""

from __future__ import annotations

import time
from collections.abc import Iterable

import trio

from protocol.messages import CLOSED_EARLY, LINK_CLOSED, OUT_OF_TIME, PartyId
from protocol.session.charter import Charter
from transports.switch import Switch

_LOOK = 1.0  # Seconds between two looks at the clock, which may be reset, and stops in sleep.


def seconds_left(charter: Charter) -> float | None:
    """Seconds until a survey closes, below 0 if it should have; None if no time was agreed."""
    closing = charter.variant.survey.closing
    return None if closing is None else closing.timestamp() - time.time()


async def closed(charter: Charter, early: trio.Event | None = None) -> str:
    """Wait until a survey closes.

    Args:
        charter: charter of a survey with a closing time.
        early: set if it is closed before.

    Returns:
        The reason for the departure of whoever has not answered then.
    """
    early = trio.Event() if early is None else early
    while (left := seconds_left(charter) or 0.0) > 0 and not early.is_set():
        with trio.move_on_after(min(left, _LOOK)):
            await early.wait()
    return CLOSED_EARLY if (seconds_left(charter) or 0.0) > 0 else OUT_OF_TIME


def count_out(switch: Switch, parties: Iterable[PartyId], reason: str) -> None:
    """Detach present parties; a party with its last message on record closes its link."""
    exchange = switch.exchange
    for name in parties:
        if name not in exchange.departed:
            switch.detach(name, LINK_CLOSED if exchange.has_ended(name) else reason)
