"""Sweeps: what was finished is kept whole or not at all, and an end midway changes nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from protocol.attack.attack import Attack, attack
from protocol.errors import UsageError
from protocol.testing import check_under_faults
from protocol.variants import RRIndependent, RRJoint
from scenarios import Context, Row
from scenarios.cli.example_variants import HABITS, example
from scenarios.files.pieces import PIECES, growing_pieces
from scenarios.running.engines.processes import Processes
from scenarios.running.engines.sweep import Sweep, sweep_description
from tests.scenarios.command import OWN as OWN_VARIANTS
from tests.scenarios.command import complaint, python, sottovoce
from tests.scenarios.reproduced import reproduce
from tests.scenarios.running.engines import kernels
from tests.tiers import thinned

ABOUT = {"command": "test", "seed": 1, "numbers": [1, 2]}


class Found(NamedTuple):
    """What a kernel may return."""

    rows: list[Row]
    values: dict[str, NDArray[np.float64]]
    counts: NDArray[np.uint8]
    exact: float


def varied(number: int) -> Found | None:
    """Of an even number nothing."""
    if number % 2 == 0:
        return None
    row = Row(settings={"n": number}, measured={"x": np.float64(number)}, remark="odd")
    values = {"one": np.full((2, number), 0.1), "none": np.empty(0)}
    return Found([row], values, np.array([number, 255], np.uint8), float("inf"))


def counted(calls: list[int]) -> Callable[[int], int]:
    """A kernel that notes how often it was called."""

    def squared(number: int) -> int:
        calls.append(number)
        return number * number

    return squared


def files_of(path: Path) -> tuple[bytes, tuple[int, ...]]:
    """A file of pieces, and where each record of it ends."""
    content, ends = path.read_bytes(), []
    end = content.index(b"\n") + 1
    while end < len(content):
        end += 8 + int.from_bytes(content[end : end + 4], "little")
        ends.append(end)
    assert end == len(content)
    return content, tuple(ends)


def test_results_are_in_order_and_progress_is_told() -> None:
    told: list[tuple[int, int]] = []
    with Sweep(lambda: Processes(2)) as sweep:
        found = sweep(kernels.later, range(6), progress=lambda *done: told.append(done))
    assert found == list(range(6))
    assert told == [(place, 6) for place in range(7)]


def test_a_sweep_without_work_starts_and_writes_nothing(tmp_path: Path) -> None:
    def never() -> Any:
        raise AssertionError("an engine was started")

    with Sweep(never, path=tmp_path / "new" / PIECES, about=ABOUT) as sweep:
        sweep.finish()
        assert not (tmp_path / "new").exists()
        assert sweep(kernels.square, []) == []


def test_what_is_kept_comes_back_as_it_was(tmp_path: Path) -> None:
    def never() -> Any:
        raise AssertionError("an engine was started")

    with Sweep() as plain, Sweep(path=tmp_path / PIECES, about=ABOUT) as kept:
        first, second = plain(varied, range(4)), kept(varied, range(4))
    with Sweep(never, path=tmp_path / PIECES, about=ABOUT) as again:
        third = again(varied, range(4))
        again.finish()
    assert not (tmp_path / PIECES).exists()
    for found in (second, third):
        assert [one is None for one in found] == [True, False, True, False]
        for one, other in zip(first, found, strict=True):
            if one is None or other is None:
                continue
            assert [row.values() for row in one.rows] == [row.values() for row in other.rows]
            assert one.exact == other.exact
            for array, of_it in [
                (one.counts, other.counts),
                *zip(one[1].values(), other[1].values(), strict=True),
            ]:
                np.testing.assert_array_equal(array, of_it, strict=True)


def test_a_file_that_is_cut_anywhere_loses_its_last_record_alone(tmp_path: Path) -> None:
    path = tmp_path / PIECES
    with Sweep(path=path, about=ABOUT) as sweep:
        sweep(kernels.square, [3, 4])
        sweep(kernels.square, [5])
    content, ends = files_of(path)
    assert len(ends) == 4
    for cut in range(len(content) + 1):
        path.write_bytes(content[:cut])
        calls: list[int] = []
        with Sweep(path=path, about=ABOUT) as sweep:
            assert sweep(counted(calls), [3, 4]) == [9, 16]
            assert sweep(counted(calls), [5]) == [25]
        assert len(calls) == sum(end > cut for end in ends[1:])
        assert path.read_bytes() == content


def test_a_record_that_was_changed_is_not_taken(tmp_path: Path) -> None:
    path = tmp_path / PIECES
    with Sweep(path=path, about=ABOUT) as sweep:
        sweep(kernels.square, [3, 4])
    content, ends = files_of(path)
    path.write_bytes(content[: ends[1] - 1] + b"\x10" + content[ends[1] :])
    with Sweep(path=path, about=ABOUT) as sweep:
        assert sweep(kernels.square, [3, 4]) == [9, 16]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"precious", "is not the file of a sweep; delete it or write elsewhere"),
        (["no", "settings"], "is damaged (Expected `object`, got `array`); delete it"),
        ({**ABOUT, "seed": 2}, "is of another sweep, not with the same seed; delete it"),
        ({**ABOUT, "numbers": [], "seed": 0}, "not with the same seed and numbers; delete it"),
        ({**ABOUT, "more": 1}, "not with the same form; delete it"),
        (
            {"command": "attack", "variant": "rr-joint", "seed": 2},
            "is of another sweep (attack of rr-joint); delete it",
        ),
        ({**ABOUT, "scenario": "halves"}, "is of another sweep (test of halves); delete it"),
    ],
)
def test_another_sweeps_file_is_refused(content: Any, says: str, tmp_path: Path) -> None:
    path = tmp_path / PIECES
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        with growing_pieces(path, content):
            pass
    before = path.read_bytes()
    with Sweep(path=path, about=ABOUT) as sweep, pytest.raises(UsageError) as raised:
        sweep(kernels.square, [1])
    assert says in str(raised.value)
    assert path.read_bytes() == before


def test_one_sweep_at_a_time_writes_a_file(tmp_path: Path) -> None:
    path = tmp_path / PIECES
    with (
        growing_pieces(path, ABOUT),
        Sweep(path=path) as other,
        pytest.raises(UsageError) as raised,
    ):
        other(kernels.square, [1])
    assert str(raised.value) == f"{path}: another program is carrying out this sweep"


def unsaid(number: int):
    return number


def misstated(number: int) -> list[str]:
    return number


@pytest.mark.parametrize(
    ("kernel", "says"),
    [
        (unsaid, "a piece is not what 'unsaid' says by its annotation that it returns: 'return'"),
        (misstated, "a piece is not what 'misstated' says .*: Expected `array`, got `int`"),
        (kernels.unsendable, "cannot keep what 'unsendable' returned: function: expected numbers"),
    ],
)
def test_what_cannot_be_kept_is_refused_at_once(
    kernel: Callable[[object], object], says: str, tmp_path: Path
) -> None:
    with Sweep(path=tmp_path / PIECES, about=ABOUT) as sweep, pytest.raises(UsageError, match=says):
        sweep(kernel, [1])


def test_a_piece_of_another_type_is_refused(tmp_path: Path) -> None:
    path = tmp_path / PIECES
    with Sweep(path=path, about=ABOUT) as sweep:
        sweep(kernels.square, [1])
    with Sweep(path=path, about=ABOUT) as sweep, pytest.raises(UsageError, match="'varied' says"):
        sweep(varied, [1])


# Reproductions


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "given"),
    thinned(
        [
            ("frequency-oracles", {"n": 20}),
            ("rrba-table-5", {"n": 500, "tables": 1}),
            pytest.param("rr-figure-3", {}, marks=pytest.mark.slow),
        ],
        1,
    ),
)
def test_a_reproduction_is_the_same_from_its_pieces(
    name: str, given: dict[str, Any], tmp_path: Path
) -> None:
    plain = reproduce(name, runs=2, **given).result()
    for _ in range(2):
        with Sweep(path=tmp_path / PIECES, about=ABOUT) as sweep:
            assert reproduce(name, Context(sweep=sweep), runs=2, **given).result() == plain


@pytest.mark.slow
def test_a_killed_worker_changes_no_reproduction() -> None:
    given = {"runs": 2, "n": 500, "draws": 20}
    killed = []
    with Processes(2) as engine, Sweep(lambda: engine) as sweep:

        def kill(done: int, total: int) -> None:
            if done in (3, 10):
                worker = next(w for w in engine._workers if w.task is not None)
                worker.process.kill()
                worker.process.wait()
                killed.append(worker.process.pid)

        context = Context(sweep=sweep, progress=kill)
        done = reproduce("rrba-table-4", context, **given)
        assert len(set(killed)) == 2
    assert done.rows == reproduce("rrba-table-4", **given).rows


OWN = """
import os
import signal
from pathlib import Path

import msgspec

from scenarios import Context, Reproduced, Row, Runs, Scenario

LOG = Path(__file__).with_name("log")


class Parameters(msgspec.Struct, frozen=True, kw_only=True):
    runs: Runs = 5


def half(number: int) -> float:
    with LOG.open("a") as log:
        log.write(f"{number} ")
    if number == 3 and LOG.read_text().count("3") == 1:
        os.kill(DRIVER, signal.SIGKILL)
    return number / 2


DRIVER = os.getpid()


def run(parameters: Parameters, context: Context) -> Reproduced:
    found = context.map(half, range(parameters.runs))
    rows = tuple(Row(settings={"place": place}, measured=x) for place, x in enumerate(found))
    return Reproduced(reproduction="halves", runs=parameters.runs, rows=rows)


SCENARIOS = (Scenario(name="halves", summary="Halves.", parameters=Parameters, run=run),)
"""


@pytest.mark.slow
def test_a_killed_command_goes_on(tmp_path: Path) -> None:
    """Of a file of a person's own, which counts by its content."""
    own, out = tmp_path / "own.py", tmp_path / "out"
    own.write_text(OWN, encoding="utf-8")
    command = ("-m", "scenarios", "run", own, "--out", out, "--json")
    assert python(*command).code == -9
    assert [path.name for path in out.iterdir()] == [PIECES]
    assert complaint(sottovoce(*command[2:], "--seed", 2)).endswith(
        "not with the same seed; delete it to begin anew, or write elsewhere"
    )
    own.write_text(OWN + "\n", encoding="utf-8")
    assert "not with the same own file; delete it" in complaint(sottovoce(*command[2:]))
    own.write_text(OWN, encoding="utf-8")
    found = sottovoce(*command[2:]).json
    assert [row["measured"] for row in found["rows"]] == [0.0, 0.5, 1.0, 1.5, 2.0]
    assert (tmp_path / "log").read_text(encoding="utf-8").split() == [*"0123", *"34"]
    assert [path.name for path in out.iterdir()] == ["result.json"]


# Commands

INTERRUPTED = OWN.replace("os.kill(DRIVER, signal.SIGKILL)", "os.kill(DRIVER, signal.SIGINT)")


@pytest.mark.slow
def test_an_interrupted_command_says_where_it_goes_on(tmp_path: Path) -> None:
    own, out = tmp_path / "own.py", tmp_path / "out"
    own.write_text(INTERRUPTED, encoding="utf-8")
    said = python("-m", "scenarios", "run", own, "--out", out)
    line = f"interrupted; the same command goes on from {out / PIECES}\n"
    assert (said.code, said.out, said.err) == (130, "", line)
    assert sottovoce("run", own, "--out", out).code == 0


@pytest.mark.parametrize("command", thinned(["attack", "test"], 1))
def test_all_sweeps_say_where_they_go_on(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(sweep: Sweep, kernel: object, arguments: object) -> object:
        list(Sweep.__call__(sweep, kernels.square, [1]))
        raise BaseExceptionGroup("tasks", [KeyboardInterrupt()])

    class Interrupted(Sweep):
        __call__ = interrupt

    monkeypatch.setattr("scenarios.cli.engines.Sweep", Interrupted)
    said = sottovoce(command, "rr-joint", "--out", tmp_path)
    line = f"interrupted; the same command goes on from {tmp_path / PIECES}\n"
    assert said == (130, "", line)
    assert sottovoce(command, "rr-joint") == (130, "", "interrupted\n")


@pytest.mark.slow
def test_a_terminal_sees_how_many_pieces_are_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    own = tmp_path / "own.py"
    own.write_text(OWN.replace("number == 3", "False"), encoding="utf-8")
    assert "5 of 5 pieces" in sottovoce("run", own).err
    assert "2 of 2 pieces" in sottovoce("test", "rr-joint", "--schedules", 2).err
    few = ("--trials", 16, "--runs", 16, "--copies", 8)
    assert " pieces " in sottovoce("attack", "rr-joint", *few).err
    assert sottovoce("run", own, "--json").err == ""


@pytest.mark.slow
def test_results_are_private(tmp_path: Path) -> None:
    for _ in range(2):
        assert sottovoce("test", "rr-joint", "--schedules", 1, "--out", tmp_path).code == 0
    assert (tmp_path / "test.json").stat().st_mode & 0o777 == 0o600
    (tmp_path / "attack.json").mkdir()
    refused = complaint(sottovoce("attack", "rr-joint", "--out", tmp_path))
    assert refused == f"{tmp_path / 'attack.json'}: is not a regular file"


def test_a_test_has_schedules() -> None:
    assert "--schedules" in complaint(sottovoce("test", "rr-joint", "--schedules", 0))


WHOLE = """
import msgspec

from scenarios import Reproduced, Row, Runs, Scenario


class Parameters(msgspec.Struct, frozen=True, kw_only=True):
    runs: Runs = 1


def run(parameters, context):
    rows = (Row(settings={"p": 1}, measured=0.5),)
    return Reproduced(reproduction="whole", runs=1, rows=rows)


SCENARIOS = (Scenario(name="whole", summary="In one piece.", parameters=Parameters, run=run),)
"""


def test_an_engine_is_for_what_has_pieces(tmp_path: Path) -> None:
    whole = tmp_path / "whole.py"
    whole.write_text(WHOLE, encoding="utf-8")
    said = sottovoce("run", whole, "--engine", "processes")
    assert (said.code, said.err) == (0, "whole is one piece of work, done in this process\n")
    live = complaint(sottovoce("run", "quickstart", "--jobs", 2))
    assert live == "--engine, --jobs: 'quickstart' is run live; expected --workers"
    client = tmp_path / "client.py"
    client.write_text("def client(answer):\n    return answer\n", encoding="utf-8")
    options = ("--inputs", "0,1", "--claims", 1)
    refused = f"are for variants; {client}:client is a function, which is attacked in one piece"
    for more in (("--jobs", 2), ("--out", tmp_path)):
        said = sottovoce("attack", f"{client}:client", *options, *more)
        assert complaint(said) == f"--engine, --jobs and --out {refused}"


class Ended(Exception):
    """A sweep was ended midway."""


@pytest.mark.slow
def test_an_attack_goes_on(tmp_path: Path) -> None:
    few: dict[str, int] = {"trials": 16, "runs": 10, "copies": 8}
    variant, records = example(RRJoint, {})

    def attacked(sweep: Sweep, *, maps: int) -> Attack:
        def carried(*task: Any) -> Any:
            if sweep.maps == maps:
                raise Ended
            return sweep(*task)

        return attack(variant, records, **few, carried=carried)

    plain = attack(variant, records, **few)
    for maps in (3, 5):
        with Sweep(path=tmp_path / PIECES, about=ABOUT) as sweep, pytest.raises(Ended):
            attacked(sweep, maps=maps)
    with Sweep(lambda: Processes(2), path=tmp_path / PIECES, about=ABOUT) as sweep:
        assert attacked(sweep, maps=-1) == plain


@pytest.mark.slow
@pytest.mark.parametrize("name", thinned(["RollCall", "PlainAnswers"], 1))
def test_an_attack_by_processes_on_a_variant_of_ones_own(name: str, tmp_path: Path) -> None:
    """The second is unbounded, so nothing is tried."""
    few = ("--trials", 16, "--runs", 16, "--copies", 8, "--seed", 5)
    command = ("attack", f"{OWN_VARIANTS}:{name}", *few, "--json")
    here, out = sottovoce(*command), tmp_path / "out"
    assert sottovoce(*command, "--engine", "processes", "--jobs", 2, "--out", out) == here
    assert [path.name for path in out.iterdir()] == ["attack.json"]
    assert (out / "attack.json").read_text(encoding="utf-8") == here.out
    assert any(probe["guesses"] for probe in here.json["probes"]) == (name == "RollCall")


class Moody(RRIndependent, frozen=True):
    """A variant whose most is what a party never keeps to."""

    name = "moody"

    def most(self) -> float:
        return 0.01


@pytest.mark.slow
def test_fault_schedules_fail_alike_wherever_they_are_run() -> None:
    _, records = example(RRIndependent, {}, respondents=10)
    few: dict[str, Any] = {"schedules": 2, "seed": 4}
    with pytest.raises(AssertionError) as here:
        check_under_faults(Moody.with_keep(HABITS, 0.6), records, **few)
    assert str(here.value).startswith("schedule 4 (duplicate 0.05): ")
    with Sweep(lambda: Processes(2)) as sweep:
        with pytest.raises(AssertionError) as there:
            check_under_faults(Moody.with_keep(HABITS, 0.6), records, **few, carried=sweep)
        assert str(there.value) == str(here.value)
        check_under_faults(RRIndependent.with_keep(HABITS, 0.6), records, **few, carried=sweep)
    assert sweep.maps == 2


def test_what_a_sweep_is_about() -> None:
    about = sweep_description("run", reproduce, seed=3)
    assert about["command"] == "run"
    assert about["seed"] == 3
    assert about["own file"] is None
    assert np.__version__ in about["version"]
    assert os.linesep not in about["version"]
