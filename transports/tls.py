"""TLS; between members with certificates on both sides, each with its id as a DNS name."""

from __future__ import annotations

import ssl
from pathlib import Path

import trio

from protocol.errors import RemoteProtocolError
from protocol.messages import PartyId


def server_context(*, authority: Path, certificate: Path, key: Path) -> ssl.SSLContext:
    """The aggregator's side: only clients with a certificate of the survey's authority get in.

    Args:
        authority: the survey's CA certificate, PEM.
        certificate: the aggregator's own chain, PEM.
        key: its private key, PEM.

    Raises:
        OSError: a file is missing or invalid.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # Sessions are never resumed: a ticket would be another secret and another write per party.
    context.num_tickets = 0
    return _strict(context, authority, certificate, key)


def public_context() -> ssl.SSLContext:
    """A server's context for anybody, without its certificate, which is loaded later.

    Sessions are never resumed: visits cannot be linked, and no state is kept.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET
    return context


def client_context(*, authority: Path, certificate: Path, key: Path) -> ssl.SSLContext:
    """A party's side; arguments as for ``server_context``."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return _strict(context, authority, certificate, key)


def require_certificates(context: ssl.SSLContext) -> ssl.SSLContext:
    """Make a context demand TLS 1.3 and the other side's certificate. The id is checked later."""
    context.check_hostname = False
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def check_peer(stream: trio.SSLStream[trio.SocketStream], claimed: PartyId) -> None:
    """Check that the peer's certificate belongs to the claimed party.

    Raises:
        RemoteProtocolError: the certificate is another member's.
    """
    certificate = stream.getpeercert() or {}
    names = {value for kind, value in certificate.get("subjectAltName", ()) if kind == "DNS"}
    if claimed not in names:
        shown = ", ".join(sorted(names)) or "nobody"
        raise RemoteProtocolError(
            f"the certificate names {shown:.80}, expected {claimed!r}", field="certificate"
        )


def _strict(
    context: ssl.SSLContext, authority: Path, certificate: Path, key: Path
) -> ssl.SSLContext:
    require_certificates(context)
    context.load_verify_locations(authority)
    context.load_cert_chain(certificate, key)
    return context
