"""The HTTP server: what it answers, what it refuses, and whom it does not wait for."""

from __future__ import annotations

import functools
import socket
import ssl
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import msgspec
import pytest
import trio
import trio.testing
import trustme

from tests.transports.living import alive, growth, no_collections
from transports.admission import Strangers
from transports.background import running
from transports.connection import end
from transports.testing import HANGS
from transports.web.http import Limits, Request, Response, serve

LIMITS = Limits(head=1 << 10, body=1 << 12, seconds=HANGS, connections=4, each=4)
PROMPT = msgspec.structs.replace(LIMITS, seconds=0.5)
LONG = b"x" * (1 << 24)
LATE = trio.Event()
CLOSE = "Connection: close\r\n"


async def show_path(request: Request) -> Response:
    assert request.headers[b"host"] == b"h"
    return Response(200, request.path.encode(), {"Content-Type": "text/x"})


async def echo(request: Request) -> Response:
    assert request.address == "127.0.0.1"
    return Response(200, request.body)


async def fail(request: Request) -> Response:
    raise ValueError("a secret")


async def be_long(request: Request) -> Response:
    return Response(200, LONG)


async def be_late(request: Request) -> Response:
    await LATE.wait()
    return Response(200, b"late")


def judge(request: Request) -> Response | None:
    """What is refused by its head alone."""
    assert request.address == "127.0.0.1"
    if request.path != "/below/known":
        return None
    return Response(409, b"known\n", {"Retry-After": request.headers[b"wait"].decode()})


PATHS = {
    "/path": {"GET": show_path},
    "/below/": {"GET": show_path, "POST": echo},
    "/echo": {"POST": echo},
    "/fail": {"GET": fail},
    "/long": {"GET": be_long},
    "/late": {"GET": be_late},
}

Told = list[tuple[str, int, str]]


@asynccontextmanager
async def served(
    limits: Limits = LIMITS,
    told: Told | None = None,
    tls: ssl.SSLContext | None = None,
    strangers: Strangers | None = None,
) -> AsyncGenerator[int]:
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")

    def refused(address: str, status: int, reason: str) -> None:
        if told is not None:
            told.append((address, status, reason))

    task = functools.partial(
        *(serve, listeners, PATHS, limits),
        tls=tls,
        early=judge,
        refused=refused,
        strangers=strangers,
    )
    async with running(task):
        yield listeners[0].socket.getsockname()[1]


async def all_of(stream: trio.abc.ReceiveStream) -> bytes:
    """What comes until the server closes."""
    back = b""
    with trio.fail_after(HANGS):
        while part := await stream.receive_some():
            back += part
    return back


async def exchange(port: int, *parts: bytes, ends: bool = False) -> bytes:
    """What comes back for these bytes, until the server closes."""
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        for part in parts:
            await stream.send_all(part)
        if ends:
            await stream.send_eof()
        return await all_of(stream)


def asked(line: str, headers: str = "", body: bytes = b"") -> bytes:
    return f"{line} HTTP/1.1\r\nHost: h\r\n{headers}\r\n".encode() + body


def posted(body: bytes, headers: str = "", line: str = "POST /echo") -> bytes:
    return asked(line, f"Content-Length: {len(body)}\r\n{headers}", body)


async def test_paths_are_served() -> None:
    async with served() as port:
        back = await exchange(port, asked("GET /path", CLOSE))
        head, _, body = back.partition(b"\r\n\r\n")
        assert body == b"/path"
        assert head.split(b"\r\n") == [
            b"HTTP/1.1 200 OK",
            b"Content-Type: text/x",
            b"Content-Length: 5",
            b"Cache-Control: no-store",
            b"X-Content-Type-Options: nosniff",
            b"Connection: close",
        ]
        assert await exchange(port, asked("HEAD /path", CLOSE)) == head + b"\r\n\r\n"
        for path in ("/below/", "/below/a/b?c"):
            assert (await exchange(port, asked(f"GET {path}", CLOSE))).endswith(path.encode())
        back = await exchange(port, posted(b"\x00\r\n", CLOSE))
        assert back.endswith(b"\r\n\r\n\x00\r\n")


async def test_requests_may_follow_each_other_and_come_in_pieces() -> None:
    requests = (
        posted(b"one"),
        asked("HEAD /path"),
        posted(b"two", line="POST /below/x"),
        posted(b"three", CLOSE),
        posted(b"never"),
    )
    whole = b"".join(requests)
    async with served() as port:
        for parts in ((whole,), requests, (whole[:200], whole[200:])):
            back = await exchange(port, *parts)
            assert back.count(b"HTTP/1.1 200 OK") == 4
            assert [back.find(b"\r\n\r\n" + word) > 0 for word in (b"one", b"two", b"three")] == [
                True
            ] * 3
            assert b"never" not in back
        old = posted(b"one").replace(b"HTTP/1.1", b"HTTP/1.0")
        assert (await exchange(port, old + old)).count(b"one") == 1
        assert await exchange(port, ends=True) == b""


async def test_a_body_is_waited_for_if_its_client_waits() -> None:
    async with served() as port, await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(
            asked("POST /echo", f"Content-Length: 4\r\nExpect: 100-continue\r\n{CLOSE}")
        )
        assert await stream.receive_some() == b"HTTP/1.1 100 Continue\r\n\r\n"
        await stream.send_all(b"body")
        assert (await all_of(stream)).endswith(b"body")


HOSTILE = [
    (b"\r\n\r\n", 400),
    (b"\x16\x03\x01\x00\xa5\x01", 400),
    (b"GET /path HTTP/1.1\r\n\r\n", 400),
    (b"GET /path HTTP/1.1\r\nHost: h\r\nHost: i\r\n\r\n", 400),
    (b"GET /path HTTP/2.0\r\n\r\n", 400),
    (b"GET /path\r\n\r\n", 400),
    (asked("GET /path", "no header\r\n"), 400),
    (asked("GET /path", "A: \x00\r\n"), 400),
    (asked("GET /"), 404),
    (asked("GET /Path"), 404),
    (asked("GET /path/"), 404),
    (asked("GET /path?a"), 404),
    (asked("GET /echo/../path"), 404),
    (asked("GET http://h/path"), 404),
    (asked("HEAD /unknown"), 404),
    (asked("CONNECT h:80"), 404),
    (asked("GET /echo"), 405),
    (asked("HEAD /echo"), 405),
    (asked("get /path"), 405),
    (asked("BREW /path"), 405),
    (asked("POST /echo"), 411),
    (posted(b"", "Transfer-Encoding: chunked\r\n"), 501),
    (asked("POST /echo", "Transfer-Encoding: chunked\r\n", b"0\r\n\r\n"), 501),
    (asked("POST /echo", "Transfer-Encoding: gzip\r\n"), 501),
    *(
        (asked("POST /echo", f"Content-Length: {n}\r\n"), 400)
        for n in ("", "-1", "+1", "1e3", "0x1")
    ),
    (asked("POST /echo", f"Content-Length: {'9' * 900}\r\n"), 400),
    (asked("POST /echo", f"Content-Length: {LIMITS.body + 1}\r\n"), 413),
    (posted(LONG), 413),
    (posted(b"", "Content-Length: 1\r\n"), 400),
    (b"A" * LIMITS.head * 2, 431),
    (b"POST /echo HTTP/1.1\r\n" + b"A: b\r\n" * LIMITS.head, 431),
    (asked("GET /path", "A: " + "b" * LIMITS.head + "\r\n"), 431),
]


@pytest.mark.parametrize(("sent", "status"), HOSTILE)
async def test_what_is_refused_ends_the_connection(sent: bytes, status: int) -> None:
    """It is answered once, told once, and what follows it is not read."""
    told: Told = []
    async with served(told=told) as port, await trio.open_tcp_stream("127.0.0.1", port) as stream:

        async def send() -> None:
            with suppress(trio.BrokenResourceError):  # It has heard enough.
                await stream.send_all(sent + asked("GET /path"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            back = await all_of(stream)
    head, _, body = back.partition(b"\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status} ".encode())
    assert head.endswith(b"\r\nConnection: close")
    [(address, code, reason)] = told
    assert (address, code) == ("127.0.0.1", status)
    assert body == (b"" if sent.startswith(b"HEAD") else f"{reason}\n".encode())


@pytest.mark.parametrize("sent", [b"GET /pa", asked("GET /path")[:-2], posted(b"body")[:-1]])
async def test_a_request_that_ends_early_is_malformed(sent: bytes) -> None:
    told: Told = []
    async with served(told=told) as port:
        assert (await exchange(port, sent, ends=True)).startswith(b"HTTP/1.1 400 ")
    assert told == [("127.0.0.1", 400, "malformed request")]


async def test_a_refusal_says_what_is_expected_and_no_more() -> None:
    async with served() as port:
        back = await exchange(port, asked("GET /<script>"))
        assert back.endswith(b"expected /path or /below/ or /echo or /fail or /long or /late\n")
        back = await exchange(port, asked("PUT /below/"))
        assert b"\r\nAllow: GET, POST\r\n" in back
        assert back.endswith(b"expected GET or POST\n")


@pytest.mark.parametrize(
    ("sent", "is_told"),
    [
        (b"", False),
        (asked("GET /path"), False),
        (b"GET /pa", True),
        (asked("GET /path") + b"G", True),
        (posted(b"body")[:-1], True),
    ],
)
async def test_the_slow_are_left(sent: bytes, is_told: bool) -> None:
    """Who is silent between two requests is not told of."""
    told: Told = []
    async with served(PROMPT, told) as port:
        assert (await exchange(port, sent)).count(b"HTTP/1.1") == sent.count(b"GET /path")
    assert told == [("127.0.0.1", 408, "the request took too long")] * is_told


async def test_drops_do_not_add_up() -> None:
    """The time is that of a whole request, however often something comes."""
    limits = msgspec.structs.replace(PROMPT, body=1 << 30)
    async with served(limits) as port, await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(asked("POST /echo", f"Content-Length: {1 << 30}\r\n"))
        with trio.fail_after(HANGS), suppress(trio.BrokenResourceError):
            while True:
                await stream.send_all(b"x")


async def test_nobody_reads_a_long_answer_forever() -> None:
    told: Told = []
    async with (
        served(PROMPT, told) as port,
        await trio.open_tcp_stream("127.0.0.1", port) as stream,
    ):
        await stream.send_all(asked("GET /long"))
        while not told:
            await trio.testing.wait_all_tasks_blocked(0.01)
        with suppress(trio.BrokenResourceError):
            assert len(await all_of(stream)) < len(LONG)
    assert told == [("127.0.0.1", 408, "the request took too long")]


async def test_the_silent_make_room() -> None:
    """The first to go has been silent longest, before a request or after an answer."""
    told: Told = []
    async with served(told=told) as port, AsyncExitStack() as stack:
        crowd = []
        for _ in range(LIMITS.connections):
            stream = await trio.open_tcp_stream("127.0.0.1", port)
            crowd.append(await stack.enter_async_context(stream))
            await stream.send_all(posted(b"1"))
            assert (await stream.receive_some()).endswith(b"\r\n\r\n1")
        await crowd[0].send_all(posted(b"2"))
        assert (await crowd[0].receive_some()).endswith(b"\r\n\r\n2")
        assert (await exchange(port, posted(b"3", CLOSE))).endswith(b"\r\n\r\n3")
        assert await all_of(crowd[1]) == b""
        for stream in (crowd[0], *crowd[2:]):
            await stream.send_all(posted(b"4"))
            assert (await stream.receive_some()).endswith(b"\r\n\r\n4")
    assert told == []


async def test_a_crowd_that_sends_drop_by_drop_delays_nobody() -> None:
    """Three hundred from fifty addresses, and whoever is closed comes again."""
    limits = msgspec.structs.replace(LIMITS, connections=64, each=32)
    drops = asked("GET /path")
    crowd: list[socket.socket] = []

    def call(place: int) -> socket.socket:
        made = socket.socket()
        made.bind((f"127.0.4.{1 + place % 50}", 0))
        made.connect(("127.0.0.1", port))
        made.setblocking(False)
        return made

    async def drip() -> None:
        sent = 0
        while True:
            for place, made in enumerate(crowd):
                try:
                    made.send(drops[sent % (len(drops) - 1) :][:1])
                except OSError:
                    made.close()
                    crowd[place] = call(place)
            sent += 1
            await trio.sleep(0.05)

    strangers = Strangers()
    async with served(limits, strangers=strangers) as port:
        try:
            crowd += map(call, range(300))
            async with running(drip):
                for _ in range(5):
                    back = await exchange(port, posted(b"answer", CLOSE))
                    assert back.endswith(b"answer")
        finally:
            for made in crowd:
                made.close()
    # That many had to make room at least.
    assert strangers.take().times >= 300 - 64


async def test_those_who_do_not_read_make_room() -> None:
    """The first to go has been reading longest, and it is not told of: it did nothing wrong."""
    told: Told = []
    async with served(told=told) as port, AsyncExitStack() as stack:
        crowd = []
        for _ in range(LIMITS.connections):
            stream = await trio.open_tcp_stream("127.0.0.1", port)
            crowd.append(await stack.enter_async_context(stream))
            await stream.send_all(asked("GET /long", CLOSE))
            assert await stream.receive_some(1)
        assert (await exchange(port, asked("GET /path", CLOSE))).endswith(b"/path")
        with suppress(trio.BrokenResourceError):
            assert not (await all_of(crowd[0])).endswith(LONG)
        for stream in crowd[1:]:
            assert (await all_of(stream)).endswith(LONG)
    assert told == []


async def test_those_who_are_answered_keep_their_places() -> None:
    told: Told = []
    one = msgspec.structs.replace(LIMITS, connections=1)
    async with served(one, told) as port, await trio.open_tcp_stream("127.0.0.1", port) as slow:
        await slow.send_all(asked("GET /late", CLOSE))
        await trio.testing.wait_all_tasks_blocked(0.01)
        async with await trio.open_tcp_stream("127.0.0.1", port) as other:
            assert await all_of(other) == b""
        LATE.set()
        assert (await all_of(slow)).endswith(b"late")
    assert told == []


async def test_an_error_of_a_handler_tells_the_client_nothing() -> None:
    async def ask() -> None:
        async with served() as port:
            back = await exchange(port, asked("GET /fail"))
            assert back.startswith(b"HTTP/1.1 500 Internal Server Error\r\n")
            assert back.endswith(b"\r\nConnection: close\r\n\r\n")
            assert b"secret" not in back
            await trio.sleep_forever()

    with pytest.raises(ExceptionGroup) as raised:
        await ask()
    assert raised.group_contains(ValueError, match="a secret")


async def test_tls() -> None:
    authority = trustme.CA()
    contexts = []
    for side in (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT):
        contexts.append(ssl.SSLContext(side))
        authority.configure_trust(contexts[-1])
    authority.issue_cert("localhost").configure_cert(contexts[0])
    async with served(PROMPT, tls=contexts[0]) as port:
        assert await exchange(port, b"") == b""
    async with served(tls=contexts[0]) as port:
        assert b"HTTP" not in await exchange(port, asked("GET /path"))
        wire = await trio.open_tcp_stream("127.0.0.1", port)
        stream = trio.SSLStream(
            wire, contexts[1], server_hostname="localhost", https_compatible=True
        )
        async with stream:
            await stream.send_all(posted(b"one") + posted(b"two"))
            back = await stream.receive_some()
            while b"two" not in back:
                back += await stream.receive_some()
            assert back.count(b"HTTP/1.1 200 OK") == 2


async def test_what_is_refused_by_its_head_is_not_read() -> None:
    told: Told = []
    async with served(told=told) as port:
        # It waits for no body, and none is taken for the next request.
        head = posted(b"", "Wait: 7\r\n", "POST /below/known").replace(b": 0", b": 4096")
        back = await exchange(port, head, asked("GET /path"))
        assert back.count(b"HTTP/1.1 ") == 1
        assert back.startswith(b"HTTP/1.1 409 Conflict\r\n")
        assert b"\r\nRetry-After: 7\r\nConnection: close\r\n\r\nknown\n" in back
        back = await exchange(port, posted(b"x", CLOSE, "POST /below/other"))
        assert back.endswith(b"\r\n\r\nx")
    assert told == [("127.0.0.1", 409, "known")]


@pytest.mark.parametrize("secured", [False, True], ids=["http", "https"])
@pytest.mark.parametrize(
    "said",
    [b"GET /path HTTP/1.1\r\nHost: h\r\n\r\n", b"nonsense\r\n\r\n", b"GET /pa", b""],
    ids=["asks", "nonsense", "breaks off", "silent"],
)
async def test_who_comes_and_goes_leaves_nothing_behind(said: bytes, secured: bool) -> None:
    authority = trustme.CA()
    theirs, ours = ssl.create_default_context(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.configure_trust(theirs)
    authority.issue_cert("localhost").configure_cert(ours)
    counts = []
    with trio.fail_after(HANGS):
        async with served(tls=ours if secured else None) as port:
            await trio.testing.wait_all_tasks_blocked()
            tasks = trio.lowlevel.current_statistics().tasks_living
            with no_collections():
                for _ in range(3):
                    for _ in range(4):
                        wire: trio.abc.Stream = await trio.open_tcp_stream("127.0.0.1", port)
                        if secured:
                            wire = trio.SSLStream(wire, theirs, server_hostname="localhost")
                        await wire.send_all(said)
                        if said.endswith(b"\r\n\r\n"):
                            await wire.receive_some()
                        await end(wire)
                    counts.append(await alive(tasks))
    assert not growth(counts)
