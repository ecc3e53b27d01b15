"""The folders of a survey."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.survey_folders import make_folders


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    return make_folders(tmp_path)
