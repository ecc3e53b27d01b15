"""People, their devices and their pages around a server of pages, in virtual time."""

from __future__ import annotations

import functools
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from random import Random
from typing import Any, NamedTuple, TypeVar
from unittest import mock

import msgspec
import trio
import trio.testing

from protocol import PartyId, Variant
from protocol.messages import IDENTITY_STREAM
from protocol.simulation.setting import Setting, make_setting
from protocol.variants import MargHT, PrivKVVariant, RRIndependent, RRJoint, Smp
from tests.every_variant import BITS, FILMS
from tests.recorded.runs import SURVEY, answers
from tests.system.pages.model import Page, State, url64
from tests.system.pages.schedule import (
    CLOSES,
    PLACES,
    Cleared,
    Elsewhere,
    Hasty,
    Killed,
    Lost,
    Reloaded,
    Schedule,
    Slow,
    Twice,
)
from tests.system.pages.server import Attempt, Server

BOUND = 3 * (CLOSES + 300.0)
"""After how many seconds all attempts are over, at the latest."""

LAST_LOOK = 60.0
"""How long a page has at the end to say what became of an answer, in seconds."""

THOUGHT = 12.0
"""How long a person looks at the questions, at most, about, in seconds."""

DECLINES = 0.12
"""How many people decline."""

SYNCS = (0.002, 0.002, 0.5)
"""How long each half of a sync may take, in seconds."""

FINAL = ("sent", "elsewhere", "closed", "refused")
T = TypeVar("T")

VARIANTS: tuple[Variant, ...] = tuple(
    msgspec.structs.replace(variant, quorum=2, patience=None)
    for variant in (
        RRIndependent.with_keep(SURVEY, 0.6),
        RRJoint.with_keep(BITS, 0.5),
        Smp(survey=BITS, epsilon=1.0, oracle="oue"),
        MargHT(survey=BITS, epsilon=1.0),
        PrivKVVariant(survey=FILMS, epsilon=2.0),
    )
)
"""The first is of every second schedule: its draws can be told apart best."""


@functools.cache
def setting_by(number: int) -> Setting:
    """A survey with the variant of this number."""
    variant = VARIANTS[number]
    return make_setting(variant, answers(variant.survey, PLACES, 1), seed=1)


class GoneError(Exception):
    """The page was closed."""


Storage = tuple[str, int]
"""A device, and how often its storage was cleared."""


class Posted(NamedTuple):
    """A body that has left a page to answer with.

    Args:
        place: whose.
        device: the name of the page's.
        storage: the page's; None if it was cleared while the page was open.
        attempt: that it is meant for.
        body: of the POST.
    """

    place: PartyId
    device: str
    storage: Storage | None
    attempt: int
    body: bytes


class Proof(NamedTuple):
    """A reply of 200 that has reached a page and may show that its answer is on record.

    Args:
        posted: what it acknowledges; None if it is to a question for the state.
        place, device, storage: the page's.
        reply: the body.
    """

    posted: Posted | None
    place: PartyId
    device: str
    storage: Storage | None
    reply: bytes


class Showed(NamedTuple):
    """What a page has shown.

    Args:
        place, device, storage: the page's.
        tab: its number.
        state: that was shown.
        proofs: how many proofs had reached any page by then.
    """

    place: PartyId
    device: str
    storage: Storage | None
    tab: int
    state: State
    proofs: int


class Course(msgspec.Struct):
    """How it went.

    Args:
        schedule: what went wrong.
        where: who took part.
        attempts: of the server.
        errors: what nothing reckons with.
        posted, proofs, showed: of all pages, in order.
        stored: each change of a storage: the device, the name and the value.
        asked: each request: its path and body.
        last: what each device shows at the end.
        statuses: of the server's replies.
        notes: of checkpoints that were told.
        seconds: how long it took.
    """

    schedule: Schedule
    where: Setting
    attempts: list[Attempt] = []
    errors: list[BaseException] = []
    posted: list[Posted] = []
    proofs: list[Proof] = []
    showed: list[Showed] = []
    stored: list[tuple[str, str, str]] = []
    asked: list[tuple[str, bytes | None]] = []
    last: list[Showed] = []
    statuses: list[tuple[str, int]] = []
    notes: set[str] = set()
    seconds: float = 0.0


Truths = Callable[[PartyId], list[int]]


class Device:
    """A browser of a person's: one storage, and some tabs.

    Args:
        world: around it.
        place: whose link is opened on it.
        name: of it.
    """

    def __init__(self, world: World, place: int, name: str) -> None:
        self.world = world
        self.place = place
        self.party = world.where.charter.roster.parties[place]
        self.name = name
        self.storage: dict[str, str] = {}
        self.cleared = 0
        self.tabs: set[Tab] = set()
        self.locks: dict[str, trio.Lock] = {}
        self.used = False
        # When *Send* is pressed in all tabs, if it is.
        self.ready = 0.0

    def open(self, *, last: bool = False) -> Tab:
        """Open the link in a new tab."""
        self.used = True
        tab = Tab(self, last=last)
        self.tabs.add(tab)
        self.world.nursery.start_soon(tab.live)
        return tab

    def close(self) -> None:
        """Close all tabs."""
        for tab in [*self.tabs]:
            tab.close()

    def clear(self) -> None:
        """Delete what is stored."""
        self.storage.clear()
        self.cleared += 1


class Tab:
    """A page that is open on a device, and the person before it; what a page has of its browser."""

    def __init__(self, device: Device, *, last: bool) -> None:
        self.device = device
        self.world = device.world
        self.last = last
        self.opened = device.cleared
        self.alive = True
        self.scope = trio.CancelScope()
        self.page: Any = None
        self.number = self.world.tabs = self.world.tabs + 1
        self.words = self.world.words(device.party, self.number)

    @property
    def storage(self) -> tuple[str, int] | None:
        """Which storage it is on; None if it was cleared since."""
        same = self.opened == self.device.cleared
        return (self.device.name, self.opened) if same else None

    def close(self) -> None:
        """End at once."""
        self.alive = False
        self.device.tabs.discard(self)
        self.scope.cancel()
        if self.page is not None and hasattr(self.page, "end"):
            self.page.end()

    async def live(self) -> None:
        """Open the link and do what a person does."""
        try:
            with self.scope:
                self.page = self.world.page(self)
                await self._visit(self.page)
                await trio.sleep_forever()
        except GoneError:
            pass
        except Exception as error:
            self.world.course.errors.append(error)
        finally:
            self.alive = False
            self.device.tabs.discard(self)

    async def _visit(self, page: Any) -> None:
        world, device = self.world, self.device
        await page.open(world.link(device.party))
        while (name := page.state.name) not in FINAL:
            if self.last:
                return
            thinking = world.thinking()
            await trio.sleep(max(thinking, device.ready - trio.current_time()))
            if name == "again":
                await self._press(page.repeat)
            elif device.place in world.declining:
                await self._press(page.decline)
            else:
                codes = world.truths(device.party)
                await self._press(lambda codes=codes: page.send(codes))

    async def _press(self, task: Callable[[], Awaitable[None]]) -> None:
        """Press a button, perhaps twice."""
        if self.device.place not in self.world.hasty:
            return await task()
        failed: list[Exception] = []

        async def press() -> None:
            try:
                await task()
            except Exception as error:
                failed.append(error)
                nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(press)
            nursery.start_soon(press)
        if failed:
            raise failed[0]

    def _check(self) -> None:
        if not self.alive:
            raise GoneError

    async def fetch(self, path: str, body: bytes | None) -> tuple[int, bytes, float]:
        self._check()
        return await self.world.fetch(self, path, body)

    def get(self, name: str) -> str | None:
        self._check()
        return self.device.storage.get(name)

    def put(self, name: str, value: str) -> None:
        self._check()
        killed = self.world.killed(self.device)
        if killed is None or killed.stored:
            self.world.course.stored.append((self.device.name, name, value))
            self.device.storage[name] = value
        if killed is not None:
            self.close()
            raise GoneError

    def remove(self, name: str) -> None:
        """Delete what is stored under a name."""
        self._check()
        self.device.storage.pop(name, None)

    async def alone(self, name: str, task: Callable[[], Awaitable[T]]) -> T:
        self._check()
        async with self.device.locks.setdefault(name, trio.Lock()):
            return await task()

    async def sleep(self, seconds: float) -> None:
        self._check()
        await trio.sleep(seconds)

    def changed(self, state: State) -> None:
        self.world.shown(self, state)


class World:
    """Holds one survey under one schedule.

    Args:
        schedule: what goes wrong.
        page: makes the page of a tab.
        server: its class.
        truths: of each place, the codes of the true answers; by default those of the setting.
        told: whether reports say something of the truth. If not, every draw is one that does not
            look at it, which takes the first variant.
        variant: the number of the survey's; by default the seed's.
    """

    def __init__(
        self,
        schedule: Schedule,
        *,
        page: Callable[[Tab], Any] = Page,
        server: type[Server] = Server,
        truths: Truths | None = None,
        told: bool = True,
        variant: int | None = None,
    ) -> None:
        seed = schedule.seed
        if variant is None:
            variant = (seed // 2) % len(VARIANTS) if seed % 2 and told else 0
        self.schedule = schedule
        self.where = setting_by(variant)
        self.page = page
        self.truths = truths or self._truth
        self.told = told
        self.random = Random(seed)
        self.course = Course(schedule, self.where)
        self.server = server(self.where, schedule.faults, Random(seed + 1))
        faults = schedule.faults
        self.hasty = {one.place for one in faults if isinstance(one, Hasty)}
        self.declining = {
            place for place in range(PLACES) if Random(f"{seed} {place}").random() < DECLINES
        }
        self._requests = [0] * PLACES
        self._changes = [0] * PLACES
        self.tabs = 0

    def held(self) -> Course:
        """Hold it."""
        clock = trio.testing.MockClock(autojump_threshold=0.0)
        with ExitStack() as stack:
            patch = lambda of, name, new: stack.enter_context(mock.patch.object(of, name, new))  # noqa: E731
            patch(trio._core._run, "_ALLOW_DETERMINISTIC_SCHEDULING", True)
            trio._core._run._r.seed(self.schedule.seed)
            random.seed(self.schedule.seed)
            patch(trio.to_thread, "run_sync", _in_thread)
            trio.run(self._main, clock=clock)
        course, server = self.course, self.server
        course.attempts, course.statuses, course.notes = (
            server.attempts,
            server.statuses,
            server.notes,
        )
        course.errors += server.errors
        return course

    def link(self, party: PartyId) -> str:
        """What a place's link has after its ``#``."""
        seed = self.where.streams.stream(party, IDENTITY_STREAM).bytes(32)
        return f"{party}.{url64(seed)}.{url64(self.where.charter.survey_id)}"

    def words(self, party: PartyId, tab: int) -> Callable[[], int]:
        """What a page draws its randomness from."""
        own = Random(f"{self.schedule.seed} {party} {tab}")
        if self.told:
            return lambda: own.getrandbits(64)
        # Above any chance to keep, and below what is drawn anew.
        return lambda: (0xFF << 56) - own.getrandbits(56)

    def thinking(self) -> float:
        """How long a person looks at the questions."""
        return 0.5 + THOUGHT * self.random.random()

    def _truth(self, party: PartyId) -> list[int]:
        records = self.where.holdings[party]
        codes: list[int] = records.codes[0].tolist()
        return codes

    async def _main(self) -> None:
        self.began = trio.current_time()
        async with trio.open_nursery() as self.nursery:
            self.nursery.start_soon(self._serve)
            devices = [Device(self, place, f"phone {place}") for place in range(PLACES)]
            others: list[Device] = []
            for device in devices:
                self.nursery.start_soon(self._come, device)
            for fault in self.schedule.faults:
                match fault:
                    case Reloaded() | Cleared():
                        self.nursery.start_soon(self._befall, devices[fault.place], fault)
                    case Elsewhere():
                        other = Device(self, fault.place, f"tablet {fault.place} {len(others)}")
                        others.append(other)
                        self.nursery.start_soon(self._open_at, other, fault.at)
            with trio.fail_after(BOUND):
                await self.server.showing.wait()
            await self._look([*devices, *others])
            self.course.seconds = trio.current_time() - self.began
            self.nursery.cancel_scope.cancel()

    async def _serve(self) -> None:
        try:
            await self.server.run()
        except Exception as error:
            self.course.errors.append(error)
            self.server.showing.set()

    async def _come(self, device: Device) -> None:
        """A person comes to each attempt, some time, and some never."""
        mine = Random(f"{self.schedule.seed} of {device.place}")
        for attempt in (1, 2, 3):
            at, comes = mine.uniform(0.0, 1.05 * CLOSES), mine.random() < 0.92
            if mine.random() < 0.5:
                at /= 5
            await self.server.begun[attempt].wait()
            await trio.sleep(max(0.0, at - self.server.now))
            if self.server.showing.is_set():
                return
            if comes:
                self._open(device)

    def _open(self, device: Device) -> None:
        """Open a link, perhaps in two tabs."""
        device.open()
        for fault in self.schedule.faults:
            if isinstance(fault, Twice) and fault.place == device.place:
                at = trio.current_time() + fault.after
                self.nursery.start_soon(self._open_at, device, at - self.began)
                if fault.together:
                    device.ready = at + THOUGHT

    async def _open_at(self, device: Device, at: float) -> None:
        await trio.sleep_until(self.began + at)
        if not self.server.showing.is_set():
            device.open()

    async def _befall(self, device: Device, fault: Reloaded | Cleared) -> None:
        await trio.sleep(fault.at)
        if self.server.showing.is_set():
            return
        reopened = bool(device.tabs) and (isinstance(fault, Reloaded) or fault.reloaded)
        if reopened:
            device.close()
        if isinstance(fault, Cleared):
            device.clear()
        if reopened:
            device.open()

    async def _look(self, devices: Sequence[Device]) -> None:
        """At the end everybody looks once more, and nothing is in the way."""
        for device in devices:
            device.close()
        self.calm = True
        before = len(self.course.showed)
        for device in devices:
            if device.used:
                device.open(last=True)
        await trio.sleep(LAST_LOOK)
        final = {one.device: one for one in self.course.showed[before:]}
        self.course.last = [*final.values()]

    calm = False

    def killed(self, device: Device) -> Killed | None:
        """Whether a page ends at this change of its storage; if so, it may be opened again."""
        if self.calm:
            return None
        self._changes[device.place] += 1
        number = self._changes[device.place]
        for fault in self.schedule.faults:
            if isinstance(fault, Killed) and (fault.place, fault.change) == (device.place, number):
                if fault.away is not None:
                    self.nursery.start_soon(self._reopen, device, fault.away)
                return fault
        return None

    async def _reopen(self, device: Device, away: float) -> None:
        await trio.sleep(away)
        if not self.calm:
            device.open()

    async def fetch(self, tab: Tab, path: str, body: bytes | None) -> tuple[int, bytes, float]:
        """Carry a request and its reply; a request that has left arrives though its page ends."""
        self._requests[tab.device.place] += 1
        number = self._requests[tab.device.place]
        there, back = (0.02 + 0.5 * self.random.random() for _ in range(2))
        lost = None
        for fault in [] if self.calm else self.schedule.faults:
            if not isinstance(fault, Lost | Slow):
                continue
            if (fault.place, fault.request) != (tab.device.place, number):
                continue
            if isinstance(fault, Lost):
                lost = fault.what
            else:
                there, back = there + fault.seconds / 2, back + fault.seconds / 2
        self.course.asked.append((path, body))
        own = tab.device.party, tab.device.name
        posted = None
        if path.startswith("/answer/"):
            assert body is not None
            posted = Posted(*own, tab.storage, _find_attempt(body), body)
            self.course.posted.append(posted)
        done = trio.Event()
        replies: list[Any] = []

        async def carry() -> None:
            await trio.sleep(there)
            try:
                if lost == "request":
                    raise OSError("lost")
                replies.append(await self.server.ask(path, body))
            except OSError as error:
                replies.append(error)
            done.set()

        self.nursery.start_soon(carry)
        await done.wait()
        await trio.sleep(back)
        [reply] = replies
        if isinstance(reply, OSError) or lost == "reply":
            raise OSError("lost")
        if reply.status == 200 and (posted is not None or path == "/state"):
            self.course.proofs.append(Proof(posted, *own, tab.storage, reply.body))
        return reply.status, reply.body, float(reply.headers.get("Retry-After", 0.0))

    def shown(self, tab: Tab, state: State) -> None:
        """A page shows something."""
        device = tab.device
        course = self.course
        own = device.party, device.name, tab.storage, tab.number
        course.showed.append(Showed(*own, state, len(course.proofs)))


def _find_attempt(body: bytes) -> int:
    """The attempt whose session a posted body is of."""
    answer = msgspec.msgpack.decode(body, type=list[bytes])[0]
    session: bytes = msgspec.msgpack.decode(answer)[0]
    return session[-1]


async def _in_thread(function: Callable[[], T], *_: Any, **__: Any) -> T:
    await trio.sleep(random.choice(SYNCS))
    done = function()
    await trio.sleep(random.choice(SYNCS))
    return done


def play(schedule: Schedule, **options: Any) -> Course:
    """Hold a survey under a schedule; the options are those of ``World``."""
    return World(schedule, **options).held()
