"""Telling a service manager that a survey is ready, or about to stop (``sd_notify(3)``)."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

from scenarios.surveys.operating.progress import Field

NOTIFY_SOCKET = "NOTIFY_SOCKET"
"""The variable that names the manager's socket; one that begins with @ is abstract."""

_SAID = {"listening": "READY=1", "stopping": "STOPPING=1"}


def notify(event: str, fields: Mapping[str, Field]) -> None:
    """Notify a service manager of an event, if there is one.

    A manager that cannot be reached at once is ignored: it has its own deadline.
    """
    said, address = _SAID.get(event), os.environ.get(NOTIFY_SOCKET)
    if said is None or not address:
        return
    if address.startswith("@"):
        address = f"\0{address[1:]}"
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            # A manager that does not read must not block the survey.
            manager.setblocking(False)
            manager.connect(address)
            manager.send(said.encode())
    except OSError:
        return
