"""Tables 5 and 6 and Figure 7 of RRBA: errors of randomized tables and of tables with noise.

Randomized Response Block Aggregation (RRBA), section 7.4. The tables' text is noisy: what is not
legible in it is not printed here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np
from msgspec import Meta

from protocol.estimators.measures import jensen_shannon_distance, l2_distance
from protocol.randomizers.exact import Floats
from protocol.surveys.records import Records
from scenarios.reproductions.rrba.baselines import Scale, laplace_scale, laplace_tables
from scenarios.reproductions.rrba.block_laws import nearest
from scenarios.reproductions.rrba.printed import TABLE_5, TABLE_6, Printed
from scenarios.reproductions.rrba.shared import (
    MIX,
    Mix,
    claimed_epsilon,
    collected,
    expected_squared_distance,
    mixed,
    network,
    projected_records,
    run_rrba,
    sample,
    standard_error,
    tables_of,
    true_epsilon,
)
from scenarios.running.reproduction import Reproduced, Row, Runs
from scenarios.running.scenario import Context, Scenario

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WAYS = (2, 3, 4)
Shown: TypeAlias = Literal["survey", "alarm"]
SHOWN: tuple[Shown, ...] = ("survey", "alarm")
Method: TypeAlias = Literal["RRBA", "Laplace", "Laplace, paper's scale"]
METHODS: tuple[Method, ...] = ("RRBA", "Laplace", "Laplace, paper's scale")


_REMARKS: Mapping[Method, str] = {
    "RRBA": "Here every respondent answers about this one table, which is the most favourable "
    "reading: in a view a table has 1/(d-1) of them for pairs. The printed figures do not follow "
    "from p, n and B; a report costs the epsilon measured, not the printed one.",
    "Laplace": "With the scale 2/epsilon that one table of counts needs under substitution of one "
    "record; the printed figures ask for a larger one.",
    "Laplace, paper's scale": "With the fitted scale that gives about the printed l2 distances; "
    "the paper's formula for it is not legible.",
}


class Parameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What can be set."""

    runs: Runs = 100
    n: Annotated[int, Meta(ge=100, le=1_000_000, description="respondents")] = 8000
    block: Annotated[int, Meta(ge=1, description="respondents of a block")] = 250
    mix: Mix = MIX
    tables: Annotated[
        int, Meta(ge=1, le=1000, description="how many tables of each network, if it has more")
    ] = 15


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


def distances(
    method: Method,
    records: Records,
    names: tuple[str, ...],
    printed: Printed,
    parameters: Parameters,
    generator: np.random.Generator,
) -> Distances:
    """One table by one method, in many runs on the same records."""
    counts = records.counts(names).reshape(-1)
    n, runs = len(records), parameters.runs
    truth = counts / n
    if method == "RRBA":
        trials = collected(
            counts,
            p=printed.p,
            mix=parameters.mix,
            block=parameters.block,
            trials=runs,
            generator=generator,
        )
        estimate = trials.raw()
        fakes = mixed(truth, parameters.mix)
        expected = expected_squared_distance(counts, fakes, printed.p)
        epsilon = true_epsilon(printed.p, counts.size, mix=parameters.mix)
    else:
        scale: Scale = "central" if method == "Laplace" else "paper"
        table = np.broadcast_to(
            counts.reshape(records.counts(names).shape), (runs, *records.counts(names).shape)
        )
        noisy = laplace_tables(table, printed.epsilon, generator, scale=scale, ways=len(names))
        estimate = noisy.reshape(runs, -1) / n
        b = laplace_scale(printed.epsilon, ways=len(names), scale=scale)
        expected = 2 * b**2 * counts.size
        # One substituted record moves two counts by one each.
        epsilon = 2 / b
    proper = nearest(estimate)
    return Distances(
        raw=n * l2_distance(estimate, truth, ways=1),
        projected=n * l2_distance(proper, truth, ways=1),
        js=jensen_shannon_distance(proper, truth, ways=1),
        expected=expected,
        epsilon=epsilon,
    )


class Piece(NamedTuple):
    """Tables by one method; the seeds decide their draws."""

    method: Method
    records: Records
    tables: list[tuple[str, ...]]
    printed: Printed
    parameters: Parameters
    seeds: tuple[int, ...]


def distances_of(piece: Piece) -> list[Distances]:
    """One table after the other."""
    method, records, tables, printed, parameters, seeds = piece
    generator = np.random.default_rng(seeds)
    return [distances(method, records, names, printed, parameters, generator) for names in tables]


def _measured(
    printed: Printed, parameters: Parameters, context: Context, number: int
) -> list[tuple[Shown, int, Method, list[Distances]]]:
    """Every network, number of ways and method."""
    settings, pieces = [], []
    for shown, name in enumerate(SHOWN):
        records = sample(network(name, context.data), parameters.n, context.seed)
        for ways in WAYS:
            tables = tables_of(records.survey, ways, most=parameters.tables, seed=context.seed)
            for place, method in enumerate(METHODS):
                seeds = (context.seed, number, shown, ways, place)
                settings.append((name, ways, method))
                pieces.append(Piece(method, records, tables, printed, parameters, seeds))
    found = context.map(distances_of, pieces)
    return [(*setting, of_it) for setting, of_it in zip(settings, found, strict=True)]


def _table(number: int, printed: Printed) -> Callable[[Parameters, Context], Reproduced]:
    name = f"rrba-table-{number}"

    def run(parameters: Parameters, context: Context) -> Reproduced:
        """Mean distances over tables and runs; by messages, one survey on one pair."""
        if context.by_messages:
            return _by_messages(name, printed, parameters, context)
        rows = tuple(
            _row(printed, shown, ways, method, found)
            for shown, ways, method, found in _measured(printed, parameters, context, number)
        )
        return Reproduced(
            reproduction=name,
            runs=parameters.runs,
            rows=rows,
            notes=_notes(printed, parameters),
        )

    return run


def _row(printed: Printed, name: Shown, ways: int, method: Method, found: list[Distances]) -> Row:
    # A run's mean over the tables: runs are independent, the tables are what they are.
    raw = np.mean([one.raw for one in found], axis=0)
    projected = np.mean([one.projected for one in found], axis=0)
    js = np.mean([one.js for one in found], axis=0)
    figures = {"l2, raw": raw, "l2, projected": projected, "Jensen-Shannon": js}
    asked = method.split(",")[0]
    l2, distance = (figures_of[asked, name][ways - 2] for figures_of in (printed.l2, printed.js))
    claimed = {
        # What RRBA releases is a proper table; noise is added to counts and stays.
        "l2, projected" if method == "RRBA" else "l2, raw": l2,
        "Jensen-Shannon": distance,
        "epsilon": printed.epsilon,
    }
    legible = l2 is not None
    return Row(
        settings={"network": name, "ways": ways, "method": method, "tables": len(found)},
        measured={
            **{key: float(values.mean()) for key, values in figures.items()},
            "root of expected squared l2": math.sqrt(np.mean([one.expected for one in found])),
            "epsilon": float(np.mean([one.epsilon for one in found])),
        },
        standard_error={key: standard_error(values) for key, values in figures.items()},
        printed={key: value for key, value in claimed.items() if value is not None},
        remark=_REMARKS[method]
        + ("" if legible else " What the paper prints for it is not legible in our copy."),
    )


def _notes(printed: Printed, parameters: Parameters) -> tuple[str, ...]:
    return (
        f"p = {printed.p:g}, epsilon = {printed.epsilon:g}, {parameters.n:,} respondents sampled "
        f"from each network, blocks of {parameters.block}, mix {parameters.mix:g}; all tables, or "
        f"{parameters.tables} of them at random",
        "standard errors are over the runs, for these records and these tables",
        "l2 distances are of tables of counts; Jensen-Shannon distances, the square roots of "
        "divergences in nats, of the nearest proper tables",
        "the root of the expected squared l2 is in closed form, of raw tables: for RRBA with fakes "
        "from the true table, mixed, where the aggregator gets to after some blocks",
        f"the paper's own claim for p = {printed.p:g} is an epsilon of "
        f"{claimed_epsilon(printed.p):.2f}, not {printed.epsilon:g}; the true one is in the rows. "
        "The Laplace noise is a trusted curator's, who sees all answers",
        "with the noise that a curator needs for the epsilon, Laplace has the smaller errors "
        "everywhere, as central mechanisms do; RRBA's promise is that nobody sees the answers, and "
        "its errors are those of sampling reports: no choice of blocks or tables lowers them to "
        "the printed ones",
    )


def _by_messages(
    name: str, printed: Printed, parameters: Parameters, context: Context
) -> Reproduced:
    records = sample(network("survey", context.data), parameters.n, context.seed)
    pair = records.survey.names[:2]
    records = projected_records(records, pair)
    outcome, estimate = run_rrba(
        context, records, k=2, p=printed.p, mix=parameters.mix, block=parameters.block
    )
    n, truth = len(records), records.distribution(pair)
    raw, proper = estimate.table(*pair).values, estimate.table(*pair, projection="simplex").values
    row = Row(
        settings={"network": "survey", "ways": 2, "method": "RRBA", "attributes": list(pair)},
        measured={
            "l2, raw": n * float(l2_distance(raw, truth)),
            "l2, projected": n * float(l2_distance(proper, truth)),
            "Jensen-Shannon": float(jensen_shannon_distance(proper, truth)),
            "root of expected squared l2": math.sqrt(
                expected_squared_distance(
                    records.counts(pair), mixed(truth, parameters.mix), printed.p
                )
            ),
            "epsilon": true_epsilon(printed.p, truth.size, mix=parameters.mix),
        },
    )
    return Reproduced(
        reproduction=name,
        runs=1,
        rows=(row,),
        notes=("one run by messages on the first pair: no standard error follows from it",),
        outcome=outcome,
    )


# Figure 7


class FigureParameters(Parameters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What can be set for Figure 7."""

    table: Annotated[
        Literal["5", "6"], Meta(description="whose p and epsilon; the figure does not say")
    ] = "6"


def figure_7(parameters: FigureParameters, context: Context) -> Reproduced:
    """How the errors of Table 5 or 6 are distributed; by messages, as there."""
    printed = TABLE_5 if parameters.table == "5" else TABLE_6
    if context.by_messages:
        return _by_messages("rrba-figure-7", printed, parameters, context)
    rows: list[Row] = []
    drawn: dict[tuple[Shown, int, Method], tuple[Floats, Floats]] = {}
    for name, ways, method, found in _measured(printed, parameters, context, 7):
        l2 = np.concatenate([one.projected for one in found])
        js = np.concatenate([one.js for one in found])
        drawn[name, ways, method] = (l2, js)
        rows.append(
            Row(
                settings={"network": name, "ways": ways, "method": method},
                measured=_described("l2", l2) | _described("Jensen-Shannon", js),
            )
        )
    return Reproduced(
        reproduction="rrba-figure-7",
        runs=parameters.runs,
        rows=tuple(rows),
        notes=(
            "the figure has no numbers printed in it, and does not say for which network it is",
            "quantiles of the errors of all runs and tables, each method's nearest proper table",
            *_notes(printed, parameters),
        ),
        plot=_histograms(drawn),
    )


def _described(name: str, values: Floats) -> dict[str, float]:
    low, median, high = np.quantile(values, (0.05, 0.5, 0.95)).tolist()
    return {
        f"{name}, 5 %": low,
        f"{name}, median": median,
        f"{name}, mean": float(values.mean()),
        f"{name}, 95 %": high,
    }


def _histograms(
    drawn: Mapping[tuple[Shown, int, Method], tuple[Floats, Floats]],
) -> Callable[[Figure], None]:
    """Both errors of the survey network's tables, a panel per number of ways."""
    colours = ("#0072B2", "#D55E00", "#009E73")

    def plot(figure: Figure) -> None:
        figure.set_layout_engine("constrained")
        figure.set_size_inches(11, 6)
        figure.suptitle("rrba-figure-7: survey")
        grid = figure.subplots(2, len(WAYS))
        for line, label in enumerate(("l2 distance of counts", "Jensen-Shannon distance")):
            for column, ways in enumerate(WAYS):
                axes = grid[line, column]
                for method, colour in zip(METHODS, colours, strict=True):
                    values = drawn["survey", ways, method][line]
                    axes.hist(values, 40, alpha=0.6, color=colour, label=method, density=True)
                axes.set_xlabel(f"{label}, {ways}-way tables")
                axes.set_ylabel("density")
        grid[0, 0].legend(fontsize=8)

    return plot


SCENARIOS = (
    Scenario(
        name="rrba-table-5",
        summary="RRBA, Table 5: errors of tables at p = 0.4, and of Laplace noise.",
        parameters=Parameters,
        run=_table(5, TABLE_5),
    ),
    Scenario(
        name="rrba-table-6",
        summary="RRBA, Table 6: errors of tables at p = 0.5, and of Laplace noise.",
        parameters=Parameters,
        run=_table(6, TABLE_6),
    ),
    Scenario(
        name="rrba-figure-7",
        summary="RRBA, Figure 7: how the errors of randomized and of noisy tables are distributed.",
        parameters=FigureParameters,
        run=figure_7,
    ),
)
