"""Table 4 of RRBA: tests of independence on binary tables of two, three and four attributes.

Randomized Response Block Aggregation (RRBA), sections 6 and 7.3.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
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
from scenarios.errors import UsageError
from scenarios.reproductions.driver import scenarios_of
from scenarios.reproductions.experiment import Asked, Experiment, Sample, grid
from scenarios.reproductions.rrba.association import monte_carlo_test
from scenarios.reproductions.rrba.baselines import Scale, laplace_tables, mcindep
from scenarios.reproductions.rrba.block_laws import Trials, sampled_blocks
from scenarios.reproductions.rrba.shared import MIX, Mix, keep_at, run_rrba, true_epsilon
from scenarios.running.outcomes import Outcome
from scenarios.running.reproduction import Picture
from scenarios.running.scenario import Context

LEVEL = 0.05
WAYS = (2, 3, 4)
MARGIN = 0.6
"""The share of the first value of every attribute; the paper does not say how tables are made."""


class Parameters(msgspec.Struct, frozen=True, kw_only=True):
    """What can be set. The paper says neither how many respondents there are nor how far from
    independent the tables of the alternative; it has 100 trials.
    """

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
        runs: how many.
        generator: decides all draws.
    """

    law: Floats
    parameters: Parameters
    runs: int
    generator: np.random.Generator

    @property
    def ways(self) -> int:
        """The number of attributes."""
        return self.law.ndim


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
    drawn = setting.generator.multinomial(p.n, setting.law.reshape(-1), size=setting.runs)
    return np.asarray(drawn.reshape(setting.runs, *setting.law.shape), np.int64)


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
    trials = Trials((setting.runs,), law.size, keep=keep, mix=mix, generator=setting.generator)
    whole, rest = divmod(p.n, p.block)
    laws = np.broadcast_to(law, (setting.runs, law.size))
    for size, blocks in ((p.block, whole), (rest, min(rest, 1))):
        for true in sampled_blocks(laws, size, setting.generator, blocks=blocks):
            trials.ask(true)
    shape = (setting.runs, *setting.law.shape)
    return Reports(trials.counts.reshape(shape), trials.fakes.reshape(shape), keep)


Test: TypeAlias = Callable[[Reports, Parameters, np.random.Generator], TestResult]


def _monte_carlo(
    found: Reports, parameters: Parameters, generator: np.random.Generator
) -> TestResult:
    return monte_carlo_test(
        found.counts,
        keep=found.keep,
        generator=generator,
        fakes=found.fakes,
        ways=found.counts.ndim - 1,
        draws=parameters.draws,
        rule="fewer-than-5",
    )


def _noise_aware(found: Reports, _: Parameters, __: np.random.Generator) -> TestResult:
    ways = found.counts.ndim - 1
    return noise_aware_test(found.counts, keep=found.keep, fakes=found.fakes, ways=ways)


def _naive(found: Reports, parameters: Parameters, _: np.random.Generator) -> TestResult:
    ways = found.counts.ndim - 1
    raw = unmixed_counts(found.counts, keep=found.keep, fakes=found.fakes, ways=ways)
    return naive_test(raw, parameters.n, ways=ways)


EQUAL = "RRBA at the true epsilon"

BY_CURATORS: Mapping[str, Callable[[Setting], TestResult]] = {
    "Laplace": functools.partial(_laplace, scale="central"),
    "Laplace, paper's scale": functools.partial(_laplace, scale="paper"),
    "MCIndep": functools.partial(_mcindep, scale="central"),
    "MCIndep, paper's scale": functools.partial(_mcindep, scale="paper"),
}
BY_REPORTS: Mapping[str, Test] = {
    "RRBA": _monte_carlo,
    "RRBA, noise-aware": _noise_aware,
    "RRBA, naive": _naive,
    EQUAL: _noise_aware,
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
    EQUAL: "Uniform fakes, p such that a report costs what the table says.",
}


def asked_with(method: str, size: int, parameters: Parameters) -> tuple[float, float]:
    """The keep probability and the mix of a method's reports on so many cells."""
    if method == EQUAL:
        return keep_at(parameters.epsilon, size), 1.0
    return parameters.p, parameters.mix


def _tests(asked: Asked[Parameters]) -> list[Sample]:
    """A method on tables for which H0 is wrong, and on as many for which it is right."""
    own, ways, method = asked.parameters, asked.cell["ways"], asked.cell["method"]
    generator = asked.generator()
    rejected = []
    for v in (own.v, 0.0):
        setting = Setting(law_of(ways, v), own, asked.runs, generator)
        if method in BY_CURATORS:
            result = BY_CURATORS[method](setting)
        else:
            keep, mix = asked_with(method, 2**ways, own)
            result = BY_REPORTS[method](_reports(setting, keep, mix), own, generator)
        rejected.append(result.rejects(LEVEL))
    return [_sample(asked, *rejected)]


def _tests_live(asked: Asked[Parameters], context: Context) -> tuple[Outcome, list[Sample]]:
    """Two surveys, of dependent and of independent attributes; the outcome is the first one's."""
    own, ways, method = asked.parameters, asked.cell["ways"], asked.cell["method"]
    if method not in BY_REPORTS:
        raise UsageError("by messages, expected a method of RRBA: noise is a curator's")
    keep, mix = asked_with(method, 2**ways, own)
    survey = Survey(
        "Dependent attributes",
        tuple(Attribute(name=name, categories=("first", "second")) for name in "ABCD"[:ways]),
    )
    generator = asked.generator()
    rejected, outcomes = [], []
    for v in (own.v, 0.0):
        law = law_of(ways, v)
        cells = generator.choice(law.size, own.n, p=law.reshape(-1))
        codes = np.stack(np.unravel_index(cells, law.shape), axis=1).astype(np.uint8)
        outcome, estimate = run_rrba(
            context, Records(survey, codes), k=ways, p=keep, mix=mix, block=own.block
        )
        (group,) = estimate.groups
        counts = np.rint(group.reported * group.n).astype(np.int64)
        reports = Reports(counts[np.newaxis], group.fakes[np.newaxis], group.keep)
        rejected.append(BY_REPORTS[method](reports, own, generator).rejects(LEVEL))
        outcomes.append(outcome)
    return outcomes[0], [_sample(asked, *rejected)]


def _sample(asked: Asked[Parameters], wrong: NDArray[np.bool_], right: NDArray[np.bool_]) -> Sample:
    own, method, size = asked.parameters, asked.cell["method"], 2 ** asked.cell["ways"]
    local = method in BY_REPORTS and method != EQUAL
    epsilon = true_epsilon(own.p, size, mix=own.mix) if local else own.epsilon
    return Sample(
        drawn={
            "rejects a wrong H0": wrong,
            "accepts a right H0": ~right,
            "accuracy": np.concatenate([wrong, ~right]),
        },
        exact={"epsilon": epsilon},
        remark=_REMARKS[method],
    )


EXPERIMENT = Experiment(
    paper="RRBA",
    item="Table 4",
    name="rrba-table-4",
    summary="RRBA, Table 4: tests of independence with Laplace noise, MCIndep and RRBA.",
    cells=grid(ways=WAYS, method=(*BY_CURATORS, *BY_REPORTS)),
    law=_tests,
    live=_tests_live,
    live_cell={"ways": 2, "method": "RRBA, noise-aware"},
    runs=400,
    parameters=Parameters,
    notes=(
        f"tables of n respondents, margins ({MARGIN:g}, {1 - MARGIN:g}); where H0 is wrong every "
        "pair has the same Cramer's V: made up, for the paper says neither",
        "accuracy is the mean of both shares, as in the paper, whose counts are of 100 trials",
        "a central curator who adds Laplace noise and clients who randomize their own answers "
        "promise different things: the first sees all answers",
        "epsilon: of a table under substitution of one respondent, for the Laplace noise; of a "
        "report, in the worst case of the mix, for RRBA",
    ),
    picture=Picture(
        x="ways",
        by=("method",),
        figures=("rejects a wrong H0", "accepts a right H0"),
        names={"ways": "attributes of a table"},
    ),
)
SCENARIOS = scenarios_of(EXPERIMENT)
