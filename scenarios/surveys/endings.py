"""Endings of a party's program: exit codes, payments, and next steps."""

from __future__ import annotations

import errno
import os
from typing import NamedTuple

from scenarios.errors import LATE, STOPPED

AGAIN = (
    "run the same command again; in the same attempt that repeats the answer and costs nothing more"
)
"""Advice to a party that does not know whether it is done."""


class Ending(NamedTuple):
    """An ending of ``sottovoce answer``.

    Args:
        name: in a word or two.
        code: the exit code.
        paid: words on the party's payment.
        acknowledged: words on the acknowledged part of its answer, as far as it knows.
        following: words on what to do next.
    """

    name: str
    code: int
    paid: str
    acknowledged: str
    following: str


NOTHING, SENT = "nothing", "what it has sent"
_UNKNOWN = "no, as far as this party knows"
_OVER = "the survey may be over by then"

DONE_NOW = Ending("done", 0, SENT, "yes, by the receipt", "keep the receipt")
DONE_BEFORE = Ending(
    "done earlier", 0, SENT, "yes, by the receipt of an earlier program", "keep the receipt"
)
TOO_LATE = Ending(
    "late",
    LATE,
    SENT,
    "yes, as late, by the late note",
    "run the same command again once another attempt has begun: it costs anew, and may be counted",
)
DECLINED = Ending(
    "declined",
    1,
    "nothing for what it declined",
    "at most that it has declined",
    "nothing in this attempt; in another one with other demands, if you consent to what is asked",
)
FAILED = Ending(
    "failed",
    1,
    SENT,
    _UNKNOWN,
    "ask the organiser; the same command takes part again if another attempt begins",
)
NO_BUDGET = Ending(
    "too little budget left",
    1,
    NOTHING,
    "nothing more was said",
    "stay away, or allow more with --budget or --delta",
)
NOT_ACKNOWLEDGED = Ending("not acknowledged", os.EX_TEMPFAIL, SENT, _UNKNOWN, AGAIN)
UNREACHABLE = Ending(
    "unreachable",
    os.EX_UNAVAILABLE,
    NOTHING,
    "nothing was said",
    "see to that, and run the same command again",
)
LOST = Ending("lost", os.EX_TEMPFAIL, SENT, _UNKNOWN, f"{AGAIN}; {_OVER}")
TURNED_AWAY = Ending(
    "turned away",
    os.EX_NOPERM,
    SENT,
    _UNKNOWN,
    "ask the organiser; the same command takes part again if another attempt begins",
)
NO_RECEIPT = Ending(
    "a receipt that does not hold",
    1,
    SENT,
    "no: what the aggregator has signed does not hold",
    "keep both files as evidence against the aggregator, and tell the organiser",
)
STOPPED_BY_SIGNAL = Ending("stopped", STOPPED, SENT, _UNKNOWN, f"{AGAIN}; {_OVER}")
MACHINE_FAILED = Ending(
    "this machine failed",
    os.EX_IOERR,
    "what it has sent, or was about to send",
    _UNKNOWN,
    f"make room there or repair it, then {AGAIN}",
)
BAD_INPUT = Ending("bad input", 2, NOTHING, "nothing was said", "give what the message asks for")

ENDINGS = (
    DONE_NOW,
    DONE_BEFORE,
    TOO_LATE,
    DECLINED,
    FAILED,
    NO_BUDGET,
    NO_RECEIPT,
    BAD_INPUT,
    UNREACHABLE,
    MACHINE_FAILED,
    LOST,
    NOT_ACKNOWLEDGED,
    STOPPED_BY_SIGNAL,
    TURNED_AWAY,
)
"""All of them."""

_OF_DISKS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)
_OF_SYSTEM = (errno.EMFILE, errno.ENFILE, errno.ENOLCK)


def is_local_failure(error: OSError) -> bool:
    """Return whether a disk is full or fails, or the system is out of something."""
    return error.errno in (*_OF_DISKS, *_OF_SYSTEM)
