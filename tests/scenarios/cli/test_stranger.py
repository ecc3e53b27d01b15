"""A stranger's randomizer, given by its law alone, through everything there is; and its liars."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from protocol import (
    RECORD,
    QuorumError,
    Randomized,
    Records,
    UnaryEncoding,
    UnsupportedEventError,
    exact_epsilon,
)
from protocol.accounting.accountants import PureAccountant
from protocol.attack.attack import attack
from protocol.testing import check_attack, check_variant
from scenarios import EXECUTORS, simulate
from tests.pages import Page
from tests.scenarios.command import sottovoce
from tests.scenarios.stranger_unary import LETTERS, Chosen, Lying, Oracle, Oue, Weakened

FILE = Path(__file__).parents[1] / "stranger_unary.py"
RECORDS = Records(LETTERS, (np.arange(24) % 7).astype(np.uint8)[:, np.newaxis])


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stranger") / "transcript.svt.zst"
    simulate(Oracle(survey=LETTERS), RECORDS, parties=6, path=path)
    return path


@pytest.mark.slow
def test_all_transports_and_the_whole_contract() -> None:
    assert len(EXECUTORS) >= 4
    for variant in (Oracle(survey=LETTERS), Chosen(survey=LETTERS)):
        check_variant(variant, RECORDS, executors=EXECUTORS, parties=6)


def test_its_cost_is_one_and_not_that_of_sixteen_matrices(path: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    said = sottovoce("audit", path, "--variant", f"{FILE}:Oracle", "--html", page, "--details")
    assert said.code == 0, said.err
    assert "\nRecord: sound. " in said.out
    assert "learned at most ε = 1 about each respondent (pure" in said.out
    assert "not computed" not in said.out
    assert "at most ε = 1" in Page(page.read_text(encoding="utf-8")).said
    found = sottovoce("audit", path, "--variant", f"{FILE}:Oracle", "--json").json
    assert found["privacy"]["record_epsilon"] == pytest.approx(1.0, abs=1e-12)
    assert found["privacy"]["record_epsilon"] <= 1.0
    at_delta = found["privacy"]["at_delta"]["exact"]
    built_in = Randomized(UnaryEncoding.optimized(16, epsilon=1.0), ("letter",))
    assert at_delta["epsilon"] == pytest.approx(exact_epsilon([built_in], 1e-6).epsilon, rel=1e-9)
    assert at_delta["tight"] is True


@pytest.mark.parametrize(
    "asked",
    [
        ("--observer", "aggregator,party-1"),
        ("--worst", "1"),
        ("--delta", "0"),
        ("--pld",),
        ("--trail", "party-1"),
        ("--observer", RECORD),
    ],
    ids=" ".join,
)
def test_every_option_of_an_audit(path: Path, asked: tuple[str, ...]) -> None:
    said = sottovoce("audit", path, "--variant", f"{FILE}:Oracle", *asked)
    assert said.code == 0, said.err
    assert "not computed" not in said.out


@pytest.mark.slow
def test_a_fresh_process_runs_and_audits_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "scenarios"]
    for transport in ("memory", "tls"):
        out = tmp_path / transport
        subprocess.run([*command, "run", FILE, "--transport", transport, "--out", out], check=True)
        audit = [
            *command,
            "audit",
            out / "transcript.svt.zst",
            "--variant",
            f"{FILE}:Oracle",
            "--json",
        ]
        judged = json.loads(subprocess.run(audit, check=True, capture_output=True).stdout)
        assert judged["verdict"] == "sound"
        assert judged["privacy"]["record_epsilon"] == pytest.approx(1.0, abs=1e-12)


@pytest.mark.slow
def test_the_attack_knows_its_law_and_does_not_accuse() -> None:
    variant = Oracle(survey=LETTERS)
    found = attack(variant, RECORDS, trials=60_000, runs=20)
    assert not found.accused
    [probe] = found.probes
    assert (probe.bound, probe.learned) == (pytest.approx(1.0, abs=1e-12), False)
    assert probe.lower > 0.85
    check_attack(variant, RECORDS, trials=4_000, runs=20)


def test_the_estimate_is_unbiased_with_the_error_of_the_paper() -> None:
    n, oue = 200_000, UnaryEncoding.optimized(16, epsilon=1.0)
    own = Oue(16, oue.other)
    q = oue.other / 2**64
    variance = 4 * math.e / (math.e - 1) ** 2 / n
    shares = np.full(16, 1 / 16)
    closed = q * (1 - q) / (n * (0.5 - q) ** 2)
    assert closed == pytest.approx(variance, rel=1e-9)
    np.testing.assert_allclose(own.variances(shares, n), oue.variances(shares, n), rtol=1e-12)


def test_who_understates_epsilon_is_refused_by_name() -> None:
    lying = Lying(survey=LETTERS)
    with pytest.raises(QuorumError, match="0 of 6"):
        simulate(lying, RECORDS, parties=6)
    why = r"'Understated' states epsilon 0\.5, and its law has 1"
    with pytest.raises(UnsupportedEventError, match=why):
        PureAccountant().judge(Randomized(lying.randomizer, ("letter",)))


def test_a_pair_that_does_not_dominate_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "t.svt"
    simulate(Weakened(survey=LETTERS), RECORDS, parties=6, path=path)
    said = sottovoce("audit", path, "--variant", f"{FILE}:Weakened")
    assert said.code == 0
    assert "not computed: randomizer 'Underdominated' states epsilon 1" in said.out
