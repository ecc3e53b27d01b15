"""``simulate`` over workers: the digest of one process, and whoever is lost with a worker named."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from protocol import Me, Noise, PartyId, ProtocolError, QuorumError, Records, SecureSum
from protocol.errors import UsageError
from protocol.messages import DONE, LINK_CLOSED
from protocol.session.charter import Charter
from protocol.session.exchange import Exchange
from protocol.session.fates import Verdict
from protocol.simulation.setting import make_setting
from protocol.transcript.entries import Entry, Sent
from protocol.variants import RRBA, RRIndependent, SecureSumVariant
from protocol.variants.reports.reports import Report
from scenarios import Outcome, simulate, town
from scenarios.data.town import TOWN
from scenarios.running.engines.engine import Engine, Lost
from scenarios.running.engines.here import Here
from scenarios.running.engines.processes import Processes
from scenarios.running.workers import ShardEnded, run_in_workers, run_shard
from tests.every_variant import PARTIES, Example, examples
from tests.scenarios.command import sottovoce
from tests.tiers import thinned
from transports.faults import Fault, crash, cut, delay, drop, duplicate

RECORDS = town(24, seed=2)
VARIANT = RRIndependent.with_keep(TOWN, 0.6)


class Threads(Engine):
    """Workers that are threads of this process."""

    name = "threads"
    jobs = window = 2

    def __init__(self) -> None:
        self._done: list[tuple[int, Any]] = []
        self._some = threading.Condition()
        self._under_way = 0

    @property
    def under_way(self) -> int:
        return self._under_way

    def submit(
        self, key: int, kernel: Callable[[Any], Any], argument: Any, *, again: bool = True
    ) -> None:
        def run() -> None:
            result = kernel(argument)
            with self._some:
                self._done.append((key, result))
                self._some.notify()

        self._under_way += 1
        threading.Thread(target=run).start()

    def drain(self) -> list[tuple[int, Any]]:
        with self._some:
            self._some.wait_for(lambda: self._done)
            done, self._done = self._done, []
        self._under_way -= len(done)
        return done

    def close(self) -> None:
        pass


class Dying(Threads):
    """The worker with number 1 dies before it does anything."""

    def submit(
        self, key: int, kernel: Callable[[Any], Any], argument: Any, *, again: bool = True
    ) -> None:
        if kernel is run_shard and key == 1:
            assert not again
            super().submit(key, lambda _: Lost("its worker was killed"), argument)
        else:
            super().submit(key, kernel, argument)


class Hanging(Threads):
    """Its workers never come, until it is closed."""

    def __init__(self) -> None:
        super().__init__()
        self._over = threading.Event()

    def submit(
        self, key: int, kernel: Callable[[Any], Any], argument: Any, *, again: bool = True
    ) -> None:
        super().submit(key, lambda _: self._over.wait() and ShardEnded({}), argument)

    def close(self) -> None:
        self._over.set()


over_threads = functools.partial(simulate, workers=2, engine=Threads())


@pytest.mark.parametrize("transport", thinned([None, "tls"], 1))
def test_the_digest_is_that_of_one_process(transport: Any) -> None:
    here = simulate(VARIANT, RECORDS)
    outcome = over_threads(VARIANT, RECORDS, transport=transport)
    assert outcome.digest == here.digest
    assert (outcome.messages, outcome.bytes) == (here.messages, here.bytes)
    assert outcome.transport == (transport or "tcp")
    assert outcome.endings == here.endings
    assert outcome.transcript.audit(RRIndependent, digest=outcome.digest).verdict == "sound"


@pytest.mark.parametrize("example", thinned(examples(), 21), ids=lambda example: example.name)
def test_every_variant_over_workers(example: Example) -> None:
    outcome = over_threads(example.variant, example.records, parties=PARTIES)
    here = simulate(example.variant, example.records, parties=PARTIES)
    assert outcome.digest == here.digest
    assert set(outcome.endings.values()) == {DONE}


@pytest.mark.parametrize(
    "rules",
    [
        (cut(0.3, kind="Report"), duplicate(0.5), delay(0.001, share=0.5)),
        (crash(0.3, kind="Report"),),
        (drop(0.0),),
        (Fault(verdict=Verdict.CRASH, sender=PartyId("party-02")),),
    ],
)
def test_faults_are_those_of_one_process(rules: tuple[Fault, ...]) -> None:
    here = simulate(VARIANT, RECORDS, rules=rules)
    outcome = over_threads(VARIANT, RECORDS, rules=rules)
    assert outcome.digest == here.digest
    assert outcome.trouble == here.trouble


def test_a_budget_holds_in_workers() -> None:
    with pytest.raises(QuorumError):
        over_threads(VARIANT, RECORDS, budget=0.1)
    assert over_threads(VARIANT, RECORDS, budget=7.0).counted == 24


def test_a_consent_holds_in_workers() -> None:
    """With it parties sum with coins under a budget, wherever they are; without it they decline."""
    variant = SecureSumVariant(survey=TOWN, sums=SecureSum(noise=Noise(trials=100)))
    allowed = {"budget": 9.0, "honest": 8, "delta": 1e-9}
    here = simulate(variant, RECORDS, **allowed)
    assert set(here.endings.values()) == {DONE}
    assert simulate(variant, RECORDS, transport="memory", **allowed).digest == here.digest
    assert over_threads(variant, RECORDS, **allowed).digest == here.digest
    for refused in ({"budget": 9.0}, {**allowed, "delta": 0.0}):
        for held in (simulate, over_threads):
            with pytest.raises(QuorumError):
                held(variant, RECORDS, **refused)


@pytest.mark.slow
def test_real_workers(tmp_path: Path) -> None:
    path = tmp_path / "transcript.svt.zst"
    with Processes(2) as engine:
        outcome = simulate(VARIANT, RECORDS, workers=2, engine=engine, path=path)
    assert outcome.digest == simulate(VARIANT, RECORDS).digest
    assert outcome.transcript.audit(RRIndependent, digest=outcome.digest).verdict == "sound"
    assert outcome.transcript.path == path


def killed(sent: int) -> Outcome:
    """A survey by two processes, of which the first is killed once so many messages are sent.

    Everybody is asked, but the question is on its way for so long that nobody has answered.
    """
    recorded: list[list[Entry]] = []

    def watch(charter: Charter) -> Callable[[Entry], object]:
        recorded.append([])
        return recorded[-1].append

    with Processes(2) as engine:

        def kill() -> None:
            def is_time() -> bool:
                there = sum(isinstance(entry, Sent) for entry in [*recorded[0]])
                return bool(engine._workers[0].task) and there >= sent

            while not (recorded and is_time()):
                time.sleep(0.001)
            engine._workers[0].process.kill()

        killer = threading.Thread(target=kill)
        killer.start()
        try:
            return simulate(
                VARIANT,
                RECORDS,
                workers=2,
                engine=engine,
                watch=watch,
                rules=(delay(1.0, kind="Ask"),),
            )
        finally:
            killer.join()


FIRST_HALF = [PartyId(f"party-{i:02}") for i in range(1, 13)]
SECOND_HALF = [PartyId(f"party-{i:02}") for i in range(13, 25)]


@pytest.mark.slow
def test_a_worker_that_is_killed_midway() -> None:
    outcome = killed(24)
    assert {outcome.endings[name] for name in SECOND_HALF} == {DONE}
    assert {outcome.endings[name] for name in FIRST_HALF} == {
        "lost with worker 1: its worker was killed by SIGKILL"
    }
    assert list(outcome.trouble.values()) == [12]
    assert [*outcome.trouble] == ["lost with worker 1: its worker was killed by SIGKILL"]
    assert outcome.counted == outcome.estimate.n == 12
    [closing] = outcome.completeness.closings
    assert list(closing.missing) == FIRST_HALF
    assert outcome.transcript.audit(RRIndependent, digest=outcome.digest).verdict == "sound"


@pytest.mark.slow
def test_a_worker_that_is_killed_before_it_comes() -> None:
    outcome = killed(0)
    assert {outcome.endings[name] for name in SECOND_HALF} == {DONE}
    assert {outcome.endings[name] for name in FIRST_HALF} == {
        "lost with worker 1: its worker was killed by SIGKILL"
    }
    assert outcome.counted == 12


def test_a_worker_that_dies_at_once() -> None:
    outcome = simulate(VARIANT, RECORDS, workers=2, engine=Dying())
    assert outcome.trouble == {"lost with worker 1: its worker was killed": 12}
    with pytest.raises(QuorumError, match="lost with worker 1: its worker was killed"):
        simulate(VARIANT, RECORDS, workers=1, engine=Dying())


def test_a_survey_that_fails_says_which_worker_was_lost() -> None:
    variant = RRBA(survey=TOWN, p=0.6, block=4)
    with pytest.raises(ProtocolError, match="parties sent valid answers") as raised:
        simulate(variant, RECORDS, workers=1, engine=Dying())
    assert raised.value.__notes__ == ["lost with worker 1: its worker was killed"]


async def test_workers_that_never_come() -> None:
    setting = make_setting(VARIANT, RECORDS, seed=1)
    with Hanging() as engine, pytest.raises(QuorumError, match="party-01: never came"):
        await run_in_workers(
            Exchange(setting.charter),
            setting,
            RECORDS,
            engine,
            workers=2,
            secured=False,
            joining=0.1,
            linger=0.1,
        )


class Endless(RRIndependent, frozen=True):
    """Its parties go on waiting for each other."""

    whole_roster = True

    async def party(self, me: Me, records: Records) -> None:
        await super().party(me, records)
        await me.receive(Report, next(name for name in me.roster.parties if name != me.id))


async def test_who_does_not_end_is_dismissed() -> None:
    setting = make_setting(Endless.with_keep(TOWN, 0.6), RECORDS, seed=1)
    exchange = Exchange(setting.charter)
    run = await run_in_workers(
        exchange, setting, RECORDS, Threads(), workers=2, secured=False, linger=0.1
    )
    assert set(run.endings.values()) == {"did not end in time"}
    assert set(exchange.departed.values()) == {LINK_CLOSED}


def _failing(_: object) -> object:
    raise ZeroDivisionError("a defect")


def test_a_defect_in_a_worker_comes_out_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scenarios.running.workers.run_shard", _failing)
    with pytest.raises(ZeroDivisionError, match="a defect"):
        simulate(VARIANT, RECORDS, workers=1, engine=Here())


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"workers": 2, "parties": 1}, "2 workers: expected at most 1, one for each party"),
        ({"workers": 0}, "0 workers: expected at least 1"),
        ({"workers": 2, "transport": "memory"}, "expected the transport tcp or tls, not memory"),
        ({"workers": 2, "transport": "local"}, "expected the transport tcp or tls, not local"),
        ({"workers": 2, "engine": Here()}, "2 workers: the engine 'here' runs 1 at a time"),
        ({"workers": 2, "engine": None}, "2 workers: expected an engine too"),
    ],
)
def test_what_does_not_fit_together(options: dict[str, Any], line: str) -> None:
    with pytest.raises(UsageError, match=line):
        simulate(VARIANT, RECORDS, **{"engine": Threads(), **options})


class Unused(Threads):
    """Is handed nothing."""

    jobs = window = 99

    def submit(self, key: int, kernel: Any, argument: Any, *, again: bool = True) -> None:
        raise AssertionError("a worker was started")


def test_more_workers_than_parties_are_refused_before_any_is_started() -> None:
    with pytest.raises(UsageError, match=f"expected at most {len(RECORDS)}, one for each party"):
        simulate(VARIANT, RECORDS, workers=len(RECORDS) + 1, engine=Unused())


QUICK = ("run", "quickstart", "--set", "residents=60", "--seed", 3)


@pytest.mark.slow
def test_the_command(tmp_path: Path) -> None:
    here = sottovoce(*QUICK, "--json")
    said = sottovoce(*QUICK, "--json", "--workers", 2, "--transport", "tls", "--out", tmp_path)
    assert (said.code, said.err) == (0, "")
    assert said.json["transcript"]["digest"] == here.json["transcript"]["digest"]
    assert said.json["transport"] == "tls"
    assert sottovoce("audit", tmp_path / "transcript.svt.zst").code == 0


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("--transport", "memory"), "--workers 2: expected --transport tcp or tls, not memory"),
        (("--engine", "here"), "--workers 2: expected --engine processes or ray, not here"),
        (("--jobs", 2), "--jobs 2: expected --workers alone, which says how many"),
        (("--address", "there"), "--address is for the engine 'ray', not 'processes'"),
    ],
)
def test_options_that_do_not_fit(options: tuple[object, ...], line: str) -> None:
    said = sottovoce(*QUICK, "--workers", 2, *options)
    assert (said.code, said.out) == (2, "")
    assert line in said.err


@pytest.mark.slow
def test_a_reproduction_has_no_workers_but_by_messages() -> None:
    said = sottovoce("run", "ind-joint-example", "--workers", 2)
    assert said.err.startswith("sottovoce: --workers: 'ind-joint-example' is a reproduction;")
    said = sottovoce("run", "ind-joint-example", "--by-messages", "--workers", 2, "--json")
    assert said.code == 0, said.err
