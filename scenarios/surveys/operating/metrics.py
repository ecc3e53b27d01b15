"""Metrics and health of a survey over HTTP, for Prometheus."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from http import HTTPStatus

import trio

from protocol.errors import UsageError
from scenarios.errors import install_command
from scenarios.surveys.operating.progress import Counts, Phase, Progress
from transports.web import http
from transports.web.http import Handler, Limits, Request, Response

REQUEST_BYTES = 1 << 13
"""Maximum size of a request, in bytes."""

SECONDS = 5.0
"""Seconds that a client may take for its request and to read the answer."""

CONNECTIONS = 16
"""Maximum number of connections."""

SLOW = 10.0
"""A survey is not well while one write to disk takes longer, in seconds."""

_CLOSE = {"Connection": "close"}  # The next request is seconds away.


def exposition(counts: Counts) -> Response:
    """All counts, as Prometheus reads them. Labels have few values, none of them a caller's.

    Raises:
        UsageError: ``prometheus-client`` is not installed.
    """
    try:
        from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    except ImportError as error:
        raise UsageError(
            f"--metrics needs prometheus-client: {install_command('metrics')}"
        ) from error

    class Snapshot:
        def collect(self) -> Iterator[object]:
            phase = GaugeMetricFamily("sottovoce_phase", "How far it is.", labels=["phase"])
            for one in Phase:
                phase.add_metric([one.value], one is counts.phase)
            yield phase
            for name, text, value in (
                ("parties", "Parties on the roster.", counts.parties),
                ("joined", "Parties that have been connected.", counts.joined),
                ("connected", "Parties that are connected.", counts.connected),
                ("awaited", "Parties that the open wait is for.", counts.awaited),
                ("answered", "Parties that have answered the open wait.", counts.answered),
                ("declined", "Parties that have declined.", counts.declined),
                ("entries", "Entries of the record.", counts.entries),
                ("entries_durable", "Entries of the record on disk.", counts.durable),
            ):
                yield GaugeMetricFamily(f"sottovoce_{name}", text, value=value)
            yield CounterMetricFamily(
                "sottovoce_messages", "Messages accepted.", value=counts.messages
            )
            for name, label, text, values in (
                ("waits_closed", "kind", "Waits that have ended.", counts.closed),
                ("gone", "reason", "Parties that are gone for good.", counts.gone),
                ("refused", "reason", "Connections that were not let in.", counts.refused),
            ):
                family = CounterMetricFamily(f"sottovoce_{name}", text, labels=[label])
                for key, value in sorted(values.items()):
                    family.add_metric([key], value)
                yield family

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Snapshot())
    headers = {"Content-Type": CONTENT_TYPE_LATEST, **_CLOSE}
    return Response(HTTPStatus.OK, generate_latest(registry), headers)


def health(counts: Counts) -> Response:
    """Health of a survey: parties can connect, and messages are written to disk."""
    status, said = HTTPStatus.OK, counts.phase.value
    if counts.phase in (Phase.BEGINNING, Phase.STOPPING):
        status = HTTPStatus.SERVICE_UNAVAILABLE
    elif counts.writing > SLOW:
        status = HTTPStatus.SERVICE_UNAVAILABLE
        said = f"the disk has taken more than {SLOW:g} s for a write"
    return Response(status, f"{said}\n".encode(), _CLOSE)


PAGES: dict[str, Callable[[Counts], Response]] = {"/metrics": exposition, "/healthz": health}
"""Answers by path."""


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens.

    Raises:
        OSError: the address cannot be listened at.
    """
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(CONNECTIONS)
        except BaseException:
            listener.close()
            raise
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), where) from error
    return listener


async def serve(progress: Progress, listener: socket.socket) -> None:
    """Answer requests until cancelled."""

    def answering(page: Callable[[Counts], Response]) -> Handler:
        async def answer(request: Request) -> Response:
            return page(progress.counts())

        return answer

    paths = {path: {"GET": answering(page)} for path, page in PAGES.items()}
    limits = Limits(
        head=REQUEST_BYTES, body=0, seconds=SECONDS, connections=CONNECTIONS, each=CONNECTIONS
    )
    opened = trio.SocketListener(trio.socket.from_stdlib_socket(listener))
    await http.serve([opened], paths, limits)
