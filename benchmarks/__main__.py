"""``python -m benchmarks [NAME ...]``: runs benchmarks and prints what they measured."""

from __future__ import annotations

import argparse
import functools
import os
import platform
from collections.abc import Callable, Mapping
from types import MappingProxyType

import msgspec
import numpy as np
import trio

from benchmarks import (
    blocks,
    engines,
    estimation,
    judging,
    marginals,
    mathematics,
    session,
    sums,
    tabulating,
    transport,
    workers,
)
from benchmarks.costs.series import UP_TO, measure_costs
from benchmarks.peers.beside import compare_all, compare_oracles
from benchmarks.peers.clients import attack_clients
from benchmarks.timing import Benchmark, measure, report
from benchmarks.visits import compare_visits

BENCHMARKS: Mapping[str, Callable[[], Benchmark]] = MappingProxyType(
    {
        "memory": transport.memory_singly,
        "memory-batches": transport.memory_batches,
        "tcp": transport.tcp_singly,
        "tcp-coalesced": transport.tcp_coalesced,
        "tls": transport.tls_singly,
        "tls-coalesced": transport.tls_coalesced,
        "tls-survey": transport.tls_survey,
        "tls-commits": transport.tls_commits,
        "randomize": mathematics.randomize,
        "joint": mathematics.joint,
        "pairs": estimation.pairs,
        "pairs-em": estimation.likeliest_pairs,
        "adjustment": estimation.adjustment,
        "clusters": estimation.clusters,
        "blocks": blocks.by_counts,
        "blocks-records": blocks.by_records,
        "alarm": blocks.alarm,
        "inp-ht": functools.partial(marginals.released, "InpHT", 0.022),
        "marg-ps": functools.partial(marginals.released, "MargPS", 0.3),
        "likelihood": marginals.likelihood,
        "em": marginals.expectation_maximization,
        "verify-adult": judging.verified,
        "audit-adult": judging.audited,
        "attack": judging.attacked,
        "attack-draws": judging.drawn,
        "literal-sum": sums.literal,
        "sum-edges-100": functools.partial(sums.edges, 100),
        "sum-edges-400": functools.partial(sums.edges, 400),
        "sparse-sum-100": functools.partial(sums.sparse, 100),
        "sparse-sum-1000": functools.partial(sums.sparse, 1000),
        "tabulate": tabulating.sixteen,
        "tabulate-adult": tabulating.eight_attributes,
        "local": session.local,
        "recording": session.recording,
        "session": session.session,
        "actors": session.actors,
        "enrolment": functools.partial(session.enrolment, 1000),
        "workers": functools.partial(workers.independent, session.RESPONDENTS),
        "workers-sum-300": functools.partial(workers.sums, 300),
        "here-tasks": functools.partial(engines.tasks, "here"),
        "here-cohorts": functools.partial(engines.cohorts, "here"),
        "processes-start": functools.partial(engines.start, "processes"),
        "processes-tasks": functools.partial(engines.tasks, "processes"),
        "processes-cohorts": functools.partial(engines.cohorts, "processes"),
        "processes-speed": functools.partial(engines.speed, "processes"),
    }
)

LONG: Mapping[str, Callable[[], Benchmark]] = MappingProxyType(
    {
        "enrolment-100000": functools.partial(session.enrolment, 100_000),
        "workers-100000": functools.partial(workers.independent, 100_000),
        "workers-blocks-100000": functools.partial(workers.blocks, 100_000),
        "workers-sum-1000": functools.partial(workers.sums, 1000),
        "sparse-sum-10000": functools.partial(sums.sparse, 10_000),
        "sparse-sum-32561": functools.partial(sums.sparse, 32_561),
        "coalition-32561": functools.partial(judging.coalition, 32_561),
        "worst-32561": functools.partial(judging.worst, 32_561),
        "ray-start": functools.partial(engines.start, "ray"),
        "ray-tasks": functools.partial(engines.tasks, "ray"),
        "ray-cohorts": functools.partial(engines.cohorts, "ray"),
        "ray-speed": functools.partial(engines.speed, "ray"),
    }
)
"""Benchmarks of minutes, or with an extra, which run only by name."""

COMPARISONS: Mapping[str, Callable[[], bool]] = MappingProxyType(
    {
        "clients": attack_clients,
        "oracles": compare_oracles,
        "peers": compare_all,
        "visits": compare_visits,
    }
)
"""Benchmarks that print a comparison of their own, and return whether all is as expected.
All but the visits need other libraries, in environments of their own."""


def main() -> None:
    """Run the benchmarks that are named, or all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    known = {**BENCHMARKS, **LONG}
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=", ".join([*known, *COMPARISONS, "costs"])
    )
    parser.add_argument("--repeats", type=int, help="how often each side runs, at least 2")
    parser.add_argument(
        "--up-to", type=int, default=UP_TO, help="of costs: how many live parties at most"
    )
    asked = parser.parse_args()
    if asked.names == ["costs"]:
        measure_costs(up_to=asked.up_to)
        return
    if len(asked.names) == 1 and asked.names[0] in COMPARISONS:
        raise SystemExit(0 if COMPARISONS[asked.names[0]]() else 1)
    names = asked.names or list(BENCHMARKS)
    unknown = [name for name in names if name not in known]
    if unknown:
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(known)}")
    if asked.repeats is not None and asked.repeats < 2:
        parser.error("--repeats: expected at least 2")
    print(
        f"Python {platform.python_version()}, numpy {np.__version__}, trio {trio.__version__}, "
        f"msgspec {msgspec.__version__}, {os.cpu_count()} cores; median (quartiles)"
    )
    for name in names:
        print(f"\n{name}", flush=True)
        benchmark = known[name]()
        measured = measure(benchmark, repeats=asked.repeats or benchmark.repeats)
        print("\n".join(report(benchmark, measured)), flush=True)


if __name__ == "__main__":
    main()
