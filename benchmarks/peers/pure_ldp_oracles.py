"""Run where pure-ldp is installed: its oracles beside the project's.

The same reports, by the project's clients, go through the project's estimator and through that of
pure-ldp. Both libraries' clients report on the same values, in turn.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers.rates import heading, measure_rates
from protocol import (
    HadamardResponse,
    KeepUniform,
    LocalHashing,
    Randomizer,
    Stream,
    UnaryEncoding,
    secret_of,
)

EPSILON = 1.0
SIZE = 100
REPORTS = 5_000
"""The reports that are estimated from, and that a client makes one by one."""

CLOSE = 1e-9
AIM = 10.0

peer: Any = importlib.import_module("pure_ldp.frequency_oracles")
hadamard_peer: Any = importlib.import_module("pure_ldp.frequency_oracles.hadamard_response")


class Oracle(NamedTuple):
    """An oracle that both have.

    Args:
        name: for the report.
        ours: the project's.
        client: pure-ldp's.
        server: pure-ldp's, for reports that ``translated`` made for it.
        translated: the project's reports in the form that the server takes.
    """

    name: str
    ours: Randomizer
    client: Any
    server: Callable[[NDArray[Any]], Any]
    translated: Callable[[NDArray[Any]], Iterable[Any]]


def _bits(reports: NDArray[Any]) -> NDArray[np.uint8]:
    return np.unpackbits(reports, axis=1, count=SIZE, bitorder="little")


def _hashed(name: str, ours: LocalHashing, *, optimal: bool) -> Oracle:
    """Local hashing: pure-ldp's server of a list of functions takes any family."""
    split: dict[str, NDArray[Any]] = {}

    def server(reports: NDArray[Any]) -> Any:
        functions, split["places"] = np.unique(reports // ours.groups, return_inverse=True)
        split["values"] = reports % ours.groups
        # With value v, a function's report counts for the codes that it hashes to v.
        table = np.empty((len(functions), SIZE))
        for value in range(ours.groups):
            of_value = functions.astype(np.uint64) * np.uint64(ours.groups) + np.uint64(value)
            for code in range(SIZE):
                other = 0 if code else 1
                table[ours.classify(of_value, code, other) % 2 == 1, code] = value
        return peer.FastLHServer(
            EPSILON, SIZE, len(functions), g=ours.groups, use_olh=optimal, hash_matrix=table
        )

    def translated(reports: NDArray[Any]) -> Iterable[Any]:
        return zip(split["values"].tolist(), split["places"].tolist(), strict=True)

    client = peer.LHClient(EPSILON, SIZE, g=ours.groups, use_olh=optimal)
    return Oracle(name, ours, client, server, translated)


def oracles() -> list[Oracle]:
    """All that both have."""
    return [
        Oracle(
            "direct encoding (GRR)",
            KeepUniform.with_epsilon(SIZE, epsilon=EPSILON),
            peer.DEClient(EPSILON, SIZE),
            lambda reports: peer.DEServer(EPSILON, SIZE),
            lambda reports: reports.tolist(),
        ),
        Oracle(
            "symmetric unary encoding",
            UnaryEncoding.symmetrized(SIZE, epsilon=EPSILON),
            peer.UEClient(EPSILON, SIZE),
            lambda reports: peer.UEServer(EPSILON, SIZE),
            _bits,
        ),
        Oracle(
            "optimised unary encoding",
            UnaryEncoding.optimized(SIZE, epsilon=EPSILON),
            peer.UEClient(EPSILON, SIZE, use_oue=True),
            lambda reports: peer.UEServer(EPSILON, SIZE, use_oue=True),
            _bits,
        ),
        _hashed("binary local hashing", LocalHashing.binary(SIZE, epsilon=EPSILON), optimal=False),
        _hashed(
            "optimised local hashing", LocalHashing.optimized(SIZE, epsilon=EPSILON), optimal=True
        ),
        Oracle(
            "Hadamard response",
            HadamardResponse.with_epsilon(SIZE, epsilon=EPSILON),
            hadamard_peer.HadamardResponseClient(EPSILON, SIZE, None),
            lambda reports: hadamard_peer.HadamardResponseServer(EPSILON, SIZE),
            lambda reports: reports.tolist(),
        ),
    ]


def difference(oracle: Oracle, codes: NDArray[np.uint8], stream: Stream) -> float:
    """The largest difference of two estimated shares, from the same reports."""
    reports = oracle.ours.randomize(codes, stream)
    ours = oracle.ours.shares(oracle.ours.tally(reports), len(reports))
    server = oracle.server(reports)
    server.aggregate_all(oracle.translated(reports))
    # Values are counted from 1 there.
    theirs = server.estimate_all(range(1, SIZE + 1), suppress_warnings=True) / len(reports)
    return float(np.abs(ours - theirs).max())


def main() -> None:
    """Print both comparisons; fails if two estimates differ."""
    stream = Stream(secret_of(7))
    codes = (stream.integers(SIZE, REPORTS) * stream.integers(SIZE, REPORTS) // SIZE).astype(
        np.uint8
    )
    right = True
    print(
        f"  {SIZE} values, epsilon {EPSILON:g}, {REPORTS:,} reports\n\n"
        f"{heading('pure-ldp')}{'largest difference':>20}",
        flush=True,
    )
    for oracle in oracles():
        apart = difference(oracle, codes, stream)
        # Values are counted from 1 there.
        measured = measure_rates(oracle.ours, oracle.client.privatise, codes, stream, first=1)
        right &= apart <= CLOSE
        short = "" if measured.ratio.median >= AIM else "  below the aim"
        print(f"{measured.line(oracle.name)}{apart:20.1e}{short}", flush=True)
    print(
        f"\n  aims: shares within {CLOSE:g}; ratio (together to pure-ldp) at least {AIM:g}\n"
        "  not compared: Hadamard response beyond epsilon 1, where pure-ldp takes that of many\n"
        "  blocks; pure-ldp's own hash functions (its server of listed functions takes the\n"
        "  project's); subset selection and means, which it has not"
    )
    raise SystemExit(0 if right else 1)


if __name__ == "__main__":
    main()
