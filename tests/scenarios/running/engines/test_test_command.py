"""``sottovoce test``: variants that hold and that do not, and bad input."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.scenarios.command import sottovoce

FAILING = """
import numpy as np

from protocol.variants import RRIndependent
from protocol.variants.reports.reports import Ask, Pooled, Report


class Mean(RRIndependent, frozen=True):
    name = "mean"

    def most(self) -> float:
        return 0.01


class Trusting(RRIndependent, frozen=True):
    name = "trusting"

    async def aggregator(self, me, parties):
        await me.broadcast(parties, Ask(self.survey.digest, self.blocks))
        reports = await me.gather(Report, parties, within=self.patience)
        codes = np.concatenate([reports[party].codes for party in parties])
        unique, counts = np.unique(codes, axis=0, return_counts=True)
        return Pooled(unique, counts.astype(np.uint32))
"""


@pytest.mark.slow
def test_a_variant_that_holds(tmp_path: Path) -> None:
    options = ("--schedules", 3, "--seed", 9, "--parties", 5, "--set", "p=0.4")
    said = sottovoce("test", "rr-joint", *options, "--out", tmp_path)
    assert (said.code, said.err) == (0, "")
    assert said.out == (
        "rr-joint holds: its contract with 10 respondents, and 3 fault schedules; seed 9\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["test.json"]
    found = sottovoce("test", "rr-joint", *options, "--json").json
    assert found == json.loads((tmp_path / "test.json").read_text(encoding="utf-8"))
    assert (found["holds"], found["failed"], found["failure"]) == (True, None, None)
    assert (found["respondents"], found["parties"], found["schedules"]) == (10, 5, 3)


@pytest.mark.slow
def test_a_variant_that_fails_under_faults(tmp_path: Path) -> None:
    """The same failure is found again, by whatever carries out the runs."""
    path = tmp_path / "failing.py"
    path.write_text(FAILING, encoding="utf-8")
    command = ("test", f"{path}:Trusting", "--schedules", 8, "--json")
    said = sottovoce(*command, "--engine", "processes", "--jobs", 2, "--out", tmp_path / "out")
    assert said.code == 1
    assert said == sottovoce(*command)
    found = json.loads(said.out)
    assert (found["holds"], found["failed"]) == (False, "faults")
    assert re.match(
        r"schedule 6 \(drop .* cut 0\.025\): the aggregator's role fails under faults: .*KeyError",
        found["failure"],
    )
