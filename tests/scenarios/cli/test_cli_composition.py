"""``sottovoce compose`` and ``sottovoce shuffle``."""

from __future__ import annotations

import sys

import pytest

from protocol import KeepUniform, Randomized, exact_epsilon
from protocol.accounting.shuffling import any_randomizer, randomized_response
from scenarios.errors import install_command
from tests.scenarios.command import sottovoce

SIXTEEN = KeepUniform.with_epsilon(16, epsilon=1.0)
TWO = KeepUniform.with_keep(2, p=0.75)
TEN = ("compose", "--mechanism", "k=16,epsilon=1", "--times", "10", "--delta", "1e-6")


def test_ten_draws() -> None:
    found = sottovoce(*TEN, "--json").json
    assert found["pure"] == pytest.approx(10.0)
    expected = exact_epsilon([Randomized(SIXTEEN, ("a",))] * 10, 1e-6).epsilon
    assert found["exact"] == expected == pytest.approx(7.9097062, abs=1e-6)
    figures = found["figures"]
    assert found["pld"] == pytest.approx(expected, abs=10 * figures["pld"]["interval"])
    assert figures["pure"]["delta"] == 0.0
    assert figures["exact"]["delta"] == figures["pld"]["delta"] == found["delta"] == 1e-6
    for figure in figures.values():
        assert "replace one" in figure["relation"]
        assert figure["assumption"]
        assert figure["method"]
    assert figures["exact"]["tight"]


def test_different_mechanisms() -> None:
    mechanisms = ("--mechanism", "k=16,epsilon=1", "--mechanism", "p=0.75, k=2")
    found = sottovoce("compose", *mechanisms, "--times", 4, "--delta", "1e-5", "--json").json
    events = [Randomized(keep, ("a",)) for keep in (SIXTEEN, TWO)] * 4
    assert found["exact"] == pytest.approx(exact_epsilon(events, 1e-5).epsilon, rel=1e-12)
    assert found["pure"] == pytest.approx(4 * (SIXTEEN.epsilon + TWO.epsilon))
    assert [each["k"] for each in found["mechanisms"]] == [16, 2]
    assert found["mechanisms"][1]["p"] == 0.75


def test_the_same_mechanism_twice_counts_twice() -> None:
    twice = ("--mechanism", "k=3,epsilon=0.5") * 2
    found = sottovoce("compose", *twice, "--delta", "1e-5", "--json").json
    once = sottovoce("compose", *twice[:2], "--times", 2, "--delta", "1e-5", "--json").json
    assert found["exact"] == once["exact"]
    assert found["pld"] == once["pld"]


def test_shuffling() -> None:
    arguments = ("shuffle", "--n", 10_000, "--epsilon", 1, "--delta", "1e-6")
    found = sottovoce(*arguments, "--k", 16, "--json").json
    assert found["any_randomizer"] == any_randomizer(1.0, n=10_000, delta=1e-6).epsilon
    assert found["krr"] == randomized_response(SIXTEEN, n=10_000, delta=1e-6).epsilon
    assert 0 < found["krr"] < found["any_randomizer"] < 0.1
    for figure in found["figures"].values():
        assert figure["delta"] == 1e-6
        assert "replace one" in figure["relation"]
        assert "unlinkable" in figure["assumption"]
    without = sottovoce(*arguments, "--json").json
    assert without["krr"] is None
    assert without["figures"]["krr"] is None
    assert without["any_randomizer"] == found["any_randomizer"]


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dp_accounting.pld", None)
    said = sottovoce(*TEN)
    assert said.code == 0
    assert "exact: epsilon 7.9097062" in said.out
    assert install_command("accounting") in said.out
    values = sottovoce(*TEN, "--json").json
    assert values["pld"] is None
    assert values["exact"] == pytest.approx(7.9097062)
