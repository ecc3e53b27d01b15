"""``sottovoce attack``: verdicts, exit codes, JSON, settings, and bad input."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from protocol.accounting.coins import coins_epsilon
from protocol.attack.attack import attack
from protocol.randomizers.coins import FAIR
from protocol.variants import BUILT_IN, RRClusters, RRIndependent, RRJoint
from scenarios.cli.example_variants import EXAMPLES, HABITS, LIKINGS, NUMBERS, example
from tests.scenarios.command import OWN, complaint, sottovoce

LEAKING = """
from protocol.messages import AGGREGATOR
from protocol.variants import RRIndependent
from protocol.variants.reports.reports import Ask, Report


class Truthful(RRIndependent, frozen=True):
    name = "truthful"

    async def party(self, me, records):
        await me.receive(Ask, AGGREGATOR)
        await me.send(AGGREGATOR, Report(records.codes))
"""
FEW = ("--trials", 2000, "--runs", 4)


@pytest.fixture
def taxes(tmp_path: Path) -> Path:
    """A survey of one question."""
    path = tmp_path / "taxes.toml"
    path.write_text(
        'title = "Taxes"\n[[attributes]]\nname = "cheats"\ncategories = ["no", "yes"]\n',
        encoding="utf-8",
    )
    return path


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal on which no cell of a table is broken."""
    monkeypatch.setenv("COLUMNS", "250")


def values(*arguments: object) -> dict[str, Any]:
    found: dict[str, Any] = sottovoce("attack", *arguments, "--json").json
    return found


@pytest.mark.slow
def test_a_variant_that_keeps_its_word(taxes: Path) -> None:
    said = sottovoce("attack", "rr-joint", "--survey", taxes, "--set", "epsilon=0.5")
    assert said.code == 0
    assert said.out.startswith("Not accused: nothing that was tried exceeds the ledger; cheats")
    assert "rr-joint, seen by aggregator; party-1's record differs" in said.out


@pytest.mark.slow
def test_a_variant_that_does_not(tmp_path: Path) -> None:
    path = tmp_path / "leaking.py"
    path.write_text(LEAKING, encoding="utf-8")
    said = sottovoce("attack", f"{path}:Truthful", *FEW)
    assert said.code == 1
    assert said.out.startswith("Accused: the view tells at least epsilon ")
    said = sottovoce("attack", f"{path}:Truthful", *FEW, "--set", "p=0.999999")
    assert said.code == 0


def test_what_is_unbounded() -> None:
    found = values(f"{OWN}:PlainAnswers", *FEW)
    assert {probe["bound"] for probe in found["probes"]} == {None}
    assert all(probe["unbounded"] for probe in found["probes"])


def test_a_sum_with_coins_is_attacked_at_a_delta(taxes: Path) -> None:
    coins = ("--set", 'sums={"noise": {"trials": 40}}', "--survey", taxes)
    few = ("--trials", 6, "--runs", 2, "--observer", "aggregator,party-3,party-4")
    assert "which protect at a delta alone" in sottovoce("attack", "secure-sum", *coins, *few).out
    said = sottovoce("attack", "secure-sum", *coins, *few, "--delta", 0.01)
    figure = coins_epsilon(40, FAIR, tables=1, honest=2, delta=0.01)
    assert f"the ledger's {figure:.4f} if at least 2 of those in the sum are honest" in said.out
    first, exchanged = values("secure-sum", *coins, *few, "--delta", 0.01)["probes"]
    assert (first["bound"], first["honest"]) == (figure, 2)
    assert [one["views"] for one in first["tried"]] == ["whole runs", "sums over the honest"]
    assert (exchanged["bound"], exchanged["honest"]) == (0.0, 0)


@pytest.mark.slow
def test_json_is_what_the_attack_found() -> None:
    found = values("rr-independent", *FEW, "--seed", 3, "--set", "p=0.5")
    variant = RRIndependent.with_keep(HABITS, 0.5)
    _, records = example(RRIndependent, {})
    expected = attack(variant, records, trials=2000, runs=4, seed=3)
    assert found["accused"] is False
    assert found["undecided"] is True
    assert found["verdict"].startswith("Undecided: ")
    assert (found["variant"], found["observer"], found["target"]) == (
        "rr-independent",
        "aggregator",
        "party-1",
    )
    assert found["rows"] == ["target's Report.codes"]
    for probe, other in zip(found["probes"], expected.probes, strict=True):
        assert probe["pair"] == other.pair
        assert (probe["lower"], probe["bound"]) == (other.lower, other.bound)
        assert (probe["right"], probe["guesses"]) == (other.right, other.guesses)
        assert probe["first"] == {"low": other.first.low, "high": other.first.high}
        assert probe["accused"] is False
        assert probe["undecided"] is True
        assert [one["views"] for one in probe["tried"]] == [one.views for one in other.tried]
        assert [one["provable"] for one in probe["tried"]] == [one.provable for one in other.tried]


def test_another_survey(taxes: Path) -> None:
    found = values("rr-joint", *FEW, "--survey", taxes, "--set", "epsilon=0.7")
    (probe,) = found["probes"]
    assert probe["pair"] == "cheats: no or yes"
    assert probe["bound"] == pytest.approx(0.7, abs=1e-9)


def test_every_variant_of_the_project_has_an_example() -> None:
    assert EXAMPLES.keys() <= BUILT_IN.keys()
    for name, cls in BUILT_IN.items():
        variant, records = example(cls, {})
        assert variant.name == name
        assert records.survey == variant.survey
        assert variant.survey in (HABITS, LIKINGS, NUMBERS)


def test_settings_win_over_the_example() -> None:
    made, _ = example(RRClusters, {"dependence": "rr", "tv": "4", "quorum": "2"})
    assert isinstance(made, RRClusters)
    assert (made.dependence, made.tv, made.quorum, made.p) == ("rr", 4, 2, 0.15)
    joint, _ = example(RRJoint, {"epsilon": "1.5", "patience": "3"})
    assert isinstance(joint, RRJoint)
    assert math.isclose(joint.randomizer.epsilon, 1.5)
    assert joint.patience == 3.0
    made, _ = example(RRClusters, {"sums": '{"profile": "literal"}'})
    assert isinstance(made, RRClusters)
    assert made.sums.profile == "literal"


def test_more_than_fits_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exit of 1 would be an accusation."""

    def exhausted(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("protocol.attack.attack.attack", exhausted)
    said = complaint(sottovoce("attack", "rr-joint", "--trials", 10**8, "--runs", 20))
    assert said.startswith("--trials 100000000 --runs 20: takes more memory than there is")
    said = complaint(sottovoce("attack", "rr-joint"))
    assert said.startswith("--trials: takes more memory than there is")


@pytest.mark.parametrize("value", ["[" + "9" * 5000 + "]", "[" * 100_000])
def test_a_setting_that_json_cannot_hold_is_refused(value: str) -> None:
    said = complaint(sottovoce("attack", "rr-joint", "--set", f"p={value}"))
    assert said.endswith(" ...: a number is too long, or the value is nested too deeply")
