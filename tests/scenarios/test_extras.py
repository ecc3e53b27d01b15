"""The packages that are missing are named with the pip of the Python that runs."""

from __future__ import annotations

import re
import shlex
import sys
import tomllib
from pathlib import Path

import pytest

from scenarios.errors import install_command
from tests.scenarios.command import ROOT

EXTRAS = ("accounting", "metrics", "parquet", "plots", "ray", "readstat", "web", "xlsx")
CODE = ("protocol", "parties", "transports", "scenarios", "docs")


def test_the_command_installs_what_an_extra_needs() -> None:
    assert (
        install_command("plots")
        == f"{shlex.quote(sys.executable)} -m pip install 'matplotlib>=3.10'"
    )


def words(requirement: str) -> set[str]:
    """A package and the versions that are wanted of it, in any order."""
    return set(re.findall(r"[<>=]+[\d.]+|[a-z-]+", requirement))


@pytest.mark.parametrize("extra", EXTRAS)
def test_the_packages_are_those_of_the_extra(extra: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    *pip, package = shlex.split(install_command(extra))
    assert pip == [sys.executable, "-m", "pip", "install"]
    [wanted] = project["optional-dependencies"][extra]
    assert words(package) == words(wanted)


def test_a_path_with_blanks_is_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/my programs/python")
    said = install_command("metrics")
    assert said == "'/my programs/python' -m pip install 'prometheus-client>=0.20'"


def test_nothing_names_our_package_on_an_index() -> None:
    files = [path for part in CODE for path in (ROOT / part).rglob("*")]
    texts = [path for path in [*files, ROOT / "README.md"] if path.suffix in (".py", ".md", ".rst")]
    named = [path for path in texts if "sottovoce[" in path.read_text(encoding="utf-8")]
    assert named == list[Path]()
