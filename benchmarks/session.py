"""Benchmarks of whole surveys: enrolment, live actors, the local executor, recording."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import trio
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from benchmarks.timing import Benchmark, Side, elapsed
from parties.session import run_session
from protocol import Records, randomize_columns
from protocol.messages import ROLE_STREAM
from protocol.session.exchange import Exchange
from protocol.session.local import run_locally
from protocol.session.roster import Identity
from protocol.simulation.setting import Setting, make_setting, simulated_identity
from protocol.transcript.header import make_header
from protocol.transcript.recorder import Recorder
from protocol.variants import RRIndependent
from protocol.variants.reports.reports import Report
from scenarios import simulate, town
from scenarios.surveys.enrolment.letters import Invitation, encode_letter, read_letter
from transports.memory import open_memory
from transports.switch import Switch

RESPONDENTS = 32_561
KEEP = 0.7
SEED = 1

_STATEMENT = bytes(150)

_PLAN = """
title = "Town"
epsilon = 1.0

[[attributes]]
name = "smokes"
categories = ["no", "yes"]
"""


def actors() -> Benchmark:
    """A survey of one live actor per respondent over memory, from records to digest.

    The floor is what every respondent costs under any executor: a key made and a signature by it, a
    keystream, a randomized record, an encoded report, an empty task. Aim: 1.8 times that.
    """
    setting = _setting()
    variant, records = setting.charter.variant, _records()
    respondents = len(records)

    def live() -> object:
        return simulate(variant, records, seed=SEED, transport="memory")

    return Benchmark(
        title=f"{_what(records)}, simulate over memory, against their own work alone",
        unit="respondent",
        units=respondents,
        product=Side(name="memory", run=lambda: elapsed(live)),
        floors=(
            Side(name="key, signature", run=lambda: elapsed(lambda: _keys_alone(setting))),
            Side(
                name="keystream, record, report",
                run=lambda: elapsed(lambda: _reports_alone(setting)),
            ),
            Side(name="empty tasks", run=lambda: trio.run(_empty_tasks, respondents)),
        ),
        aim=1 / 1.8,
        repeats=3,
    )


def enrolment(parties: int) -> Benchmark:
    """Enrol so many parties by the organiser's commands, each a process of its own.

    The parties' keys and requests are made in this process meanwhile, and timed too. It prints
    what each step took, and its most memory; on a party's disk is what is in an admission.

    The floor is the bare cryptography: an invitation's key and a party's, two signatures in a
    request and their verification, a certificate and a signed admission.
    """

    def run() -> float:
        with tempfile.TemporaryDirectory(prefix="enrolment-") as name:
            return _enrol(Path(name), parties)

    return Benchmark(
        title=f"{parties:,} parties invited, admitted and sealed",
        unit="party",
        units=parties,
        product=Side(name="commands", run=run),
        floors=(Side(name="keys and signatures", run=lambda: _bare_keys(parties)),),
        repeats=2,
    )


def _enrol(folder: Path, parties: int) -> float:
    plan, organiser, inbox = folder / "plan.toml", folder / "organiser", folder / "inbox"
    plan.write_text(_PLAN, encoding="utf-8")
    inbox.mkdir()

    def join() -> None:
        for path in (organiser / "invitations").iterdir():
            invitation = read_letter(path, Invitation)
            identity = Identity(invitation.party, os.urandom(32))
            (inbox / path.name).write_bytes(encode_letter(invitation.request(identity)))

    steps: tuple[tuple[str, Callable[[], tuple[float, float, int]]], ...] = (
        ("invite", lambda: _command("invite", plan, "--count", parties, "--out", organiser)),
        ("join", lambda: _here(join)),
        ("admit", lambda: _command("admit", organiser, inbox)),
        ("seal", lambda: _command("seal", organiser)),
    )
    total = 0.0
    for name, step in steps:
        seconds, computing, peak = step()
        memory = f", {peak / 2**20:.0f} MB" if peak else ""
        print(
            f"    {name}: {seconds:.1f} s, {computing:.1f} s of them computing{memory}", flush=True
        )
        total += seconds
    admission = next((organiser / "sealed" / "admissions").iterdir())
    print(f"    an admission: {admission.stat().st_size:,} bytes")
    return total


def _here(action: Callable[[], object]) -> tuple[float, float, int]:
    """As ``_command`` for what this process does, whose memory says nothing."""
    computing = time.process_time()
    seconds = elapsed(action)
    return seconds, time.process_time() - computing, 0


def _command(*arguments: object) -> tuple[float, float, int]:
    """Run a command; how many seconds it takes and computes, and its most memory in bytes."""
    started = time.perf_counter()
    program = subprocess.Popen([sys.executable, "-m", "scenarios", *map(str, arguments)])
    _, status, used = os.wait4(program.pid, 0)
    assert status == 0, arguments
    seconds = time.perf_counter() - started
    return seconds, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024


def _bare_keys(parties: int) -> float:
    started = time.perf_counter()
    authority = Ed25519PrivateKey.generate()
    for _ in range(parties):
        keys = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
        for key in keys:
            key.public_key().verify(key.sign(b"request"), b"request")
        authority.sign(b"certificate")
        authority.sign(b"admission")
    return time.perf_counter() - started


def session() -> Benchmark:
    """As ``actors``, but the session alone: no keys, nothing recorded. Aim: 110 us."""
    setting = _setting()

    async def live() -> float:
        async with open_memory(Switch(Exchange(setting.charter))) as hub:
            started = time.perf_counter()
            await run_session(setting.charter, hub, setting.streams, setting.holdings)
            return time.perf_counter() - started

    respondents = len(setting.holdings)
    return Benchmark(
        title=f"{respondents:,} actors, run_session alone (aim: 110 us)",
        unit="respondent",
        units=respondents,
        product=Side(name="memory", run=lambda: trio.run(live)),
        floors=(
            Side(
                name="keystream, record, report",
                run=lambda: elapsed(lambda: _reports_alone(setting)),
            ),
            Side(name="empty tasks", run=lambda: trio.run(_empty_tasks, respondents)),
        ),
        repeats=3,
    )


def local() -> Benchmark:
    """The local executor, without recording.

    The floor is what every respondent costs under any executor: a keystream, one randomized
    record, one encoded report.
    """
    setting = _setting()
    return Benchmark(
        title=f"{len(setting.holdings):,} respondents, run_locally, against their own work alone",
        unit="respondent",
        units=len(setting.holdings),
        product=Side(name="run_locally", run=lambda: _locally(setting)),
        floors=(
            Side(
                name="keystream, record, report",
                run=lambda: elapsed(lambda: _reports_alone(setting)),
            ),
        ),
        repeats=5,
    )


def recording() -> Benchmark:
    """The local executor with a recorder that writes nowhere, against none."""
    setting = _setting()
    return Benchmark(
        title=f"{len(setting.holdings):,} respondents, run_locally, recording on against off",
        unit="respondent",
        units=len(setting.holdings),
        product=Side(name="recorded", run=lambda: _locally(setting, recorded=True)),
        floors=(Side(name="not recorded", run=lambda: _locally(setting)),),
        repeats=5,
    )


def _reports_alone(setting: Setting) -> None:
    """For each respondent a keystream, a randomized record, an encoded report."""
    variant = setting.charter.variant
    if not isinstance(variant, RRIndependent):
        raise TypeError(f"{variant.name}: expected {RRIndependent.name}")
    randomizers, codec = variant.randomizers, setting.charter.codec
    for name, records in setting.holdings.items():
        stream = setting.streams.stream(name, ROLE_STREAM)
        codec.encode(Report(randomize_columns(randomizers, records.codes, stream)))


def _keys_alone(setting: Setting) -> None:
    """For each respondent a key from its keystream, and a signature by it."""
    for name in setting.holdings:
        simulated_identity(setting.streams, name).sign(_STATEMENT)


def _records() -> Records:
    """A town as large as Adult."""
    return town(RESPONDENTS, seed=SEED)


def _what(records: Records) -> str:
    return f"{len(records):,} actors on {records.survey.title}"


def _setting() -> Setting:
    records = _records()
    return make_setting(RRIndependent.with_keep(records.survey, KEEP), records, seed=SEED)


def _locally(setting: Setting, *, recorded: bool = False) -> float:
    started = time.perf_counter()
    recorder = Recorder(len, make_header(setting.charter, seed=SEED)) if recorded else None
    run_locally(Exchange(setting.charter, recorder=recorder), setting.streams, setting.holdings)
    if recorder is not None:
        recorder.close()
    return time.perf_counter() - started


async def _empty_tasks(count: int) -> float:
    async def nothing() -> None:
        pass

    started = time.perf_counter()
    async with trio.open_nursery() as nursery:
        for _ in range(count):
            nursery.start_soon(nothing)
    return time.perf_counter() - started
