"""Common parts of RRBA's reproductions: networks, their tables, keep probabilities and epsilons.

Randomized Response Block Aggregation (RRBA), sections 4 to 7.
"""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, get_args

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from protocol.crypto.randomness import Streams
from protocol.errors import UsageError
from protocol.estimators.linear import LinearEstimate
from protocol.randomizers.exact import Floats
from protocol.surveys.records import Records
from protocol.variants import RRBA
from protocol.variants.rrba.grouped import GroupTables
from scenarios.data.networks import Network, alarm_network, child_network, survey_network
from scenarios.papers.experiment import Asked

NetworkName: TypeAlias = Literal["survey", "alarm", "child"]
NETWORKS: tuple[NetworkName, ...] = get_args(NetworkName)

MIX = 0.1
"""The share of the uniform distribution in what fakes are drawn from, where the paper has none."""

Mix: TypeAlias = Annotated[
    float, Meta(gt=0, le=1, description="share of the uniform distribution in fakes")
]
"""The parameter ``mix`` of a reproduction."""


class People(msgspec.Struct, frozen=True, kw_only=True):
    """Number of respondents."""

    n: Annotated[int, Meta(ge=100, le=10_000_000, description="respondents")] = 8000


class Blocks(People, frozen=True, kw_only=True):
    """Numbers of respondents, in all and at once."""

    block: Annotated[int, Meta(ge=1, description="respondents of a block")] = 250


@functools.lru_cache(maxsize=8)
def network(name: NetworkName, data: Path | str | None) -> Network:
    """One of the paper's three networks."""
    return {"survey": survey_network, "alarm": alarm_network, "child": child_network}[name](data)


def sample(source: Network, n: int, seed: int) -> Records:
    """The n records that an experiment with this seed is about."""
    stream = Streams.of_seed(seed).stream("all", f"records of {source.title}")
    return source.sample(n, stream)


def claimed_epsilon(p: float) -> float:
    """``ln(1/(1-p))``, theorem 4.1's."""
    return -math.log1p(-p)


def true_epsilon(p: float, size: int, *, mix: float = 1.0) -> float:
    """The most that a report may cost: ``ln(1 + p K / ((1-p) mix))``, for the least cell mix/K."""
    return math.log1p(p * size / ((1 - p) * mix))


def keep_at(epsilon: float, size: int, *, mix: float = 1.0) -> float:
    """The keep probability at which a report may cost epsilon: the inverse of ``true_epsilon``."""
    odds = math.expm1(epsilon) * mix / size
    return odds / (1 + odds)


def mixed(law: Floats, mix: float) -> Floats:
    """Table of fakes if the aggregator knows the truth: ``(1 - mix) pi + mix/K``."""
    table: Floats = (1 - mix) * law + mix / law.size
    return table


def expected_squared_error(law: Floats, fakes: Floats, p: float, n: float) -> float:
    """The expected total squared error of raw shares, for a population and one table of fakes.

    ``(1 - sum_v L_v**2) / (n p**2)`` with ``L = p pi + (1-p) T`` the law of a report.
    """
    reported = p * law + (1 - p) * fakes
    return float((1 - (reported**2).sum()) / (n * p**2))


def expected_squared_distance(counts: NDArray[np.int64], fakes: Floats, p: float) -> float:
    """The expected total squared error of raw counts of known respondents, for one table of fakes.

    Of a respondent in cell x the report has covariance ``diag(P_x) - P_x P_x^T`` with ``P_x`` her
    row of the randomization matrix; summed over the respondents, its trace is
    ``n (1 - p**2 - 2 p (1-p) sum_v pi_v T_v - (1-p)**2 sum_v T_v**2)``, here divided by p**2.
    """
    n = float(counts.sum())
    same = float((counts * fakes).sum()) / n
    trace = 1 - p**2 - 2 * p * (1 - p) * same - (1 - p) ** 2 * float((fakes**2).sum())
    return n * trace / p**2


def run_rrba(asked: Asked[Any], records: Records, **parameters: Any) -> LinearEstimate[GroupTables]:
    """The estimate of one run of the RRBA variant by messages, with every respondent live.

    Raises:
        UsageError: the variant refuses the parameters.
    """
    try:
        variant = RRBA(survey=records.survey, **parameters)
    except ValueError as error:
        raise UsageError(str(error)) from error
    return asked.simulate(variant, records).estimate
