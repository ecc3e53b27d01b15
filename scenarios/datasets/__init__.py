"""The data that scenarios run on: made here, read from a path, or fetched with a checksum."""

from __future__ import annotations


class DatasetError(Exception):
    """A data set cannot be had; the message is one line and says what to do about it."""
