"""Means of numbers by messages: law of the estimate, cost, claims, scales, what is refused."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import msgspec
import numpy as np
import pytest

from protocol import (
    AGGREGATOR,
    Attribute,
    Composed,
    Plain,
    Randomized,
    Records,
    Request,
    Seen,
    Stream,
    Survey,
    SurveyError,
)
from protocol.attack.attack import attack
from protocol.session.variant import build, plain_parameters
from protocol.testing import contract
from protocol.variants import NumericMean
from protocol.variants.numeric.numeric_mean import Mechanism
from protocol.variants.numeric.scales import Scale, attribute_scale
from protocol.variants.oracles.attributes import AttributeReports, AttributeTallies
from scenarios import EXECUTORS
from tests.every_variant import NUMBERS
from tests.protocol.sessions import answers, charter_of, holdings_of, rehearsed
from tests.statistical import score_variance

MECHANISMS: tuple[Mechanism, ...] = ("one-bit", "piecewise")
EACH = pytest.mark.parametrize("mechanism", MECHANISMS)
AGES = Survey("ages", (Attribute(name="age", categories=("20", "30", "40")),))

test_one_bit = contract(
    NumericMean(survey=NUMBERS, epsilon=1.0, mechanism="one-bit"),
    answers(NUMBERS, 7),
    executors=EXECUTORS,
    parties=3,
)
test_piecewise = contract(
    NumericMean(survey=NUMBERS, epsilon=1.0, mechanism="piecewise"),
    answers(NUMBERS, 5),
    executors=EXECUTORS,
)


@pytest.mark.parametrize(
    ("mechanism", "epsilon", "codes"),
    [
        # Of the piecewise mechanism there are thousands of pairs of reports.
        pytest.param(*case, marks=[pytest.mark.slow] * (case[0] == "piecewise"))
        for case in itertools.product(MECHANISMS, [1.0, 4.0], [(0, 1), (2, 0), (1, 1), (2, 2)])
    ],
)
def test_mean_and_error_over_all_reports(
    mechanism: Mechanism, epsilon: float, codes: tuple[int, int]
) -> None:
    """Every pair of reports, with its probability: the mean is that of the answers."""
    variant = NumericMean(survey=AGES, epsilon=epsilon, mechanism=mechanism)
    (one,) = variant.randomizers
    rows = [np.array([float(p) for p in one.row(code)]) for code in codes]
    places = range(variant.cells)
    mean = square = stated = 0.0
    for first, second in itertools.combinations_with_replacement(places, 2):
        chance = rows[0][first] * rows[1][second]
        if first != second:
            chance += rows[0][second] * rows[1][first]
        totals = np.bincount([first, second], minlength=variant.cells).astype(np.uint32)
        tallies = AttributeTallies(2, np.array([2], np.uint32), totals)
        found = variant.estimate(tallies).attribute_means()["age"]
        mean += chance * found.value
        square += chance * found.value**2
        if mechanism == "one-bit" and first == second:
            assert found.standard_error is None
        else:
            assert found.standard_error is not None
            stated += chance * found.standard_error**2
    truth = float(np.mean([20 + 10 * code for code in codes]))
    assert mean == pytest.approx(truth, rel=1e-9)
    variance = sum(score_variance(one, code) for code in codes) / 4 * 10.0**2
    assert square - mean**2 == pytest.approx(variance, rel=1e-6)
    if mechanism == "one-bit":
        # What one bit does not tell: how far the answers are spread.
        variance += (10 * (codes[0] - codes[1])) ** 2 / 2 / 2
    assert stated == pytest.approx(variance, rel=1e-9)


@EACH
def test_a_run_finds_the_means_and_costs_epsilon(mechanism: Mechanism) -> None:
    records = answers(NUMBERS, 3000)
    variant = NumericMean(survey=NUMBERS, epsilon=4.0, mechanism=mechanism, max_records=500)
    charter = charter_of(variant, parties=6)
    outcome = rehearsed(charter, holdings_of(charter, records))
    assert outcome.follows()
    charged = outcome.ledger(AGGREGATOR).record_epsilon
    assert charged <= variant.most() <= 4.0
    assert charged == pytest.approx(4.0, rel=1e-6)
    estimate = variant.estimate(outcome.published)
    assert estimate.n == 3000
    truth = estimate.true_means(records)
    assert truth["trips"] == pytest.approx(records.codes[:, 0].mean())
    assert truth["mood"] == pytest.approx(records.codes[:, 1].mean() / 2 - 1)
    for name, found in estimate.attribute_means().items():
        assert found.standard_error is not None
        assert 0 < found.standard_error < 0.1
        assert abs(found.value - truth[name]) < 6 * found.standard_error


@EACH
def test_headers_of_no_variant_are_refused(mechanism: Mechanism) -> None:
    variant = NumericMean(survey=NUMBERS, epsilon=2.0, mechanism=mechanism)
    header = msgspec.msgpack.decode(msgspec.msgpack.encode(plain_parameters(variant)))
    survey = msgspec.to_builtins(NUMBERS)
    for wrong in ({"mechanism": "none"}, {"epsilon": 0.0}, {"epsilon": math.inf}):
        with pytest.raises(SurveyError, match="does not fit"):
            build(NumericMean, parameters={**header, **wrong}, survey=survey)


def test_what_a_report_tells() -> None:
    variant = NumericMean(survey=NUMBERS, epsilon=2.0, mechanism="one-bit")
    event = variant.reveals(AttributeReports(np.ones((1, 2), np.uint8)), Seen())
    assert event == Composed(
        tuple(
            Randomized(one, (name,))
            for one, name in zip(variant.randomizers, NUMBERS.names, strict=True)
        )
    )
    beyond = AttributeReports(np.full((1, 2), 2, np.uint8))
    assert variant.read(beyond) is None
    assert variant.reveals(beyond, Seen()) == Plain(NUMBERS.names)
    (claim,) = variant.claims()
    assert claim.epsilon == 2.0


@EACH
def test_an_attack_proves_no_more_than_is_charged(mechanism: Mechanism) -> None:
    variant = NumericMean(survey=NUMBERS, epsilon=2.0, mechanism=mechanism)
    found = attack(variant, answers(NUMBERS, 4), trials=40_000, runs=2)
    assert not found.accused
    whole = found.probes[-1]
    assert whole.bound == pytest.approx(2.0)
    assert whole.lower > 1.5


@pytest.mark.parametrize(
    ("categories", "why"),
    [
        (("no", "yes"), "category 'no': expected a number such as 12 or -0.5"),
        (("1", "2", "4"), "category '4': expected numbers that rise in equal steps"),
        (("2", "1"), "category '1': expected numbers that rise in equal steps"),
        (("1", "1.0"), "category '1.0': expected numbers that rise"),
        (("0", "1e999999999"), "expected a number"),
        (("0", "1/0"), "expected a number"),
        (("0", "nan"), "expected a number"),
        (("0", "\u0661"), "expected a number"),
    ],
)
def test_other_categories_are_refused(categories: tuple[str, ...], why: str) -> None:
    survey = Survey("wrong", (NUMBERS.attributes[0], Attribute(name="x", categories=categories)))
    with pytest.raises(ValueError, match="not a survey of numbers") as refused:
        NumericMean(survey=survey, epsilon=1.0)
    assert why in str(refused.value)
    assert "'x'" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_scale_of_decimal_numbers_is_exact() -> None:
    tenths = Attribute(name="x", categories=tuple(f"{i / 10:.1f}" for i in range(-3, 8)))
    assert attribute_scale(tenths) == Scale(Fraction(1, 5), Fraction(1, 2))
    assert attribute_scale(tenths).mean(1.0) == pytest.approx(0.7)


def test_tables_are_refused() -> None:
    variant = NumericMean(survey=AGES, epsilon=1.0, mechanism="one-bit")
    counts = np.array([1, 2], np.uint32)
    estimate = variant.estimate(AttributeTallies(3, np.array([3], np.uint32), counts))
    for ask in (lambda: estimate.table("age"), lambda: estimate.query(["age"], [0, 0, 1])):
        with pytest.raises(ValueError, match=r"expected attribute_means\(\)"):
            ask()
    with pytest.raises(SurveyError, match="no attribute"):
        estimate.table("height")
    assert (estimate.marginals(), estimate.pairs()) == ({}, [])
    with pytest.raises(SurveyError, match="another survey"):
        estimate.true_means(answers(NUMBERS, 2))


@pytest.mark.parametrize(
    ("respondents", "reports", "totals"), [(0, 0, [0, 0]), (3, 2, [1, 2]), (3, 3, [1, 1])]
)
def test_a_result_that_does_not_fit_is_refused(
    respondents: int, reports: int, totals: list[int]
) -> None:
    variant = NumericMean(survey=AGES, epsilon=1.0, mechanism="one-bit")
    tallies = AttributeTallies(
        respondents, np.array([reports], np.uint32), np.array(totals, np.uint32)
    )
    with pytest.raises(ValueError, match="expected"):
        variant.estimate(tallies)


def test_one_report_has_a_mean() -> None:
    for mechanism in MECHANISMS:
        variant = NumericMean(survey=AGES, epsilon=1.0, mechanism=mechanism)
        records = Records(AGES, np.array([[1]]))
        report = variant.answer(records, Request(b""), Stream(bytes(32)))
        found = variant.estimate(variant.pooled([report])).attribute_means()["age"]
        assert math.isfinite(found.value)
        assert (found.standard_error is None) is (mechanism == "one-bit")
