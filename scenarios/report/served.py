"""Byte-by-byte comparison of a served page with the page of this release."""

from __future__ import annotations

import hashlib
import http.client
from collections.abc import Iterator
from contextlib import closing
from importlib.metadata import version
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import trio

from protocol.errors import UsageError
from transports.dialing import plain_reason

WITHIN = 15.0
"""Time that a server has for the whole page, in seconds."""

LARGEST = 1_000_000
"""Maximum size of a page in bytes."""

KIND = "text/html; charset=utf-8"
POLICY = "Content-Security-Policy"

_CAVEAT = (
    "This is what this machine was sent now. A server can send another page to somebody else, or "
    "later: check from other networks too, and while the survey goes on."
)


class Page(NamedTuple):
    """A page, with the headers that affect browsers.

    Args:
        content: its bytes; of one that is too long, the first.
        policy: its content security policy; empty if it has none.
        status: HTTP status.
        kind: its media type.
        others: further headers that could change it or lead away from it.
    """

    content: bytes
    policy: str
    status: int = http.client.OK
    kind: str = KIND
    others: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """SHA-256 of the bytes, in hexadecimal."""
        return hashlib.sha256(self.content).hexdigest()


class Compared(NamedTuple):
    """A served page, compared with the page of this release.

    Args:
        url: address of the page.
        served: the served page.
        own: this release's.
        problems: differences; none if the pages are equal.
    """

    url: str
    served: Page
    own: Page
    problems: tuple[str, ...]

    def lines(self) -> Iterator[str]:
        """Findings, in sentences; the last one is the verdict."""
        release = f"sottovoce {version('sottovoce')}"
        yield f"{self.url}: {len(self.served.content):,} bytes, SHA-256 {self.served.digest}"
        yield f"{release}: {len(self.own.content):,} bytes, SHA-256 {self.own.digest}"
        yield from (f"problem: {problem}" for problem in self.problems)
        if not self.problems:
            yield _CAVEAT
        yield "NOT the page of this release" if self.problems else "the page of this release"

    def values(self) -> dict[str, Any]:
        """The comparison for JSON."""
        return {
            "same": not self.problems,
            "problems": self.problems,
            "url": self.url,
            "release": version("sottovoce"),
            "served": _values(self.served),
            "own": _values(self.own),
        }


def _values(page: Page) -> dict[str, Any]:
    return {
        "status": page.status,
        "bytes": len(page.content),
        "sha256": page.digest,
        "policy": page.policy,
    }


def compare_page(url: str) -> Compared:
    """Fetch a page and compare it with the page of this release.

    Args:
        url: address of the page, such as ``https://HOST/``.

    Raises:
        UsageError: the URL is malformed, or the server cannot be reached, breaks off or is late.
    """
    from scenarios.report.page.collecting import collecting_page

    served, own = _fetch(url), Page(*collecting_page())
    return Compared(url, served, own, tuple(_problems(served, own)))


def _problems(served: Page, own: Page) -> Iterator[str]:
    """Differences of a served page from this release's page."""
    if served.status != own.status:
        redirect = ", a redirect, which is not followed" if 300 <= served.status < 400 else ""
        yield f"the server answered {served.status}{redirect}; expected {own.status}"
    if len(served.content) > LARGEST:
        yield f"it has more than {LARGEST:,} bytes; the rest was not read"
    elif served.content != own.content:
        yield "its bytes are others"
    if served.policy != own.policy:
        given = f"'{served.policy[:1000]}'" if served.policy else "missing"
        yield f"its {POLICY} is {given}; expected '{own.policy}'"
    if "".join(served.kind.lower().split()) != "".join(own.kind.split()):
        yield f"its Content-Type is '{served.kind[:100]}'; expected '{own.kind}'"
    for name in served.others:
        yield f"it has the header {name}, which can change it or lead away from it"


def _fetch(url: str) -> Page:
    """Response of a server, without following redirects.

    Raises:
        UsageError: as ``compare_page``.
    """
    secure, host, port, path = _place(url)
    late = UsageError(f"{host}: no whole page within {WITHIN:g} s")

    async def fetch() -> Page:
        with trio.move_on_after(WITHIN):
            # The thread of a slow server is abandoned.
            return await trio.to_thread.run_sync(
                lambda: _get(secure, host, port, path), abandon_on_cancel=True
            )
        raise late

    try:
        return trio.run(fetch)
    except TimeoutError as error:
        raise late from error
    except OSError as error:
        raise UsageError(f"{host}: {plain_reason(error)}") from error
    except http.client.HTTPException as error:
        raise UsageError(f"{host}: what answers there does not speak HTTP") from error


def _get(secure: bool, host: str, port: int | None, path: str) -> Page:
    kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    connection = kind(host, port, timeout=WITHIN)
    with closing(connection):
        connection.request("GET", path, headers={"Connection": "close"})
        with connection.getresponse() as response:
            return Page(
                content=response.read(LARGEST + 1),
                policy=", ".join(response.headers.get_all(POLICY, ())),
                status=response.status,
                kind=", ".join(response.headers.get_all("Content-Type", ())),
                others=tuple(name for name in _LEADING_AWAY if name in response.headers),
            )


_LEADING_AWAY = ("Refresh", "Content-Encoding", "Link", "Content-Security-Policy-Report-Only")
"""Headers by which a page of the same bytes could do something else, or tell somebody."""


def _place(url: str) -> tuple[bool, str, int | None, str]:
    """Split a URL into TLS or not, host, port and path.

    Raises:
        UsageError: the URL is malformed, or has the secret part of a respondent's link.
    """
    if "#" in url:
        raise UsageError("--page: expected the address up to the #; what follows it is secret")
    parts = urlsplit(url) if url.isascii() and url.isprintable() and " " not in url else None
    try:
        port = None if parts is None else parts.port
    except ValueError:
        parts = port = None
    if (
        parts is None
        or parts.scheme not in ("http", "https")
        or not parts.hostname
        or parts.query
        or parts.username is not None
    ):
        raise UsageError(f"--page: {url!r:.120}: expected https://HOST[:PORT]/")
    return parts.scheme == "https", parts.hostname, port, parts.path or "/"
