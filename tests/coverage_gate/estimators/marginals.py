"""Marginal release: tables of two of four binary attributes, by six methods."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from protocol.variants import BUILT_IN
from protocol.variants.marginals.variant import Counted as Released
from protocol.variants.marginals.variant import MarginalRelease
from tests.coverage_gate.cases import Drawn, Estimator
from tests.coverage_gate.estimators.surveys import first_cell, numbers, survey_of
from tests.coverage_gate.grid import Point, fraction
from tests.coverage_gate.laws import Counts, Floats, drawn, uneven

D, K = 4, 2
SURVEY = survey_of((2,) * D)
METHODS = ("inp-rr", "inp-ps", "inp-ht", "marg-rr", "marg-ps", "marg-ht")


@functools.lru_cache(maxsize=256)
def _variant(method: str, epsilon: float) -> MarginalRelease:
    cls = BUILT_IN[method]
    assert issubclass(cls, MarginalRelease)
    return cls(survey=SURVEY, epsilon=epsilon, k=K)


@functools.lru_cache(maxsize=8)
def _parts(method: str) -> tuple[NDArray[np.int64], int]:
    """Of every choice, which answer each of the 16 records has; and how many answers there are."""
    bits = np.indices((2,) * D).reshape(D, -1)
    pairs = list(itertools.combinations(range(D), K))
    if method in ("inp-rr", "inp-ps"):
        return np.arange(2**D)[np.newaxis], 2**D
    if method.startswith("marg") and not method.endswith("ht"):
        return np.array([2 * bits[i] + bits[j] for i, j in pairs]), 4
    if method == "inp-ht":
        masks = [(i,) for i in range(D)] + pairs
        # By number: the first attribute is the highest bit.
        masks.sort(key=lambda some: sum(1 << (D - 1 - i) for i in some))
    else:
        masks = [some for i, j in pairs for some in ((j,), (i,), (i, j))]
    return np.array([bits[list(some)].sum(axis=0) % 2 for some in masks]), 2


def released(
    variant: MarginalRelease, method: str, truth: Counts, rng: np.random.Generator
) -> Released:
    """What is published of the reports of some respondents."""
    answers, size = _parts(method)
    people = rng.multinomial(truth.reshape(-1), np.full(len(answers), 1 / len(answers))).T
    holders: Counts = np.stack(
        [
            np.bincount(answer, weights=some, minlength=size).astype(np.int64)
            for answer, some in zip(answers, people, strict=True)
        ]
    )
    asked = holders.sum(axis=1)
    randomizer = variant.plan.randomizer
    hit, other = float(randomizer.support.hit), float(randomizer.support.other)
    if method.endswith("rr"):
        totals = rng.binomial(holders, hit) + rng.binomial(asked[:, np.newaxis] - holders, other)
    else:
        kept = rng.binomial(holders, hit - other)
        rest = (holders - kept).sum(axis=1)
        totals = kept + rng.multinomial(rest, np.full(size, 1 / size))
    if method.endswith("ht"):
        totals = totals[:, 1:]
    return Released(asked.astype(np.uint32), totals.astype(np.uint32))


def _law(share: float) -> Floats:
    law: Floats = uneven((2,) * D, share)
    return law


def pair(method: str, point: Point, rng: np.random.Generator) -> Iterator[Drawn]:
    """A table of two attributes, and one of them by itself."""
    variant = _variant(method, point.epsilon)
    law = _law(point.share)
    table = law.sum(axis=(2, 3))
    support = variant.plan.randomizer.support
    share = float(law.reshape(-1)[0] if method.startswith("inp") else table[0, 0])
    chance = share * float(support.hit) + (1 - share) * float(support.other)
    # A report on a coefficient counts whatever its sign is.
    chance = (1.0 if method.endswith("ht") else chance) / len(_parts(method)[0])
    truth = drawn(rng, point.respondents(chance), law)
    estimate = variant.estimate(released(variant, method, truth, rng))
    yield from numbers(estimate, ("a", "b"), truth.sum(axis=(2, 3)), table, prefix="pair: ")
    yield from first_cell(estimate, "a", truth.sum(axis=(1, 2, 3)), table.sum(axis=1))


ESTIMATORS = tuple(
    Estimator(method, fraction((2,)), drawn=functools.partial(pair, method)) for method in METHODS
)
