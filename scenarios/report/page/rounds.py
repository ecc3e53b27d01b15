"""What a page says of the rounds: the sequence diagram, its table, and the traffic by kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from protocol.audit.audit import Audit
from protocol.messages import AGGREGATOR, RECORD
from scenarios.report.formatting import NONE, count, cut, size
from scenarios.report.page import diagrams
from scenarios.report.page.diagrams import Arrow, Step
from scenarios.report.rounds import Flow, Round
from scenarios.report.statement.parts import Bar, Cell, Grid, Section, rest

STEPS, TAIL, ARROWS, FLOWS, NOTES = 14, 3, 12, 60, 20

_WIDE, _NARROW = 800, 320
_PLACES: dict[str, int] = {AGGREGATOR: 1, RECORD: 2}


@dataclass(frozen=True, slots=True)
class _Fold:
    """Neighbouring rounds in which the same was said, as one."""

    first: int
    last: int
    flows: tuple[Flow, ...]
    notes: tuple[str, ...]

    @property
    def name(self) -> str:
        alike = self.last - self.first + 1
        if alike == 1:
            return f"Round {self.first:,}"
        return f"Rounds {self.first:,} to {self.last:,}"


def traffic(audit: Audit, rounds: Sequence[Round]) -> tuple[Section, dict[str, object]]:
    """The traffic as tables, and what its template draws beside them."""
    folds = _folded(rounds)
    parties = count(audit.completeness.parties, "party", "parties")
    lifelines = (parties, "aggregator", "public record")
    short = ("parties", "aggregator", "record")
    drawn = _drawn(folds)
    flows: dict[tuple[str, int, int], list[int]] = {}
    for round_ in rounds:
        for flow in round_.flows:
            tally = flows.setdefault((flow.kind, *_ends(flow)), [0, 0, 0])
            tally[0] += flow.messages
            tally[1] += flow.messages if flow.delivered is None else flow.delivered
            tally[2] += flow.bytes
    messages = sum(tally[0] for tally in flows.values())
    octets = sum(tally[2] for tally in flows.values())
    lead = f"{count(messages, 'message')}, {size(octets)}, in {count(len(rounds), 'round')}."
    ranked = sorted(flows.items(), key=lambda item: -item[1][2])
    by_kind = tuple(
        (
            cut(kind),
            f"{short[start]} to {short[end]}",
            f"{sent:,}",
            f"{sent - arrived:,}" if sent != arrived else "none",
            size(kind_bytes),
            Bar((kind_bytes / max(octets, 1),)),
        )
        for (kind, start, end), (sent, arrived, kind_bytes) in ranked[:FLOWS]
    )
    by_round = [row for fold in folds for row in _rows(fold, short)]
    grids = (
        Grid(
            key="kinds",
            caption="Traffic by kind of message, the most bytes first",
            columns=("Kind", "From and to", "#Messages", "#Lost", "#Size", "~Share of all bytes"),
            rows=by_kind,
            more=rest(len(ranked), FLOWS, "kinds"),
        ),
        Grid(
            key="rounds",
            caption="The same rounds as a table",
            columns=("Round", "Kind", "From and to", "#Messages", "#Delivered", "#Size"),
            rows=tuple(by_round[:FLOWS]),
            more=rest(len(by_round), FLOWS, "rows"),
        ),
    )
    happened = [f"{fold.name}: {cut(note, 160)}" for fold in folds for note in fold.notes]
    section = Section(key="traffic", title="What was said", lead=lead, grids=grids)
    return section, {
        "pictures": (
            diagrams.sequence("wide", lifelines, drawn, width=_WIDE),
            diagrams.sequence("narrow", short, drawn, width=_NARROW),
        )
        if drawn
        else (),
        "happened": happened[:NOTES],
        "more": rest(len(happened), NOTES, "notes"),
    }


def _folded(rounds: Sequence[Round]) -> list[_Fold]:
    def said(numbered: tuple[int, Round]) -> list[tuple[object, ...]]:
        return [(flow.kind, *_ends(flow)) for flow in numbered[1].flows]

    folds = []
    for _, alike in groupby(enumerate(rounds, 1), key=said):
        members = list(alike)
        flows = tuple(_added(flows) for flows in zip(*(r.flows for _, r in members), strict=True))
        notes = tuple(note for _, round_ in members for note in round_.notes)
        folds.append(_Fold(members[0][0], members[-1][0], flows, notes))
    return folds


def _added(flows: Sequence[Flow]) -> Flow:
    """The same kind between the same sides, in several rounds."""
    arrived = [flow.delivered for flow in flows if flow.delivered is not None]
    return Flow(
        flows[0].kind,
        flows[0].senders,
        flows[0].recipients,
        sum(flow.messages for flow in flows),
        sum(arrived) if arrived else None,
        sum(flow.bytes for flow in flows),
    )


def _ends(flow: Flow) -> tuple[int, int]:
    """Where an arrow begins and ends: 0 for the parties, 1 the aggregator, 2 the public record."""
    return _place(flow.senders), _place(flow.recipients)


def _place(members: tuple[str, ...]) -> int:
    return _PLACES.get(members[0], 0) if members else 0


def _drawn(folds: Sequence[_Fold]) -> tuple[Step, ...]:
    """The rounds that are drawn: the first, and the last few if there are too many."""
    if len(folds) <= STEPS:
        return tuple(map(_step, folds))
    head, tail = folds[: STEPS - TAIL], folds[-TAIL:]
    gap = Step(name=f"{len(folds) - STEPS:,} more, not drawn", arrows=())
    return (*map(_step, head), gap, *map(_step, tail))


def _step(fold: _Fold) -> Step:
    arrows = []
    for flow in fold.flows[:ARROWS]:
        start, end = _ends(flow)
        lost = 0 if flow.delivered is None else flow.messages - flow.delivered
        arrows.append(
            Arrow(
                start=start,
                end=end,
                kind=flow.kind,
                count=f"{flow.messages:,} · {size(flow.bytes)}",
                lost=f"{lost:,} lost" if lost > 0 else "",
            )
        )
    more = rest(len(fold.flows), ARROWS, "kinds")
    alike = fold.last - fold.first + 1
    return Step(
        name=fold.name,
        arrows=tuple(arrows),
        note=more or (f"{alike:,} alike" if alike > 1 else ""),
    )


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


def _who(members: tuple[str, ...], side: str) -> str:
    return cut(members[0]) if len(members) == 1 else f"{len(members):,} {side}"
