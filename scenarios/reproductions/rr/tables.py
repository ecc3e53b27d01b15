"""Tables I and II of the first paper: the relative error of RR-Clusters on Adult and on Adult6.

Domingo-Ferrer and Soria-Comas, Multi-Dimensional Randomized Response, section 6.5.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from protocol.estimators.dependence.dependence import Dependences
from protocol.estimators.joint import Block
from protocol.randomizers import KeepUniform
from protocol.randomizers.exact import Floats
from protocol.surveys.survey import Survey
from protocol.variants.clusters.clustering import Clusters, cluster, matched_blocks
from scenarios.errors import UsageError
from scenarios.reproductions.driver import scenarios_of
from scenarios.reproductions.experiment import (
    Asked,
    Experiment,
    Found,
    Reading,
    Sample,
    grid,
)
from scenarios.reproductions.rr.queries import EstimatedTables, evaluate
from scenarios.reproductions.rr.shared import (
    MEDIAN_NOTE,
    PARTIES,
    Learnt,
    Project,
    cluster_tables,
    described,
    learn,
    pair_tables,
    pairs_of,
    population_of,
    product_of_blocks,
    repeated,
    run_clusters,
)
from scenarios.running.outcomes import Outcome
from scenarios.running.reproduction import Picture
from scenarios.running.scenario import Context

COVERAGE = 0.1
"""The share of a pair's combinations that a set has."""

COPIES: Mapping[str, int] = {"rr-table-1": 1, "rr-table-2": 6}

CELLS = grid(p=(0.1, 0.3, 0.5, 0.7), td=(0.1, 0.2, 0.3), tv=(50, 100, 300))

READINGS: Mapping[Reading, str] = {
    "printed": "the matrices that 6.3 means, keep else uniform, a cluster's table clipped and then "
    "summed, clusters taken to be independent",
    "corrected": "the same reports, unmixed as a table of the two attributes asked for, whether "
    "they are in one cluster or not, and clipped last",
    "reconstruction": "the rows that 6.3.1 prints, divided by their sum; the keep probability of "
    "a cluster the product of its attributes'; |S| rounded up; attributes drawn with replacement, "
    "and no error where nobody is and nobody is estimated",
}


class Parameters(msgspec.Struct, frozen=True, kw_only=True):
    """The tables' own parameters."""

    project: Annotated[
        Project,
        Meta(description="as printed: clip a cluster's table first, or the marginal asked for"),
    ] = "first"
    dependence: Annotated[
        Learnt, Meta(description="how dependences are learnt: exact, rr, rr-debiased or pair-rr")
    ] = "exact"
    parties: Annotated[
        int, Meta(ge=2, description="by messages: over how many the records are spread")
    ] = PARTIES


@functools.lru_cache(maxsize=8)
def _learned(
    data: Path | str | None, copies: int, p: float, learnt: Learnt, seed: int
) -> Dependences:
    return learn(population_of(data, copies), p, learnt, seed)


def clusters_of(asked: Asked[Parameters], copies: int) -> Clusters:
    """The clusters that a cell's thresholds form."""
    cell, learnt = asked.cell, asked.parameters.dependence
    at = 0.0 if learnt == "exact" else cell["p"]
    dependences = _learned(asked.data, copies, at, learnt, asked.seed)
    survey = population_of(asked.data, copies).survey
    return cluster(dependences, survey, tv=cell["tv"], td=cell["td"])


def _law(asked: Asked[Parameters], copies: int) -> list[Sample]:
    """The relative errors of queries, each of a run of its own."""
    population, p = population_of(asked.data, copies), asked.cell["p"]
    survey, generator = population.survey, asked.generator()
    clusters = clusters_of(asked, copies)
    blocks = matched_blocks(survey, clusters, p=p)
    estimated: EstimatedTables
    if asked.reading == "corrected":
        estimated = pair_tables(population, blocks, generator=generator)
    else:
        if asked.reading == "reconstruction":
            blocks = printed_blocks(survey, clusters, p)
        project = asked.parameters.project
        estimated = cluster_tables(population, blocks, project=project, generator=generator)
    errors = evaluate(
        survey.sizes,
        population.pair,
        estimated,
        sigma=COVERAGE,
        runs=asked.runs,
        generator=generator,
        loosely=asked.reading == "reconstruction",
    )
    return [_sample(errors.relative, clusters)]


def printed_blocks(survey: Survey, clusters: Clusters, p: float) -> tuple[Block, ...]:
    """The rows ``p, (1-p)/r`` that 6.3.1 prints, divided by their sum; of a cluster the product.

    For few categories p is below ``(1-p)/r``, and what divides the estimate is negative: its size
    is taken.
    """
    blocks = []
    for names in clusters:
        sizes = [survey.attribute(name).size for name in names]
        keeps = [(p - (1 - p) / r) / (p + (r - 1) * (1 - p) / r) for r in sizes]
        keep = KeepUniform.with_keep(math.prod(sizes), p=max(abs(math.prod(keeps)), 1e-12))
        blocks.append(Block(names, keep))
    return tuple(blocks)


def _live(asked: Asked[Parameters], context: Context, copies: int) -> tuple[Outcome, list[Sample]]:
    """One run of RR-Clusters, asked as many questions as there would be runs."""
    if asked.reading == "reconstruction":
        raise UsageError("parameter 'reading' = reconstruction: those matrices are not sent")
    population, cell, own = population_of(asked.data, copies), asked.cell, asked.parameters
    outcome, joint = run_clusters(
        population,
        context,
        p=cell["p"],
        tv=cell["tv"],
        td=cell["td"],
        learnt=own.dependence,
        parties=own.parties,
    )
    tables = (
        product_of_blocks(joint, own.project) if asked.reading == "printed" else pairs_of(joint)
    )
    errors = evaluate(
        population.survey.sizes,
        population.pair,
        repeated(tables),
        sigma=COVERAGE,
        runs=asked.runs,
        generator=asked.generator(),
    )
    clusters = tuple(block.attributes for block in joint.blocks)
    return outcome, [_sample(errors.relative[np.newaxis], clusters)]


def _sample(errors: Floats, clusters: Clusters) -> Sample:
    return Sample(drawn={"": errors}, remark=f"clusters {described(clusters)}")


def _observed(found: Found[Parameters]) -> list[str]:
    """Whether T_d made any difference."""
    formed = {(row.settings["tv"], row.remark) for row in found.rows}
    of_td = {row.settings["td"] for row in found.rows}
    if len(of_td) > 1 and len(formed) == len({tv for tv, _ in formed}):
        return ["the clusters are the same for every T_d, so rows of one p and T_v are replicates"]
    return []


NOTES = (
    MEDIAN_NOTE,
    "as printed, the errors at p <= 0.5 are smaller than the paper's: its own matrices give these",
    "the reconstruction was chosen from several hundred readings by how near it comes to the "
    "printed tables, with an rms of 0.13 of the log ratio over the 24 cells of p and T_v: that it "
    "does is no evidence that the paper did this",
)

PICTURE = Picture(
    conditions=f"coverage {COVERAGE:g}, medians of one query in each run",
    x="p",
    by=("td", "tv"),
    names={
        "": "relative error",
        "p": "keep probability p of an attribute",
        "td": "least dependence T_d",
        "tv": "most cells of a cluster T_v",
    },
)

EXPERIMENTS = tuple(
    Experiment(
        paper="MDRR",
        item=item,
        name=name,
        summary=f"Multi-Dimensional RR, {item}: relative error of RR-Clusters on {whom}.",
        cells=CELLS,
        law=functools.partial(_law, copies=COPIES[name]),
        live=functools.partial(_live, copies=COPIES[name]),
        live_cell={"p": 0.7},
        runs=1000,
        parameters=Parameters,
        readings=READINGS,
        statistic="median",
        notes=NOTES,
        observed=_observed,
        picture=PICTURE,
    )
    for item, name, whom in (
        ("Table I", "rr-table-1", "Adult"),
        ("Table II", "rr-table-2", "Adult x 6"),
    )
)
SCENARIOS = scenarios_of(*EXPERIMENTS)
