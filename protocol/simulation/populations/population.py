"""Populations that respondents are drawn from."""

from __future__ import annotations

import functools
import hashlib
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from protocol.crypto.randomness import WORDS, Stream
from protocol.errors import SurveyError
from protocol.randomizers import split_codes
from protocol.surveys.records import Records
from protocol.surveys.survey import Survey
from protocol.wire.arrays import MAX_TABLE_CELLS

_PROBED = 2**16
_GUIDE_BITS = 16


class Population(ABC):
    """Population from which people are drawn independently.

    Draws from equal streams are equal. Workers get a copy, so it can be pickled.

    Attributes:
        survey: the survey of its people's records.
        says: a few words that complete "people drawn from".
    """

    survey: Survey
    says: str

    @abstractmethod
    def draw(self, k: int, stream: Stream) -> Records:
        """The records of k people.

        Args:
            k: the number of people, at least 1.
            stream: for these records alone.
        """

    @property
    def records(self) -> Records | None:
        """Records of the people, if these are known one by one."""
        return None

    @functools.cached_property
    def digest(self) -> bytes:
        """Digest of the population, 32 bytes: by default of some of its people."""
        drawn = self.draw(_PROBED, Stream(hashlib.sha256(b"sottovoce population 1\0").digest()))
        return _digest(self.survey, self.says, drawn.codes)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.says}>"


class Resampled(Population):
    """Records, drawn with replacement.

    Args:
        records: of everybody.
        says: a few words for them.
    """

    def __init__(self, records: Records, says: str | None = None) -> None:
        self.survey = records.survey
        self._records = records
        self.says = says or f"{len(records):,} records of {self.survey.title!r}, with replacement"

    @property
    def records(self) -> Records:
        return self._records

    def draw(self, k: int, stream: Stream) -> Records:
        rows = stream.integers(len(self._records), k)
        return self._records.pick(rows.view(np.int64))

    @functools.cached_property
    def digest(self) -> bytes:
        return _digest(self.survey, self.says, self._records.codes)


class Law(Population):
    """A law that is given by a function that draws from it.

    Args:
        survey: the survey of its people's records.
        says: a few words for it, such as "the distribution of the town".
        drawn: draws the records of some people from a stream; a function at the top of a module, or
            a ``functools.partial`` of one, so that workers find it.
    """

    def __init__(self, survey: Survey, says: str, drawn: Callable[[int, Stream], Records]) -> None:
        self.survey = survey
        self.says = says
        self._drawn = drawn

    def draw(self, k: int, stream: Stream) -> Records:
        return self._drawn(k, stream)


class TableLaw(Population):
    """A joint distribution of all attributes, given cell by cell.

    Probabilities are rounded to multiples of 2**-64.

    Args:
        survey: the survey of its people's records.
        table: shape ``survey.sizes`` or flat, not negative, with a sum of 1.
        says: a few words for it.

    Raises:
        SurveyError: another shape, more than 2**27 cells, or not a probability distribution.
    """

    def __init__(
        self, survey: Survey, table: ArrayLike, says: str = "a joint distribution"
    ) -> None:
        law = np.asarray(table, np.float64).reshape(-1)
        if law.size != survey.cells or law.size > MAX_TABLE_CELLS:
            raise SurveyError(
                f"a table of {law.size} cells: expected {survey.cells}, at most {MAX_TABLE_CELLS}"
            )
        if not (np.isfinite(law).all() and (law >= 0).all() and abs(law.sum() - 1) < 1e-9):
            raise SurveyError("the table is not a probability distribution")
        self.survey = survey
        self.says = says
        # The cell of a word is the number of bounds that it reaches.
        reached = np.minimum(np.cumsum(law)[:-1] / law.sum(), 1.0)
        self._bounds = np.array(
            [min(int(Fraction(upto) * WORDS), WORDS - 1) for upto in reached.tolist()], np.uint64
        )

    @functools.cached_property
    def digest(self) -> bytes:
        return _digest(self.survey, self.says, self._bounds)

    def draw(self, k: int, stream: Stream) -> Records:
        words = stream.words(k)
        first, ambiguous = self._guide
        top = (words >> np.uint64(64 - _GUIDE_BITS)).view(np.int64)
        cells = first[top]
        unsure = np.flatnonzero(ambiguous[top])
        cells[unsure] = np.searchsorted(self._bounds, words[unsure], side="right")
        if len(self.survey.sizes) == 1:
            return Records(self.survey, cells.astype(self.survey.dtype)[:, np.newaxis])
        codes = split_codes(cells, self.survey.sizes, self.survey.dtype)
        return Records(self.survey, codes)

    @functools.cached_property
    def _guide(self) -> tuple[NDArray[np.unsignedinteger], NDArray[np.bool_]]:
        """Cell of the lowest word with each first 16 bits, and whether the highest has another."""
        starts = np.arange(1 << _GUIDE_BITS, dtype=np.uint64) << np.uint64(64 - _GUIDE_BITS)
        ends = starts + np.uint64((1 << (64 - _GUIDE_BITS)) - 1)
        low, high = (np.searchsorted(self._bounds, ends_, side="right") for ends_ in (starts, ends))
        kind = np.uint16 if self.survey.cells <= 1 << 16 else np.uint32
        return low.astype(kind), low != high

    def __getstate__(self) -> dict[str, Any]:
        # The guide is large, and quickly made again.
        return {name: value for name, value in self.__dict__.items() if name != "_guide"}


def _digest(survey: Survey, says: str, codes: NDArray[np.unsignedinteger]) -> bytes:
    head = struct.pack(">Q", codes.itemsize) + survey.digest + says.encode() + b"\0"
    content = codes.astype(codes.dtype.newbyteorder("<"), copy=False)
    return hashlib.sha256(head + content.tobytes()).digest()
