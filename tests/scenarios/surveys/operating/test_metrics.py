"""Metrics and health over HTTP."""

from __future__ import annotations

import errno
import os
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from http import HTTPStatus
from pathlib import Path

import pytest
import trio
import trio.testing

from protocol import AGGREGATOR
from scenarios import Outcome
from scenarios.errors import install_command
from scenarios.surveys.operating import metrics
from scenarios.surveys.operating.outfit import operating
from scenarios.surveys.operating.progress import Phase, Progress
from tests.scenarios.command import complaint, sottovoce
from tests.scenarios.surveys.operating.held import closed_when, hold
from tests.scenarios.surveys.operating.test_live_line import counts
from transports.background import running
from transports.web.http import Response

prometheus = pytest.importorskip("prometheus_client.parser")


@asynccontextmanager
async def served(progress: Progress) -> AsyncGenerator[int]:
    with metrics.listen("127.0.0.1", 0) as listener:
        port: int = listener.getsockname()[1]

        async def serve() -> None:
            await metrics.serve(progress, listener)

        async with running(serve):
            yield port


async def ask(port: int, request: bytes) -> tuple[bytes, bytes]:
    """The status line and the body of an answer; empty if there is none."""
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(request)
        answer = b""
        try:
            while part := await stream.receive_some():
                answer += part
        except trio.BrokenResourceError:
            pass
        head, _, body = answer.partition(b"\r\n\r\n")
        return head.partition(b"\r\n")[0], body


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()


def samples(body: bytes) -> dict[tuple[str, ...], float]:
    """All samples by name and labels, as Prometheus's own parser reads them."""
    found = {}
    for family in prometheus.text_string_to_metric_families(body.decode()):
        for sample in family.samples:
            found[sample.name, *sample.labels.values()] = sample.value
    return found


def test_what_is_exposed() -> None:
    found = samples(
        metrics.exposition(
            counts(
                phase=Phase.ASKING,
                awaiting="Report",
                awaited=49,
                answered=31,
                closed={"Report": 2},
                gone={"never came": 3},
                refused={"TLS": 4},
                messages=90,
                durable=1,
            )
        ).body
    )
    assert found == {
        **{("sottovoce_phase", phase.value): phase is Phase.ASKING for phase in Phase},
        ("sottovoce_parties",): 50,
        ("sottovoce_joined",): 37,
        ("sottovoce_connected",): 36,
        ("sottovoce_awaited",): 49,
        ("sottovoce_answered",): 31,
        ("sottovoce_declined",): 0,
        ("sottovoce_entries",): 2,
        ("sottovoce_entries_durable",): 1,
        ("sottovoce_messages_total",): 90,
        ("sottovoce_waits_closed_total", "Report"): 2,
        ("sottovoce_gone_total", "never came"): 3,
        ("sottovoce_refused_total", "TLS"): 4,
    }


@pytest.mark.parametrize(
    ("changes", "status", "said"),
    [
        ({"phase": Phase.BEGINNING}, 503, b"beginning\n"),
        ({"phase": Phase.JOINING}, 200, b"joining\n"),
        ({"phase": Phase.ASKING}, 200, b"asking\n"),
        ({"phase": Phase.ENDING}, 200, b"ending\n"),
        ({"phase": Phase.STOPPING}, 503, b"stopping\n"),
        ({"writing": 9.0}, 200, b"joining\n"),
        ({"writing": 11.0}, 503, b"the disk has taken more than 10 s for a write\n"),
    ],
)
def test_health(changes: dict[str, object], status: int, said: bytes) -> None:
    answer = metrics.health(counts(**changes))
    assert (answer.status, answer.body) == (status, said)


async def test_requests() -> None:
    async with served(Progress()) as port:
        status, body = await ask(port, get("/metrics"))
        assert status == b"HTTP/1.1 200 OK"
        assert samples(body)["sottovoce_phase", "beginning"] == 1
        assert await ask(port, get("/healthz")) == (
            b"HTTP/1.1 503 Service Unavailable",
            b"beginning\n",
        )
        assert await ask(port, get("/healthz").replace(b"GET", b"HEAD")) == (
            b"HTTP/1.1 503 Service Unavailable",
            b"",
        )
        assert (await ask(port, get("/etc/passwd")))[0] == b"HTTP/1.1 404 Not Found"
        for bad, refusal in (
            (get("/metrics").replace(b"GET", b"POST"), b"405 Method Not Allowed"),
            (b"\x16\x03\x01\r\n\r\n", b"400 Bad Request"),
            (
                b"GET /metrics HTTP/1.1\r\n" + b"x" * metrics.REQUEST_BYTES,
                b"431 Request Header Fields Too Large",
            ),
        ):
            assert (await ask(port, bad))[0] == b"HTTP/1.1 " + refusal


async def test_who_is_slow_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "SECONDS", 0.05)
    async with served(Progress()) as port:
        assert await ask(port, b"GET /metrics") == (b"", b"")


async def is_closed(stream: trio.SocketStream) -> bool:
    try:
        return not await stream.receive_some()
    except trio.BrokenResourceError:
        return True


async def test_with_no_room_the_oldest_without_a_request_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metrics, "SECONDS", 60.0)
    async with served(Progress()) as port, AsyncExitStack() as stack:
        crowd = []
        for _ in range(metrics.CONNECTIONS):
            stream = await trio.open_tcp_stream("127.0.0.1", port)
            crowd.append(await stack.enter_async_context(stream))
            await stream.send_all(get("/healthz")[:-2])
            await trio.testing.wait_all_tasks_blocked(0.01)
        assert (await ask(port, get("/healthz")))[1] == b"beginning\n"
        assert await is_closed(crowd[0])
        for stream in crowd[1:]:
            await stream.send_all(b"\r\n")
            assert (await stream.receive_some()).endswith(b"beginning\n")


async def test_who_does_not_read_its_response_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    long = Response(HTTPStatus.OK, b"x" * 2**25)
    monkeypatch.setattr(metrics, "SECONDS", 60.0)
    monkeypatch.setitem(metrics.PAGES, "/metrics", lambda counts: long)
    monkeypatch.setattr(metrics, "CONNECTIONS", 1)
    async with served(Progress()) as port, await trio.open_tcp_stream("127.0.0.1", port) as slow:
        await slow.send_all(get("/metrics"))
        assert await slow.receive_some(1)
        assert await ask(port, get("/healthz")) == (
            b"HTTP/1.1 503 Service Unavailable",
            b"beginning\n",
        )


def test_a_survey_can_be_asked_while_it_is_held(keys: Path, tmp_path: Path) -> None:
    address = ("127.0.0.1", 0)
    said = []
    with operating(keys / AGGREGATOR, address=address) as (operation, where):
        port = int(where.rpartition(":")[2])

        async def look() -> None:
            said.append(await ask(port, get("/healthz")))
            said.append(await ask(port, get("/metrics")))

        operation.tasks = (*operation.tasks, look)
        outcome, _ = hold(keys, tmp_path / "out", operation, ["anna", "bert", "carl"])
    assert isinstance(outcome, Outcome)
    [(status, _), (_, body)] = said
    assert status == b"HTTP/1.1 200 OK"
    assert samples(body)["sottovoce_parties",] == 3


def test_metrics_that_fail_end_no_survey(
    keys: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(counts: object) -> Response:
        raise ValueError("a fault\x1b")

    monkeypatch.setitem(metrics.PAGES, "/metrics", fail)
    with operating(keys / AGGREGATOR, address=("127.0.0.1", 0)) as (operation, where):
        port = int(where.rpartition(":")[2])

        async def look() -> None:
            await ask(port, get("/metrics"))

        operation.tasks = (*operation.tasks, look)
        closed_when(operation, keys, 2)
        outcome, _ = hold(keys, tmp_path / "out", operation, ["anna", "bert"])
    assert isinstance(outcome, Outcome), outcome
    said = capsys.readouterr().err
    assert said.startswith("sottovoce: the server of metrics has ended: ")
    assert "\x1b" not in said


def aggregate(keys: Path, out: Path, *options: object) -> str:
    return complaint(
        sottovoce("aggregate", keys / AGGREGATOR, "--listen", "127.0.0.1:0", "--out", out, *options)
    )


def test_an_address_that_is_taken(keys: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        said = aggregate(keys, tmp_path / "out", "--metrics", where)
    assert said == f"{where}: {os.strerror(errno.EADDRINUSE)}"
    assert not [*tmp_path.glob("out/*")]


def test_without_the_library(keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    said = aggregate(keys, tmp_path / "out", "--metrics", "127.0.0.1:0")
    assert said == f"--metrics needs prometheus-client: {install_command('metrics')}"
    assert not [*tmp_path.glob("out/*")]
