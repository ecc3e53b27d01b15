"""The tables, figures and formulas of the EM paper on PrivKV.

Horigome, Kikuchi and Yu, Expectation-Maximization Estimation for Key-Value Data Randomized with
Local Differential Privacy, sections 2 to 4. The figures have no numbers printed in them, and
Figures 9 and 10 are of the Clothing data, which is not to be had here.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta

from protocol.errors import UsageError
from protocol.randomizers.keyvalue import ABSENT, MINUS, PLUS, PrivKV
from protocol.variants.keyvalue.em import em, table_1
from protocol.variants.keyvalue.moments import maximum_likelihood, moment
from protocol.variants.keyvalue.privkv import PrivKVVariant
from scenarios.data.key_populations import SYNTHETIC, KeyPopulation, synthetic
from scenarios.data.ratings import movielens
from scenarios.papers.driver import experiment_scenarios
from scenarios.papers.experiment import Asked, Experiment, Nothing, Sample, grid
from scenarios.papers.privkv.shared import (
    Estimated,
    Method,
    drawn_counts,
    estimated,
    expected_squared_error,
    mean_of_known,
    squared_errors,
    symbol_law,
)
from scenarios.running.reproduction import Picture

EPSILONS = (0.1, 0.5, 1.0, 3.0, 5.0)
"""The budgets of Table 4, in the figures too."""

RESPONDENTS = (1_000, 5_000, 10_000, 100_000, 300_000)
"""The respondents of Table 5, which prints thousands, with 1000 in place of 300."""

N = 100_000
"""The respondents of Table 4 and of all figures that do not vary them."""

EPSILON = 2.0
"""The budget of Table 5 and of Figures 11 to 13."""

PARTIES = 100
"""Over how many parties the respondents of a run by messages are spread."""

SETTING = (
    "PrivKV spends half of epsilon on the key and half on the value; EM works on the same reports. "
    "PrivKVM perturbs the key once with half of epsilon, and shares the other half among 3 rounds",
    "every run draws n respondents from the population, and counts of their reports by their exact "
    "law; in PrivKVM the same respondents report in every round",
    "EM is the paper's, of four states and a tolerance of 1e-4; PrivKV and PrivKVM estimate by "
    "moments, means clipped to [-1, 1] and frequencies signed: clipped, their errors at small "
    "budgets and few respondents would be about half of the printed ones",
)

UNIT = 1e-4
"""Unit in which the errors of Tables 4 and 5 are printed."""

KEY_EPSILON = 4.0
"""The budget of the figures of all keys."""

KEYS = (4, 5, 6)
"""The figures of all keys."""

MOVIES: Mapping[int, str] = {7: "frequencies", 8: "means"}

MOVIELENS_USERS = 69_877
"""The users of the set that the paper has, by its Table 3."""

NAMES = {
    "em": "EM",
    "privkv": "PrivKV",
    "privkvm": "PrivKVM",
    "epsilon": "epsilon of a respondent",
}


class Movies(msgspec.Struct, frozen=True, kw_only=True):
    """The parameter of Figures 7 and 8."""

    respondents: Annotated[
        int,
        Meta(ge=1, le=10_000_000, description="of Figures 7 and 8, drawn from MovieLens' users"),
    ] = MOVIELENS_USERS


def _statistics(asked: Asked[Nothing]) -> Sample:
    """Table 2: the exact statistics of a synthetic population."""
    names = ("E(f)", "Var(f)", "E(m)", "Var(m)")
    population = synthetic(asked.cell["population"])
    wrong = "The exact E(m) is 2 E(f) - 1 = -0.586804: the paper's last digit is one more."
    return Sample.of(
        dict(zip(names, population.statistics(), strict=True)),
        keys=len(population.keys),
        remark=wrong if population.name == "Power-law" else "",
    )


# Tables 4 and 5, and the figures


class Setting(NamedTuple):
    """Respondents and their budget."""

    population: KeyPopulation
    epsilon: float
    n: int


def _setting(cell: Mapping[str, Any]) -> Setting:
    epsilon = KEY_EPSILON if cell.get("figure") in KEYS else EPSILON
    return Setting(synthetic(cell["population"]), cell.get("epsilon", epsilon), cell.get("n", N))


def _estimates(asked: Asked[Any], of: Setting) -> Mapping[Method, Estimated]:
    """Estimates of each method in every run; by messages, EM and PrivKV in one."""
    population, epsilon, n = of
    if not asked.live:
        draws = asked.generator()
        return estimated(population, epsilon=epsilon, n=n, runs=asked.runs, generator=draws)
    records = population.records(n, np.random.default_rng(asked.context.seed))
    variant = PrivKVVariant(survey=records.survey, epsilon=epsilon)
    counts = variant.estimate(asked.simulate(variant, records, PARTIES).result).counts
    each = variant.client.each
    return {"em": em(counts, each), "privkv": moment(counts, each)}


def _frequencies(asked: Asked[Nothing]) -> dict[str, Any]:
    of = _setting(asked.cell)
    randomizer = PrivKV.with_budget(len(of.population.keys), epsilon=of.epsilon)
    errors: dict[str, Any] = {
        method: squared_errors(estimate.frequencies, of.population.frequencies) / UNIT
        for method, estimate in _estimates(asked, of).items()
    }
    expected = expected_squared_error(of.population, randomizer, of.n) / UNIT
    return errors | {"expected of both moments": expected}


@functools.lru_cache(maxsize=2)
def _movielens(data: Path | str | None) -> KeyPopulation:
    return movielens(data).population()


def _means(asked: Asked[Movies]) -> dict[str, Any] | list[Sample]:
    """Means at one point of a figure, or of all keys."""
    cell, figure = asked.cell, asked.cell["figure"]
    if figure not in MOVIES:
        of = _setting(cell)
    elif asked.live:
        raise UsageError("by messages, expected a figure of a synthetic population, not 7 or 8")
    else:
        of = Setting(_movielens(asked.data), cell["epsilon"], asked.parameters.respondents)
    found = _estimates(asked, of)
    if figure in KEYS:
        samples = []
        for key, true in enumerate(of.population.means):
            of_key: dict[str, Any] = {name: one.means[:, key] for name, one in found.items()}
            samples.append(Sample.of({**of_key, "true": true}, key=key + 1))
        return samples
    what = MOVIES.get(figure, "means")
    truth = getattr(of.population, what)
    distances = {m: np.abs(getattr(estimate, what) - truth) for m, estimate in found.items()}
    if asked.reading == "corrected":
        # A key counts where every method has an estimate of it.
        known = ~np.isnan(sum(distances.values()))
        distances = {name: np.where(known, of, np.nan) for name, of in distances.items()}
    return {name: mean_of_known(of) for name, of in distances.items()}


# Formulas


def _table(asked: Asked[Nothing]) -> dict[str, Any]:
    """Definition 1, Table 1 and the posterior of section 3.2."""
    epsilon = asked.cell["epsilon"]
    randomizer = PrivKV.with_budget(1, epsilon=epsilon)
    first = math.exp(epsilon / 2) / (1 + math.exp(epsilon / 2))
    one, none = [first**2, first * (1 - first), 1 - first], [first * (1 - first), (1 - first) ** 2]
    # Its rows are the states <1,1>, <1,-1>, <0,1>, <0,-1>, its columns <1,1>, <1,-1>, <0,0>.
    printed = np.array([one, [one[1], one[0], one[2]], [*none, first], [none[1], none[0], first]])
    law = table_1(randomizer)[:, [PLUS, MINUS, ABSENT]]
    return {
        "largest distance from Table 1": np.abs(law - printed).max(),
        "posterior of <1,1> given <1,1>": law[0, 0] / law[:, 0].sum(),
        "epsilon of a report": randomizer.epsilon,
        "epsilon of the paper": randomizer.charged,
    }


def _check_recovery(asked: Asked[Nothing]) -> dict[str, Any]:
    """Theorem 1: frequencies and means from expected counts, by each estimate."""
    population, epsilon = synthetic(asked.cell["data"]), asked.cell["epsilon"]
    randomizer = PrivKV.with_budget(len(population.keys), epsilon=epsilon)
    counts = symbol_law(population, randomizer) * 1e6
    found: dict[str, Estimated] = {
        "EM": em(counts, randomizer),
        "PrivKV": moment(counts, randomizer),
        "maximum likelihood": maximum_likelihood(counts, randomizer),
    }
    return {
        f"{what}, {name}": np.abs(getattr(of, what) - getattr(population, what)).max()
        for name, of in found.items()
        for what in ("frequencies", "means")
    }


def _virtual(asked: Asked[Nothing]) -> dict[str, Any]:
    """Means after virtual rounds, which the aggregator computes by itself."""
    population, virtual = synthetic(asked.cell["data"]), asked.cell["virtual"]
    randomizer = PrivKV.with_budget(len(population.keys), epsilon=asked.cell["epsilon"])
    # Every number of rounds works on the same reports.
    seeds = (asked.seed, SYNTHETIC.index(asked.cell["data"]), asked.seeds[-1])
    counts = drawn_counts(population, randomizer, N, np.random.default_rng(seeds), runs=asked.runs)
    found = {
        "MSE of means": moment(counts, randomizer, virtual=virtual),
        "debiased": moment(counts, randomizer, debias=True),
        "maximum likelihood": maximum_likelihood(counts, randomizer),
    }
    errors = {name: squared_errors(of.means, population.means) for name, of in found.items()}
    expected = symbol_law(population, randomizer) * N
    exactly = moment(expected, randomizer, virtual=virtual, clip=False).means
    return errors | {"bias, squared": ((exactly - population.means) ** 2).mean()}


SAME_KEYS = (
    "Figure 8: with the printed reading, where each method is averaged over the keys of which it "
    "has an estimate itself, EM's errors are of other keys than PrivKV's, and smaller for that"
)

SCENARIOS = experiment_scenarios(
    Experiment(
        name="privkv-table-2",
        summary="EM for PrivKV, Table 2: statistics of the synthetic populations.",
        cells=grid(population=SYNTHETIC),
        measure=_statistics,
        notes=(
            "mean and variance over the keys of frequencies f and means m",
            "the populations are those that give these figures: f = exp(-(k-25)^2/200), "
            "f = (1+0.1x)^-11 for x = 0, 0.1, .., 4.9, both with m = 2f-1, and f = k/50 with m "
            "from -1 to 1; with the text's exponent of -11/10 the power law's do not come out",
        ),
    ),
    *(
        Experiment(
            name=f"privkv-table-{number}",
            summary=f"EM for PrivKV, Table {number}: squared errors of frequencies by {words}.",
            cells=grid(population=SYNTHETIC, **axis),
            measure=_frequencies,
            live=True,
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
        measure=_means,
        live=True,
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
                **{f"figure {figure}": "mean of a key" for figure in KEYS},
                **{f"figure {figure}": f"distance of {of}" for figure, of in MOVIES.items()},
            },
        ),
    ),
    Experiment(
        name="privkv-table-1",
        summary="EM for PrivKV, Table 1: the law of a report, its posterior and its epsilon.",
        cells=grid(epsilon=(0.5, 1.0, 2.0, 4.0)),
        measure=_table,
        notes=(
            "The text has p_1 q_1 for the probability of <1,1> given <1,1>, and "
            "e^eps/(1 + eps) for p; Table 1 and its worked posterior have p_1 p_2 and "
            "e^eps/(1 + e^eps)",
        ),
        picture=Picture(
            title="A report costs less than the paper charges",
            figures=("epsilon of a report", "epsilon of the paper"),
            axis="epsilon of a report",
            names={"epsilon of a report": "true cost"},
        ),
    ),
    Experiment(
        name="privkv-theorem-1",
        summary="EM for PrivKV, Theorem 1: what the estimates make of expected counts.",
        cells=grid(data=SYNTHETIC, epsilon=(1.0, 4.0)),
        measure=_check_recovery,
        notes=(
            "the largest errors over 50 keys without any sampling; what is left is bias. In "
            "PrivKV's means fakes count as values, and EM's four states cannot be told apart",
        ),
        picture=Picture(
            title="EM and PrivKV have biased means",
            figures=("means, EM", "means, PrivKV"),
            axis="largest bias of a mean",
        ),
    ),
    Experiment(
        name="privkv-virtual",
        summary="PrivKV: means after rounds of PrivKVM that nobody is asked in.",
        cells=grid(data=SYNTHETIC, epsilon=(4.0,), virtual=(0, 1, 2, 5, 20)),
        measure=_virtual,
        runs=20,
        notes=(
            "n = 100,000; debiased is the limit of many virtual rounds; the bias is that of "
            "expected counts, unclipped",
        ),
        picture=Picture(
            title="Virtual rounds take the fakes out of the means",
            conditions="n = 100,000, epsilon 4",
            figures=("MSE of means",),
            names={"virtual": "virtual rounds", "MSE of means": "squared error of means"},
        ),
    ),
)
