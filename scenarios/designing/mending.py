"""Changes that make estimates more useful: more people, a larger epsilon, fewer attributes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Literal, NamedTuple

from msgspec.structs import replace

from protocol.accounting.spending import DELTA
from protocol.errors import ProtocolError
from protocol.estimators.inference.laws import About
from protocol.estimators.usefulness import GRADES, Grade, MarginOfError, Subject
from protocol.session.variant import Variant
from protocol.surveys.survey import Survey
from protocol.variants import BUILT_IN
from protocol.variants.keyvalue.privkv import KeyValueCollection
from protocol.variants.numeric.numeric_mean import NumericMean
from protocol.variants.sums.tallies import Counted
from scenarios.designing.candidates import Wanted, variant_candidates
from scenarios.designing.needing import MOST_EPSILON
from scenarios.designing.predicting import NotEstimatedError, predicted_margins
from scenarios.designing.summing import told_in_sum
from scenarios.designing.targets import Names, Target
from scenarios.wording.formatting import count, cut, some
from scenarios.wording.formatting import epsilon as epsilon_text

MOST_CATEGORIES = 500
"""Maximum number of categories for which other epsilons and fewer attributes are tried."""

MOST_CELLS = 10_000
"""Maximum number of counted cells for which they are tried."""

NAMED = 6
"""Maximum number of named attributes to leave out."""

Margins = Mapping[tuple[Names, Subject], float]
"""Margins of error, by attributes and what may be off."""


class Mending(NamedTuple):
    """Changes that take all that is wanted to a step of the scale, one at a time.

    A change is None if it is unknown, or not enough.

    Args:
        to: the step.
        respondents: number of respondents needed.
        epsilon: limit on the cost of a respondent's reports, in nats. For counts with coins it
            holds at the usual delta with enough honest parties.
        dropped: the attributes that are not asked, those first that are least exact.
    """

    to: Literal["good", "fair"]
    respondents: int | None
    epsilon: float | None
    dropped: tuple[str, ...] | None

    @property
    def says(self) -> str:
        """The changes in a sentence."""
        ways = []
        if self.respondents is not None:
            ways.append(f"about {count(self.respondents, 'respondent')}")
        if self.epsilon is not None:
            ways.append(f"ε = {epsilon_text(self.epsilon)}")
        if self.dropped is not None:
            named = some(map(cut, self.dropped), len(self.dropped), NAMED)
            ways.append(f"leaving out {named}")
        one = " one of these:" if len(ways) > 1 else ""
        return f"For {self.to} estimates it would take{one} {'; '.join(ways)}."


def mending(
    variant: Variant, of: Sequence[MarginOfError], *, respondents: int, parties: int, about: About
) -> Mending | None:
    """Changes with which estimates would reach the next step of the scale.

    Errors fall with the root of the number of randomized respondents. For other changes, the
    variant's own formulas give the ratio to the survey as it was, with all answers equally likely.

    Args:
        of: the margins of error of what is wanted.
        respondents: number of respondents that have answered.
        parties: number of parties that hold the respondents.
        about: subject of the estimates.

    Returns:
        None if nothing has to be better, or nothing is known.
    """
    words = {one.word for one in of}
    if words <= {"good"} or not all(math.isfinite(one.margin) for one in of):
        return None
    step = GRADES[0] if words <= {"good", "fair"} else GRADES[1]
    setting = _Setting(variant, of, step, respondents, parties, about)
    now = setting.predicted(variant, _tables(of))
    if now is not None and not {(one.names, one.of) for one in of} <= {*now}:
        now = None
    if any(one.of == "mean" and one.word == "none" for one in of) and not _is_foreseen(of, now):
        return None
    setting = setting._replace(now=now)
    found = Mending(
        "good" if step is GRADES[0] else "fair",
        setting.respondents_needed(),
        setting.epsilon_needed(),
        setting.to_drop(),
    )
    return None if found[1:] == (None, None, None) else found


def _tables(of: Iterable[MarginOfError]) -> tuple[Names, ...]:
    return tuple(dict.fromkeys(one.names for one in of))


def _is_foreseen(of: Iterable[MarginOfError], now: Margins | None) -> bool:
    """Check whether no mean is known less well than answers that are equally likely would let it
    be.

    Few respondents may hold a key. Then its interval is cut off at the ends of the range, and gives
    no information on what more it would take.
    """
    return now is not None and all(
        one.margin <= now.get((one.names, one.of), 0.0) for one in of if one.word == "none"
    )


class _Setting(NamedTuple):
    """A survey as it was, and what is wanted.

    Args:
        variant, of, respondents, parties, about: as in ``mending``.
        step: which all of them are to reach.
        now: the prediction for the survey as it was; None if there is none.
    """

    variant: Variant
    of: Sequence[MarginOfError]
    step: Grade
    respondents: int
    parties: int
    about: About
    now: Margins | None = None

    @property
    def beyond(self) -> dict[tuple[Names, Subject], float]:
        """Margins as multiples of the largest one wanted.

        An interval without information ends at the limits of the range; then a larger prediction
        counts instead.
        """
        now = self.now or {}
        return {
            (one.names, one.of): max(
                one.margin, now.get((one.names, one.of), 0.0) if one.word == "none" else 0.0
            )
            / self.step.edge(one.cells)
            for one in self.of
        }

    def respondents_needed(self) -> int | None:
        """The number of respondents needed, rounded up to two digits."""
        if self.now is None and any(one.word == "none" for one in self.of):
            return None
        factor: float | None = max(self.beyond.values()) ** 2
        if isinstance(self.variant, Counted) and self.variant.sums.noise is not None:
            factor = self._with_coins()
        if factor is None:
            return None
        needed = self.respondents * factor
        step: int = 10 ** max(0, math.floor(math.log10(needed)) - 1)
        return math.ceil(needed / step) * step

    def _with_coins(self) -> float | None:
        """Factor by which coins increase the number of respondents needed.

        The number of coins does not depend on the number of respondents. So their part of an error
        falls with that number, and the part of sampling with its root.
        """
        beyond = self.beyond
        if self.about == "respondents":
            return max(beyond.values())
        given = self._replace(about="respondents").predicted(self.variant, _tables(self.of))
        if self.now is None or given is None:
            return None
        needed = 1.0
        for key, multiple in beyond.items():
            coins = min(1.0, (given[key] / self.now[key]) ** 2)
            root = math.sqrt((1 - coins) ** 2 + 4 * coins / multiple**2)
            needed = max(needed, multiple**2 * (1 - coins + root) / 2)
        return needed

    @property
    def spent(self) -> float | None:
        """The epsilon of a respondent; None if unbounded, or if other epsilons are not tried."""
        variant = self.variant
        cls, survey = type(variant), variant.survey
        if BUILT_IN.get(cls.name) is not cls or sum(survey.sizes) > MOST_CATEGORIES:
            return None
        if self.now is None or not all(self.now.values()):
            return None
        if isinstance(variant, Counted) and variant.layout.cells > MOST_CELLS:
            return None
        if isinstance(variant, NumericMean | KeyValueCollection):
            # The parameter is an upper bound of the true cost.
            return variant.epsilon
        most = variant.most()
        if isinstance(variant, Counted) and variant.sums.noise is not None:
            with suppress(ValueError):
                most = told_in_sum(variant, self.parties, DELTA).epsilon
        return most if math.isfinite(most) else None

    def epsilon_needed(self) -> float | None:
        """The least sufficient epsilon, to two digits; None if none suffices or it is unknown."""
        spent = self.spent
        if spent is None or not spent < MOST_EPSILON:
            return None

        def enough(tenths: int) -> bool:
            return self._is_enough(self.variant.survey, tenths / 10)

        found = _least(enough, math.ceil(10 * spent), round(10 * MOST_EPSILON))
        return None if found is None else found / 10

    def to_drop(self) -> tuple[str, ...] | None:
        """The fewest attributes to drop; None if dropping does not help, or if that is unknown.

        Attributes outside the wanted tables are dropped first.
        """
        spent, survey = self.spent, self.variant.survey
        if spent is None:
            return None
        beyond = self.beyond
        excess = {
            name: max((x for (names, _), x in beyond.items() if name in names), default=math.inf)
            for name in survey.names
        }
        order = sorted(survey.names, key=lambda name: -excess[name])

        def enough(dropped: int) -> bool:
            kept = {*order[dropped:]}
            asked = tuple(each for each in survey.attributes if each.name in kept)
            return self._is_enough(Survey(survey.title, asked), spent)

        found = _least(enough, 0, len(order) - 1)
        return None if found is None else tuple(order[:found])

    def _is_enough(self, survey: Survey, epsilon: float) -> bool:
        """Check whether some way to ask these attributes at this epsilon is good enough."""
        tables = tuple(names for names in _tables(self.of) if {*names} <= {*survey.names})
        if not tables or self.now is None:
            return False
        beyond, now = self.beyond, self.now
        for variant in self._variants(survey, epsilon, tables):
            then = self.predicted(variant, tables)
            if then and all(beyond[key] * then[key] <= now[key] for key in then if key in beyond):
                return True
        return False

    def _variants(
        self, survey: Survey, epsilon: float, tables: tuple[Names, ...]
    ) -> Iterator[Variant]:
        variant, parties = self.variant, self.parties
        with suppress(ValueError, ProtocolError):
            match variant:
                case NumericMean() | KeyValueCollection():
                    yield replace(variant, survey=survey, epsilon=epsilon)
                case Counted():
                    exact = replace(variant.sums, noise=None)
                    yield variant.with_noise(survey, epsilon=epsilon, parties=parties, sums=exact)
                case _:
                    wanted = Wanted(survey, epsilon, Target("these", tables), parties)
                    for candidate in variant_candidates(type(variant), wanted):
                        if candidate.variant is not None:
                            yield candidate.variant

    def predicted(self, variant: Variant, tables: Iterable[Names]) -> Margins | None:
        """Predicted margins of error of some tables; None without a formula."""
        try:
            found = predicted_margins(
                variant, self.respondents, (*tables,), about=self.about, parties=self.parties
            )
        except (NotEstimatedError, ProtocolError):
            return None
        return {(one.names, one.of): one.margin for one in found}


def _least(enough: Callable[[int], bool], low: int, high: int) -> int | None:
    """The least integer in ``(low, high]`` that is enough; None if ``high`` is not."""
    if high <= low or not enough(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if enough(middle):
            high = middle
        else:
            low = middle
    return high
