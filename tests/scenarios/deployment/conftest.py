"""A survey that waits for its parties."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.scenarios.survey_folders import aggregating, make_folders


@pytest.fixture(scope="package")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[Path, str]]:
    """Folders of a survey in its first attempt, and where its aggregator waits for parties."""
    folder = tmp_path_factory.mktemp("waiting")
    keys = make_folders(folder)
    with aggregating(keys, folder / "out", "--joining", 3600) as (_, where, _):
        yield keys, where
