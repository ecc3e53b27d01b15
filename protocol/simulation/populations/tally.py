"""Sums of a tabulation while cohorts come in. Each is added once, and is a leaf of a tree."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from protocol.crypto.merkle import HASH_BYTES
from protocol.session.tabulation import Totals
from protocol.simulation.populations.cohorts import Counted


class Tally:
    """One stage's cohorts and the sum of those that are done.

    Args:
        stage: its number, from 0.
        people: the number of people asked.
        cohort: the number of people in a cohort; the last one may be smaller.

    Attributes:
        totals: the sum; empty until a cohort is added.
        added: the number of cohorts that are done.
        whole: False while a cohort is being added, and after that was interrupted.
    """

    __slots__ = ("_cohort", "_done", "_leaves", "_people", "added", "stage", "totals", "whole")

    def __init__(self, stage: int, *, people: int, cohort: int) -> None:
        self.stage = stage
        self.totals: Totals = np.zeros(0, np.int64)
        self.added = 0
        self.whole = True
        self._people = people
        self._cohort = cohort
        self._done = np.zeros(-(-people // cohort), np.bool_)
        self._leaves = bytearray(HASH_BYTES * len(self._done))

    def __len__(self) -> int:
        """The number of cohorts."""
        return len(self._done)

    @property
    def people(self) -> int:
        """Number of people in the cohorts that are done."""
        short = len(self) * self._cohort - self._people
        return self.added * self._cohort - (short if self._done[-1] else 0)

    def cohort_size(self, cohort: int) -> int:
        """Number of people in a cohort."""
        return min(self._cohort, self._people - cohort * self._cohort)

    def missing(self) -> Iterator[int]:
        """The cohorts that were not done when this began, in order."""
        yield from np.flatnonzero(~self._done).tolist()

    def add(self, cohort: int, counted: Counted) -> None:
        """Add a cohort.

        Raises:
            ValueError: there is no such cohort, it was added before, or it is of another length.
        """
        if not 0 <= cohort < len(self) or self._done[cohort]:
            raise ValueError(f"cohort {cohort}: expected one of {len(self)} that is not added yet")
        start = HASH_BYTES * cohort
        leaf = counted.leaf(stage=self.stage, cohort=cohort, k=self.cohort_size(cohort))
        self.whole = False
        if not self.added:
            self.totals = np.zeros(counted.cells, np.int64)
        counted.add_to(self.totals)
        self._leaves[start : start + HASH_BYTES] = leaf
        self._done[cohort] = True
        self.added += 1
        self.whole = True

    def leaves(self) -> Iterator[bytes]:
        """Leaves of the cohorts in the Merkle tree; zeros for those that are not done."""
        leaves = bytes(self._leaves)
        for start in range(0, len(leaves), HASH_BYTES):
            yield leaves[start : start + HASH_BYTES]

    def state(self) -> tuple[bytes, bytes, bytes]:
        """Cohorts that are done, their leaves, and the sum, for ``restore``."""
        little = self.totals.astype("<i8", copy=False)
        return np.packbits(self._done).tobytes(), bytes(self._leaves), little.tobytes()

    def restore(self, done: bytes, leaves: bytes, totals: bytes) -> None:
        """Go on from a state.

        Raises:
            ValueError: it is not a state of such a stage.
        """
        many = len(self)
        bits: NDArray[np.uint8] = np.unpackbits(np.frombuffer(done, np.uint8))
        if len(done) != -(-many // 8) or bits[many:].any() or len(leaves) != HASH_BYTES * many:
            raise ValueError("the state is of another number of cohorts")
        if len(totals) % 8 or bool(len(totals)) != bool(bits.any()):
            raise ValueError("the state's sum does not fit its cohorts")
        self._done = bits[:many].astype(np.bool_)
        self._leaves = bytearray(leaves)
        self.added = int(self._done.sum())
        self.totals = np.frombuffer(totals, "<i8").astype(np.int64)
