"""The parts of the empirical audit: bounds, declared and learned events, and what is looked at."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from protocol.privacy.attack_bounds import (
    at_least,
    at_most,
    clopper_pearson,
    epsilon_of_counts,
    epsilon_of_guesses,
)
from protocol.privacy.attack_events import declared_guess, log_ratios
from protocol.privacy.attack_learning import learned_guess
from protocol.privacy.attack_trials import unmasked
from protocol.privacy.attack_views import MISSING, Codes, Matrix, columns_of
from protocol.privacy.events import (
    Composed,
    ExactCounts,
    Masked,
    OneOf,
    Plain,
    PrivacyEvent,
    Public,
    Randomized,
)
from protocol.randomizers import KeepElseTable, KeepUniform, MatrixRandomizer, OneHot
from protocol.randomness import Stream, secret_of
from protocol.survey import Survey
from protocol.variants.reports import Report
from tests.protocol.leaks import MATRIX, THREE, TWO
from tests.statistical import ALPHA

TABLE = KeepElseTable.with_table(p=0.4, table=[0.5, 0.3, 0.2], mix=0.5)


# Bounds


@pytest.mark.parametrize(("hits", "trials"), [(0, 9), (1, 9), (5, 9), (9, 9), (700, 1000)])
@pytest.mark.parametrize("alpha", [0.05, 1e-9])
def test_ends_are_those_of_the_binomial_law(hits: int, trials: int, alpha: float) -> None:
    low, high = at_least(hits, trials, alpha=alpha), at_most(hits, trials, alpha=alpha)
    assert 0.0 <= low <= hits / trials <= high <= 1.0
    if hits:
        assert binom.sf(hits - 1, trials, low) == pytest.approx(alpha, rel=1e-6)
    if hits < trials:
        assert binom.cdf(hits, trials, high) == pytest.approx(alpha, rel=1e-6)
    both = clopper_pearson(hits, trials, alpha=2 * alpha)
    assert both == (low, high)


@settings(deadline=None, max_examples=30)
@given(n=st.integers(1, 60), epsilon=st.floats(0.0, 3.0), alpha=st.sampled_from([0.05, 1e-3]))
def test_right_guesses_rarely_prove_too_much(n: int, epsilon: float, alpha: float) -> None:
    """Exactly: over all numbers of right guesses, with coins of the odds that epsilon allows."""
    odds = math.exp(epsilon) / (1 + math.exp(epsilon))
    wrong = sum(
        binom.pmf(right, n, odds)
        for right in range(n + 1)
        if epsilon_of_guesses(right, n, alpha=alpha) > epsilon
    )
    assert wrong <= alpha


@pytest.mark.parametrize(("p", "delta"), [(0.3, 0.0), (0.5, 0.1), (0.9, 0.0)])
def test_two_counts_rarely_prove_too_much(p: float, delta: float) -> None:
    epsilon, alpha, n = 0.7, 0.05, 25
    q = (p - delta) / math.exp(epsilon)
    wrong = sum(
        binom.pmf(one, n, p) * binom.pmf(other, n, q)
        for one, other in itertools.product(range(n + 1), repeat=2)
        if epsilon_of_counts((one, other), (n, n), alpha=alpha, delta=delta) > epsilon
    )
    assert 0 < wrong <= alpha


@pytest.mark.parametrize("shared", ["nothing", "a coin", "their order"])
def test_trials_of_one_run_prove_no_more_than_independent_ones(shared: str) -> None:
    """Exactly, for five respondents whose reports depend on each other in a way that is sound."""
    n, truthful = 5, 0.75
    law = np.zeros(n + 1)
    for bits in itertools.product((0, 1), repeat=n):
        for lies in itertools.product((0, 1), repeat=n):
            chance = np.prod([truthful if not lie else 1 - truthful for lie in lies]) / 2**n
            reports = [bit ^ lie for bit, lie in zip(bits, lies, strict=True)]
            for coin in (0, 1):
                said = [report ^ coin for report in reports] if shared == "a coin" else reports
                said = sorted(said) if shared == "their order" else said
                law[sum(a == b for a, b in zip(said, bits, strict=True))] += chance / 2
    assert law.sum() == pytest.approx(1.0)
    for right in range(n + 1):
        assert law[right:].sum() <= binom.sf(right - 1, n, truthful) + 1e-12


def test_what_counts_prove_grows_with_them() -> None:
    assert epsilon_of_guesses(500, 1000, alpha=ALPHA) == 0.0
    proved = [epsilon_of_guesses(75 * n, 100 * n, alpha=ALPHA) for n in (1, 10, 100, 10_000)]
    assert proved == sorted(proved)
    assert proved[-1] == pytest.approx(math.log(3), abs=0.04)
    assert epsilon_of_counts((750, 250), (1000, 1000), alpha=ALPHA, delta=0.74) == 0.0
    with pytest.raises(ValueError, match="3 hits of 2"):
        at_least(3, 2, alpha=0.1)
    with pytest.raises(ValueError, match="delta 1"):
        epsilon_of_counts((1, 1), (2, 2), alpha=0.1, delta=1.0)


# Events


def declared(
    message: Report, event: PrivacyEvent, survey: Survey, codes: tuple[Codes, Codes]
) -> list[float]:
    ratios = log_ratios(message, event, survey, codes)
    assert ratios is not None
    found: list[float] = ratios.tolist()
    return found


@pytest.mark.parametrize("randomizer", [MATRIX, TABLE, KeepUniform.with_keep(3, p=0.4)])
def test_the_declared_law(randomizer: MatrixRandomizer | KeepElseTable | KeepUniform) -> None:
    message = Report(np.array([[0], [1], [2], [2]], np.uint8))
    event = Composed((Randomized(randomizer, ("mood",)),))
    for first, second in itertools.permutations(range(3), 2):
        records = np.array([first]), np.array([second])
        ratios = declared(message, event, THREE, records)
        laws = np.log(randomizer.matrix())
        expected = (laws[second] - laws[first])[[0, 1, 2, 2]]
        assert ratios == pytest.approx(expected.tolist(), rel=1e-12)


def test_the_declared_law_of_attributes_together_and_apart() -> None:
    joint, apart = KeepUniform.with_keep(4, p=0.5), KeepUniform.with_keep(2, p=0.5)
    records = np.array([0, 1]), np.array([1, 1])
    together = Composed((Randomized(joint, TWO.names),))
    said = Report(np.array([[1], [3], [0]], np.uint8))
    gain = math.log(joint.diagonal / joint.off_diagonal)
    assert declared(said, together, TWO, records) == pytest.approx([-gain, gain, 0.0])
    by_itself = Composed(tuple(Randomized(apart, (name,)) for name in TWO.names))
    said = Report(np.array([[0, 0], [1, 0]], np.uint8))
    ratios = declared(said, by_itself, TWO, records)
    assert ratios == pytest.approx([-math.log(3), math.log(3)])


@pytest.mark.parametrize(
    "event",
    [
        Public(),
        Plain(("mood",)),
        Randomized(OneHot.with_epsilon(3, epsilon=1.0), ("mood",)),
        Randomized(KeepUniform.with_keep(2, p=0.5), ("mood",)),
        Composed((Randomized(MATRIX, ("mood",)), Randomized(MATRIX, ("mood",)))),
        OneOf((Randomized(MATRIX, ("mood",)),)),
    ],
    ids=lambda event: type(event).__name__,
)
def test_no_declared_law_is_made_up(event: PrivacyEvent) -> None:
    message = Report(np.array([[0]], np.uint8))
    assert log_ratios(message, event, THREE, (np.array([0]), np.array([1]))) is None


def test_the_declared_guess_is_at_the_largest_ratio() -> None:
    guesses = declared_guess(np.array([1.0, -1.0, 0.5, 0.0, 1.0 - 1e-12])).guesses
    assert guesses.tolist() == [1, -1, 0, 0, 1]
    assert not declared_guess(np.zeros(3)).guesses.any()


def learned(columns: dict[str, np.ndarray], bits: np.ndarray) -> tuple[str, float]:
    """What is learned from half of the trials, and how often it is right on the others."""
    taught = np.arange(len(bits)) % 2 == 0
    guess = learned_guess(columns, None, bits, taught, z=3.0)
    assert guess is not None
    made = ~taught & (guess.guesses != 0)
    return guess.words, float(((guess.guesses > 0) == bits)[made].mean())


def drawn(high: int, n: int = 4000, purpose: str = "column") -> np.ndarray:
    return Stream(secret_of(1)).derive(purpose).integers(high, n).astype(np.int64)


def test_the_column_that_tells_is_found() -> None:
    bits = drawn(2, purpose="bits").astype(bool)
    noise = {f"noise {i}": drawn(2**62, purpose=f"noise {i}") for i in range(50)}
    few = {f"few {i}": drawn(7, purpose=f"few {i}") for i in range(50)}
    telling = np.where(drawn(10) < 7, bits, drawn(2, purpose="lie")).astype(np.int64) + 5
    words, right = learned({**noise, **few, "telling": telling}, bits)
    assert words.startswith("telling")
    assert right == pytest.approx(0.85, abs=0.05)


def test_a_column_of_another_value_each_is_no_good() -> None:
    """Learning by heart what each value had meant would look perfect, and be worth nothing."""
    bits = drawn(2, purpose="bits").astype(bool)
    names = np.arange(len(bits)) // 2
    telling = np.where(drawn(10) < 5, bits, drawn(2, purpose="lie")).astype(np.int64)
    words, right = learned({"name": names, "other": drawn(2000), "telling": telling}, bits)
    assert "telling" in words
    assert right > 0.7


def test_two_columns_that_tell_together() -> None:
    bits = drawn(2, purpose="bits").astype(bool)
    pad = drawn(3)
    words, right = learned({"pad": pad, "sum": (pad + bits) % 3, "noise": drawn(5)}, bits)
    assert "pad with sum" in words
    assert right == 1.0


def test_nothing_is_learned_where_nothing_differs() -> None:
    bits = drawn(2).astype(bool)
    same = np.full(len(bits), 7)
    assert learned_guess({"same": same}, None, bits, np.ones(len(bits), bool), z=3.0) is None


# Views


def test_differences_are_modulo_the_width_of_an_element() -> None:
    one = Matrix(np.array([[250, 3], [0, MISSING]]), 8)
    other = Matrix(np.array([[1, 5, 9], [255, 2, 9]]), 8)
    wide = Matrix(np.array([[1], [1]]), 32)
    named = {"target's A.x": one, "target's A 2.x": other, "target's B.x": wide}
    columns = columns_of(named, related=named)
    differences = {name: column.tolist() for name, column in columns.items() if " - " in name}
    assert differences == {
        "target's A 2.x - target's A.x[0]": [7, -1],
        "target's A 2.x - target's A.x[1]": [2, MISSING],
    }
    assert columns["target's B.x"].tolist() == [1, 1]


def test_an_event_without_its_exact_sums() -> None:
    told = Randomized(MATRIX, ("mood",))
    assert unmasked(Masked(("mood",))) == Public()
    assert unmasked(ExactCounts(("mood",))) == ExactCounts(("mood",))
    assert unmasked(Composed((Masked(("mood",)), told))) == Composed((Public(), told))
    assert unmasked(OneOf((told, Masked(("mood",))))) == OneOf((told, Public()))
