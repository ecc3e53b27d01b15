"""Engines by name."""

from __future__ import annotations

from protocol.errors import UsageError
from scenarios.errors import install_command
from scenarios.running.engines.engine import ENGINES, Engine, EngineName
from scenarios.running.engines.here import Here


def open_engine(
    name: EngineName = "here", *, jobs: int | None = None, address: str | None = None
) -> Engine:
    """An engine, to be used in a ``with`` block.

    Args:
        name: ``here``, ``processes`` of this machine, or ``ray``.
        jobs: number of concurrent tasks, by default one for each processor.
        address: address of a Ray cluster, by default one started on this machine.

    Raises:
        EngineError: Ray cannot be started.
        UsageError: unknown, not installed, or options that do not fit together.
    """
    if name not in ENGINES:
        raise UsageError(f"engine {name!r}: expected one of {', '.join(ENGINES)}")
    if address is not None and name != "ray":
        raise UsageError(f"--address is for the engine 'ray', not {name!r}")
    if jobs is not None and jobs < 1:
        raise UsageError(f"--jobs {jobs}: expected at least 1")
    if name == "here":
        if jobs not in (None, 1):
            raise UsageError(f"--jobs {jobs}: the engine 'here' runs one task at a time")
        return Here()
    if name == "processes":
        from scenarios.running.engines.processes import Processes

        return Processes(jobs)
    try:
        from scenarios.running.engines.on_ray import OnRay
    except ImportError as error:
        if error.name != "ray":
            raise
        raise UsageError(
            f"the engine 'ray' needs Ray: {install_command('ray')}; or choose 'processes'"
        ) from error
    return OnRay(jobs, address)
