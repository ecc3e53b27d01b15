"""A file that hides one of the project's packages is named, in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.command import ROOT, Said, complaint, python
from tests.tiers import paired

PLANTED = ("protocol.py", "protocol/__init__.py", "parties.py", "transports.py")


def ran(program: str, folder: Path) -> Said:
    """How a program ends that looks for modules in a folder first."""
    return python("-c", f"import sys; sys.path.append({str(ROOT)!r}); {program}", cwd=folder)


def plant(folder: Path, name: str) -> Path:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("")
    return path


@pytest.mark.parametrize(
    ("name", "arguments"),
    paired([*PLANTED], [("--help",), ("run", "quickstart"), ("verify", "x.svt")]),
)
def test_of_a_command(name: str, arguments: tuple[str, ...], tmp_path: Path) -> None:
    path = plant(tmp_path, name)
    program = f"from scenarios.cli import main; main({list(arguments)})"
    assert complaint(ran(program, tmp_path)) == (
        f"{path} hides sottovoce's package {path.relative_to(tmp_path).parts[0].split('.')[0]!r}: "
        "rename or remove it, or start in another folder"
    )


@pytest.mark.parametrize("name", PLANTED)
def test_of_an_import(name: str, tmp_path: Path) -> None:
    path = plant(tmp_path, name)
    said = ran("from scenarios import simulate", tmp_path)
    assert said.code == 1
    assert said.err.splitlines()[-1].startswith(f"ImportError: {path} hides sottovoce's package")


@pytest.mark.slow
def test_other_files_are_in_nobodys_way(tmp_path: Path) -> None:
    plant(tmp_path, "survey.py")
    (tmp_path / "protocol").mkdir()
    said = ran("from scenarios import simulate; from scenarios.cli import main; main([])", tmp_path)
    assert said.code == 2
    assert said.err.startswith("Usage: ")
