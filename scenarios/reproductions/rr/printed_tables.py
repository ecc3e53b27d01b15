"""Tables I and II of the first paper: the relative error of RR-Clusters on Adult and on Adult6.

Domingo-Ferrer and Soria-Comas, Multi-Dimensional Randomized Response, section 6.5. The counts of
the reports are drawn from their exact law, so that a thousand runs take seconds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, NamedTuple, TypeAlias

import msgspec
import numpy as np
from msgspec import Meta

from protocol.estimators.dependence.dependence import Dependences
from protocol.variants.clusters.clustering import Clusters, cluster, matched_blocks
from scenarios.datasets.adult import adult
from scenarios.errors import UsageError
from scenarios.report.plots import plot_rows
from scenarios.reproductions.rr.queries import Errors, evaluate, median
from scenarios.reproductions.rr.shared import (
    MEDIAN_NOTE,
    PARTIES,
    ClusterTables,
    Learnt,
    Population,
    Project,
    described,
    learn,
    one_run,
    product_of_blocks,
    repeated,
    run_clusters,
)
from scenarios.running.reproduction import Reproduced, Row, Runs
from scenarios.running.scenario import Context, Scenario

COVERAGE = 0.1
"""The share of a pair's combinations that a set has in Tables I and II."""

DEFAULT_P = 0.7
"""Of the one setting that is run by messages."""

TV = (50, 100, 300)

Printed: TypeAlias = dict[tuple[float, float], tuple[float, float, float]]
"""By p and T_d, the printed relative errors for T_v of 50, 100 and 300."""

TABLE_1: Printed = {
    (0.1, 0.1): (0.335, 0.404, 0.495),
    (0.1, 0.2): (0.357, 0.351, 0.501),
    (0.1, 0.3): (0.285, 0.426, 0.505),
    (0.3, 0.1): (0.335, 0.334, 0.426),
    (0.3, 0.2): (0.262, 0.310, 0.435),
    (0.3, 0.3): (0.199, 0.306, 0.445),
    (0.5, 0.1): (0.094, 0.148, 0.214),
    (0.5, 0.2): (0.107, 0.127, 0.236),
    (0.5, 0.3): (0.116, 0.119, 0.212),
    (0.7, 0.1): (0.069, 0.069, 0.074),
    (0.7, 0.2): (0.070, 0.075, 0.071),
    (0.7, 0.3): (0.070, 0.068, 0.079),
}
TABLE_2: Printed = {
    (0.1, 0.1): (0.189, 0.312, 0.459),
    (0.1, 0.2): (0.173, 0.310, 0.449),
    (0.1, 0.3): (0.183, 0.339, 0.462),
    (0.3, 0.1): (0.149, 0.202, 0.369),
    (0.3, 0.2): (0.171, 0.225, 0.376),
    (0.3, 0.3): (0.178, 0.217, 0.369),
    (0.5, 0.1): (0.080, 0.084, 0.123),
    (0.5, 0.2): (0.082, 0.075, 0.126),
    (0.5, 0.3): (0.083, 0.079, 0.127),
    (0.7, 0.1): (0.064, 0.066, 0.056),
    (0.7, 0.2): (0.064, 0.066, 0.057),
    (0.7, 0.3): (0.065, 0.065, 0.060),
}

PRINTED_NOTE = (
    "the printed medians of 1,000 runs have standard errors of about the same size, which remarks "
    "do not count"
)
REPLICATES_NOTE = (
    "the clusters are the same for every T_d, so the rows of one p and T_v are replicates"
)


class Parameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What can be set."""

    runs: Runs = 1000
    project: Annotated[
        Project,
        Meta(description="clip a cluster's table first, as the paper, or the marginal asked for"),
    ] = "first"
    dependence: Annotated[
        Learnt, Meta(description="how dependences are learnt: exact, rr, rr-debiased or pair-rr")
    ] = "exact"
    p: Annotated[float | None, Meta(description="only the rows of this p")] = None
    td: Annotated[float | None, Meta(description="only the rows of this T_d")] = None
    tv: Annotated[int | None, Meta(description="only the columns of this T_v")] = None
    parties: Annotated[
        int, Meta(ge=2, description="by messages: over how many the records are spread")
    ] = PARTIES


class Setting(NamedTuple):
    """One cell of a table; its place among all of them decides its draws."""

    place: int
    p: float
    td: float
    tv: int
    printed: float


def settings_of(printed: Printed, parameters: Parameters) -> list[Setting]:
    """The settings that the parameters leave.

    Raises:
        UsageError: none.
    """
    every = [
        Setting(place, p, td, tv, error)
        for place, (p, td, tv, error) in enumerate(
            (p, td, tv, error)
            for (p, td), errors in printed.items()
            for tv, error in zip(TV, errors, strict=True)
        )
    ]
    left = every
    for name in ("p", "td", "tv"):
        wanted = getattr(parameters, name)
        if wanted is not None:
            left = [one for one in left if getattr(one, name) == wanted]
        if not left:
            known = ", ".join(map(str, dict.fromkeys(getattr(one, name) for one in every)))
            raise UsageError(f"parameter {name!r} = {wanted}: the table has {known}")
    return left


def _row(one: Setting, errors: Errors, *, by_messages: bool = False) -> Row:
    found = median(errors.relative)
    row = Row(
        settings={"p": one.p, "td": one.td, "tv": one.tv},
        measured=found.value,
        standard_error=math.nan if by_messages else found.standard_error,
        printed=one.printed,
    )
    return row if by_messages else msgspec.structs.replace(row, remark=_remark(one.p, row))


def run_table(
    name: str, printed: Printed, population: Population, parameters: Parameters, context: Context
) -> Reproduced:
    """Every setting of one table that the parameters leave.

    Raises:
        UsageError: they leave none.
    """
    settings = settings_of(printed, parameters)
    rows: list[Row] = []
    formed: dict[tuple[int, Clusters], list[Setting]] = {}
    learned: dict[float, Dependences] = {}
    for one in settings:
        if one.p not in learned:
            learned[one.p] = learn(population, one.p, parameters.dependence, context.seed)
        clusters = cluster(learned[one.p], population.survey, tv=one.tv, td=one.td)
        formed.setdefault((one.tv, clusters), []).append(one)
        # Every setting has draws of its own, whatever was run before it.
        generator = np.random.default_rng((context.seed, population.n, one.place))
        errors = evaluate(
            population.survey.sizes,
            population.pair,
            ClusterTables(
                population,
                matched_blocks(population.survey, clusters, p=one.p),
                project=parameters.project,
                generator=generator,
            ),
            sigma=COVERAGE,
            runs=parameters.runs,
            generator=generator,
        )
        rows.append(_row(one, errors))
        context.progress(len(rows), len(settings))
    return Reproduced(
        reproduction=name,
        runs=parameters.runs,
        rows=tuple(rows),
        notes=(MEDIAN_NOTE, PRINTED_NOTE, *_cluster_notes(formed)),
        plot=plot_rows(rows, x="p", by=("td", "tv"), label="relative error", title=name),
    )


def _cluster_notes(formed: Mapping[tuple[int, Clusters], Sequence[Setting]]) -> list[str]:
    """Which clusters came about, and whether T_d made any difference."""
    same = len(formed) == len({tv for tv, _ in formed})
    varied = len({one.td for settings in formed.values() for one in settings}) > 1
    notes = [REPLICATES_NOTE] if same and varied else []
    for (tv, clusters), settings in formed.items():
        where = "; ".join(f"p = {one.p}, T_d = {one.td}" for one in settings)
        notes.append(
            f"T_v = {tv}, {'every p and T_d' if same else where}: clusters {described(clusters)}"
        )
    return notes


def run_by_messages(
    name: str, printed: Printed, population: Population, parameters: Parameters, context: Context
) -> Reproduced:
    """One setting once, through live actors; by default the first of p = 0.7."""
    settings = settings_of(printed, parameters)
    one = next((one for one in settings if one.p == DEFAULT_P), settings[0])
    outcome, joint = run_clusters(
        population,
        context,
        p=one.p,
        tv=one.tv,
        td=one.td,
        learnt=parameters.dependence,
        parties=parameters.parties,
    )
    errors = evaluate(
        population.survey.sizes,
        population.pair,
        repeated(product_of_blocks(joint, parameters.project)),
        sigma=COVERAGE,
        runs=parameters.runs,
        generator=np.random.default_rng((context.seed, population.n, one.place)),
    )
    clusters = tuple(block.attributes for block in joint.blocks)
    return Reproduced(
        reproduction=name,
        runs=1,
        rows=(_row(one, errors, by_messages=True),),
        notes=(
            one_run(parameters.runs),
            "another setting is chosen by the parameters p, td and tv",
            f"clusters {described(clusters)}",
        ),
        outcome=outcome,
    )


def _remark(p: float, row: Row) -> str:
    figure = row.figures()[0]
    if figure.printed is None or not figure.differs:
        return ""
    if figure.printed < figure.measured:
        return (
            "the printed error is smaller than the paper's own matrices give: most of the measured "
            "one is the independence assumed between clusters, which no p removes"
        )
    which = "the printed errors for p <= 0.5 are" if p <= 0.5 else "the printed error is"
    return f"{which} larger than the paper's own matrices give"


def _table_1(parameters: Parameters, context: Context) -> Reproduced:
    """Adult."""
    return _run("rr-table-1", TABLE_1, 1, parameters, context)


def _table_2(parameters: Parameters, context: Context) -> Reproduced:
    """Adult, six times over."""
    return _run("rr-table-2", TABLE_2, 6, parameters, context)


def _run(
    name: str, printed: Printed, copies: int, parameters: Parameters, context: Context
) -> Reproduced:
    run = run_by_messages if context.by_messages else run_table
    return run(name, printed, Population(adult(context.data), copies), parameters, context)


SCENARIOS = (
    Scenario(
        name="rr-table-1",
        summary="Multi-Dimensional RR, Table I: relative error of RR-Clusters on Adult.",
        parameters=Parameters,
        run=_table_1,
    ),
    Scenario(
        name="rr-table-2",
        summary="Multi-Dimensional RR, Table II: relative error of RR-Clusters on Adult x 6.",
        parameters=Parameters,
        run=_table_2,
    ),
)
