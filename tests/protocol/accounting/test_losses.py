"""Privacy losses: against closed forms, and against every outcome of small mechanisms."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from protocol import KeepElseTable, KeepUniform, PrivKV, PrivKVM, Randomizer, UnaryEncoding
from protocol.accounting.losses import LossDistribution
from protocol.randomizers.keyvalue import ABSENT, MINUS, PLUS
from protocol.randomizers.pairs import ThreePoint
from protocol.randomizers.vetting import dominating_pairs
from tests.enumeration import ROWS, matrix

Floats = NDArray[np.float64]

SKEWED = KeepElseTable.with_table(p=0.4, table=[5.0, 3.0, 1.0], mix=0.1)
FLAT = KeepElseTable.with_table(p=0.4, table=[1.0] * 4, mix=1.0)
PRIVKV = PrivKV.with_budget(3, epsilon=1.5)
DENSE: dict[str, Randomizer] = {
    "binary": KeepUniform.with_keep(2, p=0.3),
    "four": KeepUniform.with_epsilon(4, epsilon=1.2),
    "one-hot": UnaryEncoding.symmetrized(3, epsilon=1.1),
    "skewed table": SKEWED,
    "flat table": FLAT,
    "matrix": matrix(ROWS),
    "key-value": PRIVKV,
    "values mostly": PrivKV.with_epsilon(3, key_epsilon=0.4, value_epsilon=2.0),
}
TIGHT = ("binary", "four", "one-hot", "flat table")
ALPHAS = (1.0, 1.01, 1.2, 1.5, 2.0, 2.7, 4.0, 7.0, 11.0, 19.0)


def keep(size: int, epsilon: float) -> KeepUniform:
    return KeepUniform.with_epsilon(size, epsilon=epsilon)


def losses(*randomizers: Randomizer, **limits: float) -> LossDistribution:
    counts: Counter[ThreePoint] = Counter()
    for randomizer in randomizers:
        pairs = dominating_pairs(randomizer).pairs
        assert pairs is not None
        counts.update(pairs)
    return LossDistribution.of(counts, **limits)


def rows_of(randomizer: Randomizer) -> Floats:
    assert not isinstance(randomizer, PrivKVM)
    return randomizer.matrix()


def divergence(one: Floats, other: Floats, alpha: float) -> float:
    """The hockey-stick divergence, over every outcome."""
    return float(np.maximum(one - alpha * other, 0.0).sum())


def pairs_of_laws(*randomizers: Randomizer) -> list[tuple[Floats, Floats]]:
    """The laws of all reports together, for every two records."""
    found = [(np.ones(1), np.ones(1))]
    for randomizer in randomizers:
        rows = rows_of(randomizer)
        both = list(itertools.product(rows, repeat=2))
        found = [(np.kron(p, row), np.kron(q, other)) for p, q in found for row, other in both]
    return found


@pytest.mark.parametrize("draws", [1, 2, 7, 50, 200])
def test_binary_draws_in_closed_form(draws: int) -> None:
    """Kairouz, Oh and Viswanath, Theorem 3.3: delta at the epsilons at which it bends."""
    epsilon = 0.3
    composed = losses(*[keep(2, epsilon)] * draws)
    for i in range(draws // 2 + 1):
        terms = [
            math.comb(draws, j)
            * (math.exp((draws - j) * epsilon) - math.exp((draws - 2 * i + j) * epsilon))
            for j in range(i)
        ]
        delta = math.fsum(terms) / (1 + math.exp(epsilon)) ** draws
        at = (draws - 2 * i) * epsilon
        assert composed.delta(at) == pytest.approx(delta, rel=1e-9, abs=1e-300)
        if i and delta < composed.delta(0.0):
            assert composed.epsilon(delta) == pytest.approx(at, abs=1e-9)


@pytest.mark.parametrize(
    "counts", [{2: 3}, {3: 4}, {5: 1, 2: 2}, {16: 3, 3: 2, 2: 2}, {4: 30}, {40: 12, 7: 5}]
)
def test_all_counts_in_exact_rationals(counts: dict[int, int]) -> None:
    """Every way in which the draws can come out, by exact multinomials."""
    law: dict[Fraction, Fraction] = {Fraction(1): Fraction(1)}
    randomizers = []
    for place, (size, draws) in enumerate(counts.items()):
        randomizer = KeepUniform.with_keep(size, p=0.2 + 0.1 * place)
        randomizers += [randomizer] * draws
        (pair,) = dominating_pairs(randomizer).pairs or ()
        rare = pair.distance / (pair.ratio - 1)
        for _ in range(draws):
            after: dict[Fraction, Fraction] = {}
            for ratio, mass in law.items():
                for factor, share in (
                    (pair.ratio, rare * pair.ratio),
                    (Fraction(1), 1 - rare - rare * pair.ratio),
                    (1 / pair.ratio, rare),
                ):
                    after[ratio * factor] = after.get(ratio * factor, Fraction(0)) + mass * share
            law = after
    found = losses(*randomizers)
    top = max(law)
    for place in range(8):
        alpha = Fraction(round(float(top) ** (place / 8) * 2**40), 2**40)
        exact = sum((max(m - alpha * m / ratio, Fraction(0)) for ratio, m in law.items()))
        assert found.delta(math.log(alpha)) == pytest.approx(float(exact), rel=1e-9)
        assert found.epsilon(float(exact)) == pytest.approx(math.log(alpha), abs=1e-9)


@pytest.mark.parametrize(
    "names",
    [
        *itertools.combinations_with_replacement(DENSE, 2),
        ("binary", "four", "flat table"),
        ("four",) * 3,
    ],
)
def test_no_two_records_of_some_draws_differ_by_more(names: tuple[str, ...]) -> None:
    randomizers = [DENSE[name] for name in names]
    composed = losses(*randomizers)
    laws = pairs_of_laws(*randomizers)
    for alpha in ALPHAS:
        worst = max(divergence(p, q, alpha) for p, q in laws)
        assert worst <= composed.delta(math.log(alpha)) + 1e-12
        if set(names) <= set(TIGHT):
            assert worst == pytest.approx(composed.delta(math.log(alpha)), abs=1e-12)


@pytest.mark.parametrize("name", DENSE)
def test_what_is_said_to_be_tight_is(name: str) -> None:
    randomizer = DENSE[name]
    rows = rows_of(randomizer)
    composed = losses(randomizer)
    found, tight = dominating_pairs(randomizer)
    assert tight == (name in TIGHT)
    assert found is not None
    assert math.fsum(pair.epsilon for pair in found) == pytest.approx(randomizer.epsilon, rel=1e-12)
    for alpha in ALPHAS:
        of_pairs = [divergence(p, q, alpha) for p, q in itertools.permutations(rows, 2)]
        delta = composed.delta(math.log(alpha))
        assert max(of_pairs) <= delta + 1e-12
        if tight:
            assert of_pairs == pytest.approx([delta] * len(of_pairs), abs=1e-12)
    # Never so loose that it would be the bound of epsilon alone, unless that is tight.
    pure = LossDistribution.of({ThreePoint.binary(pair.ratio): 1 for pair in found})
    if rows.shape[1] > 2 and name != "one-hot":
        assert composed.delta(0.0) < pure.delta(0.0)


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_rounds_of_privkvm_with_the_worst_fakes(rounds: int) -> None:
    each = PrivKV.with_epsilon(3, key_epsilon=0.9, value_epsilon=0.6)
    composed = losses(PrivKVM(each=each, rounds=rounds))
    p_1, p_2 = each.key_response.diagonal, each.value_response.diagonal

    def law(state: int, fakes: tuple[int, ...]) -> Floats:
        """Of absent, and of each sequence of signs that can be reported."""
        held = 1 - p_1 if state == ABSENT else p_1
        chances = [1 - held]
        for signs in itertools.product((PLUS, MINUS), repeat=rounds):
            told = zip(signs, fakes, strict=True)
            right = [sign == (fake if state == ABSENT else state) for sign, fake in told]
            chances.append(held * math.prod(p_2 if same else 1 - p_2 for same in right))
        return np.array(chances)

    states = (ABSENT, PLUS, MINUS)
    for alpha in ALPHAS:
        worst = max(
            divergence(law(one, fakes), law(other, fakes), alpha)
            for one, other in itertools.permutations(states, 2)
            for fakes in itertools.product((PLUS, MINUS), repeat=rounds)
        )
        assert worst <= composed.delta(math.log(alpha)) + 1e-12


def test_a_grid_is_an_upper_bound_and_near() -> None:
    randomizers = [keep(16, 1.0)] * 6 + [keep(3, 0.7)] * 5 + [keep(2, 0.33)] * 4
    exact = losses(*randomizers)
    assert exact.step == 0.0
    gap = []
    for cells in (2**8, 2**12):
        rounded = losses(*randomizers, most_atoms=50, cells=cells, spare=1e-15)
        assert rounded.step > 0
        mass = float(rounded.masses.sum()) + rounded.infinite
        assert mass == pytest.approx(1.0, abs=1e-12)
        for epsilon in np.linspace(0.0, 9.0, 91):
            assert rounded.delta(float(epsilon)) >= exact.delta(float(epsilon)) * (1 - 1e-12)
        gap.append(rounded.epsilon(1e-6) - exact.epsilon(1e-6))
        assert 0 <= gap[-1] < 3 * rounded.step
    # Atoms are split, not rounded up: a 16th of the step, much less than a 16th of the error.
    assert gap[1] < gap[0] / 50


def test_tails_that_are_given_up_count_as_infinite() -> None:
    randomizers = [keep(16, 1.0)] * 40 + [keep(3, 0.7)] * 50
    exact, spare = losses(*randomizers), 1e-3
    rounded = losses(*randomizers, most_atoms=50, spare=spare)
    assert spare / 10 < rounded.infinite <= spare
    # What several parts lose is added up.
    assert 1 - 1e-12 <= float(rounded.masses.sum()) + rounded.infinite <= 1 + spare**2
    for epsilon in np.linspace(0.0, 60.0, 61):
        found, true = rounded.delta(float(epsilon)), exact.delta(float(epsilon))
        assert true <= found <= true + spare * 1.01
    assert rounded.epsilon(rounded.infinite / 2) == math.inf


@pytest.mark.parametrize("size", [2, 16])
def test_ten_thousand_draws(size: int) -> None:
    """The mean and the variance are those of the draws, and so, nearly, is the law."""
    randomizer = keep(size, 1.0)
    composed = losses(*[randomizer] * 10_000)
    p, q = randomizer.diagonal, randomizer.off_diagonal
    mean = 10_000 * (p - q)
    variance = 10_000 * (p + q - (p - q) ** 2)
    assert float(composed.masses.sum()) == pytest.approx(1.0, abs=1e-12)
    assert float(composed.losses @ composed.masses) == pytest.approx(mean, rel=1e-10)
    squares = float((composed.losses - mean) ** 2 @ composed.masses)
    assert squares == pytest.approx(variance, rel=1e-9)


@pytest.mark.parametrize("size", [2, 3, 40])
def test_p_and_q_are_mirror_images(size: int) -> None:
    composed = losses(*[keep(size, 0.4)] * 60)
    assert composed.losses == pytest.approx(-composed.losses[::-1], rel=1e-12)
    under_q = composed.masses * np.exp(-composed.losses)
    assert under_q == pytest.approx(composed.masses[::-1], rel=1e-9)


def test_different_domains_of_one_epsilon_share_their_losses() -> None:
    composed = losses(*[keep(2, 1.0)] * 30, *[keep(16, 1.0)] * 30, *[keep(5, 1.0)] * 30)
    assert len(composed.losses) <= 2 * 90 + 1


@pytest.mark.parametrize(
    ("ratio", "distance"),
    [(Fraction(1), Fraction(1, 9)), (Fraction(2), Fraction(0)), (Fraction(2), Fraction(34, 100))],
)
def test_impossible_pairs(ratio: Fraction, distance: Fraction) -> None:
    with pytest.raises(ValueError, match=r"ratio|distance"):
        ThreePoint(ratio, distance)


def test_numbers_of_draws_and_figures_are_checked() -> None:
    pair = ThreePoint.binary(Fraction(2))
    for count in (-1, 10**6 + 1):
        with pytest.raises(ValueError, match="draws"):
            LossDistribution.of({pair: count})
    composed = LossDistribution.of({pair: 2})
    for epsilon in (-1.0, math.nan):
        with pytest.raises(ValueError, match="epsilon"):
            composed.delta(epsilon)
    for delta in (-1.0, 1.5, math.nan):
        with pytest.raises(ValueError, match="delta"):
            composed.epsilon(delta)
    assert LossDistribution.of({}).epsilon(0.0) == 0.0
    lossy = LossDistribution(np.array([0.0]), np.array([0.9]), 0.1)
    assert lossy.epsilon(0.05) == math.inf
    assert lossy.epsilon(0.1) == 0.0
