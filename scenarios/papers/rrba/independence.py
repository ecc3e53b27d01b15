"""Table 4 of RRBA: tests of independence on binary tables of two, three and four attributes.

Randomized Response Block Aggregation (RRBA), sections 6 and 7.3.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from protocol.errors import UsageError
from protocol.estimators.dependence.association import (
    TestResult,
    naive_test,
    noise_aware_test,
    unmixed_counts,
)
from protocol.randomizers.exact import Floats
from protocol.surveys.records import Records
from protocol.surveys.survey import Attribute, Survey
from scenarios.papers.driver import experiment_scenarios
from scenarios.papers.experiment import Asked, Experiment, Sample, grid
from scenarios.papers.rrba.association import (
    Scale,
    laplace_tables,
    mcindep,
    monte_carlo_test,
)
from scenarios.papers.rrba.block_laws import Trials, sampled_blocks
from scenarios.papers.rrba.shared import MIX, Blocks, Mix, keep_at, run_rrba, true_epsilon
from scenarios.running.reproduction import Picture

LEVEL = 0.05
WAYS = (2, 3, 4)
MARGIN = 0.6
"""The share of the first value of every attribute; the paper does not say how tables are made."""


class Parameters(Blocks, frozen=True, kw_only=True):
    """Parameters of the tests.

    The paper says neither how many respondents there are nor how far from independent the tables of
    the alternative are; it has 100 trials.
    """

    v: Annotated[
        float, Meta(gt=0, le=1, description="Cramer's V of every pair where H0 is wrong")
    ] = 0.1
    p: Annotated[float, Meta(gt=0, lt=1, description="keep probability")] = 0.5
    epsilon: Annotated[float, Meta(gt=0, le=20, description="of the Laplace noise")] = 0.25
    mix: Mix = MIX
    draws: Annotated[int, Meta(ge=20, description="tables that a test draws to compare")] = 199


def dependent_law(ways: int, v: float) -> Floats:
    """Binary attributes with one margin each, every pair of them with Cramer's V equal to v.

    With probability v all attributes have one value, drawn once; else each draws its own.
    """
    margin = np.array([MARGIN, 1 - MARGIN])
    independent = functools.reduce(np.multiply.outer, [margin] * ways)
    law: Floats = (1 - v) * independent
    for value in range(2):
        law[(value,) * ways] += v * margin[value]
    return law


EQUAL = "RRBA at the true epsilon"

REMARKS: Mapping[str, str] = {
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


def _reports(
    asked: Asked[Parameters], law: Floats, generator: np.random.Generator
) -> tuple[NDArray[np.int64], dict[str, Any]]:
    """Counts of reports on tables with this law, (runs, 2, ...), with their keep and mean fakes."""
    own, size = asked.parameters, law.size
    equal = asked.cell["method"] == EQUAL
    keep, mix = (keep_at(own.epsilon, size), 1.0) if equal else (own.p, own.mix)
    if asked.live:
        attributes = tuple(
            Attribute(name=name, categories=("first", "second")) for name in "ABCD"[: law.ndim]
        )
        cells = generator.choice(size, own.n, p=law.reshape(-1))
        codes = np.stack(np.unravel_index(cells, law.shape), axis=1)
        records = Records(Survey("Dependent attributes", attributes), codes)
        estimate = run_rrba(asked, records, k=law.ndim, p=keep, mix=mix, block=own.block)
        (group,) = estimate.source.groups
        counts = np.rint(group.reported * group.n).astype(np.int64)
        return counts[np.newaxis], {"keep": group.keep, "fakes": group.fakes[np.newaxis]}
    trials = Trials((asked.runs,), size, keep=keep, mix=mix, generator=generator)
    blocks, rest = divmod(own.n, own.block)
    laws = np.broadcast_to(law.reshape(-1), (asked.runs, size))
    for true in sampled_blocks(laws, own.block, generator, blocks=blocks, rest=rest):
        trials.ask(true)
    shape = (asked.runs, *law.shape)
    return trials.counts.reshape(shape), {"keep": keep, "fakes": trials.fakes.reshape(shape)}


def _test(asked: Asked[Parameters], law: Floats, generator: np.random.Generator) -> TestResult:
    """A method's test of tables with this law, on a curator's noisy tables or on reports."""
    own, method, ways = asked.parameters, asked.cell["method"], law.ndim
    if not method.startswith("RRBA"):
        exact = generator.multinomial(own.n, law.reshape(-1), size=asked.runs)
        scale: Scale = "paper" if method.endswith("scale") else "central"
        tables = exact.reshape(-1, *law.shape)
        noisy = laplace_tables(tables, own.epsilon, generator, scale=scale, ways=ways)
        if method.startswith("Laplace"):
            return naive_test(noisy, own.n, ways=ways)
        return mcindep(
            noisy,
            own.n,
            own.epsilon,
            generator,
            scale=scale,
            ways=ways,
            draws=own.draws,
            rule="fewer-than-5",
        )
    counts, made = _reports(asked, law, generator)
    if method == "RRBA":
        made |= {"generator": generator, "draws": own.draws, "rule": "fewer-than-5"}
        return monte_carlo_test(counts, ways=ways, **made)
    if method == "RRBA, naive":
        return naive_test(unmixed_counts(counts, ways=ways, **made), own.n, ways=ways)
    return noise_aware_test(counts, ways=ways, **made)


def _tests(asked: Asked[Parameters]) -> Sample:
    """One method on equally many tables with H0 false and with H0 true."""
    own, ways, method = asked.parameters, asked.cell["ways"], asked.cell["method"]
    local, generator = method.startswith("RRBA"), asked.generator()
    if asked.live and not local:
        raise UsageError("by messages, expected a method of RRBA: noise is a curator's")
    wrong, right = (
        _test(asked, dependent_law(ways, v), generator).rejects(LEVEL) for v in (own.v, 0.0)
    )
    figures = {
        "rejects a wrong H0": wrong,
        "accepts a right H0": ~right,
        "accuracy": np.concatenate([wrong, ~right]),
        "epsilon": true_epsilon(own.p, 2**ways, mix=own.mix)
        if local and method != EQUAL
        else own.epsilon,
    }
    return Sample.of(figures, remark=REMARKS[method])


EXPERIMENT = Experiment(
    name="rrba-table-4",
    summary="RRBA, Table 4: tests of independence with Laplace noise, MCIndep and RRBA.",
    cells=grid(ways=WAYS, method=tuple(REMARKS)),
    measure=_tests,
    live=True,
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
        figures=("rejects a wrong H0", "accepts a right H0"),
        names={"ways": "attributes of a table"},
    ),
)
SCENARIOS = experiment_scenarios(EXPERIMENT)
