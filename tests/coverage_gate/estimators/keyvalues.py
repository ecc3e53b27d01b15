"""PrivKV and PrivKVM: who holds a key, and the mean of what is held."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from protocol import Interval, key_survey
from protocol.estimators.inference.laws import About
from protocol.variants import PrivKVMVariant, PrivKVVariant
from protocol.variants.keyvalue.estimate import Estimator as How
from protocol.variants.keyvalue.estimate import KeyValueTables
from protocol.variants.keyvalue.privkv import KeyValueCollection, SymbolCounts
from tests.coverage_gate.cases import Drawn, Estimator, Said
from tests.coverage_gate.grid import Point, grid
from tests.coverage_gate.laws import Counts, Floats

KEYS = 3
VALUES = (-0.5, 1.0)
FILMS = key_survey("films", ("a", "b", "c"), (VALUES,) * KEYS)
VALUED = (0.3, 0.7)
"""Of those who hold a key, how many hold it with each value."""


class Mean(NamedTuple):
    """The mean of the first key's values, as an answer."""

    estimate: KeyValueTables

    @property
    def value(self) -> float:
        """The estimate."""
        return float(self.estimate.means[0])

    @property
    def standard_error(self) -> float:
        """Its standard error."""
        return float(self.estimate.mean_errors[0])

    def interval(self, level: float, about: About) -> Interval:
        """Its interval."""
        low, high = self.estimate.mean_intervals(level, about)
        return Interval(low[0], high[0])


@functools.lru_cache(maxsize=256)
def _variant(rounds: int, how: How, epsilon: float) -> KeyValueCollection:
    if rounds == 1:
        return PrivKVVariant(survey=FILMS, epsilon=epsilon, estimator=how)
    return PrivKVMVariant(survey=FILMS, epsilon=epsilon, estimator=how, rounds=rounds)


def collected(
    variant: KeyValueCollection, holders: Counts, rng: np.random.Generator
) -> SymbolCounts:
    """The counts of symbols of all rounds.

    Args:
        variant: by which is asked.
        holders: of each key, how many of those asked for it miss it, and hold it with each value.
    """
    each = variant.client.each
    kept, turned = each.key_response.diagonal, each.key_response.off_diagonal
    upright = each.value_response.diagonal
    says = rng.binomial(holders, [turned, kept, kept])
    absent = (holders - says).sum(axis=1)
    stages = variant.stages(int(holders.sum()))
    stage = next(stages)
    while True:
        fakes = stage.asked[-1] if stage.asked else np.zeros(len(holders))
        values = np.column_stack([fakes, *(np.full(len(holders), value) for value in VALUES)])
        plus = 0.5 + (upright - 0.5) * values
        positive = rng.binomial(says, plus).sum(axis=1)
        counts = np.column_stack([absent, positive, says.sum(axis=1) - positive])
        try:
            stage = stages.send(counts.reshape(-1).astype(np.int64))
        except StopIteration as stop:
            result: SymbolCounts = stop.value
            return result


def key(rounds: int, how: How, point: Point, rng: np.random.Generator) -> Iterator[Drawn]:
    """The share of those who hold a key, and the mean of their values."""
    # Half of epsilon is for the key: a response that keeps with the grid's probability.
    epsilon = 2 * math.log1p(2 * point.keep / (1 - point.keep))
    variant = _variant(rounds, how, epsilon)
    chance = (point.share * point.keep + (1 - point.keep) / 2) / KEYS
    law: Floats = np.array([1 - point.share, *(point.share * part for part in VALUED)])
    n = point.respondents(chance)
    people = rng.multinomial(n, np.outer([1 / KEYS] * KEYS, law).reshape(-1)).reshape(KEYS, 3)
    # Keys do not depend on each other: those who were not asked for the first hold it alike.
    rest = rng.multinomial(n - int(people[0].sum()), law)
    all_ = people[0] + rest
    estimate = variant.estimate(collected(variant, people, rng))
    held = all_[1:].sum()
    share = Said("held", estimate.table("a"), (1,), how in ("moment", "debiased"))
    yield Drawn(share, float(held / n), point.share)
    # Where nobody holds the key there is no mean that could be covered.
    if held:
        values, said = np.array(VALUES), Said("mean", Mean(estimate), unbiased=False)
        mean = float(all_[1:] @ values) / held
        yield Drawn(said, mean, float(np.array(VALUED) @ values), (-1.0, 1.0))


HOWS: tuple[How, ...] = ("moment", "debiased", "likelihood", "em")

POINTS = grid(
    expected=(1, 3, 10, 30, 100, 1_000, 10_000, 1_000_000),
    shares=(0.01, 0.5),
    keeps=(0.1, 0.7),
    categories=(2,),
)

ESTIMATORS = (
    *(Estimator(f"privkv, {how}", POINTS, drawn=functools.partial(key, 1, how)) for how in HOWS),
    *(
        Estimator(f"privkvm, {how}", POINTS[::2], drawn=functools.partial(key, 2, how))
        for how in HOWS[:3]
    ),
)
