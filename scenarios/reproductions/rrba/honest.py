"""RRBA's choices compared at equal true epsilon: which table of fakes, and how many groups.

Randomized Response Block Aggregation (RRBA), section 4, whose own comparisons are at an equal keep
probability, or at a claimed epsilon that is not what a report costs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta

from protocol.estimators.measures import squared_error
from protocol.randomizers.exact import Floats
from protocol.surveys.records import Records
from protocol.variants.rrba.plan import Extent
from scenarios.report.plots import COLOURS, MARKERS, WHISKERS
from scenarios.reproductions.rrba.block_laws import Trials, sampled_blocks
from scenarios.reproductions.rrba.groups import (
    EXTENTS,
    asked,
    errors_of_groups,
    expected_of_groups,
)
from scenarios.reproductions.rrba.shared import (
    NETWORKS,
    NetworkName,
    expected_squared_error,
    keep_at,
    mixed,
    network,
    run_rrba,
    sample,
    standard_error,
    true_epsilon,
)
from scenarios.running.reproduction import Reproduced, Row, Runs
from scenarios.running.scenario import Context, Scenario

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TABLES: tuple[tuple[NetworkName, tuple[str, ...]], ...] = (
    ("survey", ("A", "T")),
    ("alarm", ("PRESS", "VENTALV")),
)
"""One table that is almost uniform, and one with many rare cells."""

MIXES = (0.05, 0.1, 0.2, 0.5, 1.0)
EPSILONS = (0.5, 1.0, 2.0, 4.0)
GROUP_EPSILONS = (*EPSILONS, 8.0)
SAME_P = (0.3, 0.5)

LIVE_EPSILON = 2.0
"""Of a run by messages."""


class Parameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What can be set."""

    runs: Runs = 200
    n: Annotated[int, Meta(ge=100, le=1_000_000, description="respondents")] = 8000
    block: Annotated[int, Meta(ge=1, description="respondents of a block")] = 250


def run(parameters: Parameters, context: Context) -> Reproduced:
    """All comparisons; by messages, the survey network with one group per client."""
    if context.by_messages:
        return _by_messages(parameters, context)
    laws = [network(name, context.data).distribution(names).reshape(-1) for name, names in TABLES]
    pieces: list[Mixed | Grouped] = []
    for number, ((_, names), law) in enumerate(zip(TABLES, laws, strict=True)):
        settings = {"table": ", ".join(names), "cells": law.size}
        for place, mix in enumerate(MIXES):
            seeds = (context.seed, 8, number, place)
            pieces.append(Mixed(settings, law, mix, parameters, seeds))
    for number, name in enumerate(NETWORKS):
        records = sample(network(name, context.data), parameters.n, context.seed)
        for part, epsilon in enumerate(GROUP_EPSILONS):
            for place, extent in enumerate(EXTENTS):
                of_group = (context.seed, 9, number, part, place)
                pieces.append(Grouped(name, records, epsilon, extent, parameters, of_group))
    rows = [row for found in context.map(rows_of, pieces) for row in found]
    return Reproduced(
        reproduction="rrba-honest",
        runs=parameters.runs,
        rows=tuple(rows),
        notes=_notes(parameters, rows, laws),
        plot=_plot(rows),
    )


def rows_of(piece: Mixed | Grouped) -> list[Row]:
    """The rows of one piece of work."""
    return _rows_of_mix(piece) if isinstance(piece, Mixed) else [_row_of_groups(piece)]


# Which table of fakes


class Errors(NamedTuple):
    """What one choice of p and mix leads to, in every run.

    Args:
        found: the total squared error of the raw shares, (runs,).
        expected: what it was expected to be, given the tables that the run's fakes came from.
        best: the same for fakes from the true table, mixed.
    """

    found: Floats
    expected: Floats
    best: float

    def figures(self) -> dict[str, float]:
        """Their means."""
        return {
            "squared error": float(self.found.mean()),
            "in closed form": float(self.expected.mean()),
            "fakes from the truth": self.best,
        }


def errors_of_mix(
    law: Floats, p: float, mix: float, parameters: Parameters, generator: np.random.Generator
) -> Errors:
    """Adaptive fakes of one mix; every run has respondents of its own, all asked about one table.

    Given the tables, the errors of two blocks are uncorrelated, so that the expected squares add
    up: ``sum_b n_b (1 - sum_v L_b[v]**2) / (n p)**2``, with ``L_b = p pi + (1-p) T_b``.
    """
    shape, whole = (parameters.runs,), divmod(parameters.n, parameters.block)
    trials = Trials(shape, law.size, keep=p, mix=mix, generator=generator)
    laws = np.broadcast_to(law, (*shape, law.size))
    expected = np.zeros(shape)
    for size, blocks in ((parameters.block, whole[0]), (whole[1], min(whole[1], 1))):
        for true in sampled_blocks(laws, size, generator, blocks=blocks):
            reported = p * law + (1 - p) * trials.ask(true).tables
            expected += size * (1 - (reported**2).sum(axis=1))
    return Errors(
        squared_error(trials.raw(), law, ways=1),
        expected / (parameters.n * p) ** 2,
        expected_squared_error(law, mixed(law, mix), p, parameters.n),
    )


class Mixed(NamedTuple):
    """One mix of fakes for one table; the seeds decide its draws."""

    settings: Mapping[str, object]
    law: Floats
    mix: float
    parameters: Parameters
    seeds: tuple[int, ...]


def _rows_of_mix(piece: Mixed) -> list[Row]:
    """One mix at every epsilon, and at the p that the paper compares."""
    settings, law, mix, parameters, seeds = piece
    generator = np.random.default_rng(seeds)
    rows = []
    for epsilon in EPSILONS:
        p = keep_at(epsilon, law.size, mix=mix)
        found = errors_of_mix(law, p, mix, parameters, generator)
        rows.append(_same_epsilon({**settings, "epsilon": epsilon, "mix": mix}, p, found))
    for p in SAME_P:
        found = errors_of_mix(law, p, mix, parameters, generator)
        costs = true_epsilon(p, law.size, mix=mix)
        rows.append(_same_p({**settings, "p": p, "mix": mix}, law, costs, found, parameters.n))
    return rows


def _same_epsilon(settings: Mapping[str, object], p: float, errors: Errors) -> Row:
    return Row(
        settings={"at equal": "epsilon", **settings},
        measured={**errors.figures(), "p": p},
        standard_error={"squared error": standard_error(errors.found)},
    )


def _same_p(
    settings: Mapping[str, object], law: Floats, epsilon: float, errors: Errors, n: int
) -> Row:
    instead = expected_squared_error(law, mixed(law, 1.0), keep_at(epsilon, law.size), n)
    return Row(
        settings={"at equal": "p", **settings},
        measured={**errors.figures(), "epsilon": epsilon, "uniform at this epsilon": instead},
        standard_error={"squared error": standard_error(errors.found)},
    )


# One group or the whole view


class Grouped(NamedTuple):
    """One extent of a client's answers at one epsilon; the seeds decide its draws."""

    name: NetworkName
    records: Records
    epsilon: float
    extent: Extent
    parameters: Parameters
    seeds: tuple[int, ...]


def _row_of_groups(piece: Grouped) -> Row:
    """All pairs of a network, one answer per client or its whole view."""
    name, records, epsilon, extent, parameters, seeds = piece
    generator = np.random.default_rng(seeds)
    how = asked(records.survey, epsilon, extent)
    laws = [records.distribution(names).reshape(-1) for names in how.names]
    errors = errors_of_groups(laws, how, generator, n=parameters.n, runs=parameters.runs)
    expected = expected_of_groups(laws, how, parameters.n)
    return Row(
        settings={"at equal": "epsilon", "network": name, "epsilon": epsilon, "answers": extent},
        measured={
            "squared error": float(errors.mean()),
            "in closed form": expected,
            "reports of a group": float(parameters.n * how.shares.mean()),
        },
        standard_error={"squared error": standard_error(errors)},
    )


def times_of_truth(law: Floats, epsilon: float) -> float:
    """The expected error with fakes from the truth, in multiples of that with uniform ones.

    At equal epsilon, which for the truth is judged by its own least cell; infinite if that is 0.
    """
    least = float(law.min())
    if least == 0:
        return math.inf
    # A table whose least cell is T costs as much as a uniform one of 1/T cells.
    odds = math.expm1(epsilon) * least
    truth = expected_squared_error(law, law, odds / (1 + odds), 1)
    return truth / expected_squared_error(law, mixed(law, 1.0), keep_at(epsilon, law.size), 1)


def _of_truth(laws: Sequence[Floats]) -> str:
    times = [times_of_truth(law, 1.0) for law in laws]
    words = " and ".join(f"{one:,.0f}" for one in times)
    return f"have {words} times the uniform table's error at an epsilon of 1, in the two tables"


def _notes(parameters: Parameters, rows: Sequence[Row], laws: Sequence[Floats]) -> tuple[str, ...]:
    table = ", ".join(TABLES[-1][1])
    adaptive, uniform = (
        _value(rows, "in closed form", table=table, epsilon=1.0, mix=mix) for mix in (0.1, 1.0)
    )
    one, view = (
        _value(rows, "in closed form", network="alarm", epsilon=1.0, answers=extent)
        for extent in EXTENTS
    )
    return (
        f"{parameters.n:,} respondents, drawn from a population in every run; the error is that of "
        "raw shares, summed over all cells; the standard error is over the runs",
        "mix 1 is the uniform table, plain k-ary randomized response. Below it fakes come from the "
        "running estimate, mixed with so much of the uniform distribution",
        "a report costs ln(1 + p/((1-p) T)), T the least cell: mix/K at worst. So a smaller mix "
        "needs a smaller p for the same epsilon: p/(1-p) = (e**epsilon - 1) mix/K",
        f"at equal epsilon the uniform table wins: for {table} at an epsilon of 1 the mix of "
        f"0.1 has {adaptive / uniform:.0f} times its error. That is about (1 - sum L**2)/(n p**2): "
        "other fakes raise the sum, but never by as much as p falls",
        "even fakes from the true table itself, without any mix, at the least cell that it really "
        f"has, {_of_truth(laws)}",
        "at equal p, as the paper compares, the adaptive table has the somewhat smaller error, and "
        "costs more: the last figure is what the uniform table has at what that costs",
        "in closed form: the expected error, given the tables that the run's fakes came from. With "
        "a small p the running estimate is so noisy that its tables are nowhere near the truth: "
        "they have most of their weight in a few cells, which makes reports less random than "
        "fakes from the truth would, and costs the same",
        "one: a client answers about one pair, drawn in its view, with the whole epsilon. view: it "
        "answers about every pair of its view, with an equal part of epsilon each",
        "one group has the smaller error until epsilon is so large that a part of it keeps almost "
        f"every answer. On alarm at an epsilon of 1 the whole view has {view / one:.0f} times the "
        "error; for a small epsilon the factor is the number of groups in a view",
    )


def _value(rows: Sequence[Row], figure: str, **settings: object) -> float:
    """A figure of the first row with these settings."""
    return next(
        found.measured
        for row in rows
        if all(row.settings.get(name) == value for name, value in settings.items())
        for found in row.figures()
        if found.name == figure
    )


# The picture


def _plot(rows: Sequence[Row]) -> Callable[[Figure], None]:
    """The error against epsilon: a panel per table with a curve per mix, one for the groups."""

    def plot(figure: Figure) -> None:
        figure.set_layout_engine("constrained")
        figure.set_size_inches(13, 4.8)
        figure.suptitle("rrba-honest: points measured, lines in closed form")
        grid = figure.subplots(1, len(TABLES) + 1)
        same = [row for row in rows if row.settings["at equal"] == "epsilon"]
        for axes, (name, names) in zip(grid, TABLES, strict=False):
            of_table = [row for row in same if row.settings.get("table") == ", ".join(names)]
            for place, mix in enumerate(MIXES):
                label = "uniform" if mix == 1 else f"adaptive, mix {mix:g}"
                chosen = [row for row in of_table if row.settings["mix"] == mix]
                _draw(axes, chosen, place, label, "-")
            axes.set_title(f"{name}: {', '.join(names)}", fontsize=10)
            axes.legend(fontsize=8)
        for place, name in enumerate(NETWORKS):
            for extent, style in zip(EXTENTS, ("-", "--"), strict=True):
                chosen = [
                    row
                    for row in same
                    if (row.settings.get("network"), row.settings.get("answers")) == (name, extent)
                ]
                label = f"{name}, {'one pair' if extent == 'one' else 'whole view'}"
                _draw(grid[-1], chosen, place, label, style)
        grid[-1].set_title("all pairs: one per client, or its whole view", fontsize=10)
        grid[-1].legend(fontsize=8, title=WHISKERS, title_fontsize=8)

    return plot


def _draw(axes: Axes, rows: Sequence[Row], place: int, label: str, style: str) -> None:
    figures = [{figure.name: figure for figure in row.figures()} for row in rows]
    xs = [float(row.settings["epsilon"]) for row in rows]
    measured = [found["squared error"].measured for found in figures]
    errors = [found["squared error"].standard_error or 0.0 for found in figures]
    colour = COLOURS[place]
    axes.errorbar(xs, measured, yerr=errors, fmt=MARKERS[place], color=colour, capsize=2)
    expected = [found["in closed form"].measured for found in figures]
    axes.plot(xs, expected, style, color=colour, label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(xs, [f"{x:g}" for x in xs])
    axes.minorticks_off()
    axes.set_xlabel("true epsilon per respondent")
    axes.set_ylabel("total squared error of shares")


# By messages


def _by_messages(parameters: Parameters, context: Context) -> Reproduced:
    records = sample(network("survey", context.data), parameters.n, context.seed)
    outcome, estimate = run_rrba(
        context, records, k=2, epsilon=LIVE_EPSILON, block=parameters.block
    )
    tables = estimate.tables()
    errors = [
        float(squared_error(table, records.distribution(names))) for names, table in tables.items()
    ]
    how = asked(records.survey, LIVE_EPSILON, "one")
    laws = [records.distribution(names).reshape(-1) for names in how.names]
    return Reproduced(
        reproduction="rrba-honest",
        runs=1,
        rows=(
            Row(
                settings={
                    "at equal": "epsilon",
                    "network": "survey",
                    "epsilon": LIVE_EPSILON,
                    "answers": "one",
                },
                measured={
                    "squared error": sum(errors),
                    "in closed form": expected_of_groups(laws, how, parameters.n),
                },
            ),
        ),
        notes=(
            "one run by messages, uniform fakes: no standard error follows from it",
            "the closed form is of respondents drawn from a population; here each answers about "
            "one of her pairs, drawn by lot, which is almost the same",
        ),
        outcome=outcome,
    )


SCENARIOS = (
    Scenario(
        name="rrba-honest",
        summary="RRBA at equal true epsilon: adaptive or uniform fakes, one group or a whole view.",
        parameters=Parameters,
        run=run,
    ),
)
