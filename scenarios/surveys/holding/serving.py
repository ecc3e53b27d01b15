"""Place and manner of serving the page that people answer from."""

from __future__ import annotations

import functools
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import trio

from protocol.errors import UsageError
from scenarios.errors import say
from scenarios.running.loopback import allow_connections
from transports.admission import Network, trusted_network
from transports.background import running
from transports.listening import open_listeners
from transports.tls import public_context
from transports.web import http
from transports.web.gateway import LIMITS, Gateway

_OWN = ("127.0.0.0/8", "::1")  # This machine's addresses.
_RENEWED = 60.0  # Seconds between two looks at the certificate.


class Serving(NamedTuple):
    """Place and manner of serving the page.

    Args:
        host, port: the address to listen at; port 0 takes a free one.
        certificate, key: files in PEM, for HTTPS; they are read again when they change. Without
            them, only this machine can connect: a proxy that runs on it, say.
        proxied: whether a proxy says whose each request is (X-Forwarded-For). It is on this
            machine, so that all connections of this machine are the proxy's.
        trusted: addresses whose connections do not make room for those of strangers.
    """

    host: str
    port: int
    certificate: Path | None = None
    key: Path | None = None
    proxied: bool = False
    trusted: Sequence[Network] = ()

    def context(self) -> ssl.SSLContext | None:
        """Read the certificate, if there is one: the context for HTTPS.

        Raises:
            UsageError: the files do not belong together.
        """
        if self.certificate is None:
            return None
        context = public_context()
        self._load(context)
        return context

    @asynccontextmanager
    async def served(self, gateway: Gateway) -> AsyncGenerator[str]:
        """Serve the gateway while the block runs.

        Yields:
            The address: ``https://HOST:PORT/``.

        Raises:
            OSError: it cannot be listened at.
            UsageError: as ``context``.
        """
        tls = self.context()
        allow_connections(LIMITS.connections)
        listeners = await open_listeners(self.host, self.port)
        answer = functools.partial(
            http.serve,
            listeners,
            gateway.paths,
            LIMITS,
            tls=tls,
            early=gateway.early,
            refused=gateway.fail,
            trusted=(*self.trusted, *map(trusted_network, _OWN)) if self.proxied else self.trusted,
            strangers=gateway.strangers,
        )
        tasks: list[Callable[[], Awaitable[object]]] = [answer]
        if tls is not None:
            tasks.append(functools.partial(self._renew, tls))
        port = listeners[0].socket.getsockname()[1]
        host = f"[{self.host}]" if ":" in self.host else self.host
        async with running(*tasks):
            yield f"{'http' if tls is None else 'https'}://{host}:{port}/"

    async def _renew(self, context: ssl.SSLContext) -> None:
        """Reload the certificate whenever its file changes, until cancelled."""
        assert self.certificate is not None, "there is one to renew"
        files = [file for file in (self.certificate, self.key) if file is not None]
        read = [file.stat().st_mtime_ns for file in files]
        while True:
            await trio.sleep(_RENEWED)
            try:
                found = [file.stat().st_mtime_ns for file in files]
                if found != read:
                    self._load(context)
                    say(f"{self.certificate}: read again")
                read = found
            except (OSError, UsageError) as error:
                say(f"{error}; the one before stays in use")

    def _load(self, context: ssl.SSLContext) -> None:
        assert self.certificate is not None, "there is one to load"
        try:
            # A mismatched certificate must not replace a good one.
            for each in (ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), context):
                # Nobody may be there to type a password.
                each.load_cert_chain(self.certificate, self.key, password="")
        except OSError as error:
            what = f"{self.certificate} and its key"
            raise UsageError(f"{what}: expected a certificate and its key: {error}") from error
