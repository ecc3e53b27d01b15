"""Connecting to a hub by a socket, with errors in one line for a person."""

from __future__ import annotations

import errno
import math
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

import trio

from protocol.errors import RemoteProtocolError
from protocol.messages import AGGREGATOR
from transports import handshake
from transports.base import Limits
from transports.connection import Connection, end
from transports.tls import check_peer

T = TypeVar("T")

BESIDE = 3.0
"""Seconds without a challenge after which another connection is tried in parallel."""

MOST_BESIDE = 4
"""Maximum number of connections of one party that wait for a challenge."""


class TurnedAwayError(ConnectionError):
    """The two ends do not accept each other: another try would not help."""


class StrangerError(TurnedAwayError):
    """The other end is not the aggregator of this survey, or its certificate is out of date."""


async def dial(
    host: str,
    port: int,
    enter: Callable[[Connection], Awaitable[T]],
    *,
    tls: ssl.SSLContext | None,
    limits: Limits,
    within: float = math.inf,
) -> tuple[Connection, T]:
    """Connect to the aggregator's hub.

    Args:
        enter: this side's part of the handshake. What it raises by itself is raised on.
        tls: for TLS, a context of ``transports.tls.client_context``.
        within: seconds allowed; ``limits.handshake`` at most.

    Returns:
        The connection, which is the caller's to close, and what ``enter`` returned.

    Raises:
        TurnedAwayError: the hub or this side refuses the connection; the reason in one line.
        ConnectionError: no answer, or a broken connection; the reason in one line.
    """
    wire: trio.abc.Stream | None = None
    late = _NO_ANSWER
    try:
        with trio.fail_after(min(limits.handshake, within)):
            try:
                raw = wire = await trio.open_tcp_stream(host, port)
            except (OSError, UnicodeError) as error:
                # A host with several addresses has one error for all of them.
                [*_, last] = getattr(error.__cause__, "exceptions", ()) or (error,)
                raise ConnectionError(plain_reason(last)) from error
            if tls is not None:
                late = "takes connections and says nothing: it hangs, or is not the aggregator"
                wire = secured = trio.SSLStream(raw, tls, server_hostname=AGGREGATOR)
                await secured.do_handshake()
                check_peer(secured, AGGREGATOR)
            late = "no welcome in time: the aggregator hangs, or has too much to do"
            connection = Connection(wire, cap=handshake.MAX_BYTES, limits=limits, patient=True)
            return connection, await enter(connection)
    except (
        trio.BrokenResourceError,
        trio.EndOfChannel,
        trio.TooSlowError,
        RemoteProtocolError,
    ) as error:
        if wire is not None:
            await end(wire)
        if isinstance(error, trio.TooSlowError):
            raise ConnectionError(late) from error
        raise _error_class(error)(_why_refused(error)) from error
    except BaseException:
        if wire is not None:
            await end(wire)
        raise


async def resolve_addresses(host: str, port: int, *, within: float) -> Sequence[str]:
    """The numeric addresses of a host, as its name service has them in order; at least one.

    Args:
        within: seconds allowed for the lookup.

    Raises:
        ConnectionError: no address, or none in time; the reason in one line.
    """
    try:
        with trio.fail_after(within):
            found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except trio.TooSlowError as error:
        raise ConnectionError("the name was not looked up in time: check the network") from error
    except (OSError, UnicodeError) as error:
        raise ConnectionError(plain_reason(error)) from error
    # A link-local IPv6 address includes the interface number.
    names = (
        f"{address[0]}%{address[3]}" if len(address) > 3 and address[3] else str(address[0])
        for *_, address in found
    )
    return tuple(dict.fromkeys(names))


class _BeatenError(Exception):
    """Another connection was challenged first."""


Contend = Callable[[str, Callable[[], None]], Awaitable[Connection]]
"""Connects to an address. It calls what it is given before it proves who it is, and may be told
by an error of that to stay away."""


async def race(addresses: Sequence[str], contend: Contend) -> Connection:
    """Connect by whichever address lets this party in first.

    The next address is tried after a failure, and after ``BESIDE`` seconds without a challenge; a
    single address is tried again. The first attempt to be challenged goes on alone, as a party that
    authenticates twice would replace itself.

    Raises:
        TurnedAwayError: a hub has turned this party away.
        ConnectionError: the last one's.
    """
    contest = _Contest(contend)
    most = min(max(2, len(addresses)), MOST_BESIDE)
    try:
        async with trio.open_nursery() as nursery:
            tried, due = 0, trio.current_time()
            while not contest.over:
                open_ = contest.first is None and contest.running < most
                if not contest.running and tried and (tried >= len(addresses) or not open_):
                    break
                if open_ and trio.current_time() >= due:
                    contest.running += 1
                    nursery.start_soon(contest.enter, addresses[tried % len(addresses)])
                    tried, due = tried + 1, trio.current_time() + BESIDE
                    continue
                contest.news = trio.Event()
                with trio.move_on_at(due if open_ else math.inf) as waited:
                    await contest.news.wait()
                if not waited.cancelled_caught and tried < len(addresses):
                    due = trio.current_time()
            if contest.entered is None:
                nursery.cancel_scope.cancel()
    except BaseException:
        if contest.entered is not None:
            await contest.entered.aclose()
        raise
    if contest.entered is not None:
        return contest.entered
    raise contest.last or contest.failed[-1]


class _Contest:
    """Concurrent connection attempts; the first to be challenged goes on.

    Attributes:
        running: number of running attempts.
        first: scope of the attempt that was challenged first.
        entered: the connection that was let in.
        failed: why others were not.
        last: why no other is tried.
        news: set when one has ended.
    """

    def __init__(self, contend: Contend) -> None:
        self.running = 0
        self.first: trio.CancelScope | None = None
        self.entered: Connection | None = None
        self.failed: list[Exception] = []
        self.last: Exception | None = None
        self.news = trio.Event()
        self._contend = contend
        self._scopes: list[trio.CancelScope] = []

    @property
    def over(self) -> bool:
        """Check whether a connection was accepted, or all attempts are over."""
        return self.entered is not None or self.last is not None

    async def enter(self, address: str) -> None:
        """Try to connect to an address."""
        with trio.CancelScope() as scope:
            self._scopes.append(scope)
            try:
                self.entered = await self._contend(address, lambda: self._alone(scope))
            except _BeatenError:
                pass
            except Exception as error:
                self.failed.append(error)
                if isinstance(error, TurnedAwayError) or not isinstance(error, ConnectionError):
                    self.last = error
        self.running -= 1
        self.news.set()

    def _alone(self, scope: trio.CancelScope) -> None:
        """Let one attempt go on and cancel the others.

        Raises:
            _BeatenError: another one has.
        """
        if self.first is not None:
            raise _BeatenError
        self.first = scope
        for other in self._scopes:
            if other is not scope:
                other.cancel()


async def say(connection: Connection, step: handshake.Hello | handshake.Proof) -> None:
    """Say a step of the handshake.

    Raises:
        RemoteProtocolError: the hub has refused, with its reason.
        trio.BrokenResourceError: the connection broke.
    """
    try:
        await connection.send([handshake.encode(step)])
    except trio.BrokenResourceError:
        # The hub has hung up; its last message tells more than that.
        handshake.decode(handshake.Welcome, await connection.receive())
        raise


_NO_ANSWER = "no answer: check the address, and whether a firewall is in between"
_NO_NAME = "no host has this name: check the address"
_NO_ROUTE = "no way to this host: check the address and this machine's network"
_CUT_OFF = "the connection was cut off, by the other side or by what is in between"
_NOT_ALLOWED = "this machine does not allow it: check its firewall and the port"
_FULL = "this machine has too many files open: end other programs or raise its limit (ulimit -n)"

_OF_SYSTEM: Mapping[int, str] = {
    errno.ECONNREFUSED: "nobody listens there: it has not begun or is over, or the address is "
    "another",
    errno.EADDRINUSE: "another program listens there: end it, or choose another port",
    errno.EADDRNOTAVAIL: "this machine does not have this address: check the address",
    errno.ETIMEDOUT: _NO_ANSWER,
    **dict.fromkeys((errno.ECONNRESET, errno.ECONNABORTED, errno.EPIPE), _CUT_OFF),
    **dict.fromkeys((errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN), _NO_ROUTE),
    **dict.fromkeys((errno.EACCES, errno.EPERM), _NOT_ALLOWED),
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), _FULL),
}

_NOT_YET, _EXPIRED, _BROKEN_SIGNATURE = 9, 10, 7  # X509_V_ERR_* of OpenSSL.
_CLOCKS = "check the clocks of both machines, or ask the organiser for new keys"
_NO_TLS = (
    "the other side does not speak TLS: a web server or another program is at this port, or "
    "something is in between"
)
_OTHER_TLS = "the other side speaks another TLS: something else is at this port"
_GARBLED = "what came over TLS was garbled on the way: something in between changes it"

_OF_TLS: Mapping[str, str] = {
    **dict.fromkeys(
        ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "HTTPS_PROXY_REQUEST", "UNEXPECTED_MESSAGE"),
        _NO_TLS,
    ),
    **dict.fromkeys(
        (
            "UNSUPPORTED_PROTOCOL",
            "TLSV1_ALERT_PROTOCOL_VERSION",
            "TLSV1_UNRECOGNIZED_NAME",
            "SSLV3_ALERT_HANDSHAKE_FAILURE",
            "TLSV13_ALERT_MISSING_EXTENSION",
        ),
        _OTHER_TLS,
    ),
    **dict.fromkeys(
        (
            "TLSV1_ALERT_UNKNOWN_CA",
            "TLSV1_ALERT_ACCESS_DENIED",
            "SSLV3_ALERT_BAD_CERTIFICATE",
            "SSLV3_ALERT_CERTIFICATE_UNKNOWN",
            "SSLV3_ALERT_CERTIFICATE_REVOKED",
            "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE",
            "TLSV13_ALERT_CERTIFICATE_REQUIRED",
        ),
        "the other side does not accept this certificate: the folder is of another survey, or the "
        "address is another",
    ),
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the other side takes this certificate to be expired, or "
    f"not valid yet: {_CLOCKS}",
}


def plain_reason(error: BaseException) -> str:
    """Reason for a connection's failure, and advice, in words that are not OpenSSL's.

    Args:
        error: error of a connecting or listening socket, of a name lookup, or of TLS.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code == _NOT_YET:
            return f"the other side's certificate is not valid yet: {_CLOCKS}"
        if error.verify_code == _EXPIRED:
            return f"the other side's certificate has expired: {_CLOCKS}"
        return (
            "the other side's certificate is not one that is trusted for this address: another "
            "survey or server is there, or something in between answers for it"
        )
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return "the other side ended TLS: it does not accept this certificate, or is something else"
    if isinstance(error, ssl.SSLError):
        return _OF_TLS.get(getattr(error, "reason", None) or "", _GARBLED)
    if isinstance(error, UnicodeError):
        return _NO_NAME
    if isinstance(error, socket.gaierror):
        if error.errno == socket.EAI_AGAIN:
            return "the name cannot be looked up: check this machine's network"
        return _NO_NAME
    if isinstance(error, TimeoutError):
        return _NO_ANSWER
    if isinstance(error, OSError):
        name = errno.errorcode.get(error.errno or 0, "")
        told = f"the connection failed ({name}): check this machine's network"
        return _OF_SYSTEM.get(error.errno or 0, told if name else "the connection failed")
    return str(error) or "the connection broke"


def root_cause(error: BaseException) -> BaseException:
    """The first cause of an error."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _error_class(error: Exception) -> type[ConnectionError]:
    """Class of the error to raise; ``ConnectionError`` itself means that a retry may help."""
    cause = error.__cause__
    if isinstance(cause, ssl.SSLCertVerificationError):
        # A broken signature may be a transmission error.
        broken = cause.verify_code == _BROKEN_SIGNATURE
        return ConnectionError if broken else StrangerError
    if isinstance(error, RemoteProtocolError):
        return StrangerError if error.field in _OF_STRANGERS else TurnedAwayError
    return ConnectionError


_OF_STRANGERS = ("certificate", "challenge", "frame", "hello")
"""The fields of errors that say that nobody has proved to be the aggregator."""


def _why_refused(error: Exception) -> str:
    """Reason for a failed connection, in one line for a person."""
    if isinstance(error, trio.EndOfChannel):
        return "the other side closed the connection without a word (is TLS on at one end only?)"
    if isinstance(error.__cause__, OSError):
        return plain_reason(root_cause(error))
    if isinstance(error, RemoteProtocolError) and error.field == "frame":
        return f"the other side speaks another protocol (is TLS on at one end only?): {error}"
    return str(error) or "the connection broke"
