"""Estimates in blocks: exact on expected counts, proper tables, right errors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from protocol.crypto.randomness import WORDS
from protocol.estimators.projection import project_simplex
from protocol.variants.rrba.blocks import (
    Cells,
    Running,
    Update,
    integer_weights,
    least_weight,
)
from protocol.variants.rrba.stopping import printed_width, settled
from tests.statistical import ALPHA, WRONG, mean_p_value
from tests.tiers import slow

SIZES = (2, 3, 3, 4)
CELLS = Cells.of(SIZES)
KEEPS = np.array([0.3, 0.5, 0.5, 0.8])


def split(values: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    return np.split(values, CELLS.starts[1:])


def laws(generator: np.random.Generator) -> NDArray[np.float64]:
    return np.concatenate([generator.dirichlet(np.ones(size)) for size in SIZES])


@given(st.integers(0, 2**32), st.floats(0.0, 3.0))
@settings(deadline=None, max_examples=60)
def test_every_group_is_projected_by_itself(seed: int, spread: float) -> None:
    values = np.random.default_rng(seed).normal(0.3, spread, CELLS.group.size)
    expected = np.concatenate([project_simplex(part) for part in split(values)])
    assert CELLS.projected(values) == pytest.approx(expected, abs=1e-12)


def test_expected_counts_give_the_truth_whatever_the_tables_were() -> None:
    generator = np.random.default_rng(1)
    truth = laws(generator)
    running = Running(CELLS, KEEPS)
    keep = KEEPS[CELLS.group]
    for _ in range(3):
        tables, n = laws(generator), 10_000_000
        counts = n * (keep * truth + (1 - keep) * tables)
        running.add(np.rint(counts).astype(np.int64), tables)
    assert running.raw() == pytest.approx(truth, abs=1e-6)
    assert running.raw("last-two") == pytest.approx(truth, abs=1e-6)
    assert running.reports.tolist() == [pytest.approx(3 * n, abs=9)] * len(SIZES)
    assert running.blocks == 3


def test_blocks_are_weighted_by_their_reports() -> None:
    running = Running(Cells.of((2,)), np.array([0.5]))
    uniform = np.array([0.5, 0.5])
    running.add(np.array([10, 0]), uniform)
    running.add(np.array([0, 30]), uniform)
    # Raw estimates of 1.5 and -0.5 for the first cell: of 10 and of 30 reports.
    assert running.raw() == pytest.approx([0.0, 1.0])
    assert running.raw("last-two") == pytest.approx([0.5, 0.5])


def test_who_has_not_been_heard_of_is_uniform_and_unknown() -> None:
    running = Running(CELLS, KEEPS)
    counts = np.zeros(CELLS.group.size, np.int64)
    counts[0] = 5
    running.add(counts, CELLS.uniform())
    assert running.raw()[2:] == pytest.approx(CELLS.uniform()[2:])
    assert np.isinf(running.errors()[2:]).all()
    assert np.isfinite(running.errors()[:2]).all()


@pytest.mark.parametrize("mix", [0.0, 0.2, 1.0])
def test_the_next_tables_are_proper_and_mixed(mix: float) -> None:
    generator = np.random.default_rng(3)
    running = Running(CELLS, KEEPS)
    running.add(generator.integers(0, 40, CELLS.group.size), CELLS.uniform())
    tables = running.tables(mix)
    assert CELLS.summed(tables) == pytest.approx(np.ones(len(SIZES)))
    assert (tables >= mix * CELLS.uniform() - 1e-15).all()
    expected = (1 - mix) * CELLS.projected(running.raw()) + mix * CELLS.uniform()
    assert tables == pytest.approx(expected)


@given(st.integers(0, 2**32), st.sampled_from([0.0, 0.1, 1.0]))
@settings(deadline=None, max_examples=60)
def test_weights_sum_to_one_exactly_and_keep_the_least(seed: int, mix: float) -> None:
    generator = np.random.default_rng(seed)
    tables = (1 - mix) * CELLS.projected(generator.normal(0.2, 1.0, CELLS.group.size))
    tables += mix * CELLS.uniform()
    weights = integer_weights(CELLS, tables)
    for part, table in zip(np.split(weights, CELLS.starts[1:]), split(tables), strict=True):
        assert sum(part.tolist()) == WORDS
        assert min(part.tolist()) >= least_weight(len(part), mix)
        assert part / WORDS == pytest.approx(table, abs=1e-12)


def test_a_table_of_one_category_alone_still_fits() -> None:
    weights = integer_weights(Cells.of((2, 3)), np.array([0.0, 1.0, 1.0, 0.0, 0.0]))
    assert weights.tolist() == [1, WORDS - 1, WORDS - 1, 1, 0]


@pytest.mark.parametrize("block", [slow(1), slow(7), 200])
def test_standard_errors_are_those_of_repeated_runs(block: int) -> None:
    """Adaptive tables, blocks down to one report: the squared error against the squared figure."""
    generator = np.random.default_rng(7)
    cells = Cells.of((3,))
    truth, keep, reports = np.array([0.6, 0.3, 0.1]), 0.5, 600
    ratios, wrong = [], []
    for _ in range(400):
        running = Running(cells, np.array([keep]))
        for _ in range(reports // block):
            tables = running.tables(0.3)
            law = keep * truth + (1 - keep) * tables
            running.add(generator.multinomial(block, law), tables)
        ratio = ((running.raw() - truth) / running.errors()) ** 2
        ratios.append(float(ratio.mean()))
        wrong.append(float(ratio.mean()) / WRONG**8)
    assert mean_p_value(ratios, 1.0) > ALPHA
    assert mean_p_value(wrong, 1.0) < ALPHA


def test_the_printed_rule_takes_two_blocks_that_agree() -> None:
    running = Running(Cells.of((2,)), np.array([0.5]))
    uniform = np.array([0.5, 0.5])
    running.add(np.array([500, 500]), uniform)
    assert not settled(running, 0.05)
    running.add(np.array([505, 495]), uniform)
    assert settled(running, 0.05)
    # The estimates are now 0.51 and 0.6, and the interval has a width of 0.062 as printed.
    running.add(np.array([550, 450]), uniform)
    assert not settled(running, 0.05)
    assert settled(running, 0.05, widened=True)
    assert settled(running, 0.001)
    running.add(np.array([750, 250]), uniform)
    assert not settled(running, 0.05, widened=True)


def test_the_printed_width_goes_by_the_log_odds_where_few_have_the_answer() -> None:
    z = 1.959963984540054
    np.testing.assert_allclose(printed_width(np.array([0.5]), 100, 0.05), 2 * z * 0.05)
    log_odds, error = np.log(0.02 / 0.98), 1 / np.sqrt(100 * 0.02 * 0.98)
    ends = 1 / (1 + np.exp(-(log_odds + np.array([-z, z]) * error)))
    np.testing.assert_allclose(printed_width(np.array([0.02]), 100, 0.05), ends[1] - ends[0])
    assert printed_width(np.array([0.0, 1.0]), 100, 0.05).tolist() == [0, 0]
    assert np.isfinite(printed_width(np.array([1e-9]), 1, 1e-9)).all()


def test_what_the_next_table_is_made_of() -> None:
    uniform, p, mix = np.array([0.5, 0.5]), 0.5, 0.2
    blocks = [np.array([600, 400]), np.array([300, 200]), np.array([100, 300])]
    made: dict[Update, list[float]] = {}
    for update in ("pooled", "last", "average"):
        running = Running(Cells.of((2,)), np.array([p]), update)
        tables = made.setdefault(update, [])
        for counts in blocks:
            running.add(counts, uniform)
            tables.append(float((running.tables(mix)[0] - mix / 2) / (1 - mix)))
    own = [max(0.0, (counts[0] / counts.sum() - (1 - p) / 2) / p) for counts in blocks]
    assert own == [0.7, 0.7, 0.0]
    np.testing.assert_allclose(made["last"], own)
    np.testing.assert_allclose(made["average"], [0.7, 0.7, 0.35])
    np.testing.assert_allclose(made["pooled"], [0.7, 0.7, (1000 / 1900 - 0.25) / 0.5])


@pytest.mark.parametrize("sizes", [(), (2, 1)])
def test_groups_have_at_least_two_cells(sizes: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="at least"):
        Cells.of(sizes)
