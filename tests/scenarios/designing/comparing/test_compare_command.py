"""``sottovoce compare``: what it prints and writes, that it goes on, and what it refuses."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from scenarios.cli.surveys.comparing import CSV, JSON
from scenarios.designing import trying
from scenarios.designing.comparing import comparison
from scenarios.designing.predicting import Prediction, predict
from scenarios.designing.trying import Piece
from scenarios.files.pieces import PIECES
from tests.scenarios.command import OWN, complaint, sottovoce

PLAN = """
title = "Own"
epsilon = 2.0

[records]
delimiter = ";"

[[attributes]]
name = "age"
edges = [30, 60]

[[attributes]]
name = "smokes"
categories = ["no", "yes"]
"""
FEW = ("--variant", "rr-independent,oue", "--epsilon", "1,2", "--runs", 4)


@pytest.fixture
def asked(tmp_path: Path) -> tuple[Any, ...]:
    """The plan, and the answers."""
    rows = "".join(f"{20 + i % 60};{'yes' if i % 3 else 'no'}\n" for i in range(90))
    (tmp_path / "own.csv").write_text(f"age;smokes\n{rows}")
    (tmp_path / "plan.toml").write_text(PLAN)
    return ("compare", tmp_path / "plan.toml", "--records", tmp_path / "own.csv")


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_what_is_measured_stands_beside_what_is_predicted(
    asked: Sequence[object], tmp_path: Path
) -> None:
    out, picture = tmp_path / "out", tmp_path / "errors.pdf"
    few = (*FEW, "--seed", 3, "--project", "simplex")
    said = sottovoce(*asked, *few, "--out", out, "--plot", picture)
    assert said.code == 0, said.err
    words = " ".join(said.out.split())
    assert "Own: 90 respondents, target margins, 4 runs of each" in words
    assert "This was a trial" in words
    assert "tell about the records" in words
    assert picture.read_bytes().startswith(b"%PDF")
    rows = rows_of(out / CSV)
    assert [(row["variant"], row["epsilon"]) for row in rows] == [
        ("rr-independent", "1.0"),
        ("spl:oue", "1.0"),
        ("rr-independent", "2.0"),
        ("spl:oue", "2.0"),
    ]
    for row in rows:
        assert (row["target"], row["runs"], row["simulated"]) == ("margins", "4", "by law")
        measured, expected = float(row["measured"]), float(row["predicted"])
        assert float(row["ratio"]) == pytest.approx(measured / expected)
        assert 0 < float(row["projected"]) <= measured * (1 + 1e-9)
        assert float(row["measured_error"]) > 0
        assert 0.5 < float(row["held"]) <= 1
    told = json.loads((out / JSON).read_text())
    assert [str(row["measured"]) for row in told["rows"]] == [row["measured"] for row in rows]
    assert (out / CSV).stat().st_mode & 0o077 == 0


@pytest.mark.slow
def test_a_seed_is_drawn_and_not_told(asked: Sequence[object]) -> None:
    one, two = (sottovoce(*asked, *FEW, "--json").json for _ in range(2))
    assert one["rows"] != two["rows"]
    assert "seed" not in json.dumps(one)
    again = [sottovoce(*asked, *FEW, "--json", "--seed", 5).json for _ in range(2)]
    assert again[0] == again[1]


def test_an_interrupted_comparison_goes_on(
    asked: Sequence[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes of it is what would have come without the interruption, byte for byte."""
    monkeypatch.setattr(trying, "MOST_RUNS", 1)
    compare = (*asked, *FEW, "--seed", 7)
    assert sottovoce(*compare, "--out", tmp_path / "whole").code == 0
    done: list[int] = []

    def counted(kernel: Callable[[Piece], Any]) -> Callable[[Piece], Any]:
        def missed_in(piece: Piece) -> list[trying.Missed]:
            done.append(1)
            if len(done) == 6:
                raise KeyboardInterrupt
            found: list[trying.Missed] = kernel(piece)
            return found

        return missed_in

    monkeypatch.setattr(comparison, "missed_in", counted(trying.missed_in))
    out = tmp_path / "out"
    said = sottovoce(*compare, "--out", out)
    line = f"interrupted; the same command goes on from {out / PIECES}\n"
    assert (said.code, said.out, said.err) == (130, "", line)
    assert [path.name for path in out.iterdir()] == [PIECES]
    other = complaint(sottovoce(*compare, "--out", out, "--epsilon", "1,3"))
    assert "not with the same epsilon and variants; delete it to begin anew" in other
    assert sottovoce(*compare, "--out", out).code == 0
    assert len(done) == 6 + 16 - 5
    for name in (CSV, JSON):
        assert (out / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert sorted(path.name for path in out.iterdir()) == [CSV, JSON]
    again = sottovoce(*asked, *FEW, "--out", out)
    assert again.err == f"{out / JSON}: an earlier result, which this one replaces\n"


@pytest.mark.slow
def test_a_wrong_prediction_is_noticed(
    asked: Sequence[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(*given: Any, **named: Any) -> Prediction | None:
        found = predict(*given, **named)
        assert found is not None
        return found._replace(rmse=2 * found.rmse)

    command = (*asked, "--variant", "oue", "--epsilon", 1, "--runs", 30, "--seed", 3)
    [row] = sottovoce(*command, "--json").json["rows"]
    assert not row["differs"]
    monkeypatch.setattr(comparison, "predicted", wrong)
    [row] = sottovoce(*command, "--json").json["rows"]
    assert row["differs"]
    assert row["apart"] < -4
    said = sottovoce(*command).out
    assert "* measured and predicted are further apart than chance explains" in " ".join(
        said.split()
    )


def test_a_variant_of_ones_own(asked: Sequence[object]) -> None:
    """This one sends plain answers, so it does not err as its family does."""
    given = ("--variant", f"{OWN}:PlainAnswers,rr-independent", "--epsilon", 1, "--runs", 9)
    own, built_in = sottovoce(*asked, *given, "--seed", 1, "--json").json["rows"]
    assert (own["variant"], built_in["variant"]) == ("plain-answers", "rr-independent")
    assert own["measured"] > 1.5 * built_in["measured"]
    assert own["differs"]


def test_what_does_not_apply_is_told(asked: Sequence[object]) -> None:
    given = ("--variant", "oue,rr-joint", "--epsilon", "1,2", "--runs", 2, "--target", "age,smokes")
    oue, joint, *_ = sottovoce(*asked, *given, "--json").json["rows"]
    assert (oue["measured"], oue["runs"], oue["simulated"]) == (None, 0, "")
    assert oue["why_not"]
    assert joint["measured"] > 0
