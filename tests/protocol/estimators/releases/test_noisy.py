"""Tables whose counts carry coins: the fit by dense least squares, its errors by many draws."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations
from typing import Any, Literal, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from protocol import (
    Cells,
    Estimate,
    ExactTables,
    LinearEstimate,
    NoisyTables,
    Survey,
    SurveyError,
    Table,
    debiased_dependences,
)
from protocol.estimators.dependence.dependence import cramers_v, pearson
from protocol.estimators.dependence.glance import dependence_excess
from protocol.estimators.dependence.strength import cramers_law, pearsons_law
from protocol.estimators.inference.laws import SIDES, About
from protocol.randomizers import coins
from protocol.randomizers.exact import Floats
from tests.enumeration import survey_of
from tests.tiers import slow

Names: TypeAlias = tuple[str, ...]
Of: TypeAlias = Literal["margins", "pairs"]


SMALL = survey_of(2, 3, 4, 2)
TOWN = survey_of(3, 4, 2, 4)
ADULT = survey_of(9, 16, 7, 15, 6, 5, 2, 2)

SETS: list[list[Names]] = [
    [("a",), ("b",)],
    [("a", "b"), ("c", "b"), ("c", "a")],
    [("d", "b", "a"), ("c", "a"), ("b", "a", "c"), ("d",)],
    [("c", "d"), ("a",)],
]


def tables_of(survey: Survey, of: Of) -> list[Names]:
    return list(combinations(survey.names, 1 if of == "margins" else 2))


def law_of(survey: Survey, linked: float) -> Floats:
    """The shares of all combinations of the first four attributes: each leans on the one before."""
    sizes = survey.sizes[:4]
    law = np.ones(())
    for place, size in enumerate(sizes):
        own = 0.65 ** np.arange(size)
        own = own / own.sum()
        if not place:
            law = own
            continue
        follows = np.equal.outer(np.arange(sizes[place - 1]) % size, np.arange(size))
        law = law[..., None] * ((1 - linked) * own + linked * follows)
    return law


class Drawn:
    """Respondents of a population, their counts, and raw counts with coins."""

    def __init__(self, survey: Survey, tables: Sequence[Names], *, linked: float = 0.2) -> None:
        self.survey, self.tables, self.linked = survey, tables, linked

    def codes(self, rng: np.random.Generator, n: int) -> NDArray[np.intp]:
        law = law_of(self.survey, self.linked)
        flat = rng.choice(law.size, n, p=law.reshape(-1))
        known = np.unravel_index(flat, law.shape)
        # Further attributes lean on the fourth one.
        more = []
        for size in self.survey.sizes[4:]:
            own = 0.7 ** np.arange(size)
            alone = rng.choice(size, n, p=own / own.sum())
            more.append(np.where(rng.random(n) < self.linked, known[3] % size, alone))
        return np.stack([*known, *more], axis=1)

    def counted(self, codes: NDArray[np.intp]) -> dict[Names, NDArray[np.int64]]:
        found = {}
        for names in self.tables:
            shape = self.survey.sizes_of(names)
            cells = np.ravel_multi_index(tuple(codes[:, a] for a in self.survey.axes(names)), shape)
            found[names] = np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape)
        return found

    def noisy(
        self,
        rng: np.random.Generator,
        counts: dict[Names, NDArray[np.int64]],
        *,
        trials: int,
        chance: int,
    ) -> LinearEstimate[NoisyTables]:
        raw = {
            names: table + rng.binomial(trials, chance / coins.SIDES, table.shape)
            for names, table in counts.items()
        }
        n = int(next(iter(counts.values())).sum())
        return LinearEstimate(NoisyTables(self.survey, raw, n, trials, chance))


def errors_of(table: Table) -> Floats:
    assert table.standard_errors is not None
    return table.standard_errors


# The fit


@cache
def dense(number: int) -> tuple[Floats, Floats, list[Names]]:
    """Of one of ``SETS``: raw cells by the cells of all attributes, and the projection of errors.

    The projection is onto tables that agree and have a total of 0.
    """
    tables = SETS[number]
    cells = list(np.ndindex(*SMALL.sizes))
    columns = []
    for cell in cells:
        marks = []
        for names in tables:
            mark = np.zeros(SMALL.sizes_of(names))
            mark[tuple(cell[axis] for axis in SMALL.axes(names))] = 1
            marks.append(mark.ravel())
        columns.append(np.concatenate(marks))
    design = np.stack(columns, axis=1)
    centred = design - design.mean(axis=1, keepdims=True)
    left, scales, _ = np.linalg.svd(centred, full_matrices=False)
    basis = left[:, scales > 1e-9]
    return design, basis @ basis.T, tables


def summing(number: int, names: Names) -> Floats:
    """A table's cells as sums of the raw cells of the first table that holds it."""
    _, _, tables = dense(number)
    shape = SMALL.sizes_of(names)
    rows: list[Floats] = []
    done = False
    for known in tables:
        own = np.zeros((int(np.prod(shape)), *SMALL.sizes_of(known)))
        if not done and set(names) <= set(known):
            done = True
            for cell in np.ndindex(*SMALL.sizes_of(known)):
                place = tuple(cell[known.index(name)] for name in names)
                own[(np.ravel_multi_index(place, shape), *cell)] = 1
        rows.append(own.reshape(len(own), -1))
    return np.concatenate(rows, axis=1)


def asked(number: int) -> Iterator[Names]:
    for known in SETS[number]:
        for size in range(1, len(known) + 1):
            yield from combinations(known, size)
        yield known[::-1]


N, TRIALS, CHANCE = 400, 300, 9_000


def small(number: int, seed: int = 0) -> tuple[LinearEstimate[NoisyTables], Floats]:
    """An estimate, and its raw counts less the coins' mean, side by side."""
    rng = np.random.default_rng(seed)
    drawn = Drawn(SMALL, SETS[number])
    estimate = drawn.noisy(rng, drawn.counted(drawn.codes(rng, N)), trials=TRIALS, chance=CHANCE)
    raw = np.concatenate([table.ravel() for table in estimate.source.counts.values()])
    return estimate, raw - TRIALS * CHANCE / coins.SIDES


@pytest.mark.parametrize("number", range(len(SETS)))
def test_tables_are_the_nearest_that_agree_and_have_the_known_total(number: int) -> None:
    design, projection, _ = dense(number)
    estimate, raw = small(number)
    even = N * design.mean(axis=1)
    nearest = even + projection @ (raw - even)
    for names in asked(number):
        expected = summing(number, names) @ nearest / N
        found = estimate.table(*names)
        assert found.values.ravel() == pytest.approx(expected, abs=1e-12)
        assert found.n == estimate.n == N


@pytest.mark.parametrize("number", range(len(SETS)))
def test_errors_are_those_of_independent_coins_in_every_raw_cell(number: int) -> None:
    _, projection, _ = dense(number)
    estimate, _ = small(number)
    chance = CHANCE / coins.SIDES
    variance = TRIALS * chance * (1 - chance)
    third = variance * (1 - 2 * chance)
    for names in asked(number):
        counted = summing(number, names) @ projection
        table = estimate.table(*names)
        covariance = variance * counted @ counted.T / N**2
        assert table.covariance() == pytest.approx(covariance, abs=1e-15)
        assert errors_of(table).ravel() ** 2 == pytest.approx(np.diag(covariance), abs=1e-15)
        law = estimate.source._law(names, table.values).cumulants["respondents"]
        none = np.zeros(table.values.shape)
        for part, expected in zip(
            law.at(none),
            (np.diag(covariance), third * (counted**3).sum(axis=1) / N**3),
            strict=True,
        ):
            assert part.ravel() == pytest.approx(expected, rel=1e-9)
        if table.values.size < 3:
            continue
        # A set, and weights that take many values.
        for weights in (np.arange(none.size) % 2, np.arange(none.size) ** 1.5):
            mean = estimate.query(names, weights.reshape(none.shape))
            assert mean.value == pytest.approx(float(table.values.ravel() @ weights), abs=1e-12)
            assert mean.standard_error == pytest.approx(
                float(weights @ covariance @ weights) ** 0.5, rel=1e-9
            )
            noise = estimate.source._noise_of_mean(names, weights.reshape(none.shape))
            assert noise.third[0] == pytest.approx(
                third * float(((weights @ counted) ** 3).sum()) / N**3, rel=1e-9, abs=1e-18
            )


def test_a_population_adds_the_sampling_of_respondents() -> None:
    estimate, _ = small(1)
    table = estimate.table("a", "b")
    shares = table.values.ravel()
    sampled = (np.diag(shares) - np.outer(shares, shares)) / N
    both = table.covariance("population")
    assert both - table.covariance() == pytest.approx(sampled, abs=1e-15)
    assert table.population_errors is not None
    assert table.population_errors.ravel() ** 2 == pytest.approx(np.diag(both), rel=1e-9)


@pytest.mark.parametrize("about", SIDES)
def test_a_set_has_the_interval_of_the_margin_that_it_is(about: About) -> None:
    estimate, _ = small(1)
    low, high = estimate.table("a").interval(about=about)
    inside = np.zeros((3, 2))
    inside[:, 0] = 1
    for weights, ends in ((inside, (low[0], high[0])), (5 - inside, (5 - high[0], 5 - low[0]))):
        assert estimate.query(("b", "a"), weights).interval(about=about) == pytest.approx(ends)
    assert high[0] - low[0] > 0.02


def test_no_table_depends_on_the_order_of_others() -> None:
    estimate, _ = small(2)
    source = estimate.source
    turned = {names: source.counts[names] for names in reversed(SETS[2])}
    other = LinearEstimate(NoisyTables(SMALL, turned, N, TRIALS, CHANCE))
    for names in asked(2):
        one, two = estimate.table(*names), other.table(*names)
        assert one.values == pytest.approx(two.values, abs=1e-12)
        assert errors_of(one) == pytest.approx(errors_of(two), rel=1e-12)


# Errors by many draws


@pytest.mark.parametrize(
    ("survey", "n", "of", "ratio"),
    [
        # The roots of the free numbers of consistent tables for each of their cells.
        (TOWN, 20_000, "margins", (9 / 13) ** 0.5),
        (TOWN, 20_000, "pairs", (38 / 62) ** 0.5),
        (ADULT, 32_561, "margins", (54 / 62) ** 0.5),
        slow(ADULT, 32_561, "pairs", (1230 / 1582) ** 0.5),
    ],
)
def test_shares_are_off_by_as_much_as_is_said(survey: Survey, n: int, of: Of, ratio: float) -> None:
    rng = np.random.default_rng(1)
    tables = tables_of(survey, of)
    drawn = Drawn(survey, tables)
    counts = drawn.counted(drawn.codes(rng, n))
    trials, chance = n, 2_850
    share = chance / coins.SIDES
    raw = (trials * share * (1 - share)) ** 0.5 / n
    squares, said = [], 0.0
    for _ in range(100):
        estimate = drawn.noisy(rng, counts, trials=trials, chance=chance)
        cells = [estimate.cells(names) for names in tables]
        squares += [
            ((cell.values - counts[names] / n) ** 2).ravel()
            for names, cell in zip(tables, cells, strict=True)
        ]
        said = float(np.mean(np.concatenate([np.ravel(c.standard_errors) for c in cells]) ** 2))
    found = float(np.mean(np.concatenate(squares))) ** 0.5
    assert said**0.5 / raw == pytest.approx(ratio, rel=1e-9)
    assert found == pytest.approx(said**0.5, rel=0.05)


def covered(
    survey: Survey, of: Of, *, n: int, trials: int, chance: int, runs: int
) -> dict[About, float]:
    """The part of 95 % intervals of cells with five expected that hold the truth."""
    rng = np.random.default_rng(3)
    drawn = Drawn(survey, tables_of(survey, of))
    # A population so large that its shares are as good as those that it is drawn by.
    people = 2_000_000
    whole = drawn.counted(drawn.codes(rng, people))
    held: dict[About, list[NDArray[np.bool_]]] = {about: [] for about in SIDES}
    for _ in range(runs):
        counts = drawn.counted(drawn.codes(rng, n))
        estimate = drawn.noisy(rng, counts, trials=trials, chance=chance)
        for names in drawn.tables:
            expected, table = whole[names] / people, estimate.table(*names)
            for about, truth in zip(SIDES, (counts[names] / n, expected), strict=True):
                low, high = table.interval(about=about)
                held[about].append(((low <= truth) & (truth <= high))[expected * n >= 5])
    return {about: float(np.concatenate(found).mean()) for about, found in held.items()}


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    found = covered(TOWN, "pairs", n=5_000, trials=5_000, chance=8_000, runs=30)
    assert all(0.94 <= part <= 0.965 for part in found.values()), found


def test_intervals_from_few_coins_hold_the_truth_too() -> None:
    """Of one attribute, over all numbers of coins: each cell is off by its own and by the total."""
    counts = np.array([3, 30, 0])
    survey, trials, chance = survey_of(3), 4, 20_000
    law = stats.binom.pmf(np.arange(trials + 1), trials, chance / coins.SIDES)
    held = np.zeros(3)
    for heads in np.ndindex(*[trials + 1] * 3):
        source = NoisyTables(survey, {("a",): counts + heads}, 33, trials, chance)
        low, high = LinearEstimate(source).table("a").interval()
        held += np.prod(law[list(heads)]) * ((low <= counts / 33) & (counts / 33 <= high))
    assert (held >= 0.945).all()
    assert (held <= 0.995).all()


def test_the_mean_of_a_weight_is_off_by_as_much_as_is_said() -> None:
    rng = np.random.default_rng(5)
    drawn = Drawn(TOWN, tables_of(TOWN, "pairs"))
    law = law_of(TOWN, drawn.linked)
    weights = np.arange(12.0).reshape(3, 4) ** 1.2
    expected = float((law.sum(axis=(2, 3)) * weights).sum())
    held = dict.fromkeys(SIDES, 0)
    for _ in range(80):
        counts = drawn.counted(drawn.codes(rng, 1_000))
        truths = {"respondents": float((counts["a", "b"] * weights).sum()) / 1_000}
        truths["population"] = expected
        estimate = drawn.noisy(rng, counts, trials=1_000, chance=32_768)
        mean = estimate.query(("a", "b"), weights)
        for about in SIDES:
            low, high = mean.interval(about=about)
            held[about] += int(low <= truths[about] <= high)
    assert all(0.89 <= count / 80 < 1 for count in held.values())


# Dependence


class TablesAlone(Estimate):
    """A result that has tables with covariances, and says nothing else of its noise."""

    def __init__(self, estimate: LinearEstimate[NoisyTables]) -> None:
        self.survey, self.own = estimate.survey, estimate

    @property
    def n(self) -> int:
        return self.own.n

    def cells(self, names: Names) -> Cells:
        return self.own.cells(names)


def test_the_noise_of_a_dependence_is_that_of_the_table() -> None:
    rng = np.random.default_rng(6)
    drawn = Drawn(TOWN, tables_of(TOWN, "pairs"))
    counts = drawn.counted(drawn.codes(rng, 4_000))
    estimate = drawn.noisy(rng, counts, trials=4_000, chance=20_000)
    for pair in (("a", "b"), ("b", "c"), ("d", "a")):
        one, other = (
            dependence_excess(estimate, *pair),
            dependence_excess(TablesAlone(estimate), *pair),
        )
        assert one.values == pytest.approx(other.values, abs=1e-12)
        assert one.errors == pytest.approx(other.errors, rel=0.01)
        assert one.law.estimate == pytest.approx(other.law.estimate, rel=1e-6)
        assert one.law.noise == pytest.approx(other.law.noise, rel=1e-6)
        assert one.law.seen == pytest.approx(other.law.seen, rel=1e-6)
        # Theirs is under independence.
        assert one.law.trace_2 == pytest.approx(other.law.trace_2, rel=0.3)


def dependent(
    linked: float, *, n: int, trials: int, chance: int, runs: int
) -> dict[tuple[str, str], dict[str, Floats]]:
    """Of every pair of the town: p-values, true squares of V, and both estimates of them."""
    rng = np.random.default_rng(7)
    drawn = Drawn(TOWN, tables_of(TOWN, "pairs"), linked=linked)
    found: dict[Any, dict[str, list[float]]] = {}
    for _ in range(runs):
        counts = drawn.counted(drawn.codes(rng, n))
        estimate = drawn.noisy(rng, counts, trials=trials, chance=chance)
        for pair in combinations(TOWN.names, 2):
            reports = estimate.pair_reports(*pair)
            assert reports is not None
            law = cramers_law(reports, "respondents")
            correlated = pearsons_law(reports, "respondents")
            truth = cramers_v(counts[pair])
            each = found.setdefault(pair, {})
            for name, value in (
                ("p", estimate.independence(*pair).p_value),
                ("truth", truth**2),
                ("debiased", law.estimate / law.scale),
                ("spread", law.spread / law.scale),
                ("correlation", pearson(counts[pair]) ** 2),
                ("correlated", correlated.estimate),
                ("naive", cramers_v(np.maximum(estimate.table(*pair).values, 0)) ** 2),
            ):
                each.setdefault(name, []).append(float(value))
    return {pair: {k: np.array(v) for k, v in each.items()} for pair, each in found.items()}


def z_of(values: Floats) -> float:
    return float(values.mean() / (values.std() / len(values) ** 0.5))


def check_independent(runs: int, *, n: int, chance: int) -> None:
    found = dependent(0.0, n=n, trials=n, chance=chance, runs=runs)
    p_values = np.concatenate([each["p"] for each in found.values()])
    # Pairs share margins, but not what tells of their dependence.
    for level in (0.05, 0.2):
        rejected = float((p_values <= level).mean())
        assert abs(rejected - level) < 4 * (level * (1 - level) / len(p_values)) ** 0.5
    for each in found.values():
        assert abs(z_of(each["debiased"] - each["truth"])) < 4
        assert abs(z_of(each["correlated"] - each["correlation"])) < 4
        assert z_of(each["naive"] - each["truth"]) > 4


def test_independent_attributes_are_taken_for_that_whatever_the_noise_is() -> None:
    check_independent(60, n=2_000, chance=16_000)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "chance"), [(2_000, 16_000), (500, 30_000), (20_000, 2_850)])
def test_the_test_has_its_level_and_the_square_of_v_no_bias(n: int, chance: int) -> None:
    check_independent(400, n=n, chance=chance)


def test_a_dependence_is_found_as_strong_as_it_is() -> None:
    found = dependent(0.3, n=5_000, trials=5_000, chance=8_000, runs=40)
    linked = found["a", "b"]
    errors = linked["debiased"] - linked["truth"]
    assert float(errors.std() / linked["spread"].mean()) == pytest.approx(1, abs=0.3)
    assert (linked["p"] < 1e-6).all()
    assert abs(z_of(linked["debiased"] - linked["truth"])) < 4


def test_dependences_are_without_what_the_coins_add() -> None:
    rng = np.random.default_rng(11)
    drawn = Drawn(TOWN, tables_of(TOWN, "pairs"), linked=0.3)
    counts = drawn.counted(drawn.codes(rng, 5_000))
    estimate = drawn.noisy(rng, counts, trials=5_000, chance=8_000)
    found = debiased_dependences(estimate, measure="cramers-v", epsilon=1.0)
    assert found.epsilon == 1.0
    assert debiased_dependences(estimate, measure="cramers-v").epsilon == np.inf
    low, high = found.interval()
    for i, j in combinations(range(4), 2):
        truth = cramers_v(counts[TOWN.names[i], TOWN.names[j]])
        assert low[i, j] <= truth <= high[i, j]
        assert abs(found.matrix[i, j] - truth) < 4 * found.deviations[i, j]
    # Neighbours lean on each other.
    p_values = found.p_values()
    assert max(p_values[0, 1], p_values[1, 2], p_values[2, 3]) < 1e-3 < p_values[0, 3]


# Without noise, and what is refused


def test_tables_without_coins_are_exact() -> None:
    rng = np.random.default_rng(8)
    drawn = Drawn(SMALL, SETS[1])
    counts = drawn.counted(drawn.codes(rng, N))
    exact = LinearEstimate(ExactTables(SMALL, counts))
    none = LinearEstimate(NoisyTables(SMALL, counts, N))
    # A coin that hardly ever counts.
    hardly = LinearEstimate(NoisyTables(SMALL, counts, N, 1, 1))
    for names in (("a", "b"), ("c",)):
        table, other = exact.table(*names), none.table(*names)
        assert table.exact
        assert other.exact
        for about in SIDES:
            assert np.array_equal(table.interval(about=about), other.interval(about=about))
        assert not hardly.table(*names).exact
        assert hardly.table(*names).values == pytest.approx(table.values, abs=1e-6)
    assert exact.independence("a", "b").statistic == none.independence("a", "b").statistic
    test = hardly.independence("a", "b")
    assert test.test == "wald"
    assert test.statistic == pytest.approx(exact.independence("a", "b").statistic, rel=1e-3)
    assert repr(none.source) == f"<NoisyTables: n={N}, 3 tables>"
    assert repr(hardly.source) == f"<NoisyTables: n={N}, 3 tables, coins: 1 of 1/65536>"


def test_estimates_are_not_clipped_and_projections_come_on_top() -> None:
    rng = np.random.default_rng(9)
    drawn = Drawn(TOWN, tables_of(TOWN, "pairs"))
    counts = drawn.counted(drawn.codes(rng, 300))
    errors: dict[str, list[float]] = {}
    least: dict[str, float] = {}
    for _ in range(10):
        estimate = drawn.noisy(rng, counts, trials=1_200, chance=coins.SIDES // 2)
        for projection in ("none", "simplex", "em"):
            table = estimate.table("a", "b", projection=projection)
            assert table.values.sum() == pytest.approx(1)
            least[projection] = min(least.get(projection, 0.0), float(table.values.min()))
            off = float(((table.values - counts["a", "b"] / 300) ** 2).sum())
            errors.setdefault(projection, []).append(off)
    assert least["none"] < least["simplex"] == least["em"] == 0
    raw, simplex, likeliest = (np.mean(found) for found in errors.values())
    assert simplex < raw
    # It takes coins for fakes of many numbers, and is as good all the same.
    assert likeliest < 1.1 * simplex


def test_em_of_much_data_ends_at_the_truth() -> None:
    rng = np.random.default_rng(10)
    drawn = Drawn(TOWN, tables_of(TOWN, "pairs"))
    counts = drawn.counted(drawn.codes(rng, 400_000))
    estimate = drawn.noisy(rng, counts, trials=400_000, chance=coins.SIDES // 2)
    for names in (("a", "b"), ("d",)):
        table = estimate.table(*names, projection="em")
        assert table.values == pytest.approx(estimate.table(*names).values, abs=2e-3)


def test_what_was_counted_in_no_table_is_refused() -> None:
    estimate, _ = small(3)
    assert [table.names for table in estimate.pairs()] == [("c", "d")]
    for ask in (estimate.table, estimate.source.reported):
        with pytest.raises(ValueError, match="no table has a, c together"):
            ask("a", "c") if ask == estimate.table else ask(("a", "c"))
    with pytest.raises(ValueError, match="expected at least one attribute"):
        estimate.table()
    with pytest.raises(SurveyError):
        estimate.table("z")


ONE = {("a",): np.array([5, 6])}


@pytest.mark.parametrize(
    ("counts", "numbers", "says"),
    [
        ({}, (5, 4, 9), "at least one table"),
        ({("a",): np.array([1, 2, 3])}, (5, 4, 9), r"the table of \('a',\) has shape \(3,\)"),
        (ONE, (0, 4, 9), "0 respondents, 4 coins"),
        (ONE, (5, -1, 9), "5 respondents, -1 coins"),
        (ONE, (5, 4, 0), "chance 0: expected more than 0, less than 65536"),
        (ONE, (5, 4, coins.SIDES), "chance 65536"),
        (ONE, (2, 3, 9), "a count of the table of .* is not of 0 to 2 respondents and 3 coins"),
        ({("a",): np.array([-1, 6])}, (5, 4, 9), "a count of the table"),
        ({("a",): np.array([9, 9])}, (5, 4, 9), "has a total of 18, expected 5 to 13"),
        ({("a",): np.array([1, 3])}, (5, 4, 9), "has a total of 4, expected 5 to 13"),
        ({("a",): np.array([3, 3])}, (5, 0, 0), "has a total of 6, expected 5$"),
        (
            {("a",): np.array([2, 1]), ("a", "d"): np.array([[1, 0], [2, 0]])},
            (3, 0, 0),
            "the tables disagree on the counts of 'a'",
        ),
    ],
)
def test_counts_that_nobody_can_have_are_refused(
    counts: Any, numbers: tuple[int, int, int], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        NoisyTables(SMALL, counts, *numbers)
