"""What ``sottovoce audit`` says in words: what it leaves open, odd coalitions, and one of each."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from protocol import KeepUniform, Records, Stream, secret_of
from protocol.variants import RRIndependent, SecureSumVariant
from scenarios import simulate
from tests.every_variant import BITS, examples
from tests.protocol.sessions import answers
from tests.scenarios.cli.transcripts.test_audit_command import Recorded, recorded
from tests.scenarios.command import sottovoce
from tests.statistical import ALPHA, WRONG, chi_square_p_value
from tests.tiers import slow


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return recorded(tmp_path_factory.mktemp("quick"), RRIndependent.with_keep(BITS, 0.6), n=20)


@pytest.fixture(scope="module")
def summed(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return recorded(tmp_path_factory.mktemp("summed"), SecureSumVariant(survey=BITS))


@pytest.mark.slow
@pytest.mark.parametrize("keep", [0.3, slow(0.8)])
def test_false_answers_pass_as_often_as_is_said(keep: float, tmp_path: Path) -> None:
    """Every party has one false answer."""
    n = 400
    records = answers(BITS, n)
    path = tmp_path / "transcript.svt.zst"
    simulate(RRIndependent.with_keep(BITS, keep), records, path=path)
    true, false = tmp_path / "true.csv", tmp_path / "false.csv"
    true.write_text(records.to_csv())
    codes = records.codes.copy()
    codes[:, 1] ^= 1
    false.write_text(Records(BITS, codes).to_csv())
    said = sottovoce("audit", path, "--records", true).out
    assert f"a false one passes with probability {1 - keep:.4g} in each report" in said
    agree = json.loads(sottovoce("audit", path, "--records", false, "--json").out)["replay"]
    counts = agree["follow"], n - agree["follow"]
    assert chi_square_p_value(counts, (1 - keep, keep)) > ALPHA
    assert chi_square_p_value(counts, (keep, 1 - keep)) < ALPHA


def test_a_false_answer_is_not_looked_at_where_it_is_redrawn() -> None:
    n, keep = 100_000, 0.6
    randomizer = KeepUniform.with_keep(4, p=keep)
    true = np.zeros(n, np.uint8)
    one, other = (randomizer.randomize(true + i, Stream(secret_of(1))) for i in (0, 3))
    agree = int((one == other).sum())
    assert chi_square_p_value((agree, n - agree), (1 - keep, keep)) > ALPHA
    wrong = (1 - keep) * WRONG
    assert chi_square_p_value((agree, n - agree), (wrong, 1 - wrong)) < ALPHA


def test_what_agreement_leaves_open_depends_on_what_was_told(tmp_path: Path) -> None:
    for name, says in (
        ("secure-sum", "in a sum, any records of a party with the same counts pass"),
        ("rrba", "one that nobody asked for always passes"),
        ("privkv", "passes if the same draw turns it into the same report"),
    ):
        example = next(e for e in examples() if e.variant.name == name)
        run = recorded(tmp_path / name, example.variant, n=len(example.records))
        said = sottovoce("audit", run.path, "--records", run.records)
        [line] = [line for line in said.out.splitlines() if "the true records" in line]
        assert says in line


def test_coalitions_are_joined(summed: Recorded) -> None:
    apart = ("--observer", "aggregator", "--observer", "party-1,party-2")
    found = sottovoce("audit", summed.path, *apart, "--json").json["coalition"]
    assert found["members"] == ["aggregator", "party-1", "party-2"]


def test_a_tap_on_which_nothing_passed_is_named(summed: Recorded, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    asked = ("--tap", "party-1-aggregator", "--tap", "party-2-party-3", "--html", page)
    note = "nothing passed on the wire between party-2 and party-3: that tap adds nothing"
    assert sottovoce("audit", summed.path, *asked).code == 0
    assert note[1:] in page.read_text()
    found = sottovoce("audit", summed.path, *asked, "--json").json
    assert found["coalition"]["notes"] == [note]


def test_attributes_of_one_figure_share_a_line(tmp_path: Path) -> None:
    example = next(e for e in examples() if e.variant.name == "privkv")
    run = recorded(tmp_path, example.variant, n=len(example.records))
    said = sottovoce("audit", run.path, "--details").out
    assert f"each of {len(example.variant.survey.names)} attributes" in said


def test_no_worst_coalition_where_there_is_no_sum(quick: Recorded) -> None:
    said = sottovoce("audit", quick.path, "--worst", "2", "--details").out
    assert "The worst coalition. There is no secure sum on record to take apart." in said
