"""Figures 1 to 12 of RR-Ind-Joint, run again on synthetic data and on Adult.

Kikuchi and Domingo-Ferrer, Estimating Joint Probability of Independently Randomized
Multi-dimensional Data, section 4. The paper prints no number of these figures, only curves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta

from protocol.estimators.counts import Counts
from protocol.estimators.independent import ProductEstimate
from protocol.estimators.joint import Block, JointEstimate, mean_squared_error
from protocol.randomizers import KeepUniform, split_codes
from protocol.randomizers.exact import Floats
from protocol.surveys.survey import Survey
from scenarios.datasets.adult import adult_with_age
from scenarios.datasets.correlated import correlated, correlated_counts, correlated_survey
from scenarios.reproductions.ind_joint.accuracy import (
    Keeps,
    Mode,
    Parties,
    Reported,
    break_even_n,
    live_pair,
    readable,
    reports_on,
    run_live,
)
from scenarios.reproductions.ind_joint.curves import (
    CURVES,
    Design,
    Part,
    curve,
    curve_row,
    picture,
)
from scenarios.reproductions.ind_joint.plots import Surface, plot_figures
from scenarios.running.outcomes import Outcome
from scenarios.running.reproduction import Reproduced, Row, Runs
from scenarios.running.scenario import Context, Scenario

SURFACES = range(1, 5)
ADULT = range(9, 13)
SHOWN = ("data", "reports", "RR-Ind", "RR-Ind-Joint")
"""What the four figures of either range show of one table."""

PAIR = ("sex", "age")
ADULT_KEEP = 0.5


SAMPLED = (
    "Shown: sampled. The reports are drawn anew in every run; the records are the same in all of "
    "them, and errors are distances from the records' own table."
)
EXACT = (
    "Shown: exact. Nothing is drawn: the estimators are given the expected reports, so n plays no "
    "part and RR-Ind-Joint has no error but round-off."
)
BREAK_EVEN = (
    "Break-even points are where the expected squared errors of both estimators are equal, in "
    "closed form: RR-Ind-Joint is the better one above them (of d: below)."
)
SYNTHETIC_NOTES = (
    "The paper does not say how often it repeats an experiment, and prints no number here.",
    "The synthetic records are n times the distribution, rounded to whole respondents by largest "
    "remainder (the paper does not say how it makes them); break-even points are the "
    "distribution's.",
    "The margins are proportional to 1/a for a = 2..d+1; the printed range, a = 2..d, has d - 1 "
    "values.",
    "epsilon is that of each attribute; a record with two of them costs twice as much.",
)


class Parameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What can be set."""

    runs: Runs = 100
    figure: Annotated[
        Annotated[int, Meta(ge=1, le=12)] | None,
        Meta(description="1 to 12, all by default; one that shows a table then lists its cells"),
    ] = None
    mode: Annotated[
        Mode, Meta(description="sampled (real runs) or exact (expected reports, no sampling)")
    ] = "sampled"
    parties: Annotated[
        Parties, Meta(description="with --by-messages: over how many the records are spread")
    ] = None


def run_figures(parameters: Parameters, context: Context) -> Reproduced:
    """The figures asked for; figures 1 to 4 and 9 to 12 are four views of one table each."""
    chosen, outcome = parameters.figure, None
    if context.by_messages:
        part, outcome = _by_messages(parameters, context)
        parts = [part]
    else:
        parts = []
        if chosen is None or chosen in SURFACES:
            parts.append(_synthetic_tables(parameters, context.seed))
        for figure in CURVES:
            if chosen in (None, figure):
                parts.append(
                    curve(figure, mode=parameters.mode, runs=parameters.runs, seed=context.seed)
                )
        if chosen is None or chosen in ADULT:
            parts.append(_adult_tables(parameters, context))
    sampled = parameters.mode == "sampled" or outcome is not None
    notes = [SAMPLED if sampled else EXACT, BREAK_EVEN]
    if chosen is None or chosen not in ADULT:
        notes += SYNTHETIC_NOTES
    return Reproduced(
        reproduction="ind-joint-figures",
        runs=parameters.runs if sampled and outcome is None else 1,
        rows=tuple(row for part in parts for row in part.rows),
        notes=(*notes, *(note for part in parts for note in part.notes)),
        plot=plot_figures([picture for part in parts for picture in part.pictures]),
        outcome=outcome,
    )


# Tables: figures 1 to 4 and 9 to 12


def _synthetic_tables(parameters: Parameters, seed: int) -> Part:
    design = Design()
    counts = correlated_counts(design.n, d=design.d, v=design.v)
    survey = correlated_survey(design.d)
    seeds = [seed, SURFACES[0]]
    reported = reports_on(
        counts,
        design.truth,
        design.keeps,
        mode=parameters.mode,
        runs=parameters.runs,
        seeds=seeds,
    )
    n_star = break_even_n(design.truth, design.keeps)
    return _tables(SURFACES, parameters, reported, survey, design.settings, n_star)


def _adult_tables(parameters: Parameters, context: Context) -> Part:
    records = adult_with_age(context.data)
    survey = records.survey.project(PAIR)
    counts, keeps = records.counts(PAIR), _adult_keeps(survey)
    truth = counts / len(records)
    seeds = [context.seed, ADULT[0]]
    reported = reports_on(
        counts,
        truth,
        keeps,
        mode=parameters.mode,
        runs=parameters.runs,
        seeds=seeds,
    )
    settings = _adult_settings(len(records))
    return _tables(ADULT, parameters, reported, survey, settings, break_even_n(truth, keeps))


def _adult_keeps(survey: Survey) -> Keeps:
    first, second = (survey.attribute(name).size for name in PAIR)
    return (
        KeepUniform.with_keep(first, p=ADULT_KEEP),
        KeepUniform.with_keep(second, p=ADULT_KEEP),
    )


def _adult_settings(n: int) -> dict[str, Any]:
    return {"attributes": list(PAIR), "n": n, "p": ADULT_KEEP}


def _tables(
    figures: range,
    parameters: Parameters,
    reported: Reported,
    survey: Survey,
    settings: Mapping[str, Any],
    n_star: float,
) -> Part:
    """The four views of a table: figures of all runs, and the cells of the first run.

    ``n_star`` is the break-even number of respondents.
    """
    views = (reported.truth[np.newaxis], reported.shares, reported.product(), reported.joint())
    mode, n = parameters.mode, int(settings["n"])
    estimate = _estimate(survey, reported, n) if mode == "sampled" else None
    part = Part([], [], [])
    for figure, shows, tables in zip(figures, SHOWN, views, strict=True):
        if parameters.figure not in (None, figure):
            continue
        measured, errors = reported.of_tables(tables)
        here = {"figure": figure, "shows": shows}
        part.rows.append(
            Row(
                settings={**here, **settings, "mode": mode},
                measured=measured,
                standard_error=errors or None,
            )
        )
        if parameters.figure == figure:
            part.rows.extend(_cells(here, survey, tables[0], _errors_of(shows, estimate, survey)))
        part.pictures.append(_surface(f"Figure {figure}: {shows}", survey, tables[0]))
    root = math.sqrt(mean_squared_error(reported.keeps, n))
    span = f"Figures {figures[0]} to {figures[-1]}"
    part.notes.append(
        f"{span}: RR-Ind-Joint is the better one from n = {readable(n_star)} on; at n = {n:,} the "
        f"root of its expected squared error is {root:.2g} per cell, and a cell's share "
        f"{1 / reported.truth.size:.2g} on average. Plots and cells show the first run; Cramer's V "
        "of an estimate is that of its "
        "clip-and-rescale projection, so noisy margins give RR-Ind one too."
    )
    return part


def _estimate(survey: Survey, reported: Reported, n: int) -> JointEstimate:
    """The first run's reports as the aggregator has them."""
    counts = np.rint(reported.shares[0] * n).astype(np.int64).reshape(-1)
    present = np.flatnonzero(counts)
    codes = split_codes(present.astype(np.uint64), survey.sizes, survey.dtype)
    blocks = tuple(
        Block((name,), keep) for name, keep in zip(survey.names, reported.keeps, strict=True)
    )
    return JointEstimate(survey, blocks, Counts(survey.sizes, codes, counts[present], n))


def _errors_of(shows: str, estimate: JointEstimate | None, survey: Survey) -> Floats | None:
    """The standard errors of one run's cells, given the data."""
    if estimate is None or shows not in SHOWN[2:]:
        return None
    estimator = estimate if shows == SHOWN[3] else ProductEstimate(estimate)
    return estimator.table(*survey.names).standard_errors


def _cells(
    settings: Mapping[str, Any], survey: Survey, table: Floats, errors: Floats | None
) -> list[Row]:
    """One row per category of the first attribute."""
    first, second = survey.attributes
    keys = [f"{second.name} {category}" for category in second.categories]
    return [
        Row(
            settings={**settings, first.name: category},
            measured=dict(zip(keys, table[code].tolist(), strict=True)),
            standard_error=None
            if errors is None
            else dict(zip(keys, errors[code].tolist(), strict=True)),
        )
        for code, category in enumerate(first.categories)
    ]


def _surface(title: str, survey: Survey, table: Floats) -> Surface:
    first, second = survey.attributes
    return Surface(
        title=title,
        names=(first.name, second.name),
        categories=(first.categories, second.categories),
        values=table,
    )


# One run by messages


def _by_messages(parameters: Parameters, context: Context) -> tuple[Part, Outcome]:
    """One repeat with every party live: of Adult, or of the design that figures 1 to 8 share."""
    figure, design = parameters.figure, Design()
    parameters = msgspec.structs.replace(parameters, mode="sampled")
    of_adult = figure is not None and figure in ADULT
    records = (
        adult_with_age(context.data) if of_adult else correlated(design.n, d=design.d, v=design.v)
    )
    pair = PAIR if of_adult else records.survey.names
    keeps = _adult_keeps(records.survey) if of_adult else design.keeps
    outcome = run_live(context, records, dict(zip(pair, keeps, strict=True)), parameters.parties)
    reported = Reported.counted(records.counts(pair), keeps, live_pair(outcome, pair))
    survey = records.survey.project(pair)
    if figure is not None and figure in CURVES:
        row = curve_row(figure, design, reported, "sampled")
        note = f"Figure {figure}: by messages, its point at the parameters that all figures share."
        return Part([row], [note], [picture(figure, CURVES[figure][0], [row], math.inf)]), outcome
    settings = _adult_settings(len(records)) if of_adult else design.settings
    figures = ADULT if of_adult else SURFACES
    n_star = break_even_n(reported.truth if of_adult else design.truth, keeps)
    return _tables(figures, parameters, reported, survey, settings, n_star), outcome


SCENARIOS = (
    Scenario(
        name="ind-joint-figures",
        summary="RR-Ind-Joint, Figures 1 to 12: its error and RR-Ind's, and where they are equal.",
        parameters=Parameters,
        run=run_figures,
    ),
)
