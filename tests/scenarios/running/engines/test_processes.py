"""Processes of this machine: none is left behind, and none disturbs the terminal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from scenarios.errors import EngineError
from scenarios.running.engines import processes
from scenarios.running.engines.engine import in_order
from scenarios.running.engines.processes import Processes
from tests.scenarios.command import ROOT, environment, python
from tests.scenarios.running.engines import kernels
from tests.scenarios.running.engines.proc import alive, ended
from tests.tiers import thinned
from transports.testing import HANGS


def appeared(path: Path) -> str:
    for _ in range(1000):
        if path.exists() and path.read_text(encoding="utf-8"):
            return path.read_text(encoding="utf-8")
        time.sleep(0.02)
    raise AssertionError(f"{path} did not appear")


def test_there_is_one_worker_for_each_processor() -> None:
    with Processes() as engine:
        assert engine.jobs == len(os.sched_getaffinity(0))
        assert engine.window == 2 * engine.jobs


def test_workers_start_as_they_are_needed_and_are_kept() -> None:
    with Processes(3) as engine:
        [first] = in_order(engine, kernels.worker, [None])
        [second] = in_order(engine, kernels.worker, [None])
        assert first == second != os.getpid()
    assert not alive(first)


@pytest.mark.slow
def test_what_a_kernel_prints_goes_to_stderr_and_it_reads_nothing() -> None:
    said = python("-c", _script("print(in_order(engine, kernels.prints, ['hello']))"))
    assert (said.code, said.out, said.err) == (0, "['']\n", "hello\n")


@pytest.mark.slow
def test_a_script_without_a_guard_is_not_run_again(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(_script("print(in_order(engine, kernels.square, [5]))"), encoding="utf-8")
    said = python(script)
    assert (said.code, said.out, said.err) == (0, "[25]\n", "")


@pytest.mark.parametrize("how", thinned([signal.SIGKILL, signal.SIGINT], 1))
def test_workers_end_with_the_driver(tmp_path: Path, how: signal.Signals) -> None:
    mark = tmp_path / "mark"
    script = _script(f"in_order(engine, kernels.lasts, [Path({str(mark)!r})])")
    driver = subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    worker = int(appeared(mark))
    os.killpg(driver.pid, how)
    _, said = driver.communicate(timeout=HANGS)
    assert ended([worker])
    if how == signal.SIGINT:
        assert said.rstrip().endswith("KeyboardInterrupt")
        assert said.count("Traceback") == 1
    else:
        assert said == ""


def test_workers_that_cannot_start_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with Processes(1) as engine:
        monkeypatch.setattr(sys, "executable", "/nonexistent/python")
        with pytest.raises(EngineError, match=r"no worker can be started.*nonexistent"):
            engine.submit(1, kernels.square, 1)


def test_workers_that_end_as_they_start_are_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("raise SystemExit(4)\n", encoding="utf-8")
    monkeypatch.setattr(processes, "_WORKER", broken)
    with Processes(1) as engine:
        with pytest.raises(EngineError, match=r"given up after 3 workers died of it.*exit code 4"):
            in_order(engine, kernels.size, [bytes(10**7)])
        with pytest.raises(EngineError, match=r"given up after 3 workers died of it.*exit code 4"):
            in_order(engine, kernels.square, [1])


def _script(line: str) -> str:
    return (
        "import sys\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        "from pathlib import Path\n"
        "from scenarios.running.engines.engine import in_order\n"
        "from scenarios.running.engines.opening import open_engine\n"
        "from tests.scenarios.running.engines import kernels\n"
        "with open_engine('processes', jobs=2) as engine:\n"
        f"    {line}\n"
    )
