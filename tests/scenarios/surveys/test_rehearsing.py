"""``rehearse``: every variant, and one of a user's own, among processes over TLS."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import re
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from protocol.estimators.inference.intervals import Intervals
from protocol.variants import BUILT_IN
from scenarios import read_plan, simulate
from scenarios.cli.surveys.holding import PublishOptions
from scenarios.report.beside import Beside
from scenarios.running.calibrating import UNCALIBRATED
from scenarios.surveys import rehearsing
from scenarios.surveys.rehearsing import Rehearsed
from tests.scenarios.command import Said, python, sottovoce
from tests.scenarios.programs import Program
from tests.scenarios.survey_folders import (
    PLAN,
    PLANS,
    RECORDS,
    ROWS,
    closing_plan,
    plan_file,
    table,
)
from tests.scenarios.surveys.test_plans import OWN, own_plan
from tests.tiers import thinned
from transports.testing import HANGS


def rehearsed(plan: Path, records: Path, out: Path, *options: object) -> Said:
    named = ("--records", records, "--out", out)
    # Each of several programs imports it all: on a busy machine that takes long.
    return python("-m", "scenarios", "rehearse", plan, *named, *options, timeout=600)


def accepted(out: Path, *options: object) -> bool:
    """Whether the audit accepts what a rehearsal has left, without any key and with one."""
    record = out / "result" / "transcript.svt.zst"
    published = ("--checkpoint", record.with_name("transcript.checkpoint"))
    folder = ("--member", out / "members" / "aggregator")
    verdicts = [
        json.loads(sottovoce("audit", record, *published, *keys, "--json", *options).out)["verdict"]
        for keys in ((), folder)
    ]
    return verdicts == ["sound", "sound"]


def held_out(folder: Path, name: str, kill: str | None, *options: object) -> tuple[Said, Path]:
    """A rehearsal among six parties, of a built-in variant or of one in a file of one's own.

    It is held and audited, and whoever was to be killed was.
    """
    own = name == OWN_NAME
    plan = own_plan(folder / "plan") if own else plan_file(folder, PATIENT[name])
    records, out = folder / "records.csv", folder / "out"
    records.write_text(RECORDS["rr-independent" if own else name])
    killing = () if kill is None else ("--kill", kill)
    said = rehearsed(plan, records, out, "--parties", 6, "--json", *killing, *options)
    assert (said.json["counted"], said.json["attempt"]) == (6, 1)
    assert said.json["transport"] == "tls"
    killed = [line for line in said.err.splitlines() if line.startswith("killed ")]
    pattern = {None: "", "party": r"killed party-\d", "aggregator": "killed aggregator"}[kill]
    assert re.fullmatch(pattern, "\n".join(killed)), said.err
    assert accepted(out, *(("--variant", own_variant(plan)) if own else ()))
    return said, out


def own_variant(plan: Path) -> str:
    return f"{plan.parent / 'quiet.py'}:Quiet"


OWN_NAME = "one's own"
PATIENT = {
    name: plan.replace("patience = 20.0", "patience = 600.0") for name, plan in PLANS.items()
}
"""Plans whose surveys wait for a party until it is started again, also on a busy machine."""


@pytest.mark.slow
@pytest.mark.parametrize("kill", [None, "party", "aggregator"])
@pytest.mark.parametrize("name", [*BUILT_IN, OWN_NAME])
def test_every_variant(name: str, kill: str | None, tmp_path: Path) -> None:
    held_out(tmp_path, name, kill)


def test_a_survey_that_closes_later_is_rehearsed_until_all_have_answered(tmp_path: Path) -> None:
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=60)
    plan = plan_file(tmp_path, closing_plan(later.strftime("%Y-%m-%dT%H:%M:%SZ")))
    records = tmp_path / "records.csv"
    records.write_text("".join(RECORDS["rr-joint"].splitlines(keepends=True)[:5]))
    said = rehearsed(plan, records, tmp_path / "out", "--parties", 4, "--json")
    assert said.json["counted"] == 4


@pytest.mark.slow
def test_an_aggregator_that_is_killed_goes_on(tmp_path: Path) -> None:
    asked = ("--level", 0.8, "--about", "population")
    said, _ = held_out(tmp_path, "secure-sum", "aggregator", *asked)
    intervals = said.json["estimate"]["intervals"]
    assert (intervals["level"], intervals["about"]) == (0.8, "population")


def started(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[str]]:
    """The processes of the members of rehearsals in this process, as they are started."""
    processes = []
    start = rehearsing._start

    def noting(*arguments: Any) -> subprocess.Popen[str]:
        processes.append(start(*arguments))
        return processes[-1]

    monkeypatch.setattr(rehearsing, "_start", noting)
    return processes


@pytest.mark.slow
def test_a_party_that_is_killed_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes = started(monkeypatch)
    records, out = tmp_path / "records.csv", tmp_path / "out"
    records.write_text(RECORDS["secure-sum"])
    plan = plan_file(tmp_path, PATIENT["secure-sum"])
    options = ("--parties", 6, "--out", out, "--kill", "party", "--json")
    said = sottovoce("rehearse", plan, "--records", records, *options)
    assert said.json["counted"] == 6
    killed = re.search(r"^killed (party-\d)$", said.err, re.MULTILINE)
    assert killed is not None, said.err
    folder = str(out / "members" / killed[1])
    codes = [process.returncode for process in processes if folder in process.args]
    assert codes == [-signal.SIGKILL, 0]
    assert [process.returncode for process in processes].count(0) == 1 + 6
    assert accepted(out)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kill", "json"),
    thinned([("party", ()), ("aggregator", ("--json",))], 1),
    ids=["party", "aggregator"],
)
def test_a_rehearsal_in_which_nobody_could_be_killed_has_failed(
    kill: str, json: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The survey is held all the same."""

    def too_late(aggregator: subprocess.Popen[str], *_: object) -> None:
        aggregator.wait()

    monkeypatch.setattr(rehearsing, f"_kill_{kill}", too_late)
    processes = started(monkeypatch)
    records, out = table(tmp_path / "r.csv", *ROWS), tmp_path / "out"
    options = ("--parties", 3, "--out", out, "--kill", kill, *json)
    said = sottovoce("rehearse", plan_file(tmp_path, PLAN), "--records", records, *options)
    assert said.code == 1
    assert f"--kill {kill}: nobody was killed, the survey ended too soon\n" in said.err
    assert (out / "result" / "result.json").read_text() == said.out or not json
    assert [process.returncode for process in processes] == [0, 0, 0, 0]
    assert accepted(out)


@pytest.mark.slow
def test_a_variant_of_ones_own_with_its_aggregator_killed(tmp_path: Path) -> None:
    plan, held, out = own_plan(tmp_path / "plan"), tmp_path / "held", tmp_path / "out"
    held.mkdir()
    for name in ("anna", "bert", "carl"):
        table(held / f"{name}.csv", "yes,old")
    plot, synthetic = tmp_path / "made" / "result.svg", tmp_path / "made" / "synthetic.csv"
    page = tmp_path / "made" / "result.html"
    margins = tmp_path / "margins.csv"
    margins.write_text("smokes;share\nno;0,5\nyes;0,5\n")
    files: tuple[object, ...] = ("--plot", plot, "--synthetic", synthetic, "--html", page)
    files += ("--project", "simplex", "--calibrate", margins)
    said = rehearsed(plan, held, out, "--kill", "aggregator", *files)
    assert said.code == 0, said.err
    assert said.err.startswith("killed aggregator\n"), said.err
    assert "Counted: all 3 who were asked." in said.out, said.out
    assert f"written: {plot}" in said.err
    assert plot.read_bytes().startswith(b"<?xml")
    assert len(synthetic.read_text().splitlines()) == 1 + 3
    assert '<p class="eyebrow">A survey</p>' in page.read_text(encoding="utf-8")
    result = json.loads((out / "result" / "result.json").read_text())
    assert result["estimate"]["projection"] == "simplex"
    assert result["calibration"]["margins"] == [["smokes"]]
    assert result["estimate"]["marginals"]["smokes"] == pytest.approx({"no": 0.5, "yes": 0.5})
    own = own_variant(plan)
    assert f"to audit it: sottovoce audit {out}/result/transcript.svt.zst" in said.err
    assert said.err.rstrip().endswith(f"--member {out}/members/aggregator --variant {own}")
    assert accepted(out, "--variant", own)


@pytest.mark.slow
def test_a_mistake_of_the_parties_comes_before_what_the_aggregator_makes_of_it(
    tmp_path: Path,
) -> None:
    mistake = '    async def party(self, me, records):\n        raise KeyError("slip")\n'
    plan = own_plan(tmp_path / "plan", f"{OWN}\n{mistake}")
    records = table(tmp_path / "r.csv", *ROWS)
    said = rehearsed(plan, records, tmp_path / "out", "--parties", 3)
    assert said.code == 1
    first, *rest = said.err.splitlines()
    assert f"{plan.parent / 'quiet.py'}:19: KeyError: 'slip'" in first
    assert first.startswith("party-1: party 'party-1', role 'party', round 0, ")
    assert rest[-1].startswith("sottovoce: 0 of 3 sent 'Draws'")


def test_a_rehearsal_that_is_interrupted_cannot_be_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> Rehearsed:
        raise KeyboardInterrupt

    monkeypatch.setattr(rehearsing, "rehearse", interrupted)
    records, out = table(tmp_path / "r.csv", *ROWS), tmp_path / "out"
    plan = plan_file(tmp_path, PLAN)
    said = sottovoce("rehearse", plan, "--records", records, "--parties", 3, "--out", out)
    assert said.code == 130
    assert "a rehearsal cannot be resumed: hold it again" in said.err
    assert "--resume" not in said.err


def test_ctrl_c_is_for_the_rehearsal_and_not_for_its_members() -> None:
    with contextlib.ExitStack() as running:
        process = rehearsing._start(running, "list")
        assert os.getpgid(process.pid) == process.pid


def test_a_signal_while_a_member_starts_ends_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    started = []

    class Interrupted(subprocess.Popen[str]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            started.append(self)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    with pytest.raises(KeyboardInterrupt), contextlib.ExitStack() as running:
        rehearsing._start(running, "list")
    assert [process.poll() for process in started] == [-signal.SIGKILL]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def members_of(out: Path) -> list[int]:
    """The processes that have a folder of this rehearsal on their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if os.fsencode(out / "members") in path.read_bytes():
                found.append(int(path.parent.name))
    return found


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_no_member_outlives_a_rehearsal_that_is_ended(number: int, tmp_path: Path) -> None:
    records, out = table(tmp_path / "r.csv", *ROWS), tmp_path / "out"
    named = ("--records", records, "--parties", 3, "--out", out)
    rehearsal = Program("rehearse", plan_file(tmp_path, PLAN), *named)
    while not members_of(out):
        assert rehearsal.poll() is None
        time.sleep(0.01)
    rehearsal.send_signal(number)
    _, complained = rehearsal.communicate(timeout=HANGS)
    assert rehearsal.returncode == 130
    assert "a rehearsal cannot be resumed" in complained
    assert members_of(out) == []


def test_a_survey_is_published_raw_where_it_cannot_be_projected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, records = read_plan(plan_file(tmp_path, PLANS["inp-rr"])), tmp_path / "records.csv"
    records.write_text(RECORDS["inp-rr"])
    outcome = simulate(plan.variant, plan.coding.records(records))
    asked = PublishOptions(
        calibration=UNCALIBRATED, intervals=Intervals(0.8), project="em", beside=Beside()
    )
    done, said = asked.state(outcome)
    values = said.values
    assert capsys.readouterr().err.startswith("--project em: no EM: ")
    assert (done.projection, values["estimate"]["projection"]) == ("none", "none")
    assert values["estimate"]["intervals"]["level"] == 0.8
    _, said = replace(asked, project="clip").state(outcome)
    assert said.values["estimate"]["projection"] == "clip"
