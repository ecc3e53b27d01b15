"""Aggregators among processes go on with older copies, and no receipt is worth nothing."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.scenarios.surveys.resuming.rolling_back import FAILED, PUBLISHED, STOPPED, How, tried


@pytest.mark.slow
@pytest.mark.parametrize("how", ["plain", "restore"])
def test_some_trials(how: How, tmp_path: Path) -> None:
    for trial in range(3):
        folder = tmp_path / str(trial)
        folder.mkdir()
        found = tried(folder, 5, random.Random(trial), how)
        assert (found.lost, found.how in (STOPPED, PUBLISHED, FAILED)) == ((), True), found
