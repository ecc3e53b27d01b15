"""Ray on this machine and on a simulated cluster, each in a process of its own."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scenarios.running.engines.proc import ended
from tests.scenarios.running.engines.ray_apart import ON_RAY, needs_ray, run, started

pytestmark = [
    needs_ray,
    pytest.mark.skipif(sys.platform != "linux", reason="looks at processes by /proc"),
]

HEAD = """\
import json, os, sys, tempfile
from pathlib import Path
from scenarios.running.engines.engine import completed, in_order
from scenarios.running.engines.opening import open_engine
from protocol.errors import UsageError
from tests.scenarios.running.engines import kernels
from tests.scenarios.running.engines.proc import family, listening
"""

ALONE = """
before = {**os.environ}
marks = [kernels.Marked(number, Path(sys.argv[1], str(number))) for number in range(3)]
with open_engine("ray", jobs=2) as engine:
    again = in_order(engine, kernels.dies_once, marks)
    engine.submit(1, kernels.dies, None, again=False)
    [(_, lost)] = engine.drain()
    pids = family(os.getpid())
    said = {
        "jobs": engine.jobs,
        "again": again,
        "lost": lost.reason,
        "listening": sorted(listening(pids)),
        "pids": sorted(pids),
        "folder": engine._folder,
        "files": len(os.listdir(engine._folder)),
    }
of_ray = {"PYTHONBREAKPOINT", "RAY_CLIENT_MODE"}
changed = {name for name in {**before, **os.environ} if os.environ.get(name) != before.get(name)}
print(json.dumps({**said, "changed": sorted(changed - of_ray)}))
"""


@pytest.mark.slow
def test_it_starts_does_a_lost_task_again_and_leaves_nothing(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    done = run("-W", "error", "-c", HEAD + ALONE, tmp_path, home=home)
    said = done.json
    assert (said["jobs"], said["again"], said["lost"]) == (2, [0, 1, 2], "its worker died")
    assert said["listening"] == ["127.0.0.1"]
    assert len(said["pids"]) > 3
    assert said["files"] > 0
    assert said["changed"] == []
    assert done.err == ""
    assert ended(said["pids"])
    assert not Path(said["folder"]).exists()
    assert [*home.iterdir()] == []


@pytest.mark.slow
def test_it_keeps_the_contract(tmp_path: Path) -> None:
    contract = Path(__file__).with_name("test_contract.py")
    options = ("-q", "-n", "0", "-p", "no:cacheprovider", "-W", "default")
    done = run("-m", "pytest", *options, contract, home=tmp_path, **{ON_RAY: "1"})
    assert done.code == 0, done.out
    assert "passed" in done.out
    assert "skipped" not in done.out


KILLED = """
with open_engine("ray", jobs=2) as engine:
    engine.submit(1, kernels.lasts, Path(sys.argv[1]))
    while not (Path(sys.argv[1]).exists() and Path(sys.argv[1]).read_text()):
        pass
    pids = sorted(family(os.getpid()) - {os.getpid()})
    print(json.dumps([engine._folder, pids]), flush=True)
    engine.drain()
"""


@pytest.mark.slow
def test_it_ends_with_its_driver(tmp_path: Path) -> None:
    with started("-c", HEAD + KILLED, tmp_path / "mark", home=tmp_path) as driver:
        assert driver.stdout is not None
        folder, pids = json.loads(driver.stdout.readline())
        driver.kill()
    worker = int((tmp_path / "mark").read_text(encoding="utf-8"))
    assert worker in pids
    assert ended([worker])
    # Two agents of Ray look for their parent only now and then.
    assert ended(pids, within=120)
    shutil.rmtree(folder)


INTRUDED = """
import subprocess
import ray

with open_engine("ray", jobs=1) as engine:
    address = ray.get_runtime_context().gcs_address
    connect = f"from ray._raylet import GcsClient; GcsClient(address={address!r})"
    stranger = subprocess.run(
        [sys.executable, "-c", connect], capture_output=True, text=True, timeout=60
    )
    again = in_order(engine, kernels.square, [3])
print(json.dumps([stranger.returncode, stranger.stderr, again]))
"""


@pytest.mark.slow
def test_nobody_else_on_the_machine_gets_in(tmp_path: Path) -> None:
    code, said, again = run("-c", HEAD + INTRUDED, home=tmp_path).json
    assert code != 0
    assert "Authentication token is missing or incorrect" in said
    assert again == [9]


CLUSTER = """
from ray.cluster_utils import Cluster

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
node = cluster.add_node(num_cpus=2)
cluster.wait_for_nodes()
"""

USED = """
marks = Path(sys.argv[1])
with open_engine("ray", address=cluster.address) as engine:
    jobs = engine.jobs
    # The same tasks twice: the second time, a machine is lost with all that it was doing.
    whole = in_order(engine, kernels.slowly, range(12))
    done = {}
    for key, result in completed(engine, kernels.slowly, enumerate(range(12))):
        done[key] = result
        if len(done) == 2:
            cluster.remove_node(node, allow_graceful=False)
with open_engine("ray", jobs=1, address=cluster.address) as engine:
    window = engine.window
    alone = in_order(engine, kernels.alone, [marks] * 4)
alive = len(cluster.list_all_nodes())
cluster.shutdown()
removed = [done[key] for key in range(12)]
print(json.dumps([jobs, whole, removed, window, alone, alive]))
"""


@pytest.fixture
def sockets() -> Iterator[Path]:
    """A folder with a short name, for sockets."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


@pytest.mark.slow
def test_a_node_that_is_lost_changes_nothing(tmp_path: Path, sockets: Path) -> None:
    settings = {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": "a token of the person's own, of 32 characters or more",
        "RAY_TMPDIR": str(sockets),
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    done = run("-c", HEAD + CLUSTER + USED, tmp_path, home=tmp_path, **settings)
    jobs, whole, removed, window, alone, alive = json.loads(done.out.splitlines()[-1])
    assert (jobs, window, alive) == (3, 2, 1)
    assert whole == removed == [number * number for number in range(12)]
    assert alone == [True] * 4


NOWHERE = """
for address in ("127.0.0.1:9", "nowhere", "127.0.0.1:99999", "ray://127.0.0.1:9"):
    try:
        open_engine("ray", address=address)
    except UsageError as error:
        print(error)
"""


@pytest.mark.slow
def test_an_address_without_a_cluster_is_refused(tmp_path: Path) -> None:
    done = run("-c", HEAD + NOWHERE, home=tmp_path)
    refused, *malformed = done.out.splitlines()
    assert refused == "--address '127.0.0.1:9': no cluster there: [Errno 111] Connection refused"
    for line, address in zip(
        malformed, ("nowhere", "127.0.0.1:99999", "ray://127.0.0.1:9"), strict=True
    ):
        assert line.startswith(
            f"--address {address!r}: expected HOST:PORT of the head node, with a "
        )
