"""Figures 6 and 7 of marginal release: total variation by epsilon, and chi-squared statistics.

Kulkarni, Cormode and Srivastava, Marginal Release Under Local Differential Privacy, section
Evaluation. No number of the figures is printed. Trips are those of the seeded stand-in, and counts
of reports are drawn from their law: no respondent is run but by messages.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Annotated, NamedTuple, TypeAlias

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from protocol.estimators.dependence.association import exact_test, naive_test, wald_test
from protocol.estimators.measures import total_variation
from protocol.estimators.projection import project_simplex
from protocol.randomizers.binary import record_cells, subsets
from protocol.randomizers.exact import Floats
from protocol.randomizers.marginals import METHODS, MarginalPlan, Method
from protocol.surveys.records import Records
from protocol.variants.marginals.counts import MarginalCounts
from protocol.variants.marginals.estimate import MarginalEstimate
from protocol.variants.marginals.hadamard import low_transform, tables_of
from protocol.variants.marginals.variant import InpHT
from scenarios.datasets.taxi import BITS, taxi, taxi_distribution, taxi_independent, taxi_survey
from scenarios.report.plots import plot_rows
from scenarios.running.outcomes import Outcome
from scenarios.running.reproduction import Reproduced, Row, Runs
from scenarios.running.scenario import Context, Scenario

Counts: TypeAlias = NDArray[np.int64]

D = len(BITS)
WAYS = (1, 2, 3)
EPSILONS = (0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4)
"""Not in the text of the paper."""

N = 2**18
"""The 256K trips of Figure 7; Figure 6 does not say how many."""

FIGURE_7_EPSILON = 1.1
COMPARED: tuple[Method, ...] = ("InpHT", "MargPS")
"""The methods of Figure 7."""

LEVEL = 0.05
PARTIES = 256
"""Over how many the trips are spread in a run by messages."""

Trips = Annotated[int, Meta(ge=100, le=10_000_000, description="how many trips")]

STAND_IN = (
    "the trips are a seeded stand-in of known dependence, not those of 2013: sizes of errors and "
    "statistics are not the paper's, their order by method can be compared"
)


class Errors(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What can be set for Figure 6."""

    runs: Runs = 10
    n: Trips = N


class Tests(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What can be set for Figure 7."""

    __test__ = False  # Not a class of tests, whatever a collector thinks of its name.

    runs: Runs = 20
    n: Trips = N
    epsilon: Annotated[float, Meta(gt=0, le=20, description="of a report")] = FIGURE_7_EPSILON


def figure_6(parameters: Errors, context: Context) -> Reproduced:
    """Mean total variation by epsilon, method and k.

    By messages, InpHT once for pairs, at the largest epsilon.
    """
    if context.by_messages:
        return _errors_by_messages(parameters, context)
    settings = [(k, epsilon) for k in WAYS for epsilon in EPSILONS]
    pieces = [
        Piece(k, epsilon, parameters, (context.seed, 6, place))
        for place, (k, epsilon) in enumerate(settings)
    ]
    rows: list[Row] = []
    leaders: list[list[Method]] = []
    for (k, epsilon), found in zip(settings, context.map(errors_of, pieces), strict=True):
        raw = [float(found[method][:, 0].mean()) for method in METHODS]
        order = [METHODS[place] for place in np.argsort(raw, kind="stable")]
        leaders.append(order)
        remark = f"from the nearest: {', '.join(order)}"
        rows += [
            Row(
                settings={"k": k, "epsilon": epsilon, "method": method},
                measured=dict(zip(("raw", "simplex"), errors.mean(axis=0).tolist(), strict=True)),
                standard_error=_standard_errors(("raw", "simplex"), errors),
                remark=remark,
            )
            for method, errors in found.items()
        ]
    return Reproduced(
        reproduction="marginals-figure-6",
        runs=parameters.runs,
        rows=tuple(rows),
        notes=(
            STAND_IN,
            "raw: of the unbiased tables, by which the order in the remarks is; simplex: of the "
            f"nearest tables of shares. Both are means over all marginals of k of {D} bits",
            "the paper has InpHT nearest and MargPS second; for single bits InpHT, MargPS and "
            "MargHT are one method, and their order is chance",
            *_led(settings, leaders),
        ),
        plot=plot_rows(
            rows, x="epsilon", by=("k", "method"), label="total variation", title="Figure 6"
        ),
    )


class Piece(NamedTuple):
    """One k and epsilon; the seeds decide its draws."""

    k: int
    epsilon: float
    parameters: Errors
    seeds: tuple[int, ...]


def errors_of(piece: Piece) -> dict[Method, Floats]:
    """Both distances of every method in every run, (runs, 2)."""
    generator = np.random.default_rng(piece.seeds)
    law = taxi_distribution(BITS).reshape(-1)
    # Every run has trips of its own, which all methods are asked about.
    trips = generator.multinomial(piece.parameters.n, law, size=piece.parameters.runs)
    found: dict[Method, Floats] = {}
    for method in METHODS:
        plan = MarginalPlan.with_epsilon(method, d=D, k=piece.k, epsilon=piece.epsilon)
        estimates = [drawn_estimate(plan, cells, generator) for cells in trips]
        found[method] = np.array(list(map(distances, estimates, trips)))
    return found


def figure_7(parameters: Tests, context: Context) -> Reproduced:
    """Statistics of independence of every pair, with and without knowledge of the noise.

    By messages, InpHT once.
    """
    if context.by_messages:
        return _tests_by_messages(parameters, context)
    runs = parameters.runs
    law = taxi_distribution(BITS).reshape(-1)
    generator = np.random.default_rng((context.seed, 7))
    # As the paper has it, one set of trips, asked again in every run.
    cells = generator.multinomial(parameters.n, law)
    rows: list[Row] = []
    for place, method in enumerate(COMPARED):
        plan = MarginalPlan.with_epsilon(method, d=D, k=2, epsilon=parameters.epsilon)
        found = [statistics(drawn_estimate(plan, cells, generator)) for _ in range(runs)]
        rows += _test_rows(method, cells, found)
        context.progress(place + 1, len(COMPARED))
    return Reproduced(
        reproduction="marginals-figure-7",
        runs=runs,
        rows=tuple(rows),
        notes=(
            STAND_IN,
            *_test_notes(),
            *_found(rows),
        ),
        plot=plot_rows(rows, by=("method", "pair"), label="statistic", title="Figure 7"),
    )


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
        flip = float(support.other)
        kept = truths - generator.binomial(truths, flip)
        said = kept + generator.binomial(reports[:, None] - truths, flip)
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


def _test_rows(method: Method, cells: Counts, found: Sequence[Floats]) -> list[Row]:
    """Every pair by one method; the last axis but one of ``found`` is statistic and p-value."""
    names = ("naive", "wald", "naive rejects", "wald rejects")
    values = np.stack(
        [
            np.concatenate([drawn[:, 0], (drawn[:, 1] <= LEVEL).astype(np.float64)])
            for drawn in found
        ]
    )
    table = cells.reshape((2,) * D)
    rows = []
    for place, (i, j) in enumerate(combinations(range(D), 2)):
        others = tuple(axis for axis in range(D) if axis not in (i, j))
        exact = float(exact_test(table.sum(axis=others)).statistic)
        drawn = values[:, :, place]
        rows.append(
            Row(
                settings={
                    "method": method,
                    "pair": f"{BITS[i]} - {BITS[j]}",
                    "independent": "yes" if taxi_independent(BITS[i], BITS[j]) else "no",
                },
                measured={
                    "exact": exact,
                    **dict(zip(names, drawn.mean(axis=0).tolist(), strict=True)),
                },
                standard_error=_standard_errors(names, drawn),
            )
        )
    return rows


def _standard_errors(names: Sequence[str], values: Floats) -> dict[str, float]:
    """Of the means over the runs, the first axis; NaN of a single run."""
    if len(values) < 2:
        return dict.fromkeys(names, math.nan)
    errors = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    return dict(zip(names, errors.tolist(), strict=True))


def _led(settings: Sequence[tuple[int, float]], orders: Sequence[Sequence[Method]]) -> list[str]:
    """Which methods are nearest, for every k."""
    said = []
    for k in dict.fromkeys(k for k, _ in settings):
        of_k = [order for (ways, _), order in zip(settings, orders, strict=True) if ways == k]
        first = sum(order[0] == "InpHT" for order in of_k)
        both = sum(list(order[:2]) == ["InpHT", "MargPS"] for order in of_k)
        said.append(
            f"measured, k = {k}: InpHT is nearest at {first} of {len(of_k)} epsilons, with MargPS "
            f"second at {both}"
        )
    return said


def _test_notes() -> tuple[str, ...]:
    return (
        "exact: Pearson's statistic of the true answers; naive: the same of the private tables, "
        "the nearest of shares taken for counts of all trips, as in the paper; wald: with the "
        f"variance of the estimate. Rejects: the share of runs, at level {LEVEL:g}",
        "a statistic that knows of the noise is smaller by as much as the tables are less certain, "
        "and need not be near the exact one",
    )


def _found(rows: Sequence[Row]) -> list[str]:
    """Whose naive statistics are nearer to the exact ones, and how often tests reject."""
    apart: dict[Method, Floats] = {}
    said = []
    for method in COMPARED:
        of_method = [row for row in rows if row.settings["method"] == method]
        figures = [{f.name: f.measured for f in row.figures()} for row in of_method]
        apart[method] = np.array([abs(found["naive"] - found["exact"]) for found in figures])
        independent = np.array([row.settings["independent"] == "yes" for row in of_method])
        shares = [
            f"{np.mean([found[f'{test} rejects'] for found in figures], where=pairs):.0%}"
            for pairs in (independent, ~independent)
            for test in ("naive", "wald")
        ]
        said.append(
            f"{method}: of independent pairs the naive test rejects {shares[0]}, Wald's "
            f"{shares[1]}; of dependent ones {shares[2]} and {shares[3]}"
        )
    nearer = int((apart["InpHT"] < apart["MargPS"]).sum())
    return [
        "the paper has InpHT's statistics nearer to the exact ones than MargPS's; measured: the "
        f"mean naive statistic is, for {nearer} of {len(apart['InpHT'])} pairs",
        *said,
    ]


def _errors_by_messages(parameters: Errors, context: Context) -> Reproduced:
    epsilon = EPSILONS[-1]
    records, outcome, estimate = _by_messages(parameters.n, epsilon, context)
    raw, nearest = distances(estimate, _cells(records))
    measured = {"raw": raw, "simplex": nearest}
    row = Row(
        settings={"k": 2, "epsilon": epsilon, "method": "InpHT"},
        measured=measured,
        standard_error=dict.fromkeys(measured, math.nan),
    )
    return Reproduced(
        reproduction="marginals-figure-6",
        runs=1,
        rows=(row,),
        notes=(STAND_IN, "one run by messages: no standard error follows from it"),
        outcome=outcome,
    )


def _tests_by_messages(parameters: Tests, context: Context) -> Reproduced:
    records, outcome, estimate = _by_messages(parameters.n, parameters.epsilon, context)
    return Reproduced(
        reproduction="marginals-figure-7",
        runs=1,
        rows=tuple(_test_rows("InpHT", _cells(records), [statistics(estimate)])),
        notes=(
            STAND_IN,
            *_test_notes(),
            "one run by messages: no standard error follows from it",
        ),
        outcome=outcome,
    )


def _by_messages(
    n: int, epsilon: float, context: Context
) -> tuple[Records, Outcome, MarginalEstimate]:
    """Pairs by InpHT."""
    records = taxi(n, seed=context.seed)
    variant = InpHT(survey=records.survey, k=2, epsilon=epsilon)
    outcome = context.simulate(variant, records, parties=min(PARTIES, n))
    return records, outcome, outcome.estimate_as(MarginalEstimate)


def _cells(records: Records) -> Counts:
    """How many records are in every cell."""
    return np.bincount(record_cells(records.codes), minlength=2**D).astype(np.int64)


SCENARIOS = (
    Scenario(
        name="marginals-figure-6",
        summary="Marginal release, Figure 6: mean total variation by epsilon, six methods.",
        parameters=Errors,
        run=figure_6,
    ),
    Scenario(
        name="marginals-figure-7",
        summary="Marginal release, Figure 7: chi-squared statistics of pairs, 256K trips.",
        parameters=Tests,
        run=figure_7,
    ),
)
