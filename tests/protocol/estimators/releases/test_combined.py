"""Releases combined: against least squares and covariances by dense matrices, and as repeated."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol import (
    Block,
    CombinedReleases,
    Counts,
    Group,
    JointReports,
    LinearEstimate,
    NoisyTables,
    Release,
    SurveyError,
)
from protocol.estimators.inference.cumulants import CumulantLaw
from protocol.estimators.inference.laws import About
from protocol.estimators.joint import mean_squared_error
from protocol.estimators.releases.release import block_groups
from tests.enumeration import ROWS, Floats, dense_law, keep, matrix, summing, survey_of
from tests.statistical import ALPHA, mean_p_value
from tests.tiers import thinned

SURVEY = survey_of(2, 3, 2)
APART = tuple(Block((name,), keep(size, 0.5)) for name, size in zip("abc", (2, 3, 2), strict=True))
CLUSTERS = (Block(("c", "a"), keep(4, 0.25)), Block(("b",), keep(3, 0.75)))
PAIRS = (("a", "b"), ("a", "c"), ("b", "c"))
TABLES = [names for size in (1, 2, 3) for names in itertools.permutations("abc", size)]
ANSWERS = np.array([5, 0, 2, 9, 1, 1, 14, 3, 0, 2, 7, 4])
N = int(ANSWERS.sum())
ABOUT: tuple[About, About] = ("respondents", "population")


class Design(NamedTuple):
    """What a release does to whole records, dense, and which of its tables are published."""

    groups: tuple[Group, ...]
    law: Floats
    published: tuple[tuple[str, ...], ...]

    def of(self, counts: Counts) -> Release:
        """The release of these reports."""
        tables = {names: counts.table(SURVEY.axes(names)) for names in self.published}
        return Release.of_tables(self.groups, tables)


PILOT = Design(block_groups(APART), dense_law(SURVEY, APART), PAIRS)
FINAL = Design(block_groups(CLUSTERS), dense_law(SURVEY, CLUSTERS), (SURVEY.names,))
EXACT = Design((Group(SURVEY.names, 1.0),), np.eye(SURVEY.cells), PAIRS)


def pair_of(names: tuple[str, str], p: float) -> Design:
    """Two attributes randomized as one, and nothing said of the third."""
    [other] = {*SURVEY.names} - {*names}
    block = Block(names, keep(SURVEY.project(names).cells, p))
    rest = Block((other,), keep(SURVEY.project((other,)).cells, 0.5))
    return Design(block_groups((block,)), dense_law(SURVEY, (block, rest)), (names,))


UNIFORM = np.full(SURVEY.cells, 1 / SURVEY.cells)

Way = tuple[tuple[Design, float], ...]
"""Designs, and which part of the respondents has reported by each."""

WAYS: dict[str, Way] = {
    "pilot and final": ((PILOT, 1), (FINAL, 1)),
    "some have left": ((PILOT, 1), (FINAL, 0.5)),
    "final alone": ((FINAL, 1),),
    "exact and final": ((EXACT, 1), (FINAL, 1)),
    "exact, and some have left": ((EXACT, 1), (FINAL, 0.5)),
    "three": ((FINAL, 1), (PILOT, 1), (PILOT, 1)),
    "each pair": tuple(
        (pair_of(pair, p), 1) for pair, p in zip(PAIRS, (0.5, 0.5, 0.25), strict=True)
    ),
    "each pair, and final": (*((pair_of(pair, 0.5), 1) for pair in PAIRS), (FINAL, 0.5)),
}


def tables_of(way: Way) -> list[tuple[str, ...]]:
    """The tables that can be given: those of all three attributes if one design has them."""
    most = max(len(names) for design, _ in way for names in design.published)
    return [names for names in TABLES if len(names) <= max(most, 2)]


def least_squares(way: Way) -> list[Floats]:
    """By what the shares of each release's whole reports are multiplied, (cells, cells) each.

    Everything is about differences from uniform answers, whose reports are uniform too. Errors are
    those given the answers, and of who is missing, of one respondent, were the answers uniform.
    """
    cells = SURVEY.cells
    centred = np.eye(cells) - 1 / cells
    seen, noise, maps = [], [], []
    for design, part in way:
        takes = np.hstack([summing(SURVEY, names) for names in design.published]).T
        unmixed = takes @ np.linalg.inv(design.law).T
        seen.append(takes @ centred)
        noise.append(unmixed @ centred @ unmixed.T / part - takes @ centred @ takes.T)
        maps.append(unmixed)
    rows = np.vstack(seen)
    ends = np.cumsum([0, *map(len, seen)])
    covariance = 1e-7 * np.eye(len(rows))
    for start, end, block in zip(ends, ends[1:], noise, strict=False):
        covariance[start:end, start:end] += block
    weighted = rows.T @ np.linalg.inv(covariance)
    solved = np.linalg.pinv(weighted @ rows, rcond=1e-10) @ weighted
    return [
        solved[:, start:end] @ unmixed
        for start, end, unmixed in zip(ends, ends[1:], maps, strict=False)
    ]


def combined(way: Way, counts: list[Counts]) -> LinearEstimate[CombinedReleases]:
    releases = [design.of(one) for (design, _), one in zip(way, counts, strict=True)]
    return LinearEstimate(CombinedReleases(SURVEY, tuple(releases)))


def drawn(generator: np.random.Generator, way: Way) -> list[Counts]:
    """Any reports at all, in the numbers of a way."""
    return [
        Counts.from_table(
            generator.multinomial(int(40 * part), generator.dirichlet(UNIFORM)).reshape(
                SURVEY.sizes
            )
        )
        for _, part in way
    ]


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_every_table_is_that_of_least_squares(way: Way) -> None:
    counts = drawn(np.random.default_rng(5), way)
    expected = UNIFORM.copy()
    for map_, one in zip(least_squares(way), counts, strict=True):
        expected += map_ @ (one.table((0, 1, 2)).reshape(-1) / one.n - UNIFORM)
    estimate = combined(way, counts)
    for names in tables_of(way):
        found = estimate.table(*names).values
        assert np.allclose(found.reshape(-1), expected @ summing(SURVEY, names), atol=1e-5), names
        weights = np.arange(found.size, dtype=np.float64).reshape(found.shape) ** 2
        answer = estimate.query(names, weights)
        assert answer.value == pytest.approx(float((found * weights).sum()), abs=1e-12)


def expected_reports(way: Way, scale: int = 384) -> list[Counts]:
    """Reports in exact proportion to the law, of so many respondents with each answer."""
    made = []
    for design, part in way:
        frequencies = ANSWERS @ design.law * scale * part
        assert np.allclose(frequencies, np.rint(frequencies), atol=1e-6)
        table = np.rint(frequencies).astype(np.int64).reshape(SURVEY.sizes)
        made.append(Counts.from_table(table))
    return made


def true_covariance(way: Way, about: About, n: int) -> Floats:
    """The covariance of the whole table's cells, from the dense maps and laws."""
    shares = ANSWERS / N

    def spread(columns: Floats) -> Floats:
        mean = columns @ shares
        found: Floats = (columns * shares) @ columns.T - np.outer(mean, mean)
        return found

    total = np.zeros((SURVEY.cells, SURVEY.cells))
    left = np.zeros((SURVEY.cells, SURVEY.cells))
    for (design, part), map_ in zip(way, least_squares(way), strict=True):
        # Answer by answer: the covariance of what its reports count.
        for share, law in zip(shares, design.law, strict=True):
            mean = map_ @ law
            total += share * ((map_ * law) @ map_.T - np.outer(mean, mean)) / (part * n)
        if part < 1:
            left += map_ @ design.law.T
    total += spread(left) / n
    return total + spread(np.eye(SURVEY.cells)) / n if about == "population" else total


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_errors_are_those_of_the_weights_and_laws(way: Way) -> None:
    counts = expected_reports(way)
    estimate = combined(way, counts)
    truth = ANSWERS / N
    for names in tables_of(way):
        table, takes = estimate.table(*names), summing(SURVEY, names)
        assert np.allclose(table.values.reshape(-1), truth @ takes, atol=1e-12)
        for about in ABOUT:
            errors = table.standard_errors if about == ABOUT[0] else table.population_errors
            assert errors is not None
            covariance = takes.T @ true_covariance(way, about, counts[0].n) @ takes
            assert np.allclose(errors.reshape(-1) ** 2, covariance.diagonal(), rtol=1e-3, atol=1e-9)
            assert np.allclose(table.covariance(about), covariance, rtol=1e-3, atol=1e-9)
        weights = np.random.default_rng(3).normal(size=table.values.shape)
        covariance = takes.T @ true_covariance(way, "respondents", counts[0].n) @ takes
        expected = weights.reshape(-1) @ covariance @ weights.reshape(-1)
        error = estimate.query(names, weights).standard_error
        assert error is not None
        assert error**2 == pytest.approx(expected, rel=1e-3, abs=1e-9)
        assert estimate.query(names, np.ones(weights.shape)).standard_error == 0


@pytest.mark.slow
@pytest.mark.parametrize("way", ["exact and final", "exact, and some have left"])
def test_exact_counts_stand_as_they_are(way: str) -> None:
    exact, final = drawn(np.random.default_rng(8), WAYS[way])
    estimate = combined(WAYS[way], [exact, final])
    for names in TABLES:
        table = estimate.table(*names)
        assert table.standard_errors is not None
        if len(names) < 3:
            assert np.array_equal(table.values, exact.table(SURVEY.axes(names)) / exact.n)
            assert not table.standard_errors.any()
            answer = estimate.query(names, table.values)
            assert answer.standard_error == 0
            for ends, value in (
                (table.interval(), table.values),
                (answer.interval(), answer.value),
            ):
                assert np.array_equal(ends.low, value)
                assert np.array_equal(ends.high, value)
            assert not table.covariance().any()
            # As one from counts, however few there are.
            sampled = CumulantLaw.of_counts(table.values, exact.n, other=0.0, gain=1.0)
            for found, expected in zip(
                table.interval(about="population"),
                sampled.interval(0.95, "population"),
                strict=True,
            ):
                assert np.allclose(found, expected, atol=1e-9)
            inside = np.arange(table.values.size).reshape(table.values.shape) % 2 == 0
            share = np.asarray(table.values[inside].sum())
            sampled = CumulantLaw.of_counts(share, exact.n, other=0.0, gain=1.0)
            ends = estimate.query(names, 3.0 * inside - 1).interval(about="population")
            assert np.allclose(ends, 3 * np.array(sampled.interval(0.95, "population")) - 1)
        else:
            assert (table.standard_errors > 0).any()
            for pair in PAIRS:
                outside = tuple(axis for axis, name in enumerate(names) if name not in pair)
                shown = tuple(name for name in names if name in pair)
                assert np.allclose(
                    table.values.sum(axis=outside),
                    exact.table(SURVEY.axes(shown)) / exact.n,
                    atol=1e-12,
                )


@pytest.mark.slow
@settings(deadline=None, max_examples=20)
@given(st.integers(0, 1000), st.sampled_from(sorted(WAYS)))
def test_tables_agree_on_what_they_have_in_common(seed: int, way: str) -> None:
    estimate = combined(WAYS[way], drawn(np.random.default_rng(seed), WAYS[way]))
    for names in tables_of(WAYS[way]):
        table = estimate.table(*names).values
        assert table.sum() == pytest.approx(1, abs=1e-12)
        for axis, name in enumerate(names):
            others = tuple(other for other in range(len(names)) if other != axis)
            assert np.allclose(estimate.table(name).values, table.sum(axis=others), atol=1e-12)


@pytest.mark.parametrize("names", TABLES)
def test_one_release_is_estimated_as_by_itself(names: tuple[str, ...]) -> None:
    [counts] = drawn(np.random.default_rng(2), WAYS["final alone"])
    alone = LinearEstimate(JointReports(SURVEY, CLUSTERS, counts))
    estimate = LinearEstimate(
        CombinedReleases(SURVEY, (Release.of_reports(alone.source),), alone.source)
    )
    one, other = estimate.table(*names), alone.table(*names)
    assert np.allclose(one.values, other.values, atol=1e-13)
    for found, expected in (
        (one.standard_errors, other.standard_errors),
        (one.population_errors, other.population_errors),
    ):
        assert found is not None
        assert expected is not None
        both = ~np.isnan(found) & ~np.isnan(expected)
        assert np.allclose(found[both], expected[both], atol=1e-13)
    weights = np.random.default_rng(3).normal(size=one.values.shape)
    assert estimate.query(names, weights).value == pytest.approx(
        alone.query(names, weights).value, abs=1e-12
    )
    for about in ABOUT:
        ends = zip(one.interval(about=about), other.interval(about=about), strict=True)
        for found, expected in ends:
            assert np.allclose(found, expected, atol=1e-9, equal_nan=True)
        assert np.allclose(one.covariance(about), other.covariance(about), atol=1e-12)
    assert repr(estimate) == "<LinearEstimate from <CombinedReleases: n=40, 1 releases>>"


@pytest.mark.parametrize("about", ABOUT)
@pytest.mark.parametrize("names", [("a",), ("b", "a"), ("a", "b", "c")])
def test_a_query_of_one_release_has_the_interval_it_has_by_itself(
    names: tuple[str, ...], about: About
) -> None:
    """Both go by three cumulants, of the answers as estimated and of the reports as they are."""
    [counts] = expected_reports(WAYS["final alone"])
    alone = LinearEstimate(JointReports(SURVEY, CLUSTERS, counts))
    estimate = LinearEstimate(
        CombinedReleases(SURVEY, (Release.of_reports(alone.source),), alone.source)
    )
    weights = np.random.default_rng(7).normal(size=estimate.survey.sizes_of(names))
    found = estimate.query(names, weights).interval(0.95, about)
    expected = alone.query(names, weights).interval(0.95, about)
    width = float(expected.high - expected.low)
    assert np.allclose(found, expected, atol=0.002 * width)


@pytest.mark.parametrize("way", ["pilot and final", "some have left", "exact and final"])
def test_intervals_are_as_wide_as_the_errors_say(way: str) -> None:
    """With many reports, far from the ends of the range."""
    estimate = combined(WAYS[way], expected_reports(WAYS[way]))
    weights = np.random.default_rng(9).normal(size=(2, 3, 2))
    answer, table = estimate.query(("a", "b", "c"), weights), estimate.table("a", "b", "c")
    assert answer.standard_error is not None
    low, high = answer.interval()
    assert high - low == pytest.approx(2 * 1.96 * answer.standard_error, rel=0.01)
    assert table.standard_errors is not None
    assert table.population_errors is not None
    place = np.unravel_index(np.argmax(ANSWERS), SURVEY.sizes)
    for about, errors in (
        (ABOUT[0], table.standard_errors),
        (ABOUT[1], table.population_errors),
    ):
        ends = table.interval(about=about)
        assert ends.high[place] - ends.low[place] == pytest.approx(
            2 * 1.96 * errors[place], rel=0.01
        )


def third_cumulants(way: Way, weights: Floats, n: int) -> dict[About, float]:
    """Of the mean of a weight, from the dense maps and laws; all releases have n reports."""
    shares = ANSWERS / N
    given, varied = 0.0, np.zeros(SURVEY.cells)
    for (design, _), map_ in zip(way, least_squares(way), strict=True):
        scores = weights @ map_
        centred = scores - (design.law @ scores)[:, np.newaxis]
        given += float(shares @ (design.law * centred**3).sum(axis=1))
        varied += (design.law * centred**2).sum(axis=1)
    answers = weights - shares @ weights
    sampled = float(shares @ (3 * varied * answers + answers**3))
    return {"respondents": given / n**2, "population": (given + sampled) / n**2}


@pytest.mark.slow
@pytest.mark.parametrize("way", ["pilot and final", "final alone", "exact and final"])
def test_third_cumulants_are_those_of_the_weights_and_laws(way: str) -> None:
    counts = expected_reports(WAYS[way])
    estimate, n = combined(WAYS[way], counts), counts[0].n
    for names in TABLES:
        found = estimate.source.combination(names)
        takes, law = summing(SURVEY, names), found.law()
        weights = np.random.default_rng(3).normal(size=found.values.shape)
        ofs = found.sum_law(weights)
        expected = third_cumulants(WAYS[way], takes @ weights.reshape(-1), n)
        scale = float(np.abs(weights).max()) ** 3 / n**2
        for about in ABOUT:
            _, third = ofs.cumulants[about].at(np.asarray(ofs.values))
            assert float(third) == pytest.approx(expected[about], rel=1e-3, abs=1e-4 * scale)
            _, thirds = law.cumulants[about].at(found.values)
            for cell, value in enumerate(thirds.reshape(-1)):
                each = third_cumulants(WAYS[way], takes[:, cell], n)[about]
                assert value == pytest.approx(each, rel=1e-3, abs=1e-4 / n**2)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_the_law_has_the_variance_of_the_errors_at_the_estimate(way: Way) -> None:
    estimate = combined(way, expected_reports(way))
    for names in tables_of(way):
        table, found = estimate.table(*names), estimate.source.combination(names)
        for about, errors in (
            (ABOUT[0], table.standard_errors),
            (ABOUT[1], table.population_errors),
        ):
            assert errors is not None
            variance, _ = found.law().cumulants[about].at(table.values)
            assert np.allclose(variance, errors**2, rtol=1e-9, atol=1e-15)


def test_a_marginal_of_pairs_that_are_kept_alike_is_the_mean_of_theirs() -> None:
    generator = np.random.default_rng(4)
    way = tuple((pair_of(pair, 0.5), 1.0) for pair in PAIRS)
    counts = drawn(generator, way)
    parts = []
    for pair, one in zip(PAIRS, counts, strict=True):
        if "a" in pair:
            reported = one.table(SURVEY.axes(pair)).sum(axis=1) / one.n
            parts.append((reported - 0.25) / 0.5)
    found = combined(way, counts).table("a").values
    assert np.allclose(found, np.mean(parts, axis=0), atol=1e-12)


def test_no_release_alone_has_a_smaller_error_by_design() -> None:
    """Per cell, as the mean over all answers: the closed form of each release is never below."""
    n = 1000
    for p in (0.1, 0.3, 0.5, 0.7, 0.9):
        singles = tuple(Block((name,), keep(SURVEY.sizes[i], p)) for i, name in enumerate("abc"))
        cluster = (Block(("a", "c"), keep(4, p * 0.9)), Block(("b",), keep(3, p)))
        reports = Counts.from_table(np.full(SURVEY.sizes, n, np.int64))
        releases = tuple(
            Release.of_reports(JointReports(SURVEY, blocks, reports))
            for blocks in (singles, cluster)
        )
        for names in (("a",), ("a", "b"), ("a", "c"), ("a", "b", "c")):
            # Of uniform answers all cells have the same variance, which is that of the design.
            errors = [
                LinearEstimate(CombinedReleases(SURVEY, used)).table(*names).standard_errors
                for used in (releases, releases[:1], releases[1:])
            ]
            both, first, second = (float(np.asarray(e).reshape(-1)[0]) ** 2 for e in errors)
            assert both < min(first, second)
            assert first == pytest.approx(
                mean_squared_error(
                    [keep(SURVEY.project((name,)).cells, p) for name in names], reports.n
                ),
                rel=1e-9,
            )


def test_what_cannot_be_combined_is_refused() -> None:
    counts = drawn(np.random.default_rng(1), WAYS["each pair"])
    estimate = combined(WAYS["each pair"], counts)
    with pytest.raises(ValueError, match="no release has a, b, c together"):
        estimate.table("a", "b", "c")
    with pytest.raises(ValueError, match="at least one attribute"):
        estimate.table()
    for bad in (("a", "a"), ("z",)):
        with pytest.raises(SurveyError):
            estimate.table(*bad)
    with pytest.raises(ValueError, match="at least one release"):
        LinearEstimate(CombinedReleases(SURVEY, ()))
    of_one = Release(block_groups(APART), {("a",): Counts.from_table(np.array([1, 2]))})
    of_two = Release(block_groups(APART), {("b",): Counts.from_table(np.array([1, 2, 1]))})
    with pytest.raises(ValueError, match="more than two numbers"):
        LinearEstimate(CombinedReleases(SURVEY, (of_one, of_two, *estimate.source.releases)))
    with pytest.raises(ValueError, match=r"no release has c$"):
        LinearEstimate(CombinedReleases(SURVEY, (of_one, of_two))).table("c")
    with pytest.raises(ValueError, match="no release has a, b together"):
        LinearEstimate(CombinedReleases(SURVEY, (of_one, of_two))).table("a", "b")


def test_a_release_is_of_one_total_and_keeps_or_draws_uniformly() -> None:
    with pytest.raises(ValueError, match="at least one table"):
        Release(block_groups(APART), {})
    with pytest.raises(ValueError, match="each of attributes that are in a group"):
        Release(block_groups(APART[:1]), {("b",): Counts.from_table(np.array([1, 2, 1]))})
    with pytest.raises(ValueError, match="one total"):
        Release.of_tables(block_groups(APART), {("a",): np.array([1, 2]), ("c",): np.array([1, 1])})
    with pytest.raises(ValueError, match="keeps or draws uniformly"):
        block_groups((Block(("b",), matrix(ROWS)),))


# Counts with coins

TRIALS, RARE = 30, 2**13
NOISE = TRIALS * RARE / 2**16 * (1 - RARE / 2**16)


def with_coins(
    generator: np.random.Generator, trials: int = TRIALS
) -> tuple[NoisyTables, CombinedReleases]:
    """Counts of the pairs with coins, and them combined with reports by clusters."""
    whole = ANSWERS.reshape(SURVEY.sizes)
    counts = {
        names: whole.sum(axis=rest) + generator.binomial(trials, RARE / 2**16, shape)
        for names, rest, shape in zip(PAIRS, (2, 1, 0), ((2, 3), (2, 2), (3, 2)), strict=True)
    }
    noisy = NoisyTables(SURVEY, counts, N, trials, RARE if trials else 0)
    reports = sum(generator.multinomial(n, row) for n, row in zip(ANSWERS, FINAL.law, strict=True))
    final = JointReports(SURVEY, CLUSTERS, Counts.from_table(np.reshape(reports, SURVEY.sizes)))
    return noisy, CombinedReleases(SURVEY, (noisy, Release.of_reports(final)), final)


@pytest.mark.parametrize("names", PAIRS)
def test_counts_with_coins_alone_are_what_they_are_by_themselves(names: tuple[str, str]) -> None:
    noisy, _ = with_coins(np.random.default_rng(3))
    alone, own = LinearEstimate(CombinedReleases(SURVEY, (noisy,))), LinearEstimate(noisy)
    weights = np.arange(float(np.prod(SURVEY.sizes_of(names)))).reshape(SURVEY.sizes_of(names))
    for about in ABOUT:
        table, expected = (one.table(*names) for one in (alone, own))
        np.testing.assert_allclose(table.values, expected.values, atol=1e-14)
        np.testing.assert_allclose(table.covariance(about), expected.covariance(about), atol=1e-16)
        np.testing.assert_allclose(table.standard_errors, expected.standard_errors)
        np.testing.assert_allclose(
            table.interval(0.95, about), expected.interval(0.95, about), atol=1e-3
        )
        found, by_itself = (one.query(names, weights) for one in (alone, own))
        assert found.value == pytest.approx(by_itself.value)
        assert found.standard_error == pytest.approx(by_itself.standard_error)


def test_counts_without_coins_are_the_exact_ones() -> None:
    noisy, found = with_coins(np.random.default_rng(3), trials=0)
    tables = dict(noisy.counts)
    exact = Release.of_tables((Group(SURVEY.names, 1.0),), tables)
    assert found.final is not None
    expected = CombinedReleases(SURVEY, (exact, Release.of_reports(found.final)), found.final)
    for names in TABLES:
        one, other = (LinearEstimate(source).table(*names) for source in (found, expected))
        np.testing.assert_allclose(one.values, other.values, atol=1e-15)
        np.testing.assert_allclose(one.standard_errors, other.standard_errors, atol=1e-15)


@pytest.mark.parametrize(
    "names", thinned([(("a", "c"),), (("a",),), (("b", "c"),), (("c", "b", "a"),)], 2)
)
def test_coins_and_reports_together_are_least_squares_and_their_errors_are_known(
    names: tuple[str, ...],
) -> None:
    """Against the errors of many draws, with those of either release alone beside them."""
    generator = np.random.default_rng(8)
    draws = [with_coins(generator) for _ in range(600)]
    order = [SURVEY.names.index(name) for name in names]
    rest = tuple(axis for axis in range(3) if axis not in order)
    true = ANSWERS.reshape(SURVEY.sizes).sum(axis=rest)
    true = true.transpose(np.argsort(np.argsort(order))) / N
    combinations = [each.combination(names) for _, each in draws]
    both = np.array([one.values for one in combinations]) - true
    # What is stated hardly depends on the draw.
    cells = [each.cells(names) for _, each in draws[:60]]
    assert all(
        np.array_equal(one.values, two.values)
        for one, two in zip(cells, combinations, strict=False)
    )
    for errors in both.reshape(len(draws), -1).T:
        assert mean_p_value(errors, 0.0) > ALPHA
    squares = (both**2).mean()
    expected = np.nanmean(np.array([one.standard_errors for one in cells]) ** 2)
    assert squares == pytest.approx(expected, rel=0.1)
    covariance = np.mean([one.covariance("respondents") for one in combinations[:60]], axis=0)
    spread = np.cov(both.reshape(len(draws), -1), rowvar=False)
    np.testing.assert_allclose(spread, covariance, atol=0.2 * covariance.max())
    finals = [each.final for _, each in draws]
    reports = np.array([one.cells(names).values for one in finals if one is not None]) - true
    assert squares < (reports**2).mean()
    if len(names) < 3:
        counts = np.array([noisy.cells(names).values for noisy, _ in draws]) - true
        assert squares < (counts**2).mean()
