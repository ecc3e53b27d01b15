"""How a run ended: nothing follows a published last checkpoint, and nobody relabels the end."""

from __future__ import annotations

import functools

import msgspec
import pytest

from protocol.messages import AGGREGATOR
from protocol.transcript.checkpoints import Progress, SignedCheckpoint, ended, sign_statement
from protocol.transcript.entries import (
    CanonicalDigest,
    Checkpoint,
    Sent,
    encode_entry,
    encode_header,
)
from protocol.transcript.reader import TranscriptReader
from protocol.transcript.verification import verify
from protocol.wire.codec import decode_envelope
from tests.recorded.forgeries import Forgery, rules
from tests.recorded.runs import Written, written
from tests.recorded.signed import Run, setting, signed_run

BEYOND = "the record goes on after the last checkpoint that was given"
RELABELLED = "disagree on how the run ended"


def cut_short(*, entries: int = 10, signed: bool = True, reason: str = "power failure") -> Written:
    """The first entries of the run, as a run that failed, whose aggregator has signed or not."""
    run = signed_run()
    signer = setting().identities[AGGREGATOR] if signed else None
    header = TranscriptReader(run.content).header
    early = run.entries[:entries]
    cut = written(header, early, signer=signer, complete=False, reason=reason)
    return Written(cut.content, cut.checkpoint or run.checkpoint)


@functools.cache
def failed() -> Written:
    return cut_short(entries=1)


def test_a_last_checkpoint_says_how_the_run_ended() -> None:
    found = verify(failed().content, checkpoint=failed().checkpoint)
    assert found.faults == ()
    assert (found.complete, found.extends) == (False, True)
    said = failed().checkpoint.statement
    assert (said.complete, said.reason) == ended(complete=False, reason="power failure")
    whole = signed_run().checkpoint.statement
    assert (whole.complete, whole.reason) == ended(complete=True, reason="")


def test_nothing_follows_a_published_last_checkpoint() -> None:
    """Whoever holds the file takes the checkpoint out, needs no key, and goes on."""
    whole = Forgery(signed_run().content)
    whole.entries = [entry for entry in whole.entries if entry[0] != "Checkpoint"]
    assert verify(whole.write()).intact
    found = verify(whole.write(), checkpoint=failed().checkpoint)
    assert rules(found) == {"published"}
    assert [fault.message for fault in found.faults][:1] == [BEYOND]
    assert found.extends is False
    # One entry too many is enough, whatever it is.
    for extra in (["Refused", 0, "x", "x", b""], ["Departed", 0, "party-1", "x"]):
        forgery = Forgery(failed().content)
        forgery.entries[-1] = extra
        forgery.ending = {"complete": False, "reason": "power failure"}
        found = verify(forgery.write(), checkpoint=failed().checkpoint)
        assert rules(found) == {"published"}
        assert BEYOND in str(found.faults)


def test_without_the_checkpoint_itself_the_record_extends_it_all_the_same() -> None:
    forgery = Forgery(failed().content)
    assert forgery.entries.pop()[0] == "Checkpoint"
    forgery.ending = {"complete": False, "reason": "power failure"}
    found = verify(forgery.write(), checkpoint=failed().checkpoint)
    assert found.faults == ()
    assert found.extends is True


def test_another_checkpoint_in_its_place_is_beyond_it() -> None:
    other = cut_short(entries=1, reason="fire")
    found = verify(other.content, checkpoint=failed().checkpoint)
    assert rules(found) == {"published"}
    assert BEYOND in str(found.faults)
    assert found.extends is False
    assert found.equivocation is not None


@pytest.mark.parametrize(
    "ending",
    [{"complete": True, "reason": ""}, {"complete": False, "reason": "fire"}, {"complete": True}],
)
def test_an_end_that_is_relabelled_is_found(ending: dict[str, object]) -> None:
    forgery = Forgery(failed().content)
    forgery.ending = {"complete": False, "reason": "power failure", **ending}
    found = verify(forgery.write())
    assert rules(found) == {"checkpoint"}
    assert RELABELLED in str(found.faults)
    found = verify(forgery.write(), checkpoint=failed().checkpoint)
    assert rules(found) == {"checkpoint", "published"}
    assert found.extends is False
    # Without the checkpoint on record only the published one tells.
    forgery.entries.pop()
    assert verify(forgery.write()).faults == ()
    found = verify(forgery.write(), checkpoint=failed().checkpoint)
    assert rules(found) == {"published"}
    assert RELABELLED in str(found.faults)


def test_a_run_that_came_to_its_end_is_not_called_failed() -> None:
    forgery = Forgery(signed_run().content)
    forgery.ending = {"complete": False, "reason": "x"}
    assert rules(verify(forgery.write())) == {"checkpoint"}


@pytest.mark.parametrize("changes", [{"complete": None}, {"reason": None}, {"reason": bytes(32)}])
def test_a_last_checkpoint_that_leaves_out_the_end_does_not_fit(changes: dict[str, None]) -> None:
    checkpoint = failed().checkpoint
    statement = msgspec.structs.replace(checkpoint.statement, **changes)
    identity = setting().identities[AGGREGATOR]
    forged = SignedCheckpoint(statement, checkpoint.key, sign_statement(identity, statement))
    assert not verify(failed().content, checkpoint=forged).intact
    assert rules(verify(failed().content, checkpoint=forged)) == {"published"}


def signed_at(run: Run, entries: int) -> SignedCheckpoint:
    """What the run's aggregator could have signed after so many entries."""
    header, signer = TranscriptReader(run.content).header, setting().identities[AGGREGATOR]
    canonical = CanonicalDigest(header)
    progress = Progress(
        session=header.session,
        members=tuple(name for name, _ in header.roster),
        header=encode_header(header),
    )
    for entry in run.entries[:entries]:
        if isinstance(entry, Sent):
            envelope = decode_envelope(entry.envelope)
            progress.said(envelope, entry.envelope)
            canonical.trees[envelope.sender].append(entry.envelope)
        assert not isinstance(entry, Checkpoint)
        encoded = encode_entry(entry)
        progress.add(len(encoded).to_bytes(4, "big") + encoded)
    statement = progress.statement(canonical.trees, entries=entries, digest=canonical.digest)
    return SignedCheckpoint(statement, signer.public, sign_statement(signer, statement))


def test_a_second_checkpoint_of_one_number_is_a_fault_even_if_the_record_extends_both() -> None:
    run = signed_run()
    place = next(i for i, entry in enumerate(run.entries) if isinstance(entry, Checkpoint))
    own = verify(run.content, checkpoint=signed_at(run, place))
    assert (own.faults, own.published) == ((), "begins")
    found = verify(run.content, checkpoint=signed_at(run, place - 1))
    assert found.equivocation is not None
    assert rules(found) == {"published"}
    assert "signed another checkpoint in its place" in str(found.faults)
    assert (found.extends, found.published) == (False, "differs")


def test_what_was_published_is_one_verdict() -> None:
    run, other = signed_run(), failed()
    digest = run.checkpoint.statement.digest
    assert verify(run.content).published == "not given"
    assert verify(run.content, digest=digest).published == "fits"
    assert verify(run.content, checkpoint=run.checkpoint).published == "fits"
    assert verify(run.content, digest=digest, checkpoint=run.checkpoint).published == "fits"
    assert verify(run.content, digest=bytes(32)).published == "differs"
    assert verify(run.content, checkpoint=other.checkpoint).published == "differs"
    assert verify(run.content, digest=bytes(32), checkpoint=run.checkpoint).published == "differs"
    assert verify(run.content, digest=digest, checkpoint=other.checkpoint).published == "differs"
    assert verify(b"", digest=digest).published == "differs"
    assert verify(b"", checkpoint=run.checkpoint).published == "differs"


def test_what_was_published_is_read_before_it_is_compared() -> None:
    run = signed_run()
    with pytest.raises(TypeError, match="digest: expected 32 bytes, got str"):
        verify(run.content, digest=run.checkpoint.statement.digest.hex())
    with pytest.raises(TypeError, match="checkpoint: expected a SignedCheckpoint, got str"):
        verify(run.content, checkpoint="transcript.checkpoint.json")
