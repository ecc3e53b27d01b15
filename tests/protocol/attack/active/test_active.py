"""Active attacks: planted faults are found and made small, and honest parties are left alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np
import pytest

from protocol import (
    AGGREGATOR,
    KeepElseTable,
    Me,
    PrivacyError,
    PrivacyEvent,
    Randomized,
    Records,
    Variant,
)
from protocol.attack.active.active import attack_actively, replay_script
from protocol.attack.active.charging import Ledgers
from protocol.attack.active.script import HONEST, Edit, Move, Script, Source
from protocol.attack.active.second_runs import Word, repeated
from protocol.attack.active.twins import compared, play_conduct
from protocol.attack.active.worlds import Library, Study, make_library, play
from protocol.messages import Head
from protocol.testing import unmoved
from protocol.variants import RRBA, PrivKVMVariant, RRIndependent, SecureSumVariant
from protocol.variants.reports.reports import Ask
from protocol.variants.rrba.rrba import Answers, Question
from tests.every_variant import BITS, FILMS
from tests.recorded.runs import answers

A = TypeVar("A")
R = TypeVar("R")

FIVE = answers(BITS, 5)
FEW = 24
"""Scripts that are enough to find what is planted here."""


class Choosy(RRIndependent, frozen=True):
    """Refuses a question with another threshold if its first answer is the second category."""

    name = "choosy"

    async def party(self, me: Me, records: Records) -> None:
        ask = await me.receive(Ask, AGGREGATOR)
        if ask.blocks != self.blocks and records.codes[0, 0]:
            raise PrivacyError("not with this answer")
        await me.send(AGGREGATOR, self.answer(records, ask, me.stream_for(ask)))


class Trusting(RRBA, frozen=True, kw_only=True):
    """Answers with whatever table it is asked with, and charges for a uniform one."""

    name = "trusting"

    def _excess(self, tables: Mapping[int, KeepElseTable]) -> str:
        return ""

    def _event(self, answers: Answers, question: Question) -> PrivacyEvent:
        (group,) = np.unique(answers.groups).tolist()
        weights = (1 << 62,) * 4
        table = KeepElseTable(threshold=self.plan.thresholds[group], weights=weights)
        return Randomized(table, self.plan.group_names[group])


def study_of(variant: Variant) -> Study:
    return Study(variant=variant, records=FIVE, target=0, seed=1)


@pytest.mark.slow
def test_a_planted_refusal_is_found_and_made_small_and_plays_again() -> None:
    variant = Choosy.with_keep(BITS, 0.5)
    found = attack_actively(variant, FIVE, scripts=FEW)
    assert found.accused
    (finding,) = found.findings
    assert (finding.rule, finding.attributes) == ("outward", ("a",))
    assert len(finding.script.moves) == 1
    assert "Declined" in finding.what
    assert replay_script(variant, FIVE, finding.script) == (finding,)
    assert replay_script(variant, FIVE, HONEST) == ()
    with pytest.raises(AssertionError, match=r"a: .* Declined"):
        unmoved(variant, FIVE, scripts=FEW)()


@pytest.mark.slow
def test_an_attack_follows_from_its_seed_wherever_it_is_carried_out() -> None:
    def backwards(kernel: Callable[[A], R], arguments: Sequence[A]) -> list[R]:
        return [kernel(argument) for argument in reversed(arguments)][::-1]

    variant = RRIndependent.with_keep(BITS, 0.5)
    first = attack_actively(variant, FIVE, scripts=4, trials=200)
    again = attack_actively(variant, FIVE, scripts=4, trials=200, carried=backwards)
    assert first == again
    assert not first.findings
    assert first.tried == 4
    (charged,) = first.charged
    assert charged.kind == "Report"
    assert "one draw of KeepUniform on a" in charged.why
    assert charged.epsilon == pytest.approx(np.log(3))


@pytest.mark.slow
def test_a_false_table_that_is_charged_as_the_agreed_one_is_found_by_counting() -> None:
    variant = Trusting(survey=BITS, p=0.5, block=5)
    edit = Edit(("weights",), "move", cells=(0, 1), value=-1)
    script = Script((Move("rewrite", "Question", edits=(edit,)),))
    (finding,) = replay_script(variant, FIVE, script, trials=2_000)
    assert finding.rule == "charge"
    assert finding.probe is not None
    assert finding.probe.lower > finding.probe.bound == pytest.approx(np.log(5))
    assert replay_script(variant, FIVE, HONEST, trials=2_000) == ()


def test_the_target_hears_the_script_and_the_others_what_they_should() -> None:
    study = study_of(RRIndependent.with_keep(BITS, 0.5))
    library = make_library(study)
    script = Script(
        (
            Move("insert", "Ask", before=True, says=Source("Report")),
            Move("repeat", "Ask"),
            Move("drop", "Ask", to="others"),
        )
    )
    played = play(study, script, library)
    heard = [one.envelope.kind for one in played.heard if one.envelope is not None]
    # It has ended when the copy comes.
    assert heard == ["Report", "Ask"]
    told = [e for e in played.sent if e.sender == AGGREGATOR and e.recipient.startswith("party")]
    assert [(e.recipient, e.kind) for e in told] == [
        (study.party, kind) for kind in ("Report", "Ask", "Ask")
    ]
    numbers = [e.seq for e in played.sent if e.sender == AGGREGATOR]
    assert numbers == list(range(len(numbers)))


def in_rounds() -> Study:
    variant = PrivKVMVariant(survey=FILMS, epsilon=2.0)
    return Study(variant=variant, records=answers(FILMS, 5), target=0, seed=1)


def kinds_heard(study: Study, script: Script) -> list[str]:
    heard = play(study, script, make_library(study)).heard
    return [one.envelope.kind for one in heard if one.envelope is not None]


def test_a_message_is_held_back_until_another_has_been_sent() -> None:
    study = in_rounds()
    honest = kinds_heard(study, HONEST)
    assert honest[:2] == ["Request", "Fakes"]
    assert kinds_heard(study, Script((Move("hold", "Request"),)))[:2] == ["Fakes", "Request"]


def test_a_role_that_begins_anew_asks_again() -> None:
    script = Script((Move("restart", "Request"),))
    assert kinds_heard(in_rounds(), script)[:2] == ["Request", "Request"]


def test_the_ledger_of_a_session_is_that_of_its_record() -> None:
    study = study_of(RRIndependent.with_keep(BITS, 0.5))
    heard = play(study, HONEST, Library((), {})).heard
    conduct = play_conduct(study.machine(study.record(None)), heard)
    ledgers = Ledgers(study, heard)
    for name in BITS.names:
        assert ledgers.charged(conduct, name) == pytest.approx(np.log(3))
    assert ledgers.charged(conduct, "another") == 0.0


def test_where_a_role_stands_is_the_calls_that_it_is_in() -> None:
    study = study_of(Choosy.with_keep(BITS, 0.5))
    heard = play(study, HONEST, Library((), {})).heard
    machine = study.machine(study.record(None))
    machine.start(0.0)
    assert [call.partition(":")[0] for call in machine.place[:2]] == ["party", "receive"]
    waiting = machine.place
    conduct = play_conduct(study.machine(study.record(None)), heard)
    assert conduct.places[0] == waiting
    assert conduct.places[-1] == ()
    machine.abandon("its link has ended")
    assert machine.place == ()


def test_twins_differ_in_charged_bytes_alone() -> None:
    study = study_of(RRIndependent.with_keep(BITS, 0.5))
    heard = play(study, HONEST, Library((), {})).heard
    one = play_conduct(study.machine(study.record(None)), heard)
    assert [e.kind for e in one.said] == ["Report", Head.kind()]
    excused = set()
    for neighbour in study.neighbours:
        other = play_conduct(study.machine(study.record(neighbour)), heard)
        found = compared(one, other, attribute=neighbour.attribute)
        assert found.difference is None
        assert not found.hidden
        excused |= {excuse.kind for excuse in found.excuses}
        wrong = compared(one, other, attribute="another")
        assert (wrong.difference is not None) == bool(found.excuses)
    assert excused == {"Report"}


def test_what_repeats_beside_something_new_is_a_secret_used_twice() -> None:
    salt, key = ("Deal", 0), (("Deal", 0), "salt")
    first = {salt: Word(("graph",), True, {"salt": b"s" * 16, "boxes": b"1" * 16})}
    drawn = frozenset({key, (salt, "boxes")})
    again = {salt: Word(("other",), True, {"salt": b"s" * 16, "boxes": b"2" * 16})}
    assert repeated(first, again, drawn) == [("Deal", "salt")]
    assert repeated(first, first, drawn) == []
    all_the_same = {salt: again[salt]._replace(fields=first[salt].fields)}
    assert repeated(first, all_the_same, drawn) == []
    unjudged = {salt: again[salt]._replace(judged=False)}
    assert repeated(first, unjudged, drawn) == []
    assert repeated(first, again, frozenset()) == []


def test_numbers_out_of_range_are_refused() -> None:
    variant = RRIndependent.with_keep(BITS, 0.5)
    for target, scripts, trials in ((5, 1, 2), (0, 0, 2), (0, 1, 1)):
        with pytest.raises(ValueError, match="expected"):
            attack_actively(variant, FIVE, target=target, scripts=scripts, trials=trials)


test_honest_parties_are_unmoved = unmoved(
    SecureSumVariant(survey=BITS, everyone=True), FIVE, scripts=8
)
