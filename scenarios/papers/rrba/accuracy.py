"""Tables 5 and 6 and Figure 7 of RRBA: errors of randomized tables and of tables with noise.

Randomized Response Block Aggregation (RRBA), section 7.4. The tables' text is noisy: what is not
legible in it is not among the printed figures.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from protocol.crypto.randomness import Stream, secret_of
from protocol.errors import UsageError
from protocol.estimators.measures import jensen_shannon_distance, l2_distance
from protocol.estimators.projection import project_rows
from protocol.randomizers.exact import Floats
from protocol.surveys.records import Records
from protocol.surveys.survey import Survey
from scenarios.papers.driver import experiment_scenarios
from scenarios.papers.experiment import Asked, Experiment, Sample, grid
from scenarios.papers.rrba.association import Scale, laplace_scale, laplace_tables
from scenarios.papers.rrba.block_laws import Trials, dealt_blocks
from scenarios.papers.rrba.shared import (
    MIX,
    Blocks,
    Mix,
    NetworkName,
    claimed_epsilon,
    expected_squared_distance,
    mixed,
    network,
    run_rrba,
    sample,
    true_epsilon,
)
from scenarios.running.reproduction import Picture

CELLS = grid(
    network=("survey", "alarm"),
    ways=(2, 3, 4),
    method=("RRBA", "Laplace", "Laplace, paper's scale"),
)

REMARKS: Mapping[str, str] = {
    "RRBA": "Here every respondent answers about this one table, which is the most favourable "
    "reading: in a view a table has 1/(d-1) of them for pairs. The printed figures do not follow "
    "from p, n and B; a report costs the epsilon measured, not the printed one.",
    "Laplace": "With the scale 2/epsilon that one table of counts needs under substitution of one "
    "record; the printed figures ask for a larger one.",
    "Laplace, paper's scale": "With the fitted scale that gives about the printed l2 distances; "
    "the paper's formula for it is not legible.",
}


class Setting(NamedTuple):
    """A table of the paper: the keep probability, and the epsilon of the noise, claimed of both."""

    p: float
    epsilon: float


TABLES = {"5": Setting(0.4, 0.35), "6": Setting(0.5, 0.5)}


class Parameters(Blocks, frozen=True, kw_only=True):
    """Parameters of the tables."""

    mix: Mix = MIX
    tables: Annotated[
        int, Meta(ge=1, le=1000, description="how many tables of each network, if it has more")
    ] = 15


class FigureParameters(Parameters, frozen=True, kw_only=True):
    """Parameters of Figure 7."""

    table: Annotated[
        Literal["5", "6"], Meta(description="whose p and epsilon; the figure does not say")
    ] = "6"


@functools.lru_cache(maxsize=4)
def _people(name: NetworkName, n: int, seed: int, data: Path | str | None) -> Records:
    return sample(network(name, data), n, seed)


def choose_tables(survey: Survey, ways: int, *, most: int, seed: int) -> list[tuple[str, ...]]:
    """The tables of so many attributes: all of them, or as many at random."""
    m = len(survey.names)
    if math.comb(m, ways) <= most:
        return list(combinations(survey.names, ways))
    generator = np.random.default_rng((seed, ways))
    found: set[tuple[int, ...]] = set()
    while len(found) < most:
        found.add(tuple(sorted(generator.permutation(m)[:ways].tolist())))
    return [tuple(survey.names[place] for place in places) for places in sorted(found)]


def distances(asked: Asked[Any], setting: Setting) -> dict[str, Floats]:
    """The errors of a cell's method on every table, in many runs on the same records.

    By messages of the first table, its respondents in an order of their own.

    Returns:
        Of shape (tables, runs): the l2 distance of signed counts, that of the nearest proper table,
        and the Jensen-Shannon distance of that one. Of shape (tables,): ``expected``, of the
        squared distance of signed counts, in closed form, and ``epsilon``, what it costs.
    """
    own, cell, generator = asked.parameters, asked.cell, asked.generator()
    if asked.live and cell["method"] != "RRBA":
        raise UsageError("by messages, expected the method 'RRBA': noise is a curator's")
    records = _people(cell["network"], own.n, asked.seed, asked.data)
    tables = choose_tables(records.survey, cell["ways"], most=own.tables, seed=asked.seed)
    found = []
    for names in tables[:1] if asked.live else tables:
        table = records.counts(names)
        counts = table.reshape(-1)
        n, truth = len(records), counts / len(records)
        if cell["method"] == "RRBA":
            estimate = (
                _by_messages(asked, setting, records, names)
                if asked.live
                else _by_law(asked, setting, counts, generator)
            )
            expected = expected_squared_distance(counts, mixed(truth, own.mix), setting.p)
            epsilon = true_epsilon(setting.p, counts.size, mix=own.mix)
        else:
            scale: Scale = "central" if cell["method"] == "Laplace" else "paper"
            known = np.broadcast_to(table, (asked.runs, *table.shape))
            noisy = laplace_tables(known, setting.epsilon, generator, scale=scale, ways=table.ndim)
            estimate = noisy.reshape(asked.runs, -1) / n
            b = laplace_scale(setting.epsilon, ways=table.ndim, scale=scale)
            # One substituted record moves two counts by one each.
            expected, epsilon = 2 * b**2 * counts.size, 2 / b
        proper = project_rows(estimate)
        found.append(
            {
                "l2, raw": n * l2_distance(estimate, truth, ways=1),
                "l2, projected": n * l2_distance(proper, truth, ways=1),
                "Jensen-Shannon": jensen_shannon_distance(proper, truth, ways=1),
                "expected": expected,
                "epsilon": epsilon,
            }
        )
    return {name: np.array([one[name] for one in found]) for name in found[0]}


def _by_law(
    asked: Asked[Any], setting: Setting, counts: NDArray[np.int64], generator: np.random.Generator
) -> Floats:
    """Raw shares of known respondents, asked in blocks, in a new random order in each run."""
    own, runs = asked.parameters, asked.runs
    trials = Trials((runs,), counts.size, keep=setting.p, mix=own.mix, generator=generator)
    for true in dealt_blocks(counts, own.block, generator, trials=runs):
        trials.ask(true)
    return trials.raw()


def _by_messages(
    asked: Asked[Any], setting: Setting, records: Records, names: tuple[str, ...]
) -> Floats:
    order = Stream(secret_of(asked.context.seed)).derive("order").permutation(len(records))
    own, dealt = asked.parameters, records.project(names).pick(order)
    estimate = run_rrba(asked, dealt, k=len(names), p=setting.p, mix=own.mix, block=own.block)
    return estimate.table(*names).values.reshape(1, -1)


def _table(asked: Asked[Parameters], setting: Setting) -> Sample:
    """Mean distances over the tables in every run."""
    found = distances(asked, setting)
    # A run's mean over the tables: runs are independent, the tables are what they are.
    means = {name: of.mean(axis=0) for name, of in found.items()}
    epsilon, expected = means.pop("epsilon"), means.pop("expected")
    figures = {**means, "root of expected squared l2": math.sqrt(expected), "epsilon": epsilon}
    remark = REMARKS[asked.cell["method"]]
    return Sample.of(figures, tables=len(found["epsilon"]), remark=remark)


def _spread(asked: Asked[FigureParameters]) -> dict[str, Any]:
    """Distribution of the errors of Table 5 or 6 over runs and tables; by messages their mean."""
    found = distances(asked, TABLES[asked.parameters.table])
    errors = {"l2": found["l2, projected"], "Jensen-Shannon": found["Jensen-Shannon"]}
    figures: dict[str, Any] = {f"{words}, mean": of.mean(axis=0) for words, of in errors.items()}
    for words, of in () if asked.live else errors.items():
        for name, share in (("5 %", 0.05), ("median", 0.5), ("95 %", 0.95)):
            figures[f"{words}, {name}"] = np.quantile(of, share)
    return figures


NOTES = (
    "all tables of so many attributes, or 15 of them at random (tables=); by messages the first",
    "standard errors are over the runs, for these records and these tables",
    "l2 distances are of tables of counts; Jensen-Shannon distances, the square roots of "
    "divergences in nats, of the nearest proper tables",
    "the root of the expected squared l2 is in closed form, of raw tables: for RRBA with fakes "
    "from the true table, mixed, where the aggregator gets to after some blocks",
    "the paper's own claim for p of 0.4 and 0.5 is an epsilon of "
    f"{claimed_epsilon(0.4):.2f} and {claimed_epsilon(0.5):.2f}, not 0.35 and 0.5; the true one is "
    "in the rows. The Laplace noise is a trusted curator's, who sees all answers",
    "with the noise that a curator needs for the epsilon, Laplace has the smaller errors "
    "everywhere, as central mechanisms do; RRBA's promise is that nobody sees the answers, and "
    "its errors are those of sampling reports: no choice of blocks or tables lowers them to "
    "the printed ones",
)

SCENARIOS = experiment_scenarios(
    *(
        Experiment(
            name=f"rrba-table-{number}",
            summary=f"RRBA, Table {number}: errors of tables at p = {setting.p:g}, and of Laplace "
            "noise.",
            cells=CELLS,
            measure=functools.partial(_table, setting=setting),
            live=True,
            runs=100,
            parameters=Parameters,
            notes=NOTES,
            picture=Picture(
                figures=("l2, raw", "l2, projected", "Jensen-Shannon"),
                names={"ways": "attributes of a table"},
            ),
        )
        for number, setting in TABLES.items()
    ),
    Experiment(
        name="rrba-figure-7",
        summary="RRBA, Figure 7: how the errors of randomized and of noisy tables are distributed.",
        cells=CELLS,
        measure=_spread,
        live=True,
        runs=100,
        parameters=FigureParameters,
        notes=(
            "the figure has no numbers printed in it, and does not say for which network it is",
            "quantiles of the errors of all runs and tables, each method's nearest proper table",
            *NOTES,
        ),
        picture=Picture(
            title="How far randomized and noisy tables are from the true ones",
            figures=("l2, mean", "Jensen-Shannon, mean"),
            names={"ways": "attributes of a table"},
        ),
    ),
)
