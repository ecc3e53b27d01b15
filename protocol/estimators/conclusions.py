"""Posterior probabilities of one respondent's answers, given her reports and a prior.

The ledger bounds the change for every prior. Here it is worked out for one.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.estimators.joint import Block
from protocol.estimators.tables import marginal
from protocol.randomizers import CodeRandomizer
from protocol.randomizers.exact import Floats
from protocol.surveys.survey import Survey


class Conclusion(msgspec.Struct, frozen=True):
    """Probability of each category of an attribute, before and after the reports.

    Args:
        attribute: its name.
        before, after: probabilities, shape (r,), in the order of the categories.
    """

    attribute: str
    before: Floats
    after: Floats


def likelihoods(randomizer: CodeRandomizer, report: NDArray[np.unsignedinteger]) -> Floats:
    """Likelihood of every input given one report, relative to the likeliest input.

    Args:
        randomizer: of the report.
        report: shape (1,).

    Returns:
        Shape ``(size,)``; the largest is 1.
    """

    def ratios(first: int) -> Floats:
        codes = range(randomizer.size)
        return np.array(
            [0.0 if one == first else randomizer.log_ratios(report, first, one)[0] for one in codes]
        )

    # Input 0 may be unable to give the report, and then all ratios to it are alike.
    likeliest = int(np.argmax(ratios(0)))
    found: Floats = np.exp(ratios(likeliest))
    found /= found.max()
    return found


def conclusions(
    survey: Survey,
    blocks: Sequence[Block],
    reports: NDArray[np.unsignedinteger],
    prior: Floats,
) -> tuple[Conclusion, ...]:
    """Posterior of a prior given one respondent's reports, attribute by attribute.

    Args:
        survey: the survey that was asked.
        blocks: the randomizers, on a partition of its attributes.
        reports: one cell of each block, shape (b,).
        prior: joint distribution of her answers, shape ``survey.sizes``. Where attributes depend
            on each other in it, a report on one changes the others too.

    Raises:
        ValueError: no answer of the prior can give these reports.
    """
    posterior = prior.copy()
    for place, block in enumerate(blocks):
        axes = survey.axes(block.attributes)
        each = likelihoods(block.randomizer, reports[place : place + 1])
        shaped = each.reshape([survey.sizes[axis] for axis in axes])
        # The block's order of attributes need not be the survey's.
        shaped = shaped.transpose(np.argsort(axes))
        posterior *= shaped.reshape(
            [size if axis in axes else 1 for axis, size in enumerate(survey.sizes)]
        )
    total = posterior.sum()
    if not total > 0:
        raise ValueError("no answer that the prior has can give these reports")
    posterior /= total
    found = []
    for name in survey.names:
        before, after = (marginal(table, survey.names, (name,)) for table in (prior, posterior))
        found.append(Conclusion(name, before, after))
    return tuple(found)
