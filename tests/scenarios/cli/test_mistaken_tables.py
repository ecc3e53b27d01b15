"""A table of answers that this user may not read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.scenarios.cli.refusing import refusal


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_of_a_file_without_permission(here: Path) -> None:
    (here / "t.csv").chmod(0)
    assert refusal(here, "plan", "--from", "t.csv") == "t.csv: no permission"
