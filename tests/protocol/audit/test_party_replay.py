"""Replays of parties with their own keys and records, on transcripts of every variant."""

from __future__ import annotations

from typing import Literal

import msgspec
import pytest

from protocol import AGGREGATOR, Me, Message, PartyId, Records, SecureSum, SurveyError
from protocol.audit.audit import audit
from protocol.audit.disclosure import Disclosure, disclosed_by_seed
from protocol.audit.replay import ReplayWriter
from protocol.audit.walk import steps
from protocol.messages import ROLE_STREAM, Envelope
from protocol.session.fates import PASS, Fate, Verdict
from protocol.transcript.entries import Delivered, Departed, Sent
from protocol.variants import RRIndependent, SecureSumVariant
from protocol.wire.codec import decode_envelope, encode_envelope
from tests.every_variant import BITS, PARTIES, Example, examples
from tests.protocol.sessions import SURVEY, Turn, Word, answers, talk
from tests.recorded.runs import fate_of, recorded, replay_member
from tests.tiers import slow, thinned

ONE, TWO = PartyId("party-1"), PartyId("party-2")
EVERY = pytest.mark.parametrize(
    "example", thinned(examples(), 12), ids=lambda example: example.name
)


@EVERY
def test_everybody_follows(example: Example) -> None:
    run = recorded(*example, parties=PARTIES)
    writer = ReplayWriter(run.charter, disclosed_by_seed(run.charter, 1, example.records))
    for step in steps(run.charter.codec, run.entries):
        writer.add(step)
    replays = writer.replays()
    assert len(replays) == PARTIES + 1
    for name, replay in replays.items():
        assert replay.follows is True, (name, replay.differences, replay.why)
        assert replay.compared == len(run.places(name)) > 0
        assert (replay.tolerated, replay.unsaid) == ((), 0)


@EVERY
def test_a_party_that_said_something_else_is_found(example: Example) -> None:
    """Its last words, changed in one bit of the last byte of the body."""
    run = recorded(*example, parties=PARTIES)
    place = run.places(TWO)[-1]
    entry = run.entries[place]
    assert isinstance(entry, Sent)
    envelope = decode_envelope(entry.envelope)
    body = envelope.body[:-1] + bytes([envelope.body[-1] ^ 1])
    other = encode_envelope(msgspec.structs.replace(envelope, body=body))
    changed = [*run.entries[:place], Sent(at=0, envelope=other), *run.entries[place + 1 :]]
    replay = run.replay(TWO, changed)
    assert replay.follows is False
    [finding] = replay.differences
    assert f"the record has another {envelope.kind!r}, which does not follow" in str(finding)
    assert (finding.entries, finding.party) == ((place,), TWO)
    assert run.replay(ONE, changed).follows is True


@pytest.mark.parametrize("keyed", [False, True])
@EVERY
def test_without_a_seed_no_key_is_needed(example: Example, keyed: bool) -> None:
    run = recorded(*example, parties=PARTIES, seeded=False)
    key = Disclosure(member=AGGREGATOR, identity=run.setting.identities[AGGREGATOR])
    found = audit(lambda: [run.content], type(example.variant), disclosed=[key] if keyed else [])
    assert found.verdict == "sound"
    assert found.replay is not None
    assert found.replay.follows is True
    assert not found.simulated


@pytest.mark.parametrize("opening", ["published", "withheld"])
def test_a_sum_that_was_changed_is_found(opening: Literal["published", "withheld"]) -> None:
    """It takes the aggregator's key where nobody else knows what opens the sum."""
    sums = SecureSum(opening=opening)
    run = recorded(SecureSumVariant(survey=BITS, sums=sums), seeded=False)
    place = run.places(AGGREGATOR)[-1]
    entry = run.entries[place]
    assert isinstance(entry, Sent)
    tally = run.charter.codec.decode("Tally", decode_envelope(entry.envelope).body)
    totals = tally.totals.copy()
    totals[:2] = totals[1::-1] if totals[0] != totals[1] else (totals[0] + 1, totals[1] - 1)
    changed = run.retold(place, msgspec.structs.replace(tally, totals=totals))
    own = run.setting.identities[AGGREGATOR]
    known = Disclosure(member=AGGREGATOR, identity=own)
    replay = replay_member(run.charter, known, changed)
    assert replay.follows is False
    keyless = replay_member(run.charter, Disclosure(member=AGGREGATOR), changed)
    assert keyless.follows is (None if opening == "withheld" else False)


def test_other_records_do_not_lead_to_the_same_report() -> None:
    run = recorded(RRIndependent.with_keep(BITS, 0.9))
    other = Records(BITS, 1 - run.setting.holdings[ONE].codes)
    assert run.replay(ONE, records=other).follows is False


def test_other_randomness_does_not_lead_to_the_same_report() -> None:
    run = recorded(RRIndependent.with_keep(BITS, 0.1), answers(BITS, 20 * PARTIES), parties=PARTIES)
    stream = run.setting.streams.stream(TWO, ROLE_STREAM)
    assert run.replay(ONE, stream=stream).follows is False


@pytest.mark.parametrize("verdict", [slow(Verdict.DROP), Verdict.CUT, Verdict.CRASH])
@EVERY
def test_a_party_whose_link_ends_said_what_follows(example: Example, verdict: Verdict) -> None:
    run = recorded(*example, parties=PARTIES, fate=fate_of(Fate(verdict), ONE, seq=0))
    for name in run.charter.roster.parties:
        replay = run.replay(name)
        assert replay.follows is True, (name, replay.differences)
        assert replay.compared == len(run.places(name))
    crashed = run.replay(ONE)
    assert (crashed.unsaid > 0) == (verdict is Verdict.CRASH)


def test_a_report_that_is_not_on_record_is_missed() -> None:
    """The holder of the record leaves out what a party had said before it closed its link."""
    run = recorded(RRIndependent.with_keep(BITS, 0.6))
    [place] = run.places(TWO)
    without = [
        entry
        for i, entry in enumerate(run.entries)
        if i != place and not (isinstance(entry, Delivered) and entry.sender == TWO)
    ]
    [finding] = run.replay(TWO, without).differences
    assert str(finding) == "#0: 'Report' follows but is not on record"
    lost = [
        Departed(at=0, party=TWO, reason="link cut")
        if isinstance(entry, Departed) and entry.party == TWO
        else entry
        for entry in without
    ]
    replay = run.replay(TWO, lost)
    assert (replay.follows, replay.unsaid) == (True, 1)


def test_a_report_before_its_question_is_found() -> None:
    run = recorded(RRIndependent.with_keep(BITS, 0.6))
    entries = list(run.entries)
    [place] = run.places(TWO)
    asked = next(
        i for i, e in enumerate(entries) if isinstance(e, Delivered) and e.recipient == TWO
    )
    assert asked < place
    entries.insert(asked, entries.pop(place))
    replay = run.replay(TWO, entries)
    assert replay.follows is False
    assert "'Report' was said before what it follows from had been delivered" in str(
        replay.differences[0]
    )


def test_whether_a_budget_was_exceeded_cannot_be_told() -> None:
    run = recorded(RRIndependent.with_keep(BITS, 0.6), budget=0.1)
    replay = run.replay(ONE)
    assert (replay.follows, replay.differences) == (None, ())
    assert "declined" in replay.why


async def waiting(me: Me) -> None:
    """Hears what others say to it, for a while; what is told depends on who came in time."""
    others = [name for name in me.roster.parties if name != me.id]
    await me.broadcast(others, Word(me.id))
    heard = await me.gather(Word, others, within=5.0)
    await me.send(AGGREGATOR, Turn(0, "+".join(word.text for word in heard.values())))


async def collecting(me: Me) -> Message:
    turns = await me.gather(Turn, me.roster.parties, round=0, within=60.0)
    return Word(" ".join(turn.text for turn in turns.values()))


def test_a_partys_deadlines_are_those_of_its_closings() -> None:
    def decide(envelope: Envelope) -> Fate:
        between = envelope.sender == ONE and envelope.recipient != AGGREGATOR
        return Fate(Verdict.PASS, 7.0) if between else PASS

    run = recorded(talk(party=waiting, aggregator=collecting), fate=decide)
    for name in run.charter.roster.parties:
        replay = run.replay(name)
        assert replay.follows is True, replay.differences
    place = run.places(TWO)[-1]
    forged = run.retold(place, Turn(0, "+".join(n for n in run.charter.roster.parties if n != TWO)))
    assert run.replay(TWO, forged).follows is False


def test_records_that_are_not_those_of_the_run_are_refused() -> None:
    run = recorded(RRIndependent.with_keep(BITS, 0.6))
    with pytest.raises(SurveyError, match="does not follow from the transcript's seed"):
        list(disclosed_by_seed(run.charter, 2, answers(BITS, PARTIES)))
    with pytest.raises(SurveyError):
        list(disclosed_by_seed(run.charter, 1, answers(BITS, PARTIES - 1)))
    with pytest.raises(SurveyError, match="another survey"):
        list(disclosed_by_seed(run.charter, 1, answers(SURVEY, PARTIES)))


def test_what_is_disclosed_does_not_show() -> None:
    run = recorded(RRIndependent.with_keep(BITS, 0.6))
    assert repr(run.disclosed(ONE)) == "Disclosure('party-1')"


def test_an_audit_names_the_party() -> None:
    run = recorded(RRIndependent.with_keep(BITS, 0.9))
    other = Records(BITS, 1 - run.setting.holdings[TWO].codes)
    found = audit(
        lambda: [run.content],
        RRIndependent,
        disclosed=[run.disclosed(ONE), run.disclosed(TWO, records=other)],
    )
    assert [replay.follows for replay in found.replays] == [True, False]
    [finding] = found.findings
    assert str(finding).startswith("party-2 #0: the record has another 'Report'")
    assert finding.entries == tuple(run.places(TWO))
    assert found.verdict == "broken"
    with pytest.raises(SurveyError, match="'nobody' is not on the roster"):
        audit(
            lambda: [run.content], RRIndependent, disclosed=[Disclosure(member=PartyId("nobody"))]
        )
