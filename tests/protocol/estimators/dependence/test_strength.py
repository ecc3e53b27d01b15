"""Laws of unbiased squares: against dense covariances; whether their intervals cover."""

from __future__ import annotations

import itertools
from typing import NamedTuple, get_args

import numpy as np
import pytest
from scipy import stats
from scipy.stats import false_discovery_control

from protocol import (
    Block,
    Counts,
    JointReports,
    KeepElseTable,
    LinearEstimate,
    debiased_dependences,
    split_codes,
)
from protocol.estimators.dependence.dependence import (
    MEASURES,
    Dependences,
    cramers_v,
    dependences,
    pairwise_dependences,
    raw_dependences,
)
from protocol.estimators.dependence.pair_reports import PairReports
from protocol.estimators.dependence.quadratic import QuadraticLaw, holm
from protocol.estimators.dependence.strength import StrengthLaw, cramers_law, pearsons_law
from protocol.estimators.inference.laws import About
from tests.enumeration import ROWS, Floats, dense_law, keep, matrix, survey_of
from tests.statistical import ALPHA
from tests.tiers import thinned

SURVEY = survey_of(3, 4)
MANY = 10**9

APART = (Block(("a",), keep(3, 0.6)), Block(("b",), keep(4, 0.75)))
DESIGNS = {
    "apart": APART,
    "matrix": (Block(("a",), matrix(ROWS)), APART[1]),
    "together": (Block(("a", "b"), keep(12, 0.5)),),
    "turned": (Block(("b", "a"), keep(12, 0.5)),),
    "fakes": (
        Block(
            ("a", "b"),
            KeepElseTable.with_table(
                p=0.5, table=np.outer([1, 2, 1], [1, 1, 1, 2]).ravel(), mix=0.0
            ),
        ),
    ),
}
INDEPENDENT = np.outer([5, 3, 2], [4, 3, 2, 1]) / 100
DEPENDENT = np.array([[30, 8, 4, 2], [6, 20, 10, 4], [2, 6, 12, 26]]) / 130


def expected_reports(blocks: tuple[Block, ...], answers: Floats) -> LinearEstimate[JointReports]:
    """So many reports that their shares are the law's and nothing is rare."""
    frequencies = np.rint(MANY * (answers.ravel() @ dense_law(SURVEY, blocks))).astype(np.int64)
    codes = split_codes(np.arange(12, dtype=np.uint64), SURVEY.sizes)
    counts = Counts(SURVEY.sizes, codes, frequencies, int(frequencies.sum()))
    return LinearEstimate(JointReports(SURVEY, blocks, counts))


def dependence_excess(table: Floats) -> Floats:
    return table - np.outer(table.sum(axis=1), table.sum(axis=0))


def slopes(function: object, at: Floats) -> Floats:
    """The derivatives of a function of shares by each of them, by central differences."""
    assert callable(function)
    steps = np.eye(at.size).reshape(at.size, *at.shape) * 1e-6
    return np.array([(function(at + step) - function(at - step)) / 2e-6 for step in steps])


def covariance_of_reports(law: Floats, answers: Floats, about: About) -> Floats:
    """Of the shares of reports, times their number."""
    shares = answers.ravel() @ law
    found = np.diag(shares) - np.outer(shares, shares)
    if about == "respondents":
        given = answers.ravel()
        between = law.T @ (np.diag(given) - np.outer(given, given)) @ law
        found = found - between
    return found


@pytest.mark.parametrize("about", ["respondents", "population"])
@pytest.mark.parametrize("design", DESIGNS)
def test_traces_are_those_of_the_dense_covariance(design: str, about: About) -> None:
    blocks, answers = DESIGNS[design], INDEPENDENT
    law = dense_law(SURVEY, blocks)
    inverse = np.linalg.inv(law)
    jacobian = slopes(
        lambda reports: dependence_excess((reports @ inverse).reshape(3, 4)).ravel(),
        answers.ravel() @ law,
    )
    spread = jacobian.T @ covariance_of_reports(law, answers, about) @ jacobian / MANY
    roots = 1 / np.sqrt(answers.ravel())
    form = spread * np.outer(roots, roots)
    found = debiased_dependences(expected_reports(blocks, answers)).law
    assert found is not None
    made = found(about)
    powers = [np.trace(np.linalg.matrix_power(form, k)) for k in (1, 2, 3, 4)]
    given = made.noise, made.trace_2, made.trace_3, made.trace_4
    assert [trace.item() for trace in given] == pytest.approx(powers, rel=1e-5, abs=0)


@pytest.mark.parametrize(
    ("measure", "design", "about"),
    thinned(itertools.product(MEASURES, DESIGNS, ["respondents", "population"]), 11),
)
def test_noise_and_spread_are_those_of_the_dense_covariance(
    measure: str, design: str, about: About
) -> None:
    blocks, answers = DESIGNS[design], DEPENDENT
    law = dense_law(SURVEY, blocks)
    inverse = np.linalg.inv(law)

    def square(reports: Floats) -> float:
        return MEASURES[measure]((reports @ inverse).reshape(3, 4)) ** 2

    reports = answers.ravel() @ law
    slope = slopes(square, reports)
    variance = slope @ covariance_of_reports(law, answers, about) @ slope / MANY
    found = debiased_dependences(expected_reports(blocks, answers), measure=measure)
    assert found.law is not None
    made = found.law(about)
    assert made.estimate.item() / made.scale.item() == pytest.approx(square(reports), rel=1e-5)
    assert (made.spread.item() / made.scale.item()) ** 2 == pytest.approx(variance, rel=1e-4, abs=0)
    low, high = found.interval(about=about)
    half = stats.norm.ppf(0.975) * np.sqrt(variance) / (2 * np.sqrt(square(reports)))
    assert (high[0, 1] - low[0, 1]) / 2 == pytest.approx(half, rel=1e-3, abs=0)
    assert (high[0, 1] + low[0, 1]) / 2 == pytest.approx(found.matrix[0, 1], rel=1e-5)


def test_rare_categories_count_less_and_the_law_says_how_much_is_seen() -> None:
    n, table = 50, np.array([[20, 4, 1], [5, 16, 4]]) / 50
    law = cramers_law(PairReports.exact(table, n), "population")
    first, second = table.sum(axis=1), table.sum(axis=0)
    weights = [m / (m**2 + 4 * m * (1 - m) / n) for m in (first, second)]
    form = float(np.sum(dependence_excess(table) ** 2 * np.outer(*weights)))
    assert (law.estimate + law.noise).item() == pytest.approx(form, rel=1e-12)
    seen = [w * m @ (1 - m) / (len(m) - 1) for w, m in zip(weights, (first, second), strict=True)]
    assert law.seen.item() == pytest.approx(np.prod(seen), rel=1e-12)
    assert law.seen.item() < 0.9


# What is made of a law


def known(**changed: float) -> QuadraticLaw:
    """Of one error of variance 1, as for two attributes of two categories."""
    fields = {
        "estimate": 3.0,
        "noise": 1.0,
        "spread": 1.0,
        "trace_2": 1.0,
        "trace_3": 1.0,
        "trace_4": 1.0,
        "ratio": 1.0,
        "scale": 1.0,
        "most": 100.0,
        "seen": 1.0,
    } | changed
    return QuadraticLaw(**{name: np.array([value]) for name, value in fields.items()})


def test_one_error_makes_a_noncentral_chi_squared_variable() -> None:
    law = known()
    low, high = law.interval(0.9)
    assert stats.ncx2.sf(4.0, 1, low[0] ** 2) == pytest.approx(0.05, abs=1e-9)
    assert stats.ncx2.cdf(4.0, 1, high[0] ** 2) == pytest.approx(0.05, abs=1e-9)
    assert law.p_values()[0] == pytest.approx(stats.chi2.sf(4.0, 1), rel=1e-9)
    many = known(estimate=5.0, trace_2=4.0, trace_3=4.0, trace_4=4.0)
    assert many.p_values()[0] == pytest.approx(stats.chi2.sf(9.0, 4), rel=1e-9)


def test_no_interval_is_empty_and_what_is_not_seen_widens_it() -> None:
    low, high = known(estimate=-0.9).interval()
    assert low[0] == 0
    assert high[0] == known(estimate=0.0).interval().high[0] > 1
    assert known(seen=0.5).interval().high[0] ** 2 == pytest.approx(
        2 * known().interval().high[0] ** 2
    )
    assert known(most=4.0, scale=4.0, estimate=30.0).interval() == (1.0, 1.0)
    with pytest.raises(ValueError, match="level 1"):
        known().interval(1.0)


def test_what_is_certain_has_no_width() -> None:
    law = QuadraticLaw.stacked([QuadraticLaw.certain(0.3), None])
    low, high = law.interval()
    assert low[0] == high[0] == pytest.approx(0.3, abs=1e-15)
    assert np.isnan([low[1], high[1], law.p_values()[1]]).all()


def test_holm_by_hand() -> None:
    assert holm(np.array([0.04, 0.01, 0.03, 0.9])).tolist() == [0.09, 0.04, 0.09, 0.9]
    assert holm(np.array([0.6, 0.7])).tolist() == [1.0, 1.0]


# What dependences say


def test_exact_counts_are_certain_of_the_respondents_and_a_sample_of_a_population() -> None:
    table = np.array([[30, 10, 0], [10, 30, 0]])
    found = dependences([table], survey_of(2, 3), method="exact", epsilon=np.inf)
    low, high = found.interval()
    assert low[0, 1] == high[0, 1] == pytest.approx(found.matrix[0, 1], abs=1e-15)
    low, high = found.interval(about="population")
    assert low[0, 1] < found.matrix[0, 1] < high[0, 1]
    # The empty column is dropped, and so are rare ones' weights lessened: not so here.
    chi_squared = stats.chi2_contingency(table[:, :2], correction=False)
    assert found.p_values()[0, 1] == pytest.approx(chi_squared.pvalue, rel=0.5)
    for name in MEASURES:
        low, high = dependences(
            [table], survey_of(2, 3), measure=name, method="exact", epsilon=np.inf
        ).interval(about="population")
        assert 0 < low[0, 1] < high[0, 1]


def test_whatever_the_method_intervals_are_about_the_true_dependence() -> None:
    reports = expected_reports(APART, DEPENDENT)
    truth = cramers_v(DEPENDENT)
    for found in (
        raw_dependences(reports),
        debiased_dependences(reports),
        pairwise_dependences(SURVEY, [reports]),
    ):
        low, high = found.interval()
        assert low[0, 1] < truth < high[0, 1]
        assert (low[0, 0], high[1, 1]) == (1, 1)
        assert found.cautious[0, 1] < low[0, 1] + (high[0, 1] - low[0, 1]) / 2
        with pytest.raises(ValueError, match="about"):
            found.interval(about="nobody")  # type: ignore[arg-type]  # wrong on purpose
        with pytest.raises(ValueError, match="level"):
            found.interval(2.0)


def test_p_values_are_corrected_over_the_pairs_that_have_one() -> None:
    survey = survey_of(2, 2, 2)
    strong, weak, none = ([[30, 10], [10, 30]], [[24, 16], [16, 24]], [[20, 20], [20, 20]])
    tables = [np.array(table) for table in (strong, weak, none)]
    found = dependences(tables, survey, method="exact", epsilon=np.inf)
    places = ([0, 0, 1], [1, 2, 2])
    plain = found.p_values("none")[places]
    assert plain[0] < plain[1] < 0.1 < plain[2]
    np.testing.assert_allclose(
        found.p_values()[places], [3 * plain[0], 2 * plain[1], plain[2]], rtol=1e-12
    )
    np.testing.assert_allclose(
        found.p_values("benjamini-hochberg")[places], false_discovery_control(plain), rtol=1e-12
    )
    assert np.isnan(np.diag(found.p_values())).all()
    with pytest.raises(ValueError, match="correction 'bonferroni'"):
        found.p_values("bonferroni")  # type: ignore[arg-type]  # wrong on purpose
    bare = Dependences(survey.names, "auto", "given", np.eye(3), np.zeros((3, 3)), 1.0)
    assert np.isnan(bare.p_values()[0, 1])
    assert np.isnan(bare.interval().low[0, 1])


# Coverage, by law


class Setting(NamedTuple):
    """Answers, how many there are, and how they are randomized."""

    rows: int
    columns: int
    n: int
    p: float
    v: float
    together: bool = False


def answers_of(setting: Setting) -> Floats:
    """A table with margins proportional to 1/2, 1/3, ... and Cramer's V."""
    first, second = (
        (1 / np.arange(2, size + 2)) / (1 / np.arange(2, size + 2)).sum()
        for size in (setting.rows, setting.columns)
    )
    apart = np.outer(first, second)
    if setting.rows == setting.columns:
        return setting.v * np.diag(first) + (1 - setting.v) * apart
    # Scores of mean 0 and variance 1; V is that of a table of rank one.
    scores = []
    for share in (first, second):
        score = np.arange(len(share)) - share @ np.arange(len(share))
        scores.append(score / np.sqrt(share @ score**2))
    rest = min(setting.rows, setting.columns) - 1
    table = apart * (1 + setting.v * np.sqrt(rest) * np.outer(*scores))
    assert (table >= 0).all()
    return table


def covered(
    setting: Setting, about: About, runs: int, seed: int, law_of: StrengthLaw = cramers_law
) -> tuple[float, float]:
    """How often the interval holds the true V, and how often independence is rejected at 5 %."""
    rows, columns, n, p, *_ = setting
    made = np.random.default_rng(seed)
    table = answers_of(setting)
    cells = rows * columns
    if setting.together:
        law = p * np.eye(cells) + (1 - p) / cells
    else:
        law = np.kron(*(p * np.eye(size) + (1 - p) / size for size in (rows, columns)))
    if about == "population":
        counts = made.multinomial(n, table.ravel() @ law, runs)
    else:
        answers = np.floor(table.ravel() * n).astype(np.int64)
        answers[0] += n - answers.sum()
        table = answers.reshape(rows, columns) / n
        counts = np.sum(
            [made.multinomial(k, row, runs) for k, row in zip(answers, law, strict=True)], axis=0
        )
    shares = counts.reshape(runs, rows, columns) / n
    if setting.together:
        reports = PairReports.together(shares, n, keep=p, fakes=np.full((rows, columns), 1 / cells))
    else:
        inverses = [np.linalg.inv(p * np.eye(s) + (1 - p) / s) for s in (rows, columns)]
        reports = PairReports.apart(shares, n, *inverses)
    found = law_of(reports, about)
    truth = cramers_v(table)
    low, high = found.interval()
    inside = (low <= truth + 1e-9) & (truth <= high + 1e-9)
    return float(inside.mean()), float((found.p_values() < 0.05).mean())


FEW_SETTINGS = (
    Setting(2, 2, 10_000, 0.5, 0.3),
    Setting(3, 5, 10_000, 0.7, 0.15),
    Setting(2, 2, 1_000, 0.9, 0.6, together=True),
)


def binomial_p_value(rate: float, runs: int, least: float) -> float:
    """How likely such a rate or less is, if the chance is the least that is right."""
    return float(stats.binom.cdf(round(rate * runs), runs, least))


@pytest.mark.parametrize("about", ["respondents", "population"])
@pytest.mark.parametrize("setting", FEW_SETTINGS)
def test_intervals_cover(setting: Setting, about: About) -> None:
    runs = 1000
    rate, _ = covered(setting, about, runs, seed=3)
    assert binomial_p_value(rate, runs, 0.93) > ALPHA
    assert rate < 0.975

    def narrower(reports: PairReports, about: About) -> QuadraticLaw:
        """Errors taken for two thirds of what they are."""
        whole = cramers_law(reports, about)
        return QuadraticLaw(
            **{
                name: getattr(whole, name) * factor
                for name, factor in dict(
                    estimate=1,
                    noise=1,
                    spread=1,
                    trace_2=(4 / 9) ** 2,
                    trace_3=(4 / 9) ** 3,
                    trace_4=(4 / 9) ** 4,
                    ratio=4 / 9,
                    scale=1,
                    most=1,
                    seen=1,
                ).items()
            }
        )

    planted, _ = covered(setting, about, runs, seed=3, law_of=narrower)
    assert binomial_p_value(planted, runs, 0.93) < ALPHA


@pytest.mark.slow
@pytest.mark.parametrize(
    "setting", thinned([Setting(3, 5, 2000, 0.5, 0.0), Setting(6, 6, 500, 0.7, 0.0)], 1)
)
def test_independence_is_rejected_as_often_as_the_level_says(setting: Setting) -> None:
    runs = 2000
    _, rejected = covered(setting, "population", runs, seed=5)
    assert stats.binomtest(round(rejected * runs), runs, 0.05).pvalue > ALPHA
    _, found = covered(setting._replace(v=0.3), "population", runs, seed=5)
    assert found > 2 * rejected


@pytest.mark.slow
def test_intervals_cover_on_a_grid() -> None:
    """V 0 to .6, n 10**3 to 10**5, p .3 to .9, 2 to 16 categories, 400 runs each."""
    runs, rates = 400, []
    for rows, columns in ((2, 2), (3, 5), (6, 6), (2, 16), (16, 16)):
        for n in (1_000, 10_000, 100_000):
            for p in (0.3, 0.5, 0.7, 0.9):
                for v in (0.0, 0.05, 0.15, 0.3, 0.6):
                    for together in (False, True):
                        setting = Setting(rows, columns, n, p, v, together)
                        try:
                            answers_of(setting)
                        except AssertionError:
                            continue
                        for about in get_args(About):
                            rate, _ = covered(setting, about, runs, seed=len(rates))
                            rates.append(rate)
    # With 95 % the lowest of a thousand is about 91.5 %.
    assert min(rates) > 0.90
    assert np.mean(np.array(rates) < 0.93) < 0.04
    assert 0.955 < np.mean(rates) < 0.975


def test_correlations_cover_too() -> None:
    made = np.random.default_rng(2)
    table = answers_of(Setting(3, 5, 0, 0, 0.3))
    truth = MEASURES["pearson"](table)
    law = np.kron(*(0.6 * np.eye(size) + 0.4 / size for size in (3, 5)))
    inverses = [np.linalg.inv(0.6 * np.eye(size) + 0.4 / size) for size in (3, 5)]
    shares = made.multinomial(5000, table.ravel() @ law, 2000).reshape(2000, 3, 5) / 5000
    low, high = pearsons_law(PairReports.apart(shares, 5000, *inverses), "population").interval()
    rate = float(((low <= truth) & (truth <= high)).mean())
    assert 0.935 < rate < 0.965
