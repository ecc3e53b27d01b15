"""Figures 6 and 7 of marginal release: total variation by epsilon, and chi-squared statistics.

Kulkarni, Cormode and Srivastava, Marginal Release Under Local Differential Privacy, section
Evaluation. No number of the figures is printed. Trips are those of the seeded stand-in.
"""

from __future__ import annotations

from itertools import combinations
from typing import Annotated, Any, TypeAlias

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from protocol.estimators.dependence.association import exact_test, naive_test, wald_test
from protocol.estimators.measures import total_variation
from protocol.estimators.projection import project_simplex
from protocol.randomizers.binary import subsets
from protocol.randomizers.exact import Floats
from protocol.randomizers.marginals import MarginalPlan, Unary
from protocol.surveys.records import Records
from protocol.variants import InpHT, InpPS, InpRR, MargHT, MargPS, MargRR
from protocol.variants.marginals.counts import MarginalCounts
from protocol.variants.marginals.estimate import MarginalEstimate
from protocol.variants.marginals.hadamard import low_transform, tables_of
from scenarios.datasets.taxi import BITS, taxi_distribution, taxi_independent, taxi_survey
from scenarios.reproductions.driver import scenarios_of
from scenarios.reproductions.experiment import Asked, Experiment, Found, Sample, grid
from scenarios.running.outcomes import Outcome
from scenarios.running.reproduction import Picture
from scenarios.running.scenario import Context

Counts: TypeAlias = NDArray[np.int64]

D = len(BITS)
WAYS = (1, 2, 3)
EPSILONS = (0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4)
"""Not in the text of the paper."""

METHODS: dict[str, Any] = {
    "InpRR": InpRR,
    "InpPS": InpPS,
    "InpHT": InpHT,
    "MargRR": MargRR,
    "MargPS": MargPS,
    "MargHT": MargHT,
}
OUE: dict[str, Any] = {"InpRR, oue": InpRR, "MargRR, oue": MargRR}
"""The methods that send a bit for each cell, with the 1 kept with probability 1/2."""

N = 2**18
"""The 256K trips of Figure 7; Figure 6 does not say how many."""

COMPARED = ("InpHT", "MargPS")
"""The methods of Figure 7."""

LEVEL = 0.05
PARTIES = 256
"""Over how many the trips are spread in a run by messages."""

Trips = Annotated[int, Meta(ge=100, le=10_000_000, description="how many trips")]

STAND_IN = (
    "the trips are a seeded stand-in of known dependence, not those of 2013: sizes of errors and "
    "statistics are not the paper's, their order by method can be compared"
)


class Errors(msgspec.Struct, frozen=True, kw_only=True):
    """What can be set for Figure 6."""

    n: Trips = N


class Tests(msgspec.Struct, frozen=True, kw_only=True):
    """What can be set for Figure 7."""

    __test__ = False  # Not a class of tests, whatever a collector thinks of its name.

    n: Trips = N
    epsilon: Annotated[float, Meta(gt=0, le=20, description="of a report")] = 1.1


def variant_of(method: str, records: Records, *, k: int, epsilon: float) -> Any:
    """The variant that a method is by messages."""
    given = {"unary": "oue"} if method in OUE else {}
    return (METHODS | OUE)[method](survey=records.survey, k=k, epsilon=epsilon, **given)


def plan_of(method: str, *, k: int, epsilon: float) -> MarginalPlan:
    """How the respondents of a method report."""
    name = (METHODS | OUE)[method].method
    unary: Unary = "oue" if method in OUE else "sue"
    return MarginalPlan.with_epsilon(name, d=D, k=k, epsilon=epsilon, unary=unary)


def drawn_trips(n: int, generator: np.random.Generator) -> Counts:
    """How many of n trips are in every cell."""
    law = taxi_distribution(BITS).reshape(-1)
    return np.asarray(generator.multinomial(n, law), np.int64)


def _ask(
    method: str, cells: Counts, context: Context, *, k: int, epsilon: float
) -> tuple[Outcome, MarginalEstimate]:
    """One run by messages about these trips."""
    codes = np.argwhere(np.ones((2,) * D)).astype(np.uint8)
    records = Records(taxi_survey(D), np.repeat(codes, cells, axis=0))
    variant = variant_of(method, records, k=k, epsilon=epsilon)
    outcome = context.simulate(variant, records, parties=min(PARTIES, len(records)))
    return outcome, outcome.estimate_as(MarginalEstimate)


# Figure 6


def _variations(asked: Asked[Errors]) -> list[Sample]:
    """The mean total variation of one method in every run, each of trips of its own."""
    cell, generator = asked.cell, asked.generator()
    plan = plan_of(cell["method"], k=cell["k"], epsilon=cell["epsilon"])
    found = []
    for _ in range(asked.runs):
        cells = drawn_trips(asked.parameters.n, generator)
        found.append(distances(drawn_estimate(plan, cells, generator), cells))
    return _variation(found)


def _variations_live(asked: Asked[Errors], context: Context) -> tuple[Outcome, list[Sample]]:
    cell = asked.cell
    cells = drawn_trips(asked.parameters.n, asked.generator())
    outcome, estimate = _ask(cell["method"], cells, context, k=cell["k"], epsilon=cell["epsilon"])
    return outcome, _variation([distances(estimate, cells)])


def _variation(found: list[tuple[float, float]]) -> list[Sample]:
    raw, simplex = np.array(found).T
    return [Sample(drawn={"raw": raw, "simplex": simplex})]


# Draws


def drawn_counts(
    plan: MarginalPlan, cells: Counts, generator: np.random.Generator
) -> MarginalCounts:
    """What is counted when respondents of these cells report: one draw of its law.

    Args:
        plan: how they report, on d bits.
        cells: how many respondents are in every cell, shape (2**d,).
        generator: the source of the draws.
    """
    # How many of every cell report on every choice, and what they would truthfully say.
    chosen = generator.multinomial(cells, np.full(plan.choices, 1 / plan.choices))
    width = plan.randomizer.size
    every = np.arange(len(cells), dtype=np.uint32)
    truths = np.zeros((plan.choices, width), np.int64)
    for choice in range(plan.choices):
        np.add.at(truths[choice], _true_answers(plan, choice, every), chosen[:, choice])
    reports = truths.sum(axis=1)
    support = plan.randomizer.support
    if plan.one_hot:
        said = generator.binomial(truths, float(support.hit))
        said += generator.binomial(reports[:, None] - truths, float(support.other))
    else:
        kept = generator.binomial(truths, float(support.gain))
        said = kept + generator.multinomial(reports - kept.sum(axis=1), np.full(width, 1 / width))
    return MarginalCounts(
        plan=plan, reports=reports, totals=said[:, 1:].copy() if plan.transformed else said
    )


def _true_answers(plan: MarginalPlan, choice: int, cells: NDArray[np.uint32]) -> NDArray[np.intp]:
    """What respondents of these cells have to say on a choice."""
    if plan.transformed:
        odd = np.bitwise_count(cells & plan.masks[choice]) & 1
        return np.asarray(odd, np.intp)
    answers = np.zeros(len(cells), np.intp)
    for place in plan.attributes(choice):
        answers = 2 * answers + np.asarray(cells >> np.uint32(plan.d - 1 - place) & 1, np.intp)
    return answers


def drawn_estimate(
    plan: MarginalPlan, cells: Counts, generator: np.random.Generator
) -> MarginalEstimate:
    """The estimate of ``drawn_counts``."""
    counts = drawn_counts(plan, cells, generator)
    return MarginalEstimate(survey=taxi_survey(plan.d), counts=counts)


def distances(estimate: MarginalEstimate, cells: Counts) -> tuple[float, float]:
    """The mean total variation of all k-way marginals from the true ones: of the raw tables, and
    of the nearest tables of shares."""
    d, k = estimate.counts.plan.d, estimate.counts.plan.k
    true = tables_of(low_transform(cells / cells.sum(), k), subsets(d, k), d=d, k=k)
    raw = estimate.every().values
    nearest = np.stack([project_simplex(table) for table in raw])
    first, second = (total_variation(tables, true, ways=1) for tables in (raw, nearest))
    return float(first.mean()), float(second.mean())


def statistics(estimate: MarginalEstimate) -> Floats:
    """The statistics and p-values of both tests of every pair, shape (2, 2, pairs).

    The first axis has the naive test and Wald's, the second statistic and p-value.

    Raises:
        ValueError: too few reports for Wald's test.
    """
    pairs = list(combinations(estimate.survey.names, 2))
    tables = np.stack([table.values for table in estimate.pairs()])
    covariances = np.stack([estimate.covariance(*pair, population=True) for pair in pairs])
    naive = naive_test(estimate.n * tables, np.full(len(pairs), estimate.n), ways=2)
    wald = wald_test(tables, covariances)
    return np.array([[test.statistic, test.p_value] for test in (naive, wald)])


# Figure 7


def _tests(asked: Asked[Tests]) -> list[Sample]:
    """Both tests of every pair in every run, asked about one set of trips, as the paper has it."""
    own, generator = asked.parameters, asked.generator()
    cells, plan = _same_trips(asked), plan_of(asked.cell["method"], k=2, epsilon=own.epsilon)
    found = [statistics(drawn_estimate(plan, cells, generator)) for _ in range(asked.runs)]
    return _pairs(cells, np.stack(found))


def _tests_live(asked: Asked[Tests], context: Context) -> tuple[Outcome, list[Sample]]:
    cells, method = _same_trips(asked), asked.cell["method"]
    outcome, estimate = _ask(method, cells, context, k=2, epsilon=asked.parameters.epsilon)
    return outcome, _pairs(cells, statistics(estimate)[np.newaxis])


def _same_trips(asked: Asked[Tests]) -> Counts:
    return drawn_trips(asked.parameters.n, np.random.default_rng((asked.seed, 7)))


def _pairs(cells: Counts, found: Floats) -> list[Sample]:
    """Every pair; ``found`` has the axes run, test, statistic and p-value, pair."""
    table = cells.reshape((2,) * D)
    samples = []
    for place, (i, j) in enumerate(combinations(range(D), 2)):
        others = tuple(axis for axis in range(D) if axis not in (i, j))
        naive, wald = found[:, 0, :, place], found[:, 1, :, place]
        samples.append(
            Sample(
                drawn={
                    "naive": naive[:, 0],
                    "wald": wald[:, 0],
                    "naive rejects": naive[:, 1] <= LEVEL,
                    "wald rejects": wald[:, 1] <= LEVEL,
                },
                exact={"exact": float(exact_test(table.sum(axis=others)).statistic)},
                settings={
                    "pair": f"{BITS[i]} - {BITS[j]}",
                    "independent": "yes" if taxi_independent(BITS[i], BITS[j]) else "no",
                },
            )
        )
    return samples


# What was found


def _led(found: Found[Errors]) -> list[str]:
    """Which methods are nearest, for every k."""
    said = []
    for k in WAYS:
        orders = []
        for epsilon in EPSILONS:
            errors = {m: found.value("raw", k=k, epsilon=epsilon, method=m) for m in METHODS}
            orders.append(sorted(METHODS, key=errors.__getitem__))
        first = sum(order[0] == "InpHT" for order in orders)
        both = sum(order[:2] == ["InpHT", "MargPS"] for order in orders)
        said.append(
            f"measured, k = {k}: InpHT is nearest at {first} of {len(orders)} epsilons, with "
            f"MargPS second at {both}; at {EPSILONS[-1]:g}, from the nearest: "
            f"{', '.join(orders[-1])}"
        )
    return said


def _rejected(found: Found[Tests]) -> list[str]:
    """Whose naive statistics are nearer to the exact ones, and how often tests reject."""
    figures = [
        (row.settings, {figure.name: figure.measured for figure in row.figures()})
        for row in found.rows
    ]
    said, apart = [], {}
    for method in COMPARED:
        of_method = [pair for pair in figures if pair[0]["method"] == method]
        apart[method] = np.array([abs(one["naive"] - one["exact"]) for _, one in of_method])
        shares = [
            np.mean([one[f"{test} rejects"] for s, one in of_method if s["independent"] == which])
            for which in ("yes", "no")
            for test in ("naive", "wald")
        ]
        said.append(
            f"{method}: of independent pairs the naive test rejects {shares[0]:.0%}, Wald's "
            f"{shares[1]:.0%}; of dependent ones {shares[2]:.0%} and {shares[3]:.0%}"
        )
    nearer = int((apart["InpHT"] < apart["MargPS"]).sum())
    return [
        "the paper has InpHT's statistics nearer to the exact ones than MargPS's; measured: the "
        f"mean naive statistic is, for {nearer} of {len(apart['InpHT'])} pairs",
        *said,
    ]


EXPERIMENTS: tuple[Experiment[Any], ...] = (
    Experiment(
        paper="MR",
        item="Figure 6",
        name="marginals-figure-6",
        summary="Marginal release, Figure 6: mean total variation by epsilon, six methods.",
        cells=grid(k=WAYS, epsilon=EPSILONS, method=(*METHODS, *OUE)),
        law=_variations,
        live=_variations_live,
        live_cell={"k": 2, "epsilon": EPSILONS[-1], "method": "InpHT"},
        runs=10,
        parameters=Errors,
        notes=(
            STAND_IN,
            "raw: of the unbiased tables, by which the order of methods is; simplex: of the "
            f"nearest tables of shares. Both are means over all marginals of k of {D} bits",
            "the paper has InpHT nearest and MargPS second; for single bits InpHT, MargPS and "
            "MargHT are one method, and their order is chance",
            "oue: the bits of InpRR and MargRR with the 1 kept with probability 1/2",
        ),
        observed=_led,
        picture=Picture(
            title="InpHT is nearest to the true marginals of two and three bits",
            x="epsilon",
            by=("k", "method"),
            figures=("raw",),
            names={"raw": "total variation", "epsilon": "epsilon of a report"},
        ),
    ),
    Experiment(
        paper="MR",
        item="Figure 7",
        name="marginals-figure-7",
        summary="Marginal release, Figure 7: chi-squared statistics of pairs, 256K trips.",
        cells=grid(method=COMPARED),
        law=_tests,
        live=_tests_live,
        runs=20,
        parameters=Tests,
        notes=(
            STAND_IN,
            "exact: Pearson's statistic of the true answers; naive: the same of the private "
            "tables, the nearest of shares taken for counts of all trips, as in the paper; wald: "
            "with the variance of the estimate. Rejects: the share of runs, at level "
            f"{LEVEL:g}",
            "a statistic that knows of the noise is smaller by as much as the tables are less "
            "certain, and need not be near the exact one",
        ),
        observed=_rejected,
        picture=Picture(
            title="The naive test rejects independent pairs too",
            by=("method", "pair"),
            computed=("exact",),
        ),
    ),
)
SCENARIOS = scenarios_of(*EXPERIMENTS)
