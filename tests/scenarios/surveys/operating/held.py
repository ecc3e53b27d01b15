"""A survey of this process: the aggregator in the main thread, parties in others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import trio

from parties.keeping.packing import Unpacked
from protocol import AGGREGATOR
from protocol.transcript.entries import Entry
from protocol.transcript.reader import TranscriptReader
from scenarios import Outcome
from scenarios.surveys.answering import Answered
from scenarios.surveys.holding.aggregating import aggregate_survey
from scenarios.surveys.members import read_member, tls_context
from scenarios.surveys.operating.joining import close_joining
from scenarios.surveys.operating.operation import Operation
from tests.scenarios.survey_folders import ROWS, answer_alone, table
from transports.lasting.link import connect_lasting
from transports.testing import HANGS
from transports.tls import client_context

WAITING = 0.5
"""How long parties try to reach an aggregator that is gone, in seconds."""


def hold(
    keys: Path,
    out: Path,
    operation: Operation,
    parties: Sequence[str] = (),
    *,
    silent: str = "",
    joining: float = 60.0,
    resume: bool = False,
) -> tuple[Outcome | Exception, dict[str, Answered]]:
    """Hold a survey: what came of it, and what of each party that answers.

    Args:
        silent: a party that connects, and says nothing.
    """
    where: list[str] = []
    listening = threading.Event()
    records = table(keys / "records.csv", *ROWS)

    def heard(address: str) -> None:
        where.append(address)
        listening.set()

    def answer(name: str) -> Answered:
        assert listening.wait(HANGS)
        host, _, port = where[0].rpartition(":")
        return answer_alone(
            read_member(keys / name),
            host=host,
            port=int(port),
            records=records,
            budget=None,
            waiting=WAITING,
        )

    async def stay() -> None:
        member = read_member(keys / silent)
        host, _, port = where[0].rpartition(":")
        tls = tls_context(member.folder, client_context)
        async with connect_lasting(
            host, int(port), charter=member.charter, identity=member.identity, tls=tls
        ):
            await trio.sleep_forever()

    if silent:
        operation.tasks = (*operation.tasks, stay)
    with ThreadPoolExecutor(len(parties) + 1) as pool:
        answering = {name: pool.submit(answer, name) for name in parties}
        outcome: Outcome | Exception
        try:
            outcome = aggregate_survey(
                read_member(keys / AGGREGATOR),
                host="127.0.0.1",
                port=0,
                transcript=out / "transcript.svt.zst",
                joining=joining,
                listening=heard,
                operation=operation,
                resume=resume,
            )
        except Exception as error:
            outcome = error
        listening.set()
        return outcome, {name: said.result(HANGS) for name, said in answering.items()}


def entries(out: Path) -> list[Entry]:
    """What is on record, whole or partial."""
    [path] = out.glob("transcript.svt.zst*")
    return list(TranscriptReader(Unpacked(path.read_bytes())))


def closed_when(operation: Operation, keys: Path, connected: int) -> None:
    """End the joining once so many are connected; the operation's folder is the aggregator's."""

    async def close() -> None:
        await until(lambda: operation.progress.counts().connected == connected)
        close_joining(keys / AGGREGATOR)

    operation.tasks = (*operation.tasks, close)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something to be so."""
    while True:
        if condition():
            return
        await trio.sleep(0.001)
