"""A stream whose words a test chooses, and one that it does not."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from protocol import Stream, secret_of


class Scripted(Stream):
    """A stream that yields the given words and then fails."""

    def __init__(self, *words: int) -> None:
        super().__init__(bytes(32))
        self._script = list(words)

    def words(self, n: int) -> NDArray[np.uint64]:
        drawn, self._script = self._script[:n], self._script[n:]
        assert len(drawn) == n, "more words drawn than scripted"
        return np.array(drawn, np.uint64)

    @property
    def left(self) -> int:
        """How many words were not drawn."""
        return len(self._script)


def seeded(seed: int = 1) -> Stream:
    """The stream of a seed."""
    return Stream(secret_of(seed))
