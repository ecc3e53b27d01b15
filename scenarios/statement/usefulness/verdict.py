"""The verdict on usefulness: margins of error, in a word and a sentence."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from protocol.estimators.estimate import Estimate
from protocol.estimators.inference.intervals import Intervals
from protocol.estimators.inference.laws import LEVEL, About
from protocol.estimators.projection import Projection
from protocol.estimators.usefulness import (
    GRADES,
    MEANS_SAY,
    ORDER,
    SCALE_SAYS,
    MarginOfError,
    Subject,
    Usefulness,
    least_exact,
    margin_of_error,
    margins_of_error,
)
from protocol.session.variant import Variant
from scenarios.statement.statement import State, Verdict
from scenarios.wording.announced import table_title
from scenarios.wording.formatting import as_json, count, cut, some, upper

if TYPE_CHECKING:
    from scenarios.designing.mending import Mending

MOST_PAIRS = 200
"""Maximum number of pairs of attributes that are judged without a request."""

FEWEST = 50
"""Minimum number of respondents for conclusions about more."""

NAMED = 6
"""Maximum number of named tables for one word."""

_LEADS: Mapping[Usefulness, str] = MappingProxyType(
    {
        "good": "Estimates can be compared and ranked.",
        "fair": "Only large differences between estimates are reliable.",
        "poor": "Only very large differences between estimates are reliable.",
        "none": "A guess without any answers would be as close.",
        "unknown": "No formula gives their errors, or too few reports came in.",
    }
)
_STATES: Mapping[Usefulness, State] = MappingProxyType(
    {"good": "good", "fair": "note", "poor": "care", "none": "bad", "unknown": "open"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UsefulnessVerdict(Verdict):
    """The verdict on usefulness: that of the least useful requested estimate.

    Args:
        off: sentence on the margin of the least useful one.
        of: the margin of error of every attribute, or of every table that was asked for.
        pairs: margins of pairs of attributes, which do not affect the verdict.
        mending: changes that would improve it; None if unknown or unnecessary.
    """

    off: str
    of: tuple[MarginOfError, ...]
    pairs: tuple[MarginOfError, ...] = ()
    mending: Mending | None = None

    @property
    def headline(self) -> str:
        """The word, with the margin of the least useful estimate."""
        return f"{self.about}: {self.word}. {self.off}"

    @property
    def means(self) -> str:
        """Its meaning, without the figures."""
        return _LEADS[cast(Usefulness, self.word)]

    @property
    def values(self) -> Mapping[str, Any]:
        return {
            "tables": [_values(each) for each in self.of],
            "pairs": _pairs_values(self.pairs) if self.pairs else None,
            "mending": None if self.mending is None else self.mending._asdict(),
            "scale": [grade._asdict() for grade in GRADES],
        }


def pair_margins(
    estimate: Estimate, about: About, projection: Projection
) -> tuple[MarginOfError, ...]:
    """The margins of error of all pairs of attributes; none if they are too many."""
    attributes = len(estimate.survey.names)
    if attributes * (attributes - 1) > 2 * MOST_PAIRS:
        return ()
    return tuple(margin_of_error(table, about) for table in estimate.pairs(projection))


def judge_usefulness(
    estimate: Estimate,
    intervals: Intervals,
    projection: Projection,
    variant: Variant,
    *,
    respondents: int,
    parties: int,
    tables: Sequence[tuple[str, ...]] = (),
) -> tuple[UsefulnessVerdict, ...]:
    """The verdict on usefulness of an estimate, with its pairs; none if it has nothing to judge.

    Args:
        estimate: the reported estimate.
        intervals, projection: those of the report.
        variant, respondents, parties: as for ``mended``.
    """
    of = margins_of_error(estimate, intervals.about, projection, tables)
    mending = mended(variant, of, respondents=respondents, parties=parties, about=intervals.about)
    return on_usefulness(
        of, pairs=pair_margins(estimate, intervals.about, projection), mending=mending
    )


def on_usefulness(
    of: Sequence[MarginOfError],
    *,
    pairs: Sequence[MarginOfError] = (),
    mending: Mending | None = None,
) -> tuple[UsefulnessVerdict, ...]:
    """The verdict on usefulness; none if there is nothing to judge.

    Args:
        of: the judged margins.
        pairs: pairs of attributes that stand beside it.
        mending: changes that would improve it.
    """
    if not of:
        return ()
    worst = least_exact(of)
    word = worst.word
    off = "All estimates are exact."
    if any(one.margin for one in of):
        off = f"{_margin_sentence(worst)}{_others(of, worst)}."
    reasons, brief = [*_by_word(of)] if len(of) > 1 else [], [_briefly(of, off)]
    if pairs:
        reasons.append(_on_pairs(pairs))
        if ORDER.index(least_exact(pairs).word) > ORDER.index(word):
            brief.append(reasons[-1])
    if mending is not None:
        reasons.append(mending.says)
        if word in ("poor", "none"):
            brief.append(mending.says)
    verdict = UsefulnessVerdict(
        about="Usefulness",
        word=word,
        state=_STATES[word],
        says=f"{off} {_LEADS[word]}",
        reasons=(*reasons, scale_said(of)),
        off=off,
        brief=tuple(brief),
        of=tuple(of),
        pairs=tuple(pairs),
        mending=mending,
    )
    return (verdict,)


def scale_said(of: Iterable[MarginOfError]) -> str:
    """Meaning of the steps that matter for the judged estimates."""
    kinds = {one.of for one in of}
    said = (SCALE_SAYS if "shares" in kinds else "", MEANS_SAY if kinds - {"shares"} else "")
    return " ".join(filter(None, said))


def usefulness_values(verdicts: Iterable[Verdict]) -> dict[str, Any]:
    """A verdict for ``result.json``; empty if there is none."""
    return {
        verdict.key: as_json({"verdict": verdict.word, **verdict.values}) for verdict in verdicts
    }


def mended(
    variant: Variant, of: Sequence[MarginOfError], *, respondents: int, parties: int, about: About
) -> Mending | None:
    """Changes that would make estimates more useful; None if none has to, or none is known.

    Args:
        of: the margins of error.
        respondents: number of respondents that have answered.
        parties: number of parties that hold the respondents.
        about: subject of the estimates.
    """
    if respondents < FEWEST or all(one.word in ("good", "unknown") for one in of):
        return None
    # Imported late, as it knows all variants.
    from scenarios.designing.mending import mending

    return mending(variant, of, respondents=respondents, parties=parties, about=about)


def _margin_sentence(one: MarginOfError) -> str:
    """Margin of error in a sentence without a full stop."""
    name = _subject(one)
    if math.isnan(one.margin):
        return f"How far {name} may be off is not known"
    if one.says_nothing:
        return f"The result says nothing about {name}"
    return f"{upper(name)} may be off by up to {_points(one)}{_UNITS[one.of]}"


_UNITS: Mapping[Subject, str] = MappingProxyType(
    {"shares": "", "mean": " of its range", "count": " of all respondents"}
)


def _subject(one: MarginOfError) -> str:
    name = cut(table_title(one.names))
    if one.of == "shares":
        return f"shares of {name}"
    return f"the mean of {name}" if one.of == "mean" else f"the count by {name}"


def _others(of: Sequence[MarginOfError], worst: MarginOfError) -> str:
    """End of a sentence: how many estimates are more useful than the least useful one."""
    better = sum(one.word != worst.word for one in of)
    return f"; {better:,} of {len(of):,} estimates are better" if better else ""


def _briefly(of: Sequence[MarginOfError], off: str) -> str:
    """The largest margin of error with its level, and a warning if it is large."""
    worst = least_exact(of)
    if not 0 < worst.margin < 1:
        return off
    lead = f" {_LEADS[worst.word]}" if worst.word in ("poor", "none") else ""
    return (
        f"In {100 * LEVEL:.0f} of 100 surveys {_subject(worst)} "
        f"{'are' if worst.of == 'shares' else 'is'} off by at most {_points(worst)}"
        f"{_UNITS[worst.of]}{_others(of, worst)}.{lead}"
    )


def _points(one: MarginOfError) -> str:
    figure = 100 * one.margin
    digits = f"{figure:.{1 if figure >= 0.95 else 2}f}"
    return f"{digits} points" if one.of == "shares" else f"{digits} %"


def _by_word(of: Sequence[MarginOfError]) -> Iterator[str]:
    """A sentence for each word of the verdict, with its tables."""
    for word in ORDER:
        alike = sorted((one for one in of if one.word == word), key=lambda one: -one.excess)
        if not alike:
            continue
        yield f"{upper(word)}: {some(map(_with_margin, alike), len(alike), NAMED)}."


def _with_margin(one: MarginOfError) -> str:
    name = table_title(one.names)
    if one.of != "shares":
        name = f"{one.of} of {name}"
    if math.isnan(one.margin):
        return name
    return f"{name} ({'nothing known' if one.says_nothing else _points(one)})"


def _on_pairs(pairs: Sequence[MarginOfError]) -> str:
    counted = _count_words(pairs)
    worst = least_exact(pairs)
    of = f"{count(len(pairs), 'pair')} of attributes"
    if len(counted) == 1:
        said = f"{'The' if len(pairs) == 1 else 'All'} {of} {'is' if len(pairs) == 1 else 'are'}"
        said += f" {next(iter(counted))}"
    else:
        said = f"Of {of} " + ", ".join(f"{many:,} {word}" for word, many in counted.items())
    off = f", off by up to {_points(worst)}" if worst.margin < 1 else ""
    return f"{said}; the least exact is {table_title(worst.names)}{off}."


def _count_words(of: Iterable[MarginOfError]) -> dict[Usefulness, int]:
    words = [one.word for one in of]
    return {word: words.count(word) for word in ORDER if word in words}


def _values(one: MarginOfError) -> dict[str, Any]:
    margin = one.margin if math.isinf(one.margin) else min(one.margin, 1.0)
    return {"of": one.of, "attributes": one.names, "verdict": one.word, "margin": margin}


def _pairs_values(pairs: Sequence[MarginOfError]) -> dict[str, Any]:
    return {"counted": _count_words(pairs), "worst": _values(least_exact(pairs))}
