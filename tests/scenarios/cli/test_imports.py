"""What a command imports: what it needs, and little more."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from scenarios.running.names import MODULES
from tests.scenarios.command import python, sottovoce

PROJECT = Path(__file__).resolve().parents[3]
PACKAGES = ("protocol", "parties", "transports", "scenarios")
RUN = ("run", "quickstart", "--set", "residents=4", "--transport", "local")
MOST_OF_VERIFY, MOST_OF_RUN = 15_000, 35_000
"""Maximum number of lines of this project that a command imports."""


def imported(*words: object) -> set[str]:
    """The modules that a command has imported at its end, in a process of its own."""
    return imported_by([words])[0]


def imported_by(commands: Sequence[Sequence[object]]) -> list[set[str]]:
    """What is imported after each of some commands, one after another in one process."""
    lines = [[*map(str, words)] for words in commands]
    program = (
        "import sys\n"
        "from scenarios.cli import main\n"
        f"for line in {lines}:\n"
        "    try:\n        main(line)\n"
        "    except SystemExit as end:\n        assert not end.code, line\n"
        "    print('imported:', *sys.modules)"
    )
    said = python("-c", program)
    assert said.code == 0, said
    found = [line for line in said.out.splitlines() if line.startswith("imported:")]
    return [set(line.split()[1:]) for line in found]


def ours(modules: set[str]) -> set[str]:
    return {name for name in modules if name.partition(".")[0] in PACKAGES}


def lines(modules: set[str]) -> int:
    """The number of lines of the modules of this project."""
    count = 0
    for name in ours(modules):
        path = PROJECT.joinpath(*name.split("."))
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        count += len(file.read_text(encoding="utf-8").splitlines())
    return count


def test_to_verify_imports_no_variant(tmp_path: Path) -> None:
    assert sottovoce(*RUN, "--out", tmp_path).code == 0
    found = imported("verify", tmp_path / "transcript.svt.zst")
    assert "protocol.transcript.verification" in found
    assert not {name for name in found if name.startswith(("protocol.variants.", "scipy", "trio"))}
    assert lines(found) <= MOST_OF_VERIFY


def test_a_run_imports_its_own_scenario_alone(tmp_path: Path) -> None:
    quiet, found = imported_by([(*RUN, "--json"), (*RUN, "--out", tmp_path)])
    assert "rich" not in quiet
    assert "rich" in found
    assert "matplotlib" not in found
    assert found & {*MODULES} == {"scenarios.quickstart"}
    assert lines(found) <= MOST_OF_RUN


def test_a_list_imports_no_scenario() -> None:
    found = imported("list")
    large = {"cryptography", "numpy", "scipy", "sqlite3", "ssl", "trio", "zstandard"}
    assert not found & {*MODULES, *large}
    assert {name for name in ours(found) if not name.startswith("scenarios")} == {
        "protocol",
        "protocol.errors",
        "protocol.surveys",
        "protocol.surveys.limits",
        "protocol.variants",
        "protocol.variants.built_in",
    }
    rooms = {name.split(".")[1] for name in ours(found) if name.startswith("scenarios.")}
    expected = {"cli", "data", "errors", "files", "report", "running", "streams", "wording"}
    assert rooms == expected
    assert len(ours(found)) <= 30


def test_what_a_party_runs_judges_draws_and_serves_nothing() -> None:
    commands = ("answer", "check", "evidence", "preflight", "aggregate", "verify", "witness")
    found, _, others, witness = imported_by([(command, "--help") for command in commands])[3:]
    assert "h11" not in others
    assert "h11" in witness
    rooms = ("surveys.answering", "surveys.preflight", "transcripts.consistency")
    assert {f"scenarios.cli.{room}" for room in rooms} <= found
    assert not found & {"matplotlib", "ray", "rich.table", *MODULES}
    assert not {name for name in found if name.startswith("scenarios.report.")}


def test_modules_are_counted() -> None:
    assert lines({"protocol", "scenarios.streams", "sys"}) == sum(
        len((PROJECT / file).read_text(encoding="utf-8").splitlines())
        for file in ("protocol/__init__.py", "scenarios/streams.py")
    )
