"""Failures by address, in memory only: clients that fail often have to wait."""

from __future__ import annotations

import ipaddress
from collections import OrderedDict

import trio

from transports.admission import address_origin

MOST = 30
"""Failures of an address that are free; a school or an office has one address."""

EVERY = 1.0
"""The seconds after which one failure is forgotten."""

LONGEST = 30.0
"""Longest wait of an address in seconds: others may have the same address."""

REMEMBERED = 4096
"""Maximum number of remembered addresses; the oldest failures are forgotten first."""


class Failures:
    """Recent failures by address; successes do not count."""

    def __init__(self) -> None:
        # By address: the time at which its failures are forgotten.
        self._until: OrderedDict[str, float] = OrderedDict()

    def __repr__(self) -> str:
        return f"Failures({len(self._until)} addresses)"

    def add(self, address: str) -> None:
        """Note a failure. Failures from this machine may be anybody's, as with a proxy."""
        if _is_anybodys(address):
            return
        who, now = address_origin(address), trio.current_time()
        until = max(self._until.pop(who, now), now) + EVERY
        self._until[who] = min(until, now + (MOST - 1) * EVERY + LONGEST)
        while len(self._until) > REMEMBERED:
            self._until.popitem(last=False)

    def wait(self, address: str) -> float:
        """Seconds that an address has to wait; 0 if it need not."""
        until = self._until.get(address_origin(address), 0.0)
        return max(0.0, until - trio.current_time() - (MOST - 1) * EVERY)


def _is_anybodys(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return True
