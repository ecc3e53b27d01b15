"""The wheel, installed into an empty environment: it holds what it should, and runs by itself.

pip fetches the dependencies from the package registry that it is set up for.
"""

from __future__ import annotations

import email
import json
import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from scenarios.data.raw_files import SHA256, VARIABLE
from scenarios.report.page.respondent import respondent_page

ROOT = Path(__file__).parents[2]
PACKAGES = ("parties", "protocol", "scenarios", "transports")
DATA = {f"scenarios/data/packaged/{name}" for name in (*SHA256, "README.md")}
BUILD = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"][
    "build"
]
VERIFIER = {
    f"{there}/{path.relative_to(ROOT / here).as_posix()}"
    for here, there in BUILD["targets"]["wheel"]["force-include"].items()
    for path in (ROOT / here).rglob("*")
    if path.is_file()
}
"""Modules of ``docs/verifier`` that the pages of respondents are made of."""

pytestmark = pytest.mark.slow


class Installed(NamedTuple):
    """What was built, and the environment that has it."""

    wheel: Path
    sdist: Path
    scripts: Path

    def run(self, *arguments: str, home: Path) -> str:
        """What a command of the environment prints, in a folder that is its home as well."""
        command = [str(self.scripts / arguments[0]), *arguments[1:]]
        return said(command, cwd=home, HOME=str(home))


def said(command: list[str], *, cwd: Path, **variables: str) -> str:
    without = ("PYTHONPATH", VARIABLE)
    kept = {name: value for name, value in os.environ.items() if name not in without}
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**kept, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("wheel")
    scripts, built = folder / "environment" / "bin", folder / "built"
    said([sys.executable, "-m", "venv", str(scripts.parent)], cwd=folder)
    said([sys.executable, "-m", "hatchling", "build", "-d", str(built)], cwd=ROOT)
    [wheel], [sdist] = built.glob("*.whl"), built.glob("*.tar.gz")
    said([str(scripts / "python"), "-m", "pip", "install", str(wheel)], cwd=folder)
    return Installed(wheel, sdist, scripts)


def files_of(*folders: str) -> set[str]:
    """The files of some folders of the project."""
    return {
        path.relative_to(ROOT).as_posix()
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_wheel_holds_the_packages_with_their_data(installed: Installed) -> None:
    with zipfile.ZipFile(installed.wheel) as wheel:
        names = set(wheel.namelist())
        [about] = (name for name in names if name.endswith(".dist-info/METADATA"))
        metadata = wheel.read(about)
    beside = {name for name in names if name.startswith("sottovoce-")}
    assert names - beside == files_of(*PACKAGES) | VERIFIER | {"sottovoce.py"}
    assert names > DATA
    assert {name.partition("/")[2] for name in beside} == {
        *("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"),
    }
    stated = email.message_from_bytes(metadata)
    assert stated["License-Expression"] == "Apache-2.0 AND CC-BY-4.0 AND CC-BY-SA-3.0"
    with tarfile.open(installed.sdist) as sdist:
        [same] = (name for name in sdist.getnames() if name.endswith("/PKG-INFO"))
        file = sdist.extractfile(same)
        assert file is not None
        assert file.read() == metadata
    assert installed.wheel.stat().st_size < 2**21


def test_the_source_distribution_holds_the_project_and_nothing_else(installed: Installed) -> None:
    with tarfile.open(installed.sdist) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {name.partition("/")[0] for name in names} == {
        *(*PACKAGES, "benchmarks", "docs", "tests"),
        *("CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "README.md", "SECURITY.md"),
        *("Makefile", "PKG-INFO", "hatch_build.py", "pyproject.toml", "sottovoce.py"),
        *(".gitattributes", ".gitignore", ".pre-commit-config.yaml"),
    }
    assert names >= files_of(*PACKAGES)
    data = [name for name in names if "__pycache__" in name or name.endswith(("data", ".csv"))]
    assert data == ["docs/coverage.csv"]
    assert installed.sdist.stat().st_size < 2**22


def test_the_packages_are_those_of_the_environment(installed: Installed, tmp_path: Path) -> None:
    script = f"import {', '.join(PACKAGES)}; print(*(m.__file__ for m in ({', '.join(PACKAGES)})))"
    for file in installed.run("python", "-c", script, home=tmp_path).split():
        assert Path(file).is_relative_to(installed.scripts.parent)


def test_the_name_of_the_project_leads_to_both_faces(installed: Installed, tmp_path: Path) -> None:
    script = "import sottovoce as s; print(s.protocol.Survey, s.scenarios.simulate)"
    said = installed.run("python", "-c", script, home=tmp_path)
    assert said.startswith("<class 'protocol.surveys.survey.Survey'> <function simulate at")


def test_the_page_of_a_respondent_is_made_outside_the_repository(
    installed: Installed, tmp_path: Path
) -> None:
    installed.run("sottovoce", "page", "page.html", home=tmp_path)
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == respondent_page()


@pytest.mark.parametrize(
    ("scenario", "settings"),
    [
        ("quickstart", {"residents": "200"}),
        ("adult-clusters", {"records": "400", "parties": "10"}),
        ("rrba-alarm", {"n": "200", "parties": "10"}),
    ],
)
def test_scenarios_run_outside_the_repository(
    installed: Installed, tmp_path: Path, scenario: str, settings: dict[str, str]
) -> None:
    options = [f"--set={name}={value}" for name, value in settings.items()]
    command = ("sottovoce", "run", scenario, *options, "--out", "out", "--json")
    result: dict[str, Any] = json.loads(installed.run(*command, home=tmp_path))
    assert result["scenario"] == scenario
    assert result["respondents"] == int(next(iter(settings.values())))
    installed.run("sottovoce", "audit", "out/transcript.svt.zst", home=tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"out"}
