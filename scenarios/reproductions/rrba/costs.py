"""Figure 4 of RRBA: what an answer costs, as claimed and in truth.

Randomized Response Block Aggregation (RRBA), section 4.2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from scenarios.report.plots import plot_rows
from scenarios.reproductions.rrba.shared import claimed_epsilon, true_epsilon
from scenarios.running.reproduction import Reproduced, Row, Runs, refuse_messages
from scenarios.running.scenario import Context, Scenario

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PS = (0.009, 0.048, 0.095, 0.139, 0.221, 0.295, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


class Costs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What can be set for Figure 4, in which nothing is drawn."""

    runs: Runs = 1
    least: Annotated[
        float, Meta(gt=0, le=0.25, description="least cell of the table that fakes come from")
    ] = 0.01


def figure_4(parameters: Costs, context: Context) -> Reproduced:
    """The claimed epsilon of p beside the true one."""
    refuse_messages("rrba-figure-4", context.by_messages)
    least = parameters.least
    rows = tuple(
        Row(
            settings={"p": p},
            measured={
                "claimed": claimed_epsilon(p),
                "uniform, 4 cells": true_epsilon(p, 4),
                "uniform, 16 cells": true_epsilon(p, 16),
                # A least cell of 1/K is a table of K cells.
                f"least cell {least:g}": math.log1p(p / ((1 - p) * least)),
            },
        )
        for p in _PS
    )
    context.progress(len(rows), len(rows))
    return Reproduced(
        reproduction="rrba-figure-4",
        runs=parameters.runs,
        rows=rows,
        notes=(
            "exact: nothing is drawn; the figure has no numbers printed in it",
            "claimed is theorem 4.1's ln(1/(1-p)). Its proof lets the person whose answer it is "
            "report it by the first coin with probability p q only, q being how common the answer "
            "is: it is p, whatever q",
            "a report's true loss is ln(1 + p/((1-p) T)) with T the least cell of the table that "
            "fakes come from: it rises without bound as T falls, and is infinite for a cell of 0",
            f"at p = 0.5 the claim is {claimed_epsilon(0.5):.2f}; the truth is "
            f"{true_epsilon(0.5, 4):.2f} for a uniform table of 4 cells and "
            f"{true_epsilon(0.5, 16):.2f} for 16",
            "Tables 4, 5 and 6 print an epsilon of 0.25, 0.35 and 0.5 beside a p of 0.5, 0.4 and "
            f"0.5, which is less than even the claim: {claimed_epsilon(0.5):.2f}, "
            f"{claimed_epsilon(0.4):.2f} and {claimed_epsilon(0.5):.2f}",
        ),
        plot=_plot_costs(rows),
    )


def _plot_costs(rows: Sequence[Row]) -> Callable[[Figure], None]:
    curves = tuple(
        Row(settings={"p": row.settings["p"], "epsilon": figure.name}, measured=figure.measured)
        for row in rows
        for figure in row.figures()
    )
    return plot_rows(curves, x="p", by=("epsilon",), label="epsilon", title="rrba-figure-4")


SCENARIOS = (
    Scenario(
        name="rrba-figure-4",
        summary="RRBA, Figure 4: the claimed epsilon of p beside the true one.",
        parameters=Costs,
        run=figure_4,
    ),
)
