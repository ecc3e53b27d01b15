"""The line of long work."""

from __future__ import annotations

import io
import re
import time
from pathlib import Path

import pytest
from rich.console import Console

from protocol.variants import RRIndependent
from scenarios.surveys.watching.bars import Ongoing
from scenarios.surveys.watching.reading import reading
from tests.pages import independent


def test_a_bar_of_several_stages_never_goes_back() -> None:
    told: list[tuple[float, float, str]] = []
    ongoing = Ongoing(lambda *said: told.append(said))
    for stage in range(3):
        ongoing.stage(stage, 3)
        for total in (4, 2):  # Each stage may be carried out in several turns.
            for done in range(total + 1):
                ongoing(done, total)
    places = [done for done, *_ in told]
    assert places == sorted(places)
    assert places[-1] == pytest.approx(3)
    assert {total for _, total, _ in told} == {3}
    assert told[-1][2] == "part 3 of 3, 2 of 2 pieces"


def test_parts_are_said_if_there_are_several() -> None:
    told: list[str] = []
    ongoing = Ongoing(lambda done, total, said: told.append(said))
    ongoing.stage(0, 1)
    ongoing.stage(1, 2)
    assert told == ["", "part 2 of 2"]


def test_a_long_transcript_has_a_line_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = io.StringIO()
    console = Console(file=screen, width=100, force_terminal=True)
    monkeypatch.setattr("scenarios.surveys.watching.bars.terminal", lambda: console)
    monkeypatch.setattr("scenarios.surveys.watching.reading.LONG", 1000)
    path = tmp_path / "transcript.svt.zst"
    path.write_bytes(independent())
    with reading(path, times=2) as opened:
        assert opened.audit(RRIndependent).verdict == "sound"
        time.sleep(0.15)  # A screen is drawn ten times a second.
    assert re.search(r"reading transcript.svt.zst: [\d.]+ kB of [\d.]+ kB", screen.getvalue())
    shown = screen.getvalue()
    with reading(path, silent=True) as opened:
        assert opened.verify().intact
    monkeypatch.setattr("scenarios.surveys.watching.reading.LONG", 10**9)
    with reading(path) as opened:
        assert opened.progress is None
    assert screen.getvalue() == shown
