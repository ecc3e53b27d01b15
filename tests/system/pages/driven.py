"""The real script of the page, run by node: its browser is the simulation's."""

from __future__ import annotations

import atexit
import functools
import io
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import trio

from tests.system.pages.model import State
from tests.system.pages.world import GoneError, Tab
from tests.verifier.bundles import bundle
from tests.verifier.javascript import NODE

HERE = Path(__file__).parent


class Program:
    """One process of node, with all pages; it waits whenever nothing of it is under way."""

    def __init__(self, script: str) -> None:
        assert NODE is not None
        with tempfile.NamedTemporaryFile("w", suffix=".js", delete=False) as file:
            file.write(script)
        command = [NODE, "--no-warnings", str(HERE / "driven.mjs"), file.name]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input = self._process.stdin
        self._lines = io.BufferedReader(self._process.stdout)  # type: ignore[type-var]
        self._tabs = 0
        atexit.register(self.close, Path(file.name))

    def number(self) -> int:
        """The number of a new tab."""
        self._tabs += 1
        return self._tabs

    def write(self, **values: Any) -> None:
        """Say something."""
        self._input.write(json.dumps(values).encode() + b"\n")

    def read(self) -> dict[str, Any]:
        """What is said next."""
        line = self._lines.readline()
        if not line:
            raise RuntimeError("node has ended")
        said: dict[str, Any] = json.loads(line)
        return said

    def close(self, file: Path) -> None:
        """End it."""
        self._input.close()
        self._process.wait()
        self._lines.close()
        file.unlink()


@functools.cache
def program(before: tuple[tuple[str, str], ...] = ()) -> Program:
    """The process, which is started once.

    Args:
        before: what is replaced in the script, and by what.
    """
    script = bundle("visit.js")
    for old, new in before:
        assert script.count(old) == 1, old
        script = script.replace(old, new)
    return Program(script)


class Driven:
    """A page of the real script, as ``Page``.

    Args:
        tab: whose it is.
        before: as of ``program``.
        locks: whether the browser has Web Locks.
    """

    def __init__(
        self, tab: Tab, *, before: tuple[tuple[str, str], ...] = (), locks: bool = True
    ) -> None:
        self.state = State()
        self._program = program(before)
        self._tab = tab
        self._number = self._program.number()
        self._jobs: dict[int, trio.Event] = {}
        self._unlocked: dict[int, trio.Event] = {}
        self._errors: list[str] = []
        self._drive("new", locks)

    async def open(self, fragment: str) -> None:
        await self._do("open", fragment)

    async def send(self, codes: list[int]) -> None:
        await self._do("send", codes)

    async def repeat(self) -> None:
        await self._do("repeat")

    async def decline(self) -> None:
        await self._do("decline")

    def end(self) -> None:
        """The tab was closed."""
        for event in self._unlocked.values():
            event.set()

    async def _do(self, method: str, *given: Any) -> None:
        job = len(self._jobs)
        self._jobs[job] = done = trio.Event()
        self._drive(method, job, *given)
        await done.wait()
        if self._errors:
            raise RuntimeError(self._errors[0])

    def _drive(self, what: str, *given: Any) -> None:
        """Have the script go on until it waits, and do what it asks for."""
        at = [round(1000 * (trio.current_time() - self._tab.world.began)), self._tab.number]
        self._program.write(tab=self._number, what=what, given=given, at=at)
        while (said := self._program.read())["what"] != "idle":
            assert said["tab"] == self._number, said
            self._hear(said["what"], said["given"], said.get("number"))

    def _hear(self, what: str, given: list[Any], number: int | None) -> None:
        tab = self._tab
        if what in ("get", "put", "remove", "word"):
            try:
                value = str(tab.words()) if what == "word" else getattr(tab, what)(*given)
                self._program.write(value=value)
            except GoneError:
                self._program.write(gone=True)
        elif not tab.alive:
            return
        elif what == "changed":
            self._change(given[0])
        elif what == "done":
            job, error = given
            self._errors += [] if error is None else [error]
            self._jobs[job].set()
        elif what == "unlock":
            self._unlocked[given[0]].set()
        else:
            assert number is not None
            tasks = {"fetch": self._fetch, "sleep": self._sleep, "lock": self._lock}
            tab.world.nursery.start_soon(tasks[what], number, *given)

    def _change(self, state: dict[str, Any]) -> None:
        self.state = State(
            name=state["name"],
            shown=bool(state.get("shown")),
            counted=state.get("counted"),
            unsent=bool(state.get("unsent")),
            reason=str(state.get("reason", "")),
        )
        self._tab.changed(self.state)

    async def _fetch(self, number: int, path: str, body: str | None) -> None:
        try:
            found = await self._tab.fetch(path, None if body is None else bytes.fromhex(body))
        except GoneError:
            return
        except OSError:
            self._settle(number, None, lost=True)
            return
        self._settle(number, [found[0], found[1].hex(), found[2]])

    async def _sleep(self, number: int, seconds: float) -> None:
        await trio.sleep(seconds)
        self._settle(number, None)

    async def _lock(self, number: int, name: str) -> None:
        async with self._tab.device.locks.setdefault(name, trio.Lock()):
            if self._tab.alive:
                self._unlocked[number] = trio.Event()
                self._settle(number, number)
                await self._unlocked[number].wait()

    def _settle(self, number: int, value: Any, *, lost: bool = False) -> None:
        if self._tab.alive:
            self._drive("settle", number, value, lost)
