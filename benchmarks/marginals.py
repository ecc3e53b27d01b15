"""Benchmarks of marginal release and of key-value estimates, against the same in plain numpy."""

from __future__ import annotations

import functools

import numpy as np

from benchmarks.timing import Benchmark, Side, elapsed
from protocol import Attribute, PrivKV, Stream, Survey, secret_of
from protocol.randomizers.exact import Floats
from protocol.randomizers.marginals import MarginalPlan, Method
from protocol.variants.keyvalue.moments import TOLERANCE, em, maximum_likelihood, moment, table_1
from protocol.variants.marginals.counts import MarginalCounts
from protocol.variants.marginals.estimate import ReleasedMarginals

CLIENTS = 1 << 20
D, K = 16, 2
EPSILON = 1.1

KEYS = 10_677
RESPONDENTS = 69_878
"""As many keys and respondents as the set of MovieLens that the paper has."""

SEED = 1


def released(method: Method, seconds: float) -> Benchmark:
    """Randomize every client's record, count, and estimate all pairs.

    The floor draws as many words and codes with numpy's generator and counts them. The aim is in
    seconds, in the title.
    """
    survey = Survey("bits", tuple(Attribute(name=f"a{i}", categories=("0", "1")) for i in range(D)))
    cells = np.random.default_rng(SEED).integers(0, 1 << D, CLIENTS).astype(np.uint16)
    plan = MarginalPlan.with_epsilon(method, d=D, k=K, epsilon=EPSILON)
    stream = Stream(secret_of(SEED)).derive("benchmark")

    def product() -> object:
        counts = MarginalCounts.of(plan, plan.randomize(cells, stream))
        return ReleasedMarginals(survey=survey, counts=counts).every()

    def floor() -> object:
        generator = np.random.default_rng(SEED)
        choices = generator.integers(0, plan.choices, CLIENTS, dtype=np.uint16)
        turned = generator.random(CLIENTS) < 0.25
        answers = (cells ^ choices) & 1 ^ turned
        return np.bincount(choices * 2 + answers, minlength=plan.choices * 2)

    return Benchmark(
        title=f"{method}, 2^20 clients, {D} bits, all pairs (aim: {seconds * 1000:g} ms), "
        "against draws and counts in plain numpy",
        unit="client",
        units=CLIENTS,
        product=Side(name=method, run=lambda: elapsed(product)),
        floors=(Side(name="numpy.random, bincount", run=lambda: elapsed(floor)),),
    )


@functools.cache
def _reported() -> tuple[PrivKV, Floats]:
    """Counts of every key, as many respondents to a key as the paper has."""
    randomizer = PrivKV.with_budget(KEYS, epsilon=2.0)
    generator = np.random.default_rng(SEED)
    frequencies = generator.beta(0.3, 6, KEYS)
    means = generator.uniform(-1, 1, KEYS)
    held = np.stack([1 - frequencies, *(frequencies * (1 + s * means) / 2 for s in (1, -1))], 1)
    law = (held @ randomizer.matrix()).ravel() / KEYS
    counts = generator.multinomial(RESPONDENTS, law / law.sum())
    return randomizer, counts.reshape(KEYS, 3).astype(np.float64)


def likelihood() -> Benchmark:
    """The exact maximum of the likelihood; the floor is PrivKV's own moments of the same counts."""
    randomizer, counts = _reported()
    return Benchmark(
        title=f"maximum likelihood of {KEYS:,} keys (aim: 60 ms), against moments",
        unit="key",
        units=KEYS,
        product=Side(
            name="maximum_likelihood",
            run=lambda: elapsed(lambda: maximum_likelihood(counts, randomizer)),
        ),
        floors=(Side(name="moment", run=lambda: elapsed(lambda: moment(counts, randomizer))),),
    )


def expectation_maximization() -> Benchmark:
    """The paper's EM; the floor is its textbook form on the same counts, every key to the end.

    Aim: a third of its rate.
    """
    randomizer, counts = _reported()
    law = table_1(randomizer)

    def floor() -> object:
        reported = counts[counts.any(axis=1)]
        shares = reported / reported.sum(axis=1, keepdims=True)
        states = np.full((len(shares), 4), 0.25)
        while True:
            updated = states * (shares / (states @ law) @ law.T)
            moved = np.abs(updated - states).max()
            states = updated
            if moved <= TOLERANCE:
                return states

    return Benchmark(
        title=f"EM of {KEYS:,} keys, tolerance {TOLERANCE:g}, against plain numpy",
        unit="key",
        units=KEYS,
        product=Side(name="em", run=lambda: elapsed(lambda: em(counts, randomizer))),
        floors=(Side(name="all keys in every iteration", run=lambda: elapsed(floor)),),
        aim=1 / 3,
    )
