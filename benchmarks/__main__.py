"""``python -m benchmarks [NAME ...]``: runs benchmarks and prints what they measured."""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Callable, Mapping
from types import MappingProxyType

import msgspec
import numpy as np
import trio

from benchmarks import mathematics, session, transport
from benchmarks.timing import Benchmark, measure, report

BENCHMARKS: Mapping[str, Callable[[], Benchmark]] = MappingProxyType(
    {
        "memory": transport.memory_singly,
        "memory-batches": transport.memory_batches,
        "tcp": transport.tcp_singly,
        "tcp-coalesced": transport.tcp_coalesced,
        "tls": transport.tls_singly,
        "tls-coalesced": transport.tls_coalesced,
        "randomize": mathematics.randomize,
        "joint": mathematics.joint,
        "local": session.local,
        "recording": session.recording,
        "session": session.session,
        "actors": session.actors,
    }
)


def main() -> None:
    """Run the benchmarks that are named, or all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--repeats", type=int, help="how often each side runs, at least 2")
    asked = parser.parse_args()
    names = asked.names or list(BENCHMARKS)
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    if asked.repeats is not None and asked.repeats < 2:
        parser.error("--repeats: expected at least 2")
    print(
        f"Python {platform.python_version()}, numpy {np.__version__}, trio {trio.__version__}, "
        f"msgspec {msgspec.__version__}, {os.cpu_count()} cores; median (quartiles)"
    )
    for name in names:
        benchmark = BENCHMARKS[name]()
        print(f"\n{name}", flush=True)
        measured = measure(benchmark, repeats=asked.repeats or benchmark.repeats)
        print("\n".join(report(benchmark, measured)), flush=True)


if __name__ == "__main__":
    main()
