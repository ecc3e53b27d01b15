"""The parts of the empirical audit: bounds, declared and learned events, and what is looked at."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from protocol import (
    AGGREGATOR,
    Coalition,
    Composed,
    ExactCounts,
    KeepElseTable,
    KeepUniform,
    Masked,
    MatrixRandomizer,
    Message,
    OneOf,
    PartyId,
    Plain,
    PrivacyEvent,
    Public,
    Randomized,
    Stream,
    Survey,
    UnaryEncoding,
    Variant,
    secret_of,
)
from protocol.attack.bounds import (
    at_least,
    at_most,
    clopper_pearson,
    epsilon_of_counts,
    epsilon_of_guesses,
    provable,
    trials_to_exceed,
)
from protocol.attack.columns import (
    MISSING,
    Codes,
    Matrix,
    element_columns,
    make_view,
    matrices_of_rows,
    view_matrices,
)
from protocol.attack.declared import declared_guess, log_ratios
from protocol.attack.learned import learned_guess
from protocol.attack.observer import Observation, observe
from protocol.attack.trials import unmasked
from protocol.simulation.rehearsal import Rehearsal
from protocol.simulation.setting import make_setting
from protocol.variants import RRIndependent
from protocol.variants.reports.reports import Report
from tests.protocol.leaks import MATRIX, THREE, TWO, some
from tests.statistical import ALPHA

TABLE = KeepElseTable.with_table(p=0.4, table=[0.5, 0.3, 0.2], mix=0.5)


# Bounds


@pytest.mark.parametrize(("hits", "trials"), [(0, 9), (1, 9), (5, 9), (9, 9), (700, 1000)])
@pytest.mark.parametrize("alpha", [0.05, 1e-9])
def test_ends_are_those_of_the_binomial_law(hits: int, trials: int, alpha: float) -> None:
    low, high = at_least(hits, trials, alpha=alpha), at_most(hits, trials, alpha=alpha)
    assert 0.0 <= low <= hits / trials <= high <= 1.0
    if hits:
        assert binom.sf(hits - 1, trials, low) == pytest.approx(alpha, rel=1e-6)
    if hits < trials:
        assert binom.cdf(hits, trials, high) == pytest.approx(alpha, rel=1e-6)
    both = clopper_pearson(hits, trials, alpha=2 * alpha)
    assert both == (low, high)


@settings(deadline=None, max_examples=30)
@given(n=st.integers(1, 60), epsilon=st.floats(0.0, 3.0), alpha=st.sampled_from([0.05, 1e-3]))
def test_right_guesses_rarely_prove_too_much(n: int, epsilon: float, alpha: float) -> None:
    """Exactly: over all numbers of right guesses, with coins of the odds that epsilon allows."""
    odds = math.exp(epsilon) / (1 + math.exp(epsilon))
    wrong = sum(
        binom.pmf(right, n, odds)
        for right in range(n + 1)
        if epsilon_of_guesses(right, n, alpha=alpha) > epsilon
    )
    assert wrong <= alpha


@pytest.mark.parametrize(("p", "delta"), [(0.3, 0.0), (0.5, 0.1), (0.9, 0.0)])
def test_two_counts_rarely_prove_too_much(p: float, delta: float) -> None:
    epsilon, alpha, n = 0.7, 0.05, 25
    q = (p - delta) / math.exp(epsilon)
    wrong = sum(
        binom.pmf(one, n, p) * binom.pmf(other, n, q)
        for one, other in itertools.product(range(n + 1), repeat=2)
        if epsilon_of_counts((one, other), (n, n), alpha=alpha, delta=delta) > epsilon
    )
    assert 0 < wrong <= alpha


@pytest.mark.parametrize("shared", ["nothing", "a coin", "their order"])
def test_trials_of_one_run_prove_no_more_than_independent_ones(shared: str) -> None:
    """Exactly, for five respondents whose reports depend on each other in a way that is sound."""
    n, truthful = 5, 0.75
    law = np.zeros(n + 1)
    for bits in itertools.product((0, 1), repeat=n):
        for lies in itertools.product((0, 1), repeat=n):
            chance = np.prod([truthful if not lie else 1 - truthful for lie in lies]) / 2**n
            reports = [bit ^ lie for bit, lie in zip(bits, lies, strict=True)]
            for coin in (0, 1):
                said = [report ^ coin for report in reports] if shared == "a coin" else reports
                said = sorted(said) if shared == "their order" else said
                law[sum(a == b for a, b in zip(said, bits, strict=True))] += chance / 2
    assert law.sum() == pytest.approx(1.0)
    for right in range(n + 1):
        assert law[right:].sum() <= binom.sf(right - 1, n, truthful) + 1e-12


def test_what_counts_prove_grows_with_them() -> None:
    assert epsilon_of_guesses(500, 1000, alpha=ALPHA) == 0.0
    proved = [epsilon_of_guesses(75 * n, 100 * n, alpha=ALPHA) for n in (1, 10, 100, 10_000)]
    assert proved == sorted(proved)
    assert proved[-1] == pytest.approx(math.log(3), abs=0.04)
    assert epsilon_of_counts((750, 250), (1000, 1000), alpha=ALPHA, delta=0.74) == 0.0
    with pytest.raises(ValueError, match="3 hits: expected 0 to 2"):
        at_least(3, 2, alpha=0.1)
    with pytest.raises(ValueError, match="delta 1"):
        epsilon_of_counts((1, 1), (2, 2), alpha=0.1, delta=1.0)


@pytest.mark.parametrize("epsilon", [0.0, 0.405, 1.386, 3.09, 6.2])
def test_how_many_trials_it_takes(epsilon: float) -> None:
    """With every guess right: as many as make all of them right by chance too unlikely."""
    alpha = 1e-9 / 24
    needed = trials_to_exceed(epsilon, alpha=alpha, delta=0.0)
    chance = 1 / (1 + math.exp(-epsilon))
    assert needed == math.floor(math.log(alpha) / math.log(chance)) + 1
    assert chance**needed < alpha <= chance ** (needed - 1)
    for delta in (0.0, 1e-3):
        least = int(trials_to_exceed(epsilon, alpha=alpha, delta=delta))
        assert provable(least, alpha=alpha, delta=delta) > epsilon
        assert provable(least - 1, alpha=alpha, delta=delta) <= epsilon
    assert math.isinf(trials_to_exceed(math.inf, alpha=alpha, delta=0.0))
    assert math.isinf(trials_to_exceed(60.0, alpha=alpha, delta=0.0))


# Events


def declared(
    message: Report, event: PrivacyEvent, survey: Survey, codes: tuple[Codes, Codes]
) -> list[float]:
    ratios = log_ratios(message, event, Variant(survey=survey), codes)
    assert ratios is not None
    found: list[float] = ratios.tolist()
    return found


@pytest.mark.parametrize("randomizer", [MATRIX, TABLE, KeepUniform.with_keep(3, p=0.4)])
def test_the_declared_law(randomizer: MatrixRandomizer | KeepElseTable | KeepUniform) -> None:
    message = Report(np.array([[0], [1], [2], [2]], np.uint8))
    event = Composed((Randomized(randomizer, ("mood",)),))
    for first, second in itertools.permutations(range(3), 2):
        records = np.array([first]), np.array([second])
        ratios = declared(message, event, THREE, records)
        laws = np.log(randomizer.matrix())
        expected = (laws[second] - laws[first])[[0, 1, 2, 2]]
        assert ratios == pytest.approx(expected.tolist(), rel=1e-12)


def test_the_declared_law_of_attributes_together_and_apart() -> None:
    joint, apart = KeepUniform.with_keep(4, p=0.5), KeepUniform.with_keep(2, p=0.5)
    records = np.array([0, 1]), np.array([1, 1])
    together = Composed((Randomized(joint, TWO.names),))
    said = Report(np.array([[1], [3], [0]], np.uint8))
    gain = math.log(joint.diagonal / joint.off_diagonal)
    assert declared(said, together, TWO, records) == pytest.approx([-gain, gain, 0.0])
    by_itself = Composed(tuple(Randomized(apart, (name,)) for name in TWO.names))
    said = Report(np.array([[0, 0], [1, 0]], np.uint8))
    ratios = declared(said, by_itself, TWO, records)
    assert ratios == pytest.approx([-math.log(3), math.log(3)])


@pytest.mark.parametrize(
    "event",
    [
        Public(),
        Plain(("mood",)),
        Randomized(UnaryEncoding.symmetrized(9, epsilon=1.0), ("mood",)),
        Randomized(KeepUniform.with_keep(2, p=0.5), ("mood",)),
        Composed((Randomized(MATRIX, ("mood",)), Randomized(MATRIX, ("mood",)))),
        OneOf((Randomized(MATRIX, ("mood",)),)),
    ],
    ids=lambda event: type(event).__name__,
)
def test_no_declared_law_is_made_up(event: PrivacyEvent) -> None:
    message = Report(np.array([[0]], np.uint8))
    codes = np.array([0]), np.array([1])
    assert log_ratios(message, event, Variant(survey=THREE), codes) is None


def test_the_declared_guess_is_at_the_largest_ratio() -> None:
    guesses = declared_guess(np.array([1.0, -1.0, 0.5, 0.0, 1.0 - 1e-12])).guesses
    assert guesses.tolist() == [1, -1, 0, 0, 1]
    assert not declared_guess(np.zeros(3)).guesses.any()


def learned(columns: dict[str, np.ndarray], bits: np.ndarray) -> tuple[str, float]:
    """What is learned from half of the trials, and how often it is right on the others."""
    taught = np.arange(len(bits)) % 2 == 0
    guess = learned_guess(columns, None, bits, taught, z=3.0)
    assert guess is not None
    made = ~taught & (guess.guesses != 0)
    return guess.words, float(((guess.guesses > 0) == bits)[made].mean())


def drawn(high: int, n: int = 4000, purpose: str = "column") -> np.ndarray:
    return Stream(secret_of(1)).derive(purpose).integers(high, n).astype(np.int64)


def test_the_column_that_tells_is_found() -> None:
    bits = drawn(2, purpose="bits").astype(bool)
    noise = {f"noise {i}": drawn(2**62, purpose=f"noise {i}") for i in range(50)}
    few = {f"few {i}": drawn(7, purpose=f"few {i}") for i in range(50)}
    telling = np.where(drawn(10) < 7, bits, drawn(2, purpose="lie")).astype(np.int64) + 5
    words, right = learned({**noise, **few, "telling": telling}, bits)
    assert words.startswith("telling")
    assert right == pytest.approx(0.85, abs=0.05)


def test_a_column_with_a_value_for_each_row_is_left_out() -> None:
    """Learning by heart what each value had meant would look perfect, and be worth nothing."""
    bits = drawn(2, purpose="bits").astype(bool)
    names = np.arange(len(bits)) // 2
    telling = np.where(drawn(10) < 5, bits, drawn(2, purpose="lie")).astype(np.int64)
    words, right = learned({"name": names, "other": drawn(2000), "telling": telling}, bits)
    assert "telling" in words
    assert right > 0.7


def test_two_columns_that_tell_together() -> None:
    bits = drawn(2, purpose="bits").astype(bool)
    pad = drawn(3)
    words, right = learned({"pad": pad, "sum": (pad + bits) % 3, "noise": drawn(5)}, bits)
    assert "pad with sum" in words
    assert right == 1.0


def test_nothing_is_learned_where_nothing_differs() -> None:
    bits = drawn(2).astype(bool)
    same = np.full(len(bits), 7)
    assert learned_guess({"same": same}, None, bits, np.ones(len(bits), bool), z=3.0) is None


# Views


class Word(Message, frozen=True):
    """A message of all sorts of fields."""

    body: np.ndarray
    share: float = 0.0
    count: int = 0
    name: str = ""
    more: tuple[int, ...] = ()


def columns_of_words(*words: Word) -> dict[str, list[int]]:
    """What differs between messages."""
    observations = [Observation({"target's Word": word}, {}, Counter()) for word in words]
    columns = element_columns(view_matrices(list(map(make_view, observations))), related=())
    lists = {
        name.replace("target's Word.", ""): column.tolist() for name, column in columns.items()
    }
    return {name: column for name, column in lists.items() if len(set(column)) > 1}


def test_nothing_of_a_message_is_left_out() -> None:
    zeros = np.zeros(6000, np.uint8)
    near, far = zeros.copy(), zeros.copy()
    near[4095], far[5000] = 1, 1
    told = columns_of_words(Word(zeros), Word(near), Word(far))
    assert told.keys() == {"body[4095]", "all of body", "rest of body"}
    assert told["body[4095]"] == [0, 1, 0]
    assert [len(set(told[name])) for name in ("all of body", "rest of body")] == [3, 2]
    told = columns_of_words(Word(zeros[:2]), Word(zeros[:3]))
    assert told["body[2]"] == [MISSING, 0]
    flat, tall = zeros[:6].reshape(2, 3), zeros[:6].reshape(3, 2)
    assert columns_of_words(Word(flat), Word(tall)).keys() == {"shape of body"}
    told = columns_of_words(Word(zeros[:1], share=0.5), Word(zeros[:1], share=0.5 + 2**-40))
    assert told.keys() == {"last bits of share"}
    floats = np.array([0.25, 0.5]), np.array([0.25, 0.5 + 2**-40])
    assert "last bits of body[1]" in columns_of_words(*map(Word, floats))
    told = columns_of_words(Word(zeros[:1], count=-1), Word(zeros[:1], count=(1 << 64) - 2))
    assert told == {"count": [-1, -2]}
    told = columns_of_words(Word(zeros[:1], count=1), Word(zeros[:1], count=1 + (1 << 63)))
    assert len(set(told["count"])) == 2
    told = columns_of_words(Word(zeros[:1], name="ab"), Word(zeros[:1], name="ac"))
    assert told["name[1]"] == [98, 99]
    told = columns_of_words(Word(zeros[:1], more=(1, 2)), Word(zeros[:1], more=(1, 3)))
    assert told["more[2]"] == [2, 3]


def test_many_trials_leave_room_for_the_first_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory of all that is looked at is bounded, and what is not is hashed."""
    monkeypatch.setattr("protocol.attack.columns.CELLS", 90_000)
    bodies = [np.full(5000, place % 2, np.uint8) for place in range(80)]
    observations = [Observation({"target's Word": Word(body)}, {}, Counter()) for body in bodies]
    found = view_matrices(list(map(make_view, observations)))
    assert found["target's Word.body"].values.shape == (80, 1024)
    assert len(set(found["rest of target's Word.body"].values[:, 0].tolist())) == 2


def test_rows_are_hashed_if_they_are_long() -> None:
    values = np.zeros((4, 10))
    values[1, 1], values[2, 9], values[3, 9] = 1e-9, 0.5, 0.5
    found = dict(matrices_of_rows("x", values, 64, most=4))
    assert list(found) == ["x", "last bits of x", "all of x", "rest of x"]
    assert not found["x"].values.any()
    assert np.flatnonzero(found["last bits of x"].values.any(axis=1)).tolist() == [1]
    whole, rest = (found[name].values[:, 0].tolist() for name in ("all of x", "rest of x"))
    assert len(set(whole)) == 3
    assert whole[2] == whole[3]
    assert len(set(rest)) == 2
    assert rest[0] == rest[1] != rest[2]
    narrow = dict(matrices_of_rows("y", np.zeros((3, 2), np.uint8), 8, most=4))
    assert list(narrow) == ["y"]


def test_how_messages_come_is_looked_at() -> None:
    variant = RRIndependent.with_keep(TWO, 0.5)
    run = Rehearsal(make_setting(variant, some(TWO, 3), seed=1, parties=3))
    labels = {name: str(name) for name, _ in run.charter.roster.members}
    facts = observe(run, Coalition((AGGREGATOR,)), labels).facts
    # The aggregator asks all at once: one message with three recipients.
    assert facts["number of aggregator's Ask"] == 1
    assert facts["number of aggregator's Pooled among its sender's"] == 4
    assert facts["recipients of party-2's Report"] == 0
    assert facts["steps to recipients of party-2's Report"] == 2
    places = [facts[f"place of party-{i}'s Report"] for i in (1, 2, 3)]
    assert places == sorted(places)
    alone = observe(run, Coalition((AGGREGATOR,)), {PartyId("party-2"): "target"}).facts
    assert not any(name.startswith("place of") for name in alone)
    assert alone["number of target's Report among its sender's"] == 0


def test_differences_are_modulo_the_width_of_an_element() -> None:
    one = Matrix(np.array([[250, 3], [0, MISSING]]), 8)
    other = Matrix(np.array([[1, 5, 9], [255, 2, 9]]), 8)
    wide = Matrix(np.array([[1], [1]]), 32)
    named = {"target's A.x": one, "target's A 2.x": other, "target's B.x": wide}
    columns = element_columns(named, related=named)
    differences = {name: column.tolist() for name, column in columns.items() if " - " in name}
    assert differences == {
        "target's A 2.x - target's A.x[0]": [7, -1],
        "target's A 2.x - target's A.x[1]": [2, MISSING],
    }
    assert columns["target's B.x"].tolist() == [1, 1]


def test_an_event_without_its_exact_sums() -> None:
    told = Randomized(MATRIX, ("mood",))
    assert unmasked(Masked(ExactCounts(("mood",)))) == Public()
    assert unmasked(ExactCounts(("mood",))) == ExactCounts(("mood",))
    assert unmasked(Composed((Masked(ExactCounts(("mood",))), told))) == Composed((Public(), told))
    assert unmasked(OneOf((told, Masked(ExactCounts(("mood",)))))) == OneOf((told, Public()))
