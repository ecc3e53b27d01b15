"""Standard errors from next to nothing: unknown, and never 0 but of what is exact."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from protocol import (
    Block,
    CombinedReleases,
    Counts,
    Estimate,
    ExactTables,
    JointReports,
    LinearEstimate,
    PrivKV,
    ProductEstimate,
    ProtocolError,
    Records,
    Table,
    Variant,
)
from protocol.simulation.rehearsal import Rehearsal
from protocol.simulation.setting import make_setting
from protocol.variants import RRBA
from protocol.variants.keyvalue.estimate import Estimator, KeyValueTables
from protocol.variants.keyvalue.moments import em, maximum_likelihood, moment
from tests.enumeration import AB, keep
from tests.every_variant import BITS, examples
from tests.protocol.sessions import answers
from tests.tiers import thinned

Floats = NDArray[np.float64]

LEAST = 1e-5
"""Nothing that is estimated from so few reports has a smaller error."""

VARIANTS = (
    *(example.variant for example in examples()),
    RRBA(survey=BITS, p=0.5, mix=0.0, block=2, allow_unbounded=True),
    RRBA(survey=BITS, p=0.9, mix=1.0, block=1, release="last-two"),
    RRBA(survey=BITS, p=0.5, mix=0.5, block=1, groups="view", k=1),
)


def known(errors: Floats) -> Floats:
    """Those that are not unknown."""
    assert not np.isinf(errors).any()
    return errors[~np.isnan(errors)]


def tables(estimate: Estimate) -> Iterator[Table]:
    for name in estimate.survey.names:
        try:
            yield estimate.table(name)
        except ValueError:
            continue  # Nobody has reported on it.
    yield from estimate.pairs()


def check(estimate: Estimate) -> None:
    """No error is 0, or as good as 0, but of what is exact."""
    source = estimate.source if isinstance(estimate, LinearEstimate) else None
    exact_pairs = isinstance(source, CombinedReleases) and {
        group.keep for group in source.releases[0].groups
    } == {1.0}
    for mean in estimate.attribute_means().values():
        assert math.isfinite(mean.value)
        assert mean.standard_error is None or LEAST < mean.standard_error < math.inf
    for table in tables(estimate):
        exact = isinstance(source, ExactTables) or (exact_pairs and len(table.names) < 3)
        given, sampled = table.standard_errors, table.population_errors
        assert given is not None
        assert sampled is not None
        assert (known(sampled) > LEAST).all(), repr(table)
        assert (given == 0).all() if exact else (known(given) > LEAST).all(), repr(table)
        weights = np.zeros(given.shape)
        weights[(0,) * weights.ndim] = 1.0
        for asked in (weights, np.arange(weights.size).reshape(weights.shape) / 7):
            error = estimate.query(table.names, asked).standard_error
            assert exact or error is None or LEAST < error < math.inf, repr(table)
        # The total of all shares is known.
        assert estimate.query(table.names, np.ones(weights.shape)).standard_error == 0


def estimates(variant: Variant, records: Records, seed: int) -> Iterator[Estimate]:
    """What the variant publishes, and what else is made of that."""
    try:
        published = Rehearsal(make_setting(variant, records, seed=seed)).published
        estimate = variant.estimate(published)
    except (ProtocolError, ValueError):
        return  # Too few for a sum.
    yield estimate
    if isinstance(estimate, LinearEstimate) and isinstance(estimate.source, JointReports):
        yield ProductEstimate(estimate)
    if isinstance(estimate, KeyValueTables):
        others: list[Estimator] = ["moment", "debiased", "em", "likelihood"]
        for name in others if len(estimate.counts) == 1 else others[:2]:
            other = estimate.by(name)
            assert (known(other.mean_errors) > LEAST).all()
            yield other


@pytest.mark.parametrize(
    ("variant", "respondents"),
    thinned(product(VARIANTS, [1, 2, 3, 5]), 9),
    ids=lambda value: getattr(value, "name", value),
)
def test_no_error_is_0_however_few_report(variant: Variant, respondents: int) -> None:
    made = np.random.default_rng(respondents)
    for seed in range(1, 5):
        drawn = made.integers(0, variant.survey.sizes, (respondents, len(variant.survey.sizes)))
        alike = np.repeat(drawn[:1], respondents, axis=0)
        for codes in (drawn, alike):
            records = Records(variant.survey, codes.astype(np.uint8))
            for estimate in estimates(variant, records, seed):
                check(estimate)


@pytest.mark.slow
def test_all_but_sums_of_one_are_estimated() -> None:
    for variant in VARIANTS:
        alone = list(estimates(variant, answers(variant.survey, 1), 1))
        assert bool(alone) is not hasattr(variant, "sums"), variant.name
        assert list(estimates(variant, answers(variant.survey, 5), 1)), variant.name


def reports(*codes: tuple[int, int]) -> Counts:
    return Counts.of(np.array(codes, np.uint8), AB.sizes)


APART = (Block(("a",), keep(2, 0.6)), Block(("b",), keep(3, 0.5)))


def test_two_reports_tell_the_noise_of_randomizing_and_nothing_of_sampling() -> None:
    one = LinearEstimate(JointReports(AB, APART, reports((1, 2)))).table("a")
    assert one.standard_errors is not None
    assert np.isnan(one.standard_errors).all()
    estimate = LinearEstimate(JointReports(AB, APART, reports((1, 2), (1, 2))))
    table = estimate.table("a")
    assert table.standard_errors is not None
    assert table.population_errors is not None
    # (1/0.6 + 1)/2 squared less itself, of each report; the other is its complement.
    noise = 2 / 3 / math.sqrt(2)
    assert table.standard_errors.tolist() == pytest.approx([noise, noise])
    assert np.isnan(table.population_errors).all()
    # Both answers are others than reported: Q is 1/3 * 1/3, less than its square.
    assert table.rows()[0]["standard_error"] == pytest.approx(noise)
    both = estimate.table("a", "b")
    assert both.standard_errors is not None
    assert np.isnan(both.standard_errors[0, 0])
    assert both.rows()[0]["standard_error"] is None
    # An interval asks what shares one report contradicts: hardly any.
    low, high = LinearEstimate(JointReports(AB, APART, reports((1, 2)))).table("a", "b").interval()
    assert (low < 0.01).all()
    assert (high > 0.9).all()
    assert estimate.query(("a", "b"), [[1, 0, 0], [0, 0, 0]]).standard_error is None
    assert estimate.count({"a": ["a0"], "b": ["b0"]}).standard_error is None


def test_em_at_an_edge_does_not_know_its_error() -> None:
    """What it ends at hardly moves with the reports: its derivative is none to go by."""
    randomizer = PrivKV.with_budget(2, epsilon=1.0)
    # Fewer with the key than fakes alone would be, and all of one sign.
    found = em([[10_000, 4000, 1000], [100, 50, 0], [1, 1, 0], [4, 3, 2]], randomizer)
    assert np.isnan(found.frequency_errors).tolist() == [True, True, True, False]
    assert np.isnan(found.mean_errors).tolist() == [True, True, True, False]
    assert (known(found.frequency_errors) > 0.1).all()


@pytest.mark.parametrize("counts", [[1, 0, 0], [0, 1, 0], [0, 7, 0], [0, 0, 3], [9, 0, 0]])
def test_reports_on_a_key_that_are_all_alike(counts: list[int]) -> None:
    randomizer = PrivKV.with_epsilon(2, key_epsilon=1.0, value_epsilon=1.5)
    table = [counts]
    found = em(table, randomizer)
    assert np.isnan([*found.frequency_errors, *found.mean_errors]).all()
    for debias in (False, True):
        by_moments = moment(table, randomizer, debias=debias)
        assert np.isnan([*by_moments.frequency_errors, *by_moments.mean_errors]).all()
    # At the fitted law reports may be other than they were; a few tell nothing of that.
    errors = maximum_likelihood(table, randomizer).frequency_errors
    assert bool(np.isnan(errors[0])) is (sum(counts) < 4)


def test_exact_shares_of_nobody_and_of_everybody_do_not_tell_of_a_population() -> None:
    estimate = LinearEstimate(
        ExactTables(AB, {("a",): np.array([4, 0]), ("b",): np.array([2, 2, 0])})
    )
    assert np.isnan(estimate.table("a").population_errors).all()
    sampled = estimate.table("b").population_errors
    assert sampled is not None
    assert sampled[:2].tolist() == pytest.approx([0.25] * 2)
    assert math.isnan(sampled[2])


def test_blocks_of_single_reports_have_no_error_of_0() -> None:
    """Released are errors of 0 where one of the last two blocks has no report on a group."""
    variant = RRBA(survey=BITS, p=0.9, block=1, release="last-two")
    zeros = 0
    for seed in range(1, 6):
        codes = np.array(list(product((0, 1), repeat=3)), np.uint8)
        records = Records(BITS, codes)
        done = Rehearsal(make_setting(variant, records, seed=seed))
        result = done.published
        estimate = variant.estimate(result)
        for pair in estimate.pairs():
            assert pair.standard_errors is not None
            zeros += int(np.isnan(pair.standard_errors).sum())
            assert (known(pair.standard_errors) > LEAST).all()
        # Its counts are of all blocks, so that they do not tell the error of a part.
        assert all(np.isnan(t.standard_errors).all() for t in estimate.marginals().values())
    assert zeros
