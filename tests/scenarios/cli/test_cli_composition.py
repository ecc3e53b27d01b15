"""``sottovoce compose`` and ``sottovoce shuffle``."""

from __future__ import annotations

import sys

import pytest

from protocol import KeepUniform, Randomized, exact_epsilon
from protocol.accounting.shuffling import any_randomizer, randomized_response
from scenarios.errors import install_command
from tests.scenarios.command import complaint, sottovoce

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


def test_composition_in_words() -> None:
    said = sottovoce(*TEN)
    assert said.code == 0
    lines = said.out.splitlines()
    assert lines[0].startswith("10 x randomized response over 16 categories, epsilon 1, keeping")
    assert "pure: epsilon 10 at delta 0" in lines
    assert "exact: epsilon 7.9097062 at delta 1e-06" in lines
    assert any(line.startswith("pld: epsilon 7.9097") for line in lines)
    for word in ("between", "assumes", "method"):
        assert sum(line.startswith(f"  {word} ") for line in lines) == 3


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


def test_shuffling_in_words() -> None:
    said = sottovoce("shuffle", "--n", 1000, "--epsilon", 1, "--delta", "1e-6", "--k", 4)
    assert said.code == 0
    assert "1,000 respondents, each with a randomizer of epsilon 1" in said.out
    assert "any randomizer: epsilon 0.18241235 at delta 1e-06" in said.out
    assert "randomized response over 4 categories: epsilon 0.1" in said.out
    assert said.out.count("  assumes  the reports reach the observer unlinkable") == 2


@pytest.mark.parametrize(
    ("mechanism", "says"),
    [
        ("", "expected k, and epsilon or p"),
        ("k=2", "either epsilon or p, such as k=16,epsilon=1 or k=2,p=0.75"),
        ("epsilon=1", "expected k, and either epsilon or p"),
        ("k=2,epsilon=1,p=0.5", "expected k, and either epsilon or p"),
        ("k=2,k=3", "expected k, and epsilon or p"),
        ("k=2,q=0.5", "expected k, and epsilon or p"),
        ("k=2 epsilon=1", "'k=2 epsilon=1'"),
        ("k=two,p=0.5", "'two'"),
        ("k=2.5,p=0.5", "'2.5'"),
        ("k=1,p=0.5", "size 1"),
        ("k=-3,epsilon=1", "-3"),
        ("k=2,p=1", "keep probability 1.0"),
        ("k=2,p=0", "keep probability 0.0"),
        ("k=2,p=nan", "keep probability nan"),
        ("k=2,epsilon=0", "epsilon 0.0"),
        ("k=2,epsilon=inf", "epsilon inf"),
        ("k=2,epsilon=nan", "epsilon nan"),
        ("k=2,epsilon=", "could not convert"),
        ("k=2,epsilon=1e-300", "too small"),
        ("k=18446744073709551616,p=0.5", "size 18446744073709551616"),
    ],
)
def test_bad_mechanisms(mechanism: str, says: str) -> None:
    assert says in complaint(sottovoce("compose", "--mechanism", mechanism, "--delta", "1e-6"))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("compose", "--delta", "1e-6"), "Missing option '--mechanism'"),
        (TEN[:-2], "Missing option '--delta'"),
        ((*TEN, "--delta", "0"), "'--delta'"),
        ((*TEN, "--delta", "1"), "'--delta'"),
        ((*TEN, "--delta", "nan"), "'--delta'"),
        ((*TEN, "--times", "0"), "'--times'"),
        ((*TEN, "--times", "1000001"), "'--times'"),
        ((*TEN, "--times", "600000", "--mechanism", "k=16,epsilon=1"), "more than 1,000,000 draws"),
        (("compose", *("--mechanism", "k=2,p=0.5") * 1001, "--delta", "0.1"), "1001 mechanisms"),
        (("shuffle", "--epsilon", "1", "--delta", "1e-6"), "Missing option '--n'"),
        (("shuffle", "--n", "0", "--epsilon", "1", "--delta", "1e-6"), "'--n'"),
        (("shuffle", "--n", "ten", "--epsilon", "1", "--delta", "1e-6"), "'--n'"),
        (("shuffle", "--n", "1e3", "--epsilon", "1", "--delta", "1e-6"), "'--n'"),
        (("shuffle", "--n", "10", "--epsilon", "0", "--delta", "1e-6"), "'--epsilon'"),
        (("shuffle", "--n", "10", "--epsilon", "nan", "--delta", "1e-6"), "'--epsilon'"),
        (
            ("shuffle", "--n", "10", "--epsilon", "inf", "--delta", "1e-6"),
            "expected a finite number",
        ),
        (("shuffle", "--n", "10", "--epsilon", "1", "--delta", "0"), "'--delta'"),
        (("shuffle", "--n", "10", "--epsilon", "1", "--delta", "0.1", "--k", "1"), "'--k'"),
    ],
)
def test_bad_input(arguments: tuple[str, ...], says: str) -> None:
    assert says in complaint(sottovoce(*arguments))
    assert says in complaint(sottovoce(*arguments, "--json"))


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dp_accounting.pld", None)
    said = sottovoce(*TEN)
    assert said.code == 0
    assert "exact: epsilon 7.9097062" in said.out
    assert install_command("accounting") in said.out
    values = sottovoce(*TEN, "--json").json
    assert values["pld"] is None
    assert values["exact"] == pytest.approx(7.9097062)


def test_any_delta_can_be_printed() -> None:
    """The library has no epsilon below what it gives up for tails; the exact sum does."""
    found = sottovoce(*TEN[:-1], "1e-18", "--json").json
    assert 9.9 < found["exact"] <= found["pure"]
    assert sottovoce(*TEN[:-1], "1e-18").code == 0
