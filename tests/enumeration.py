"""Small designs and everything that can be reported in them, by dense matrices."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from protocol import (
    Attribute,
    Block,
    Counts,
    KeepElseTable,
    KeepUniform,
    MatrixRandomizer,
    Survey,
    split_codes,
)

Floats = NDArray[np.float64]

ROWS = [[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.25, 0.25, 0.5]]
NONE_ALIKE = (np.arange(36, dtype=np.float64).reshape(6, 6) % 7 + 1) + 20 * np.eye(6)


def survey_of(*sizes: int) -> Survey:
    """Attributes a, b, c, ... with categories a0, a1, ..."""
    names = "abcdefghijkl"[: len(sizes)]
    return Survey(
        "test",
        tuple(
            Attribute(name=name, categories=tuple(f"{name}{code}" for code in range(size)))
            for name, size in zip(names, sizes, strict=True)
        ),
    )


def keep(size: int, p: float) -> KeepUniform:
    return KeepUniform.with_keep(size, p=p)


def matrix(rows: Sequence[Sequence[float]] | Floats) -> MatrixRandomizer:
    table = np.asarray(rows)
    return MatrixRandomizer.from_probabilities(table / table.sum(axis=1, keepdims=True))


AB = survey_of(2, 3)
BLOCKS = {
    "independent": (Block(("a",), keep(2, 0.4)), Block(("b",), keep(3, 0.7))),
    "joint": (Block(("a", "b"), keep(6, 0.3)),),
    "joint reversed": (Block(("b", "a"), keep(6, 0.3)),),
    "mixed": (Block(("b",), matrix(ROWS)), Block(("a",), keep(2, 0.4))),
    "joint matrix": (Block(("b", "a"), matrix(NONE_ALIKE)),),
}

FAKES = KeepElseTable.with_table(p=0.4, table=(0.5, 0.05, 0.25, 0.0, 0.15, 0.05), mix=0.1)
FAKED = {
    "faked": (Block(("a", "b"), FAKES),),
    "faked reversed": (Block(("b", "a"), FAKES),),
    "faked beside a keep": (
        Block(("b",), KeepElseTable.with_table(p=0.6, table=(0.7, 0.0, 0.3), mix=0.1)),
        Block(("a",), keep(2, 0.4)),
    ),
}
"""Designs with tables of fakes."""


def dense_law(survey: Survey, blocks: Sequence[Block]) -> Floats:
    """P of whole records over ``survey.cells``, by np.kron and a permutation of the cells."""
    law = np.ones((1, 1))
    order: list[int] = []
    for block in blocks:
        law = np.kron(law, block.randomizer.matrix())
        order += survey.axes(block.attributes)
    cells = np.arange(survey.cells).reshape(survey.sizes).transpose(order).reshape(-1)
    placed = np.empty_like(law)
    placed[np.ix_(cells, cells)] = law
    return placed


def summing(survey: Survey, names: Sequence[str]) -> Floats:
    """The matrix of 0 and 1 that takes whole records to the cells of a table of ``names``."""
    axes = survey.axes(names)
    shape = [survey.sizes[axis] for axis in axes]
    records = np.array(list(np.ndindex(*survey.sizes)))
    cells = np.ravel_multi_index([records[:, axis] for axis in axes], shape)
    return np.eye(math.prod(shape))[cells]


def every_outcome(
    survey: Survey, law: Floats, truth: Sequence[int]
) -> Iterator[tuple[float, Counts]]:
    """Every sequence of reports of some respondents, with its probability."""
    for reports in itertools.product(range(survey.cells), repeat=len(truth)):
        probability = math.prod(law[x, y] for x, y in zip(truth, reports, strict=True))
        codes = split_codes(np.array(reports, np.uint64), survey.sizes)
        yield probability, Counts.of(codes, survey.sizes)
