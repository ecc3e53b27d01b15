"""Runs experiments: by the law of their reports, or by messages.

Every cell has draws of its own. They follow from the seed, the experiment's name, the cell's place
among all cells and the piece of its runs. So a cell's figures do not depend on which other cells or
which engine run.
"""

from __future__ import annotations

import dataclasses
import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta

from protocol.errors import UsageError
from protocol.session.variant import Variant
from scenarios.papers.experiment import Asked, Cell, Experiment, Found, Measured, Sample
from scenarios.papers.printed import Printed, printed_figures
from scenarios.papers.statistics import Figure, mean, median, share
from scenarios.running.outcomes import Outcome
from scenarios.running.reproduction import Picture, Reproduced, Row, Runs
from scenarios.running.scenario import Context, Scenario

Repeats = Annotated[
    int, Meta(ge=1, le=100_000, description="by messages: how often each chosen cell is run")
]

NAMES = {"p": "keep probability p", "n": "respondents n", "d": "categories d"}
"""Default words for settings in pictures."""


class Piece(NamedTuple):
    """Some runs of a cell, and what draws them."""

    measure: Callable[[Asked[Any]], Measured]
    asked: Asked[Any]


def sample_cell(piece: Piece) -> list[Sample]:
    """The kernel: what is measured in some runs of a cell."""
    found = piece.measure(piece.asked)
    if isinstance(found, Mapping):
        return [Sample.of(found)]
    return [found] if isinstance(found, Sample) else list(found)


def experiment_scenarios(*experiments: Experiment[Any]) -> tuple[Scenario[Any], ...]:
    """The experiments as scenarios, for a module's ``SCENARIOS``."""
    return tuple(_scenario(one) for one in experiments)


def _scenario(experiment: Experiment[Any]) -> Scenario[Any]:
    def run(parameters: msgspec.Struct, context: Context) -> Reproduced:
        return reproduce(experiment, parameters, context)

    # A sweep depends on the content of a person's own file.
    run.__module__ = getattr(experiment.measure, "func", experiment.measure).__module__
    return Scenario(
        name=experiment.name,
        summary=experiment.summary,
        parameters=_parameters(experiment),
        run=run,
    )


def _parameters(experiment: Experiment[Any]) -> type[msgspec.Struct]:
    """Parameters of an experiment: runs, reading, cells, and the experiment's own."""
    kind: Any
    fields: list[tuple[str, Any, Any]] = [("runs", Runs, experiment.runs)]
    if len(experiment.readings) > 1:
        told = "; ".join(f"{name}: {words}" for name, words in experiment.readings.items())
        kind = Annotated[_literal(experiment.readings), Meta(description=told)]
        fields.append(("reading", kind, next(iter(experiment.readings))))
    if experiment.live:
        fields.append(("repeats", Repeats, 1))
    fields += [
        (info.name, info.type, msgspec.field(default=info.default, name=info.encode_name))
        for info in msgspec.structs.fields(experiment.parameters)
    ]
    for name, values in experiment.axes.items():
        if len(values) > 1:
            shown = ", ".join(str(value) for value in values[:12])
            more = ", ..." if len(values) > 12 else ""
            kind = float if isinstance(values[0], float) else _literal(values)
            kind = Annotated[kind | None, Meta(description=f"only of {shown}{more}")]
            outside = name.replace(" ", "-")
            fields.append((_identifier(name), kind, msgspec.field(default=None, name=outside)))
    if len({name for name, _, _ in fields}) < len(fields):
        raise TypeError(f"{experiment.name}: two parameters of one name")
    return msgspec.defstruct(
        "Parameters", fields, frozen=True, kw_only=True, forbid_unknown_fields=True
    )


def _literal(values: Iterable[int | str]) -> Any:
    return operator.getitem(Literal, tuple(values))


def _identifier(name: str) -> str:
    return re.sub(r"\W", "_", name)


def chosen_cells(experiment: Experiment[Any], parameters: msgspec.Struct) -> list[Cell]:
    """The cells that the parameters leave.

    Raises:
        UsageError: none.
    """
    left: list[Cell] = list(experiment.cells)
    chosen: list[str] = []
    for name, values in experiment.axes.items():
        wanted = getattr(parameters, _identifier(name), None) if len(values) > 1 else None
        if wanted is not None:
            known = dict.fromkeys(cell[name] for cell in left if name in cell)
            if wanted not in known:
                where = f" where {' and '.join(chosen)}" if chosen else ""
                expected = f"one of {', '.join(map(str, known))}" if known else f"no {name!r}"
                raise UsageError(f"parameter {name!r} = {wanted}: expected {expected}{where}")
            left = [cell for cell in left if cell.get(name) == wanted]
            chosen.append(f"{name} = {wanted}")
    return left


def reproduce(
    experiment: Experiment[Any], parameters: msgspec.Struct, context: Context
) -> Reproduced:
    """Run an experiment.

    Raises:
        UsageError: no cell is left, or nothing is sent that could be run by messages.
    """
    cells = chosen_cells(experiment, parameters)
    if context.by_messages and len(cells) == len(experiment.cells):
        wanted = experiment.live_cell.items()
        cells = [cell for cell in cells if wanted <= cell.items()][:1]
    own = msgspec.convert(parameters, experiment.parameters, from_attributes=True)
    asked = [
        Asked(
            cell=cell,
            parameters=own,
            runs=getattr(parameters, "runs"),  # noqa: B009  # a struct made above
            reading=getattr(parameters, "reading", next(iter(experiment.readings))),
            seeds=experiment.seeds(context.seed, cell),
            context=Context(data=context.data),
        )
        for cell in cells
    ]
    if context.by_messages and not experiment.live:
        raise UsageError(
            f"{experiment.name}: nothing is sent, so there is nothing to run by messages"
        )
    times = getattr(parameters, "repeats", 1)
    split = (
        [_live_runs(one, times, context) for one in asked]
        if context.by_messages
        else [_pieces(one, experiment.at_once or one.runs) for one in asked]
    )
    outcome, done = _carried_out(experiment, [one for of in split for one in of], context)
    found = [[_join(same) for same in zip(*islice(done, len(of)), strict=True)] for of in split]
    drawn = any(sample.drawn for samples in found for sample in samples)
    if not context.by_messages:
        times = asked[0].runs if drawn else 1
    known = printed_figures(experiment.name)
    rows = tuple(
        _row(experiment, one.cell, sample, known)
        for one, samples in zip(asked, found, strict=True)
        for sample in samples
    )
    notes = list(experiment.notes)
    reading = experiment.readings[asked[0].reading]
    if reading:
        notes.insert(0, f"reading = {asked[0].reading}: {reading}")
    if not drawn:
        notes.append("exact: no number has a standard error")
    elif experiment.statistic == "median":
        notes.append("standard errors of medians are by order statistics")
    if context.by_messages and times == 1:
        notes.append("one run by messages: no standard error follows from it")
    whole = len(cells) == len(experiment.cells)
    if experiment.observed is not None and whole and not context.by_messages:
        notes += experiment.observed(Found(rows, asked[0]))
    return Reproduced(
        reproduction=experiment.name,
        runs=times,
        rows=rows,
        notes=tuple(notes),
        picture=_picture(experiment, rows),
        outcome=outcome,
    )


def _picture(experiment: Experiment[Any], rows: Sequence[Row]) -> Picture:
    """The experiment's picture, with a title from its summary and its exact figures marked."""
    said = (experiment.summary.partition(": ")[2] or experiment.summary).rstrip(".")
    figures = [figure for row in rows for figure in row.figures()]
    drawn = {figure.name for figure in figures if figure.standard_error is not None}
    exact = dict.fromkeys(figure.name for figure in figures if figure.name not in drawn)
    return msgspec.structs.replace(
        experiment.picture,
        subject=said[:1].upper() + said[1:],
        computed=(*experiment.picture.computed, *exact),
        names={**NAMES, **experiment.picture.names},
    )


def _pieces(asked: Asked[Any], size: int) -> list[Asked[Any]]:
    """The runs of a cell by law, split into pieces of this size."""
    return [
        dataclasses.replace(asked, runs=min(size, asked.runs - start), seeds=(*asked.seeds, number))
        for number, start in enumerate(range(0, asked.runs, size))
    ]


def _live_runs(asked: Asked[Any], times: int, context: Context) -> list[Asked[Any]]:
    """The runs of a cell by messages, each with a seed of its own."""
    bare = Context(
        transport=context.transport,
        workers=context.workers,
        engine=context.engine,
        data=context.data,
        by_messages=True,
    )
    runs = []
    for number in range(times):
        seeds = (*asked.seeds, number)
        seed = int(np.random.default_rng(seeds).integers(2**63))
        own = dataclasses.replace(bare, seed=seed)
        runs.append(dataclasses.replace(asked, seeds=seeds, context=own))
    return runs


def _carried_out(
    experiment: Experiment[Any], runs: Sequence[Asked[Any]], context: Context
) -> tuple[Outcome[Variant] | None, Iterator[list[Sample]]]:
    """The samples of all runs.

    By messages the first of all leaves the transcript and its outcome, and is not sent to workers.
    """
    pieces = [Piece(experiment.measure, one) for one in runs]
    if not context.by_messages:
        return None, iter(context.map(sample_cell, pieces))
    (_, first), *rest = pieces
    outcomes: list[Outcome[Variant]] = []
    watched = dataclasses.replace(context, seed=first.context.seed)
    first = dataclasses.replace(first, context=watched, outcomes=outcomes)
    found = [sample_cell(Piece(experiment.measure, first))]
    context.progress(1, len(pieces))
    if rest:
        found += context.sweep(
            sample_cell, rest, progress=lambda done, _: context.progress(done + 1, len(pieces))
        )
    return outcomes[0], iter(found)


def _join(same: Sequence[Sample]) -> Sample:
    """One row, joined from several runs or pieces of runs."""
    first = same[0]
    for name, value in first.exact.items():
        if not np.array_equal([sample.exact[name] for sample in same], [value] * len(same), True):
            raise TypeError(f"figure {name!r} of {first.settings} is not exact: runs differ in it")
    if len(same) == 1:
        return first
    drawn = [
        {name: np.array([value]) for name, (value, _) in sample.known.items()} | sample.drawn
        for sample in same
    ]
    alike = all(sample.remark == first.remark for sample in same)
    return msgspec.structs.replace(
        first,
        drawn={name: np.concatenate([of[name] for of in drawn]) for name in drawn[0]},
        known={},
        remark=first.remark if alike else f"first run: {first.remark}",
    )


def _row(experiment: Experiment[Any], cell: Cell, sample: Sample, known: Printed | None) -> Row:
    settings = {**cell, **sample.settings}
    figures = {name: _figure(values, experiment.statistic) for name, values in sample.drawn.items()}
    figures |= {name: Figure(*one, one[1], math.inf) for name, one in sample.known.items()}
    measured = {name: one.value for name, one in figures.items()} | sample.exact
    said = sample.printed if known is None else known.of(settings)
    printed = {name: value for name, value in said.items() if name in measured}
    runs = None if known is None else known.runs
    return Row(
        settings=settings,
        measured=_plain(measured),
        standard_error=_plain({name: one.error for name, one in figures.items()}) or None,
        printed=_plain(printed) or None,
        tolerance=_plain(
            {
                name: one.tolerance(1 if name in sample.known else runs)
                for name, one in figures.items()
                if name in printed
            }
        )
        or None,
        remark=sample.remark,
    )


def _figure(values: Any, statistic: str) -> Figure:
    if values.dtype == bool:
        return share(values)
    return median(values) if statistic == "median" else mean(values)


def _plain(values: Mapping[str, float]) -> Any:
    """Figures by name; a figure without a name is returned alone."""
    return values[""] if list(values) == [""] else values
