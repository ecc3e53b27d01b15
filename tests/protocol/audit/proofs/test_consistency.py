"""Consistency proofs: between all checkpoints of a record, and refused where they do not lead."""

from __future__ import annotations

import itertools

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol import AGGREGATOR, RECORD, SurveyError
from protocol.audit.proofs.consistency import NotConsistentError, prove_consistency
from protocol.transcript.checkpoints import SignedCheckpoint
from protocol.transcript.consistency import (
    Consistency,
    consistency_problems,
    decode_consistency,
    encode_consistency,
)
from protocol.transcript.reader import TranscriptReader
from protocol.transcript.recorder import Recorder
from protocol.variants import RRClusters
from tests.recorded.checkpointed import OTHER, SIGNER, checkpoints_of, record, resigned, spoken
from tests.recorded.forgeries import Forgery
from tests.recorded.runs import written
from tests.recorded.signed import (
    SURVEY,
    TWO,
    changed_report,
    finished_run,
    rewritten,
    setting,
    signed_run,
)
from tests.recorded.transcripts import envelope
from tests.vectors.formats import based, log_leaves, proof_of

BEGINS = "the later log does not begin like the earlier one"


def prove(
    content: bytes, earlier: SignedCheckpoint, later: SignedCheckpoint | None = None
) -> Consistency:
    return prove_consistency(lambda: (content,), earlier=earlier, later=later)


def test_there_is_one_between_all_checkpoints_of_a_record() -> None:
    """The proofs are those of RFC 9162, over the leaves that the format describes."""
    content, forgery = record(), Forgery(record())
    leaves = log_leaves(forgery.secret, forgery.contents())
    checkpoints = checkpoints_of(content)
    assert len(checkpoints) == 6
    for earlier, later in itertools.combinations_with_replacement(checkpoints, 2):
        proof = prove(content, earlier, later)
        assert consistency_problems(proof, earlier) == ()
        assert list(proof.path) == proof_of(earlier.size, leaves[: later.size])
        assert decode_consistency(encode_consistency(proof)) == proof
    assert prove(content, checkpoints[1]) == prove(content, checkpoints[1], checkpoints[-1])


def test_it_holds_from_its_own_checkpoint_alone() -> None:
    content = record()
    checkpoints = checkpoints_of(content)
    for earlier, later in itertools.combinations(checkpoints, 2):
        proof = prove(content, earlier, later)
        for other in checkpoints:
            assert (consistency_problems(proof, other) == ()) == (other == earlier)
        swapped = Consistency(old=later.size, path=proof.path, later=earlier)
        problems = consistency_problems(swapped, later)
        assert "the earlier checkpoint does not come before the later one" in problems


def test_records_of_real_runs() -> None:
    where = setting(RRClusters(survey=SURVEY, p=0.6, tv=6, td=0.1, dependence="rr"))
    for run in (signed_run(), finished_run(where)):
        earlier, *_, later = checkpoints_of(run.content)
        proof = prove(run.content, earlier, later)
        assert consistency_problems(proof, earlier) == ()
        assert len(encode_consistency(proof)) < 1000


@settings(deadline=None, max_examples=15)
@given(st.lists(st.lists(st.integers(0, 5), max_size=9), min_size=1, max_size=4), st.data())
def test_records_of_random_runs(rounds: list[list[int]], choice: st.DataObject) -> None:
    content = spoken(rounds)
    checkpoints = checkpoints_of(content)
    one, other = sorted(choice.draw(st.integers(0, len(rounds))) for _ in range(2))
    assert (
        consistency_problems(prove(content, checkpoints[one], checkpoints[other]), checkpoints[one])
        == ()
    )


def test_a_proof_is_written_in_one_way() -> None:
    proof = prove(record(), checkpoints_of(record())[1])
    lines = [f"old {proof.old}", *map(based, proof.path), "", proof.later.note]
    assert encode_consistency(proof) == "\n".join(lines).encode()


def refusal(
    content: bytes, earlier: SignedCheckpoint, later: SignedCheckpoint | None = None
) -> str:
    with pytest.raises(NotConsistentError) as caught:
        prove(content, earlier, later)
    return str(caught.value).removeprefix("no consistency proof: ")


def test_a_fork_leads_from_no_checkpoint_of_the_original() -> None:
    run = signed_run()
    fork = rewritten(run, changed_report(TWO, head=False))
    (start, one, end), (same, forked, forked_end) = (checkpoints_of(r.content) for r in (run, fork))
    assert start == same
    assert "a fork" in refusal(run.content, forked)
    assert "a fork" in refusal(fork.content, one)
    for first, last in ((one, forked_end), (forked, end)):
        for path in (prove(run.content, one, end).path, ()):
            proof = Consistency(old=first.size, path=path, later=last)
            assert BEGINS in consistency_problems(proof, first)


def test_a_later_fork_does_not_lead_to_the_later_checkpoint() -> None:
    """Two records that part after the first closing."""
    one, other = spoken([(1, 2), (3,)]), spoken([(1, 2), (4,)])
    _, first, *rest = checkpoints_of(one)
    assert checkpoints_of(other)[1] == first
    for later in rest:
        found = refusal(other, first, later)
        assert found == f"the record has another log of size {later.size}: a fork"


def test_who_is_refused() -> None:
    content = record()
    first, *_, last = checkpoints_of(content)
    assert refusal(content, last, first) == (
        f"the checkpoint of size {last.size} comes after that of size {first.size}"
    )
    assert refusal(signed_run().content, first) == (
        f"the checkpoint of size {first.size} is of another session than the record"
    )
    of_other = resigned(first, OTHER)
    assert "is not signed by the record's aggregator" in refusal(content, of_other)
    unsigned = msgspec.structs.replace(last, signature=bytes(64))
    assert "is not signed by the record's aggregator" in refusal(content, first, unsigned)
    assert refusal(spoken([(1, 2, 1), ()]), first, last).startswith("the record has 7 leaves")
    broken = Forgery(content)
    broken.entries[0][1] = 5
    assert refusal(broken.write(), first).startswith("the record is not sound: ")
    empty = written(TranscriptReader(content).header, ())
    assert refusal(empty.content, first) == "the record has no checkpoint"
    with pytest.raises(SurveyError, match="no readable header"):
        prove(b"", first)


def test_while_the_record_grows() -> None:
    """From what a crash would leave: as far as there are checkpoints."""
    parts: list[bytes] = []
    header = TranscriptReader(record()).header
    recorder = Recorder(parts.append, header, signer=SIGNER)
    made: list[SignedCheckpoint] = []
    for seq in range(3):
        recorder.refused("", "x", b"", now=0.0)
        item = envelope(AGGREGATOR, RECORD, seq, kind="Closed")
        recorder.sent(msgspec.structs.replace(item, session=header.session), now=0.0)
        assert recorder.checkpoint is not None
        made.append(recorder.checkpoint)
        recorder.flush()
        content = b"".join(parts)
        assert prove(content, made[0]).later == made[-1]
        if seq:
            # The last frame is torn.
            assert prove(content[:-1], made[0]).later == made[-2]


def test_no_repr_shows_a_hash() -> None:
    first, second, *_ = checkpoints_of(record())
    proof = prove(record(), first, second)
    assert repr(proof) == f"Consistency({first.size} to {second.size})"
