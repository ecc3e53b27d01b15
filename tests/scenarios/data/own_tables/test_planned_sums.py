"""Plans that are proposed for secure sums: with the coins that an epsilon takes, or exact."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from protocol.variants import PairCounts, SecureSumVariant
from protocol.variants.sums.tallies import Counted
from scenarios import read_plan
from tests.scenarios.command import sottovoce


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "own.csv"
    path.write_text("smokes,drinks\n" + "yes,never\nno,often\nno,never\n" * 20, encoding="utf-8")
    return path


@pytest.mark.parametrize("cls", [SecureSumVariant, PairCounts])
def test_a_plan_has_the_coins_that_an_epsilon_takes(
    cls: type[Counted], table: Path, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.toml"
    command = ("plan", "--from", table, "--variant", cls.name, "--out", plan)
    said = sottovoce(*command, "--epsilon", "1.5", "--delta", "1e-7", "--parties", "40")
    assert said.code == 0, said.err
    assert "at delta 1e-07 if at least 23 of the 40 parties are honest and stay" in said.err
    made = read_plan(plan).variant
    expected = cls.with_noise(made.survey, epsilon=1.5, delta=1e-7, parties=40)
    assert isinstance(made, cls)
    assert made.sums == expected.sums
    assert made.sums.noise is not None


def test_exact_sums_are_written_out_and_told(table: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    command = ("plan", "--from", table, "--variant", "pair-counts", "--out", plan)
    said = sottovoce(*command, "--noise", "none")
    assert "No epsilon bounds what exact sums tell of a respondent." in said.err
    assert "As proposed, with 60 respondents: good. All estimates are exact." in said.err
    assert 'noise = "none" ' in plan.read_text(encoding="utf-8")
    made = read_plan(plan).variant
    assert isinstance(made, PairCounts)
    assert made.sums.noise is None
    # So it is where nothing is said of noise.
    text = plan.read_text(encoding="utf-8")
    plan.write_text("".join(x for x in text.splitlines(keepends=True) if "noise" not in x))
    without = read_plan(plan).variant
    assert without == made
    assert math.isinf(without.most())
