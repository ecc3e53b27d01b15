"""Contributions on record that a closing does not count: who was dropped for what was said."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from protocol import AGGREGATOR, Attribute, Me, Message, PartyId, Survey, Variant
from protocol.audit.audit import Audit, audit
from protocol.audit.completeness import CompletenessWriter
from protocol.audit.findings import Finding
from protocol.audit.walk import steps
from protocol.messages import Envelope
from protocol.session.charter import Charter
from protocol.session.fates import PASS, Fate, Verdict
from protocol.transcript.entries import WITHHELD, Delivered, Departed, Entry, Header, Hindered, Sent
from protocol.transcript.header import make_header
from protocol.transcript.recorder import Recorder
from protocol.variants import RRIndependent, SecureSumVariant
from protocol.wire.codec import decode_envelope
from tests.protocol.sessions import Turn, Word, talk
from tests.recorded.forgeries import Forgery
from tests.recorded.runs import Run, Written, recorded, written
from tests.tiers import thinned

PARTIES = 12
QUESTION = Survey("plain", (Attribute(name="smokes", categories=("no", "yes")),))
VARIANT = RRIndependent.with_keep(QUESTION, 0.6)
SEED = 1


def says_yes(run: Run, envelope: Envelope) -> bool:
    return envelope.kind == "Report" and bool(run.message(envelope).codes.any())


@pytest.fixture(scope="module")
def honest() -> Run:
    return recorded(VARIANT, PARTIES, seed=SEED)


@pytest.fixture(scope="module")
def yes(honest: Run) -> tuple[PartyId, ...]:
    return tuple(e.sender for e in honest.said("Report") if says_yes(honest, e))


def without(names: tuple[PartyId, ...], variant: Variant = VARIANT, kind: str = "Report") -> Run:
    """The run of an aggregator that hears everything but what these say."""

    def decide(envelope: Envelope) -> Fate:
        dropped = envelope.kind == kind and envelope.sender in names
        return Fate(Verdict.DROP) if dropped else PASS

    return recorded(variant, PARTIES, seed=SEED, fate=decide, signed=True)


def said(entry: Entry, kind: str) -> Envelope | None:
    """What is sent of a kind."""
    if not isinstance(entry, Sent):
        return None
    envelope = decode_envelope(entry.envelope)
    return envelope if envelope.kind == kind else None


def plain(run: Run) -> list[Entry]:
    """The record of a hub that says nothing of a network that drops or delays."""
    return [entry for entry in run.entries if type(entry).__name__ != "Hindered"]


def closing_in(entries: list[Entry]) -> int:
    [place] = [i for i, entry in enumerate(entries) if said(entry, "Closed")]
    return place


def with_deliveries_after(entries: list[Entry]) -> list[Entry]:
    """What the closing did not wait for is handed over after it, and ignored."""
    handed = {(e.sender, e.seq) for e in entries if isinstance(e, Delivered)}
    at = entries[closing_in(entries)].at
    late: list[Entry] = [
        Delivered(at=at, sender=e.sender, recipient=AGGREGATOR, seq=e.seq, repeat=False)
        for e in map(lambda entry: said(entry, "Report"), entries)
        if e is not None and (e.sender, e.seq) not in handed
    ]
    place = closing_in(entries) + 1
    return [*entries[:place], *late, *entries[place:]]


def header(run: Run, *, simulated: bool) -> Header:
    return make_header(run.charter, seed=run.setting.seed if simulated else None)


def file_of(run: Run, entries: list[Entry], *, simulated: bool = False) -> Written:
    signer = run.setting.identities[AGGREGATOR]
    return written(header(run, simulated=simulated), entries, signer=signer)


def audited(file: Written, variant: Variant = VARIANT) -> Audit:
    return audit(lambda: [file.content], type(variant), checkpoint=file.checkpoint)


def left_out(found: Audit) -> Finding:
    """The one finding of an audit, of a record without other fault."""
    assert found.verification.intact
    assert found.replay is not None
    assert found.replay.follows is True
    [finding] = found.findings
    return finding


READ = (
    "'Report' was on record before the closing and was not counted; the aggregator could read it "
    "before it decided: "
)


@pytest.mark.parametrize("simulated", [False, True])
@pytest.mark.parametrize("delivered", [False, True])
def test_reports_that_are_dropped_for_what_they_say(
    yes: tuple[PartyId, ...], simulated: bool, delivered: bool
) -> None:
    """12 are recorded, the 6 that say yes are not handed over before the wait is closed."""
    assert len(yes) == 6
    run = without(yes)
    entries = plain(run)
    entries = with_deliveries_after(entries) if delivered else entries
    found = audited(file_of(run, entries, simulated=simulated))
    finding = left_out(found)
    assert str(finding) == READ + ", ".join(yes)
    closed, *reports = (entries[place] for place in finding.entries)
    assert said(closed, "Closed")
    assert [e.sender for r in reports if (e := said(r, "Report"))] == list(yes)
    assert finding.party is None
    assert found.verdict == "broken"
    [closing] = found.completeness.closings
    assert closing.missing == closing.left_out == yes
    assert closing.unheard == ()


def test_an_honest_hub_of_a_simulation_says_what_its_network_holds_back(
    yes: tuple[PartyId, ...],
) -> None:
    run = without(yes)
    found = audited(Written(run.content, run.checkpoint))
    assert found.verdict == "sound"
    [closing] = found.completeness.closings
    assert (closing.missing, closing.left_out) == (yes, ())


def test_no_other_record_may_say_that_its_network_holds_something_back(
    yes: tuple[PartyId, ...],
) -> None:
    """Else an aggregator could blame the network for what it drops."""
    run = without(yes)
    forgery = Forgery(run.content)
    forgery.header["seed"] = None
    forgery.notes.clear()
    found = audit(lambda: [forgery.write()], type(VARIANT))
    assert {fault.rule for fault in found.verification.faults} == {"delivery"}
    assert found.verdict == "broken"


def test_what_was_held_back_and_delivered_in_time_has_to_be_counted(
    yes: tuple[PartyId, ...],
) -> None:
    run = without(yes)
    place = closing_in([*run.entries])
    [envelope] = run.said("Report", yes[0])
    came = Delivered(at=0, sender=yes[0], recipient=AGGREGATOR, seq=envelope.seq, repeat=False)
    entries = [*run.entries[:place], came, *run.entries[place:]]
    finding = left_out(audited(file_of(run, entries, simulated=True)))
    assert str(finding) == READ + yes[0]
    assert finding.party == yes[0]
    closed, sent, delivered = finding.entries
    assert (closed, delivered) == (place + 1, place)
    assert said(entries[sent], "Report") == envelope


@pytest.mark.parametrize("reason", ["closed its link", "crashed"])
def test_a_party_that_has_left_since_is_left_out_all_the_same(
    yes: tuple[PartyId, ...], reason: str
) -> None:
    run = without(yes)
    # Without the departures at the end: nobody leaves twice.
    entries = [entry for entry in plain(run) if not isinstance(entry, Departed)]
    place = closing_in(entries)
    quiet = [entry for entry in entries[place:] if said(entry, "Head") is None]
    gone = [Departed(at=0, party=name, reason=reason) for name in yes]
    found = audited(file_of(run, [*entries[:place], *gone, *quiet]))
    assert str(left_out(found)) == READ + ", ".join(yes)


def test_who_speaks_after_the_closing_is_late(yes: tuple[PartyId, ...]) -> None:
    run = without(yes)
    entries = plain(run)
    place = closing_in(entries)
    late = [e for e in entries[:place] if said_or_left_by(e, yes)]
    early = [e for e in entries[:place] if e not in late]
    found = audited(file_of(run, [*early, entries[place], *late, *entries[place + 1 :]]))
    assert found.verdict == "sound"
    [closing] = found.completeness.closings
    assert (closing.missing, closing.left_out) == (yes, ())


def said_or_left_by(entry: Entry, names: tuple[PartyId, ...]) -> bool:
    if isinstance(entry, Sent):
        return decode_envelope(entry.envelope).sender in names
    return isinstance(entry, Departed) and entry.party in names


def test_a_closing_put_before_reports_that_were_acknowledged_is_another_record(
    yes: tuple[PartyId, ...],
) -> None:
    """Made to be late afterwards: what was acknowledged is in a checkpoint, in its place."""
    run = without(yes)
    entries = plain(run)
    place = closing_in(entries)
    recorder = Recorder(
        lambda part: None,
        header(run, simulated=False),
        signer=run.setting.identities[AGGREGATOR],
        secret=bytes(32),
        acknowledging=True,
    )
    for entry in entries[:place]:
        if isinstance(entry, Sent):
            recorder.sent(decode_envelope(entry.envelope), now=entry.at / 1e6)
        elif isinstance(entry, Delivered):
            envelope = run.sent[entry.sender, entry.seq]
            recorder.delivered(envelope, now=entry.at / 1e6)
        elif isinstance(entry, Departed):
            recorder.departed(entry.party, entry.reason, now=entry.at / 1e6)
    given = recorder.acknowledge()
    assert given.keys() >= set(yes)
    acknowledged = recorder.checkpoint
    assert acknowledged is not None
    late = [e for e in entries[:place] if said_or_left_by(e, yes)]
    early = [e for e in entries[:place] if e not in late]
    for moved, rules in (
        (entries, set()),
        ([*early, entries[place], *late, *entries[place + 1 :]], {"published"}),
    ):
        file = file_of(run, moved)
        found = audit(lambda file=file: [file.content], type(VARIANT), checkpoint=acknowledged)
        assert {fault.rule for fault in found.verification.faults} == rules
        assert found.verdict == "broken"


# Other waits


def left_out_of(charter: Charter, entries: Iterable[Entry]) -> list[tuple[PartyId, ...]]:
    """Of every closing, who was left out of it."""
    writer = CompletenessWriter(charter, seed=SEED)
    for step in steps(charter.codec, entries):
        writer.add(step)
    return [closing.left_out for closing in writer.completeness().closings]


ALL = tuple(PartyId(f"party-{number}") for number in range(1, 5))


def rounds(at_least: int) -> Variant:
    """Three rounds, each answered by everybody."""

    async def answer(me: Me) -> None:
        for number in range(3):
            await me.receive(Turn, AGGREGATOR, round=number)
            await me.send(AGGREGATOR, Turn(number, me.id))

    async def ask(me: Me) -> Message:
        for number in range(3):
            await me.broadcast(ALL, Turn(number, ""))
            await me.gather(Turn, ALL, round=number, within=5.0, at_least=at_least)
        return Word("over")

    return talk(party=answer, aggregator=ask)


def dropping(*slots: tuple[PartyId, int]) -> Callable[[Envelope], Fate]:
    """These are not heard: by sender and number."""

    def decide(envelope: Envelope) -> Fate:
        lost = (envelope.sender, envelope.seq) in slots and envelope.recipient == AGGREGATOR
        return Fate(Verdict.DROP) if lost else PASS

    return decide


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("at_least", [0, 3, 4])
def test_each_of_several_waits_is_judged(number: int, at_least: int) -> None:
    """Also where too few are counted then, and the survey fails."""
    run = recorded(rounds(at_least), 4, fate=dropping((ALL[1], number)))
    failed = at_least > 3
    assert (run.result is None) == failed
    expected = [(ALL[1],) if i == number else () for i in range(number + 1 if failed else 3)]
    assert left_out_of(run.charter, plain(run)) == expected
    assert left_out_of(run.charter, run.entries) == [()] * len(expected)


def test_an_answer_that_comes_before_its_question_is_on_record() -> None:
    """It waits for its round, and the rounds before are not those that it is left out of."""

    async def answer(me: Me) -> None:
        for number in (2, 1, 0):
            await me.send(AGGREGATOR, Turn(number, me.id))

    async def ask(me: Me) -> Message:
        for number in range(3):
            await me.gather(Turn, ALL, round=number, within=5.0)
        return Word("over")

    run = recorded(talk(party=answer, aggregator=ask), 4, fate=dropping((ALL[3], 0)))
    assert left_out_of(run.charter, plain(run)) == [(), (), (ALL[3],)]
    assert left_out_of(run.charter, run.entries) == [(), (), ()]


@pytest.mark.parametrize("verdict", [Verdict.DROP, Verdict.CUT, Verdict.CRASH, Verdict.DUPLICATE])
@pytest.mark.parametrize("delay", [0.0, 3.0, 5.0, 30.0])
def test_faults_of_a_simulation_leave_nobody_out(verdict: Verdict, delay: float) -> None:
    verdict = Verdict.PASS if delay else verdict

    def decide(envelope: Envelope) -> Fate:
        hit = envelope.sender in ALL[:2] and envelope.recipient == AGGREGATOR
        return Fate(verdict, delay) if hit else PASS

    run = recorded(rounds(0), 4, fate=decide)
    assert left_out_of(run.charter, run.entries) == [(), (), ()]


def test_an_abandoned_attempt_has_left_nobody_out(yes: tuple[PartyId, ...]) -> None:
    """Its wait was never closed, whatever was on record and not handed over."""
    run = without(yes)
    entries = plain(run)
    signer = run.setting.identities[AGGREGATOR]
    file = written(
        header(run, simulated=False),
        entries[: closing_in(entries)],
        signer=signer,
        complete=False,
        reason="abandoned",
    )
    found = audited(file)
    assert [str(finding) for finding in found.findings] == [
        "the run did not come to its end: abandoned",
        "nothing was published",
    ]


def test_a_closing_in_ranges_is_judged_by_its_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else an aggregator could say the first range at once, and choose among all others."""
    for module in ("protocol.session.closings", "protocol.wire.codec"):
        monkeypatch.setattr(f"{module}.CLOSING_MEMBERS", 8)
    monkeypatch.setattr("protocol.session.closings._BYTES", 1)
    names = (PartyId("party-03"), PartyId("party-11"))
    run = without(names)
    entries = plain(run)
    first, second = (i for i, entry in enumerate(entries) if said(entry, "Closed"))
    assert second == first + 1
    assert left_out_of(run.charter, entries) == [names]
    # The first range is said before anybody has answered.
    asked = max(i for i, entry in enumerate(entries) if said(entry, "Ask")) + 1
    early = [*entries[:asked], entries[first], *entries[asked:first], *entries[second:]]
    assert left_out_of(run.charter, early) == [names]


@pytest.mark.parametrize(
    ("kind", "could"),
    thinned(
        [
            ("Join", "the aggregator could read it before it decided"),
            (
                "Deal",
                "before it decided the aggregator could read what in it is not sealed for other "
                "parties",
            ),
            (
                "Upload",
                "before it decided the aggregator could see that it was there, and no value in it: "
                "they are masked",
            ),
        ],
        2,
    ),
)
def test_a_contribution_to_a_sum_that_is_left_out(kind: str, could: str) -> None:
    """Of what is masked or sealed, it is said what the aggregator could know."""
    variant = SecureSumVariant(survey=QUESTION)
    one = PartyId("party-05")
    run = without((one,), variant, kind)
    found = audited(file_of(run, plain(run)), variant)
    [finding, *_] = found.findings
    says = f"{kind!r} was on record before the closing and was not counted; {could}: {one}"
    assert str(finding) == says
    assert (finding.party, found.verdict) == (one, "broken")
    assert audited(Written(run.content, run.checkpoint), variant).verdict == "sound"


def test_of_many_the_first_are_named() -> None:
    names = tuple(PartyId(f"party-{number:02}") for number in range(1, 31))

    def decide(envelope: Envelope) -> Fate:
        return Fate(Verdict.DROP) if envelope.sender in names[:25] else PASS

    run = recorded(VARIANT, 60, seed=SEED, fate=decide, signed=True)
    found = audited(file_of(run, plain(run)))
    [finding] = [f for f in found.findings if "on record" in str(f)]
    assert str(finding).endswith("party-20 and 5 more")


@pytest.mark.parametrize("seed", [SEED + 1, WITHHELD], ids=["another seed", "withheld"])
def test_a_network_that_is_blamed_without_its_seed_excuses_nobody(
    seed: Any, yes: tuple[PartyId, ...]
) -> None:
    """An aggregator writes a seed into the header of a real survey, and drops by content."""
    run = without(yes)
    out = bytearray()
    recorder = Recorder(
        out.extend,
        make_header(run.charter, seed=seed),
        signer=run.setting.identities[AGGREGATOR],
        secret=bytes(32),
    )
    for entry in run.entries:
        now = entry.at / 1e6
        if isinstance(entry, Sent):
            recorder.sent(decode_envelope(entry.envelope), now=now)
        elif isinstance(entry, Departed):
            recorder.departed(entry.party, entry.reason, now=now)
        elif isinstance(entry, Delivered):
            recorder.delivered(run.sent[entry.sender, entry.seq], now=now)
        elif isinstance(entry, Hindered):
            recorder.hindered(run.sent[entry.sender, entry.seq], now=now)
    recorder.close()
    found = audit(lambda: [bytes(out)], type(VARIANT))
    assert found.verdict == "broken"
    [closing] = found.completeness.closings
    assert set(closing.left_out) == set(yes)
