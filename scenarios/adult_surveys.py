"""Surveys of the 32,561 records of Adult: by RR-Independent and RR-Joint, with every respondent a
live party, by RR-Clusters and RR-Ind-Joint, and by secure sums.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta
from msgspec.structs import replace

from protocol.accounting.spending import DELTA
from protocol.errors import UsageError
from protocol.estimators.calibration.adjustment import AdjustedEstimate
from protocol.estimators.dependence.dependence import Dependences
from protocol.estimators.estimate import Estimate
from protocol.estimators.inference.intervals import Intervals
from protocol.session.variant import Epsilon, Probability
from protocol.sharing.sums import SecureSum
from protocol.surveys.records import Records
from protocol.variants import (
    PairCounts,
    PairRR,
    RRClusters,
    RRIndependent,
    RRIndJoint,
    RRJoint,
    SecureSumVariant,
)
from protocol.variants.clusters.stability import Stability
from protocol.variants.reports.reports import Report
from protocol.variants.sums.tallies import Counted as TrueCounts
from protocol.variants.sums.tallies import Tallied
from scenarios.data.adult import adult
from scenarios.designing.summing import rests_on
from scenarios.running.parameters import (
    Positive,
    Spread,
    made,
    parameters_checked,
    settable,
    wanted_keep,
)
from scenarios.running.queries import evaluate
from scenarios.running.scenario import Context, Finished, Scenario
from scenarios.statement.calibration import calibration_sentences
from transports.faults import crash

DEFAULT_P = 0.7

COVERAGES = (0.1, 0.3, 0.5, 0.7, 0.9)
"""The shares of a pair's combinations that count queries ask for."""

QUERIES = 1000
"""Number of count queries of each coverage."""


Counted = Literal["attributes", "pairs", "randomized-pairs"]
"""The variants ``secure-sum``, ``pair-counts`` and ``pair-rr``."""

MAKERS: Mapping[Counted, Callable[..., Tallied[Any]]] = {
    "attributes": SecureSumVariant.with_noise,
    "pairs": PairCounts.with_noise,
    "randomized-pairs": PairRR.with_keep,
}
"""Variants by the tables that they count."""


class OnAdult(Spread, frozen=True, kw_only=True):
    """Parameters of every survey of Adult.

    Args:
        records: how many to take; all by default.
    """

    records: Positive | None = None


class Reports(OnAdult, frozen=True, kw_only=True):
    """Parameters of reports; ``p`` or ``epsilon``, not both.

    Args:
        p: probability of keeping; 0.7 by default.
        epsilon: per record, instead of p.
    """

    p: Probability | None = None
    epsilon: Epsilon | None = None


class Adjustable(OnAdult, frozen=True, kw_only=True):
    """Parameters of both scenarios.

    Args:
        adjust: apply RR-Adjustment to the reports.
        drop: share of parties that vanish before they report.
    """

    adjust: bool = False


class Clustering(Adjustable, frozen=True, kw_only=True):
    """Further parameters of clusters.

    Args:
        noise: of exact counts of pairs, coins or none.
        epsilon: of a record in the sum of pairs, if enough parties are honest; 1 by default, with
            coins alone.
        delta: with which probability that need not hold; 1e-6 by default.
    """

    noise: Literal["coins", "none"] = "none"
    epsilon: Epsilon | None = None
    delta: Annotated[float, Meta(gt=0, lt=1)] | None = None


class Counting(OnAdult, frozen=True, kw_only=True):
    """Parameters of secure sums.

    Args:
        counted: attributes, pairs or randomized-pairs.
        noise: of true answers, coins or none.
        epsilon: of a record, if enough parties are honest; with coins.
        delta: with which probability that need not hold.
        p: of keeping a pair, if pairs are randomized.
        parties: over how many the records are spread.
        drop: share of parties that vanish before they contribute.
    """

    counted: Counted = "attributes"
    noise: Literal["coins", "none"] = "coins"
    epsilon: Epsilon = 1.0
    delta: Annotated[float, Meta(gt=0, lt=1)] = 1e-6
    p: Probability = DEFAULT_P
    parties: Positive = 100


def adult_records(context: Context, parameters: OnAdult) -> Records:
    """The first records of Adult, as many as are asked for.

    Raises:
        UsageError: there are fewer.
    """
    found = adult(context.data)
    if parameters.records is None:
        return found
    if parameters.records > len(found):
        raise UsageError(f"parameter 'records' = {parameters.records}: there are {len(found)}")
    return found.take(parameters.records)


def _reports(protocol: type[RRIndependent | RRJoint], name: str, summary: str) -> Scenario[Reports]:
    def run(parameters: Reports, context: Context) -> Finished:
        p = wanted_keep(parameters.p, parameters.epsilon, default=DEFAULT_P)
        records = adult_records(context, parameters)
        survey = records.survey
        if p is None:
            variant = made(protocol.with_epsilon, parameters, survey=survey)
        else:
            variant = made(protocol.with_keep, parameters, survey=survey, p=p)
        outcome = context.simulate(
            variant, records, parties=parameters.parties, drop=parameters.drop
        )
        return Finished(outcome=outcome, projection=parameters.project)

    names = ("p", "epsilon", "parties", "records", "drop", "project")
    return Scenario(name=name, summary=summary, parameters=settable(Reports, names=names), run=run)


def run_clusters(parameters: Clustering, context: Context) -> Finished:
    """Negotiate clusters, then randomize by cluster."""
    records = adult_records(context, parameters)
    parties = parameters.parties or len(records)
    sums = made(SecureSum, parameters, noise=None)
    exact = made(RRClusters, parameters, survey=records.survey, sums=sums)
    with parameters_checked():
        exact.sums.degree(parties)
        variant = exact
        if parameters.noise == "coins":
            variant = with_coins(exact, parameters, parties)
        elif parameters.epsilon is not None or parameters.delta is not None:
            raise UsageError("parameters 'epsilon' and 'delta': expected noise=coins besides")
    # They vanish after the reports that dependences are learned from.
    rules = (crash(parameters.drop, kind=Report.kind()),) if parameters.drop else ()
    outcome = context.simulate(variant, records, parties=parameters.parties, rules=rules)
    negotiated = variant.negotiated(outcome.result)
    shown = [" + ".join(names) for names in negotiated.clusters]
    found = variant.stability(outcome.result, np.random.default_rng(context.seed).multinomial)
    stable = _stable(found, "sums with other coins" if variant.sums.noise else "pilots redrawn")
    notes = [f"Clusters: {'; '.join(shown)}.", stable]
    if variant.sums.noise is not None:
        notes.append(f"Learning: {rests_on(variant, parties, parameters.delta or DELTA)}")
    estimate = _adjusted(outcome.estimate, notes) if parameters.adjust else None
    return Finished(
        outcome=outcome,
        projection=parameters.project,
        estimate=estimate,
        extra={
            "clusters": [list(names) for names in negotiated.clusters],
            "dependence": _dependence(negotiated.dependences, context.intervals),
            "stability": {
                "redraws": found.redraws,
                "same": found.same,
                "clusters": [share for _, share in found.clusters],
                "together": found.together,
            },
        },
        error=_queries(estimate or outcome.estimate, records, context.seed),
        notes=tuple(notes),
    )


def with_coins(exact: RRClusters, parameters: Clustering, parties: int) -> RRClusters:
    """The same clusters, learned from counts with the fewest coins that are enough.

    Raises:
        ValueError: what the dependences are learned from takes no coins, or there are too few
            parties.
    """
    noised = exact.sums.noised(
        1.0 if parameters.epsilon is None else parameters.epsilon,
        parameters.delta or DELTA,
        tables=len(exact.negotiation.layout.tables),
        parties=parties,
    )
    return replace(exact, sums=noised)


def run_ind_joint(parameters: Adjustable, context: Context) -> Finished:
    """Every attribute by itself; any joint distribution by mode products."""
    records = adult_records(context, parameters)
    variant = made(RRIndJoint, parameters, survey=records.survey)
    outcome = context.simulate(variant, records, parties=parameters.parties, drop=parameters.drop)
    notes: list[str] = []
    estimate = _adjusted(outcome.estimate, notes) if parameters.adjust else None
    return Finished(
        outcome=outcome,
        projection=parameters.project,
        estimate=estimate,
        error=_queries(estimate or outcome.estimate, records, context.seed),
        notes=tuple(notes),
    )


def _adjusted(estimate: Estimate, notes: list[str]) -> Estimate:
    made = AdjustedEstimate.of(estimate)
    notes.extend(calibration_sentences(made))
    return made


def _stable(found: Stability, redrawn: str) -> str:
    if not found.redraws:
        return "The clusters follow from exact counts: among these respondents they are certain."
    merged = [
        f"{' + '.join(names)} in {share:.0%}" for names, share in found.clusters if len(names) > 1
    ]
    return (
        f"Stability: of {found.redraws} {redrawn} by law {found.same:.0%} lead to the same "
        f"clusters{': ' if merged else ''}{', '.join(merged)}."
    )


def _dependence(found: Dependences, intervals: Intervals) -> dict[str, Any]:
    ends = found.interval(intervals.level, intervals.about)
    return {
        "measure": found.measure,
        "method": found.method,
        "attributes": list(found.names),
        "matrix": found.matrix.tolist(),
        "standard_errors": found.standard_errors,
        **({"biased": found.biased} if found.biased else {}),
        "intervals": {
            "level": intervals.level,
            "about": intervals.about,
            "low": ends.low,
            "high": ends.high,
        },
        "p_values": found.p_values(),
        "epsilon": found.epsilon,
    }


def _queries(estimate: Estimate, records: Records, seed: int) -> dict[str, dict[str, float]]:
    """The median errors of count queries, by coverage; NaN where unknown.

    A relative error is not, where half of the sets or more are of nobody.
    """
    names, n = estimate.survey.names, len(records)
    places = list(combinations(range(len(names)), 2))
    tables = {(i, j): estimate.table(names[i], names[j]).values * n for i, j in places}
    true = {(i, j): records.counts([names[i], names[j]]) for i, j in places}
    relative: dict[str, float] = {}
    absolute: dict[str, float] = {}
    for sigma in COVERAGES:
        errors = evaluate(
            estimate.survey.sizes,
            true.__getitem__,
            lambda pair, runs: np.broadcast_to(tables[pair], (runs, *tables[pair].shape)),
            sigma=sigma,
            runs=QUERIES,
            generator=np.random.default_rng(seed),
        )
        for found, values in ((relative, errors.relative), (absolute, errors.absolute)):
            found[f"{sigma:g}"] = float(np.median(values))
    return {"count_query": relative, "count_query_absolute": absolute}


def run_counts(parameters: Counting, context: Context) -> Finished:
    """Sum the tables of all parties."""
    records = adult_records(context, parameters)
    sums = made(SecureSum, parameters, noise=None)
    with parameters_checked():
        degree = sums.degree(parameters.parties)
    variant = made(MAKERS[parameters.counted], parameters, survey=records.survey, sums=sums)
    outcome = context.simulate(variant, records, parties=parameters.parties, drop=parameters.drop)
    rests = (
        (rests_on(variant, parameters.parties, parameters.delta),)
        if isinstance(variant, TrueCounts)
        else ()
    )
    return Finished(
        outcome=outcome,
        projection=parameters.project,
        notes=(
            f"{variant.layout.cells:,} cells; every party has {degree.neighbours} neighbours, of "
            f"whom {degree.threshold} are needed to unmask.",
            *rests,
        ),
    )


SHARED = ("p", "parties", "records", "project", "adjust", "drop")
OF_SUMS = ("profile", "corrupt", "dropped", "security", "opening")
NEGOTIATED = ("tv", "td", "dependence", "noise", "epsilon", "delta", *OF_SUMS, "measure")
SUMMED = ("counted", "noise", "epsilon", "delta", "p", "everyone", *OF_SUMS, "parties")

SCENARIOS = (
    _reports(
        RRIndependent,
        "adult-independent",
        "Adult, RR-Independent: each of 8 attributes randomized by itself.",
    ),
    _reports(
        RRJoint,
        "adult-joint",
        "Adult, RR-Joint: all 8 attributes, 1,814,400 combinations, randomized as one.",
    ),
    Scenario(
        name="adult-clusters",
        summary="Adult, RR-Clusters: parties negotiate which attributes to randomize together.",
        parameters=settable(
            Clustering,
            RRClusters,
            SecureSum,
            names=(*SHARED, *NEGOTIATED),
            p=DEFAULT_P,
            tv=50,
            td=0.1,
        ),
        run=run_clusters,
    ),
    Scenario(
        name="adult-ind-joint",
        summary="Adult, RR-Ind-Joint: attributes randomized apart, any joint table estimated.",
        parameters=settable(Adjustable, RRIndJoint, names=SHARED, p=DEFAULT_P),
        run=run_ind_joint,
    ),
    Scenario(
        name="adult-counts",
        summary="Adult, secure sums: counts of attributes or pairs, with coins or exact, or of "
        "randomized pairs.",
        parameters=settable(
            Counting, Tallied, SecureSum, names=(*SUMMED, "records", "drop", "project")
        ),
        run=run_counts,
        joint=False,
    ),
)

if __name__ == "__main__":
    from scenarios.cli import script

    script(__file__)
