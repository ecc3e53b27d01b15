"""Estimates from counts of PrivKV's reports: exact laws, optimality, EM step by step, errors."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from protocol import PrivKV
from protocol.randomizers.keyvalue import ABSENT, MINUS, PLUS, KeyValueReports
from protocol.variants.keyvalue.moments import (
    EMEstimate,
    em,
    maximum_likelihood,
    moment,
    table_1,
    tally,
)
from tests.scripted import seeded
from tests.statistical import ALPHA, WRONG, mean_p_value

Floats = NDArray[np.float64]

BUDGET = PrivKV.with_budget(5, epsilon=2.0)
LARGE = PrivKV.with_budget(5, epsilon=6.0)
COUNTS = st.lists(st.integers(0, 30), min_size=3, max_size=3).filter(any)
EPSILONS = st.floats(0.3, 8)


def law_of(randomizer: PrivKV, *, fake: float = 0.0) -> Floats:
    """The law of the symbol given (missing, +1, -1), whose fakes have some mean."""
    law = randomizer.matrix()
    told, keep = 1 - law[ABSENT, ABSENT], 2 * randomizer.value_response.diagonal - 1
    law[ABSENT, PLUS], law[ABSENT, MINUS] = (
        told * (1 + keep * fake) / 2,
        told * (1 - keep * fake) / 2,
    )
    return law


def states_of(f: float, m: float) -> Floats:
    return np.array([1 - f, f * (1 + m) / 2, f * (1 - m) / 2])


def every_outcome(law: Floats, n: int) -> Iterator[tuple[float, Floats]]:
    """Every table of counts of n reports on one key, with its probability."""
    for absent, plus in itertools.product(range(n + 1), repeat=2):
        if absent + plus <= n:
            counts = [absent, plus, n - absent - plus]
            ways = math.factorial(n) / math.prod(map(math.factorial, counts))
            yield ways * float(np.prod(law**counts)), np.array([counts])


def log_likelihood(counts: Floats, law: Floats) -> Floats:
    found: Floats = (counts * np.log(law)).sum(axis=-1)
    return found


def slack(counts: Floats, states: Floats, law: Floats) -> Floats:
    """By how much a likelihood could still rise towards a vertex; at a maximum, nowhere."""
    shares = counts / counts.sum(axis=-1, keepdims=True)
    found: Floats = (shares / (states @ law)) @ law.T - 1
    return found


# Moments


@pytest.mark.parametrize(("f", "m"), [(0.3, 0.6), (0.0, 0.0), (1.0, -1.0)])
def test_moments_are_unbiased_over_every_outcome(f: float, m: float) -> None:
    law, n = states_of(f, m) @ BUDGET.matrix(), 6
    p_1, q_1 = BUDGET.key_response.diagonal, BUDGET.key_response.off_diagonal
    frequency = mean = told = squared = 0.0
    for probability, counts in every_outcome(law, n):
        found = moment(counts, BUDGET, clip=False)
        frequency += probability * found.frequencies[0]
        squared += probability * found.frequencies[0] ** 2
        if counts[0, ABSENT] < n:
            mean += probability * found.means[0]
            told += probability
    assert frequency == pytest.approx(f, abs=1e-12)
    held = f * p_1 + (1 - f) * q_1
    variance = held * (1 - held) / (n * (p_1 - q_1) ** 2)
    assert squared - frequency**2 == pytest.approx(variance, rel=1e-12)
    # Fakes, of mean 0, are a share of what is told.
    assert mean / told == pytest.approx(f * p_1 * m / held, abs=1e-12)


def test_moments_of_round_counts() -> None:
    # p = 3/4 twice: 10 of 16 with the key give (10/16 - 1/4) * 2, 7 against 3 give 0.4 * 2.
    randomizer = PrivKV.with_epsilon(2, key_epsilon=math.log(3), value_epsilon=math.log(3))
    found = moment([[6, 7, 3], [0, 16, 0]], randomizer)
    np.testing.assert_allclose(found.frequencies, [0.75, 1.5], rtol=1e-15)
    np.testing.assert_allclose(found.means, [0.8, 1.0], rtol=1e-15)
    errors = [2 * math.sqrt(10 * 6 / 16**3), math.nan]
    np.testing.assert_allclose(found.frequency_errors, errors, rtol=1e-14)
    errors = [2 * math.sqrt((1 - 0.16) / 10), math.nan]
    np.testing.assert_allclose(found.mean_errors, errors, rtol=1e-14)
    assert moment([[0, 16, 0]], randomizer, clip=False).means[0] == pytest.approx(2.0)
    # Without the fakes: f m is 4/16 over 3/4 and 1/2, and f is 0.75.
    debiased = moment([[6, 7, 3]], randomizer, debias=True, clip=False)
    assert debiased.means[0] == pytest.approx((4 / 16) / (0.75 * 0.5) / 0.75)


@settings(deadline=None, max_examples=60)
@given(EPSILONS, st.floats(0.01, 1), st.floats(-1, 1), st.floats(-1, 1))
def test_expected_counts_give_the_truth_back(epsilon: float, f: float, m: float, x: float) -> None:
    randomizer = PrivKV.with_budget(3, epsilon=epsilon)
    counts = 1000 * (states_of(f, m) @ law_of(randomizer, fake=x))[np.newaxis]
    for found in (
        moment(counts, randomizer, debias=True, clip=False, fakes=x),
        maximum_likelihood(counts, randomizer, fakes=[x]),
    ):
        assert found.frequencies[0] == pytest.approx(f, abs=1e-9)
        assert found.means[0] == pytest.approx(m, abs=1e-9 / f)
        assert np.isfinite(found.frequency_errors[0])


# Maximum likelihood


@pytest.mark.slow
@settings(deadline=None, max_examples=150)
@given(COUNTS, EPSILONS, st.sampled_from([0.0, -1.0, 0.7]))
def test_maximum_likelihood_is_the_maximum(counts: list[int], epsilon: float, fake: float) -> None:
    randomizer = PrivKV.with_budget(3, epsilon=epsilon)
    table, law = np.array([counts], float), law_of(randomizer, fake=fake)
    found = maximum_likelihood(table, randomizer, fakes=fake)
    f = found.frequencies[0]
    assert 0 <= f <= 1 + 1e-12
    assert math.isnan(found.means[0]) == (f == 0)
    assert abs(np.nan_to_num(found.means[0])) <= 1 + 1e-9 / max(f, 1e-3)
    states = states_of(f, np.nan_to_num(found.means[0]))
    # The likelihood is concave: no vertex is uphill.
    assert slack(table, states, law).max() <= 1e-9
    raw = moment(table, randomizer, debias=True, clip=False, fakes=fake)
    inside = np.linalg.solve(law.T, table[0] / table.sum())
    if (inside > 1e-9).all():
        assert f == pytest.approx(raw.frequencies[0], abs=1e-10)
        assert found.means[0] == pytest.approx(raw.means[0], abs=1e-8)
        assert found.mean_errors[0] == pytest.approx(raw.mean_errors[0], rel=1e-6, nan_ok=True)
    else:
        assert min(states) < 1e-9


# Expectation-maximization


def test_table_1_and_the_first_posterior_are_the_papers() -> None:
    randomizer = PrivKV.with_budget(2, epsilon=1.0)
    p = 1 / (1 + math.exp(-0.5))
    q = 1 - p
    expected = [[q, p * p, p * q], [q, p * q, p * p], [p, q * p, q * q], [p, q * q, q * p]]
    np.testing.assert_allclose(table_1(randomizer), expected, rtol=1e-14)
    # Section 3.2: a respondent who reports <1, 1> is <1, 1> with 0.387455.
    found = em([[0, 1, 0]], randomizer, at_most=1)
    np.testing.assert_allclose(found.states[0], [p * p, p * q, q * p, q * q], rtol=1e-14)
    assert found.states[0, 0] == pytest.approx(0.387455, abs=2e-6)
    assert found.iterations.tolist() == [1]


def one_key(
    counts: Floats, law: Floats, *, tolerance: float, at_most: int
) -> tuple[Floats, int, bool]:
    """EM as it is written down: respondent by respondent of one key."""
    reports = np.repeat(np.arange(3), counts.astype(int))
    states = np.full(len(law), 1 / len(law))
    for step in range(1, at_most + 1):
        posterior = law[:, reports].T * states
        posterior /= posterior.sum(axis=1, keepdims=True)
        before, states = states, posterior.mean(axis=0)
        if np.abs(states - before).max() <= tolerance:
            return states, step, True
    return states, at_most, False


@pytest.mark.parametrize("tied", [False, True])
def test_every_key_is_iterated_as_if_alone(tied: bool) -> None:
    generator = np.random.default_rng(1)
    counts = generator.integers(0, 40, (2, 30, 3))
    counts[0, 3] = 0
    law = BUDGET.matrix()[[PLUS, MINUS, ABSENT]] if tied else table_1(BUDGET)
    found = em(counts, BUDGET, at_most=60, tied=tied, tolerance=1e-3)
    for place in np.ndindex(2, 30):
        if place == (0, 3):
            continue
        alone = counts[place].astype(np.float64)
        states, step, stopped = one_key(alone, law, tolerance=1e-3, at_most=60)
        np.testing.assert_allclose(found.states[place], states, rtol=1e-9)
        assert int(found.iterations[place]) == step
        assert bool(found.converged[place]) == stopped
    assert found.converged[found.iterations < 60].sum() == found.converged.sum() > 20
    assert not found.converged.all()
    assert len(np.unique(found.iterations)) > 10
    np.testing.assert_allclose(
        found.frequencies, found.states[..., 0] + found.states[..., 1], rtol=1e-15
    )
    assert (found.iterations[0, 3], found.converged[0, 3]) == (0, False)


@settings(deadline=None, max_examples=30)
@given(COUNTS, EPSILONS, st.booleans())
def test_no_iteration_lowers_the_likelihood(counts: list[int], epsilon: float, tied: bool) -> None:
    randomizer, table = PrivKV.with_budget(3, epsilon=epsilon), np.array([counts], float)
    runs = [em(table, randomizer, at_most=k, tolerance=0, tied=tied) for k in range(1, 25)]
    law = runs[0].law
    rising = [log_likelihood(table, run.states @ law)[0] for run in runs]
    uniform = log_likelihood(table, law.mean(axis=0))[0]
    for before, after in itertools.pairwise([uniform, *rising]):
        assert after >= before - 1e-11


@settings(deadline=None, max_examples=40)
@given(COUNTS, st.floats(2, 8))
def test_tied_em_ends_at_the_maximum_likelihood(counts: list[int], epsilon: float) -> None:
    randomizer, table = PrivKV.with_budget(3, epsilon=epsilon), np.array([counts])
    likeliest = maximum_likelihood(table, randomizer)
    found = em(table, randomizer, tied=True, tolerance=1e-9)
    # On a border EM is slow: it comes near as one over the number of iterations.
    assert found.frequencies[0] == pytest.approx(likeliest.frequencies[0], abs=2e-3)
    if likeliest.frequencies[0] > 0.05:
        assert found.means[0] == pytest.approx(likeliest.means[0], abs=2e-2)
    if abs(likeliest.means[0]) < 0.9 and 0.1 < likeliest.frequencies[0] < 0.9:
        assert found.frequencies[0] == pytest.approx(likeliest.frequencies[0], abs=1e-6)
        assert found.means[0] == pytest.approx(likeliest.means[0], abs=1e-5)


@settings(deadline=None, max_examples=40)
@given(st.floats(0.1, 0.9), st.floats(-0.8, 0.8), st.floats(2, 8))
def test_the_papers_em_is_not_identified_beyond_frequencies(
    f: float, m: float, epsilon: float
) -> None:
    randomizer = PrivKV.with_budget(3, epsilon=epsilon)
    counts = 1000 * (states_of(f, m) @ randomizer.matrix())[np.newaxis]
    found = em(counts, randomizer, tolerance=1e-10)
    assert slack(counts, found.states, found.law).max() < 1e-4
    assert found.frequencies[0] == pytest.approx(f, abs=1e-4)
    # Its means lie between those that take fakes for values and the true ones.
    low = moment(counts, randomizer).means[0]
    assert abs(low) - 1e-4 <= abs(found.means[0]) <= abs(m) + 1e-4
    if abs(m) > 0.1:
        assert abs(low) + 1e-5 < abs(found.means[0]) < abs(m) - 1e-5


def test_blocks_of_keys_make_no_difference() -> None:
    counts = np.random.default_rng(3).multinomial(9, [0.5, 0.3, 0.2], size=20_000)
    found = em(counts, LARGE)
    _, first, group = np.unique(counts, axis=0, return_index=True, return_inverse=True)
    np.testing.assert_array_equal(found.iterations, found.iterations[first][group])
    np.testing.assert_allclose(found.states, found.states[first][group], rtol=1e-12)
    assert em(counts[:0], LARGE).frequencies.shape == (0,)


def test_iterations_are_limited_and_counted() -> None:
    table = [[10, 20, 5]]
    ended = em(table, BUDGET)
    assert ended.converged.all()
    assert 1 < ended.iterations[0] < 10_000
    cut = em(table, BUDGET, at_most=int(ended.iterations[0]) - 1)
    assert (cut.iterations[0], cut.converged[0]) == (ended.iterations[0] - 1, False)
    assert em(table, BUDGET, tolerance=1e-3).iterations[0] < ended.iterations[0]
    for tolerance in (-1e-9, math.nan, math.inf):
        with pytest.raises(ValueError, match="tolerance"):
            em(table, BUDGET, tolerance=tolerance)
    with pytest.raises(ValueError, match="iterations"):
        em(table, BUDGET, at_most=0)


@pytest.mark.parametrize("tied", [False, True])
def test_standard_errors_of_em_are_by_its_own_derivative(tied: bool) -> None:
    counts = np.array([[400.0, 350.0, 250.0], [60.0, 21.0, 19.0], [4.0, 3.0, 3.0]])
    steps = 40

    def run(table: Floats) -> EMEstimate:
        return em(table, BUDGET, at_most=steps, tolerance=0, tied=tied)

    found = run(counts)
    total = counts.sum(axis=1)
    shares = counts / total[:, np.newaxis]
    for name in ("frequencies", "means"):
        slopes = []
        for z in range(3):
            # Along a direction that keeps the sum of the shares.
            direction = (np.eye(3)[z] - shares) * 1e-6 * total[:, np.newaxis]
            up, down = (getattr(run(counts + sign * direction), name) for sign in (1, -1))
            slopes.append((up - down) / 2e-6)
        variance = (shares * np.array(slopes).T ** 2).sum(axis=1) / total
        errors = getattr(found, "frequency_errors" if name == "frequencies" else "mean_errors")
        np.testing.assert_allclose(errors, np.sqrt(variance), rtol=1e-6)


def test_standard_errors_of_keys_that_stop_at_different_times() -> None:
    counts = np.array([[[400, 350, 250], [90, 6, 4]], [[2, 5, 3], [0, 0, 0]]])
    found = em(counts, BUDGET)
    assert len(np.unique(found.iterations)) == 4
    for place in ((0, 0), (0, 1), (1, 0)):
        alone = em(counts[place][np.newaxis], BUDGET)
        np.testing.assert_allclose(found.frequency_errors[place], alone.frequency_errors[0])
        np.testing.assert_allclose(found.mean_errors[place], alone.mean_errors[0])
    assert np.isnan([found.frequency_errors[1, 1], found.mean_errors[1, 1]]).all()


# All estimators


def test_a_key_without_a_report_has_no_estimate() -> None:
    counts = np.array([[0, 0, 0], [50, 32, 26], [5, 0, 0]])
    for found in (
        moment(counts, BUDGET),
        moment(counts, BUDGET, debias=True),
        maximum_likelihood(counts, BUDGET),
        em(counts, BUDGET),
    ):
        for name in ("frequency", "mean"):
            values = getattr(found, {"frequency": "frequencies", "mean": "means"}[name])
            errors = getattr(found, f"{name}_errors")
            assert np.isnan(values[0])
            assert np.isnan(errors[0])
            assert np.isfinite([values[1], errors[1]]).all()
    likeliest = maximum_likelihood(counts, BUDGET)
    assert likeliest.frequencies[2] == 0
    assert np.isnan(moment(counts, BUDGET).means[2])
    assert np.isnan(likeliest.means[2])
    assert np.isnan(likeliest.mean_errors[2])
    empty = em(counts[:1], BUDGET)
    assert np.isnan(empty.frequencies).all()
    assert np.isnan(empty.frequency_errors).all()


def test_a_budget_that_rounds_away_all_randomness_tells_the_counts() -> None:
    randomizer = PrivKV.with_budget(3, epsilon=300.0)
    counts = np.array([[0, 10, 0], [5, 4, 1], [10, 0, 0]])
    found = maximum_likelihood(counts, randomizer)
    np.testing.assert_allclose(found.frequencies, [1.0, 0.5, 0.0], atol=1e-12)
    np.testing.assert_allclose(found.means[:2], [1.0, 0.6], atol=1e-12)


def test_counts_and_fakes_are_checked() -> None:
    for counts in ([1, 2, 3], [[1, 2]], [[1, 2, -1]], [[1.0, math.nan, 0]], [["a", "b", "c"]]):
        for estimate in (moment, maximum_likelihood, em):
            with pytest.raises(ValueError, match="count"):
                estimate(counts, BUDGET)
    for fakes, message in (([0.0, 0.0], "shape"), (1.5, "outside"), (math.nan, "outside")):
        for estimate in (moment, maximum_likelihood):
            with pytest.raises(ValueError, match=message):
                estimate([[1, 2, 3]], BUDGET, fakes=fakes)


def test_tally_counts_every_pair() -> None:
    generator = np.random.default_rng(2)
    keys, symbols = generator.integers(0, 7, 500), generator.integers(0, 3, 500)
    reports = KeyValueReports(keys.astype(np.uint16), symbols.astype(np.uint8))
    counts = tally(reports, keys=9)
    assert counts.shape == (9, 3)
    for key, symbol in itertools.product(range(9), range(3)):
        assert counts[key, symbol] == ((keys == key) & (symbols == symbol)).sum()
    for wrong in (
        (reports.keys[1:], reports.symbols),
        (reports.keys, np.full(500, 3, np.uint8)),
        (keys, reports.symbols),
        (reports.keys.reshape(5, 100), reports.symbols.reshape(5, 100)),
    ):
        with pytest.raises(ValueError, match=r"symbol|keys"):
            tally(KeyValueReports(*wrong), keys=9)
    with pytest.raises(ValueError, match="key 6"):
        tally(reports, keys=6)


@pytest.mark.slow
def test_estimates_of_real_reports_are_centred_and_their_errors_true() -> None:
    f, m, n, runs = 0.5, 0.6, 400, 25_000
    values = np.full((n, runs), math.nan)
    values[: int(f * n)] = m
    stream = seeded(5)
    reported = LARGE.perturb_keys(values.reshape(-1), stream)
    symbols = LARGE.perturb_values(values.reshape(-1), reported, stream).reshape(n, runs)
    counts = np.stack([(symbols == code).sum(axis=0) for code in range(3)], axis=1)
    found = moment(counts, LARGE, clip=False)
    assert mean_p_value(found.frequencies, f) > ALPHA
    assert mean_p_value(found.frequencies, f * WRONG) < ALPHA
    told = LARGE.key_response.off_diagonal
    seen = m * (1 - told) * f / ((1 - told) * f + told * (1 - f))
    assert mean_p_value(found.means, seen) > ALPHA
    assert mean_p_value(found.means, seen * WRONG) < ALPHA
    likeliest = maximum_likelihood(counts, LARGE)
    assert mean_p_value(likeliest.frequencies, f) > ALPHA


def test_standard_errors_are_those_of_repeated_draws() -> None:
    f, m, n, runs = 0.5, 0.4, 4000, 20_000
    law = states_of(f, m) @ LARGE.matrix()
    counts = np.random.default_rng(6).multinomial(n, law, size=runs)
    expected = (law * n)[np.newaxis]
    for estimate in (
        lambda table: moment(table, LARGE),
        lambda table: maximum_likelihood(table, LARGE),
        lambda table: em(table, LARGE, at_most=40, tolerance=0),
    ):
        exact, found = estimate(expected), estimate(counts)
        for name, errors in (("frequencies", "frequency_errors"), ("means", "mean_errors")):
            squared = (getattr(found, name) - getattr(exact, name)) ** 2
            predicted = float(getattr(exact, errors)[0])
            assert mean_p_value(squared, predicted**2) > ALPHA
            assert mean_p_value(squared, (predicted * WRONG) ** 2) < ALPHA


@pytest.mark.parametrize("fake", [0.0, -0.4])
def test_virtual_iterations_are_rounds_that_nobody_is_asked_in(fake: float) -> None:
    f, m, n = 0.3, 0.6, 10**9
    law = states_of(f, m) @ law_of(LARGE, fake=fake)
    counts = np.rint(n * law)[np.newaxis]
    previous, found = fake, []
    for virtual in range(4):
        mean = moment(counts, LARGE, fakes=fake, virtual=virtual, clip=False).means[0]
        # A round whose fakes have the mean that the one before has found.
        again = states_of(f, m) @ law_of(LARGE, fake=previous)
        asked = moment(np.rint(n * again)[np.newaxis], LARGE, clip=False).means[0]
        np.testing.assert_allclose(mean, asked, atol=1e-6)
        previous = float(asked)
        found.append(abs(mean - m))
    assert found == sorted(found, reverse=True)
    endless = moment(counts, LARGE, fakes=fake, virtual=1000)
    np.testing.assert_allclose(endless.means, m, atol=1e-6)
    debiased = moment(counts, LARGE, fakes=fake, debias=True)
    np.testing.assert_allclose(endless.means, debiased.means, atol=1e-9)
    plain = moment(counts, LARGE, fakes=fake)
    assert (endless.mean_errors > plain.mean_errors).all()
