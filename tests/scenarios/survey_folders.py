"""A survey's plan, records and folders, and its aggregator as a program of its own."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import trio

from parties.keeping.attempts import counting
from parties.keeping.members import Member
from protocol import AGGREGATOR
from scenarios import Outcome
from scenarios.surveys.answering import Answered, Answering, answer_survey
from scenarios.surveys.holding.aggregating import aggregate_survey
from scenarios.surveys.members import read_member
from tests.scenarios.command import sottovoce
from tests.scenarios.programs import Program
from transports.lasting.link import PATIENCE
from transports.testing import HANGS

PLAN = """
title = "Health"
epsilon = 2.0
quorum = 2
max_records = 3
patience = 20.0

[[attributes]]
name = "smokes"
categories = ["no", "yes"]

[[attributes]]
name = "age"
categories = ["young", "middle", "old"]
"""
ANALYSIS = """
[analysis]
tables = [["smokes"], ["age", "smokes"]]
level = 0.9
projection = "clip"
"""
ROWS = ("no,young", "yes,old", "no,middle")
WHO = ("anna", "bert", "carl")
Budgets = dict[str, float | None]
"""The budget of each party that answers."""


def table(path: Path, *rows: str) -> Path:
    path.write_text("\n".join(("smokes,age", *rows)) + "\n")
    return path


def people_table(path: Path, *rows: str, header: str = "who,smokes,age") -> Path:
    """A table of records with a column of ids."""
    path.write_text("\n".join((header, *rows)) + "\n", encoding="utf-8")
    return path


def plan_file(folder: Path, text: str = PLAN) -> Path:
    path = folder / "plan.toml"
    path.write_text(text)
    return path


def closing_plan(closes: str, name: str = "rr-joint") -> str:
    """A plan of a built-in variant that says until when answers are taken."""
    return PLANS[name].replace("patience = 20.0", f"closes = {closes}")


def make_folders(folder: Path, plan: str = PLAN) -> Path:
    """Folders for the aggregator, anna, bert and carl."""
    out = folder / "keys"
    parties = ("--party", "anna", "--party", "bert", "--party", "carl")
    said = sottovoce("keys", plan_file(folder, plan), *parties, "--out", out)
    assert said.code == 0, said.err
    assert said.out.startswith("4 folders in ")
    return out


_KEYS = """
[[keys]]
name = "tea"
values = [-1.0, 1.0]

[[keys]]
name = "coffee"
values = [-1.0, 0.0, 1.0]
"""
_NUMBERS = """
[[attributes]]
name = "trips"
categories = ["0", "1", "2", "3"]
ordinal = true
"""
_PARAMETERS = {
    "rr-independent": "p = 0.6",
    "rr-joint": "p = 0.6",
    "rr-ind-joint": "p = 0.6",
    "secure-sum": "",
    "pair-counts": "",
    "pair-rr": "p = 0.3",
    "rr-clusters": "p = 0.15\ntv = 6\ntd = 0.1",
    "rrba": "p = 0.5\nk = 1\nmix = 0.5\nblock = 2",
    **{name: "epsilon = 1.0" for name in ("inp-rr", "inp-ps", "inp-ht")},
    **{name: "epsilon = 1.0" for name in ("marg-rr", "marg-ps", "marg-ht")},
    "privkv": "epsilon = 2.0",
    "privkvm": "epsilon = 2.0\nrounds = 2",
    **{name: "epsilon = 1.0" for name in ("spl", "smp", "rs-fd", "numeric-mean")},
}


def _planned(name: str, parameters: str) -> str:
    _, attributes = PLAN.split("patience = 20.0\n")
    asked = {"privkv": _KEYS, "privkvm": _KEYS, "numeric-mean": _NUMBERS}.get(name, attributes)
    head = f'title = "{name}"\nvariant = "{name}"\nquorum = 4\npatience = 20.0\n'
    return f"{head}{parameters}\n{asked}"


PLANS = {name: _planned(name, parameters) for name, parameters in _PARAMETERS.items()}
"""A plan of every variant."""
RECORDS = {
    **dict.fromkeys(PLANS, "smokes,age\nno,young\nyes,old\nno,middle\nno,old\nyes,young\nno,old\n"),
    **dict.fromkeys(("privkv", "privkvm"), "tea,coffee\n1.0,\n,0.0\n-1.0,1.0\n,\n1.0,1.0\n1.0,\n"),
    "numeric-mean": "trips\n0\n1\n2\n3\n1\n1\n",
}
"""Records of six respondents for each of them."""


COINS = PLANS["secure-sum"].replace("quorum = 4", "quorum = 2") + "\n[sums.noise]\ntrials = 400\n"
"""A plan of a sum to which parties add coins."""


def answer_alone(
    member: Member,
    *,
    host: str,
    port: int,
    repeat: Member | None = None,
    waiting: float = PATIENCE,
    **answering: Any,
) -> Answered:
    """What came of a party, answering in a program of its own, as ``Answering`` says."""
    answered = functools.partial(
        answer_survey, host=host, port=port, repeat=repeat, waiting=waiting
    )
    return trio.run(answered, member, Answering(**answering))


def hold(
    keys: Path,
    out: Path,
    budgets: Budgets,
    *,
    aggregator: Path | None = None,
    repeating: bool = False,
    publish: Callable[[Outcome], object] | None = None,
    ended: dict[str, Answered] | None = None,
    **demands: Any,
) -> dict[str, Answered]:
    """Hold the survey over TLS; how each party ended. It raises what the aggregator does.

    Args:
        ended: takes how each party ended, also if the aggregator raises.
        demands: of each party, beside its budget.
    """
    listening, where = threading.Event(), []
    out.mkdir(exist_ok=True)
    records = {name: table(out / f"{name}.csv", row) for name, row in zip(WHO, ROWS, strict=True)}

    def heard(address: str) -> None:
        where.append(address)
        listening.set()

    with ThreadPoolExecutor(4) as pool:
        holding = pool.submit(
            aggregate_survey,
            read_member(aggregator or keys / AGGREGATOR),
            host="127.0.0.1",
            port=0,
            transcript=out / "transcript.svt.zst",
            joining=60.0 if len(budgets) == len(WHO) else 1.0,
            listening=heard,
            publish=publish,
        )
        holding.add_done_callback(lambda _: listening.set())
        assert listening.wait(HANGS)
        if not where:
            holding.result(HANGS)
        host, port = where[0].rsplit(":", 1)
        answering = {
            name: pool.submit(
                answer_alone,
                read_member(keys / name),
                host=host,
                port=int(port),
                records=records[name],
                budget=budget,
                purse=keys / f"{name}.purse",
                repeat=read_member(keys / name) if repeating else None,
                **demands,
            )
            for name, budget in budgets.items()
        }
        found = {} if ended is None else ended
        found.update({name: answer.result(HANGS) for name, answer in answering.items()})
        holding.result(HANGS)
    return found


@contextmanager
def listening(*command: object) -> Generator[tuple[Program, str, str]]:
    """A program that listens, where, and what it said before; killed when the block ends."""
    program, before = Program(*command), ""
    try:
        while not (line := program.stderr.readline()).startswith("listening on "):
            assert line, before
            before += line
        yield program, line.removeprefix("listening on ").strip(), before
    finally:
        program.kill()
        program.communicate()


@contextmanager
def aggregating(
    keys: Path, out: Path, *options: object, over: bool = True
) -> Generator[tuple[Program, str, str]]:
    """An aggregator that listens, where, and what it said before; killed when the block ends.

    Args:
        over: whether its attempt is over then, so that the next one may begin.
    """
    listen = ("--listen", "127.0.0.1:0", "--out", out, "--json", *options)
    try:
        with listening("aggregate", keys / "aggregator", *listen) as found:
            yield found
    finally:
        if over:
            give_up(keys / "aggregator")


def everybody_answers(keys: Path, where: str, *options: object) -> None:
    """Anna, bert and carl answer, each in a process, and are done."""
    connect = ("--connect", where, "--waiting", 60, *options)
    records = table(keys / "records.csv", *ROWS)
    for answering in [
        Program("answer", keys / name, *connect, "--records", records, "--budget", 100)
        for name in WHO
    ]:
        answering.communicate(timeout=HANGS)


def give_up(folder: Path) -> None:
    """Have the attempt of an aggregator be over, if it has begun; its record says nothing of it."""
    with counting(folder) as counter:
        if counter.last is not None and counter.last.state == "begun":
            counter.finish()
