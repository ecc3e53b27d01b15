"""Tables made to agree: against dense projections, a general solver and exact laws."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from protocol import Survey
from protocol.estimators import overlapping
from protocol.estimators.overlapping import Names, Overlaps
from tests.enumeration import Floats, summing, survey_of

PATTERNS: tuple[tuple[str, ...], ...] = (
    ("ab", "bc"),
    ("ab", "ac", "bc"),
    ("ab", "ba", "b"),
    ("abc", "bcd", "cda"),
    ("cab", "bd", "dc", "a"),
    ("ab", "cd"),
    ("ab", "cd", "bd", "ca", "bc", "ad"),
    ("abc",),
)


@dataclass(frozen=True)
class Case:
    """A truth, its exact tables, and the same with noise; a weight per table."""

    survey: Survey
    truth: Floats
    exact: dict[Names, Floats]
    raw: dict[Names, Floats]
    weights: dict[Names, float]


def tables_of(survey: Survey, joint: Floats, pattern: Sequence[str]) -> dict[Names, Floats]:
    tables = {}
    for letters in pattern:
        names = tuple(letters)
        shape = tuple(survey.attribute(name).size for name in names)
        tables[names] = (joint.ravel() @ summing(survey, names)).reshape(shape)
    return tables


def case(sizes: Sequence[int], pattern: Sequence[str], seed: int, *, noise: float = 0.1) -> Case:
    rng = np.random.default_rng(seed)
    survey = survey_of(*sizes)
    truth = rng.dirichlet(np.full(survey.cells, 0.5)).reshape(sizes)
    exact = tables_of(survey, truth, pattern)
    raw = {names: table + noise * rng.normal(size=table.shape) for names, table in exact.items()}
    weights = {names: float(rng.uniform(0.2, 5)) for names in exact}
    return Case(survey, truth, exact, raw, weights)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    sizes = draw(st.lists(st.integers(2, 3), min_size=4, max_size=4))
    noise = draw(st.sampled_from([0.0, 0.01, 0.1, 1.0]))
    return case(
        sizes, draw(st.sampled_from(PATTERNS)), draw(st.integers(0, 2**32 - 1)), noise=noise
    )


def marginal(names: Names, table: Floats, kept: Sequence[str]) -> Floats:
    """By einsum, in the order of ``kept``: nothing that the module uses."""
    return np.asarray(np.einsum(f"{''.join(names)}->{''.join(kept)}", table))


def constraints(survey: Survey, tables: Sequence[Names]) -> tuple[Floats, Floats]:
    """C and b of ``C x = b`` for all cells in one vector: totals of 1, and pairs that agree."""
    sizes = [math.prod(survey.attribute(n).size for n in names) for names in tables]
    ends = np.cumsum([0, *sizes])
    rows, right = [], []
    for number in range(len(tables)):
        row = np.zeros((1, ends[-1]))
        row[0, ends[number] : ends[number + 1]] = 1
        rows.append(row)
        right.append(1.0)
    for i, j in combinations(range(len(tables)), 2):
        common = [name for name in tables[i] if name in tables[j]]
        if not common:
            continue
        one = summing(survey.project(tables[i]), common)
        other = summing(survey.project(tables[j]), common)
        block = np.zeros((one.shape[1], ends[-1]))
        block[:, ends[i] : ends[i + 1]] = one.T
        block[:, ends[j] : ends[j + 1]] = -other.T
        rows.append(block)
        right += [0.0] * len(block)
    return np.vstack(rows), np.array(right)


def nearest_by_solver(c: Floats, b: Floats, start: Floats, x: Floats, w: Floats) -> Floats:
    """SLSQP: the y of at least 0 with ``C y = b`` nearest to x, each cell with its weight."""
    np.testing.assert_allclose(c @ start, b, atol=1e-12)
    # Independent rows, which SLSQP needs.
    _, s, right = np.linalg.svd(c)
    basis = right[: int((s > 1e-9).sum())]
    solved = optimize.minimize(
        lambda y: float((w * (y - x) ** 2).sum()),
        start,
        jac=lambda y: 2 * w * (y - x),
        bounds=[(0, None)] * len(x),
        constraints={
            "type": "eq",
            "fun": lambda y: basis @ (y - start),
            "jac": lambda _: basis,
        },
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-13},
    )
    assert solved.success
    return np.asarray(solved.x)


def flat(tables: Mapping[Names, Floats]) -> Floats:
    return np.concatenate([table.ravel() for table in tables.values()])


def cell_weights(one: Case) -> Floats:
    return np.concatenate([np.full(one.raw[n].size, one.weights[n]) for n in one.raw])


def overlaps_of(one: Case) -> Overlaps:
    return Overlaps(one.raw, one.survey, one.weights)


def even(tables: Mapping[Names, Floats], survey: Survey) -> Overlaps:
    return Overlaps(tables, survey, dict.fromkeys(tables, 1.0))


def distance(
    one: Mapping[Names, Floats], other: Mapping[Names, Floats], w: dict[Names, float]
) -> float:
    return math.sqrt(sum(w[names] * float(((one[names] - other[names]) ** 2).sum()) for names in w))


def assert_proper(tables: Mapping[Names, Floats], atol: float) -> None:
    for table in tables.values():
        assert table.min() >= 0
        assert table.sum() == pytest.approx(1, abs=1e-12)
    for one, other in combinations(tables, 2):
        common = [name for name in one if name in other]
        np.testing.assert_allclose(
            marginal(one, tables[one], common), marginal(other, tables[other], common), atol=atol
        )


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("sizes", [(2, 3, 2, 2), (3, 2, 2, 4)])
def test_the_closed_form_is_the_weighted_projection(
    pattern: tuple[str, ...], sizes: tuple[int, ...]
) -> None:
    one = case(sizes, pattern, 1)
    c, b = constraints(one.survey, list(one.raw))
    x, inverse = flat(one.raw), np.diag(1 / cell_weights(one))
    wanted = x + inverse @ c.T @ np.linalg.pinv(c @ inverse @ c.T) @ (b - c @ x)
    np.testing.assert_allclose(overlaps_of(one).agreeing(x), wanted, atol=1e-11)


@settings(deadline=None, max_examples=60)
@given(cases())
def test_tables_agree_and_are_not_farther_from_the_truth(one: Case) -> None:
    found = overlaps_of(one).nearest()
    assert list(found) == list(one.raw)
    assert_proper(found, 1e-13)
    assert even(found, one.survey).disagreement() <= 1e-13
    before = distance(one.raw, one.exact, one.weights)
    assert distance(found, one.exact, one.weights) <= before + 1e-10
    # Nearest points of a convex set: the whole triangle is obtuse there.
    moved = distance(found, one.raw, one.weights)
    assert distance(found, one.exact, one.weights) ** 2 <= before**2 - moved**2 + 1e-9


@pytest.mark.parametrize("pattern", PATTERNS)
def test_exact_tables_come_back_unchanged(pattern: tuple[str, ...]) -> None:
    one = case((2, 3, 2, 2), pattern, 2)
    found = even(one.exact, one.survey).nearest()
    for names, table in one.exact.items():
        np.testing.assert_allclose(found[names], table, atol=1e-14)


@pytest.mark.parametrize("pattern", PATTERNS[:5])
@pytest.mark.parametrize("seed", [3, 4])
def test_against_a_general_solver(pattern: tuple[str, ...], seed: int) -> None:
    one = case((2, 3, 2, 2), pattern, seed, noise=0.3)
    assert min(table.min() for table in one.raw.values()) < 0
    c, b = constraints(one.survey, list(one.raw))
    solved = nearest_by_solver(c, b, flat(one.exact), flat(one.raw), cell_weights(one))
    np.testing.assert_allclose(flat(overlaps_of(one).nearest()), solved, atol=5e-6)
    # The weights matter, by far more than that.
    assert np.abs(flat(even(one.raw, one.survey).nearest()) - solved).max() > 1e-3


def test_a_single_table_is_projected_onto_the_simplex() -> None:
    survey = survey_of(2, 2)
    found = even({("b", "a"): np.array([[0.6, 0.5], [-0.1, 0.0]])}, survey)
    wanted = np.array([[0.55, 0.45], [0, 0]])
    np.testing.assert_allclose(found.nearest()["b", "a"], wanted, atol=1e-12)
    assert found.disagreement() == 0


def test_reports_are_what_tables_weigh() -> None:
    """Two tables of one attribute: the mean by their numbers of reports, in closed form."""
    survey = survey_of(2, 2, 2)
    one, other = np.full((2, 2), [[0.3], [0.2]]), np.full((2, 2), [[0.1], [0.4]])
    tables: dict[Names, Floats] = {("a", "b"): one, ("a", "c"): other}
    overlaps = Overlaps(tables, survey, {("a", "b"): 300, ("a", "c"): 100})
    assert overlaps.disagreement() == pytest.approx(0.4)
    for table in overlaps.nearest().values():
        np.testing.assert_allclose(table.sum(axis=1), [0.5, 0.5], atol=1e-12)


@pytest.mark.parametrize(("most", "converged"), [(2, False), (250, True)])
def test_tables_agree_however_early_one_stops(
    monkeypatch: pytest.MonkeyPatch, most: int, converged: bool
) -> None:
    """With Dykstra's steps alone it takes 802, with momentum that is never restarted 577."""
    one = case((3, 3, 3, 3), ("abc", "bcd", "cda", "dab"), 5, noise=0.3)
    best = flat(overlaps_of(one).nearest())
    monkeypatch.setattr(overlapping, "ITERATIONS", most)
    found = overlaps_of(one).nearest()
    assert_proper(found, 1e-12)
    assert bool(np.abs(flat(found) - best).max() < 1e-9) is converged


def test_all_pairs_of_many_attributes() -> None:
    sizes = (2, 3, 4) * 4
    rng = np.random.default_rng(6)
    survey = survey_of(*sizes)
    names = survey.names
    law = [rng.dirichlet(np.ones(size)) for size in sizes]
    exact: dict[Names, Floats] = {
        (names[i], names[j]): np.outer(law[i], law[j]) for i, j in combinations(range(12), 2)
    }
    raw = {pair: table + 0.05 * rng.normal(size=table.shape) for pair, table in exact.items()}
    assert even(raw, survey).disagreement() > 0.1
    found = even(raw, survey).nearest()
    assert even(found, survey).disagreement() < 1e-12
    assert_proper(found, 1e-12)


def test_what_is_too_large_is_refused_before_it_is_made() -> None:
    wide = survey_of(*[8] * 8)
    with pytest.raises(ValueError, match="tables too large"):
        even({tuple("abcdefg"): np.broadcast_to(8.0**-7, (8,) * 7)}, wide)
