"""Run where MPyC is installed: secure sums of ten parties, each a process, over local TCP."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Literal

import numpy as np

from benchmarks.timing import Benchmark, Side, elapsed, measure, report
from protocol import Attribute, Records, SecureSum, Survey
from protocol.variants import PairCounts
from scenarios import open_engine, simulate
from scenarios.running.engines.engine import Engine

PARTIES = 10
SIDE = 100
CELLS = SIDE**2
REPEATS = 5

_PARTY = Path(__file__).with_name("mpyc_party.py")


def secure_sum(profile: Literal["literal", "sparse"], engine: Engine) -> Callable[[], float]:
    """A survey of ten parties, whose answers are one of 10,000 cells; each is a running process.

    It is timed from the records to the digest: the processes connect, the parties make and sign
    their keys, and every message goes on record.
    """
    names = tuple(map(str, range(SIDE)))
    survey = Survey("Cells", tuple(Attribute(name=name, categories=names) for name in "xy"))
    variant = PairCounts(survey=survey, sums=SecureSum(profile=profile))
    codes = np.random.default_rng(1).integers(0, SIDE, (PARTIES, 2))
    records = Records(survey, codes)

    def run() -> float:
        return elapsed(lambda: simulate(variant, records, workers=PARTIES, engine=engine))

    return run


class Peers:
    """MPyC's parties, running and connected.

    Args:
        first: the first of them, which the others are children of.
    """

    def __init__(self, first: subprocess.Popen[str]) -> None:
        assert first.stdin is not None
        assert first.stdout is not None
        self._asks, self._says = first.stdin, first.stdout
        vectors = [np.random.default_rng(i).integers(0, 2, CELLS) for i in range(PARTIES)]
        self._expected = int(np.sum(vectors))

    def add_up(self) -> float:
        """One sum; how many seconds it took.

        Raises:
            RuntimeError: it is wrong, or MPyC has ended.
        """
        self._asks.write("again\n")
        self._asks.flush()
        said = self._says.readline().split()
        if said[1:] != [str(self._expected)]:
            raise RuntimeError(f"MPyC says {said}, expected the sum {self._expected}")
        return float(said[0])


def main() -> None:
    """Print how both profiles of the project do beside MPyC."""
    print(
        f"  gmpy2 {version('gmpy2')}, uvloop {version('uvloop')}, numpy {version('numpy')}; "
        f"{PARTIES} parties, {CELLS:,} cells"
    )
    command = [sys.executable, str(_PARTY), str(CELLS), f"-M{PARTIES}", "--no-log"]
    pipe = subprocess.PIPE
    with (
        open_engine("processes", jobs=PARTIES) as engine,
        subprocess.Popen(
            command,
            stdin=pipe,
            stdout=pipe,
            stderr=subprocess.DEVNULL,
            text=True,
            process_group=0,
        ) as first,
    ):
        try:
            compare(engine, Peers(first))
        except BaseException:
            # Without the first, the others would wait for ever.
            os.killpg(first.pid, signal.SIGKILL)
            raise


def compare(engine: Engine, peers: Peers) -> None:
    """Time both profiles beside MPyC."""
    for profile in ("literal", "sparse"):
        ours = secure_sum(profile, engine)
        for run in (ours, peers.add_up):
            run()  # The first time, modules are imported and processes start.
        benchmark = Benchmark(
            title=f"a {profile} secure sum from records to digest, and a sum of MPyC's alone",
            unit="sum",
            units=1,
            product=Side(name="10 processes", run=ours),
            floors=(Side(name="10 processes", run=peers.add_up),),
            against="peer",
        )
        measured = measure(benchmark, repeats=REPEATS)
        print("\n".join(report(benchmark, measured)), flush=True)


if __name__ == "__main__":
    main()
