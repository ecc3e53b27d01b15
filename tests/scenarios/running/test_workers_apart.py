"""Live parties over workers in a process of its own: large surveys, and Ray."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from protocol import Records, SecureSum, Variant
from protocol.messages import DONE
from protocol.variants import RRBA, PairCounts, RRIndependent
from scenarios import open_transcript, simulate, town
from scenarios.data.town import TOWN
from tests.scenarios.running.engines.ray_apart import needs_ray, started

PATIENT = 3600.0
ENGINES = ("processes", pytest.param("ray", marks=needs_ray))


def survey(name: str) -> tuple[Variant, Records]:
    """A survey by its name; nobody is counted out because the machine is busy."""
    sums = SecureSum(profile="sparse")
    variant, respondents = {
        "small": (RRIndependent.with_keep(TOWN, 0.6), 24),
        "rr-independent": (RRIndependent.with_keep(TOWN, 0.6), 100_000),
        "rrba": (RRBA(survey=TOWN, p=0.6, block=5000), 100_000),
        "sparse-sum": (PairCounts(survey=TOWN, sums=sums), 1000),
    }[name]
    return msgspec.structs.replace(variant, patience=PATIENT), town(respondents, seed=2)


RUN = """
import json, os, signal, sys, threading, time
from pathlib import Path
from protocol.transcript.entries import Sent
from scenarios import delay, open_engine, simulate
from tests.scenarios.running.engines.proc import family
from tests.scenarios.running.test_workers_apart import survey

engine_name, name, path, killing = sys.argv[1:]
variant, records = survey(name)
sent = []

def watch(charter):
    return lambda entry: isinstance(entry, Sent) and sent.append(entry)

def workers():
    for pid in family(os.getpid()):
        try:
            if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"ray::carried_out"):
                yield pid
        except OSError:
            pass

def kill():
    while len(sent) < len(records):
        time.sleep(0.001)
    os.kill(min(workers()), signal.SIGKILL)

rules = ()
if killing == "killing":
    threading.Thread(target=kill, daemon=True).start()
    rules = (delay(2.0, kind="Ask"),)
with open_engine(engine_name, jobs=2) as engine:
    outcome = simulate(
        variant, records, workers=2, engine=engine, path=Path(path), rules=rules,
        watch=watch,
    )
print(json.dumps([outcome.digest.hex(), sorted(set(outcome.endings.values())), outcome.trouble]))
"""


def run(engine: str, name: str, path: Path, killing: str = "") -> list[object]:
    with started("-c", RUN, engine, name, path, killing, home=path.parent) as process:
        out, err = process.communicate(timeout=3600)
    assert process.returncode == 0, err
    said: list[object] = json.loads(out)
    return said


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["rr-independent", "rrba", "sparse-sum"])
def test_large_surveys(name: str, engine: str, tmp_path: Path) -> None:
    path = tmp_path / "transcript.svt.zst"
    variant, records = survey(name)
    here = simulate(variant, records)
    assert run(engine, name, path) == [here.digest.hex(), [DONE], {}]
    transcript = open_transcript(path)
    assert transcript.verify(digest=here.digest).intact
    assert transcript.audit(type(variant), digest=here.digest).verdict == "sound"


@pytest.mark.slow
@needs_ray
def test_a_worker_of_ray_that_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "transcript.svt.zst"
    digest, endings, trouble = run("ray", "small", path, "killing")
    assert trouble in [{f"lost with worker {n}: its worker died": 12} for n in (1, 2)]
    assert endings in [[DONE, f"lost with worker {n}: its worker died"] for n in (1, 2)]
    audit = open_transcript(path).audit(RRIndependent, digest=bytes.fromhex(str(digest)))
    assert audit.verdict == "sound"
