"""Members without records: how they take part, and what is sealed for them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from protocol import (
    AGGREGATOR,
    RECORD,
    LocalProtocolError,
    PartyId,
    RemoteProtocolError,
    Stream,
    secret_of,
)
from protocol.audit.completeness import CompletenessWriter
from protocol.messages import Boxed, Envelope, Head, Left
from protocol.session.charter import Charter
from protocol.session.exchange import Exchange
from protocol.session.fates import Fate, Verdict
from protocol.session.machine import Machine
from protocol.session.roles import Boxes
from protocol.session.roster import Roster
from protocol.simulation.rehearsal import Rehearsal
from protocol.simulation.setting import make_setting, service_names
from protocol.transcript.entries import Departed
from protocol.transcript.header import read_charter
from protocol.transcript.verification import verify
from tests.protocol.other_shapes import HOMEPAGES, example, records, shapes
from tests.verifier.javascript import judged, needs_node

SHUFFLER, SERVERS = PartyId("shuffler"), (PartyId("server-1"), PartyId("server-2"))
ONE, TWO = PartyId("party-1"), PartyId("party-2")


def finished_run(name: str, **changes: object) -> Rehearsal:
    setting = make_setting(shapes()[name], records(HOMEPAGES, 4), seed=1)
    return Rehearsal(setting, signed=True, **changes)  # type: ignore[arg-type]


def boxes_of(run: Rehearsal, member: PartyId) -> Boxes:
    identity = run.setting.identities[member]
    return Boxes(run.charter.session, run.charter.roster, identity, Stream(secret_of(1)))


def test_services_stand_between_the_aggregator_and_the_parties() -> None:
    roster = finished_run("two_servers").charter.roster
    assert roster.services == SERVERS == roster.of("server")
    assert roster.parties[0] == ONE
    assert len(roster.parties) == 4
    assert roster.others == (*SERVERS, *roster.parties)
    assert [roster.role(name) for name in (AGGREGATOR, *SERVERS, ONE)] == [
        "aggregator",
        "server",
        "server",
        "party",
    ]
    with pytest.raises(LocalProtocolError, match="no 'shuffler' among the roles"):
        roster.of("shuffler")
    excerpt = roster.known_to(TWO)
    assert excerpt.of("server") == SERVERS
    assert excerpt.role(TWO) == "party"
    assert ONE not in excerpt
    assert service_names(("server", "proxy", "server")) == ["server-1", "proxy", "server-2"]


def test_the_roster_has_the_roles_of_the_variant() -> None:
    charter = finished_run("two_servers").charter
    with pytest.raises(ValueError, match="expected the variant's"):
        Charter(variant=charter.variant, roster=Roster(charter.roster.members))
    with pytest.raises(ValueError, match="3 services on a roster of 3"):
        Roster(charter.roster.members[:3], ("server",) * 3)


@needs_node
@pytest.mark.parametrize("name", ["shuffler", "two_servers", "shamir", "sealed_ring"])
def test_a_record_of_another_shape_is_sound_by_the_second_verifier(
    name: str, tmp_path: Path
) -> None:
    content = finished_run(name).content
    place = content.index(b"\xa3box") if b"\xa3box" in content else len(content) // 2
    damaged = content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
    assert [each["verdict"] for each in judged(tmp_path, [content, damaged])] == ["sound", "broken"]


def test_a_record_with_services_is_sound_and_has_their_heads() -> None:
    run = finished_run("shuffler")
    found = verify(run.content)
    assert found.verdict == "sound"
    assert {e.sender for e in run.sent.values() if e.kind == Head.kind()} == {
        SHUFFLER,
        *run.charter.roster.parties,
    }
    assert found.header is not None
    assert found.header.roles == ("shuffler",)
    assert read_charter(found.header, type(run.charter.variant)) == run.charter


def test_services_are_told_of_a_party_that_leaves() -> None:
    """Without a patience of its own, a shuffler would wait for it for good."""

    def crashing(envelope: Envelope) -> Fate:
        return Fate(Verdict.CRASH) if envelope.sender == ONE else Fate()

    variant = example("shuffler").Shuffled(survey=HOMEPAGES, patience=None)
    run = Rehearsal(make_setting(variant, records(HOMEPAGES, 4), seed=1), fate=crashing)
    assert run.failure is None
    assert [e.party for e in run.entries if isinstance(e, Departed)][:1] == [ONE]


def test_everybody_is_told_of_a_service_that_leaves() -> None:
    charter = finished_run("shuffler").charter
    notices = Exchange(charter).leave(SHUFFLER, "crashed", now=0.0)
    told = {each.envelope.recipient for each in notices}
    assert told == {AGGREGATOR, *charter.roster.parties}


def test_who_is_counted_is_whoever_all_services_have_counted() -> None:
    def losing(envelope: Envelope) -> Fate:
        lost = (envelope.sender, envelope.recipient) == (ONE, SERVERS[1])
        return Fate(Verdict.DROP) if lost else Fate()

    run = finished_run("two_servers", fate=losing)
    writer = CompletenessWriter(run.charter)
    for step in run.steps:
        writer.add(step)
    assert writer.counted == set(run.charter.roster.parties) - {ONE}
    waits = {each.by: each.missing for each in writer.completeness().closings}
    assert waits == {SERVERS[0]: (), SERVERS[1]: (ONE,), AGGREGATOR: ()}


def test_a_party_s_machine_has_records_and_a_service_s_has_none() -> None:
    setting = finished_run("shuffler").setting
    stream, held = Stream(secret_of(2)), setting.holdings[ONE]
    for member, has in ((ONE, None), (SHUFFLER, held), (AGGREGATOR, held)):
        with pytest.raises(LocalProtocolError, match="needs records, and no other"):
            Machine(setting.charter, member, stream, records=has)


def test_a_sealed_kind_shows_its_round_and_a_box() -> None:
    run = finished_run("two_servers")
    two_servers = example("two_servers")
    envelope = next(e for e in run.sent.values() if e.recipient == SERVERS[0] and e.sender == ONE)
    outside = run.charter.codec.decode(envelope.kind, envelope.body)
    assert isinstance(outside, Boxed)
    assert outside.__struct_fields__ == ("box",)
    inside = run.message(envelope)
    assert isinstance(inside, two_servers.Share)
    assert inside.share.tobytes() not in envelope.body
    blank = outside.blank()
    assert isinstance(blank, two_servers.Share)
    with pytest.raises(AttributeError, match="'Share' is sealed: its 'share' is not known here"):
        _ = blank.share


def test_a_box_opens_for_its_reader_alone() -> None:
    run = finished_run("two_servers")
    box = boxes_of(run, ONE).seal(SERVERS[0], b"content", b"bound")
    assert boxes_of(run, SERVERS[0]).open(box, b"bound") == b"content"
    for reader, bound in ((SERVERS[1], b"bound"), (ONE, b"bound"), (SERVERS[0], b"other")):
        with pytest.raises(RemoteProtocolError, match="does not open"):
            boxes_of(run, reader).open(box, bound)
    for place in range(0, len(box), 7):
        damaged = box[:place] + bytes([box[place] ^ 1]) + box[place + 1 :]
        with pytest.raises(RemoteProtocolError, match="does not open"):
            boxes_of(run, SERVERS[0]).open(damaged, b"bound")
    for short in (b"", box[:31], box[:40]):
        with pytest.raises(RemoteProtocolError, match="does not open"):
            boxes_of(run, SERVERS[0]).open(short, b"bound")


def test_boxes_with_the_same_content_differ_and_a_replay_seals_the_same() -> None:
    run = finished_run("two_servers")
    first, again = boxes_of(run, ONE), boxes_of(run, ONE)
    sealed = [first.seal(SERVERS[0], b"content", b"") for _ in range(2)]
    assert sealed[0] != sealed[1]
    assert sealed == [again.seal(SERVERS[0], b"content", b"") for _ in range(2)]
    assert boxes_of(run, ONE).seal(SERVERS[0], b"another", b"")[:32] != sealed[0][:32]


def test_what_is_sealed_is_bound_to_sender_and_recipient() -> None:
    run = finished_run("two_servers")
    codec = run.charter.codec
    envelope = next(e for e in run.sent.values() if e.recipient == SERVERS[0] and e.sender == ONE)
    boxed = codec.decode(envelope.kind, envelope.body)
    assert isinstance(boxed, Boxed)
    opener = boxes_of(run, SERVERS[0]).open
    opened = codec.unseal(envelope, boxed, opener)
    assert codec.content(opened) == codec.content(run.message(envelope))
    forged = msgspec.structs.replace(envelope, sender=TWO)
    with pytest.raises(RemoteProtocolError, match="does not open"):
        codec.unseal(forged, boxed, opener)


def test_what_does_not_open_is_kept_from_the_role() -> None:
    run = finished_run("two_servers")
    setting = run.setting
    machine = run.machine(SERVERS[0])
    machine.start(0.0)
    envelope = next(e for e in run.sent.values() if e.recipient == SERVERS[0] and e.sender == ONE)
    body = bytearray(envelope.body)
    body[-1] ^= 1
    machine.receive(msgspec.structs.replace(envelope, body=bytes(body)), 0.0)
    assert [kept.reason for kept in machine.kept] == ["box: it does not open"]
    assert machine.awaited is not None
    assert setting.charter == machine.charter


def test_garbage_among_boxes_is_left_out() -> None:
    run = finished_run("shuffler")
    shuffler = example("shuffler")
    me = run.machine(AGGREGATOR)._side
    other = run.machine(ONE)._side
    boxes = other.seal(AGGREGATOR, [shuffler.Report(code=np.array([2], np.uint32))])
    both = np.concatenate([boxes, np.zeros_like(boxes)])
    opened = me.open(shuffler.Report, both)
    assert opened[1] is None
    assert opened[0] is not None
    assert opened[0].code.tolist() == [2]
    with pytest.raises(LocalProtocolError, match="expected some, all of one length"):
        other.seal(AGGREGATOR, [])


def test_nobody_reads_what_is_sealed_in_the_record() -> None:
    two_servers = example("two_servers")

    class Noting(two_servers.TwoServers, frozen=True):  # type: ignore[misc, name-defined]
        async def server(self, me: object) -> None:
            await me.note(two_servers.Share(share=np.zeros(4, np.uint32)))  # type: ignore[attr-defined]

    run = Rehearsal(make_setting(Noting(survey=HOMEPAGES), records(HOMEPAGES, 4), seed=1))
    assert "'Share' is sealed: nobody reads it in the record" in run.endings[SERVERS[0]]
    assert Left.kind() not in {e.kind for e in run.sent.values()}
    assert RECORD not in run.charter.roster
