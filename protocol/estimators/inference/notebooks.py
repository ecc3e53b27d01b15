"""Estimates with their intervals as HTML, for notebooks."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from itertools import islice

from protocol.estimators.inference.interval_words import bracketed, sentences
from protocol.estimators.inference.intervals import USUAL, Shown
from protocol.estimators.likelihood import Fit
from protocol.estimators.projection import Projection

ROWS = 60
"""The most rows that are shown."""


def html_table(
    caption: str,
    heads: Sequence[str],
    rows: Iterable[tuple[Sequence[str], Shown]],
    total: int,
    *,
    projection: Projection = "none",
    fits: Sequence[Fit | None] = (),
    figure: str = "{:.6f}",
) -> str:
    """The first rows of estimates as an HTML table, with every text escaped.

    Args:
        caption: the caption.
        heads: the heads of the columns before the estimate.
        rows: the text of these columns, and the estimate with its usual interval; at most ``ROWS``
            are shown.
        total: the number of all rows.
        projection: the projection of the shares.
        fits: the fits of the tables, if EM fitted them.
        figure: the format of a number.
    """
    first = list(islice(rows, ROWS))
    head = "".join(f"<th>{html.escape(name)}</th>" for name in (*heads, "value", USUAL.name))
    body = "".join(
        "<tr>"
        + "".join(f"<td>{html.escape(text)}</td>" for text in texts)
        + f"<td>{figure.format(found.value)}</td><td>{bracketed(found, figure.format)}</td></tr>"
        for texts, found in first
    )
    more = f"<p>and {total - len(first):,} more rows</p>" if total > len(first) else ""
    said = html.escape(" ".join(sentences(USUAL, [found for _, found in first], projection, fits)))
    return (
        f"<table><caption>{html.escape(caption)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}<p>{said}</p>"
    )
