"""Marginals by all six methods: exact over every outcome, against dense algebra, and sampled."""

from __future__ import annotations

import itertools
import operator
from collections import defaultdict
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from protocol import (
    Attribute,
    Block,
    Counts,
    Estimated,
    JointReports,
    KeepUniform,
    LinearEstimate,
    Survey,
    SurveyError,
    UnaryEncoding,
)
from protocol.errors import NoLikelihoodError
from protocol.randomizers.marginals import METHODS, MarginalPlan, MarginalReports, Method
from protocol.variants.marginals.counts import MarginalCounts
from protocol.variants.marginals.estimate import Pooling, ReleasedMarginals
from tests.enumeration import survey_of
from tests.scripted import seeded
from tests.tiers import thinned

Floats = NDArray[np.float64]
PAIRS = (("a", "b"), ("a", "c"), ("b", "c"))
State = tuple[tuple[int, ...], tuple[int, ...]]

PLANS = {method: MarginalPlan.with_epsilon(method, d=3, k=2, epsilon=1.1) for method in METHODS}


def planned(method: str, *, d: int, k: int, epsilon: float) -> MarginalPlan:
    """A plan of ``InpRR`` or of ``InpRR oue``."""
    name, *unary = method.split()
    asked: Any = {"method": name, **({"unary": unary[0]} if unary else {})}
    return MarginalPlan.with_epsilon(**asked, d=d, k=k, epsilon=epsilon)


def binary_survey(d: int) -> Survey:
    return survey_of(*(2,) * d)


def binary_attribute(name: str) -> Attribute:
    return Attribute(name=name, categories=("no", "yes"))


def reported(plan: MarginalPlan, n: int = 400, seed: int = 1) -> LinearEstimate[ReleasedMarginals]:
    """An estimate from skewed records with dependences."""
    generator = np.random.default_rng(seed)
    cells = generator.choice(2**plan.d, n, p=generator.dirichlet(np.full(2**plan.d, 0.5)))
    reports = plan.randomize(cells.astype(np.uint8), seeded(seed))
    return LinearEstimate(
        ReleasedMarginals(survey=binary_survey(plan.d), counts=MarginalCounts.of(plan, reports))
    )


# Every outcome of few respondents


def report_law(plan: MarginalPlan, cell: int) -> dict[State, float]:
    """The law of what one respondent adds to the counts, by dense matrices."""
    matrix, law = plan.randomizer.matrix(), {}
    width = 1 if plan.transformed else plan.cells
    for choice in range(plan.choices):
        places = plan.attributes(choice)
        bits = [cell >> (plan.d - 1 - place) & 1 for place in places]
        true = sum(bits) % 2 if plan.transformed else int("".join(map(str, bits)), 2)
        for report, chance in enumerate(matrix[true]):
            reports, totals = [0] * plan.choices, [0] * (plan.choices * width)
            reports[choice] = 1
            for v in range(width):
                if plan.transformed:
                    totals[choice] = report
                elif isinstance(plan.randomizer, UnaryEncoding):
                    totals[choice * width + v] = report >> v & 1
                else:
                    totals[choice * width + v] = int(report == v)
            law[tuple(reports), tuple(totals)] = chance / plan.choices
    return law


def all_counts(
    laws: Sequence[dict[State, float]], sizes: tuple[int, ...] | None
) -> dict[State, float]:
    """The law of the counts of several respondents; of given numbers of reports alone."""
    reached: dict[State, float] = {}
    for law in laws:
        if not reached:
            reached = dict(law)
            continue
        further: dict[State, float] = defaultdict(float)
        for (reports, totals), before in reached.items():
            for (report, total), chance in law.items():
                held = tuple(map(sum, zip(reports, report, strict=True)))
                if sizes is None or all(map(operator.le, held, sizes)):
                    state = (held, tuple(map(sum, zip(totals, total, strict=True))))
                    further[state] += before * chance
        reached = further
    return reached


def mixed(laws: Sequence[dict[State, float]], weights: Floats) -> dict[State, float]:
    total: dict[State, float] = defaultdict(float)
    for law, weight in zip(laws, weights, strict=True):
        for state, chance in law.items():
            total[state] += weight * chance
    return total


def marginal(joint: Floats, names: Sequence[str], survey: Survey) -> Floats:
    axes = survey.axes(names)
    dropped = tuple(axis for axis in range(joint.ndim) if axis not in axes)
    rising = sorted(axes)
    summed: Floats = joint.sum(axis=dropped)
    return summed.transpose([rising.index(axis) for axis in axes])


# Method, d, k, n, and numbers of reports if not all of them: in MargHT 3 on the signs of a and b
# from several marginals, so that tables of these share no report.
CASES = [
    ("InpRR", 2, 2, 2, None),
    ("InpRR oue", 2, 2, 2, None),
    ("InpPS", 2, 1, 4, None),
    ("InpPS", 2, 2, 3, None),
    ("InpHT", 2, 2, 6, None),
    ("InpHT", 2, 1, 5, None),
    ("MargRR", 2, 1, 4, None),
    ("MargRR", 3, 2, 2, (2, 0, 0)),
    ("MargRR", 3, 2, 2, (1, 1, 0)),
    ("MargRR oue", 3, 2, 2, (2, 0, 0)),
    ("MargPS", 3, 2, 3, None),
    ("MargHT", 3, 1, 5, None),
    ("MargHT", 3, 2, 6, (1, 1, 2, 0, 1, 0, 0, 1, 0)),
]


@pytest.mark.parametrize(("case", "population"), thinned(product(CASES, [False, True]), 5))
def test_estimates_and_covariances_are_unbiased_over_every_outcome(
    case: tuple[str, int, int, int, tuple[int, ...] | None], population: bool
) -> None:
    """Given how many report on each choice, in every case in which the errors are finite."""
    method, d, k, n, sizes = case
    survey = binary_survey(d)
    plan = planned(method, d=d, k=k, epsilon=1.3)
    weights = np.random.default_rng(d).dirichlet(np.ones(2**d))
    single = [report_law(plan, cell) for cell in range(2**d)]
    if population:
        joint, laws = weights, [mixed(single, weights)] * n
    else:
        cells = [1, 2**d - 2, 1, 0, 2**d - 1, 1][:n]
        joint, laws = np.bincount(cells, minlength=2**d) / n, [single[cell] for cell in cells]
    joint = joint.reshape((2,) * d)
    asked = [("a",), ("b", "a"), ("a", "c")]
    asked = [names for names in asked if len(names) <= k and set(names) <= set(survey.names)]
    poolings: list[Pooling] = ["own"] if plan.by_input or k == 1 else ["own", "coefficients"]
    moments: dict[object, list[Floats]] = {}
    for (reports, totals), chance in all_counts(laws, sizes).items():
        counts = MarginalCounts(
            plan=plan,
            reports=np.array(reports),
            totals=np.array(totals).reshape(plan.choices, -1),
        )
        for pooling in poolings:
            estimate = LinearEstimate(
                ReleasedMarginals(survey=survey, counts=counts, pooling=pooling)
            )
            for names in asked:
                covariance = estimate.source.covariance(*names, population=population)
                table = estimate.table(*names).values.reshape(-1)
                sums = moments.setdefault(
                    (reports, pooling, names),
                    [np.zeros(()), np.zeros(len(table)), *np.zeros((2, len(table), len(table)))],
                )
                outer = np.multiply.outer(table, table)
                for held, part in zip(sums, (1.0, table, outer, covariance), strict=True):
                    held += chance * part
    known = set()
    for (reports, pooling, names), (chance, first, second, predicted) in moments.items():
        if not np.isfinite(predicted).all() or sizes not in (None, reports):
            continue
        known.add((pooling, names))
        mean = first / chance
        np.testing.assert_allclose(
            mean, marginal(joint, names, survey).reshape(-1), atol=1e-12, err_msg=str(reports)
        )
        exact = second / chance - np.multiply.outer(mean, mean)
        np.testing.assert_allclose(predicted / chance, exact, atol=1e-11, err_msg=str(reports))
    if sizes is None:
        assert len(known) == len(asked) * len(poolings)
    else:
        assert known >= {("coefficients", asked[sizes[0] == 2 or method == "MargHT"])}


def test_the_law_by_matrices_is_that_of_the_sampler() -> None:
    # The enumeration stands on report_law; here it meets counts of real reports.
    for method in METHODS:
        plan = MarginalPlan.with_epsilon(method, d=2, k=1, epsilon=2.0)
        n = 20_000
        reports = plan.randomize(np.full(n, 2, np.uint8), seeded(6))
        counts = MarginalCounts.of(plan, reports)
        for name in ("reports", "totals"):
            place = ("reports", "totals").index(name)
            law = report_law(plan, 2).items()
            expected = n * sum(chance * np.array(state[place], float) for state, chance in law)
            found = getattr(counts, name).reshape(-1)
            assert (np.abs(found - expected) < 7 * np.sqrt(n) / 2).all()


# Against what is known otherwise


def test_inp_ps_is_rr_joint() -> None:
    plan, n = PLANS["InpPS"], 500
    cells = np.random.default_rng(2).integers(0, 8, n).astype(np.uint8)
    answers = plan.randomize(cells, seeded()).answers
    codes = np.stack([answers >> 2, answers >> 1 & 1, answers & 1], axis=1)
    survey = binary_survey(3)
    assert isinstance(plan.randomizer, KeepUniform)
    joint = LinearEstimate(
        JointReports(
            survey, (Block(survey.names, plan.randomizer),), Counts.of(codes, survey.sizes)
        )
    )
    counts = MarginalCounts.of(plan, MarginalReports(np.zeros(n, np.uint8), answers))
    estimate = LinearEstimate(ReleasedMarginals(survey=survey, counts=counts))
    for names in (("a",), ("c", "a"), ("b", "c")):
        expected, found = joint.table(*names), estimate.table(*names)
        assert found.categories == expected.categories
        np.testing.assert_allclose(found.values, expected.values, atol=1e-13)
        np.testing.assert_allclose(found.standard_errors, expected.standard_errors, atol=1e-13)
        larger = np.sqrt(n / (n - 1))
        np.testing.assert_allclose(
            found.population_errors, expected.population_errors * larger, atol=1e-13
        )
    weights = np.array([[1.0, -2.0], [0.5, 3.0]])
    asked, expected = (one.query(("c", "a"), weights) for one in (estimate, joint))
    assert asked.value == pytest.approx(expected.value, abs=1e-12)
    assert asked.standard_error == pytest.approx(expected.standard_error, abs=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_all_ways_to_ask_give_one_answer(method: Method) -> None:
    estimate = reported(PLANS[method])
    for each in (estimate, estimate.consistent()):
        every, pairs = each.source.every(), each.pairs()
        assert every.names == PAIRS
        weights = np.array([[1.0, -2.0], [0.5, 3.0]])
        for i, names in enumerate(every.names):
            table, turned = each.table(*names), each.table(*names[::-1])
            for field in ("values", "standard_errors", "population_errors"):
                found = getattr(table, field)
                np.testing.assert_allclose(getattr(every, field)[i], found.reshape(-1), atol=1e-15)
                np.testing.assert_allclose(getattr(pairs[i], field), found, atol=1e-15)
                np.testing.assert_allclose(getattr(turned, field), found.T, atol=1e-15)
            assert table.values.sum() == pytest.approx(1, abs=1e-14)
            assert pairs[i].names == names
            for population, errors in (
                (False, turned.standard_errors),
                (True, turned.population_errors),
            ):
                covariance = each.source.covariance(*names[::-1], population=population)
                assert errors is not None
                np.testing.assert_allclose(
                    np.diagonal(covariance), errors.reshape(-1) ** 2, atol=1e-15
                )
                if not population:
                    found = each.query(names[::-1], weights)
                    w = weights.reshape(-1)
                    assert found.value == pytest.approx(
                        float((turned.values * weights).sum()), abs=1e-13
                    )
                    assert found.standard_error == pytest.approx(
                        float(np.sqrt(w @ covariance @ w)), abs=1e-13
                    )
        assert each.table("a", "b", projection="simplex").values.min() >= 0


@pytest.mark.parametrize(("d", "k"), [(8, 4), (24, 1)])
@pytest.mark.parametrize("method", ["InpHT", "MargPS"])
def test_many_tables_are_those_asked_for_one_by_one(method: Method, d: int, k: int) -> None:
    plan = MarginalPlan.with_epsilon(method, d=d, k=k, epsilon=4.0)
    cells = np.random.default_rng(d).integers(0, 2**d, 20_000).astype(np.uint32)
    survey = Survey("many", tuple(binary_attribute(f"q{i}") for i in range(d)))
    counts = MarginalCounts.of(plan, plan.randomize(cells, seeded()))
    estimate = LinearEstimate(ReleasedMarginals(survey=survey, counts=counts))
    every = estimate.source.every()
    for i in range(0, len(every.names), 23):
        table = estimate.table(*every.names[i])
        np.testing.assert_allclose(every.values[i], table.values.reshape(-1), atol=1e-15)
        assert table.standard_errors is not None
        np.testing.assert_allclose(
            every.standard_errors[i], table.standard_errors.reshape(-1), atol=1e-15
        )


def test_three_attributes_in_any_order() -> None:
    estimate = reported(MarginalPlan.with_epsilon("MargPS", d=3, k=3, epsilon=2.0))
    table = estimate.table("a", "b", "c")
    weights = np.arange(8.0).reshape(2, 2, 2) ** 2
    for order in itertools.permutations(range(3)):
        names = tuple("abc"[axis] for axis in order)
        turned = estimate.table(*names)
        np.testing.assert_array_equal(turned.values, table.values.transpose(order))
        found = estimate.query(names, weights)
        assert found.value == pytest.approx(float((turned.values * weights).sum()), abs=1e-13)
        covariance = estimate.source.covariance(*names, population=False)
        w = weights.reshape(-1)
        assert found.standard_error == pytest.approx(float(np.sqrt(w @ covariance @ w)), rel=1e-12)
    # The transforms work in place, but not on what was given.
    np.testing.assert_array_equal(w, np.arange(8.0) ** 2)


@pytest.mark.parametrize("method", METHODS)
def test_consistent_tables_agree_and_are_the_least_squares_ones(method: Method) -> None:
    plan = PLANS[method]
    estimate = reported(plan)
    agreed = estimate.consistent()
    for names in PAIRS:
        for axis, name in ((1, names[0]), (0, names[1])):
            np.testing.assert_allclose(
                agreed.table(*names).values.sum(axis=axis), agreed.table(name).values, atol=1e-14
            )
    own = estimate.source.every().values
    if plan.by_input:
        np.testing.assert_array_equal(agreed.source.every().values, own)
        return
    assert np.abs(own - agreed.source.every().values).max() > 1e-3
    if method == "MargHT":
        return  # Its weights are per coefficient, not per table.
    # The nearest marginals of any signed joint table of total 1: least squares over its 8 cells.
    root = np.sqrt(np.repeat(estimate.source.counts.reports, 4))[:, None]
    cells = np.array(list(itertools.product((0, 1), repeat=3)))
    sets = list(itertools.combinations(range(3), 2))
    summing = np.array(
        [
            [float((cell[list(s)] == pair).all()) for cell in cells]
            for s in sets
            for pair in itertools.product((0, 1), repeat=2)
        ]
    )
    joint = np.linalg.lstsq(root * summing, root[:, 0] * own.reshape(-1), rcond=None)[0]
    np.testing.assert_allclose(
        agreed.source.every().values.reshape(-1), summing @ joint, atol=1e-12
    )


def test_a_table_of_fewer_attributes_takes_all_that_hold_it() -> None:
    estimate = reported(PLANS["MargPS"])
    counts = estimate.source.counts
    n_ab, n_ac, _ = counts.reports.tolist()
    ab, ac = (estimate.table("a", name).values.sum(axis=1) for name in "bc")
    expected = (n_ab * ab + n_ac * ac) / (n_ab + n_ac)
    np.testing.assert_allclose(estimate.table("a").values, expected, atol=1e-14)


def test_what_nobody_reports_on_is_uniform_and_unknown() -> None:
    for method in ("MargPS", "MargHT", "InpHT"):
        plan = PLANS[method]
        choices = np.zeros(5, np.uint8)
        counts = MarginalCounts.of(plan, MarginalReports(choices, choices))
        estimate = LinearEstimate(ReleasedMarginals(survey=binary_survey(3), counts=counts))
        table = estimate.table("b", "c")
        if method != "InpHT":  # Its first coefficient is that of c.
            np.testing.assert_array_equal(table.values, 0.25)
        assert np.isnan(table.standard_errors).all()
        assert np.isnan(table.population_errors).all()
        assert estimate.query(("b", "c"), np.eye(2)).standard_error is None
        assert estimate.query(("b", "c"), np.ones((2, 2))) == Estimated(1.0, 0.0)


# Refusals


def test_attributes_beyond_the_plan_are_refused() -> None:
    estimate = reported(PLANS["InpHT"])
    for names in (("a", "b", "c"), ()):
        with pytest.raises(ValueError, match=f"{len(names)} attributes: expected 1 to 2"):
            estimate.table(*names)
    with pytest.raises(SurveyError, match="named twice"):
        estimate.table("a", "a")
    with pytest.raises(ValueError, match="shape"):
        estimate.query(("a", "b"), np.ones(4))
    single = MarginalPlan.with_epsilon("MargPS", d=3, k=1, epsilon=1.0)
    with pytest.raises(ValueError, match=r"2 attributes: expected 1 to 1"):
        reported(single).table("a", "b")
    assert reported(single).pairs() == []


def test_estimates_of_other_surveys_are_refused() -> None:
    counts = reported(PLANS["MargPS"]).source.counts
    for survey in (binary_survey(2), survey_of(2, 3, 2)):
        with pytest.raises(ValueError, match="expected 3 of size 2"):
            LinearEstimate(ReleasedMarginals(survey=survey, counts=counts))
    with pytest.raises(ValueError, match="pooling 'all'"):
        LinearEstimate(ReleasedMarginals(survey=binary_survey(3), counts=counts, pooling="all"))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("names", ["ba", "c"])
def test_where_no_share_is_negative_em_ends_at_the_raw_tables(method: Method, names: str) -> None:
    estimate = reported(PLANS[method], n=40_000)
    if method.endswith("HT"):
        # Signs of the other marginals tell of these tables too.
        estimate = estimate.consistent()
    if method.endswith("RR"):
        with pytest.raises(NoLikelihoodError, match=method):
            estimate.table(*names, projection="em")
        return
    raw = estimate.table(*names).values
    assert raw.min() > 0.02
    np.testing.assert_allclose(estimate.likeliest(*names, gap=1e-8).values, raw, atol=1e-6)
    few = reported(PLANS[method], n=30).table(*names, projection="em")
    assert few.fit is not None
    assert few.fit.converged
    assert few.values.min() >= 0
