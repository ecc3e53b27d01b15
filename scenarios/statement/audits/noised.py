"""Sums with coins in the verdict: their loss at a delta with enough honest parties."""

from __future__ import annotations

import math

import msgspec

from protocol.accounting.composition import ExactAccountant
from protocol.accounting.events import Coins, Merged, PrivacyEvent, replaced, tells
from protocol.accounting.spending import DELTA, Cost
from protocol.audit.ledger import Ledger
from scenarios.wording.formatting import odds


def noised_by(ledger: Ledger, promised: int | None) -> Cost | None:
    """The largest loss of a respondent in a sum with coins; None without such sums.

    Args:
        promised: as many parties of a sum are honest, at most; None for all whose part is not
            known.
    """

    def among(part: PrivacyEvent) -> PrivacyEvent:
        if isinstance(part, Merged) and promised is not None:
            return msgspec.structs.replace(part, honest=max(1, min(part.honest, promised)))
        return part

    trails = {
        tuple(replaced(charge.event, among) for charge in account.trail): None
        for account in ledger.everybody.values()
        if any(tells(charge.event, Coins) for charge in account.trail)
    }
    accountant = ExactAccountant(DELTA)
    found = [accountant.judge(trail) for trail in trails]
    worst = max(found, key=lambda each: each.epsilon, default=None)
    return None if worst is None else Cost(worst.epsilon, DELTA, (max(1, worst.honest),))


def noised_sentence(noised: Cost, who: str) -> str:
    """Sentence on the loss of one person in a sum with coins."""
    if math.isinf(noised.epsilon):
        return f"the coins in what {who} can learn are too few to hide anybody"
    [honest], rarely = noised.honest, f"but with a probability of {noised.delta:g}"
    if honest == 1:
        return (
            f"the coins of one party alone hide its counts from {who}: odds between two answers "
            f"change by {odds(noised.epsilon)} at most, {rarely}"
        )
    return (
        f"if all others conspire no bound holds; if {honest:,} parties in the sum are honest, what "
        f"{who} can learn of it changes the odds between two answers of a person by "
        f"{odds(noised.epsilon)} at most, {rarely}"
    )
