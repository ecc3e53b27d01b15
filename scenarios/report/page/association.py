"""Dependences between attributes, for a page: a triangle of all pairs, a tree, and mosaics."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from markupsafe import Markup

from protocol.estimators.dependence.glance import STRONG, Glance, Pair, dependence_excess, glance
from protocol.estimators.estimate import Estimate
from protocol.estimators.inference.interval_words import bracketed
from protocol.estimators.inference.intervals import Intervals, Shown, interval_figures
from protocol.estimators.inference.laws import Variance, critical, score_interval
from protocol.estimators.projection import project_simplex
from protocol.estimators.tables import Table, standard_errors
from protocol.randomizers.exact import Floats
from scenarios.report.page.svg import element, picture, text, text_width
from scenarios.report.page.words import words
from scenarios.report.pictures.triangle import left_out, outline
from scenarios.statement.statement import Grid, Section
from scenarios.wording.decimals import in_percent, legend_text
from scenarios.wording.formatting import NONE, count, cut, signed

PAIRS, CELLS = 6, 100
"""Maximum number of opened pairs, and of their cells."""

STEPS = (0.05, 0.1, 0.2, 0.3, 0.5)
"""Values of Cramer's V at which the colour changes."""

SCORES = (2.0, 4.0)
"""Numbers of standard errors at which the colours of a mosaic begin."""

_LABEL = 12.0


class Opened(NamedTuple):
    """A pair with its title, mosaic and table."""

    says: str
    mosaic: Markup
    grid: Grid


def association(
    found: Estimate | None, intervals: Intervals
) -> tuple[Section, dict[str, object]] | None:
    """Section on the attributes that depend on each other, and its drawing; None without pairs.

    Args:
        intervals: level and subject of the percentages' intervals.
    """
    seen = None if found is None else glance(found)
    if found is None or seen is None:
        return None
    known = words()["result"]["association"]
    exact = _is_exact(found, seen)
    notes = _notes(seen, exact=exact)
    section = Section(
        key="association", title="Which answers go together", lead=finding(seen), notes=notes
    )
    if seen.too_noisy or not seen.pairs:
        return section, {}
    shown = [
        pair
        for pair in seen.dependent
        if math.prod(found.survey.sizes_of((pair.first, pair.second))) <= CELLS
    ][:PAIRS]
    tables = [found.table(pair.first, pair.second) for pair in shown]
    if any((table.values < 0).any() for table in tables):
        section = replace(section, notes=(*notes, known["projected"]))
    return section, {
        "triangle": _triangle(seen) if len(seen.names) > 2 else "",
        "key": _key(clusters=bool(seen.clusters)),
        "tree": _tree(seen) if len(seen.edges) > 1 else "",
        "scores": _scores_key(),
        "colours": known["sampled_colours" if exact else "colours"],
        "opened": [
            _open_pair(found, pair, table, intervals, place)
            for place, (pair, table) in enumerate(zip(shown, tables, strict=True))
        ],
        "more": ""
        if len(shown) == len(seen.dependent)
        else known["more"].format(shown=len(shown), all=len(seen.dependent), cells=CELLS),
    }


def finding(seen: Glance) -> str:
    """Finding on all pairs, in a sentence."""
    if not seen.pairs:
        return "No pair of attributes was looked at."
    pairs = count(len(seen.pairs), "pair")
    if seen.too_noisy:
        return f"Too noisy to show: of {seen.noisy:,} of {pairs} nothing can be said."
    found = seen.dependent
    if not found:
        looked = " looked at" if left_out(seen) else ""
        return f"No dependence was found among {pairs} of attributes{looked}."
    first = found[0]
    most = f"{cut(first.first)} and {cut(first.second)}"
    if len(seen.pairs) == 1:
        return f"{most} depend on each other (V {first.strength:.2f})."
    return f"{len(found):,} of {pairs} depend on each other, most {most} (V {first.strength:.2f})."


def _is_exact(found: Estimate, seen: Glance) -> bool:
    """Check whether the pairs have no randomization error."""
    ends = (found.table(pair.first, pair.second).interval() for pair in seen.pairs.values())
    return bool(seen.pairs) and all((low == high).all() for low, high in ends)


def _notes(seen: Glance, *, exact: bool) -> tuple[str, ...]:
    unseen = tuple(f"Not looked at: {what}." for what in left_out(seen))
    if not seen.pairs:
        return unseen
    chance = f"the chance that any pair at all is named wrongly is at most {100 * seen.level:g} %"
    if exact:
        notes = [
            "The counts are exact. V is Cramer's V, from 0 (independent) to 1, without what the "
            "sampling of respondents adds to it. A pair counts as dependent where a test rejects "
            "independence in a population that they are a sample of, corrected for the number of "
            f"pairs: {chance}.",
        ]
    else:
        notes = [
            "V is Cramer's V, from 0 (independent) to 1, without what noise adds to it. A pair "
            "counts as dependent where a test that knows of the noise rejects independence, "
            f"corrected for the number of pairs: {chance}.",
        ]
    noisy, largest = seen.noisy, [p.least for p in seen.pairs.values() if p.judged == "not found"]
    if noisy:
        notes.append(
            f"Too noisy: {count(noisy, 'pair')}, of which even a V of {STRONG:g} would often be "
            "missed, or which have too few reports for a test."
        )
    if largest and not seen.too_noisy:
        notes.append(
            "A blank means that no dependence was found. A V under about "
            f"{math.ceil(100 * max(largest)) / 100:.2f} may have been missed there; a larger one "
            "would be found in at least 8 of 10 surveys."
        )
    return (*notes, *unseen)


# All pairs


def shade(strength: float) -> int:
    """The colour of a V, from 0."""
    return sum(strength >= step for step in STEPS)


def _triangle(seen: Glance) -> Markup:
    """Picture with a row and a column per attribute; the names stand on the diagonal."""
    names, m = seen.names, len(seen.names)
    size = float(min(44, max(13, 460 // m)))
    room = min(150.0, max(text_width(cut(name), _LABEL) for name in names) + 10)
    edges = {frozenset(edge) for edge in seen.edges}
    parts: list[Markup] = []
    for i, row in enumerate(names):
        for j, column in enumerate(names[:i]):
            pair = seen.pairs.get(frozenset((row, column)))
            parts += _cell(pair, j * size, i * size, size, frozenset((row, column)) in edges)
        parts.append(
            text(
                i * size + 6,
                (i + 0.5) * size + 4,
                row,
                "label",
                room=room,
                size=_LABEL,
            )
        )
    for cluster in seen.clusters:
        corners = outline(names.index(cluster[0]), len(cluster))
        points = " ".join(f"{x * size:g},{y * size:g}" for x, y in corners)
        parts.append(element("polygon", points=points, class_="cluster"))
    known = words()["result"]["association"]["triangle"]
    described = known["described"].format(
        pairs=count(len(seen.pairs), "pair"), dependent=len(seen.dependent)
    )
    drawn = ((m - 1) * size + room + 8, m * size + 2)
    return picture("pairs", known["title"], described, drawn, parts, class_="triangle")


def _cell(pair: Pair | None, x: float, y: float, size: float, edge: bool) -> list[Markup]:
    inside = {"x": x + 1, "y": y + 1, "width": size - 2, "height": size - 2}
    middle = (x + size / 2, y + size / 2)
    if pair is None:
        return []
    if pair.judged == "too noisy":
        ends = {"x1": x + 4, "x2": x + size - 4, "y1": y + size - 4, "y2": y + 4}
        return [element("rect", **inside, class_="noisy"), element("line", **ends, class_="noisy")]
    if pair.judged == "not found":
        return [element("rect", **inside, class_="none")]
    step = shade(pair.strength)
    parts = [element("rect", **inside, class_=f"v{step}{' edge' if edge else ''}")]
    if size >= 26:
        said = f"{pair.strength:.2f}".removeprefix("0")
        dark = " light" if step >= 4 else ""
        parts.append(text(middle[0], middle[1] + 4, said, f"middle words{dark}"))
    return parts


def _key(*, clusters: bool) -> Markup:
    known = words()["result"]["association"]["triangle"]
    first, *others = (f"{step:g}".removeprefix("0") for step in (STEPS[0], *STEPS))
    steps = [known["below"].format(v=first), *(known["from"].format(v=v) for v in others)]
    meanings = [
        *((f"v{place}", meaning) for place, meaning in enumerate(steps)),
        ("v1 edge", known["edge"]),
        ("none", known["none"]),
        ("noisy", known["noisy"]),
        *((("cluster", known["cluster"]),) if clusters else ()),
    ]
    return _swatches("pairs-key", known["key"], meanings, (128, 4), class_="triangle")


def _swatches(
    key: str,
    description: str,
    meanings: Sequence[tuple[str, str]],
    columns: tuple[int, int],
    *,
    class_: str,
) -> Markup:
    """A key: each class of the style sheet with its meaning, in columns of one width."""
    wide, number = columns
    parts: list[Markup] = []
    for place, (kind, meaning) in enumerate(meanings):
        x, y = float(wide * (place % number)), 22.0 * (place // number)
        parts.append(element("rect", x=x + 1, y=y + 3, width=16, height=16, class_=kind))
        if kind == "noisy":
            ends = {"x1": x + 4, "x2": x + 14, "y1": y + 16, "y2": y + 6}
            parts.append(element("line", **ends, class_=kind))
        parts.append(text(x + 23, y + 15, meaning, "words"))
    size = (float(wide * number), 22.0 * math.ceil(len(meanings) / number) + 2)
    title = words()["result"]["association"]["key"]
    return picture(key, title, description, size, parts, class_=class_)


def _tree(seen: Glance) -> Markup:
    """The forest as an outline: each attribute on a line, indented below its parent."""
    lines = branches(seen)
    step, row = 20.0, 22.0
    parts: list[Markup] = []
    place_of: dict[str, tuple[int, int]] = {}
    widest = 0.0
    for place, (name, parent, depth) in enumerate(lines):
        place_of[name] = (place, depth)
        x, y = depth * step, row * (place + 0.5)
        said = cut(name, 32)
        if parent:
            above, level = place_of[parent]
            from_x = level * step + 5
            parts.append(
                element(
                    "path",
                    d=f"M{from_x:g} {row * (above + 0.5) + 7:g}V{y:g}H{x - 2:g}",
                    class_="branch",
                )
            )
            said += f" ({seen.pair(parent, name).strength:.2f})"
        parts.append(text(x + 2, y + 4, said, "label"))
        widest = max(widest, x + text_width(said, 12.5) + 8)
    known = words()["result"]["association"]["forest"]
    described = known["described"].format(edges=count(len(seen.edges), "edge"))
    size = (max(widest, 120.0), row * len(lines) + 2)
    return picture("tree", known["title"], described, size, parts, class_="tree")


def branches(seen: Glance) -> list[tuple[str, str, int]]:
    """Attributes of the forest, parents first: name, parent's name and depth."""
    beside: dict[str, list[str]] = {}
    for first, second in seen.edges:
        beside.setdefault(first, []).append(second)
        beside.setdefault(second, []).append(first)
    found: dict[str, tuple[str, str, int]] = {}

    def walk(name: str, parent: str, depth: int) -> None:
        found[name] = (name, parent, depth)
        for other in beside[name]:
            if other not in found:
                walk(other, name, depth + 1)

    # A root has the most edges: the outline is flat.
    for name in sorted(beside, key=lambda name: -len(beside[name])):
        if name not in found:
            walk(name, "", 0)
    return list(found.values())


# One pair


def _open_pair(
    found: Estimate, pair: Pair, table: Table, intervals: Intervals, place: int
) -> Opened:
    shown = row_percentages(table, intervals)
    scores = dependence_excess(found, pair.first, pair.second).scores
    names = f"{cut(pair.first)} and {cut(pair.second)}"
    p_value = "below 0.001" if pair.p_value < 0.001 else f"{pair.p_value:.2g}"
    return Opened(
        f"{names}: V {pair.strength:.2f}, p {p_value}",
        _mosaic(table, shown, scores, f"pair-{place}"),
        _rows(table, shown, intervals, f"pair-{place}-table"),
    )


def _mosaic(table: Table, shown: Sequence[Sequence[Shown]], scores: Floats, key: str) -> Markup:
    """A band per row, as high as its projected share, labelled with the row's percentages."""
    shares = project_simplex(table.values)
    width, height, left = 520.0, 230.0, 110.0
    bands = shares.sum(axis=1)
    gap = 3.0
    usable = height - gap * (len(bands) - 1)
    parts: list[Markup] = []
    y = 0.0
    for band, row, figures, line, name in zip(
        bands, shares, shown, scores, table.categories[0], strict=True
    ):
        high = usable * float(band)
        if high >= 11:
            parts.append(text(left - 8, y + high / 2 + 4, name, "label end", room=left - 10))
        x = left
        for share, figure, score, category in zip(
            row, figures, line, table.categories[1], strict=True
        ):
            wide = (width - left) * (float(share / band) if band > 0 else 0.0)
            parts += _tile((x, y), (wide, high), category, figure, float(score))
            x += wide
        y += high + gap
    first, second = map(cut, table.names)
    known = words()["result"]["association"]["mosaic"]
    title, described = (
        known[name].format(first=first, second=second) for name in ("title", "described")
    )
    return picture(key, title, described, (width, height + 2), parts, class_="mosaic")


def _tile(
    at: tuple[float, float], size: tuple[float, float], category: str, figure: Shown, score: float
) -> Iterator[Markup]:
    """A cell of a mosaic, labelled as far as there is room."""
    (x, y), (wide, high) = at, size
    if wide <= 0.5 or high <= 0.5:
        return
    inner = max(wide - 1.5, 0.5)
    yield element("rect", x=x, y=y, width=inner, height=high, class_=_cell_class(score))
    if not math.isfinite(figure.value) or high < 14:
        return
    percent = f"{signed(100 * figure.value, 0)} %"
    whole = f"{category} {percent}"
    label = next((each for each in (whole, percent) if text_width(each, 11.5) + 6 <= wide), "")
    if label:
        class_ = f"middle words{' light' if abs(score) >= SCORES[1] else ''}"
        yield text(x + wide / 2 - 0.75, y + high / 2 + 4, label, class_)


def _cell_class(score: float) -> str:
    """Class of a cell by its difference in standard errors."""
    step = sum(abs(score) >= least for least in SCORES)
    return "same" if not step else f"{'more' if score > 0 else 'less'}{step}"


def _scores_key() -> Markup:
    two, four = SCORES
    known = words()["result"]["association"]["mosaic"]
    meanings = [
        (kind, known[kind].format(two=f"{two:g}", four=f"{four:g}"))
        for kind in ("less2", "less1", "same", "more1", "more2")
    ]
    return _swatches("mosaic-key", known["key"], meanings, (172, 3), class_="mosaic")


def _rows(table: Table, shown: Sequence[Sequence[Shown]], intervals: Intervals, key: str) -> Grid:
    plain = in_percent([figure for row in shown for figure in row])
    first, second = map(cut, table.names)
    rows = []
    for name, row in zip(table.categories[0], shown, strict=True):
        rows.append((cut(name, 24), *(_percentage(figure, plain) for figure in row)))
    exact = all(figure.exact for row in shown for figure in row)
    return Grid(
        key=key,
        caption=f"{second} in percent of each {first}"
        f"{'' if exact else f', with {legend_text(intervals)}'}",
        columns=(first, *(f"#{cut(name, 24)}" for name in table.categories[1])),
        rows=tuple(rows),
    )


def _percentage(figure: Shown, plain: Callable[[float], str]) -> str:
    if not math.isfinite(figure.value):
        return NONE
    value = plain(figure.value)
    return value if figure.exact else f"{value} {bracketed(figure, plain)}"


def row_percentages(table: Table, intervals: Intervals) -> Sequence[Sequence[Shown]]:
    """Raw shares within each row, with intervals by the delta method; NaN where unknown.

    An interval contains only possible shares and is never empty.
    """
    shares = table.values
    rows, columns = shares.shape
    try:
        covariance = table.covariance(intervals.about).reshape(rows, columns, rows, columns)
    except ValueError:
        covariance = np.full((rows, columns, rows, columns), np.nan)
    z = critical(intervals.level)
    found = []
    for i in range(rows):
        total = float(shares[i].sum())
        if total <= 0:
            found.append([Shown(math.nan, math.nan, math.nan)] * columns)
            continue
        parts = shares[i] / total
        # The derivative of each part by every cell of the row.
        slope = (np.eye(columns) - parts[:, None]) / total
        spread = covariance[i, :, i, :]
        variance = np.einsum("ab,bc,ac->a", slope, spread, slope)
        if spread.any():
            # Cells with an error never have a variance of 0.
            variance = standard_errors(variance, slope**2 @ spread.diagonal(), 0.0) ** 2
        ends = score_interval(parts, Variance(variance), z, least=0.0, most=1.0)
        found.append(interval_figures(parts, ends))
    return found
