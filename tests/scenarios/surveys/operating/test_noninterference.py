"""What is told of a survey does not depend on what anybody holds."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import trio
from trio.testing import MockClock

from parties.actor import aggregator, run_machine
from parties.session import start_members
from protocol import AGGREGATOR, Records
from protocol.messages import Envelope
from protocol.session.exchange import Exchange
from protocol.session.fates import Fate
from protocol.simulation.setting import make_setting
from protocol.transcript.entries import Sent
from protocol.transcript.header import make_header
from protocol.transcript.reader import TranscriptReader
from protocol.transcript.recorder import Recorder
from scenarios.surveys.operating.live_line import progress_line
from scenarios.surveys.operating.logs import json_log
from scenarios.surveys.operating.metrics import exposition, health
from scenarios.surveys.operating.progress import Counts, Progress
from tests.every_variant import PARTIES, Example, examples
from tests.tiers import thinned
from transports.memory import open_memory
from transports.switch import Switch

DELAY = 0.25
"""How long a message is under way, or twice to four times as long, in seconds."""

EXPOSED = importlib.util.find_spec("prometheus_client") is not None
ONE_OF_EACH = {example.variant.name: example for example in reversed(examples())}
"""An example of every variant."""


class Told(NamedTuple):
    """Everything that was told of a survey, and what was said in it."""

    log: str
    shown: list[str]
    said: set[bytes]


def shown(counts: Counts) -> str:
    """All that is made of counts."""
    exposed = exposition(counts).body.decode() if EXPOSED else ""
    return f"{counts}\n{progress_line(counts)}\n{health(counts)}\n{exposed}"


def hold(example: Example, records: Records, seed: int, folder: Path) -> Told:
    """Hold a survey over memory, in virtual time, and look whenever messages are under way."""
    seen: list[str] = []
    parts: list[bytes] = []
    where = make_setting(example.variant, records, seed=seed, parties=PARTIES)
    charter = where.charter

    def late(envelope: Envelope) -> Fate:
        return Fate(delay=DELAY * (1 + charter.roster.position[envelope.sender] % 4))

    async def survey(progress: Progress) -> None:
        async def look() -> None:
            await trio.sleep(DELAY / 2)
            while True:
                seen.append(shown(progress.counts()))
                await trio.sleep(DELAY)

        async def tell() -> None:
            await trio.sleep(DELAY / 2)
            await progress.tell_changes()

        watch = progress.follow(charter)
        recorder = Recorder(parts.append, make_header(charter, seed=where.seed), watch=watch)
        exchange = Exchange(charter, recorder=recorder, fate=late)
        switch = Switch(exchange)
        async with open_memory(switch) as hub, trio.open_nursery() as nursery:
            progress.opened(switch)
            nursery.start_soon(look)
            nursery.start_soon(tell)
            start_members(
                nursery,
                charter,
                hub,
                where.streams,
                where.holdings,
                {},
                identities=where.identities,
            )
            async with hub.connect(AGGREGATOR) as link:
                progress.joining(1.0)
                await hub.joined(charter.roster.parties, within=1.0)
                machine = aggregator(
                    charter, streams=where.streams, identity=where.identities[AGGREGATOR]
                )
                progress.asking(machine)
                await run_machine(machine, link)
            progress.ending()
            await trio.sleep(2.0)
            nursery.cancel_scope.cancel()
        recorder.close()

    path = folder / f"{len([*folder.iterdir()])}.json"
    with json_log(str(path)) as tell:
        trio.run(survey, Progress(tell), clock=MockClock(autojump_threshold=0))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    untimed = [{**line, "time": ""} for line in lines]
    entries = TranscriptReader(b"".join(parts))
    said = {entry.envelope for entry in entries if isinstance(entry, Sent)}
    return Told(json.dumps(untimed), seen, said)


def with_another(records: Records) -> Records:
    """The same people, of whom the first holds something else."""
    codes = np.array(records.codes)
    codes[0] = (codes[0] + 1) % np.array(records.survey.sizes)
    return Records(records.survey, codes)


@pytest.mark.parametrize("name", thinned(ONE_OF_EACH, 8))
def test_what_is_told_is_the_same_whatever_one_holds(name: str, tmp_path: Path) -> None:
    """In two worlds with the same randomness, of which one record differs."""
    example = ONE_OF_EACH[name]
    for seed in range(3, 40):
        told = hold(example, example.records, seed, tmp_path)
        other = hold(example, with_another(example.records), seed, tmp_path)
        assert told.shown == other.shown
        assert told.log == other.log
        assert len(set(told.shown)) > 5
        assert '"wait closed"' in told.log
        if told.said != other.said:
            return
    raise AssertionError("with each seed, the same was said in both worlds")
