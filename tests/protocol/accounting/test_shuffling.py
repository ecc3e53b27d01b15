"""Amplification by shuffling: never below what every tally of a small survey tells."""

from __future__ import annotations

import itertools
import math
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from protocol import KeepUniform, Randomized, exact_epsilon
from protocol.accounting.shuffling import (
    ASSUMPTION,
    MOST_RESPONDENTS,
    any_randomizer,
    randomized_response,
)
from tests.enumeration import ROWS, matrix
from tests.tiers import paired, thinned

Floats = NDArray[np.float64]

SLACK = 1e-9
"""What the search for epsilon may leave, relative."""


def tallied(rows: Floats, answers: tuple[int, ...]) -> Floats:
    """The law of the tally of these respondents' reports, shape ``(n + 1,) * k``."""
    k, n = rows.shape[1], len(answers)
    law = np.zeros((n + 1,) * k)
    law[(0,) * k] = 1.0
    for answer in answers:
        law = sum(
            (rows[answer, value] * np.roll(law, 1, axis=value) for value in range(k)),
            np.zeros_like(law),
        )
    return law


def worst_delta(rows: Floats, n: int, epsilon: float) -> float:
    """The largest divergence of two tallies, whatever the others' answers are."""
    size = len(rows)
    worst = 0.0
    for others in itertools.combinations_with_replacement(range(size), n - 1):
        laws = [_tallied(rows.tobytes(), size, (answer, *others)) for answer in range(size)]
        for one, other in itertools.permutations(laws, 2):
            excess = np.maximum(one - math.exp(epsilon) * other, 0.0)
            worst = max(worst, float(excess.sum()))
    return worst


@lru_cache(maxsize=4096)
def _tallied(rows: bytes, size: int, answers: tuple[int, ...]) -> Floats:
    return tallied(np.frombuffer(rows).reshape(size, size), answers)


@pytest.mark.parametrize(
    ("crowd", "epsilon"),
    paired(
        [(2, 1), (2, 2), (2, 6), (3, 1), (3, 3), (3, 6), (4, 2), (4, 4), (5, 3)], [0.3, 1.0, 3.0]
    ),
)
def test_never_below_every_tally_of_a_few(crowd: tuple[int, int], epsilon: float) -> None:
    k, n = crowd
    keep = KeepUniform.with_epsilon(k, epsilon=epsilon)
    rows = keep.matrix()
    for delta in (1e-5, 1e-3, 0.02, 0.1):
        own = randomized_response(keep, n=n, delta=delta)
        every = any_randomizer(keep.epsilon, n=n, delta=delta)
        assert worst_delta(rows, n, own.epsilon) <= delta * (1 + 1e-9)
        assert own.epsilon <= every.epsilon <= every.local


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
@pytest.mark.parametrize(("k", "n"), [(4, 6), (5, 4)])
def test_never_below_every_tally_of_a_few_more(k: int, n: int, epsilon: float) -> None:
    test_never_below_every_tally_of_a_few((k, n), epsilon)


@pytest.mark.parametrize("n", [1, 2, 4])
def test_any_randomizer_of_that_epsilon(n: int) -> None:
    tables: list[list[list[float]]] = [
        ROWS,
        [[3.0, 1.0, 1.0], [1.0, 3.0, 1.0], [1.5, 2.0, 2.0]],
        [[9.0, 1.0], [4.0, 6.0]],
    ]
    for table in tables:
        randomizer = matrix(table)
        rows = np.ascontiguousarray(randomizer.matrix())
        for delta in (1e-4, 0.02, 0.2):
            bound = any_randomizer(randomizer.epsilon, n=n, delta=delta)
            assert worst_delta(rows, n, bound.epsilon) <= delta * (1 + 1e-9)


def binomial(n: int, chance: float) -> Floats:
    counts = range(n + 1)
    return np.array([math.comb(n, c) * chance**c * (1 - chance) ** (n - c) for c in counts])


def game_delta(k: int, p: float, q: float, n: int, hidden: float, epsilon: float) -> float:
    """The divergence of the game with every tally written out: others' draws, then the report."""
    found = 0.0
    for draws, chance in enumerate(binomial(n - 1, hidden)):
        both = binomial(draws, 2 / k)
        laws = np.zeros((2, draws + 2, draws + 2))
        for hits, share in enumerate(both):
            for zeros, half in enumerate(binomial(hits, 0.5)):
                mass, ones = share * half, hits - zeros
                for side, (to_zero, to_one) in enumerate([(p, q), (q, p)]):
                    laws[side, zeros + 1, ones] += mass * to_zero
                    laws[side, zeros, ones + 1] += mass * to_one
                    laws[side, zeros, ones] += mass * (1 - p - q)
        found += chance * float(np.maximum(laws[0] - math.exp(epsilon) * laws[1], 0.0).sum())
    return found


@pytest.mark.parametrize(
    ("n", "k", "epsilon"), thinned(itertools.product([1, 2, 12, 30], [2, 3, 30], [0.2, 2.5]), 10)
)
def test_the_game_is_computed_exactly(n: int, k: int, epsilon: float) -> None:
    keep = KeepUniform.with_epsilon(k, epsilon=epsilon)
    p, q, local = keep.diagonal, keep.off_diagonal, keep.epsilon
    for delta in (1e-7, 1e-3, 0.01):
        found = randomized_response(keep, n=n, delta=delta).epsilon
        if not found:
            assert game_delta(k, p, q, n, k * q, 0.0) <= delta
            continue
        assert game_delta(k, p, q, n, k * q, found) <= delta * (1 + 1e-9)
        assert game_delta(k, p, q, n, k * q, found * (1 - 1e-8)) > delta
        every = any_randomizer(local, n=n, delta=delta).epsilon
        share = math.exp(local) / (1 + math.exp(local))
        clones = 2, share, 1 - share, n, math.exp(-local)
        assert game_delta(*clones, every) <= delta * (1 + 1e-9)
        assert game_delta(*clones, every * (1 - 1e-8)) > delta


def test_many_clones_are_computed_exactly() -> None:
    """Theorem 3.1 as it is written, over every (C, A)."""
    n, local, delta = 3000, 2.0, 1e-6
    epsilon = any_randomizer(local, n=n, delta=delta).epsilon
    share, growth = math.exp(local) / (1 + math.exp(local)), math.exp(epsilon)
    found = 0.0
    clones = np.arange(n)
    logs = np.array([math.lgamma(c + 1) for c in range(n + 1)])
    chances = np.exp(
        logs[n - 1]
        - logs[clones]
        - logs[n - 1 - clones]
        - local * clones
        + (n - 1 - clones) * math.log1p(-math.exp(-local))
    )
    for c, chance in enumerate(chances):
        if chance < 1e-20:
            continue
        half = np.exp(logs[c] - logs[: c + 1] - logs[c::-1] - c * math.log(2))
        more, same = np.append(0.0, half), np.append(half, 0.0)
        under_p, under_q = share * more + (1 - share) * same, (1 - share) * more + share * same
        found += chance * float(np.maximum(under_p - growth * under_q, 0.0).sum())
    assert found == pytest.approx(delta, rel=1e-6)
    assert found <= delta


@pytest.mark.parametrize("k", [2, 3, 16])
def test_one_respondent_alone_is_not_amplified(k: int) -> None:
    keep = KeepUniform.with_epsilon(k, epsilon=1.5)
    own = exact_epsilon([Randomized(keep, ("a",))], 1e-4).epsilon
    assert randomized_response(keep, n=1, delta=1e-4).epsilon == pytest.approx(own, rel=1e-8)


@pytest.mark.parametrize("epsilon", [18.0, 25.0, 40.0, 150.0, 300.0])
def test_what_is_hardly_randomized_is_hardly_hidden(epsilon: float) -> None:
    """At n = 100 no clone is likely: the respondent's own epsilon at delta is what remains."""
    alone = any_randomizer(epsilon, n=1, delta=1e-3).epsilon
    assert epsilon - 0.01 <= alone <= epsilon
    for n in (100, 10_000):
        clone = n * math.exp(-epsilon)
        if clone < 1e-4:
            assert any_randomizer(epsilon, n=n, delta=1e-3).epsilon >= alone - 0.2


def normal_delta(spread: float, epsilon: float) -> float:
    """The divergence if the loss is normal of this standard deviation."""

    def below(z: float) -> float:
        return math.erfc(-z / math.sqrt(2)) / 2

    high, low = spread / 2 - epsilon / spread, -spread / 2 - epsilon / spread
    return below(high) - math.exp(epsilon) * below(low)


@pytest.mark.slow
def test_many_respondents() -> None:
    """The loss is nearly normal then; and of many values each is hidden far better."""
    n, delta = 10**6, 1e-6
    every = any_randomizer(1.0, n=n, delta=delta).epsilon
    spread = 2 * math.tanh(0.5) / math.sqrt(n * math.exp(-1))
    assert normal_delta(spread, every) == pytest.approx(delta, rel=0.02)
    own = []
    for k in (2, 4, 16):
        keep = KeepUniform.with_epsilon(k, epsilon=1.0)
        own.append(randomized_response(keep, n=n, delta=delta).epsilon)
        blanket = n * k * keep.off_diagonal
        spread = keep.keep * math.sqrt(2 * k / blanket)
        assert normal_delta(spread, own[-1]) == pytest.approx(delta, rel=0.05)
    assert every > own[0] > 1.2 * own[1] > 1.2 * own[2] > 0


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(
    n=st.integers(1, 10**5),
    more=st.integers(1, 10**5),
    epsilon=st.floats(0.01, 8.0),
    raise_=st.floats(1.001, 2.0),
    delta=st.floats(1e-10, 0.1),
)
def test_any_randomizer_is_monotone(
    n: int, more: int, epsilon: float, raise_: float, delta: float
) -> None:
    found = any_randomizer(epsilon, n=n, delta=delta).epsilon
    assert 0 <= found <= epsilon
    assert any_randomizer(epsilon, n=n + more, delta=delta).epsilon <= found * (1 + SLACK)
    assert any_randomizer(epsilon * raise_, n=n, delta=delta).epsilon >= found * (1 - SLACK)
    assert any_randomizer(epsilon, n=n, delta=delta / raise_).epsilon >= found * (1 - SLACK)


@pytest.mark.slow
@settings(deadline=None, max_examples=15)
@given(
    k=st.sampled_from([2, 3, 7, 100]),
    n=st.integers(1, 300),
    more=st.sampled_from([1, 2, 17, 400]),
    epsilon=st.floats(0.05, 6.0),
    raise_=st.floats(1.001, 2.0),
    delta=st.floats(1e-9, 0.05),
)
def test_randomized_response_is_monotone(
    k: int, n: int, more: int, epsilon: float, raise_: float, delta: float
) -> None:
    keep = KeepUniform.with_epsilon(k, epsilon=epsilon)
    louder = KeepUniform.with_epsilon(k, epsilon=epsilon * raise_)
    found = randomized_response(keep, n=n, delta=delta).epsilon
    assert 0 <= found <= any_randomizer(keep.epsilon, n=n, delta=delta).epsilon
    assert randomized_response(keep, n=n + more, delta=delta).epsilon <= found * (1 + SLACK)
    assert randomized_response(louder, n=n, delta=delta).epsilon >= found * (1 - SLACK)
    assert randomized_response(keep, n=n, delta=delta / raise_).epsilon >= found * (1 - SLACK)


@pytest.mark.slow
@pytest.mark.parametrize("k", [2, 3])
def test_steps_are_small_and_upwards(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside a count of every number of draws."""
    n = 10**6 if k == 2 else 3000
    keep = KeepUniform.with_epsilon(k, epsilon=1.0)
    stepped = randomized_response(keep, n=n, delta=1e-6).epsilon
    monkeypatch.setattr("protocol.accounting.shuffling._COARSE", 60)
    monkeypatch.setattr("protocol.accounting.shuffling._FINE", 60)
    every = randomized_response(keep, n=n, delta=1e-6).epsilon
    assert every < stepped < every * (1 + (1e-5 if k == 2 else 2e-3))


@pytest.mark.parametrize("n", thinned([10**4, 10**6, MOST_RESPONDENTS - 1], 2))
def test_one_respondent_more_never_hurts(n: int) -> None:
    keep = KeepUniform.with_epsilon(64, epsilon=0.5)
    before, after = (any_randomizer(0.5, n=m, delta=1e-8).epsilon for m in (n, n + 1))
    assert 0 < after <= before * (1 + SLACK)
    if n <= 10**6:
        before, after = (randomized_response(keep, n=m, delta=1e-8).epsilon for m in (n, n + 1))
        assert 0 < after <= before * (1 + SLACK)


def test_a_figure_says_what_it_rests_on() -> None:
    keep = KeepUniform.with_epsilon(16, epsilon=1.0)
    for bound in (
        any_randomizer(1.0, n=100, delta=1e-6),
        randomized_response(keep, n=100, delta=1e-6),
    ):
        assert (bound.n, bound.delta) == (100, 1e-6)
        assert bound.local == pytest.approx(1.0)
        assert "replace one" in bound.relation
        assert bound.assumption == ASSUMPTION
        assert "unlinkable" in bound.assumption
        assert "n-1 respondents are honest" in bound.assumption
        assert bound.method.startswith("upper bound: ")


@pytest.mark.parametrize(
    ("epsilon", "n", "delta", "says"),
    [
        (0.0, 10, 1e-6, "epsilon 0.0"),
        (-1.0, 10, 1e-6, "epsilon -1.0"),
        (math.nan, 10, 1e-6, "epsilon nan"),
        (math.inf, 10, 1e-6, "epsilon inf"),
        (1.0, 0, 1e-6, "0 respondents"),
        (1.0, MOST_RESPONDENTS + 1, 1e-6, "respondents"),
        (1.0, 10, 0.0, "delta 0.0"),
        (1.0, 10, 1.0, "delta 1.0"),
        (1.0, 10, math.nan, "delta nan"),
    ],
)
def test_bad_figures(epsilon: float, n: int, delta: float, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        any_randomizer(epsilon, n=n, delta=delta)
    if "epsilon" not in says:
        keep = KeepUniform.with_epsilon(3, epsilon=1.0)
        with pytest.raises(ValueError, match=says):
            randomized_response(keep, n=n, delta=delta)


def test_the_smallest_figures() -> None:
    keep = KeepUniform(3, 1)
    found = randomized_response(keep, n=10, delta=1e-6).epsilon
    assert found == 0.0
    for delta in (1e-300, 5e-324):
        assert 0 < randomized_response(keep, n=10, delta=delta).epsilon <= keep.epsilon
        assert any_randomizer(1.0, n=1000, delta=delta).epsilon <= 1.0
