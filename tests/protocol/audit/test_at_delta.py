"""The respondent of whom most was learned at a delta: against composing everybody's account."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol import (
    AGGREGATOR,
    Composed,
    ExactAccountant,
    KeepUniform,
    PartyId,
    Plain,
    PrivacyEvent,
    Public,
    Randomized,
)
from protocol.accounting.accountants import PureAccountant, total
from protocol.accounting.losses import LossDistribution
from protocol.audit.at_delta import worst_respondent
from protocol.audit.ledger import Account, Ledger
from protocol.audit.passed import Charge

DELTA = 1e-3


def draw(epsilon: float, size: int = 2) -> Randomized:
    """A draw that costs so much, nearly."""
    return Randomized(KeepUniform.with_epsilon(size, epsilon=epsilon), ("a",))


def ledger_of(*accounts: Sequence[PrivacyEvent]) -> Ledger:
    """A ledger of parties of which these things were told."""
    accountant = PureAccountant()
    found = {}
    for i, events in enumerate(accounts):
        trail = tuple(Charge(j, "Report", e, accountant.judge(e)) for j, e in enumerate(events))
        party = PartyId(f"party-{i}")
        found[party] = Account(party, total(charge.loss for charge in trail), trail)
    return Ledger(AGGREGATOR, found, ("a",))


def largest(ledger: Ledger, delta: float) -> float:
    """By composing every account."""
    return max(
        ExactAccountant(delta).judge(charge.event for charge in account.trail).epsilon
        for account in ledger.accounts.values()
    )


def test_the_dearest_by_pure_figures_need_not_be_the_dearest() -> None:
    many, one = [draw(0.1)] * 40, [draw(3.0)]
    ledger = ledger_of(many, one, [draw(0.1)])
    pure = {name: account.loss.record for name, account in ledger.accounts.items()}
    assert pure[PartyId("party-0")] > pure[PartyId("party-1")]
    found = worst_respondent(ledger, DELTA, settled=True)
    assert found is not None
    assert found.party == "party-1"
    assert found.pairs == ExactAccountant(DELTA).pairs(one)
    assert found.everybody
    assert found.composition.epsilon == largest(ledger, DELTA)


@given(
    accounts=st.lists(
        st.lists(
            st.builds(draw, st.sampled_from([0.1, 0.5, 1.0, 2.0]), st.sampled_from([2, 5])),
            min_size=1,
            max_size=6,
        ),
        min_size=1,
        max_size=5,
    ),
    delta=st.sampled_from([0.0, 1e-6, 0.01, 0.3]),
)
@settings(deadline=None, max_examples=60)
def test_it_is_the_largest_of_all(accounts: list[list[PrivacyEvent]], delta: float) -> None:
    ledger = ledger_of(*accounts)
    found = worst_respondent(ledger, delta, settled=True)
    assert found is not None
    assert found.everybody
    assert found.composition.epsilon == pytest.approx(largest(ledger, delta), rel=1e-12)
    assert found.composition.epsilon <= ledger.record_epsilon * (1 + 1e-12)
    events = [charge.event for charge in ledger.accounts[found.party].trail]
    assert found.pairs == ExactAccountant(delta).pairs(events)


def test_later_messages_may_follow_from_earlier_ones() -> None:
    """Somebody picks the second message by what the first gave away, and no figure is exceeded."""
    first = [draw(0.5), draw(0.5)]
    choices = [[draw(2.0, 16)], [draw(0.5)] * 4]
    delta = 0.2

    def losses(events: Sequence[PrivacyEvent]) -> LossDistribution:
        pairs = ExactAccountant(delta).pairs(events)
        assert pairs.alternatives is not None
        (pairs,) = pairs.alternatives
        return LossDistribution.of(dict(pairs))

    before, after = losses(first), [losses(choice) for choice in choices]

    def reached(epsilon: float) -> float:
        """The delta of whoever takes the worse choice after every loss."""
        return sum(
            mass * max(law.delta(epsilon - loss) for law in after)
            for loss, mass in zip(before.losses, before.masses, strict=True)
        )

    trails = [(Composed(tuple(first)), Composed(tuple(choice))) for choice in choices]
    fixed = worst_respondent(ledger_of(*trails), delta, settled=True)
    in_turn = worst_respondent(ledger_of(*trails), delta, settled=False)
    assert fixed is not None
    assert in_turn is not None
    assert reached(fixed.composition.epsilon) > 1.01 * delta
    assert reached(in_turn.composition.epsilon) <= delta
    assert in_turn.composition.epsilon <= 3.0
    assert not in_turn.composition.tight
    assert in_turn.composition.assumption != fixed.composition.assumption
    alone = worst_respondent(ledger_of([draw(1.0, 5)]), delta, settled=False)
    assert alone is not None
    assert alone.composition.tight


def test_what_is_not_private_is_the_worst() -> None:
    found = worst_respondent(
        ledger_of([draw(1.0)], [Plain(("a",))], [draw(2.0)]), DELTA, settled=True
    )
    assert found is not None
    assert found.party == "party-1"
    assert math.isinf(found.composition.epsilon)


def test_where_nothing_was_told_nobody_is_the_worst() -> None:
    assert worst_respondent(ledger_of(), DELTA, settled=True) is None
    found = worst_respondent(ledger_of([Public()]), DELTA, settled=True)
    assert found is not None
    assert found.composition.epsilon == 0.0


def test_of_too_many_different_accounts_not_all_are_composed() -> None:
    accounts = [[draw(0.1)] * n for n in range(40, 20, -1)]
    whole = worst_respondent(ledger_of(*accounts, [draw(3.0)]), DELTA, settled=True, most=30)
    part = worst_respondent(ledger_of(*accounts, [draw(3.0)]), DELTA, settled=True, most=5)
    assert whole is not None
    assert part is not None
    assert (whole.party, whole.everybody) == ("party-20", True)
    assert (part.party, part.everybody) == ("party-0", False)
    assert worst_respondent(ledger_of(*accounts), DELTA, settled=True, most=0) is None


@pytest.mark.parametrize("delta", [-0.1, 1.0, math.nan])
def test_no_delta(delta: float) -> None:
    with pytest.raises(ValueError, match="delta"):
        worst_respondent(ledger_of([draw(1.0)]), delta, settled=True)
