"""Marginals by all six methods from many runs: unbiased, with the standard errors they state."""

from __future__ import annotations

import numpy as np
import pytest

from protocol import KeepUniform, LinearEstimate, UnaryEncoding
from protocol.randomizers.marginals import METHODS, MarginalPlan, MarginalReports, Method
from protocol.variants.marginals.counts import MarginalCounts
from protocol.variants.marginals.estimate import ReleasedMarginals
from tests.enumeration import survey_of
from tests.scripted import seeded
from tests.statistical import ALPHA, WRONG, mean_p_value
from tests.tiers import thinned


def wronged(randomizer: KeepUniform | UnaryEncoding) -> KeepUniform | UnaryEncoding:
    if isinstance(randomizer, UnaryEncoding):
        return UnaryEncoding.flipping(randomizer.size, threshold=int(randomizer.other * WRONG))
    return KeepUniform(randomizer.size, int(randomizer.threshold * WRONG))


@pytest.mark.slow
@pytest.mark.parametrize("method", thinned(METHODS, 1))
def test_errors_are_those_of_repeated_runs(method: Method) -> None:
    n, runs = 300, 700
    plan = MarginalPlan.with_epsilon(method, d=3, k=2, epsilon=3.0)
    cells = np.repeat(np.array([0, 5, 6], np.uint8), [180, 90, 30])
    choices, answers = plan.randomize(np.tile(cells, runs), seeded(9))
    joint = (np.bincount(cells, minlength=8) / n).reshape(2, 2, 2)
    survey = survey_of(2, 2, 2)
    # Of the pairs (a, b), (a, c) and (b, c).
    truth = np.array([joint.sum(axis=axis).reshape(-1) for axis in (2, 1, 0)])
    wrong = MarginalPlan(method=method, d=3, k=2, randomizer=wronged(plan.randomizer))
    centred = truth - 0.25
    values: dict[MarginalPlan, list[float]] = {plan: [], wrong: []}
    excess: dict[float, list[float]] = {1.0: [], WRONG: []}
    unknown = 0
    for run in range(runs):
        cut = slice(run * n, (run + 1) * n)
        counts = MarginalCounts.of(plan, MarginalReports(choices[cut], answers[cut]))
        for used, slopes in values.items():
            found = LinearEstimate(
                ReleasedMarginals(
                    survey=survey,
                    counts=MarginalCounts(plan=used, reports=counts.reports, totals=counts.totals),
                )
            ).source.every()
            slopes.append(float((found.values * centred).sum() / (centred**2).sum()))
            if used == plan:
                for factor, differences in excess.items():
                    predicted = (factor * found.standard_errors) ** 2
                    # Of an empty cell that few report on, an error is unknown now and then.
                    unknown += int(np.isnan(predicted).sum())
                    differences.append(float(np.nansum((found.values - truth) ** 2 - predicted)))
    assert unknown / (runs * len(excess) * truth.size) < 0.02
    assert mean_p_value(values[plan], 1.0) > ALPHA
    assert mean_p_value(values[wrong], 1.0) < ALPHA
    assert mean_p_value(excess[1.0], 0.0) > ALPHA
    assert mean_p_value(excess[WRONG], 0.0) < ALPHA
