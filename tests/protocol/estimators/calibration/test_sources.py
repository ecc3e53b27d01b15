"""Estimates of several releases and of one table are calibrated as the reports of respondents."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import TypeAlias

import numpy as np
import pytest

from protocol import (
    Block,
    CombinedReleases,
    Counts,
    Estimate,
    ExactTables,
    Group,
    JointReports,
    KeepUniform,
    LinearEstimate,
    NoisyTables,
    Release,
    SurveyError,
    Tallies,
    calibrate,
)
from protocol.estimators.calibration import sources
from protocol.estimators.calibration.calibrated import Method
from protocol.estimators.calibration.linear import LinearCalibration
from protocol.estimators.calibration.margins import margins_of_rows
from protocol.estimators.calibration.sources import varying
from tests.protocol.estimators.calibration.test_calibrate import (
    CELLS,
    LAW,
    SIZES,
    SURVEY,
    Floats,
    joint_of,
    margin_of,
    tally,
)

N = 3_000
MARGINS = [margin_of("a"), margin_of("c", "b", law=np.roll(LAW, 1))]

Made: TypeAlias = LinearEstimate[CombinedReleases | NoisyTables]
Maker: TypeAlias = Callable[[Floats, np.random.Generator], Made]


def of_one_release(joint: LinearEstimate[JointReports]) -> LinearEstimate[CombinedReleases]:
    return LinearEstimate(
        CombinedReleases(SURVEY, (Release.of_reports(joint.source),), joint.source)
    )


def with_coins(table: Floats, rng: np.random.Generator) -> LinearEstimate[NoisyTables]:
    """Counts of all attributes together, with fair coins."""
    raw = (table + rng.binomial(500, 0.5, table.shape)).astype(np.int64)
    return LinearEstimate(NoisyTables(SURVEY, {SURVEY.names: raw}, int(table.sum()), 500, 1 << 15))


def answers(n: int, seed: int) -> Floats:
    return np.random.default_rng(seed).multinomial(n, LAW.ravel()).reshape(SIZES)


def kept(rng: np.random.Generator, table: Floats, keep: float) -> Floats:
    stay = rng.binomial(table.astype(np.int64), keep)
    drawn = rng.multinomial(int((table - stay).sum()), np.full(table.size, 1 / table.size))
    return stay + drawn.reshape(table.shape)


def pairs_of(table: Floats, rng: np.random.Generator) -> LinearEstimate[CombinedReleases]:
    """Every pair randomized by itself."""
    releases = []
    for pair in combinations(range(3), 2):
        names = tuple(SURVEY.names[place] for place in pair)
        [dropped] = {0, 1, 2} - set(pair)
        counts = kept(rng, table.sum(axis=dropped), 0.7)
        releases.append(Release.of_tables((Group(names, 0.7),), {names: counts}))
    return LinearEstimate(CombinedReleases(SURVEY, tuple(releases)))


def two_releases(table: Floats, rng: np.random.Generator) -> LinearEstimate[CombinedReleases]:
    """A pilot of all, and a final release of fewer."""
    final = LinearEstimate(
        JointReports(
            SURVEY,
            (Block(("a", "b", "c"), KeepUniform.with_keep(CELLS, p=0.6)),),
            Counts.from_table(kept(rng, rng.binomial(table.astype(np.int64), 0.8), 0.6)),
        )
    )
    pilot = Release.of_tables((Group(("a", "b", "c"), 0.3),), {SURVEY.names: kept(rng, table, 0.3)})
    return LinearEstimate(
        CombinedReleases(SURVEY, (pilot, Release.of_reports(final.source)), final.source)
    )


@pytest.mark.parametrize("method", ["linear", "post-stratified", "raking"])
@pytest.mark.parametrize("names", [("a",), ("b", "c"), ("c", "a", "b")])
def test_one_release_is_calibrated_as_its_reports(method: Method, names: tuple[str, ...]) -> None:
    joint = joint_of(tally(LAW, N, 1))
    margins = MARGINS if method != "post-stratified" else MARGINS[:1]
    one, other = (calibrate(e, margins, method=method) for e in (joint, of_one_release(joint)))
    first, second = one.table(*names), other.table(*names)
    np.testing.assert_allclose(first.values, second.values, atol=1e-9)
    if method == "raking":
        return
    assert first.population_errors is not None
    assert second.population_errors is not None
    np.testing.assert_allclose(first.population_errors, second.population_errors, atol=1e-8)
    weights = np.arange(first.values.size, dtype=float).reshape(first.values.shape)
    found = [estimate.query(names, weights) for estimate in (one, other)]
    assert found[0].value == pytest.approx(found[1].value)
    np.testing.assert_allclose(
        found[0].interval(0.9, "population"), found[1].interval(0.9, "population"), atol=1e-6
    )


def test_one_table_is_calibrated_as_reports_of_all_attributes() -> None:
    randomizer = KeepUniform.with_keep(CELLS, p=0.6)
    table = kept(np.random.default_rng(2), answers(N, 2), 0.6)
    joint = LinearEstimate(
        JointReports(SURVEY, (Block(SURVEY.names, randomizer),), Counts.from_table(table))
    )
    shares = LinearEstimate(Tallies(SURVEY, SURVEY.names, randomizer, table.ravel(), N))
    for names in (("a",), ("b", "c")):
        one, other = (calibrate(e, MARGINS).table(*names) for e in (joint, shares))
        np.testing.assert_allclose(one.values, other.values, atol=1e-9)
        assert one.population_errors is not None
        assert other.population_errors is not None
        np.testing.assert_allclose(one.population_errors, other.population_errors, atol=1e-8)


def test_exact_counts_are_calibrated_as_in_the_textbook() -> None:
    counts = answers(N, 3)
    found = LinearEstimate(
        LinearCalibration.of(
            LinearEstimate(ExactTables(SURVEY, {SURVEY.names: counts})), [margin_of("a")]
        )
    )
    inside = counts / counts.sum(axis=(1, 2), keepdims=True)
    wanted = (margin_of("a").shares[:, np.newaxis, np.newaxis] * inside).sum(axis=(0, 1))
    np.testing.assert_allclose(found.table("c").values, wanted, atol=1e-9)
    assert found.source.effective_n is None
    assert "effective" not in repr(found)


@pytest.mark.parametrize("made", [pairs_of, two_releases, with_coins])
def test_covariances_are_those_of_a_table_of_all(made: Maker) -> None:
    rng = np.random.default_rng(4)
    estimate = made(answers(N, 4), rng)
    source = varying(estimate, [margin_of("a"), margin_of("b")])
    whole = estimate.table("a", "b").covariance("population").reshape(2, 3, 2, 3)
    found = source.covariances(("a", "b"))
    oracle = np.concatenate(
        [whole.sum(axis=3).reshape(6, 2), whole.sum(axis=2).reshape(6, 3)], axis=1
    )
    np.testing.assert_allclose(found, N * oracle, atol=1e-9)


def test_what_no_release_has_together_has_a_value_and_no_error() -> None:
    found = LinearEstimate(
        LinearCalibration.of(pairs_of(answers(N, 5), np.random.default_rng(5)), [margin_of("a")])
    )
    assert np.isfinite(found.table("c").interval(0.95, "population")).all()
    assert np.isfinite(found.table("a", "c").interval(0.95, "population")).all()
    unknown = found.table("b", "c")
    assert np.isnan(unknown.interval(0.95, "population")).all()
    np.testing.assert_allclose(unknown.values.sum(axis=0), found.table("c").values, atol=1e-9)
    np.testing.assert_allclose(found.table("a", "b").values.sum(axis=1), margin_of("a").shares)


@pytest.mark.slow
@pytest.mark.parametrize("made", [pairs_of, two_releases, with_coins])
def test_intervals_hold_about_the_population(made: Maker) -> None:
    true, held, values, errors = LAW.sum(axis=(0, 1)), [], [], []
    for seed in range(200):
        estimate: Estimate = made(answers(N, seed), np.random.default_rng([seed, 1]))
        found = calibrate(estimate, [margin_of("a"), margin_of("b")])
        assert found.calibration is not None
        if found.calibration.far:  # By chance: these reports say that they are of others.
            continue
        cells = found.table("c")
        low, high = cells.interval(0.95, "population")
        held.append((low <= true) & (true <= high))
        values.append(cells.values)
        errors.append(cells.population_errors)
    assert len(held) >= 196
    assert 0.92 < np.mean(held) < 0.98
    spread = np.std(values, axis=0)
    np.testing.assert_allclose(np.mean(errors, axis=0), spread, rtol=0.2)


def test_what_cannot_be_calibrated() -> None:
    pairs = pairs_of(answers(N, 5), np.random.default_rng(5))
    with pytest.raises(ValueError, match="cannot be raked: expected reports of whole records"):
        calibrate(pairs, [margin_of("a")], method="raking")
    tables = {pair: answers(N, 5).sum(axis=2 - place) for place, pair in enumerate([("a", "b")])}
    other = {**tables, ("b", "c"): answers(N, 5).sum(axis=0)}
    with pytest.raises(ValueError, match="cannot be calibrated: expected an estimate from"):
        calibrate(LinearEstimate(ExactTables(SURVEY, other)), [margin_of("a")])
    with pytest.raises(ValueError, match="no release has"):
        calibrate(pairs, [margin_of("a", "b", "c")])


def test_cells_of_releases_are_sums_of_one_cell_each() -> None:
    """Values, variances and the scale of these, as two formulas have them."""
    rng = np.random.default_rng(3)
    estimate = pairs_of(answers(N, 5), rng)
    source = varying(estimate, MARGINS)
    names = ("a", "b")
    cells = source.cells(names)
    size = cells.values.size
    each = np.eye(size).reshape(size, *estimate.survey.sizes_of(names))
    for found, expected in zip(cells, source.sums(names, each), strict=True):
        assert np.allclose(found, expected, rtol=1e-9)


def test_reports_times_cells_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their product, which is what is held."""
    joint = joint_of(answers(N, 5))
    margins = [margin_of("a")]
    distinct, count = int(np.count_nonzero(joint.source.counts.counts)), margins[0].shares.size
    assert distinct + count < distinct * count
    monkeypatch.setattr(sources, "MAX_MARGIN_SCORES", distinct * count)
    LinearEstimate(LinearCalibration.of(joint, margins))
    monkeypatch.setattr(sources, "MAX_MARGIN_SCORES", distinct * count - 1)
    with pytest.raises(ValueError, match=f"{distinct:,} distinct reports times {count} cells"):
        LinearEstimate(LinearCalibration.of(joint, margins))


def test_weights_of_reports_are_shares_that_meet_the_margin() -> None:
    joint = joint_of(answers(N, 5))
    found = LinearEstimate(LinearCalibration.of(joint, [margin_of("a")]))
    assert found.source.regression.weights is not None
    assert found.source.regression.weights.sum() == pytest.approx(1)


def test_numbers_of_a_margins_file_are_at_least_0() -> None:
    rows = [["a", "share"]]
    categories = SURVEY.attribute("a").categories
    for place, category in enumerate(categories):
        rows.append([category, "1" if place == 1 else "0"])
    [margin] = margins_of_rows(SURVEY, rows)
    assert margin.shares.tolist() == [float(place == 1) for place in range(len(categories))]
    rows[1][1] = "-0.5"
    with pytest.raises(SurveyError, match="at least 0"):
        list(margins_of_rows(SURVEY, rows))
