"""Marginal release by messages: six methods, their bits, their cost, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol import (
    AGGREGATOR,
    Attribute,
    Derived,
    LinearEstimate,
    OneOf,
    PartyId,
    Plain,
    Public,
    Randomized,
    Records,
    Request,
    Seen,
    Stream,
    Survey,
)
from protocol.randomizers.marginals import MarginalPlan, report_bits
from protocol.testing import contract
from protocol.transcript.entries import Sent
from protocol.variants import InpHT, InpPS, InpRR, MargHT, MargPS, MargRR
from protocol.variants.marginals.encoding import DecodedBits
from protocol.variants.marginals.estimate import ReleasedMarginals
from protocol.variants.marginals.variant import Bits, Counted, MarginalRelease
from protocol.wire.codec import decode_envelope
from scenarios import EXECUTORS
from tests.protocol.sessions import (
    SURVEY,
    answers,
    charter_of,
    holdings_of,
    rehearsed,
)
from tests.recorded.runs import recorded

ONE = PartyId("party-1")
BINARY = Survey(
    "binary", tuple(Attribute(name=f"a{i}", categories=("no", "yes")) for i in range(4))
)
METHODS: tuple[type[MarginalRelease], ...] = (InpRR, InpPS, InpHT, MargRR, MargPS, MargHT)
RECORDS = answers(BINARY, 6)
OPTIMISED: dict[str, Any] = {"unary": "oue"}

test_inp_rr = contract(InpRR(survey=BINARY, epsilon=1.0), RECORDS, executors=EXECUTORS)
test_optimised_bits = pytest.mark.slow(
    contract(MargRR(survey=BINARY, epsilon=1.0, **OPTIMISED), RECORDS, executors=EXECUTORS)
)
test_inp_ps = pytest.mark.slow(
    contract(InpPS(survey=BINARY, epsilon=1.0), RECORDS, executors=EXECUTORS)
)
test_inp_ht = pytest.mark.slow(
    contract(InpHT(survey=BINARY, epsilon=1.0), RECORDS, executors=EXECUTORS)
)
test_marg_rr = pytest.mark.slow(
    contract(MargRR(survey=BINARY, epsilon=1.0), RECORDS, executors=EXECUTORS)
)
test_marg_ps = contract(MargPS(survey=BINARY, epsilon=1.0), RECORDS, executors=EXECUTORS)
test_marg_ht = pytest.mark.slow(
    contract(MargHT(survey=BINARY, epsilon=1.0), RECORDS, executors=EXECUTORS)
)
test_many_respondents_to_a_party = pytest.mark.slow(
    contract(
        MargHT(survey=BINARY, epsilon=1.0), answers(BINARY, 11), executors=EXECUTORS, parties=4
    )
)
test_categories_as_bits = contract(
    MargPS(survey=SURVEY, epsilon=1.0, k=3), answers(SURVEY, 5), executors=EXECUTORS
)


@pytest.mark.parametrize("cls", METHODS)
@pytest.mark.parametrize("k", [1, 2, 3])
def test_a_report_takes_the_bits_of_the_paper(cls: type[MarginalRelease], k: int) -> None:
    variant = cls(survey=BINARY, epsilon=1.0, k=k)
    charter = charter_of(variant, parties=5)
    outcome = rehearsed(charter, holdings_of(charter, answers(BINARY, 5)))
    bits = report_bits(cls.method, d=4, k=k)
    found = [decode_envelope(e.envelope) for e in outcome.entries if isinstance(e, Sent)]
    reports = [item for item in found if item.kind == "Bits"]
    assert len(reports) == 5
    for item in reports:
        message = charter.codec.decode(item.kind, item.body)
        assert isinstance(message, Bits)
        assert len(message.bits) == -(-bits // 8)


@given(st.sampled_from(METHODS), st.integers(1, 3), st.integers(1, 9), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=80)
def test_what_is_packed_comes_out_as_it_was(
    cls: type[MarginalRelease], k: int, n: int, seed: int
) -> None:
    variant = cls(survey=BINARY, epsilon=1.0, k=k, max_records=n)
    stream = Stream(bytes(28) + seed.to_bytes(4, "big"))
    cells = np.random.default_rng(seed).integers(0, 16, n).astype(np.uint32)
    reports = variant.plan.randomize(cells, stream)
    packed = variant._packed(reports)
    assert len(packed) == -(-n * variant.report_bits // 8)
    found = variant.read(Bits(n, packed))
    assert found is not None
    assert np.array_equal(found.choices, reports.choices)
    assert np.array_equal(found.answers, reports.answers)


@pytest.mark.parametrize("cls", METHODS)
def test_estimates_come_near_the_truth_and_the_ledger_has_epsilon(
    cls: type[MarginalRelease],
) -> None:
    codes = answers(BINARY, 6000).codes.copy()
    codes[:, 3] = codes[:, 1]
    records = Records(BINARY, codes)
    variant = cls(survey=BINARY, epsilon=2.0, max_records=200)
    charter = charter_of(variant, parties=30)
    outcome = rehearsed(charter, holdings_of(charter, records))
    estimate = variant.estimate(outcome.published)
    assert isinstance(estimate.source, ReleasedMarginals)
    for names in (("a1", "a3"), ("a0", "a2"), ("a2",)):
        table = estimate.table(*names)
        assert table.standard_errors is not None
        distance = np.abs(table.values - records.distribution(names))
        assert (distance < 6 * table.standard_errors).all()
    assert outcome.follows()
    epsilon = outcome.ledger(AGGREGATOR).record_epsilon
    assert epsilon == pytest.approx(2.0, abs=1e-9)
    assert epsilon <= 2.0
    assert epsilon == variant.plan.epsilon


def test_a_report_costs_only_what_it_is_about() -> None:
    variant = MargPS(survey=BINARY, epsilon=1.0)
    outcome_charter = charter_of(variant, parties=8)
    outcome = rehearsed(outcome_charter, holdings_of(outcome_charter, answers(BINARY, 8)))
    accounts = outcome.ledger(AGGREGATOR).accounts
    told = {frozenset(account.loss.attributes) for account in accounts.values()}
    assert all(len(names) == 2 for names in told)
    assert len(told) > 1


def test_categories_are_encoded_and_decoded() -> None:
    variant = MargPS(survey=SURVEY, epsilon=3.0, k=3, max_records=100)
    records = answers(SURVEY, 3000)
    charter = charter_of(variant, parties=30)
    outcome = rehearsed(charter, holdings_of(charter, records))
    estimate = variant.estimate(outcome.published)
    assert isinstance(estimate, LinearEstimate)
    assert isinstance(estimate.source, DecodedBits)
    table = estimate.table("smokes", "drinks")
    assert table.standard_errors is not None
    distance = np.abs(table.values - records.distribution(["smokes", "drinks"]))
    assert (distance < 6 * table.standard_errors).all()
    # A report on all bits of both tells of both.
    (event,) = {variant._choice_event(choice) for choice in range(variant.plan.choices)}
    assert isinstance(event, Randomized)
    assert event.attributes == ("smokes", "drinks")


def test_what_each_kind_tells() -> None:
    variant = MargPS(survey=BINARY, epsilon=1.0, max_records=40)
    assert variant.reveals(Request(b""), Seen()) == Public()
    counted = Counted(np.zeros(6, np.uint32), np.zeros((6, 4), np.uint32))
    assert variant.reveals(counted, Seen()) == Derived()
    cells = np.arange(16, dtype=np.uint32)
    reports = variant.plan.randomize(cells, Stream(bytes(32)))
    event = variant.reveals(Bits(16, variant._packed(reports)), Seen())
    assert isinstance(event, OneOf)
    assert variant.reveals(Bits(16, np.zeros(1, np.uint8)), Seen()) == Plain(BINARY.names)


@pytest.mark.parametrize("cls", METHODS)
def test_reports_that_are_none_are_not_counted(cls: type[MarginalRelease]) -> None:
    variant = cls(survey=BINARY, epsilon=1.0, k=3)
    size = -(-variant.report_bits // 8)
    assert variant.read(Bits(1, np.zeros(size, np.uint8))) is not None
    assert variant.read(Bits(0, np.zeros(size, np.uint8))) is None
    assert variant.read(Bits(2, np.zeros(size, np.uint8))) is None
    assert variant.read(Bits(1, np.zeros(size + 1, np.uint8))) is None
    if 8 * size > variant.report_bits:
        padded = np.zeros(size, np.uint8)
        padded[-1] = 1
        assert variant.read(Bits(1, padded)) is None
    if variant.plan.choices & (variant.plan.choices - 1):
        beyond = np.full(size, 255, np.uint8)
        spare = 8 * size - variant.report_bits
        beyond[-1] = (255 << spare) & 255
        assert variant.read(Bits(1, beyond)) is None


def test_an_attribute_has_to_fit_into_a_marginal() -> None:
    with pytest.raises(ValueError, match="an attribute has 2 bits"):
        MargPS(survey=SURVEY, epsilon=1.0, k=1)


@pytest.mark.parametrize(("survey", "k"), [(BINARY, 1), (SURVEY, 2)], ids=["bits", "categories"])
def test_pairs_of_more_bits_than_a_marginal_are_left_out(survey: Survey, k: int) -> None:
    variant = MargPS(survey=survey, epsilon=1.0, k=k)
    estimate = variant.estimate(recorded(variant, 9).published)
    assert estimate.pairs() == []
    assert set(estimate.marginals()) == set(survey.names)


def test_attributes_have_at_most_16_categories_and_surveys_24_bits() -> None:
    """As ``docs/papers.md`` says: the bits of an attribute have to be in one marginal."""
    attributes = [
        Attribute(name=f"a{at}", categories=tuple(map(str, range(16)))) for at in range(7)
    ]
    wide = Attribute(name="wide", categories=tuple(map(str, range(17))))
    for cls in (InpHT, InpPS, MargPS, MargHT):
        cls(survey=Survey("six", tuple(attributes[:6])), epsilon=1.0, k=4)
        with pytest.raises(ValueError, match="an attribute has 5 bits"):
            cls(survey=Survey("wide", (wide,)), epsilon=1.0, k=4)
        with pytest.raises(ValueError, match="28 binary attributes: expected 1 to 24"):
            cls(survey=Survey("seven", tuple(attributes)), epsilon=1.0, k=4)
    with pytest.raises(ValueError, match="expected 1 to 4 ways"):
        MarginalPlan.with_epsilon("InpHT", d=5, k=5, epsilon=1.0)
