"""A survey that cannot be held or answered: one line each, and nothing half-written."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import NoReturn

import pytest

from parties.keeping.attempts import ATTEMPTS, attempts_in
from parties.keeping.members import SECRET
from parties.keeping.record_names import TRANSCRIPT
from protocol import AGGREGATOR
from protocol.errors import UsageError
from protocol.messages import DONE
from scenarios import Outcome
from scenarios.surveys.operating.by_hand import BY_HAND, acts_in
from scenarios.surveys.operating.operation import Operation
from scenarios.surveys.operating.progress import Phase
from tests.scenarios.command import complaint, sottovoce
from tests.scenarios.survey_folders import ROWS, aggregating, table
from tests.scenarios.surveys.operating.held import hold, until
from tests.scenarios.surveys.test_kept_records import small_files

LISTEN = ("--listen", "127.0.0.1:0", "--joining", "0")


def files(folder: Path) -> dict[Path, bytes]:
    """All files below a folder, but those that a party's folder has from its first use on."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    first = {SECRET, ATTEMPTS}
    return {path: path.read_bytes() for path in paths if path.name not in first}


@pytest.mark.parametrize("home", [None, "", "home"])
def test_a_user_without_a_home(
    home: str | None, keys: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def unknown(number: int) -> NoReturn:
        raise KeyError(number)

    records = table(tmp_path / "records.csv", ROWS[0])
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    if home is None:
        monkeypatch.delenv("HOME", raising=False)
    else:
        monkeypatch.setenv("HOME", home)
    before = files(tmp_path)
    answer = ("answer", keys / "anna", "--records", records, "--connect", "127.0.0.1:1")
    for command in (answer, ("preflight", keys / "anna", "--records", records)):
        said = complaint(sottovoce(*command))
        assert said == "no home folder was found for the purse; expected --purse DIR"
    scenario = complaint(sottovoce("run", "movielens"))
    assert scenario.startswith("no home folder was found for the MovieLens data; ")
    assert files(tmp_path) == before
    # Who has done something by hand is known by number.
    assert sottovoce("aggregate", keys / AGGREGATOR, *LISTEN, "--out", tmp_path / "out").code == 1
    assert f": {os.getuid()}, pid " in sottovoce("status", keys / AGGREGATOR).out


def test_a_home_in_which_nothing_can_be_made(
    keys: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    records = table(tmp_path / "records.csv", ROWS[0])
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(records))
    before = files(tmp_path)
    answer = ("answer", keys / "anna", "--records", records, "--connect", "127.0.0.1:1")
    said = complaint(sottovoce(*answer))
    assert said.startswith(f"{records}")
    assert said.endswith((": a part of this path is a file; expected a folder", ": exists"))
    assert files(tmp_path) == before


def test_what_cannot_be_gone_on_with(keys: Path, tmp_path: Path) -> None:
    folder, out = keys / AGGREGATOR, tmp_path / "out"
    resume = ("aggregate", folder, *LISTEN, "--out", out, "--resume")
    outcome, _ = hold(keys, out, Operation(), ["anna", "bert"], joining=5.0)
    assert isinstance(outcome, Outcome)
    before = files(tmp_path)
    said = complaint(sottovoce(*resume))
    assert said == f"{folder}: attempt 1 is over; without --resume, the next one begins"
    assert files(tmp_path) == before


@pytest.mark.parametrize("options", [(), ("--resume",)])
def test_a_port_in_use(options: tuple[str, ...], keys: Path, tmp_path: Path) -> None:
    folder, out = keys / AGGREGATOR, tmp_path / "out"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        said = sottovoce("aggregate", folder, "--listen", where, "--out", out, *options)
    assert (
        complaint(said) == f"{where}: another program listens there: end it, or choose another port"
    )
    assert not out.exists() or not files(out)
    assert not (folder / BY_HAND).exists()


def test_two_aggregators_of_one_folder(keys: Path, tmp_path: Path) -> None:
    folder = keys / AGGREGATOR
    with aggregating(keys, tmp_path / "one", "--joining", 60):
        before = acts_in(folder), attempts_in(folder)
        for options in ((), ("--resume",), ("--force",)):
            said = sottovoce("aggregate", folder, *LISTEN, "--out", tmp_path / "two", *options)
            assert complaint(said) == f"{folder}: another program is taking part from this folder"
        assert (acts_in(folder), attempts_in(folder)) == before
    assert not (tmp_path / "two").exists()


def test_a_folder_that_is_moved_while_a_survey_is_held(keys: Path, tmp_path: Path) -> None:
    folder, moved, out = keys / AGGREGATOR, keys / "moved", tmp_path / "out"
    operation = Operation(folder=folder)

    async def move() -> None:
        await until(lambda: operation.progress.counts().connected == 2)
        folder.rename(moved)
        await until(lambda: operation.progress.counts().phase is Phase.ASKING)

    operation.tasks = (move,)
    outcome, endings = hold(keys, out, operation, ["anna", "bert", "carl"])
    assert isinstance(outcome, UsageError)
    assert str(outcome) == (
        f"{folder}: was moved or deleted while it was in use; attempt 1 is over, and its secrets "
        "stay where the folder is: log-secret-1 and stream-secret-1"
    )
    assert {answered.ending for answered in endings.values()} == {DONE}
    assert sottovoce("audit", out / TRANSCRIPT).code == 0
    # Whoever goes on from where it is now erases them.
    resume = ("aggregate", moved, *LISTEN, "--out", out, "--resume")
    assert complaint(sottovoce(*resume)).startswith(f"{moved}: attempt 1 is over")
    assert not [*moved.glob("*-secret-1")]


def test_what_cannot_be_written_down_for_want_of_room(keys: Path, tmp_path: Path) -> None:
    folder = keys / AGGREGATOR
    held = ("aggregate", folder, *LISTEN, "--out", tmp_path / "out")
    assert sottovoce(*held).code == 1
    by_hand = folder / BY_HAND
    by_hand.write_bytes(by_hand.read_bytes() * 50)
    with small_files(by_hand.stat().st_size):
        said = sottovoce(*held, "--force")
    assert complaint(said) == f"{by_hand}: File too large"
    assert sorted(path.name for path in tmp_path.glob("out*/*")) == [f"{TRANSCRIPT}.partial"]
