"""``sottovoce tabulate``: what it prints, writes and refuses."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from scenarios.running.engines import sweep
from tests.scenarios.command import ROOT, complaint, environment, sottovoce
from tests.tiers import thinned
from transports.testing import HANGS

LAWS = Path(__file__).parents[2] / "law_scenarios.py"


def test_a_scenario_is_drawn_from_its_law() -> None:
    said = sottovoce("tabulate", "quickstart", "--n", "3e4", "--cohort", "1e4", "--json").json
    assert said["scenario"] == "quickstart"
    assert said["by_law"]["population"] == "the distribution of the town"
    assert said["by_law"]["cohorts"] == 3
    assert said["estimate"]["respondents"] == 30_000
    assert len(said["digest"]) == 64
    again = sottovoce("tabulate", "quickstart", "--n", "30000", "--cohort", "10_000", "--json").json
    assert again["digest"] == said["digest"]
    other = sottovoce("tabulate", "quickstart", "--n", "3e4", "--seed", "2", "--json").json
    assert other["digest"] != said["digest"]


@pytest.mark.parametrize(
    ("scenario", "population"),
    thinned(
        [
            ("town-means", "the law of the town's ages and incomes"),
            ("taxi-marginals", "the law of a stand-in for taxi trips, 8 bits each"),
            ("kv-gaussian", "the law of 50 keys called 'Gaussian'"),
            ("rrba-survey", "the Bayesian network 'Survey'"),
            ("adult-independent", "32,561 records of 'Adult', with replacement"),
            ("adult-joint", "32,561 records of 'Adult', with replacement"),
            ("adult-ind-joint", "32,561 records of 'Adult', with replacement"),
        ],
        3,
    ),
)
def test_scenarios_have_populations(scenario: str, population: str) -> None:
    said = sottovoce("tabulate", scenario, "--n", "2000", "--json").json
    assert said["by_law"]["population"] == population
    assert said["respondents"] == 2000
    assert ("truth" in said) == population.endswith("replacement")


def test_of_a_sum_nothing_is_measured_and_what_it_would_tell_is_said() -> None:
    asked = ("tabulate", "adult-counts", "--n", "1e4")
    said = sottovoce(*asked, "--json").json
    assert said["by_law"]["parties"] == 100
    assert said["privacy"]["record_epsilon"] is None
    assert 0.9 < said["privacy"]["epsilon_among_honest"] <= 1
    assert (said["privacy"]["honest"], said["privacy"]["delta_among_honest"]) == (57, 1e-6)
    exact = sottovoce(*asked, "--set", "noise=none", "--json").json["privacy"]
    assert (exact["record_epsilon"], exact["epsilon_among_honest"]) == (None, None)
    pairs = sottovoce(*asked, "--set", "counted=randomized-pairs", "--json").json["privacy"]
    assert pairs["epsilon_among_honest"] < 60 < 120 < pairs["record_epsilon"]


def test_a_stranger_needs_no_more_than_a_result_that_adds_up() -> None:
    said = sottovoce("tabulate", f"{LAWS}:honest", "--n", "1e5", "--json").json
    assert 0.29 < said["estimate"]["marginals"]["cheats"]["yes"] < 0.31
    held_up = sottovoce("tabulate", f"{LAWS}:held_up", "--n", "1e4", "--json").json
    assert held_up["variant"] == "rr-independent"


@pytest.mark.slow
def test_a_stranger_on_processes() -> None:
    here, there = (
        sottovoce("tabulate", f"{LAWS}:honest", "--n", "1e5", "--json", "--engine", engine).json
        for engine in ("here", "processes")
    )
    assert here["digest"] == there["digest"]
    assert there["by_law"]["engine"] == "processes"


@pytest.mark.slow
def test_parameters_that_change_something_are_taken(tmp_path: Path) -> None:
    config = tmp_path / "parameters.toml"
    config.write_text("p = 0.9\n")
    options = ("--n", "1000", "--config", config, "--set", "records=50", "--set", "project=clip")
    said = sottovoce("tabulate", "adult-joint", *options, "--json").json
    assert said["parameters"]["p"] == 0.9
    assert said["by_law"]["population"] == "50 records of 'Adult', with replacement"
    assert said["estimate"]["projection"] == "clip"


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["p=0.7", "drop=0"])
def test_what_is_so_by_default_may_be_set(setting: str) -> None:
    options = ("adult-independent", "--n", "1000", "--set", "records=50")
    said = sottovoce("tabulate", *options, "--set", setting, "--json")
    assert said.code == 0, said.err
    assert said.json["digest"] == sottovoce("tabulate", *options, "--json").json["digest"]


def test_the_result_is_written_where_no_real_survey_is(tmp_path: Path) -> None:
    out = tmp_path / "out"
    said = sottovoce("tabulate", f"{LAWS}:warner", "--n", "1000", "--out", out, "--details")
    assert said.out.endswith(f"written: {out / 'result.json'}\n")
    assert [path.name for path in out.iterdir()] == ["result.json"]
    written = json.loads((out / "result.json").read_text())
    assert written["digest"] in said.out
    again = sottovoce("tabulate", f"{LAWS}:warner", "--n", "1000", "--out", out, "--json").json
    assert again["digest"] == written["digest"]
    (out / "result.json").write_text("{}")
    kept = sottovoce("tabulate", f"{LAWS}:warner", "--n", "1000", "--out", out, "--details")
    assert "may be the result of a real survey" in complaint(kept)


COMMAND = """
import os, signal, sys
from scenarios import cli
from scenarios.files import cohorts_done
from scenarios.running import tabulating

tabulating.WRITTEN_EVERY = 0.0
tabulating._SHARE_OF_WRITING = 1e9
write, signum = cohorts_done.write_whole, int(sys.argv[1])

def written(path, content, **options):
    write(path, content, **options)
    written.times += 1
    if written.times == 3:
        os.kill(os.getpid(), signum)

written.times = 0
cohorts_done.write_whole = written
cli.main(sys.argv[2:])
"""


@pytest.mark.slow
@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGINT])
def test_the_same_command_goes_on(tmp_path: Path, signum: signal.Signals) -> None:
    arguments = ["tabulate", f"{LAWS}:warner", "--n", "9500", "--cohort", "1000", "--json"]
    whole = sottovoce(*arguments).json
    there = [*arguments, "--out", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, str(int(signum)), *there],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=HANGS,
        check=False,
    )
    file = tmp_path / "cohorts.part"
    assert file.exists(), done.stderr
    if signum == signal.SIGINT:
        assert done.returncode == 130
        assert done.stderr.strip() == f"interrupted; the same command goes on from {file}"
    else:
        assert done.returncode == -signum
    refused = sottovoce(*there, "--seed", "2")
    assert "is of another tabulation, not with the same seed" in complaint(refused)
    resumed = sottovoce(*there).json
    assert resumed["digest"] == whole["digest"]
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


MINE = """
import os
from pathlib import Path

import numpy as np

from protocol import Attribute, FrequencyOracle, Law, MatrixRandomizer, Records, Survey
from scenarios import Scenario

CHEATS = Survey("Taxes", (Attribute(name="cheats", categories=("no", "yes")),))
ROWS = [[0.8, 0.2], [0.2, 0.8]]
FAILS = Path(__file__).with_name("fails")


class Halved(MatrixRandomizer, frozen=True):
    @property
    def epsilon(self):
        return super().epsilon / 2


class Failing(MatrixRandomizer, frozen=True):
    def randomize(self, codes, stream):
        raise RuntimeError("my bug")


class Odd(MatrixRandomizer, frozen=True):
    def randomize(self, codes, stream):
        return np.full(len(codes), 7, np.uint8)


class Lying(FrequencyOracle, frozen=True):
    name = "lying"
    randomizer = property(lambda self: Halved.from_probabilities(ROWS))


class Raising(FrequencyOracle, frozen=True):
    name = "raising"
    randomizer = property(lambda self: Failing.from_probabilities(ROWS))


class OutOfRange(FrequencyOracle, frozen=True):
    name = "out-of-range"
    randomizer = property(lambda self: Odd.from_probabilities(ROWS))


class Late(FrequencyOracle, frozen=True):
    name = "late"
    randomizer = property(lambda self: MatrixRandomizer.from_probabilities(ROWS))

    def answer(self, records, question, stream):
        if len(records) == 500 and FAILS.exists():
            raise RuntimeError("the fourth cohort")
        return super().answer(records, question, stream)


def drawn(n, stream):
    return Records(CHEATS, (stream.words(n) % 2).astype("u1").reshape(-1, 1))


def people(context):
    law = Law(CHEATS, "a coin", drawn)
    return context.drawn(drawn(60, context.stream("people")), law)


SCENARIOS = tuple(
    Scenario.of(variant, name=variant.name, summary="One.", records=people)
    for variant in (Lying, Raising, OutOfRange, Late)
)
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A file of a person's own."""
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    return path


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("lying", "randomizer 'Halved' states epsilon 0.693147181, and its law has 1.38629436"),
        ("raising", "RuntimeError: my bug"),
        ("out-of-range", "cannot send 'Draws': Draws.reports: value 7 at [0]"),
    ],
)
def test_a_mistake_of_ones_own_is_one_line_by_processes_too(
    mine: Path, name: str, said: str
) -> None:
    options = ("--n", "1000", "--cohort", "500", "--engine", "processes")
    assert said in complaint(sottovoce("tabulate", f"{mine}:{name}", *options), 1)


@pytest.mark.parametrize("engine", thinned(["here", "processes"], 1))
def test_an_edited_file_of_ones_own_is_another_tabulation(mine: Path, engine: str) -> None:
    out, fails = mine.parent / "out", mine.with_name("fails")
    fails.touch()
    # The last cohort is of 500 people.
    options = ("--n", "3500", "--cohort", "1000", "--engine", engine, "--out", out)
    command = ("tabulate", f"{mine}:late", *options)
    said = complaint(sottovoce(*command), 1)
    assert said == "variant 'late', cohort 3: RuntimeError: the fourth cohort"
    assert (out / "cohorts.part").exists()
    fails.unlink()
    mine.write_text(MINE + "# edited\n")
    assert "of another tabulation, not with the same own file;" in complaint(sottovoce(*command))
    mine.write_text(MINE)
    assert sottovoce(*command).code == 0


def test_a_file_is_of_the_versions_that_counted(
    mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, fails = mine.parent / "out", mine.with_name("fails")
    fails.touch()
    command = ("tabulate", f"{mine}:late", "--n", "1500", "--cohort", "1000", "--out", out)
    complaint(sottovoce(*command), 1)
    monkeypatch.setattr(sweep, "version", lambda name: "0.0")
    assert "not with the same version;" in complaint(sottovoce(*command))


@pytest.mark.slow
def test_workers_without_a_cohort_are_pointed_out() -> None:
    options = ("quickstart", "--n", "2000", "--engine", "processes", "--jobs", "2")
    said = sottovoce("tabulate", *options)
    assert said.code == 0
    assert said.err.startswith("1 cohort for 2 workers: a smaller --cohort occupies all of them")
    assert sottovoce("tabulate", *options, "--cohort", "1000").err == ""


def test_one_person_is_a_person() -> None:
    said = sottovoce("tabulate", "quickstart", "--n", "1", "--json").json
    assert said["by_law"]["says"].startswith("1 person by law, drawn from")
