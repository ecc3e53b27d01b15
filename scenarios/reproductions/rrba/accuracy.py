"""Tables 5 and 6 and Figure 7 of RRBA: errors of randomized tables and of tables with noise.

Randomized Response Block Aggregation (RRBA), section 7.4. The tables' text is noisy: what is not
legible in it is not among the printed figures.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from protocol.crypto.randomness import Stream, secret_of
from protocol.estimators.measures import jensen_shannon_distance, l2_distance
from protocol.randomizers.exact import Floats
from protocol.surveys.records import Records
from scenarios.errors import UsageError
from scenarios.reproductions.driver import scenarios_of
from scenarios.reproductions.experiment import Asked, Experiment, Sample, grid
from scenarios.reproductions.rrba.baselines import Scale, laplace_scale, laplace_tables
from scenarios.reproductions.rrba.block_laws import nearest
from scenarios.reproductions.rrba.shared import (
    MIX,
    Mix,
    NetworkName,
    claimed_epsilon,
    collected,
    expected_squared_distance,
    mixed,
    network,
    projected_records,
    run_rrba,
    sample,
    tables_of,
    true_epsilon,
)
from scenarios.running.outcomes import Outcome
from scenarios.running.reproduction import Picture
from scenarios.running.scenario import Context

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


class Parameters(msgspec.Struct, frozen=True, kw_only=True):
    """What can be set."""

    n: Annotated[int, Meta(ge=100, le=1_000_000, description="respondents")] = 8000
    block: Annotated[int, Meta(ge=1, description="respondents of a block")] = 250
    mix: Mix = MIX
    tables: Annotated[
        int, Meta(ge=1, le=1000, description="how many tables of each network, if it has more")
    ] = 15


class FigureParameters(Parameters, frozen=True, kw_only=True):
    """What can be set for Figure 7."""

    table: Annotated[
        Literal["5", "6"], Meta(description="whose p and epsilon; the figure does not say")
    ] = "6"


class Distances(NamedTuple):
    """The errors of one method on one table in every run.

    Args:
        raw: l2 distance of signed counts, (runs,).
        projected: l2 distance of the nearest proper table, in counts.
        js: Jensen-Shannon distance of that.
        expected: of ``raw`` squared, in closed form.
        epsilon: what it costs.
    """

    raw: Floats
    projected: Floats
    js: Floats
    expected: float
    epsilon: float

    @classmethod
    def of(
        cls, estimate: Floats, counts: NDArray[np.int64], expected: float, epsilon: float
    ) -> Distances:
        """Of estimated shares, (runs, K)."""
        n, truth, proper = int(counts.sum()), counts / counts.sum(), nearest(estimate)
        return cls(
            raw=n * l2_distance(estimate, truth, ways=1),
            projected=n * l2_distance(proper, truth, ways=1),
            js=jensen_shannon_distance(proper, truth, ways=1),
            expected=expected,
            epsilon=epsilon,
        )


@functools.lru_cache(maxsize=4)
def _people(name: NetworkName, n: int, seed: int, data: Path | str | None) -> Records:
    return sample(network(name, data), n, seed)


def _tables(asked: Asked[Any]) -> tuple[Records, list[tuple[str, ...]]]:
    own, cell = asked.parameters, asked.cell
    records = _people(cell["network"], own.n, asked.seed, asked.data)
    return records, tables_of(records.survey, cell["ways"], most=own.tables, seed=asked.seed)


def _costs_of_rrba(counts: NDArray[np.int64], setting: Setting, mix: float) -> tuple[float, float]:
    """The expected squared distance, and the epsilon of a report."""
    fakes = mixed(counts / counts.sum(), mix)
    expected = expected_squared_distance(counts, fakes, setting.p)
    return expected, true_epsilon(setting.p, counts.size, mix=mix)


def _distances(asked: Asked[Any], setting: Setting) -> list[Distances]:
    """The errors of a cell's method on every table, in many runs on the same records."""
    own, method, generator = asked.parameters, asked.cell["method"], asked.generator()
    records, tables = _tables(asked)
    found = []
    for names in tables:
        table = records.counts(names)
        counts = table.reshape(-1)
        if method == "RRBA":
            trials = collected(
                counts,
                p=setting.p,
                mix=own.mix,
                block=own.block,
                trials=asked.runs,
                generator=generator,
            )
            costs = _costs_of_rrba(counts, setting, own.mix)
            found.append(Distances.of(trials.raw(), counts, *costs))
            continue
        scale: Scale = "central" if method == "Laplace" else "paper"
        known = np.broadcast_to(table, (asked.runs, *table.shape))
        noisy = laplace_tables(known, setting.epsilon, generator, scale=scale, ways=len(names))
        b = laplace_scale(setting.epsilon, ways=len(names), scale=scale)
        estimate = noisy.reshape(asked.runs, -1) / counts.sum()
        # One substituted record moves two counts by one each.
        found.append(Distances.of(estimate, counts, 2 * b**2 * counts.size, 2 / b))
    return found


def _table(asked: Asked[Parameters], setting: Setting) -> list[Sample]:
    """Mean distances over the tables in every run."""
    return [_mean(asked, _distances(asked, setting))]


def _mean(asked: Asked[Any], found: list[Distances]) -> Sample:
    # A run's mean over the tables: runs are independent, the tables are what they are.
    return Sample(
        drawn={
            "l2, raw": np.mean([one.raw for one in found], axis=0),
            "l2, projected": np.mean([one.projected for one in found], axis=0),
            "Jensen-Shannon": np.mean([one.js for one in found], axis=0),
        },
        exact={
            "root of expected squared l2": math.sqrt(np.mean([one.expected for one in found])),
            "epsilon": float(np.mean([one.epsilon for one in found])),
        },
        settings={"tables": len(found)},
        remark=REMARKS[asked.cell["method"]],
    )


def _one_table_live(
    asked: Asked[Any], context: Context, setting: Setting | None = None
) -> tuple[Outcome, Distances]:
    """The first table by RRBA, its respondents in an order of their own."""
    own, cell = asked.parameters, asked.cell
    if cell["method"] != "RRBA":
        raise UsageError("by messages, expected the method 'RRBA': noise is a curator's")
    setting = setting or TABLES[own.table]
    records, (names, *_) = _tables(asked)
    order = Stream(secret_of(context.seed)).derive("order").permutation(len(records))
    dealt = projected_records(records, names).pick(order)
    outcome, estimate = run_rrba(
        context, dealt, k=len(names), p=setting.p, mix=own.mix, block=own.block
    )
    counts = records.counts(names).reshape(-1)
    raw = estimate.table(*names).values.reshape(1, -1)
    return outcome, Distances.of(raw, counts, *_costs_of_rrba(counts, setting, own.mix))


def _table_live(
    asked: Asked[Parameters], context: Context, setting: Setting
) -> tuple[Outcome, list[Sample]]:
    outcome, found = _one_table_live(asked, context, setting)
    return outcome, [_mean(asked, [found])]


# Figure 7


def _spread(asked: Asked[FigureParameters]) -> list[Sample]:
    """How the errors of Table 5 or 6 are distributed over runs and tables."""
    found = _distances(asked, TABLES[asked.parameters.table])
    return [_described(found)]


def _described(found: list[Distances]) -> Sample:
    exact: dict[str, float] = {}
    for name in ("projected", "js"):
        values = np.concatenate([getattr(one, name) for one in found])
        words = {"projected": "l2", "js": "Jensen-Shannon"}[name]
        low, median, high = np.quantile(values, (0.05, 0.5, 0.95)).tolist()
        exact |= {f"{words}, 5 %": low, f"{words}, median": median, f"{words}, 95 %": high}
    means = {
        "l2, mean": np.mean([one.projected for one in found], axis=0),
        "Jensen-Shannon, mean": np.mean([one.js for one in found], axis=0),
    }
    return Sample(drawn=means, exact=exact)


def _spread_live(asked: Asked[FigureParameters], context: Context) -> tuple[Outcome, list[Sample]]:
    outcome, found = _one_table_live(asked, context)
    sample = _described([found])
    return outcome, [msgspec.structs.replace(sample, exact={})]


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

EXPERIMENTS: tuple[Experiment[Any], ...] = (
    *(
        Experiment(
            paper="RRBA",
            item=f"Table {number}",
            name=f"rrba-table-{number}",
            summary=f"RRBA, Table {number}: errors of tables at p = {setting.p:g}, and of Laplace "
            "noise.",
            cells=CELLS,
            law=functools.partial(_table, setting=setting),
            live=functools.partial(_table_live, setting=setting),
            runs=100,
            parameters=Parameters,
            notes=NOTES,
            picture=Picture(
                x="ways",
                by=("network", "method"),
                figures=("l2, raw", "l2, projected", "Jensen-Shannon"),
                names={"ways": "attributes of a table"},
            ),
        )
        for number, setting in TABLES.items()
    ),
    Experiment(
        paper="RRBA",
        item="Figure 7",
        name="rrba-figure-7",
        summary="RRBA, Figure 7: how the errors of randomized and of noisy tables are distributed.",
        cells=CELLS,
        law=_spread,
        live=_spread_live,
        runs=100,
        parameters=FigureParameters,
        notes=(
            "the figure has no numbers printed in it, and does not say for which network it is",
            "quantiles of the errors of all runs and tables, each method's nearest proper table",
            *NOTES,
        ),
        picture=Picture(
            title="How far randomized and noisy tables are from the true ones",
            x="ways",
            by=("network", "method"),
            figures=("l2, mean", "Jensen-Shannon, mean"),
            names={"ways": "attributes of a table"},
        ),
    ),
)
SCENARIOS = scenarios_of(*EXPERIMENTS)
