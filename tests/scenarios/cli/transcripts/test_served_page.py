"""``check --page URL``: a page that is served, beside that of this release."""

from __future__ import annotations

import hashlib
import json
import socket
import sys
import threading
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import ModuleType

import pytest

from scenarios.report import served
from scenarios.report.served import KIND, LARGEST
from tests.scenarios.command import Said, complaint, sottovoce

PAGE = "<!doctype html><title>Survey</title>ä".encode()
POLICY = "default-src 'none'; script-src 'sha256-abc'"
USUAL = {"Content-Type": KIND, "Content-Security-Policy": POLICY}


@pytest.fixture(autouse=True)
def own_page(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("scenarios.report.page.collecting")
    module.collecting_page = lambda: (PAGE, POLICY)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)


@contextmanager
def serving(
    content: bytes = PAGE, headers: Mapping[str, str] = USUAL, status: int = 200, wait: float = 0
) -> Generator[tuple[str, list[str]]]:
    """A server on this machine: its URL, and the paths that it was asked for."""
    paths: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            for place in range(0, len(content), 1 << 16):
                time.sleep(wait)
                self.wfile.write(content[place : place + (1 << 16)])

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """Say nothing: the client has gone."""

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", paths
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def checked(**served: object) -> Said:
    with serving(**served) as (url, paths):  # type: ignore[arg-type]
        said = sottovoce("check", "--page", f"{url}/")
    assert paths == ["/"]
    return said


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_the_page_of_this_release() -> None:
    said = checked()
    assert (said.code, said.err) == (0, "")
    lines = said.out.splitlines()
    assert lines[-1] == "the page of this release"
    assert [line.endswith(f" {len(PAGE)} bytes, SHA-256 {sha256(PAGE)}") for line in lines] == [
        True,
        True,
        *[False] * (len(lines) - 2),
    ]
    assert "A server can send another page to somebody else, or later" in said.out
    with serving() as (url, _):
        found = sottovoce("check", "--page", url, "--json")
    assert (found.code, found.json["same"], found.json["problems"]) == (0, True, [])
    assert found.json["served"] == found.json["own"]
    assert found.json["own"]["policy"] == POLICY


def test_no_more_is_read_than_a_page_may_have() -> None:
    said = checked(content=b"x" * (3 * LARGEST))
    assert ": 1,000,001 bytes, SHA-256 " in said.out.splitlines()[0]


def changed(**headers: str) -> dict[str, str]:
    return USUAL | {name.replace("_", "-"): value for name, value in headers.items()}


def cases() -> Iterator[tuple[dict[str, object], str]]:
    yield {"content": PAGE + b" "}, "problem: its bytes are others"
    yield {"content": b""}, "problem: its bytes are others"
    yield {"content": b"x" * (3 * LARGEST)}, "problem: it has more than 1,000,000 bytes"
    yield {"headers": {"Content-Type": KIND}}, "Content-Security-Policy is missing; expected 'def"
    loose = changed(Content_Security_Policy=POLICY + " *")
    yield {"headers": loose}, f"Content-Security-Policy is '{POLICY} *'; expected '{POLICY}'"
    yield {"status": 404}, "problem: the server answered 404; expected 200"
    there = changed(Location="http://127.0.0.1:1/")
    yield {"status": 302, "headers": there}, "the server answered 302, a redirect, which is not"
    other = changed(Content_Type="text/html; charset=utf-16")
    yield {"headers": other}, "its Content-Type is 'text/html; charset=utf-16'; expected"
    yield {"headers": changed(Refresh="0; url=http://e.org/")}, "it has the header Refresh, which"
    yield {"headers": changed(Content_Encoding="gzip")}, "it has the header Content-Encoding"


@pytest.mark.parametrize(("given", "says"), [*cases()])
def test_another_page(given: dict[str, object], says: str) -> None:
    said = checked(**given)
    assert said.code == 1
    assert says in said.out
    lines = said.out.splitlines()
    assert lines[-1] == "NOT the page of this release"
    assert sha256(PAGE) in lines[1]
    if "content" in given and len(str(given["content"])) < 1000:
        assert f"SHA-256 {sha256(bytes(given['content']))}" in lines[0]  # type: ignore[call-overload]
        assert sha256(PAGE) not in lines[0]
    with serving(**given) as (url, _):  # type: ignore[arg-type]
        found = sottovoce("check", "--page", url, "--json")
    assert (found.code, json.loads(found.out)["same"]) == (1, False)


def test_no_server_is_said_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    said = complaint(sottovoce("check", "--page", f"http://127.0.0.1:{port}/"))
    assert said.startswith("127.0.0.1: nobody listens there: ")
    with serving() as (url, _):
        said = complaint(sottovoce("check", "--page", url.replace("http:", "https:")))
    assert said.startswith("127.0.0.1: ")


@pytest.mark.parametrize("wait", [5.0, 0.2])
def test_a_slow_server_is_not_waited_for(wait: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "WITHIN", 0.5)
    # Silent for long, or never silent and never done.
    with serving(content=b"x" * 900_000, wait=wait) as (url, _):
        begun = time.monotonic()
        said = complaint(sottovoce("check", "--page", url))
        assert time.monotonic() - begun < 3
    assert said == "127.0.0.1: no whole page within 0.5 s"


@pytest.mark.parametrize(
    "url",
    [
        "example.org",
        "ftp://example.org/",
        "https:///",
        "https://example.org/?a=b",
        "https://me@example.org/",
        "https://example.org:x/",
        "https://exämple.org/",
        "https://example.org/ x",
    ],
)
def test_no_other_url_is_taken(url: str) -> None:
    assert "expected https://HOST[:PORT]/" in complaint(sottovoce("check", "--page", url))


def test_a_respondents_link_is_not_printed() -> None:
    said = complaint(sottovoce("check", "--page", "https://example.org/#p-017.SEED.SURVEY"))
    assert said == "--page: expected the address up to the #; what follows it is secret"


def test_a_page_or_a_receipt(tmp_path: object) -> None:
    given = ("check", "--page", "http://127.0.0.1:1/")
    for more in ((__file__,), ("--checkpoint", __file__), ("--variant", "x.py:X")):
        assert "takes neither a RECEIPT" in complaint(sottovoce(*given, *more))
    assert complaint(sottovoce("check")) == "expected a RECEIPT, or --page URL"
