"""Small files that ask for gigabytes: every command ends with one line, or with what it found."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from protocol import PartyId
from protocol.session.charter import Charter
from protocol.session.roster import Roster
from protocol.sharing.messages import Join, Upload
from protocol.transcript.entries import Header
from protocol.variants import BUILT_IN
from tests.hostile.bombs import (
    alike,
    closings,
    departures,
    questions,
    refusals,
    sent,
    undelivered,
)
from tests.recorded.hostile import (
    PARTY,
    asked,
    header,
    hostile_header,
    limited,
    small_variant,
    write,
)
from tests.scenarios.command import complaint
from tests.tiers import paired, thinned

pack = msgspec.msgpack.encode
KEEP = {"type": "keep", "size": 2, "threshold": 2**62}
CLUSTERS = {"p": 0.5, "tv": 4, "td": 0.1}


def keys(attributes: int, categories: int) -> dict[str, Any]:
    """A survey of keys, of which one has so many values."""
    long = ["missing", *(repr(i / categories) for i in range(categories - 1))]
    survey = asked(attributes)
    for attribute in survey["attributes"]:
        attribute.update(categories=["missing", "1.0"], missing="missing")
    survey["attributes"][0]["categories"] = long
    return survey


HEADERS: dict[str, tuple[str, Callable[[], Header]]] = {
    "all pairs": ("1,124,250 tables", lambda: header("pair-counts", asked(1500), {})),
    "clusters": ("1,124,250 tables", lambda: header("rr-clusters", asked(1500), CLUSTERS)),
    "randomized pairs": (
        "1,124,250 tables",
        lambda: header("pair-rr", asked(1500), {"randomizers": [KEEP]}),
    ),
    "single tables": ("steps of 12,000 tables", lambda: header("secure-sum", asked(12_000), {})),
    "few pairs, many attributes": (
        "steps of 124,750 tables",
        lambda: header("rrba", asked(500), {"p": 0.5, "k": 2}),
    ),
    "cells of a pair": (
        "100,000,000 cells",
        lambda: header("rrba", asked(2, 10_000), {"epsilon": 1.0, "k": 2}),
    ),
    "values of keys": (
        "240,000,000 cells",
        lambda: header("privkv", keys(12_000, 20_000), {"epsilon": 1.0}),
    ),
    "attributes": (
        "100,000 attributes",
        lambda: header("rr-joint", asked(100_000), {"randomizer": KEEP}),
    ),
    "a matrix": (
        "1,050 rows",
        lambda: header(
            "rr-joint",
            asked(1, 1050),
            {"randomizer": {"type": "matrix", "weights": [[2**63, 2**63] + [0] * 1048] * 1050}},
        ),
    ),
    "records": (
        "respondents of one party",
        lambda: header(
            "rrba", asked(3), {"p": 0.5, "k": 2, "max_records": 1 << 30, "patience": None}
        ),
    ),
    "members": (
        "before the end of its header",
        lambda: header(
            "rr-joint",
            asked(1),
            {"randomizer": KEEP},
            roster=tuple((PartyId("a"), b"\xaa" * 32) for _ in range(1_200_000)),
        ),
    ),
    "nothing but maps": (
        "before the end of its header",
        lambda: header("rr-joint", asked(1), {"maps": []}),
    ),
}
MAPS = b"\xa4maps\xdd" + (50_000_000).to_bytes(4) + b"\x80" * 50_000_000
"""An array of empty maps, in place of the empty one."""


class Made(dict[str, Path]):
    """Hostile files by name, each made when it is first asked for."""

    def __init__(self, make: Callable[[str], Path]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, name: str) -> Path:
        self[name] = self._make(name)
        return self[name]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A file of every such header."""
    folder = tmp_path_factory.mktemp("headers")

    def make(name: str) -> Path:
        change = {b"\xa4maps\x90": MAPS} if name == "nothing but maps" else {}
        path = write(folder / f"{[*HEADERS].index(name)}.svt", HEADERS[name][1](), change=change)
        assert path.stat().st_size < 1 << 20
        return path

    return Made(make)


@pytest.mark.parametrize("name", thinned(HEADERS, 2))
def test_what_a_header_asks_for_is_not_made(name: str, files: Made) -> None:
    assert HEADERS[name][0] in complaint(limited("audit", files[name]))


@pytest.mark.parametrize(
    ("command", "name"),
    paired(["verify", "show", "query", "prove"], ["all pairs", "nothing but maps"]),
)
def test_no_command_makes_it(name: str, command: str, files: Made) -> None:
    more = {"query": ["SELECT count(*) FROM sent"], "prove": [PARTY]}.get(command, [])
    assert limited(command, files[name], *more).code in (1, 2, 3)


BOMBS: dict[str, Callable[[], bytes]] = {
    "undelivered": lambda: undelivered(40, 8),
    "late": lambda: undelivered(40, 8, late=True),
    "departures": lambda: departures(900_000),
    "refusals": lambda: refusals(600_000),
    "alike": lambda: alike(5_000_000, each=500_000),
    "closings": lambda: closings(4000),
    "questions": lambda: questions(late=True),
}
FINDS = {
    "undelivered": "The file has no last entry",
    "late": "could not finish",
    "departures": "is not in the roster",
    "refusals": "more reasons",
    "alike": "more entries than a packed file of this length may have",
    "closings": "could not finish",
    "questions": "could not finish",
}


UNFINISHED = {"late", "alike", "closings", "questions"}
"""Cases that are not read to their end: they exceed a budget."""

DEAR = {"closings", "undelivered", "departures", "refusals", "alike", "questions"}
"""Cases that take an audit of several seconds."""


@pytest.fixture(scope="module")
def bombs(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("bombs")

    def make(name: str) -> Path:
        path = folder / f"{name}.svt"
        path.write_bytes(BOMBS[name]())
        return path

    return Made(make)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in DEAR)) for name in BOMBS]
)
def test_an_audit_keeps_to_its_memory(name: str, bombs: Made) -> None:
    said = limited("audit", bombs[name])
    assert (said.code, said.err) == (3 if name in UNFINISHED else 1, "")
    assert FINDS[name] in said.out


@pytest.mark.slow
@pytest.mark.parametrize("name", ["undelivered", "refusals"])
def test_so_does_a_query(name: str, bombs: Made) -> None:
    said = limited("query", bombs[name], "SELECT count(*) FROM sent")
    assert re.search("for a file of this length|could not finish with", complaint(said, code=3))


@pytest.mark.slow
def test_so_does_an_export(bombs: Made, tmp_path: Path) -> None:
    said = limited("export", bombs["undelivered"], "--to", tmp_path / "tables")
    assert re.search("for a file of this length|could not finish with", complaint(said, code=3))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_so_does_the_judge_of_a_coalition(bombs: Made) -> None:
    said = limited("audit", bombs["questions"], "--observer", "aggregator")
    assert (said.code, said.err) == (3, "")
    # Among the reasons of the verdict, in the findings, and of the coalition.
    assert said.out.lower().count("could not finish") == 3


@pytest.mark.slow
def test_whoever_joins_again_and_again_begins_few_sums(tmp_path: Path) -> None:
    variant = BUILT_IN["secure-sum"](survey=small_variant().survey)
    head = hostile_header(variant, 20_000)
    codec = Charter(variant=variant, roster=Roster(head.roster)).codec
    nonce = np.frombuffer(b"\xab" * 16, np.uint8)
    joins = [sent(head, "Join", codec.encode(Join(1, nonce)), i) for i in range(300)]
    values = np.zeros(2, np.uint16)
    k = variant.sums.degree(20_000).neighbours
    upload = sent(head, "Upload", codec.encode(Upload(values, np.zeros(k, np.uint8))), 300)
    path = write(tmp_path / "joins.svt", head, [*joins, upload])
    said = limited("audit", path, "--observer", "aggregator")
    assert (said.code, said.err) == (1, "")
    assert "in one sum too many" in said.out


@pytest.mark.slow
def test_a_charter_is_held_to_the_same(tmp_path: Path) -> None:
    charter = {
        "variant": "pair-counts",
        "parameters": {},
        "survey": asked(1500),
        "analysis": None,
        "pin": None,
        "nonce": bytes(16),
        "members": 3,
        "enrolled": [["folder", 2]],
        "roster": bytes(32),
    }
    (tmp_path / "charter.json").write_bytes(msgspec.json.encode(charter))
    said = limited("aggregate", tmp_path, "--listen", "127.0.0.1:0", "--out", tmp_path / "out")
    assert "1,124,250 tables" in complaint(said)
