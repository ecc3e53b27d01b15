"""A small HTTP/1.1 server over TCP or TLS: a table of paths, limits, no log, no addresses kept."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus

import h11
import msgspec
import trio

from transports.admission import Admission, Incoming, Network, Standing, Strangers
from transports.connection import turn_away


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a client.

    Args:
        head: the longest request line and headers together, in bytes.
        body: the longest body, in bytes.
        seconds: for a request and its response together, and of silence between two.
        connections: the most at once; beyond that, ``transports.admission`` says who goes.
        each: the most of one address that have yet to send a whole request.
    """

    head: int
    body: int
    seconds: float
    connections: int
    each: int


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A whole request.

    Args:
        path: with the query, if it has one.
        headers: values by lower-case name; the last of repeated ones.
        body: empty if there is none.
        address: the client's address.
    """

    path: str
    headers: Mapping[bytes, bytes]
    body: bytes = b""
    address: str


class Response(msgspec.Struct, frozen=True):
    """A whole response.

    Args:
        status: HTTP status.
        body: text, unless the headers say otherwise. It is left out if the request is HEAD.
        headers: beside the usual ones, or in their place.
    """

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = {}


Handler = Callable[[Request], Awaitable[Response]]
Paths = Mapping[str, Mapping[str, Handler]]
"""Handlers by path and method. A path such as ``/place/`` stands for all that begin with it."""

Early = Callable[[Request], Response | None]
"""Answers a request by its head alone, whose body is not read then; or leaves it to a handler."""


_WRITE = 1 << 15


class _RefusedError(Exception):
    def __init__(self, response: Response) -> None:
        super().__init__(response.body.decode().strip())
        closing = {**response.headers, "Connection": "close"}
        self.response = msgspec.structs.replace(response, headers=closing)


def _refusal(status: int, reason: str, **headers: str) -> _RefusedError:
    return _RefusedError(Response(status, f"{reason}\n".encode(), headers))


async def serve(
    listeners: list[trio.SocketListener],
    paths: Paths,
    limits: Limits,
    *,
    tls: ssl.SSLContext | None = None,
    early: Early = lambda request: None,
    refused: Callable[[str, int, str], object] = lambda *_: None,
    trusted: Sequence[Network] = (),
    strangers: Strangers | None = None,
) -> None:
    """Answer requests until cancelled. HEAD is answered where GET is.

    Args:
        listeners: are closed at the end.
        paths: handlers by path and method.
        limits: limits on a client.
        tls: for HTTPS.
        early: called once the head of a known request has come.
        refused: called with the client's address, status and reason, if no handler gets a request.
        trusted: addresses whose connections do not make room for those of strangers.
        strangers: counts connections that end without a whole request and without ``refused``.

    Raises:
        Exception: a handler's, after its client has got status 500 without a text. An error
            of streams, such as ``trio.BrokenResourceError``, ends the connection alone.
    """
    admission = Admission(
        most=limits.connections, each=limits.each, trusted=trusted, strangers=strangers
    )

    async def attend(incoming: Incoming) -> None:
        connection = _Connection(incoming, tls, limits)
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError, trio.EndOfChannel):
            more = True
            while more:
                more = False
                incoming.stand(Standing.UNFINISHED)
                with trio.move_on_after(limits.seconds) as scope:
                    more = await answer(connection, incoming)
                if scope.cancelled_caught and connection.in_request:
                    incoming.heard = True
                    refused(incoming.address, 408, "the request took too long")

    async def answer(connection: _Connection, incoming: Incoming) -> bool:
        """Answer a request; return whether another may follow."""
        try:
            handler, request = await connection.receive(paths, early)
        except _RefusedError as error:
            incoming.heard = True
            refused(incoming.address, error.response.status, str(error))
            return await connection.send(error.response)
        if incoming.evicted:
            return False  # Another connection has taken its place.
        incoming.heard = True
        incoming.stand(Standing.ANSWERED)
        try:
            response = await handler(request)
        except Exception:
            with suppress(trio.BrokenResourceError):  # Whether or not the client is still there.
                await connection.send(Response(500, headers={"Connection": "close"}))
            raise
        incoming.stand(Standing.READING)
        return await connection.send(response)

    try:
        await admission.serve(listeners, attend)
    finally:
        for listener in listeners:
            listener.socket.close()


class _Connection:
    def __init__(self, incoming: Incoming, tls: ssl.SSLContext | None, limits: Limits) -> None:
        wire = incoming.wire
        self._wire = wire
        self._stream: trio.abc.Stream = wire
        if tls is not None:
            self._stream = trio.SSLStream(wire, tls, server_side=True, https_compatible=True)
            incoming.stream = self._stream
        self._limits = limits
        self._http = h11.Connection(h11.SERVER, limits.head)
        self._head_only = self.in_request = False
        self._address = incoming.address

    async def receive(self, paths: Paths, early: Early) -> tuple[Handler, Request]:
        """The next request and its handler.

        Raises:
            _RefusedError: the request is malformed, too long, or unknown.
            trio.EndOfChannel: the client has no more.
        """
        try:
            head = await self._next()
            if not isinstance(head, h11.Request):
                raise trio.EndOfChannel
            self._head_only = head.method == b"HEAD"
            handler = self._check(head, paths)
            request = Request(
                path=head.target.decode(), headers=dict(head.headers), address=self._address
            )
            response = early(request)
            if response is not None:
                raise _RefusedError(response)
            if self._http.they_are_waiting_for_100_continue:
                go_on = h11.InformationalResponse(status_code=100, reason="Continue", headers=[])
                await self._stream.send_all(self._http.send(go_on))
            body = b""
            while isinstance(part := await self._next(), h11.Data):
                body += part.data
        except h11.RemoteProtocolError as error:
            status, reason = error.error_status_hint, "malformed request"
            if status == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE:
                reason = f"headers of more than {self._limits.head} bytes"
            # Its traceback would keep everything that this connection holds.
            raise _refusal(status, reason) from error.with_traceback(None)
        return handler, msgspec.structs.replace(request, body=body)

    def _check(self, head: h11.Request, paths: Paths) -> Handler:
        method, path, headers = head.method.decode(), head.target.decode(), dict(head.headers)
        methods = paths.get(path) or paths.get(path[: path.find("/", 1) + 1])
        if not head.http_version.startswith(b"1."):
            raise _refusal(400, "expected HTTP/1.1")
        if methods is None:
            raise _refusal(404, f"expected {' or '.join(paths)}")
        handler = methods.get("GET" if self._head_only else method)
        if handler is None:
            raise _refusal(405, f"expected {' or '.join(methods)}", Allow=", ".join(methods))
        if b"transfer-encoding" in headers:
            raise _refusal(501, "expected Content-Length, not a transfer encoding")
        if method == "POST" and b"content-length" not in headers:
            raise _refusal(411, "expected Content-Length")
        if int(headers.get(b"content-length", 0)) > self._limits.body:
            raise _refusal(413, f"a body of more than {self._limits.body} bytes")
        return handler

    async def _next(self) -> object:
        """The next event: a head, a part of a body, or an end."""
        while (event := self._http.next_event()) is h11.NEED_DATA:
            room = self._limits.head + 1 - len(self._http.trailing_data[0])
            received = await self._stream.receive_some(room)
            self._http.receive_data(bytes(received))
            self.in_request |= bool(received)
        return event

    async def send(self, response: Response) -> bool:
        """Send a response; return whether another request may follow."""
        headers = {
            "Content-Type": "text/plain; charset=utf-8",
            "Content-Length": str(len(response.body)),
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            **response.headers,
        }
        status, reason = response.status, HTTPStatus(response.status).phrase
        sent = self._http.send(
            h11.Response(status_code=status, reason=reason, headers=[*headers.items()])
        )
        body = memoryview(b"" if self._head_only else response.body)
        # In pieces: TLS keeps two copies of every write, for each client.
        for start in range(0, len(body), _WRITE):
            await self._stream.send_all(sent + body[start : start + _WRITE])
            sent = b""
        self._http.send_with_data_passthrough(h11.Data(data=response.body[: len(body)]))
        sent += self._http.send(h11.EndOfMessage())
        if sent:
            await self._stream.send_all(sent)
        self._head_only = self.in_request = False
        if self._http.our_state is not h11.DONE:
            await turn_away(self._wire)
            return False
        self._http.start_next_cycle()
        self.in_request = bool(self._http.trailing_data[0])
        return True
