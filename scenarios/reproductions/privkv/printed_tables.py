"""Tables 2, 4 and 5 of the EM paper on PrivKV: its synthetic data, and frequencies' squared errors.

Horigome, Kikuchi and Yu, Expectation-Maximization Estimation for Key-Value Data Randomized with
Local Differential Privacy, sections 4.2 and 4.4.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np

from protocol.randomizers.keyvalue import PrivKV
from scenarios.datasets.keyvalue import SYNTHETIC, Synthetic, synthetic
from scenarios.report.plots import plot_rows
from scenarios.reproductions.privkv.shared import (
    EPSILON,
    EPSILONS,
    LIVE,
    METHODS,
    RESPONDENTS,
    SETTING,
    N,
    estimated,
    expected_squared_error,
    live,
    squared_errors,
    standard_errors,
)
from scenarios.running.reproduction import Reproduced, Row, Runs, refuse_messages
from scenarios.running.scenario import Context, Scenario

UNIT = 1e-4
"""What the errors of Tables 4 and 5 are printed in."""

Printed: TypeAlias = tuple[float, float, float]

TABLE_2: Mapping[Synthetic, tuple[float, float, float, float]] = {
    "Gaussian": (0.49506, 0.10926, -0.00987, 0.43702),
    "Power-law": (0.20660, 0.062901, -0.58681, 0.25160),
    "Linear": (0.51, 0.08330, 0.0, 0.34694),
}

TABLE_4: Mapping[Synthetic, tuple[Printed, ...]] = {
    "Gaussian": (
        (756.682, 1921.743, 1472.772),
        (63.996, 84.629, 75.394),
        (18.076, 22.588, 26.213),
        (2.018, 2.324, 2.508),
        (1.147, 1.320, 1.173),
    ),
    "Power-law": (
        (671.251, 2170.253, 1851.214),
        (55.478, 84.833, 62.403),
        (18.579, 19.274, 23.183),
        (1.591, 2.587, 2.420),
        (0.973, 1.019, 0.992),
    ),
    "Linear": (
        (602.837, 1885.284, 1462.740),
        (70.346, 92.988, 82.795),
        (16.023, 20.174, 18.440),
        (2.523, 2.790, 2.597),
        (1.283, 1.429, 1.280),
    ),
}

TABLE_5: Mapping[Synthetic, tuple[Printed, ...]] = {
    "Gaussian": (
        (476.259, 527.912, 612.903),
        (107.263, 110.045, 137.269),
        (36.087, 51.430, 62.515),
        (4.636, 4.766, 6.249),
        (1.410, 1.597, 1.556),
    ),
    "Power-law": (
        (346.709, 543.281, 424.728),
        (72.823, 99.442, 95.245),
        (39.235, 51.116, 62.976),
        (4.876, 5.498, 5.254),
        (0.760, 1.181, 1.094),
    ),
    "Linear": (
        (404.467, 538.943, 733.468),
        (89.922, 118.344, 113.040),
        (54.166, 69.999, 56.959),
        (5.619, 7.404, 6.158),
        (0.974, 1.493, 1.041),
    ),
}


class Exact(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What can be set for Table 2, in which nothing is drawn."""

    runs: Runs = 1


class Parameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What can be set."""

    runs: Runs = 10


def table_2(parameters: Exact, context: Context) -> Reproduced:
    """The synthetic populations' exact statistics."""
    refuse_messages("privkv-table-2", context.by_messages)
    names = ("E(f)", "Var(f)", "E(m)", "Var(m)")
    rows = tuple(
        Row(
            settings={"population": name, "keys": len(population.keys)},
            measured=dict(zip(names, population.statistics(), strict=True)),
            printed=dict(zip(names, TABLE_2[name], strict=True)),
            remark="The exact E(m) is 2 E(f) - 1 = -0.586804: the paper's last digit is one more."
            if name == "Power-law"
            else "",
        )
        for name, population in ((name, synthetic(name)) for name in SYNTHETIC)
    )
    context.progress(len(rows), len(rows))
    return Reproduced(
        reproduction="privkv-table-2",
        runs=parameters.runs,
        rows=rows,
        notes=(
            "exact: nothing is drawn; mean and variance over the keys of frequencies f and means m",
            "the populations are those that give these figures: f = exp(-(k-25)^2/200), "
            "f = (1+0.1x)^-11 for x = 0, 0.1, .., 4.9, both with m = 2f-1, and f = k/50 with m "
            "from -1 to 1; with the text's exponent of -11/10 the power law's do not come out",
        ),
    )


class _Place(NamedTuple):
    """One row's setting."""

    name: str
    epsilon: float
    n: int
    shown: Mapping[str, float]
    printed: Mapping[Synthetic, tuple[Printed, ...]]
    line: int


def _places(number: int) -> tuple[_Place, ...]:
    if number == 4:
        return tuple(
            _Place("privkv-table-4", epsilon, N, {"epsilon": epsilon}, TABLE_4, line)
            for line, epsilon in enumerate(EPSILONS)
        )
    return tuple(
        _Place("privkv-table-5", EPSILON, n, {"n": n}, TABLE_5, line)
        for line, n in enumerate(RESPONDENTS)
    )


def _errors(number: int, parameters: Parameters, context: Context) -> Reproduced:
    places = _places(number)
    name = places[0].name
    if context.by_messages:
        return _live(places[-1], context)
    rows, expected = [], []
    for column, model in enumerate(SYNTHETIC):
        population = synthetic(model)
        truth = population.frequencies
        for place in places:
            generator = np.random.default_rng((context.seed, number, column, place.line))
            found = estimated(
                population,
                epsilon=place.epsilon,
                n=place.n,
                runs=parameters.runs,
                generator=generator,
            )
            errors = {
                method: squared_errors(found[method].frequencies, truth) / UNIT
                for method in METHODS
            }
            rows.append(
                Row(
                    settings={"population": model, **place.shown},
                    measured={method: float(of.mean()) for method, of in errors.items()},
                    standard_error=standard_errors(errors),
                    printed=dict(zip(METHODS, place.printed[model][place.line], strict=True)),
                )
            )
            randomizer = PrivKV.with_budget(len(population.keys), epsilon=place.epsilon)
            expected.append(expected_squared_error(population, randomizer, place.n) / UNIT)
            context.progress(len(rows), len(SYNTHETIC) * len(places))
    return Reproduced(
        reproduction=name,
        runs=parameters.runs,
        rows=tuple(rows),
        notes=(
            "mean squared errors of frequencies over the 50 keys, in units of 1e-4; standard "
            "errors are over the runs",
            *SETTING,
            "PrivKV and PrivKVM randomize keys alike, so the errors of their frequencies have one "
            "law. Its mean in closed form is, row by row: "
            + ", ".join(f"{value:.4g}" for value in expected)
            + "; printed ones of PrivKVM that differ by more than chance are not of this law",
            "the printed figures are means of 10 runs, with standard errors of their own like "
            "those of 10 runs here",
        ),
        plot=plot_rows(rows, x=next(iter(places[0].shown)), label="MSE(f) in 1e-4", title=name),
    )


def _live(place: _Place, context: Context) -> Reproduced:
    """The last row of the first population."""
    model = SYNTHETIC[0]
    population = synthetic(model)
    outcome, found = live(population, epsilon=place.epsilon, n=place.n, context=context)
    printed = dict(zip(METHODS, place.printed[model][place.line], strict=True))
    errors = {
        method: squared_errors(of.frequencies, population.frequencies) / UNIT
        for method, of in found.items()
    }
    row = Row(
        settings={"population": model, **place.shown},
        measured={method: float(of.mean()) for method, of in errors.items()},
        standard_error=dict.fromkeys(errors, math.nan),
        printed={method: printed[method] for method in errors},
    )
    return Reproduced(reproduction=place.name, runs=1, rows=(row,), notes=(LIVE,), outcome=outcome)


def table_4(parameters: Parameters, context: Context) -> Reproduced:
    """Frequencies' errors by epsilon, with 100,000 respondents.

    By messages, the Gaussian population once, at the largest epsilon.
    """
    return _errors(4, parameters, context)


def table_5(parameters: Parameters, context: Context) -> Reproduced:
    """Frequencies' errors by the number of respondents, with epsilon 2.

    By messages, the Gaussian population once, with the most respondents.
    """
    found = _errors(5, parameters, context)
    return Reproduced(
        reproduction=found.reproduction,
        runs=found.runs,
        rows=found.rows,
        notes=(
            *found.notes,
            "the paper heads its column with 10^4 and prints 1, 5, 10, 100 and 1000; the errors "
            "are those of 1, 5, 10, 100 and 300 thousand respondents, as the text's largest n says",
        ),
        plot=found.plot,
        outcome=found.outcome,
    )


SCENARIOS = (
    Scenario(
        name="privkv-table-2",
        summary="EM for PrivKV, Table 2: statistics of the synthetic populations.",
        parameters=Exact,
        run=table_2,
    ),
    Scenario(
        name="privkv-table-4",
        summary="EM for PrivKV, Table 4: squared errors of frequencies by epsilon.",
        parameters=Parameters,
        run=table_4,
    ),
    Scenario(
        name="privkv-table-5",
        summary="EM for PrivKV, Table 5: squared errors of frequencies by respondents.",
        parameters=Parameters,
        run=table_5,
    ),
)
