"""Figures 1 to 3 of the first paper: the factor of the error, and errors against coverage.

Domingo-Ferrer and Soria-Comas, Multi-Dimensional Randomized Response, sections 2.3 and 6.5. The
figures have no numbers printed in them; what the text says about them is in the notes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from protocol.crypto.randomness import Streams
from protocol.estimators.joint import JointEstimate
from protocol.randomizers.exact import Floats
from protocol.variants import RRIndependent
from protocol.variants.clusters.clustering import Clusters, cluster, matched_blocks
from scenarios.reproductions.driver import scenarios_of
from scenarios.reproductions.experiment import Asked, Experiment, Found, Nothing, Sample, grid
from scenarios.reproductions.laws import reported_pairs
from scenarios.reproductions.printed import printed_of
from scenarios.reproductions.rr.queries import (
    Errors,
    EstimatedTables,
    Pair,
    draw_pairs,
    draw_sets,
    errors_of,
    evaluate,
    set_size,
)
from scenarios.reproductions.rr.shared import (
    ADJUSTED,
    CLUSTERS,
    INDEPENDENT,
    MEDIAN_NOTE,
    METHODS,
    PARTIES,
    RANDOMIZED,
    Tables,
    adjusted_reports,
    cluster_tables,
    described,
    learn,
    methods_of,
    population_of,
    product_of_blocks,
    repeated,
    report,
    run_clusters,
    single_blocks,
)
from scenarios.running.outcomes import Outcome
from scenarios.running.reproduction import Picture
from scenarios.running.scenario import Context

SIGMAS = tuple(round(0.1 * tenth, 1) for tenth in range(1, 10))
"""The coverages of Figures 2 and 3."""

QUESTIONS = 10
"""How many pairs each run of Figure 3 asks about, with one set per coverage."""

# Figure 1


class Confidence(msgspec.Struct, frozen=True, kw_only=True):
    """The parameter of Figure 1."""

    alpha: Annotated[float, Meta(gt=0, lt=1, description="confidence")] = 0.05


def root_b(r: int, alpha: float) -> float:
    """The factor ``sqrt(B)`` of Equations 5 and 6: B is the upper alpha/r quantile of chi2(1)."""
    # Imported here: scenarios are listed without it.
    from scipy.special import chdtri

    return math.sqrt(float(chdtri(1.0, alpha / r)))


def _factor(asked: Asked[Confidence]) -> list[Sample]:
    alpha = asked.parameters.alpha
    return [Sample(exact={"": root_b(asked.cell["r"], alpha)}, settings={"alpha": alpha})]


def _above(found: Found[Confidence]) -> list[str]:
    above = next((row.settings["r"] for row in found.rows if row.figures()[0].measured > 2), None)
    return [
        "the text (3.2) reads off that sqrt(B), a relative error, is above 200 %: of the r "
        f"listed it is from {above} on"
    ]


# Figure 2


def _independent(asked: Asked[Nothing]) -> list[Sample]:
    """Both errors of both methods at every coverage, from reports drawn by their law."""
    population, generator, p = population_of(asked.data), asked.generator(), asked.cell["p"]

    def randomized(pair: Pair, runs: int) -> Floats:
        drawn = reported_pairs(population.pair(pair), (p, p), generator, runs=runs)
        return drawn.astype(np.float64)

    blocks = single_blocks(population.survey, p)
    return _at_coverages(
        asked,
        {
            RANDOMIZED: randomized,
            INDEPENDENT: cluster_tables(population, blocks, project="first", generator=generator),
        },
        generator,
    )


def _independent_live(asked: Asked[Nothing], context: Context) -> tuple[Outcome, list[Sample]]:
    population = population_of(asked.data)
    variant = RRIndependent.with_keep(population.survey, asked.cell["p"])
    records = population.records
    outcome = context.simulate(variant, records, parties=min(PARTIES, len(records)))
    heard = methods_of(outcome.estimate_as(JointEstimate))
    samples = _at_coverages(asked, _same(heard), asked.generator())
    return outcome, [_of_one_run(sample) for sample in samples]


def _same(methods: Mapping[str, Tables]) -> dict[str, EstimatedTables]:
    return {name: repeated(tables) for name, tables in methods.items()}


def _of_one_run(sample: Sample) -> Sample:
    """All questions were put to one run."""
    drawn = {name: values[np.newaxis] for name, values in sample.drawn.items()}
    return msgspec.structs.replace(sample, drawn=drawn)


def _at_coverages(
    asked: Asked[Nothing], methods: Mapping[str, EstimatedTables], generator: np.random.Generator
) -> list[Sample]:
    """A sample for every method and coverage, of one query for each of the runs."""
    population = population_of(asked.data)
    found = []
    for method, estimated in methods.items():
        for sigma in SIGMAS:
            errors = evaluate(
                population.survey.sizes,
                population.pair,
                estimated,
                sigma=sigma,
                runs=asked.runs,
                generator=generator,
            )
            drawn = {"absolute error": errors.absolute, "relative error": errors.relative}
            found.append(Sample(drawn=drawn, settings={"method": method, "sigma": sigma}))
    return found


def _peaks(found: Found[Nothing]) -> list[str]:
    """What the text says about Figure 2, beside what was measured."""
    notes = []
    for method in (RANDOMIZED, INDEPENDENT):
        absolute = {
            sigma: found.value("absolute error", method=method, sigma=sigma) for sigma in SIGMAS
        }
        notes.append(
            f"the text has the absolute error peak at sigma = 0.5 and be the same at 0.4 and 0.6; "
            f"measured for {method}: the peak at {max(absolute, key=absolute.__getitem__)}, "
            f"{absolute[0.4]:.0f} and {absolute[0.6]:.0f}"
        )
    return notes


# Figure 3


def best_thresholds(p: float) -> tuple[int, float]:
    """T_v and T_d of the lowest printed error of this p in Table I, which Figure 3 uses."""
    known = printed_of("MDRR", "rr-table-1")
    assert known is not None
    _, _, td, tv = min(
        (row[3], place, *row[1:3]) for place, row in enumerate(known.rows) if row[0] == p
    )
    return tv, td


@functools.lru_cache(maxsize=8)
def _formed(data: Path | str | None, p: float) -> Clusters:
    population, (tv, td) = population_of(data), best_thresholds(p)
    return cluster(learn(population, p, "exact", 0), population.survey, tv=tv, td=td)


def _methods(asked: Asked[Nothing]) -> list[Sample]:
    """The relative errors of all methods in whole runs, each asked the same questions."""
    p, population = asked.cell["p"], population_of(asked.data)
    records, survey = population.records, population.survey
    generator, runs = asked.generator(), []
    for number in range(asked.runs):
        name = f"figure 3, p {p}, piece {asked.seeds[-1]}, run {number}"
        stream = Streams.of_seed(asked.seed).stream("all", name)
        clusters = matched_blocks(survey, _formed(asked.data, p), p=p)
        methods = methods_of(
            report(records, single_blocks(survey, p), stream.derive("alone")),
            report(records, clusters, stream.derive("together")),
        )
        questions = []
        for pair, true, sets in _questions(asked, QUESTIONS, generator):
            tables = np.stack([methods[method](pair).reshape(-1) for method in METHODS])
            errors: Errors = errors_of(sets, true=true, estimated=tables[:, np.newaxis])
            questions.append(errors.relative)
        runs.append(np.stack(questions, axis=2))
    found = np.stack(runs)
    return [
        Sample(drawn={"": found[:, place, axis]}, settings={"method": method, "sigma": sigma})
        for place, method in enumerate(METHODS)
        for axis, sigma in enumerate(SIGMAS)
    ]


def _questions(
    asked: Asked[Nothing], count: int, generator: np.random.Generator
) -> Iterator[tuple[Pair, NDArray[np.int64], NDArray[np.bool_]]]:
    """Pairs of attributes, the true counts of their combinations, and a set for every coverage."""
    population = population_of(asked.data)
    for first, second in draw_pairs(len(population.survey.names), count, generator).tolist():
        true = population.pair((first, second)).reshape(-1)
        sets = [draw_sets(true.size, set_size(true.size, s), 1, generator) for s in SIGMAS]
        yield (first, second), true, np.concatenate(sets)


def _methods_live(asked: Asked[Nothing], context: Context) -> tuple[Outcome, list[Sample]]:
    """One run of RR-Clusters, asked ten questions for each run that there would be."""
    p, population = asked.cell["p"], population_of(asked.data)
    tv, td = best_thresholds(p)
    outcome, joint = run_clusters(population, context, p=p, tv=tv, td=td)
    methods = {CLUSTERS: product_of_blocks(joint), CLUSTERS + ADJUSTED: adjusted_reports(joint)}
    found: dict[tuple[str, float], list[Floats]] = {}
    for pair, true, sets in _questions(asked, asked.runs * QUESTIONS, asked.generator()):
        for method, tables in methods.items():
            errors = errors_of(sets, true=true, estimated=tables(pair).reshape(-1)).relative
            for sigma, error in zip(SIGMAS, errors, strict=True):
                found.setdefault((method, sigma), []).append(error)
    return outcome, [
        Sample(drawn={"": np.array([errors])}, settings={"method": method, "sigma": sigma})
        for (method, sigma), errors in found.items()
    ]


def _ranked(found: Found[Nothing]) -> list[str]:
    notes = []
    for p in dict.fromkeys(row.settings["p"] for row in found.rows):
        tv, td = best_thresholds(p)
        notes.append(
            f"p = {p}: T_v = {tv} and T_d = {td}, the best of the printed Table I, give the "
            f"clusters {described(_formed(found.asked.data, p))}"
        )
        errors = {
            row.settings["method"]: row.figures()[0].measured
            for row in found.rows
            if (row.settings["p"], row.settings["sigma"]) == (p, SIGMAS[0])
        }
        best = sorted(errors, key=errors.__getitem__)
        ranked = ", ".join(f"{method} {errors[method]:.3f}" for method in best)
        notes.append(f"p = {p}, sigma = 0.1, from the best method to the worst: {ranked}")
    return notes


_COVERAGE = {"sigma": "coverage sigma", "": "relative error", "p": "keep probability p"}

EXPERIMENTS = (
    Experiment(
        paper="MDRR",
        item="Figure 1",
        name="rr-figure-1",
        summary="Multi-Dimensional RR, Figure 1: the factor sqrt(B) against the categories.",
        cells=grid(r=(1, 2, 3, 5, 10, 30, 100, 300, 1_000, 10_000, 100_000, 1_000_000, 1_814_400)),
        law=_factor,
        parameters=Confidence,
        notes=(
            "exact: nothing is drawn",
            "Equations 5 and 6 bound the error of lambda; that of pi is up to 1/a times as large",
        ),
        observed=_above,
        picture=Picture(
            title="The factor of the error grows slowly with the categories",
            x="r",
            computed=("",),
            names={"": "sqrt(B)", "r": "categories r"},
        ),
    ),
    Experiment(
        paper="MDRR",
        item="Figure 2",
        name="rr-figure-2",
        summary="Multi-Dimensional RR, Figure 2: errors of RR-Independent and of raw reports.",
        cells=grid(p=(0.7,)),
        law=_independent,
        live=_independent_live,
        runs=1000,
        statistic="median",
        notes=(MEDIAN_NOTE,),
        observed=_peaks,
        picture=Picture(
            title="RR-Independent is nearer to the true counts than the raw reports",
            x="sigma",
            by=("method",),
            names=_COVERAGE,
        ),
    ),
    Experiment(
        paper="MDRR",
        item="Figure 3",
        name="rr-figure-3",
        summary="Multi-Dimensional RR, Figure 3: relative errors with clusters and adjustment.",
        cells=grid(p=(0.1, 0.3, 0.5, 0.7)),
        law=_methods,
        live=_methods_live,
        live_cell={"p": 0.7},
        runs=100,
        at_once=1,
        statistic="median",
        notes=(
            MEDIAN_NOTE,
            f"every run randomizes and adjusts all records and asks {QUESTIONS} questions per "
            "coverage; the paper has 1,000 runs of one question",
            "the text has RR-Independent best for p of 0.1 and 0.3, clusters and adjustment better "
            "for larger p at sigma below 0.3, and little difference from there on",
        ),
        observed=_ranked,
        picture=Picture(
            title="Clusters and adjustment help at small coverages where p is large",
            x="sigma",
            by=("p", "method"),
            names=_COVERAGE,
        ),
    ),
)
SCENARIOS = scenarios_of(*EXPERIMENTS)
