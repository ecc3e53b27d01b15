"""The folder of a small survey, made once, in which commands are typed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.scenarios.cli.refusing import make_survey


@pytest.fixture(scope="session")
def _survey(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("survey")
    make_survey(folder)
    return folder


@pytest.fixture
def here(_survey: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: a copy of the survey's."""
    folder = tmp_path / "here"
    shutil.copytree(_survey, folder)
    monkeypatch.chdir(folder)
    return folder
