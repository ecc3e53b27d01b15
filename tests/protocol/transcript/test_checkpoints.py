"""Checkpoints: what they say, where they come, and what a verifier holds against them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from protocol import AGGREGATOR, RECORD, LocalProtocolError, PartyId
from protocol.session.roster import Identity
from protocol.transcript.checkpoints import SignedCheckpoint, read_note, sign_checkpoint
from protocol.transcript.entries import Entry
from protocol.transcript.header import make_header
from protocol.transcript.reader import TranscriptReader
from protocol.transcript.recorder import Recorder
from protocol.transcript.verification import Verification, verify
from tests.recorded.checkpointed import checkpoints_of, resigned
from tests.recorded.forgeries import Forgery, rules
from tests.recorded.runs import Written, written
from tests.recorded.signed import ONE, TWO, Run, rewritten, setting, signed_run, without
from tests.recorded.transcripts import HEADER, agreed, envelope, sent
from tests.vectors.formats import Member, checkpoint_text, log_leaves, note_of, tree_hash

AGGREGATORS = setting().identities[AGGREGATOR]


def test_a_checkpoint_says_what_the_format_says() -> None:
    """All of both, from the contents and the description alone."""
    run = signed_run()
    forgery = Forgery(run.content)
    contents = forgery.contents()
    assert len(contents) == len(run.entries) + 2
    agreed_on, first, last = checkpoints_of(run.content)
    assert (first.size, last.size) == (len(contents) - 3, len(contents))
    assert agreed_on.size == 1
    for checkpoint in (agreed_on, first, last):
        assert checkpoint.session == forgery.header["session"]
        leaves = log_leaves(forgery.secret, contents[: checkpoint.size])
        assert checkpoint.root == tree_hash(leaves)
        assert checkpoint.key == AGGREGATORS.public
        assert checkpoint.valid
    assert last == run.checkpoint


def test_a_note_is_what_c2sp_says() -> None:
    signer, session, root = Member("aggregator"), b"\1" * 32, b"\2" * 32
    note = note_of(checkpoint_text(session, signer.key, 5, root), signer)
    identity = Identity(AGGREGATOR, signer.secret)
    signed = sign_checkpoint(identity, session=session, size=5, root=root)
    assert signed.note == note
    assert read_note(note) == signed
    cosigned = f"{note}\u2014 witness.example/w1 {'A' * 96}\n"
    assert read_note(cosigned) == signed


def test_checkpoints_are_found_sound() -> None:
    found = verify(signed_run().content)
    assert found.intact
    assert found.checkpoints == 3
    assert found.final == signed_run().checkpoint
    assert found.size == signed_run().checkpoint.size
    assert not found.compared
    assert found.extends is None


def test_a_record_without_a_signer_has_none() -> None:
    assert written(HEADER, ()).checkpoint is None


@pytest.mark.parametrize("name", ["party-1", "aggregator"])
def test_nobody_but_the_aggregator_signs(name: str) -> None:
    header = make_header(setting().charter)
    with pytest.raises(LocalProtocolError, match="not the aggregator of the roster"):
        Recorder(lambda _: None, header, signer=Identity(PartyId(name), b"\1" * 32))


def test_there_is_one_of_the_header_after_every_closing_and_at_the_end() -> None:
    signer = Identity(AGGREGATOR, bytes(32))
    roster = ((AGGREGATOR, signer.public), *HEADER.roster[1:])
    header = agreed(msgspec.structs.replace(HEADER, roster=roster))
    entries = [
        sent(0, envelope(AGGREGATOR, RECORD, i, kind="Ask" if i == 1 else "Closed"))
        for i in range(4)
    ]
    made = written(header, entries, signer=signer)
    assert verify(made.content).intact
    assert [checkpoint.size for checkpoint in checkpoints_of(made.content)] == [1, 2, 4, 5, 6]


def failed(reason: str = "QuorumError", entries: int = 0) -> Written:
    """The beginning of the run, as one that failed."""
    header, early = make_header(setting().charter), signed_run().entries[:entries]
    return written(header, early, signer=AGGREGATORS, complete=False, reason=reason)


def test_a_run_that_fails_is_signed_for_too() -> None:
    found = verify(failed().content, checkpoint=failed().checkpoint)
    assert not found.faults
    assert (found.complete, found.extends, found.published) == (False, True, "fits")
    assert found.final is not None
    assert found.ending is not None
    assert found.ending.reason == "QuorumError"


def rerooted(forgery: Forgery) -> None:
    checkpoint = read_note(forgery.notes[forgery.size])
    other = msgspec.structs.replace(checkpoint, root=bytes(32))
    forgery.notes[forgery.size] = resigned(other, AGGREGATORS).note


def given(run: Run | Written, checkpoint: SignedCheckpoint | None) -> Verification:
    return verify(run.content, checkpoint=checkpoint)


def test_a_record_extends_what_was_published_of_it() -> None:
    run = signed_run()
    for checkpoint in checkpoints_of(run.content):
        found = given(run, checkpoint)
        assert found.intact
        assert found.extends is True
        assert found.compared == (checkpoint == run.checkpoint)
        assert found.published == ("fits" if found.compared else "begins")
        assert found.equivocation is None


def test_another_record_does_not() -> None:
    run = signed_run()
    # The aggregator drops a party's report, and writes everything else afresh.
    other = rewritten(run, without(sender=ONE, but=("nothing",)))
    assert verify(other.content).faults == ()
    found = given(other, run.checkpoint)
    assert rules(found) == {"published"}
    assert found.extends is False
    # The log is shorter, so there is no second signature for its size.
    assert found.equivocation is None
    assert "the checkpoint is over" in str(found.faults)


def later(entries: list[Entry]) -> list[Entry]:
    return [msgspec.structs.replace(entry, at=entry.at + 1) for entry in entries]


def test_times_are_bound_by_what_was_published() -> None:
    run = signed_run()
    other = rewritten(run, later)
    assert verify(other.content, digest=run.digest).intact
    found = given(other, run.checkpoint)
    assert "its log has another root" in str(found.faults)
    assert found.equivocation is not None
    assert found.equivocation.check() == f"the checkpoint of size {run.checkpoint.size}"


def test_an_end_that_is_relabelled_is_found() -> None:
    """With the checkpoint taken out, by whoever holds the file."""
    forgery = Forgery(failed().content)
    forgery.notes.clear()
    for ending in ({}, {"complete": False, "reason": "fire"}):
        forgery.ending = ending
        assert verify(forgery.write()).faults == ()
        found = verify(forgery.write(), checkpoint=failed().checkpoint)
        assert rules(found) == {"published"}
    forgery.ending = {"complete": False, "reason": "QuorumError"}
    assert verify(forgery.write(), checkpoint=failed().checkpoint).faults == ()


def test_nothing_follows_the_end_that_was_published() -> None:
    whole = Forgery(signed_run().content)
    whole.notes.clear()
    found = verify(whole.write(), checkpoint=failed(entries=3).checkpoint)
    assert rules(found) == {"published"}
    assert found.extends is False


def test_a_second_checkpoint_of_one_size_is_a_fault_even_if_the_record_extends_the_published() -> (
    None
):
    run = signed_run()
    forgery = Forgery(run.content)
    rerooted(forgery)
    found = verify(forgery.write(), checkpoint=run.checkpoint)
    assert found.equivocation is not None
    assert rules(found) == {"checkpoint", "published"}
    assert "signed another checkpoint in its place" in str(found.faults)
    assert (found.extends, found.published) == (False, "differs")


def test_what_was_published_is_one_verdict() -> None:
    run, other = signed_run(), failed()
    digest = run.digest
    assert verify(run.content).published == "not compared"
    assert verify(run.content, digest=digest).published == "fits"
    assert verify(run.content, digest=digest, checkpoint=run.checkpoint).published == "fits"
    assert verify(run.content, digest=bytes(32)).published == "differs"
    assert verify(run.content, checkpoint=other.checkpoint).published == "differs"
    assert verify(run.content, digest=bytes(32), checkpoint=run.checkpoint).published == "differs"
    assert verify(run.content, digest=digest, checkpoint=other.checkpoint).published == "differs"
    assert verify(b"", digest=digest).published == "not compared"
    assert verify(b"", checkpoint=run.checkpoint).published == "not compared"


def test_what_was_published_is_read_before_it_is_compared() -> None:
    run: Any = signed_run()
    with pytest.raises(TypeError, match="digest: expected 32 bytes, got str"):
        verify(run.content, digest=run.digest.hex())
    with pytest.raises(TypeError, match="checkpoint: expected a SignedCheckpoint, got str"):
        verify(run.content, checkpoint=run.checkpoint.note)


def test_no_repr_shows_much() -> None:
    reader = TranscriptReader(signed_run().content)
    shown = repr(signed_run().checkpoint) + repr(reader)
    assert len(shown) < 500
    assert TWO not in shown
