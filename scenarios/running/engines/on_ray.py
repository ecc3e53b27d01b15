"""The engine of Ray, on this machine or on a cluster.

Ray runs any task that it receives, and trusts its whole network: it is used for simulations only.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
import sys
import tempfile
import warnings
from collections.abc import Callable, Generator, Mapping
from typing import Any

import ray
from ray import exceptions

from protocol.errors import UsageError
from scenarios.errors import EngineError
from scenarios.running.engines.carrying import carried_out, kernel_result
from scenarios.running.engines.engine import Lost
from scenarios.running.engines.processes import MOST_DEATHS, processors
from scenarios.running.engines.with_workers import Task, WorkersEngine

MOST_PORT = 65535
REACHED_WITHIN = 5.0
"""Seconds that a cluster may take to accept a connection."""

DEATHS: Mapping[type[Exception], str] = {
    exceptions.LocalRayletDiedError: "its node was lost",
    exceptions.NodeDiedError: "its node was lost",
    exceptions.ObjectLostError: "the node that had its result was lost",
    exceptions.OutOfMemoryError: "its worker ran out of memory",
    exceptions.TaskCancelledError: "its worker was ended",
    exceptions.WorkerCrashedError: "its worker died",
}
"""Ray's errors for lost workers, with words for them."""


class OnRay(WorkersEngine):
    """Runs each task in a Ray worker; Ray is started if it is not running.

    A Ray started here listens on this machine only, requires a token, and keeps its files in a
    folder of its own. A cluster, or a Ray that the caller has started, is left running.

    Args:
        jobs: number of concurrent tasks, by default one for each processor.
        address: address of a cluster.

    Raises:
        EngineError: Ray cannot be started.
        UsageError: no cluster can be used at this address.
    """

    name = "ray"

    def __init__(self, jobs: int | None = None, address: str | None = None) -> None:
        super().__init__()
        self._folder: str | None = None
        self._connected = not ray.is_initialized()
        if self._connected and address is None:
            jobs = processors() if jobs is None else jobs
            self._start(jobs)
        elif self._connected:
            self._connect(str(address))
        # Ray itself queues tasks beyond its processors.
        self._most = jobs if jobs is not None and self._folder is None else sys.maxsize
        self.jobs = jobs or max(1, int(ray.cluster_resources().get("CPU", 1)))
        self.window = 2 * self.jobs
        if self._folder is None:
            self.host = ray.util.get_node_ip_address()
        self._kernel = ray.remote(carried_out)
        self._running: dict[Any, Task] = {}

    @property
    def under_way(self) -> int:
        return len(self._waiting) + len(self._running)

    def drain(self) -> list[tuple[int, Any]]:
        self._hand_out()
        if not self._running:
            return []
        ray.wait([*self._running], num_returns=1)
        done, _ = ray.wait([*self._running], num_returns=len(self._running), timeout=0)
        found: list[tuple[int, Any]] = []
        for reference in done:
            task = self._running[reference]
            try:
                result = self._result(reference, task)
            except Exception:
                if found:
                    break  # the next call comes upon it again
                del self._running[reference]
                raise
            del self._running[reference]
            found.append((task.key, result))
        self._hand_out()
        return found

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._waiting.clear()
        if self._connected:
            self._running.clear()
            self._stop()
        while self._running:
            reference, _ = self._running.popitem()
            ray.cancel(reference, force=True)

    def _hand_out(self) -> None:
        while self._waiting and len(self._running) < self._most:
            task = self._waiting.popleft()
            tries = MOST_DEATHS - 1 if task.again else 0
            kernel = self._kernel.options(max_retries=tries, retry_exceptions=False, num_cpus=1)
            self._running[kernel.remote(task.content)] = task

    def _result(self, reference: Any, task: Task) -> Any:
        try:
            outcome = ray.get(reference)
        except tuple(DEATHS) as error:
            how = next(how for kind, how in DEATHS.items() if isinstance(error, kind))
            if not task.again:
                return Lost(how)
            raise EngineError(
                f"task {task.key}: given up after {MOST_DEATHS} attempts; at the last one {how}"
            ) from error
        except exceptions.RayError as error:
            raise EngineError(
                f"task {task.key}: Ray cannot carry it out: {_first_line(error)}; "
                "expected sottovoce in the same version on every node"
            ) from error
        return kernel_result(outcome)

    def _start(self, jobs: int) -> None:
        # Names of sockets must be short, so not in whatever TMPDIR names.
        self._folder = tempfile.mkdtemp(prefix="sottovoce-", dir="/tmp")
        try:
            with _settings():
                self._initialize(
                    _print_nothing,
                    address="local",
                    num_cpus=jobs,
                    num_gpus=0,
                    include_dashboard=False,
                    _node_ip_address="127.0.0.1",
                    _temp_dir=self._folder,
                )
        except BaseException as error:
            self._stop()
            if not isinstance(error, Exception):
                raise
            raise EngineError(
                f"Ray {ray.__version__} cannot be started: {_first_line(error)}"
            ) from error

    def _connect(self, address: str) -> None:
        _check_reachable(address)
        try:
            self._initialize(_print_to_stderr, address=address)
        except BaseException as error:
            self._stop()
            if not isinstance(error, Exception):
                raise
            if address == "auto" and type(error) is ConnectionError:
                raise UsageError(
                    "--address 'auto': this machine is not a node of a running cluster; start one "
                    "by 'ray start --head', or give HOST:PORT of its head node"
                ) from error
            raise UsageError(
                f"--address {address!r}: {_first_line(error)}; expected the cluster's token, and "
                "there the same versions of Ray and Python"
            ) from error

    def _initialize(self, printing: Callable[..., None], **options: Any) -> None:
        from ray._private import worker

        # Ray prints about its workers on stdout, which belongs to the command.
        self._printing = worker.print_to_stdstream
        worker.print_to_stdstream = printing
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ray.init(log_to_driver=False, logging_level="ERROR", **options)

    def _stop(self) -> None:
        """Disconnect from Ray, and shut it down if it was started here."""
        from ray._private import worker

        ray.shutdown()
        worker.print_to_stdstream = self._printing
        if self._folder is not None:
            _read_settings()
            shutil.rmtree(self._folder, ignore_errors=True)


def _print_to_stderr(data: Mapping[str, Any], *_: object, **__: object) -> None:
    for line in data["lines"]:
        print(f"ray: {line}", file=sys.stderr)


def _print_nothing(*_: object, **__: object) -> None:
    pass


def _check_reachable(address: str) -> None:
    """Fail fast: Ray itself would retry an unreachable address for minutes."""
    if address == "auto":
        return
    host, colon, port = address.rpartition(":")
    if "/" in host or not (host and colon and port.isdecimal() and 0 < int(port) <= MOST_PORT):
        raise UsageError(
            f"--address {address!r}: expected HOST:PORT of the head node, with a port from 1 to "
            f"{MOST_PORT}, or auto, on a machine that is a node itself"
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=REACHED_WITHIN).close()
    except OSError as error:
        raise UsageError(f"--address {address!r}: no cluster there: {error}") from error


@contextlib.contextmanager
def _settings() -> Generator[None]:
    """Set Ray's environment variables for processes started in the block.

    Ray listens on all interfaces, but where it believes that there can be no cluster.
    """
    from ray._private import ray_constants

    wanted = {
        # By default Ray gives each task one thread; sums of floats depend on the number of threads.
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(processors())),
        "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path)),
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_USAGE_STATS_ENABLED": "0",
        ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR: "0",
    }
    before = {name: os.environ.get(name) for name in wanted}
    clusters = ray_constants.ENABLE_RAY_CLUSTER
    os.environ.update(wanted)
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        _read_settings()
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = clusters
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _read_settings() -> None:
    """Make Ray read the environment again, which it otherwise does once at import."""
    from ray._raylet import AuthenticationTokenLoader, Config

    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()


def _first_line(error: BaseException) -> str:
    said = str(error).strip() or type(error).__name__
    return said.splitlines()[0]
