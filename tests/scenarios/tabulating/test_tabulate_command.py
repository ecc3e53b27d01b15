"""``sottovoce tabulate``: what it prints, writes and refuses."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.scenarios.command import OWN, ROOT, complaint, environment, sottovoce

LAWS = Path(__file__).parents[1] / "law_scenarios.py"


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
    [
        ("town-means", "the law of the town's ages and incomes"),
        ("taxi-marginals", "the law of a stand-in for taxi trips, 8 bits each"),
        ("kv-gaussian", "the law of 50 keys called 'Gaussian'"),
        ("rrba-survey", "the Bayesian network 'Survey'"),
        ("adult-independent", "32,561 records of 'Adult', with replacement"),
        ("adult-joint", "32,561 records of 'Adult', with replacement"),
        ("adult-ind-joint", "32,561 records of 'Adult', with replacement"),
    ],
)
def test_scenarios_have_populations(scenario: str, population: str) -> None:
    said = sottovoce("tabulate", scenario, "--n", "2000", "--json").json
    assert said["by_law"]["population"] == population
    assert said["respondents"] == 2000
    assert ("truth" in said) == population.endswith("replacement")


def test_the_report_says_who_was_asked_and_what_is_compared() -> None:
    said = sottovoce("tabulate", f"{LAWS}:warner", "--n", "1e5")
    assert said.code == 0, said.err
    text = " ".join(said.out.split())
    assert "100,000 people by law, drawn from a law of three cheats in ten: nobody was" in text
    assert "no message was sent, and nothing was recorded." in text
    assert "1 cohort of up to 1,000,000, 1 question, by the engine 'here'" in text
    assert "epsilon 1.38629 per record; cheats 1.38629 digest " in text
    assert "transcript" not in text
    [share] = [line for line in said.out.splitlines() if " yes " in line]
    assert 0.29 < float(share.split()[-4]) < 0.31


def test_a_stranger_needs_no_more_than_a_result_that_adds_up() -> None:
    said = sottovoce("tabulate", f"{LAWS}:honest", "--n", "1e5", "--json").json
    assert 0.29 < said["estimate"]["marginals"]["cheats"]["yes"] < 0.31
    held_up = sottovoce("tabulate", f"{LAWS}:held_up", "--n", "1e4", "--json").json
    assert held_up["variant"] == "rr-independent"


def test_a_stranger_on_processes() -> None:
    here, there = (
        sottovoce("tabulate", f"{LAWS}:honest", "--n", "1e5", "--json", "--engine", engine).json
        for engine in ("here", "processes")
    )
    assert here["digest"] == there["digest"]
    assert there["by_law"]["engine"] == "processes"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            (f"{LAWS}:largest",),
            "variant 'largest' cannot be tabulated: the results of single parties do not add up "
            "to the result of all; it needs methods 'stages' and 'count' of its own",
        ),
        (
            (f"{LAWS}:other",),
            "variant 'other' cannot be tabulated: it has no method 'stages'",
        ),
        ((f"{LAWS}:unheard",), "scenario 'unheard' does not call context.simulate: nobody is ask"),
        ((f"{LAWS}:departing",), "people by law never depart: no faults can be injected"),
        (("adult-counts",), "variant 'secure-sum' cannot be tabulated: its parties mask"),
        (("adult-clusters",), "variant 'rr-clusters' cannot be tabulated: its parties check"),
        (("rr-table-1",), "scenario 'rr-table-1' is a reproduction, which draws by law anyway"),
        (("quickstart", "--set", "parties=3"), "parameter 'parties' changes nothing by law"),
        (("quickstart", "--set", "residents=7"), "parameter 'residents' changes nothing by law"),
        (("adult-ind-joint", "--set", "adjust=true"), "parameter 'adjust' changes nothing by law"),
        (("adult-joint", "--set", "drop=0.1"), "people by law never depart"),
        (
            ("rrba-survey", "--set", "project=consistent"),
            "parameter 'project' = 'consistent': expected one of none, clip, simplex by law",
        ),
        (("rrba-survey", "--n", "1e9"), "1,000,000,000 respondents are 4,000,000 blocks of 250"),
        (("quickstart", "--force"), "--force: expected --out too"),
        (("quickstart", "--n", "1.5"), "'1.5': expected an integer from 1 to"),
        (("quickstart", "--n", "15e-1"), "'15e-1': expected an integer from 1 to"),
        (("quickstart", "--n", "1e400"), "'1e400': expected an integer from 1 to"),
        (("quickstart", "--n", "nan"), "'nan': expected an integer from 1 to"),
        (("quickstart", "--cohort", "1e9"), "'1e9': expected an integer from 1 to 134,217,728"),
        (("quickstart", "--jobs", "2"), "the engine 'here' runs one task at a time"),
        (("nosuch",), "no scenario 'nosuch'"),
    ],
)
def test_what_cannot_be_tabulated_is_refused(arguments: tuple[str, ...], said: str) -> None:
    given = arguments if "--n" in arguments else (*arguments, "--n", "1000")
    assert said in complaint(sottovoce("tabulate", *given))


def test_parameters_that_change_something_are_taken(tmp_path: Path) -> None:
    config = tmp_path / "parameters.toml"
    config.write_text("p = 0.9\n")
    options = ("--n", "1000", "--config", config, "--set", "records=50", "--set", "project=clip")
    said = sottovoce("tabulate", "adult-joint", *options, "--json").json
    assert said["parameters"]["p"] == 0.9
    assert said["by_law"]["population"] == "50 records of 'Adult', with replacement"
    assert said["estimate"]["projection"] == "clip"


@pytest.mark.parametrize("setting", ["p=0.7", "drop=0"])
def test_what_is_so_by_default_may_be_set(setting: str) -> None:
    options = ("adult-independent", "--n", "1000", "--set", "records=50")
    said = sottovoce("tabulate", *options, "--set", setting, "--json")
    assert said.code == 0, said.err
    assert said.json["digest"] == sottovoce("tabulate", *options, "--json").json["digest"]


def test_the_result_is_written_where_no_real_survey_is(tmp_path: Path) -> None:
    out = tmp_path / "out"
    said = sottovoce("tabulate", f"{LAWS}:warner", "--n", "1000", "--out", out)
    assert said.out.endswith(f"written: {out / 'result.json'}\n")
    assert [path.name for path in out.iterdir()] == ["result.json"]
    written = json.loads((out / "result.json").read_text())
    assert written["digest"] in said.out
    again = sottovoce("tabulate", f"{LAWS}:warner", "--n", "1000", "--out", out, "--json").json
    assert again["digest"] == written["digest"]
    (out / "result.json").write_text("{}")
    kept = sottovoce("tabulate", f"{LAWS}:warner", "--n", "1000", "--out", out)
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
        timeout=60,
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
    assert "is of another tabulation, with another seed" in complaint(refused)
    resumed = sottovoce(*there).json
    assert resumed["digest"] == whole["digest"]
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


def test_a_scenario_of_faults_is_refused() -> None:
    assert sottovoce("tabulate", OWN, "--n", "10").code == 2
