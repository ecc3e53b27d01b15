"""The verdict on usefulness: how far estimates may be off, in a word and a sentence."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from protocol.errors import ProtocolError
from protocol.estimators.estimate import Estimate
from protocol.estimators.inference.laws import About
from protocol.estimators.projection import Projection
from protocol.estimators.usefulness import (
    GRADES,
    ORDER,
    SCALE_SAYS,
    MarginOfError,
    Usefulness,
    least_exact,
    margin_of_error,
    margin_of_number,
)
from protocol.session.variant import Variant
from scenarios.statement.statement import State, Verdict
from scenarios.wording.announced import title_of
from scenarios.wording.formatting import as_json, count, some, upper

if TYPE_CHECKING:
    from scenarios.designing.mending import Mending

MOST_PAIRS = 200
"""The most pairs of attributes that are judged where nobody asked for them."""

FEWEST = 50
"""Of fewer respondents nothing is predicted."""

NAMED = 6
"""The most tables of one word that are named."""

_LEADS: Mapping[Usefulness, str] = MappingProxyType(
    {
        "good": "Shares can be compared and ranked",
        "fair": "Large differences between shares can be told",
        "poor": "Only very large differences between shares can be told",
        "none": "The estimates tell no more than a guess without any answers",
        "unknown": "How far the estimates may be off is not known",
    }
)
_STATES: Mapping[Usefulness, State] = MappingProxyType(
    {"good": "good", "fair": "note", "poor": "care", "none": "bad", "unknown": "open"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UsefulnessVerdict(Verdict):
    """The verdict on usefulness: that of the least useful of what was asked for.

    Args:
        of: the margin of error of every attribute, or of every table that was asked for.
        pairs: those of the pairs of attributes beside them; the verdict does not go by these.
        mending: what would make it better; None if that is not known, or nothing has to be.
    """

    of: tuple[MarginOfError, ...]
    pairs: tuple[MarginOfError, ...] = ()
    mending: Mending | None = None

    @property
    def means(self) -> str:
        """Its meaning, without the figures."""
        return f"{_LEADS[cast(Usefulness, self.word)]}."

    @property
    def values(self) -> Mapping[str, Any]:
        return {
            "tables": [_values(each) for each in self.of],
            "pairs": _pairs_values(self.pairs) if self.pairs else None,
            "mending": None if self.mending is None else self.mending._asdict(),
            "scale": [grade._asdict() for grade in GRADES],
        }


def margins_of(
    estimate: Estimate,
    about: About,
    projection: Projection = "none",
    tables: Iterable[Sequence[str]] = (),
) -> tuple[MarginOfError, ...]:
    """The margins of error of every attribute, then of some tables, as far as there are such.

    Args:
        estimate: of shares, or of means that have a range.
        about: whose.
        projection: applied to the tables.
        tables: the attributes of each.
    """
    means = estimate.attribute_means()
    if means:
        return tuple(margin_of_number((name,), mean, about) for name, mean in means.items())
    own: list[tuple[str, ...]] = [(name,) for name in estimate.survey.names]
    names = dict.fromkeys((*own, *(tuple(each) for each in tables)))
    return tuple(_margins(estimate, names, about, projection))


def pairs_of(estimate: Estimate, about: About, projection: Projection) -> tuple[MarginOfError, ...]:
    """The margins of error of all pairs of attributes; none if they are too many."""
    attributes = len(estimate.survey.names)
    if attributes * (attributes - 1) > 2 * MOST_PAIRS:
        return ()
    return tuple(margin_of_error(table, about) for table in estimate.pairs(projection))


def on_usefulness(
    of: Sequence[MarginOfError],
    *,
    pairs: Sequence[MarginOfError] = (),
    mending: Mending | None = None,
) -> tuple[UsefulnessVerdict, ...]:
    """The verdict on usefulness; none if there is nothing to judge.

    Args:
        of: what is judged.
        pairs: pairs of attributes that stand beside it.
        mending: what would make it better.
    """
    if not of:
        return ()
    worst = least_exact(of)
    word = worst.word
    reasons = [*_by_word(of)] if len(of) > 1 else []
    if pairs:
        reasons.append(_on_pairs(pairs))
    if mending is not None:
        reasons.append(mending.says)
    verdict = UsefulnessVerdict(
        about="Usefulness",
        word=word,
        state=_STATES[word],
        says=f"{_LEADS[word]}{_off(worst)}.",
        reasons=(*reasons, SCALE_SAYS),
        of=tuple(of),
        pairs=tuple(pairs),
        mending=mending,
    )
    return (verdict,)


def usefulness_values(verdicts: Iterable[Verdict]) -> dict[str, Any]:
    """A verdict as ``result.json`` has it; empty if there is none."""
    return {
        verdict.key: as_json({"verdict": verdict.word, **verdict.values}) for verdict in verdicts
    }


def mended(
    variant: Variant, of: Sequence[MarginOfError], *, respondents: int, parties: int, about: About
) -> Mending | None:
    """Changes that would make estimates more useful; None if none has to, or none is known.

    Args:
        variant: how people were asked.
        of: the margins of error.
        respondents: how many have answered.
        parties: that spoke for them.
        about: whose shares.
    """
    if respondents < FEWEST or all(one.word in ("good", "unknown") for one in of):
        return None
    # Imported late, as it knows all variants.
    from scenarios.designing.mending import mending

    return mending(variant, of, respondents=respondents, parties=parties, about=about)


def _margins(
    estimate: Estimate,
    tables: Iterable[tuple[str, ...]],
    about: About,
    projection: Projection,
) -> Iterator[MarginOfError]:
    for names in tables:
        try:
            table = estimate.table(*names, projection=projection)
        except (ProtocolError, ValueError):
            continue  # This result says nothing of it.
        yield margin_of_error(table, about)


def _off(one: MarginOfError) -> str:
    """By how much one of them may be off, as the end of a sentence."""
    name = title_of(one.names)
    if math.isnan(one.margin):
        return f": neither a formula nor the reports tell it of {name}"
    if math.isinf(one.margin):
        return f": nothing is said of {name}"
    if one.number:
        return f": the estimate of {name} may be off by {_points(one)} of its range"
    return f": those of {name} may be off by {_points(one)}"


def _points(one: MarginOfError, unit: str = " points") -> str:
    figure = 100 * one.margin
    return f"{figure:.{1 if figure >= 0.95 else 2}f}{' %' if one.number else unit}"


def _by_word(of: Sequence[MarginOfError]) -> Iterator[str]:
    """The tables of each word, in a sentence."""
    for word in ORDER:
        alike = sorted((one for one in of if one.word == word), key=lambda one: -one.excess)
        if not alike:
            continue
        named = (
            f"{title_of(one.names)} ({_points(one)})"
            if math.isfinite(one.margin)
            else title_of(one.names)
            for one in alike
        )
        yield f"{upper(word)}: {some(named, len(alike), NAMED)}."


def _on_pairs(pairs: Sequence[MarginOfError]) -> str:
    counted = _counted(pairs)
    worst = least_exact(pairs)
    of = f"{count(len(pairs), 'pair')} of attributes"
    if len(counted) == 1:
        said = f"{'The' if len(pairs) == 1 else 'All'} {of} {'is' if len(pairs) == 1 else 'are'}"
        said += f" {next(iter(counted))}"
    else:
        said = f"Of {of} " + ", ".join(f"{many:,} {word}" for word, many in counted.items())
    off = f", off by up to {_points(worst)}" if math.isfinite(worst.margin) else ""
    return f"{said}; the least exact is {title_of(worst.names)}{off}."


def _counted(of: Iterable[MarginOfError]) -> dict[Usefulness, int]:
    words = [one.word for one in of]
    return {word: words.count(word) for word in ORDER if word in words}


def _values(one: MarginOfError) -> dict[str, Any]:
    return {"attributes": one.names, "verdict": one.word, "margin": one.margin}


def _pairs_values(pairs: Sequence[MarginOfError]) -> dict[str, Any]:
    return {"counted": _counted(pairs), "worst": _values(least_exact(pairs))}
