"""The composition at a delta for the respondent that an observer learned most about."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from protocol.accounting.composition import Composition, DominatingPairs, ExactAccountant
from protocol.audit.ledger import Account, Ledger
from protocol.messages import PartyId

MOST_JUDGED = 256
"""Maximum number of different accounts that are composed; the others count by pure figures."""


class WorstRespondent(msgspec.Struct, frozen=True):
    """The respondent with the largest epsilon at a delta, among those computed.

    Args:
        party: the respondent's party.
        pairs: pairs of laws that dominate all events with a cost.
        composition: the composition of these events.
        everybody: whether the figure bounds that of every respondent of the ledger's ``accounts``;
            if not, it is of one of those with the largest pure figures.
    """

    party: PartyId
    pairs: DominatingPairs
    composition: Composition
    everybody: bool


def worst_respondent(
    ledger: Ledger, delta: float, *, settled: bool, most: int = MOST_JUDGED
) -> WorstRespondent | None:
    """The largest epsilon at a delta over a ledger's ``accounts``; None if they are empty.

    Accounts are composed by falling pure figures, until the pure figure of the next, which bounds
    all that are left, is at most the largest epsilon found.

    Args:
        settled: whether the randomizers of messages follow from the survey's parameters alone, and
            not from earlier messages.
        most: the most different accounts to compose.

    Raises:
        UnsupportedEventError: a message was drawn by a randomizer that cannot be composed.
        ValueError: ``delta`` is not from 0 to less than 1.
    """
    accountant = ExactAccountant(delta)
    found: WorstRespondent | None = None
    different = _distinct_accounts(ledger.accounts.values())
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
        settled: as for ``worst_respondent``. If false, and with several messages, the figure is
            for records that differ in any way.
        attribute: the only attribute in which the two records differ; None if they may differ in
            any way.

    Raises:
        UnsupportedEventError: a message was drawn by a randomizer that cannot be composed.
    """
    events = tuple(charge.event for charge in account.trail)
    if settled or len(events) == 1:
        return accountant.judge(events, attribute)
    return accountant.judge_in_turn(events)


def _distinct_accounts(accounts: Iterable[Account]) -> list[Account]:
    """One account of each trail of events, the dearest first."""
    found: dict[tuple[int, ...], Account] = {}
    for account in accounts:
        # Events that are alike have one loss, as an object: the accountant keeps it.
        found.setdefault(tuple(id(charge.loss) for charge in account.trail), account)
    return sorted(found.values(), key=lambda account: account.loss.record, reverse=True)
