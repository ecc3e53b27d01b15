"""A whole survey in one program, in virtual time, while things go wrong.

Every member runs the code of ``sottovoce aggregate`` and ``sottovoce answer``. What is replaced is
the world beneath it: sockets, disks, threads, the clock and the system's randomness. So a survey
follows from its schedule.
"""

from __future__ import annotations

import contextlib
import functools
import os
import random
import tempfile
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import msgspec
import trio
import trio.testing

from parties.keeping.attempts import answers_in
from parties.keeping.members import Member
from parties.keeping.paying.payers import Payers
from parties.keeping.purse import purse_in
from parties.keeping.record_names import RESULT, TRANSCRIPT
from parties.keeping.records import make_way
from parties.keeping.writing import write_whole
from protocol import AGGREGATOR, Kind, ProtocolError, RemoteProtocolError, Variant
from protocol.errors import UsageError
from protocol.messages import DONE, Envelope
from protocol.session import roster
from protocol.session.charter import Charter
from protocol.transcript import checkpoints
from protocol.wire.codec import decode_envelope
from scenarios import Finished, Outcome, read_plan
from scenarios.cli.options import json_text
from scenarios.errors import StoppedError
from scenarios.statement.runs import run_values
from scenarios.surveys import answering
from scenarios.surveys.answering import Answered
from scenarios.surveys.endings import (
    LOST,
    MACHINE_FAILED,
    NOT_ACKNOWLEDGED,
    TURNED_AWAY,
    UNREACHABLE,
)
from scenarios.surveys.enrolment.folders import make_keys
from scenarios.surveys.holding import aggregating, attempts
from scenarios.surveys.holding.backups import restore_backup, write_backup
from scenarios.surveys.members import read_member
from scenarios.surveys.operating import operation
from scenarios.surveys.operating.operation import Operation
from tests.scenarios.survey_folders import PLANS, RECORDS
from tests.system.disk import Disk, File, Watched, watching
from tests.system.hosts import HOST, Host, Moments, receiving
from tests.system.network import PORT, Network, installed
from tests.system.schedule import (
    Crash,
    Cut,
    Full,
    Jump,
    Late,
    Part,
    Profile,
    Rollback,
    Schedule,
    Slow,
    Stop,
)
from transports.connection import Connection

PARTIES = 4
QUORUM = 3

JOINING = 30.0
"""How long the aggregator waits for parties, in seconds."""

PATIENCE = 20.0
"""How long the aggregator waits for a round of answers, as the plans say, in seconds."""

WAITING = 120.0
"""How long a party tries to reach the aggregator, in seconds."""

TRIES = 3
"""How often a member is started again after it has ended by itself, but not well."""

PATIENT = 2
"""How many lives the aggregator of a restored record waits for those who do not come back."""

PAUSE = 10.0
"""After how many seconds."""

BOUND = 3600.0
"""How long everything may take without faults and after them, in seconds."""

SYNC = 0.004
"""How long a sync takes that is done in a thread, in seconds."""

_AGAIN = (LOST, MACHINE_FAILED, NOT_ACKNOWLEDGED, TURNED_AWAY, UNREACHABLE)
"""The endings after which a party is started again."""

MEMORY = Path("/dev/shm")
KEYS, OUT, PURSE, FILE = "keys", "out", "purse", "records.csv"


class Setup(msgspec.Struct, frozen=True):
    """A survey to hold.

    Args:
        name: of its variant.
        members: what each knows, and who it is.
        folders: the files of each member's folder.
        records: the file of each party.
        purses: the files of each party's purse, from an earlier survey.
        budget: of each party; None for what one answer costs at most, whatever the purse says.
    """

    name: str
    members: dict[str, Member]
    folders: dict[str, dict[str, bytes]]
    records: dict[str, str]
    purses: Mapping[str, Mapping[str, bytes]] = {}
    budget: float | None = None

    @property
    def charter(self) -> Charter:
        """What the aggregator knows: all of it."""
        return self.members[AGGREGATOR].charter


@functools.cache
def setup_of(name: str, keys: str = "") -> Setup:
    """A survey by a variant, of as few parties as it needs.

    Args:
        keys: what all keys and ids are drawn from, beside the name.
    """
    head, *rows = RECORDS[name].splitlines()
    parties = [f"party-{number}" for number in range(1, PARTIES + 1)]
    records = {party: f"{head}\n{row}\n" for party, row in zip(parties, rows, strict=False)}
    plan = PLANS[name].replace("quorum = 4", f"quorum = {QUORUM}")
    if name in ("secure-sum", "pair-counts", "pair-rr", "rr-clusters"):
        # One of four may be missing.
        plan += "\n[sums]\ndropped = 0.25\n"
    drawn = Random(name + keys)
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(os, "urandom", drawn.randbytes),
    ):
        path = Path(folder) / "plan.toml"
        path.write_text(plan)
        out = Path(folder) / "keys"
        make_keys(read_plan(path), parties, out, days=365)
        members, folders = {}, {}
        for member in (AGGREGATOR, *parties):
            members[member] = read_member(out / member)
            folders[member] = {file.name: file.read_bytes() for file in (out / member).iterdir()}
        return Setup(name, members, folders, records)


def after(course: Course, setup: Setup, *, budget: float | None) -> Setup:
    """A survey of the people whom another one has asked before: they have the same purses."""
    purses = {
        name: {path: file.content for path, file in files.items() if path.startswith(f"{PURSE}/")}
        for name, files in course.disks.items()
        if name in setup.records
    }
    return msgspec.structs.replace(setup, purses=purses, budget=budget)


class Life(msgspec.Struct):
    """What became of a member's program from a start to its end.

    Args:
        member: whose it was.
        number: which of its lives, from 0.
        began, ended: at which second; None if it did not end.
        crashed: whether it did.
        stopped: whether it has stopped because it was asked to.
        said: what it ended with, as a person would read it.
        answered: how a party's answer went, if it came to that.
        outcome: what the aggregator published, if it came to that.
        error: what it raised.
        moments: how many it had.
    """

    member: str
    number: int
    began: float
    ended: float | None = None
    crashed: bool = False
    stopped: bool = False
    said: str = ""
    answered: Answered | None = None
    outcome: Outcome | None = None
    error: BaseException | None = None
    moments: int = 0

    def __str__(self) -> str:
        end = "-" if self.ended is None else f"{self.ended:.3f}"
        return f"{self.member} {self.number}: {self.began:.3f} to {end}: {self.said}"


class Said(msgspec.Struct, frozen=True):
    """A frame that has left a member.

    Args:
        member, life: whose it was.
        payload: the frame.
        envelope: that is in it; None if it says something about the link.
    """

    member: str
    life: int
    payload: bytes
    envelope: Envelope | None


class Course(msgspec.Struct):
    """How a survey went.

    Args:
        setup, schedule: what was held, and what went wrong.
        lives: of all members, in the order in which they began.
        said: what left them, in order.
        found: what was found on a disk after each crash, and what would have been after each stop
            if the machine had lost power then, by member and life.
        disks: what is on them at the end, by member.
        spent: what each party's folder says, by attempt.
        paid: what each party's purse says, by session.
        seconds: how long it took.
        sent: the bytes of each party's first connection, its own and the aggregator's.
        stalled: the flipped bits that were in the length of a TLS record.
    """

    setup: Setup
    schedule: Schedule
    lives: list[Life]
    said: list[Said]
    found: dict[tuple[str, int], dict[str, File]]
    disks: dict[str, dict[str, File]]
    spent: dict[str, dict[int, float]]
    paid: dict[str, dict[bytes, float]]
    seconds: float
    sent: dict[str, tuple[int, int]]
    stalled: set[Cut]

    @property
    def profile(self) -> Profile:
        """To draw schedules from."""
        moments = {life.member: life.moments for life in self.lives if life.number == 0}
        return Profile(moments, self.sent, self.seconds)

    def lives_of(self, member: str) -> list[Life]:
        """A member's lives."""
        return [life for life in self.lives if life.member == member]


class World:
    """Holds one survey under one schedule.

    Args:
        setup: the survey.
        schedule: what goes wrong.
        folder: for all files, in memory.
    """

    def __init__(self, setup: Setup, schedule: Schedule, folder: Path) -> None:
        self.setup = setup
        self.schedule = schedule
        self.folder = folder / "disks"
        self.beside = folder / "beside"
        for each in (self.folder, self.beside):
            each.mkdir()
        folder = self.folder
        self.random = Random(schedule.seed)
        self.clock = trio.testing.MockClock(autojump_threshold=0.0)
        faults = schedule.faults
        self.network = Network(self.random, [one for one in faults if isinstance(one, Cut)])
        self.disks = {name: Disk(folder / name) for name in setup.members}
        self.lives: list[Life] = []
        self.said: list[Said] = []
        self.found: dict[tuple[str, int], dict[str, File]] = {}
        self._hosts: dict[str, Host] = {}
        self._full: dict[Full, int] = {}
        self._sync = SYNC
        # Whether the aggregator has ended, and is not started again.
        self._over = False
        self._rollback = next((one for one in faults if isinstance(one, Rollback)), None)
        self._copy: dict[str, File] | None = None
        self._gone = frozenset[str]()
        # Set once everybody is asked to come again, or nobody will be.
        self._asked = trio.Event()

    def held(self) -> Course:
        """Hold it."""
        for name, files in self.setup.folders.items():
            self._make_folder(name, files)
        with self._beneath():
            began = 0.0
            ended = trio.run(self._main, clock=self.clock, instruments=[Moments()])
        disks = {name: disk.found(None) for name, disk in self.disks.items()}
        spent, paid = {}, {}
        for name in self.setup.records:
            paid[name] = _paid_from(self.folder / name / PURSE)
            answers = answers_in(self.folder / name / KEYS)
            spent[name] = {attempt: answers.spent(attempt).epsilon for attempt in answers.attempts}
        return Course(
            setup=self.setup,
            schedule=self.schedule,
            lives=self.lives,
            said=self.said,
            found=self.found,
            disks=disks,
            spent=spent,
            paid=paid,
            seconds=ended - began,
            sent=self.network.sent,
            stalled=self.network.stalled,
        )

    def lives_of(self, member: str) -> list[Life]:
        """A member's lives so far."""
        return [life for life in self.lives if life.member == member]

    def _make_folder(self, name: str, files: dict[str, bytes]) -> None:
        disk = self.disks[name]
        there = {f"{KEYS}/{file}": content for file, content in files.items()}
        if name in self.setup.records:
            there[FILE] = self.setup.records[name].encode()
        there.update(self.setup.purses.get(name, {}))
        disk.restore(
            {
                path: File(place, content, 0o600)
                for place, (path, content) in enumerate(there.items())
            }
        )

    @contextlib.contextmanager
    def _beneath(self) -> Generator[None]:
        """The world beneath the program is this one."""
        with contextlib.ExitStack() as stack:
            patch = lambda of, name, new: stack.enter_context(mock.patch.object(of, name, new))  # noqa: E731
            stack.enter_context(remembering())
            stack.enter_context(watching(self.folder, self._watched))
            patch(os, "urandom", Random(self.schedule.seed + 1).randbytes)
            patch(trio.to_thread, "run_sync", self._in_thread)
            patch(trio._core._run, "_ALLOW_DETERMINISTIC_SCHEDULING", True)
            trio._core._run._r.seed(self.schedule.seed)
            random.seed(self.schedule.seed)
            patch(operation, "receiving", receiving)
            patch(Connection, "send", self._tapped(Connection.send))
            if not self.schedule.secured:
                for module in (aggregating, answering):
                    patch(module, "tls_context", lambda *_: None)
            yield

    def _tapped(self, send: Any) -> Any:
        async def tapped(connection: Connection, payloads: Any) -> None:
            payloads = [*payloads]
            host = HOST.get()
            if host is not None and not host.dead:
                life = len(self.lives_of(host.name)) - 1
                for payload in payloads:
                    self.said.append(Said(host.name, life, payload, _envelope_of(payload)))
            await send(connection, payloads)

        return tapped

    async def _in_thread(self, function: Any, *arguments: Any, **_: Any) -> Any:
        host = HOST.get()
        assert host is not None
        with trio.move_on_after(self._sync, shield=True):
            await host.died.wait()
        await trio.lowlevel.checkpoint_if_cancelled()
        return function(*arguments)

    def _watched(self, name: str) -> Watched | None:
        host = self._hosts.get(name)
        if host is None:
            return None
        return Watched(self.disks[name], host, functools.partial(self._is_full, host))

    def _is_full(self, host: Host) -> bool:
        if host.dead:
            return False
        life = len(self.lives_of(host.name)) - 1
        for fault in self.schedule.faults:
            if not isinstance(fault, Full) or (fault.member, fault.life) != (host.name, life):
                continue
            if host.moments >= fault.moment and self._full.get(fault, 0) < fault.calls:
                self._full[fault] = self._full.get(fault, 0) + 1
                return True
        return False

    async def _main(self) -> float:
        began = trio.current_time()
        with installed(self.network):
            async with trio.open_nursery() as around:
                around.start_soon(self.network.run)
                for fault in self.schedule.faults:
                    if isinstance(fault, Part | Slow | Jump):
                        around.start_soon(self._happen, fault)
                with trio.move_on_after(BOUND + self.schedule.lasts):
                    async with trio.open_nursery() as members:
                        for name in self.setup.members:
                            members.start_soon(self._live, name)
                ended = trio.current_time()
                around.cancel_scope.cancel()
        for life in self.lives:
            life.began -= began
            if life.ended is not None:
                life.ended -= began
        return ended - began

    async def _happen(self, fault: Part | Slow | Jump) -> None:
        await trio.sleep(fault.at)
        match fault:
            case Part():
                self.network.part(fault.member, fault.seconds)
            case Jump():
                self.clock.jump(fault.seconds)
            case Slow():
                self._sync = fault.takes
                await trio.sleep(fault.seconds)
                self._sync = SYNC

    async def _live(self, name: str) -> None:
        """A member's lives, one after the other, as whoever owns it would start it."""
        late = [
            one.seconds
            for one in self.schedule.faults
            if isinstance(one, Late) and one.member == name
        ]
        await trio.sleep(sum(late))
        tries = 0
        while True:
            number = len(self.lives_of(name))
            crash, stop = self._crash_of(name, number), self._stop_of(name, number)
            back = self._rollback if (name, number) == (AGGREGATOR, 0) else None
            host = Host(
                name,
                self.disks[name].folder,
                back.moment if back is not None else None if crash is None else crash.moment,
                functools.partial(self._crash, crash, number),
                None if stop is None else stop.moment,
                copy_at=None if back is None else back.copied,
                copy=self._make_copy,
            )
            life = Life(name, number, trio.current_time())
            self.lives.append(life)
            self._hosts[name] = host
            self.network.begin(host)
            before = HOST.set(host)
            try:
                with host.scope:
                    await self._one_life(life, host)
            finally:
                HOST.reset(before)
                life.ended = trio.current_time() if host.dead or life.said else None
                life.moments = host.moments
                del self._hosts[name]
            if host.dead:
                life.crashed = True
                life.said = "crashed"
                life.answered = life.outcome = life.error = None
                self.disks[name].restore(self.found[name, number])
                if name in self._gone:
                    return
                if back is not None:
                    self._roll_back(back)
                    await trio.sleep(back.away)
                    self._asked.set()
                    continue
                if is_published(self.found[name, number]):
                    self._end_all()
                    return
                by = crash if crash is not None and crash.moment == host.moments else stop
                assert by is not None
                await trio.sleep(by.away)
                continue
            if stop is not None and isinstance(life.error, StoppedError):
                life.stopped = True
                self.found[name, number] = self.disks[name].found(Random(self.schedule.seed))
                await trio.sleep(stop.away)
                continue
            tries += 1
            if tries > TRIES or not self._tries_again(life) or self._over:
                if name == AGGREGATOR:
                    self._end_all()
                    return
                if self._over or self._rollback is None or self._asked.is_set():
                    return
                # It has no reason to come again before it is asked to.
                await self._asked.wait()
                if self._over or name in self._gone:
                    return
                tries = 0
            await trio.sleep(PAUSE)

    def _end_all(self) -> None:
        """The aggregator has ended, and is not started again."""
        self._over = True
        self._asked.set()

    def _make_copy(self) -> None:
        """Copy the aggregator's disk, for a rollback, while its program runs."""
        assert self._rollback is not None
        if self._rollback.how == "plain":
            self._copy = self.disks[AGGREGATOR].found(None)
            return
        folder = self.folder / AGGREGATOR
        member = msgspec.structs.replace(self.setup.members[AGGREGATOR], folder=folder / KEYS)
        write_backup(member, folder / OUT, self.beside / "backup")

    def _roll_back(self, back: Rollback) -> None:
        """Put the copy in the place of the aggregator's disk; some parties are gone for good."""
        if back.how == "restore":
            restore_backup(self.beside / "backup", self.beside / KEYS, self.beside / OUT)
            files = [path for name in (KEYS, OUT) for path in (self.beside / name).iterdir()]
            self._copy = {
                str(path.relative_to(self.beside)): File(place, path.read_bytes(), 0o600)
                for place, path in enumerate(files)
            }
        assert self._copy is not None
        self.disks[AGGREGATOR].restore(self._copy)
        self._gone = frozenset(back.gone)
        for name in back.gone:
            if name in self._hosts:
                self._hosts[name].die()

    def _tries_again(self, life: Life) -> bool:
        """Whether a person would start the program again after what it said."""
        if self._rollback is not None and life.member == AGGREGATOR and "was restored" in life.said:
            return True
        if self._rollback is None or life.member == AGGREGATOR:
            return _tries_again(life)
        return life.said != DONE

    def _crash_of(self, name: str, number: int) -> Crash | None:
        for one in self.schedule.faults:
            if isinstance(one, Crash) and (one.member, one.life) == (name, number):
                return one
        return None

    def _stop_of(self, name: str, number: int) -> Stop | None:
        for one in self.schedule.faults:
            if isinstance(one, Stop) and (AGGREGATOR, one.life) == (name, number):
                return one
        return None

    def _crash(self, crash: Crash | None, number: int, host: Host) -> None:
        """A machine crashes; without a crash at this moment, a signal has ended its program."""
        power = crash is not None and (crash.moment, crash.how) == (host.moments, "power")
        self.network.drop(host, silently=power)
        torn = Random(crash.torn) if crash is not None and power else None
        self.found[host.name, number] = self.disks[host.name].found(torn)

    async def _one_life(self, life: Life, host: Host) -> None:
        """A member's program, from its start to what it says at its end."""
        member = msgspec.structs.replace(self.setup.members[host.name], folder=host.folder / KEYS)
        try:
            if host.name == AGGREGATOR:
                before = self.lives_of(AGGREGATOR)[:-1]
                crash = self._crash_of(AGGREGATOR, len(before) - 1)
                last = before[-1] if before else None
                life.outcome = await aggregate(
                    member,
                    host.folder / OUT,
                    last,
                    crash,
                    heeds_signals=self._stop_of(AGGREGATOR, len(before)) is not None,
                    without_missing=len(before) > PATIENT,
                )
                life.said = "published"
            else:
                life.answered = await answering.answer_survey(
                    member,
                    answering.Answering(
                        records=host.folder / FILE,
                        budget=self.setup.budget,
                        purse=host.folder / PURSE,
                    ),
                    host="127.0.0.1",
                    port=PORT,
                    waiting=WAITING,
                )
                life.said = life.answered.ending
        except (UsageError, ProtocolError, StoppedError, OSError) as error:
            life.error, life.said = error, f"{type(error).__name__}: {error}"
        except Exception as error:
            if host.dead:
                return
            life.error, life.said = error, f"failed: {error!r}"


async def aggregate(
    member: Member,
    out: Path,
    before: Life | None,
    crash: Crash | None,
    *,
    heeds_signals: bool = False,
    without_missing: bool = False,
) -> Outcome:
    """What ``sottovoce aggregate`` does, with ``--resume`` from the second life on.

    Args:
        member: the aggregator.
        out: the folder for the record.
        before: the life before this one, if there was one.
        crash: how that has ended, if by a crash: its attempt may have to be abandoned.
        heeds_signals: whether it receives signals. The command always does; here it would be a
            task more in every survey.
        without_missing: whether a restored record goes on without parties that do not come back.
    """
    transcript, resume = out / TRANSCRIPT, before is not None
    if crash is not None and crash.then == "anew":
        try:
            attempts.abandon_survey(member, transcript)
            resume = False
        except UsageError:
            pass  # It has not begun, or has ended well: then it goes on.
    if not attempts.make_ready(member, transcript, resume=resume):
        make_way(transcript, force=before is not None)
    opened = attempts.attempting(
        member,
        transcript=transcript,
        resume=resume,
        without_missing=without_missing,
        operation=Operation(heeds_signals=heeds_signals),
    )
    with opened as attempt:
        outcome = await aggregating.hold(
            attempt,
            host="127.0.0.1",
            port=PORT,
            joining=JOINING,
            listening=lambda where: None,
        )
        write_whole(
            out / RESULT, json_text(run_values(Finished(outcome=outcome))) + "\n", private=True
        )
    return outcome


_again_uncached = Charter.again
_charters: dict[tuple[int, int], tuple[Charter, Charter]] = {}


def _again(charter: Charter, attempt: int) -> Charter:
    # The charter is kept too, so that no other gets its place in memory: there are few.
    key = (id(charter), attempt)
    if key not in _charters:
        _charters[key] = charter, _again_uncached(charter, attempt)
    return _charters[key][1]


_kinds_uncached = Variant.kinds
_spoken: dict[tuple[int, int], tuple[Variant, tuple[Kind, ...]]] = {}


def _kinds(variant: Variant, parties: int) -> tuple[Kind, ...]:
    # A variant is kept with its kinds, so that no other gets its place in memory.
    key = (id(variant), parties)
    if key not in _spoken:
        if len(_spoken) >= 256:
            _spoken.clear()
        _spoken[key] = variant, _kinds_uncached(variant, parties)
    return _spoken[key][1]


_is_signature = functools.lru_cache(maxsize=1 << 12)(roster.is_signature)


@contextlib.contextmanager
def remembering() -> Generator[None]:
    """What small surveys work out again and again is worked out once: it was most of their work."""
    with contextlib.ExitStack() as stack:
        for of, name, new in (
            (Charter, "again", _again),
            (Variant, "kinds", _kinds),
            (roster, "is_signature", _is_signature),
            (checkpoints, "is_signature", _is_signature),
        ):
            stack.enter_context(mock.patch.object(of, name, new))
        yield


def _paid_from(purse: Path) -> dict[bytes, float]:
    """What was paid from a purse, by session."""
    found = purse_in(purse)
    if found is None:
        return {}

    def paid(session: bytes) -> float:
        return float(found.spent(Payers(None), lambda one: one.session == session).epsilon[0])

    return {session: paid(session) for session in {one.release.session for one in found.paid}}


def is_published(files: Mapping[str, File]) -> bool:
    """Whether an aggregator's result is there, so that nobody would start it again."""
    return f"{OUT}/{TRANSCRIPT}" in files and f"{OUT}/{RESULT}" in files


def _tries_again(life: Life) -> bool:
    """Whether a person would start the program again after what it said."""
    if life.member == AGGREGATOR:
        return isinstance(life.error, OSError)
    return life.answered is not None and life.answered.how in _AGAIN


def _envelope_of(payload: bytes) -> Envelope | None:
    try:
        return decode_envelope(payload)
    except RemoteProtocolError:
        return None


def play(setup: Setup, schedule: Schedule) -> Course:
    """Hold a survey under a schedule."""
    there = MEMORY if MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(dir=there) as folder:
        return World(setup, schedule, Path(folder)).held()


@functools.cache
def profile_of(name: str) -> Profile:
    """How a survey by a variant goes without faults."""
    course = play(setup_of(name), Schedule(0))
    assert all(life.said in ("published", DONE) for life in course.lives), [*map(str, course.lives)]
    return course.profile


def variants() -> Iterator[str]:
    """The names of all."""
    yield from PLANS
