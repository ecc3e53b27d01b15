"""Metrics of a survey over HTTP, for Prometheus, and whether it is well."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import NamedTuple

import trio

from protocol.errors import UsageError
from scenarios.errors import install_command
from scenarios.surveys.operating.progress import Counts, Phase, Progress

REQUEST_BYTES = 1 << 13
"""The longest request, in bytes."""

SECONDS = 5.0
"""How long a client may take for its request and to read the answer."""

CONNECTIONS = 16
"""The most connections at once.

For a further one the oldest is closed that has yet to send a whole request. If all have sent
theirs, the further one is closed.
"""

SLOW = 10.0
"""A survey is not well while one write to disk takes longer, in seconds."""

_LINE = re.compile(rb"(GET|HEAD) ([!-~]{1,512}) HTTP/1\.[01]\r\n")
_END = b"\r\n\r\n"
_TEXT = "text/plain; charset=utf-8"


class Answer(NamedTuple):
    """What a client gets."""

    status: HTTPStatus
    body: bytes
    kind: str = _TEXT


def exposition(counts: Counts) -> Answer:
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
    return Answer(HTTPStatus.OK, generate_latest(registry), CONTENT_TYPE_LATEST)


def health(counts: Counts) -> Answer:
    """Whether parties can connect and what they say is written to disk."""
    if counts.phase in (Phase.BEGINNING, Phase.STOPPING):
        return Answer(HTTPStatus.SERVICE_UNAVAILABLE, f"{counts.phase.value}\n".encode())
    if counts.writing > SLOW:
        said = f"the disk has taken more than {SLOW:g} s for a write\n"
        return Answer(HTTPStatus.SERVICE_UNAVAILABLE, said.encode())
    return Answer(HTTPStatus.OK, f"{counts.phase.value}\n".encode())


PAGES: dict[bytes, Callable[[Counts], Answer]] = {b"/metrics": exposition, b"/healthz": health}
"""What can be asked for."""


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens.

    Raises:
        OSError: one cannot listen there; it says where.
    """
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family)
        try:
            if os.name == "posix":
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
    asking: dict[trio.SocketStream, trio.CancelScope] = {}  # Oldest first.
    answered: set[trio.SocketStream] = set()

    async def connected(stream: trio.SocketStream) -> None:
        if len(asking) + len(answered) >= CONNECTIONS:
            if not asking:
                await trio.aclose_forcefully(stream)
                return
            asking.pop(next(iter(asking))).cancel()
        try:
            with trio.move_on_after(SECONDS) as scope:
                asking[stream] = scope
                request = await _request(stream)
                if request and asking.pop(stream, None) is not None:
                    answered.add(stream)
                    await _answer(stream, request, progress)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # The client is gone.
        finally:
            asking.pop(stream, None)
            answered.discard(stream)
            await trio.aclose_forcefully(stream)

    async with trio.SocketListener(trio.socket.from_stdlib_socket(listener)) as opened:
        await trio.serve_listeners(connected, [opened])


async def _request(stream: trio.SocketStream) -> bytes:
    """A request, or the beginning of one that is too long; empty if the client has gone."""
    request = b""
    while _END not in request and len(request) <= REQUEST_BYTES:
        part = await stream.receive_some(REQUEST_BYTES)
        if not part:
            return b""
        request += part
    return request


async def _answer(stream: trio.SocketStream, request: bytes, progress: Progress) -> None:
    line = _LINE.match(request)
    page = PAGES.get(line[2]) if line is not None else None
    if line is None or _END not in request:
        answer = Answer(HTTPStatus.BAD_REQUEST, b"expected GET\n")
    elif page is None:
        answer = Answer(HTTPStatus.NOT_FOUND, b"expected /metrics or /healthz\n")
    else:
        answer = page(progress.counts())
    fields = {
        "Content-Type": answer.kind,
        "Content-Length": str(len(answer.body)),
        "Cache-Control": "no-store",
        "Connection": "close",
    }
    head = [f"HTTP/1.1 {answer.status.value} {answer.status.phrase}"]
    head += [f"{name}: {value}" for name, value in fields.items()]
    body = b"" if line is not None and line[1] == b"HEAD" else answer.body
    await stream.send_all("\r\n".join([*head, "", ""]).encode("latin-1") + body)
    await stream.send_eof()
