"""The local executor: deterministic, in simulated time, and never stuck."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from protocol import (
    AGGREGATOR,
    LocalProtocolError,
    Me,
    Message,
    PartyId,
    Plain,
    ProtocolError,
    QuorumError,
)
from protocol.messages import DONE, LINK_CLOSED, Envelope
from protocol.session.fates import PASS, Fate, FateRule, Verdict
from protocol.transcript.entries import Delivered, Departed
from protocol.transcript.verification import verify
from protocol.variants import RRIndependent
from protocol.variants.reports.reports import Pooled
from tests.protocol.sessions import (
    SURVEY,
    Role,
    Turn,
    Word,
    answers,
    charter_of,
    everywhere,
    holdings_of,
    rehearsed,
    talk,
)
from tests.recorded.runs import Run, fate_of

ONE, TWO, THREE = (PartyId(f"party-{i}") for i in (1, 2, 3))


def run_talk(
    party: Role,
    aggregator: Role,
    *,
    fate: FateRule = lambda envelope: PASS,
    present: Sequence[PartyId] = (ONE, TWO, THREE),
) -> Run:
    charter = charter_of(talk(party=party, aggregator=aggregator))
    holdings = {name: answers(SURVEY, 1) for name in present}
    return rehearsed(charter, holdings, fate=fate)


async def answer(me: Me) -> None:
    """Answer one question."""
    await me.receive(Word, AGGREGATOR)
    await me.send(AGGREGATOR, Word(me.id[-1]))


async def ask(me: Me) -> Message:
    """Ask all, publish who has answered."""
    parties = me.roster.parties
    await me.broadcast(parties, Word("?"))
    words = await me.gather(Word, parties, within=10.0)
    return Word("".join(word.text for word in words.values()))


def sent_by(outcome: Run, name: PartyId) -> int:
    """How many envelopes of a member are on record."""
    return dict(verify(outcome.content).sent_by)[name]


def ending(outcome: Run) -> dict[PartyId, str]:
    return dict(outcome.endings)


def test_a_survey() -> None:
    charter = charter_of(RRIndependent.with_keep(SURVEY, 0.7), parties=30)
    outcome = everywhere(charter, holdings_of(charter, answers(SURVEY, 30)))
    assert isinstance(outcome.published, Pooled)
    assert outcome.published.counts.sum() == 30
    assert set(outcome.endings.values()) == {DONE}
    again = rehearsed(charter, holdings_of(charter, answers(SURVEY, 30)))
    assert again.content == outcome.content
    other = rehearsed(charter, holdings_of(charter, answers(SURVEY, 30, seed=6)))
    assert other.digest != outcome.digest


def test_one_party_of_many_respondents() -> None:
    variant = RRIndependent(
        survey=SURVEY,
        randomizers=RRIndependent.with_keep(SURVEY, 0.7).randomizers,
        max_records=5000,
    )
    charter = charter_of(variant, parties=3)
    outcome = everywhere(charter, holdings_of(charter, answers(SURVEY, 10_000)))
    assert isinstance(outcome.published, Pooled)
    assert int(outcome.published.counts.astype(np.int64).sum()) == 10_000


def test_everybody_answers() -> None:
    outcome = run_talk(answer, ask)
    assert outcome.published == Word("123")
    assert ending(outcome) == dict.fromkeys((ONE, TWO, THREE), DONE)


def test_who_has_no_records_never_comes() -> None:
    outcome = run_talk(answer, ask, present=(ONE, THREE))
    assert outcome.published == Word("13")
    assert ending(outcome)[TWO] == "never came"
    assert all(entry.at == 0 for entry in outcome.entries)


@pytest.mark.parametrize(
    ("verdict", "end", "sent"), [(Verdict.CRASH, "crashed", 0), (Verdict.CUT, "link cut", 1)]
)
def test_a_party_that_is_lost_is_not_waited_for(verdict: Verdict, end: str, sent: int) -> None:
    outcome = run_talk(answer, ask, fate=fate_of(Fate(verdict), sender=TWO))
    assert outcome.published == Word("13")
    assert ending(outcome)[TWO].endswith(end)
    departed = [e for e in outcome.entries if isinstance(e, Departed) and e.party == TWO]
    assert [e.reason for e in departed] == [end]
    assert all(entry.at == 0 for entry in outcome.entries)
    assert sent_by(outcome, TWO) == sent


def test_what_is_dropped_is_waited_for_in_simulated_time() -> None:
    outcome = run_talk(answer, ask, fate=fate_of(Fate(Verdict.DROP), sender=TWO))
    assert outcome.published == Word("13")
    assert ending(outcome)[TWO] == DONE


def test_a_dropped_question_ends_its_party_with_the_session() -> None:
    def lose(envelope: Envelope) -> Fate:
        return Fate(Verdict.DROP) if envelope.recipient == TWO else PASS

    outcome = run_talk(answer, ask, fate=lose)
    assert outcome.published == Word("13")
    assert ending(outcome)[TWO].endswith("missing: aggregator")


def test_what_is_duplicated_counts_once() -> None:
    charter = charter_of(talk(party=answer, aggregator=ask))
    holdings = {name: answers(SURVEY, 1) for name in charter.roster.parties}
    outcome = everywhere(charter, holdings, fate=fate_of(Fate(Verdict.DUPLICATE)))
    assert outcome.published == Word("123")
    assert outcome.digest == rehearsed(charter, holdings).digest
    repeats = [e for e in outcome.entries if isinstance(e, Delivered) and e.repeat]
    assert repeats


@pytest.mark.parametrize(("delay", "result"), [(9.0, "123"), (11.0, "13")])
def test_what_is_late(delay: float, result: str) -> None:
    late = fate_of(Fate(delay=delay), sender=TWO)
    charter = charter_of(talk(party=answer, aggregator=ask))
    holdings = {name: answers(SURVEY, 1) for name in charter.roster.parties}
    outcome = everywhere(charter, holdings, fate=late)
    assert outcome.published == Word(result)


def test_time_jumps_from_deadline_to_deadline() -> None:
    async def patient(me: Me) -> Message:
        missing = 0
        for round_ in range(5):
            missing += 3 - len(await me.gather(Turn, me.roster.parties, round=round_, within=1e6))
        return Word(str(missing))

    async def wait(me: Me) -> None:
        await me.gather(Word, (AGGREGATOR,))

    outcome = run_talk(wait, patient)
    assert outcome.published == Word("15")
    assert outcome.entries[-1].at == 5_000_000_000_000


def test_nothing_overtakes_what_is_late() -> None:
    """Envelopes that become due together go before what is sent at that very moment."""

    async def speak(me: Me) -> None:
        if me.id != ONE:
            return
        await me.send(TWO, Turn(0, "a"))
        await me.send(AGGREGATOR, Turn(0, "b"))
        await me.send(AGGREGATOR, Turn(1, "c"))
        await me.receive(Word, AGGREGATOR)
        await me.send(AGGREGATOR, Turn(2, "d"))

    async def listen(me: Me) -> Message:
        first = await me.receive(Turn, ONE, round=0)
        await me.send(ONE, Word("go on"))
        second = await me.receive(Turn, ONE, round=1)
        third = await me.receive(Turn, ONE, round=2)
        return Word(first.text + second.text + third.text)

    outcome = run_talk(speak, listen, fate=fate_of(Fate(delay=5.0), kind="Turn"))
    assert outcome.published == Word("bcd")

    def only_early(envelope: Envelope) -> Fate:
        return Fate(delay=5.0) if envelope.kind == "Turn" and envelope.seq < 3 else PASS

    charter = charter_of(talk(party=speak, aggregator=listen))
    holdings = {name: answers(SURVEY, 1) for name in charter.roster.parties}
    outcome = rehearsed(charter, holdings, fate=only_early)
    assert outcome.published == Word("bcd")
    seqs = [
        e.seq
        for e in outcome.entries
        if isinstance(e, Delivered) and (e.sender, e.recipient) == (ONE, AGGREGATOR)
    ]
    assert seqs == [1, 2, 3]


def test_a_party_that_fails_is_counted_out() -> None:
    async def stumble(me: Me) -> None:
        if me.id == TWO:
            raise ZeroDivisionError("x")
        await answer(me)

    outcome = run_talk(stumble, ask)
    assert outcome.published == Word("13")
    assert "ZeroDivisionError" in ending(outcome)[TWO]
    left = [e for e in outcome.entries if isinstance(e, Departed) and e.party == TWO]
    assert [e.reason for e in left] == [LINK_CLOSED]


def test_a_party_over_budget_declines() -> None:
    charter = charter_of(talk(party=answer, aggregator=ask, event=Plain(("smokes",))))
    holdings = {name: answers(SURVEY, 1) for name in charter.roster.parties}
    outcome = rehearsed(charter, holdings, budget=1.0)
    assert outcome.published == Word("")
    assert all("costs inf" in end for end in ending(outcome).values())


async def wait_for_two(me: Me) -> None:
    """Wait for somebody who waits too."""
    await me.receive(Word, TWO if me.id != TWO else THREE)


def test_when_everybody_waits_the_run_ends_with_an_error() -> None:
    async def wait(me: Me) -> Message:
        await me.gather(Turn, me.roster.parties, round=0)
        return Word("never")

    with pytest.raises(ProtocolError, match=r"aggregator.*deadlock.*'Turn'"):
        assert run_talk(wait_for_two, wait).published


def test_parties_that_wait_for_each_other_do_not_hold_up_the_rest() -> None:
    async def publish(me: Me) -> Message:
        return Word("done")

    outcome = run_talk(wait_for_two, publish)
    assert outcome.published == Word("done")
    assert all("deadlock" in end for end in ending(outcome).values())


def test_the_aggregators_failure_is_raised() -> None:
    async def fail(me: Me) -> Message:
        raise KeyError("x")

    async def quorate(me: Me) -> Message:
        await me.gather(Word, me.roster.parties, within=1.0, at_least=1)
        return Word("x")

    async def nothing(me: Me) -> None:
        return None

    with pytest.raises(LocalProtocolError, match="KeyError"):
        assert run_talk(answer, fail).published
    with pytest.raises(QuorumError, match="party-1, party-2, party-3"):
        assert run_talk(answer, quorate).published
    with pytest.raises(LocalProtocolError, match="published nothing"):
        assert run_talk(answer, nothing).published


def test_words_to_who_has_left_are_on_record_and_never_delivered() -> None:
    async def to_the_gone(me: Me) -> Message:
        await me.gather(Word, me.roster.parties, within=1.0)
        await me.broadcast(me.roster.parties, Word("goodbye"))
        return Word("x")

    async def leave(me: Me) -> None:
        return None

    outcome = run_talk(leave, to_the_gone)
    assert sent_by(outcome, AGGREGATOR) == 5
    assert not [e for e in outcome.entries if isinstance(e, Delivered)]
