"""Acts on a survey by hand: a line in the aggregator's folder, before each takes effect."""

from __future__ import annotations

import datetime
import os
from pathlib import Path

import msgspec

from parties.keeping.attempts import attempts_in
from parties.keeping.lines import lines_in, open_lines

BY_HAND = "by-hand"
"""The file's name. It only ever grows."""

_LOST = "what was done by hand"


class Act(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that a person, or a program in a person's name, has a survey do.

    Args:
        time: in UTC, as ISO 8601 has it.
        done: ``begin``, ``resume``, ``close``, ``close --early``, ``abandon``, ``abandon --lost``,
            or ``force``: an earlier record was moved aside.
        attempt: the attempt that it is done to, if to one.
        wait: the interrupted wait, if known: ``joining``, ``collecting`` or ``asking``.
        user: name of the user, or number if there is no name.
        pid: the program's process id.
    """

    time: str
    done: str
    attempt: int | None
    wait: str
    user: str
    pid: int


_ACT = msgspec.json.Decoder(Act)


def note(folder: Path, done: str, *, attempt: int | None = None, wait: str = "") -> None:
    """Record a manual intervention before it happens; on disk when the call returns.

    Args:
        folder: the aggregator's.
        done, attempt, wait: as in ``Act``.

    Raises:
        UsageError: the file is malformed.
        OSError: it cannot be written; names it.
    """
    act = Act(
        time=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        done=done,
        attempt=attempt,
        wait=wait,
        user=_user(),
        pid=os.getpid(),
    )
    with open_lines(folder / BY_HAND, _ACT, None, lost=_LOST) as lines:
        lines.add(act)


def note_to_last(folder: Path, done: str, *, wait: str = "") -> None:
    """Record an intervention in the last attempt; see ``note``."""
    attempts = attempts_in(folder)
    note(folder, done, attempt=attempts[-1].attempt if attempts else None, wait=wait)


def acts_in(folder: Path) -> list[Act]:
    """All that was done by hand, in order.

    Raises:
        UsageError: the file is malformed.
        OSError: it cannot be read; names it.
    """
    return lines_in(folder / BY_HAND, _ACT, lost=_LOST)


def _user() -> str:
    import pwd  # Imported here: Windows lacks it, and must still get an error message.

    number = os.getuid()
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)
