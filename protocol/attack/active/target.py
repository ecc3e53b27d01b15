"""The target's machine, which notes its inputs or shows the place of its role."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable
from typing import Literal, NamedTuple

from protocol.messages import Envelope
from protocol.session.machine import Machine


class Heard(NamedTuple):
    """Something that happened to the target's machine."""

    what: Literal["start", "receive", "expire", "abandon"]
    now: float
    envelope: Envelope | None = None


class Watched(Machine):
    """A machine that notes all its inputs, to be played to another.

    Attributes:
        heard: what happened, in order.
    """

    heard: list[Heard]

    def start(self, now: float) -> None:
        self.heard = [Heard("start", now)]
        super().start(now)

    def receive(self, envelope: Envelope, now: float) -> None:
        self.heard.append(Heard("receive", now, envelope))
        super().receive(envelope, now)

    def expire(self, now: float) -> None:
        self.heard.append(Heard("expire", now))
        super().expire(now)

    def abandon(self, reason: str) -> None:
        self.heard.append(Heard("abandon", 0.0))
        super().abandon(reason)


class Traced(Machine):
    """A machine that shows the place of its role.

    Attributes:
        read: its attackers' reading of its envelopes (``Study.read``).
    """

    read: Callable[[Envelope], bytes | None]

    @property
    def place(self) -> tuple[str, ...]:
        """Function and line of every call in the role, or of its failure."""
        if self.failure is not None:
            trace = traceback.extract_tb((self.failure.__cause__ or self.failure).__traceback__)
            return tuple(f"{frame.name}:{frame.lineno}" for frame in trace)
        found, role = [], None if self.finished else self._role
        while inspect.iscoroutine(role):
            if role.cr_frame is not None:
                found.append(f"{role.cr_code.co_name}:{role.cr_frame.f_lineno}")
            role = role.cr_await
        return tuple(found)
