"""The project beside other libraries, each in an environment that has both."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from types import MappingProxyType

from benchmarks.peers.environments import ROOT, Absent, environment

# The first of each is the library that is compared. Two of them give text to xxhash, which later
# versions refuse.
PEERS = MappingProxyType(
    {
        "pure_ldp_oracles": (
            *("pure-ldp==1.2.0", "xxhash==3.5.0", "scikit-learn", "statsmodels", "matplotlib"),
        ),
        "multi_freq_clients": ("multi-freq-ldpy==0.2.5", "xxhash==3.5.0"),
        "mpyc_sums": ("mpyc==0.11", "gmpy2", "uvloop"),
        "flower_sums": ("flwr==1.41.0",),
    }
)
"""What each module of this folder needs that compares the project with a library."""


def compare_oracles() -> bool:
    """Compare with pure-ldp alone; whether the estimates agree."""
    return compare(["pure_ldp_oracles"])


def compare_all() -> bool:
    """Compare with every library that can be installed; whether all results are right."""
    return compare(list(PEERS))


def compare(modules: Sequence[str]) -> bool:
    """Run modules of ``PEERS``; one whose library cannot be installed is skipped with a line."""
    right = True
    for module in modules:
        packages = PEERS[module]
        print(f"\n{packages[0]}", flush=True)
        try:
            python = environment(packages)
        except Absent as error:
            print(f"  skipped: {error}", flush=True)
            continue
        command = [str(python), "-W", "ignore", "-m", f"benchmarks.peers.{module}"]
        right &= subprocess.run(command, cwd=ROOT, check=False).returncode == 0
    return right
