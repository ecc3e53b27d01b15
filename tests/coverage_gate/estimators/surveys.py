"""Surveys and queries that the estimators are measured on."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from protocol import Attribute, Estimate, Survey
from tests.coverage_gate.cases import ABOUT, Counted, Drawn, Said
from tests.coverage_gate.laws import Counts, Floats, binomial, counted

NAMES = ("a", "b", "c", "d")


@functools.cache
def survey_of(sizes: tuple[int, ...]) -> Survey:
    """Attributes of these sizes."""
    return Survey(
        "coverage",
        tuple(
            Attribute(name=name, categories=tuple(map(str, range(size))))
            for name, size in zip(NAMES, sizes, strict=False)
        ),
    )


def subset_of(shape: tuple[int, ...]) -> Floats:
    """The weights of a set of cells: every other one, the first among them."""
    return (np.indices(shape).sum(axis=0) % 2 == 0).astype(np.float64)


def scores_of(shape: tuple[int, ...]) -> Floats:
    """Weights of many values: the sum of the codes, from 0 to 1."""
    codes = np.indices(shape).sum(axis=0)
    scores: Floats = codes / codes.max()
    return scores


def numbers(
    estimate: Estimate,
    names: tuple[str, ...],
    respondents: Counts,
    population: Floats,
    *,
    prefix: str = "",
) -> Iterator[Drawn]:
    """The first cell of a table and two queries, with the truth about them.

    Args:
        estimate: of which they are asked.
        names: the attributes of the table.
        respondents: true counts of these attributes.
        population: the law that they were drawn from.
        prefix: of the targets.
    """
    shares = respondents / respondents.sum()
    first = (0,) * len(names)
    yield Drawn(
        Said(f"{prefix}cell", estimate.table(*names), first),
        float(shares[first]),
        float(population[first]),
    )
    for what, weights in (
        ("set", subset_of(population.shape)),
        ("scores", scores_of(population.shape)),
    ):
        yield Drawn(
            Said(f"{prefix}{what}", estimate.query(names, weights)),
            float((shares * weights).sum()),
            float((population * weights).sum()),
        )


def first_cell(
    estimate: Estimate, name: str, respondents: Counts, population: Floats
) -> Iterator[Drawn]:
    """The first cell of an attribute by itself, as ``numbers``."""
    share = float(respondents[0] / respondents.sum())
    yield Drawn(Said("attribute: cell", estimate.table(name), (0,)), share, float(population[0]))


def two_valued(
    n: int,
    share: float,
    *,
    hit: float,
    other: float,
    said: Callable[[int], list[Said]],
) -> Iterator[Counted]:
    """Numbers that follow from how many of n reports count for a cell.

    Args:
        n: the number of respondents.
        share: of the population in the cell.
        hit: the chance that the report of one in the cell counts for it.
        other: that any other does.
        said: what ``said_of`` makes of a count.
    """
    targets = [one.target for one in said(round(n * other))]
    # A query of one cell says what its table says: it is enough to see that in some places.
    if abs(share - 0.1) > 1e-9:
        targets = targets[:1]
    holders = round(n * share)
    slope = 1 / (n * (hit - other))
    scale = {"cell": 1.0, "set": 1.0, "count": float(n)}
    for about in ABOUT:
        if about == "population":
            truth, law = share, binomial(n, share * hit + (1 - share) * other)
        else:
            truth, law = holders / n, counted(holders, n - holders, hit=hit, other=other)
        yield Counted(
            about=about,
            truth={target: truth * scale[target] for target in targets},
            law=law,
            said=said,
            slope={target: slope * scale[target] for target in targets},
            bounds={target: (0.0, scale[target]) for target in targets},
        )


def said_of(estimate: Estimate, name: str, *, count: bool = False) -> list[Said]:
    """What an estimate says of the first cell of an attribute, in two ways or in three."""
    weights = np.zeros(estimate.survey.sizes_of((name,)))
    weights[0] = 1.0
    said = [
        Said("cell", estimate.table(name), (0,)),
        Said("set", estimate.query((name,), weights)),
    ]
    return [*said, Said("count", estimate.count({name: ["0"]}))] if count else said


def filled(count: int, n: int, size: int) -> NDArray[np.int64]:
    """Counts of n reports with some in the first cell, and the others spread over the rest."""
    rest = np.full(size - 1, (n - count) // (size - 1))
    rest[: (n - count) % (size - 1)] += 1
    return np.concatenate([[count], rest]).astype(np.int64)
