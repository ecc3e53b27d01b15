"""The files at the root say what is so: names in CONTRIBUTING.md, versions in CITATION.cff."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def key_values(key: str) -> list[str]:
    """The values of a key in CITATION.cff, wherever it stands."""
    found = re.findall(rf"^[ -]*{key}: (.*?)(?: #.*)?$", text_of("CITATION.cff"), re.MULTILINE)
    return [value.strip('"') for value in found]


def test_every_target_of_make_exists() -> None:
    rules = set(re.findall(r"^([\w-]+):", text_of("Makefile"), re.MULTILINE))
    named = set(re.findall(r"(?:^|`)make ([\w-]+)", text_of("CONTRIBUTING.md"), re.MULTILINE))
    assert {"run", "test", "test-all", "docs", "lowest"} <= named <= rules


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "SECURITY.md"])
def test_every_path_exists(page: str) -> None:
    quoted = re.findall(r"`([\w.][\w./-]*/[\w./-]*)`", text_of(page))
    assert [path for path in quoted if not (ROOT / path).exists()] == []


def test_an_environment_is_made_for_the_python_that_is_named() -> None:
    # What a `make` that runs this test was asked for is not asked for here.
    own = ("MAKEFLAGS", "MAKEOVERRIDES", "PYTHON", "VENV")
    kept = {name: value for name, value in os.environ.items() if name not in own}
    for asked, folder in (((), ".venv"), (("PYTHON=python3.13",), ".venv-python3.13")):
        command = ["make", "--dry-run", "test", *asked]
        done = subprocess.run(
            command, cwd=ROOT, env=kept, capture_output=True, text=True, check=True
        )
        assert f"\n{folder}/bin/python -m pytest" in f"\n{done.stdout}"
        assert f"`{folder}`" in text_of("CONTRIBUTING.md")


def test_the_citation_is_of_this_version() -> None:
    assert key_values("version") == [PROJECT["version"]]
    title, *papers = key_values("title")
    assert title == PROJECT["name"]
    assert key_values("abstract") == [PROJECT["description"]]
    assert key_values("name")[0] == PROJECT["authors"][0]["name"]
    assert key_values("license")[0] == PROJECT["license"].split(" AND ")[0]
    for paper in papers:
        assert f"*{paper}*" in text_of("docs/papers.md")


def test_commits_are_checked_by_the_projects_own_tools() -> None:
    text = text_of(".pre-commit-config.yaml")
    entries = re.findall(r"entry: \.venv/bin/(\w+)", text)
    assert entries == ["ruff", "ruff", "mypy"]
    assert re.findall(r"repo: (\S+)", text) == ["local"]
    assert re.findall(r"language: (\S+)", text) == ["system"] * 3
