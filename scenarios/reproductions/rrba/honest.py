"""RRBA's choices compared at equal true epsilon: which table of fakes, and how many groups.

Randomized Response Block Aggregation (RRBA), section 4, whose own comparisons are at an equal keep
probability, or at a claimed epsilon that is not what a report costs.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta

from protocol.estimators.measures import squared_error
from protocol.randomizers.exact import Floats
from protocol.surveys.survey import Survey
from scenarios.datasets.networks import Network
from scenarios.reproductions.driver import scenarios_of
from scenarios.reproductions.experiment import Asked, Cell, Experiment, Found, Sample, grid
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
    projected_records,
    run_rrba,
    true_epsilon,
)
from scenarios.running.outcomes import Outcome
from scenarios.running.reproduction import Picture
from scenarios.running.scenario import Context

TABLES: dict[str, tuple[NetworkName, tuple[str, ...]]] = {
    "A, T": ("survey", ("A", "T")),
    "PRESS, VENTALV": ("alarm", ("PRESS", "VENTALV")),
}
"""One table that is almost uniform, and one with many rare cells."""

MIXES = (0.05, 0.1, 0.2, 0.5, 1.0)
EPSILONS = (0.5, 1.0, 2.0, 4.0)
GROUP_EPSILONS = (*EPSILONS, 8.0)
SAME_P = (0.3, 0.5)

CELLS: tuple[Cell, ...] = (
    *(
        {"at equal": "epsilon", **cell}
        for cell in grid(table=tuple(TABLES), mix=MIXES, epsilon=EPSILONS)
    ),
    *({"at equal": "p", **cell} for cell in grid(table=tuple(TABLES), mix=MIXES, p=SAME_P)),
    *(
        {"at equal": "epsilon", **cell}
        for cell in grid(network=NETWORKS, epsilon=GROUP_EPSILONS, answers=EXTENTS)
    ),
)


class Parameters(msgspec.Struct, frozen=True, kw_only=True):
    """What can be set."""

    n: Annotated[int, Meta(ge=100, le=1_000_000, description="respondents")] = 8000
    block: Annotated[int, Meta(ge=1, description="respondents of a block")] = 250


def _law(of: Asked[Parameters]) -> list[Sample]:
    return _groups(of) if "answers" in of.cell else _mixes(of)


def _live(of: Asked[Parameters], context: Context) -> tuple[Outcome, list[Sample]]:
    return _groups_live(of, context) if "answers" in of.cell else _mixes_live(of, context)


def _people(source: Network, of: Asked[Parameters], context: Context) -> Any:
    """The respondents of a run by messages, drawn anew."""
    return source.sample(of.parameters.n, context.stream(f"records of {source.title}"))


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


def errors_of_mix(
    law: Floats,
    p: float,
    mix: float,
    parameters: Parameters,
    generator: np.random.Generator,
    *,
    runs: int,
) -> Errors:
    """Adaptive fakes of one mix; every run has respondents of its own, all asked about one table.

    Given the tables, the errors of two blocks are uncorrelated, so that the expected squares add
    up: ``sum_b n_b (1 - sum_v L_b[v]**2) / (n p)**2``, with ``L_b = p pi + (1-p) T_b``.
    """
    shape, whole = (runs,), divmod(parameters.n, parameters.block)
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


def _table(of: Asked[Parameters]) -> tuple[Network, Floats, float]:
    """The network, the law of the table, and the keep probability."""
    name, names = TABLES[of.cell["table"]]
    source = network(name, of.data)
    law = source.distribution(names).reshape(-1)
    p = of.cell.get("p") or keep_at(of.cell["epsilon"], law.size, mix=of.cell["mix"])
    return source, law, p


def _mixes(of: Asked[Parameters]) -> list[Sample]:
    """One mix at an epsilon, or at a p that the paper compares."""
    _, law, p = _table(of)
    mix, own = of.cell["mix"], of.parameters
    found = errors_of_mix(law, p, mix, own, of.generator(), runs=of.runs)
    exact = {
        "in closed form": float(found.expected.mean()),
        "fakes from the truth": found.best,
    }
    if "p" in of.cell:
        epsilon = true_epsilon(p, law.size, mix=mix)
        instead = mixed(law, 1.0), keep_at(epsilon, law.size), own.n
        exact["epsilon"] = epsilon
        exact["uniform at this epsilon"] = expected_squared_error(law, *instead)
    else:
        exact["p"] = p
    return [_sample(found.found, exact, law)]


def _mixes_live(of: Asked[Parameters], context: Context) -> tuple[Outcome, list[Sample]]:
    source, law, p = _table(of)
    _, names = TABLES[of.cell["table"]]
    records = projected_records(_people(source, of, context), names)
    outcome, estimate = run_rrba(
        context, records, k=len(names), p=p, mix=of.cell["mix"], block=of.parameters.block
    )
    raw = estimate.table(*names).values.reshape(-1)
    return outcome, [_sample(np.array([squared_error(raw, law, ways=1)]), {}, law)]


def _sample(errors: Floats, exact: dict[str, float], law: Floats) -> Sample:
    drawn = {"squared error": errors}
    return Sample(drawn=drawn, exact=exact, settings={"cells": law.size})


# One group or the whole view


class _Groups(NamedTuple):
    how: Any
    laws: list[Floats]


def _asked(source: Network, survey: Survey, of: Asked[Parameters]) -> _Groups:
    how = asked(survey, of.cell["epsilon"], of.cell["answers"])
    return _Groups(how, [source.distribution(names).reshape(-1) for names in how.names])


def _groups(of: Asked[Parameters]) -> list[Sample]:
    """All pairs of a network, one answer per client or its whole view."""
    own, source = of.parameters, network(of.cell["network"], of.data)
    how, laws = _asked(source, source.survey, of)
    errors = errors_of_groups(laws, how, of.generator(), n=own.n, runs=of.runs)
    exact = {
        "in closed form": expected_of_groups(laws, how, own.n),
        "reports of a group": float(own.n * how.shares.mean()),
    }
    return [Sample(drawn={"squared error": errors}, exact=exact)]


def _groups_live(of: Asked[Parameters], context: Context) -> tuple[Outcome, list[Sample]]:
    source = network(of.cell["network"], of.data)
    records = _people(source, of, context)
    how, _ = _asked(source, records.survey, of)
    each = of.cell["epsilon"]
    if of.cell["answers"] == "view":
        each /= how.longest
    outcome, estimate = run_rrba(
        context,
        records,
        k=2,
        epsilon=each,
        groups=of.cell["answers"],
        block=of.parameters.block,
    )
    errors = [
        squared_error(table, source.distribution(names))
        for names, table in estimate.tables().items()
    ]
    return outcome, [Sample(drawn={"squared error": np.array([sum(errors)])})]


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


def _compared(found: Found[Parameters]) -> list[str]:
    laws = [
        network(name, found.asked.data).distribution(names).reshape(-1)
        for name, names in TABLES.values()
    ]
    times = " and ".join(f"{times_of_truth(law, 1.0):,.0f}" for law in laws)
    table = list(TABLES)[-1]
    adaptive, uniform = (
        found.value("in closed form", table=table, epsilon=1.0, mix=mix) for mix in (0.1, 1.0)
    )
    one, view = (
        found.value("in closed form", network="alarm", epsilon=1.0, answers=extent)
        for extent in EXTENTS
    )
    return [
        f"at equal epsilon the uniform table wins: for {table} at an epsilon of 1 the mix of "
        f"0.1 has {adaptive / uniform:.0f} times its error. That is about (1 - sum L**2)/(n p**2): "
        "other fakes raise the sum, but never by as much as p falls",
        "even fakes from the true table itself, without any mix, at the least cell that it really "
        f"has, have {times} times the uniform table's error at an epsilon of 1, in the two tables",
        "one group has the smaller error until epsilon is so large that a part of it keeps almost "
        f"every answer. On alarm at an epsilon of 1 the whole view has {view / one:.0f} times the "
        "error; for a small epsilon the factor is the number of groups in a view",
    ]


EXPERIMENT = Experiment(
    paper="RRBA",
    item="section 4, at equal epsilon",
    name="rrba-honest",
    summary="RRBA at equal true epsilon: adaptive or uniform fakes, one group or a whole view.",
    cells=CELLS,
    law=_law,
    live=_live,
    live_cell={"network": "survey", "epsilon": 2.0, "answers": "one"},
    runs=200,
    parameters=Parameters,
    notes=(
        "respondents are drawn from a population in every run; the error is that of raw shares, "
        "summed over all cells",
        "mix 1 is the uniform table, plain k-ary randomized response. Below it fakes come from the "
        "running estimate, mixed with so much of the uniform distribution",
        "a report costs ln(1 + p/((1-p) T)), T the least cell: mix/K at worst. So a smaller mix "
        "needs a smaller p for the same epsilon: p/(1-p) = (e**epsilon - 1) mix/K",
        "at equal p, as the paper compares, the adaptive table has the somewhat smaller error, and "
        "costs more: the last figure is what the uniform table has at what that costs",
        "in closed form: the expected error, given the tables that the run's fakes came from. With "
        "a small p the running estimate is so noisy that its tables are nowhere near the truth: "
        "they have most of their weight in a few cells, which makes reports less random than "
        "fakes from the truth would, and costs the same",
        "one: a client answers about one pair, drawn in its view, with the whole epsilon. view: it "
        "answers about every pair of its view, with an equal part of epsilon each",
    ),
    observed=_compared,
    picture=Picture(
        title="At equal epsilon the uniform table has the smallest error",
        x="epsilon",
        by=("table", "network", "mix", "answers"),
        figures=("squared error", "in closed form"),
        computed=("in closed form",),
        names={
            "epsilon": "true epsilon of a respondent",
            "one": "one group",
            "view": "whole view",
        },
    ),
)
SCENARIOS = scenarios_of(EXPERIMENT)
