"""Tables 2, 4 and 5 and Figures 1 to 8 and 11 to 13 of the EM paper on PrivKV.

Horigome, Kikuchi and Yu, Expectation-Maximization Estimation for Key-Value Data Randomized with
Local Differential Privacy, sections 4.2 and 4.4. The figures have no numbers printed in them, and
Figures 9 and 10 are of the Clothing data, which is not to be had here.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta

from protocol.randomizers.exact import Floats
from protocol.randomizers.keyvalue import PrivKV
from scenarios.datasets.keyvalue import SYNTHETIC, KeyPopulation, synthetic
from scenarios.datasets.ratings import movielens
from scenarios.errors import UsageError
from scenarios.reproductions.driver import scenarios_of
from scenarios.reproductions.experiment import Asked, Experiment, Nothing, Sample, grid
from scenarios.reproductions.privkv.shared import (
    EPSILON,
    EPSILONS,
    RESPONDENTS,
    SETTING,
    Estimated,
    Method,
    N,
    estimated,
    expected_squared_error,
    live,
    mean_of_known,
    squared_errors,
)
from scenarios.running.outcomes import Outcome
from scenarios.running.reproduction import Picture
from scenarios.running.scenario import Context

UNIT = 1e-4
"""What the errors of Tables 4 and 5 are printed in."""

KEY_EPSILON = 4.0
"""The budget of Figures 4 to 6."""

MOVIES: Mapping[int, str] = {7: "frequencies", 8: "means"}

MOVIELENS_USERS = 69_877
"""The users of the set that the paper has, by its Table 3."""

NAMES = {
    "em": "EM",
    "privkv": "PrivKV",
    "privkvm": "PrivKVM",
    "epsilon": "epsilon of a respondent",
    "n": "respondents n",
}


class Movies(msgspec.Struct, frozen=True, kw_only=True):
    """The parameter of Figures 7 and 8."""

    respondents: Annotated[
        int,
        Meta(ge=1, le=10_000_000, description="of Figures 7 and 8, drawn from MovieLens' users"),
    ] = MOVIELENS_USERS


def _statistics(asked: Asked[Nothing]) -> list[Sample]:
    """Table 2: the exact statistics of a synthetic population."""
    names = ("E(f)", "Var(f)", "E(m)", "Var(m)")
    population = synthetic(asked.cell["population"])
    wrong = "The exact E(m) is 2 E(f) - 1 = -0.586804: the paper's last digit is one more."
    return [
        Sample(
            exact=dict(zip(names, population.statistics(), strict=True)),
            settings={"keys": len(population.keys)},
            remark=wrong if population.name == "Power-law" else "",
        )
    ]


# Tables 4 and 5


def _frequencies(asked: Asked[Nothing]) -> list[Sample]:
    """Squared errors of frequencies."""
    population, epsilon, n = _setting(asked.cell)
    found = estimated(
        population, epsilon=epsilon, n=n, runs=asked.runs, generator=asked.generator()
    )
    return _squared(asked, found)


def _frequencies_live(asked: Asked[Nothing], context: Context) -> tuple[Outcome, list[Sample]]:
    population, epsilon, n = _setting(asked.cell)
    outcome, found = live(population, epsilon=epsilon, n=n, context=context)
    return outcome, _squared(asked, found)


def _setting(cell: Mapping[str, Any]) -> tuple[KeyPopulation, float, int]:
    return synthetic(cell["population"]), cell.get("epsilon", EPSILON), cell.get("n", N)


def _squared(asked: Asked[Nothing], found: Mapping[Method, Estimated]) -> list[Sample]:
    population, epsilon, n = _setting(asked.cell)
    randomizer = PrivKV.with_budget(len(population.keys), epsilon=epsilon)
    return [
        Sample(
            drawn={
                method: squared_errors(of.frequencies, population.frequencies) / UNIT
                for method, of in found.items()
            },
            exact={
                "expected of both moments": expected_squared_error(population, randomizer, n) / UNIT
            },
        )
    ]


# Figures


@functools.lru_cache(maxsize=2)
def _movielens(data: Path | str | None) -> KeyPopulation:
    return movielens(data).population()


def _means(asked: Asked[Movies]) -> list[Sample]:
    """What one point of a figure shows, or all keys of one."""
    population, epsilon, n = _figure_setting(asked)
    found = estimated(
        population, epsilon=epsilon, n=n, runs=asked.runs, generator=asked.generator()
    )
    return _shown(asked, population, found)


def _means_live(asked: Asked[Movies], context: Context) -> tuple[Outcome, list[Sample]]:
    if asked.cell["figure"] in MOVIES:
        raise UsageError("by messages, expected a figure of a synthetic population, not 7 or 8")
    population, epsilon, n = _figure_setting(asked)
    outcome, found = live(population, epsilon=epsilon, n=n, context=context)
    return outcome, _shown(asked, population, found)


def _figure_setting(asked: Asked[Movies]) -> tuple[KeyPopulation, float, int]:
    cell = asked.cell
    if cell["figure"] in MOVIES:
        return _movielens(asked.data), cell["epsilon"], asked.parameters.respondents
    population, epsilon, n = _setting(cell)
    return population, KEY_EPSILON if cell["figure"] in (4, 5, 6) else epsilon, n


def _shown(
    asked: Asked[Movies], population: KeyPopulation, found: Mapping[Method, Estimated]
) -> list[Sample]:
    figure = asked.cell["figure"]
    if figure in (4, 5, 6):
        return [
            Sample(
                drawn={method: of.means[:, key] for method, of in found.items()},
                exact={"true": truth},
                settings={"key": key + 1},
            )
            for key, truth in enumerate(population.means.tolist())
        ]
    what = MOVIES.get(figure, "means")
    distances: dict[Method, Floats] = {
        method: np.abs(getattr(of, what) - getattr(population, what))
        for method, of in found.items()
    }
    if asked.reading == "corrected":
        # A key counts where every method has an estimate of it.
        known = ~np.isnan(sum(distances.values()))
        distances = {name: np.where(known, of, np.nan) for name, of in distances.items()}
    return [Sample(drawn={name: mean_of_known(of) for name, of in distances.items()})]


SAME_KEYS = (
    "Figure 8: with the printed reading, where each method is averaged over the keys of which it "
    "has an estimate itself, EM's errors are of other keys than PrivKV's, and smaller for that"
)

EXPERIMENTS: tuple[Experiment[Any], ...] = (
    Experiment(
        paper="PrivKV",
        item="Table 2",
        name="privkv-table-2",
        summary="EM for PrivKV, Table 2: statistics of the synthetic populations.",
        cells=grid(population=SYNTHETIC),
        law=_statistics,
        notes=(
            "exact: nothing is drawn; mean and variance over the keys of frequencies f and means m",
            "the populations are those that give these figures: f = exp(-(k-25)^2/200), "
            "f = (1+0.1x)^-11 for x = 0, 0.1, .., 4.9, both with m = 2f-1, and f = k/50 with m "
            "from -1 to 1; with the text's exponent of -11/10 the power law's do not come out",
        ),
    ),
    *(
        Experiment(
            paper="PrivKV",
            item=f"Table {number}",
            name=f"privkv-table-{number}",
            summary=f"EM for PrivKV, Table {number}: squared errors of frequencies by {words}.",
            cells=grid(population=SYNTHETIC, **axis),
            law=_frequencies,
            live=_frequencies_live,
            live_cell={"population": SYNTHETIC[0], **{name: of[-1] for name, of in axis.items()}},
            runs=10,
            notes=(
                "mean squared errors of frequencies over the 50 keys, in units of 1e-4",
                *SETTING,
                "PrivKV and PrivKVM randomize keys alike, so the errors of their frequencies have "
                "one law, whose mean in closed form is given: what is printed of PrivKVM and "
                "differs by more than chance is not of this law",
                *more,
            ),
            picture=Picture(
                x=next(iter(axis)),
                computed=("expected of both moments",),
                names={**NAMES, "": "squared error of a frequency, in 1e-4"},
            ),
        )
        for number, words, axis, more in (
            (4, "epsilon", {"epsilon": EPSILONS}, ()),
            (
                5,
                "respondents",
                {"n": RESPONDENTS},
                (
                    "the paper heads its column with 10^4 and prints 1, 5, 10, 100 and 1000; the "
                    "errors are those of 1, 5, 10, 100 and 300 thousand respondents, as the text's "
                    "largest n says",
                ),
            ),
        )
    ),
    Experiment(
        paper="PrivKV",
        item="Figures 1 to 8 and 11 to 13",
        name="privkv-figures",
        summary="EM for PrivKV, Figures 1 to 8 and 11 to 13: errors of means, and MovieLens.",
        cells=(
            *(
                {"figure": 1 + place, "population": name, "epsilon": epsilon}
                for place, name in enumerate(SYNTHETIC)
                for epsilon in EPSILONS
            ),
            *({"figure": 4 + place, "population": name} for place, name in enumerate(SYNTHETIC)),
            *(
                {"figure": figure, "population": "MovieLens", "epsilon": epsilon}
                for figure in MOVIES
                for epsilon in EPSILONS
            ),
            *(
                {"figure": 11 + place, "population": name, "n": n}
                for place, name in enumerate(SYNTHETIC)
                for n in RESPONDENTS
            ),
        ),
        law=_means,
        live=_means_live,
        live_cell={"figure": 4},
        runs=10,
        parameters=Movies,
        readings={
            "corrected": "errors are means over the keys of which all methods have an estimate",
            "printed": "each method's error is the mean over the keys that it has an estimate of",
        },
        notes=(
            *SETTING,
            SAME_KEYS,
            "Figures 7 and 8 are of the small MovieLens set, 100,836 ratings of 9,724 movies by "
            "610 users, of whom each respondent is any: a movie gets seven reports on average; "
            "one without any is left out. The paper has 10,000,054 ratings of 10,677 movies by "
            f"{MOVIELENS_USERS:,} users",
            "means by PrivKV are of all values reported with a key, fakes included: those of rare "
            "keys stay near 0 however many respondents there are, and EM's, whose fakes may have "
            "any sign, are drawn there less; PrivKVM's fakes come near the mean from round to "
            "round. EM has not always the nearest means, as the paper has it: with epsilon 2 and "
            "1,000 respondents, PrivKV's are nearer on average",
        ),
        picture=Picture(
            title="How far estimated means of keys are from the true ones",
            computed=("true",),
            axis="distance from the true mean",
            names={
                **NAMES,
                "true": "true mean",
                **{f"figure {figure}": "mean of a key" for figure in (4, 5, 6)},
                **{f"figure {figure}": f"distance of {of}" for figure, of in MOVIES.items()},
            },
        ),
    ),
)
SCENARIOS = scenarios_of(*EXPERIMENTS)
