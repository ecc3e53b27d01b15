"""What is measured agrees with what is predicted, by law and by messages; dropouts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from protocol import Attribute, KeepUniform, Records, Stream, Survey, secret_of
from scenarios.designing.candidates import Wanted
from scenarios.designing.comparing import comparison
from scenarios.designing.comparing.choosing import choose_candidates, parse_name
from scenarios.designing.comparing.comparison import Compared, Comparison, Figure, Measured, compare
from scenarios.designing.targets import parse_target
from scenarios.designing.trying import Missed, Piece, Setup, missed_in, split_runs
from scenarios.statement.comparisons import state_comparison
from scenarios.wording.formatting import NONE
from tests.tiers import thinned

SURVEY = Survey(
    "own",
    (
        Attribute(name="a", categories=("x", "y", "z")),
        Attribute(name="b", categories=("0", "1")),
    ),
)


def records_of(n: int) -> Records:
    """Answers of which one is rare, and which depend on each other."""
    draws = Stream(secret_of(1)).integers(10, n).astype(np.int64)
    a = np.where(draws < 6, 0, np.where(draws < 9, 1, 2))
    return Records(SURVEY, np.stack([a, draws % 2], axis=1))


def compared(
    names: str,
    records: Records,
    *,
    target: str = "margins",
    epsilon: float = 1.0,
    delta: float | None = None,
    **given: object,
) -> Comparison:
    found = parse_target(SURVEY, target)
    settings: dict[str, Any] = {"runs": 40, "seed": 11, "parties": 10, "dropout": 0.0, **given}
    wanted = Wanted(SURVEY, epsilon, found, settings["parties"], settings["dropout"], delta)
    meant = [parse_name(name) for name in names.split(",")]
    what = [Compared(epsilon, each) for each in choose_candidates(meant, wanted, {})]
    return compare(what, records, found, **settings)


def test_measured_is_what_the_formula_says() -> None:
    """By hand, of reports that keep an answer with probability p and else are uniform."""
    records = records_of(400)
    [found] = compared("rr-independent", records, runs=80).measured
    squares = []
    for name, epsilon in zip(SURVEY.names, (0.5, 0.5), strict=True):
        true = records.distribution([name])
        p = KeepUniform.with_epsilon(len(true), epsilon=epsilon).uniform_keep
        assert p is not None
        other = (1 - p) / len(true)
        hit = other + p
        squares += list((true * hit * (1 - hit) + (1 - true) * other * (1 - other)) / p**2 / 400)
    exact = math.sqrt(float(np.mean(squares)))
    assert found.predicted == pytest.approx(exact, rel=1e-6)
    assert found.raw is not None
    assert found.held is not None
    assert abs(found.raw.value - exact) < 4 * found.raw.error < 0.4 * exact
    assert abs(found.held.value - 0.95) < 4 * found.held.error


@pytest.mark.parametrize(
    ("names", "target", "n", "given"),
    thinned(
        [
            ("rr-joint,rr-ind-joint", "pairs", 400, {}),
            ("grr,oue", "margins", 400, {"dropout": 0.3, "parties": 40}),
            ("pair-rr", "a,b", 60, {"runs": 12, "parties": 3}),
            ("secure-sum:coins", "margins", 60, {"runs": 25, "parties": 10, "dropout": 0.05}),
        ],
        3,
    ),
)
def test_measured_agrees_with_predicted(
    names: str, target: str, n: int, given: dict[str, object]
) -> None:
    delta = 1e-6 if "coins" in names else None
    done = compared(names, records_of(n), target=target, epsilon=2.0, delta=delta, **given)
    for found in done.measured:
        assert found.by_law
        assert (found.among is None) == (found.variant != "secure-sum:coins")
        assert found.apart is not None
        assert abs(found.apart) < 4
        assert found.raw is not None
        assert found.predicted is not None
        assert found.raw.error < found.predicted / 3


def test_exact_sums_have_no_error_about_those_who_answered() -> None:
    """Whoever vanished is in neither the sum nor the truth, and few runs are enough."""
    done = compared("secure-sum", records_of(60), parties=10, dropout=0.1, seed=3)
    [found] = done.measured
    assert (found.runs, found.simulated) == (3, "by law")
    assert found.failed < 3
    assert found.raw is not None
    assert found.raw.value < 1e-12
    assert found.apart == 0
    assert found.held is not None
    assert found.held.value == 1
    assert any(
        "each of 10 parties vanishes" in note for note in state_comparison(done).values["notes"]
    )


def test_what_rests_on_honest_others_is_told() -> None:
    done = compared("secure-sum,rr-independent", records_of(60), runs=2, delta=1e-6)
    said = state_comparison(done)
    [grid] = said.sections[0].grids
    assert grid.columns[-1] == "#if honest"
    found = {row[0]: row[-1] for row in grid.rows}
    assert found == {"secure-sum:coins": "6 of 10", "secure-sum": NONE, "rr-independent": "any"}
    coins, exact, local = said.values["rows"]
    assert (coins["honest"], coins["delta_among_honest"]) == (6, 1e-6)
    assert 0.9 < coins["epsilon_among_honest"] <= 1
    assert exact["honest"] is local["honest"] is None
    assert any(note.startswith("if honest: ") for note in said.values["notes"])
    # Nothing of it where nothing rests on others.
    alone = state_comparison(compared("rr-independent", records_of(60), runs=2))
    assert "#if honest" not in alone.sections[0].grids[0].columns
    assert not any(note.startswith("if honest: ") for note in alone.values["notes"])


@pytest.mark.parametrize(("names", "dropout"), [("rr-joint", 0.5), ("pair-rr", 0.2)])
def test_runs_without_enough_answers_are_left_out_and_told(names: str, dropout: float) -> None:
    done = compared(names, records_of(30), target="a,b", parties=6, dropout=dropout, runs=8)
    [found] = done.measured
    assert 0 < found.failed < found.runs == 8
    assert found.raw is not None
    said = f"{names} at epsilon 1: {found.failed} of 8 runs gave no estimate"
    assert any(note.startswith(said) for note in state_comparison(done).values["notes"])


def test_what_is_the_same_at_each_epsilon_is_run_once() -> None:
    target = parse_target(SURVEY, "margins")
    what = [
        Compared(epsilon, each)
        for epsilon in (1.0, 2.0)
        for each in choose_candidates(
            [parse_name("secure-sum")], Wanted(SURVEY, epsilon, target), {}
        )
    ]
    pieces: list[Piece] = []

    def carried(kernel: Any, arguments: Any) -> list[Any]:
        pieces.extend(arguments)
        return [kernel(each) for each in arguments]

    done = compare(
        what,
        records_of(30),
        target,
        runs=100,
        seed=1,
        parties=3,
        carried=carried,
    )
    assert sum(len(piece.runs) for piece in pieces) == comparison.EXACT_RUNS
    assert [each.epsilon for each in done.measured] == [1.0, 2.0]
    assert done.measured[0].raw == done.measured[1].raw


def test_few_runs_tell_less() -> None:
    """A variant that errs as predicted hardly ever differs, by however few runs."""
    found = Measured("v", 1.0, "", runs=10, raw=Figure(1.6, 0.13), predicted=1.0)
    assert found.apart == pytest.approx(math.log(1.6) * 1.6 / 0.13)
    assert not found.differs
    assert found._replace(runs=20).differs
    assert not found._replace(runs=20, failed=10).differs
    assert found._replace(raw=Figure(2.0, math.nan)).apart is None
    assert found._replace(raw=Figure(2.0, 0.0)).differs
    assert found._replace(raw=Figure(0.0, 0.0)).differs
    assert not found._replace(raw=Figure(0.0, 0.0), predicted=0.0).differs


@pytest.mark.parametrize("runs", [10, 20, 100])
def test_chance_seldom_makes_a_difference(runs: int) -> None:
    """Of one cell with a normal error, whose squares are as skewed as they come."""
    squares = np.random.default_rng(runs).chisquare(1, (3000, runs))
    roots = np.sqrt(squares.mean(axis=1))
    errors = squares.std(axis=1, ddof=1) / math.sqrt(runs) / (2 * roots)
    found = [
        Measured("v", 1.0, "", runs=runs, raw=Figure(float(root), float(error)), predicted=1.0)
        for root, error in zip(roots, errors, strict=True)
    ]
    assert sum(each.differs for each in found) <= 12


def test_each_run_has_the_truth_of_those_who_answered_it() -> None:
    target = parse_target(SURVEY, "margins")
    records = records_of(60)
    setup = Setup(tables=target.tables, parties=10, dropout=0.4)
    [candidate] = choose_candidates([parse_name("rr-independent")], Wanted(SURVEY, 1.0, target), {})
    variant = candidate.variant
    assert variant is not None

    def missed(*seeds: int) -> list[Missed]:
        [piece] = split_runs(variant, records, setup, by_law=True, seeds=seeds)
        return missed_in(piece)

    together = missed(3, 4)
    assert [one.raw for one in together] == [missed(3)[0].raw, missed(4)[0].raw]
