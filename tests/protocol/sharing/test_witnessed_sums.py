"""Sums whose survivors witnesses certify: who conspires, who is missing, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from protocol import AGGREGATOR, RECORD, Message, PartyId, ProtocolError, SecureSum
from protocol.messages import Envelope
from protocol.session.charter import Charter
from protocol.sharing.messages import Begin, Dealt, Graph, Survivors
from protocol.sharing.sums import find_secure_sum
from protocol.simulation.setting import make_setting
from protocol.transcript.certifying import Certificate, certified_leaf
from protocol.transcript.reader import Records
from protocol.transcript.resuming import catch_up
from protocol.variants import SecureSumVariant
from tests.every_variant import Example, examples
from tests.protocol.cosigners import Asking, Cosigner, certificate, named
from tests.protocol.sessions import (
    SURVEY,
    answers,
    charter_of,
    envelope,
    holdings_of,
    identities_of,
    machine_of,
    rehearsed,
    setting_in,
)
from tests.protocol.sharing.test_conspiracies import Colluding, Conspiracy, colluding, splits
from tests.protocol.sharing.test_sums import exact, vanishing
from tests.protocol.sharing.test_sums_attacks import change, flipped, rewriting
from tests.protocol.transcript.test_resuming import Resumed
from tests.recorded.runs import Run
from tests.tiers import slow

__all__ = ["colluding"]

ONE, TWO = PartyId("party-1"), PartyId("party-2")


def sums_with(*cosigners: Cosigner, needed: int | None = None, dropped: float = 0.25) -> SecureSum:
    return SecureSum(dropped=dropped, corrupt=0.0, witnesses=named(*cosigners, needed=needed))


def surveyed(sums: SecureSum, parties: int = 8) -> Charter:
    return charter_of(SecureSumVariant(survey=SURVEY, sums=sums, everyone=True), parties)


def witnessed(
    charter: Charter, cosigners: Sequence[Cosigner], gone: Sequence[str] = (), **options: Any
) -> tuple[Run, dict[PartyId, Any]]:
    """A session whose aggregator asks these witnesses."""
    holdings = holdings_of(charter, answers(SURVEY, charter.parties))
    asking = Asking(charter, identities_of(charter)[AGGREGATOR], *cosigners)
    fate = vanishing(dict.fromkeys(map(PartyId, gone), "Upload"))
    return rehearsed(charter, holdings, fate=fate, outside=asking, **options), holdings


class WitnessedConspiracy(Conspiracy):
    """The same, before witnesses: each camp is shown what witnesses give for its survivors."""

    def __init__(self, parties: int, colluders: int, sums: SecureSum, *cosigners: Cosigner) -> None:
        super().__init__(parties, colluders, sums)
        self.cosigners = cosigners
        self.shown: dict[bytes, Certificate] = {}

    def _tell(self, name: PartyId, camp: int, message: Message) -> list[Message]:
        if not isinstance(message, Survivors):
            return super()._tell(name, camp, message)
        statement = certified_leaf(message)
        if statement not in self.shown:
            self.shown[statement] = certificate(
                self.identities[AGGREGATOR], self.charter.session, statement, self.cosigners
            )
        said = super()._tell(name, camp, self.shown[statement])
        return said + super()._tell(name, camp, message)


@pytest.mark.parametrize("n", [6, 9, slow(12)])
def test_an_aggregator_that_equivocates_reads_counts_without_a_witness_and_none_with_one(
    n: int, colluding: Colluding
) -> None:
    """Between Theorem 1's bound and t - 1, however the honest are split in two camps."""
    plain = SecureSum(dropped=0.34, corrupt=0)
    witness = Cosigner()
    sums = SecureSum(dropped=0.34, corrupt=0, witnesses=named(witness))
    t, before, now = plain.degree(n).threshold, plain.withstands(n), sums.withstands(n)
    assert (now.colluders, now.unwitnessed) == (t - 1, before.colluders)
    assert before.colluders < now.colluders
    for c in range(before.colluders + 1, now.colluders + 1):
        found = []
        for beside in splits(n, c):
            conspiracy = Conspiracy(n, c, plain)
            colluding(conspiracy.corrupt)
            found.append(conspiracy.read(beside))
            watched = WitnessedConspiracy(n, c, sums, Cosigner())
            colluding(watched.corrupt)
            assert watched.read(beside) is None
        assert conspiracy.truth in found


def test_the_camp_that_the_witness_did_not_certify_refuses(colluding: Colluding) -> None:
    witness = Cosigner()
    sums = SecureSum(dropped=0.34, corrupt=0, witnesses=named(witness))
    plain = SecureSum(dropped=0.34, corrupt=0)
    n, c = 12, plain.withstands(12).colluders + 1
    conspiracy = WitnessedConspiracy(n, c, sums, witness)
    colluding(conspiracy.corrupt)
    beside = plain.degree(n).threshold - c
    assert conspiracy.read(beside) is None
    # It was told the second set: the certificate of that has the aggregator's signature alone.
    refused = conspiracy.honest[1 + beside :]
    assert conspiracy.failed == list(refused)
    failure = conspiracy.machines[refused[0], 0].failure
    assert "0 of 1 witnesses have cosigned it, expected 1" in str(failure)


def test_where_too_few_witnesses_are_honest_the_sum_withstands_what_it_did(
    colluding: Colluding,
) -> None:
    plain = SecureSum(dropped=0.34, corrupt=0)
    n, c = 12, plain.withstands(12).colluders + 1
    liars = (Cosigner(1, honest=False), Cosigner(2, honest=False), Cosigner(3))
    sums = SecureSum(dropped=0.34, corrupt=0, witnesses=named(*liars, needed=2))
    assert sums.withstands(n).trusted == 3
    conspiracy = WitnessedConspiracy(n, c, sums, *liars)
    colluding(conspiracy.corrupt)
    assert conspiracy.read(plain.degree(n).threshold - c) == conspiracy.truth
    # With all three demanded one honest one is enough.
    three = SecureSum(dropped=0.34, corrupt=0, witnesses=named(*liars))
    assert three.withstands(n).trusted == 1
    watched = WitnessedConspiracy(n, c, three, liars[0], liars[1], Cosigner(3))
    colluding(watched.corrupt)
    assert watched.read(plain.degree(n).threshold - c) is None


@pytest.mark.parametrize("gone", [(), ("party-3",), ("party-3", "party-8")])
def test_a_witnessed_sum_is_exact_and_replays(gone: Sequence[str]) -> None:
    witness = Cosigner()
    charter = surveyed(sums_with(witness))
    run, holdings = witnessed(charter, [witness], gone)
    exact(run, holdings, [name for name in holdings if name not in gone])
    assert witness.asked == 1
    for member in (AGGREGATOR, ONE):
        assert run.replay(member).follows is True


SUMMING = [
    example
    for example in examples()
    if (sums := find_secure_sum(example.variant)) is not None and sums.profile == "sparse"
]


@pytest.mark.parametrize("example", SUMMING, ids=lambda example: example.name)
def test_every_variant_that_sums_can_be_witnessed(example: Example) -> None:
    witness = Cosigner()
    sums = find_secure_sum(example.variant)
    assert sums is not None
    sums = msgspec.structs.replace(sums, witnesses=named(witness))
    variant = msgspec.structs.replace(example.variant, sums=sums)
    setting = make_setting(variant, example.records, seed=1)
    asking = Asking(setting.charter, setting.identities[AGGREGATOR], witness)
    run = Run(setting, outside=asking, signed=True)
    assert run.follows() is True
    # Neighbours that only compare what they hold unmask nothing.
    assert (witness.asked == 1) is bool(run.said("Unmask"))


def test_nobody_unmasks_without_enough_cosignatures() -> None:
    one, two = Cosigner(1), Cosigner(2)
    charter = surveyed(sums_with(one, two))
    run, _ = witnessed(charter, [one])
    assert "'Survivors' was not certified: 1 of 2 witnesses have cosigned it, expected 2" in str(
        run.failure
    )
    assert run.messages("Survivors") == run.messages("Unmask") == []


def test_a_run_without_anybody_to_ask_fails_in_one_line() -> None:
    witness = Cosigner()
    charter = surveyed(sums_with(witness))
    run = rehearsed(charter, holdings_of(charter, answers(SURVEY, 8)))
    assert isinstance(run.failure, ProtocolError)
    assert "'Survivors' was not certified: expected 1 of 1 witnesses to cosign it" in str(
        run.failure
    )
    assert run.messages("Unmask") == []


def others(kind: str) -> Callable[[Charter, Cosigner], Any]:
    """A certificate of something else than this survey's survivors."""

    def made(charter: Charter, witness: Cosigner) -> Any:
        signer = identities_of(charter)[AGGREGATOR if kind != "signer" else ONE]
        session = bytes(32) if kind == "session" else charter.session
        told = Survivors(charter.roster.bitmap(charter.roster.parties))
        if kind == "message":
            told = Survivors(charter.roster.bitmap(charter.roster.parties[1:]))
        number = 1 if kind == "number" else 0
        found = certificate(signer, session, certified_leaf(told), [witness], number)
        return msgspec.structs.replace(found, round=0).note

    return made


FALSE = {
    "another message": (others("message"), "the certificate is of another message"),
    "another session": (others("session"), "the certificate is of another log"),
    "another number": (others("number"), "the certificate is of another log"),
    "another signer": (others("signer"), "the certificate is of another log"),
    "a broken note": (lambda charter, witness: "x", "a malformed certificate"),
}


@pytest.mark.parametrize("what", FALSE)
def test_a_certificate_of_anything_else_is_refused(what: str) -> None:
    make, why = FALSE[what]
    witness = Cosigner()
    charter = surveyed(sums_with(witness))
    note = make(charter, Cosigner())
    hub = rewriting(charter.codec, change("Certificate", None, ONE, note=note))
    run, holdings = witnessed(charter, [witness], exchange=hub)
    # The others live without it, and it is seen on record who refused.
    exact(run, holdings, list(holdings))
    assert run.refusals().keys() == {ONE}
    assert why in run.refusals()[ONE]
    assert run.said("Unmask", ONE) == []
    # What the aggregator sent does not follow from what witnesses gave it.
    assert run.replay(AGGREGATOR).follows is False


def test_a_survivor_without_a_mask_may_be_in_another_sum() -> None:
    """All told one set, two halves that have no masks with each other would be two sums."""
    witness = Cosigner()
    charter = surveyed(sums_with(witness))
    hub = rewriting(charter.codec, change("Deal", TWO, boxes=flipped()))
    run, holdings = witnessed(charter, [witness], exchange=hub)
    exact(run, holdings, list(holdings))
    [why] = run.refusals().values()
    assert f"no mask with the survivors {TWO}: they may be in another sum" in why


@pytest.mark.parametrize("witness", [None, Cosigner()])
def test_halves_that_are_told_one_set_and_no_masks_with_each_other_are_two_sums(
    witness: Cosigner | None,
) -> None:
    """Between the bounds, where each half is no more than may be missing: a witness sees one set.

    So its certificate alone would not do: honest parties that lack a mask refuse.
    """
    sums = SecureSum(dropped=0.25, corrupt=0) if witness is None else sums_with(witness)
    charter = surveyed(sums, 12)
    halves = (["party-1", "party-2", "party-3"], ["party-4", "party-5", "party-6"])
    hoods: dict[PartyId, Sequence[str]] = {}

    def rewrite(item: Envelope, message: Message) -> Message | None:
        if isinstance(message, Graph):
            hoods[item.recipient] = message.names
        if not isinstance(message, Dealt):
            return None
        apart = [o for h, o in (halves, halves[::-1]) if item.recipient in h]
        flags = message.dealt.copy()
        for row, name in enumerate(hoods[item.recipient]):
            flags[row] &= not (apart and name in apart[0])
        return msgspec.structs.replace(message, dealt=flags)

    cosigners = [] if witness is None else [witness]
    run, _ = witnessed(charter, cosigners, exchange=rewriting(charter.codec, rewrite))
    unmasked = {item.sender for item in run.said("Unmask")}
    honest = {PartyId(name) for half in halves for name in half}
    if witness is None:
        # Three neighbours were taken from each, and so many may be missing.
        assert honest <= unmasked
    else:
        assert honest.isdisjoint(unmasked)
        assert all("no mask with the survivors" in run.refusals()[name] for name in honest)


def test_a_replay_checks_what_witnesses_have_cosigned() -> None:
    """An aggregator that puts a certificate on record that is none is found by its record alone."""
    witness = Cosigner()
    charter = surveyed(sums_with(witness))
    note = FALSE["another message"][0](charter, Cosigner())

    def rewrite(item: Envelope, message: Message) -> Message | None:
        if isinstance(message, Certificate):
            return msgspec.structs.replace(message, note=note)
        return None

    run, _ = witnessed(charter, [witness], exchange=rewriting(charter.codec, rewrite))
    assert run.follows() is False
    found = run.replay(AGGREGATOR)
    assert "'Survivors' was not certified: the certificate is of another message" in str(
        found.differences
    )


def test_an_aggregator_that_goes_on_asks_for_what_it_has_not() -> None:
    """It says again what is on record; a certificate that is not there, witnesses give again."""
    witness = Cosigner()
    charter = surveyed(sums_with(witness))
    holdings = holdings_of(charter, answers(SURVEY, 8))
    asking = Asking(charter, identities_of(charter)[AGGREGATOR], witness)
    run = Run(setting_in(charter, holdings), outside=asking, signed=True)
    records, words = list(Records(run.content)), run.said(sender=AGGREGATOR)
    place = {item.seq: number for number, item in enumerate(words)}
    [first] = [item.seq for item in run.said("Certificate") if item.recipient == RECORD]
    asked = []
    for cut in range(1, len(records) + 1, 3):
        resumed = Resumed(run, records[:cut])
        rest = catch_up(resumed.machine, resumed.past, start=0.0)
        known = resumed.past.words.count
        assert [*words[:known], *rest] == words[: known + len(rest)]
        if resumed.machine.asks is not None:
            asked.append(cut)
            assert known + len(rest) == place[first]
            resumed.machine.tell(asking(resumed.machine.asks), 0.0)
            assert resumed.machine.take()[0] == words[place[first]]
        elif known > place[first]:
            assert resumed.past.obtained.keys() == {("Certificate", 0)}
    assert asked


def test_who_conspires_is_said_with_the_witnesses() -> None:
    sums = sums_with(Cosigner(1), Cosigner(2), Cosigner(3), needed=2)
    found = sums.withstands(12)
    assert (found.colluders, found.unwitnessed, found.missing) == (7, 5, 3)
    assert (found.witnesses, found.trusted, found.honest) == (3, 3, 2)
    # In a sparse graph two sums do not take two survivor sets.
    sparse, plain = sums.withstands(1000), SecureSum(dropped=0.25, corrupt=0).withstands(1000)
    assert (sparse.colluders, sparse.adaptive) == (plain.colluders, plain.adaptive)


@pytest.mark.parametrize(("demand", "joins"), [(7, True), (8, False)])
def test_a_demand_counts_on_honest_witnesses(demand: int, joins: bool) -> None:
    charter = surveyed(sums_with(Cosigner()), 12)
    machine = machine_of(charter, "party-1", withstand=demand)
    machine.start(0.0)
    variant = charter.variant
    machine.receive(envelope(charter, AGGREGATOR, 0, Begin(variant.survey.digest), to=ONE), 0.0)
    assert (machine.failure is None) is joins
    if not joins:
        assert "the sum withstands 7 who conspire" in str(machine.failure)


def test_terms_without_witnesses_are_what_they_were() -> None:
    assert "witnesses" not in msgspec.to_builtins(SecureSum())
    assert "Certificate" not in surveyed(SecureSum(dropped=0.25)).codec.names


def test_a_literal_sum_has_no_witnesses() -> None:
    with pytest.raises(ValueError, match="sparse profile"):
        SecureSum(profile="literal", witnesses=named(Cosigner()))
