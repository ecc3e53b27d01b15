"""Caps on reading a file from anybody, checked before anything is computed from it.

Two kinds of cost do not follow from the length of a file. A header of a few bytes can ask for
tables of every pair of a thousand attributes. So the workload of a survey is computed from its
sizes, and refused, before anything is laid out. And compressed data can be a thousand times as
long. So what a reader holds is counted, and may grow only with the file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from protocol.errors import ProtocolError

MAX_ATTRIBUTES = 2**14
"""The most attributes of a survey."""

MAX_TABLES = 2**17
"""The most tables in which a variant counts its respondents."""

MAX_STEPS = 2**24
"""The most tables times attributes."""

MAX_CELLS = 2**23
"""The most cells of all tables of a variant together."""

MAX_RECORDS = 2**20
"""The most respondents that one party may speak for."""

MAX_RESPONDENTS = 2**27
"""The most respondents that all parties together may speak for."""

FREE_BYTES = 2**26
"""The bytes of messages that a reader may hold of any file, however short it is."""

BYTES_PER_STORED = 4
"""The further bytes of messages that a reader may hold for every byte of the file."""

OVERHEAD = 512
"""The bytes that a held message takes beside its content."""

FREE_ENTRIES = 2**16
"""The number of entries that any packed file may have, however short it is."""

STORED_PER_ENTRY = 2
"""The bytes of a packed file that allow one further entry. Identical entries take almost no space,
but whoever reads them has to count them."""

FREE_VALUES = 2**20 + 2**17
"""The number of values, nested ones included, that any header may have."""

STORED_PER_VALUE = 8
"""The bytes of the file that allow one further value; a member of a roster is three of them."""


class Workload(NamedTuple):
    """Size of the tables in which a variant counts the answers to its survey.

    Args:
        tables: the number of tables.
        cells: the number of their cells, all tables together.
    """

    tables: int = 0
    cells: int = 0


NOTHING = Workload()


def workload_of_groups(sizes: Sequence[int], k: int) -> Workload:
    """One table for every k of the attributes, computed without listing them.

    Args:
        sizes: the number of categories of each attribute.
    """
    # The elementary symmetric polynomials: ``cells[j]`` is of all tables of j attributes so far.
    tables, cells = [1] + [0] * k, [1] + [0] * k
    for size in sizes:
        for j in range(k, 0, -1):
            tables[j] += tables[j - 1]
            cells[j] += cells[j - 1] * size
    return Workload(tables[k], cells[k])


def check_workload(attributes: int, workload: Workload) -> None:
    """Refuse a survey that would take too much time or memory.

    Raises:
        ValueError: a size is above its cap; the message names both.
    """
    _check("attributes", attributes, MAX_ATTRIBUTES)
    _check("tables", workload.tables, MAX_TABLES)
    _check("cells of tables", workload.cells, MAX_CELLS)
    _check(f"steps of {workload.tables:,} tables", workload.tables * attributes, MAX_STEPS)


def check_respondents(parties: int, max_records: int) -> None:
    """Refuse a survey of more respondents than can be counted.

    Raises:
        ValueError: a number is above its cap; the message names both.
    """
    _check("respondents of one party", max_records, MAX_RECORDS)
    _check("respondents", parties * max_records, MAX_RESPONDENTS)


def _check(what: str, there: int, most: int) -> None:
    if there > most:
        raise ValueError(f"the survey is too large: {there:,} {what}, at most {most:,}")


class TooMuchError(ProtocolError):
    """A file makes its reader hold more than a file of its length may."""


class Held:
    """Counts what a reader holds of a file's messages.

    Args:
        stored: returns the number of bytes of the file read so far.
        free: the number of bytes that may be held of any file.
    """

    __slots__ = ("_bytes", "_free", "_stored")

    def __init__(self, stored: Callable[[], int], free: int = FREE_BYTES) -> None:
        self._stored = stored
        self._free = free
        self._bytes = 0

    def take(self, size: int, *, overhead: int = OVERHEAD) -> None:
        """Count more bytes as held.

        Args:
            size: their number.
            overhead: further bytes of memory.

        Raises:
            TooMuchError: the total is above the cap.
        """
        self._bytes += size + overhead
        if self._bytes > self._free:
            most = self._free + BYTES_PER_STORED * self._stored()
            if self._bytes > most:
                raise TooMuchError(
                    f"the messages to keep take {self._bytes:,} bytes, at most {most:,} for a file "
                    "of this length"
                )

    def drop(self, size: int, *, overhead: int = OVERHEAD) -> None:
        """Release held bytes."""
        self._bytes -= size + overhead


UNLIMITED = Held(lambda: 0, free=2**63)
"""Limits of values made here, not read from somebody's file."""
