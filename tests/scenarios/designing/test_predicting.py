"""Predicted errors against simple cases that are worked out by hand, and the flips of the field."""

from __future__ import annotations

import contextlib
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from protocol import Records, Stream, Survey
from protocol.errors import UsageError
from protocol.estimators.inference.laws import About
from protocol.variants import (
    BUILT_IN,
    InpPS,
    PairCounts,
    RRIndependent,
    RRJoint,
    SecureSumVariant,
    Spl,
)
from protocol.variants.reports.reports import Ask, Report
from scenarios.designing import candidates as candidates_module
from scenarios.designing.assumed import Given, Uniform, Worst
from scenarios.designing.candidates import Wanted, candidates, variant_candidates
from scenarios.designing.comparing.choosing import choose_candidates, parse_name
from scenarios.designing.costs import reckon_traffic
from scenarios.designing.expected import rounded
from scenarios.designing.predicting import NotEstimatedError, predict
from scenarios.designing.simulating import Simulation
from scenarios.designing.targets import mostly_one, parse_target
from tests.scenarios.designing.surveys import answers, survey_of


def rmse(survey: Survey, name: str, epsilon: float, target: str, n: int = 1000) -> float:
    wanted = parse_target(survey, target)
    [candidate] = choose_candidates([parse_name(name)], Wanted(survey, epsilon, wanted), {})
    assert candidate.variant is not None
    found = predict(candidate.variant, n, wanted, Uniform(survey))
    assert found is not None
    return found.rmse


def test_of_one_binary_answer() -> None:
    """Warner's variance, as he has it: ``p (1-p) / (2p-1)**2 / n``."""
    survey = survey_of(2)
    keep = math.e / (1 + math.e)
    expected = math.sqrt(keep * (1 - keep) / (2 * keep - 1) ** 2 / 1000)
    for name in ("rr-independent", "rr-joint", "rr-ind-joint", "spl:grr", "smp:grr", "rs-fd"):
        assert rmse(survey, name, 1.0, "margins") == pytest.approx(expected, rel=1e-6), name


def test_exact_counts_have_no_error() -> None:
    survey = survey_of(3, 2)
    target = parse_target(survey, "margins")
    found = predict(SecureSumVariant(survey=survey), 10, target, Uniform(survey))
    assert found is not None
    assert found.rmse == 0


def test_what_a_result_does_not_say() -> None:
    survey = survey_of(3, 2)
    with pytest.raises(NotEstimatedError, match="expected one"):
        predict(Spl(survey=survey, epsilon=1.0), 10, parse_target(survey, "pairs"), Uniform(survey))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("pears", "target 'pears': no attribute"),
        ("q0,q0", "named twice"),
        ("q0;q1", "expected commas between names, not semicolons"),
        ("q0,qq1", "did you mean 'q1'"),
        ("marginal", "did you mean 'margins'"),
        ("q0,", "no attribute ''"),
    ],
)
def test_targets_that_are_none(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        parse_target(survey_of(3, 2), text)


def test_a_table_with_most_of_the_cells_is_said() -> None:
    survey = survey_of(3000, 20, 4)
    says = mostly_one(survey, parse_target(survey, "margins"))
    assert says.startswith("q0 has 3,000 of the 3,024 cells")
    assert mostly_one(survey, parse_target(survey, "q0")) == ""
    assert mostly_one(survey_of(4, 2, 2), parse_target(survey_of(4, 2, 2), "margins")) == ""
    pairs = mostly_one(survey, parse_target(survey, "pairs"))
    assert pairs.startswith("q0,q1 has 60,000 of the 72,080 cells")


def test_every_candidate_costs_no_more_than_is_allowed() -> None:
    survey = survey_of(3, 2, 4)
    for target in ("margins", "pairs"):
        for each in candidates(Wanted(survey, 1.5, parse_target(survey, target))):
            if each.variant is not None and each.family not in ("secure-sum", "pair-counts"):
                assert 1.4999 < each.variant.most() <= 1.5, each
            assert bool(each.why) == (each.variant is None)


def test_a_domain_that_is_too_large_is_said() -> None:
    survey = survey_of(*(1000,) * 8)
    found = {
        each.name: each for each in candidates(Wanted(survey, 1.0, parse_target(survey, "margins")))
    }
    assert "2**64" in found["rr-joint"].why


def test_joint_and_independent_change_places() -> None:
    """Of many categories single answers are known best apart, of few combinations together."""
    survey = survey_of(4, 4, 4)
    assert rmse(survey, "rr-joint", 1.0, "margins") > rmse(survey, "rr-independent", 1.0, "margins")
    assert rmse(survey, "rr-joint", 4.0, "margins") < rmse(survey, "rr-independent", 4.0, "margins")
    assert rmse(survey, "rr-joint", 1.0, "pairs") < rmse(survey, "rr-independent", 1.0, "pairs")


def test_oue_and_grr_change_places() -> None:
    """GRR is the better one below ``3 exp(epsilon) + 2`` categories (Wang et al. 2017)."""
    few, many = survey_of(8), survey_of(14)
    assert 8 < 3 * math.e + 2 < 14
    assert rmse(few, "spl:grr", 1.0, "margins") < rmse(few, "spl:oue", 1.0, "margins")
    assert rmse(many, "spl:grr", 1.0, "margins") > rmse(many, "spl:oue", 1.0, "margins")


def test_of_extremes_the_worse_counts() -> None:
    survey = survey_of(3, 2)
    target = parse_target(survey, "pairs")
    variant = RRJoint.with_epsilon(survey, 1.0)
    worst = predict(variant, 10, target, Worst(survey), about="population")
    usual = predict(variant, 10, target, Uniform(survey), about="population")
    given = predict(variant, 10, target, Worst(survey))
    assert worst is not None
    assert usual is not None
    assert given is not None
    assert worst.rmse == usual.rmse > given.rmse


@pytest.mark.slow
def test_no_population_is_worse_than_the_worst() -> None:
    """Of populations drawn at random, for every built-in variant.

    The square of a share is largest in between, and three categories are no round number of bits:
    the extremes may miss the worst by a percent or two.
    """
    sizes = (3, 2)
    survey = survey_of(*sizes)
    others = [Given(answers(30, *sizes, seed=seed)) for seed in range(12)]
    for text in ("margins", "pairs"):
        target = parse_target(survey, text)
        for candidate in candidates(Wanted(survey, 1.0, target)):
            if candidate.variant is None:
                continue
            try:
                worst = predict(candidate.variant, 10**5, target, Worst(survey))
            except NotEstimatedError:
                continue
            if worst is None:
                assert candidate.name == "rr-clusters"
                continue
            for shares in others:
                found = predict(candidate.variant, 10**5, target, shares)
                assert found is not None
                assert found.rmse <= worst.rmse * 1.005, candidate
                assert found.largest <= worst.largest * 1.02, candidate


@pytest.mark.slow
@given(
    sizes=st.lists(st.integers(2, 6), min_size=1, max_size=4),
    exponent=st.floats(-6, 2),
    text=st.sampled_from(["margins", "pairs"]),
    worst=st.booleans(),
)
@example(sizes=[2, 4, 3, 6], exponent=1.5, text="margins", worst=True)
@settings(max_examples=20, deadline=None)
def test_an_error_is_predicted_at_any_epsilon(
    sizes: list[int], exponent: float, text: str, worst: bool
) -> None:
    """From an epsilon that says nothing to one by which all say the truth, of extremes too."""
    survey = survey_of(*sizes)
    target = parse_target(survey, text if len(sizes) > 1 else "margins")
    shares = Worst(survey) if worst else Uniform(survey)
    for candidate in candidates(Wanted(survey, 10.0**exponent, target)):
        if candidate.variant is not None:
            with contextlib.suppress(NotEstimatedError):
                found = predict(candidate.variant, 10**6, target, shares)
                assert found is None or found.rmse >= 0, candidate


@pytest.mark.parametrize("size", [3, 5, 7, 1001])
def test_expected_counts_are_counts(size: int) -> None:
    """Also of so many cells that what rounding adds to all of them is more than one holds."""
    for reports in (10, 2**20 + 1):
        counts = rounded(np.full((size, 2), 0.5 / size), reports)
        assert counts.sum() == reports
        assert counts.min() >= 0
        assert np.abs(counts - reports * 0.5 / size).max() <= 1


def test_a_variants_own_way_to_report_has_no_closed_form() -> None:
    survey = survey_of(3, 2)
    target = parse_target(survey, "margins")
    variant = Changed.with_epsilon(survey, 1.0)
    assert predict(variant, 1000, target, Uniform(survey)) is None


class Changed(RRJoint, frozen=True):
    """Reports otherwise than its base."""

    name = "changed"

    def answer(self, records: Records, question: Ask, stream: Stream) -> Report:
        return super().answer(records, question, stream)


def test_a_new_built_in_variant_needs_nothing_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """A protocol is one file: without an entry of its own it is set up by its parameters."""
    survey = survey_of(2, 3)
    wanted = Wanted(survey, 1.0, parse_target(survey, "margins"))
    known = variant_candidates(RRIndependent, wanted)
    monkeypatch.setattr(candidates_module, "_MAKERS", {})
    for cls in BUILT_IN.values():
        variant_candidates(cls, wanted)
    [found] = variant_candidates(RRIndependent, wanted)
    assert isinstance(found.variant, RRIndependent)
    assert found.variant.most() <= 1
    assert (found.name, found.why) == (known[0].name, "")


def test_a_sample_varies_about_its_population_whatever_is_asked() -> None:
    """Also where counts are exact, and where errors are simulated: ``p (1-p) / n`` is added."""
    survey = survey_of(2, 3, 5)
    target, shares = parse_target(survey, "pairs"), Given(answers(1001, 2, 3, 5))
    cells = [shares.margin(names).reshape(-1) for names in target.tables]
    true = np.concatenate(cells)
    sampled = math.sqrt(float(np.mean(true * (1 - true))) / 500)
    exact = PairCounts(survey=survey)
    expected: tuple[tuple[About, float], ...] = (("respondents", 0.0), ("population", sampled))
    for about, error in expected:
        found = predict(exact, 500, target, shares, about=about)
        assert found is not None
        assert found.rmse == pytest.approx(error)
    joint = RRJoint.with_epsilon(survey, 3.0)
    within, around = (Simulation(joint, 500, target, shares, about).run(2) for about, _ in expected)
    assert around.rmse**2 - within.rmse**2 == pytest.approx(sampled**2)


@pytest.mark.parametrize(
    ("parties", "dropout", "missing"),
    [
        (100, 0.0, 10),
        # Two standard deviations more than expected: 25 + 8.7.
        (100, 0.25, 33),
        # One, for with two a third of the others could read the rest.
        (10, 0.2, 3),
        # None can be spared.
        (9, 0.25, 2),
        # Half of one, for more would take more than 255 neighbours.
        (32_561, 0.1, 3288),
    ],
)
def test_sums_are_set_up_for_more_than_the_expected_dropouts(
    parties: int, dropout: float, missing: int
) -> None:
    survey = survey_of(3, 2)
    wanted = Wanted(survey, 1.0, parse_target(survey, "margins"), parties=parties, dropout=dropout)
    [candidate] = variant_candidates(SecureSumVariant, wanted)
    assert isinstance(candidate.variant, SecureSumVariant)
    assert candidate.variant.sums.withstands(parties).missing == missing


def test_large_parties_send_less_for_each_respondent() -> None:
    survey = survey_of(3, 2)
    variant = RRIndependent.with_epsilon(survey, 1.0)
    alone, together = (
        reckon_traffic(variant, 400, parties, Uniform(survey)) for parties in (400, 20)
    )
    assert together.messages == pytest.approx(alone.messages / 20)


def test_tables_of_too_many_combinations_are_not_designed() -> None:
    survey = survey_of(*[8] * 7)
    [candidate] = variant_candidates(InpPS, Wanted(survey, 1.0, parse_target(survey, "margins")))
    assert candidate.variant is None
    assert candidate.why == "21 bits have 2**21 combinations, expected at most 1,048,576"
