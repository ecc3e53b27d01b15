"""A survey over TLS whose first and last checkpoint a witness cosigns, and its other starts."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from parties.keeping.attempts import LOG_SECRET
from protocol import AGGREGATOR
from protocol.transcript.checkpoints import log_origin, read_note, split_note
from scenarios import open_transcript
from scenarios.surveys.members import read_member
from scenarios.surveys.witnessing.state import make_witness
from tests.scenarios.command import ROOT, Said, complaint, environment, sottovoce
from tests.scenarios.survey_folders import (
    ANALYSIS,
    PLAN,
    ROWS,
    answer_alone,
    make_folders,
    plan_file,
    table,
)
from tests.scenarios.surveys.witnessing.witnesses import Files, files, running
from transports.testing import HANGS


class Held(NamedTuple):
    """A survey that is held before a witness, after a try without enough of them, and once more."""

    out: Path
    early: Said
    said: list[str]
    again: Said
    witness: Files
    other: str

    def read(self, command: str, *options: object) -> tuple[object, ...]:
        transcript, checkpoint = (
            self.out / f"transcript.{name}" for name in ("svt.zst", "checkpoint")
        )
        return (command, transcript, "--checkpoint", checkpoint, *options)

    def verify(self, *options: object) -> tuple[object, ...]:
        return self.read("verify", *options)


def hold(keys: Path, out: Path, *options: object) -> list[str]:
    """Hold the survey; what its aggregator says on standard error."""
    out.mkdir()
    aggregator = subprocess.Popen(
        [
            *(sys.executable, "-m", "scenarios", "aggregate", str(keys / AGGREGATOR)),
            *("--listen", "127.0.0.1:0", "--out", str(out), "--json", *map(str, options)),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=environment(),
    )
    try:
        assert aggregator.stderr is not None
        port = int(aggregator.stderr.readline().rpartition(":")[2])

        def answer(name: str) -> str:
            records = table(out / f"{name}.csv", *ROWS[:2])
            member = read_member(keys / name)
            return answer_alone(
                member, host="127.0.0.1", port=port, records=records, budget=None
            ).ending

        with ThreadPoolExecutor() as threads:
            assert {*threads.map(answer, ("anna", "bert", "carl"))} == {"done"}
        text, said = aggregator.communicate(timeout=HANGS)
        assert aggregator.returncode == 0, said
        assert text == (out / "result.json").read_text()
        return said.splitlines()
    finally:
        aggregator.kill()
        aggregator.communicate()


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Held:
    folder = tmp_path_factory.mktemp("survey")
    keys = make_folders(folder, PLAN + ANALYSIS)
    charter = read_member(keys / AGGREGATOR).charter
    origin = log_origin(charter.session, charter.roster.key(AGGREGATOR))
    made = files(folder)
    other = make_witness(folder / "other.key", folder / "other", "other.example").text
    out, aside = folder / "out", folder / "aside"
    with running(made, [origin]) as witness:
        there = ("--witness", witness.at.url, made.vkey)
        nobody = ("--witness", "http://127.0.0.1:9", other)
        aggregate = ("aggregate", keys / AGGREGATOR, "--listen", "127.0.0.1:0", "--out", aside)
        early = sottovoce(*aggregate, *there, *nobody, "--joining", 0)
        secret = keys / AGGREGATOR / f"{LOG_SECRET}-1"
        assert secret.exists()
        said = hold(keys, out, *there, *nobody, "--witnesses", 1)
        assert not secret.exists()
        assert not aside.exists() or not [*aside.iterdir()]
        again = sottovoce(*aggregate, *there, "--joining", 0)
    return Held(out, early, said, again, made, other)


def test_keys_says_what_a_witness_is_told(tmp_path: Path) -> None:
    out = tmp_path / "keys"
    said = sottovoce("keys", plan_file(tmp_path), "--party", "a", "--party", "b", "--out", out)
    charter = read_member(out / AGGREGATOR).charter
    origin = log_origin(charter.session, charter.roster.key(AGGREGATOR))
    assert said.out.splitlines()[1] == f"for a witness: --trust {origin}"


@pytest.mark.slow
def test_a_survey_is_cosigned_and_does_not_wait_for_the_absent(held: Held) -> None:
    first, second = held.said
    assert first == "witness witness.example/w1 has cosigned"
    assert second.startswith("witness other.example has NOT cosigned: ")
    note = (held.out / "transcript.checkpoint").read_text()
    assert [name for name, _ in split_note(note)[1]][1:] == ["witness.example/w1"]
    found = sottovoce(*held.verify("--witness-key", held.witness.vkey, "--json")).json
    assert found["verdict"] == "sound"
    assert found["published"] == "fits"
    assert found["cosigned"]["enough"] is True
    assert [each["name"] for each in found["cosigned"]["by"]] == ["witness.example/w1"]
    said = sottovoce(*held.verify("--witness-key", held.witness.vkey))
    assert said.code == 0
    assert "Witnesses. 1 of 1 witness has cosigned the checkpoint" in said.out
    # Whoever does not ask for witnesses hears nothing of them.
    plain = sottovoce(*held.verify("--json")).json
    assert "cosigned" not in plain
    assert "Witnesses" not in {check["about"] for check in plain["checks"]}


def test_so_many_witnesses_are_demanded(held: Held) -> None:
    keys = ("--witness-key", held.witness.vkey, "--witness-key", held.other)
    said = sottovoce(*held.verify(*keys))
    assert said.code == 1
    assert "1 of 2 witnesses has cosigned" in said.out
    assert "2 demanded" in said.out
    assert said.out.startswith("Record: broken. ")
    assert sottovoce(*held.verify(*keys, "--witnesses", 1)).code == 0


def test_without_enough_witnesses_it_does_not_begin(held: Held) -> None:
    assert complaint(held.early, code=1).startswith(
        "the survey has not begun: 1 of 2 witnesses have cosigned the first checkpoint, "
        "expected 2: other.example: "
    )
    # It was begun afterwards, with the same first checkpoint: the witness saw no fork.
    assert not [*held.witness.state.glob("*.evidence.json")]


def test_another_attempt_is_cosigned_too(held: Held) -> None:
    """The witness was told of the survey, so of all attempts; it has kept one log of each."""
    assert held.again.code == 1
    said = held.again.err.splitlines()
    assert said[0].startswith("attempt 2: a party that answered an earlier one pays again")
    assert said[-1].startswith("sottovoce: 0 of 3 sent 'Report'")
    first = open_transcript(held.out / "transcript.svt.zst").entries().header
    found = open_transcript(held.out.with_name("aside") / "transcript.svt.zst.partial").verify()
    assert (found.intact, found.checked_header().attempt) == (False, 2)
    assert found.faults == ()
    kept = [read_note(path.read_text()) for path in held.witness.state.glob("*.checkpoint")]
    logs = {checkpoint.session: checkpoint.size for checkpoint in kept}
    assert logs.keys() == {each.session for each in (found.checked_header(), first)}
    assert logs[found.checked_header().session] == 1
    assert not [*held.witness.state.glob("*.evidence.json")]


def test_the_beginning_is_on_record_and_beside_it(held: Held) -> None:
    note = (held.out / "transcript.first.checkpoint").read_text()
    assert read_note(note).size == 1
    assert [name for name, _ in split_note(note)[1]][1:] == ["witness.example/w1"]
    found = sottovoce(*held.verify("--witness-key", held.witness.vkey, "--json")).json
    first, last = (found[name]["by"] for name in ("first_cosigned", "cosigned"))
    assert [each["name"] for each in first] == ["witness.example/w1"]
    assert first[0]["time"] <= last[0]["time"]
    # The first one alone shows the beginning of a survey that was broken off.
    begun = held.out / "transcript.first.checkpoint"
    key = ("--witness-key", held.witness.vkey)
    asked = sottovoce("verify", held.out / "transcript.svt.zst", "--checkpoint", begun, *key)
    assert asked.code == 0
    assert "1 of 1 witness has cosigned the first checkpoint" in asked.out


def test_an_audit_shows_what_was_announced(held: Held, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    said = sottovoce(*held.read("audit", "--html", page, "--details")).out
    line = (
        "Announced: 2 tables (smokes, age by smokes), intervals at 90 % about the respondents, "
        "projection clip. The result gives them. Published by itself and not announced: age."
    )
    assert line in said
    for text in (said, page.read_text()):
        assert "smokes, as announced" in text
        assert "age by smokes, as announced" in text
    found = sottovoce(*held.read("audit", "--json")).json["analysis"]
    published = json.loads((held.out / "result.json").read_text())["analysis"]
    assert found == published
    assert published["announced"] == [["smokes"], ["age", "smokes"]]
    assert published["not_announced"] == ["age"]
    cells = published["tables"][1]["cells"]
    assert [cell["categories"] for cell in cells][:2] == [["young", "no"], ["young", "yes"]]
    assert sum(cell["value"] for cell in cells) == pytest.approx(1)


def test_options_that_do_not_fit_are_told(held: Held) -> None:
    transcript = held.out / "transcript.svt.zst"
    key = ("--witness-key", held.witness.vkey)
    assert "expected --checkpoint too" in complaint(sottovoce("verify", transcript, *key))
    told = complaint(sottovoce(*held.verify("--witnesses", 1)))
    assert "expected --witness-key too" in told
    assert "expected NAME+ID+KEY" in complaint(sottovoce(*held.verify("--witness-key", "x")))
    assert "have the same key" in complaint(sottovoce(*held.verify(*key, *key)))
    assert "expected 1 to 1" in complaint(sottovoce(*held.verify(*key, "--witnesses", 2)))
