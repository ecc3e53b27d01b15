"""Categories as bits and back: codes, tables, queries."""

from __future__ import annotations

import numpy as np
import pytest

from protocol import ExactTables, LinearEstimate, Records, SurveyError, join_codes, split_codes
from protocol.randomizers.marginals import MarginalPlan
from protocol.variants.marginals.counts import MarginalCounts
from protocol.variants.marginals.encoding import DecodedBits, binary_encoding
from protocol.variants.marginals.estimate import ReleasedMarginals
from tests.enumeration import survey_of
from tests.scripted import seeded

SURVEY = survey_of(3, 2, 5)
ENCODING = binary_encoding(SURVEY)
RECORDS = Records(
    SURVEY, np.random.default_rng(1).integers(0, np.array(SURVEY.sizes), (200, 3), dtype=np.int64)
)


def test_bits_of_a_survey() -> None:
    assert ENCODING.bits == (2, 1, 3)
    assert ENCODING.binary.names == (
        *("a bit 1", "a bit 0"),
        "b",
        *("c bit 2", "c bit 1", "c bit 0"),
    )
    assert ENCODING.binary.attribute("b") == SURVEY.attribute("b")
    assert set(ENCODING.binary.sizes) == {2}
    assert ENCODING.name_bits("c", "b") == ("c bit 2", "c bit 1", "c bit 0", "b")
    # Powers of two and what is beside them.
    assert binary_encoding(survey_of(2, 4, 8, 9, 16, 17)).bits == (1, 2, 3, 4, 4, 5)


def encoded_records() -> Records:
    return Records(
        ENCODING.binary, split_codes(ENCODING.cells(RECORDS), ENCODING.binary.sizes, np.uint8)
    )


def test_codes_come_back_from_their_bits() -> None:
    encoded = encoded_records()
    assert encoded.survey == ENCODING.binary
    start = 0
    for place, bits in enumerate(ENCODING.bits):
        weights = 2 ** np.arange(bits)[::-1]
        codes = encoded.codes[:, start : start + bits] @ weights
        np.testing.assert_array_equal(codes, RECORDS.codes[:, place])
        start += bits
    assert ENCODING.cells(RECORDS).dtype == join_codes(encoded.codes, encoded.survey.sizes).dtype


def test_exact_tables_come_back() -> None:
    encoded = encoded_records()
    exact = LinearEstimate(
        ExactTables(ENCODING.binary, {encoded.survey.names: encoded.counts(encoded.survey.names)})
    )
    estimate = LinearEstimate(DecodedBits(SURVEY, exact))
    for names in (("a",), ("b",), ("c", "a"), ("b", "a", "c")):
        table = estimate.table(*names)
        np.testing.assert_allclose(table.values, RECORDS.distribution(names), atol=1e-15)
        assert table.categories == tuple(SURVEY.attribute(name).categories for name in names)
        weights = np.random.default_rng(2).random(table.values.shape)
        value = (weights * RECORDS.distribution(names)).sum()
        assert estimate.query(names, weights).value == pytest.approx(value, abs=1e-14)
    assert estimate.count({"a": ["a1"], "b": ["b0"]}).value == pytest.approx(
        RECORDS.counts(("a", "b"))[1, 0]
    )
    assert len(estimate.pairs()) == 3


def test_codes_without_a_category_are_dropped_from_noisy_tables() -> None:
    plan = MarginalPlan.with_epsilon("MargPS", d=6, k=3, epsilon=2.0)
    reports = plan.randomize(ENCODING.cells(RECORDS), seeded())
    bits = LinearEstimate(
        ReleasedMarginals(survey=ENCODING.binary, counts=MarginalCounts.of(plan, reports))
    )
    estimate = LinearEstimate(DecodedBits(SURVEY, bits))
    raw = bits.table("a bit 1", "a bit 0", "b")
    assert np.abs(raw.values[1, 1]).max() > 0
    found = estimate.table("a", "b")
    np.testing.assert_array_equal(found.values, raw.values.reshape(4, 2)[:3])
    assert raw.standard_errors is not None
    assert raw.population_errors is not None
    np.testing.assert_array_equal(found.standard_errors, raw.standard_errors.reshape(4, 2)[:3])
    np.testing.assert_array_equal(found.population_errors, raw.population_errors.reshape(4, 2)[:3])
    indicator = np.eye(6)[3].reshape(3, 2)
    queried = estimate.query(("a", "b"), indicator)
    assert found.standard_errors is not None
    assert queried.value == pytest.approx(found.values[1, 1], abs=1e-14)
    assert queried.standard_error == pytest.approx(found.standard_errors[1, 1], rel=1e-12)
    rescaled = ENCODING.decode(raw, rescaled=True)
    np.testing.assert_allclose(rescaled.values, found.values / found.values.sum(), atol=1e-15)
    assert abs(found.values.sum() - 1) > 1e-3
    assert rescaled.standard_errors is rescaled.population_errors is None
    assert estimate.table("a", "b", projection="clip").values.sum() == pytest.approx(1)
    assert (estimate.n, repr(estimate.source)[:13]) == (200, "<DecodedBits:")
    with pytest.raises(ValueError, match="5 attributes"):
        estimate.table("a", "c")


def test_what_is_not_the_encoding_s_is_refused() -> None:
    encoded = encoded_records()
    exact = LinearEstimate(
        ExactTables(ENCODING.binary, {encoded.survey.names: encoded.counts(encoded.survey.names)})
    )
    for names in (("a bit 1",), ("a bit 0", "a bit 1"), ("a bit 0",), ("b", "c bit 2", "c bit 1")):
        with pytest.raises(ValueError, match="expected all bits of each attribute"):
            ENCODING.decode(exact.table(*names))
    with pytest.raises(ValueError, match="projected by 'clip'"):
        ENCODING.decode(exact.table("b", projection="clip"))
    with pytest.raises(ValueError, match="survey's bits"):
        LinearEstimate(DecodedBits(survey_of(3, 2), exact))
    with pytest.raises(SurveyError, match="another survey"):
        ENCODING.cells(encoded)
    wide = survey_of(2**9, 2**9, 2**9)
    records = Records(wide, np.zeros((1, 3), np.int64))
    with pytest.raises(ValueError, match="27 bits: expected at most 24"):
        binary_encoding(wide).cells(records)


def test_nothing_to_rescale_is_refused() -> None:
    bits = binary_encoding(survey_of(3))
    records = Records(bits.binary, np.array([[1, 1]]))
    exact = LinearEstimate(
        ExactTables(bits.binary, {bits.binary.names: records.counts(bits.binary.names)})
    )
    with pytest.raises(ValueError, match=r"total of 0\.0"):
        bits.decode(exact.table(*bits.binary.names), rescaled=True)
