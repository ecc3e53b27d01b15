"""What the paper on PrivKV says in formulas: Table 1, its posterior, Theorem 1, virtual rounds.

Horigome, Kikuchi and Yu, Expectation-Maximization Estimation for Key-Value Data Randomized with
Local Differential Privacy, sections 2 and 3.
"""

from __future__ import annotations

import math

import numpy as np

from protocol.randomizers.keyvalue import ABSENT, MINUS, PLUS, PrivKV
from protocol.variants.keyvalue.moments import em, maximum_likelihood, moment, table_1
from scenarios.datasets.keyvalue import SYNTHETIC, synthetic
from scenarios.reproductions.driver import scenarios_of
from scenarios.reproductions.experiment import Asked, Experiment, Nothing, Sample, grid
from scenarios.reproductions.privkv.shared import drawn_counts, squared_errors, symbol_law
from scenarios.running.reproduction import Picture


def _table(asked: Asked[Nothing]) -> list[Sample]:
    """Definition 1, Table 1 and the posterior of section 3.2."""
    epsilon = asked.cell["epsilon"]
    randomizer = PrivKV.with_budget(1, epsilon=epsilon)
    first = math.exp(epsilon / 2) / (1 + math.exp(epsilon / 2))
    one, none = [first**2, first * (1 - first), 1 - first], [first * (1 - first), (1 - first) ** 2]
    # Its rows are the states <1,1>, <1,-1>, <0,1>, <0,-1>, its columns <1,1>, <1,-1>, <0,0>.
    printed = np.array([one, [one[1], one[0], one[2]], [*none, first], [none[1], none[0], first]])
    law = table_1(randomizer)[:, [PLUS, MINUS, ABSENT]]
    posterior = law[0, 0] / law[:, 0].sum()
    return [
        Sample(
            exact={
                "largest distance from Table 1": float(np.abs(law - printed).max()),
                "posterior of <1,1> given <1,1>": float(posterior),
                "epsilon of a report": randomizer.epsilon,
                "epsilon charged": randomizer.charged,
            }
        )
    ]


def _recovered(asked: Asked[Nothing]) -> list[Sample]:
    """Theorem 1: frequencies and means from expected counts, by each estimate."""
    population, epsilon = synthetic(asked.cell["data"]), asked.cell["epsilon"]
    randomizer = PrivKV.with_budget(len(population.keys), epsilon=epsilon)
    counts = symbol_law(population, randomizer) * 1e6
    by_em, moments = em(counts, randomizer), moment(counts, randomizer)
    likeliest = maximum_likelihood(counts, randomizer)
    found = {
        "EM": (by_em.frequencies, by_em.means),
        "PrivKV": (moments.frequencies, moments.means),
        "maximum likelihood": (likeliest.frequencies, likeliest.means),
    }
    truth = population.frequencies, population.means
    return [
        Sample(
            exact={
                f"{what}, {name}": float(np.abs(values - true).max())
                for name, of in found.items()
                for what, values, true in zip(("frequencies", "means"), of, truth, strict=True)
            }
        )
    ]


def _virtual(asked: Asked[Nothing]) -> list[Sample]:
    """The means after so many rounds that the aggregator works out by itself."""
    population, virtual = synthetic(asked.cell["data"]), asked.cell["virtual"]
    keys, epsilon, n = len(population.keys), asked.cell["epsilon"], 100_000
    randomizer = PrivKV.with_budget(keys, epsilon=epsilon)
    # Every number of rounds works on the same reports.
    generator = np.random.default_rng(
        (asked.seed, SYNTHETIC.index(asked.cell["data"]), asked.seeds[-1])
    )
    counts = drawn_counts(population, randomizer, n, generator, runs=asked.runs)
    found = moment(counts, randomizer, virtual=virtual).means
    debiased = moment(counts, randomizer, debias=True).means
    likeliest = maximum_likelihood(counts, randomizer).means
    expected = symbol_law(population, randomizer) * n
    exactly = moment(expected, randomizer, virtual=virtual, clip=False).means
    return [
        Sample(
            drawn={
                "MSE of means": squared_errors(found, population.means),
                "debiased": squared_errors(debiased, population.means),
                "maximum likelihood": squared_errors(likeliest, population.means),
            },
            exact={"bias, squared": float(((exactly - population.means) ** 2).mean())},
        )
    ]


EXPERIMENTS = (
    Experiment(
        paper="PrivKV",
        item="Definition 1, Table 1, section 3.2",
        name="privkv-table-1",
        summary="EM for PrivKV, Table 1: the law of a report, its posterior and its epsilon.",
        cells=grid(epsilon=(0.5, 1.0, 2.0, 4.0)),
        law=_table,
        notes=(
            "exact. The text has p_1 q_1 for the probability of <1,1> given <1,1>, and "
            "e^eps/(1 + eps) for p; Table 1 and its worked posterior have p_1 p_2 and "
            "e^eps/(1 + e^eps)",
        ),
        picture=Picture(
            title="A report costs less than is charged",
            x="epsilon",
            figures=("epsilon of a report", "epsilon charged"),
            axis="epsilon of a report",
            computed=("epsilon of a report", "epsilon charged"),
            names={"epsilon of a report": "true cost"},
        ),
    ),
    Experiment(
        paper="PrivKV",
        item="Theorem 1",
        name="privkv-theorem-1",
        summary="EM for PrivKV, Theorem 1: what the estimates make of expected counts.",
        cells=grid(data=SYNTHETIC, epsilon=(1.0, 4.0)),
        law=_recovered,
        notes=(
            "exact: the largest errors over 50 keys without any sampling; what is left is bias. In "
            "PrivKV's means fakes count as values, and EM's four states cannot be told apart",
        ),
        picture=Picture(
            title="EM and PrivKV have biased means",
            x="epsilon",
            by=("data",),
            figures=("means, EM", "means, PrivKV"),
            axis="largest bias of a mean",
            computed=("means, EM", "means, PrivKV"),
        ),
    ),
    Experiment(
        paper="PrivKV",
        item="PrivKVM, virtual iterations",
        name="privkv-virtual",
        summary="PrivKV: means after rounds of PrivKVM that nobody is asked in.",
        cells=grid(data=SYNTHETIC, epsilon=(4.0,), virtual=(0, 1, 2, 5, 20)),
        law=_virtual,
        runs=20,
        notes=(
            "n = 100,000; debiased is the limit of many virtual rounds; the bias is that of "
            "expected counts, unclipped",
        ),
        picture=Picture(
            title="Virtual rounds take the fakes out of the means",
            conditions="n = 100,000, epsilon 4",
            x="virtual",
            by=("data",),
            figures=("MSE of means",),
            names={"virtual": "virtual rounds", "MSE of means": "squared error of means"},
        ),
    ),
)
SCENARIOS = scenarios_of(*EXPERIMENTS)
