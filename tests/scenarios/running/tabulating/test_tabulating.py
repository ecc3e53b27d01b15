"""Tabulating: one digest on every engine, each cohort once, and a driver that may die."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from protocol import (
    CannotTabulateError,
    Noise,
    Records,
    SecureSum,
    SurveyError,
    TableLaw,
    key_survey,
)
from protocol.session.tabulation import Totals
from protocol.simulation.populations.cohorts import Counted
from protocol.variants import PairCounts, PrivKVMVariant, RRClusters, RRIndependent
from protocol.variants.sums.tallies import Tally
from scenarios import Tabulated, UsageError, state_tabulation, tabulate
from scenarios.files import cohorts_done
from scenarios.running import tabulating
from scenarios.running.engines.engine import Engine
from scenarios.running.engines.here import Here
from tests.every_variant import BITS
from tests.recorded.runs import answers
from tests.scenarios.command import ROOT, environment
from tests.statistical import ALPHA, WRONG, chi_square_p_value
from transports.testing import HANGS

LAW = TableLaw(BITS, np.array([4, 1, 2, 3, 1, 5, 2, 2]) / 20)
VARIANT = RRIndependent.with_keep(BITS, 0.6)
N, COHORT = 10_500, 1_000
FILMS = key_survey("films", ("heat", "ran"), ((-0.5, 0.5), (1.0,)))
ROUNDS = PrivKVMVariant(survey=FILMS, epsilon=2.0)


def tabulated(**options: Any) -> Tabulated:
    """A small tabulation."""
    return tabulate(VARIANT, LAW, **{"n": N, "cohort": COHORT, **options})


WHOLE = tabulated()


class Backward(Engine):
    """Hands back the last task first, and says which it was given."""

    name = "backward"
    jobs = window = 4

    def __init__(self) -> None:
        self.given: list[tuple[int, int]] = []
        self._waiting: list[tuple[int, Callable[[], Any]]] = []

    @property
    def under_way(self) -> int:
        return len(self._waiting)

    def submit(self, key: int, kernel: Any, argument: Any, *, again: bool = True) -> None:
        self.given.append((argument.cohort, argument.k))
        self._waiting.append((key, lambda: kernel(argument)))

    def drain(self) -> list[tuple[int, Any]]:
        key, task = self._waiting.pop()
        return [(key, task())]

    def close(self) -> None:
        self._waiting.clear()


def test_the_order_in_which_cohorts_come_back_does_not_matter() -> None:
    engine = Backward()
    found = tabulated(engine=engine)
    assert found.digest == WHOLE.digest
    assert np.array_equal(found.estimate.table("a").values, WHOLE.estimate.table("a").values)
    assert sorted(engine.given) == [*((cohort, COHORT) for cohort in range(10)), (10, 500)]
    assert (found.engine, WHOLE.engine) == ("backward", "here")


def test_seed_people_and_cohorts_change_the_digest() -> None:
    others = [
        tabulated(seed=2),
        tabulated(n=N + 1),
        tabulated(cohort=COHORT + 1),
        tabulate(RRIndependent.with_keep(BITS, 0.7), LAW, n=N, cohort=COHORT),
        tabulate(VARIANT, answers(BITS, 8), n=N, cohort=COHORT),
    ]
    assert len({WHOLE.digest, *(found.digest for found in others)}) == 6


def test_what_it_says() -> None:
    assert WHOLE.sentence == (
        "10,500 people by law, drawn from a joint distribution: nobody was live, no message was "
        "sent, and nothing was recorded."
    )
    values = state_tabulation("town", WHOLE, "simplex").values
    assert values["digest"] == WHOLE.digest.hex()
    assert values["respondents"] == values["estimate"]["respondents"] == N
    assert values["estimate"]["projection"] == "simplex"
    assert values["by_law"]["cohorts"] == 11
    assert values["privacy"]["record_epsilon"] == pytest.approx(VARIANT.most())
    assert set(values["privacy"]["attribute_epsilon"]) == set(BITS.names)
    assert "truth" not in values
    assert "truth" in state_tabulation("bits", tabulate(VARIANT, answers(BITS, 8), n=10)).values
    assert WHOLE.estimate.n == N
    assert json.loads(json.dumps(values)) == values


class Stop(Exception):
    """Ends a tabulation from within."""


def stopping(after: int, error: type[BaseException] = Stop) -> Callable[[int, int], None]:
    """Progress that fails when so many people are asked."""

    def progress(done: int, total: int) -> None:
        if done >= after:
            raise error

    return progress


@pytest.mark.parametrize("error", [Stop, KeyboardInterrupt])
def test_what_was_done_is_not_done_again(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "cohorts.part"
    with pytest.raises(error):
        tabulated(path=path, progress=stopping(4000, error))
    assert path.stat().st_mode & 0o077 == 0
    engine, seen = Backward(), []
    found = tabulated(path=path, engine=engine, progress=lambda *at: seen.append(at))
    assert found.digest == WHOLE.digest
    assert seen[0] == (4000, N)
    assert seen[-1] == (N, N)
    assert sorted(cohort for cohort, _ in engine.given) == [4, 5, 6, 7, 8, 9, 10]
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("after", [300, 700, 1500])
def test_rounds_go_on_where_they_were(tmp_path: Path, after: int) -> None:
    people = answers(FILMS, 30)
    whole = tabulate(ROUNDS, people, n=500, cohort=100)
    path = tmp_path / "cohorts.part"
    with pytest.raises(Stop):
        tabulate(ROUNDS, people, n=500, cohort=100, path=path, progress=stopping(after))
    engine = Backward()
    again = tabulate(ROUNDS, people, n=500, cohort=100, path=path, engine=engine)
    assert again.digest == whole.digest
    assert np.array_equal(again.result.counts, whole.result.counts)
    assert len(engine.given) == (1500 - after) // 100


def test_a_kept_file_holds_all(tmp_path: Path) -> None:
    path = tmp_path / "cohorts.part"
    assert tabulated(path=path, keep=True).digest == WHOLE.digest
    engine = Backward()
    assert tabulated(path=path, engine=engine).digest == WHOLE.digest
    assert engine.given == []
    assert not path.exists()


def test_an_interruption_while_a_cohort_is_added_counts_nobody_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, added = tmp_path / "cohorts.part", []
    add_to = Counted.add_to

    def interrupted(counted: Counted, totals: Totals) -> None:
        add_to(counted, totals)
        added.append(counted)
        if len(added) == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(tabulating, "WRITTEN_EVERY", 0.0)
    monkeypatch.setattr(tabulating, "_SHARE_OF_WRITING", 1e9)
    with monkeypatch.context() as patch:
        patch.setattr(Counted, "add_to", interrupted)
        with pytest.raises(KeyboardInterrupt):
            tabulated(path=path)
    engine = Backward()
    found = tabulated(path=path, engine=engine)
    assert len(engine.given) == 8
    assert found.digest == WHOLE.digest
    assert np.array_equal(found.result.counts, WHOLE.result.counts)


KILLED = """
import os, signal, sys
import numpy as np
from scenarios.running import tabulating
from tests.scenarios.running.tabulating import test_tabulating as tests

tabulating.WRITTEN_EVERY = 0.0
tabulating._SHARE_OF_WRITING = 1e9

def progress(done, total):
    if done >= 6000:
        os.kill(os.getpid(), signal.SIGKILL)

tests.tabulated(path=sys.argv[1], progress=progress)
"""


@pytest.mark.slow
def test_a_driver_that_is_killed_is_gone_on_from(tmp_path: Path) -> None:
    path = tmp_path / "cohorts.part"
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(path)],
        cwd=ROOT,
        env={**environment(), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        timeout=HANGS,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    engine = Backward()
    assert tabulated(path=path, engine=engine).digest == WHOLE.digest
    # The last cohort was added, and its driver died before it had written that.
    assert sorted(cohort for cohort, _ in engine.given) == [5, 6, 7, 8, 9, 10]


@pytest.mark.parametrize(
    ("options", "differing"),
    [
        ({"seed": 2}, "seed"),
        ({"n": N + 1}, "n"),
        ({"cohort": 500}, "cohort"),
        ({"variant": RRIndependent.with_keep(BITS, 0.7)}, "parameters"),
        ({"population": answers(BITS, 3)}, "population"),
    ],
)
def test_the_file_of_another_tabulation_is_refused(
    tmp_path: Path, options: dict[str, Any], differing: str
) -> None:
    path = tmp_path / "cohorts.part"
    with pytest.raises(Stop):
        tabulated(path=path, progress=stopping(2000))
    before = path.read_bytes()
    given = {"variant": VARIANT, "population": LAW, "n": N, "cohort": COHORT, **options}
    with pytest.raises(UsageError, match=f"another tabulation, not with the same {differing};"):
        tabulate(path=path, **given)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda content: content[:-1], "is damaged"),
        (lambda content: content[:200] + bytes([content[200] ^ 1]) + content[201:], "is damaged"),
        (lambda content: content[:10], "is not the file of a tabulation"),
        (lambda content: b"", "is not the file of a tabulation"),
        (lambda content: b"anything else", "is not the file of a tabulation"),
    ],
)
def test_a_damaged_file_is_refused(
    tmp_path: Path, damage: Callable[[bytes], bytes], said: str
) -> None:
    path = tmp_path / "cohorts.part"
    with pytest.raises(Stop):
        tabulated(path=path, progress=stopping(2000))
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(UsageError, match=said):
        tabulated(path=path)


def test_a_state_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cohorts.part"
    with pytest.raises(Stop):
        tabulated(path=path, progress=stopping(2000))
    about = tabulating.about(tabulating.Job(VARIANT, LAW, 1), n=N, cohort=COHORT)
    known = cohorts_done.read_snapshot(path, about)
    assert known is not None
    from msgspec.structs import replace

    cohorts_done.write_snapshot(path, replace(known, done=b"\xff"))
    with pytest.raises(UsageError, match="the state is of another number of cohorts; delete it"):
        tabulated(path=path)


def test_no_link_is_followed_and_nobody_writes_at_the_same_time(tmp_path: Path) -> None:
    path, other = tmp_path / "cohorts.part", tmp_path / "other"
    other.write_bytes(b"kept")
    path.symlink_to(other)
    with pytest.raises(OSError, match=r"symbolic link|Too many levels"):
        tabulated(path=path)
    path.unlink()
    with cohorts_done.sole(path), pytest.raises(UsageError, match="another program is tabulating"):
        tabulated(path=path)
    assert other.read_bytes() == b"kept"
    tabulated(path=path)


def test_a_full_disk_leaves_the_last_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "cohorts.part"
    with pytest.raises(Stop):
        tabulated(path=path, progress=stopping(2000))
    before = path.read_bytes()

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(tabulating, "WRITTEN_EVERY", 0.0)
    with monkeypatch.context() as patch:
        patch.setattr(cohorts_done, "write_whole", full)
        with pytest.raises(OSError, match="No space left"):
            tabulated(path=path)
    assert path.read_bytes() == before
    assert tabulated(path=path).digest == WHOLE.digest


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"n": 0}, r"n 0: expected an integer from 1 to"),
        ({"n": 1e6}, r"n 1000000.0: expected an integer"),
        ({"n": 2**53 + 1}, "n 9007199254740993: expected"),
        ({"cohort": 0}, "cohort 0: expected"),
        ({"cohort": 2**27 + 1}, "cohort 134217729: expected"),
        ({"n": 2**25, "cohort": 1}, "expected at most 16,777,216 cohorts"),
        ({"seed": -1}, "seed -1: expected"),
        ({"engine": "elsewhere"}, "engine 'elsewhere': expected one of"),
        ({"jobs": 2}, "the engine 'here' runs one task at a time"),
        ({"engine": Here(), "jobs": 2}, "opened by its name"),
    ],
)
def test_arguments_out_of_range_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        tabulated(**options)


def test_coins_of_people_by_law_have_the_law_of_a_run_by_messages() -> None:
    """Cohorts of four, so that a party has people in several of them."""
    noise = Noise(trials=3, chance=20_000)
    variant = PairCounts(survey=BITS, sums=SecureSum(noise=noise))
    everybody = TableLaw(BITS, [1.0] + [0.0] * 7)
    for parties, coins in ((7, 21), (None, 33)):
        up = []
        for seed in range(150):
            found = tabulate(variant, everybody, n=11, cohort=4, seed=seed, parties=parties)
            totals = variant.published(found.result, Tally).totals
            up += (totals - np.where(np.arange(12) % 4, 0, 11)).tolist()
        edges = np.arange(*stats.binom.ppf((0.02, 0.98), coins, 20_000 / 2**16))
        observed = np.bincount(np.searchsorted(edges, up), minlength=len(edges) + 1)

        def law(chance: float, edges: np.ndarray = edges, coins: int = coins) -> np.ndarray:
            return np.diff([0, *stats.binom.cdf(edges, coins, chance), 1])

        assert chi_square_p_value(observed, law(20_000 / 2**16)) > ALPHA
        assert chi_square_p_value(observed, law(WRONG * 20_000 / 2**16)) < ALPHA


def test_what_cannot_be_tabulated_leaves_nothing(tmp_path: Path) -> None:
    variant = RRClusters(survey=BITS, p=0.6, tv=4, td=0.1)
    with pytest.raises(CannotTabulateError):
        tabulate(variant, LAW, n=10, path=tmp_path / "cohorts.part")
    assert [*tmp_path.iterdir()] == []


def test_a_population_of_another_survey_is_refused() -> None:
    with pytest.raises((UsageError, SurveyError), match="of another survey than the variant's"):
        tabulate(VARIANT, answers(FILMS, 3), n=10)


def test_too_many_combinations_are_refused() -> None:
    from protocol import Attribute, Survey

    names = ("a", "b", "c")
    survey = Survey(
        "wide", tuple(Attribute(name=n, categories=tuple(map(str, range(500)))) for n in names)
    )
    variant = RRIndependent.with_keep(survey, 0.5)
    people = Records(survey, np.zeros((1, 3), np.uint16))
    with pytest.raises(CannotTabulateError, match="125,000,000 combinations of answers, at most"):
        tabulate(variant, people, n=10)


def test_what_no_worker_can_find_is_refused() -> None:
    class Mine(RRIndependent, frozen=True):
        """Not at the top of a module."""

    assert tabulate(Mine.with_keep(BITS, 0.6), LAW, n=N, cohort=COHORT).digest == WHOLE.digest
    with pytest.raises(UsageError, match="defined at the top of a module"):
        tabulate(Mine.with_keep(BITS, 0.6), LAW, n=10, engine="processes", jobs=1)
