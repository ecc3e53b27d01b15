"""RR-Independent and RR-Joint on the 32,561 records of Adult, every respondent a live party."""

from __future__ import annotations

from protocol.session.variant import Epsilon, Probability
from protocol.surveys.records import Records
from protocol.variants import RRIndependent, RRJoint
from scenarios.datasets.adult import adult
from scenarios.running.errors import UsageError
from scenarios.running.parameters import Positive, Spread, keep_of, made, settable
from scenarios.running.scenario import Context, Finished, Scenario

DEFAULT_P = 0.7


class OnAdult(Spread, frozen=True, kw_only=True):
    """How a survey of Adult is held.

    Args:
        records: how many to take; all by default.
    """

    records: Positive | None = None


class Reports(OnAdult, frozen=True, kw_only=True):
    """What can be set; ``p`` or ``epsilon``, not both.

    Args:
        p: probability of keeping; 0.7 by default.
        epsilon: per record, instead of p.
    """

    p: Probability | None = None
    epsilon: Epsilon | None = None


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


def _scenario(
    protocol: type[RRIndependent | RRJoint], name: str, summary: str
) -> Scenario[Reports]:
    def run(parameters: Reports, context: Context) -> Finished:
        p = keep_of(parameters.p, parameters.epsilon, default=DEFAULT_P)
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


SCENARIOS = (
    _scenario(
        RRIndependent,
        "adult-independent",
        "Adult, RR-Independent: each of 8 attributes randomized by itself.",
    ),
    _scenario(
        RRJoint,
        "adult-joint",
        "Adult, RR-Joint: all 8 attributes, 1,814,400 combinations, randomized as one.",
    ),
)

if __name__ == "__main__":
    from scenarios.cli import script

    script(__file__)
