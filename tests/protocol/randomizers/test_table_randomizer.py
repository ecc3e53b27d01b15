"""The randomizer with a table of fakes: exact weights and epsilon, its sampler, its inverse."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol import (
    CodeRandomizer,
    KeepElseTable,
    KeepUniform,
    randomize_columns,
)
from protocol.crypto.randomness import WORDS
from protocol.randomizers import Tables
from protocol.randomizers.unmixing import TableUnmixing
from tests.enumeration import keep, matrix
from tests.scripted import Scripted, seeded

HALF, QUARTER = WORDS // 2, WORDS // 4
SKEWED = (0.5, 0.05, 0.25, 0.0, 0.15, 0.05)


def faking(table: tuple[float, ...] = SKEWED, *, p: float = 0.4, mix: float = 0.1) -> KeepElseTable:
    return KeepElseTable.with_table(p=p, table=table, mix=mix)


@st.composite
def randomizers(draw: st.DrawFn, size: int | None = None) -> KeepElseTable:
    """Any threshold, and weights between any cuts of the words."""
    r = draw(st.integers(2, 8)) if size is None else size
    cuts = draw(st.lists(st.integers(1, WORDS - 1), min_size=r - 1, max_size=r - 1))
    bounds = [0, *sorted(cuts), WORDS]
    weights = tuple(high - low for low, high in itertools.pairwise(bounds))
    return KeepElseTable(threshold=draw(st.integers(1, WORDS - 1)), weights=weights)


def exact_matrix(randomizer: KeepElseTable) -> list[list[Fraction]]:
    p = Fraction(randomizer.threshold, WORDS)
    fakes = [(1 - p) * Fraction(weight, WORDS) for weight in randomizer.weights]
    return [
        [fake + (p if u == v else 0) for v, fake in enumerate(fakes)]
        for u in range(randomizer.size)
    ]


# The law


@settings(deadline=None, max_examples=100)
@given(randomizers())
def test_rows_sum_to_one_and_epsilon_is_the_largest_ratio(randomizer: KeepElseTable) -> None:
    rows = exact_matrix(randomizer)
    assert all(sum(row) == 1 for row in rows)
    np.testing.assert_allclose(
        randomizer.matrix(), [[float(entry) for entry in row] for row in rows], rtol=1e-15
    )
    columns = list(zip(*rows, strict=True))
    if min(map(min, columns)) == 0:
        assert randomizer.epsilon == math.inf
    else:
        largest = max(max(column) / min(column) for column in columns)
        assert randomizer.epsilon == pytest.approx(math.log1p(float(largest - 1)), rel=1e-14)
    np.testing.assert_allclose(randomizer.table.sum(), 1, atol=1e-15)
    assert randomizer.keep == randomizer.threshold / WORDS


def test_epsilon_of_round_numbers() -> None:
    # ln(1 + 0.5 / (0.5 * 0.25)) = ln 5, and of a table with a zero there is none.
    weights = (QUARTER, HALF, QUARTER)
    assert KeepElseTable(threshold=HALF, weights=weights).epsilon == math.log(5)
    assert KeepElseTable(threshold=HALF, weights=(0, HALF, HALF)).epsilon == math.inf
    least = KeepElseTable(threshold=HALF, weights=(1, WORDS - 1)).epsilon
    assert least == pytest.approx(64 * math.log(2), rel=1e-15)


@pytest.mark.parametrize("size", [2, 3, 16, 1000])
def test_uniform_fakes_are_keep_else_uniform(size: int) -> None:
    table = np.arange(size, dtype=np.float64)
    randomizer = KeepElseTable.with_table(p=0.3, table=table, mix=1.0)
    plain = KeepUniform.with_keep(size, p=0.3)
    assert randomizer.threshold == plain.threshold
    assert randomizer.epsilon == pytest.approx(plain.epsilon, rel=1e-14)
    np.testing.assert_allclose(randomizer.table, 1 / size, rtol=1e-13)
    assert max(randomizer.weights) - min(randomizer.weights) <= size
    assert randomizer.epsilon < KeepElseTable.with_table(p=0.3, table=table, mix=0.9).epsilon


# Weights from a table


@settings(deadline=None, max_examples=100)
@given(
    st.lists(st.floats(-1, 1), min_size=2, max_size=12).filter(lambda table: max(table) > 0),
    st.floats(0, 1),
)
def test_weights_are_the_mixed_table_to_a_word(table: list[float], mix: float) -> None:
    randomizer = KeepElseTable.with_table(p=0.5, table=table, mix=mix)
    masses = [max(Fraction(entry), Fraction(0)) for entry in table]
    share = Fraction(mix)
    law = [(1 - share) * mass / sum(masses) + share / len(table) for mass in masses]
    assert sum(randomizer.weights) == WORDS
    alone = max(law) > 1 - Fraction(1, WORDS)
    gaps = []
    for weight, entry in zip(randomizer.weights, law, strict=True):
        gaps.append(abs(weight - WORDS * entry))
        assert (weight > 0) == (entry > 0) or (alone and weight == 1)
    assert max(gaps) <= len(table)
    assert sum(gap > 1 for gap in gaps) <= 1


def test_residual_goes_to_the_largest_weight() -> None:
    assert WORDS % 3 == 1
    third = WORDS // 3
    assert faking((1.0, 1.0, 1.0), mix=0.0).weights == (third + 1, third, third)
    assert faking((-3.0, 0.0, 2.0), mix=1.0).weights == (third + 1, third, third)
    assert faking((1e-30, 3.0, 1.0), mix=0.0).weights == (1, 3 * QUARTER - 1, QUARTER)
    assert faking((-1.0, 3.0, 1.0), mix=0.0).weights == (0, 3 * QUARTER, QUARTER)
    assert faking((2.0, 0.0), mix=0.0).weights == (WORDS - 1, 1)
    assert faking((-1.0, 0.0, 0.5), mix=0.0).weights == (1, 0, WORDS - 1)
    least, middle = round(Fraction(WORDS, 6)), round(Fraction(7 * WORDS, 24))
    weights = (least, WORDS - least - middle, middle)
    assert faking((0.0, 6.0, 2.0), mix=0.5).weights == weights


@pytest.mark.parametrize(
    ("message", "name", "values"),
    [
        ("keep probability", "p", [0.0, 1.0, math.nan, 1e-25]),
        ("mix", "mix", [-0.1, 1.1, math.nan]),
        ("shape", "table", [[1], [[1, 1], [1, 1]], 1.0, []]),
        ("finite", "table", [[1, math.inf], [1, math.nan]]),
        ("positive", "table", [[0, -1], [0, 0]]),
    ],
)
def test_tables_that_are_no_law_are_refused(message: str, name: str, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(ValueError, match=message):
            KeepElseTable.with_table(**{"p": 0.5, "table": [1, 1], "mix": 0.1, name: value})


@pytest.mark.parametrize(
    ("threshold", "weights", "message"),
    [
        (0, (HALF, HALF), "threshold"),
        (WORDS, (HALF, HALF), "threshold"),
        (1, (HALF,), "at least 2"),
        (1, (), "at least 2"),
        (1, (0, WORDS), "weight 18446744073709551616:"),
        (1, (-1, HALF + 1, HALF), "weight -1:"),
        (1, (HALF, HALF - 1), "sum to 18446744073709551615,"),
    ],
)
def test_weights_that_are_no_law_are_refused(
    threshold: int, weights: tuple[int, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        KeepElseTable(threshold=threshold, weights=weights)
    coded = msgspec.json.encode({"type": "keep-table", "threshold": threshold, "weights": weights})
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(coded, type=CodeRandomizer)


# The sampler


def test_cutting_the_codes_does_not_change_the_reports() -> None:
    codes, stream = np.arange(600, dtype=np.uint8) % 6, seeded(4)
    parts = [faking().randomize(part, stream) for part in (codes[:250], codes[250:])]
    np.testing.assert_array_equal(np.concatenate(parts), faking().randomize(codes, seeded(4)))


def test_columns_of_different_kinds_are_randomized_in_turn() -> None:
    chosen = (keep(6, 0.5), faking(), matrix(((0.9, 0.1), (0.2, 0.8))))
    for k in (5, 600):
        codes = np.tile(np.array([[3, 5, 1]], np.uint8), (k, 1))
        drawn = seeded(3)
        expected = [r.randomize(codes[:, j], drawn) for j, r in enumerate(chosen)]
        reports = randomize_columns(chosen, codes, seeded(3))
        np.testing.assert_array_equal(reports, np.array(expected).T)


TOGETHER = (
    faking(),
    KeepElseTable(threshold=1, weights=(QUARTER, WORDS - QUARTER)),
    faking((0.2,) * 9, p=0.7),
    # The last weights are 0, so there is one bound only.
    KeepElseTable(threshold=HALF, weights=(HALF, HALF, 0, 0)),
)


def test_tables_together_draw_what_each_draws_in_turn() -> None:
    chooser = np.random.default_rng(2)
    which = chooser.integers(0, len(TOGETHER), 500)
    codes = chooser.integers(0, [table.size for table in TOGETHER], (500, 4))[
        np.arange(500), which
    ].astype(np.uint8)
    drawn, expected = seeded(3), codes.copy()
    for place, table in enumerate(TOGETHER):
        expected[which == place] = table.randomize(codes[which == place], drawn)
    np.testing.assert_array_equal(Tables(TOGETHER).randomize(codes, which, seeded(3)), expected)


@pytest.mark.parametrize("place", range(len(TOGETHER)))
def test_tables_together_draw_fakes_exactly_at_their_bounds(place: int) -> None:
    bounds = list(itertools.accumulate(TOGETHER[place].weights))[:-1]
    fakes = sorted({0, WORDS - 1, *(b - 1 for b in bounds), *(b for b in bounds if b < WORDS)})
    # No coin keeps a code.
    words = [word for fake in fakes for word in (WORDS - 1, fake)]
    codes = np.zeros(len(fakes), np.uint8)
    alone = TOGETHER[place].randomize(codes, Scripted(*words))
    which = np.full(len(fakes), place)
    together = Tables(TOGETHER).randomize(codes, which, Scripted(*words))
    np.testing.assert_array_equal(together, alone)


def test_tables_together_refuse_codes_outside_their_domains() -> None:
    tables, stream = Tables(TOGETHER), seeded()
    with pytest.raises(ValueError, match="below the size of its randomizer"):
        tables.randomize(np.array([5, 2], np.uint8), np.array([0, 1]), stream)
    with pytest.raises(ValueError, match="codes of type"):
        tables.randomize(np.array([0], np.int64), np.array([0]), stream)


# The inverse


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(2, 4), min_size=1, max_size=3), st.floats(0.05, 0.95), st.data())
def test_operators_invert_every_marginal(sizes: list[int], p: float, data: st.DataObject) -> None:
    kept = data.draw(st.permutations(range(len(sizes))))
    kept = kept[: data.draw(st.integers(1, len(sizes)))]
    weights = data.draw(randomizers(math.prod(sizes))).weights
    randomizer = KeepElseTable(threshold=int(p * WORDS), weights=weights)
    inverse = randomizer.unmixing(sizes, kept)
    assert isinstance(inverse, TableUnmixing)
    assert inverse.tabulated == tuple(kept)
    cells = math.prod(sizes[place] for place in kept)
    assert inverse.cells == cells
    # The law of what is kept of a report, from the dense matrix; the same whatever is dropped.
    names = np.array(list(np.ndindex(*sizes)))[:, list(kept)]
    group = np.ravel_multi_index(tuple(names.T), [sizes[place] for place in kept])
    summed = randomizer.matrix() @ np.eye(cells)[group]
    law = np.array([summed[np.flatnonzero(group == cell)[0]] for cell in range(cells)])
    np.testing.assert_allclose(law[group], summed, atol=1e-15)
    scale = 1 / p**2
    q = np.linalg.inv(law)
    operators = ((inverse.apply, q), (inverse.apply_transposed, q.T), (inverse.apply_squared, q**2))
    for axis in range(3):
        table = np.ones([cells if axis == place else 2 for place in range(3)])
        table += np.arange(table.size).reshape(table.shape) / table.size
        for operator, dense in operators:
            expected = np.moveaxis(np.tensordot(table, dense, (axis, 0)), -1, axis)
            close = 1e-12 * scale**2 * cells
            np.testing.assert_allclose(operator(table, axis), expected, atol=close)


def test_marginals_of_what_is_not_there_are_refused() -> None:
    for sizes, kept in (((2, 4), (0,)), ((2, 3), ()), ((2, 3), (2,)), ((2, 3), (0, 0))):
        with pytest.raises(ValueError, match=r"size|places"):
            faking().unmixing(sizes, kept)


def test_a_marginal_of_one_category_alone_is_still_inverted() -> None:
    randomizer = KeepElseTable(threshold=HALF, weights=(HALF, HALF, 0, 0))
    inverse = randomizer.unmixing((2, 2), (0,))
    np.testing.assert_allclose(inverse.apply(np.array([0.75, 0.25]), 0), [0.5, 0.5], atol=1e-15)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 50), min_size=6, max_size=6).filter(any), st.floats(0.05, 0.95))
def test_unmixing_undoes_the_law_of_the_reports(truth: list[int], p: float) -> None:
    randomizer = faking(p=p)
    pi = np.array(truth) / sum(truth)
    inverse = randomizer.unmixing((6,), (0,))
    np.testing.assert_allclose(inverse.apply(pi @ randomizer.matrix(), 0), pi, atol=1e-14 / p)
