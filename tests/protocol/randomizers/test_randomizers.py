"""Randomizers: exact matrices and epsilons, and samplers that follow them."""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol import (
    CodeRandomizer,
    KeepUniform,
    join_codes,
    randomize_columns,
    split_codes,
)
from protocol.crypto.randomness import WORDS
from protocol.wire.arrays import smallest_dtype
from tests.scripted import Scripted, seeded
from tests.statistical import ALPHA, WRONG, chi_square_p_value

HALF = WORDS // 2
ROWS = [[0.7, 0.2, 0.1], [0.0, 0.6, 0.4], [0.25, 0.25, 0.5]]

sizes = st.integers(2, 40)
probabilities = st.floats(1e-6, 1 - 1e-6)


# Keep, else draw uniformly: the law


@settings(deadline=None, max_examples=100)
@given(sizes, probabilities)
def test_epsilon_is_the_largest_log_ratio_of_the_matrix(size: int, p: float) -> None:
    randomizer = KeepUniform.with_keep(size, p=p)
    matrix = randomizer.matrix()
    assert matrix.sum(axis=1) == pytest.approx(np.ones(size), abs=1e-14)
    ratios = matrix.max(axis=0) / matrix.min(axis=0)
    assert randomizer.epsilon == pytest.approx(math.log(ratios.max()), rel=1e-9, abs=1e-12)
    assert randomizer.epsilon == pytest.approx(math.log1p(size * p / (1 - p)), rel=1e-9)


@settings(deadline=None, max_examples=100)
@given(st.integers(2, WORDS - 1), st.integers(1, WORDS - 1))
def test_matrix_entries_are_the_exact_rationals(size: int, threshold: int) -> None:
    randomizer = KeepUniform(size, threshold)
    a = Fraction(threshold, WORDS)
    assert randomizer.keep == float(a)
    assert randomizer.diagonal == float(a + (1 - a) / size)
    assert randomizer.off_diagonal == float((1 - a) / size)
    odds = Decimal(size * threshold) / Decimal(WORDS - threshold)
    assert randomizer.epsilon == pytest.approx(math.log1p(odds), rel=1e-15)


@settings(deadline=None, max_examples=100)
@given(sizes, probabilities)
def test_parameters_give_the_law_they_name(size: int, p: float) -> None:
    kept = KeepUniform.with_keep(size, p=p)
    assert abs(Fraction(kept.threshold, WORDS) - Fraction(p)) <= Fraction(1, 2 * WORDS)
    diagonal = p + (1 - p) / size
    assert KeepUniform.with_diagonal(size, diagonal=diagonal).diagonal == pytest.approx(
        diagonal, abs=1e-15
    )


@settings(deadline=None, max_examples=100)
@given(st.integers(2, 10**7), st.floats(1e-9, 40))
def test_epsilon_asked_for_is_nearly_reached_and_never_exceeded(size: int, epsilon: float) -> None:
    randomizer = KeepUniform.with_epsilon(size, epsilon=epsilon)
    assert randomizer.epsilon <= epsilon
    exact = Context(prec=80)
    bound = exact.exp(Decimal(epsilon))

    def odds(threshold: int) -> Decimal:
        return exact.divide(Decimal(size * threshold + WORDS - threshold), WORDS - threshold)

    assert odds(randomizer.threshold) <= bound
    if randomizer.threshold < WORDS - 1:
        assert odds(randomizer.threshold + 1) > bound


@pytest.mark.parametrize(
    ("size", "threshold"), [(1, HALF), (0, HALF), (WORDS, HALF), (3, 0), (3, WORDS), (3, -1)]
)
def test_parameters_that_protect_or_tell_nothing_are_refused(size: int, threshold: int) -> None:
    with pytest.raises(ValueError, match=r"size|threshold"):
        KeepUniform(size, threshold)


@pytest.mark.parametrize("p", [0.0, 1.0, -0.1, 1.1, 1e-30, math.nan])
def test_keep_probabilities_out_of_range_are_refused(p: float) -> None:
    with pytest.raises(ValueError, match="keep probability"):
        KeepUniform.with_keep(3, p=p)


@pytest.mark.parametrize(
    ("size", "diagonal"), [(2, 0.5), (2, 0.4), (3, 1.0), (3, 1 / 4), (1, 0.9), (3, math.nan)]
)
def test_diagonals_out_of_range_are_refused(size: int, diagonal: float) -> None:
    with pytest.raises(ValueError, match="diagonal"):
        KeepUniform.with_diagonal(size, diagonal=diagonal)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.inf, math.nan, 1e-25])
def test_epsilons_out_of_range_are_refused(epsilon: float) -> None:
    with pytest.raises(ValueError, match="epsilon"):
        KeepUniform.with_epsilon(3, epsilon=epsilon)


# Keep, else draw uniformly: the sampler


def test_words_map_to_reports_exactly() -> None:
    # 2**64 - threshold = 3 * 5 + 2 words are left to five categories: the last two are refused.
    randomizer = KeepUniform(5, WORDS - 17)
    first, last = WORDS - 17, WORDS - 1
    words = [0, first - 1, first, first + 1, first + 14, last - 1, last]
    fresh = [WORDS - 1, 3, 9]
    # 2**64 = 1 modulo 5, so the first of the fresh words is refused too, and 9 comes in its place.
    codes = np.full(7, 4, np.uint8)
    reports = randomizer.randomize(codes, Scripted(*words, *fresh))
    assert reports.tolist() == [4, 4, 0, 1, 4, 4, 3]


@settings(deadline=None, max_examples=200)
@given(st.integers(2, 300), st.integers(1, WORDS - 1), st.data())
def test_every_report_is_equally_often_reached(
    size: int, threshold: int, data: st.DataObject
) -> None:
    randomizer = KeepUniform(size, threshold)
    # The words that are neither kept nor refused are whole runs of all categories.
    used = randomizer.last + 1 - threshold
    assert used % size == 0
    assert WORDS - 1 - randomizer.last < size
    word = data.draw(st.integers(0, WORDS - 1))
    report = int(randomizer.randomize(np.array([1], np.uint16), Scripted(word, 0))[0])
    if word < threshold:
        assert report == 1
    elif word <= randomizer.last:
        assert report == (word - threshold) % size
    else:
        assert report == 0


def test_keep_sampler_is_uniform_where_a_quarter_of_the_words_is_refused() -> None:
    # Without the refusal every report below 2**62 would be twice as likely as the others.
    size = 3 * 2**62
    reports = KeepUniform(size, 1).randomize(np.zeros(200_000, np.uint64), seeded())
    observed = np.bincount((reports >> np.uint64(60)).astype(np.int64), minlength=12)
    assert chi_square_p_value(observed, np.full(12, 1 / 12)) > ALPHA
    wrong = np.repeat([WRONG / 12, (3 - WRONG) / 24], [4, 8])
    assert chi_square_p_value(observed, wrong) < ALPHA


# Blocks of records


ADULT = (9, 16, 7, 15, 6, 5, 2, 2)


@pytest.mark.parametrize("k", [0, 1, 100, 512, 513, 2000])
def test_columns_are_randomized_in_turn_from_one_stream(k: int) -> None:
    randomizers = tuple(KeepUniform.with_keep(size, p=0.6) for size in ADULT)
    codes = seeded(2).integers(np.array(ADULT), (k, 8)).astype(np.uint8)
    drawn = seeded(3)
    expected = [r.randomize(codes[:, j], drawn) for j, r in enumerate(randomizers)]
    reports = randomize_columns(randomizers, codes, seeded(3))
    assert reports.dtype == codes.dtype
    assert reports.flags.c_contiguous
    np.testing.assert_array_equal(reports, np.array(expected).T)


def test_columns_with_refused_words_are_uniform_on_their_sizes() -> None:
    sizes = (2**63 + 1, 3)
    randomizers = (KeepUniform(sizes[0], 1), KeepUniform(3, WORDS - 17))
    # The second column leaves 17 words to three categories: its last two are refused.
    words = [WORDS - 1, 1, WORDS - 1, WORDS - 18]
    codes = np.array([[5, 2], [5, 2]], np.uint64)
    reports = randomize_columns(randomizers, codes, Scripted(*words, 2**63, 1))
    assert reports.tolist() == [[2**63, 1], [0, 2]]


@pytest.mark.parametrize("shape", [(3,), (3, 1), (3, 3)])
def test_columns_need_one_randomizer_each(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="shape"):
        randomize_columns((KeepUniform(2, HALF),) * 2, np.zeros(shape, np.uint8), seeded())


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(2, 2**12), min_size=1, max_size=5), st.data())
def test_product_codes_come_apart_again(sizes: list[int], data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.tuples(*(st.integers(0, r - 1) for r in sizes)), max_size=5))
    codes = np.array(rows, np.uint16).reshape(-1, len(sizes))
    joint = join_codes(codes, sizes)
    assert joint.dtype == smallest_dtype(math.prod(sizes))
    for row, code in zip(rows, joint.tolist(), strict=True):
        expected = 0
        for value, size in zip(row, sizes, strict=True):
            expected = expected * size + value
        assert code == expected
    np.testing.assert_array_equal(split_codes(joint, sizes), codes)


def test_product_codes_at_the_limit_of_64_bits() -> None:
    codes = np.array([[2**32 - 1, 2**32 - 1], [0, 1]], np.uint32)
    joint = join_codes(codes, (2**32, 2**32))
    assert joint.tolist() == [WORDS - 1, 1]
    np.testing.assert_array_equal(split_codes(joint, (2**32, 2**32)), codes)
    with pytest.raises(ValueError, match="64 bits"):
        join_codes(codes, (2**32, 2**32 + 1))


def test_product_codes_outside_the_domain_are_refused() -> None:
    with pytest.raises(ValueError, match="column 1: code 3"):
        join_codes(np.array([[0, 3]], np.uint8), (2, 3))
    with pytest.raises(ValueError, match="shape"):
        join_codes(np.array([[0, 3]], np.uint8), (2, 3, 4))
    with pytest.raises(ValueError, match="code 6"):
        split_codes(np.array([6], np.uint8), (2, 3))


def test_randomizers_that_are_none_do_not_arrive() -> None:
    for text in (b'{"type":"keep","size":3,"threshold":0}', b'{"type":"matrix","weights":[[1]]}'):
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(text, type=CodeRandomizer)
