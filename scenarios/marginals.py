"""Marginal release on taxi trips: every small table, tests of independence, a Chow-Liu tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar

import numpy as np
from msgspec import Meta

from protocol.errors import UsageError
from protocol.estimators.dependence.association import (
    TestResult,
    exact_test,
    naive_test,
    wald_test,
)
from protocol.estimators.dependence.trees import ChowLiuTree, chow_liu
from protocol.estimators.estimate import Estimate
from protocol.estimators.linear import LinearEstimate
from protocol.estimators.measures import total_variation
from protocol.estimators.releases.exact import ExactTables
from protocol.randomizers.marginals import Unary
from protocol.session.variant import Probability
from protocol.surveys.records import Records
from protocol.variants import BUILT_IN
from protocol.variants.marginals.variant import MarginalRelease
from scenarios.data.taxi import (
    BITS,
    taxi,
    taxi_independent,
    taxi_population,
    taxi_survey,
    taxi_trips,
)
from scenarios.report.pictures.shares import conditions
from scenarios.report.pictures.style import COLOURS, GREY, frame, literal
from scenarios.running.outcomes import Outcome
from scenarios.running.parameters import Part, Positive, Spread, made, settable
from scenarios.running.scenario import Context, Finished, Scenario
from scenarios.wording.formatting import count, cut

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MethodName: TypeAlias = Literal["inp-rr", "inp-ps", "inp-ht", "marg-rr", "marg-ps", "marg-ht"]
Of = TypeVar("Of", bound="Trips")
Said: TypeAlias = Sequence[str]

LEAST_STATISTIC = 1e-2
"""Smaller statistics are drawn here: they say no more than that nothing was found."""


class Trips(Spread, frozen=True, kw_only=True):
    """Parameters of all three scenarios.

    Args:
        method: inp-rr, inp-ps, inp-ht, marg-rr, marg-ps or marg-ht.
        unary: one-hot bits of inp-rr and marg-rr: sue, all flipped alike, or oue.
        d: bits of a trip; of real trips at most 8.
        n: how many trips; of real ones the first.
        parties: over how many the trips are spread.
        trips: a file of real trips; the seeded stand-in by default.
    """

    method: MethodName = "inp-ht"
    unary: Unary = "sue"
    d: Annotated[int, Meta(ge=2, le=24)] = 8
    n: Positive = 2**18
    parties: Positive = 256
    trips: str | None = None


class Independence(Trips, frozen=True, kw_only=True):
    """Parameters of the tree.

    Args:
        level: at which a test rejects.
    """

    level: Probability = 0.05


class Tree(Trips, frozen=True, kw_only=True):
    """Parameters of the tree.

    Args:
        mix: share of uniform in the tables of the tree.
    """

    mix: Part = 0.001


def _with_settings(own: type[Of], name: str) -> type[Of]:
    shared = ("method", "unary", "d", "epsilon", "n", "parties", "trips", "project")
    return settable(own, MarginalRelease, names=(*shared, name), epsilon=1.1)


def run_marginals(parameters: Trips, context: Context) -> Finished:
    """Every k-way marginal and its distance from the true one."""
    records = _records(parameters, context)
    variant, outcome = _simulate(parameters, context, records)
    estimate = outcome.estimate
    names = list(combinations(records.survey.names, variant.k))
    raw, nearest = [], []
    for asked in names:
        table, true = estimate.table(*asked), records.distribution(asked)
        raw.append(float(total_variation(table.values, true)))
        nearest.append(float(total_variation(table.projected("simplex").values, true)))
    return Finished(
        outcome=outcome,
        projection=parameters.project,
        extra={"report_bits": variant.report_bits},
        error={
            "k_way": {"total_variation": float(np.mean(raw)), "simplex": float(np.mean(nearest))}
        },
        notes=(
            f"Mean total variation of the {len(names)} marginals of {variant.k}: "
            f"{np.mean(raw):.3g} raw, {np.mean(nearest):.3g} as the nearest tables of shares.",
            f"A report has {variant.report_bits} bits.",
        ),
    )


def run_independence(parameters: Independence, context: Context) -> Finished:
    """Test every pair for independence, with and without regard to the noise."""
    records = _records(parameters, context)
    _, outcome = _simulate(parameters, context, records)
    estimate, level = outcome.estimate, parameters.level
    pairs = list(combinations(records.survey.names, 2))
    found = [_test_pair(estimate, records, pair, known=parameters.trips is None) for pair in pairs]
    rejections = {
        test: {
            f"{truth}_pairs_rejected": sum(
                pair[test] is not None and pair[test]["p_value"] <= level
                for pair in found
                if pair["independent"] is independent
            )
            for truth, independent in (("independent", True), ("dependent", False))
        }
        for test in ("wald", "naive", "exact")
    }
    return Finished(
        outcome=outcome,
        projection=parameters.project,
        extra={"independence": found, "level": level},
        error={"independence": rejections} if parameters.trips is None else {},
        notes=_judgement(found, rejections, level),
        plot=lambda figure: draw_tests(
            figure, found, level, _most_important(found, level), conditions(outcome)
        ),
    )


def run_tree(parameters: Tree, context: Context) -> Finished:
    """The Chow-Liu tree of the estimated pairs beside that of the true ones."""
    records = _records(parameters, context)
    _, outcome = _simulate(parameters, context, records)
    names = records.survey.names
    exact = LinearEstimate(
        ExactTables(records.survey, {pair: records.counts(pair) for pair in combinations(names, 2)})
    )
    tree = chow_liu(outcome.estimate, mix=parameters.mix)
    best = chow_liu(exact)
    alone = sum(_log_likelihood_alone(records, name) for name in names)
    likelihoods = {
        "private": tree.log_likelihood(records),
        "best": best.log_likelihood(records),
        "no_tree": alone,
    }
    shared = {frozenset(edge) for edge in tree.edges} & {frozenset(edge) for edge in best.edges}
    gain = likelihoods["best"] - alone
    part = (likelihoods["private"] - alone) / gain if gain > 0 else 1.0
    return Finished(
        outcome=outcome,
        projection=parameters.project,
        extra={
            "tree": {"edges": _edges(tree), "best_edges": _edges(best)},
            "log_likelihood": likelihoods,
        },
        notes=(
            f"The tree has {len(shared)} of the {len(best.edges)} edges of the true tables' tree. "
            "Edges between independent bits are of no worth, and chance chooses them.",
            f"Mean log-likelihood of the trips: {likelihoods['private']:.5g}; of the best tree "
            f"{likelihoods['best']:.5g}, with all bits independent {alone:.5g}. The private tree "
            f"has {part:.1%} of what a tree can gain.",
        ),
        plot=lambda figure: draw_tree(figure, tree, best, conditions(outcome)),
    )


def _records(parameters: Trips, context: Context) -> Records:
    if parameters.trips is None:
        trips = taxi(parameters.n, d=parameters.d, seed=context.seed)
        return context.drawn(trips, taxi_population(parameters.d))
    if parameters.d > len(BITS):
        raise UsageError(f"parameter 'd' = {parameters.d}: real trips have {len(BITS)} bits")
    codes = taxi_trips(parameters.trips).codes[: parameters.n, : parameters.d]
    return Records(taxi_survey(parameters.d), codes)


def _simulate(
    parameters: Trips, context: Context, records: Records
) -> tuple[MarginalRelease, Outcome[MarginalRelease]]:
    if parameters.unary == "oue" and not parameters.method.endswith("rr"):
        raise UsageError(f"{parameters.method} has no one-hot bits: unary is of inp-rr and marg-rr")
    variant = made(BUILT_IN[parameters.method], parameters, survey=records.survey)
    if not isinstance(variant, MarginalRelease):
        raise TypeError(f"expected a release of marginals, got {variant!r}")
    return variant, context.simulate(variant, records, parties=parameters.parties)


def _test_pair(
    estimate: Estimate, records: Records, pair: tuple[str, str], *, known: bool
) -> dict[str, Any]:
    """All tests of one pair; ``wald`` is None with too few reports."""
    found = estimate.table(*pair)
    table = found.values
    try:
        wald = _result(wald_test(table, found.covariance("population")))
    except ValueError:
        wald = None
    return {
        "attributes": list(pair),
        "independent": taxi_independent(*pair) if known else None,
        "wald": wald,
        "naive": _result(naive_test(estimate.n * table, estimate.n)),
        "exact": _result(exact_test(records.counts(pair))),
    }


def _result(result: TestResult) -> dict[str, float]:
    return {"statistic": float(result.statistic), "p_value": float(result.p_value)}


def _most_important(found: Sequence[Mapping[str, Any]], level: float) -> str:
    """The most important finding, for the picture's title."""
    rejected = {
        test: sum(pair[test] is not None and pair[test]["p_value"] <= level for pair in found)
        for test in ("wald", "naive", "exact")
    }
    return (
        f"Of {count(len(found), 'pair')} the naive test calls {rejected['naive']} dependent, "
        f"Wald's {rejected['wald']}, and Pearson's test of the true answers {rejected['exact']}"
    )


def _judgement(
    found: Sequence[Mapping[str, Any]],
    rejections: Mapping[str, Mapping[str, int]],
    level: float,
) -> tuple[str, ...]:
    untested = sum(pair["wald"] is None for pair in found)
    notes = []
    independent = sum(pair["independent"] is True for pair in found)
    dependent = sum(pair["independent"] is False for pair in found)
    if independent + dependent:
        notes += [
            f"{words} calls {rejections[test]['independent_pairs_rejected']} of the {independent} "
            f"independent pairs dependent at level {level:g}, and "
            f"{rejections[test]['dependent_pairs_rejected']} of the {dependent} dependent ones."
            for test, words in (
                ("wald", "Wald's test, which knows of the noise,"),
                ("naive", "The naive test, which takes the private tables for exact,"),
                ("exact", "Pearson's test of the true answers"),
            )
        ]
    if untested:
        notes.append(f"For {untested} pairs there are too few reports for Wald's test.")
    return tuple(notes)


def _log_likelihood_alone(records: Records, name: str) -> float:
    shares = records.distribution([name])
    used = shares[shares > 0]
    return float((used * np.log(used)).sum())


def _edges(tree: ChowLiuTree) -> list[dict[str, Any]]:
    return [
        {"parent": parent, "child": child, "information": information}
        for (parent, child), information in zip(tree.edges, tree.information, strict=True)
    ]


def draw_tests(
    figure: Figure, found: Sequence[Mapping[str, Any]], level: float, title: str, notes: Said
) -> None:
    """The statistics of every pair by all tests, and where they begin to reject."""
    # Imported here: it takes longer than all of this package.
    from scipy.special import chdtri

    axes = figure.add_subplot()
    rows = np.arange(len(found))
    for test, marker, colour, label in (
        ("exact", "|", GREY, "Pearson's test of the true answers"),
        ("naive", "x", COLOURS[1], "naive test: takes the private tables for exact"),
        ("wald", "o", COLOURS[0], "Wald's test: knows of the noise"),
    ):
        statistics = [
            np.nan if pair[test] is None else max(pair[test]["statistic"], LEAST_STATISTIC)
            for pair in found
        ]
        axes.plot(statistics, rows, marker=marker, color=colour, linestyle="", label=label)
    critical = float(chdtri(1, level))
    axes.axvline(critical, color=GREY, linestyle=":", label=f"rejects at level {level:g}")
    axes.set_xscale("log")
    axes.set_xlim(LEAST_STATISTIC / 2, None)
    said = {True: " (independent)", False: "", None: ""}
    labels = [
        cut(" and ".join(pair["attributes"]), 48) + said[pair["independent"]] for pair in found
    ]
    axes.set_yticks(rows, list(map(literal, labels)))
    axes.set_ylim(len(found) - 0.5, -0.5)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(
        "statistic: chi-squared with 1 degree of freedom if independent; "
        f"below {LEAST_STATISTIC:g} drawn at {LEAST_STATISTIC:g}"
    )
    handles, words = axes.get_legend_handles_labels()
    frame(
        figure,
        title,
        notes,
        size=(8.0, 0.8 + 0.18 * len(found)),
        handles=handles,
        labels=words,
    )


def draw_tree(figure: Figure, tree: ChowLiuTree, best: ChowLiuTree, notes: Said) -> None:
    """A tree from its root down; edges that the best tree lacks are dashed."""
    axes = figure.add_subplot()
    children: dict[str, list[str]] = {name: [] for name in tree.survey.names}
    for parent, child in tree.edges:
        children[parent].append(child)
    places: dict[str, tuple[float, int]] = {}
    leaves = 0

    def place(name: str, depth: int) -> float:
        nonlocal leaves
        below = [place(child, depth + 1) for child in children[name]]
        if not below:
            leaves += 1
        places[name] = (float(np.mean(below)) if below else float(leaves), -depth)
        return places[name][0]

    place(tree.survey.names[0], 0)
    shared = {frozenset(edge) for edge in best.edges}
    for (parent, child), information in zip(tree.edges, tree.information, strict=True):
        (x0, y0), (x1, y1) = places[parent], places[child]
        style = "-" if frozenset((parent, child)) in shared else "--"
        axes.plot([x0, x1], [y0, y1], color=GREY, linestyle=style, zorder=1)
        axes.annotate(
            f"{information:.2g}",
            ((x0 + x1) / 2, (y0 + y1) / 2),
            (0, 0),
            textcoords="offset points",
            fontsize=7.5,
            ha="center",
            va="center",
            bbox={"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none"},
        )
    for name, (x, y) in places.items():
        axes.annotate(
            literal(cut(name, 16)),
            (x, y),
            ha="center",
            va="center",
            fontsize=8.5,
            bbox={"boxstyle": "round", "facecolor": "white", "edgecolor": COLOURS[0]},
        )
    axes.margins(0.15)
    axes.set_axis_off()
    true = sum(frozenset(edge) in shared for edge in tree.edges)
    depth = 1 - min(y for _, y in places.values())
    frame(
        figure,
        f"The Chow-Liu tree of the private tables has {true} of the {len(best.edges)} edges of the "
        "true one",
        ("on edges: mutual information in nats; dashed: not in the true tree", *notes),
        size=(max(6.0, 1.1 * leaves), max(2.5, 0.85 * depth)),
    )


SCENARIOS = (
    Scenario(
        name="taxi-marginals",
        summary="Taxi trips, marginal release: every table of k bits by one of six methods.",
        parameters=_with_settings(Trips, "k"),
        run=run_marginals,
    ),
    Scenario(
        name="taxi-independence",
        summary="Taxi trips: which pairs of bits are independent, by private tables.",
        parameters=_with_settings(Independence, "level"),
        run=run_independence,
    ),
    Scenario(
        name="taxi-tree",
        summary="Taxi trips: a Chow-Liu tree from private tables of pairs.",
        parameters=_with_settings(Tree, "mix"),
        run=run_tree,
    ),
)

if __name__ == "__main__":
    from scenarios.cli import script

    script(__file__)
