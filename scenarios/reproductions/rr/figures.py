"""Figures 1 to 3 of the first paper: the factor of the error, and errors against coverage.

Domingo-Ferrer and Soria-Comas, Multi-Dimensional Randomized Response, sections 2.3 and 6.5. The
figures have no numbers printed in them; what the text says about them is in the notes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Annotated, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from protocol.crypto.randomness import Streams
from protocol.estimators.joint import JointEstimate
from protocol.randomizers.exact import Floats
from protocol.surveys.records import Records
from protocol.variants import RRIndependent
from protocol.variants.clusters.clustering import Clusters, cluster, matched_blocks
from scenarios.datasets.adult import adult
from scenarios.report.plots import plot_rows
from scenarios.reproductions.laws import reported_pairs
from scenarios.reproductions.rr.printed_tables import TABLE_1, TV
from scenarios.reproductions.rr.queries import (
    EstimatedTables,
    Pair,
    draw_pairs,
    draw_sets,
    errors_of,
    evaluate,
    median,
    set_size,
)
from scenarios.reproductions.rr.shared import (
    ADJUSTED,
    CLUSTERS,
    INDEPENDENT,
    MEDIAN_NOTE,
    METHODS,
    RANDOMIZED,
    ClusterTables,
    Population,
    adjusted_reports,
    described,
    learn,
    methods_of,
    one_run,
    product_of_blocks,
    repeated,
    report,
    run_clusters,
    single_blocks,
)
from scenarios.running.reproduction import Reproduced, Row, Runs, refuse_messages
from scenarios.running.scenario import Context, Scenario

ALPHA = 0.05
"""The confidence of Figure 1."""

CATEGORIES = (1, 2, 3, 5, 10, 30, 100, 300, 1_000, 10_000, 100_000, 1_000_000, 1_814_400)
"""Values of r for Figure 1; the last is Adult's."""

SIGMAS = tuple(round(0.1 * tenth, 1) for tenth in range(1, 10))
"""The coverages of Figures 2 and 3."""

FIGURE_2_P = 0.7
FIGURE_3_P = (0.1, 0.3, 0.5, 0.7)

QUESTIONS = 10
"""How many pairs each run of Figure 3 asks about, with one set per coverage."""


class Exact(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What can be set for Figure 1, in which nothing is drawn."""

    runs: Runs = 1
    alpha: Annotated[float, Meta(gt=0, lt=1, description="confidence")] = ALPHA


class Figure2(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What can be set for Figure 2."""

    runs: Runs = 1000


class Figure3(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What can be set for Figure 3.

    Every run randomizes and adjusts all records, so there are fewer than the paper's 1,000; each
    asks ten questions per coverage, where the paper asks one.
    """

    runs: Runs = 100


def root_b(r: int, alpha: float) -> float:
    """The factor ``sqrt(B)`` of Equations 5 and 6: B is the upper alpha/r quantile of chi2(1)."""
    # Imported here: scenarios are listed without it.
    from scipy.special import chdtri

    return math.sqrt(float(chdtri(1.0, alpha / r)))


def figure_1(parameters: Exact, context: Context) -> Reproduced:
    """sqrt(B) against the number of categories."""
    refuse_messages("rr-figure-1", context.by_messages)
    factors = {r: root_b(r, parameters.alpha) for r in CATEGORIES}
    rows = tuple(
        Row(settings={"r": r, "alpha": parameters.alpha}, measured=factor)
        for r, factor in factors.items()
    )
    above = next((r for r, factor in factors.items() if factor > 2), None)
    context.progress(len(rows), len(rows))
    return Reproduced(
        reproduction="rr-figure-1",
        runs=parameters.runs,
        rows=rows,
        notes=(
            "exact: nothing is drawn",
            "the text (3.2) reads off that sqrt(B), a relative error, is above 200 %: of the r "
            f"listed it is from {above} on",
            "Equations 5 and 6 bound the error of lambda; that of pi is up to 1/a times as large",
        ),
        plot=plot_rows(rows, x="r", label="sqrt(B)", title="rr-figure-1"),
    )


def figure_2(parameters: Figure2, context: Context) -> Reproduced:
    """Absolute and relative error of Randomized and RR-Independent at p = 0.7.

    By messages, one run of RR-Independent with live actors is asked about many sets.
    """
    population = Population(adult(context.data))
    outcome = None
    if context.by_messages:
        variant = RRIndependent.with_keep(population.survey, FIGURE_2_P)
        outcome = context.simulate(variant, population.records)
    heard = None if outcome is None else methods_of(outcome.estimate_as(JointEstimate))
    rows: list[Row] = []
    for method in (RANDOMIZED, INDEPENDENT):
        for sigma in SIGMAS:
            generator = np.random.default_rng((context.seed, 2, len(rows)))
            estimated = (
                _drawn(population, method, generator) if heard is None else repeated(heard[method])
            )
            errors = evaluate(
                population.survey.sizes,
                population.pair,
                estimated,
                sigma=sigma,
                runs=parameters.runs,
                generator=generator,
            )
            found = {"absolute error": errors.absolute, "relative error": errors.relative}
            medians = {name: median(values) for name, values in found.items()}
            rows.append(
                Row(
                    settings={"p": FIGURE_2_P, "method": method, "sigma": sigma},
                    measured={name: one.value for name, one in medians.items()},
                    # The questions that are put to one run have its errors in common.
                    standard_error={name: one.standard_error for name, one in medians.items()}
                    if outcome is None
                    else None,
                )
            )
            context.progress(len(rows), 2 * len(SIGMAS))
    return Reproduced(
        reproduction="rr-figure-2",
        runs=parameters.runs if outcome is None else 1,
        rows=tuple(rows),
        notes=(MEDIAN_NOTE if outcome is None else one_run(parameters.runs), *_peaks(rows)),
        plot=plot_rows(rows, x="sigma", by=("method",), title="rr-figure-2"),
        outcome=outcome,
    )


def _drawn(population: Population, method: str, generator: np.random.Generator) -> EstimatedTables:
    """Tables of one method at Figure 2's p, reports drawn by their law."""
    blocks = single_blocks(population.survey, FIGURE_2_P)
    if method == INDEPENDENT:
        return ClusterTables(population, blocks, project="first", generator=generator)

    def randomized(pair: Pair, runs: int) -> Floats:
        keeps = (FIGURE_2_P, FIGURE_2_P)
        return reported_pairs(population.pair(pair), keeps, generator, runs=runs).astype(np.float64)

    return randomized


def _peaks(rows: Sequence[Row]) -> list[str]:
    """What the text says about Figure 2, beside what was measured."""
    found = {
        (row.settings["method"], row.settings["sigma"]): dict(
            (figure.name, figure.measured) for figure in row.figures()
        )
        for row in rows
    }
    notes = []
    for method in (RANDOMIZED, INDEPENDENT):
        absolute = {sigma: found[method, sigma]["absolute error"] for sigma in SIGMAS}
        notes.append(
            f"the text has the absolute error peak at sigma = 0.5 and be the same at 0.4 and 0.6; "
            f"measured for {method}: the peak at {max(absolute, key=absolute.__getitem__)}, "
            f"{absolute[0.4]:.0f} and {absolute[0.6]:.0f}"
        )
    return notes


def best_thresholds(p: float) -> tuple[int, float]:
    """T_v and T_d of the lowest printed error of this p in Table I, which Figure 3 uses."""
    errors = {
        (tv, td): error
        for (printed_p, td), figures in TABLE_1.items()
        if printed_p == p
        for tv, error in zip(TV, figures, strict=True)
    }
    return min(errors, key=errors.__getitem__)


def figure_3(parameters: Figure3, context: Context) -> Reproduced:
    """Relative errors of all methods, from whole randomized records.

    By messages, one run of RR-Clusters at p = 0.7 with live actors is asked about many sets.
    """
    if context.by_messages:
        return _figure_3_by_messages(parameters, context)
    population = Population(adult(context.data))
    rows: list[Row] = []
    notes = [MEDIAN_NOTE]
    formed: dict[float, Clusters] = {}
    for p in FIGURE_3_P:
        tv, td = best_thresholds(p)
        learned = learn(population, p, "exact", context.seed)
        formed[p] = cluster(learned, population.survey, tv=tv, td=td)
    runs = [
        run
        for p, clusters in formed.items()
        for run in _asked(population, clusters, p, parameters.runs, context.seed)
    ]
    errors = iter(context.map(errors_of_run, runs))
    for p, clusters in formed.items():
        tv, td = best_thresholds(p)
        of_p = np.stack([next(errors) for _ in range(parameters.runs)], axis=2)
        for method, by_sigma in zip(METHODS, of_p, strict=True):
            for sigma, values in zip(SIGMAS, by_sigma, strict=True):
                found = median(values)
                rows.append(
                    Row(
                        settings={"p": p, "method": method, "sigma": sigma},
                        measured=found.value,
                        standard_error=found.standard_error,
                    )
                )
        notes.append(
            f"p = {p}: T_v = {tv} and T_d = {td}, the best of the printed Table I, give the "
            f"clusters {described(clusters)}"
        )
        notes.append(f"p = {p}, sigma = 0.1, from the best method to the worst: {_ranked(rows, p)}")
    notes.append(
        "the text has RR-Independent best for p of 0.1 and 0.3, clusters and adjustment better for "
        "larger p at sigma below 0.3, and little difference from there on"
    )
    return Reproduced(
        reproduction="rr-figure-3",
        runs=parameters.runs,
        rows=tuple(rows),
        notes=tuple(notes),
        plot=plot_rows(
            rows, x="sigma", by=("p", "method"), label="relative error", title="rr-figure-3"
        ),
    )


def _figure_3_by_messages(parameters: Figure3, context: Context) -> Reproduced:
    p = FIGURE_3_P[-1]
    tv, td = best_thresholds(p)
    population = Population(adult(context.data))
    outcome, joint = run_clusters(population, context, p=p, tv=tv, td=td)
    questions = parameters.runs * QUESTIONS
    methods = {CLUSTERS: product_of_blocks(joint), CLUSTERS + ADJUSTED: adjusted_reports(joint)}
    rows: list[Row] = []
    for method, tables in methods.items():
        for sigma in SIGMAS:
            errors = evaluate(
                population.survey.sizes,
                population.pair,
                repeated(tables),
                sigma=sigma,
                runs=questions,
                generator=np.random.default_rng((context.seed, 3, len(rows))),
            )
            settings = {"p": p, "method": method, "sigma": sigma}
            rows.append(Row(settings=settings, measured=median(errors.relative).value))
    return Reproduced(
        reproduction="rr-figure-3",
        runs=1,
        rows=tuple(rows),
        notes=(one_run(questions), f"T_v = {tv} and T_d = {td}, the other methods are not run"),
        plot=plot_rows(
            rows, x="sigma", by=("method",), label="relative error", title="rr-figure-3"
        ),
        outcome=outcome,
    )


class Question(NamedTuple):
    """A pair of attributes, the true counts of its combinations, and a set for every coverage."""

    pair: Pair
    true: NDArray[np.int64]
    sets: NDArray[np.bool_]


class Run(NamedTuple):
    """One run of all methods at one p, by its number, and what is asked of it."""

    records: Records
    clusters: Clusters
    p: float
    seed: int
    number: int
    questions: list[Question]


def _asked(
    population: Population, clusters: Clusters, p: float, runs: int, seed: int
) -> Iterator[Run]:
    """All runs at one p."""
    records = population.records
    generator = np.random.default_rng((seed, 3, round(1000 * p)))
    for number in range(runs):
        questions = []
        for first, second in draw_pairs(len(records.survey.names), QUESTIONS, generator).tolist():
            true = population.pair((first, second)).reshape(-1)
            sets = np.concatenate(
                [draw_sets(true.size, set_size(true.size, s), 1, generator) for s in SIGMAS]
            )
            questions.append(Question((first, second), true, sets))
        yield Run(records, clusters, p, seed, number, questions)


def errors_of_run(run: Run) -> Floats:
    """The relative error of every method, coverage and question; of this shape."""
    records, clusters, p, seed, number, questions = run
    survey = records.survey
    stream = Streams.of_seed(seed).stream("all", f"figure 3, p {p}, run {number}")
    methods = methods_of(
        report(records, single_blocks(survey, p), stream.derive("alone")),
        report(records, matched_blocks(survey, clusters, p=p), stream.derive("together")),
    )
    found = []
    for pair, true, sets in questions:
        estimated = np.stack([methods[m](pair).reshape(-1) for m in METHODS])
        found.append(errors_of(sets, true=true, estimated=estimated[:, np.newaxis]).relative)
    return np.stack(found, axis=2)


def _ranked(rows: Sequence[Row], p: float) -> str:
    errors = {
        row.settings["method"]: figure.measured
        for row in rows
        if row.settings["p"] == p and row.settings["sigma"] == SIGMAS[0]
        for figure in row.figures()
    }
    best = sorted(errors, key=errors.__getitem__)
    return ", ".join(f"{method} {errors[method]:.3f}" for method in best)


SCENARIOS = (
    Scenario(
        name="rr-figure-1",
        summary="Multi-Dimensional RR, Figure 1: the factor sqrt(B) against the categories.",
        parameters=Exact,
        run=figure_1,
    ),
    Scenario(
        name="rr-figure-2",
        summary="Multi-Dimensional RR, Figure 2: errors of RR-Independent and of raw reports.",
        parameters=Figure2,
        run=figure_2,
    ),
    Scenario(
        name="rr-figure-3",
        summary="Multi-Dimensional RR, Figure 3: relative errors with clusters and adjustment.",
        parameters=Figure3,
        run=figure_3,
    ),
)
