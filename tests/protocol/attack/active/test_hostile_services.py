"""Active attacks by services: any who hold no records lie, and what is sealed is edited."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
import pytest

from protocol import (
    AGGREGATOR,
    Array,
    ArraySpec,
    ExactCounts,
    Hidden,
    KeepUniform,
    Me,
    Message,
    PartyId,
    PrivacyEvent,
    Randomized,
    Records,
    Sealed,
    Seen,
    Variant,
)
from protocol.attack.active.active import attack_actively, replay_script
from protocol.attack.active.script import HONEST, Edit, Move, Script, Source
from protocol.attack.active.twins import Compared, Conduct, compared, described, play_conduct
from protocol.attack.active.worlds import Study, make_library, play
from protocol.messages import Envelope, Head
from protocol.simulation.setting import service_names
from protocol.testing import check_unmoved
from scenarios import find_variant
from tests.every_variant import BITS
from tests.recorded.runs import answers
from tests.scenarios.command import ROOT
from tests.tiers import slow

FIVE = answers(BITS, 5)
CLERK, SCRIBE = PartyId("clerk"), PartyId("scribe")
FEW = 24
"""Scripts that are enough to find what is planted here."""


class Ask(Message, frozen=True):
    """A request to report."""


class Query(Message, frozen=True):
    """The clerk's question; honest ones are for column 0."""

    sealed = True
    column: Annotated[int, msgspec.Meta(ge=0, le=2)]


class Answer(Message, frozen=True):
    """A drawn answer, which only the clerk reads."""

    sealed = True
    code: Annotated[Array, ArraySpec(dtype="u1", shape=(1,), high=2)]


class Total(Message, frozen=True):
    """How many have answered."""

    number: int


class Obliging(Variant, frozen=True):
    """Answers about whatever column it is asked for, and is charged for column 0."""

    name = "obliging"
    roles = ("clerk", "scribe")
    messages = (Ask, Query, Answer, Total)
    public = (Ask, Query)
    derived = (Total,)

    @property
    def randomizer(self) -> KeepUniform:
        return KeepUniform.with_epsilon(2, epsilon=9.0)

    async def party(self, me: Me, records: Records) -> None:
        await me.receive(Ask, AGGREGATOR)
        query = await me.receive(Query, CLERK)
        codes, stream = records.codes[:, query.column], me.stream_for(query)
        drawn = self.randomizer.randomize(codes, stream)
        await me.send(CLERK, Answer(code=drawn.astype(np.uint8)))

    async def clerk(self, me: Me) -> None:
        await me.broadcast(me.roster.parties, Query(column=0))
        got = await me.gather(Answer, me.roster.parties, within=self.patience)
        await me.send(AGGREGATOR, Total(number=len(got)))

    async def scribe(self, me: Me) -> None:
        """Say nothing."""

    async def aggregator(self, me: Me, parties: object) -> Total:
        await me.broadcast(me.roster.parties, Ask())
        return await me.receive(Total, CLERK)

    def reveals(self, message: Message, seen: Seen) -> PrivacyEvent:
        if isinstance(message, Answer):
            return Randomized(self.randomizer, ("a",))
        return super().reveals(message, seen)


OBLIGING = Obliging(survey=BITS)


def sets(*names: PartyId) -> list[tuple[PartyId, ...]]:
    """All sets of these but the empty one."""
    every = range(1, len(names) + 1)
    return [some for many in every for some in itertools.combinations(names, many)]


def example(name: str) -> type[Variant]:
    return find_variant(f"{ROOT / 'docs/examples'}/{name}")


EXAMPLES = {
    name: example(name)(survey=BITS)
    for name in ("shuffler.py:Shuffled", "two_servers.py:TwoServers")
}


def study_of(variant: Variant, *hostile: PartyId) -> Study:
    return Study(variant=variant, records=FIVE, target=0, seed=1, hostile=hostile)


def sent_by(study: Study, sender: PartyId, *moves: Move) -> list[Envelope]:
    played = play(study, Script(moves), make_library(study))
    return [envelope for envelope in played.sent if envelope.sender == sender]


def heard_of(study: Study, *moves: Move) -> list[Envelope]:
    played = play(study, Script(moves), make_library(study))
    return [one.envelope for one in played.heard if one.envelope is not None]


def twins(study: Study, attribute: str = "a") -> tuple[Conduct, Conduct]:
    """What the target does, and what its twin does that differs in one attribute."""
    heard = play(study, HONEST, make_library(study)).heard
    other = next(one for one in study.neighbours if one.attribute == attribute)
    records = study.record(None), study.record(other)
    one, twin = (play_conduct(study.machine(each), heard) for each in records)
    return one, twin


def differ(variant: Variant, *hostile: PartyId) -> Compared:
    return compared(*twins(study_of(variant, *hostile)), attribute="a")


@pytest.mark.parametrize(
    ("name", "hostile"),
    [
        # Both servers are alike, and the aggregator is among all three.
        slow(name, some) if len(some) == 2 or "server-2" in some[:1] else (name, some)
        for name, variant in EXAMPLES.items()
        for some in sets(AGGREGATOR, *service_names(variant.roles))
    ],
)
def test_no_services_together_move_an_honest_party(name: str, hostile: tuple[PartyId, ...]) -> None:
    found = attack_actively(EXAMPLES[name], FIVE, hostile=hostile, scripts=4, trials=50)
    assert (found.hostile, found.tried) == (hostile, 4)
    assert found.findings == ()


@pytest.mark.parametrize(
    "hostile",
    [
        some if some in ((CLERK,), (SCRIBE,)) else slow(some)
        for some in sets(AGGREGATOR, CLERK, SCRIBE)
    ],
)
def test_a_changed_question_in_a_box_is_found_where_its_sender_lies(
    hostile: tuple[PartyId, ...],
) -> None:
    scripts = FEW if CLERK in hostile else 6
    found = attack_actively(OBLIGING, FIVE, hostile=hostile, scripts=scripts, trials=50)
    assert found.accused == (CLERK in hostile)
    for finding in found.findings:
        (move,) = finding.script.moves
        assert (finding.rule, move.of, move.does) == ("outward", "Query", "rewrite")
        assert move.by == (CLERK if len(hostile) > 1 else "")
        assert finding.attributes[0] in ("b", "c")
        assert finding in replay_script(OBLIGING, FIVE, finding.script, hostile=hostile)


def test_a_script_is_nothing_to_whoever_does_not_say_it() -> None:
    edit = Edit(("column",), "set", value=2)
    script = Script((Move("rewrite", "Query", edits=(edit,)),))
    for hostile, shown in (((CLERK,), ["c"]), ((SCRIBE,), [])):
        found = replay_script(OBLIGING, FIVE, script, hostile=hostile, trials=50)
        assert [name for one in found for name in one.attributes] == shown


@pytest.mark.slow
def test_by_default_all_who_hold_no_records_lie() -> None:
    with pytest.raises(AssertionError, match="done by aggregator, clerk, scribe:\nrewrite Query 0"):
        check_unmoved(OBLIGING, FIVE, scripts=FEW)


@pytest.mark.parametrize(
    "hostile", [(AGGREGATOR, "server-1"), pytest.param(("server-2",), marks=pytest.mark.slow)]
)
def test_a_share_that_hides_nothing_is_found_by_whoever_reads_it(
    hostile: tuple[PartyId, ...], tmp_path: Path
) -> None:
    path = tmp_path / "careless.py"
    source = (ROOT / "docs/examples/two_servers.py").read_text(encoding="utf-8")
    assert "(first, counts - first)" in source
    path.write_text(source.replace("(first, counts - first)", "(0 * first, counts)"), "utf-8")
    careless = find_variant(f"{path}:TwoServers")(survey=BITS)
    found = attack_actively(careless, FIVE, hostile=hostile, scripts=1, trials=200)
    assert [one.rule for one in found.findings] == ["charge"] * ("server-2" in hostile)
    for finding in found.findings:
        assert finding.probe is not None
        assert finding.probe.lower > finding.probe.bound == 0.0


def test_what_only_others_read_is_not_compared_and_may_be_followed() -> None:
    """Boxes for others, boxes inside boxes, and what is not seen at all; never their lengths."""
    shuffled = msgspec.structs.replace(EXAMPLES["shuffler.py:Shuffled"], epsilon=9.0)
    for variant, hostile in (
        (OBLIGING, (SCRIBE,)),
        (OBLIGING, (AGGREGATOR, SCRIBE)),
        (shuffled, ("shuffler",)),
        (shuffled, (AGGREGATOR,)),
    ):
        assert differ(variant, *map(PartyId, hostile)) == Compared(None, (), hidden=True)
    alone, _ = twins(study_of(OBLIGING, SCRIBE))
    assert [word.kind for word in alone.said] == ["Answer", Head.kind()]
    assert [read is None for act in alone.acts for read in act.read] == [True, False]
    answer = differ(OBLIGING, CLERK).excuses[0]
    assert (answer.kind, answer.epsilon, answer.hidden) == ("Answer", pytest.approx(9.0), False)
    report = differ(shuffled, AGGREGATOR, PartyId("shuffler")).excuses[0]
    assert (report.kind, report.epsilon) == ("Reports", pytest.approx(9.0))
    both = twins(study_of(OBLIGING, CLERK))
    nothing = compared(*both, attribute="a", charged=0.0)
    assert nothing.difference is not None
    assert nothing.difference.what == "the bytes of Answer differ, which is charged nothing"


def test_a_script_is_about_what_hostile_members_say_to_others() -> None:
    dropped = Move("drop", "Total", to="all")
    for hostile, said in (((CLERK,), 0), ((AGGREGATOR, CLERK), 1)):
        sent = sent_by(study_of(OBLIGING, *hostile), CLERK, dropped)
        assert [envelope.kind for envelope in sent].count("Total") == said
    study = study_of(OBLIGING, AGGREGATOR, CLERK)
    for by, said in ((CLERK, ["Ask", "Query"]), (AGGREGATOR, ["Query"]), ("", ["Query"])):
        heard = heard_of(study, Move("drop", "Ask", by=by))
        assert sorted({envelope.kind for envelope in heard} - {"Left"}) == said


def test_who_says_nothing_to_the_target_may_do_so_at_the_start() -> None:
    study = study_of(OBLIGING, SCRIBE)
    says = Source("Query")
    edits = (Edit(("column",), "set", value=2),)
    first = heard_of(study, Move("insert", "", says=says, edits=edits))[0]
    assert (first.sender, first.recipient, first.kind) == (SCRIBE, study.party, "Query")
    assert study.setting.message(first) == Query(column=2)
    assert str(Move("insert", "", says=says, by=SCRIBE)) == (
        "insert Query 0 after all else from scribe to the target"
    )


def test_what_is_held_back_to_the_end_comes_before_a_head() -> None:
    study = study_of(OBLIGING, CLERK)
    sent = sent_by(study, CLERK, Move("hold", "Query", to="others", wait=9))
    kinds = [envelope.kind for envelope in sent]
    assert kinds[0] == "Query"
    assert kinds[-len(FIVE) :] == ["Query"] * (len(FIVE) - 1) + [Head.kind()]
    assert [envelope.seq for envelope in sent] == list(range(len(sent)))


def test_covered_events_in_words() -> None:
    event = Sealed("server", Hidden(ExactCounts(("a",))))
    assert described(event) == "exact counts of a, under masks, sealed for server"


@pytest.mark.parametrize("hostile", [(), ("party-1",), ("clerk", "shuffler")])
def test_whoever_holds_records_is_not_hostile(hostile: tuple[PartyId, ...]) -> None:
    with pytest.raises(ValueError, match="expected some of aggregator, clerk, scribe"):
        attack_actively(OBLIGING, FIVE, hostile=hostile)
