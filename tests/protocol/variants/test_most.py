"""What any sequence of questions can cost a respondent at most, against what runs were charged."""

from __future__ import annotations

import math

import msgspec
import pytest

from protocol import RECORD, Variant
from protocol.accounting.accountants import PureAccountant
from protocol.simulation.rehearsal import Rehearsal
from protocol.simulation.setting import make_setting
from protocol.testing import check_under_faults
from protocol.testing.schedules import check_most
from protocol.variants import RRBA, RRClusters, RRIndependent
from protocol.variants.clusters.clustering import matched_blocks
from protocol.variants.reports.reports import blocks_event
from tests.every_variant import BITS, Example, examples
from tests.protocol.sessions import answers
from tests.tiers import thinned

EXACT = ("secure-sum", "pair-counts")
"""Variants that publish exact counts: nothing bounds what these cost."""


@pytest.mark.parametrize("example", thinned(examples(), 19), ids=lambda example: example.name)
def test_no_run_costs_more(example: Example) -> None:
    variant = example.variant
    run = Rehearsal(make_setting(variant, example.records, seed=1))
    check_most(run)
    most, charged = variant.most(), run.ledger(RECORD).record_epsilon
    if variant.name in EXACT or getattr(variant, "dependence", "") == "secure-sum":
        assert most == charged == math.inf
    else:
        # Every variant gets as far as it may, but where the aggregator's tables are milder.
        mild = isinstance(variant, RRBA) or variant.name == "privkvm"
        assert charged <= most < (2 * charged if mild else charged * 1.02)


@pytest.mark.parametrize(
    "name", thinned(["rr-independent", "rr-clusters rr sparse", "rrba", "privkvm", "inp-ht"], 1)
)
def test_nor_does_one_with_faults(name: str) -> None:
    example = next(example for example in examples() if example.name == name)
    check_under_faults(example.variant, example.records, schedules=6)


class TooLow(RRIndependent, frozen=True):
    """Promises less than it charges."""

    name = "too-low"

    def most(self) -> float:
        return math.nextafter(super().most(), 0.0)


def test_a_promise_below_the_charge_is_caught() -> None:
    run = Rehearsal(make_setting(TooLow.with_keep(BITS, 0.6), answers(BITS, 5), seed=1))
    with pytest.raises(AssertionError, match=r"party-1 is charged epsilon .*most\(\) is"):
        check_most(run)
    with pytest.raises(AssertionError, match="any run must cost a respondent at most that"):
        check_under_faults(TooLow.with_keep(BITS, 0.6), answers(BITS, 5), schedules=1)


def test_the_default_promises_nothing() -> None:
    assert Variant(survey=BITS).most() == math.inf


@pytest.mark.parametrize("p", [0.15, 0.6, 0.999])
def test_clusters_of_any_partition_are_within(p: float) -> None:
    variant = RRClusters(survey=BITS, p=p, tv=8, td=0.1, dependence="rr")
    judge = PureAccountant().judge
    learned = judge(blocks_event(variant.negotiation.pilot)).record
    for clusters in ([("a", "b", "c")], [("a", "b"), ("c",)], [("a",), ("b",), ("c",)]):
        released = judge(blocks_event(matched_blocks(BITS, clusters, p=p))).record
        assert learned + released <= variant.most()


def test_tables_of_rrba_are_bounded_by_their_least_weight() -> None:
    one = RRBA(survey=BITS, epsilon=1.0, mix=0.25)
    assert 1 - 1e-9 < one.most() <= 1
    whole = msgspec.structs.replace(one, groups="view", k=1)
    assert whole.most() == pytest.approx(3.0)
    assert RRBA(survey=BITS, p=0.5, mix=0.0, allow_unbounded=True).most() == math.inf
