"""The project's frequency oracles beside those of pure-ldp, in an environment that has both."""

from __future__ import annotations

import subprocess

from benchmarks.peers.environments import ROOT, Absent, environment

# Its local hashing gives text to xxhash, which later versions refuse.
PACKAGES = ("pure-ldp==1.2.0", "xxhash==3.5.0", "scikit-learn", "statsmodels", "matplotlib")


def compare_oracles() -> bool:
    """Print what both estimate and how fast their clients are; whether the estimates agree."""
    print(f"\n{PACKAGES[0]}", flush=True)
    try:
        python = environment(PACKAGES)
    except Absent as error:
        print(f"  skipped: {error}")
        return True
    command = [str(python), "-W", "ignore", "-m", "benchmarks.peers.pure_ldp_oracles"]
    return subprocess.run(command, cwd=ROOT, check=False).returncode == 0
