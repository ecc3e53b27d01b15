"""``python -m benchmarks costs``: time and memory by the number of respondents, and their picture.

What was measured before is kept in a file and not measured again.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from benchmarks.costs.measuring import Taken, taken_by
from benchmarks.costs.picture import plot_costs
from protocol.errors import UsageError
from scenarios.report.pictures.drawing import rendered

HERE = Path(__file__).parent
CROWD = HERE / "crowd.py"

LIVE = tuple(10**i for i in range(2, 7))
BY_LAW = tuple(10**i for i in range(6, 10))
WORKERS = 2

ROOM = 16_000
"""How much memory ``verify`` and ``audit`` may take, in MB: unusual for a million parties."""

PATIENCE = 36_000
"""How many seconds ``verify`` and ``audit`` may take, however busy the machine is."""

UP_TO = 100_000
"""How many live parties there are at most, unless more are asked for."""

Costs = dict[str, dict[int, Taken]]
"""What was measured: of each command, by the number of respondents."""


def read_costs(path: Path) -> Costs:
    """What a file holds, nothing if there is none.

    Raises:
        UsageError: it is not such a file.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=Costs)
    except FileNotFoundError:
        return {}
    except msgspec.DecodeError as error:
        raise UsageError(f"{path}: expected what 'costs' has measured; {error}") from error


def missing(costs: Costs, *, up_to: int) -> Iterator[tuple[str, int]]:
    """The commands that have yet to be measured, the cheap ones first.

    ``verify`` and ``audit`` need the record of a run, so a run comes before them again.
    """
    for n in LIVE:
        if n <= up_to and not all(n in costs.get(name, {}) for name in ("run", "verify", "audit")):
            yield from (("run", n), ("verify", n), ("audit", n))
    for n in BY_LAW:
        if n not in costs.get("tabulate", {}):
            yield "tabulate", n


def measure_costs(path: Path = HERE / "costs.json", *, up_to: int = UP_TO) -> None:
    """Measure what the file lacks, and draw all that is in it into a picture beside it.

    Args:
        path: is written after each command, so that the next call goes on from there.
        up_to: the most live parties.
    """
    costs = read_costs(path)
    with tempfile.TemporaryDirectory(prefix="costs-") as folder:
        for name, n in missing(costs, up_to=up_to):
            taken = taken_by(command(name, n, Path(folder)))
            costs.setdefault(name, {})[n] = taken
            path.write_bytes(msgspec.json.format(msgspec.json.encode(costs)))
            print(said(name, n, taken), flush=True)
    path.with_suffix(".svg").write_bytes(rendered(plot_costs(costs), ".svg"))


def said(name: str, n: int, taken: Taken) -> str:
    """A line of what a command took."""
    return (
        f"  {name:8} {n:13,}  {taken.computing:7.1f} s of processors, "
        f"{taken.memory / 1e6:6,.0f} MB ({taken.memory / n / 1e3:,.1f} kB each), "
        f"{taken.seconds:.1f} s while other jobs kept {taken.others:.1f} processors busy"
    )


def command(name: str, n: int, folder: Path) -> list[str]:
    """A command of the series.

    Args:
        folder: where ``run`` leaves the record that ``verify`` and ``audit`` read.
    """
    record, room = (
        str(folder / "transcript.svt.zst"),
        ["--seconds", str(PATIENCE), "--memory", str(ROOM)],
    )
    arguments = {
        "run": [
            str(CROWD),
            "--set",
            f"residents={n}",
            f"--workers={WORKERS}",
            "--out",
            str(folder),
        ],
        "verify": [record, *room],
        "audit": [record, *room],
        "tabulate": ["quickstart", "--n", str(n)],
    }
    return [sys.executable, "-m", "scenarios", name, *arguments[name]]
