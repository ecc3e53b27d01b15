"""A survey over TLS whose last checkpoint a witness cosigns, and the same survey held again."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from protocol.messages import AGGREGATOR
from protocol.transcript.checkpoints import origin_of, split_note
from scenarios.deployment.answering import answer_survey
from scenarios.deployment.members import read_member
from scenarios.witnessing.state import make_witness
from tests.scenarios.command import ROOT, complaint, environment, sottovoce
from tests.scenarios.survey_folders import ROWS, make_folders, plan_file, table
from tests.scenarios.witnessing.witnesses import Files, files, running


class Held(NamedTuple):
    """A survey held twice in one session, each time before the same witness."""

    outs: tuple[Path, ...]
    said: tuple[list[str], ...]
    witness: Files
    other: str

    def verify(self, *options: object, run: int = 0) -> tuple[object, ...]:
        transcript = self.outs[run] / "transcript.svt"
        checkpoint = self.outs[run] / "transcript.checkpoint"
        return ("verify", transcript, "--checkpoint", checkpoint, *options)


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
            ending, _ = answer_survey(
                member, host="127.0.0.1", port=port, records=records, budget=None
            )
            return ending

        with ThreadPoolExecutor() as threads:
            assert {*threads.map(answer, ("anna", "bert", "carl"))} == {"done"}
        text, said = aggregator.communicate(timeout=60)
        assert aggregator.returncode == 0, said
        assert text == (out / "result.json").read_text()
        return said.splitlines()
    finally:
        aggregator.kill()
        aggregator.communicate()


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Held:
    folder = tmp_path_factory.mktemp("survey")
    keys = make_folders(folder)
    charter = read_member(keys / AGGREGATOR).charter
    origin = origin_of(charter.session, charter.roster.key(AGGREGATOR))
    made = files(folder)
    other = make_witness(folder / "other.key", folder / "other", "other.example").text
    outs = folder / "first", folder / "second"
    with running(made, [origin]) as witness:
        there = ("--witness", witness.at.url, made.vkey)
        nobody = ("--witness", "http://127.0.0.1:9", other)
        said = hold(keys, outs[0], *there, *nobody), hold(keys, outs[1], *there)
    return Held(outs, said, made, other)


def test_keys_says_what_a_witness_is_told(tmp_path: Path) -> None:
    out = tmp_path / "keys"
    said = sottovoce("keys", plan_file(tmp_path), "--party", "a", "--party", "b", "--out", out)
    charter = read_member(out / AGGREGATOR).charter
    origin = origin_of(charter.session, charter.roster.key(AGGREGATOR))
    assert said.out.splitlines()[1] == f"for a witness: --trust {origin}"


def test_a_survey_is_cosigned_and_does_not_wait_for_the_absent(held: Held) -> None:
    first, second = held.said[0]
    assert first == "witness witness.example/w1 has cosigned"
    assert second.startswith("witness other.example has NOT cosigned: ")
    note = (held.outs[0] / "transcript.checkpoint").read_text()
    assert [name for name, _ in split_note(note)[1]][1:] == ["witness.example/w1"]
    found = sottovoce(*held.verify("--witness-key", held.witness.vkey, "--json")).json
    assert found["intact"] is True
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
    assert said.out.splitlines()[-1] == "NOT intact"
    assert sottovoce(*held.verify(*keys, "--witnesses", 1)).code == 0


def test_the_survey_held_again_is_a_fork_that_is_not_cosigned(held: Held) -> None:
    [said] = held.said[1]
    assert said.startswith("witness witness.example/w1 has NOT cosigned: it has cosigned ")
    verified = sottovoce(*held.verify("--witness-key", held.witness.vkey, run=1))
    assert verified.code == 1
    assert "0 of 1 witness have cosigned" in verified.out
    # Without the witness nobody could say that there was another run.
    assert sottovoce(*held.verify(run=1)).code == 0


def test_options_that_do_not_fit_are_told(held: Held) -> None:
    transcript = held.outs[0] / "transcript.svt"
    key = ("--witness-key", held.witness.vkey)
    assert "expected --checkpoint too" in complaint(sottovoce("verify", transcript, *key))
    told = complaint(sottovoce(*held.verify("--witnesses", 1)))
    assert "expected --witness-key too" in told
    assert "expected NAME+ID+KEY" in complaint(sottovoce(*held.verify("--witness-key", "x")))
    assert "have the same key" in complaint(sottovoce(*held.verify(*key, *key)))
    assert "expected 1 to 1" in complaint(sottovoce(*held.verify(*key, "--witnesses", 2)))
