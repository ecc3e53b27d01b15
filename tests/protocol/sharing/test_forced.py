"""Aggregator and colluders who force a sum to protect less than was agreed: exactly to its bounds.

They call honest parties absent, to isolate a part; have two survivor sets confirmed; and hand out a
charter that promises less. What they learn is what their ledger charges.
"""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from protocol import (
    AGGREGATOR,
    Coalition,
    Coins,
    Merged,
    Message,
    Noise,
    PartyId,
    PrivacyError,
    PrivacyEvent,
    SecureSum,
    judge_coalition,
)
from protocol.audit.coalition.finding import CoalitionFinding
from protocol.messages import Envelope
from protocol.sharing.messages import Begin, Dealt, Graph, Survivors, Unmask, Upload
from protocol.transcript.entries import Entry, Sent
from protocol.variants import SecureSumVariant
from protocol.wire.codec import encode_envelope
from tests.protocol.eavesdropper import Eavesdropper
from tests.protocol.sessions import (
    STREAMS,
    SURVEY,
    charter_of,
    envelope,
    identities_of,
    machine_of,
    words_sent,
)
from tests.protocol.sharing.test_conspiracies import Colluding, Conspiracy, colluding
from tests.protocol.sharing.test_sums import counted
from tests.protocol.sharing.test_sums_attacks import Rewrite, attacked, surviving
from tests.recorded.runs import Run

assert colluding  # A fixture.

COINS = Noise(trials=40)
TABLES = tuple((name,) for name in SURVEY.names)
BARE = Coins(COINS.trials, COINS.chance, TABLES)
SUMS = [
    pytest.param(SecureSum(), 12, id="twelve"),
    pytest.param(SecureSum(corrupt=0.3, dropped=0.25), 8, id="eight"),
]


def charged(finding: CoalitionFinding) -> dict[PartyId, PrivacyEvent]:
    """The events of contributions, by party."""
    return {
        account.party: charge.event
        for account in finding.ledger.everybody.values()
        for charge in account.trail
        if charge.kind == Upload.kind()
    }


def said(run: Run) -> list[Entry]:
    return [Sent(at=0, envelope=encode_envelope(item)) for item in run.said()]


# Parties that are called absent


def calling_absent(gone: list[int], parties: int, kind: type[Message]) -> Rewrite:
    """Everybody else is told that some have not come, from a round on, and not to unmask them."""
    hoods: dict[PartyId, tuple[str, ...]] = {}
    away = {f"party-{place + 1}" for place in gone}
    told = surviving([place not in gone for place in range(parties)])

    def rewrite(item: Envelope, message: Message) -> Message | None:
        to = item.recipient
        if isinstance(message, Graph):
            hoods[to] = message.names
        if isinstance(message, Survivors):
            return told
        if to in away or kind is not type(message) or not isinstance(message, Graph | Dealt):
            return None
        there = np.array([name not in away for name in hoods[to]], np.uint8)
        field = "there" if isinstance(message, Graph) else "dealt"
        return msgspec.structs.replace(message, **{field: getattr(message, field) & there})

    return rewrite


@pytest.mark.parametrize("kind", [Survivors, Graph, Dealt])
@pytest.mark.parametrize(("sums", "n"), SUMS)
def test_who_is_called_absent_leaves_as_many_as_are_promised(
    sums: SecureSum, n: int, kind: type[Message]
) -> None:
    """As many as may be missing are isolated, and the sum over the rest is learned; no more."""
    found = sums.withstands(n)
    for more in (0, 1):
        gone = list(range(found.missing + more))
        run, holdings = attacked(calling_absent(gone, n, kind), sums, parties=n, everyone=False)
        names = run.charter.roster.parties
        honest, bad = names[: n - found.colluders], names[n - found.colluders :]
        rest = honest[len(gone) :]
        coalition = Coalition((AGGREGATOR, *bad))
        finding = judge_coalition(run.charter, said(run), coalition)
        unmasked = {item.sender for item in run.said() if item.kind == Unmask.kind()}
        if more:
            assert not unmasked & set(rest)
            assert finding.determined == ()
            continue
        assert set(rest) <= unmasked
        assert set(finding.determined) == {rest}
        assert len(rest) == found.honest
        spy = Eavesdropper(run.charter, said(run), coalition, identities_of(run.charter), STREAMS)
        total, _ = spy.uncovered(rest, sums.degree(n).threshold)
        variant = run.charter.variant
        assert isinstance(variant, SecureSumVariant)
        assert total.tolist() == counted(variant, holdings, list(rest))


@pytest.mark.parametrize(("sums", "n"), SUMS)
def test_what_is_charged_is_the_sum_over_those_who_are_left(sums: SecureSum, n: int) -> None:
    sums = msgspec.structs.replace(sums, noise=COINS)
    found = sums.withstands(n)
    gone = list(range(found.missing))
    run, _ = attacked(calling_absent(gone, n, Survivors), sums, parties=n, everyone=False)
    names = run.charter.roster.parties
    coalition = Coalition((AGGREGATOR, *names[n - found.colluders :]))
    events = charged(judge_coalition(run.charter, said(run), coalition))
    for name in names[found.missing : n - found.colluders]:
        assert events[name] == Merged(BARE, found.honest)


# Two survivor sets


@pytest.mark.parametrize("n", [5, 9, 12])
def test_the_ledger_of_two_survivor_sets_is_what_was_read(n: int, colluding: Colluding) -> None:
    sums = SecureSum(corrupt=0.1, dropped=0.2, noise=COINS)
    withstood = sums.withstands(n).colluders
    for colluders in (withstood, withstood + 1):
        conspiracy = Conspiracy(n, colluders, sums)
        colluding(conspiracy.corrupt)
        beside = max(0, sums.degree(n).threshold - colluders)
        read = conspiracy.read(min(beside, n - colluders - 1))
        coalition = Coalition((AGGREGATOR, *conspiracy.corrupt))
        finding = judge_coalition(conspiracy.charter, conspiracy.said, coalition)
        event = charged(finding)[conspiracy.victim]
        if colluders == withstood:
            assert read is None
            assert finding.exposed == ()
            assert event == Merged(BARE, n - colluders)
        else:
            assert read is not None
            assert conspiracy.victim in finding.exposed
            assert event == BARE


# A charter that promises less


@pytest.mark.parametrize(("corrupt", "promised"), [(0.25, 4), (0.375, 3)])
def test_who_demands_what_was_promised_declines_less(corrupt: float, promised: int) -> None:
    sums = SecureSum(corrupt=corrupt, dropped=0.25)
    assert sums.promised(8) == promised
    charter = charter_of(SecureSumVariant(survey=SURVEY, sums=sums), 8)
    machine = machine_of(charter, "party-1", honest=4)
    machine.start(0.0)
    begin = envelope(charter, AGGREGATOR, 0, Begin(SURVEY.digest), to="party-1")
    machine.receive(begin, 0.0)
    kinds = [item.kind for item in words_sent(machine)]
    assert kinds == ["Join" if promised == 4 else "Declined"]
    assert promised == 4 or isinstance(machine.failure, PrivacyError)
