"""A stream whose words a test chooses, and one that it does not."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from protocol import Randomizer, Stream, secret_of


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


def crossed(randomizer: Randomizer, n: int) -> NDArray[np.int64]:
    """Counts of (true code, report), n reports for each true code."""
    true = np.repeat(np.arange(randomizer.size, dtype=np.uint16), n)
    reports = randomizer.randomize(true, seeded(11))
    joint = true.astype(np.int64) * randomizer.size + reports
    return np.bincount(joint, minlength=randomizer.size**2).reshape(randomizer.size, -1)
