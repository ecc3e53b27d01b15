"""Adversaries: parties that break the rules. Each wraps a machine and is driven like one.

They can do what a party with a modified program could: say other things, more, less, or nothing.
What their machines sign is not what they say, so they leave it out.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from protocol.errors import ProtocolError
from protocol.messages import AGGREGATOR, Envelope, Head
from protocol.session.machine import Machine


class Adversary:
    """Behaves as its machine does; subclasses change what it says.

    Args:
        machine: the honest party.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._sent = 0

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._machine.me!r})"

    @property
    def finished(self) -> bool:
        """Whether it has ended."""
        return self._machine.finished

    @property
    def failure(self) -> ProtocolError | None:
        """What went wrong, if it has ended so."""
        return self._machine.failure

    @property
    def deadline(self) -> float | None:
        """When to call ``expire``; None while nothing is timed."""
        return self._machine.deadline

    def start(self, now: float) -> None:
        """Run the role up to its first wait."""
        self._machine.start(now)

    def receive(self, envelope: Envelope, now: float) -> None:
        """Take an envelope from the link."""
        self._machine.receive(envelope, now)

    def expire(self, now: float) -> None:
        """The deadline is over."""
        self._machine.expire(now)

    def abandon(self, reason: str) -> None:
        """End from outside."""
        self._machine.abandon(reason)

    def take(self) -> list[Envelope]:
        """What is to be sent now, numbered anew."""
        said = [
            msgspec.structs.replace(envelope, seq=self._sent + i)
            for i, envelope in enumerate(self.change(_unsigned(self._machine.take())))
        ]
        self._sent += len(said)
        return said

    def change(self, outbox: list[Envelope]) -> list[Envelope]:
        """What it says instead of what its machine would."""
        return outbox


def _unsigned(outbox: list[Envelope]) -> list[Envelope]:
    return [envelope for envelope in outbox if envelope.kind != Head.kind()]


class Flooder(Adversary):
    """Says everything many times, with a new number each time.

    Args:
        times: how often.
    """

    def __init__(self, machine: Machine, *, times: int) -> None:
        super().__init__(machine)
        self._times = times

    def change(self, outbox: list[Envelope]) -> list[Envelope]:
        return [envelope for envelope in outbox for _ in range(self._times)]


class Replayer(Flooder):
    """Says everything twice, with a new number the second time."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine, times=2)


class Forger(Adversary):
    """Sends something else than its machine made: a wrong range, number, sender, or any bytes.

    Args:
        forge: makes an envelope into another. Its number is final.
    """

    def __init__(self, machine: Machine, forge: Callable[[Envelope], Envelope]) -> None:
        super().__init__(machine)
        self._forge = forge

    def take(self) -> list[Envelope]:
        return [self._forge(envelope) for envelope in super().take()]


class Mute(Adversary):
    """Stays connected until the aggregator has left, and never says anything."""

    @property
    def finished(self) -> bool:
        """Whether the aggregator has left, or the link has ended."""
        return AGGREGATOR in self._machine.departed or super().failure is not None

    def change(self, outbox: list[Envelope]) -> list[Envelope]:
        return []


class Quitter(Adversary):
    """Leaves in the middle.

    Args:
        after: how many envelopes it sends before it does.
    """

    def __init__(self, machine: Machine, *, after: int) -> None:
        super().__init__(machine)
        self._after = after
        self._quit: ProtocolError | None = None

    @property
    def finished(self) -> bool:
        """Whether it has left or ended."""
        return self._quit is not None or super().finished

    @property
    def failure(self) -> ProtocolError | None:
        """That it has left, or what went wrong before."""
        return self._quit or super().failure

    def change(self, outbox: list[Envelope]) -> list[Envelope]:
        said = outbox[: self._after - self._sent]
        if len(said) < len(outbox):
            self._machine.abandon("quit")
            self._quit = ProtocolError(f"party {self._machine.me!r}: quit")
        return said
