"""Tables I and II of the first paper: the relative error of RR-Clusters on Adult and on Adult6.

Domingo-Ferrer and Soria-Comas, Multi-Dimensional Randomized Response, section 6.5.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from protocol.estimators.joint import Block
from protocol.randomizers import KeepUniform
from protocol.surveys.survey import Survey
from protocol.variants.clusters.clustering import Clusters, matched_blocks
from scenarios.errors import UsageError
from scenarios.reproductions.driver import scenarios_of
from scenarios.reproductions.experiment import Asked, Experiment, Found, Reading, Sample, grid
from scenarios.reproductions.rr.queries import evaluate
from scenarios.reproductions.rr.shared import (
    MEDIAN_NOTE,
    PARTIES,
    Learnt,
    Project,
    cluster_tables,
    described,
    formed,
    pair_tables,
    population_of,
    product_of_blocks,
    repeated,
    run_clusters,
    tables_of,
)
from scenarios.running.reproduction import Picture

COVERAGE = 0.1
"""The share of a pair's combinations that a set has."""

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


def _errors(asked: Asked[Parameters], copies: int) -> Sample:
    """The relative errors of queries, each of a run of its own; by messages all of one run."""
    population, cell, own = population_of(asked.data, copies), asked.cell, asked.parameters
    survey, generator, loosely = population.survey, asked.generator(), False
    if asked.live:
        if asked.reading == "reconstruction":
            raise UsageError("parameter 'reading' = reconstruction: those matrices are not sent")
        joint = run_clusters(
            asked,
            population,
            tv=cell["tv"],
            td=cell["td"],
            learnt=own.dependence,
            parties=own.parties,
        )
        clusters = tuple(block.attributes for block in joint.blocks)
        printed = asked.reading == "printed"
        estimated = repeated(product_of_blocks(joint, own.project) if printed else tables_of(joint))
    else:
        loosely = asked.reading == "reconstruction"
        clusters = formed(asked, tv=cell["tv"], td=cell["td"], copies=copies, learnt=own.dependence)
        blocks = (printed_blocks if loosely else matched_blocks)(survey, clusters, p=cell["p"])
        if asked.reading == "corrected":
            estimated = pair_tables(population, blocks, generator=generator)
        else:
            estimated = cluster_tables(population, blocks, project=own.project, generator=generator)
    errors = evaluate(
        survey.sizes,
        population.table,
        estimated,
        sigma=COVERAGE,
        runs=asked.runs,
        generator=generator,
        loosely=loosely,
    ).relative
    drawn = errors[np.newaxis] if asked.live else errors
    return Sample.of({"": drawn}, remark=f"clusters {described(clusters)}")


def printed_blocks(survey: Survey, clusters: Clusters, *, p: float) -> tuple[Block, ...]:
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

SCENARIOS = scenarios_of(
    *(
        Experiment(
            name=f"rr-table-{number}",
            summary=f"Multi-Dimensional RR, Table {'I' * number}: relative error of RR-Clusters on "
            f"{whom}.",
            cells=CELLS,
            measure=functools.partial(_errors, copies=copies),
            live=True,
            live_cell={"p": 0.7},
            runs=1000,
            parameters=Parameters,
            readings=READINGS,
            statistic="median",
            notes=NOTES,
            observed=_observed,
            picture=PICTURE,
        )
        for number, whom, copies in ((1, "Adult", 1), (2, "Adult x 6", 6))
    )
)
