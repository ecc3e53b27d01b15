"""Parties with keys of their own answer whenever they come, until the survey closes; some late."""

from __future__ import annotations

import datetime
import json
import shutil
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from parties.keeping.places import handed_out, unused_spares
from protocol.messages import CLOSED_EARLY
from protocol.transcript.entries import Departed
from protocol.transcript.reader import TranscriptReader
from scenarios import open_transcript
from scenarios.surveys.members import read_member
from tests.scenarios.command import Said, complaint, sottovoce
from tests.scenarios.programs import Program
from tests.scenarios.survey_folders import PLANS, closing_plan, listening, table
from tests.scenarios.surveys.enrolment.test_enrolment import admission, invited, joined
from transports.testing import HANGS

INVITED = ("anna", "bert", "carl", "dora", "emil", "fred")
LATER = (datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=60)).strftime(
    "%Y-%m-%dT%H:%M:%SZ"
)
PLAN = closing_plan(LATER).replace("quorum = 4", "quorum = 2")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six are invited, three have joined in time, and there are two spare places."""
    folder = tmp_path_factory.mktemp("late")
    organiser = invited(folder, PLAN, parties=INVITED)
    requests = [joined(organiser, name, folder / name) for name in INVITED[:3]]
    assert sottovoce("admit", organiser, *requests).code == 0
    said = sottovoce("seal", organiser, "--spare", 2)
    assert said.code == 0, said.err
    assert "the roster is sealed, with 3 parties and 2 spare places" in said.out
    for name in INVITED[:3]:
        assert sottovoce("accept", folder / name, admission(organiser, name)).code == 0
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "survey")
    return tmp_path / "survey"


def late(folder: Path, name: str) -> Said:
    """A party asks after the roster was sealed."""
    organiser = folder / "organiser"
    return sottovoce("admit", organiser, joined(organiser, name, folder / name))


@contextmanager
def holding(folder: Path, *options: object) -> Generator[tuple[Program, str]]:
    """An aggregator that takes answers, and where."""
    listen = ("--listen", "127.0.0.1:0", "--out", folder / "result", *options)
    aggregator = folder / "organiser" / "sealed" / "aggregator"
    with listening("aggregate", aggregator, *listen) as (program, where, _):
        yield program, where


def answer(member: Path, where: str, row: str) -> None:
    """Answer and leave: the program ends although the survey goes on."""
    records = table(member.parent / f"{member.name}.csv", row)
    paying = ("--records", records, "--purse", member.parent / "purse")
    answering = Program("answer", member, "--connect", where, *paying)
    _, complained = answering.communicate(timeout=HANGS)
    assert answering.returncode == 0, complained


def close(aggregator: Path) -> None:
    """Close the survey that is held, once it waits for answers."""
    patience = time.monotonic() + HANGS
    while sottovoce("close", aggregator, "--early").code != 0:
        assert time.monotonic() < patience
        time.sleep(0.1)


def test_nobody_need_be_there_at_once_and_some_come_late(folder: Path) -> None:
    sealed = folder / "organiser" / "sealed"
    with holding(folder) as (_, where):
        answer(folder / "anna", where, "yes,old")
    # The aggregator was killed meanwhile.
    with holding(folder, "--resume") as (program, where):
        said = late(folder, "dora")
        assert said.code == 0, said.err
        place = sealed / "spares" / "spare-1"
        assert f"dora comes late: hand {place} to it alone" in said.out
        answer(folder / "bert", where, "no,old")
        answer(place, where, "no,young")
        assert late(folder, "emil").code == 0
        assert sottovoce("withdraw", sealed / "aggregator", "carl", "--reason", "ill").code == 0
        assert "--early closes it now" in complaint(sottovoce("close", sealed / "aggregator"))
        assert sottovoce("close", sealed / "aggregator", "--early").code == 0
        assert program.wait(HANGS) == 0
    record = folder / "result" / "transcript.svt.zst"
    found = TranscriptReader(open_transcript(record).chunks())
    gone = {each.party: each.reason for each in found if isinstance(each, Departed)}
    assert gone["carl"] == "withdrawn: ill"
    assert gone["spare-2"] == CLOSED_EARLY, "it was handed out"
    result = json.loads((folder / "result" / "result.json").read_text())
    assert result["estimate"]["respondents"] == 3
    assert "Record: sound" in sottovoce("verify", record).out


def test_a_spare_place_that_nobody_got_is_said_to_be_one(folder: Path) -> None:
    with holding(folder) as (program, where):
        for name, row in zip(INVITED[:2], ("yes,old", "no,old"), strict=True):
            answer(folder / name, where, row)
        early = sottovoce("close", folder / "organiser" / "sealed" / "aggregator", "--early")
        assert early.code == 0
        assert program.wait(HANGS) == 0
    found = TranscriptReader(open_transcript(folder / "result" / "transcript.svt.zst").chunks())
    gone = {each.party: each.reason for each in found if isinstance(each, Departed)}
    assert gone["carl"] == CLOSED_EARLY
    spare = "withdrawn: a spare place that was not handed out"
    assert gone["spare-1"] == gone["spare-2"] == f"{spare}; {CLOSED_EARLY}"


def test_a_restored_record_is_not_closed_without_whoever_may_hold_a_receipt(folder: Path) -> None:
    aggregator, result = folder / "organiser" / "sealed" / "aggregator", folder / "result"
    with holding(folder) as (_, where):
        answer(folder / "anna", where, "yes,old")
        copied = sottovoce("backup", aggregator, folder / "copy", "--out", result)
        assert copied.code == 0, copied.err
        answer(folder / "bert", where, "no,old")
    shutil.rmtree(aggregator)
    shutil.rmtree(result)
    restored = sottovoce("restore", folder / "copy", aggregator, "--out", result)
    assert restored.code == 0, restored.err
    with holding(folder, "--resume") as (program, where):
        # Nobody knows whether carl holds something; bert does, and has not come back.
        close(aggregator)
        _, said = program.communicate(timeout=HANGS)
        assert program.returncode == 2
        assert "nothing is published without those who may hold receipts" in said
        assert "bert" in said
    with holding(folder, "--resume", "--without-missing") as (program, where):
        answer(folder / "bert", where, "no,old")
        assert sottovoce("close", aggregator, "--early").code == 0
        assert program.wait(HANGS) == 0
    counted = json.loads((result / "result.json").read_text())["estimate"]["respondents"]
    assert counted == 2


def test_the_record_says_whose_key_was_drawn_by_the_organiser(folder: Path) -> None:
    charter = read_member(folder / "organiser" / "sealed" / "aggregator").charter
    assert charter.enrolled == (("request", 3), ("folder", 2))
    assert charter.roster.parties[3:] == ("spare-1", "spare-2")


def test_whoever_asks_late_gets_one_place_however_often(folder: Path) -> None:
    aggregator = folder / "organiser" / "sealed" / "aggregator"
    assert unused_spares(aggregator) == ("spare-1", "spare-2")
    assert "1 admitted, 0 admitted before" in late(folder, "dora").out
    again = sottovoce("admit", folder / "organiser", folder / "dora" / "request.json")
    assert "spare-1" in again.out
    assert "0 admitted, 1 admitted before, 0 refused" in again.out
    assert late(folder, "emil").code == 0
    refused = late(folder, "fred")
    assert refused.code == 1
    assert "refused: the roster is sealed, and no spare place is left" in refused.out
    # One that was admitted in time has its own place.
    before = sottovoce("admit", folder / "organiser", folder / "anna" / "request.json")
    assert "comes late" not in before.out
    assert handed_out(aggregator) == [("spare-1", "dora"), ("spare-2", "emil")]
    assert unused_spares(aggregator) == ()


def test_a_used_invitation_gets_no_second_place(folder: Path) -> None:
    assert late(folder, "dora").code == 0
    organiser = folder / "organiser"
    other = joined(organiser, "dora", folder / "other")
    said = sottovoce("admit", organiser, other)
    assert said.code == 1
    assert "was used before, with another key" in said.out
    assert [each.place for each in handed_out(organiser / "sealed" / "aggregator")] == ["spare-1"]


def test_a_place_handed_out_is_no_spare_one_for_a_lost_folder(folder: Path) -> None:
    assert late(folder, "dora").code == 0
    aggregator = folder / "organiser" / "sealed" / "aggregator"
    said = sottovoce("withdraw", aggregator, "anna", "--instead", "spare-1")
    assert "'spare-1' is not spare any more" in complaint(said)
    assert sottovoce("withdraw", aggregator, "anna", "--instead", "spare-2").code == 0
    assert late(folder, "emil").code == 1


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        (PLANS["rr-joint"], "expected a survey of one question with closes in its plan"),
        (closing_plan(LATER, "secure-sum"), "expected a survey of one question with closes"),
        (PLAN.replace("quorum = 2\n", ""), "the plan has no quorum"),
    ],
)
def test_nobody_comes_late_to_another_survey(plan: str, why: str, tmp_path: Path) -> None:
    organiser = invited(tmp_path, plan.replace("quorum = 4", "quorum = 2"))
    requests = [joined(organiser, name, tmp_path / name) for name in INVITED[:3]]
    assert sottovoce("admit", organiser, *requests).code == 0
    assert why in complaint(sottovoce("seal", organiser, "--spare", 1))
    assert not (organiser / "sealed").exists()


def test_certificates_last_until_after_the_survey_closes(tmp_path: Path) -> None:
    organiser = invited(tmp_path, PLAN)
    requests = [joined(organiser, name, tmp_path / name) for name in ("anna", "bert")]
    assert sottovoce("admit", organiser, *requests).code == 0
    said = complaint(sottovoce("seal", organiser, "--days", 30))
    assert "--days 30: the survey closes in 60 days" in said


def test_a_survey_that_has_closed_is_not_begun(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scenarios.surveys.holding.waiting.seconds_left", lambda charter: -1.0)
    aggregator = folder / "organiser" / "sealed" / "aggregator"
    listen = ("--listen", "127.0.0.1:0", "--out", folder / "result")
    said = complaint(sottovoce("aggregate", aggregator, *listen))
    assert "as everybody was told: nobody can answer it any more" in said
