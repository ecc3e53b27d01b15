"""RR-Adjustment: the paper's algorithm and example, records and tables, what cannot be placed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from protocol import (
    AdjustedEstimate,
    Block,
    Counts,
    JointReports,
    LinearEstimate,
    Stream,
    SurveyError,
    join_codes,
    randomize_columns,
)
from protocol.estimators.calibration.adjustment import Adjusted, Target, adjust_records
from protocol.estimators.dependence.dependence import cramers_v
from tests.enumeration import Floats, keep, survey_of

Codes = NDArray[np.unsignedinteger]

HALVES = np.array([0.5, 0.5])


def cells_to_codes(*rows: Sequence[int]) -> Codes:
    return np.array(rows, np.uint8)


def target(axes: Sequence[int], values: Sequence[float] | Floats) -> Target:
    return Target(axes=tuple(axes), proportions=np.asarray(values, np.float64))


def algorithm_2(codes: Codes, targets: Sequence[Target], sweeps: int) -> Floats:
    """The printed algorithm, record by record; every target positive and reported."""
    weights = np.full(len(codes), 1 / len(codes))
    for _ in range(sweeps):
        for one in targets:
            cells = [tuple(int(row[axis]) for axis in one.axes) for row in codes]
            sums: dict[tuple[int, ...], float] = {}
            for cell, weight in zip(cells, weights, strict=True):
                sums[cell] = sums.get(cell, 0.0) + weight
            for i, cell in enumerate(cells):
                weights[i] *= one.proportions[cell] / sums[cell]
    return weights


def margin(codes: Codes, weights: Floats, one: Target) -> Floats:
    table = np.zeros(one.proportions.shape)
    for row, weight in zip(codes, weights, strict=True):
        table[tuple(row[axis] for axis in one.axes)] += weight
    return table


# Example 1 of section 5

EXAMPLE = cells_to_codes(*[(0, 0)] * 4, *[(1, 0)] * 2, *[(1, 1)] * 4)
BOTH = (target((0,), HALVES), target((1,), HALVES))


def test_the_first_step_of_the_paper_s_example() -> None:
    weights = adjust_records(EXAMPLE, BOTH[:1]).weights
    np.testing.assert_allclose(weights, [1 / 8] * 4 + [1 / 12] * 6, rtol=1e-12)
    np.testing.assert_allclose(margin(EXAMPLE, weights, BOTH[1]), [2 / 3, 1 / 3], rtol=1e-12)


@pytest.mark.parametrize("sweeps", [1, 2, 10, 500])
def test_the_paper_s_example_converges_like_1_over_4k(sweeps: int) -> None:
    """The two records that must vanish keep a weight of exactly 1/(4k + 4) after k sweeps."""
    adjusted = adjust_records(EXAMPLE, BOTH, sweeps=sweeps, tolerance=0.0)
    left = 1 / (4 * sweeps + 4)
    assert adjusted.weights[4:6].sum() == pytest.approx(left, rel=1e-9)
    assert adjusted.margin_error == pytest.approx(left, rel=1e-9)
    assert (adjusted.sweeps, adjusted.converged, adjusted.unplaced) == (sweeps, False, 0.0)


def test_sweeps_stop_as_soon_as_the_margins_are_near_enough() -> None:
    adjusted = adjust_records(EXAMPLE, BOTH, sweeps=1000, tolerance=0.0101)
    assert (adjusted.sweeps, adjusted.converged) == (24, True)
    assert adjusted.margin_error == pytest.approx(0.01)
    # The limit is 100 sweeps unless one asks for more.
    assert adjust_records(EXAMPLE, BOTH).sweeps == 100


# The same by records, by distinct records and by the printed algorithm


@dataclass(frozen=True)
class Sample:
    """Records of three attributes in which every combination occurs, in two groups."""

    codes: Codes
    sizes: tuple[int, ...]
    targets: tuple[Target, Target]


@st.composite
def samples(draw: st.DrawFn) -> Sample:
    sizes = tuple(draw(st.lists(st.integers(2, 3), min_size=3, max_size=3)))
    every = np.indices(sizes).reshape(3, -1).T.astype(np.uint8)
    repeats = draw(st.lists(st.integers(1, 4), min_size=len(every), max_size=len(every)))
    codes = np.repeat(every, repeats, axis=0)
    alone = draw(st.integers(0, 2))
    together = draw(st.permutations([axis for axis in range(3) if axis != alone]))
    targets = []
    for axes in ([alone], together):
        shape = tuple(sizes[axis] for axis in axes)
        cells = math.prod(shape)
        drawn = draw(st.lists(st.floats(0.1, 1), min_size=cells, max_size=cells))
        values = np.reshape(drawn, shape)
        targets.append(target(axes, values / values.sum()))
    return Sample(codes, sizes, (targets[0], targets[1]))


@settings(deadline=None, max_examples=30)
@given(samples(), st.integers(1, 5))
def test_sweeps_are_those_of_the_printed_algorithm(sample: Sample, sweeps: int) -> None:
    adjusted = adjust_records(sample.codes, sample.targets, sweeps=sweeps, tolerance=0.0)
    if adjusted.sweeps == sweeps:
        printed = algorithm_2(sample.codes, sample.targets, sweeps)
        np.testing.assert_allclose(adjusted.weights, printed, rtol=1e-10)
    errors = [
        np.abs(margin(sample.codes, adjusted.weights, one) - one.proportions).max()
        for one in sample.targets
    ]
    assert adjusted.margin_error == pytest.approx(max(errors), abs=1e-12)


@settings(deadline=None, max_examples=30)
@given(samples())
def test_records_and_counts_give_the_same_weights(sample: Sample) -> None:
    by_record = adjust_records(sample.codes, sample.targets, tolerance=1e-9)
    assert by_record.converged
    counts = Counts.of(sample.codes, sample.sizes)
    by_distinct = adjust_records(counts, sample.targets, tolerance=1e-9)
    joint = join_codes(counts.codes, sample.sizes)
    every = join_codes(sample.codes, sample.sizes).astype(np.intp)
    summed = np.bincount(every, weights=by_record.weights)
    np.testing.assert_allclose(by_distinct.weights, summed[joint], rtol=1e-9)
    assert by_distinct.sweeps == by_record.sweeps


def adjusted_table(
    counts: NDArray[np.integer], margins: Sequence[Sequence[float]], **limits: float
) -> tuple[Floats, Adjusted]:
    """The weights of the cells of a table that each have records, one target per axis."""
    codes = np.argwhere(counts > 0).astype(np.uint8)
    records = Counts(counts.shape, codes, counts[counts > 0], int(counts.sum()))
    targets = [target((axis,), margin) for axis, margin in enumerate(margins)]
    adjusted = adjust_records(records, targets, **limits)
    return adjusted.weights.reshape(counts.shape), adjusted


def test_what_the_margins_do_not_say_stays_as_reported() -> None:
    """The odds ratio of the reports survives: that is the relation that adjustment leverages."""
    counts = np.array([[40, 10], [5, 45]])
    weights, _ = adjusted_table(counts, [[0.2, 0.8], [0.7, 0.3]], tolerance=1e-12)
    ratio = weights[0, 0] * weights[1, 1] / (weights[0, 1] * weights[1, 0])
    assert ratio == pytest.approx(40 * 45 / (10 * 5), rel=1e-9)


def test_the_margin_error_is_the_largest_of_all_groups() -> None:
    """Of three groups the first may be near its target while the second is not."""
    draw = np.random.default_rng(3)
    largest = set()
    for _ in range(20):
        counts = draw.integers(1, 50, size=(2, 2, 2))
        shares = draw.uniform(0.1, 0.9, size=3)
        targets = [[share, 1 - share] for share in shares]
        weights, adjusted = adjusted_table(counts, targets, sweeps=1)
        margins = [weights.sum(axis=others) for others in ((1, 2), (0, 2), (0, 1))]
        errors = [np.abs(m - t).max() for m, t in zip(margins, targets, strict=True)]
        assert adjusted.margin_error == pytest.approx(max(errors), rel=1e-9)
        largest.add(int(np.argmax(errors)))
    assert largest == {0, 1}


# Targets that cannot be met


def test_a_category_that_nobody_reported_leaves_its_share_to_the_others() -> None:
    codes = cells_to_codes((0, 0), (0, 1), (1, 0), (1, 1))
    targets = [target((0,), [0.2, 0.3, 0.5]), target((1,), HALVES)]
    adjusted = adjust_records(codes, targets)
    assert adjusted.unplaced == pytest.approx(0.5)
    assert adjusted.converged
    np.testing.assert_allclose(adjusted.weights, [0.2, 0.2, 0.3, 0.3], rtol=1e-9)


def test_a_target_of_zero_takes_all_weight_and_with_it_what_only_its_records_carry() -> None:
    """Category 2 of the first attribute occurs only beside one that is estimated as absent."""
    codes = cells_to_codes((0, 0), (1, 0), (1, 1), (2, 2))
    targets = [target((0,), [0.3, 0.3, 0.4]), target((1,), [0.75, 0.25, 0.0])]
    adjusted = adjust_records(codes, targets, sweeps=2000)
    assert adjusted.weights[3] == 0
    assert adjusted.unplaced == pytest.approx(0.4)
    assert adjusted.converged
    np.testing.assert_allclose(adjusted.weights[:3], [0.5, 0.25, 0.25], atol=1e-5)


def test_margins_that_contradict_the_reports_do_not_converge() -> None:
    codes = cells_to_codes((0, 0), (1, 1))
    adjusted = adjust_records(codes, [target((0,), [0.9, 0.1]), target((1,), [0.4, 0.6])])
    assert not adjusted.converged
    assert adjusted.sweeps == 100
    assert adjusted.margin_error == pytest.approx(0.5)
    assert adjusted.weights.sum() == pytest.approx(1)


def test_targets_that_leave_nobody_a_weight_are_refused() -> None:
    with pytest.raises(ValueError, match="every record is in a cell whose target is 0"):
        adjust_records(cells_to_codes((0, 1), (1, 0)), [target((0,), [1, 0]), target((1,), [1, 0])])


def test_other_nonsense_is_refused() -> None:
    for records, targets in (
        (EXAMPLE, []),
        (cells_to_codes((2, 0)), BOTH),
        (EXAMPLE[:0], BOTH),
        (Counts.of(EXAMPLE[:0], (2, 2)), BOTH),
    ):
        with pytest.raises(ValueError, match=r"target|records|column"):
            adjust_records(records, targets)
    for limits in ({"sweeps": 0}, {"tolerance": -1.0}, {"tolerance": math.nan}):
        with pytest.raises(ValueError, match="sweeps"):
            adjust_records(EXAMPLE, BOTH, **limits)


# The estimate

SURVEY = survey_of(2, 3, 2)


def reported(
    p: float, *, clusters: bool = False, n: int = 20_000
) -> tuple[LinearEstimate[JointReports], Codes]:
    """Reports of people whose second answer mostly follows the first, and third the second."""
    draw = np.random.default_rng(1)
    a = draw.integers(2, size=n)
    b = np.where(draw.random(n) < 0.8, a, 2)
    c = np.where(draw.random(n) < 0.7, b == 2, draw.random(n) < 0.4)
    codes = np.stack([a, b, c], axis=1).astype(np.uint8)
    blocks = tuple(
        Block((name,), keep(size, p)) for name, size in zip("abc", (2, 3, 2), strict=True)
    )
    if clusters:
        blocks = (Block(("c", "a"), keep(4, p)), blocks[1])
    columns = [[SURVEY.index(name) for name in block.attributes] for block in blocks]
    sizes = [[SURVEY.sizes[axis] for axis in axes] for axes in columns]
    cells = np.stack(
        [join_codes(codes[:, axes], s) for axes, s in zip(columns, sizes, strict=True)], axis=1
    )
    found = randomize_columns(tuple(b.randomizer for b in blocks), cells, Stream(bytes(32)))
    reports = np.empty_like(codes)
    for place, (axes, shape) in enumerate(zip(columns, sizes, strict=True)):
        reports[:, axes] = np.stack(np.unravel_index(found[:, place], shape), axis=1)
    return LinearEstimate(JointReports(SURVEY, blocks, Counts.of(reports, SURVEY.sizes))), codes


@pytest.mark.parametrize(("p", "n"), [(0.5, 20_000), (0.02, 2_000)])
@pytest.mark.parametrize("clusters", [False, True])
def test_the_blocks_of_an_adjusted_estimate_have_their_clipped_tables(
    clusters: bool, p: float, n: int
) -> None:
    joint, _ = reported(p, clusters=clusters, n=n)
    negative = [(joint.table(*block.attributes).values < 0).any() for block in joint.source.blocks]
    assert any(negative) == (p < 0.1)
    estimate = AdjustedEstimate.of(joint, tolerance=1e-10)
    assert estimate.adjusted.converged
    assert estimate.n == joint.n == n
    for block in joint.source.blocks:
        np.testing.assert_allclose(
            estimate.table(*block.attributes).values,
            joint.table(*block.attributes, projection="clip").values,
            atol=1e-9,
        )
    assert estimate.table("a", "b", "c").values.sum() == pytest.approx(1)
    np.testing.assert_allclose(
        estimate.table("c", "a").values, estimate.table("a", "c").values.T, atol=1e-15
    )
    assert "sweeps" in repr(estimate)


def test_adjustment_repairs_a_part_of_what_independence_loses() -> None:
    """Section 5: the dependence is attenuated, not lost, and more is left with a larger p."""
    errors = []
    for p in (0.5, 0.8):
        joint, codes = reported(p)
        estimate = AdjustedEstimate.of(joint)
        true = np.zeros((2, 3))
        np.add.at(true, (codes[:, 0], codes[:, 1]), 1 / len(codes))
        product = np.multiply.outer(
            joint.table("a", projection="clip").values, joint.table("b", projection="clip").values
        )
        adjusted = estimate.table("a", "b").values
        assert np.abs(adjusted - true).sum() < 0.9 * np.abs(product - true).sum()
        assert cramers_v(adjusted) < cramers_v(true)
        errors.append(np.abs(adjusted - true).sum())
    assert errors[1] < errors[0]


def test_an_adjusted_estimate_has_no_standard_errors_and_says_so_everywhere() -> None:
    estimate = AdjustedEstimate.of(reported(0.5)[0])
    table = estimate.table("b", "a", projection="clip")
    assert table.standard_errors is None
    assert table.population_errors is None
    assert table.projection == "clip"
    np.testing.assert_allclose(table.values, estimate.table("b", "a").values, rtol=1e-12)
    assert {row["standard_error"] for row in table.rows()} == {None}
    assert "<td>unknown</td>" in table._repr_html_()
    found = estimate.count({"a": ["a1"], "b": ["b0", "b2"]})
    expected = table.values[[0, 2], 1].sum() * 20_000
    assert found.value == pytest.approx(expected)
    assert found.standard_error is None
    mean = estimate.query(["b"], [1.0, 2.0, 3.0])
    assert mean.value == pytest.approx(estimate.table("b").values @ [1, 2, 3])


def test_an_adjusted_estimate_refuses_what_is_not_about_its_records() -> None:
    joint, _ = reported(0.5)
    estimate = AdjustedEstimate.of(joint)
    few = Adjusted(
        weights=np.ones(1),
        sweeps=1,
        margin_error=0.0,
        converged=True,
        unplaced=0.0,
        effective_n=1.0,
    )
    with pytest.raises(ValueError, match="weights"):
        AdjustedEstimate(SURVEY, joint.source.counts, few)
    with pytest.raises(ValueError, match="sizes"):
        AdjustedEstimate(survey_of(2, 3), joint.source.counts, estimate.adjusted)
    with pytest.raises(ValueError, match="at least one"):
        estimate.table()
    with pytest.raises(SurveyError):
        estimate.table("nobody")
    with pytest.raises(ValueError, match="read-only"):
        estimate.adjusted.weights[0] = 1.0
