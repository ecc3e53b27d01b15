"""Faults of pages and of their server, to be planted: the simulation finds each."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any, NamedTuple
from unittest import mock

from protocol.messages import Envelope
from protocol.transcript.entries import Item
from protocol.transcript.recorder import Recorder
from protocol.variants import RRIndependent
from tests.system.pages.model import Page, Stored
from tests.system.pages.schedule import (
    Down,
    Killed,
    Lost,
    Reloaded,
    Schedule,
    Twice,
)
from tests.system.pages.server import Disk, Server
from tests.system.pages.world import Course, play
from tests.system.planted import unheard
from transports.web.gateway import Gateway


class DrawsAgain(Page):
    """A page that does not look at what an earlier one has stored."""

    own: Stored | None = None

    def kept(self) -> Stored | None:
        return self.own

    def store(self, record: Stored) -> None:
        self.own = record
        super().store(record)


class StoresLate(Page):
    """A page that stores what it has sent once that is acknowledged."""

    made_here: Stored | None = None

    def kept(self) -> Stored | None:
        return self.made_here or super().kept()

    def store(self, record: Stored) -> None:
        self.made_here = record
        if record.receipt is not None:
            super().store(record)


class Unlocked(Page):
    """A page that does not mind other tabs."""

    async def _once(self, make: Callable[[Stored | None], Stored]) -> None:
        async def at_once(name: str, task: Callable[[], Awaitable[Any]]) -> Any:
            return await task()

        with mock.patch.object(self.browser, "alone", at_once):
            await super()._once(make)


class ShowsEarly(Page):
    """A page that shows what it sends."""

    async def deliver(self, record: Stored) -> None:
        self.become(name="sending", shown=not record.declined)
        await super().deliver(record)


class RedrawsLater(Page):
    """A page that draws in each attempt."""

    def made(self, codes: list[int], kept: Stored | None) -> Stored:
        truth = self.browser.world.truths(self.link.party)  # type: ignore[attr-defined]
        return super().made(truth, None)


class AsksNoState(Page):
    """A page that does not ask what it does not remember."""

    async def _ask_state(self) -> tuple[bool, bytes | None, str | None, bool]:
        return False, None, None, True


class StoresTruth(Page):
    """A page that keeps what was chosen, to show it when it is opened again."""

    async def send(self, codes: list[int]) -> None:
        self.browser.put("sottovoce draft", json.dumps(codes))
        await super().send(codes)


class TellsTruth(Page):
    """A page that tells the server what was chosen when it asks for something."""

    async def send(self, codes: list[int]) -> None:
        await self.ask(f"/place/{codes}")
        await super().send(codes)


class Unsynced(Disk):
    """A disk of which only the header is made durable."""

    def sync(self) -> None:
        self.synced = self.synced or len(self.content)


class Headless(Gateway):
    """A gateway that relays an answer, and not its head."""

    def _check(self, *given: Any) -> list[Envelope]:
        return super()._check(*given)[:1]


class Closed(Gateway):
    """A gateway that knows nobody any more once the survey is over."""

    def close(self, note: str | None = None) -> None:
        super().close(note)
        self._said.digests.clear()
        self._said.answers.clear()


def _with(**parts: Any) -> type[Server]:
    return type("Planted", (Server,), parts)


@contextlib.contextmanager
def _forgetful() -> Generator[None]:
    """Of what was read back it is not noted who has answered."""
    real = Recorder.recall

    def recall(self: Recorder, content: bytes) -> Item:
        item = real(self, content)
        said = self._watch.__self__  # type: ignore[union-attr]
        said.digests.clear()
        said.answers.clear()
        return item

    with mock.patch.object(Recorder, "recall", recall):
        yield


@contextlib.contextmanager
def _counted_twice() -> Generator[None]:
    """The first report is pooled twice."""
    real = RRIndependent.pooled

    def pooled(self: RRIndependent, reports: Sequence[Any]) -> Any:
        return real(self, [*reports, reports[0]])

    with mock.patch.object(RRIndependent, "pooled", pooled):
        yield


class Plant(NamedTuple):
    """A fault, and where the simulation has to see it.

    Args:
        invariant: the name of the one that it breaks.
        within: how many schedules.
        page, server: with the fault.
        planted: has the program behave so in a block.
        shown_by: the kinds of faults that show it, if it takes any; such schedules count alone.
    """

    invariant: str
    within: int
    page: type[Page] = Page
    server: type[Server] = Server
    planted: Callable[[], contextlib.AbstractContextManager[object]] = contextlib.nullcontext
    shown_by: tuple[type, ...] = ()

    def play(self, schedule: Schedule, **options: Any) -> Course:
        """Hold a survey with the fault."""
        with self.planted():
            return play(schedule, page=self.page, server=self.server, variant=0, **options)

    def likely(self, schedule: Schedule) -> bool:
        """Whether a schedule may show it."""
        kinds = {type(fault) for fault in schedule.faults}
        return schedule.honest and (not self.shown_by or bool(kinds & {*self.shown_by}))


PLANTS: dict[str, Plant] = {
    "the page draws again after a reload": Plant(
        "one_draw", 20, page=DrawsAgain, shown_by=(Killed, Reloaded)
    ),
    "the page stores after sending": Plant(
        "one_draw", 60, page=StoresLate, shown_by=(Lost, Killed, Reloaded)
    ),
    "there is no lock": Plant("one_draw", 20, page=Unlocked, shown_by=(Twice,)),
    "the page shows before the acknowledgement": Plant("shown_is_acknowledged", 2, page=ShowsEarly),
    "the page draws in each attempt": Plant("one_draw", 40, page=RedrawsLater, shown_by=(Down,)),
    "the page stores the true answer": Plant("truth_is_not_stored", 8, page=StoresTruth),
    "the page tells the true answer": Plant("truth_is_not_stored", 8, page=TellsTruth),
    "the server acknowledges before it is durable": Plant(
        "acknowledged_is_on_record", 20, server=_with(disk=Unsynced), shown_by=(Down,)
    ),
    "a resumed server forgets who has answered": Plant(
        "unsent_is_not_counted", 100, planted=_forgetful, shown_by=(Down,)
    ),
    "the server relays the answer without its head": Plant(
        "who_speaks_has_signed", 6, server=_with(gateway=Headless)
    ),
    "the server counts a place twice": Plant("records_are_sound", 2, planted=_counted_twice),
    "the server does not count a place": Plant("acknowledged_is_counted", 4, planted=unheard("3")),
    "at the end nobody is known any more": Plant(
        "who_was_counted_is_told", 2, server=_with(gateway=Closed)
    ),
}
"""What each is called."""
