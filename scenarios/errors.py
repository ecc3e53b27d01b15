"""Errors in users' input, and lines for standard error that are safe for a terminal."""

from __future__ import annotations

import re
import shlex
import sys
from contextlib import suppress

from scenarios.streams import escape

CANNOT_FINISH = 3
"""The exit code without a verdict: a file cannot be unpacked, or takes more than it is given."""

UNCHECKED = 4
"""The exit code for an intact record whose result can be neither confirmed nor refuted."""

COMPLAINT = "sottovoce: "
"""Start of the line of an error."""

STOPPED = 75
"""The exit code after a signal that asked to stop, as of ``sysexits.h``: try again later."""


LATE = 75
"""The exit code of a party whose report came too late to be counted, as of ``sysexits.h``: another
attempt at the survey may count it."""


class StoppedError(Exception):
    """A signal ended the work early; the message names it, and how to resume."""


class CannotFinishError(Exception):
    """A file exceeds its limits of time or memory; the message names the option to raise them."""


class EngineError(Exception):
    """Workers cannot be started, reached or kept alive; the message gives the reason."""


class WitnessError(Exception):
    """Too few witnesses have cosigned; the message names the others, with reasons."""


def printable(text: str) -> str:
    """Text with control characters escaped: a hostile file must not drive the terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escape(c) for c in text)


def _escape(character: str) -> str:
    if character <= "\xff":
        return character.encode("unicode_escape").decode()
    return escape(character)


def say(text: str) -> None:
    """Print a line on standard error; a closed standard error is ignored."""
    # The terminal or the reader of a pipe may be gone.
    with suppress(OSError):
        sys.stderr.write(f"{printable(text)}\n")
        sys.stderr.flush()


def install_command(extra: str) -> str:
    """The shell command that installs the packages of an extra for the Python that runs here.

    Args:
        extra: name of the extra, as in ``pyproject.toml``.
    """
    from importlib.metadata import requires

    wanted = re.compile(rf"""extra == ['"]{re.escape(extra)}['"]""")
    packages = [
        package.strip()
        for package, _, marker in (one.partition(";") for one in requires("sottovoce") or ())
        if wanted.search(marker)
    ]
    return shlex.join([sys.executable or "python3", "-m", "pip", "install", *packages])
