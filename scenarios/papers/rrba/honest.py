"""RRBA's choices compared at equal true epsilon: which table of fakes, and how many groups.

Randomized Response Block Aggregation (RRBA), section 4, whose own comparisons are at an equal keep
probability, or at a claimed epsilon that is not what a report costs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from protocol.crypto.randomness import WORDS
from protocol.estimators.measures import squared_error
from protocol.randomizers.exact import Floats
from protocol.surveys.records import Records
from protocol.surveys.survey import Survey
from protocol.variants import RRBA
from protocol.variants.rrba.plan import Extent
from scenarios.data.networks import Network
from scenarios.papers.driver import experiment_scenarios
from scenarios.papers.experiment import Asked, Cell, Experiment, Found, Sample, grid
from scenarios.papers.laws import expected_inverse
from scenarios.papers.rrba.block_laws import Trials, sampled_blocks
from scenarios.papers.rrba.shared import (
    NETWORKS,
    Blocks,
    NetworkName,
    expected_squared_error,
    keep_at,
    mixed,
    network,
    run_rrba,
    true_epsilon,
)
from scenarios.running.reproduction import Picture

TABLES: dict[str, tuple[NetworkName, tuple[str, ...]]] = {
    "A, T": ("survey", ("A", "T")),
    "PRESS, VENTALV": ("alarm", ("PRESS", "VENTALV")),
}
"""One table that is almost uniform, and one with many rare cells."""

MIXES = (0.05, 0.1, 0.2, 0.5, 1.0)
EPSILONS = (0.5, 1.0, 2.0, 4.0)
GROUP_EPSILONS = (*EPSILONS, 8.0)
SAME_P = (0.3, 0.5)

EXTENTS: tuple[Extent, ...] = get_args(Extent)

CELLS: tuple[Cell, ...] = tuple(
    {"at equal": "p" if "p" in cell else "epsilon", **cell}
    for cell in (
        *grid(table=tuple(TABLES), mix=MIXES, epsilon=EPSILONS),
        *grid(table=tuple(TABLES), mix=MIXES, p=SAME_P),
        *grid(network=NETWORKS, epsilon=GROUP_EPSILONS, answers=EXTENTS),
    )
)


# Which table of fakes


def errors_of_mix(
    law: Floats,
    p: float,
    mix: float,
    parameters: Blocks,
    generator: np.random.Generator,
    *,
    runs: int,
) -> tuple[Floats, Floats]:
    """Adaptive fakes of one mix; every run has respondents of its own, all asked about one table.

    Given the tables, the errors of two blocks are uncorrelated, so that the expected squares add
    up: ``sum_b n_b (1 - sum_v L_b[v]**2) / (n p)**2``, with ``L_b = p pi + (1-p) T_b``.

    Returns:
        The total squared error of the raw shares, (runs,), and what it was expected to be, given
        the tables that the run's fakes came from.
    """
    shape, (blocks, rest) = (runs,), divmod(parameters.n, parameters.block)
    trials = Trials(shape, law.size, keep=p, mix=mix, generator=generator)
    laws = np.broadcast_to(law, (*shape, law.size))
    expected = np.zeros(shape)
    for true in sampled_blocks(laws, parameters.block, generator, blocks=blocks, rest=rest):
        reported = p * law + (1 - p) * trials.ask(true).tables
        expected += true.sum(axis=1) * (1 - (reported**2).sum(axis=1))
    return squared_error(trials.raw(), law, ways=1), expected / (parameters.n * p) ** 2


def _mixes(asked: Asked[Blocks]) -> Sample:
    """One mix at an epsilon, or at a p from the paper."""
    cell, own = asked.cell, asked.parameters
    name, names = TABLES[cell["table"]]
    source, mix = network(name, asked.data), cell["mix"]
    law = source.distribution(names).reshape(-1)
    p = cell.get("p") or keep_at(cell["epsilon"], law.size, mix=mix)
    if asked.live:
        records = _people(asked, source).project(names)
        estimate = run_rrba(asked, records, k=len(names), p=p, mix=mix, block=own.block)
        raw = estimate.table(*names).values.reshape(1, -1)
        return Sample.of({"squared error": squared_error(raw, law, ways=1)}, cells=law.size)
    found, expected = errors_of_mix(law, p, mix, own, asked.generator(), runs=asked.runs)
    figures: dict[str, Any] = {
        "squared error": found,
        "in closed form": expected.mean(),
        "fakes from the truth": expected_squared_error(law, mixed(law, mix), p, own.n),
    }
    if "p" in cell:
        epsilon = true_epsilon(p, law.size, mix=mix)
        instead = mixed(law, 1.0), keep_at(epsilon, law.size), own.n
        uniform = expected_squared_error(law, *instead)
        figures |= {"epsilon": epsilon, "uniform at this epsilon": uniform}
    else:
        figures["p"] = p
    return Sample.of(figures, cells=law.size)


def _people(asked: Asked[Blocks], source: Network) -> Records:
    """Newly drawn respondents of a run by messages."""
    stream = asked.context.stream(f"records of {source.title}")
    return source.sample(asked.parameters.n, stream)


# One group or the whole view


class Groups(NamedTuple):
    """Questions about pairs of attributes in one of the two ways.

    Args:
        names: of every group.
        keeps: the keep probability of every group.
        draw: how many respondents answer about each group in some runs, (runs, groups).
        shares: the probability that a respondent answers about each.
        longest: how many groups the largest view has.
    """

    names: tuple[tuple[str, ...], ...]
    keeps: Floats
    draw: Callable[[int, int, np.random.Generator], NDArray[np.int64]]
    shares: Floats
    longest: int


def plan_groups(survey: Survey, epsilon: float, extent: Extent) -> Groups:
    """The variant's own groups, views and keep probabilities, at a total cost per respondent."""
    views = RRBA(survey=survey, k=2, p=0.5).plan.views
    longest = max(map(len, views))
    each = epsilon if extent == "one" else epsilon / longest
    plan = RRBA(survey=survey, k=2, epsilon=each, groups=extent).plan
    groups = len(plan.group_names)
    member = np.zeros((len(views), groups))
    for number, view in enumerate(views):
        member[number, list(view)] = 1 if extent == "view" else 1 / len(view)
    shares: Floats = member.mean(axis=0)

    def draw(n: int, runs: int, generator: np.random.Generator) -> NDArray[np.int64]:
        if extent == "one":
            return generator.multinomial(n, shares, size=runs)
        drawn = generator.multinomial(n, [1 / len(views)] * len(views), size=runs)
        return np.asarray(drawn @ (member > 0), np.int64)

    return Groups(plan.group_names, np.array(plan.thresholds) / WORDS, draw, shares, longest)


def errors_of_groups(
    laws: Sequence[Floats],
    how: Groups,
    generator: np.random.Generator,
    *,
    n: int,
    runs: int,
) -> Floats:
    """The total squared error of the raw shares of all groups in every run, (runs,).

    Fakes are uniform. Who answers is drawn anew in every run, from a population with these laws;
    groups that one respondent answers are drawn independently, which leaves the mean as it is.
    """
    errors = np.zeros(runs)
    heard = how.draw(n, runs, generator)
    for law, p, answered in zip(laws, how.keeps.tolist(), heard.T, strict=True):
        fakes = (1 - p) / law.size
        counts = generator.multinomial(answered, p * law + fakes)
        raw = (counts / np.maximum(answered, 1)[:, np.newaxis] - fakes) / p
        raw[answered == 0] = 1 / law.size
        errors += squared_error(raw, law, ways=1)
    return errors


def expected_of_groups(laws: Sequence[Floats], how: Groups, n: int) -> float:
    """The same in closed form, given that every group is answered."""
    inverses = {share: expected_inverse(n, share) for share in set(how.shares.tolist())}
    return sum(
        expected_squared_error(law, mixed(law, 1.0), p, 1) * inverses[share]
        for law, p, share in zip(laws, how.keeps.tolist(), how.shares.tolist(), strict=True)
    )


def _groups(asked: Asked[Blocks]) -> dict[str, Any]:
    """All pairs of a network; each client answers one pair or its whole view."""
    cell, own, source = asked.cell, asked.parameters, network(asked.cell["network"], asked.data)
    how = plan_groups(source.survey, cell["epsilon"], cell["answers"])
    if asked.live:
        each = cell["epsilon"] / (how.longest if cell["answers"] == "view" else 1)
        records, extent = _people(asked, source), cell["answers"]
        estimate = run_rrba(asked, records, k=2, epsilon=each, groups=extent, block=own.block)
        errors = [
            squared_error(table, source.distribution(names))
            for names, table in estimate.source.tables().items()
        ]
        return {"squared error": np.array([sum(errors)])}
    laws = [source.distribution(names).reshape(-1) for names in how.names]
    return {
        "squared error": errors_of_groups(laws, how, asked.generator(), n=own.n, runs=asked.runs),
        "in closed form": expected_of_groups(laws, how, own.n),
        "reports of a group": own.n * how.shares.mean(),
    }


def _measure(asked: Asked[Blocks]) -> Sample | dict[str, Any]:
    return _groups(asked) if "answers" in asked.cell else _mixes(asked)


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


def _comparison_notes(found: Found[Blocks]) -> list[str]:
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
    name="rrba-honest",
    summary="RRBA at equal true epsilon: adaptive or uniform fakes, one group or a whole view.",
    cells=CELLS,
    measure=_measure,
    live=True,
    live_cell={"network": "survey", "epsilon": 2.0, "answers": "one"},
    runs=200,
    parameters=Blocks,
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
    observed=_comparison_notes,
    picture=Picture(
        title="At equal epsilon the uniform table has the smallest error",
        x="epsilon",
        by=("table", "network", "mix", "answers"),
        figures=("squared error", "in closed form"),
        names={
            "epsilon": "true epsilon of a respondent",
            "one": "one group",
            "view": "whole view",
        },
    ),
)
SCENARIOS = experiment_scenarios(EXPERIMENT)
