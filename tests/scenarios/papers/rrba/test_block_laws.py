"""Surveys in blocks, drawn as counts: their exact law, and the updates of the estimate."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol import KeepElseTable
from protocol.estimators.projection import project_rows
from protocol.variants.rrba.blocks import Cells, Running
from scenarios.papers.laws import report_block
from scenarios.papers.rrba.block_laws import (
    Trials,
    dealt_blocks,
    sampled_blocks,
)
from tests.scenarios.papers.test_laws import KEEP, RUNS, TRUE, check_law, generator
from tests.statistical import ALPHA, WRONG, chi_square_p_value, mean_p_value

TABLE = np.array([0.2, 0.3, 0.5])


def test_a_block_of_counts_has_the_law_of_randomized_records() -> None:
    true, tables = (np.broadcast_to(each, (RUNS, 3)) for each in (TRUE, TABLE))
    drawn = report_block(true, np.full((RUNS, 1), KEEP), tables, generator())
    check_law(lambda keep: KeepElseTable.with_table(p=keep, table=TABLE, mix=0.0), drawn)


def test_trials_are_the_protocols_updates_side_by_side() -> None:
    """Every trial's tables and estimates are those of an aggregator of its own."""
    keeps, mix = np.array([[0.3], [0.8]]), 0.2
    trials = Trials((2, 3), 4, keep=keeps, mix=mix, generator=generator())
    alone = [Running(Cells.of((4,)), np.array([keep])) for keep in np.repeat(keeps, 3)]
    fakes = np.zeros((6, 4))
    for block in range(5):
        true = generator(block).integers(0, 9, (2, 3, 4))
        told = trials.ask(true)
        assert np.all(told.counts.sum(axis=-1) == true.sum(axis=-1))
        for number, running in enumerate(alone):
            counts = told.counts.reshape(6, 4)[number]
            tables = running.tables(mix)
            assert told.tables.reshape(6, 4)[number] == pytest.approx(tables)
            running.add(counts, tables)
            keep, n = np.repeat(keeps, 3)[number], counts.sum()
            raw = (counts / n - (1 - keep) * tables) / keep
            assert told.raw.reshape(6, 4)[number] == pytest.approx(raw)
            fakes[number] += n * tables
    for number, running in enumerate(alone):
        n = running.reports[0]
        assert trials.raw().reshape(6, 4)[number] == pytest.approx(running.raw())
        assert trials.fakes.reshape(6, 4)[number] == pytest.approx(fakes[number] / n)
        proper = project_rows(trials.raw()).reshape(6, 4)[number]
        assert proper == pytest.approx(running.cells.projected(running.raw()))
    assert trials.counts.shape == (2, 3, 4)


def test_a_trial_before_its_first_block_is_uniform() -> None:
    trials = Trials((2,), 5, keep=0.5, mix=0.1, generator=generator())
    assert trials.raw() == pytest.approx(np.full((2, 5), 0.2))
    assert trials.fakes == pytest.approx(np.full((2, 5), 0.2))
    nobody = trials.ask(np.zeros((2, 5), np.int64))
    assert nobody.raw == pytest.approx(np.full((2, 5), 0.2))


def test_the_pooled_estimate_is_unbiased_with_its_exact_spread() -> None:
    """With uniform fakes the reports of all blocks have one law, and the variance is closed."""
    law, keep, n = np.array([0.6, 0.3, 0.1]), 0.5, 40
    trials = Trials((12_000,), 3, keep=keep, mix=1.0, generator=generator(3))
    for true in sampled_blocks(np.broadcast_to(law, (12_000, 3)), n, generator(4), blocks=5):
        trials.ask(true)
    raw = trials.raw()
    reported = keep * law + (1 - keep) / 3
    variance = reported * (1 - reported) / (5 * n * keep**2)
    for v in range(3):
        assert mean_p_value(raw[:, v], law[v]) > ALPHA
        assert mean_p_value((raw[:, v] - law[v]) ** 2, variance[v]) > ALPHA
    assert mean_p_value(raw[:, 0], WRONG * law[0]) < ALPHA
    assert mean_p_value((raw[:, 0] - law[0]) ** 2, variance[0] * WRONG) < ALPHA


def test_adaptive_fakes_leave_the_estimate_unbiased() -> None:
    law = np.array([0.7, 0.2, 0.05, 0.05])
    trials = Trials((3000,), 4, keep=0.4, mix=0.1, generator=generator(5))
    for true in sampled_blocks(np.broadcast_to(law, (3000, 4)), 30, generator(6), blocks=8):
        trials.ask(true)
    assert min(mean_p_value(trials.raw()[:, v], law[v]) for v in range(4)) > ALPHA
    assert mean_p_value(trials.raw()[:, 0], WRONG * law[0]) < ALPHA


def test_dealt_blocks_hold_everybody_once() -> None:
    counts = np.array([5, 0, 11, 4])
    blocks = dealt_blocks(counts, 6, generator(), trials=7)
    assert blocks.shape == (4, 7, 4)
    assert np.all(blocks.sum(axis=0) == counts)
    assert blocks.sum(axis=2).tolist() == [[6] * 7, [6] * 7, [6] * 7, [2] * 7]


def test_dealt_blocks_are_draws_without_replacement() -> None:
    counts = np.array([6, 4])
    first = dealt_blocks(counts, 3, generator(2), trials=RUNS)[0]

    def law(large: int, small: int) -> list[float]:
        whole = math.comb(large + small, 3)
        return [math.comb(large, v) * math.comb(small, 3 - v) / whole for v in range(4)]

    observed = np.bincount(first[:, 0], minlength=4)
    assert chi_square_p_value(observed, law(6, 4)) > ALPHA
    assert chi_square_p_value(observed, law(5, 5)) < ALPHA
    # With replacement the tables would spread more.
    binomial = [math.comb(3, v) * 0.6**v * 0.4 ** (3 - v) for v in range(4)]
    assert chi_square_p_value(observed, binomial) < ALPHA


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.lists(st.floats(-2, 2), min_size=3, max_size=3), min_size=1, max_size=4),
)
def test_the_nearest_tables_are_distributions_that_nothing_is_nearer_than(
    rows: list[list[float]],
) -> None:
    tables = np.array(rows)
    projected = project_rows(tables)
    assert projected.shape == tables.shape
    assert projected.min() >= 0
    assert projected.sum(axis=1) == pytest.approx(1.0)
    away = ((projected - tables) ** 2).sum(axis=1)
    for corner in np.eye(3):
        between = 0.9 * projected + 0.1 * corner
        assert np.all(((between - tables) ** 2).sum(axis=1) >= away - 1e-12)
