"""RRBA on samples of three Bayesian networks: every client live, asked in blocks."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
import numpy as np

from protocol.audit.walk import steps
from protocol.crypto.randomness import WORDS, Streams
from protocol.estimators.inference.intervals import level_text
from protocol.estimators.inference.laws import critical
from protocol.estimators.linear import LinearEstimate
from protocol.estimators.measures import jensen_shannon_distance, l2_distance, total_variation
from protocol.estimators.projection import Projection, project_simplex
from protocol.randomizers.exact import Floats
from protocol.session.variant import Epsilon, Probability
from protocol.surveys.records import Records
from protocol.variants.rrba.blocks import Running, integer_weights
from protocol.variants.rrba.grouped import GroupTables
from protocol.variants.rrba.rrba import RRBA, Block
from scenarios.data.networks import Network, alarm_network, child_network, survey_network
from scenarios.report.pictures.shares import conditions
from scenarios.report.pictures.style import COLOURS, frame, literal
from scenarios.running.outcomes import Outcome
from scenarios.running.parameters import (
    Part,
    Positive,
    made,
    parameters_checked,
    settable,
    wanted_keep,
)
from scenarios.running.scenario import Context, Finished, Scenario
from scenarios.wording.formatting import count, cut

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DEFAULT_P = 0.5
TRACED = 6
"""Cells of one group for which the convergence is drawn."""


class Sampled(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of the surveys; ``p`` or ``epsilon``, not both.

    Args:
        n: how many clients are drawn from the network.
        p: probability of the true answer; 0.5.
        epsilon: most per answer, instead of p.
        parties: over how many clients are spread; one each.
        drop: share of parties that vanish.
        project: of the tables reported: none, clip, simplex, em or consistent.
    """

    n: Positive = 8000
    p: Probability | None = None
    epsilon: Epsilon | None = None
    parties: Positive | None = None
    drop: Part = 0.0
    project: Projection | Literal["consistent"] = "none"


ASKED = ("k", "p", "epsilon", "mix", "block", "mode", "groups")
RULES = ("stopping", "width", "alpha", "update", "release", "tail", "allow_unbounded")
PARAMETERS = settable(
    Sampled,
    RRBA,
    names=("n", *ASKED, *RULES, "parties", "drop", "project"),
    renamed={"mix": "lambda"},
)


def _run(
    parameters: Sampled, context: Context, network: Callable[[Path | str | None], Network]
) -> Finished:
    p = wanted_keep(parameters.p, parameters.epsilon, default=DEFAULT_P)
    stream = Streams.of_seed(context.seed).stream("network", "sample")
    drawn_from = network(context.data)
    records = drawn_from.sample(parameters.n, stream)
    context.drawn(records, drawn_from.population())
    variant = made(RRBA, parameters, survey=records.survey, p=p)
    with parameters_checked():
        views = len(variant.plan.views)
    outcome = context.simulate(variant, records, parties=parameters.parties, drop=parameters.drop)
    estimate = outcome.estimate
    claimed = variant.claims()[0].epsilon or 0.0
    agreed: dict[str, float] = {}
    notes: tuple[str, ...] = ()
    if parameters.project == "consistent":
        before = estimate.source.disagreement()
        with parameters_checked():
            estimate = estimate.consistent()
        agreed = {"before": before, "after": estimate.source.disagreement()}
        notes = (
            f"Groups that share attributes gave shares of these that differ by up to {before:.3g}; "
            "the tables reported are the nearest that agree.",
        )
    return Finished(
        outcome=outcome,
        projection="none" if parameters.project == "consistent" else parameters.project,
        estimate=estimate,
        extra={
            "views": [
                [list(variant.plan.group_names[group]) for group in view]
                for view in variant.plan.views
            ],
            "blocks": outcome.result.blocks if hasattr(outcome.result, "blocks") else None,
            **({"disagreement": agreed} if agreed else {}),
        },
        error={"groups": _errors(estimate, records)},
        notes=(
            f"{views} views, {len(variant.plan.group_names)} groups of {variant.k} attributes.",
            f"The paper claims epsilon {claimed:.3g} per answer; the ledger below has what the "
            "tables really cost.",
            *notes,
        ),
        plot=lambda figure: draw_convergence(
            figure, variant, outcome, records, context.intervals.level
        ),
    )


def _errors(estimate: LinearEstimate[GroupTables], records: Records) -> dict[str, float]:
    distances: dict[str, list[float]] = {"total_variation": [], "l2": [], "jensen_shannon": []}
    for names, raw in estimate.source.tables().items():
        estimated, true = project_simplex(raw), records.distribution(names)
        distances["total_variation"].append(float(total_variation(estimated, true)))
        distances["l2"].append(float(l2_distance(estimated, true)))
        distances["jensen_shannon"].append(float(jensen_shannon_distance(estimated, true)))
    return {name: float(np.mean(values)) for name, values in distances.items()}


def convergence(variant: RRBA, outcome: Outcome[RRBA]) -> tuple[Floats, Floats]:
    """The running raw estimate after every block and its standard errors, from the record.

    Returns:
        Both of shape (blocks, cells).
    """
    plan = variant.plan
    running = Running(plan.cells, np.array(plan.thresholds) / WORDS, variant.update)
    trace: list[tuple[Floats, Floats]] = []
    for step in steps(outcome.charter.codec, outcome.transcript.entries(), bodies=False):
        block = step.message
        if isinstance(block, Block):
            tables = integer_weights(plan.cells, running.tables(variant.mix)) / WORDS
            running.add(block.counts.astype(np.int64), tables)
            trace.append((running.raw(), running.errors()))
    raw, errors = zip(*trace, strict=True)
    return np.array(raw), np.array(errors)


def draw_convergence(
    figure: Figure, variant: RRBA, outcome: Outcome[RRBA], records: Records, level: float
) -> None:
    """The cells of the group with most of them, block by block, beside the true shares."""
    plan = variant.plan
    trace, errors = convergence(variant, outcome)
    group = int(plan.cells.sizes.argmax())
    names = plan.group_names[group]
    true = records.distribution(names).reshape(-1)
    start = int(plan.cells.starts[group])
    cells = np.argsort(-true)[:TRACED].tolist()
    columns = min(3, len(cells))
    grid = figure.subplots(
        math.ceil(len(cells) / columns), columns, squeeze=False, sharex=True, sharey=True
    )
    blocks = np.arange(1, len(trace) + 1)
    combinations = list(product(*(variant.survey.attribute(name).categories for name in names)))
    held, z = 0, critical(level)
    for axes, cell in zip(grid.ravel(), cells, strict=False):
        found, error = 100 * trace[:, start + cell], 100 * errors[:, start + cell]
        axes.fill_between(
            blocks,
            found - z * error,
            found + z * error,
            color=COLOURS[0],
            alpha=0.2,
            linewidth=0,
            label=f"{level_text(level)} interval about the population",
        )
        axes.plot(blocks, found, color=COLOURS[0], label="estimate")
        axes.axhline(100 * true[cell], color=COLOURS[1], linestyle="--", label="truth")
        axes.set_title(literal(cut(" / ".join(combinations[cell]), 36)))
        held += bool(abs(found[-1] - 100 * true[cell]) <= z * error[-1])
    for axes in grid.ravel()[len(cells) :]:
        axes.set_visible(False)
    last = 100 * trace[len(trace) // 4 :, start + np.array(cells)]
    wide = 100 * z * errors[len(trace) // 4 :, start + np.array(cells)]
    wide = np.where(np.isfinite(wide), wide, 0.0)
    grid[0, 0].set_ylim(
        min(0.0, float((last - wide).min())),
        1.05 * max(float((last + wide).max()), 100 * float(true.max())),
    )
    grid[0, 0].locator_params(axis="x", integer=True)
    for axes in grid[-1]:
        axes.set_xlabel("blocks asked")
    for axes in grid[:, 0]:
        axes.set_ylabel("share (%)")
    handles, labels = grid[0, 0].get_legend_handles_labels()
    frame(
        figure,
        f"After {count(len(trace), 'block')}, {held} of {count(len(cells), 'interval')} of "
        f"{level_text(level)} {'hold' if held != 1 else 'holds'} the true share",
        (f"the {len(cells)} largest cells of {' and '.join(names)}", *conditions(outcome)),
        size=(8.6, 2.3 * len(grid)),
        handles=handles,
        labels=labels,
    )


def _scenario(
    name: str, said: str, network: Callable[[Path | str | None], Network]
) -> Scenario[Sampled]:
    return Scenario(
        name=name,
        summary=f"RRBA on the {said} attributes, in blocks.",
        parameters=PARAMETERS,
        run=lambda parameters, context: _run(parameters, context, network),
        joint=False,
    )


SCENARIOS = (
    _scenario("rrba-survey", "Survey network: 6", survey_network),
    _scenario("rrba-alarm", "Alarm network: 37", alarm_network),
    _scenario("rrba-child", "Child network: 20", child_network),
)

if __name__ == "__main__":
    from scenarios.cli import script

    script(__file__)
