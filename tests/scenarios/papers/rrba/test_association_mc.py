"""Tests of independence on randomized tables: their size, their power, and the ranks of draws."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from protocol import exact_test, noise_aware_test
from protocol.estimators.dependence.association import (
    TestResult,
    drawn_fakes,
    naive_test,
    unmixed_counts,
)
from scenarios.papers.laws import report_once, reported_pairs
from scenarios.papers.rrba.association import (
    monte_carlo_test,
    ranked_test,
    sampled_counts,
)
from tests.statistical import ALPHA, WRONG, chi_square_p_value

Floats = NDArray[np.float64]
LEVEL = 0.05
TABLES = 2000
FOUR_ERRORS = 4 * math.sqrt(LEVEL * (1 - LEVEL) / TABLES)
BITS = np.array([0.25, 0.75])
LAWS = {
    "2x3": np.multiply.outer([0.3, 0.7], [0.15, 0.35, 0.5]),
    "4x4": np.multiply.outer([0.1, 0.2, 0.3, 0.4], [0.1, 0.15, 0.25, 0.5]),
    "2x2x2": functools.reduce(np.multiply.outer, [BITS] * 3),
}
DEPENDENT = LAWS["2x3"] + np.array([[0.06, -0.06, 0], [-0.06, 0.06, 0]])


def generator(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def fakes_of(law: Floats, kind: str) -> Floats | None:
    rising = np.arange(1.0, law.size + 1).reshape(law.shape)
    tables: dict[str, Floats | None] = {
        "uniform": None,
        "h0": law,
        "skewed": rising / rising.sum(),
    }
    return tables[kind]


def rate_of(result: TestResult) -> float:
    """The share of tables for which the test rejects H0."""
    return float(result.rejects(LEVEL).mean())


def rejection_rate(
    law: Floats,
    test: Callable[[NDArray[np.int64]], TestResult],
    *,
    n: int,
    keep: float,
    generator: np.random.Generator,
    fakes: Floats | None = None,
    runs: int,
) -> float:
    """The size or the power of a test of randomized reports of respondents with this law."""
    mixed = keep * law + (1 - keep) * drawn_fakes(law.shape, keep=keep, fakes=fakes)
    return rate_of(test(sampled_counts(mixed, n, generator, runs=runs)))


@pytest.mark.parametrize("kind", ["uniform", "h0", "skewed"])
@pytest.mark.parametrize("keep", [0.2, 0.5])
@pytest.mark.parametrize("name", LAWS)
def test_the_noise_aware_test_has_its_size(name: str, keep: float, kind: str) -> None:
    law = LAWS[name]
    fakes = fakes_of(law, kind)
    test = functools.partial(noise_aware_test, keep=keep, fakes=fakes, ways=law.ndim)
    arguments: dict[str, Any] = {"n": 2000, "keep": keep, "fakes": fakes, "runs": TABLES}
    size = rejection_rate(law, test, generator=generator(), **arguments)
    assert abs(size - LEVEL) < FOUR_ERRORS
    # The power arm: a noise that is taken for smaller than it is, as by the naive test.
    wrong = functools.partial(_naive, keep=keep, fakes=fakes)
    assert rejection_rate(law, wrong, generator=generator(), **arguments) > 0.3


def _naive(reports: NDArray[np.int64], *, keep: float, fakes: Floats | None) -> Any:
    raw = unmixed_counts(reports, keep=keep, fakes=fakes, ways=reports.ndim - 1)
    return naive_test(raw, raw[0].sum(), ways=reports.ndim - 1)


def test_the_size_holds_for_answers_that_are_randomized_one_by_one() -> None:
    """The same by another road: draw the answers, then what is reported of them."""
    law = LAWS["2x3"]
    true = generator(2).multinomial(2000, law.reshape(-1), size=TABLES)
    reports = report_once(true, 0.4, generator(3)).reshape(TABLES, 2, 3)
    size = rate_of(noise_aware_test(reports, keep=0.4, ways=2))
    assert abs(size - LEVEL) < FOUR_ERRORS


def test_fakes_that_change_from_block_to_block_are_pooled() -> None:
    """Reports of blocks with tables of their own, judged by the mean table."""
    law, keep = LAWS["2x3"], 0.4
    blocks = generator(4).dirichlet(np.full(6, 20.0), size=16).reshape(16, 2, 3)
    mixed = keep * law + (1 - keep) * blocks
    reports = sampled_counts(mixed, 250, generator(5), ways=2, runs=TABLES).sum(axis=1)
    size = rate_of(noise_aware_test(reports, keep=keep, fakes=blocks.mean(axis=0), ways=2))
    assert abs(size - LEVEL) < FOUR_ERRORS
    # Taking them for uniform is wrong.
    assert rate_of(noise_aware_test(reports, keep=keep, ways=2)) > 0.3


def test_reports_on_attributes_randomized_by_themselves_need_no_noise_aware_test() -> None:
    independent = np.rint(3000 * LAWS["2x3"]).astype(np.int64)
    reports = reported_pairs(independent, (0.5, 0.4), generator(6), runs=TABLES)
    # The answers are fixed, so the chi-squared law is an upper bound of the spread.
    assert rate_of(exact_test(reports, ways=2)) < LEVEL + FOUR_ERRORS


def test_power_grows_with_keeping_and_with_respondents() -> None:
    rates = [
        rejection_rate(
            DEPENDENT,
            functools.partial(noise_aware_test, keep=keep, ways=2),
            n=n,
            keep=keep,
            generator=generator(),
            runs=500,
        )
        for keep, n in ((0.1, 1000), (0.3, 1000), (0.3, 4000), (0.6, 4000))
    ]
    assert rates == sorted(rates)
    assert rates[0] < 0.25
    assert rates[-1] > 0.999


@pytest.mark.parametrize("kind", ["uniform", "skewed"])
def test_the_monte_carlo_test_has_its_size_and_some_power(kind: str) -> None:
    law, keep, n = LAWS["2x3"], 0.4, 8000
    fakes = fakes_of(law, kind)
    test = functools.partial(
        monte_carlo_test, keep=keep, fakes=fakes, ways=2, draws=99, generator=generator(7)
    )
    arguments: dict[str, Any] = {
        "n": n,
        "keep": keep,
        "fakes": fakes,
        "generator": generator(),
        "runs": TABLES,
    }
    assert abs(rejection_rate(law, test, **arguments) - LEVEL) < FOUR_ERRORS
    assert rejection_rate(DEPENDENT, test, **(arguments | {"runs": 200})) > 0.9


def planned(statistics: list[list[float]]) -> Callable[..., Floats]:
    """Draws of 2x2 tables of 400 whose two-step statistics are planned, per table and draw."""
    moves = np.sqrt(100 * np.array(statistics) / 4)

    def draw(null: Floats, n: NDArray[np.int64], chosen: slice, draws: int) -> Floats:
        assert null.shape == (len(n), 2, 2)
        np.testing.assert_allclose(null, 0.25)
        assert moves[:, chosen].shape == (draws, len(n))
        return np.asarray(table_of(moves[:, chosen]), np.float64)

    return draw


def table_of(moves: Any) -> Floats:
    return np.asarray(100 + np.multiply.outer(moves, np.array([[1.0, -1], [-1, 1]])), np.float64)


@pytest.mark.parametrize("cells_at_once", [1, 1 << 22])
def test_p_values_are_ranks(cells_at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scenarios.papers.rrba.association._CELLS_AT_ONCE", cells_at_once)
    drawn = [[1.0, 9.0], [2.0, 9.0], [4.0, 9.0], [5.0, 0.5]]
    noisy = table_of([10.0, 5.0])
    result = ranked_test("planned", noisy, 400, planned(drawn), ways=2, draws=4, rule="none")
    np.testing.assert_allclose(result.statistic, [4.0, 1.0])
    # Of four draws, two are no smaller than the first table's and three than the second's.
    np.testing.assert_allclose(result.p_value, [3 / 5, 4 / 5])
    assert result.degrees is None
    assert result.test == "planned"


@pytest.mark.parametrize("draws", [19, 20, 59, 99])
def test_a_table_is_rejected_where_the_printed_threshold_says(draws: int) -> None:
    drawn, found = np.arange(1.0, draws + 1), np.arange(0.5, draws + 1)
    draw = planned(np.repeat(drawn[:, None], len(found), axis=1).tolist())
    noisy = table_of(np.sqrt(100 * found / 4))
    result = ranked_test("planned", noisy, 400, draw, ways=2, draws=draws, rule="none")
    threshold = drawn[math.ceil((draws + 1) * (1 - LEVEL) - 1e-9) - 1]
    np.testing.assert_array_equal(result.rejects(LEVEL), found > threshold)
    assert result.rejects(LEVEL).sum() == (draws + 1) // 20


def test_the_rule_of_thumb_accepts_small_tables_by_name() -> None:
    noisy = np.array([[[1.0, 199], [199, 1]], [[190, 10], [10, 190]], [[190, 10], [10, 190]]])

    def draw(null: Floats, n: NDArray[np.int64], _: slice, draws: int) -> Floats:
        tables = np.broadcast_to(table_of(0.0), (draws, 3, 2, 2)).copy()
        tables[0, 2] = [[3, 197], [197, 3]]
        return tables

    plain = ranked_test("thumb", noisy, 400, draw, ways=2, draws=99, rule="none")
    np.testing.assert_allclose(plain.p_value, [0.01, 0.01, 0.02])
    careful = ranked_test("thumb", noisy, 400, draw, ways=2, draws=99, rule="fewer-than-5")
    np.testing.assert_allclose(careful.p_value, [1, 0.01, 1])


def test_many_tables_are_ranked_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    reports = sampled_counts(LAWS["2x3"], 500, generator(), runs=7)
    together = monte_carlo_test(reports, keep=0.5, ways=2, draws=50, generator=generator())
    monkeypatch.setattr("scenarios.papers.rrba.association._CELLS_AT_ONCE", 50 * 6 * 2)
    pieces = monte_carlo_test(reports, keep=0.5, ways=2, draws=50, generator=generator())
    np.testing.assert_array_equal(together.statistic, pieces.statistic)
    assert pieces.p_value.shape == (7,)
    assert np.all((pieces.p_value >= 1 / 51) & (pieces.p_value <= 1))
    one = monte_carlo_test(reports[0], keep=0.5, draws=50, generator=generator())
    assert one.p_value.shape == ()
    assert one.statistic == pytest.approx(float(together.statistic[0]), rel=1e-12)
    again = monte_carlo_test(reports[0], keep=0.5, draws=50, generator=generator())
    assert again.p_value == one.p_value


def test_sampled_counts_have_their_law() -> None:
    laws = np.stack([LAWS["2x3"], LAWS["2x3"][::-1]])
    drawn = sampled_counts(laws, [300, 70], generator(), ways=2, runs=2000)
    assert drawn.shape == (2000, 2, 2, 3)
    assert np.all(drawn.sum(axis=(2, 3)) == [300, 70])
    totals, cells = drawn.sum(axis=0).reshape(2, 6), laws.reshape(2, 6)
    assert chi_square_p_value(totals, cells) > ALPHA
    wrong = cells * np.array([1, 1, 1, WRONG, WRONG, WRONG])
    assert chi_square_p_value(totals, wrong / wrong.sum(axis=1, keepdims=True)) < ALPHA
