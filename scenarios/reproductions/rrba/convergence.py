"""Figures 5 and 6 of RRBA: how many tuples an estimate needs until it has settled.

Randomized Response Block Aggregation (RRBA), sections 5, 7.1 and 7.2. The figures have no
numbers printed in them; what the text says about them is in the notes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from protocol.randomizers.exact import Floats
from scenarios.report.plots import plot_rows
from scenarios.reproductions.rrba.block_laws import Trials, sampled_blocks
from scenarios.reproductions.rrba.shared import (
    MIX,
    NETWORKS,
    Cell,
    Mix,
    NetworkName,
    mean_and_error,
    nearest_cell,
    network,
    projected_records,
    run_rrba,
    sample,
)
from scenarios.running.reproduction import Reproduced, Row, Runs
from scenarios.running.scenario import Context, Scenario

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PROBABILITIES = (0.0285, 0.072, 0.116, 0.224, 0.356, 0.446, 0.524, 0.732)
"""Section 7.1's list; the caption of Figure 5 leaves out the first."""

BLOCKS = 200
SIZES = (18, 50, 150, 250)

FIGURE_5_P = 0.5
"""Not said in the paper; Tables 4 and 6 have it."""

FIGURE_6_P = (0.009, 0.048, 0.095, 0.139, 0.221, 0.295)
"""The figure's, and the one that the text adds."""

FIGURE_6_PROBABILITIES = (0.072, 0.116, 0.356, 0.446)

Z = 1.96
"""The quantile of a confidence of 95 %."""


class Convergence(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What can be set for Figure 5."""

    runs: Runs = 40
    p: Annotated[float, Meta(ge=1e-9, lt=1, description="keep probability")] = FIGURE_5_P
    network: Annotated[
        Literal["all", "survey", "alarm", "child"], Meta(description="whose values are asked for")
    ] = "all"
    mix: Mix = MIX


class ConvergenceOfP(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What can be set for Figure 6."""

    runs: Runs = 40
    network: Annotated[NetworkName, Meta(description="whose values are asked for")] = "alarm"
    mix: Mix = MIX


def figure_5(parameters: Convergence, context: Context) -> Reproduced:
    """Tuples until convergence by block size.

    By messages, one survey of the smallest blocks on one attribute, which stops by the printed
    rule.
    """
    names = NETWORKS if parameters.network == "all" else (parameters.network,)
    p, mix, runs = parameters.p, parameters.mix, parameters.runs
    if context.by_messages:
        return _stopped_by_messages("rrba-figure-5", names[0], p, mix, context)
    values = []
    for name in names:
        source = network(name, context.data)
        for place, listed in enumerate(PROBABILITIES):
            cell = nearest_cell(source, listed)
            settings = {"network": name, "listed": listed, "cell": cell.words}
            seeds = (context.seed, 5, NETWORKS.index(name), place)
            values.append(Value(settings, cell, p, mix, runs, seeds))
    rows = [row for found in context.map(rows_of, values) for row in found]
    shown = [row for row in rows if row.settings["listed"] != PROBABILITIES[0]]
    return Reproduced(
        reproduction="rrba-figure-5",
        runs=runs,
        rows=tuple(rows),
        notes=(
            *_rule_notes(),
            "the text has convergence in all three networks alike, earlier for smaller blocks; the "
            "figure's p is not said, here it is "
            f"{p:g}",
            *_found(rows),
        ),
        plot=_curves(shown, ("network", "listed"), "rrba-figure-5"),
    )


def figure_6(parameters: ConvergenceOfP, context: Context) -> Reproduced:
    """The same for several keep probabilities.

    By messages as Figure 5, at the largest p.
    """
    name, mix, runs = parameters.network, parameters.mix, parameters.runs
    if context.by_messages:
        return _stopped_by_messages("rrba-figure-6", name, FIGURE_6_P[-1], mix, context)
    source = network(name, context.data)
    values = []
    cells = [(listed, nearest_cell(source, listed)) for listed in FIGURE_6_PROBABILITIES]
    for number, p in enumerate(FIGURE_6_P):
        for place, (listed, cell) in enumerate(cells):
            settings = {"p": p, "listed": listed, "cell": cell.words}
            values.append(Value(settings, cell, p, mix, runs, (context.seed, 6, number, place)))
    rows = [row for found in context.map(rows_of, values) for row in found]
    return Reproduced(
        reproduction="rrba-figure-6",
        runs=runs,
        rows=tuple(rows),
        notes=(
            *_rule_notes(),
            "the text has no convergence at p of 0.009, 0.048 and 0.095; at 0.139 for the larger "
            "probabilities in blocks of 150 and 250; at 0.221 and 0.295 for all, in blocks of 150 "
            "and 250",
            *_found(rows),
            "the block size does not decide: the difference of two blocks and the interval both "
            "shrink like its square root, so that a rule that works for blocks of 150 works for 18",
        ),
        plot=_curves(rows, ("p", "listed"), "rrba-figure-6"),
    )


def _curves(rows: Sequence[Row], by: Sequence[str], title: str) -> Callable[[Figure], None]:
    """What a picture has room for."""
    names = ("tuples", "within", "tuples, running mean")
    drawn = []
    for row in rows:
        shown = [figure for figure in row.figures() if figure.name in names]
        errors = {f.name: f.standard_error for f in shown if f.standard_error is not None}
        measured = {figure.name: figure.measured for figure in shown}
        drawn.append(Row(settings=row.settings, measured=measured, standard_error=errors))
    return plot_rows(drawn, x="block", by=by, title=title)


class Value(NamedTuple):
    """One value that is asked for.

    Args:
        settings: of its rows.
        cell: where it is in the network.
        p, mix, runs: of the experiment.
        seeds: decide its draws.
    """

    settings: Mapping[str, object]
    cell: Cell
    p: float
    mix: float
    runs: int
    seeds: tuple[int, ...]


def rows_of(value: Value) -> list[Row]:
    """One value at every block size."""
    settings, cell, p, mix, runs, seeds = value
    raw, means = histories(cell, p, mix, SIZES, runs, np.random.default_rng(seeds))
    rows = []
    for place, size in enumerate(SIZES):
        width = 2 * Z * math.sqrt(cell.probability * (1 - cell.probability) / size)
        printed = np.abs(np.diff(raw[:, place], axis=0)) < width
        running = np.abs(np.diff(means[:, place], axis=0)) < width
        tuples = size * settled_after(printed)
        figures = {
            "tuples": mean_and_error(tuples),
            "within": mean_and_error(printed.mean(axis=0)),
            "lasting": mean_and_error(lasting(printed)),
            "tuples, running mean": mean_and_error(size * settled_after(running)),
        }
        rows.append(
            Row(
                settings={
                    **settings,
                    "probability": round(cell.probability, 4),
                    "block": size,
                },
                measured={
                    **{name: value for name, (value, _) in figures.items()},
                    "within, in theory": within(cell, p, mix, width, size),
                    "tuples, pooled": pooled_tuples(cell, p, mix, width),
                },
                standard_error={name: error for name, (_, error) in figures.items()},
            )
        )
    return rows


def histories(
    cell: Cell,
    p: float,
    mix: float,
    sizes: Sequence[int],
    runs: int,
    generator: np.random.Generator,
) -> tuple[Floats, Floats]:
    """One value's raw estimate by each block alone, and by all blocks so far.

    Returns:
        Two arrays of shape (blocks, sizes, runs).
    """
    shape = (len(sizes), runs)
    trials = Trials(shape, cell.law.size, keep=p, mix=mix, generator=generator)
    n = np.broadcast_to(np.array(sizes)[:, np.newaxis], shape)
    law = np.broadcast_to(cell.law, (*shape, cell.law.size))
    raw, means = np.empty((BLOCKS, *shape)), np.empty((BLOCKS, *shape))
    for block, true in enumerate(sampled_blocks(law, n, generator, blocks=BLOCKS)):
        raw[block] = trials.ask(true).raw[..., cell.place]
        means[block] = trials.raw()[..., cell.place]
    return raw, means


def settled_after(held: NDArray[np.bool_]) -> NDArray[np.int64]:
    """After how many blocks a condition holds, and still does in the last block.

    Args:
        held: (steps, ...) whether it held between two consecutive blocks.

    Returns:
        (...) from 2, the first pair; one block more than there are if it fails in the last.
    """
    steps = len(held)
    since = np.logical_and.accumulate(held[::-1], axis=0).sum(axis=0)
    return np.asarray(steps - since + 2, np.int64)


def lasting(held: NDArray[np.bool_]) -> Floats:
    """Whether a condition held in the whole second half: what holds at the very end alone, does by
    chance."""
    return np.asarray(held[len(held) // 2 :].all(axis=0), np.float64)


def within(cell: Cell, p: float, mix: float, width: float, size: int) -> float:
    """How often two blocks' estimates differ by less than a width, by the normal law.

    For reports whose fakes come from the true distribution, mixed.
    """
    spread = math.sqrt(2 * _report_variance(cell, p, mix) / size) / p
    return math.erf(width / (spread * math.sqrt(2)))


def pooled_tuples(cell: Cell, p: float, mix: float, width: float) -> float:
    """After how many reports the interval of the pooled estimate is of this width."""
    return (2 * Z / (p * width)) ** 2 * _report_variance(cell, p, mix)


def _report_variance(cell: Cell, p: float, mix: float) -> float:
    fake = (1 - mix) * cell.probability + mix / cell.law.size
    reported = p * cell.probability + (1 - p) * fake
    return reported * (1 - reported)


def _rule_notes() -> tuple[str, ...]:
    return (
        "the figure has no numbers printed in it; each listed probability is that of the nearest "
        "value in the network, whose attribute is asked by itself",
        "tuples: until the printed rule holds for good (section 7.1): two consecutive blocks' own "
        "estimates differ by less than 2 z sqrt(v(1-v)/B). The last of 200 blocks often does by "
        "chance, so this is a number near 200 B where the rule never settles",
        "within: how often two neighbouring blocks meet the rule; lasting: the share of trials in "
        "which all of the second 100 blocks do, which is convergence",
        "tuples, running mean: the same rule on the mean of all blocks so far. It is met once the "
        "mean can no longer move by much, whatever its error: after some 1/p blocks",
        "tuples, pooled: after how many reports the pooled estimate's own interval is as narrow, "
        "in closed form; then the error is known, and no rule on differences is needed",
        "the printed width leaves out the factor 1/p of an estimate from randomized reports, and a "
        "difference of two estimates has sqrt(2) times the error of one",
    )


def _found(rows: Sequence[Row]) -> list[str]:
    figures = [{f.name: f.measured for f in row.figures()} for row in rows]
    lasts = [found["lasting"] for found in figures]
    within_steps = [found["within"] for found in figures]
    return [
        f"measured: two neighbouring blocks meet the rule in {min(within_steps):.0%} to "
        f"{max(within_steps):.0%} of cases; it lasts in {min(lasts):.0%} to {max(lasts):.0%} of "
        "the trials"
    ]


def _stopped_by_messages(
    reproduction: str, name: NetworkName, p: float, mix: float, context: Context
) -> Reproduced:
    source = network(name, context.data)
    cell = nearest_cell(source, PROBABILITIES[4])
    size = SIZES[0]
    records = projected_records(sample(source, BLOCKS * size, context.seed), [cell.attribute])
    outcome, estimate = run_rrba(
        context, records, k=1, p=p, mix=mix, block=size, stopping="printed", release="last-two"
    )
    error = estimate.table(cell.attribute).values[cell.place] - cell.probability
    rows = (
        Row(
            settings={"network": name, "cell": cell.words, "p": p, "block": size},
            measured={"first": estimate.n, "error": float(error)},
            remark="The variant stops at the first block at which all values of the attribute meet "
            "the rule, here with the width divided by p; the paper goes on and asks whether it "
            "lasts.",
        ),
    )
    return Reproduced(
        reproduction=reproduction,
        runs=1,
        rows=rows,
        notes=(
            "one run by messages: no standard error follows from it",
            "first: tuples until the aggregator stops (section 5, step 3); error: of the mean of "
            "the last two blocks (step 4), which is what the printed rule releases",
        ),
        outcome=outcome,
    )


SCENARIOS = (
    Scenario(
        name="rrba-figure-5",
        summary="RRBA, Figure 5: tuples until convergence by block size.",
        parameters=Convergence,
        run=figure_5,
    ),
    Scenario(
        name="rrba-figure-6",
        summary="RRBA, Figure 6: tuples until convergence by block size and p.",
        parameters=ConvergenceOfP,
        run=figure_6,
    ),
)
