"""RR-Independent and RR-Joint on the 32,561 records of Adult, every respondent a live party."""

from __future__ import annotations

from typing import Annotated, Protocol

import msgspec
from msgspec import Meta

from protocol.estimators.projection import Projection
from protocol.session.variant import Variant
from protocol.surveys.records import Records
from protocol.surveys.survey import Survey
from protocol.variants import RRIndependent, RRJoint
from scenarios.datasets.adult import adult
from scenarios.running.errors import UsageError
from scenarios.running.scenario import Context, Finished, Scenario, parameters_checked
from transports.faults import crash

DEFAULT_P = 0.7

Keep = Annotated[float, Meta(gt=0, lt=1)]
Epsilon = Annotated[float, Meta(gt=0)]
Positive = Annotated[int, Meta(ge=1, le=10_000_000)]


class Parameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What can be set; ``p`` or ``epsilon``, not both."""

    p: Annotated[Keep | None, Meta(description="probability of keeping; 0.7 by default")] = None
    epsilon: Annotated[Epsilon | None, Meta(description="per record, instead of p")] = None
    parties: Annotated[
        Positive | None, Meta(description="over how many the records are spread; one each")
    ] = None
    records: Annotated[Positive | None, Meta(description="how many to take; all by default")] = None
    drop: Annotated[float, Meta(ge=0, lt=1, description="share of parties that vanish")] = 0.0
    project: Annotated[
        Projection, Meta(description="of the tables reported: none, clip or simplex")
    ] = "none"


class _Protocol(Protocol):
    def with_keep(self, survey: Survey, p: float) -> Variant: ...

    def with_epsilon(self, survey: Survey, epsilon: float) -> Variant: ...


def _run(parameters: Parameters, context: Context, protocol: _Protocol) -> Finished:
    if parameters.p is not None and parameters.epsilon is not None:
        raise UsageError("set p or epsilon, not both")
    records = adult_records(context, records=parameters.records, parties=parameters.parties)
    with parameters_checked():
        if parameters.epsilon is None:
            p = DEFAULT_P if parameters.p is None else parameters.p
            variant = protocol.with_keep(records.survey, p)
        else:
            variant = protocol.with_epsilon(records.survey, parameters.epsilon)
    rules = (crash(parameters.drop, kind="Report"),) if parameters.drop else ()
    outcome = context.simulate(variant, records, parties=parameters.parties, rules=rules)
    return Finished(outcome=outcome, projection=parameters.project)


def adult_records(context: Context, *, records: int | None, parties: int | None) -> Records:
    """The first records of Adult, as many as are asked for.

    Args:
        records: how many; all by default.
        parties: over how many they are to be spread.

    Raises:
        UsageError: there are fewer records, or more parties than those.
    """
    found = adult(context.data)
    if records is not None:
        if records > len(found):
            raise UsageError(f"parameter 'records' = {records}: there are {len(found)}")
        found = found.take(records)
    if parties is not None and parties > len(found):
        raise UsageError(f"parameter 'parties' = {parties}: more than the {len(found)} records")
    return found


def run_independent(parameters: Parameters, context: Context) -> Finished:
    """Every attribute by itself."""
    return _run(parameters, context, RRIndependent)


def run_joint(parameters: Parameters, context: Context) -> Finished:
    """All eight attributes at once: 1,814,400 combinations, in closed form."""
    return _run(parameters, context, RRJoint)


SCENARIOS = (
    Scenario(
        name="adult-independent",
        summary="Adult, RR-Independent: each of 8 attributes randomized by itself.",
        parameters=Parameters,
        run=run_independent,
    ),
    Scenario(
        name="adult-joint",
        summary="Adult, RR-Joint: all 8 attributes, 1,814,400 combinations, randomized as one.",
        parameters=Parameters,
        run=run_joint,
    ),
)

if __name__ == "__main__":
    from scenarios.cli import script

    script(__file__)
