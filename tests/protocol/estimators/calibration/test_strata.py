"""Strata asked apart and asked about: the textbook's sums, and ratios report by report."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from protocol.errors import SurveyError
from protocol.estimators.calibration.post_stratified import PostStratifiedEstimate
from protocol.estimators.calibration.strata import StratifiedEstimate, within_strata
from protocol.estimators.counts import Counts
from protocol.estimators.joint import Block, JointEstimate
from protocol.estimators.tabulated import ExactEstimate
from protocol.randomizers import KeepUniform
from protocol.surveys.survey import Attribute, Survey
from tests.protocol.estimators.calibration.test_calibrate import (
    CELLS,
    LAW,
    SIZES,
    SURVEY,
    joint_of,
    margin_of,
    matrix,
    tally,
)

Floats = NDArray[np.float64]
LAWS = {"north": LAW, "south": np.flip(LAW)}
SHARES = {"north": 0.25, "south": 0.75}
ASKED = {"north": 400, "south": 700}


def stratified(seed: int) -> StratifiedEstimate:
    strata = {
        name: joint_of(tally(law, ASKED[name], 10 * seed + place))
        for place, (name, law) in enumerate(LAWS.items())
    }
    return StratifiedEstimate(SURVEY, strata, SHARES)


def test_strata_add_up_by_their_sizes() -> None:
    found = stratified(0)
    assert found.n == 1_100
    table = found.table("c", "a")
    parts = {name: estimate.table("c", "a") for name, estimate in found.strata.items()}
    expected = 0.25 * parts["north"].values + 0.75 * parts["south"].values
    np.testing.assert_allclose(table.values, expected)
    for kind in ("standard_errors", "population_errors"):
        north, south = (getattr(parts[name], kind) for name in LAWS)
        squares = 0.25**2 * north**2 + 0.75**2 * south**2
        np.testing.assert_allclose(getattr(table, kind), np.sqrt(squares))
    weights = np.zeros((4, 2))
    weights[1, 1] = 1.0
    one = found.query(("c", "a"), weights)
    assert one.value == pytest.approx(table.values[1, 1])
    assert table.standard_errors is not None
    assert one.standard_error == pytest.approx(table.standard_errors[1, 1])


@pytest.mark.slow
def test_intervals_of_all_strata_hold() -> None:
    true = sum(SHARES[name] * law.sum(axis=(0, 1)) for name, law in LAWS.items())
    held, together = [], []
    for seed in range(150):
        table = stratified(seed).table("c")
        low, high = table.interval(0.95, "population")
        held.append((low <= true) & (true <= high))
        low, high = table.interval(0.8, "population", simultaneous=True)
        together.append(((low <= true) & (true <= high)).all())
    assert 0.92 < np.mean(held) < 0.98
    assert 0.72 < np.mean(together) < 0.92
    # With the sizes of the sample in place of those of the population they do not.
    swapped = []
    for seed in range(60):
        wrong = StratifiedEstimate(
            SURVEY, stratified(seed).strata, {"north": 4 / 11, "south": 7 / 11}
        )
        low, high = wrong.table("c").interval(0.95, "population")
        swapped.append((low <= true) & (true <= high))
    assert np.mean(swapped) < 0.9


def test_exact_strata_have_no_width() -> None:
    survey = Survey("one", (Attribute(name="a", categories=("x", "y")),))
    strata = {
        name: ExactEstimate(survey, {("a",): np.array(counts, np.int64)})
        for name, counts in (("p", [30, 10]), ("q", [5, 15]))
    }
    table = StratifiedEstimate(survey, strata, {"p": 0.5, "q": 0.5}).table("a")
    np.testing.assert_allclose(table.values, [0.5, 0.5])
    np.testing.assert_allclose(table.interval(0.95), [[0.5, 0.5], [0.5, 0.5]])


def test_sizes_that_are_none_are_refused() -> None:
    strata = stratified(0).strata
    for sizes, why in (
        ({"north": 1.0}, "expected one size for each"),
        ({"north": 0.5, "south": 0.6}, "add up to 1.1"),
        ({"north": 0.0, "south": 1.0}, "each above 0"),
    ):
        with pytest.raises(ValueError, match=why):
            StratifiedEstimate(SURVEY, strata, sizes)
    other = Survey("other", SURVEY.attributes)
    with pytest.raises(SurveyError, match="was asked another survey"):
        StratifiedEstimate(other, strata, SHARES)


@pytest.mark.parametrize(("strata", "names"), [(("a",), ("c",)), (("c",), ("b", "a"))])
def test_shares_within_strata_are_ratios(strata: tuple[str, ...], names: tuple[str, ...]) -> None:
    """Report by report, with the unmixed indicators, for each stratum and each cell."""
    counts = tally(LAW, 6_000, 3)
    found = within_strata(joint_of(counts), strata, names)
    rows = np.linalg.inv(matrix())[np.repeat(np.arange(CELLS), counts)]
    shares = rows.mean(axis=0)
    codes = np.stack(np.unravel_index(np.arange(CELLS), SIZES), axis=1)
    outer = [SURVEY.index(name) for name in strata]
    inner = [SURVEY.index(name) for name in names]
    assert found.names == (*strata, *names)
    assert found.standard_errors is not None
    assert found.population_errors is not None
    for cell in np.ndindex(*found.values.shape):
        stratum = (codes[:, outer] == cell[: len(outer)]).all(axis=1)
        both = stratum & (codes[:, inner] == cell[len(outer) :]).all(axis=1)
        share = shares[both].sum() / shares[stratum].sum()
        assert found.values[cell] == pytest.approx(share)
        linear = (both - share * stratum) / shares[stratum].sum()
        variance = ((rows @ linear) ** 2).mean()
        assert found.population_errors[cell] == pytest.approx(np.sqrt(variance / 6_000))
        given = variance - shares @ linear**2
        assert found.standard_errors[cell] == pytest.approx(np.sqrt(given / 6_000))
    totals = found.values.reshape(*found.values.shape[: len(outer)], -1).sum(axis=-1)
    np.testing.assert_allclose(totals, 1)


def test_strata_that_were_asked_add_up_to_post_stratification() -> None:
    joint = joint_of(tally(LAW, 2_000, 3))
    inside = within_strata(joint, ("a",), ("c",)).values
    whole = PostStratifiedEstimate.of(joint, margin_of("a")).table("c").values
    np.testing.assert_allclose(margin_of("a").shares @ inside, whole)


def test_a_stratum_of_few_has_shares_and_no_errors() -> None:
    survey = Survey("two", tuple(Attribute(name=n, categories=("x", "y")) for n in "ab"))
    blocks = tuple(Block((name,), KeepUniform.with_keep(2, p=0.2)) for name in "ab")
    joint = JointEstimate(survey, blocks, Counts.from_table(np.array([[60, 50], [50, 45]])))
    found = within_strata(joint, ("a",), ("b",))
    assert np.isfinite(found.values).all()
    assert found.population_errors is not None
    assert np.isnan(found.population_errors).all()
    with pytest.raises(ValueError, match="at least one attribute"):
        within_strata(joint, (), ("b",))
