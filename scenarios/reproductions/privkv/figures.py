"""Figures 1 to 8 and 11 to 13 of the EM paper on PrivKV: errors of means, and MovieLens.

Horigome, Kikuchi and Yu, Expectation-Maximization Estimation for Key-Value Data Randomized with
Local Differential Privacy, section 4.4. The paper prints no number of these figures, only curves;
Figures 9 and 10 are of the Clothing data, which is not to be had here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np
from msgspec import Meta

from protocol.randomizers.exact import Floats
from scenarios.datasets.keyvalue import SYNTHETIC, KeyPopulation, Synthetic, synthetic
from scenarios.datasets.ratings import movielens
from scenarios.errors import UsageError
from scenarios.report.plots import COLOURS, GREY, MARKERS, WHISKERS
from scenarios.reproductions.privkv.shared import (
    EPSILON,
    EPSILONS,
    LIVE,
    METHODS,
    RESPONDENTS,
    SETTING,
    Method,
    N,
    absolute_errors,
    estimated,
    live,
    standard_errors,
)
from scenarios.running.reproduction import Reproduced, Row, Runs
from scenarios.running.scenario import Context, Scenario

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Number: TypeAlias = Literal[1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13]

BY_EPSILON: Mapping[int, Synthetic] = dict(zip((1, 2, 3), SYNTHETIC, strict=True))
BY_KEY: Mapping[int, Synthetic] = dict(zip((4, 5, 6), SYNTHETIC, strict=True))
BY_RESPONDENTS: Mapping[int, Synthetic] = dict(zip((11, 12, 13), SYNTHETIC, strict=True))
MOVIES: Mapping[int, str] = {7: "frequencies", 8: "means"}
FIGURES = (*BY_EPSILON, *BY_KEY, *MOVIES, *BY_RESPONDENTS)

KEY_EPSILON = 4.0
"""The budget of Figures 4 to 6."""

MOVIELENS_USERS = 69_877
"""The users of the set that the paper has, by its Table 3."""

_NAMES: Mapping[Method, str] = {"em": "EM", "privkv": "PrivKV", "privkvm": "PrivKVM"}


class Parameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What can be set."""

    runs: Runs = 10
    figure: Annotated[Number | None, Meta(description="1 to 8 or 11 to 13, all by default")] = None
    respondents: Annotated[
        int,
        Meta(ge=1, le=10_000_000, description="of Figures 7 and 8, drawn from MovieLens' users"),
    ] = MOVIELENS_USERS


def run_figures(parameters: Parameters, context: Context) -> Reproduced:
    """The figures asked for.

    By messages, one figure's means of keys once: 4, 5 or 6.

    Raises:
        UsageError: another figure by messages.
    """
    if context.by_messages:
        return _live(parameters, context)
    chosen = FIGURES if parameters.figure is None else (parameters.figure,)
    rows: list[Row] = []
    notes = [
        "the figures have no numbers printed in them; standard errors are over the runs",
        *SETTING,
    ]
    movies: Mapping[int, Sequence[Row]] = {}
    if any(figure in MOVIES for figure in chosen):
        movies, note = _movies(parameters, context)
        notes.append(note)
    for figure in chosen:
        if figure in MOVIES:
            rows += movies[figure]
        elif figure in BY_KEY:
            rows += _by_key(figure, parameters, context)
        else:
            rows += _mean_errors(figure, parameters, context)
    if any(figure not in MOVIES for figure in chosen):
        notes.append(
            "means by PrivKV are of all values reported with a key, fakes included: those of rare "
            "keys stay near 0 however many respondents there are, and EM's, whose fakes may have "
            "any sign, are drawn there less; PrivKVM's fakes come near the mean from round to "
            "round. EM has not always the nearest means, as the paper has it: with epsilon 2 and "
            "1,000 respondents, PrivKV's are nearer on average"
        )
    return Reproduced(
        reproduction="privkv-figures",
        runs=parameters.runs,
        rows=tuple(rows),
        notes=tuple(notes),
        plot=_plot(rows),
    )


class Piece(NamedTuple):
    """One epsilon and number of respondents; the seeds decide its draws."""

    population: KeyPopulation
    epsilon: float
    n: int
    runs: int
    seeds: tuple[int, ...]


def errors_of(piece: Piece) -> dict[str, dict[Method, Floats]]:
    """Mean absolute errors of frequencies and of means by every method, (runs,) each."""
    population, epsilon, n, runs, seeds = piece
    generator = np.random.default_rng(seeds)
    found = estimated(population, epsilon=epsilon, n=n, runs=runs, generator=generator)
    return {
        what: {
            method: absolute_errors(getattr(found[method], what), getattr(population, what))
            for method in METHODS
        }
        for what in MOVIES.values()
    }


def _mean_errors(figure: int, parameters: Parameters, context: Context) -> list[Row]:
    """Mean absolute errors of means, by epsilon or by the number of respondents."""
    of_epsilon = figure in BY_EPSILON
    model = BY_EPSILON[figure] if of_epsilon else BY_RESPONDENTS[figure]
    population = synthetic(model)
    places: list[tuple[dict[str, float], float, int]] = (
        [({"epsilon": epsilon}, epsilon, N) for epsilon in EPSILONS]
        if of_epsilon
        else [({"n": n}, EPSILON, n) for n in RESPONDENTS]
    )
    pieces = [
        Piece(population, epsilon, n, parameters.runs, (context.seed, 100 + figure, line))
        for line, (_, epsilon, n) in enumerate(places)
    ]
    return [
        _row({"figure": figure, "population": model, **shown}, errors["means"])
        for (shown, _, _), errors in zip(places, context.map(errors_of, pieces), strict=True)
    ]


def _by_key(figure: int, parameters: Parameters, context: Context) -> list[Row]:
    """Every key's estimated mean beside the true one."""
    model = BY_KEY[figure]
    population = synthetic(model)
    generator = np.random.default_rng((context.seed, 100 + figure))
    found = estimated(
        population, epsilon=KEY_EPSILON, n=N, runs=parameters.runs, generator=generator
    )
    rows = []
    for key, truth in enumerate(population.means.tolist()):
        values = {method: found[method].means[:, key] for method in METHODS}
        settings = {"figure": figure, "population": model, "key": key + 1}
        rows.append(_row(settings, values, true=truth))
    return rows


def _live(parameters: Parameters, context: Context) -> Reproduced:
    figure = min(BY_KEY) if parameters.figure is None else parameters.figure
    if figure not in BY_KEY:
        raise UsageError(
            f"parameter 'figure' = {figure}: by messages, expected one of "
            f"{', '.join(map(str, BY_KEY))}, whose errors are of one run"
        )
    population = synthetic(BY_KEY[figure])
    outcome, found = live(population, epsilon=KEY_EPSILON, n=N, context=context)
    rows = tuple(
        Row(
            settings={"figure": figure, "population": population.name, "key": key + 1},
            measured={
                **{method: float(of.means[0, key]) for method, of in found.items()},
                "true": truth,
            },
        )
        for key, truth in enumerate(population.means.tolist())
    )
    return Reproduced(
        reproduction="privkv-figures", runs=1, rows=rows, notes=(LIVE,), outcome=outcome
    )


def _movies(parameters: Parameters, context: Context) -> tuple[dict[int, list[Row]], str]:
    """Errors of frequencies and of means on MovieLens, from the same runs."""
    ratings = movielens(context.data)
    population = ratings.population()
    rows: dict[int, list[Row]] = {figure: [] for figure in MOVIES}
    pieces = [
        Piece(
            population, epsilon, parameters.respondents, parameters.runs, (context.seed, 107, line)
        )
        for line, epsilon in enumerate(EPSILONS)
    ]
    for epsilon, errors in zip(EPSILONS, context.map(errors_of, pieces), strict=True):
        for figure, what in MOVIES.items():
            shown = {"figure": figure, "population": population.name, "epsilon": epsilon}
            rows[figure].append(_row(shown, errors[what]))
    return rows, _movies_note(population, ratings.users, len(ratings.values), parameters)


def _movies_note(
    population: KeyPopulation, users: int, ratings: int, parameters: Parameters
) -> str:
    movies = len(population.keys)
    return (
        f"Figures 7 and 8: MovieLens, {ratings:,} ratings of {movies:,} movies by {users:,} users. "
        f"Each of {parameters.respondents:,} respondents is any of them, so that a movie gets "
        f"{parameters.respondents / movies:.1f} reports on average; one without any is left out. "
        f"The paper has 10,000,054 ratings of 10,677 movies by {MOVIELENS_USERS:,} users"
    )


def _row(settings: Mapping[str, object], values: Mapping[Method, Floats], **exact: float) -> Row:
    """A row of means over runs, and what is known exactly."""
    return Row(
        settings=settings,
        measured={**{name: float(of.mean()) for name, of in values.items()}, **exact},
        standard_error=standard_errors(values),
    )


def _plot(rows: Sequence[Row]) -> Callable[[Figure], None]:
    """A panel per figure of the paper."""
    by_figure: dict[int, list[Row]] = {}
    for row in rows:
        by_figure.setdefault(row.settings["figure"], []).append(row)

    def plot(figure: Figure) -> None:
        columns = min(3, len(by_figure))
        lines = math.ceil(len(by_figure) / columns)
        figure.set_layout_engine("constrained")
        figure.set_size_inches(max(6.5, 4 * columns), max(4.0, 3.2 * lines))
        figure.suptitle("privkv-figures")
        panels = figure.subplots(lines, columns, squeeze=False).ravel()
        for axes, (number, shown) in zip(panels, by_figure.items(), strict=False):
            along = next(x for x in ("epsilon", "n", "key") if x in shown[0].settings)
            xs = [float(row.settings[along]) for row in shown]
            points = [{f.name: f for f in row.figures()} for row in shown]
            if along == "key":
                true = [point["true"].measured for point in points]
                axes.plot(xs, true, "-", color=GREY, label="true")
            for method, colour, marker in zip(METHODS, COLOURS, MARKERS, strict=False):
                ys = [point[method].measured for point in points]
                bars = [point[method].standard_error or 0.0 for point in points]
                axes.errorbar(
                    xs,
                    ys,
                    yerr=bars,
                    fmt=f"{marker}-",
                    markersize=3,
                    color=colour,
                    capsize=2,
                    label=_NAMES[method],
                    linewidth=1,
                )
            what = "mean" if along == "key" else "MAE(m)"
            axes.set_ylabel("MAE(f)" if number == 7 else what)
            axes.set_xlabel(along)
            if along == "n":
                axes.set_xscale("log")
            axes.set_title(f"Figure {number}: {shown[0].settings['population']}", fontsize=10)
        for axes in panels[len(by_figure) :]:
            axes.set_visible(False)
        panels[0].legend(fontsize=8, title=WHISKERS, title_fontsize=8)

    return plot


SCENARIOS = (
    Scenario(
        name="privkv-figures",
        summary="EM for PrivKV, Figures 1 to 8 and 11 to 13: errors of means, and MovieLens.",
        parameters=Parameters,
        run=run_figures,
    ),
)
