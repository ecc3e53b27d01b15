"""Errors of all pairs of attributes, asked one pair per client or a whole view of them.

Randomized Response Block Aggregation (RRBA), section 4. Who answers about what, and with which
keep probability, is what the variant says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from protocol.crypto.randomness import WORDS
from protocol.estimators.measures import squared_error
from protocol.randomizers.exact import Floats
from protocol.surveys.survey import Survey
from protocol.variants import RRBA
from protocol.variants.rrba.plan import Extent
from scenarios.reproductions.rrba.shared import expected_squared_error, mixed

EXTENTS: tuple[Extent, ...] = get_args(Extent)


class Asked(NamedTuple):
    """How pairs of attributes are asked in one of the two ways.

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


def asked(survey: Survey, epsilon: float, extent: Extent) -> Asked:
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

    return Asked(plan.group_names, np.array(plan.thresholds) / WORDS, draw, shares, longest)


def expected_inverse(n: int, share: float) -> float:
    """``E[1/N]`` of a binomial N with n trials, given that it is not 0."""
    # Imported here: scenarios are listed without it.
    from scipy.special import gammaln

    counts = np.arange(1, n + 1)
    logs = gammaln(n + 1) - gammaln(counts + 1) - gammaln(n - counts + 1)
    logs += counts * math.log(share) + (n - counts) * math.log1p(-share)
    law = np.exp(logs)
    return float((law / counts).sum() / law.sum())


def errors_of_groups(
    laws: Sequence[Floats],
    how: Asked,
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


def expected_of_groups(laws: Sequence[Floats], how: Asked, n: int) -> float:
    """The same in closed form, given that every group is answered."""
    inverses = {share: expected_inverse(n, share) for share in set(how.shares.tolist())}
    return sum(
        expected_squared_error(law, mixed(law, 1.0), p, 1) * inverses[share]
        for law, p, share in zip(laws, how.keeps.tolist(), how.shares.tolist(), strict=True)
    )
