"""Audits of honest, faulty and doctored transcripts: each deceit is found and named."""

from __future__ import annotations

import math

import msgspec
import pytest

from protocol import (
    AGGREGATOR,
    RECORD,
    JointReports,
    KeepUniform,
    Kind,
    LinearEstimate,
    Me,
    Message,
    PartyId,
    Public,
    Randomized,
    SurveyError,
    Variant,
)
from protocol.audit.audit import Audit, audit
from protocol.messages import Declined, Envelope
from protocol.session.charter import Charter
from protocol.session.fates import PASS, Fate, FateRule, Verdict
from protocol.transcript.entries import Sent
from protocol.transcript.header import read_charter
from protocol.transcript.reader import TranscriptReader
from protocol.variants import RRIndependent
from protocol.variants.reports.reports import Pooled
from protocol.wire.codec import decode_envelope
from tests.protocol.sessions import SURVEY, Word, talk
from tests.recorded.forgeries import Forgery
from tests.recorded.runs import Run, recorded

PARTIES = 6
ONE, TWO = PartyId("party-1"), PartyId("party-2")
VARIANT = RRIndependent.with_keep(SURVEY, 0.6)


def audited(
    file: bytes, variant: type[Variant] = RRIndependent, observer: PartyId = AGGREGATOR
) -> Audit:
    return audit(lambda: [file], variant, observer=observer)


def texts(found: Audit) -> list[str]:
    return [str(finding) for finding in found.findings]


def losing(*senders: str, verdict: Verdict = Verdict.DROP) -> FateRule:
    """These parties' reports do not arrive."""

    def decide(envelope: Envelope) -> Fate:
        lost = envelope.kind == "Report" and envelope.sender in senders
        return Fate(verdict, 0.0) if lost else PASS

    return decide


@pytest.fixture(scope="module")
def honest() -> Run:
    return recorded(VARIANT)


def doctored(run: Run, message: Message | bytes, kind: str) -> bytes:
    """A file in which the aggregator's message of a kind is another; all else is consistent."""
    forgery = Forgery(run.content)
    [envelope] = [e[2] for e in forgery.entries if e[0] == "Sent" and e[2][4] == kind]
    envelope[5] = message if isinstance(message, bytes) else run.charter.codec.encode(message)
    return forgery.write()


def test_an_honest_run_is_accepted(honest: Run) -> None:
    found = audit(lambda: [honest.content], RRIndependent, digest=honest.digest)
    assert found.verdict == "sound"
    assert found.findings == ()
    assert found.simulated
    assert found.verification.compared
    assert found.replay is not None
    assert found.replay.follows is True
    assert (found.completeness.parties, found.completeness.counted) == (PARTIES, PARTIES)
    assert found.completeness.lost == 0
    assert found.estimate is not None
    assert found.estimate.n == PARTIES
    [closing] = found.completeness.closings
    assert (closing.kind, closing.awaited, closing.counted) == ("Report", PARTIES, PARTIES)


def test_the_ledger_is_that_of_the_observer(honest: Run) -> None:
    expected = sum(math.log1p(r * 0.6 / 0.4) for r in SURVEY.sizes)
    for observer in (AGGREGATOR, RECORD):
        ledger = audited(honest.content, observer=observer).ledger
        assert ledger.record_epsilon == pytest.approx(expected, abs=1e-9)
        assert len(ledger.accounts) == PARTIES
    # What is published is for everybody: a party learns from it about all others.
    ledger = audited(honest.content, observer=ONE).ledger
    assert ledger.record_epsilon == pytest.approx(expected, abs=1e-9)
    assert len(ledger.accounts) == PARTIES - 1
    assert ONE not in ledger.accounts
    with pytest.raises(SurveyError, match="'nobody' is not on the roster of 7 members"):
        audited(honest.content, observer=PartyId("nobody"))


def test_a_party_that_is_told_something_has_a_ledger_too() -> None:
    event = Randomized(KeepUniform.with_keep(2, p=0.5), ("smokes",))

    async def whispering(me: Me) -> None:
        if me.id == ONE:
            await me.send(TWO, Word("psst"))

    async def waiting(me: Me) -> Message:
        return Word("done")

    variant = judged(talk(party=whispering, aggregator=waiting, event=event))
    file = recorded(variant).content
    # The switch relays it: the aggregator learns it as well.
    for observer, learned in ((TWO, math.log(3)), (AGGREGATOR, math.log(3)), (ONE, 0.0)):
        found = audited(file, type(variant), observer)
        assert found.ledger.record_epsilon == pytest.approx(learned, abs=1e-9)
        assert set(found.ledger.accounts) == ({ONE} if learned else set())


def judged(variant: Variant) -> Variant:
    """A talk that can be audited, though its result says nothing about respondents."""

    class Judged(type(variant), frozen=True):
        def estimate(self, result: Message) -> LinearEstimate[JointReports]:
            raise ValueError("just talk")

    found: Variant = Judged(survey=variant.survey)
    return found


def test_another_result_does_not_follow(honest: Run) -> None:
    [pooled] = honest.messages("Pooled")
    counts = pooled.counts.copy()
    counts[0] += 1

    file = doctored(honest, Pooled(pooled.codes, counts), "Pooled")
    found = audited(file)
    assert found.verification.intact
    assert found.verdict == "broken"
    assert found.replay is not None
    assert found.replay.follows is False
    [finding] = found.findings
    text = "the result does not follow: #7: the record has another 'Pooled'"
    assert str(finding).startswith(text)
    [place] = finding.entries
    entry = list(TranscriptReader(file))[place]
    assert isinstance(entry, Sent)
    assert decode_envelope(entry.envelope).kind == "Pooled"
    assert finding.party == AGGREGATOR


def test_a_closing_that_counts_who_did_not_report() -> None:
    run = recorded(VARIANT, fate=losing(TWO))
    [closed] = run.messages("Closed")
    everybody = run.charter.roster.bitmap(run.charter.roster.parties)
    assert closed.counted != everybody
    other = msgspec.structs.replace(closed, counted=everybody)
    found = audited(doctored(run, other, "Closed"))
    assert found.verification.intact
    early, finding = found.findings
    assert str(early) == "'Report' was counted before it was delivered: party-2"
    assert early.party == TWO
    assert "party-2 is counted, but no message of this kind from it was delivered" in str(finding)
    assert early.entries == finding.entries


@pytest.mark.parametrize("counted", [b"\xff", b"\xff\xff", b""])
def test_a_closing_that_names_nobody(honest: Run, counted: bytes) -> None:
    [closed] = honest.messages("Closed")
    body = msgspec.msgpack.encode(["Report", closed.round, 0, closed.awaited, counted])
    found = audited(doctored(honest, body, "Closed"))
    assert found.verdict == "broken"
    assert found.completeness.counted == 0
    assert any("does not follow" in str(finding) for finding in found.findings)


def test_a_report_that_is_left_out_is_found(honest: Run) -> None:
    """The aggregator pretends that party-2 was late, and publishes what follows from that."""
    without = recorded(VARIANT, fate=losing(TWO)).content
    forgery = Forgery(honest.content)
    sent = [e[2] for e in forgery.entries if e[0] == "Sent" and e[2][1] == AGGREGATOR]
    theirs = [e[2] for e in Forgery(without).entries if e[0] == "Sent" and e[2][1] == AGGREGATOR]
    for mine, forged in zip(sent, theirs, strict=True):
        mine[:] = forged
    found = audited(forgery.write())
    assert found.verification.intact
    assert found.replay is not None
    assert found.replay.follows is True
    [closing] = found.completeness.closings
    assert closing.missing == closing.left_out == (TWO,)
    [finding] = found.findings
    assert str(finding) == (
        "'Report' was on record before the closing and was not counted; the aggregator could read "
        "it before it decided: party-2"
    )
    closed, sent, delivered = (forgery.entries[place] for place in finding.entries)
    assert closed[2][4] == "Closed"
    assert sent[2][1:5:3] == [TWO, "Report"]
    assert delivered[0] == "Delivered"
    assert delivered[2] == finding.party == TWO


@pytest.mark.parametrize("verdict", [Verdict.DROP, Verdict.CUT, Verdict.CRASH])
def test_who_is_missing_was_not_left_out(verdict: Verdict) -> None:
    file = recorded(VARIANT, fate=losing(ONE, TWO, verdict=verdict)).content
    found = audited(file)
    assert found.verdict == "sound"
    assert found.completeness.counted == PARTIES - 2
    [closing] = found.completeness.closings
    assert closing.missing == (ONE, TWO)
    assert closing.left_out == ()
    assert found.completeness.lost == (0 if verdict is Verdict.CRASH else 2)
    reasons = {Verdict.DROP: {}, Verdict.CUT: "link cut", Verdict.CRASH: "crashed"}[verdict]
    expected = dict.fromkeys((ONE, TWO), reasons) if reasons else {}
    assert found.completeness.departed == expected
    assert found.estimate is not None
    assert found.estimate.n == PARTIES - 2


def test_who_is_late_was_not_left_out() -> None:
    def decide(envelope: Envelope) -> Fate:
        late = envelope.kind == "Report" and envelope.sender == TWO
        return Fate(Verdict.PASS, 61.0) if late else PASS

    # One more than its patience: whoever waits for the late one waits for a second round.
    file = recorded(VARIANT, fate=decide).content
    found = audited(file)
    assert found.verdict == "sound"
    [closing] = found.completeness.closings
    assert closing.missing == (TWO,)
    assert closing.left_out == ()


def test_who_declined_and_spoke_on_was_not_left_out() -> None:
    async def shy(me: Me) -> None:
        await me.send(AGGREGATOR, Declined("terms"))
        await me.send(AGGREGATOR, Word("but"))

    async def asking(me: Me) -> Message:
        await me.gather(Word, me.roster.parties, within=1.0)
        return Word("done")

    variant = judged(talk(party=shy, aggregator=asking, event=Public()))
    file = recorded(variant).content
    [closing] = audited(file, type(variant)).completeness.closings
    assert len(closing.missing) == PARTIES
    assert closing.left_out == ()


def test_a_record_without_a_result(honest: Run) -> None:
    forgery = Forgery(honest.content)
    place = forgery.place(AGGREGATOR, PARTIES + 1)
    del forgery.entries[place]
    found = audited(forgery.write())
    assert texts(found) == ["nothing was published"]
    assert found.replay is None
    assert found.estimate is None


@pytest.mark.parametrize("complete", [False, True])
def test_a_record_without_an_end(honest: Run, complete: bool) -> None:
    if complete:
        found = audited(honest.content[:-5])
        assert texts(found) == ["the record is incomplete: it has no end"]
    else:
        forgery = Forgery(honest.content)
        forgery.ending = {"complete": False, "reason": "QuorumError"}
        found = audited(forgery.write())
        assert texts(found) == ["the run did not come to its end: QuorumError"]
    assert found.verdict == "incomplete"
    assert found.replay is not None
    assert found.replay.follows is True


def test_another_digest(honest: Run) -> None:
    found = audit(lambda: [honest.content], RRIndependent, digest=bytes(32))
    [finding] = found.findings
    assert "expected 0000" in str(finding)
    assert found.verdict == "broken"


def test_a_broken_record_is_read_as_far_as_it_goes(honest: Run) -> None:
    file = honest.content
    header_ends = 23 + 13 + int.from_bytes(file[24:28], "big") + 32
    for place in range(header_ends, len(file), 97):
        broken = file[:place] + bytes([file[place] ^ 1]) + file[place + 1 :]
        found = audited(broken)
        assert found.verdict == "broken"
        assert found.findings


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("variant", "rr-joint", "of variant 'rr-joint', not of 'rr-independent'"),
        ("kinds", [], "other kinds of message than .* Ask, Closed, Declined, Head, Left, Pooled"),
        ("roster", [["party-1", b"x" * 32]], "invalid header"),
        ("roster", [["aggregator", b"x"]], "invalid header"),
        ("parameters", {}, "does not fit"),
        ("survey", {"title": "x"}, "does not fit"),
    ],
)
def test_a_header_that_does_not_fit(honest: Run, field: str, value: object, says: str) -> None:
    forgery = Forgery(honest.content)
    forgery.header[field] = value
    with pytest.raises(SurveyError, match=says):
        audited(forgery.write())


def test_a_header_that_describes_a_kind_otherwise(honest: Run) -> None:
    forgery = Forgery(honest.content)
    _, _, [[_, codes]] = forgery.header["kinds"][1]
    assert codes[:2] == ["array", "u1"]
    codes[-1] = 255
    with pytest.raises(SurveyError, match=r"than variant 'rr-independent' has: Report$"):
        audited(forgery.write())


class Unwary(RRIndependent, frozen=True):
    """Has not reckoned with what is on record."""

    def estimate(self, result: Message) -> LinearEstimate[JointReports]:
        raise ZeroDivisionError("nobody answered")


class Unready(RRIndependent, frozen=True):
    """Has not reckoned with its own parameters."""

    def kinds(self, parties: int) -> tuple[Kind, ...]:
        raise OverflowError("too many parties")


def test_a_variant_that_fails_is_said_to_fail(honest: Run) -> None:
    with pytest.raises(SurveyError, match="'rr-independent' fails: OverflowError: too many part"):
        audited(honest.content, Unready)
    found = audited(honest.content, Unwary)
    says = "the published result cannot be read: ZeroDivisionError: nobody answered"
    assert texts(found) == [says]
    assert found.estimate is None


@pytest.mark.parametrize("file", [b"", b"GET / HTTP/1.1", b"sottovoce transcript 1\n"])
def test_what_is_no_transcript(file: bytes) -> None:
    with pytest.raises(SurveyError, match="no readable header"):
        audited(file)


def test_the_charter_comes_back(honest: Run) -> None:
    charter = read_charter(TranscriptReader(honest.content).header, RRIndependent)
    assert isinstance(charter, Charter)
    assert charter == honest.charter


def test_a_report_that_nobody_can_read_is_charged_in_full(
    honest: Run,
) -> None:
    forgery = Forgery(honest.content)
    forgery.entries[forgery.place(ONE, 0)][2][5] = b"\x90"
    found = audited(forgery.write())
    [remark] = found.remarks
    assert str(remark).startswith("party-1 #0: ")
    assert (remark.entries, remark.party) == ((forgery.place(ONE, 0),), ONE)
    accounts = {**found.ledger.accounts, **found.ledger.unsigned}
    assert math.isinf(accounts[ONE].loss.record)
    assert math.isfinite(accounts[TWO].loss.record)
    # Nobody could have counted it, so nobody left it out.
    assert any("party-1 is counted" in f or "party-1 #0" in f for f in texts(found)[1:])
