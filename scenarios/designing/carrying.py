"""The number of attributes that an epsilon carries, if everybody is asked about all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from protocol.estimators.inference.laws import LEVEL
from protocol.surveys.survey import Attribute, Survey
from protocol.variants import RRIndependent
from scenarios.designing.assumed import Uniform
from scenarios.designing.designing import Setup
from scenarios.designing.needing import epsilon_needed, half_width, ways_of
from scenarios.designing.targets import target_of

CARRIED = 0.05
"""Up to which half-width of its 95 % interval a share is good for something."""


class Carried(NamedTuple):
    """The capacity of an epsilon that attributes share in equal parts.

    Args:
        width: the half-width of the widest interval of a share, if all are asked.
        names: of the attributes that it carries, those with the fewest categories.
        dropped: of the others, those first that it takes most for.
        epsilon: what would carry them all; None if nothing would.
    """

    width: float
    names: tuple[str, ...]
    dropped: tuple[str, ...]
    epsilon: float | None


def carried(survey: Survey, epsilon: float, respondents: int) -> Carried:
    """Predict how many of a survey's attributes an epsilon carries by randomized answers.

    Args:
        survey: what is asked.
        epsilon: of a respondent, in nats.
        respondents: how many answer.
    """
    ordered = sorted(survey.attributes, key=lambda each: len(each.categories))
    width = _width(ordered, epsilon, respondents)
    low, high = 0, len(ordered)
    if width > CARRIED:
        while high - low > 1:
            middle = (low + high) // 2
            if _width(ordered[:middle], epsilon, respondents) <= CARRIED:
                low = middle
            else:
                high = middle
        high = low
    setup = _setup(survey.attributes, respondents)
    needed = epsilon_needed(setup, ways_of(setup, RRIndependent), CARRIED, LEVEL)
    return Carried(
        width,
        tuple(each.name for each in ordered[:high]),
        tuple(each.name for each in reversed(ordered[high:])),
        None if needed is None else needed.epsilon,
    )


def _width(attributes: Sequence[Attribute], epsilon: float, respondents: int) -> float:
    setup = _setup(attributes, respondents)
    variant = ways_of(setup, RRIndependent)(epsilon)[0].variant
    assert variant is not None
    width = half_width(setup, variant, LEVEL)
    assert width is not None, "it has a closed form"
    return width


def _setup(attributes: Sequence[Attribute], respondents: int) -> Setup:
    survey = Survey("Own", (*attributes,))
    target = target_of(survey, "margins")
    return Setup(survey, target, respondents, respondents, Uniform(survey))
