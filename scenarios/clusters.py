"""RR-Clusters and RR-Ind-Joint on Adult: negotiation and release by messages."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from protocol.estimators.adjustment import AdjustedEstimate
from protocol.estimators.dependence.dependence import Dependences
from protocol.estimators.estimate import Estimate
from protocol.estimators.joint import JointEstimate
from protocol.sharing.sums import SecureSum
from protocol.surveys.records import Records
from protocol.variants import RRClusters, RRIndJoint
from scenarios.adult_reports import DEFAULT_P, OnAdult, adult_records
from scenarios.reproductions.rr.queries import evaluate, median
from scenarios.running.parameters import made, parameters_checked, settable
from scenarios.running.scenario import Context, Finished, Scenario

COVERAGES = (0.1, 0.3, 0.5, 0.7, 0.9)
"""The shares of a pair's combinations that count queries ask for."""

QUERIES = 1000
"""How many count queries of each coverage are asked of an estimate."""


class Adjustable(OnAdult, frozen=True, kw_only=True):
    """What both scenarios have.

    Args:
        adjust: apply RR-Adjustment to the reports.
        drop: share of parties that vanish before they report.
    """

    adjust: bool = False


def run_clusters(parameters: Adjustable, context: Context) -> Finished:
    """Negotiate clusters, then randomize by cluster."""
    records = adult_records(context, parameters)
    sums = made(SecureSum, parameters)
    variant = made(RRClusters, parameters, survey=records.survey, sums=sums)
    if not variant.by_reports:
        with parameters_checked():
            sums.degree(parameters.parties or len(records))
    outcome = context.simulate(variant, records, parties=parameters.parties, drop=parameters.drop)
    negotiated = variant.negotiated(outcome.result)
    shown = [" + ".join(names) for names in negotiated.clusters]
    notes = [f"Clusters: {'; '.join(shown)}."]
    estimate = _adjusted(outcome.estimate, notes) if parameters.adjust else None
    return Finished(
        outcome=outcome,
        projection=parameters.project,
        estimate=estimate,
        extra={
            "clusters": [list(names) for names in negotiated.clusters],
            "dependence": _dependence(negotiated.dependences),
        },
        error=_queries(estimate or outcome.estimate, records, context.seed),
        notes=tuple(notes),
    )


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
    if not isinstance(estimate, JointEstimate):
        raise TypeError(f"RR-Adjustment works on reports, not on {estimate!r}")
    made = AdjustedEstimate.of(estimate)
    fit = made.adjusted
    notes.append(
        f"RR-Adjustment: {fit.sweeps} sweeps, margin error {fit.margin_error:.2g}"
        f"{'' if fit.converged else ', not converged'}; "
        f"{fit.unplaced:.2g} of the targets lies where nobody reported."
    )
    return made


def _dependence(found: Dependences) -> dict[str, Any]:
    return {
        "measure": found.measure,
        "method": found.method,
        "attributes": list(found.names),
        "matrix": found.matrix.tolist(),
        "standard_errors": found.standard_errors,
        **({"biased": found.biased} if found.biased else {}),
        "epsilon": found.epsilon,
    }


def _queries(estimate: Estimate, records: Records, seed: int) -> dict[str, dict[str, float]]:
    """The median errors of count queries, by coverage; NaN where it is not known.

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
            found[f"{sigma:g}"] = median(values).value
    return {"count_query": relative, "count_query_absolute": absolute}


SHARED = ("p", "parties", "records", "project", "adjust", "drop")
NEGOTIATED = ("tv", "td", "dependence", "profile", "corrupt", "dropped", "security", "measure")

SCENARIOS = (
    Scenario(
        name="adult-clusters",
        summary="Adult, RR-Clusters: parties negotiate which attributes to randomize together.",
        parameters=settable(
            Adjustable,
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
)

if __name__ == "__main__":
    from scenarios.cli import script

    script(__file__)
