"""The time at which a survey closes, as everybody was told beforehand."""

from __future__ import annotations

import time

import trio

from protocol.session.charter import Charter

NEVER_CAME = "never came"
CLOSED_EARLY = "the survey was closed before its time"
"""Why somebody is gone who has not answered when a survey closes."""

_LOOK = 1.0  # Seconds between two looks at the clock, which may be set, and stops in sleep.


def seconds_left(charter: Charter) -> float | None:
    """How many seconds are left until a survey closes, below 0 if it should have.

    None if no time was agreed.
    """
    closing = charter.variant.survey.closing
    return None if closing is None else closing.timestamp() - time.time()


async def closed(charter: Charter, early: trio.Event | None = None) -> str:
    """Wait until a survey closes.

    Args:
        charter: of a survey with a closing time.
        early: set if it is closed before.

    Returns:
        Why whoever has not answered is gone then.
    """
    early = trio.Event() if early is None else early
    while (left := seconds_left(charter) or 0.0) > 0 and not early.is_set():
        with trio.move_on_after(min(left, _LOOK)):
            await early.wait()
    return CLOSED_EARLY if (seconds_left(charter) or 0.0) > 0 else NEVER_CAME
