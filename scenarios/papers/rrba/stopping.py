"""Figures 4 to 6 of RRBA: what an answer costs, and how many tuples an estimate needs to settle.

Randomized Response Block Aggregation (RRBA), sections 4.2, 5, 7.1 and 7.2. The figures have no
numbers printed in them; what the text says about them is in the notes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from protocol.randomizers.exact import Floats
from protocol.variants.rrba.stopping import printed_width
from scenarios.data.networks import Network
from scenarios.papers.driver import experiment_scenarios
from scenarios.papers.experiment import Asked, Experiment, Found, Reading, Sample, grid
from scenarios.papers.rrba.block_laws import Trials, sampled_blocks
from scenarios.papers.rrba.shared import (
    MIX,
    NETWORKS,
    Mix,
    NetworkName,
    claimed_epsilon,
    mixed,
    network,
    run_rrba,
    true_epsilon,
)
from scenarios.running.reproduction import Picture

# Figure 4

KEEPS = (0.009, 0.048, 0.095, 0.139, 0.221, 0.295, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


class Costs(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of Figure 4, in which nothing is drawn."""

    least: Annotated[
        float, Meta(gt=0, le=0.25, description="least cell of the table that fakes come from")
    ] = 0.01


def _costs(asked: Asked[Costs]) -> dict[str, float]:
    """The claimed epsilon of p next to the true one."""
    p, least = asked.cell["p"], asked.parameters.least
    return {
        "claimed": claimed_epsilon(p),
        "uniform, 4 cells": true_epsilon(p, 4),
        "uniform, 16 cells": true_epsilon(p, 16),
        # A least cell of 1/K is a table of K cells.
        f"least cell {least:g}": true_epsilon(p, 1, mix=least),
    }


# Figures 5 and 6

PROBABILITIES = (0.0285, 0.072, 0.116, 0.224, 0.356, 0.446, 0.524, 0.732)
"""Section 7.1's list; the caption of Figure 5 leaves out the first."""

BLOCKS = 200
SIZES = (18, 50, 150, 250)

LIVE_BLOCKS = 40
"""Blocks of the smallest size that respondents by messages fill."""

Z, ALPHA = 1.96, 0.05
"""The quantile of a confidence of 95 %, and what is left of it."""


class Convergence(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of Figure 5."""

    p: Annotated[float, Meta(ge=1e-9, lt=1, description="keep probability")] = 0.5
    mix: Mix = MIX


class ConvergenceOfP(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of Figure 6."""

    network: Annotated[NetworkName, Meta(description="whose values are asked for")] = "alarm"
    mix: Mix = MIX


class Cell(NamedTuple):
    """A value of an attribute.

    Args:
        attribute: its name.
        place: the code of the value.
        law: of the attribute's values, (K,).
        words: attribute and value.
    """

    attribute: str
    place: int
    law: Floats
    words: str

    @property
    def probability(self) -> float:
        """Probability of the value."""
        return float(self.law[self.place])


def nearest_cell(source: Network, probability: float) -> Cell:
    """The value whose probability in the network is nearest; the first of the nearest."""
    return min(_cells(source), key=lambda cell: abs(cell.probability - probability))


@functools.lru_cache(maxsize=8)
def _cells(source: Network) -> list[Cell]:
    return [
        Cell(name, place, law, f"{name} = {categories[place]}")
        for name, categories in zip(source.names, source.categories, strict=True)
        for law in (source.distribution([name]),)
        for place in range(len(categories))
    ]


def _setting(asked: Asked[Any], name: str) -> Any:
    """Parameter of the cell, or else of the experiment."""
    return asked.cell.get(name) or getattr(asked.parameters, name)


def _stopping_sizes(asked: Asked[Any]) -> list[Sample]:
    """One value at every block size; by messages, the smallest block size until it stops."""
    source, p, mix = (
        network(_setting(asked, "network"), asked.data),
        _setting(asked, "p"),
        _setting(asked, "mix"),
    )
    cell, average = nearest_cell(source, asked.cell["listed"]), asked.reading == "reconstruction"
    if asked.live:
        return [_cell_sample(cell, SIZES[0], {"first": _respondents_asked(asked, source, cell)})]
    compared, means = histories(cell, p, mix, SIZES, asked.runs, asked.generator(), average=average)
    samples = []
    for place, size in enumerate(SIZES):
        width = 2 * Z * math.sqrt(cell.probability * (1 - cell.probability) / size)
        steps = np.abs(np.diff(compared[:, place, :, cell.place], axis=0)) < width
        running = np.abs(np.diff(means[:, place], axis=0)) < width
        theory = {} if average else {"within, in theory": within(cell, p, mix, width, size)}
        figures = {
            "tuples": size * settled_after(steps),
            "within": steps.mean(axis=0),
            "lasting": lasting(steps),
            "tuples, running mean": size * settled_after(running),
            "first": _first(compared[:LIVE_BLOCKS, place], size),
            **theory,
            "tuples, pooled": pooled_tuples(cell, p, mix, width),
        }
        samples.append(_cell_sample(cell, size, figures))
    return samples


def _cell_sample(cell: Cell, size: int, figures: Mapping[str, Any]) -> Sample:
    probability = round(cell.probability, 4)
    return Sample.of(figures, cell=cell.words, probability=probability, block=size)


def _respondents_asked(asked: Asked[Any], source: Network, cell: Cell) -> Floats:
    """Respondents asked until a survey on one attribute stops by the printed rule."""
    stream = asked.context.stream(f"records of {source.title}")
    estimate = run_rrba(
        asked,
        source.sample(LIVE_BLOCKS * SIZES[0], stream).project([cell.attribute]),
        k=1,
        p=_setting(asked, "p"),
        mix=_setting(asked, "mix"),
        block=SIZES[0],
        stopping="printed",
        release="last-two",
        update="average" if asked.reading == "reconstruction" else "pooled",
    )
    return np.array([estimate.n], np.float64)


def histories(
    cell: Cell,
    p: float,
    mix: float,
    sizes: Sequence[int],
    runs: int,
    generator: np.random.Generator,
    *,
    average: bool = False,
) -> tuple[Floats, Floats]:
    """Estimates that the rule compares after each block, and the pooled estimate of the value.

    Args:
        average: compare the averages of step 4, and make the tables of fakes of them, instead of
            the blocks' own estimates and the pooled one.

    Returns:
        Arrays of shape (blocks, sizes, runs, K) and (blocks, sizes, runs).
    """
    shape, cells = (len(sizes), runs), cell.law.size
    update: Any = "average" if average else "pooled"
    trials = Trials(shape, cells, keep=p, mix=mix, generator=generator, update=update)
    n = np.broadcast_to(np.array(sizes)[:, np.newaxis], shape)
    law = np.broadcast_to(cell.law, (*shape, cells))
    compared, means = np.empty((BLOCKS, *shape, cells)), np.empty((BLOCKS, *shape))
    for block, true in enumerate(sampled_blocks(law, n, generator, blocks=BLOCKS)):
        raw = trials.ask(true).raw
        compared[block] = (compared[block - 1] + raw) / 2 if average and block else raw
        means[block] = trials.raw()[..., cell.place]
    return compared, means


def _first(compared: Floats, size: int) -> Floats:
    """Tuples until the variant stops, which is when all values of the attribute meet the rule."""
    shares = np.clip((compared[1:] + compared[:-1]) / 2, 0.0, 1.0)
    width = printed_width(shares, float(size), ALPHA)
    held = (np.abs(np.diff(compared, axis=0)) < width).all(axis=-1)
    blocks = np.where(held.any(axis=0), held.argmax(axis=0) + 2, len(compared))
    return np.asarray(size * blocks, np.float64)


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


def lasting(held: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """True if a condition held in the whole second half, not at the very end by chance."""
    return np.asarray(held[len(held) // 2 :].all(axis=0))


def within(cell: Cell, p: float, mix: float, width: float, size: int) -> float:
    """Probability that two blocks' estimates differ by less than a width, by the normal law.

    For reports whose fakes come from the true distribution, mixed.
    """
    spread = math.sqrt(2 * _report_variance(cell, p, mix) / size) / p
    return math.erf(width / (spread * math.sqrt(2)))


def pooled_tuples(cell: Cell, p: float, mix: float, width: float) -> float:
    """After how many reports the interval of the pooled estimate is of this width."""
    return (2 * Z / (p * width)) ** 2 * _report_variance(cell, p, mix)


def _report_variance(cell: Cell, p: float, mix: float) -> float:
    fake = float(mixed(cell.law, mix)[cell.place])
    reported = p * cell.probability + (1 - p) * fake
    return reported * (1 - reported)


def _lasting_notes(found: Found[Any]) -> list[str]:
    figures = [{f.name: f.measured for f in row.figures()} for row in found.rows]
    lasts, steps = ([one[name] for one in figures] for name in ("lasting", "within"))
    return [
        f"measured: two neighbouring blocks meet the rule in {min(steps):.0%} to {max(steps):.0%} "
        f"of cases; it lasts in {min(lasts):.0%} to {max(lasts):.0%} of the trials"
    ]


READINGS: Mapping[Reading, str] = {
    "printed": "the rule compares the blocks' own estimates; the tables of fakes are made of the "
    "pooled one",
    "reconstruction": "the rule compares the averages of step 4, each of the block's own estimate "
    "and the average before it, and the tables of fakes are made of them",
}

RULE_NOTES = (
    "the figure has no numbers printed in it; each listed probability is that of the nearest "
    "value in the network, whose attribute is asked by itself",
    "tuples: until the printed rule holds for good (section 7.1): two consecutive estimates differ "
    "by less than 2 z sqrt(v(1-v)/B). The last of 200 blocks often does by chance, so this is a "
    "number near 200 B where the rule never settles",
    "within: how often two neighbouring blocks meet the rule; lasting: the share of trials in "
    "which all of the second 100 blocks do, which is convergence",
    "with blocks' own estimates the rule does not last; with the averages of step 4, whose "
    "differences are smaller, it does in most trials at p = 0.5 (reading=reconstruction). The "
    "averages converge no further than a few blocks' worth all the same",
    "tuples, running mean: the same rule on the mean of all blocks so far. It is met once the "
    "mean can no longer move by much, whatever its error: after some 1/p blocks",
    "tuples, pooled: after how many reports the pooled estimate's own interval is as narrow, "
    "in closed form; then the error is known, and no rule on differences is needed",
    "the printed width leaves out the factor 1/p of an estimate from randomized reports, and a "
    "difference of two estimates has sqrt(2) times the error of one",
    "first: tuples until the variant stops, which is at the first block at which all values of the "
    f"attribute meet the rule, of {LIVE_BLOCKS} blocks at most; that is what a run by messages has",
)

PICTURE = Picture(
    title="How many tuples pass until the rule of section 5 holds for good",
    x="block",
    by=("listed",),
    figures=("tuples", "lasting"),
    names={"block": "respondents of a block", "lasting": "share of trials in which it lasts"},
)

SCENARIOS = experiment_scenarios(
    Experiment(
        name="rrba-figure-4",
        summary="RRBA, Figure 4: the claimed epsilon of p beside the true one.",
        cells=grid(p=KEEPS),
        measure=_costs,
        parameters=Costs,
        notes=(
            "the figure has no numbers printed in it",
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
        picture=Picture(
            title="A report costs more than is claimed, and the more the rarer a fake",
            axis="epsilon of a report",
        ),
    ),
    Experiment(
        name="rrba-figure-5",
        summary="RRBA, Figure 5: tuples until convergence by block size.",
        cells=grid(network=NETWORKS, listed=PROBABILITIES),
        measure=_stopping_sizes,
        live=True,
        live_cell={"listed": PROBABILITIES[4]},
        runs=40,
        parameters=Convergence,
        readings=READINGS,
        notes=(
            *RULE_NOTES,
            "the text has convergence in all three networks alike, earlier for smaller blocks; the "
            "figure's p is not said, by default it is that of Tables 4 and 6",
        ),
        observed=_lasting_notes,
        picture=msgspec.structs.replace(PICTURE, by=("network", "listed")),
    ),
    Experiment(
        name="rrba-figure-6",
        summary="RRBA, Figure 6: tuples until convergence by block size and p.",
        cells=grid(
            p=(0.009, 0.048, 0.095, 0.139, 0.221, 0.295), listed=(0.072, 0.116, 0.356, 0.446)
        ),
        measure=_stopping_sizes,
        live=True,
        live_cell={"p": 0.295, "listed": 0.356},
        runs=40,
        parameters=ConvergenceOfP,
        readings=READINGS,
        notes=(
            *RULE_NOTES,
            "the text has no convergence at p of 0.009, 0.048 and 0.095; at 0.139 for the larger "
            "probabilities in blocks of 150 and 250; at 0.221 and 0.295 for all, in blocks of 150 "
            "and 250",
            "the block size does not decide: the difference of two blocks and the interval both "
            "shrink like its square root, so that a rule that works for blocks of 150 works for 18",
        ),
        observed=_lasting_notes,
        picture=msgspec.structs.replace(PICTURE, by=("p", "listed")),
    ),
)
