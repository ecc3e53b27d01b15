"""The composition at a delta of the respondent of whom an observer learned most."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from protocol.accounting.composition import Composition, DominatingPairs, ExactAccountant
from protocol.audit.ledger import Account, Ledger
from protocol.messages import PartyId

MOST_JUDGED = 256
"""Maximum number of different accounts that are composed; the others count by pure figures."""


class WorstRespondent(msgspec.Struct, frozen=True):
    """The respondent of whom most was learned at a delta, as far as that was computed.

    Args:
        party: who speaks for her.
        pairs: of laws, which dominate everything that cost something.
        composition: what that tells together.
        everybody: whether the figure bounds what was learned about every respondent of the
            ledger's ``accounts``; if not, it is of one of those whose pure figures are the largest.
    """

    party: PartyId
    pairs: DominatingPairs
    composition: Composition
    everybody: bool


def worst_respondent(
    ledger: Ledger, delta: float, *, settled: bool, most: int = MOST_JUDGED
) -> WorstRespondent | None:
    """The largest epsilon at a delta over a ledger's ``accounts``; None if nothing was told there.

    Accounts are composed from the dearest on, until the pure figures of all that are left, which
    bound theirs, are no larger than what was found.

    Args:
        settled: whether what a message is drawn with follows from the survey's parameters alone,
            and not from what had been told before.
        most: how many different accounts are composed at most.

    Raises:
        UnsupportedEventError: a message was drawn by a randomizer that cannot be composed.
        ValueError: ``delta`` is not from 0 to less than 1.
    """
    accountant = ExactAccountant(delta)
    found: WorstRespondent | None = None
    different = _different(ledger.accounts.values())
    for place, account in enumerate(different):
        if found is not None and account.loss.record <= found.composition.epsilon:
            break
        if place >= most:
            return None if found is None else msgspec.structs.replace(found, everybody=False)
        composition = composed(accountant, account, settled=settled)
        if found is None or composition.epsilon > found.composition.epsilon:
            events = tuple(charge.event for charge in account.trail)
            by_itself = settled or len(events) == 1
            pairs = accountant.pairs(events) if by_itself else accountant.pairs_in_turn(events)
            found = WorstRespondent(account.party, pairs, composition, True)
    return found


def composed(
    accountant: ExactAccountant, account: Account, *, settled: bool, attribute: str | None = None
) -> Composition:
    """The composition of all that was learned of one party's respondents.

    Args:
        settled: as ``worst_respondent`` takes it. Where it is not, and there are several messages,
            the figure is of records that differ in any way.
        attribute: for two records that differ in this attribute alone; else in any way.

    Raises:
        UnsupportedEventError: a message was drawn by a randomizer that cannot be composed.
    """
    events = tuple(charge.event for charge in account.trail)
    if settled or len(events) == 1:
        return accountant.judge(events, attribute)
    return accountant.judge_in_turn(events)


def _different(accounts: Iterable[Account]) -> list[Account]:
    """One account of each trail of events, the dearest first."""
    found: dict[tuple[int, ...], Account] = {}
    for account in accounts:
        # Events that are alike have one loss, as an object: the accountant keeps it.
        found.setdefault(tuple(id(charge.loss) for charge in account.trail), account)
    return sorted(found.values(), key=lambda account: account.loss.record, reverse=True)
