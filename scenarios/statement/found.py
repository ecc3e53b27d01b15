"""Beginning of a statement: findings, and counted parties round by round."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from protocol.audit.completeness import Completeness
from protocol.estimators.estimate import Estimate
from protocol.estimators.inference.interval_words import bracketed
from protocol.estimators.inference.intervals import Shown
from protocol.wire.codec import Codec
from scenarios.statement.statement import Coverage, Grid, Panel, Section
from scenarios.surveys.watching.rounds import named_waits
from scenarios.wording.decimals import decimal, in_percent
from scenarios.wording.formatting import NONE, cut, respondents_text, rest, some

LINES, LARGEST, WAITS = 8, 3, 6
"""Maximum numbers of attributes or keys, of the largest shares of each, and of waits."""

VAGUE = 0.9
"""The interval of a share that is at least so wide says nothing."""


def coverage(complete: Completeness, codec: Codec) -> tuple[Coverage, ...]:
    """Counts of parties: for the estimate, then in each wait of the aggregator."""
    found = [Coverage("the estimate", "", complete.counted, complete.response.asked)]
    explained: set[str] = set()
    for name, alike in named_waits(complete.closings, at_most=WAITS):
        kind = alike[0].kind
        about = "" if kind in explained else cut(codec.about(kind), 100)
        explained.add(kind)
        awaited, counted = sum(c.awaited for c in alike), sum(c.counted for c in alike)
        each = ("party", "parties") if len(alike) == 1 else ("answer", "answers")
        found.append(Coverage(cut(name), about, counted, awaited, each))
    return tuple(found)


def found_grid(estimate: Estimate | None, section: Section) -> Grid | None:
    """The largest shares of the first attributes, or the means, with intervals.

    Shares are sorted by the lower ends of their intervals, so that noise alone puts none first. A
    share out of range is shown by its interval only.

    Args:
        estimate: the published estimate; None without one.
        section: the section on the estimate.
    """
    panels = section.panels[:LINES]
    if estimate is None or not panels:
        return None
    intervals, what = panels[0].intervals, "attributes"
    heads: tuple[str, ...] = "Attribute", "Largest shares"
    shown = [figure for panel in panels for figure in panel.figures]
    if estimate.keyed is not None:
        shares, means = panels
        order = _order(shares.figures)[:LINES]
        shown = [panel.figures[i] for panel in panels for i in order]
        rows = [*_keys(shares, means, order)]
        what, heads = "keys", ("Key", "#Held by", "#Mean")
    elif panels[0].limits is not None:
        rows = [*map(_mean, panels)]
        what, heads = "means", ("Attribute", "#Mean", f"#{intervals.name}")
    else:
        rows = [*map(_shares, panels), *_joint_rows(estimate)]
    exact = all(figure.exact for figure in shown)
    ends = ", counted exactly" if exact else f", with {intervals.name}s about the {intervals.about}"
    return Grid(
        key="found-first",
        caption=f"{respondents_text(estimate.n, estimate.weighted_n)}{ends}",
        columns=heads,
        rows=tuple(rows),
        more=rest(len(estimate.survey.names), LINES, f"{what} below"),
        wide=False,
    )


def _shares(panel: Panel) -> tuple[str, ...]:
    cells = panel.figures
    telling = [i for i in _order(cells) if not cells[i].high - cells[i].low >= VAGUE]
    if not telling:
        return cut(panel.name), "nothing can be said: intervals span almost all of 0 to 100 %"
    # "and 1 more" would take as much room as the one.
    most = LARGEST + 1 if len(cells) == LARGEST + 1 else LARGEST
    figure = in_percent([cells[i] for i in telling[:most]])
    said = [f"{cut(panel.labels[i], 24)} {_share(cells[i], figure)}" for i in telling[:most]]
    more = rest(len(cells), len(said))
    return cut(panel.name), "; ".join((*said, more) if more else said)


def _order(shares: Sequence[Shown]) -> list[int]:
    """Places of shares, those first that are certainly large."""
    value = np.nan_to_num([each.value for each in shares], nan=-math.inf)
    least = np.asarray([each.low for each in shares])
    order: list[int] = np.lexsort((-value, -np.where(np.isnan(least), value, least))).tolist()
    return order


def _joint_rows(estimate: Estimate) -> Iterator[tuple[str, str]]:
    """Attributes that were randomized together; none if all or no attributes were."""
    clusters = [names for names in estimate.clusters if len(names) > 1]
    if estimate.whole_reports is None or not clusters or len(estimate.clusters) == 1:
        return
    alone = len(estimate.clusters) - len(clusters)
    said = some((" with ".join(map(cut, names)) for names in clusters), len(clusters), LINES)
    others = f"; {alone:,} by {'itself' if alone == 1 else 'themselves'}" if alone else ""
    yield "clusters", f"randomized together: {said}{others}"


def _mean(panel: Panel) -> tuple[str, ...]:
    (one,) = panel.figures
    figure = decimal([one])
    value = NONE if math.isnan(one.value) or _impossible(one) else figure(one.value)
    return cut(panel.name), value, bracketed(one, figure)


def _keys(shares: Panel, means: Panel, order: Sequence[int]) -> Iterator[tuple[str, ...]]:
    """The keys held by the most respondents."""
    for i in order:
        share, mean = shares.figures[i], means.figures[i]
        yield (
            cut(shares.labels[i]),
            _share(share, in_percent([share])),
            _with_ends(mean, decimal([mean]), bare=_impossible(mean)),
        )


def _impossible(mean: Shown) -> bool:
    """Check whether noise put a mean outside its interval of possible values."""
    return mean.value < mean.low or mean.value > mean.high


def _share(share: Shown, figure: Callable[[float], str]) -> str:
    """A share with its interval; only the interval if the share is out of range."""
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
