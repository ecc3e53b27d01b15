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
        caption: of the table.
        heads: of the columns before the estimate.
        rows: what stands in these columns, and the estimate with its usual interval; at most
            ``ROWS`` are taken.
        total: the number of rows.
        projection: of the shares.
        fits: of the tables, where EM was to fit them.
        figure: the format of a number.
    """
    first = list(islice(rows, ROWS))
    head = "".join(f"<th>{html.escape(name)}</th>" for name in (*heads, "value", USUAL.name))
    body = ""
    for texts, found in first:
        cells = [html.escape(text) for text in texts]
        cells += [figure.format(found.value), bracketed(found, figure.format)]
        body += "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"
    more = f"<p>and {total - len(first):,} more rows</p>" if total > len(first) else ""
    said = html.escape(" ".join(sentences(USUAL, [found for _, found in first], projection, fits)))
    return (
        f"<table><caption>{html.escape(caption)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}<p>{said}</p>"
    )
