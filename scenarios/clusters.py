"""RR-Clusters and RR-Ind-Joint on Adult: negotiation and release by messages."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta

from protocol.estimators.adjustment import AdjustedEstimate
from protocol.estimators.dependence.dependence import Dependences
from protocol.estimators.estimate import Estimate
from protocol.estimators.joint import JointEstimate
from protocol.estimators.projection import Projection
from protocol.sharing.sums import Profile, SecureSum
from protocol.surveys.records import Records
from protocol.variants import RRClusters, RRIndJoint
from protocol.variants.clusters.negotiation import Dependence
from scenarios.adult_reports import DEFAULT_P, Keep, Positive, adult_records
from scenarios.reproductions.rr.queries import evaluate, median
from scenarios.running.scenario import Context, Finished, Scenario, parameters_checked
from transports.faults import crash

COVERAGES = (0.1, 0.3, 0.5, 0.7, 0.9)
"""The shares of a pair's combinations that count queries ask for."""

QUERIES = 1000
"""How many count queries of each coverage are asked of an estimate."""


class Shared(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What both scenarios have."""

    p: Annotated[Keep, Meta(description="probability of keeping an attribute by itself")] = (
        DEFAULT_P
    )
    parties: Annotated[
        Positive | None, Meta(description="over how many the records are spread; one each")
    ] = None
    records: Annotated[Positive | None, Meta(description="how many to take; all by default")] = None
    project: Annotated[
        Projection, Meta(description="of the tables reported: none, clip or simplex")
    ] = "none"
    adjust: Annotated[bool, Meta(description="apply RR-Adjustment to the reports")] = False
    drop: Annotated[
        float, Meta(ge=0, lt=1, description="share of parties that vanish before they report")
    ] = 0.0


class Clusters(Shared, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What can be set."""

    tv: Annotated[Positive, Meta(description="T_v: most combinations in a cluster")] = 50
    td: Annotated[
        float, Meta(ge=0, description="T_d: least dependence of clusters that are merged")
    ] = 0.1
    dependence: Annotated[
        Dependence, Meta(description="learned by rr, rr-debiased, secure-sum or pair-rr")
    ] = "secure-sum"
    profile: Annotated[Profile, Meta(description="of the secure sum: sparse or literal")] = "sparse"
    corrupt: Annotated[float, Meta(ge=0, lt=1, description="share that may be corrupt")] = 0.05
    dropped: Annotated[float, Meta(ge=0, lt=1, description="share that may vanish")] = 0.1
    security: Annotated[int, Meta(ge=2, le=256, description="bits of the bound")] = 40
    measure: Annotated[
        str, Meta(description="of dependence: auto, cramers-v, pearson or covariance")
    ] = "auto"


def run_clusters(parameters: Clusters, context: Context) -> Finished:
    """Negotiate clusters, then randomize by cluster."""
    records = adult_records(context, records=parameters.records, parties=parameters.parties)
    with parameters_checked():
        variant = RRClusters(
            survey=records.survey,
            p=parameters.p,
            tv=parameters.tv,
            td=parameters.td,
            dependence=parameters.dependence,
            measure=parameters.measure,
            sums=SecureSum(
                profile=parameters.profile,
                corrupt=parameters.corrupt,
                dropped=parameters.dropped,
                security=parameters.security,
            ),
        )
        if variant.dependence in ("secure-sum", "pair-rr"):
            variant.sums.degree(parameters.parties or len(records))
    rules = (crash(parameters.drop, kind="Report"),) if parameters.drop else ()
    outcome = context.simulate(variant, records, parties=parameters.parties, rules=rules)
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


def run_ind_joint(parameters: Shared, context: Context) -> Finished:
    """Every attribute by itself; any joint distribution by mode products."""
    records = adult_records(context, records=parameters.records, parties=parameters.parties)
    with parameters_checked():
        variant = RRIndJoint.with_keep(records.survey, parameters.p)
    rules = (crash(parameters.drop, kind="Report"),) if parameters.drop else ()
    outcome = context.simulate(variant, records, parties=parameters.parties, rules=rules)
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
    errors = found.standard_errors
    return {
        "measure": found.measure,
        "method": found.method,
        "attributes": list(found.names),
        "matrix": found.matrix.tolist(),
        "standard_errors": errors if errors is None else errors.tolist(),
        **({"biased": found.biased} if found.biased else {}),
        "epsilon": found.epsilon if math.isfinite(found.epsilon) else None,
    }


def _queries(estimate: Estimate, records: Records, seed: int) -> dict[str, dict[str, float | None]]:
    """The median errors of count queries, by coverage; None where it is not known.

    A relative error is not, where half of the sets or more are of nobody.
    """
    names, n = estimate.survey.names, len(records)
    places = list(combinations(range(len(names)), 2))
    tables = {(i, j): estimate.table(names[i], names[j]).values * n for i, j in places}
    true = {(i, j): records.counts([names[i], names[j]]) for i, j in places}
    relative: dict[str, float | None] = {}
    absolute: dict[str, float | None] = {}
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
            value = median(values).value
            found[f"{sigma:g}"] = value if math.isfinite(value) else None
    return {"count_query": relative, "count_query_absolute": absolute}


SCENARIOS = (
    Scenario(
        name="adult-clusters",
        summary="Adult, RR-Clusters: parties negotiate which attributes to randomize together.",
        parameters=Clusters,
        run=run_clusters,
    ),
    Scenario(
        name="adult-ind-joint",
        summary="Adult, RR-Ind-Joint: attributes randomized apart, any joint table estimated.",
        parameters=Shared,
        run=run_ind_joint,
    ),
)

if __name__ == "__main__":
    from scenarios.cli import script

    script(__file__)
