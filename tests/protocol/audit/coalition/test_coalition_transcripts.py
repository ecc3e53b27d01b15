"""Coalitions before whole transcripts: planted leaks, several sums, ledgers, and odd records."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec
import numpy as np
import pytest

from protocol import (
    AGGREGATOR,
    RECORD,
    Coalition,
    Composed,
    ExactCounts,
    KeepUniform,
    Masked,
    Merged,
    Message,
    OneOf,
    PartyId,
    PrivacyEvent,
    Randomized,
    Records,
    Seen,
    SurveyError,
    judge_coalition,
    judge_sessions,
    worst_coalition,
)
from protocol.audit.coalition import sums as reading_sums
from protocol.audit.coalition.finding import CoalitionFinding
from protocol.audit.hearing import collect_heads
from protocol.audit.ledger import LedgerWriter, merged
from protocol.audit.walk import Walk, steps
from protocol.messages import Envelope, Head
from protocol.session.charter import Charter
from protocol.session.fates import PASS, Fate
from protocol.sharing.messages import Dealt, Graph, Join, Opening, Upload
from protocol.transcript.entries import Entry, Sent
from protocol.variants import PairCounts, PairRR, RRClusters, RRIndependent, SecureSumVariant
from protocol.wire.codec import decode_envelope, encode_envelope
from tests.protocol.sessions import (
    SURVEY,
    Turn,
    answers,
    charter_of,
    envelope,
    holdings_of,
    read_roster,
    rehearsed,
    talk,
)
from tests.protocol.sharing.test_sums import LITERAL, SPARSE, counted, vanishing

PARTIES = tuple(PartyId(f"party-{i}") for i in range(1, 8))
ONE, TWO, THREE, FOUR, FIVE, SIX, SEVEN = PARTIES
ALONE = Coalition((AGGREGATOR,))

COUNTS = SecureSumVariant(survey=SURVEY, sums=SPARSE)


def run(
    variant: Any = COUNTS, gone: dict[PartyId, str] | None = None, *, parties: int = 7
) -> tuple[Charter, dict[PartyId, Records], list[Entry]]:
    charter = charter_of(variant, parties)
    holdings = holdings_of(charter, answers(SURVEY, parties))
    return charter, holdings, rehearsed(charter, holdings, fate=vanishing(gone or {})).entries


def changed(
    charter: Charter,
    entries: Sequence[Entry],
    change: Callable[[Envelope, Message], Message | None],
) -> list[Entry]:
    """The same record with other messages in it."""
    found: list[Entry] = []
    for entry in entries:
        if isinstance(entry, Sent):
            envelope = decode_envelope(entry.envelope)
            other = change(envelope, charter.codec.decode(envelope.kind, envelope.body))
            if other is not None:
                body = charter.codec.encode(other)
                envelope = msgspec.structs.replace(envelope, body=body)
                entry = Sent(at=entry.at, envelope=encode_envelope(envelope))
        found.append(entry)
    return found


def without(
    charter: Charter, entries: Sequence[Entry], lonely: PartyId, friend: PartyId
) -> list[Entry]:
    """A record in which one party shares a mask with a single neighbour."""
    hoods: dict[PartyId, tuple[str, ...]] = {}

    def change(envelope: Envelope, message: Message) -> Message | None:
        to = envelope.recipient
        if isinstance(message, Graph):
            hoods[to] = message.names
        if isinstance(message, Dealt):
            dealt = message.dealt.copy()
            for row, name in enumerate(hoods[to]):
                if (to == lonely and name != friend) or (name == lonely and to != friend):
                    dealt[row] = 0
            return msgspec.structs.replace(message, dealt=dealt)
        return None

    return changed(charter, entries, change)


def sets(finding: CoalitionFinding) -> list[set[str]]:
    return [set(parties) for parties in finding.determined]


def test_a_party_with_one_mask_is_exposed_to_whoever_shares_it() -> None:
    charter, _, entries = run()
    leaky = without(charter, entries, lonely=THREE, friend=FIVE)
    assert judge_coalition(charter, entries, Coalition((AGGREGATOR, FIVE))).exposed == ()
    finding = judge_coalition(charter, leaky, Coalition((AGGREGATOR, FIVE)))
    assert finding.exposed == (THREE,)
    assert finding.smallest == 1
    (found,) = finding.sums
    uploaded = [
        number
        for number, entry in enumerate(leaky)
        if isinstance(entry, Sent)
        and (item := decode_envelope(entry.envelope)).kind == Upload.kind()
        and item.sender == THREE
    ]
    assert set(uploaded) < set(found.entries)
    assert decode_envelope(leaky[found.entries[-1]].envelope).kind == "Tally"
    # The search finds who that is, and that one is enough.
    worst = worst_coalition(charter, leaky, 1)
    assert worst.coalition == Coalition((AGGREGATOR, FIVE))
    assert worst.exact
    assert worst.finding.exposed == (THREE,)
    assert worst_coalition(charter, entries, 1).finding.exposed == ()


def test_two_sessions_tell_what_one_of_them_lacks() -> None:
    charter, holdings, entries = run()
    other = Charter(variant=COUNTS, roster=read_roster(7))
    again = rehearsed(other, holdings, fate=vanishing({FOUR: "Upload"}))
    finding = judge_sessions(
        [(charter, entries, {}), (other, again.entries, {})], Coalition((RECORD,))
    )
    assert sets(finding) == [set(PARTIES) - {FOUR}, {FOUR}]
    assert finding.exposed == (FOUR,)
    assert [found.contributed for found in finding.sums] == [7, 6]
    first, second = (entry_totals(c, e) for c, e in ((charter, entries), (other, again.entries)))
    assert (first - second).tolist() == counted(COUNTS, holdings, [FOUR])
    # What she contributed is known: in both sessions, for it is the same.
    trail = finding.ledger.accounts[FOUR].trail
    assert [charge.event for charge in trail] == [ExactCounts(SURVEY.names)] * 1
    assert [charge.event for charge in finding.ledger.accounts[ONE].trail] == [
        Merged(ExactCounts(SURVEY.names), 6)
    ] * 2
    # Each by itself exposes nobody.
    for c, e in ((charter, entries), (other, again.entries)):
        assert judge_coalition(c, e, Coalition((RECORD,))).exposed == ()


def test_of_sums_that_overlap_nobody_is_counted_on_to_hide_another() -> None:
    """Two sums over six of seven parties each: every contribution counts as if it stood alone."""
    holdings = holdings_of(charter_of(COUNTS, 7), answers(SURVEY, 7))
    sessions = []
    for gone in (FOUR, ONE):
        charter = Charter(variant=COUNTS, roster=read_roster(7))
        again = rehearsed(charter, holdings, fate=vanishing({gone: "Upload"}))
        sessions.append((charter, again.entries, {}))
    finding = judge_sessions(sessions, Coalition((RECORD,)))
    assert finding.exposed == ()
    assert {len(parties) for parties in finding.mixed} == {6}
    told = {charge.event for a in finding.ledger.accounts.values() for charge in a.trail}
    assert told == {Merged(ExactCounts(SURVEY.names), 1)}


def entry_totals(charter: Charter, entries: Sequence[Entry]) -> np.ndarray:
    said = [decode_envelope(entry.envelope) for entry in entries if isinstance(entry, Sent)]
    tally = next(item for item in said if item.kind == "Tally")
    totals: np.ndarray = charter.codec.decode(tally.kind, tally.body).totals.astype(int)
    return totals


@pytest.mark.slow
def test_sums_of_a_record_that_holds_several() -> None:
    """Whoever joins again begins the next sum: here without two others each time."""
    charter, _, first = run(gone={ONE: "Upload", TWO: "Deal"})
    _, _, second = run(gone={ONE: "Join", THREE: "Upload"})
    finding = judge_coalition(charter, [*first, *second], ALONE)
    assert [found.contributed for found in finding.sums] == [5, 5]
    common = {FOUR, FIVE, SIX, SEVEN}
    assert sets(finding) == []
    assert [set(parties) for parties in finding.mixed] == [common | {THREE}, common | {TWO}]
    (pair,) = finding.pairs
    assert ({pair.first, pair.second}, pair.relation) == ({TWO, THREE}, "difference")
    assert finding.exposed == ()
    finding = judge_coalition(charter, [*first, *second], Coalition((AGGREGATOR, TWO)))
    assert finding.exposed == (THREE,)


@pytest.mark.parametrize("sums", [SPARSE, LITERAL], ids=["sparse", "literal"])
def test_who_sees_no_contribution_knows_the_total(sums: Any) -> None:
    charter, _, entries = run(SecureSumVariant(survey=SURVEY, sums=sums))
    seen = 0 if sums is SPARSE else 5
    finding = judge_coalition(charter, entries, Coalition((ONE, TWO)))
    assert finding.sums[0].uploads_seen == seen
    assert sets(finding) == [set(PARTIES[2:])]
    everybody_else = judge_coalition(charter, entries, Coalition(PARTIES[:-1]))
    assert everybody_else.exposed == (SEVEN,)


@pytest.mark.parametrize("opening", ["published", "withheld"])
def test_a_tap_shows_a_contribution_and_a_key_opens_it(
    opening: Literal["published", "withheld"],
) -> None:
    sums = msgspec.structs.replace(SPARSE, opening=opening)
    charter, _, entries = run(SecureSumVariant(survey=SURVEY, sums=sums))
    published = opening == "published"
    wire = ((THREE, AGGREGATOR),)
    tapped = judge_coalition(charter, entries, Coalition((), taps=wire))
    assert tapped.exposed == ()
    (part,) = tapped.sums[0].components
    assert (part.parties, part.determined) == ((THREE,), False)
    others = "masks with parties whose contributions it does not see"
    assert part.hidden_by == (others if published else "masks of their own that it cannot open")
    assert judge_coalition(charter, entries, Coalition((), keys=(THREE,))).exposed == ()
    both = judge_coalition(charter, entries, Coalition((), taps=wire, keys=(THREE,)))
    assert both.exposed == (THREE,)
    assert sets(both) == [set(PARTIES) - {THREE}, {THREE}] or sets(both)[1] == {THREE}
    # The record shows all that passes; with what opens the sum, or with the aggregator's key, it
    # is the aggregator.
    aggregator = judge_coalition(charter, entries, ALONE).sums
    record = judge_coalition(charter, entries, Coalition((RECORD,))).sums
    assert record[0].smallest_component == (7 if published else None)
    assert (record == aggregator) == published
    with_key = judge_coalition(charter, entries, Coalition((RECORD,), keys=(AGGREGATOR,)))
    assert with_key.sums == aggregator


@pytest.mark.parametrize("gone", [{}, {TWO: "Upload"}], ids=["all", "some"])
def test_who_reads_the_record_can_take_the_aggregators_part(gone: dict[PartyId, str]) -> None:
    charter, _, entries = run(gone=gone)
    for members in ((), (ONE,), (ONE, THREE, FOUR), tuple({*PARTIES} - {FIVE})):
        readers, aggregator = (
            judge_coalition(charter, entries, Coalition((who, *members)))
            for who in (RECORD, AGGREGATOR)
        )
        assert sets(readers) == sets(aggregator)
        assert readers.exposed == aggregator.exposed
    assert readers.exposed == (FIVE,)


def test_an_opening_that_cannot_be_read_may_open_all() -> None:
    charter, _, entries = run()

    def garbled(entry: Entry) -> Entry:
        if isinstance(entry, Sent) and kind_of(entry) == Opening.kind():
            item = decode_envelope(entry.envelope)
            other = msgspec.structs.replace(item, body=b"\x00")
            return Sent(at=0, envelope=encode_envelope(other))
        return entry

    finding = judge_coalition(charter, [*map(garbled, entries)], Coalition((RECORD,)))
    assert sets(finding) == [set(PARTIES)]
    assert any("aggregator #" in remark for remark in finding.remarks)
    assert finding.sums[0].smallest_component == 7


def test_a_sum_that_failed_tells_nothing() -> None:
    charter = charter_of(COUNTS, 7)
    holdings = holdings_of(charter, answers(SURVEY, 7))
    trial = rehearsed(charter, holdings, fate=vanishing(dict.fromkeys(PARTIES[:4], "Unmask")))
    assert trial.failure is not None
    parts = [Sent(at=0, envelope=encode_envelope(item)) for item in trial.said()]
    finding = judge_coalition(charter, parts, ALONE)
    (found,) = finding.sums
    assert (found.contributed, found.uploads_seen, found.total_known) == (7, 7, False)
    assert finding.smallest is None
    assert [part.determined for part in found.components] == [False]


def test_a_second_contribution_under_the_same_masks_is_remarked() -> None:
    charter, _, entries = run()
    number, upload = next(
        (number, entry)
        for number, entry in enumerate(entries)
        if isinstance(entry, Sent) and decode_envelope(entry.envelope).kind == Upload.kind()
    )
    finding = judge_coalition(charter, [*entries, upload], ALONE)
    (remark,) = finding.remarks
    assert f"entries {number} and {len(entries)}" in remark
    assert finding.sums[0].contributed == 7


def test_what_is_malformed_is_remarked_and_survived() -> None:
    charter, _, entries = run()

    def broken(entry: Entry) -> Entry:
        if isinstance(entry, Sent):
            item = decode_envelope(entry.envelope)
            if item.kind == Upload.kind() and item.sender == THREE:
                item = msgspec.structs.replace(item, body=b"\x00")
                return Sent(at=0, envelope=encode_envelope(item))
        return entry

    finding = judge_coalition(charter, [Sent(at=0, envelope=b"?"), *map(broken, entries)], ALONE)
    assert len(finding.remarks) == 1
    assert finding.remarks[0].startswith("party-3 #")
    # Its masks are in the others' contributions; what it said itself may be anything.
    assert finding.ledger.accounts[THREE].loss.record == math.inf


@pytest.mark.parametrize(
    "variant",
    [
        PairCounts(survey=SURVEY, sums=SPARSE),
        PairRR.with_keep(SURVEY, 0.6),
        RRClusters(survey=SURVEY, p=0.6, tv=50, td=0.1, dependence="secure-sum"),
        RRClusters(survey=SURVEY, p=0.6, tv=50, td=0.1, dependence="secure-sum", sums=LITERAL),
        RRClusters(survey=SURVEY, p=0.6, tv=50, td=0.1, dependence="pair-rr"),
    ],
    ids=["pair-counts", "pair-rr", "clusters", "clusters-literal", "clusters-pair-rr"],
)
def test_every_variant_that_sums(variant: Any) -> None:
    charter, _, entries = run(variant)
    heads = collect_heads(entries)
    few = judge_coalition(charter, entries, Coalition((AGGREGATOR, ONE, THREE)), heads=heads)
    assert sets(few) == [set(PARTIES) - {ONE, THREE}]
    everybody_else = Coalition((AGGREGATOR, *PARTIES[1:]))
    all_but_one = judge_coalition(charter, entries, everybody_else, heads=heads)
    assert all_but_one.exposed == (ONE,)
    charges = {c.kind: c for c in all_but_one.ledger.accounts[ONE].trail}
    (learned,) = [c for kind, c in charges.items() if kind in ("Upload", "Partial")]
    assert not learned.summed
    randomized = isinstance(learned.event, Composed)
    assert randomized == math.isfinite(all_but_one.ledger.record_epsilon)
    assert randomized or learned.event == ExactCounts(SURVEY.names)
    hidden = [c for c in few.ledger.accounts[TWO].trail if c.summed]
    assert len(hidden) == 1
    assert few.ledger.record_epsilon == pytest.approx(all_but_one.ledger.record_epsilon)


class Changing(SecureSumVariant, frozen=True, kw_only=True):
    """Whose contributions tell different things, as nobody's of this project do."""

    name = "changing"

    def reveals(self, message: Message, seen: Seen) -> PrivacyEvent:
        if isinstance(message, Upload) and message.values[0] % 2:
            return Randomized(KeepUniform.with_keep(2, p=0.5), SURVEY.names)
        return super().reveals(message, seen)


def test_of_contributions_that_tell_different_things_none_hides_another() -> None:
    _, _, entries = run()
    charter = charter_of(Changing(survey=SURVEY, sums=SPARSE), 7)
    [found] = judge_coalition(charter, entries, ALONE).sums
    assert isinstance(found.event, OneOf)
    assert {type(event) for event in found.event.events} == {Masked, Randomized}


def test_a_contribution_to_one_sum_too_many_is_not_left_out_in_silence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    charter, _, entries = run()
    again = [
        each
        for entry in entries
        for each in [entry] * (1 + (isinstance(entry, Sent) and kind_of(entry) == Join.kind()))
    ]
    assert judge_coalition(charter, again, ALONE).whole
    monkeypatch.setattr(reading_sums, "MASKS", 1)
    assert judge_coalition(charter, entries, ALONE).whole
    finding = judge_coalition(charter, again, ALONE)
    assert not finding.whole
    assert any("in one sum too many" in remark for remark in finding.remarks)


def kind_of(entry: Sent) -> str:
    return decode_envelope(entry.envelope).kind


def test_a_variant_without_a_sum() -> None:
    charter, _, entries = run(RRIndependent.with_keep(SURVEY, 0.5))
    heads = collect_heads(entries)
    finding = judge_coalition(charter, entries, Coalition((AGGREGATOR, ONE)), heads=heads)
    assert (finding.sums, finding.determined, finding.smallest) == ((), (), None)
    assert ONE not in finding.ledger.accounts
    assert len(finding.ledger.accounts) == 6
    # Who has not signed is told apart.
    unsigned = judge_coalition(charter, entries, Coalition((AGGREGATOR, ONE))).ledger
    assert (unsigned.unsigned.keys(), unsigned.accounts) == (finding.ledger.accounts.keys(), {})
    worst = worst_coalition(charter, entries, 3, heads=heads)
    assert len(worst.finding.ledger.accounts) == 4
    assert worst.exact
    assert len(worst.coalition.members) == 4


def test_the_ledger_of_a_coalition_is_that_of_its_members_together() -> None:
    charter, _, entries = run(RRClusters(survey=SURVEY, p=0.6, tv=50, td=0.1, dependence="rr"))
    pair = Coalition((ONE, TWO))
    writer = LedgerWriter(charter)
    writer.start(collect_heads(entries))
    for step in steps(charter.codec, entries):
        writer.add(step)

    def learned(observer: Any) -> dict[PartyId, tuple[Any, ...]]:
        return {n: a.trail for n, a in writer.ledger(observer).accounts.items()}

    assert learned(Coalition((ONE,))) == learned(ONE)
    assert learned(ALONE) == learned(AGGREGATOR) == learned(RECORD)
    together = {**learned(ONE), **learned(TWO)}
    assert learned(pair) == {name: t for name, t in together.items() if name not in (ONE, TWO)}
    assert writer.ledger(pair).observer == "party-1, party-2"
    everything = writer.ledger(Coalition((AGGREGATOR, ONE)))
    assert everything.accounts.keys() == learned(AGGREGATOR).keys() - {ONE}


def test_a_tap_on_a_report_is_charged_with_it() -> None:
    """Before anything is published or signed, a party's report is known where its wire is read."""
    charter, _, entries = run(RRIndependent.with_keep(SURVEY, 0.5))
    tap = Coalition((), taps=((THREE, AGGREGATOR),))
    writer = LedgerWriter(charter)
    for step in steps(charter.codec, entries):
        item = step.envelope
        if item is not None and item.kind == Head.kind():
            continue
        if item is not None and (item.sender, item.recipient) == (AGGREGATOR, RECORD):
            break
        writer.add(step)
    assert set(writer.ledger(tap).unsigned) == {THREE}
    assert not writer.ledger(Coalition((), keys=(ONE,))).unsigned


def test_what_is_sent_to_a_member_is_charged_to_the_coalition() -> None:
    event = Randomized(KeepUniform.with_keep(2, p=0.5), ("smokes",))
    charter = charter_of(talk(event=event), 7)
    pairs = (Coalition((TWO, THREE)), Coalition((THREE, FOUR)), Coalition((ONE, TWO)))
    writer = LedgerWriter(charter)
    turn = envelope(charter, ONE, 0, Turn(0, "x"), to=TWO)
    writer.add(Walk(charter.codec).add(Sent(at=0, envelope=encode_envelope(turn))))
    assert [set(writer.ledger(pair).unsigned) for pair in pairs] == [{ONE}, set(), set()]


@pytest.mark.parametrize(
    ("coalition", "why"),
    [
        (Coalition((PartyId("carol"),)), "'carol' is not on the roster of 8 members"),
        (Coalition((ONE,), keys=(PartyId("carol"),)), "'carol' is not on the roster"),
        (Coalition((ONE,), taps=((ONE, PartyId("carol")),)), "'carol' is not on the roster"),
        (Coalition((), taps=((ONE, ONE),)), "tap party-1-party-1: expected two"),
        (Coalition(()), "the coalition is empty"),
    ],
)
def test_coalitions_that_cannot_be(coalition: Coalition, why: str) -> None:
    charter = charter_of(COUNTS, 7)
    with pytest.raises(SurveyError, match=why):
        judge_coalition(charter, [], coalition)


@pytest.mark.parametrize("size", [-1, 7])
def test_sizes_that_cannot_be(size: int) -> None:
    with pytest.raises(SurveyError, match="of 7 parties: expected 0 to 6"):
        worst_coalition(charter_of(COUNTS, 7), list, size)


def test_no_session() -> None:
    with pytest.raises(SurveyError, match="at least one session"):
        judge_sessions([], ALONE)


def test_ledgers_of_several_sessions_add_up() -> None:
    charter, _, entries = run(RRIndependent.with_keep(SURVEY, 0.5))
    heads = collect_heads(entries)
    once = judge_coalition(charter, entries, ALONE, heads=heads).ledger
    twice = merged([once, once])
    assert twice.record_epsilon == pytest.approx(2 * once.record_epsilon)
    assert (twice.attributes, twice.sizes) == (SURVEY.names, SURVEY.sizes)
    assert [len(account.trail) for account in twice.accounts.values()] == [2] * 7
    assert merged([once, msgspec.structs.replace(once, sizes=())]).sizes == ()
    with pytest.raises(ValueError, match="at least one ledger"):
        merged([])


def test_a_contribution_that_came_late_stays_under_its_own_mask() -> None:
    """Its masks with others are opened to take it out of the sum, and so it must have another."""
    charter = charter_of(COUNTS, 7)
    holdings = holdings_of(charter, answers(SURVEY, 7))

    def late(item: Envelope) -> Fate:
        return Fate(delay=1000.0) if (item.sender, item.kind) == (THREE, "Upload") else PASS

    entries = rehearsed(charter, holdings, fate=late).entries
    finding = judge_coalition(charter, entries, ALONE)
    (found,) = finding.sums
    assert (found.contributed, found.uploads_seen) == (7, 7)
    assert sets(finding) == [set(PARTIES) - {THREE}]
    lonely = next(part for part in found.components if part.parties == (THREE,))
    assert (lonely.determined, lonely.hidden_by) == (
        False,
        "masks of their own that it cannot open",
    )
    # Four of its neighbours hold shares enough of it.
    few = judge_coalition(charter, entries, Coalition((AGGREGATOR, ONE, TWO, FOUR)))
    enough = judge_coalition(charter, entries, Coalition((AGGREGATOR, ONE, TWO, FOUR, FIVE)))
    assert few.exposed == ()
    assert THREE in enough.exposed
