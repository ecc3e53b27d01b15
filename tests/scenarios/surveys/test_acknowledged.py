"""Who says "done" has its report and its head on the aggregator's disk, whenever that is killed."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from parties.keeping.packing import Unpacked
from protocol.messages import DONE
from protocol.transcript.entries import Sent
from protocol.transcript.reader import TranscriptReader
from protocol.wire.codec import decode_envelope
from scenarios.surveys.members import read_member
from tests.scenarios.command import sottovoce
from tests.scenarios.survey_folders import ROWS, aggregating, answer_alone, plan_file, table
from transports.testing import HANGS

TRIES = 0.3
"""How long parties try to reach an aggregator that is gone, in seconds."""


def folders(folder: Path, parties: int) -> Path:
    out = folder / "keys"
    assert sottovoce("keys", plan_file(folder), "--count", parties, "--out", out).code == 0
    return out


def on_disk(out: Path) -> dict[str, set[str]]:
    """What of each party can be read, by kind."""
    [path] = out.glob("transcript.svt.zst*")
    found: dict[str, set[str]] = {}
    for entry in TranscriptReader(Unpacked(path.read_bytes())):
        if isinstance(entry, Sent):
            envelope = decode_envelope(entry.envelope)
            found.setdefault(envelope.sender, set()).add(envelope.kind)
    return found


def everybody(keys: Path, where: str, *, waiting: float = TRIES) -> dict[str, str]:
    """How each party ends; each has a thread of its own."""
    host, _, port = where.rpartition(":")
    records = table(keys / "records.csv", *ROWS)

    def answer(folder: Path) -> str:
        return answer_alone(
            read_member(folder),
            host=host,
            port=int(port),
            records=records,
            budget=None,
            waiting=waiting,
        ).ending

    parties = sorted(keys.glob("party-*"))
    with ThreadPoolExecutor(len(parties)) as pool:
        return dict(zip((path.name for path in parties), pool.map(answer, parties), strict=True))


def killed_at(size: int, out: Path) -> Callable[[subprocess.Popen[str]], None]:
    """Kills an aggregator once its record has so many bytes, or its name."""

    def kill(aggregator: subprocess.Popen[str]) -> None:
        partial = out / "transcript.svt.zst.partial"
        while partial.exists() and partial.stat().st_size < size and aggregator.poll() is None:
            time.sleep(0.0005)
        aggregator.kill()

    return kill


def trial(folder: Path, parties: int, share: float, whole: int) -> tuple[int, int]:
    """Kill an aggregator when a share of its record is there; who was done, who had reported."""
    folder.mkdir()
    keys, out = folders(folder, parties), folder / "out"
    with (
        aggregating(keys, out, "--joining", 60) as (aggregator, where, _),
        ThreadPoolExecutor(1) as killer,
    ):
        begun = (out / "transcript.svt.zst.partial").stat().st_size
        size = begun + int(share * (whole - begun))
        killed = killer.submit(killed_at(size, out), aggregator)
        endings = everybody(keys, where)
        killed.result(timeout=HANGS)
    found = on_disk(out)
    done = [name for name, ending in endings.items() if ending == DONE]
    for name in done:
        assert found.get(name) == {"Report", "Head"}, (name, share, endings)
    return len(done), sum("Report" in kinds for kinds in found.values())


def undisturbed(folder: Path, parties: int) -> int:
    """The size of a record of that many parties, who are all done."""
    keys, out = folders(folder, parties), folder / "out"
    with aggregating(keys, out) as (aggregator, where, _):
        endings = everybody(keys, where)
        assert aggregator.wait(timeout=HANGS) == 0
    assert set(endings.values()) == {DONE}
    assert sum(kinds == {"Report", "Head"} for kinds in on_disk(out).values()) == parties
    return (out / "transcript.svt.zst").stat().st_size


def test_who_is_done_is_on_disk(tmp_path: Path) -> None:
    """The process is killed, and not the machine: that it waits for the disk, commits are for."""
    whole = undisturbed(tmp_path, 5)
    shares = (0.6, 0.8, 0.95, 0.4)
    found = (trial(tmp_path / str(share), 5, share, whole) for share in shares)
    # Some were done, and some were not in time: else nothing was tested.
    assert any(0 < done < 5 for done, _ in found)


@pytest.mark.slow
def test_who_is_done_is_on_disk_of_twenty(tmp_path: Path) -> None:
    whole = undisturbed(tmp_path, 20)
    found = [trial(tmp_path / str(i), 20, i / 16, whole) for i in range(16)]
    # Some were done, and some were not in time: else nothing was tested.
    assert any(0 < done < 20 for done, _ in found), found
