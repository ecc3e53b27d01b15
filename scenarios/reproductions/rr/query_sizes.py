"""Count queries on two, three and four attributes, of every method, RR-Joint and Kronecker too.

Domingo-Ferrer and Soria-Comas, Multi-Dimensional Randomized Response, section 6.5, which says that
sets of more attributes do not change its results, and 6.2, which leaves out RR-Joint.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from protocol.crypto.randomness import Streams
from protocol.estimators.calibration.adjustment import AdjustedEstimate
from protocol.estimators.joint import JointEstimate
from protocol.randomizers.exact import Floats
from protocol.variants.clusters.clustering import Clusters, cluster, matched_blocks
from scenarios.reproductions.driver import scenarios_of
from scenarios.reproductions.experiment import Asked, Experiment, Found, Nothing, Sample, grid
from scenarios.reproductions.laws import reported_counts
from scenarios.reproductions.rr.queries import draw_sets, errors_of, set_size
from scenarios.reproductions.rr.shared import (
    ADJUSTED,
    CLUSTERS,
    INDEPENDENT,
    RANDOMIZED,
    Population,
    learn,
    population_of,
    report,
    single_blocks,
)
from scenarios.running.reproduction import Picture

JOINT = "RR-Joint"
KRONECKER = "Kronecker"
SIGMAS = (0.1, 0.3, 0.5, 0.9)
QUESTIONS = 10
"""How many sets of attributes a run is asked about, with one set of cells per coverage."""
TV, TD = 50, 0.1

Names = tuple[str, ...]


def _queries(asked: Asked[Nothing]) -> list[Sample]:
    """The relative errors of all methods in whole runs, each asked the same questions."""
    population = population_of(asked.data)
    survey, p, ways = population.survey, asked.cell["p"], asked.cell["attributes"]
    generator = asked.generator()
    clusters = cluster(learn(population, p, "exact", 0), survey, tv=TV, td=TD)
    found: dict[tuple[str, float], list[list[float]]] = {}
    for number in range(asked.runs):
        name = f"queries, p {p}, {ways}, piece {asked.seeds[-1]}, run {number}"
        methods = _methods(population, clusters, p, Streams.of_seed(asked.seed), name, generator)
        errors: dict[tuple[str, float], list[float]] = {}
        for _ in range(QUESTIONS):
            places = np.sort(generator.permutation(len(survey.names))[:ways])
            names = tuple(survey.names[place] for place in places.tolist())
            true = population.counts(names).reshape(-1)
            tables = {method: table(names).reshape(-1) for method, table in methods.items()}
            for sigma in SIGMAS:
                sets = draw_sets(true.size, set_size(true.size, sigma), 1, generator)
                for method, table in tables.items():
                    relative = errors_of(sets, true=true, estimated=table).relative
                    errors.setdefault((method, sigma), []).append(float(relative[0]))
        for key, values in errors.items():
            found.setdefault(key, []).append(values)
    return [
        Sample(drawn={"": np.array(values)}, settings={"method": method, "sigma": sigma})
        for (method, sigma), values in found.items()
    ]


def _methods(
    population: Population,
    clusters: Clusters,
    p: float,
    streams: Streams,
    name: str,
    generator: np.random.Generator,
) -> Mapping[str, Callable[[Names], Floats]]:
    """Each method's estimated counts of some attributes, from one run of its own reports."""
    records, survey, n = population.records, population.survey, population.n
    stream = streams.stream("all", name)
    alone = report(records, single_blocks(survey, p), stream.derive("alone"))
    together = report(records, matched_blocks(survey, clusters, p=p), stream.derive("together"))
    [whole] = matched_blocks(survey, [survey.names], p=p)
    keep = whole.randomizer.uniform_keep or 0.0
    adjusted = {one: AdjustedEstimate.of(one) for one in (alone, together)}

    def joint(names: Names) -> Floats:
        # A marginal of a keep mechanism keeps with the same probability.
        true = population.counts(names)
        reports = reported_counts(true.reshape(-1), keep, generator, runs=1)[0]
        return n * _clipped((reports / n - (1 - keep) / true.size) / keep)

    return {
        RANDOMIZED: lambda names: alone.counts.table(survey.axes(names)).astype(np.float64),
        INDEPENDENT: lambda names: n * _product(alone, names),
        INDEPENDENT + ADJUSTED: lambda names: n * adjusted[alone].table(*names).values,
        CLUSTERS: lambda names: n * _product(together, names),
        CLUSTERS + ADJUSTED: lambda names: n * adjusted[together].table(*names).values,
        KRONECKER: lambda names: n * alone.table(*names, projection="clip").values,
        JOINT: joint,
    }


def _clipped(raw: Floats) -> Floats:
    kept: Floats = np.maximum(raw, 0.0)
    kept /= kept.sum()
    return kept


def _product(estimate: JointEstimate, names: Names) -> Floats:
    """The product of the blocks' own tables, each clipped as a whole, then summed (6.4)."""
    found, order = np.ones(()), list[str]()
    for block in estimate.blocks:
        asked = tuple(name for name in block.attributes if name in names)
        if asked:
            table = estimate.table(*block.attributes, projection="clip").values
            others = tuple(at for at, name in enumerate(block.attributes) if name not in asked)
            found = np.multiply.outer(found, table.sum(axis=others))
            order += asked
    return found.transpose([order.index(name) for name in names])


def _said(found: Found[Nothing]) -> list[str]:
    notes = []
    for method in (INDEPENDENT, CLUSTERS, CLUSTERS + ADJUSTED, KRONECKER, JOINT):
        errors = [found.value(method=method, p=0.7, sigma=0.1, attributes=m) for m in (2, 3, 4)]
        shown = ", ".join(f"{error:.3f}" for error in errors)
        notes.append(f"p = 0.7, sigma = 0.1, on 2, 3 and 4 attributes: {method} {shown}")
    return notes


EXPERIMENTS = (
    Experiment(
        paper="MDRR",
        item="Section 6.5, queries on more attributes",
        name="rr-query-sizes",
        summary="Multi-Dimensional RR, 6.5: relative errors of queries on 2, 3 and 4 attributes.",
        cells=grid(attributes=(2, 3, 4), p=(0.1, 0.3, 0.5, 0.7)),
        law=_queries,
        runs=40,
        at_once=1,
        statistic="median",
        notes=(
            f"clusters of exact dependences with T_v = {TV} and T_d = {TD}; Kronecker is the "
            "estimate of section 2 with the product of the attributes' matrices, for any set of "
            "attributes, from the reports of RR-Independent; RR-Joint randomizes all eight as one "
            "at the same epsilon, its marginals by their law, clipped last",
        ),
        observed=_said,
        picture=Picture(
            x="attributes",
            by=("p", "method"),
            title="Errors of queries on two, three and four attributes",
            names={"": "relative error", "attributes": "attributes of a set"},
        ),
    ),
)
SCENARIOS = scenarios_of(*EXPERIMENTS)
