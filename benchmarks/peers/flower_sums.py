"""Run where Flower is installed: its SecAgg+ beside a sparse secure sum, in one process each.

Flower's own simulation starts Ray. Here its workflow and its clients' mod are called directly, and
messages go through Flower's encoding, so nothing of Ray is measured.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

import numpy as np
from flwr.app import Context, Message, RecordDict
from flwr.client import NumPyClient
from flwr.client.mod import secaggplus_mod
from flwr.clientapp import ClientApp
from flwr.common import ndarrays_to_parameters, parameters_to_ndarrays
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.server import LegacyContext, ServerConfig
from flwr.server.strategy import FedAvg
from flwr.server.workflow import DefaultWorkflow, SecAggPlusWorkflow
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

from benchmarks.sums import sparse
from benchmarks.timing import Side, elapsed, measure, report
from protocol.variants import PairCounts
from scenarios.data.adult import ADULT

CLIENTS = 200
REPEATS = 2


class _Client(NumPyClient):  # type: ignore[misc]  # Flower is not always installed
    """Has a vector, whatever it is asked to train."""

    def __init__(self, vector: np.ndarray[Any, Any]) -> None:
        self._vector = vector

    def fit(self, parameters: object, config: object) -> tuple[list[Any], int, dict[str, Any]]:
        return [self._vector], 1, {}


class _Grid(Grid):  # type: ignore[misc]  # for the same reason
    """All clients in this process."""

    run = SimpleNamespace(run_id=1)

    def __init__(self, app: ClientApp) -> None:
        self._app = app
        self._contexts = {place: _context(place) for place in range(1, CLIENTS + 1)}

    def get_node_ids(self) -> list[int]:
        return list(self._contexts)

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> list[Message]:
        return [self._answer(_carried(message)) for message in messages]

    def _answer(self, message: Message) -> Message:
        return _carried(self._app(message, self._contexts[message.metadata.dst_node_id]))

    def set_run(self, run: object) -> None: ...

    def create_message(self, *given: Any, **named: Any) -> Message:
        raise NotImplementedError

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        raise NotImplementedError

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        raise NotImplementedError


def _carried(message: Message) -> Message:
    """A message as its recipient has it."""
    return message_from_proto(message_to_proto(message))


def _context(node: int) -> Context:
    return Context(run_id=1, node_id=node, node_config={}, state=RecordDict(), run_config={})


class _Mean(FedAvg):  # type: ignore[misc]  # for the same reason
    """Keeps what the first round came to."""

    mean: np.ndarray[Any, Any]

    def aggregate_fit(self, server_round: int, results: Any, failures: Any) -> Any:
        aggregated = super().aggregate_fit(server_round, results, failures)
        self.mean = parameters_to_ndarrays(aggregated[0])[0]
        return aggregated


def flower(cells: int, *, shares: int, threshold: int) -> float:
    """One round of SecAgg+ over vectors of zeros and ones; how many seconds it takes.

    Raises:
        RuntimeError: the sum is wrong.
    """
    vectors = np.random.default_rng(1).integers(0, 2, (CLIENTS, cells)).astype(float)
    app = ClientApp(
        lambda context: _Client(vectors[context.node_id - 1]).to_client(), mods=[secaggplus_mod]
    )
    strategy = _Mean(
        fraction_evaluate=0.0,
        min_fit_clients=CLIENTS,
        min_available_clients=CLIENTS,
        initial_parameters=ndarrays_to_parameters([np.zeros(cells)]),
        fit_metrics_aggregation_fn=lambda metrics: {},
        accept_failures=False,
    )
    workflow = SecAggPlusWorkflow(shares, threshold, max_weight=1.0, clipping_range=1.0)
    config = ServerConfig(num_rounds=1)
    context = LegacyContext(context=_context(0), config=config, strategy=strategy)
    seconds = elapsed(lambda: DefaultWorkflow(fit_workflow=workflow)(_Grid(app), context))
    if not np.allclose(strategy.mean * CLIENTS, vectors.sum(axis=0), atol=1e-3):
        raise RuntimeError("Flower's sum is not that of the vectors")
    return seconds


def main() -> None:
    """Print how a sparse sum does beside SecAgg+ with as many neighbours and the same threshold."""
    logging.getLogger("flwr").setLevel(logging.ERROR)
    # As Flower's simulation does.
    TaskIdentity.task_id = TaskIdentity.run_id = TaskIdentity.node_id = 1
    variant = PairCounts(survey=ADULT)
    cells, degree = variant.layout.cells, variant.sums.degree(CLIENTS)
    # Flower counts a client's own share too.
    shares = degree.neighbours + 1
    print(
        f"  cryptography {version('cryptography')}, pycryptodome {version('pycryptodome')}; "
        f"{CLIENTS} clients, {cells:,} cells, {degree.neighbours} neighbours, "
        f"threshold {degree.threshold}",
        flush=True,
    )
    ours = sparse(CLIENTS)
    peer = Side(
        name="SecAgg+",
        run=lambda: flower(cells, shares=shares, threshold=degree.threshold),
    )
    benchmark = replace(ours, floors=(peer,), beside=(), aim=None, against="peer")
    measured = measure(benchmark, repeats=REPEATS)
    print("\n".join(report(benchmark, measured)), flush=True)


if __name__ == "__main__":
    main()
