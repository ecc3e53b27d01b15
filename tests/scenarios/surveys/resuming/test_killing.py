"""Aggregators among processes are killed, stopped and starved, and nobody touches the parties."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.scenarios.surveys.resuming.killing import tried


@pytest.mark.slow
def test_some_trials(tmp_path: Path) -> None:
    made: list[str] = []
    for trial in range(4):
        folder = tmp_path / str(trial)
        folder.mkdir()
        faults, lost = tried(folder, 6, random.Random(trial))
        assert lost == []
        made += faults
    assert made
