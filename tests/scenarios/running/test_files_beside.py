"""What lies beside a file that a person named can be imported, here and by workers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.command import python
from tests.tiers import paired

OWN = """
import msgspec

from beside_it import kept
from scenarios import Context, Reproduced, Row, Runs, Scenario
from statistics import mean


class Parameters(msgspec.Struct, frozen=True, kw_only=True):
    runs: Runs = 3


def one(number: int) -> float:
    from later import half

    return half(kept(number))


def run(parameters: Parameters, context: Context) -> Reproduced:
    found = context.map(one, range(parameters.runs)) + context.map(kept, [int(mean([4]))])
    rows = tuple(Row(settings={"place": place}, measured=x) for place, x in enumerate(found))
    return Reproduced(reproduction="own", runs=parameters.runs, rows=rows)


SCENARIOS = (Scenario(name="own", summary="Own.", parameters=Parameters, run=run),)
"""
HIDING = "raise RuntimeError('it hides a module')\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("named", "engine"), paired(["relative", "absolute"], ["here", "processes"])
)
def test_files_beside_are_found_and_hide_nothing(named: str, engine: str, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "own.py").write_text(OWN)
    (folder / "beside_it.py").write_text("def kept(number: int) -> int:\n    return number\n")
    (folder / "later.py").write_text("def half(number: int) -> float:\n    return number / 2\n")
    for name in ("statistics", "queue", "protocol", "numpy", "rich", "csv", "tomllib"):
        (folder / f"{name}.py").write_text(HIDING)
    own = folder / "own.py"
    # As the installed command: the folder it is started in is not looked into.
    said = python(
        *(
            "-P",
            "-m",
            "scenarios",
            "run",
            own.relative_to(tmp_path) if named == "relative" else own,
        ),
        *("--engine", engine, "--json"),
        cwd=tmp_path,
    )
    assert [row["measured"] for row in said.json["rows"]] == [0.0, 0.5, 1.0, 4.0]
