"""The announced analysis: what it may be, and what it makes of a result."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import pytest

from protocol import Attribute, Estimate, Survey, SurveyError
from protocol.estimators.analysis import MAX_CELLS, Analysis
from protocol.estimators.projection import clip_and_rescale
from protocol.variants import RRIndependent, RRJoint
from tests.recorded.runs import SURVEY, answers, recorded


@pytest.fixture(scope="module", params=[RRIndependent, RRJoint])
def estimate(request: pytest.FixtureRequest) -> Estimate:
    run = recorded(request.param.with_keep(SURVEY, 0.6), answers(SURVEY, 40))
    return run.charter.variant.estimate(run.published)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"tables": ()}, "expected at least one table"),
        ({"tables": ((),)}, "an attribute in each"),
        ({"tables": (("smokes", "eats"),)}, "'eats'"),
        ({"tables": (("smokes", "smokes"),)}, "smokes"),
        ({"tables": (("smokes", "drinks"), ("drinks", "smokes"))}, "announced twice"),
        ({"level": 0.0}, "level 0.0: expected above 0 and below 1"),
        ({"level": 1.0}, "level 1.0"),
        ({"level": math.nan}, "level nan"),
        ({"projection": "round"}, "'round': expected one of 'none', 'clip', 'simplex'"),
        ({"about": "nobody"}, "'nobody': expected one of 'respondents', 'population'"),
    ],
)
def test_what_cannot_be_announced(change: dict[str, Any], says: str) -> None:
    with pytest.raises(SurveyError, match=says):
        msgspec.structs.replace(Analysis(tables=(("smokes",),)), **change).check(SURVEY)


def test_tables_that_are_too_large_are_refused_unmade() -> None:
    many = tuple(map(str, range(MAX_CELLS // 2)))
    large = Survey("large", tuple(Attribute(name=name, categories=many) for name in "ab"))
    Analysis(tables=(("a",), ("b",))).check(large)
    with pytest.raises(SurveyError, match="cells, at most 65,536"):
        Analysis(tables=(("a", "b"),)).check(large)


@pytest.mark.parametrize("about", ["respondents", "population"])
def test_intervals_are_those_of_the_raw_shares(estimate: Estimate, about: Any) -> None:
    names = ("drinks", "smokes")
    analysis = Analysis(tables=(names,), projection="clip", level=0.8, about=about)
    [found] = analysis.announced_tables(estimate)
    raw = estimate.table(*names)
    assert found.names == names
    assert [cell.categories for cell in found.cells][:2] == [("never", "no"), ("never", "yes")]
    shown = np.array([cell[1:] for cell in found.cells]).T.reshape(3, 3, 2)
    expected = clip_and_rescale(raw.values), *raw.interval(0.8, about)
    np.testing.assert_allclose(shown, expected, rtol=1e-9)


def test_levels_at_both_ends(estimate: Estimate) -> None:
    for level in (5e-324, math.nextafter(1, 0)):
        [found] = Analysis(tables=(("smokes",),), level=level).announced_tables(estimate)
        assert all(cell.low <= cell.value <= cell.high for cell in found.cells)


def test_a_table_that_the_result_cannot_give_says_why() -> None:
    run = recorded(RRIndependent.with_keep(SURVEY, 0.6), 1)
    estimate = run.charter.variant.estimate(run.published)
    [found] = Analysis(tables=(("eats",),)).announced_tables(estimate)
    assert found.cells == ()
    assert "eats" in found.why


def test_what_was_not_announced(estimate: Estimate) -> None:
    assert Analysis(tables=(("smokes", "drinks"),)).not_announced(estimate) == SURVEY.names
    assert Analysis(tables=(("drinks",),)).not_announced(estimate) == ("smokes",)
