"""What the reproductions of the first paper share: drawn estimates against whole records."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

from protocol import Block, Records, Stream, secret_of
from protocol.estimators.dependence.dependence import cramers_v
from protocol.estimators.projection import clip_and_rescale
from protocol.variants import RRIndependent
from scenarios.data.adult import ADULT
from scenarios.papers.laws import reported_counts
from scenarios.papers.rr.shared import (
    ADJUSTED,
    CLUSTERS,
    INDEPENDENT,
    METHODS,
    RANDOMIZED,
    Learnt,
    Population,
    Project,
    cluster_tables,
    estimate_tables,
    learn,
    method_tables,
    pair_tables,
    product_of_blocks,
    repeated,
    report,
    single_blocks,
)
from scenarios.running.queries import EstimatedTables, Pair
from tests.enumeration import Floats, keep, survey_of
from tests.statistical import ALPHA, WRONG
from tests.tiers import slow

SURVEY = survey_of(2, 3, 2)
SURE = 1 - 1e-12
"""Of keeping an answer: nobody draws anything else."""


def people(n: int = 300) -> Records:
    """Answers that depend on each other."""
    draw = np.random.default_rng(1)
    a = draw.integers(2, size=n)
    b = np.where(draw.random(n) < 0.6, a, draw.integers(3, size=n))
    c = np.where(draw.random(n) < 0.5, a, 1)
    return Records(SURVEY, np.stack([a, b, c], axis=1).astype(np.uint8))


def blocks_of(p: float, *parts: Sequence[str]) -> tuple[Block, ...]:
    sizes = dict(zip(SURVEY.names, SURVEY.sizes, strict=True))
    return tuple(
        Block(tuple(part), keep(math.prod(sizes[name] for name in part), p)) for part in parts
    )


def tables(
    population: Population, blocks: Sequence[Block], project: Project = "first", seed: int = 1
) -> EstimatedTables:
    generator = np.random.default_rng(seed)
    return cluster_tables(population, blocks, project=project, generator=generator)


# Estimates drawn by the law of counts


def test_without_randomization_a_cluster_is_true_and_two_are_a_product() -> None:
    population = Population(people(), copies=2)
    assert population.n == len(population.records) == 600
    drawn = tables(population, blocks_of(SURE, "ca", "b"))
    np.testing.assert_allclose(drawn((0, 2), 1)[0], population.table((0, 2)), atol=1e-6)
    a, b = (population.counts((name,)) for name in "ab")
    np.testing.assert_allclose(drawn((0, 1), 1)[0], np.multiply.outer(a, b) / 600, atol=1e-6)


@pytest.mark.parametrize("project", ["first", "last"])
def test_tables_are_clipped_before_or_after_they_are_summed(project: Project) -> None:
    """One cluster of all: the same reports by hand, at a p where much is negative."""
    population = Population(people(60))
    p, runs = 0.05, 40
    drawn = tables(population, blocks_of(p, "abc"), project, seed=7)((0, 1), runs)
    true = population.counts(SURVEY.names).reshape(-1)
    reported = reported_counts(true, p, np.random.default_rng(7), runs=runs)
    raw = reported / (60 * p) - (1 - p) / (12 * p)
    assert (raw < 0).any()
    for found, row in zip(drawn, raw, strict=True):
        cube = row.reshape(2, 3, 2)
        if project == "first":
            expected = clip_and_rescale(cube).sum(axis=2)
        else:
            expected = clip_and_rescale(cube.sum(axis=2))
        np.testing.assert_allclose(found, 60 * expected, atol=1e-9)


def difference_p_value(one: Floats, other: Floats) -> float:
    """The smallest two-sided p-value, over all cells, that two samples have the same mean."""
    apart = one.mean(axis=0) - other.mean(axis=0)
    error = np.sqrt(one.var(axis=0, ddof=1) / len(one) + other.var(axis=0, ddof=1) / len(other))
    return float(2 * stats.norm.sf(np.abs(apart / error)).min())


@pytest.mark.parametrize(
    ("pair", "corrected"),
    [
        ((0, 2), False),
        ((1, 2), True),
        *(slow(pair, corrected) for pair, corrected in [((0, 2), True), ((1, 2), False)]),
        *(slow((0, 1), corrected) for corrected in (False, True)),
    ],
)
def test_drawn_tables_have_the_law_of_estimates_from_randomized_records(
    pair: Pair, corrected: bool
) -> None:
    records = people()
    population = Population(records)
    p, runs = 0.3, 600

    def drawn_at(p: float) -> Floats:
        blocks, draws = blocks_of(p, "ca", "b"), np.random.default_rng(1)
        by_law = pair_tables(population, blocks, generator=draws)
        return (by_law if corrected else tables(population, blocks))(pair, 20_000)

    blocks = blocks_of(p, "ca", "b")
    stream = Stream(secret_of(5))
    estimated = estimate_tables if corrected else product_of_blocks
    whole = np.stack(
        [estimated(report(records, blocks, stream.derive(str(run))))(pair) for run in range(runs)]
    )
    drawn = drawn_at(p)
    assert difference_p_value(whole, drawn) > ALPHA
    # Second moments about a common point: as many draws must spread as the records do.
    middle = drawn.mean(axis=0)
    assert difference_p_value((whole - middle) ** 2, (drawn - middle) ** 2) > ALPHA
    wrong = drawn_at(p * WRONG)
    spread = drawn.var(axis=0).sum()
    assert abs(wrong.var(axis=0).sum() / spread - 1) > 0.1
    assert difference_p_value((wrong - middle) ** 2, (drawn - middle) ** 2) < ALPHA


# Estimates from whole randomized records


def test_reports_by_blocks_are_randomized_block_by_block() -> None:
    records = people()
    sure = report(records, blocks_of(SURE, "ca", "b"), Stream(bytes(32)))
    np.testing.assert_array_equal(sure.source.counts.table((0, 1, 2)), records.counts(SURVEY.names))
    noisy = report(records, blocks_of(0.3, "ca", "b"), Stream(bytes(32)))
    assert noisy.n == 300
    assert not np.array_equal(noisy.source.counts.table((0, 1, 2)), records.counts(SURVEY.names))
    assert [block.attributes for block in noisy.source.blocks] == [("c", "a"), ("b",)]


def test_the_methods_differ_as_they_should() -> None:
    records = people(3000)
    alone = report(records, blocks_of(0.6, "a", "b", "c"), Stream(bytes(32)))
    together = report(records, blocks_of(0.6, "ca", "b"), Stream(bytes(32)))
    assert list(method_tables(alone)) == [RANDOMIZED, INDEPENDENT]
    methods = method_tables(alone, together)
    assert tuple(methods) == METHODS
    true = records.counts(("a", "c"))
    error = {name: np.abs(method((0, 2)) - true).sum() for name, method in methods.items()}
    for name, method in methods.items():
        assert method((0, 2)).sum() == pytest.approx(3000)
        np.testing.assert_allclose(method((1, 2)).shape, (3, 2), err_msg=name)
    # a and c are in one cluster, so nothing of their dependence is lost there.
    assert error[CLUSTERS] < error[INDEPENDENT + ADJUSTED] < error[INDEPENDENT]
    np.testing.assert_allclose(methods[RANDOMIZED]((0, 2)), alone.source.counts.table((0, 2)))
    a, b = (alone.table(name, projection="clip").values for name in "ab")
    np.testing.assert_allclose(methods[INDEPENDENT]((0, 1)), 3000 * np.multiply.outer(a, b))
    cluster = together.table("a", "c", projection="clip").values
    np.testing.assert_allclose(methods[CLUSTERS]((0, 2)), 3000 * cluster)
    # The margins of adjusted reports are those of the clusters' estimates.
    found = methods[CLUSTERS + ADJUSTED]((0, 2))
    np.testing.assert_allclose(found, 3000 * cluster, atol=3000 * 1e-5)


# Dependences


@pytest.mark.parametrize("learnt", ["exact", "rr", "rr-debiased", "pair-rr"])
def test_dependences_are_learnt_in_four_ways(learnt: Learnt) -> None:
    population = Population(people(3000))
    found = learn(population, 0.7, learnt, 1)
    true = cramers_v(population.table((0, 1)))
    if learnt == "exact":
        assert found.matrix[0, 1] == true
        assert found.epsilon == math.inf
        return
    assert 0 < found.epsilon < math.inf
    near = 0.49 * true if learnt == "rr" else true
    assert found.matrix[0, 1] == pytest.approx(near, abs=0.06)
    np.testing.assert_array_equal(learn(population, 0.7, learnt, 1).matrix, found.matrix)
    assert not np.array_equal(learn(population, 0.7, learnt, 2).matrix, found.matrix)


def test_single_blocks_are_rr_independent() -> None:
    assert single_blocks(ADULT, 0.3) == RRIndependent.with_keep(ADULT, 0.3).blocks


def test_one_run_answers_every_question_alike() -> None:
    alone = report(people(), blocks_of(0.6, "a", "b", "c"), Stream(bytes(32)))
    tables_of_run = product_of_blocks(alone)
    answered = repeated(tables_of_run)((0, 1), 4)
    assert answered.shape == (4, 2, 3)
    assert np.all(answered == tables_of_run((0, 1)))


def test_whole_records_are_clipped_before_or_after_they_are_summed() -> None:
    joint = report(people(60), blocks_of(0.05, "abc"), Stream(bytes(32)))
    raw = joint.table("a", "b", "c").values
    assert (raw < 0).any()
    first, last = product_of_blocks(joint), product_of_blocks(joint, "last")
    np.testing.assert_allclose(first((0, 1)), 60 * clip_and_rescale(raw).sum(axis=2))
    np.testing.assert_allclose(last((0, 1)), 60 * clip_and_rescale(raw.sum(axis=2)))
