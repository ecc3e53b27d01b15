"""What a statement begins with: what was found, and who was counted, round by round."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from protocol.audit.audit import Audit
from protocol.estimators.estimate import Estimate, Keyed
from protocol.estimators.inference.words import Intervals, Shown, bracketed, figures_of
from protocol.estimators.projection import Projection
from scenarios.report.formatting import NONE, count, cut
from scenarios.report.intervals import decimal, in_percent
from scenarios.report.rounds import waits_of
from scenarios.report.statement.parts import Grid, rest, some

ATTRIBUTES, LARGEST, WAITS = 8, 3, 6
"""How many attributes, of each how many of the largest shares, and how many waits are listed."""

VAGUE = 0.9
"""The interval of a share that is at least so wide says nothing."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many of those who were awaited were counted.

    Args:
        of: what was awaited: a kind of message, or all that the estimate is made of.
        about: what that is, where its name alone does not say it.
        counted, awaited: how many parties.
        each: what is counted: parties, or their answers where they were awaited repeatedly.
    """

    of: str
    about: str
    counted: int
    awaited: int
    each: tuple[str, str] = ("party", "parties")

    @property
    def says(self) -> str:
        """The two figures in words."""
        return f"{self.counted:,} of {count(self.awaited, *self.each)}"


def coverage(audit: Audit) -> tuple[Coverage, ...]:
    """Who was counted: for the estimate, then in each wait of the aggregator."""
    complete, codec = audit.completeness, audit.charter.codec
    found = [Coverage("the estimate", "", complete.counted, complete.parties)]
    explained: set[str] = set()
    for name, alike in waits_of(complete.closings, at_most=WAITS):
        kind = alike[0].kind
        about = "" if kind in explained else cut(codec.about(kind), 100)
        explained.add(kind)
        awaited, counted = sum(c.awaited for c in alike), sum(c.counted for c in alike)
        each = ("party", "parties") if len(alike) == 1 else ("answer", "answers")
        found.append(Coverage(cut(name), about, counted, awaited, each))
    return tuple(found)


def found(
    estimate: Estimate | None, intervals: Intervals, *, projection: Projection = "none"
) -> Grid | None:
    """The largest shares of the first attributes, or the means, with intervals.

    Shares go by the lower end of their interval, so that noise alone puts none first. Of one that
    is out of range only the interval is shown.

    Args:
        estimate: what was published; None if nothing was.
        intervals: their level, and what they are about.
        projection: applied to its tables.
    """
    if estimate is None:
        return None
    figures: list[Shown] = []
    if estimate.keyed is not None:
        rows, what = list(_keys(estimate.keyed, intervals, figures)), "keys"
        heads = "Key", "#Held by", "#Mean"
    elif estimate.attribute_means():
        rows, what = list(_means(estimate, intervals, figures)), "means"
        heads = "Attribute", "#Mean", f"#{intervals.name}"
    else:
        rows = [*_shares(estimate, intervals, projection, figures), *_together(estimate)]
        what = "attributes"
        heads = "Attribute", "Largest shares", ""
    columns = tuple(head for head in heads if head)
    exact = all(figure.exact for figure in figures)
    ends = ", counted exactly" if exact else f", with {intervals.name}s about the {intervals.about}"
    return Grid(
        key="found-first",
        caption=f"{count(estimate.n, 'respondent')}{ends}",
        columns=columns,
        rows=tuple(row[: len(columns)] for row in rows),
        more=rest(len(estimate.survey.names), ATTRIBUTES, f"{what} below"),
        wide=False,
    )


def _shares(
    estimate: Estimate, intervals: Intervals, projection: Projection, figures: list[Shown]
) -> Iterator[tuple[str, ...]]:
    for name in estimate.survey.names[:ATTRIBUTES]:
        try:
            table = estimate.table(name, projection=projection)
        except ValueError:
            continue  # This result says nothing of it by itself.
        cells = figures_of(table.values, intervals.of(table))
        figures.extend(cells)
        telling = [i for i in _order(cells) if not cells[i].high - cells[i].low >= VAGUE]
        if not telling:
            yield cut(name), "nothing can be said: intervals span almost all of 0 to 100 %"
            continue
        # Nothing is gained by "and 1 more" in the place of that one.
        most = LARGEST + 1 if len(cells) == LARGEST + 1 else LARGEST
        figure = in_percent([cells[i] for i in telling[:most]])
        said = [
            f"{cut(table.categories[0][i], 24)} {_share(cells[i], figure)}" for i in telling[:most]
        ]
        more = rest(len(cells), len(said), "").rstrip()
        yield cut(name), "; ".join((*said, more) if more else said)


def _order(shares: Sequence[Shown]) -> list[int]:
    """The places of shares, those first that are surely large."""
    value = np.nan_to_num([each.value for each in shares], nan=-math.inf)
    least = np.asarray([each.low for each in shares])
    order: list[int] = np.lexsort((-value, -np.where(np.isnan(least), value, least))).tolist()
    return order


def _together(estimate: Estimate) -> Iterator[tuple[str, str]]:
    """Which attributes were randomized together, if some were and not all."""
    clusters = [names for names in estimate.clusters if len(names) > 1]
    if estimate.whole_reports is None or not clusters or len(estimate.clusters) == 1:
        return
    alone = len(estimate.clusters) - len(clusters)
    said = some((" with ".join(map(cut, names)) for names in clusters), len(clusters), ATTRIBUTES)
    others = f"; {alone:,} by {'itself' if alone == 1 else 'themselves'}" if alone else ""
    yield "clusters", f"randomized together: {said}{others}"


def _means(
    estimate: Estimate, intervals: Intervals, figures: list[Shown]
) -> Iterator[tuple[str, ...]]:
    for name, mean in islice(estimate.attribute_means().items(), ATTRIBUTES):
        (one,) = figures_of(mean.value, intervals.of(mean))
        figures.append(one)
        figure = decimal([one])
        value = NONE if math.isnan(one.value) or _impossible(one) else figure(one.value)
        yield cut(name), value, bracketed(one, figure)


def _keys(estimate: Keyed, intervals: Intervals, figures: list[Shown]) -> Iterator[tuple[str, ...]]:
    """The keys that most hold."""
    shares = figures_of(estimate.frequencies, estimate.frequency_intervals(*intervals))
    means = figures_of(estimate.means, estimate.mean_intervals(*intervals))
    for i in _order(shares)[:ATTRIBUTES]:
        figures += shares[i], means[i]
        yield (
            cut(estimate.survey.names[i]),
            _share(shares[i], in_percent([shares[i]])),
            _with_ends(means[i], decimal([means[i]]), bare=_impossible(means[i])),
        )


def _impossible(mean: Shown) -> bool:
    """Whether noise put a mean out of its interval, which holds all that are possible."""
    return mean.value < mean.low or mean.value > mean.high


def _share(share: Shown, figure: Callable[[float], str]) -> str:
    """A share with its interval; the interval alone if noise put the share out of range."""
    return _with_ends(share, figure, " %", bare=not 0 <= share.value <= 1)


def _with_ends(
    shown: Shown, figure: Callable[[float], str], unit: str = "", *, bare: bool = False
) -> str:
    if not math.isfinite(shown.value):
        return NONE
    if shown.exact:
        return f"{figure(shown.value)}{unit}"
    if bare:
        return bracketed(shown, figure, unit)
    return f"{figure(shown.value)}{unit} {bracketed(shown, figure)}"
