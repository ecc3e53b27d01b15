"""PrivKV and PrivKVM on keys with values: three synthetic populations, MovieLens and Clothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

import msgspec
import numpy as np

from protocol.errors import UsageError
from protocol.estimators.inference.interval_words import bracketed, sentences
from protocol.estimators.inference.intervals import Intervals, Shown, interval_figures
from protocol.randomizers.exact import Floats
from protocol.surveys.records import Records
from protocol.variants.keyvalue.estimate import KeyValueTables
from protocol.variants.keyvalue.privkv import KeyValueCollection, PrivKVMVariant, PrivKVVariant
from protocol.variants.keyvalue.records import key_values
from scenarios.data.key_populations import Synthetic, synthetic
from scenarios.data.ratings import Ratings, clothing, movielens
from scenarios.report.pictures.shares import conditions, draw_intervals
from scenarios.report.pictures.style import GREY, frame, literal
from scenarios.running.parameters import Positive, made, settable
from scenarios.running.scenario import Context, Finished, Scenario
from scenarios.wording.decimals import decimals
from scenarios.wording.formatting import cut

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ProtocolName: TypeAlias = Literal["privkv", "privkvm"]
Of = TypeVar("Of", bound="Answering")

FEW_REPORTS = 100
"""Fewest reports on a key, on average, without a note to the reader."""

_SHOWN_KEYS = 50


class Answering(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of all these scenarios.

    Args:
        protocol: privkv or privkvm.
        parties: over how many they are spread.
    """

    protocol: ProtocolName = "privkv"
    parties: Positive | None = 100


class Drawn(Answering, frozen=True, kw_only=True):
    """A population drawn for the purpose.

    Args:
        n: how many respondents are drawn.
    """

    n: Positive = 100_000
    parties: Positive = 100


class Rated(Answering, frozen=True, kw_only=True):
    """The users of MovieLens or RentTheRunway.

    Args:
        keys: how many items, those rated most often.
        parties: over how many the users are spread; one each.
    """

    keys: Positive = 5
    parties: Positive | None = None


def _with_settings(own: type[Of], *names: str) -> type[Of]:
    shared = ("protocol", "epsilon", "rounds", "estimator", "virtual")
    return settable(own, PrivKVMVariant, names=(*shared, *names), epsilon=2.0)


def true_figures(records: Records) -> tuple[Floats, Floats]:
    """The true frequencies of keys, and the means of their values; NaN where nobody has one."""
    held = key_values(records.survey)[np.arange(len(records.survey.names)), records.codes]
    there = ~np.isnan(held)
    counts = there.sum(axis=0)
    sums = np.where(there, held, 0.0).sum(axis=0)
    means = np.divide(sums, counts, out=np.full(len(sums), np.nan), where=counts > 0)
    return counts / len(records), means


def _run(parameters: Answering, context: Context, records: Records) -> Finished:
    protocol = PrivKVVariant if parameters.protocol == "privkv" else PrivKVMVariant
    variant: KeyValueCollection = made(protocol, parameters, survey=records.survey)
    outcome = context.simulate(variant, records, parties=parameters.parties)
    estimate = outcome.estimate
    frequencies, means = true_figures(records)
    held = interval_figures(estimate.frequencies, estimate.frequency_intervals(*context.intervals))
    valued = interval_figures(estimate.means, estimate.mean_intervals(*context.intervals))
    each = variant.client.each
    squared = {
        "frequencies_mse": _mean((estimate.frequencies - frequencies) ** 2),
        "means_mse": _mean((estimate.means - means) ** 2),
    }
    unheard = int((estimate.counts[0].sum(axis=1) == 0).sum())
    notes = [
        "Shares of those who hold a key, and means of their values.",
        *sentences(context.intervals, held + valued),
        f"Squared errors, means over the keys that have an estimate: of frequencies "
        f"{_figure_text(squared['frequencies_mse'])}, of means {_figure_text(squared['means_mse'])}"
        f"; estimated by {variant.estimator}.",
    ]
    if unheard:
        notes.append(f"Nobody reported on {unheard:,} of {len(frequencies):,} keys.")
    if variant.repeats == 1:
        notes.append(
            f"A report costs {each.epsilon:.6g}, and not the sum of {each.charged:.6g} that the "
            "paper charges: the sign of a missing key's fake is a fair coin."
        )
    each_key = estimate.n / len(frequencies)
    if each_key < FEW_REPORTS:
        notes.append(
            f"Only {each_key:.3g} reports a key on average, so the errors are large; more "
            "respondents, fewer keys or a larger epsilon make them smaller."
        )
    keys = _keys(estimate, frequencies, means)
    ends = list(zip(held, valued, strict=True))
    return Finished(
        outcome=outcome,
        rows=[_row(key, *pair, context.intervals) for key, pair in zip(keys, ends, strict=True)],
        extra={
            "keys": [
                {**key, "frequency_interval": _ends(share), "mean_interval": _ends(mean)}
                for key, (share, mean) in zip(keys, ends, strict=True)
            ]
        },
        error=squared,
        notes=tuple(notes),
        plot=lambda figure: draw_keys(
            figure,
            estimate.survey.names,
            (
                ("frequency", held, frequencies, (-0.1, 1.1)),
                ("mean value", valued, means, (-1.1, 1.1)),
            ),
            context.intervals,
            conditions(outcome),
        ),
    )


def _row(key: dict[str, Any], held: Shown, valued: Shown, intervals: Intervals) -> dict[str, Any]:
    return {
        "key": key["key"],
        "reports": key["reports"],
        f"held by, {intervals.name}": _figure(held),
        "truly": key["true_frequency"],
        f"mean, {intervals.name}": _figure(valued),
        "true mean": key["true_mean"],
    }


def _figure(found: Shown) -> str:
    """An estimate and its interval; empty if there is no estimate."""
    if math.isnan(found.value):
        return ""
    digits = decimals([found], least=3)
    ends = bracketed(found, lambda value: f"{value:.{digits}f}")
    return f"{found.value:.{digits}f} {ends}"


def _ends(found: Shown) -> dict[str, float]:
    return {"low": found.low, "high": found.high}


def _keys(estimate: KeyValueTables, frequencies: Floats, means: Floats) -> list[dict[str, Any]]:
    columns = {
        "reports": estimate.counts[0].sum(axis=1),
        "frequency": estimate.frequencies,
        "frequency_error": estimate.frequency_errors,
        "mean": estimate.means,
        "mean_error": estimate.mean_errors,
        "true_frequency": frequencies,
        "true_mean": means,
    }
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return [
        {"key": name, **dict(zip(columns, row, strict=True))}
        for name, row in zip(estimate.survey.names, rows, strict=True)
    ]


def _mean(values: Floats) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else math.nan


def _figure_text(value: float) -> str:
    return "unknown" if math.isnan(value) else f"{value:.3g}"


def _run_on_ratings(ratings_of: Callable[[Path | str | None], Ratings]) -> Callable[..., Finished]:
    def run(parameters: Rated, context: Context) -> Finished:
        ratings = ratings_of(context.data)
        if parameters.keys > len(ratings.items):
            raise UsageError(
                f"parameter 'keys' = {parameters.keys}: more than the {len(ratings.items)} items"
            )
        return _run(parameters, context, ratings.records(parameters.keys))

    return run


def _run_on_synthetic(name: Synthetic) -> Callable[[Drawn, Context], Finished]:
    def run(parameters: Drawn, context: Context) -> Finished:
        population = synthetic(name)
        records = population.records(parameters.n, np.random.default_rng(context.seed))
        return _run(parameters, context, context.drawn(records, population.law()))

    return run


def draw_keys(
    figure: Figure,
    names: Sequence[str],
    columns: Sequence[tuple[str, Sequence[Shown], Floats, tuple[float, float]]],
    intervals: Intervals,
    notes: Sequence[str],
) -> None:
    """Figures of the first keys with their intervals, beside the true ones.

    Args:
        figure: the empty figure.
        names: of the keys.
        columns: what is drawn, a panel each: its name, the figures, the true ones, the axis' ends.
        intervals: what the legend says of them.
        notes: what stands below the title.
    """
    drawn = min(_SHOWN_KEYS, len(names))
    places = np.arange(drawn)
    grid = figure.subplots(1, 2, sharey=True)
    held, known = [], 0
    for axes, (label, figures, true, bounds) in zip(grid, columns, strict=True):
        axes.plot(true[:drawn], places, "|", color=GREY, markersize=8, label="truth")
        draw_intervals(axes, places, figures[:drawn], intervals)
        axes.set_xlim(*bounds)
        axes.set_xlabel(label)
        axes.grid(axis="y", visible=False)
        pairs = list(zip(figures, true, strict=True))
        known = sum(not math.isnan(found.low) for found, _ in pairs)
        inside = sum(found.low <= value <= found.high for found, value in pairs)
        held.append(f"{inside} of {known} intervals of a {label} hold the truth")
    grid[0].set_yticks(places, [literal(cut(name, 24)) for name in names[:drawn]], fontsize=7)
    grid[0].set_ylim(drawn - 0.4, -0.6)
    handles, labels = grid[1].get_legend_handles_labels()
    frame(
        figure,
        "; ".join(held),
        (*notes, "" if drawn == len(names) else f"the first {drawn} of {len(names)} keys"),
        size=(8.0, max(2.6, 0.6 + 0.165 * drawn)),
        handles=handles,
        labels=labels,
    )


_CURVES: tuple[tuple[str, Synthetic, str], ...] = (
    ("kv-gaussian", "Gaussian", "are a bell curve"),
    ("kv-power", "Power-law", "fall by a power law"),
    ("kv-linear", "Linear", "rise evenly"),
)

SCENARIOS: tuple[Scenario[Any], ...] = (
    *(
        Scenario(
            name=name,
            summary=f"50 keys whose frequencies {how}, by PrivKV or PrivKVM.",
            parameters=_with_settings(Drawn, "n", "parties"),
            run=_run_on_synthetic(population),
            joint=False,
        )
        for name, population, how in _CURVES
    ),
    Scenario(
        name="movielens",
        summary="Who rated which movies of MovieLens, and how, by PrivKV or PrivKVM.",
        parameters=_with_settings(Rated, "keys", "parties"),
        run=_run_on_ratings(movielens),
        joint=False,
    ),
    Scenario(
        name="clothing",
        summary="Who rated which clothes of RentTheRunway, and how, by PrivKV or PrivKVM.",
        parameters=_with_settings(Rated, "keys", "parties"),
        run=_run_on_ratings(clothing),
        joint=False,
    ),
)

if __name__ == "__main__":
    from scenarios.cli import script

    script(__file__)
