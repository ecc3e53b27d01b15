"""Surveys with design weights: a result for each stratum, of every variant that can have them."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from protocol import (
    AGGREGATOR,
    Array,
    CannotTabulateError,
    Message,
    PartyId,
    ProtocolError,
    Records,
    SurveyError,
    Table,
    Variant,
)
from protocol.estimators.releases.weighted import Weighted
from protocol.session.charter import Charter
from protocol.session.variant import build, plain_parameters
from protocol.simulation.rehearsal import Rehearsal
from protocol.simulation.setting import Setting, make_setting
from protocol.variants import RRIndependent
from protocol.variants.reports.by_stratum import ByStratum
from tests.every_variant import BITS, Example, examples
from tests.protocol.sessions import answers

WEIGHTS = {"west": 1.0, "south": 0.8, "north": 2.5}
"""Of which the first has no respondents."""

RECORDS = answers(BITS, 12)
STRATA = ["south", "north", "south", "south", "north", "south"] * 2
EXAMPLES = examples()
WEIGHABLE = [example for example in EXAMPLES if example.variant.stratified]
OTHERS = [example for example in EXAMPLES if not example.variant.stratified]


def with_weights(variant: Variant) -> Variant:
    return msgspec.structs.replace(variant, weights=WEIGHTS)


def setting(variant: Variant, parties: int = 6) -> Setting:
    return make_setting(with_weights(variant), RECORDS, seed=3, parties=parties, strata=STRATA)


@pytest.mark.parametrize("example", WEIGHABLE, ids=lambda example: example.name)
def test_the_estimate_is_the_weighted_mean_of_the_strata(example: Example) -> None:
    run = Rehearsal(setting(example.variant))
    variant, result = run.charter.variant, run.published
    assert isinstance(result, ByStratum)
    north, south, west = result.results
    assert north
    assert south
    assert not west
    found = variant.estimate(result)
    assert found.n == 12
    assert found.weighted_n == pytest.approx((4 * 2.5 + 8 * 0.8) ** 2 / (4 * 2.5**2 + 8 * 0.8**2))
    parts = np.array([4 * 2.5, 8 * 0.8]) / (4 * 2.5 + 8 * 0.8)
    assert isinstance(found.source, Weighted)
    for name, table in found.marginals().items():
        each = [stratum.source.cells((name,)).values for stratum in found.source.strata]
        assert table.values == pytest.approx(np.tensordot(parts, each, axes=1), nan_ok=True)
        assert np.shape(table.interval(0.9, "population")) == (2, 2)
    assert {table.names for table in found.pairs()} == {
        table.names for table in example_pairs(example)
    }


def example_pairs(example: Example) -> list[Table]:
    run = Rehearsal(make_setting(example.variant, RECORDS, seed=3, parties=6))
    return run.charter.variant.estimate(run.published).pairs()


def test_some_variants_have_weights_and_some_have_none() -> None:
    names = {example.variant.name for example in WEIGHABLE}
    assert {"rr-independent", "rr-joint", "rr-ind-joint", "spl", "smp", "inp-ht"} <= names
    assert {"secure-sum", "rr-clusters", "privkv", "numeric-mean"} <= {
        example.variant.name for example in OTHERS
    }


@pytest.mark.parametrize("example", OTHERS, ids=lambda example: example.name)
def test_another_variant_refuses_weights(example: Example) -> None:
    with pytest.raises(ValueError, match=f"weights: variant '{example.variant.name}' publishes no"):
        with_weights(example.variant)


PLAIN = RRIndependent.with_keep(BITS, 0.6)


def test_weights_are_agreed_and_unset_ones_are_nowhere() -> None:
    weighted = with_weights(PLAIN)
    assert "weights" not in plain_parameters(PLAIN)
    assert plain_parameters(weighted)["weights"] == WEIGHTS
    survey = msgspec.to_builtins(BITS)
    assert build(RRIndependent, parameters=plain_parameters(weighted), survey=survey) == weighted
    other = msgspec.structs.replace(PLAIN, weights={**WEIGHTS, "north": 2.0})
    one, another = (
        Charter(variant=each, roster=setting(PLAIN).charter.roster) for each in (weighted, other)
    )
    assert one.session != another.session


def test_what_a_report_reveals_does_not_depend_on_weights() -> None:
    plain, weighted = (
        Rehearsal(each).ledger(AGGREGATOR)
        for each in (make_setting(PLAIN, RECORDS, seed=3, parties=6), setting(PLAIN))
    )
    assert plain.record_epsilon == weighted.record_epsilon == pytest.approx(PLAIN.most())


def test_parties_hold_respondents_of_one_stratum() -> None:
    made = setting(PLAIN, parties=5)
    names = ["north-1", "north-2", "south-1", "south-2", "south-3"]
    assert [*made.holdings] == names
    assert [len(records) for records in made.holdings.values()] == [2, 2, 3, 3, 2]
    held: dict[str, list[Array]] = {word: [] for word in ("north", "south")}
    for party, records in made.holdings.items():
        held[party.partition("-")[0]].append(records.codes)
    for word, parts in held.items():
        rows = [row for row, stratum in enumerate(STRATA) if stratum == word]
        assert np.array_equal(np.concatenate(parts), RECORDS.codes[rows])


def test_a_party_in_no_stratum_fails_the_survey_by_one_line() -> None:
    made = make_setting(PLAIN, RECORDS, seed=3, parties=6)
    charter = msgspec.structs.replace(made.charter, variant=with_weights(made.charter.variant))
    run = Rehearsal(msgspec.structs.replace(made, charter=charter))
    assert run.result is None
    assert "party 'party-1' is in no stratum" in str(run.failure)
    # Nobody has been asked anything.
    assert "Ask" not in {envelope.kind for envelope in run.sent.values()}


@pytest.mark.parametrize(
    ("strata", "parties", "why"),
    [
        (None, 6, "expected the stratum of every respondent"),
        (["north"] * 11, 6, "strata of 11 respondents: expected 12"),
        ([*["north"] * 11, "east"], 6, "row 12: unknown stratum 'east'"),
        (STRATA, 1, "parties 1: expected at least 2"),
        (STRATA, 13, "12 records cannot be split into 13"),
    ],
)
def test_strata_that_do_not_fit_are_refused(
    strata: list[str] | None, parties: int, why: str
) -> None:
    with pytest.raises(SurveyError, match=why):
        make_setting(with_weights(PLAIN), RECORDS, seed=3, parties=parties, strata=strata)


def test_strata_without_weights_are_refused() -> None:
    with pytest.raises(SurveyError, match="unknown stratum 'south'"):
        make_setting(PLAIN, RECORDS, seed=3, parties=6, strata=STRATA)


def test_a_malformed_result_is_refused() -> None:
    run = Rehearsal(setting(PLAIN))
    variant, result = run.charter.variant, run.published
    assert isinstance(result, ByStratum)
    north, south, _ = result.results
    for results, why in (
        ((north, south), "2 results: expected one for each of 3 strata"),
        ((b"", b"", b""), "no reports"),
        ((north, south[:-1], b""), "Pooled"),
        ((north, south + b"\0", b""), "Pooled"),
        ((north, b"\x90", b""), "Pooled"),
    ):
        with pytest.raises((ProtocolError, ValueError), match=why):
            variant.estimate(ByStratum(results))
    with pytest.raises(ValueError, match="expected one for each of 0 strata"):
        PLAIN.estimate(result)


def test_people_by_law_are_in_no_stratum() -> None:
    for example in WEIGHABLE:
        with pytest.raises(CannotTabulateError, match=r"^weights: "):
            next(with_weights(example.variant).stages(10))


def test_the_estimate_so_far_is_weighted_too() -> None:
    made = setting(PLAIN)
    variant = made.charter.variant
    follower = variant.so_far(made.charter.session)
    run = Rehearsal(made)
    reports: dict[PartyId, Message] = {
        envelope.sender: made.message(envelope)
        for envelope in run.sent.values()
        if envelope.kind == "Report"
    }
    found = follower.estimate({("Report", -1): reports})
    assert found is not None
    published = variant.estimate(run.published)
    assert found.weighted_n == published.weighted_n
    assert found.table("a").values == pytest.approx(published.table("a").values)


def test_true_shares_are_weighted() -> None:
    records = Records(BITS, np.array([[0, 0, 0], [1, 0, 1], [1, 1, 1]], np.uint8))
    weighted = records.weighted([2.0, 0.5, 1.5])
    assert weighted.distribution(["a"]) == pytest.approx([0.5, 0.5])
    assert weighted.distribution(["b", "a"]) == pytest.approx(np.array([[0.5, 0.125], [0, 0.375]]))
    assert records.distribution(["a"]) == pytest.approx([1 / 3, 2 / 3])
    assert weighted.counts(["a"]).tolist() == [1, 2]
    assert weighted.take(2).weights is None
    for wrong in ([1.0, 2.0], [1.0, 0.0, 1.0], [1.0, np.nan, 1.0]):
        with pytest.raises(SurveyError, match="expected 3 numbers above 0"):
            records.weighted(wrong)
