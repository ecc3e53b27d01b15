"""Reports on binary attributes: exact laws and epsilons, samplers, what is drawn, sizes."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from math import comb

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol import KeepUniform, Randomized, UnaryEncoding, join_codes
from protocol.accounting.accountants import PureAccountant
from protocol.crypto.randomness import WORDS
from protocol.randomizers.binary import coefficients, submasks, subsets
from protocol.randomizers.marginals import METHODS, MarginalPlan, Method, report_bits
from protocol.randomizers.oracles import unary
from tests.scripted import seeded
from tests.statistical import ALPHA, WRONG, chi_square_p_value

QUARTER = WORDS // 4


def truthful(method: Method, *, d: int, k: int) -> MarginalPlan:
    """A plan whose reports are the truth but for a chance of 2**-64 or so."""
    cells = 2**d if method.startswith("Inp") else 2**k
    if method.endswith("RR"):
        return MarginalPlan(
            method=method, d=d, k=k, randomizer=UnaryEncoding.flipping(cells, threshold=1)
        )
    size = 2 if method.endswith("HT") else cells
    return MarginalPlan(method=method, d=d, k=k, randomizer=KeepUniform(size, WORDS - 1))


# The one-hot randomizer


@settings(deadline=None, max_examples=60)
@given(st.integers(2, 6), st.integers(WORDS // 100, WORDS // 2 - 1))
def test_rows_sum_to_one_and_epsilon_is_the_largest_ratio(size: int, threshold: int) -> None:
    randomizer = UnaryEncoding.flipping(size, threshold=threshold)
    flip = Fraction(threshold, WORDS)
    rows = [
        [
            flip ** (differ := (report ^ (1 << code)).bit_count()) * (1 - flip) ** (size - differ)
            for report in range(2**size)
        ]
        for code in range(size)
    ]
    assert all(sum(row) == 1 for row in rows)
    np.testing.assert_allclose(
        randomizer.matrix(), [[float(entry) for entry in row] for row in rows], rtol=1e-13
    )
    largest = max(max(column) / min(column) for column in zip(*rows, strict=True))
    assert largest == ((1 - flip) / flip) ** 2
    assert randomizer.epsilon == pytest.approx(math.log1p(float(largest - 1)), rel=1e-13)


def test_epsilon_of_round_numbers() -> None:
    assert UnaryEncoding.flipping(5, threshold=QUARTER).epsilon == math.log(9)
    assert UnaryEncoding.flipping(2**16, threshold=QUARTER).epsilon == math.log(9)
    assert UnaryEncoding.flipping(2, threshold=QUARTER).q == Fraction(1, 4)
    assert UnaryEncoding.flipping(2, threshold=QUARTER).support.gain == Fraction(1, 2)
    assert UnaryEncoding.flipping(2, threshold=1).epsilon == pytest.approx(
        128 * math.log(2), rel=1e-15
    )


@settings(deadline=None, max_examples=60)
@given(st.floats(1e-6, 40))
def test_the_smallest_flip_for_an_epsilon(epsilon: float) -> None:
    threshold = UnaryEncoding.symmetrized(4, epsilon=epsilon).other
    # Compared as reals: e**(epsilon/2) against (1-f)/f of this threshold and of the one below.
    odds = Fraction(math.exp(epsilon / 2))
    assert Fraction(WORDS - threshold, threshold) <= odds * (1 + Fraction(1, 10**14))
    below = max(1, threshold - 1 - threshold // 10**13)
    assert Fraction(WORDS - below, below) >= odds * (1 - Fraction(1, 10**14)) or threshold == 1
    assert UnaryEncoding.symmetrized(4, epsilon=epsilon).epsilon <= epsilon * (1 + 1e-15)


def test_half_of_epsilon_goes_to_each_bit() -> None:
    bit = KeepUniform.with_epsilon(2, epsilon=0.55)
    hot = UnaryEncoding.symmetrized(8, epsilon=1.1)
    assert hot.epsilon == pytest.approx(2 * bit.epsilon, rel=1e-15)
    assert float(hot.q) == pytest.approx(bit.off_diagonal, rel=1e-15)
    assert hot.epsilon <= 1.1


@pytest.mark.parametrize("size", [1, 0, -4, 2**16 + 1])
def test_sizes_out_of_range_are_refused(size: int) -> None:
    with pytest.raises(ValueError, match="size"):
        UnaryEncoding.flipping(size, threshold=1)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"type": "unary", "size": size, "hit": 2, "other": 1}, UnaryEncoding)


def test_what_is_no_law_is_refused() -> None:
    for threshold in (0, -1, WORDS // 2, WORDS):
        with pytest.raises(ValueError, match="threshold"):
            UnaryEncoding.flipping(2, threshold=threshold)
    for epsilon in (0.0, -1.0, math.inf, math.nan, 1e-30):
        with pytest.raises(ValueError, match="epsilon"):
            UnaryEncoding.symmetrized(2, epsilon=epsilon)
    with pytest.raises(ValueError, match="table"):
        UnaryEncoding.flipping(13, threshold=1).matrix()


@pytest.mark.parametrize("size", [3, 8, 9, 100])
def test_blocks_do_not_change_the_reports(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    codes = (np.arange(50) % size).astype(np.uint16)
    randomizer = UnaryEncoding.flipping(size, threshold=QUARTER)
    whole = randomizer.randomize(codes, seeded(3))
    monkeypatch.setattr(unary, "_WORDS_AT_ONCE", 7)
    np.testing.assert_array_equal(randomizer.randomize(codes, seeded(3)), whole)
    bits = seeded(3).bernoulli(QUARTER, (50, size)) ^ np.eye(size, dtype=bool)[codes]
    np.testing.assert_array_equal(whole, np.packbits(bits, axis=1, bitorder="little"))
    assert whole.shape == (50, randomizer.octets)
    assert not randomizer.randomize(codes[:0], seeded()).size


def test_an_accountant_takes_its_epsilon() -> None:
    randomizer = UnaryEncoding.symmetrized(16, epsilon=2.0)
    loss = PureAccountant().judge(Randomized(randomizer, ("a", "b")))
    assert loss.record == randomizer.epsilon == loss.attributes["b"]


# Cells and sets


def test_sets_and_their_subsets() -> None:
    assert subsets(3, 2).tolist() == [0b110, 0b101, 0b011]
    assert coefficients(3, 2).tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert submasks(subsets(3, 2)).tolist() == [[0, 2, 4, 6], [0, 1, 4, 5], [0, 1, 2, 3]]
    for k in range(1, 5):
        assert len(coefficients(24, k)) == sum(comb(24, ways) for ways in range(k + 1))


# Plans


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("d", "k"), [(1, 1), (3, 2), (5, 3)])
def test_truth_is_of_the_attributes_that_are_drawn(method: Method, d: int, k: int) -> None:
    plan = truthful(method, d=d, k=k)
    codes = np.random.default_rng(d).integers(0, 2, (300, d), dtype=np.uint8)
    choices, answers = plan.randomize(join_codes(codes, (2,) * d), seeded(2))
    assert plan.choices == len(plan.masks)
    whole = tuple(range(d))
    marginals = list(itertools.combinations(range(d), k))
    for row, choice, answer in zip(codes.tolist(), choices.tolist(), answers, strict=True):
        places = plan.attributes(choice)
        if plan.transformed:
            assert 1 <= len(places) <= k
            assert answer == sum(row[place] for place in places) % 2
            continue
        assert places == (whole if plan.by_input else marginals[choice])
        cell = int("".join(str(row[place]) for place in places), 2)
        if method.endswith("PS"):
            assert answer == cell
        else:
            bits = np.unpackbits(answer, bitorder="little")
            assert np.flatnonzero(bits).tolist() == [cell]


def test_choices_of_the_transforms() -> None:
    whole = truthful("InpHT", d=4, k=2)
    found = [whole.attributes(choice) for choice in range(whole.choices)]
    sets = [s for ways in (1, 2) for s in itertools.combinations(range(4), ways)]
    assert sorted(found) == sorted(sets)
    parts = truthful("MargHT", d=3, k=2)
    found = [parts.attributes(choice) for choice in range(parts.choices)]
    assert found == [(1,), (0,), (0, 1), (2,), (0,), (0, 2), (2,), (1,), (1, 2)]


@pytest.mark.parametrize("method", ["InpHT", "MargPS", "MargHT"])
def test_choices_are_uniform_and_blind(method: Method) -> None:
    plan = truthful(method, d=4, k=2)
    n = 100_000
    drawn = plan.choose(n, seeded(4))
    zeros, ones = (np.full(n, cell, np.uint8) for cell in (0, 15))
    for cells in (zeros, ones):
        np.testing.assert_array_equal(plan.randomize(cells, seeded(4)).choices, drawn)
    observed = np.bincount(drawn, minlength=plan.choices)
    law = np.full(plan.choices, 1 / plan.choices)
    assert chi_square_p_value(observed, law) > ALPHA
    wrong = law * np.where(np.arange(plan.choices) % 2, WRONG, 1)
    assert chi_square_p_value(observed, wrong / wrong.sum()) < ALPHA


@pytest.mark.parametrize("method", METHODS)
def test_a_whole_report_costs_epsilon_exactly(method: Method) -> None:
    plan = MarginalPlan.with_epsilon(method, d=3, k=2, epsilon=1.1)
    assert plan.epsilon <= 1.1
    assert plan.epsilon == pytest.approx(1.1, rel=1e-14)
    # Every choice's true answers, from the truthful plan; then the law of what is said of them.
    matrix, cells = plan.randomizer.matrix(), np.arange(8, dtype=np.uint8)
    honest = truthful(method, d=3, k=2)
    worst = 0.0
    for choice in range(plan.choices):
        said = honest.answer(cells, np.full(8, choice, honest.choose(1, seeded()).dtype), seeded())
        if method.endswith("RR"):
            said = np.unpackbits(said, axis=1, bitorder="little").argmax(axis=1)
        law = matrix[said]
        worst = max(worst, float((law.max(axis=0) / law.min(axis=0)).max()))
        # An attribute that the choice is not about changes nothing.
        free = [p for p in range(3) if p not in plan.attributes(choice)]
        for place in free:
            np.testing.assert_array_equal(law, law[cells ^ (1 << (2 - place))])
    assert math.log(worst) == pytest.approx(plan.epsilon, rel=1e-13)


def test_report_bits_of_the_paper() -> None:
    # d = 8, k = 2: C = 8 + 28 = 36 coefficients, 28 marginals.
    bits = {method: report_bits(method, d=8, k=2) for method in METHODS}
    assert bits == {
        "InpRR": 256,
        "InpPS": 8,
        "InpHT": 6 + 1,
        "MargRR": 5 + 4,
        "MargPS": 5 + 2,
        "MargHT": 5 + 2 + 1,
    }
    assert report_bits("MargPS", d=2, k=2) == 2
    assert report_bits("InpHT", d=1, k=1) == 1
    assert report_bits("InpRR", d=24, k=1) == 2**24
    for method in METHODS[1:]:
        plan = truthful(method, d=8, k=2)
        drawn = (plan.choices - 1).bit_length()
        kind = method[-2:]
        answered = {"RR": plan.cells, "PS": plan.cells.bit_length() - 1, "HT": 1}[kind]
        # Marginal and coefficient are counted one by one in MargHT.
        assert bits[method] in (drawn + answered, drawn + answered + (method == "MargHT"))


def test_plans_that_cannot_be_are_refused() -> None:
    with pytest.raises(
        ValueError, match=r"2\*\*17 bits, more than 2\*\*16; InpHT would do, with 9"
    ):
        MarginalPlan.with_epsilon("InpRR", d=17, k=2, epsilon=1.0)
    assert MarginalPlan.with_epsilon("InpRR", d=16, k=2, epsilon=1.0).cells == 2**16
    for method in METHODS:
        with pytest.raises(ValueError, match="25 binary attributes: expected 1 to 24; release"):
            MarginalPlan.with_epsilon(method, d=25, k=2, epsilon=1.0)
        for d, k in ((8, 5), (3, 4), (3, 0)):
            with pytest.raises(ValueError, match=f"{k}-way marginals of {d}: expected 1 to"):
                report_bits(method, d=d, k=k)
    with pytest.raises(ValueError, match="method 'InpXX': expected one of InpRR, "):
        report_bits("InpXX", d=2, k=1)
    for method, randomizer in (
        ("InpRR", KeepUniform(8, 1)),
        ("InpPS", KeepUniform(4, 1)),
        ("InpHT", KeepUniform(8, 1)),
        ("MargPS", KeepUniform(8, 1)),
        ("MargRR", UnaryEncoding.flipping(8, threshold=1)),
    ):
        with pytest.raises(ValueError, match=f"{method}: .* expected"):
            MarginalPlan(method=method, d=3, k=2, randomizer=randomizer)


def test_records_that_do_not_fit_are_refused() -> None:
    plan = truthful("MargPS", d=3, k=2)
    cells, choices = np.zeros(2, np.uint8), np.zeros(2, np.uint8)
    for wrong in (cells + np.uint8(8), cells.astype(np.int64), cells.reshape(1, 2), cells[:1]):
        with pytest.raises(ValueError, match=r"code|shape"):
            plan.answer(wrong, choices, seeded())
    with pytest.raises(ValueError, match="code 3"):
        plan.answer(cells, choices + np.uint8(3), seeded())
