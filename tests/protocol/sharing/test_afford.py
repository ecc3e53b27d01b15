"""Who cannot pay for what it is asked declines before others count on it."""

from __future__ import annotations

import math
from typing import Literal

import pytest

from protocol.accounting.events import Plain, Randomized
from protocol.errors import PrivacyError
from protocol.messages import AGGREGATOR
from protocol.randomizers import KeepUniform
from protocol.session.roles import Me
from protocol.sharing.messages import Begin
from protocol.sharing.sums import SecureSum
from protocol.variants.clusters.rr_clusters import RRClusters
from protocol.variants.sums.pair_rr import PairRR
from tests.protocol.sessions import SURVEY, Turn, charter_of, envelope, machine_of, words_of
from tests.protocol.sharing.test_sums import LITERAL, SPARSE
from tests.protocol.talks import ONE, party


@pytest.mark.parametrize("sums", [SPARSE, LITERAL], ids=["sparse", "literal"])
def test_who_cannot_afford_a_sum_declines_when_it_begins(sums: SecureSum) -> None:
    variant = PairRR.with_keep(SURVEY, 0.6, sums=sums)
    charter = charter_of(variant, 3)
    cost = math.fsum(r.epsilon for r in variant.randomizers)
    for budget, answer in ((None, "Join"), (cost, "Join"), (cost - 0.5, "Declined")):
        machine = machine_of(charter, ONE, budget=budget)
        machine.start(0.0)
        begin = envelope(charter, AGGREGATOR, 0, Begin(SURVEY.digest), to=ONE)
        machine.receive(begin, 0.0)
        assert [e.kind for e in words_of(machine)] == [answer]
        assert (machine.failure is None) == (answer == "Join")
    assert isinstance(machine.failure, PrivacyError)
    says = (
        f"what is asked for costs {cost:.6g} per respondent; {cost - 0.5:.6g} of {cost - 0.5:.6g}"
    )
    assert says in str(machine.failure)


@pytest.mark.parametrize(("budget", "turns"), [(2.0, 2), (1.99, 1), (1.0, 1), (0.99, 0)])
def test_to_ask_what_one_can_afford_costs_nothing(budget: float, turns: int) -> None:
    """It is asked twice before every message, and what was sent counts."""
    keep = KeepUniform.with_keep(2, p=0.5)
    event = Randomized(keep, ("smokes",))

    async def chat(me: Me) -> None:
        for turn in range(3):
            me.afford(event)
            me.afford(event)
            await me.send(AGGREGATOR, Turn(turn, ""))

    machine = party(chat, event=event, budget=budget * keep.epsilon)
    machine.start(0.0)
    assert [e.kind for e in words_of(machine)] == ["Turn"] * turns + ["Declined"]
    assert "what is asked for costs" in str(machine.failure)


def test_who_has_no_budget_can_afford_anything() -> None:
    asked = []

    async def ask(me: Me) -> None:
        me.afford(Plain(("smokes",)))
        asked.append(me.id)

    machine = party(ask)
    machine.start(0.0)
    assert asked == [ONE]
    assert machine.failure is None


@pytest.mark.parametrize("way", ["secure-sum", "pair-rr"])
def test_clusters_are_not_learned_by_who_cannot_afford_it(
    way: Literal["secure-sum", "pair-rr"],
) -> None:
    variant = RRClusters(survey=SURVEY, p=0.6, tv=6, td=0.1, dependence=way)
    charter = charter_of(variant, 3)
    machine = machine_of(charter, ONE, budget=1.0)
    machine.start(0.0)
    machine.receive(envelope(charter, AGGREGATOR, 0, Begin(SURVEY.digest), to=ONE), 0.0)
    assert [e.kind for e in words_of(machine)] == ["Declined"]
    assert isinstance(machine.failure, PrivacyError)
