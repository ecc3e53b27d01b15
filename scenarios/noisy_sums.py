"""A town's tables in sums, exact and with noise, beside those of the best local protocol.

One survey is held by messages, with coins. Beside it stand the errors of many surveys by law, by
the number of respondents and epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np
from msgspec import Meta

from protocol.crypto.randomness import Stream
from protocol.errors import ProtocolError
from protocol.estimators.estimate import Estimate
from protocol.estimators.inference.laws import About
from protocol.randomizers.exact import Floats
from protocol.session.variant import Epsilon, Variant
from protocol.sharing.sums import SecureSum
from protocol.simulation.populations.everybody import ask_everybody
from protocol.surveys.records import Records
from protocol.surveys.survey import Survey
from protocol.variants import BUILT_IN, PairCounts, PairRR, RRClusters, SecureSumVariant
from protocol.variants.sums.tallies import Counted, Tallied
from scenarios.data.town import TOWN, town, town_distribution, town_population
from scenarios.designing.assumed import Shares
from scenarios.designing.candidates import Candidate, Wanted, variant_candidates
from scenarios.designing.predicting import NotEstimatedError, predict
from scenarios.designing.summing import rests_on
from scenarios.designing.targets import Target, parse_target
from scenarios.running.parameters import Positive, parameters_checked, settable
from scenarios.running.scenario import Context, Finished, Scenario
from scenarios.wording.formatting import count

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NUMBERS = (1_000, 20_000)
EPSILONS = (1.0, 4.0)
"""Epsilons at which errors are measured by law."""

How: TypeAlias = Literal["exact", "coins", "summed RR", "local"]
HOWS: tuple[How, ...] = ("exact", "coins", "summed RR", "local")


class NoisySums(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of the comparison.

    Args:
        tables: whose errors are measured: pairs or margins.
        epsilon: of a respondent in the survey by messages, if enough parties are honest.
        delta: with which probability an epsilon need not hold that rests on honest others.
        residents: who answer in the survey by messages.
        parties: over how many they are spread.
        surveys: how many are drawn by law for each error.
    """

    tables: Literal["pairs", "margins"] = "pairs"
    epsilon: Epsilon = 1.0
    delta: Annotated[float, Meta(gt=0, lt=1)] = 1e-6
    residents: Positive = 400
    parties: Positive = 20
    surveys: Positive = 10


class Error(NamedTuple):
    """The root mean squared error of a share over all cells of the tables and all runs.

    Args:
        about: whose shares are estimated.
        measured: the error.
        spread: its standard error; NaN of one run.
        predicted: the same by the estimator's own closed form.
    """

    about: About
    measured: float
    spread: float
    predicted: float


class Case(NamedTuple):
    """A way to ask so many, each of them a party.

    Args:
        how: the way.
        n: how many respondents.
        epsilon: of each; NaN where none bounds what is told.
        candidate: the variant, and what its epsilon rests on.
    """

    how: How
    n: int
    epsilon: float
    candidate: Candidate

    @property
    def variant(self) -> Variant:
        """Variant of this case."""
        assert self.candidate.variant is not None
        return self.candidate.variant


@dataclass(frozen=True, slots=True)
class Town(Shares):
    """The distribution that residents are drawn from."""

    survey: Survey = TOWN
    says: str = "the answers have the distribution of the town"

    def margin(self, names: Sequence[str]) -> Floats:
        axes = TOWN.axes(names)
        others = tuple(axis for axis in range(len(TOWN.names)) if axis not in axes)
        summed: Floats = town_distribution().sum(axis=others)
        kept = sorted(axes)
        table: Floats = summed.transpose([kept.index(axis) for axis in axes])
        return table

    def records(self, n: int) -> Records:
        return town(n, 1)


def list_cases(tables: Target, delta: float, n: int, epsilon: float) -> list[Case]:
    """The ways to ask so many at an epsilon; exact sums are the same at every one.

    Raises:
        ValueError: one cannot be set up.
    """
    wanted = Wanted(TOWN, epsilon, tables, n, delta=delta)
    counts = PairCounts if tables.ways > 1 else SecureSumVariant
    coins, exact = variant_candidates(counts, wanted)
    found = [
        Case("coins", n, epsilon, coins),
        Case("local", n, epsilon, best_local(wanted, n)),
    ]
    if tables.ways > 1:
        _, summed = variant_candidates(PairRR, wanted)
        found.append(Case("summed RR", n, epsilon, summed))
    if epsilon == EPSILONS[0]:
        found.append(Case("exact", n, math.nan, exact))
    for case in found:
        if case.candidate.variant is None:
            raise ValueError(case.candidate.why)
    return sorted(found, key=lambda case: HOWS.index(case.how))


def best_local(wanted: Wanted, n: int) -> Candidate:
    """Candidate of the least predicted error that holds whoever conspires and sums nothing."""
    errors: dict[Candidate, float] = {}
    for cls in BUILT_IN.values():
        if issubclass(cls, Tallied | RRClusters):
            continue
        for candidate in variant_candidates(cls, wanted._replace(delta=None)):
            error = _predict(candidate.variant, n, wanted.target, "respondents")
            if not math.isnan(error):
                errors[candidate] = error
    return min(errors, key=lambda candidate: errors[candidate])


def _predict(variant: Variant | None, n: int, tables: Target, about: About) -> float:
    """Error by the closed form; NaN if there is none."""
    if variant is None:
        return math.nan
    try:
        found = predict(variant, n, tables, Town(), about=about)
    except (NotEstimatedError, ProtocolError):
        return math.nan
    return math.nan if found is None else found.rmse


def draw_estimate(variant: Variant, records: Records, *, parties: int, seed: int) -> Estimate:
    """The estimate of a survey in which everybody answers, drawn by its law without messages.

    Args:
        variant: how they are asked.
        records: of everybody.
        parties: who add coins.
        seed: decides all randomness.
    """
    result = ask_everybody(variant, records, seed=seed, parties=parties)
    return variant.estimate(result)


def measure_errors(case: Case, tables: Target, *, runs: int, stream: Stream) -> tuple[Error, Error]:
    """The errors about those who answer, and about the town that they are drawn from."""
    town_law, population = Town(), town_population()
    squares: list[tuple[float, float]] = []
    for run in range(runs):
        own = stream.derive(str(run))
        records = population.draw(case.n, own.derive("people"))
        [seed] = own.derive("seed").integers(2**63, 1).tolist()
        estimate = draw_estimate(case.variant, records, parties=case.n, seed=seed)
        off: list[list[Floats]] = [[], []]
        for names in tables.tables:
            shares = estimate.table(*names).values
            for each, true in zip(
                off, (records.distribution(names), town_law.margin(names)), strict=True
            ):
                each.append(np.square(shares - true).reshape(-1))
        about_all, about_town = (float(np.concatenate(each).mean()) for each in off)
        squares.append((about_all, about_town))
    found: list[Error] = []
    sides: tuple[About, About] = ("respondents", "population")
    for about, column in zip(sides, np.array(squares).T, strict=True):
        error = math.sqrt(float(column.mean()))
        spread = math.nan
        if runs > 1 and error:
            spread = float(np.std(column, ddof=1)) / math.sqrt(runs) / (2 * error)
        found.append(Error(about, error, spread, _predict(case.variant, case.n, tables, about)))
    return found[0], found[1]


def run(parameters: NoisySums, context: Context) -> Finished:
    """Hold a survey with coins by messages, and draw many of every kind by law."""
    tables = parse_target(TOWN, parameters.tables)
    counts: type[Counted] = PairCounts if parameters.tables == "pairs" else SecureSumVariant
    with parameters_checked():
        variant = counts.with_noise(
            TOWN,
            epsilon=parameters.epsilon,
            delta=parameters.delta,
            parties=parameters.parties,
            sums=SecureSum(),
        )
        rests = rests_on(variant, parameters.parties, parameters.delta)
        cases = [
            case
            for n in NUMBERS
            for epsilon in EPSILONS
            for case in list_cases(tables, parameters.delta, n, epsilon)
        ]
    people = town(parameters.residents, context.seed)
    context.drawn(people, town_population())
    outcome = context.simulate(variant, people, parties=parameters.parties)
    found = [
        (
            case,
            *measure_errors(
                case, tables, runs=parameters.surveys, stream=context.stream(f"case {place}")
            ),
        )
        for place, case in enumerate(cases)
    ]
    return Finished(
        outcome=outcome,
        rows=[_row(*each) for each in found],
        notes=(rests, *_notes(found, parameters)),
        plot=lambda figure: _draw(figure, found, parameters),
    )


def _row(case: Case, respondents: Error, population: Error) -> dict[str, str | float | None]:
    among = case.candidate.among
    by = f": {case.variant.name}" if case.how == "local" else ""
    return {
        "n": case.n,
        "epsilon": None if math.isnan(case.epsilon) else case.epsilon,
        "how": f"{case.how}{by}",
        "error ‰": 1000 * respondents.measured,
        "±": None if math.isnan(respondents.spread) else 1000 * respondents.spread,
        "formula": 1000 * respondents.predicted,
        "population": 1000 * population.measured,
        "if honest": None if among is None else among.honest,
    }


def _error_at(found: Sequence[tuple[Case, Error, Error]], how: How, n: int, side: int) -> float:
    """Error measured at the smallest epsilon."""
    errors = (of[side] for case, *of in found if (case.how, case.n) == (how, n))
    return next(errors).measured


def _notes(found: Sequence[tuple[Case, Error, Error]], parameters: NoisySums) -> tuple[str, ...]:
    n = NUMBERS[-1]
    coins, local = (_error_at(found, how, n, 0) for how in ("coins", "local"))
    around, sampled = (_error_at(found, how, n, 1) for how in ("coins", "exact"))
    far = _error_at(found, "local", n, 1)
    some = next(case for case, *_ in found if case.how == "coins" and case.n == n)
    among = some.candidate.among
    assert among is not None
    sums = some.variant.sums if isinstance(some.variant, Counted) else SecureSum()
    corrupt = n - sums.withstands(n).missing - among.honest
    return (
        f"error ‰: of a share of the {parameters.tables}, in thousandths: root mean squared over "
        f"all cells and {count(parameters.surveys, 'survey')} by law, about those who "
        "answered, each a party of her own. formula: the same, predicted. population: about the "
        "town, so that it holds what a sample is off by. summed RR: every pair randomized, and "
        "charged as a sum. local: the protocol of the least predicted error that sums nothing.",
        f"if honest: the epsilon holds at delta {parameters.delta:g} if so many parties are honest "
        "and stay; a local protocol's holds whoever conspires, and none bounds exact sums.",
        f"At epsilon {EPSILONS[0]:g} the tables of {n:,} answers are right to 1 in "
        f"{1 / coins:,.0f} with coins, if at most {corrupt:,} of the others conspire, and to 1 in "
        f"{1 / local:,.0f} by the best local protocol. If all others conspire, nothing bounds "
        "what coins tell.",
        f"About a population such a sample is off by {sampled:.2g} without any noise, so it gains "
        f"less there: {far:.2g} becomes {around:.2g}.",
    )


def _draw(
    figure: Figure, found: Sequence[tuple[Case, Error, Error]], parameters: NoisySums
) -> None:
    from scenarios.report.pictures.curves import Curve, Point, plot_curves

    curves = [
        Curve(
            f"{how}, {n:,}",
            [(case.epsilon, error.predicted) for case, error, _ in of],
            [Point(case.epsilon, error.measured, error.spread) for case, error, _ in of],
        )
        for n in NUMBERS
        for how in HOWS
        for of in ([each for each in found if each[0].how == how and each[0].n == n],)
        if of and how != "exact"
    ]
    n = NUMBERS[-1]
    coins, local = (_error_at(found, how, n, 0) for how in ("coins", "local"))
    plot_curves(
        curves,
        title=f"With coins the error of {n:,} answers is {local / coins:,.0f} times smaller at "
        f"ε {EPSILONS[0]:g}, if enough others are honest",
        label=f"error of a share of the {parameters.tables}",
        notes=(
            "about those who answer",
            f"coins, summed RR: at delta {parameters.delta:g}",
        ),
    )(figure)


SCENARIOS = (
    Scenario(
        name="noisy-sums",
        summary="A town's tables in sums, exact and with noise, and by the best local protocol.",
        parameters=settable(NoisySums),
        run=run,
        joint=False,
    ),
)

if __name__ == "__main__":
    from scenarios.cli import script

    script(__file__)
