"""Who cannot pay for what it is asked declines before others count on it."""

from __future__ import annotations

import math
from typing import Any, Literal

import pytest

from protocol import AGGREGATOR, KeepUniform, Me, Noise, Plain, PrivacyError, Randomized, SecureSum
from protocol.accounting.spending import Cost
from protocol.messages import ROLE_STREAM, Envelope
from protocol.session.exchange import Exchange
from protocol.session.local import Loop
from protocol.session.machine import Machine
from protocol.sharing.messages import Begin
from protocol.variants import PairCounts, PairRR, RRClusters, SecureSumVariant
from protocol.variants.sums.tallies import Tallied
from tests.protocol.sessions import (
    STREAMS,
    SURVEY,
    Turn,
    answers,
    charter_of,
    envelope,
    holdings_of,
    identities_of,
    machine_of,
    words_sent,
)
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
        assert [e.kind for e in words_sent(machine)] == [answer]
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
    assert [e.kind for e in words_sent(machine)] == ["Turn"] * turns + ["Declined"]
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
    assert [e.kind for e in words_sent(machine)] == ["Declined"]
    assert isinstance(machine.failure, PrivacyError)


COINS = Noise(trials=60)


@pytest.mark.parametrize("profile", ["sparse", "literal"])
@pytest.mark.parametrize("kind", [SecureSumVariant, PairCounts])
def test_coins_take_a_consent_of_their_own(
    kind: type[Tallied[Any]], profile: Literal["sparse", "literal"]
) -> None:
    """Without it a party with a budget declines, and is told what it would take."""
    sums = SecureSum(profile=profile, noise=COINS)
    variant = kind(survey=SURVEY, sums=sums)
    charter = charter_of(variant, 12)
    promised = sums.promised(12)
    assert promised == {"sparse": 12 - 1 - 4, "literal": 12 - 4}[profile]

    def begun(**demands: Any) -> tuple[str, str]:
        machine = machine_of(charter, ONE, **demands)
        machine.start(0.0)
        machine.receive(envelope(charter, AGGREGATOR, 0, Begin(SURVEY.digest), to=ONE), 0.0)
        [said] = words_sent(machine)
        return said.kind, str(machine.failure or "")

    cost = sums.cost(variant.contribution_event, 12)
    assert (cost.delta, cost.honest) == (1e-6, (promised,))
    assert begun(budget=1000.0) == (
        "Declined",
        f"whoever conspires: no bound; (epsilon {cost.epsilon:.6g}, delta 1e-06) if at least "
        f"{promised} of those in the sum are honest: it takes a consent of its own "
        f"(--honest {promised})",
    )
    assert begun() == ("Join", "")
    assert begun(budget=cost.epsilon, honest=promised) == ("Join", "")
    few = SecureSumVariant(survey=SURVEY, sums=SecureSum(noise=Noise(trials=1, chance=1)))
    machine = machine_of(charter_of(few, 12), ONE, budget=1000.0)
    machine.start(0.0)
    begin = envelope(machine.charter, AGGREGATOR, 0, Begin(SURVEY.digest), to=ONE)
    machine.receive(begin, 0.0)
    assert str(machine.failure) == (
        "whoever conspires: no bound; nor if as many are honest as the sum promises"
    )
    for demands, says in (
        ({"budget": 1000.0, "honest": promised + 1}, f"the sum promises {promised} honest parties"),
        ({"budget": cost.epsilon, "honest": promised - 1}, f"if at least {promised - 1} of those"),
        ({"budget": cost.epsilon * 0.99, "honest": promised}, "at delta 1e-06 per respondent if"),
        ({"budget": 1000.0, "honest": promised, "delta": 0.0}, "costs a delta of 1e-06"),
    ):
        kind_said, why = begun(**demands)
        assert kind_said == "Declined"
        assert says in why


def test_what_coins_cost_is_charged_with_the_upload() -> None:
    """Once it is sent, neighbours can unmask it without its sender: earlier than ``Unmask``."""
    sums = SecureSum(noise=COINS)
    variant = SecureSumVariant(survey=SURVEY, sums=sums)
    charter = charter_of(variant, 6)
    holdings = holdings_of(charter, answers(SURVEY, 6))
    costs: dict[str, Cost] = {}

    class Watched(Machine):
        def take(self) -> list[Envelope]:
            said = super().take()
            if self.me == ONE:
                costs.update((each.kind, self.cost) for each in said)
            return said

    machines = {
        name: (Watched if name == ONE else Machine)(
            charter,
            name,
            STREAMS.stream(name, ROLE_STREAM),
            records=holdings.get(name),
            identity=identities_of(charter)[name],
            **({"budget": 50.0, "honest": 4} if name == ONE else {}),
        )
        for name, _ in charter.roster.members
    }
    run = Loop(Exchange(charter), machines).run({})
    assert run.result is not None
    full = variant.most_among(4, 1e-6)
    assert full.honest == (4,)
    assert [costs[kind] for kind in ("Join", "Deal", "Upload", "Unmask")] == [
        Cost(),
        Cost(),
        full,
        full,
    ]
