"""What a statement begins with: what was found, and who was counted, round by round."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from protocol.audit.audit import Audit
from protocol.estimators.estimate import Estimate
from protocol.estimators.inference.words import Intervals, Shown, bracketed, figures_of
from protocol.estimators.joint import JointEstimate
from protocol.estimators.projection import Projection
from protocol.estimators.releases.combined import CombinedEstimate
from protocol.variants.keyvalue.estimate import KeyValueTables
from scenarios.report.formatting import NONE, count, cut
from scenarios.report.intervals import decimal, in_percent
from scenarios.report.rounds import waits_of
from scenarios.report.statement.parts import Grid, rest, some

ATTRIBUTES, LARGEST, WAITS = 8, 3, 6
"""How many attributes, of each how many of the largest shares, and how many waits are listed."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many of those who were awaited were counted.

    Args:
        of: what was awaited: a kind of message, or all that the estimate is made of.
        about: what that is, where its name alone does not say it.
        counted, awaited: how many parties.
    """

    of: str
    about: str
    counted: int
    awaited: int

    @property
    def says(self) -> str:
        """The two figures in words."""
        return f"{self.counted:,} of {count(self.awaited, 'party', 'parties')}"


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
        found.append(Coverage(cut(name), about, counted, awaited))
    return tuple(found)


def found(
    estimate: Estimate | None, intervals: Intervals, *, projection: Projection = "none"
) -> Grid | None:
    """The largest shares of the first attributes, or the means, with intervals.

    Args:
        estimate: what was published; None if nothing was.
        intervals: their level, and what they are about.
        projection: applied to its tables.
    """
    if estimate is None:
        return None
    if isinstance(estimate, KeyValueTables):
        rows, what = list(_keys(estimate, intervals)), "keys"
        heads = "Key", "#Held by", "#Mean"
    elif estimate.attribute_means():
        rows, what = list(_means(estimate, intervals)), "means"
        heads = "Attribute", "#Mean", f"#{intervals.name}"
    else:
        rows = [*_shares(estimate, intervals, projection), *_together(estimate)]
        what = "attributes"
        heads = "Attribute", "Largest shares", ""
    columns = tuple(head for head in heads if head)
    exact = not any("[" in cell for row in rows for cell in row)
    ends = "" if exact else f", with {intervals.name}s about the {intervals.about}"
    return Grid(
        key="found-first",
        caption=f"{count(estimate.n, 'respondent')}{ends}",
        columns=columns,
        rows=tuple(row[: len(columns)] for row in rows),
        more=rest(len(estimate.survey.names), ATTRIBUTES, f"{what} below"),
        wide=False,
    )


def _shares(
    estimate: Estimate, intervals: Intervals, projection: Projection
) -> Iterator[tuple[str, ...]]:
    for name in estimate.survey.names[:ATTRIBUTES]:
        try:
            table = estimate.table(name, projection=projection)
        except ValueError:
            continue  # This result says nothing of it by itself.
        cells = figures_of(table.values, intervals.of(table))
        order = np.argsort(-np.nan_to_num(table.values, nan=-math.inf), kind="stable")
        first = [cells[i] for i in order[:LARGEST]]
        figure = in_percent(first)
        said = [
            f"{cut(table.categories[0][i], 24)} {_with_ends(cells[i], figure, ' %')}"
            for i in order[:LARGEST]
        ]
        more = rest(len(cells), LARGEST, "").rstrip()
        yield cut(name), "; ".join((*said, more) if more else said)


def _together(estimate: Estimate) -> Iterator[tuple[str, str]]:
    """Which attributes were randomized together, if some were and not all."""
    joint = estimate.final if isinstance(estimate, CombinedEstimate) else estimate
    if not isinstance(joint, JointEstimate):
        return
    clusters = [block.attributes for block in joint.blocks if len(block.attributes) > 1]
    if not clusters or len(joint.blocks) == 1:
        return
    alone = sum(len(block.attributes) == 1 for block in joint.blocks)
    said = some((" with ".join(map(cut, names)) for names in clusters), len(clusters), ATTRIBUTES)
    others = f"; {alone:,} by {'itself' if alone == 1 else 'themselves'}" if alone else ""
    yield "clusters", f"randomized together: {said}{others}"


def _means(estimate: Estimate, intervals: Intervals) -> Iterator[tuple[str, ...]]:
    for name, mean in islice(estimate.attribute_means().items(), ATTRIBUTES):
        (one,) = figures_of(mean.value, intervals.of(mean))
        figure = decimal([one])
        value = figure(one.value) if math.isfinite(one.value) else NONE
        yield cut(name), value, bracketed(one, figure)


def _keys(estimate: KeyValueTables, intervals: Intervals) -> Iterator[tuple[str, ...]]:
    """The keys that most hold."""
    shares = figures_of(estimate.frequencies, estimate.frequency_intervals(*intervals))
    means = figures_of(estimate.means, estimate.mean_intervals(*intervals))
    order = np.argsort(-np.nan_to_num(estimate.frequencies, nan=-math.inf), kind="stable")
    for i in order[:ATTRIBUTES]:
        share, mean = in_percent([shares[i]]), decimal([means[i]])
        yield (
            cut(estimate.survey.names[i]),
            _with_ends(shares[i], share, " %"),
            _with_ends(means[i], mean, ""),
        )


def _with_ends(shown: Shown, figure: Callable[[float], str], unit: str) -> str:
    if not math.isfinite(shown.value):
        return NONE
    ends = "" if shown.exact else f" {bracketed(shown, figure)}"
    return f"{figure(shown.value)}{unit}{ends}"
