"""RRBA: groups of attributes, in blocks whose fakes follow from the blocks before."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np

from protocol.crypto.randomness import WORDS
from protocol.variants import RRBA
from protocol.variants.rrba.blocks import Release
from protocol.variants.rrba.plan import Extent
from protocol.variants.rrba.rrba import Released
from tests.coverage_gate.cases import Drawn, Estimator
from tests.coverage_gate.estimators.surveys import NAMES, first_cell, numbers, survey_of
from tests.coverage_gate.grid import Point, fraction
from tests.coverage_gate.laws import Counts, drawn, kept_else, uneven

BLOCKS = 8


@functools.lru_cache(maxsize=256)
def _variant(
    r: int, p: float, mix: float, extent: Extent, release: Release, block: int, d: int
) -> RRBA:
    survey = survey_of((r,) * d)
    return RRBA(survey=survey, p=p, mix=mix, groups=extent, release=release, block=block, k=2)


def surveyed(variant: RRBA, truth: Counts, rng: np.random.Generator) -> Released:
    """What is published of some respondents, who are asked in a random order."""
    plan = variant.plan
    n, rest = int(truth.sum()), truth.copy()
    places = {name: i for i, name in enumerate(variant.survey.names)}
    stages = variant.stages(n)
    stage = next(stages)
    while True:
        _, weights = stage.asked
        asked = rng.multivariate_hypergeometric(rest.reshape(-1), stage.people, method="marginals")
        asked = asked.reshape(truth.shape)
        rest -= asked
        counts = np.zeros(plan.layout.cells, np.int64)
        lots = rng.multinomial(asked.reshape(-1), np.full(len(plan.views), 1 / len(plan.views))).T
        for view, people in zip(plan.views, lots, strict=True):
            if variant.groups == "one":
                parts = rng.multinomial(people, np.full(len(view), 1 / len(view))).T
            else:
                parts = [people] * len(view)
            for group, part in zip(view, parts, strict=True):
                axes = [places[name] for name in plan.group_names[group]]
                others = tuple(axis for axis in range(truth.ndim) if axis not in axes)
                answers = part.reshape(truth.shape).sum(axis=others).reshape(1, -1)
                start = int(plan.cells.starts[group])
                where = slice(start, start + answers.size)
                fakes = weights[where].astype(np.float64) / WORDS
                keep = plan.thresholds[group] / WORDS
                counts[where] += kept_else(rng, answers, 1, keep, fakes / fakes.sum())[0]
        try:
            stage = stages.send(counts)
        except StopIteration as stop:
            return stop.value


def group(
    mix: float, extent: Extent, release: Release, d: int, point: Point, rng: np.random.Generator
) -> Iterator[Drawn]:
    """A group of two attributes, and one attribute, which is in several groups."""
    r, p = point.categories, point.keep
    law = uneven((r,) * d, point.share)
    table = law.sum(axis=tuple(range(2, d)))
    groups = d * (d - 1) // 2
    told = 1 / groups if extent == "one" else (d // 2) / groups
    chance = (p * float(table[0, 0]) + (1 - p) / r**2) * told
    n = max(BLOCKS, point.respondents(chance))
    variant = _variant(r, p, mix, extent, release, -(-n // BLOCKS), d)
    truth = drawn(rng, n, law)
    estimate = variant.estimate(surveyed(variant, truth, rng))
    pair = truth.sum(axis=tuple(range(2, d)))
    held = {group.names: group.n for group in estimate.source.groups}
    # Without a report there is nothing to be asked.
    if held.get(NAMES[:2]):
        yield from numbers(estimate, NAMES[:2], pair, table, prefix="group: ")
        yield from first_cell(estimate, "a", pair.sum(axis=1), table.sum(axis=1))


def _estimator(name: str, mix: float, extent: Extent, release: Release, d: int) -> Estimator:
    drawn_ = functools.partial(group, mix, extent, release, d)
    return Estimator(f"rrba, {name}", fraction((2, 3)), drawn=drawn_)


ESTIMATORS = (
    _estimator("even fakes", 1.0, "one", "pooled", 3),
    _estimator("fakes of the blocks before", 0.3, "one", "pooled", 3),
    _estimator("whole views", 0.3, "view", "pooled", 4),
    _estimator("the last two blocks", 0.3, "one", "last-two", 3),
)
