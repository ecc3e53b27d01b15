"""The costs of surveys: what a command takes, what is still to be measured, and the picture."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest
from matplotlib.lines import AxLine

from benchmarks.costs.measuring import Taken, taken_by
from benchmarks.costs.picture import plot_costs
from benchmarks.costs.series import BY_LAW, Costs, command, measure_costs, missing, read_costs
from protocol.errors import UsageError
from scenarios.report.pictures.drawing import draw_figure
from tests.scenarios.pictures import faults

MB = 1_000_000

HOLD = f"import time; held = bytearray({{}} * {MB}); time.sleep(0.2)"
WITH_CHILD = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {HOLD.format(60)!r}])
{HOLD.format(40)}
sum(range({3 * MB}))
child.wait()
"""

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux says what processes hold")


def made_up(*, up_to: int) -> Costs:
    """A series that grows as the real one does."""
    live = [n for n in (100, 1_000, 10_000, 100_000, 1_000_000) if n <= up_to]
    each = {"run": (8e-4, 16e3), "verify": (2e-4, 8e3), "audit": (4e-4, 8.2e3)}

    def taken(n: int, computing: float, memory: float) -> Taken:
        spent = 1.5 + n * computing
        held = int(9e7 + n * memory)
        return Taken(seconds=spent, computing=spent, memory=held, others=0.5)

    costs = {name: {n: taken(n, *rates) for n in live} for name, rates in each.items()}
    return {**costs, "tabulate": {n: taken(n, 2e-7, 0.0) for n in BY_LAW}}


@linux
def test_all_processes_of_a_command_count() -> None:
    taken = taken_by([sys.executable, "-c", WITH_CHILD])
    assert 100 * MB < taken.memory < 160 * MB
    assert taken.seconds >= 0.2
    assert 0.02 < taken.computing < 5.0


@linux
def test_a_command_that_fails_says_why() -> None:
    with pytest.raises(RuntimeError, match="no such respondent"):
        taken_by([sys.executable, "-c", "raise SystemExit('no such respondent')"])


def test_a_series_goes_on_where_it_ended() -> None:
    assert next(missing({}, up_to=1_000)) == ("run", 100)
    done = made_up(up_to=10_000)
    assert list(missing(done, up_to=10_000)) == []
    more = [("run", 100_000), ("verify", 100_000), ("audit", 100_000)]
    assert list(missing(done, up_to=100_000)) == more
    del done["audit"][1_000], done["tabulate"][BY_LAW[1]]
    # Its record is gone: the run comes first.
    again = [("run", 1_000), ("verify", 1_000), ("audit", 1_000), ("tabulate", BY_LAW[1])]
    assert list(missing(done, up_to=10_000)) == again


@pytest.mark.slow
def test_what_was_measured_is_drawn_and_not_measured_again(tmp_path: Path) -> None:
    path, costs = tmp_path / "costs.json", made_up(up_to=1_000)
    path.write_bytes(msgspec.json.encode(costs))
    before = path.stat().st_mtime_ns
    measure_costs(path, up_to=1_000)
    assert read_costs(path) == costs
    assert path.stat().st_mtime_ns == before
    assert b"tabulate" in path.with_suffix(".svg").read_bytes()


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "costs.json"
    path.write_text('{"run": {"100": {"seconds": 1.0}}}')
    with pytest.raises(UsageError, match=r"costs\.json: expected .*`computing`"):
        read_costs(path)


def test_a_curve_for_each_command_above_lines_of_slope_one() -> None:
    costs = made_up(up_to=10_000)
    _, _, memory, _ = draw_figure(plot_costs(costs)).axes
    lines = memory.get_lines()
    curves = [line for line in lines if not isinstance(line, AxLine)]
    assert [list(line.get_xdata()) for line in curves] == [list(costs["run"])] * 3
    assert list(curves[0].get_ydata()) == [t.memory / 1e6 for t in costs["run"].values()]
    slopes = [line for line in lines if isinstance(line, AxLine)]
    assert slopes
    for line in slopes:
        (x, y), (other, higher) = line.get_xy1(), line.get_xy2()
        assert higher / y == pytest.approx(other / x)


@pytest.mark.slow
def test_the_picture_is_legible() -> None:
    assert faults(plot_costs(made_up(up_to=1_000_000))) == []


@linux
@pytest.mark.slow
def test_a_live_party_over_workers_takes_little_memory(tmp_path: Path) -> None:
    few, many = 1_000, 11_000
    held = [taken_by(command("run", n, tmp_path)).memory for n in (few, many)]
    # Measured 12.4 kB; and a fixed 210 MB.
    assert held[1] - held[0] < 14e3 * (many - few)
