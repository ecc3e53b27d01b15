"""Draws of the counts of reports that are asked block by block, for many trials at once.

Randomized Response Block Aggregation (RRBA), section 4.1. The generator is numpy's, which protects
nobody: it draws an experiment on known answers, never a report of a person. The estimate is that
of ``protocol``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from protocol.randomizers.exact import Floats
from protocol.variants.rrba.blocks import Cells, Running, Update
from protocol.wire.arrays import smallest_dtype
from scenarios.papers.laws import report_block

Counts: TypeAlias = NDArray[np.int64]


class AskedBlock(NamedTuple):
    """One block of every trial.

    Args:
        counts: (..., K) how often each cell was reported.
        tables: (..., K) what fakes were drawn from.
        raw: (..., K) the block's own estimate, signed (equation 4, corrected).
    """

    counts: Counts
    tables: Floats
    raw: Floats


class Trials:
    """Independent trials of the protocol on one table of K cells, all at the same block.

    Everybody who is asked answers about the table, as a single group of ``protocol.variants.RRBA``
    is asked. The tables that fakes come from are floats; those of the protocol are these rounded to
    multiples of 2**-53, which no experiment can tell.

    Args:
        shape: of the trials; every leading index is a survey of its own.
        cells: K, at least 2.
        keep: the keep probability, one or one for every trial, above 0 and at most 1.
        mix: the share of the uniform distribution in what fakes are drawn from, 0 to 1.
        generator: decides all reports.
        update: what the tables of fakes are made of.

    Attributes:
        running: what the aggregator of each trial knows: one group of cells per trial.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        cells: int,
        *,
        keep: ArrayLike,
        mix: float,
        generator: np.random.Generator,
        update: Update = "pooled",
    ) -> None:
        keeps = np.broadcast_to(np.asarray(keep, np.float64), shape)
        self._shape = (*shape, cells)
        self._keeps = keeps[..., np.newaxis]
        self._mix = mix
        self._generator = generator
        self.running = Running(Cells.of((cells,) * math.prod(shape)), keeps.reshape(-1), update)
        self._fakes = np.zeros(self._shape)

    def ask(self, true_counts: ArrayLike) -> AskedBlock:
        """Ask the next block.

        The counts have exactly the law of per-record reports. Of the respondents in cell v,
        Binomial(n_v, p) keep their answer. All others report a draw from the table, so their counts
        are multinomial.

        Args:
            true_counts: integers, shape (..., K): of the respondents of this block.
        """
        true = np.asarray(true_counts)
        tables = self.running.tables(self._mix).reshape(self._shape)
        counts = report_block(true, self._keeps, tables, self._generator)
        self.running.add(counts.reshape(-1), tables.reshape(-1))
        n = counts.sum(axis=-1, keepdims=True)
        self._fakes += n * tables
        kept = (counts - n * (1 - self._keeps) * tables) / self._keeps
        raw = np.divide(kept, n, out=np.full(self._shape, 1 / self._shape[-1]), where=n > 0)
        return AskedBlock(counts, tables, raw)

    @property
    def counts(self) -> Counts:
        """Numbers of reports of each cell in all blocks, (..., K)."""
        return self.running.counts.reshape(self._shape)

    @property
    def fakes(self) -> Floats:
        """The mean over the reports of the tables that fakes were drawn from, (..., K)."""
        n = self.counts.sum(axis=-1, keepdims=True)
        mean = np.full(self._shape, 1 / self._shape[-1])
        np.divide(self._fakes, n, out=mean, where=n > 0)
        return mean

    def raw(self) -> Floats:
        """The raw estimate of every trial, pooled over its blocks, signed, (..., K)."""
        return self.running.raw().reshape(self._shape)


def sampled_blocks(
    law: ArrayLike, n: ArrayLike, generator: np.random.Generator, *, blocks: int, rest: int = 0
) -> Iterator[Counts]:
    """The true counts of blocks of respondents from a large population, one block after another.

    Args:
        law: (..., K) shares of the population, each last axis of total 1.
        n: the respondents of a block, one number or one for every leading index.
        generator: decides all draws.
        blocks: how many.
        rest: the respondents of a smaller last block, if there is one.
    """
    shares = np.asarray(law, np.float64)
    for size in (n,) * blocks + (rest,) * (rest > 0):
        sizes = np.broadcast_to(np.asarray(size, np.int64), shares.shape[:-1])
        yield generator.multinomial(sizes, shares).astype(np.int64, copy=False)


def dealt_blocks(
    true_counts: ArrayLike, block: int, generator: np.random.Generator, *, trials: int
) -> Counts:
    """The same respondents in a random order in every trial, cut into blocks.

    So the counts of a block are a draw without replacement. It takes time and memory for
    ``trials * n`` answers.

    Args:
        true_counts: (K,) integers, n in all.
        block: respondents per block; the last one has what is left over.
        generator: decides the orders.
        trials: how many orders.

    Returns:
        Shape (blocks, trials, K).
    """
    counts = np.asarray(true_counts)
    n, cells = int(counts.sum()), len(counts)
    codes = np.repeat(np.arange(cells, dtype=smallest_dtype(cells)), counts)
    dealt = generator.permuted(np.tile(codes, (trials, 1)), axis=1)
    number = np.arange(n) // block
    places = (number * trials + np.arange(trials)[:, np.newaxis]) * cells + dealt
    blocks = int(number[-1]) + 1
    tallied = np.bincount(places.reshape(-1), minlength=blocks * trials * cells)
    return tallied.astype(np.int64, copy=False).reshape(blocks, trials, cells)
