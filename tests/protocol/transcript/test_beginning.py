"""What is bound before the first question: roster and analysis, and the checkpoint of them."""

from __future__ import annotations

import functools

import msgspec
import pytest

from protocol import AGGREGATOR, LocalProtocolError, PartyId, SurveyError
from protocol.estimators.analysis import Analysis
from protocol.session.charter import Charter
from protocol.session.roster import Identity, Roster
from protocol.transcript.checkpoints import (
    SignedCheckpoint,
    log_origin,
    read_note,
    sign_checkpoint,
)
from protocol.transcript.consistency import Consistency, encode_consistency
from protocol.transcript.cosignatures import WitnessKey, cosign, cosigned, with_lines
from protocol.transcript.entries import Header, decode_header, encode_header
from protocol.transcript.header import make_header, read_charter
from protocol.transcript.log import Log, seed_log_secret
from protocol.transcript.reader import TranscriptReader
from protocol.transcript.recorder import Recorder
from protocol.transcript.verification import verify
from protocol.transcript.witnessing import decide
from tests.recorded.checkpointed import checkpoints_of
from tests.recorded.forgeries import Forgery
from tests.recorded.runs import Written, written
from tests.recorded.signed import ONE, VARIANT, setting, signed_run

WHO = [Identity(PartyId("w"), bytes([i]) * 32) for i in (5, 6)]
KEYS = [WitnessKey(f"witness.example/{i}", each.public) for i, each in enumerate(WHO)]
ONCE = Analysis(tables=(("smokes",),))
SIGNER = setting().identities[AGGREGATOR]


def announcing(analysis: Analysis | None = ONCE) -> Charter:
    return msgspec.structs.replace(setting().charter, analysis=analysis)


def without_one(charter: Charter) -> Charter:
    """The same with one party left out."""
    members = tuple(member for member in charter.roster.members if member[0] != ONE)
    return msgspec.structs.replace(charter, roster=Roster(members), enrolled=None)


def noted(checkpoint: SignedCheckpoint, *times: int) -> str:
    """The note, cosigned by the first witnesses at these times."""
    who = zip(WHO, KEYS, times, strict=False)
    text = checkpoint.signed
    lines = [cosign(each, name=key.name, text=text, time=time) for each, key, time in who]
    return with_lines(checkpoint.note, lines)


@functools.cache
def begun(*times: int) -> Written:
    """A survey whose first checkpoint witnesses have cosigned at these times."""
    run = signed_run()
    header = TranscriptReader(run.content).header
    return written(header, run.entries, signer=SIGNER, cosigned=lambda first: noted(first, *times))


def first_of(header: Header, session: bytes) -> SignedCheckpoint:
    """The checkpoint of a header alone, for whichever session."""
    log = Log(seed_log_secret(1))
    log.add(encode_header(header))
    return sign_checkpoint(SIGNER, session=session, size=1, root=log.root())


def test_what_was_announced_comes_back() -> None:
    header = decode_header(encode_header(make_header(announcing(), seed=1)))
    assert header.analysis == {
        "tables": [["smokes"]],
        "projection": "none",
        "level": 0.95,
        "about": "respondents",
    }
    assert read_charter(header, type(VARIANT)) == announcing()


@pytest.mark.parametrize("analysis", [{}, {"tables": [["eats"]]}, {"tables": [["smokes"]], "x": 1}])
def test_what_cannot_have_been_announced_is_refused(analysis: dict[str, object]) -> None:
    header = msgspec.structs.replace(make_header(announcing(), seed=1), analysis=analysis)
    with pytest.raises(SurveyError, match=r"(invalid header|analysis): .*(tables|eats|x)"):
        read_charter(header, type(VARIANT))


OTHERS = {
    "nothing announced": announcing(None),
    "other tables": announcing(Analysis(tables=(("drinks",),))),
    "another level": announcing(msgspec.structs.replace(ONCE, level=0.9)),
    "another projection": announcing(msgspec.structs.replace(ONCE, projection="clip")),
    "about others": announcing(msgspec.structs.replace(ONCE, about="population")),
    "another roster": without_one(announcing()),
}


@pytest.mark.parametrize("name", OTHERS)
def test_one_session_has_one_roster_and_one_analysis(name: str) -> None:
    session, other = announcing().session, make_header(OTHERS[name], seed=1)
    assert other.session != session
    second = msgspec.structs.replace(other, session=session)
    with pytest.raises(LocalProtocolError, match="session"):
        Recorder(lambda _: None, second)
    forgery = Forgery()
    forgery.header, forgery.entries = {}, []
    forgery.header = Forgery(written(other, ()).content).header | {"session": session}
    forgery.notes = {}
    assert {fault.rule for fault in verify(forgery.write()).faults} == {"header"}
    # Whoever signs it all the same has signed two checkpoints of one size.
    first, fork = (
        first_of(header, session) for header in (make_header(announcing(), seed=1), second)
    )
    body = encode_consistency(Consistency(old=1, path=(), later=fork))
    found = decide(body, {log_origin(session, SIGNER.public): first})
    assert (found.status, found.checkpoint) == (409, None)
    assert found.evidence is not None
    assert found.evidence.check() is not None


def test_cosignatures_stand_before_anything_was_said() -> None:
    record = begun(7, 8)
    first, again, *_, last = checkpoints_of(record.content)
    assert (first.size, again) == (1, first)
    by = cosigned(noted(last, 20, 21), KEYS)
    found = verify(record.content, checkpoint=last, cosigned=by)
    assert found.intact
    assert found.first_cosigned is not None
    assert found.first_cosigned.by == ((KEYS[0].name, 7), (KEYS[1].name, 8))
    assert found.cosigned == by
    assert verify(record.content).first_cosigned is None


@pytest.mark.parametrize(("times", "missing"), [((7,), [1]), ((), [0, 1])])
def test_who_has_not_cosigned_the_beginning_is_missing(
    times: tuple[int, ...], missing: list[int]
) -> None:
    record = begun(*times) if times else Written(signed_run().content)
    last = checkpoints_of(record.content)[-1]
    found = verify(record.content, checkpoint=last, cosigned=cosigned(noted(last, 20, 21), KEYS))
    assert found.intact
    assert found.first_cosigned is not None
    assert not found.first_cosigned.enough
    assert found.first_cosigned.missing == tuple(KEYS[place].name for place in missing)


def test_a_later_checkpoint_that_is_cosigned_is_not_the_beginning() -> None:
    forgery = Forgery(begun(7, 8).content)
    del forgery.notes[1]
    size, later = min(forgery.notes.items())
    forgery.notes[size] = noted(read_note(later), 7, 8)
    last = checkpoints_of(begun(7, 8).content)[-1]
    by = cosigned(noted(last, 20, 21), KEYS)
    found = verify(forgery.write(), checkpoint=last, cosigned=by).first_cosigned
    assert found is not None
    assert found.by == ()


def test_the_recorder_takes_cosignatures_of_its_last_checkpoint_alone() -> None:
    header = TranscriptReader(signed_run().content).header
    recorder = Recorder(lambda _: None, header, signer=SIGNER)
    first = recorder.checkpoint
    assert first is not None
    with pytest.raises(LocalProtocolError, match="not the checkpoint"):
        recorder.cosigned(first_of(header, bytes(32)).note)
    recorder.cosigned(noted(first, 7))
    recorder.refused("somebody", "not a frame", b"", now=0.0)
    with pytest.raises(LocalProtocolError, match="not the checkpoint"):
        recorder.cosigned(noted(first, 7, 8))
    recorder.close()
    with pytest.raises(LocalProtocolError, match="closed"):
        recorder.cosigned(noted(first, 7, 8))
    unsigned = Recorder(lambda _: None, header)
    with pytest.raises(LocalProtocolError, match="not the checkpoint"):
        unsigned.cosigned(first.note)
