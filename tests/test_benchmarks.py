"""Benchmarks run where their data cannot be had: those that need it are skipped."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_a_benchmark_without_its_data_is_skipped(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "pairs", "alarm", "likelihood", "--repeats", "2"],
        capture_output=True,
        text=True,
        cwd=Path(__file__).resolve().parents[1],
        env={**os.environ, "SOTTOVOCE_DATA": str(tmp_path)},
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    _, pairs, alarm, likelihood = done.stdout.split("\n\n")
    assert pairs.startswith("pairs\nskipped: no Adult data")
    assert alarm.startswith("alarm\nskipped: no network")
    assert "\n    ratio" in likelihood
