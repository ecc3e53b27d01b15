"""A witness's HTTP server: one call, small requests, and a deadline for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from http import HTTPStatus

import trio

from protocol.errors import UsageError
from protocol.transcript.witnessing import ADD_CHECKPOINT, MAX_REQUEST, Decision
from scenarios.errors import printable
from scenarios.surveys.witnessing.state import Witness
from scenarios.wording.formatting import count
from transports.admission import SUMMED_SECONDS, Network, Strangers, is_trusted
from transports.background import running
from transports.listening import open_listeners
from transports.web import http
from transports.web.http import Limits, Request, Response

HEAD_BYTES = 1 << 13
"""Maximum size of request line and headers together, in bytes."""

SIZE_TYPE = "text/x.tlog.size"

_LIMITS = Limits(head=HEAD_BYTES, body=MAX_REQUEST, seconds=10.0, connections=512, each=256)


async def serve(
    witness: Witness,
    *,
    host: str,
    port: int,
    listening: Callable[[str], object],
    said: Callable[[str], object],
    trusted: Sequence[Network] = (),
) -> None:
    """Answer requests until cancelled.

    Args:
        witness: judges them. It does so in this task's thread, between two awaits, so that nothing
            comes between judging a checkpoint and keeping it.
        host, port: the address to listen at; port 0 takes a free one.
        listening: called with the address once it listens.
        said: called with a line for every checkpoint that is cosigned for the first time, every
            fork, and every answer to a trusted address. Of other answers some get a line; the rest
            is summed up once a minute, as are connections without a whole request.
        trusted: addresses whose connections do not make room for those of strangers.

    Raises:
        OSError: the address cannot be listened at.
    """
    strangers, requests = Strangers(), Strangers()
    # Last report about a log or a key: anybody can repeat a cosigned request.
    told: dict[bytes, bytes] = {}

    def say(address: str, status: int, reason: str, *, new: bool = False) -> None:
        if new or is_trusted(address, trusted) or requests.gets_line(address):
            how = "cosigned" if status == HTTPStatus.OK else f"refused ({status})"
            said(printable(f"{address}: {how}: {' '.join(reason.split())}"))

    def is_new(decision: Decision) -> bool:
        """Check whether a decision comes from a new signature of a survey's aggregator."""
        if decision.checkpoint is not None:
            about = decision.checkpoint.session + decision.checkpoint.key
            signed = decision.checkpoint.signed
        elif decision.evidence is not None:
            about, signed = decision.evidence.key, b""
        else:
            return False
        before = told.get(about)
        told[about] = signed
        return before != signed

    async def sum_up() -> None:
        while True:
            await trio.sleep(SUMMED_SECONDS)
            for line in summed_up(strangers, requests):
                said(line)

    async def add_checkpoint(request: Request) -> Response:
        try:
            decision, line = witness.answer(request.body)
        except (OSError, UsageError) as error:
            say(request.address, 500, f"the state cannot be written: {error}", new=True)
            return Response(500, b"the state cannot be written\n")
        say(request.address, decision.status, decision.reason, new=is_new(decision))
        if decision.size is not None:
            size = f"{decision.size}\n".encode()
            return Response(decision.status, size, {"Content-Type": SIZE_TYPE})
        return Response(decision.status, (line or f"{decision.reason}\n").encode())

    listeners = await open_listeners(host, port)
    listening(f"{host}:{listeners[0].socket.getsockname()[1]}")
    paths = {ADD_CHECKPOINT: {"POST": add_checkpoint}}
    async with running(sum_up):
        await http.serve(
            listeners, paths, _LIMITS, refused=say, trusted=trusted, strangers=strangers
        )


def summed_up(strangers: Strangers, requests: Strangers) -> Iterator[str]:
    """Lines on events without a line of their own since the last call.

    Args:
        strangers: connections without a whole request.
        requests: answers.
    """
    last = f"in the last {SUMMED_SECONDS:g} s"
    if strangers.scarce:
        yield f"file descriptors ran short (ulimit -n) {last}: connections have made room"
    times, addresses = strangers.take()
    if times:
        came = f"{count(times, 'more connection')} from {count(addresses, 'address', 'addresses')}"
        yield f"{came} without a whole request {last}"
    times, addresses = requests.take()
    if times:
        said = f"{count(times, 'more answer')} to {count(addresses, 'address', 'addresses')}"
        yield f"{said} {last}"
