"""Calibrated estimates are the textbook's on dense unmixed reports, and their errors hold."""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from protocol import (
    AdjustedEstimate,
    Block,
    Counts,
    JointReports,
    KeepUniform,
    LinearEstimate,
    Margin,
    calibrate,
)
from protocol.estimators.calibration.calibrated import Method
from protocol.estimators.calibration.linear import LinearCalibration
from protocol.estimators.calibration.post_stratified import PostStratification
from protocol.estimators.calibration.sources import far_shares
from tests.enumeration import survey_of
from tests.tiers import paired, thinned

Floats = NDArray[np.float64]

SURVEY = survey_of(2, 3, 4)
SIZES = SURVEY.sizes
CELLS = 24
BLOCKS = ((("b",), 0.6), (("c", "a"), 0.7))
NEARLY = 1 - 1e-12
LAW = np.random.default_rng(5).dirichlet(np.full(CELLS, 1.5)).reshape(SIZES)


def margin_of(*names: str, law: Floats = LAW) -> Margin:
    dropped = tuple(place for place, name in enumerate(SURVEY.names) if name not in names)
    kept = [name for name in SURVEY.names if name in names]
    return Margin(names, law.sum(axis=dropped).transpose([kept.index(name) for name in names]))


def blocks(keep: bool = False) -> tuple[Block, ...]:
    return tuple(
        Block(names, KeepUniform.with_keep(SURVEY.project(names).cells, p=NEARLY if keep else p))
        for names, p in BLOCKS
    )


@functools.cache
def matrix(keep: bool = False) -> Floats:
    """The law of a report given a record, both in row-major order of a, b, c; made by hand."""
    whole = np.empty((CELLS, CELLS))
    for x in range(CELLS):
        a, b, c = np.unravel_index(x, SIZES)
        for y in range(CELLS):
            d, e, f = np.unravel_index(y, SIZES)
            p, q = (1.0, 1.0) if keep else (0.6, 0.7)
            one = p * (b == e) + (1 - p) / 3
            two = q * ((c, a) == (f, d)) + (1 - q) / 8
            whole[x, y] = one * two
    return whole


def joint_of(table: NDArray[np.int64], keep: bool = False) -> LinearEstimate[JointReports]:
    return LinearEstimate(
        JointReports(SURVEY, blocks(keep), Counts.from_table(table.reshape(SIZES)))
    )


def tally(law: Floats, n: int, seed: int, keep: bool = False) -> NDArray[np.int64]:
    reports = law.reshape(-1) @ matrix(keep)
    return np.random.default_rng(seed).multinomial(n, reports)


class Dense(NamedTuple):
    """The regression estimator, report by report."""

    weights: Floats
    values: Floats
    errors: Floats


def dense(table: NDArray[np.int64], margins: list[Margin], names: tuple[str, ...]) -> Dense:
    """By least squares, of one row for each report."""
    unmix = np.linalg.inv(matrix())
    rows = unmix[np.repeat(np.arange(CELLS), table)].reshape(-1, *SIZES)
    n = len(rows)

    def columns(of: tuple[str, ...]) -> Floats:
        dropped = tuple(1 + i for i, name in enumerate(SURVEY.names) if name not in of)
        kept = [name for name in SURVEY.names if name in of]
        summed = rows.sum(axis=dropped)
        return summed.transpose(0, *(1 + kept.index(name) for name in of)).reshape(n, -1)

    x = np.concatenate([columns(m.names) for m in margins], axis=1)
    known = np.concatenate([m.shares.ravel() for m in margins])
    y = columns(names)
    design = np.column_stack([np.ones(n), x])
    slopes = np.linalg.lstsq(design, y, rcond=1e-9)[0]
    residuals = y - design @ slopes
    rank = np.linalg.matrix_rank(design, tol=1e-6) - 1
    values = y.mean(axis=0) + (known - x.mean(axis=0)) @ slopes[1:]
    errors = np.sqrt((residuals**2).sum(axis=0) / n / (n - rank))
    centred = x - x.mean(axis=0)
    change = np.linalg.lstsq(centred.T @ centred / n, known - x.mean(axis=0), rcond=1e-9)[0]
    return Dense((1 + centred @ change) / n, values, errors)


MARGINS = [
    [margin_of("a")],
    [margin_of("b"), margin_of("a")],
    [margin_of("c", "b")],
    [margin_of("a", "b"), margin_of("c", "b")],
]


@pytest.mark.parametrize(
    ("names", "margins"), paired([("a",), ("c",), ("b", "c"), ("c", "a", "b")], MARGINS)
)
def test_it_is_the_regression_estimator(margins: list[Margin], names: tuple[str, ...]) -> None:
    table = tally(LAW, 900, 1)
    oracle = dense(table, margins, names)
    found = LinearEstimate(LinearCalibration.of(joint_of(table), margins))
    cells = found.table(*names)
    np.testing.assert_allclose(cells.values.ravel(), oracle.values, atol=1e-9)
    assert cells.standard_errors is None
    assert cells.population_errors is not None
    np.testing.assert_allclose(cells.population_errors.ravel(), oracle.errors, atol=1e-7)
    kish = oracle.weights.sum() ** 2 / (oracle.weights**2).sum()
    assert found.source.effective_n == pytest.approx(kish)
    for margin in margins:
        np.testing.assert_allclose(found.table(*margin.names).values, margin.shares, atol=1e-9)


def test_a_query_is_a_sum_of_cells() -> None:
    table = tally(LAW, 900, 1)
    margins = [margin_of("a"), margin_of("c")]
    for found in (
        LinearEstimate(LinearCalibration.of(joint_of(table), margins)),
        LinearEstimate(PostStratification.of(joint_of(table), margins[0])),
    ):
        cells = found.table("b", "c")
        for cell in ((0, 0), (2, 3)):
            weights = np.zeros((3, 4))
            weights[cell] = 1.0
            one = found.query(("b", "c"), weights)
            assert one.value == pytest.approx(cells.values[cell])
            assert one.standard_error is None
            ends = [end[cell] for end in cells.interval(0.9, "population")]
            np.testing.assert_allclose(one.interval(0.9, "population"), ends, rtol=1e-9)
            assert np.isnan(one.interval(0.95, "respondents")).all()
        everybody = found.query(("b", "a"), np.full((3, 2), 2.0))
        assert everybody.value == pytest.approx(2)


def test_what_is_known_has_no_error_and_no_width() -> None:
    found = LinearEstimate(
        LinearCalibration.of(joint_of(tally(LAW, 900, 1)), [margin_of("a", "b")])
    )
    cells = found.table("b")
    known = margin_of("b").shares
    np.testing.assert_allclose(cells.values, known, atol=1e-9)
    assert cells.population_errors is not None
    assert np.array_equal(cells.population_errors, np.zeros(3))
    np.testing.assert_allclose(cells.interval(0.95, "population"), [known, known], atol=1e-9)


def test_errors_take_enough_reports_for_each_free_cell() -> None:
    margins = [margin_of("b", "a")]
    few = LinearEstimate(LinearCalibration.of(joint_of(tally(LAW, 249, 1)), margins))
    assert np.isnan(few.table("c").interval(0.95, "population")).all()
    # So few that the margins seem to explain all of it.
    hardly = LinearEstimate(LinearCalibration.of(joint_of(tally(LAW, 4, 1)), [margin_of("a")]))
    assert np.isnan(hardly.table("b", "c").interval(0.95, "population")).all()
    # What is known is known all the same.
    low, high = few.table("a").interval(0.95, "population")
    np.testing.assert_allclose(low, high)
    enough = LinearEstimate(LinearCalibration.of(joint_of(tally(LAW, 250, 1)), margins))
    assert np.isfinite(enough.table("c").interval(0.95, "population")).all()


# Post-stratification


def test_true_answers_are_post_stratified_as_in_the_textbook() -> None:
    """Sum of M_a**2 p_va (1 - p_va) / n_a, but for the degrees of freedom."""
    table = tally(LAW, 900, 1, keep=True).reshape(SIZES)
    known = np.array([0.3, 0.7])
    found = LinearEstimate(PostStratification.of(joint_of(table, keep=True), Margin(("a",), known)))
    cells = found.table("c")
    of_strata = table.sum(axis=1)
    inside = of_strata / of_strata.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(cells.values, known @ inside, atol=1e-9)
    variances = known**2 / of_strata.sum(axis=1) @ (inside * (1 - inside))
    assert cells.population_errors is not None
    np.testing.assert_allclose(cells.population_errors**2, variances * 900 / 898, rtol=1e-6)


@pytest.mark.parametrize("strata", [("a",), ("b",), ("b", "a")])
@pytest.mark.parametrize("names", [("c",), ("a", "b"), ("c", "a")])
def test_it_is_the_ratio_estimator(strata: tuple[str, ...], names: tuple[str, ...]) -> None:
    """Report by report, with the unmixed indicators of every stratum and cell."""
    law = np.roll(LAW, 1)
    table = tally(LAW, 3_000, 2)
    margin = margin_of(*strata, law=law)
    rows = np.linalg.inv(matrix())[np.repeat(np.arange(CELLS), table)]
    codes = np.stack(np.unravel_index(np.arange(CELLS), SIZES), axis=1)
    places = [SURVEY.index(name) for name in names]
    inside = [SURVEY.index(name) for name in strata]
    cells = [SURVEY.sizes[place] for place in places]
    values, errors = np.zeros(cells), np.zeros(cells)
    for cell in np.ndindex(*cells):
        scores = np.zeros(len(rows))
        for stratum in np.ndindex(*margin.shares.shape):
            in_stratum = (codes[:, inside] == stratum).all(axis=1)
            both = in_stratum & (codes[:, places] == cell).all(axis=1)
            ratio = rows[:, both].sum() / rows[:, in_stratum].sum()
            factor = margin.shares[stratum] / rows[:, in_stratum].sum(axis=1).mean()
            values[cell] += margin.shares[stratum] * ratio
            residual = rows[:, both].sum(axis=1) - ratio * rows[:, in_stratum].sum(axis=1)
            scores += factor * residual
        errors[cell] = np.sqrt((scores**2).sum() / len(rows) / (len(rows) - margin.shares.size))
    found = LinearEstimate(PostStratification.of(joint_of(table), margin))
    assert found.source.clear
    result = found.table(*names)
    np.testing.assert_allclose(result.values, values, atol=1e-9)
    np.testing.assert_allclose(found.table(*strata).values, margin.shares, atol=1e-9)
    assert result.population_errors is not None
    np.testing.assert_allclose(result.population_errors, errors, atol=1e-7)


def test_a_stratum_that_may_be_empty_has_no_errors_or_is_refused() -> None:
    few = joint_of(tally(LAW, 15, 3))
    found = LinearEstimate(PostStratification.of(few, margin_of("a")))
    assert not found.source.clear
    assert np.isnan(found.table("c").interval(0.95, "population")).all()
    law = LAW.copy()
    law[0] = 0.0
    for seed in range(20):
        joint = joint_of(tally(law / law.sum(), 100, seed))
        if joint.table("a").values[0] <= 0:
            with pytest.raises(ValueError, match=r"stratum 'a0': .* is not above 0"):
                LinearEstimate(PostStratification.of(joint, margin_of("a")))
            return
    raise AssertionError("every sample has somebody in the empty stratum")


# Raking


@pytest.mark.parametrize("margins", MARGINS, ids=repr)
def test_raked_records_have_the_known_margins(margins: list[Margin]) -> None:
    found = calibrate(joint_of(tally(LAW, 3_000, 4)), margins, method="raking")
    assert isinstance(found, AdjustedEstimate)
    assert found.adjusted.converged
    assert found.adjusted.unplaced == 0
    for margin in margins:
        table = found.table(*margin.names)
        np.testing.assert_allclose(table.values, margin.shares, atol=2e-6)
        assert np.isnan(table.interval(0.95, "population")).all()
    assert (found.table("a", "b", "c").values >= 0).all()
    kish = 1 / (found.adjusted.weights**2 / found.counts.counts).sum()
    assert found.adjusted.effective_n == pytest.approx(kish, rel=1e-6)
    assert f"effective n={kish:.6g}" in repr(found)


def test_blocks_with_negative_cells_are_raked_before() -> None:
    law = LAW.copy()
    law[0, :, 1:] = 0.0
    joint = joint_of(tally(law / law.sum(), 150, 2))
    margins = [margin_of("a", law=law / law.sum()), margin_of("c", law=law / law.sum())]
    assert (
        LinearEstimate(LinearCalibration.of(joint, margins)).table("c", "a").values < -0.01
    ).any()
    found = calibrate(joint, margins, method="raking")
    assert isinstance(found, AdjustedEstimate)
    assert found.adjusted.converged
    for margin in margins:
        np.testing.assert_allclose(found.table(*margin.names).values, margin.shares, atol=2e-6)


# Both, many times

RESPONDING = np.where(np.arange(2) == 0, 0.5, 1.0)[:, np.newaxis, np.newaxis]
"""Of the first stratum half as many respond."""


def covered(
    method: Method, margins: list[Margin], *, response: Floats | None = None, runs: int = 120
) -> tuple[float, Floats, Floats]:
    """How often intervals hold, and the means and standard deviations of the estimates of c."""
    law = LAW if response is None else LAW * response / (LAW * response).sum()
    true = LAW.sum(axis=(0, 1))
    held, values = 0.0, []
    for seed in range(runs):
        cells = calibrate(joint_of(tally(law, 3_000, seed)), margins, method=method).table("c")
        low, high = cells.interval(0.95, "population")
        held += float(((low <= true) & (true <= high)).mean()) / runs
        values.append(cells.values)
    return held, (np.mean(values, axis=0) - true) / np.std(values, axis=0), np.std(values, axis=0)


@pytest.mark.slow
def test_intervals_hold_about_the_population() -> None:
    for method in ("linear", "post-stratified"):
        held, bias, _ = covered(method, [margin_of("a", "b")])
        assert 0.92 < held < 0.98, method
        assert np.abs(bias).max() < 0.3, method


@pytest.mark.slow
def test_only_post_stratification_corrects_for_who_responds() -> None:
    held, bias, _ = covered("post-stratified", [margin_of("a")], response=RESPONDING)
    assert 0.92 < held < 0.98
    assert np.abs(bias).max() < 0.3
    # The same test finds what linear calibration leaves.
    _, bias, _ = covered("linear", [margin_of("a")], response=RESPONDING)
    assert np.abs(bias).max() > 0.7


@pytest.mark.slow
@pytest.mark.parametrize("share", thinned([0.5, 0.8], 1))
def test_linear_intervals_are_withheld_where_the_reports_contradict_the_margins(
    share: float,
) -> None:
    """Of 10,000 reports they would cover 73 and 90 %; those that are given cover."""
    response = np.where(RESPONDING < 1, share, 1.0)
    law = LAW * response / (LAW * response).sum()
    true, held = LAW.sum(axis=(0, 1)), []
    for n in (300, 1_000, 10_000):
        for seed in range(20):
            found = calibrate(joint_of(tally(law, n, seed)), [margin_of("a")])
            assert isinstance(found, LinearEstimate)
            assert isinstance(found.source, LinearCalibration)
            cells = found.table("c")
            low, high = cells.interval(0.95, "population")
            one = found.query(["c"], np.array([0.1, 0.5, 0.2, 1.0]))
            assert np.isnan(low).all() == np.isnan(one.interval(0.95, "population")[0])
            assert found.source.clear == (not found.source.far) == (not np.isnan(low).any())
            assert cells.population_errors is not None
            assert np.isnan(cells.population_errors).all() == bool(found.source.far)
            if found.source.clear:
                held += ((low <= true) & (true <= high)).tolist()
            # What the margins say is known all the same.
            np.testing.assert_allclose(found.table("a").population_errors, 0.0)
        assert n < 10_000 or found.source.far
    assert len(held) < 4 * 60 * 0.75
    assert len(held) < 20 or np.mean(held) > 0.9


@pytest.mark.slow
def test_linear_intervals_are_seldom_withheld_from_a_random_sample() -> None:
    far = [
        LinearEstimate(
            LinearCalibration.of(joint_of(tally(LAW, 1_000, seed)), [margin_of("a")])
        ).source.far
        for seed in range(100)
    ]
    assert sum(map(bool, far)) < 6


def test_known_margins_make_errors_smaller() -> None:
    joint = joint_of(tally(LAW, 3_000, 7))
    before = joint.table("b").population_errors
    after = (
        LinearEstimate(LinearCalibration.of(joint, [margin_of("b", "a")]))
        .table("b", "c")
        .population_errors
    )
    raw = joint.table("b", "c").population_errors
    assert before is not None
    assert after is not None
    assert raw is not None
    assert (after < raw * np.sqrt(3_000 / 2_994)).all()
    assert (after < 0.9 * raw).any()


# Known shares that the reports contradict


def test_a_known_share_far_from_the_estimate_is_told() -> None:
    joint = joint_of(tally(LAW, 3_000, 7))
    assert far_shares(joint, [margin_of("a"), margin_of("b", "c")]) == []
    other = Margin(("a",), margin_of("a").shares + np.array([0.2, -0.2]))
    found = far_shares(joint, [margin_of("b"), other])
    assert [far.cell for far in found] == [("a0",), ("a1",)]
    assert found[0].names == ("a",)
    assert found[0].low < margin_of("a").shares[0] < found[0].high < found[0].share
    # Half of the first stratum respond: the census tells them from all.
    responding = LAW * RESPONDING / (LAW * RESPONDING).sum()
    assert far_shares(joint_of(tally(responding, 3_000, 7)), [margin_of("a")])


@pytest.mark.slow
def test_known_shares_are_seldom_far_by_chance() -> None:
    margins = [margin_of("a"), margin_of("c"), margin_of("b")]
    far = [
        bool(far_shares(joint_of(tally(LAW, 300, seed)), margins, level=0.8)) for seed in range(300)
    ]
    assert 0.05 < np.mean(far) < 0.25


# What is refused


def test_what_cannot_be_calibrated() -> None:
    joint = joint_of(tally(LAW, 900, 1))
    calibrated = calibrate(joint, [margin_of("a")])
    for estimate, margins, method, why in (
        (joint, [margin_of("a")], "greg", "expected one of 'linear'"),
        (calibrated, [margin_of("a")], "linear", "cannot be calibrated"),
        (joint, [margin_of("a"), margin_of("b")], "post-stratified", "2 margins: expected one"),
        (joint, [], "linear", "at least one margin"),
        (joint, [margin_of("a"), margin_of("a")], "linear", "given twice"),
        (joint, [margin_of("a"), Margin(("a", "b"), np.full((2, 3), 1 / 6))], "raking", "disagree"),
        (joint, [Margin(("a",), np.full(3, 1 / 3))], "linear", "expected \\(2,\\)"),
        (joint, [Margin(("d",), np.full(3, 1 / 3))], "linear", "no attribute 'd'"),
    ):
        with pytest.raises(ValueError, match=why):
            calibrate(estimate, margins, method=method)  # type: ignore[arg-type]  # one is wrong
    # Where all reports are alike, weights change nothing.
    with pytest.raises(ValueError, match="cannot be made to agree with the margins"):
        LinearEstimate(LinearCalibration.of(joint_of(one_report()), [margin_of("a")]))


def one_report() -> NDArray[np.int64]:
    table = np.zeros(CELLS, np.int64)
    table[0] = 50
    return table
