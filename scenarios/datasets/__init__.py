"""The data that scenarios run on: made here, packaged, read from a folder, or fetched."""

from __future__ import annotations


class DatasetError(Exception):
    """A data set cannot be had; the message is one line and says what to do about it."""
