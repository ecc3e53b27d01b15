"""Faults planted in every variant: the contract is met, and an active attack finds each."""

from __future__ import annotations

import msgspec
import pytest

from protocol import Records, Variant
from protocol.attack.active.active import SCRIPTS as SCRIPTS_OF_THE_COMMAND
from protocol.attack.active.active import attack_actively, replay_script
from protocol.attack.active.script import Script
from protocol.testing import check_unmoved, check_variant
from protocol.variants import BUILT_IN
from scenarios.cli.example_variants import example
from tests.every_variant import examples
from tests.protocol.attack.planted.plants import EARLIER, LITERAL, ORACLES, Plant, every

FAST = ("unworried", "eager")
"""Those that are quickly found."""

SCRIPTS = 1_000
"""How many scripts are played at most; most plants are found by the first fifty."""

SOME_SCRIPTS = 80
"""How many are played where there are more parties."""

EVERY_TIME = ("rr-joint",)
"""The built-in variants that are attacked every time."""


def plants() -> list[object]:
    """All plants; only some of them every time."""
    return [
        pytest.param(plant, id=name, marks=() if name in FAST else pytest.mark.slow)
        for name, plant in every()
    ]


def test_something_is_planted_in_every_variant() -> None:
    assert sorted(plant.of for plant in ORACLES.values()) == sorted(BUILT_IN)
    assert {plant.of for plant in EARLIER.values()} < set(BUILT_IN)


@pytest.mark.parametrize("plant", plants())
def test_no_honest_run_shows_it(plant: Plant) -> None:
    variant, records = plant.example(respondents=6)
    with plant.during():
        check_variant(variant, records, executors={}, rare=plant.rare)


@pytest.mark.slow
@pytest.mark.parametrize("plant", plants())
def test_an_active_attack_finds_it(plant: Plant) -> None:
    variant, records = plant.example()
    with plant.during():
        found = attack_actively(variant, records, scripts=SCRIPTS, seed=plant.seed)
        assert found.accused
        assert {finding.rule for finding in found.findings} <= set(plant.rules)
        for finding in found.findings:
            assert len(finding.script.moves) <= plant.moves
            again = replay_script(variant, records, finding.script, seed=plant.seed)
            assert (finding.rule, finding.what) in [(one.rule, one.what) for one in again]


def test_a_script_is_tried_with_other_randomness_where_there_is_a_graph() -> None:
    """Nobody is in the graph with another nonce than the one that it was made of."""
    ask = msgspec.json.encode(
        {
            "moves": [
                {"does": "insert", "of": "Begin", "before": True, "says": {"kind": "Join"}},
                {
                    "does": "insert",
                    "of": "Begin",
                    "before": True,
                    "says": {"kind": "Ask"},
                    "edits": [
                        {
                            "path": ["blocks", 0, "randomizer", "threshold"],
                            "how": "set",
                            "value": 1,
                        }
                    ],
                },
            ]
        }
    )
    plant = EARLIER["an early mailbox"]
    variant, records = plant.example()
    script = msgspec.json.decode(ask, type=Script)
    with plant.during():
        [found] = replay_script(variant, records, script, trials=4000)
    assert found.rule == "charge"
    assert replay_script(variant, records, script, trials=4000) == ()


def honest() -> list[object]:
    """Every built-in variant: as the command attacks it, and as other tests run it."""
    attacked = [
        pytest.param(
            *example(cls, {}),
            SCRIPTS_OF_THE_COMMAND,
            id=name,
            marks=() if name in EVERY_TIME else pytest.mark.slow,
        )
        for name, cls in BUILT_IN.items()
    ]
    run = [
        pytest.param(*one, SOME_SCRIPTS, id=f"{one.name}, another", marks=pytest.mark.slow)
        for one in examples()
    ]
    return [*attacked, *run]


@pytest.mark.slow
@pytest.mark.parametrize(("variant", "records", "scripts"), honest())
def test_what_is_built_in_is_not_accused(variant: Variant, records: Records, scripts: int) -> None:
    check_unmoved(variant, records, scripts=scripts)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("secure-sum", {"everyone": "true"}),
        ("secure-sum", {"sums": '{"noise": {"trials": 40}}'}),
        ("secure-sum", {"sums": LITERAL}),
        ("pair-rr", {"everyone": "true"}),
        ("rr-clusters", {"dependence": "rr"}),
        ("rr-clusters", {"dependence": "pair-rr", "sums": LITERAL}),
        ("rrba", {"mode": "sequential", "groups": "view"}),
    ],
    ids=str,
)
def test_nor_is_it_with_other_parameters(name: str, settings: dict[str, str]) -> None:
    check_unmoved(*example(BUILT_IN[name], settings))
