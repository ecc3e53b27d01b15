"""A witness has cosigned more than an older copy of a record has."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from parties.keeping.record_names import TRANSCRIPT
from protocol import AGGREGATOR
from protocol.errors import UsageError
from protocol.transcript.checkpoints import log_origin
from protocol.transcript.recorder import Recorder
from scenarios.surveys.holding.attempts import attempting
from scenarios.surveys.members import read_member
from scenarios.surveys.witnessing.asking import WitnessAt, begin, check_newest
from tests.scenarios.survey_folders import make_folders
from tests.scenarios.surveys.resuming.test_backups import InterruptedAttemptError
from tests.scenarios.surveys.witnessing.witnesses import files, running


def gone_on(keys: Path, out: Path, witness: WitnessAt, events: int, *, resume: bool = True) -> int:
    """Go on with an attempt in which so much happens; the size of its last checkpoint."""

    def cosigned(recorder: Recorder) -> str:
        return begin(recorder, [witness], needed=1)

    opened = attempting(
        read_member(keys),
        transcript=out / TRANSCRIPT,
        begin=cosigned,
        go_on=lambda recorder: check_newest(recorder, [witness]),
        resume=resume,
    )
    size = 0
    try:
        with opened as attempt:
            attempt.take_up()
            attempt.begin()
            for _ in range(events):
                attempt.recorder.refused("", "somebody", b"", now=0.0)
            if events:
                # Any checkpoint will do.
                attempt.recorder._write_checkpoint(attempt.member.identity)
            attempt.recorder.flush()
            assert attempt.recorder.checkpoint is not None
            size = attempt.recorder.checkpoint.size
            raise InterruptedAttemptError
    except InterruptedAttemptError:
        return size


def test_a_witness_knows_a_newer_record(tmp_path: Path) -> None:
    keys, out, copy = make_folders(tmp_path) / AGGREGATOR, tmp_path / "out", tmp_path / "copy"
    (tmp_path / "witness").mkdir()
    made = files(tmp_path / "witness")
    member = read_member(keys)
    log = log_origin(member.charter.again(1).session, member.identity.public)
    with running(made, [log]) as witness:
        assert gone_on(keys, out, witness.at, 3, resume=False) == 4
        shutil.copytree(out, copy)
        assert gone_on(keys, out, witness.at, 5) == 9
        assert gone_on(keys, out, witness.at, 0) == 9
        # By now it knows that there are nine entries.
        with pytest.raises(UsageError, match=r"older than what witness .* knows: it has cosigned"):
            gone_on(keys, copy, witness.at, 0)
