"""What a person did wrong, in one line."""

from __future__ import annotations


class UsageError(Exception):
    """Bad input from a person: the message says what was wrong, where, and what was expected."""
