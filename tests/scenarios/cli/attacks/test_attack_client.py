"""``sottovoce attack PATH.py:function``: bare clients, sound and leaking, and bad input."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from protocol import Stream, secret_of
from protocol.attack.client import attack_client, leaves
from tests.scenarios.command import sottovoce
from tests.tiers import thinned

COIN = """
import random

def client(answer):
    return random.choice([0, 1]) if random.random() < 0.5 else answer

def picky(answer):
    if answer == 1:
        raise LookupError("never heard of 1")
    return 0

Number = int
number = 3
"""
CLAIM = math.log(3)


@pytest.fixture
def coin(tmp_path: Path) -> Path:
    path = tmp_path / "coin.py"
    path.write_text(COIN, encoding="utf-8")
    return path


@pytest.mark.slow
def test_a_client_that_keeps_its_word(coin: Path) -> None:
    said = sottovoce("attack", f"{coin}:client", "--inputs", "0,1", "--claims", CLAIM)
    assert said.code == 0
    verdict, _, _, client, event, *_ = map(str.strip, said.out.splitlines())
    assert verdict.startswith("Not accused: nothing that was tried exceeds the claimed 1.0986; ")
    assert client.startswith(f"{coin}:client; probability of a false accusation at most 1e-09")
    assert event.startswith("event: report: 0 for the first input")


@pytest.mark.slow
def test_a_client_that_does_not(coin: Path) -> None:
    said = sottovoce("attack", f"{coin}:client", "--inputs", "0,1", "--claims", 0.9, "--json")
    assert said.code == 1
    found = json.loads(said.out)
    assert found["accused"]
    assert found["verdict"].startswith("Accused: the reports reveal at least epsilon ")
    assert found["probe"]["bound"] == found["claims"] == 0.9
    assert 0.9 < found["probe"]["lower"] < CLAIM
    assert found["probe"]["first"]["low"] < 0.75 < found["probe"]["first"]["high"]


def test_the_seed_decides(coin: Path) -> None:
    def right(seed: int) -> object:
        given = ("--inputs", "0,1", "--claims", 2, "--trials", 2000, "--seed", seed, "--json")
        return sottovoce("attack", f"{coin}:client", *given).json["probe"]["right"]

    assert right(1) == right(1) != right(2)


def _bits(answer: object) -> int:
    return int(_bits_of.bernoulli(3 << 62, 1)[0]) ^ (answer == "no")


_bits_of = Stream(secret_of(5)).derive("client")


@pytest.mark.parametrize(
    "wrap",
    thinned(
        [
            lambda bit: {"answer": ["yes", "no"][bit], "version": 3},
            lambda bit: (7, [0.5, float(bit)]),
            lambda bit: bytes([1, bit]),
            lambda bit: np.array([[3, bit]], np.uint8),
            lambda bit: np.bool_(bit),
            lambda bit: {"x", "y"} if bit else {"x"},
            lambda bit: (1 << 70) + bit,
            lambda bit: complex(0, bit),
            lambda bit: SimpleNamespace(bit=bit),
            lambda bit: None if bit else [],
        ],
        4,
    ),
)
def test_what_a_report_may_be(wrap: Callable[[int], Any]) -> None:
    found = attack_client(lambda x: wrap(_bits(x)), ("no", "yes"), claims=1.2, trials=8000)
    assert not found.accused
    assert 0.6 < found.probe.lower < CLAIM


def test_a_refusal_tells() -> None:
    def client(answer: object) -> int:
        if _bits(answer):
            raise RuntimeError("not today")
        return 0

    found = attack_client(client, ("no", "yes"), claims=0.5, trials=8000)
    assert found.accused


def test_a_short_array_is_shown_and_not_its_hash() -> None:
    found = attack_client(lambda x: [_bits(x), _bits(x)], ("no", "yes"), claims=1, trials=8000)
    assert found.accused
    assert found.probe.lower > CLAIM
    assert "[1, 1]" in found.probe.event or "(1, 1)" in found.probe.event


def test_parts_of_a_report_have_their_places() -> None:
    names = [name for name, _ in leaves({"a": [1, 2], "b": ("x", [3.5, None])})]
    assert names == ["report['a']", "report['b'][0]", "report['b'][1][0]", "report['b'][1][1]"]


RANDOMIZERS = """
from protocol import KeepUniform, PrivKV

SIXTEEN = KeepUniform.with_epsilon(16, epsilon=1.0)
KEYS = PrivKV.with_budget(3, epsilon=1.0)

class Careless(KeepUniform, frozen=True):
    def randomize(self, codes, stream):
        reports = super().randomize(codes, stream)
        forgotten = stream.bernoulli(2**64 // 20, codes.shape)
        reports[forgotten] = codes[forgotten]
        return reports

    def law(self, first, second):
        return super().law(first, second)

    def row(self, code):
        return super().row(code)

    @property
    def epsilon(self):
        return super().epsilon

CARELESS = Careless(16, SIXTEEN.threshold)
"""


@pytest.fixture
def randomizers(tmp_path: Path) -> Path:
    path = tmp_path / "randomizers.py"
    path.write_text(RANDOMIZERS, encoding="utf-8")
    return path


def test_a_randomizer_is_attacked_by_its_own_law(randomizers: Path) -> None:
    said = sottovoce("attack", f"{randomizers}:SIXTEEN")
    assert said.code == 0, said.err
    assert said.out.startswith("Not accused: nothing that was tried exceeds the claimed 1.0000; ")
    assert "on 1,000,000 reports" in said.out
    said = sottovoce("attack", f"{randomizers}:CARELESS", "--inputs", "2,5", "--json")
    assert said.code == 1
    found = json.loads(said.out)
    assert found["claims"] == pytest.approx(1.0)
    assert found["probe"]["lower"] > 1.0
