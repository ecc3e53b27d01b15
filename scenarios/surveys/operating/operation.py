"""Operation of a survey: listeners to its progress, and signals that end it early."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import trio

from protocol.session.charter import Charter
from protocol.transcript.entries import Entry
from scenarios.errors import StoppedError
from scenarios.surveys.operating.joining import joining_file
from scenarios.surveys.operating.progress import Phase, Progress, Refusing, Tell
from scenarios.surveys.operating.signals import obey, receiving
from transports.admission import Network
from transports.background import running
from transports.lasting.hub import LastingHub
from transports.records.commits import Commits
from transports.switch import Switch

DRAINING = 5.0
"""Seconds that a stopped survey may take to acknowledge its messages."""

Task = Callable[[], Awaitable[object]]


class Operation:
    """Operation of a survey; by default without listeners, and without early endings.

    Args:
        tell: takes events.
        heeds_signals: whether SIGTERM, SIGHUP and Ctrl-C stop it. Signals are the main thread's.
        folder: folder in which ``close_joining`` finds the survey.
        trusted: addresses whose connections do not make room for those of strangers.

    Attributes:
        progress: reports progress.
        tasks: run while parties can connect.
        early: tasks that also run before, while witnesses are asked.
    """

    def __init__(
        self,
        *,
        tell: Tell = lambda event, fields: None,
        heeds_signals: bool = False,
        folder: Path | None = None,
        trusted: Sequence[Network] = (),
    ) -> None:
        self.progress = Progress(tell)
        self.tasks: Sequence[Task] = ()
        self.early: Sequence[Task] = ()
        self.trusted = trusted
        self._heeds_signals = heeds_signals
        self._folder = folder
        self._lingering = trio.CancelScope()
        self._followers: list[Callable[[Entry], object]] = []

    def follow_too(self, take: Callable[[Entry], object]) -> None:
        """Add a listener to every entry."""
        self._followers.append(take)

    def follow(self, charter: Charter) -> Callable[[Entry], object]:
        """Listeners to every entry of an attempt, new or read back."""
        takers = (self.progress.follow(charter), *self._followers)

        def take(entry: Entry) -> None:
            for each in takers:
                each(entry)

        return take

    @asynccontextmanager
    async def opened(
        self, switch: Switch, door: Refusing, commits: Commits
    ) -> AsyncGenerator[None]:
        """While parties can connect.

        Args:
            switch: relays between them.
            door: the hub or the gateway.
            commits: the record's commits.

        Raises:
            StoppedError: a signal came. All that was recorded is durable then, and acknowledged as
                far as parties could be reached; no departure is on record for it.
        """

        async def stop(signal: str) -> None:
            if self.progress.phase is not Phase.ENDING:
                self.progress.stopping(signal)
                with trio.move_on_after(DRAINING):
                    await commits.caught_up()
                    if isinstance(door, LastingHub):
                        await door.acknowledged()
            if self.progress.phase is Phase.ENDING:
                # Nothing is left to ask: the survey ends as usual, only sooner.
                soon = trio.current_time() + DRAINING
                self._lingering.deadline = min(self._lingering.deadline, soon)
                return
            raise StoppedError(
                f"stopped by {signal}: the same command with --resume goes on, and parties try to "
                "come back for as long as their --waiting says"
            )

        with ExitStack() as stack:
            tasks = [*self.tasks]
            if self._heeds_signals:
                received = stack.enter_context(receiving())
                tasks.append(functools.partial(obey, received, stop))
            self.progress.opened(switch, door, commits)
            async with running(*tasks):
                yield

    @asynccontextmanager
    async def joining(self, switch: Switch, within: float) -> AsyncGenerator[None]:
        """Context of the wait for parties, for so many seconds."""
        self.progress.joining(within)
        async with self.closing(switch.end_joining):
            yield

    @asynccontextmanager
    async def closing(self, end: Callable[[], object], *, closes: str = "") -> AsyncGenerator[None]:
        """While ``close_joining`` ends a wait, by ``end``.

        Args:
            closes: the announced closing time; empty if there is none.
        """
        if self._folder is None:
            yield
            return
        async with joining_file(self._folder, end, closes=closes):
            yield

    def lingering(self, seconds: float) -> trio.CancelScope:
        """Context of the wait for parties to receive the end; a signal shortens it."""
        self.progress.ending()
        self._lingering.deadline = trio.current_time() + seconds
        return self._lingering
