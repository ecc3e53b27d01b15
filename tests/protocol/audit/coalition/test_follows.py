"""What follows where parties have disclosed their keys and records: they hide nobody in a sum."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from protocol import AGGREGATOR, Coalition, Coins, Merged, Noise, PartyId, PrivacyEvent, SecureSum
from protocol.audit.audit import Audit, audit
from protocol.audit.coalition.judge import alone_in, found
from protocol.audit.disclosure import disclosed_by_seed
from protocol.audit.ledger import LedgerWriter
from protocol.variants import SecureSumVariant
from tests.every_variant import BITS
from tests.protocol.sessions import answers
from tests.recorded.runs import Run, recorded

PARTIES = tuple(PartyId(f"party-{i}") for i in range(1, 6))
ONE, TWO, THREE, FOUR, FIVE = PARTIES
COINS = Noise(trials=40)
BARE = Coins(COINS.trials, COINS.chance, tuple((name,) for name in BITS.names))


@pytest.fixture(scope="module")
def survey() -> Run:
    variant = SecureSumVariant(survey=BITS, sums=SecureSum(noise=COINS))
    return recorded(variant, answers(BITS, 5), parties=5, seeded=False)


def audited(run: Run, names: Sequence[PartyId], *conspiring: PartyId) -> tuple[Audit, LedgerWriter]:
    """An audit that these have let have their keys and records."""
    known = disclosed_by_seed(run.charter, 1, answers(BITS, 5))
    ledger = LedgerWriter(run.charter)
    told = audit(
        lambda: [run.content],
        SecureSumVariant,
        observer=Coalition((AGGREGATOR, *conspiring)),
        disclosed=[each for each in known if each.member in names],
        ledger=ledger,
    )
    return told, ledger


def charged(told: Audit) -> dict[PartyId, PrivacyEvent]:
    """The event of each party's contribution."""
    accounts = told.ledger.everybody.values()
    return {account.party: account.trail[0].event for account in accounts}


@pytest.mark.parametrize(
    ("disclosed", "conspiring", "honest"),
    [
        ([], [], {ONE: 5, TWO: 5, FIVE: 5}),
        ([TWO], [], {ONE: 4, THREE: 4, FIVE: 4}),
        ([TWO], [THREE], {ONE: 3, FOUR: 3, FIVE: 3}),
        ([TWO, THREE], [THREE], {ONE: 3, FOUR: 3, FIVE: 3}),
        ([TWO, THREE], [FOUR], {ONE: 2, FIVE: 2}),
    ],
    ids=str,
)
def test_who_has_disclosed_does_not_count(
    survey: Run, disclosed: list[PartyId], conspiring: list[PartyId], honest: dict[PartyId, int]
) -> None:
    told, _ = audited(survey, disclosed, *conspiring)
    assert told.verdict == "sound"
    events = charged(told)
    for party, number in honest.items():
        assert events[party] == Merged(BARE, number)


def test_who_is_left_alone_is_charged_the_bare_event(survey: Run) -> None:
    told, ledger = audited(survey, [TWO, THREE], FOUR, FIVE)
    assert charged(told)[ONE] == BARE
    coalition = Coalition((AGGREGATOR, FOUR, FIVE))
    finding = found([ledger], coalition)
    assert finding.exposed == (ONE,)
    assert [each.honest for each in finding.sums] == [1]


def test_who_has_disclosed_is_charged_what_others_can_tell_who_have_not_seen_it(
    survey: Run,
) -> None:
    """As if it were one of those who have not: with all of them disclosed each is bare."""
    assert charged(audited(survey, [TWO])[0])[TWO] == Merged(BARE, 5)
    assert charged(audited(survey, [TWO, THREE])[0])[TWO] == Merged(BARE, 4)
    assert set(charged(audited(survey, PARTIES)[0]).values()) == {BARE}


def test_what_the_aggregator_alone_knows_takes_it_off_too(survey: Run) -> None:
    _, ledger = audited(survey, [TWO, THREE])
    alone = alone_in(ledger)
    assert alone is not None
    assert alone.smallest == 3


def test_a_simulation_is_judged_as_if_nobody_had() -> None:
    variant = SecureSumVariant(survey=BITS, sums=SecureSum(noise=COINS))
    run = recorded(variant, answers(BITS, 5), parties=5)
    told, _ = audited(run, PARTIES)
    assert set(charged(told).values()) == {Merged(BARE, 5)}


def test_a_ledger_is_made_once(survey: Run) -> None:
    told, ledger = audited(survey, [], THREE)
    coalition = Coalition((AGGREGATOR, THREE))
    assert ledger.ledger(coalition) is told.ledger
    assert found([ledger], coalition).ledger is told.ledger
    assert ledger.ledger(AGGREGATOR) is told.passed
