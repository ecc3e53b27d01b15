"""SPL, SMP and RS+FD: attributes through frequency oracles."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import numpy as np

from protocol import FakeData, KeepUniform, LinearEstimate, Randomizer
from protocol.variants.oracles.estimate import AttributeShares
from protocol.variants.oracles.names import ORACLES, Oracle, frequency_oracle
from tests.coverage_gate.cases import Counted, Drawn, Estimator, Said
from tests.coverage_gate.estimators.surveys import filled, said_of, survey_of, two_valued
from tests.coverage_gate.grid import EXPECTED, Point, grid
from tests.coverage_gate.laws import drawn

SIZES = (3, 10)


@functools.lru_cache(maxsize=64)
def _oracle(oracle: Oracle, point: Point) -> Randomizer:
    return frequency_oracle(oracle, point.categories, epsilon=point.epsilon)


@functools.lru_cache(maxsize=64)
def _column(point: Point) -> Randomizer:
    epsilon = np.log1p(point.categories * point.keep / (1 - point.keep))
    return FakeData.with_epsilon((point.categories, 2), epsilon=float(epsilon)).column(0)


def everybody(make: Callable[[Point], Randomizer], point: Point) -> Iterator[Counted]:
    """An attribute that everybody reports on."""
    r, randomizer = point.categories, make(point)
    hit, other = float(randomizer.support.hit), float(randomizer.support.other)
    n = point.respondents(point.share * hit + (1 - point.share) * other)
    survey = survey_of((r,))

    def said(count: int) -> list[Said]:
        if isinstance(randomizer, KeepUniform):
            totals = filled(count, n, r)
        else:
            totals = np.full(r, round(n * other))
            totals[0] = count
        estimate = LinearEstimate(
            AttributeShares(survey, (randomizer,), (totals,), np.array([n]), n)
        )
        return said_of(estimate, "a")

    return two_valued(n, point.share, hit=hit, other=other, said=said)


def sampled(oracle: Oracle, point: Point, rng: np.random.Generator) -> Iterator[Drawn]:
    """An attribute of three, on which a third of the respondents report."""
    r, randomizer = point.categories, _oracle(oracle, point)
    hit, other = float(randomizer.support.hit), float(randomizer.support.other)
    chance = (point.share * hit + (1 - point.share) * other) / 3
    law = np.full(r, (1 - point.share) / (r - 1))
    law[0] = point.share
    truth = drawn(rng, point.respondents(chance), law)
    n = int(truth.sum())
    asked = rng.multinomial(truth, np.full(3, 1 / 3)).T
    totals = []
    for holders in asked:
        if isinstance(randomizer, KeepUniform):
            kept = rng.binomial(holders, (hit - other))
            fakes = rng.multinomial(int((holders - kept).sum()), np.full(r, 1 / r))
            totals.append(kept + fakes)
        else:
            others = holders.sum() - holders
            totals.append(rng.binomial(holders, hit) + rng.binomial(others, other))
    estimate = LinearEstimate(
        AttributeShares(
            survey_of((r, r, r)), (randomizer,) * 3, tuple(totals), asked.sum(axis=1), n
        )
    )
    cell, one = said_of(estimate, "a")
    given, wanted = float(truth[0] / n), point.share
    yield Drawn(cell, given, wanted)
    yield Drawn(one, given, wanted)


_KEEPS = (0.1, 0.5, 0.9)
_DRAWN = grid(
    expected=EXPECTED[:5] + EXPECTED[6:7], shares=(0.01, 0.5), keeps=(0.1, 0.7), categories=(3,)
)

ESTIMATORS = (
    *(
        Estimator(
            f"spl, {oracle}",
            grid(keeps=_KEEPS, categories=SIZES),
            counted=functools.partial(everybody, functools.partial(_oracle, oracle)),
        )
        for oracle in ORACLES
    ),
    Estimator(
        "rs-fd",
        grid(keeps=_KEEPS, categories=SIZES),
        counted=functools.partial(everybody, _column),
    ),
    *(
        Estimator(f"smp, {oracle}", _DRAWN, drawn=functools.partial(sampled, oracle))
        for oracle in ("grr", "oue", "olh")
    ),
)
