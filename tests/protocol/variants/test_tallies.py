"""Variants that publish secure sums: what is counted, what it costs, what an audit finds."""

from __future__ import annotations

import math
from typing import Any, Literal

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol import (
    AGGREGATOR,
    RECORD,
    CombinedReleases,
    Composed,
    Derived,
    ExactCounts,
    ExactTables,
    KeepUniform,
    Masked,
    Me,
    Message,
    PartyId,
    Plain,
    Public,
    QuorumError,
    Randomized,
    SecureSum,
    Seen,
    Survey,
    SurveyError,
)
from protocol.audit.audit import Audit, audit
from protocol.messages import ROLE_STREAM, Declined
from protocol.sharing import messages as kinds
from protocol.sharing.messages import Begin
from protocol.testing import contract
from protocol.variants import PairCounts, PairRR, SecureSumVariant
from protocol.variants.sums.tallies import Tallied, Tally, all_pairs, make_layout
from scenarios import EXECUTORS
from tests.enumeration import survey_of
from tests.protocol.sessions import (
    STREAMS,
    SURVEY,
    answers,
    charter_of,
    holdings_of,
    rehearsed,
)
from tests.protocol.sharing.test_sums import LITERAL, SPARSE, counted
from tests.recorded.forgeries import Forgery
from tests.recorded.runs import recorded

ONE = PartyId("party-1")
WIDE = survey_of(2, 3, 4)
EVERYONE: list[type[Message]] = [kinds.Totals]
"""What is said only where every party gets the total."""

RECORDS = answers(SURVEY, 6)
WIDER = answers(WIDE, 5)

test_secure_sum = contract(
    SecureSumVariant(survey=SURVEY), RECORDS, executors=EXECUTORS, rare=EVERYONE
)
test_secure_sum_in_cohorts = pytest.mark.slow(
    contract(
        SecureSumVariant(survey=SURVEY), RECORDS, executors=EXECUTORS, rare=EVERYONE, parties=3
    )
)
test_secure_sum_for_everyone = pytest.mark.slow(
    contract(
        SecureSumVariant(survey=SURVEY, everyone=True), RECORDS, executors=EXECUTORS, parties=4
    )
)
test_secure_sum_as_printed = pytest.mark.slow(
    contract(SecureSumVariant(survey=SURVEY, sums=LITERAL), RECORDS, executors=EXECUTORS, parties=4)
)
test_pair_counts = pytest.mark.slow(
    contract(PairCounts(survey=WIDE), WIDER, executors=EXECUTORS, rare=EVERYONE)
)
test_pair_counts_as_printed = pytest.mark.slow(
    contract(PairCounts(survey=WIDE, sums=LITERAL), WIDER, executors=EXECUTORS, parties=3)
)
test_pair_rr = contract(
    PairRR.with_keep(WIDE, 0.6), WIDER, executors=EXECUTORS, rare=EVERYONE, parties=3
)
test_pair_rr_as_printed = pytest.mark.slow(
    contract(PairRR.with_keep(WIDE, 0.6, sums=LITERAL), WIDER, executors=EXECUTORS, parties=3)
)

TALLIED: tuple[Tallied, ...] = (
    SecureSumVariant(survey=WIDE),
    PairCounts(survey=WIDE, everyone=True),
    PairRR.with_keep(WIDE, 0.6),
    PairCounts(survey=WIDE, sums=LITERAL),
)
IDS = [f"{v.name}-{v.sums.profile}" for v in TALLIED]


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(2, 5), min_size=1, max_size=4), st.integers(1, 20), st.data())
def test_a_vector_is_its_tables_one_after_the_other(
    sizes: list[int], respondents: int, data: st.DataObject
) -> None:
    survey = survey_of(*sizes)
    name = st.lists(st.sampled_from(survey.names), min_size=1, unique=True).map(tuple)
    tables = data.draw(st.lists(name, min_size=1, max_size=4).map(tuple))
    layout = make_layout(survey, tables)
    records = answers(survey, respondents)
    vector = layout.counted(layout.table_cells(records))
    rows, columns = np.divmod(np.arange(respondents * len(tables))[::-1], len(tables))
    single = layout.cells_at(records, rows, columns)
    assert np.array_equal(single, layout.table_cells(records)[rows, columns])
    assert len(vector) == layout.cells == sum(layout.groups)
    start = 0
    for names, size in zip(tables, layout.groups, strict=True):
        expected = records.counts(names)
        assert vector[start : start + size].tolist() == expected.reshape(-1).tolist()
        assert np.array_equal(layout.split(vector)[names], expected)
        start += size


@pytest.mark.parametrize("tables", [(), ((),), (("a",), ())])
def test_a_vector_of_no_tables_is_refused(tables: Any) -> None:
    with pytest.raises(ValueError, match="expected tables of at least one attribute"):
        make_layout(WIDE, tables)


@pytest.mark.parametrize("table", [("a", "a"), ("z",)])
def test_unknown_and_repeated_attributes_are_refused(table: tuple[str, ...]) -> None:
    with pytest.raises(SurveyError):
        make_layout(WIDE, (table,))


def test_all_pairs_in_their_order() -> None:
    assert all_pairs(WIDE) == (("a", "b"), ("a", "c"), ("b", "c"))


def test_pairs_take_two_attributes() -> None:
    alone = Survey("alone", WIDE.attributes[:1])
    with pytest.raises(ValueError, match="pairs take at least 2 attributes"):
        PairCounts(survey=alone)
    with pytest.raises(ValueError, match="expected tables"):
        PairRR.with_keep(alone, 0.5)
    with pytest.raises(ValueError, match=r"randomizers of sizes \(6,\), expected \(6, 8, 12\)"):
        PairRR(survey=WIDE, randomizers=(KeepUniform.with_keep(6, p=0.5),))


def test_a_sum_of_one_is_no_secret() -> None:
    for sums in (SPARSE, LITERAL):
        with pytest.raises(ValueError, match="a sum over one party shows its values"):
            sums.degree(1)
        with pytest.raises(ValueError, match="a sum over one party shows its values"):
            SecureSumVariant(survey=SURVEY, sums=sums).kinds(1)
    with pytest.raises(ValueError, match="withstand 0 who conspire"):
        SecureSumVariant(survey=SURVEY, sums=SecureSum(dropped=0.5)).kinds(10)


@pytest.mark.parametrize("sums", [SPARSE, LITERAL], ids=["sparse", "literal"])
def test_exact_counts_come_out(sums: SecureSum) -> None:
    records = answers(WIDE, 23)
    for cls in (SecureSumVariant, PairCounts):
        variant = cls(survey=WIDE, sums=sums, max_records=4)
        run = recorded(variant, records, parties=6)
        estimate = variant.estimate(run.published)
        assert isinstance(estimate.source, ExactTables)
        assert estimate.n == 23
        for names in variant.tables:
            assert np.array_equal(estimate.source.exact(*names), records.counts(names))


def test_summed_reports_are_those_that_the_parties_drew() -> None:
    variant = PairRR.with_keep(WIDE, 0.5)
    charter = charter_of(msgspec.structs.replace(variant, max_records=4), 6)
    holdings = holdings_of(charter, answers(WIDE, 23))
    result = rehearsed(charter, holdings).published
    assert isinstance(result, Tally)
    begin = Begin(WIDE.digest)
    expected = np.zeros(26, np.int64)
    for name, held in holdings.items():
        stream = STREAMS.stream(name, ROLE_STREAM)
        me = Me(name, charter.roster, stream, session=charter.session)
        first = variant.vector(me, begin, held)
        assert np.array_equal(first, variant.vector(me, begin, held))
        expected += first
    assert result.totals.tolist() == expected.tolist()
    assert result.totals.tolist() != counted(variant, holdings, charter.roster.parties)


def test_pairs_with_almost_no_noise_are_the_true_ones() -> None:
    records = answers(WIDE, 30)
    variant = PairRR.with_keep(WIDE, 1 - 2**-40)
    charter = charter_of(variant, 30)
    estimate = variant.estimate(rehearsed(charter, holdings_of(charter, records)).published)
    assert isinstance(estimate.source, CombinedReleases)
    for names in (*variant.tables, ("c", "a"), ("b",)):
        assert np.allclose(estimate.table(*names).values, records.distribution(names), atol=1e-9)


def test_what_messages_tell() -> None:
    exact, noisy = TALLIED[0], TALLIED[2]
    upload = kinds.Upload(np.zeros(9, np.uint16), np.zeros(2, np.uint8))
    assert exact.reveals(upload, Seen()) == Masked(ExactCounts(WIDE.names))
    assert noisy.reveals(upload, Seen()) == Masked(
        Composed(
            tuple(
                Randomized(KeepUniform.with_keep(size, p=0.6), pair)
                for size, pair in zip((6, 8, 12), all_pairs(WIDE), strict=True)
            )
        )
    )
    assert exact.reveals(Begin(b""), Seen()) == Public()
    # What is agreed on follows from what was uploaded.
    assert exact.reveals(kinds.Tags(0, np.zeros((2, 16), np.uint8)), Seen()) == Derived()
    assert exact.reveals(Tally(0, b"", b"", np.zeros(9, np.uint32)), Seen()) == Derived()
    assert exact.reveals(Declined("terms"), Seen()) == Plain(WIDE.names)


@pytest.mark.parametrize("everyone", [False, True])
@pytest.mark.parametrize("sums", [SPARSE, LITERAL], ids=["sparse", "literal"])
def test_exact_counts_are_unbounded_for_every_observer(sums: SecureSum, everyone: bool) -> None:
    for cls in (SecureSumVariant, PairCounts):
        outcome = recorded(cls(survey=WIDE, sums=sums, everyone=everyone), 4)
        for observer in (AGGREGATOR, RECORD, ONE):
            ledger = outcome.ledger(observer)
            assert ledger.record_epsilon == math.inf
            assert set(ledger.accounts) == {*outcome.charter.roster.parties} - {observer}
            assert set(ledger.attribute_epsilon.values()) == {math.inf}
            [why] = ledger.unbounded
            assert why.startswith("exact counts of a, b, c")


def test_randomized_pairs_add_up_in_the_ledger() -> None:
    variant = PairRR.with_keep(WIDE, 0.6)
    outcome = recorded(variant, 4)
    of = {
        pair: math.log1p(size * 1.5) for pair, size in zip(all_pairs(WIDE), (6, 8, 12), strict=True)
    }
    for observer in (AGGREGATOR, RECORD):
        ledger = outcome.ledger(observer)
        assert ledger.record_epsilon == pytest.approx(math.fsum(of.values()), abs=1e-9)
        assert ledger.record_epsilon == pytest.approx(
            math.fsum(r.epsilon for r in variant.randomizers), abs=1e-12
        )
        for name, epsilon in ledger.attribute_epsilon.items():
            expected = math.fsum(e for pair, e in of.items() if name in pair)
            assert epsilon == pytest.approx(expected, abs=1e-9)
        assert ledger.unbounded == ()
    [claim] = variant.claims()
    assert claim.epsilon == max(r.epsilon for r in variant.randomizers) < ledger.record_epsilon


def test_a_budget_holds() -> None:
    variant = PairRR.with_keep(WIDE, 0.6)
    charter = charter_of(variant, 3)
    holdings = holdings_of(charter, answers(WIDE, 3))
    cost = math.fsum(r.epsilon for r in variant.randomizers)
    assert rehearsed(charter, holdings, budget=cost).published
    # Who cannot afford it says so before others count on it.
    with pytest.raises(QuorumError, match="sent 'Join'"):
        assert rehearsed(charter, holdings, budget=math.nextafter(cost, 0)).published
    charter = charter_of(PairCounts(survey=WIDE), 3)
    with pytest.raises(QuorumError, match="sent 'Join'"):
        assert rehearsed(charter, holdings, budget=1e9).published


def audited(file: bytes, variant: Tallied) -> Audit:
    return audit(lambda: [file], type(variant))


@pytest.mark.parametrize("variant", TALLIED, ids=IDS)
@pytest.mark.parametrize("adds_up", [True, False])
def test_another_total_does_not_follow(variant: Tallied, adds_up: bool) -> None:
    run = recorded(variant, 5)
    forgery = Forgery(run.content)
    [entry] = [e[2] for e in forgery.entries if e[0] == "Sent" and e[2][4] == "Tally"]
    tally = run.charter.codec.decode("Tally", entry[5])
    assert isinstance(tally, Tally)
    totals = tally.totals.copy()
    table = totals[: variant.layout.groups[0]]
    most = int(np.argmax(table))
    table[most] -= 1
    table[most - 1] += adds_up
    entry[5] = run.charter.codec.encode(msgspec.structs.replace(tally, totals=totals))
    found = audited(forgery.write(), variant)
    assert found.verification.intact
    assert found.verdict == "broken"
    says = [f for f in found.findings if "the record has another 'Tally'" in str(f)]
    assert len(says) == 1
    no_result = [f for f in found.findings if "table 0 sums to 4, expected 5" in str(f)]
    assert bool(no_result) != adds_up


@pytest.mark.parametrize("opening", ["published", "withheld"])
@pytest.mark.parametrize("variant", TALLIED, ids=IDS)
def test_what_a_record_without_keys_tells(
    variant: Tallied, opening: Literal["published", "withheld"]
) -> None:
    """Masks come off with what opens the sum; the literal profile has nothing to withhold."""
    sums = msgspec.structs.replace(variant.sums, opening=opening)
    variant = msgspec.structs.replace(variant, sums=sums)
    run = recorded(variant, 5, seeded=False)
    sparse = sums.profile == "sparse"
    assert len(run.messages("Opening")) == (sparse and opening == "published")
    found = audited(run.content, variant)
    if sparse and opening == "withheld":
        assert found.verdict == "unchecked"
        [finding] = found.findings
        assert "whether the result follows is unknown" in str(finding)
    else:
        assert found.verdict == "sound"
