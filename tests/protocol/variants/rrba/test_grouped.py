"""Intervals of tables from groups that are asked in blocks, by the law of their reports."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from protocol import Attribute, GroupTables, LinearEstimate, Survey
from protocol.crypto.randomness import WORDS
from protocol.estimators.inference.cumulants import CumulantLaw
from protocol.estimators.inference.laws import About
from protocol.variants import RRBA
from protocol.variants.rrba.blocks import ReportLaw, Running, integer_weights

SIZES = (2, 3, 2)
SURVEY = Survey(
    "three",
    tuple(Attribute(name=f"a{i}", categories=tuple("xyz"[:n])) for i, n in enumerate(SIZES)),
)

Floats = NDArray[np.float64]


def asked(
    variant: RRBA, law: Floats, blocks: list[int], generator: np.random.Generator
) -> LinearEstimate[GroupTables]:
    """One survey of people who are drawn from a population, each about one group."""
    plan = variant.plan
    running = Running(plan.cells, np.array(plan.thresholds) / WORDS)
    truths = []
    for names in plan.group_names:
        kept = SURVEY.axes(names)
        truths.append(law.sum(axis=tuple({0, 1, 2} - set(kept))).ravel())
    keep = np.array(plan.thresholds)[plan.cells.group] / WORDS
    truth, groups = np.concatenate(truths), len(truths)
    for size in blocks:
        tables = integer_weights(plan.cells, running.tables(variant.mix)) / WORDS
        reported = np.split(keep * truth + (1 - keep) * tables, plan.cells.starts[1:])
        about = generator.multinomial(size, np.full(groups, 1 / groups))
        counts = [generator.multinomial(n, part) for n, part in zip(about, reported, strict=True)]
        running.add(np.concatenate(counts), tables)
    return variant.estimate(variant.released(running, sum(blocks), np.dtype(np.uint32)))


VARIANTS = {
    "one table": RRBA(survey=SURVEY, p=0.5, block=60),
    "few reports": RRBA(survey=SURVEY, p=0.8, block=6),
    "new tables": RRBA(survey=SURVEY, p=0.4, mix=0.1, block=60),
    "by epsilon": RRBA(survey=SURVEY, epsilon=2.0, mix=0.3, block=60),
    "last two": RRBA(survey=SURVEY, p=0.6, mix=0.2, release="last-two", block=60),
}


@pytest.mark.parametrize("about", ["respondents", "population"])
def test_one_group_with_all_respondents_has_the_law_of_a_count(about: About) -> None:
    variant = RRBA(survey=SURVEY, k=3, p=0.5, block=50)
    law = np.random.default_rng(2).dirichlet(np.ones(12)).reshape(SIZES)
    estimate = asked(variant, law, [50, 50], np.random.default_rng(3))
    keep = variant.plan.thresholds[0] / WORDS
    for names, cells in ((("a0", "a1", "a2"), 12), (("a1",), 3)):
        table = estimate.table(*names)
        expected = CumulantLaw.of_counts(table.values, 100, other=(1 - keep) / cells, gain=keep)
        for found, end in zip(
            table.interval(0.9, about), expected.interval(0.9, about), strict=True
        ):
            np.testing.assert_allclose(found, end, atol=1e-9)


def test_the_more_have_reported_of_all_the_less_sampling_adds() -> None:
    law = np.random.default_rng(2).dirichlet(np.ones(12)).reshape(SIZES)
    one = asked(RRBA(survey=SURVEY, k=1, p=0.9, block=90), law, [90], np.random.default_rng(3))
    whole = LinearEstimate(GroupTables(SURVEY, one.source.groups, one.source.groups[0].n))
    (low, high), narrow = one.table("a0").interval(), whole.table("a0").interval()
    assert (high - low > 1.2 * (narrow.high - narrow.low)).all()
    for about in (one, whole):
        wide = about.table("a0").interval(about="population")
        assert (wide.high - wide.low > high - low).all()


def test_tables_that_have_been_made_to_agree_keep_their_intervals() -> None:
    law = np.random.default_rng(2).dirichlet(np.ones(12)).reshape(SIZES)
    estimate = asked(VARIANTS["new tables"], law, [60] * 3, np.random.default_rng(3))
    for ends, kept in zip(
        estimate.table("a0", "a1").interval(),
        estimate.consistent().table("a0", "a1").interval(),
        strict=True,
    ):
        np.testing.assert_array_equal(ends, kept)


def test_what_fakes_were_drawn_with_follows_from_what_is_published() -> None:
    variant = VARIANTS["new tables"]
    law = np.random.default_rng(2).dirichlet(np.ones(12)).reshape(SIZES)
    plan, generator = variant.plan, np.random.default_rng(3)
    running = Running(plan.cells, np.array(plan.thresholds) / WORDS)
    size = int(plan.cells.sizes[0])
    for n in (40, 70, 900):
        tables = generator.dirichlet(np.ones(len(plan.cells.group)))
        tables /= plan.cells.summed(tables)[plan.cells.group]
        reported = 0.4 * law.sum(axis=2).ravel() + 0.6 * tables[:size]
        counts = np.zeros(len(tables), np.int64)
        counts[:size] = generator.multinomial(n, reported)
        running.add(counts, tables)
    found = ReportLaw.of(
        running.counts[:size],
        running.raw()[:size],
        running.errors()[:size],
        keep=plan.thresholds[0] / WORDS,
        mix=variant.mix,
        pooled=True,
    )
    assert found.worth == 1010
    np.testing.assert_allclose(found.fakes, running._fakes[:size] / 1010, atol=1e-12)
    np.testing.assert_allclose(
        found.fakes_squared, running._fakes_squared[:size] / 1010, atol=1e-10
    )


@pytest.mark.parametrize("shares", [(0.1, 0.2, 0.3, 0.4), (0.7, 0.1, 0.2, 0.0), (0.6, 0.3, 0.1)])
def test_reports_of_the_last_two_blocks_follow_from_their_errors(shares: tuple[float, ...]) -> None:
    """With no look at the counts, which are of all blocks, nor at the raw estimate."""
    reported, keep, mix = np.array(shares), 0.3, 0.2
    errors = np.sqrt(reported * (1 - reported) / 80) / keep
    noise = np.random.default_rng(1).normal(0, 0.3, len(shares))
    found = ReportLaw.of(np.full(len(shares), 100), noise, errors, keep=keep, mix=mix, pooled=False)
    np.testing.assert_allclose(found.reported, reported, atol=1e-6)
    assert found.worth == pytest.approx(80, rel=1e-5)
    # The truth and the fakes' table are one, but for what is mixed in.
    mixed = (1 - keep) * mix
    truth = (reported - mixed / len(shares)) / (1 - mixed)
    np.testing.assert_allclose(
        found.fakes, (1 - mix) * np.clip(truth, 0, 1) + mix / len(shares), atol=1e-6
    )


def test_the_worth_of_the_last_two_blocks_is_that_of_their_reports() -> None:
    variant = RRBA(survey=SURVEY, k=3, p=0.5, release="last-two", block=50)
    law = np.random.default_rng(2).dirichlet(np.ones(12)).reshape(SIZES)
    estimate = asked(variant, law, [100, 50, 50], np.random.default_rng(3))
    assert estimate.source.groups[0].n == 200
    assert estimate.source.groups[0].worth == pytest.approx(100)
    ends = [
        np.array(estimate.table("a0").interval(about=about))
        for about in ("respondents", "population")
    ]
    assert np.isfinite(ends).all()


@pytest.mark.parametrize("about", ["respondents", "population"])
@pytest.mark.parametrize("name", ["one table", "by epsilon"])
def test_covariances_have_the_variances_of_the_law(name: str, about: About) -> None:
    law = np.random.default_rng(2).dirichlet(np.ones(12)).reshape(SIZES)
    estimate = asked(VARIANTS[name], law, [60] * 3, np.random.default_rng(3))
    for names in (("a1",), ("a1", "a0")):
        table = estimate.table(*names)
        found: Any = table.law
        covariance = table.covariance(about)
        variance, _ = found.cumulants[about].at(table.values)
        tolerance = 1e-9 if name == "one table" else 0.1
        np.testing.assert_allclose(np.diagonal(covariance), variance.ravel(), rtol=tolerance)
        # All cells together are everybody.
        np.testing.assert_allclose(covariance.sum(axis=0), 0, atol=1e-12)


def test_an_attribute_without_a_report_is_unknown() -> None:
    law = np.random.default_rng(2).dirichlet(np.ones(12)).reshape(SIZES)
    estimate = asked(RRBA(survey=SURVEY, k=1, p=0.5), law, [1], np.random.default_rng(3))
    unknown = [np.isnan(table.interval()).all() for table in estimate.marginals().values()]
    assert sum(unknown) == 2


def test_a_weight_of_many_values_has_an_interval() -> None:
    law = np.random.default_rng(2).dirichlet(np.ones(12)).reshape(SIZES)
    estimate = asked(VARIANTS["by epsilon"], law, [400] * 3, np.random.default_rng(3))
    weights = np.array([0.0, 1.0, 5.0])
    found = estimate.query(["a1"], weights)
    assert found.standard_error is not None
    for about in ("respondents", "population"):
        covariance = estimate.table("a1").covariance(about)
        low, high = found.interval(0.95, about)
        width = 2 * 1.96 * math.sqrt(weights @ covariance @ weights)
        assert high - low == pytest.approx(width, rel=0.1)
        assert low < found.value < high
    last = asked(VARIANTS["last two"], law, [400] * 3, np.random.default_rng(3))
    low, high = last.query(["a1"], weights).interval(0.95, "population")
    assert low < last.query(["a1"], weights).value < high
