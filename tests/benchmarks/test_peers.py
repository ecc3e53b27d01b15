"""The project beside other libraries: what is printed; the libraries are not installed here."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from benchmarks.peers.beside import PEERS
from benchmarks.peers.rates import heading, measure_rates
from benchmarks.timing import Benchmark, Side, measure, report
from protocol import KeepUniform, Stream, secret_of


def test_every_peer_has_its_module() -> None:
    for name in PEERS:
        assert importlib.util.find_spec(f"benchmarks.peers.{name}") is not None


def test_rates_are_of_all_three_and_the_peer_gets_its_own_values() -> None:
    asked: list[int] = []
    codes = np.array([0, 1, 2], np.uint8)
    ours = KeepUniform.with_keep(3, p=0.5)
    rates = measure_rates(ours, asked.append, codes, Stream(secret_of(1)), first=1)
    assert asked[-3:] == [1, 2, 3]
    assert min(rates.together, rates.singly, rates.peer) > 0
    assert rates.ratio.low <= rates.ratio.median <= rates.ratio.high
    # The columns stand below their names.
    [_, names] = heading("peer").splitlines()
    line = rates.line("direct encoding")
    ends = [names.index("together"), names.index("one by one"), names.rindex("one by one")]
    for end, width, rate in zip(ends, (8, 10, 10), rates, strict=False):
        assert line[: end + width].endswith(f" {rate:,.0f}")


@pytest.mark.slow
def test_a_peer_is_not_called_a_floor() -> None:
    seconds = iter([1.0, 30.0] * 2)
    side = Side(name="one", run=lambda: next(seconds))
    benchmark = Benchmark(
        title="", unit="sum", units=1, product=side, floors=(side,), against="peer"
    )
    lines = report(benchmark, measure(benchmark, repeats=2))
    assert lines[2].split()[0] == "peer"
    assert "30 of the peer's rate (30 to 30)" in lines[3]
