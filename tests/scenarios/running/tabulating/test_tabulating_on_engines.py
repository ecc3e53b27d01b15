"""Tabulating on engines with workers: one digest, whoever dies."""

from __future__ import annotations

import functools
import os
import signal
from pathlib import Path

import numpy as np
import pytest

from protocol import Law, Records, Stream, TableLaw, key_survey
from protocol.variants import PrivKVMVariant, RRIndependent
from scenarios import Tabulated, open_engine, tabulate
from scenarios.running.engines.engine import Engine
from tests.every_variant import BITS
from tests.recorded.runs import answers
from tests.scenarios.running.engines.ray_apart import needs_ray, run

TABLE = TableLaw(BITS, np.array([4, 1, 2, 3, 1, 5, 2, 2]) / 20)
VARIANT = RRIndependent.with_keep(BITS, 0.6)
FILMS = key_survey("films", ("heat", "ran"), ((-0.5, 0.5), (1.0,)))
ROUNDS = PrivKVMVariant(survey=FILMS, epsilon=2.0)


def drawn(mark: Path | None, driver: int, k: int, stream: Stream) -> Records:
    """People by the table; the first worker that draws any dies of it."""
    if mark is not None and os.getpid() != driver:
        try:
            mark.touch(exist_ok=False)
        except FileExistsError:
            pass
        else:
            os.kill(os.getpid(), signal.SIGKILL)
    return TABLE.draw(k, stream)


def tabulated(engine: Engine | None = None, mark: Path | None = None) -> Tabulated:
    """A small tabulation, where a worker may die of it."""
    law = Law(BITS, "a table", functools.partial(drawn, mark, os.getpid()))
    return tabulate(VARIANT, law, n=10_500, cohort=1_000, engine=engine or "here")


@pytest.mark.slow
def test_processes_have_the_digest_of_one_even_if_one_dies(tmp_path: Path) -> None:
    whole, people = tabulated(), answers(FILMS, 30)
    mark = tmp_path / "mark"
    with open_engine("processes", jobs=2) as engine:
        assert tabulated(engine).digest == whole.digest
        assert tabulated(engine, mark).digest == whole.digest
        rounds = tabulate(ROUNDS, people, n=500, cohort=100, engine=engine)
    assert mark.exists()
    assert rounds.digest == tabulate(ROUNDS, people, n=500, cohort=100).digest
    assert (rounds.engine, rounds.stages, rounds.cohorts) == ("processes", 3, 15)


HEAD = """
import sys
from pathlib import Path
from scenarios.running.engines.opening import open_engine
from tests.scenarios.running.tabulating.test_tabulating_on_engines import tabulated
"""

ALONE = """
with open_engine("ray", jobs=2) as engine:
    print(tabulated(engine, Path(sys.argv[1], "mark")).digest.hex())
"""


@pytest.mark.slow
@needs_ray
def test_ray_has_the_same_digest_even_if_a_worker_dies(tmp_path: Path) -> None:
    done = run("-c", HEAD + ALONE, tmp_path, home=tmp_path)
    assert done.out == f"{tabulated().digest.hex()}\n", done.err
    assert (tmp_path / "mark").exists()


CLUSTER = """
from ray.cluster_utils import Cluster
from scenarios import tabulate
from tests.scenarios.running.tabulating.test_tabulating_on_engines import TABLE, VARIANT

def progress(done, total):
    global node
    if done >= 5_000_000 and node is not None:
        cluster.remove_node(node, allow_graceful=False)
        node = None

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
node = cluster.add_node(num_cpus=2)
cluster.wait_for_nodes()
with open_engine("ray", address=cluster.address) as engine:
    found = tabulate(VARIANT, TABLE, n=40_000_000, engine=engine, progress=progress)
cluster.shutdown()
print(node, found.digest.hex())
"""


@pytest.mark.slow
@needs_ray
def test_a_node_that_is_lost_changes_no_digest(tmp_path: Path) -> None:
    settings = {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": "a token of the person's own, of 32 characters or more",
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    done = run("-c", HEAD + CLUSTER, tmp_path, home=tmp_path, **settings)
    whole = tabulate(VARIANT, TABLE, n=40_000_000)
    assert done.out.splitlines()[-1] == f"None {whole.digest.hex()}", done.err
