"""Proving that a record grows: between all its checkpoints, and refused where they are not."""

from __future__ import annotations

import itertools

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.audit.proofs.extension import NotExtendedError, prove_extension
from protocol.errors import SurveyError
from protocol.messages import AGGREGATOR, RECORD
from protocol.transcript.checkpoints import SignedCheckpoint
from protocol.transcript.extension import (
    Extension,
    Grown,
    decode_extension,
    encode_extension,
    problems_of,
)
from protocol.transcript.reader import TranscriptReader
from protocol.transcript.recorder import Recorder
from protocol.variants import RRClusters
from tests.recorded.checkpointed import (
    NAMES,
    OTHER,
    SIGNER,
    checkpoints_of,
    grown_of,
    prove,
    record,
    signed,
    spoken,
    words_at,
)
from tests.recorded.runs import written
from tests.recorded.signed import (
    SURVEY,
    TWO,
    changed_report,
    rewritten,
    run_of,
    setting,
    signed_run,
)
from tests.recorded.transcripts import envelope


def test_there_is_one_between_all_checkpoints_of_a_record() -> None:
    content = record()
    checkpoints = checkpoints_of(content)
    assert len(checkpoints) == 5
    for (i, earlier), (j, later) in itertools.combinations_with_replacement(
        enumerate(checkpoints), 2
    ):
        extension = prove(content, earlier, later)
        assert problems_of(extension, earlier, later) == ()
        assert [step.number for step in extension.steps] == [*range(i + 1, j + 1)]
        before, after = words_at(content, earlier), words_at(content, later)
        assert {g.member: g.added for g in extension.grown} == {
            name: len(after[name]) - len(before[name])
            for name in NAMES
            if len(after[name]) > len(before[name])
        }
        assert decode_extension(encode_extension(extension)) == extension
    extension, last = prove_extension(lambda: (content,), earlier=checkpoints[1])
    assert last == checkpoints[-1]
    assert extension == prove(content, checkpoints[1], last)


def test_it_holds_between_its_own_checkpoints_alone() -> None:
    """Also not with earlier and later swapped."""
    content = record()
    pairs = list(itertools.combinations(checkpoints_of(content), 2))
    for pair in pairs:
        extension = prove(content, *pair)
        for earlier, later in (*pairs, *((b, a) for a, b in pairs)):
            held = problems_of(extension, earlier, later) == ()
            assert held == ((earlier, later) == pair)
            if (later, earlier) == pair:
                problems = problems_of(extension, earlier, later)
                assert "the earlier checkpoint does not come before the later one" in problems
    later, earlier = pairs[0]
    for other in pairs[0]:
        trivial = prove(content, other, other)
        assert problems_of(trivial, earlier, later)
        assert problems_of(trivial, later, earlier)


def test_records_of_real_runs() -> None:
    where = setting(RRClusters(survey=SURVEY, p=0.6, tv=6, td=0.1, dependence="rr"))
    for run in (signed_run(), run_of(where)):
        checkpoints = checkpoints_of(run.content)
        assert len(checkpoints) >= 2
        for earlier, later in itertools.combinations(checkpoints, 2):
            assert problems_of(prove(run.content, earlier, later), earlier, later) == ()


def test_where_nothing_was_said_nothing_is_stored() -> None:
    content = spoken([(1,)])
    earlier, later = checkpoints_of(content)
    extension = prove(content, earlier, later)
    assert extension.tree == (earlier.statement.digest,) == (later.statement.digest,)
    assert prove(content, later, later) == Extension(steps=(), tree=(later.statement.digest,))


@settings(deadline=None, max_examples=15)
@given(st.lists(st.lists(st.integers(0, 5), max_size=9), min_size=1, max_size=4), st.data())
def test_records_of_random_runs(rounds: list[list[int]], choice: st.DataObject) -> None:
    content = spoken(rounds)
    checkpoints = checkpoints_of(content)
    assert len(checkpoints) == len(rounds) + 1
    one, other = sorted(choice.draw(st.integers(0, len(rounds))) for _ in range(2))
    earlier, later = checkpoints[one], checkpoints[other]
    extension = prove(content, earlier, later)
    assert problems_of(extension, earlier, later) == ()
    tree, *digests = grown_of(words_at(content, earlier), words_at(content, later))
    assert (earlier.statement.digest == later.statement.digest) == (digests[0] == digests[1])
    assert extension.grown == tuple(node for node in tree if isinstance(node, Grown))


def refusal(
    content: bytes, earlier: SignedCheckpoint, later: SignedCheckpoint | None = None
) -> str:
    with pytest.raises(NotExtendedError) as caught:
        prove(content, earlier, later)
    return str(caught.value).removeprefix("no extension: ")


def test_a_fork_leads_from_no_checkpoint_of_the_original() -> None:
    run = signed_run()
    fork = rewritten(run, changed_report(TWO, head=False))
    (one, end), (forked, forked_end) = (checkpoints_of(r.content) for r in (run, fork))
    assert (
        refusal(fork.content, one)
        == "the record has another checkpoint 0 than the one given: a fork"
    )
    assert refusal(fork.content, forked, end).startswith("the record has another checkpoint 1")
    # Neither does what the forker has lead anybody there.
    for extension in (prove(run.content, one, end), prove(fork.content, forked, forked_end)):
        for earlier, later in ((one, forked_end), (forked, end)):
            problems = problems_of(extension, earlier, later)
            assert "its tree does not have the digests of the checkpoints" in problems


def test_a_later_fork_does_not_lead_to_the_later_checkpoint() -> None:
    """Two records that part after the first checkpoint."""
    one, other = spoken([(1, 2), (3,)]), spoken([(1, 2), (4,)])
    first, *rest = checkpoints_of(one)
    assert checkpoints_of(other)[0] == first
    assert prove(other, first) != prove(one, first)
    for later in rest:
        assert "a fork" in refusal(other, first, later)
        assert problems_of(prove(other, first), first, later)


def test_who_is_refused() -> None:
    content = record()
    first, *_, last = checkpoints_of(content)
    assert refusal(content, last, first) == "checkpoint 4 comes after checkpoint 0"
    assert refusal(signed_run().content, first) == (
        "checkpoint 0 is of another session than the record"
    )
    of_other = signed(first.statement, OTHER)
    assert refusal(content, of_other) == "checkpoint 0 is not signed by the record's aggregator"
    unsigned = msgspec.structs.replace(last, signature=bytes(64))
    assert refusal(content, first, unsigned).startswith("checkpoint 4 is not signed")
    shorter = spoken([(1, 2, 1), ()])
    assert refusal(shorter, first, last) == "the record has no checkpoint 4, but 3 of them, from 0"
    broken = bytearray(content)
    broken[-1] ^= 1
    assert refusal(bytes(broken), first).startswith("the record is not sound: ")
    empty = written(TranscriptReader(content).header, ())
    assert refusal(empty.content, first) == "the record has no checkpoint"
    with pytest.raises(SurveyError, match="no readable header"):
        prove(b"", first)


def test_while_the_record_grows() -> None:
    """From what a crash would leave: as far as there are checkpoints."""
    parts: list[bytes] = []
    header = TranscriptReader(record()).header
    recorder = Recorder(parts.append, header, signer=SIGNER)
    made = []
    for seq in range(3):
        for _ in NAMES:
            recorder.refused("", "x", b"", now=0.0)
        recorder.sent(envelope(AGGREGATOR, RECORD, seq, kind="Closed"), now=0.0)
        assert recorder.checkpoint is not None
        made.append(recorder.checkpoint)
        recorder.flush()
        content = b"".join(parts)
        extension = prove(content, made[0])
        assert problems_of(extension, made[0], made[-1]) == ()
        if seq:
            # The last block is torn.
            assert prove(content[:-1], made[0]) == prove(content, made[0], made[-2])
