"""A witness's HTTP server: one call, small requests, and a deadline for each."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus

import trio

from protocol.errors import UsageError
from protocol.transcript.witnessing import ADD_CHECKPOINT, MAX_REQUEST
from scenarios.errors import printable
from scenarios.surveys.witnessing.state import Witness
from transports.web import http
from transports.web.http import Limits, Request, Response

HEAD_BYTES = 1 << 13
"""The longest request line and headers together, in bytes."""

SIZE_TYPE = "text/x.tlog.size"

_LIMITS = Limits(head=HEAD_BYTES, body=MAX_REQUEST, seconds=10.0, connections=256, each=32)


async def serve(
    witness: Witness,
    *,
    host: str,
    port: int,
    listening: Callable[[str], object],
    said: Callable[[str], object],
) -> None:
    """Answer requests until cancelled.

    Args:
        witness: judges them. It does so in this task's thread, between two awaits, so that nothing
            comes between judging a checkpoint and keeping it.
        host, port: where to listen; port 0 takes a free one.
        listening: called with the address once it listens.
        said: called with a line for every answer.

    Raises:
        OSError: the address cannot be listened at.
    """

    def say(address: str, status: int, reason: str) -> None:
        how = "cosigned" if status == HTTPStatus.OK else f"refused ({status})"
        said(printable(f"{address or 'gone already'}: {how}: {' '.join(reason.split())}"))

    async def add_checkpoint(request: Request) -> Response:
        try:
            decision, line = witness.answer(request.body)
        except (OSError, UsageError) as error:
            say(request.address, 500, f"the state cannot be written: {error}")
            return Response(500, b"the state cannot be written\n")
        say(request.address, decision.status, decision.reason)
        if decision.size is not None:
            size = f"{decision.size}\n".encode()
            return Response(decision.status, size, {"Content-Type": SIZE_TYPE})
        return Response(decision.status, (line or f"{decision.reason}\n").encode())

    listeners = await trio.open_tcp_listeners(port, host=host)
    listening(f"{host}:{listeners[0].socket.getsockname()[1]}")
    paths = {ADD_CHECKPOINT: {"POST": add_checkpoint}}
    await http.serve(listeners, paths, _LIMITS, refused=say)
