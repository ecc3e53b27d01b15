"""Run where multi-freq-ldpy is installed: its clients beside the project's randomizers.

Its clients are compiled by numba and take one value at a time.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np

from benchmarks.peers.rates import heading, measure_rates
from protocol import KeepUniform, LocalHashing, Randomizer, Stream, UnaryEncoding, secret_of

EPSILON = 1.0
SIZE = 100
REPORTS = 5_000


def clients() -> dict[str, tuple[Randomizer, Callable[[int], object]]]:
    """By name, the project's randomizer and the peer's client of the same law."""
    peer: Any = {
        name: importlib.import_module(f"multi_freq_ldpy.pure_frequency_oracles.{name}")
        for name in ("GRR", "UE", "LH")
    }

    def unary(*, optimal: bool) -> Callable[[int], object]:
        return lambda value: peer["UE"].UE_Client(value, SIZE, EPSILON, optimal)

    def hashed(*, optimal: bool) -> Callable[[int], object]:
        return lambda value: peer["LH"].LH_Client(value, SIZE, EPSILON, optimal)

    return {
        "direct encoding (GRR)": (
            KeepUniform.with_epsilon(SIZE, epsilon=EPSILON),
            lambda value: peer["GRR"].GRR_Client(value, SIZE, EPSILON),
        ),
        "symmetric unary encoding": (
            UnaryEncoding.symmetrized(SIZE, epsilon=EPSILON),
            unary(optimal=False),
        ),
        "optimised unary encoding": (
            UnaryEncoding.optimized(SIZE, epsilon=EPSILON),
            unary(optimal=True),
        ),
        "binary local hashing": (
            LocalHashing.binary(SIZE, epsilon=EPSILON),
            hashed(optimal=False),
        ),
        "optimised local hashing": (
            LocalHashing.optimized(SIZE, epsilon=EPSILON),
            hashed(optimal=True),
        ),
    }


def main() -> None:
    """Print the rates of all clients."""
    stream = Stream(secret_of(7))
    codes = stream.integers(SIZE, REPORTS).astype(np.uint8)
    print(
        f"  numba {version('numba')}; {SIZE} values, epsilon {EPSILON:g}, {REPORTS:,} reports\n\n"
        f"{heading('multi-freq')}",
        flush=True,
    )
    for name, (ours, theirs) in clients().items():
        measured = measure_rates(ours, theirs, codes, stream)
        print(measured.line(name), flush=True)


if __name__ == "__main__":
    main()
