"""Rounds on a page: the sequence diagram, its table, and the traffic by kind."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import NamedTuple

from markupsafe import Markup

from protocol.audit.audit import Audit
from protocol.messages import AGGREGATOR, RECORD
from scenarios.report.page.svg import element, picture, text
from scenarios.report.page.words import words
from scenarios.statement.statement import Bar, Cell, Grid, Section
from scenarios.surveys.watching.rounds import Flow, Round, alike_stretches, sum_flows
from scenarios.wording.formatting import NONE, count, cut, rest, size

STEPS, TAIL, ARROWS, FLOWS, NOTES = 14, 3, 12, 60, 20

_WIDE, _NARROW = 800, 320
_PLACES: dict[str, int] = {AGGREGATOR: 1, RECORD: 2}


class _Fold(NamedTuple):
    """Neighbouring rounds with the same messages; ``note`` replaces the rounds left out."""

    name: str
    note: str
    flows: tuple[Flow, ...]
    happened: tuple[str, ...]


def traffic(audit: Audit, rounds: Sequence[Round]) -> tuple[Section, dict[str, object]]:
    """Section with tables of the traffic, and the drawings for its template."""
    folds = _fold(rounds)
    parties = count(audit.completeness.parties, "party", "parties")
    lifelines = (parties, "aggregator", "public record")
    short = ("parties", "aggregator", "record")
    codec = audit.charter.codec
    alike: dict[tuple[str, int, int], list[Flow]] = {}
    for flow in (flow for round_ in rounds for flow in round_.flows):
        alike.setdefault((flow.kind, *_ends(flow)), []).append(flow)
    flows = sorted(map(sum_flows, alike.values()), key=lambda flow: -flow.bytes)
    messages = sum(flow.messages for flow in flows)
    octets = sum(flow.bytes for flow in flows)
    lead = f"{count(messages, 'message')}, {size(octets)}, in {count(len(rounds), 'round')}."
    by_kind = tuple(
        (
            cut(flow.kind),
            " to ".join(short[end] for end in _ends(flow)),
            f"{flow.messages:,}",
            f"{flow.lost:,}" if flow.lost else "none",
            size(flow.bytes),
            cut(codec.about(flow.kind), 120) or NONE,
            Bar((flow.bytes / max(octets, 1),)),
        )
        for flow in flows[:FLOWS]
    )
    by_round = [row for fold in folds for row in _rows(fold, short)]
    grids = (
        Grid(
            key="kinds",
            caption="Traffic by kind of message, the most bytes first",
            columns=(
                "Kind",
                "From and to",
                "#Messages",
                "#Lost",
                "#Size",
                "What it is",
                "~Share of all bytes",
            ),
            rows=by_kind,
            more=rest(len(flows), FLOWS, "kinds"),
        ),
        Grid(
            key="rounds",
            caption="The same rounds as a table",
            columns=("Round", "Kind", "From and to", "#Messages", "#Delivered", "#Size"),
            rows=tuple(by_round[:FLOWS]),
            more=rest(len(by_round), FLOWS, "rows"),
        ),
    )
    happened = [f"{fold.name}: {cut(note, 160)}" for fold in folds for note in fold.happened]
    section = Section(key="traffic", title="What was said", lead=lead, grids=grids)
    return section, {
        "pictures": (
            _sequence("wide", lifelines, folds, _WIDE),
            _sequence("narrow", short, folds, _NARROW),
        )
        if folds
        else (),
        "happened": happened[:NOTES],
        "more": rest(len(happened), NOTES, "notes"),
    }


def _fold(rounds: Sequence[Round]) -> list[_Fold]:
    folds = []
    for name, alike, flows, notes in alike_stretches(rounds):
        several = f"{alike:,} alike" if alike > 1 else ""
        folds.append(_Fold(name, rest(len(flows), ARROWS, "kinds") or several, flows, notes))
    return folds


def _ends(flow: Flow) -> tuple[int, int]:
    """Ends of an arrow: 0 for the parties, 1 the aggregator, 2 the public record."""
    sender, recipient = next(iter(flow.senders), ""), next(iter(flow.recipients), "")
    return _PLACES.get(sender, 0), _PLACES.get(recipient, 0)


def _sequence(key: str, lifelines: Sequence[str], folds: Sequence[_Fold], width: int) -> Markup:
    """Sequence diagram of the first rounds, and of the last if there are many."""
    left_out = len(folds) - STEPS
    head, tail = (folds, ()) if left_out <= 0 else (folds[: STEPS - TAIL], folds[-TAIL:])
    margin = min(64.0, width * 0.14)
    spread = (width - 2 * margin) / (len(lifelines) - 1)
    xs = [margin + spread * i for i in range(len(lifelines))]
    parts: list[Markup] = []
    y = 46.0
    steps = [(fold.name, fold.note, fold.flows[:ARROWS]) for fold in head]
    if tail:
        more = words()["result"]["traffic"]["more"].format(count=f"{left_out:,}")
        steps.append((more, "", ()))
        steps += [(fold.name, fold.note, fold.flows[:ARROWS]) for fold in tail]
    for name, note, flows in steps:
        parts.append(element("line", x1=0, x2=width, y1=y, y2=y, class_="band"))
        parts.append(text(8, y + 17, name, "round", room=width * 0.5))
        if note:
            parts.append(text(width - 8, y + 17, note, "note end", room=width * 0.48))
        y += 26
        for flow in flows:
            y += 20
            parts += _arrow(flow, xs, y)
            y += 20
        y += 10
    lines = []
    for x, name in zip(xs, lifelines, strict=True):
        lines.append(element("line", x1=x, x2=x, y1=34, y2=y, class_="life"))
        box = 2 * margin - 2
        lines.append(element("rect", x=x - box / 2, y=4, width=box, height=28, rx=4, class_="side"))
        lines.append(text(x, 23, name, "who middle", room=box - 6))
    known = words()["result"]["traffic"]
    described = known["described"].format(lifelines=", ".join(lifelines))
    parts = [*lines, *parts]
    return picture(key, known["title"], described, (width, y + 4), parts, class_="sequence")


def _arrow(flow: Flow, xs: Sequence[float], y: float) -> list[Markup]:
    start, end = (xs[place] for place in _ends(flow))
    lost = " lost" if flow.lost > 0 else ""
    below = f"{flow.messages:,} · {size(flow.bytes)}" + (f", {flow.lost:,} lost" if lost else "")
    if start == end:
        # Messages within one side: out and back on the side with room.
        out = 26.0 if start < xs[-1] else -26.0
        path = f"M{start:.1f} {y - 7:.1f}h{out:.0f}v12h{-out + math.copysign(6, out):.0f}"
        head = start, y + 5, -math.copysign(1, out)
        room = abs(xs[-1] - xs[0]) / (len(xs) - 1) - 34
        at, middle = start + out + math.copysign(6, out), "" if out > 0 else " end"
    else:
        side = math.copysign(1, end - start)
        path = f"M{start:.1f} {y:.1f}H{end - 6 * side:.1f}"
        head = end, y, side
        room, at, middle = abs(end - start) - 6, (start + end) / 2, " middle"
    x, tip, way = head
    points = f"{x:.1f},{tip:.1f} {x - 8 * way:.1f},{tip - 4:.1f} {x - 8 * way:.1f},{tip + 4:.1f}"
    return [
        element("path", d=path, class_=f"arrow{lost}"),
        element("polygon", points=points, class_=f"head{lost}"),
        text(at, y - 5, flow.kind, f"kind{middle}", room=room),
        text(at, y + 14, below, f"count{middle}{lost}", room=room, size=11),
    ]


def _rows(fold: _Fold, short: Sequence[str]) -> list[tuple[Cell, ...]]:
    rows: list[tuple[Cell, ...]] = []
    for flow in fold.flows:
        start, end = _ends(flow)
        rows.append(
            (
                fold.name.removeprefix("Rounds ").removeprefix("Round "),
                cut(flow.kind),
                f"{_who(flow.senders, short[start])} to {_who(flow.recipients, short[end])}",
                f"{flow.messages:,}",
                NONE if flow.delivered is None else f"{flow.delivered:,}",
                size(flow.bytes),
            )
        )
    return rows


def _who(members: Collection[str], side: str) -> str:
    return cut(next(iter(members))) if len(members) == 1 else f"{len(members):,} {side}"
