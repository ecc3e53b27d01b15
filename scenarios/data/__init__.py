"""Data: sets that scenarios run on, made here, packaged, or fetched, and tables of one's own."""

from __future__ import annotations


class DatasetError(Exception):
    """A data set is not available; the message is one line and gives a remedy."""
