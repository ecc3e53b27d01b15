"""The error of a variant without a closed form, measured in a few simulated runs."""

from __future__ import annotations

import math

import numpy as np

from protocol.errors import UsageError
from protocol.estimators.inference.laws import About
from protocol.session.variant import Variant
from scenarios.designing.assumed import Shares
from scenarios.designing.predicting import NotEstimatedError, Prediction, sampling_variances
from scenarios.designing.targets import Target
from scenarios.designing.trying import Piece, is_by_law, missed_in
from scenarios.designing.trying import Setup as Held

RUNS = 4
"""How many runs are simulated, if nothing else is asked for."""

PEOPLE, LIVE_PEOPLE = 100_000, 5_000
"""Of how many respondents a run is at most, by law or among live parties: more are reckoned from
these."""

PARTIES = 4
"""How many live parties speak for them, where nobody answers by herself."""


def simulated(
    variant: Variant,
    n: int,
    target: Target,
    shares: Shares,
    *,
    runs: int = RUNS,
    about: About = "respondents",
) -> Prediction:
    """The error that simulated runs have, with its Monte Carlo error.

    Errors are taken to fall with the root of the number of respondents, if there are more than
    ``PEOPLE`` (``LIVE_PEOPLE`` where nobody answers by herself).

    Args:
        variant: with its parameters.
        n: how many respondents report.
        target: whose cells count.
        shares: of the answers; of several cases the first counts.
        runs: how many, at least 2.
        about: whose shares are estimated. About a population, what a sample varies by is added.

    Raises:
        NotEstimatedError: its result says nothing of one of the target's tables.
        ProtocolError: a run fails.
    """
    by_law = is_by_law(variant, n)
    records = shares.cases[0].records(min(n, PEOPLE if by_law else LIVE_PEOPLE))
    piece = Piece(
        variant=variant,
        records=records,
        setup=Held(tables=target.tables, parties=min(PARTIES, len(records))),
        by_law=by_law,
        runs=tuple((seed, False) for seed in range(1, runs + 1)),
    )
    try:
        squares = np.array([missed.raw for missed in missed_in(piece)])
    except UsageError as error:
        raise NotEstimatedError(str(error)) from error
    squares *= len(records) / n
    if about == "population":
        sampled = [sampling_variances(names, n, shares.cases[0]) for names in target.tables]
        squares += np.concatenate([each.reshape(-1) for each in sampled]).mean()
    rmse = math.sqrt(squares.mean())
    spread = float(np.std(squares, ddof=1)) / math.sqrt(runs)
    return Prediction(rmse, {}, runs=runs, monte_carlo=spread / (2 * rmse) if rmse else 0.0)
