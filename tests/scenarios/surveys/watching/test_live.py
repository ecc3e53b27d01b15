"""``run --watch``, and the line of a run on a terminal."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from protocol import Attribute, Survey
from protocol.session.charter import Charter
from protocol.transcript.entries import Entry
from protocol.variants import RRIndependent, SecureSumVariant
from scenarios import Fault, crash, simulate
from scenarios.surveys.watching.bars import Ongoing
from scenarios.surveys.watching.run_line import _Runs, following
from scenarios.surveys.watching.standing_words import sentence
from scenarios.surveys.watching.standings import Line, Standing, StandingWriter
from scenarios.surveys.watching.steps import Drawing, whiskers
from scenarios.surveys.watching.tally import Tally
from tests.protocol.sessions import answers
from tests.scenarios.command import ROOT, complaint, environment, sottovoce

HOSTILE = "[red]no[/]"
SMALL = ("run", "quickstart", "--set", "residents=60", "--watch")
SURVEY = Survey("habits", (Attribute(name=HOSTILE, categories=("[b]never", "seldom")),))


def standings(variant: RRIndependent | SecureSumVariant) -> tuple[Standing, ...]:
    outcome = simulate(variant, answers(variant.survey, 40))
    writer = StandingWriter(outcome.charter)
    outcome.transcript.audit(type(variant), folds=[writer])
    return writer.standings()


def drawn(standing: Standing, *, width: int = 80, height: int = 24) -> list[str]:
    file = io.StringIO()
    console = Console(file=file, width=width, height=height, force_terminal=True, no_color=True)
    console.print(Drawing(standing))
    return [line.rstrip() for line in file.getvalue().splitlines()]


@pytest.mark.slow
def test_a_line_for_each_step_where_there_is_no_terminal() -> None:
    said = sottovoce(*SMALL, "--set", "parties=20", "--json")
    assert said.json["scenario"] == "quickstart"
    lines = said.err.splitlines()
    about = "95 % interval about the respondents; each is for its own step, "
    assert lines.pop(0) == f"{about}so do not stop at one that pleases"
    # Twenty parties answer, the wait is over, the result is published.
    assert len(lines) == 22
    assert "; 1 of 20 that were asked have answered; ε at most 2.899; from 3 resp" in lines[0]
    assert "the wait for Report is over, 20 of 20 parties counted" in lines[-2]
    assert "; round 2; the result is published; " in lines[-1]
    widths = [
        float(high) - float(low)
        for low, high in (re.findall(r"\[([\d.]+), ([\d.]+)\]", line)[0] for line in lines)
    ]
    # Who answers first is chance, and so is the first interval: half of [0, 100] or all of it.
    assert widths[-1] == pytest.approx(33.4)
    assert widths[-1] < widths[0]


def test_a_watch_that_cannot_be_written_ends_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    variant = RRIndependent.with_keep(SURVEY, 0.6)
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stderr", full)
        with following("a survey", watched=True, silent=True) as (watch, _):
            outcomes = [simulate(variant, answers(SURVEY, 8), watch=watch) for _ in range(2)]
        monkeypatch.undo()
        with contextlib.suppress(OSError):
            full.close()
    assert [outcome.counted for outcome in outcomes] == [8, 8]


def test_what_draws_reports_by_law_cannot_be_watched() -> None:
    said = complaint(sottovoce("run", "rr-table-1", "--watch"))
    assert "--watch: 'rr-table-1'" in said
    assert "--by-messages" in said


def test_of_runs_by_messages_the_first_is_watched() -> None:
    said = sottovoce(
        *("run", "ind-joint-figures", "--by-messages", "--watch", "--json"),
        *("--set", "figure=1", "--set", "repeats=1"),
    )
    assert json.loads(said.out)
    assert said.err.splitlines()[-1].count("the result is published") == 1


def test_a_drawing_fits_its_terminal_and_shows_names_as_they_are() -> None:
    last = standings(RRIndependent.with_keep(SURVEY, 0.6))[-1]
    for width in (80, 120):
        lines = drawn(last, width=width)
        assert lines[0] == "round 2: the result is published; 0 gone"
        assert lines[1].startswith("ε at most 1.387; from 40 respondents")
        assert max(map(len, lines)) <= width
        assert lines[2].startswith("95 % interval about the respondents; each is for its own step,")
        first = next(line for line in lines if line.startswith("[red]no[/]"))
        assert "[b]never" in first
        assert re.search(r"─*●─* +\d+\.\d % \[\d+\.\d, \d+\.\d\]$", first)
    short = drawn(last, height=9)
    assert len(short) == 5


@pytest.mark.slow
def test_sums_have_no_estimate_before_the_result() -> None:
    *before, last = standings(SecureSumVariant(survey=SURVEY))
    assert {standing.respondents for standing in before} == {None}
    assert "no estimate: none before the result" in sentence(before[-1])
    assert "exact sums, which no ε bounds" in sentence(last)
    assert "from 40 respondents" in sentence(last)


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (Line("a", "b", 0.5, 0.25, 0.75), " ─●─"),
        (Line("a", "b", 0.0, 0.0, 0.0), "●"),
        (Line("a", "b", -0.5, 0.0, 0.5), "───"),
        (Line("a", "b", 1.0, 0.5, 1.0), "  ──●"),
        (Line("a", "b", 0.75, None, None), "   ●"),
        (Line("a", "b"), ""),
        (Line("a", "", 30.0, 20.0, 40.0, None), ""),
    ],
)
def test_whiskers(line: Line, shown: str) -> None:
    # Five columns are quarters of the scale.
    assert whiskers(line, 5) == shown
    assert whiskers(line, 5, ascii_only=True) == shown.replace("─", "-").replace("●", "o")


@pytest.mark.parametrize("rules", [(), (crash(0.2, kind="Report"),)])
def test_a_bar_follows_the_parties_of_all_runs(rules: tuple[Fault, ...]) -> None:
    told: list[tuple[float, float, str]] = []
    runs = _Runs(Ongoing(lambda *said: told.append(said)))

    def watch(charter: Charter) -> Callable[[Entry], object]:
        tally = Tally(charter.roster)
        return runs.watch(tally, tally.take)

    variant, records = RRIndependent.with_keep(SURVEY, 0.6), answers(SURVEY, 40)
    for number in range(2):
        runs.done(number, 2)
        outcome = simulate(variant, records, watch=watch, rules=rules)
        done, total, said = told[-1]
        # Whoever is gone without an answer leaves a part undone.
        missing = 40 - outcome.counted
        assert done / total == pytest.approx((number + 1 - missing / 80) / 2, abs=1e-3)
        assert said == f"run {number + 1} of 2, {outcome.counted} of 40 parties heard"
    assert [done for done, *_ in told] == sorted(done for done, *_ in told)


@pytest.mark.slow
def test_a_terminal_shows_how_far_it_is(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "scenarios", *SMALL[:2], "--watch", "--set", "residents=3000"]
    done = subprocess.Popen(
        command, cwd=ROOT, stderr=theirs, stdout=subprocess.DEVNULL, env=environment()
    )
    os.close(theirs)
    seen = b""
    while True:
        try:
            part = os.read(ours, 1 << 16)
        except OSError:
            break  # The other end is closed.
        if not part:
            break
        seen += part
    assert done.wait() == 0
    said = seen.decode()
    assert "of 3,000 parties heard" in said
    assert "that were asked have answered" in said
    assert "●" in said
