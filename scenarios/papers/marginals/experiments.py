"""Figures 6 and 7 of marginal release, and what it says in formulas.

Kulkarni, Cormode and Srivastava, Marginal Release Under Local Differential Privacy, sections
Problem Statement, Our Contributions, Algorithm Design and Evaluation. No number of the figures is
printed. Trips are those of the seeded stand-in.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations
from typing import Annotated, Any, TypeAlias

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from protocol.estimators.dependence.association import exact_test, naive_test, wald_test
from protocol.estimators.measures import total_variation
from protocol.estimators.projection import project_rows
from protocol.randomizers.binary import coefficients, subsets
from protocol.randomizers.exact import Floats
from protocol.randomizers.marginals import MarginalPlan, report_bits
from protocol.randomizers.walsh import wht
from protocol.surveys.records import Records
from protocol.variants import InpHT, InpPS, InpRR, MargHT, MargPS, MargRR
from protocol.variants.marginals.counts import MarginalCounts
from protocol.variants.marginals.estimate import ReleasedMarginals, report_noise
from protocol.variants.marginals.hadamard import low_transform, marginal_tables
from scenarios.data.taxi import BITS, taxi_distribution, taxi_independent, taxi_survey
from scenarios.papers.driver import experiment_scenarios
from scenarios.papers.experiment import Asked, Experiment, Found, Nothing, Sample, grid
from scenarios.running.reproduction import Picture

Counts: TypeAlias = NDArray[np.int64]

D = len(BITS)
WAYS = (1, 2, 3)
EPSILONS = (0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4)
"""Budgets of the figures; the text does not name them."""

METHODS: dict[str, Any] = {of.method: of for of in (InpRR, InpPS, InpHT, MargRR, MargPS, MargHT)}
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
    """Parameters of Figure 6."""

    n: Trips = N


class Tests(Errors, frozen=True, kw_only=True):
    """Parameters of Figure 7."""

    __test__ = False  # Not a class of tests, whatever a collector thinks of its name.

    epsilon: Annotated[float, Meta(gt=0, le=20, description="of a report")] = 1.1


def method_variant(method: str, *, k: int, epsilon: float) -> Any:
    """The variant that a method is by messages."""
    given = {"unary": "oue"} if method in OUE else {}
    return (METHODS | OUE)[method](survey=taxi_survey(D), k=k, epsilon=epsilon, **given)


def drawn_trips(n: int, generator: np.random.Generator) -> Counts:
    """Numbers of n trips in every cell."""
    law = taxi_distribution(BITS).reshape(-1)
    return np.asarray(generator.multinomial(n, law), np.int64)


def _estimates(
    asked: Asked[Any], *, k: int, epsilon: float, cells: Counts | None = None
) -> Iterator[tuple[Counts, ReleasedMarginals]]:
    """Trips and estimate of every run, by law or by messages.

    Args:
        cells: the same trips in every run; else each has its own.
    """
    generator, method = asked.generator(), asked.cell["method"]
    variant = method_variant(method, k=k, epsilon=epsilon)
    for _ in range(1 if asked.live else asked.runs):
        trips = drawn_trips(asked.parameters.n, generator) if cells is None else cells
        if asked.live:
            records = Records.from_counts(variant.survey, trips.reshape((2,) * D))
            outcome = asked.simulate(variant, records, PARTIES)
            yield trips, variant.reports(outcome.result)
        else:
            yield trips, drawn_estimate(variant.plan, trips, generator)


def _variations(asked: Asked[Errors]) -> dict[str, Floats]:
    """Figure 6: mean total variation of one method in every run, with new trips in each."""
    estimates = _estimates(asked, k=asked.cell["k"], epsilon=asked.cell["epsilon"])
    found = np.array([distances(estimate, cells) for cells, estimate in estimates])
    return {"raw": found[:, 0], "simplex": found[:, 1]}


# Draws


def drawn_counts(
    plan: MarginalPlan, cells: Counts, generator: np.random.Generator
) -> MarginalCounts:
    """Counts when respondents of these cells report: one draw of its law.

    Args:
        plan: how they report, on d bits.
        cells: how many respondents are in every cell, shape (2**d,).
        generator: the source of the draws.
    """
    # How many of every cell report on every choice, and what they would truthfully say.
    chosen = generator.multinomial(cells, np.full(plan.choices, 1 / plan.choices))
    width = plan.randomizer.size
    choices, every = np.indices((plan.choices, len(cells)), np.uint32)
    said = plan.true_answers(every.ravel(), choices.ravel()).reshape(choices.shape)
    truths = np.zeros((plan.choices, width), np.int64)
    np.add.at(truths, (choices, said), chosen.T)
    reports = truths.sum(axis=1)
    support = plan.randomizer.support
    if plan.one_hot:
        found = generator.binomial(truths, float(support.hit))
        found += generator.binomial(reports[:, None] - truths, float(support.other))
    else:
        kept = generator.binomial(truths, float(support.gain))
        found = kept + generator.multinomial(reports - kept.sum(axis=1), np.full(width, 1 / width))
    return MarginalCounts(
        plan=plan, reports=reports, totals=found[:, 1:].copy() if plan.transformed else found
    )


def drawn_estimate(
    plan: MarginalPlan, cells: Counts, generator: np.random.Generator
) -> ReleasedMarginals:
    """The estimate of ``drawn_counts``."""
    counts = drawn_counts(plan, cells, generator)
    return ReleasedMarginals(survey=taxi_survey(plan.d), counts=counts)


def distances(estimate: ReleasedMarginals, cells: Counts) -> tuple[float, float]:
    """The mean total variation of all k-way marginals from the true ones: of the raw tables, and
    of the nearest tables of shares."""
    d, k = estimate.counts.plan.d, estimate.counts.plan.k
    true = marginal_tables(low_transform(cells / cells.sum(), k), subsets(d, k), d=d, k=k)
    raw = estimate.every().values
    first, second = (total_variation(tables, true, ways=1) for tables in (raw, project_rows(raw)))
    return float(first.mean()), float(second.mean())


def statistics(estimate: ReleasedMarginals) -> Floats:
    """The statistics and p-values of both tests of every pair, shape (2, 2, pairs).

    The first axis has the naive test and Wald's, the second statistic and p-value.

    Raises:
        ValueError: too few reports for Wald's test.
    """
    pairs = list(combinations(estimate.survey.names, 2))
    tables = np.stack([cells.values for cells in estimate.pairs().values()])
    covariances = np.stack([estimate.covariance(*pair, population=True) for pair in pairs])
    naive = naive_test(estimate.n * tables, np.full(len(pairs), estimate.n), ways=2)
    wald = wald_test(tables, covariances)
    return np.array([[test.statistic, test.p_value] for test in (naive, wald)])


def _tests(asked: Asked[Tests]) -> list[Sample]:
    """Figure 7: both tests of every pair in every run, on one set of trips as in the paper."""
    cells = drawn_trips(asked.parameters.n, np.random.default_rng((asked.seed, 7)))
    estimates = _estimates(asked, k=2, epsilon=asked.parameters.epsilon, cells=cells)
    found = np.stack([statistics(estimate) for _, estimate in estimates])
    samples = []
    for place, (i, j) in enumerate(combinations(range(D), 2)):
        others = tuple(axis for axis in range(D) if axis not in (i, j))
        naive, wald = found[:, 0, :, place], found[:, 1, :, place]
        figures = {
            "naive": naive[:, 0],
            "wald": wald[:, 0],
            "naive rejects": naive[:, 1] <= LEVEL,
            "wald rejects": wald[:, 1] <= LEVEL,
            "exact": exact_test(cells.reshape((2,) * D).sum(axis=others)).statistic,
        }
        independent = "yes" if taxi_independent(BITS[i], BITS[j]) else "no"
        pair = f"{BITS[i]} - {BITS[j]}"
        samples.append(Sample.of(figures, pair=pair, independent=independent))
    return samples


# What was found


def _leader_notes(found: Found[Errors]) -> list[str]:
    """The most accurate methods, for every k."""
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


def _rejection_notes(found: Found[Tests]) -> list[str]:
    """Comparison of naive with exact statistics, and rejection rates of the tests."""
    said, apart = [], {}
    for method in COMPARED:
        rows = [row for row in found.rows if row.settings["method"] == method]
        figures = [{figure.name: figure.measured for figure in row.figures()} for row in rows]
        apart[method] = np.array([abs(one["naive"] - one["exact"]) for one in figures])
        independent = np.array([row.settings["independent"] == "yes" for row in rows])
        shares = [
            np.mean(np.array([one[f"{test} rejects"] for one in figures])[which])
            for which in (independent, ~independent)
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


# Formulas


def _sizes(asked: Asked[Nothing]) -> dict[str, Any]:
    """Bits of a report, and the number of coefficients by the theorem."""
    k = asked.cell["k"]
    plan = method_variant(asked.cell["method"], k=k, epsilon=1.0).plan
    return {
        "bits": report_bits(plan.method, d=D, k=k),
        "choices": plan.choices,
        "coefficients of at most k": len(coefficients(D, k)),
        "d^k": D**k,
    }


def _transform(asked: Asked[Nothing]) -> dict[str, Any]:
    """Figures 2 to 4 and the theorem: tables from few coefficients, and the printed matrix."""
    k = asked.cell["k"]
    table = asked.generator().dirichlet(np.ones(1 << D))
    found = marginal_tables(low_transform(table, k), subsets(D, k), d=D, k=k)
    others = [
        tuple(at for at in range(D) if not mask >> (D - 1 - at) & 1)
        for mask in subsets(D, k).tolist()
    ]
    direct = [table.reshape((2,) * D).sum(axis=summed).ravel() for summed in others]
    cells = np.arange(8)
    signs = np.where(np.bitwise_count(cells[:, None] & cells) % 2, -1.0, 1.0)
    return {
        "largest distance of a marginal": np.abs(found - direct).max(),
        "largest distance from the matrix of Figure 4": np.abs(wht(np.eye(8)) - signs).max(),
    }


def _falling(asked: Asked[Nothing]) -> dict[str, Any]:
    """The standard error of a coefficient of k attributes, in closed form; theta is 0."""
    method, epsilon, n = (asked.cell[name] for name in ("method", "epsilon", "n"))
    plan = method_variant(method, k=2, epsilon=epsilon).plan
    error = math.sqrt((report_noise(plan).own + 1) / (n / plan.choices))
    return {"error": error, "error epsilon sqrt(N)": error * epsilon * math.sqrt(n)}


SCENARIOS = experiment_scenarios(
    Experiment(
        name="marginals-sizes",
        summary="Marginal release: bits of a report and numbers of coefficients, six methods.",
        cells=grid(k=(1, 2, 3), method=tuple(METHODS)),
        measure=_sizes,
        notes=(f"of d = {D} bits",),
        picture=Picture(
            title="Hadamard coefficients take few bits",
            conditions="8 bits",
            figures=("bits",),
            axis="bits of a report",
            names={"bits": "bits of a report", "k": "attributes k of a marginal"},
        ),
    ),
    Experiment(
        name="marginals-transform",
        summary="Marginal release: marginals from Hadamard coefficients of at most k attributes.",
        cells=grid(k=(1, 2, 3)),
        measure=_transform,
        notes=("of one random table of 8 bits",),
        picture=Picture(
            title="Marginals follow from few coefficients",
            figures=("largest distance of a marginal",),
            axis="largest distance of a marginal",
            names={"k": "attributes k of a marginal"},
        ),
    ),
    Experiment(
        name="marginals-errors",
        summary="Marginal release: how the error of a coefficient falls with epsilon and N.",
        cells=grid(
            method=(*METHODS, *OUE), epsilon=(0.1, 0.2, 0.5, 1.0, 2.0, 4.0), n=(2**14, 2**18)
        ),
        measure=_falling,
        notes=(
            "of coefficients of two of 8 bits whose true value is 0; oue: with optimised "
            "unary bits, which the paper leaves out",
        ),
        picture=Picture(
            title="Errors fall like 1/epsilon, but not for large epsilon",
            by=("n", "method"),
            figures=("error",),
            axis="standard error of a coefficient",
            names={"error": "standard error of a coefficient", "n": "respondents N"},
        ),
    ),
    Experiment(
        name="marginals-figure-6",
        summary="Marginal release, Figure 6: mean total variation by epsilon, six methods.",
        cells=grid(k=WAYS, epsilon=EPSILONS, method=(*METHODS, *OUE)),
        measure=_variations,
        live=True,
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
        observed=_leader_notes,
        picture=Picture(
            title="InpHT is nearest to the true marginals of two and three bits",
            figures=("raw",),
            names={"raw": "total variation", "epsilon": "epsilon of a report"},
        ),
    ),
    Experiment(
        name="marginals-figure-7",
        summary="Marginal release, Figure 7: chi-squared statistics of pairs, 256K trips.",
        cells=grid(method=COMPARED),
        measure=_tests,
        live=True,
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
        observed=_rejection_notes,
        picture=Picture(
            title="The naive test rejects independent pairs too",
            by=("method", "pair"),
        ),
    ),
)
