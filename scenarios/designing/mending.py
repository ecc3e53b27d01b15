"""Changes that make estimates more useful: more people, a larger epsilon, fewer attributes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from protocol.errors import ProtocolError
from protocol.estimators.inference.laws import About
from protocol.estimators.usefulness import GRADES, Grade, MarginOfError
from protocol.session.variant import Variant
from protocol.surveys.survey import Survey
from protocol.variants import BUILT_IN
from protocol.variants.sums.tallies import Counted
from scenarios.designing.assumed import Uniform
from scenarios.designing.candidates import Wanted, of_variant
from scenarios.designing.needing import MOST_EPSILON
from scenarios.designing.predicting import NotEstimatedError, predicted
from scenarios.designing.targets import Names, Target
from scenarios.wording.formatting import count
from scenarios.wording.formatting import epsilon as epsilon_text

MOST_CATEGORIES = 500
"""Of a survey with more categories no other epsilon and no fewer attributes are tried."""


class Mending(NamedTuple):
    """Changes that take all that is wanted to a step of the scale, one at a time.

    Each is None if it is unknown, or no such change is enough.

    Args:
        to: the step.
        respondents: how many it takes.
        epsilon: what a respondent's reports may cost at most, in nats.
        dropped: how many attributes are not asked, those first that are least exact.
    """

    to: Literal["good", "fair"]
    respondents: int | None
    epsilon: float | None
    dropped: int | None

    @property
    def says(self) -> str:
        """The same in a sentence."""
        ways = []
        if self.respondents is not None:
            ways.append(f"about {count(self.respondents, 'respondent')}")
        if self.epsilon is not None:
            ways.append(f"ε = {epsilon_text(self.epsilon)}")
        if self.dropped is not None:
            ways.append(f"{count(self.dropped, 'attribute')} fewer")
        return f"As predicted, {self.to} would take {', or '.join(ways)}."


def mending(
    variant: Variant, of: Sequence[MarginOfError], *, respondents: int, parties: int, about: About
) -> Mending | None:
    """Changes with which estimates would reach the next step of the scale.

    Errors fall with the root of the number of respondents who are randomized. Other changes are
    predicted by the variant's own formulas, for answers that are all equally likely, as a ratio to
    what these say of the survey as it was.

    Args:
        variant: how people were asked.
        of: the margins of error of what is wanted.
        respondents: how many have answered.
        parties: that spoke for them.
        about: whose shares.

    Returns:
        None if nothing has to be better, or nothing is known.
    """
    words = {one.word for one in of}
    if words <= {"good"} or not all(math.isfinite(one.margin) for one in of):
        return None
    step = GRADES[0] if words <= {"good", "fair"} else GRADES[1]
    setting = _Setting(variant, of, step, respondents, parties, about)
    found = Mending(
        "good" if step is GRADES[0] else "fair",
        setting.respondents_needed(),
        setting.epsilon_needed(),
        setting.to_drop(),
    )
    return None if found[1:] == (None, None, None) else found


def predicted_margins(
    variant: Variant, tables: Iterable[Names], respondents: int, parties: int, about: About
) -> Mapping[Names, float] | None:
    """The margins of error that some tables are predicted to have, as shares, by their names.

    All answers are taken to be equally likely.

    Args:
        variant: how people are asked.
        tables: the attributes of each.
        respondents: how many answer.
        parties: that speak for them.
        about: whose shares.

    Returns:
        None if there is no formula for one of them.
    """
    survey, target = variant.survey, Target("these", tuple(tables))
    try:
        found = predicted(
            variant, respondents, target, Uniform(survey), about=about, parties=parties
        )
    except (NotEstimatedError, ProtocolError):
        return None
    if found is None:
        return None
    return {one.names: one.margin for one in found.margins(survey)}


class _Setting(NamedTuple):
    """A survey as it was, and what is wanted.

    Args:
        variant, of, respondents, parties, about: as ``mending`` takes them.
        step: which all of them are to reach.
    """

    variant: Variant
    of: Sequence[MarginOfError]
    step: Grade
    respondents: int
    parties: int
    about: About

    @property
    def beyond(self) -> dict[Names, float]:
        """The margins as multiples of the largest that are wanted."""
        return {one.names: one.margin / self.step.edge(one.cells) for one in self.of}

    def respondents_needed(self) -> int | None:
        """The number of respondents that it takes, rounded up to two digits."""
        if isinstance(self.variant, Counted) and self.about == "respondents":
            # There are as many coins however many respondents there are.
            needed = self.respondents * max(self.beyond.values())
        elif isinstance(self.variant, Counted) and self.variant.sums.noise is not None:
            return None
        else:
            needed = self.respondents * max(self.beyond.values()) ** 2
        step: int = 10 ** max(0, math.floor(math.log10(needed)) - 1)
        return math.ceil(needed / step) * step

    def epsilon_needed(self) -> float | None:
        """The least epsilon that is enough, in two digits; None if none is, or nobody knows."""
        spent, now = self.variant.most(), self._now()
        if now is None or not spent < MOST_EPSILON:
            return None

        def enough(tenths: int) -> bool:
            return self._kept(self.variant.survey, tenths / 10, now)

        found = _least(enough, math.ceil(10 * spent), round(10 * MOST_EPSILON))
        return None if found is None else found / 10

    def to_drop(self) -> int | None:
        """The fewest attributes that are not to be asked; None if that helps not, or is unknown.

        Those go first of which nothing is wanted.
        """
        spent, now, survey = self.variant.most(), self._now(), self.variant.survey
        if now is None or not math.isfinite(spent):
            return None
        excess = {
            name: max((x for names, x in self.beyond.items() if name in names), default=math.inf)
            for name in survey.names
        }
        order = sorted(survey.names, key=lambda name: excess[name])

        def enough(dropped: int) -> bool:
            kept = {*order[: len(order) - dropped]}
            asked = tuple(each for each in survey.attributes if each.name in kept)
            return self._kept(Survey(survey.title, asked), spent, now)

        return _least(enough, 0, len(order) - 1)

    def _now(self) -> Mapping[Names, float] | None:
        """The prediction for the survey as it was."""
        cls, survey = type(self.variant), self.variant.survey
        if BUILT_IN.get(cls.name) is not cls or sum(survey.sizes) > MOST_CATEGORIES:
            return None
        if isinstance(self.variant, Counted) or any(one.number for one in self.of):
            return None
        found = self._predicted(self.variant, [one.names for one in self.of])
        return found if found and all(found.values()) else None

    def _kept(self, survey: Survey, epsilon: float, now: Mapping[Names, float]) -> bool:
        """Return whether a way to ask these attributes at an epsilon is as good as is wanted."""
        tables = tuple(names for names in now if {*names} <= {*survey.names})
        if not tables:
            return False
        wanted, beyond = Wanted(survey, epsilon, Target("these", tables), self.parties), self.beyond
        for candidate in of_variant(type(self.variant), wanted):
            then = candidate.variant and self._predicted(candidate.variant, tables)
            if then and all(beyond[names] * then[names] <= now[names] for names in tables):
                return True
        return False

    def _predicted(self, variant: Variant, tables: Iterable[Names]) -> Mapping[Names, float] | None:
        return predicted_margins(variant, tables, self.respondents, self.parties, self.about)


def _least(enough: Callable[[int], bool], low: int, high: int) -> int | None:
    """The least whole number above ``low`` that is enough; None if ``high`` is not."""
    if high <= low or not enough(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if enough(middle):
            high = middle
        else:
            low = middle
    return high
