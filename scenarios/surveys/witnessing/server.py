"""A witness's HTTP server: one call, small requests, and a deadline for each."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import NamedTuple

import trio

from protocol.errors import UsageError
from protocol.transcript.witnessing import MAX_REQUEST
from scenarios.errors import printable
from scenarios.surveys.witnessing.state import Witness

HEAD_BYTES = 1 << 13
"""The longest request line and headers together, in bytes."""

SECONDS = 10.0
"""How long a client may take for a request and its answer, and be silent between two."""

CONNECTIONS = 64
"""The most connections at once."""

PATH = "/add-checkpoint"
SIZE_TYPE = "text/x.tlog.size"

_LINE = re.compile(r"([A-Za-z]{1,16}) ([!-~]{1,2048}) HTTP/1\.([01])")
_HEADER = re.compile(r"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([\t -~\x80-\xff]*)")
_LENGTH = re.compile(r"[0-9]{1,9}")
_END = b"\r\n\r\n"


class _RefusedError(Exception):
    """A request that is not for the witness to judge."""

    def __init__(self, status: int, reason: str, **headers: str) -> None:
        super().__init__(reason)
        self.status = status
        self.headers = headers


class _Request(NamedTuple):
    body: bytes
    keep: bool


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
    listeners = await trio.open_tcp_listeners(port, host=host)
    bound = listeners[0].socket.getsockname()[1]
    room = trio.CapacityLimiter(CONNECTIONS)

    async def connected(stream: trio.SocketStream) -> None:
        try:
            room.acquire_nowait()
        except trio.WouldBlock:
            said("refused: more connections than allowed")
            await stream.aclose()
            return
        try:
            await _Connection(stream, witness, said).answer_all()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # The client is gone.
        finally:
            room.release()
            await trio.aclose_forcefully(stream)

    listening(f"{host}:{bound}")
    await trio.serve_listeners(connected, listeners)


class _Connection:
    def __init__(
        self, stream: trio.SocketStream, witness: Witness, said: Callable[[str], object]
    ) -> None:
        self._stream = stream
        self._witness = witness
        self._said = said
        self._held = bytearray()
        try:
            self._peer = str(stream.socket.getpeername()[0])
        except OSError:
            self._peer = "gone already"

    async def answer_all(self) -> None:
        """Answer one request after the other until the client has no more, or is too slow."""
        keep = True
        while keep:
            keep = False
            with trio.move_on_after(SECONDS) as limit:
                keep = await self._answer()
            if limit.cancelled_caught and self._held:
                self._say(HTTPStatus.REQUEST_TIMEOUT, f"a request of more than {SECONDS:g} s")

    async def _answer(self) -> bool:
        """Answer a request; whether another may follow."""
        try:
            request = await self._request()
        except _RefusedError as refused:
            self._say(refused.status, str(refused))
            await self._send(refused.status, f"{refused}\n", refused.headers, keep=False)
            return False
        if request is None:
            return False
        try:
            decision, line = self._witness.answer(request.body)
        except (OSError, UsageError) as error:
            self._say(500, f"the state cannot be written: {error}")
            await self._send(500, "the state cannot be written\n", {}, keep=False)
            return False
        self._say(decision.status, decision.reason)
        if line:
            await self._send(200, line, {}, keep=request.keep)
        elif decision.size is not None:
            headers = {"Content-Type": SIZE_TYPE}
            await self._send(decision.status, f"{decision.size}\n", headers, keep=request.keep)
        else:
            await self._send(decision.status, f"{decision.reason}\n", {}, keep=request.keep)
        return request.keep

    async def _request(self) -> _Request | None:
        """The next request; None if the client has no more.

        Raises:
            _RefusedError: it is malformed, too large, or no call of a witness.
        """
        while (end := self._held.find(_END)) < 0:
            if len(self._held) > HEAD_BYTES:
                raise _RefusedError(431, f"headers of more than {HEAD_BYTES} bytes")
            if not await self._receive():
                if self._held:
                    raise _RefusedError(400, "the request ends before its headers do")
                return None
        if end > HEAD_BYTES:
            raise _RefusedError(431, f"headers of more than {HEAD_BYTES} bytes")
        first, *rest = self._held[:end].decode("latin-1").split("\r\n")
        del self._held[: end + len(_END)]
        line = _LINE.fullmatch(first)
        if line is None:
            raise _RefusedError(400, "malformed request line")
        headers = _headers(rest)
        if line[2] != PATH:
            raise _RefusedError(404, f"no such path; expected {PATH}")
        if line[1] != "POST":
            raise _RefusedError(405, "expected POST", Allow="POST")
        length = _length(headers)
        if headers.get("expect", "").lower() == "100-continue":
            await self._stream.send_all(b"HTTP/1.1 100 Continue\r\n\r\n")
        while len(self._held) < length:
            if not await self._receive():
                raise _RefusedError(400, "the request ends before its body does")
        body = bytes(self._held[:length])
        del self._held[:length]
        keep = line[3] == "1" and headers.get("connection", "").lower() != "close"
        return _Request(body, keep)

    async def _receive(self) -> bool:
        part = await self._stream.receive_some(1 << 14)
        self._held += part
        return bool(part)

    async def _send(
        self, status: int, text: str, headers: Mapping[str, str], *, keep: bool
    ) -> None:
        body = text.encode()
        fields = {
            "Content-Type": "text/plain; charset=utf-8",
            "Content-Length": str(len(body)),
            "X-Content-Type-Options": "nosniff",
            **headers,
            **({} if keep else {"Connection": "close"}),
        }
        lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}"]
        lines += [f"{name}: {value}" for name, value in fields.items()]
        await self._stream.send_all("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
        if not keep:
            await self._stream.send_eof()

    def _say(self, status: int, reason: str) -> None:
        how = "cosigned" if status == HTTPStatus.OK else f"refused ({status})"
        self._said(printable(f"{self._peer}: {how}: {' '.join(reason.split())}"))


def _headers(lines: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in lines:
        field = _HEADER.fullmatch(line)
        if field is None:
            raise _RefusedError(400, "malformed header")
        name = field[1].lower()
        if name in found and name in ("content-length", "transfer-encoding"):
            raise _RefusedError(400, f"{name} occurs twice")
        found[name] = field[2].strip(" \t")
    return found


def _length(headers: Mapping[str, str]) -> int:
    if "transfer-encoding" in headers:
        raise _RefusedError(501, "transfer encodings are not supported; expected Content-Length")
    length = headers.get("content-length")
    if length is None:
        raise _RefusedError(411, "expected Content-Length")
    if not _LENGTH.fullmatch(length):
        raise _RefusedError(400, "malformed Content-Length")
    if int(length) > MAX_REQUEST:
        raise _RefusedError(413, f"a body of {length} bytes, at most {MAX_REQUEST} allowed")
    return int(length)
