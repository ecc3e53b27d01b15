"""EM: against general solvers and the conditions of a maximum, by dense matrices."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize

from protocol import (
    AdjustedEstimate,
    Block,
    CombinedReleases,
    Counts,
    Estimate,
    ExactTables,
    Group,
    HadamardResponse,
    JointReports,
    KeepElseTable,
    KeepUniform,
    LinearEstimate,
    LocalHashing,
    MatrixRandomizer,
    ProductEstimate,
    Projection,
    Randomizer,
    Release,
    Stream,
    SubsetSelection,
    Tallies,
    UnaryEncoding,
    randomize_columns,
    secret_of,
)
from protocol.errors import NoLikelihoodError
from protocol.estimators.analysis import Analysis
from protocol.estimators.likelihood import Reported, likeliest
from protocol.estimators.measures import total_variation
from protocol.randomizers.mixing import FakesMixing, MatrixMixing
from scenarios import town
from tests.enumeration import AB, BLOCKS, NONE_ALIKE, dense_law, keep, matrix, summing, survey_of
from tests.tiers import paired, thinned

Floats = NDArray[np.float64]
ALONE = survey_of(3)


def fakes(size: int, p: float) -> KeepElseTable:
    return KeepElseTable.with_table(p=p, table=np.arange(size) + 1.0, mix=0.1)


def counted(
    table: list[int], blocks: tuple[Block, ...] = BLOCKS["independent"]
) -> LinearEstimate[JointReports]:
    """Reports on ``AB`` with this table of counts, in row-major order."""
    return LinearEstimate(JointReports(AB, blocks, Counts.from_table(np.reshape(table, AB.sizes))))


def log_likelihood(counts: Floats, law: Floats, shares: Floats, prior: float) -> float:
    fitted = shares @ law
    seen = counts > 0
    value = float(counts[seen] @ np.log(fitted[seen]))
    return value + ((prior - 1) * float(np.log(shares).sum()) if prior > 1 else 0.0)


def largest(counts: Floats, law: Floats, prior: float) -> float:
    """The largest log-likelihood, by a general solver of concave problems from several starts."""

    def slope(shares: Floats) -> Floats:
        ratios = np.divide(counts, shares @ law, out=np.zeros(len(counts)), where=counts > 0)
        return -(law @ ratios) - (prior - 1) / shares

    cells = len(law)
    best = -math.inf
    for start in range(3):
        odds = np.random.default_rng(start).dirichlet(np.full(cells, 2.0))
        found = minimize(
            lambda shares: -log_likelihood(counts, law, shares, prior),
            odds,
            jac=slope,
            bounds=[(1e-12, 1)] * cells,
            constraints={"type": "eq", "fun": lambda x: x.sum() - 1, "jac": np.ones_like},
            method="SLSQP",
            options={"maxiter": 500, "ftol": 1e-13},
        )
        shares = found.x / found.x.sum()
        best = max(best, log_likelihood(counts, law, shares, prior))
    return best


@pytest.mark.parametrize(
    ("table", "prior"),
    paired([[9, 0, 3, 1, 7, 2], [0, 0, 40, 0, 0, 1], [1, 0, 0, 0, 0, 0]], [1.0, 1.5, 4.0]),
)
@pytest.mark.parametrize("name", [*BLOCKS, "fakes"])
def test_no_shares_are_likelier_than_those_of_em(name: str, table: list[int], prior: float) -> None:
    made = (Block(("b",), fakes(3, 0.4)), Block(("a",), keep(2, 0.5)))
    blocks = made if name == "fakes" else BLOCKS[name]
    law, counts = dense_law(AB, blocks), np.array(table, np.float64)
    found = counted(table, blocks).likeliest("a", "b", prior=prior, gap=1e-5)
    assert found.fit is not None
    assert found.fit.converged
    shares = found.values.reshape(-1)
    reached = log_likelihood(counts, law, shares, prior)
    assert found.fit.log_likelihood == pytest.approx(reached, rel=1e-9)
    assert largest(counts, law, prior) <= reached + found.fit.gap + 1e-9
    # The conditions of a maximum: no category has a steeper slope than the shares themselves.
    ratios = np.divide(counts, shares @ law, out=np.zeros(6), where=counts > 0)
    slopes = law @ ratios + np.divide(prior - 1, shares, out=np.zeros(6), where=shares > 0)
    total = counts.sum() + 6 * (prior - 1)
    assert slopes.max() - total == pytest.approx(found.fit.gap, abs=1e-9 * total)
    np.testing.assert_allclose(shares * (total - slopes), 0, atol=1e-3)


@pytest.mark.parametrize("names", ["ab", "ba", "a", "b"])
def test_a_part_of_a_dense_block_is_the_sum_of_the_whole(names: str) -> None:
    estimate = counted([9, 0, 3, 1, 7, 2], BLOCKS["joint matrix"])
    whole = estimate.likeliest("a", "b", gap=1e-7).values.reshape(-1)
    found = estimate.likeliest(*names, gap=1e-7)
    np.testing.assert_allclose(
        found.values.reshape(-1), whole @ summing(AB, list(names)), atol=1e-6
    )


def test_where_no_raw_share_is_negative_em_ends_at_the_raw_shares() -> None:
    for name, blocks in BLOCKS.items():
        law = dense_law(AB, blocks)
        truth = np.array([0.2, 0.1, 0.25, 0.15, 0.1, 0.2])
        counts = np.rint(1e6 * truth @ law).astype(int)
        found = counted(counts.tolist(), blocks).likeliest("a", "b", gap=1e-7)
        np.testing.assert_allclose(found.values.reshape(-1), truth, atol=1e-4, err_msg=name)


def test_the_likelihood_never_falls_and_the_gap_that_is_left_is_true() -> None:
    survey, sizes = survey_of(5, 6), (5, 6)
    blocks = (Block(("a",), keep(5, 0.15)), Block(("b",), fakes(6, 0.2)))
    generator = np.random.default_rng(0)
    shares = generator.dirichlet(np.full(30, 0.1))
    counts = generator.multinomial(300, shares @ dense_law(survey, blocks)).reshape(sizes)
    estimate = LinearEstimate(JointReports(survey, blocks, Counts.from_table(counts)))
    runs = [estimate.likeliest("a", "b", gap=0.0, at_most=steps).fit for steps in range(1, 61)]
    values = np.array([fit.log_likelihood for fit in runs if fit])
    gaps = np.array([fit.gap for fit in runs if fit])
    # An extrapolation that is refused is a step that leads nowhere.
    assert [fit.steps for fit in runs if fit] == list(range(1, 61))
    assert (np.diff(values) == 0).any()
    assert (np.diff(values) >= -1e-9).all()
    best = estimate.likeliest("a", "b", gap=1e-9).fit
    assert best is not None
    assert (best.log_likelihood - values <= gaps + 1e-9).all()
    assert gaps[0] > 1


def test_what_is_grouped_in_any_order_and_has_more_reports_than_categories() -> None:
    generator = np.random.default_rng(5)
    sizes = {"a": 2, "b": 3, "c": 4}
    laws = [generator.dirichlet(np.ones(reports), size) for size, reports in ((8, 9), (3, 5))]
    mixings = tuple(MatrixMixing(places=(0,), matrix=law) for law in laws)
    counts = generator.integers(1, 50, (9, 5))
    found, fit = likeliest([Reported((("c", "a"), ("b",)), counts, mixings)], sizes, gap=1e-5)
    assert fit.converged
    shares = found.transpose(2, 0, 1).reshape(-1)
    law = np.kron(*laws)
    slopes = law @ (counts.reshape(-1) / (shares @ law))
    assert slopes.max() - counts.sum() == pytest.approx(fit.gap, abs=1e-8)
    assert fit.gap <= 1e-5


def test_a_prior_of_a_table_is_spread_over_what_is_summed() -> None:
    mixing = matrix(NONE_ALIKE).mixing((2, 3), (0,))
    reported = [Reported((("a", "b"),), np.array([9, 0, 3, 1, 7, 2]), (mixing,))]
    found, _ = likeliest(reported, {"a": 2}, extra={"b": 3}, prior=4.0, gap=1e-8)
    whole, _ = likeliest(reported, {"a": 2, "b": 3}, prior=2.0, gap=1e-8)
    np.testing.assert_allclose(found, whole.sum(axis=1), atol=1e-7)


def test_the_limit_of_steps_is_reported() -> None:
    estimate = counted([90, 0, 30, 10, 70, 2])
    found = estimate.likeliest("a", "b", gap=1e-6, at_most=3).fit
    assert found is not None
    assert (found.steps, found.converged) == (3, False)
    assert found.gap > 1e-6
    enough = estimate.likeliest("a", "b", gap=1e-6).fit
    assert enough is not None
    assert enough.converged
    assert enough.gap <= 1e-6


def test_acceleration_takes_far_fewer_steps_than_plain_em() -> None:
    survey, p, n = survey_of(4, 5), 0.2, 20_000
    law = dense_law(survey, (Block(("a",), keep(4, p)), Block(("b",), keep(5, p))))
    generator = np.random.default_rng(4)
    counts = generator.multinomial(n, generator.dirichlet(np.ones(20)) @ law)
    blocks = (Block(("a",), keep(4, p)), Block(("b",), keep(5, p)))
    estimate = LinearEstimate(JointReports(survey, blocks, Counts.from_table(counts.reshape(4, 5))))
    fit = estimate.table("a", "b", projection="em").fit
    assert fit is not None
    assert fit.converged
    shares, steps = np.full(20, 1 / 20), 0
    while True:
        slopes = law @ (counts / (shares @ law))
        if slopes.max() - n <= 0.01 or steps > 20 * fit.steps:
            break
        shares, steps = shares * slopes / n, steps + 1
    assert steps > 20 * fit.steps


@st.composite
def designs(draw: st.DrawFn) -> tuple[list[Randomizer], NDArray[np.int64]]:
    randomizers: list[Randomizer] = []
    for size in draw(st.lists(st.integers(2, 4), min_size=1, max_size=3)):
        p = draw(st.floats(0.05, 0.95))
        seed = draw(st.integers(0, 100))
        rows = p * np.eye(size) + (1 - p) * np.random.default_rng(seed).dirichlet(
            np.ones(size), size=size
        )
        kinds: list[Callable[[], Randomizer]] = [
            partial(keep, size, p),
            partial(fakes, size, p),
            partial(MatrixRandomizer.from_probabilities, rows),
        ]
        randomizers.append(draw(st.sampled_from(kinds))())
    cells = math.prod(one.size for one in randomizers)
    counts = draw(st.lists(st.integers(0, 500), min_size=cells, max_size=cells))
    counts[draw(st.integers(0, cells - 1))] += 1
    return randomizers, np.array(counts)


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(designs(), st.sampled_from([1.0, 1.2, 3.0]))
def test_any_blocks_meet_the_conditions_of_a_maximum(
    design: tuple[list[Randomizer], NDArray[np.int64]], prior: float
) -> None:
    randomizers, counts = design
    sizes = [one.size for one in randomizers]
    law: Floats = np.ones((1, 1))
    for one in randomizers:
        law = np.asarray(np.kron(law, one.matrix()), np.float64)
    names = "abc"[: len(sizes)]
    mixings = tuple(one.mixing((one.size,), (0,)) for one in randomizers)
    reported = Reported(tuple((name,) for name in names), counts.reshape(sizes), mixings)
    shares, fit = likeliest(
        [reported], dict(zip(names, sizes, strict=True)), prior=prior, at_most=3000
    )
    assert shares.shape == tuple(sizes)
    assert shares.min() >= 0
    assert shares.sum() == pytest.approx(1, abs=1e-12)
    flat, n = shares.reshape(-1), int(counts.sum())
    slopes = law @ np.divide(counts, flat @ law, out=np.zeros(len(flat)), where=counts > 0)
    slopes = slopes + np.divide(prior - 1, flat, out=np.zeros(len(flat)), where=flat > 0)
    total = n + len(flat) * (prior - 1)
    assert max(slopes.max() - total, 0) == pytest.approx(fit.gap, abs=1e-9 * total)
    assert fit.converged == (fit.gap <= 0.01)
    uniform = log_likelihood(
        counts.astype(np.float64), law, np.full(len(flat), 1 / len(flat)), prior
    )
    assert fit.log_likelihood >= uniform - 1e-9 * abs(uniform)


@pytest.mark.parametrize(
    "one",
    [keep(3, 0.3), fakes(3, 0.6), matrix([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [1, 1, 2]])],
    ids=lambda one: type(one).__name__,
)
def test_operators_are_their_matrices(one: Randomizer) -> None:
    table = np.arange(24.0).reshape(2, 3, 4) ** 1.3
    mixing, law = one.mixing((3,), (0,)), one.matrix()
    applied = np.einsum("axb,xy->ayb", table, law)
    np.testing.assert_allclose(mixing.apply(table), applied, rtol=1e-12)
    applied = np.einsum("ayb,xy->axb", table, law)
    np.testing.assert_allclose(mixing.apply_transposed(table), applied, rtol=1e-12)
    assert mixing.reports == 3


def test_the_law_of_a_part_of_a_block_is_that_of_its_reports() -> None:
    sizes, kept = (2, 3, 2), (2, 0)
    survey = survey_of(*sizes)
    for one in (keep(12, 0.3), fakes(12, 0.3)):
        mixing = one.mixing(sizes, kept)
        assert isinstance(mixing, FakesMixing)
        part = summing(survey, ["c", "a"])
        # From each combination of the part by way of any record that has it.
        expected = (part / part.sum(axis=0)).T @ one.matrix() @ part
        np.testing.assert_allclose(mixing.apply(np.eye(4)[..., np.newaxis])[..., 0], expected)
    assert isinstance(matrix(np.eye(6) + 1).mixing((2, 3), (1,)), MatrixMixing)


def drawn(
    p: float, seed: int
) -> tuple[LinearEstimate[JointReports], dict[tuple[str, ...], Floats]]:
    """Reports of a town, and its true pairs."""
    records = town(4000, seed=seed)
    survey = records.survey
    randomizers = tuple(keep(size, p) for size in survey.sizes)
    codes = randomize_columns(randomizers, records.codes, Stream(secret_of(seed)).derive("reports"))
    blocks = tuple(Block((name,), one) for name, one in zip(survey.names, randomizers, strict=True))
    estimate = LinearEstimate(JointReports(survey, blocks, Counts.of(codes, survey.sizes)))
    return estimate, {t.names: records.distribution(t.names) for t in estimate.pairs()}


@pytest.mark.parametrize(("p", "of_theirs"), thinned([(0.1, 0.75), (0.3, 0.97), (0.5, 1.0)], 2))
def test_em_is_nearer_to_the_truth_than_both_projections(p: float, of_theirs: float) -> None:
    distances: dict[Projection, list[float]] = {"clip": [], "simplex": [], "em": []}
    for seed in range(5):
        estimate, truth = drawn(p, seed)
        for projection, found in distances.items():
            tables = estimate.pairs(projection)
            found += [float(total_variation(t.values, truth[t.names])) for t in tables]
    means = {projection: np.mean(found) for projection, found in distances.items()}
    assert means["em"] < of_theirs * min(means["clip"], means["simplex"])


def test_intervals_and_errors_stay_those_of_the_unbiased_estimate() -> None:
    estimate = counted([90, 0, 30, 10, 70, 2])
    raw, found = estimate.table("a", "b"), estimate.table("a", "b", projection="em")
    assert found.projection == "em"
    assert raw.fit is None
    assert not np.allclose(found.values, raw.values)
    np.testing.assert_array_equal(found.standard_errors, raw.standard_errors)
    np.testing.assert_array_equal(found.interval(0.9), raw.interval(0.9))
    np.testing.assert_array_equal(
        found.interval(about="population"), raw.interval(about="population")
    )
    analysis = Analysis(tables=(("a", "b"),), projection="em")
    [table] = analysis.announced_tables(estimate)
    values = [cell.value for cell in table.cells]
    np.testing.assert_array_equal(values, found.values.reshape(-1))
    np.testing.assert_array_equal([c.low for c in table.cells], raw.interval().low.reshape(-1))


def test_a_table_by_itself_cannot_be_fitted() -> None:
    raw = counted([90, 0, 30, 10, 70, 2]).table("a")
    with pytest.raises(ValueError, match="needs the reports"):
        raw.projected("em")
    with pytest.raises(ValueError, match="already projected by 'em'"):
        counted([90, 0, 30, 10, 70, 2]).table("a", projection="em").projected("clip")


def test_exact_counts_are_fitted_by_their_shares() -> None:
    estimate = LinearEstimate(ExactTables(AB, {("a", "b"): np.array([[5, 0, 1], [2, 2, 0]])}))
    np.testing.assert_allclose(
        estimate.table("b", "a", projection="em").values, estimate.table("b", "a").values
    )


def test_of_independent_groups_the_product_of_the_likeliest_tables_is_likeliest() -> None:
    joint = counted([90, 0, 30, 10, 70, 2])
    found = ProductEstimate(joint).table("b", "a", projection="em")
    parts = [joint.likeliest(name, gap=0.005).values for name in "ba"]
    np.testing.assert_allclose(found.values, np.multiply.outer(*parts))
    assert found.fit is not None
    assert found.fit.gap <= 0.01


def test_several_releases_are_fitted_together() -> None:
    survey = survey_of(2, 3)
    apart = (Group(("a",), 0.5), Group(("b",), 0.25))
    pilot = Release.of_tables(apart, {("b", "a"): np.array([[30, 5], [9, 20], [4, 32]])})
    final = Release.of_tables((Group(("a", "b"), 0.5),), {("a", "b"): np.full((2, 3), 7)})
    margin = Release.of_tables(apart[:1], {("a",): np.array([60, 40])})
    found = LinearEstimate(CombinedReleases(survey, (pilot, final))).likeliest("b", "a", gap=1e-6)
    laws = np.kron(keep(3, 0.25).matrix(), keep(2, 0.5).matrix()), keep(6, 0.5).matrix()
    tables = pilot.tables["b", "a"].table((0, 1)), final.tables["a", "b"].table((1, 0))
    shares = found.values.reshape(-1)
    slopes = sum(
        law @ (table.reshape(-1) / (shares @ law)) for law, table in zip(laws, tables, strict=True)
    )
    n = sum(int(table.sum()) for table in tables)
    np.testing.assert_allclose(shares * (n - slopes), 0, atol=1e-3)
    assert np.max(slopes) <= n + 1e-5
    # Two releases by one law count like one.
    both = LinearEstimate(CombinedReleases(survey, (pilot, margin))).likeliest("a", gap=1e-7).values
    added = pilot.tables["b", "a"].table((1,)) + np.array([60, 40])
    one = LinearEstimate(
        JointReports(survey_of(2), (Block(("a",), keep(2, 0.5)),), Counts.from_table(added))
    )
    np.testing.assert_allclose(both, one.likeliest("a", gap=1e-7).values, atol=1e-6)


def test_of_tables_of_the_same_reports_those_within_others_are_left_out() -> None:
    survey = survey_of(2, 3, 2)
    groups = (Group(("a", "b", "c"), 0.5),)
    tables: dict[tuple[str, ...], NDArray[np.int64]] = {
        ("c", "a"): np.array([[8, 4], [10, 2]]),
        ("a", "b"): np.array([[9, 0, 3], [1, 7, 4]]),
    }
    both = Release.of_tables(groups, tables)
    one = Release.of_tables(groups, {("a", "b"): tables["a", "b"]})
    found, expected = (
        LinearEstimate(CombinedReleases(survey, (release,))).table("a", "b", projection="em").values
        for release in (both, one)
    )
    np.testing.assert_array_equal(found, expected)


def test_an_exact_part_of_a_table_leaves_the_rest_to_be_fitted() -> None:
    survey = survey_of(2, 3)
    pilot = Release.of_tables(
        (Group(("a", "b"), 0.5),), {("a", "b"): np.array([[90, 1, 1], [1, 1, 90]])}
    )
    margins: dict[tuple[str, ...], NDArray[np.int64]] = {
        ("a",): np.array([92, 92]),
        ("b",): np.array([91, 2, 91]),
    }
    exact = Release.of_tables((Group(("a",), 1.0), Group(("b",), 1.0)), margins)
    found = (
        LinearEstimate(CombinedReleases(survey, (pilot, exact)))
        .table("a", "b", projection="em")
        .values
    )
    assert found[0, 0] + found[1, 2] > 0.9


def test_exact_counts_stand_whatever_else_was_released() -> None:
    survey = survey_of(2, 3)
    apart = (Group(("a",), 0.5), Group(("b",), 0.25))
    pilot = Release.of_tables(apart, {("b", "a"): np.full((3, 2), 4)})
    table = np.array([[9, 0, 3], [1, 7, 4]])
    exact = Release.of_tables((Group(("a", "b"), 1.0),), {("a", "b"): table})
    found = LinearEstimate(CombinedReleases(survey, (pilot, exact))).table(
        "a", "b", projection="em"
    )
    np.testing.assert_allclose(found.values, table / 24, atol=1e-12)


def shares_of(randomizer: Randomizer) -> LinearEstimate[Tallies]:
    stream = Stream(secret_of(3))
    codes = (stream.integers(6, 300) // np.uint64(2)).astype(np.uint8)
    totals = randomizer.tally(randomizer.randomize(codes, stream))
    return LinearEstimate(Tallies(AB, ("a", "b"), randomizer, totals, len(codes)))


@pytest.mark.parametrize("randomizer", [keep(6, 0.3), fakes(6, 0.4), matrix(np.eye(6) + 1)])
@pytest.mark.parametrize("names", ["ab", "b", "ba"])
def test_tallies_of_single_reports_are_fitted_like_records(
    randomizer: Randomizer, names: str
) -> None:
    shares = shares_of(randomizer)
    assert isinstance(randomizer, KeepUniform | KeepElseTable | MatrixRandomizer)
    joint = counted(shares.source.totals.tolist(), (Block(("a", "b"), randomizer),))
    np.testing.assert_allclose(
        shares.table(*names, projection="em").values, joint.table(*names, projection="em").values
    )


@pytest.mark.parametrize(
    "randomizer",
    [
        UnaryEncoding.optimized(6, epsilon=1.0),
        SubsetSelection.with_epsilon(6, epsilon=1.0),
        HadamardResponse.with_epsilon(6, epsilon=1.0),
        LocalHashing.optimized(6, epsilon=1.0),
    ],
    ids=lambda one: type(one).__name__,
)
def test_tallies_without_a_likelihood_are_refused(randomizer: Randomizer) -> None:
    estimate = shares_of(randomizer)
    assert estimate.table("a", projection="simplex").values.min() >= 0
    with pytest.raises(ValueError, match=r"no EM: .*likelihood of its tallies"):
        estimate.table("a", projection="em")
    [table] = Analysis(tables=(("a",),), projection="em").announced_tables(estimate)
    assert "no EM" in table.why


def test_totals_that_are_not_one_for_each_report_are_refused() -> None:
    estimate = LinearEstimate(
        Tallies(AB, ("a", "b"), keep(6, 0.3), np.array([1, 2, 3, 4, 5, 6]), 22)
    )
    with pytest.raises(NoLikelihoodError, match="no single reports"):
        estimate.table("a", projection="em")


def test_an_estimate_without_a_likelihood_says_so() -> None:
    adjusted: Estimate = AdjustedEstimate.of(counted([90, 0, 30, 10, 70, 2]))
    with pytest.raises(ValueError, match="no EM: RR-Adjustment"):
        adjusted.table("a", projection="em")


@pytest.mark.parametrize(
    "choices",
    [
        {"prior": 0.9},
        {"prior": math.nan},
        {"prior": math.inf},
        {"gap": -1e-9},
        {"gap": math.nan},
        {"gap": math.inf},
        {"at_most": 0},
    ],
)
def test_numbers_out_of_range_are_refused(choices: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected"):
        counted([90, 0, 30, 10, 70, 2]).likeliest("a", **choices)


def test_reports_that_cannot_be_fitted_are_refused() -> None:
    never = MatrixMixing(places=(0,), matrix=np.array([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]]))
    for counts, said in (([3, 1, 1], "no answer can give"), ([0, 0, 0], "no reports")):
        with pytest.raises(ValueError, match=said):
            likeliest([Reported((("a",),), np.array(counts), (never,))], {"a": 2})
    with pytest.raises(ValueError, match="cells"):
        likeliest([], {"a": 2**11, "b": 2**11 + 1})


def test_a_report_that_gives_its_answer_away_keeps_its_category() -> None:
    alone = KeepElseTable.with_table(p=0.5, table=[1.0, 1.0, 0.0], mix=0.0)
    counts = Counts.from_table(np.array([1000, 1000, 1]))
    estimate = LinearEstimate(JointReports(ALONE, (Block(("a",), alone),), counts))
    found = estimate.likeliest("a", gap=1e-6)
    # One in 2,001 of this answer, of whom half would have said another.
    assert found.values[2] == pytest.approx(1 / 1000.5, rel=1e-3)


def test_a_prior_draws_towards_equal_shares() -> None:
    estimate = counted([90, 0, 30, 10, 70, 2])
    apart = [
        float(np.abs(estimate.likeliest("a", "b", prior=prior).values - 1 / 6).sum())
        for prior in (1.0, 2.0, 20.0, 1e6)
    ]
    assert apart == sorted(apart, reverse=True)
    assert apart[-1] < 1e-3
