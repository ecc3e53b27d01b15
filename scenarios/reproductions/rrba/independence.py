"""Table 4 of RRBA: tests of independence on binary tables of two, three and four attributes.

Randomized Response Block Aggregation (RRBA), sections 6 and 7.3.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, NamedTuple, TypeAlias

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from protocol.estimators.dependence.association import (
    TestResult,
    naive_test,
    noise_aware_test,
    unmixed_counts,
)
from protocol.randomizers.exact import Floats
from protocol.surveys.records import Records
from protocol.surveys.survey import Attribute, Survey
from scenarios.report.plots import plot_rows
from scenarios.reproductions.rrba.association import monte_carlo_test, share_error
from scenarios.reproductions.rrba.baselines import Scale, laplace_tables, mcindep
from scenarios.reproductions.rrba.block_laws import Trials, sampled_blocks
from scenarios.reproductions.rrba.shared import MIX, Mix, keep_at, run_rrba, true_epsilon
from scenarios.running.reproduction import Reproduced, Row, Runs
from scenarios.running.scenario import Context, Scenario

LEVEL = 0.05
WAYS = (2, 3, 4)
MARGIN = 0.6
"""The share of the first value of every attribute; the paper does not say how tables are made."""

PRINTED: Mapping[str, tuple[tuple[float, float, float], ...]] = {
    "Laplace": ((0.68, 0.65, 0.665), (0.55, 0.59, 0.57), (0.50, 0.59, 0.545)),
    "MCIndep": ((0.94, 0.95, 0.945), (0.94, 0.93, 0.935), (0.92, 0.91, 0.915)),
    "RRBA": ((0.96, 0.97, 0.965), (0.94, 0.94, 0.94), (0.93, 0.94, 0.935)),
}
"""For two, three and four ways: H0 rejected where it is wrong, accepted where it is right, the
accuracy."""

FIGURES = ("rejects a wrong H0", "accepts a right H0", "accuracy")


class Parameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What can be set. The paper says neither how many respondents there are nor how far from
    independent the tables of the alternative; it has 100 trials.
    """

    runs: Runs = 400
    n: Annotated[int, Meta(ge=100, le=10_000_000, description="respondents")] = 8000
    block: Annotated[int, Meta(ge=1, description="respondents of a block")] = 250
    v: Annotated[
        float, Meta(gt=0, le=1, description="Cramer's V of every pair where H0 is wrong")
    ] = 0.1
    p: Annotated[float, Meta(gt=0, lt=1, description="keep probability")] = 0.5
    epsilon: Annotated[float, Meta(gt=0, le=20, description="of the Laplace noise")] = 0.25
    mix: Mix = MIX
    draws: Annotated[int, Meta(ge=20, description="tables that a test draws to compare")] = 199


class Setting(NamedTuple):
    """What all methods are asked about.

    Args:
        law: of the answers, one axis of 2 values per attribute.
        parameters: of the experiment.
        generator: decides all draws.
    """

    law: Floats
    parameters: Parameters
    generator: np.random.Generator

    @property
    def ways(self) -> int:
        """The number of attributes."""
        return self.law.ndim


Test: TypeAlias = Callable[[Setting], TestResult]


def law_of(ways: int, v: float) -> Floats:
    """Binary attributes with one margin each, every pair of them with Cramer's V equal to v.

    With probability v all attributes have one value, drawn once; else each draws its own.
    """
    margin = np.array([MARGIN, 1 - MARGIN])
    independent = functools.reduce(np.multiply.outer, [margin] * ways)
    law: Floats = (1 - v) * independent
    for value in range(2):
        law[(value,) * ways] += v * margin[value]
    return law


def _sampled(setting: Setting) -> NDArray[np.int64]:
    """Exact tables, (runs, 2, ...)."""
    p = setting.parameters
    drawn = setting.generator.multinomial(p.n, setting.law.reshape(-1), size=p.runs)
    return np.asarray(drawn.reshape(p.runs, *setting.law.shape), np.int64)


def _laplace(setting: Setting, scale: Scale) -> TestResult:
    p, ways = setting.parameters, setting.ways
    noisy = laplace_tables(_sampled(setting), p.epsilon, setting.generator, scale=scale, ways=ways)
    return naive_test(noisy, p.n, ways=ways)


def _mcindep(setting: Setting, scale: Scale) -> TestResult:
    p, ways, generator = setting.parameters, setting.ways, setting.generator
    noisy = laplace_tables(_sampled(setting), p.epsilon, generator, scale=scale, ways=ways)
    return mcindep(
        noisy,
        p.n,
        p.epsilon,
        generator,
        scale=scale,
        ways=ways,
        draws=p.draws,
        rule="fewer-than-5",
    )


class Reports(NamedTuple):
    """What the aggregator has in every run.

    Args:
        counts: of the reports, (runs, 2, ...).
        fakes: the mean of the tables that fakes came from, of the same shape.
        keep: the keep probability.
    """

    counts: NDArray[np.int64]
    fakes: Floats
    keep: float


def _reports(setting: Setting, keep: float, mix: float) -> Reports:
    p, law = setting.parameters, setting.law.reshape(-1)
    trials = Trials((p.runs,), law.size, keep=keep, mix=mix, generator=setting.generator)
    whole, rest = divmod(p.n, p.block)
    laws = np.broadcast_to(law, (p.runs, law.size))
    for size, blocks in ((p.block, whole), (rest, min(rest, 1))):
        for true in sampled_blocks(laws, size, setting.generator, blocks=blocks):
            trials.ask(true)
    shape = (p.runs, *setting.law.shape)
    return Reports(trials.counts.reshape(shape), trials.fakes.reshape(shape), keep)


def _monte_carlo(setting: Setting) -> TestResult:
    found = _reports(setting, setting.parameters.p, setting.parameters.mix)
    return monte_carlo_test(
        found.counts,
        keep=found.keep,
        generator=setting.generator,
        fakes=found.fakes,
        ways=setting.ways,
        draws=setting.parameters.draws,
        rule="fewer-than-5",
    )


def _noise_aware(setting: Setting) -> TestResult:
    found = _reports(setting, setting.parameters.p, setting.parameters.mix)
    return noise_aware_test(found.counts, keep=found.keep, fakes=found.fakes, ways=setting.ways)


def _naive(setting: Setting) -> TestResult:
    found = _reports(setting, setting.parameters.p, setting.parameters.mix)
    raw = unmixed_counts(found.counts, keep=found.keep, fakes=found.fakes, ways=setting.ways)
    return naive_test(raw, setting.parameters.n, ways=setting.ways)


def _same_epsilon(setting: Setting) -> TestResult:
    found = _reports(setting, keep_at(setting.parameters.epsilon, setting.law.size), 1.0)
    return noise_aware_test(found.counts, keep=found.keep, ways=setting.ways)


METHODS: Mapping[str, Test] = {
    "Laplace": functools.partial(_laplace, scale="central"),
    "Laplace, paper's scale": functools.partial(_laplace, scale="paper"),
    "MCIndep": functools.partial(_mcindep, scale="central"),
    "MCIndep, paper's scale": functools.partial(_mcindep, scale="paper"),
    "RRBA": _monte_carlo,
    "RRBA, noise-aware": _noise_aware,
    "RRBA, naive": _naive,
    "RRBA at the true epsilon": _same_epsilon,
}

_REMARKS = {
    "Laplace": "With the noise that a mechanism needs, and critical values of chi-squared. The "
    "paper has a larger noise, or compares with the true table: it does not say how.",
    "Laplace, paper's scale": "The noise that fits Tables 5 and 6.",
    "MCIndep": "The paper does not say how far from independent its tables are, so the shares of "
    "wrong hypotheses that are found cannot be compared; those of right ones can.",
    "MCIndep, paper's scale": "The noise that fits Tables 5 and 6.",
    "RRBA": "The paper does not say how far from independent its tables are; its reports cost the "
    "epsilon in the last figure, not the printed one.",
    "RRBA, noise-aware": "The same reports, judged by the Wald statistic.",
    "RRBA, naive": "The same reports, judged as if their table had no noise.",
    "RRBA at the true epsilon": "Uniform fakes, p such that a report costs what the table says.",
}


class Piece(NamedTuple):
    """What one method is asked about so many attributes."""

    seed: int
    parameters: Parameters
    ways: int
    method: str


def rejected(piece: Piece) -> tuple[float, float]:
    """How often a method rejects H0, where it is wrong and where it is right."""
    seed, parameters, ways, method = piece
    shares = []
    for v in (parameters.v, 0.0):
        # A method's own tables, so that its numbers do not depend on the other methods.
        place = list(METHODS).index(method)
        generator = np.random.default_rng((seed, 4, ways, place, int(v > 0)))
        result = METHODS[method](Setting(law_of(ways, v), parameters, generator))
        shares.append(float(result.rejects(LEVEL).mean()))
    return shares[0], shares[1]


def run(parameters: Parameters, context: Context) -> Reproduced:
    """Every method on tables for which H0 is wrong, and on as many for which it is right.

    By messages, one survey by RRBA of two dependent attributes.
    """
    if context.by_messages:
        return _by_messages(parameters, context)
    pieces = [(ways, method) for ways in WAYS for method in METHODS]
    shares = context.map(
        rejected, [Piece(context.seed, parameters, ways, method) for ways, method in pieces]
    )
    rows = [
        _row(ways, method, wrong, 1 - right, parameters)
        for (ways, method), (wrong, right) in zip(pieces, shares, strict=True)
    ]
    return Reproduced(
        reproduction="rrba-table-4",
        runs=parameters.runs,
        rows=tuple(rows),
        notes=(
            f"tables of {parameters.n:,} respondents, margins ({MARGIN:g}, {1 - MARGIN:g}); where "
            f"H0 is wrong every pair has a Cramer's V of {parameters.v:g}: made up, for the paper "
            "says neither",
            "accuracy is the mean of both shares, as in the paper, whose counts are of 100 trials",
            "a central curator who adds Laplace noise and clients who randomize their own answers "
            "promise different things: the first sees all answers",
            "epsilon: of a table under substitution of one respondent, for the Laplace noise; of a "
            f"report, in the worst case of the mix {parameters.mix:g}, for RRBA",
        ),
        plot=plot_rows(_drawn(rows), x="ways", by=("method",), title="rrba-table-4"),
    )


def _drawn(rows: Sequence[Row]) -> list[Row]:
    """What a picture has room for: the shares of all methods but the naive one."""
    return [
        Row(
            settings=row.settings,
            measured={figure.name: figure.measured for figure in row.figures()[:3]},
            standard_error=row.standard_error,
            printed={f.name: f.printed for f in row.figures()[:3] if f.printed is not None},
        )
        for row in rows
        if row.settings["method"] != "RRBA, naive"
    ]


def _row(ways: int, method: str, power: float, accepted: float, parameters: Parameters) -> Row:
    runs, size = parameters.runs, 2**ways
    errors = [share_error(share, runs) for share in (power, accepted)]
    printed = PRINTED[method][WAYS.index(ways)] if method in PRINTED else None
    local = method.startswith("RRBA") and method != "RRBA at the true epsilon"
    epsilon = true_epsilon(parameters.p, size, mix=parameters.mix) if local else parameters.epsilon
    values = (power, accepted, (power + accepted) / 2)
    figures = dict(zip(FIGURES, values, strict=True))
    return Row(
        settings={"ways": ways, "method": method},
        measured={**figures, "epsilon": epsilon},
        standard_error=dict(zip(FIGURES, (*errors, math.hypot(*errors) / 2), strict=True)),
        printed=None
        if printed is None
        else {**dict(zip(FIGURES, printed, strict=True)), "epsilon": 0.25},
        remark=_REMARKS[method],
    )


def _by_messages(parameters: Parameters, context: Context) -> Reproduced:
    survey = Survey(
        "Two dependent attributes",
        tuple(Attribute(name=name, categories=("first", "second")) for name in ("A", "B")),
    )
    law = law_of(2, parameters.v)
    generator = np.random.default_rng((context.seed, 4))
    cells = generator.choice(law.size, parameters.n, p=law.reshape(-1))
    records = Records(survey, np.stack(divmod(cells, 2), axis=1).astype(np.uint8))
    outcome, estimate = run_rrba(
        context,
        records,
        k=2,
        p=parameters.p,
        mix=parameters.mix,
        block=parameters.block,
    )
    (group,) = estimate.groups
    counts = np.rint(group.reported * group.n)
    found = noise_aware_test(counts, keep=group.keep, fakes=group.fakes)
    return Reproduced(
        reproduction="rrba-table-4",
        runs=1,
        rows=(
            Row(
                settings={"ways": 2, "method": "RRBA, noise-aware"},
                measured={
                    "statistic": float(found.statistic),
                    "p-value": float(found.p_value),
                    "epsilon": true_epsilon(parameters.p, 4, mix=parameters.mix),
                },
            ),
        ),
        notes=("one run by messages, of tables for which H0 is wrong",),
        outcome=outcome,
    )


SCENARIOS = (
    Scenario(
        name="rrba-table-4",
        summary="RRBA, Table 4: tests of independence with Laplace noise, MCIndep and RRBA.",
        parameters=Parameters,
        run=run,
    ),
)
