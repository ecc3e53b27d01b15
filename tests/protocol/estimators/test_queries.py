"""Linear queries of a joint estimate and their standard errors."""

from __future__ import annotations

import math

import numpy as np
import pytest

from protocol import (
    Block,
    Cells,
    Counts,
    Estimate,
    Estimated,
    JointReports,
    LinearEstimate,
    Stream,
    SurveyError,
    randomize_columns,
    secret_of,
)
from tests.enumeration import AB, BLOCKS, FAKED, dense_law, every_outcome, keep, summing, survey_of


@pytest.mark.parametrize("names", [("a",), ("b", "a"), ("a", "b")])
@pytest.mark.parametrize("design", BLOCKS | FAKED)
def test_query_and_its_variance_are_exact_over_every_outcome(
    design: str, names: tuple[str, ...]
) -> None:
    blocks = (BLOCKS | FAKED)[design]
    law = dense_law(AB, blocks)
    shape = tuple(AB.attribute(name).size for name in names)
    weights = np.arange(math.prod(shape)).reshape(shape) ** 1.5 - 2
    per_record = summing(AB, names) @ weights.ravel()
    per_report = np.linalg.inv(law) @ per_record
    truth = [2, 3]
    mean = second = known = 0.0
    for probability, counts in every_outcome(AB, law, truth):
        found = LinearEstimate(JointReports(AB, blocks, counts)).query(names, weights)
        shares = counts.table((0, 1)).ravel() / 2
        assert found.value == pytest.approx(shares @ per_report, abs=1e-12)
        pi = shares @ np.linalg.inv(law)
        variance = (shares @ per_report**2 - pi @ per_record**2) / 2
        # From two reports an error is often unknown.
        if found.standard_error is not None:
            assert found.standard_error**2 == pytest.approx(variance, abs=1e-10)
            known += probability
        mean += probability * found.value
        second += probability * found.value**2
    assert mean == pytest.approx(per_record[truth].mean(), abs=1e-12)
    shares = np.bincount(truth, minlength=6) / 2 @ law
    exact = (shares @ per_report**2 - (per_record[truth] ** 2).mean()) / 2
    assert second - mean**2 == pytest.approx(exact, abs=1e-10)


def estimate_of_town() -> LinearEstimate[JointReports]:
    survey = survey_of(2, 3, 4)
    stream = Stream(secret_of(8))
    true = stream.integers(np.array(survey.sizes), (400, 3)).astype(np.uint8)
    randomizers = tuple(keep(size, 0.6) for size in survey.sizes)
    counts = Counts.of(randomize_columns(randomizers, true, stream), survey.sizes)
    blocks = tuple(
        Block((name,), randomizer)
        for name, randomizer in zip(survey.names, randomizers, strict=True)
    )
    return LinearEstimate(JointReports(survey, blocks, counts))


def test_counts_of_respondents_are_sums_of_cells() -> None:
    estimate = estimate_of_town()
    values = estimate.table("b", "c").values * 400
    found = estimate.count({"b": ["b0", "b2"], "c": {"c3"}})
    assert found.value == pytest.approx(values[0, 3] + values[2, 3], abs=1e-9)
    listed = estimate.count(names=("c", "b"), subset=[("c3", "b2"), ("c3", "b0"), ("c3", "b0")])
    assert listed == pytest.approx(found)
    corner = estimate.count(names=("b", "c"), subset=[("b0", "c0"), ("b1", "c2")])
    assert corner.value == pytest.approx(values[0, 0] + values[1, 2], abs=1e-9)
    weights = np.zeros((3, 4))
    weights[0, 0] = weights[1, 2] = 1
    share = estimate.query(("b", "c"), weights)
    assert corner.standard_error == pytest.approx(share.standard_error * 400)


def test_the_count_of_everybody_is_n_without_error_and_of_nobody_is_zero() -> None:
    estimate = estimate_of_town()
    everybody = estimate.count({"b": ["b0", "b1", "b2"]})
    assert everybody.value == pytest.approx(400)
    assert everybody.standard_error == pytest.approx(0, abs=1e-5)
    assert estimate.count({"b": []}) == Estimated(0, 0)
    assert estimate.count(names=("a", "b"), subset=[]) == Estimated(0, 0)


def test_counts_that_do_not_fit_are_refused() -> None:
    estimate = estimate_of_town()
    with pytest.raises(ValueError, match="at least one"):
        estimate.count({})
    with pytest.raises(SurveyError, match="unknown category 'b9'"):
        estimate.count({"b": ["b9"]})
    with pytest.raises(ValueError, match="one text"):
        estimate.count({"b": "b1"})
    with pytest.raises(ValueError, match="one category of each"):
        estimate.count(names=("a", "b"), subset=[("a1",)])
    for arguments in ({}, {"names": ("a",)}, {"where": {"a": ["a0"]}, "names": ("a",)}):
        with pytest.raises(ValueError, match="either"):
            estimate.count(**arguments)


class CellsAlone(Estimate):
    """What a user's own estimate says at least: cells, and with them their covariance or errors."""

    def __init__(self, whole: Estimate, *, law: bool) -> None:
        self.survey, self.whole, self.law = whole.survey, whole, law

    @property
    def n(self) -> int:
        return self.whole.n

    def cells(self, names: tuple[str, ...]) -> Cells:
        found = self.whole.cells(names)
        return found if self.law else found._replace(law=None)


def test_a_mean_follows_from_the_cells_and_their_covariance() -> None:
    whole = estimate_of_town()
    weights = np.random.default_rng(3).normal(size=(3, 4))
    expected, found = (
        estimate.query(("b", "c"), weights) for estimate in (whole, CellsAlone(whole, law=True))
    )
    assert found.value == pytest.approx(expected.value)
    assert found.standard_error == pytest.approx(expected.standard_error)
    low, high = found.interval(0.95, "population")
    assert low < found.value < high


def test_without_a_covariance_the_error_of_one_cell_is_known() -> None:
    whole = estimate_of_town()
    alone, table = CellsAlone(whole, law=False), whole.table("b")
    share = alone.count({"b": ["b1"]})
    assert share.value == pytest.approx(400 * table.values[1])
    assert share.standard_error == pytest.approx(400 * table.standard_errors[1])
    both = alone.count({"b": ["b1", "b2"]})
    assert both.standard_error is None
    assert np.isnan(both.interval()).all()
    assert alone.table("b", projection="clip").values.min() >= 0
