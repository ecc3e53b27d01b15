"""The clients of PrivKV and PrivKVM: exact laws and costs, words to symbols, the samplers."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol import KeepUniform, PrivKV, PrivKVM, Randomized
from protocol.accounting.accountants import PureAccountant
from protocol.crypto.randomness import WORDS
from protocol.randomizers.keyvalue import ABSENT, MINUS, PLUS, SYMBOLS
from tests.scripted import Scripted, seeded
from tests.statistical import ALPHA, WRONG, chi_square_p_value

THRESHOLDS = st.integers(1, WORDS - 1)
NAN = math.nan


def client(key: int, value: int, *, keys: int = 4) -> PrivKV:
    responses = (KeepUniform(2, threshold) for threshold in (key, value))
    return PrivKV(keys=keys, key_response=next(responses), value_response=next(responses))


@st.composite
def clients(draw: st.DrawFn) -> PrivKV:
    return client(draw(THRESHOLDS), draw(THRESHOLDS))


def true_probability(response: KeepUniform) -> Fraction:
    kept = Fraction(response.threshold, WORDS)
    return kept + (1 - kept) / 2


def exact_law(randomizer: PrivKV, *, fake: int = 0) -> list[list[Fraction]]:
    """From the definition: every fake, sign, turned sign and turned key, added up."""
    p_1, p_2 = map(true_probability, (randomizer.key_response, randomizer.value_response))
    law = [[Fraction(0)] * 3 for _ in range(3)]
    for state, shown, turned, told in itertools.product(range(3), (1, -1), (0, 1), (0, 1)):
        value = fake if state == ABSENT else SYMBOLS[state]
        chance = Fraction(1 + shown * value, 2) * (1 - p_2 if turned else p_2)
        held = state != ABSENT
        chance *= p_1 if told == held else 1 - p_1
        sign = -shown if turned else shown
        law[state][(PLUS if sign == 1 else MINUS) if told else ABSENT] += chance
    return law


def largest_log_ratio(law: list[list[Fraction]]) -> float:
    ratios = [max(column) / min(column) for column in zip(*law, strict=True)]
    return math.log1p(float(max(ratios) - 1))


# Laws and costs


@settings(deadline=None, max_examples=80)
@given(clients())
def test_matrix_and_epsilon_are_those_of_the_definition(randomizer: PrivKV) -> None:
    law = exact_law(randomizer)
    assert all(sum(row) == 1 for row in law)
    np.testing.assert_allclose(
        randomizer.matrix(), [[float(entry) for entry in row] for row in law], rtol=1e-14
    )
    assert randomizer.epsilon == pytest.approx(largest_log_ratio(law), rel=1e-13)
    assert (
        max(randomizer.value_response.epsilon, randomizer.key_response.epsilon)
        <= randomizer.epsilon
    )
    assert randomizer.epsilon <= randomizer.charged
    # What is charged is what the worst fakes would cost.
    worst = largest_log_ratio(exact_law(randomizer, fake=-1))
    assert randomizer.charged == pytest.approx(worst, rel=1e-13)


def test_epsilon_of_round_numbers() -> None:
    # p = 3/4 twice: ln((3/4 * 3/4) / (1/4 * 1/2)), charged ln 9; then p_1 = 5/8 and p_2 = 7/8,
    # where the value's ln 7 is more than ln(5/3 * 7/4).
    assert client(WORDS // 2, WORDS // 2).epsilon == math.log(4.5)
    assert client(WORDS // 2, WORDS // 2).charged == math.log(9)
    assert client(WORDS // 4, WORDS // 4 * 3).epsilon == math.log(7)
    assert client(WORDS // 4, WORDS // 4 * 3).charged == pytest.approx(math.log(35 / 3), rel=1e-15)


@settings(deadline=None, max_examples=80)
@given(st.floats(0.01, 20), st.floats(0.01, 20))
def test_epsilons_are_not_exceeded_and_nearly_spent(key: float, value: float) -> None:
    randomizer = PrivKV.with_epsilon(3, key_epsilon=key, value_epsilon=value)
    assert randomizer.key_response.epsilon <= key
    assert randomizer.value_response.epsilon <= value
    for found, asked in (
        (randomizer.key_response.epsilon, key),
        (randomizer.value_response.epsilon, value),
        (randomizer.charged, key + value),
        (randomizer.epsilon, max(value, key + math.log(2 / (1 + math.exp(-value))))),
    ):
        assert found == pytest.approx(asked, rel=1e-9)


@pytest.mark.parametrize("rounds", [1, 2, 3, 7])
def test_budgets_are_split_as_in_the_paper(rounds: int) -> None:
    once, several = PrivKV.with_budget(9, epsilon=2.0), PrivKVM.with_budget(9, epsilon=2.0)
    assert once.charged == pytest.approx(2.0, rel=1e-15)
    assert once.epsilon == pytest.approx(1 + math.log(2 / (1 + math.exp(-1))), rel=1e-15)
    assert (once.keys, several.keys, several.rounds) == (9, 9, 3)
    assert several.epsilon == pytest.approx(2.0, rel=1e-15)
    assert several.each.key_response == once.key_response
    other = PrivKVM.with_budget(9, epsilon=2.0, rounds=rounds)
    assert other.each.value_response.epsilon == pytest.approx(1 / rounds, rel=1e-15)
    assert other.epsilon == pytest.approx(2.0, rel=1e-14)


@settings(deadline=None, max_examples=25)
@given(clients(), st.integers(1, 3))
def test_rounds_cost_their_sum_with_the_worst_fakes(each: PrivKV, rounds: int) -> None:
    p_1, p_2 = map(true_probability, (each.key_response, each.value_response))

    def chance(state: int, signs: tuple[int, ...], fakes: tuple[int, ...]) -> Fraction:
        """Of a key that is reported, and of these signs, one a round."""
        total = 1 - p_1 if state == ABSENT else p_1
        for sign, fake in zip(signs, fakes, strict=True):
            value = fake if state == ABSENT else SYMBOLS[state]
            total *= p_2 if sign == value else 1 - p_2
        return total

    largest = Fraction(1)
    for signs in itertools.product((1, -1), repeat=rounds):
        for fakes in itertools.product((1, -1), repeat=rounds):
            chances = [chance(state, signs, fakes) for state in range(3)]
            largest = max(largest, max(chances) / min(chances))
    found = PrivKVM(each=each, rounds=rounds).epsilon
    assert found == pytest.approx(math.log1p(float(largest - 1)), rel=1e-12)


def test_an_accountant_takes_the_true_cost() -> None:
    attributes = ("movies",)
    for randomizer in (PrivKV.with_budget(5, epsilon=1.0), PrivKVM.with_budget(5, epsilon=1.0)):
        loss = PureAccountant().judge(Randomized(randomizer, attributes))
        assert loss.record == randomizer.epsilon
        assert loss.attributes == {"movies": randomizer.epsilon}
        assert not loss.unbounded


@pytest.mark.parametrize("keys", [0, -1, 2**32 + 1])
def test_numbers_of_keys_are_checked(keys: int) -> None:
    with pytest.raises(ValueError, match="keys"):
        PrivKV.with_budget(keys, epsilon=1.0)


@pytest.mark.parametrize("rounds", [0, -1, 1001])
def test_numbers_of_rounds_are_checked(rounds: int) -> None:
    with pytest.raises(ValueError, match="rounds"):
        PrivKVM.with_budget(3, epsilon=1.0, rounds=rounds)
    with pytest.raises(ValueError, match="rounds"):
        PrivKVM(each=PrivKV.with_budget(3, epsilon=1.0), rounds=rounds)


def test_responses_are_binary_and_epsilons_positive() -> None:
    binary, other = KeepUniform(2, 1), KeepUniform(3, 1)
    for responses in ((binary, other), (other, binary)):
        with pytest.raises(ValueError, match="response: 3 categories"):
            PrivKV(keys=3, key_response=responses[0], value_response=responses[1])
    for epsilon in (0.0, -1.0, NAN, math.inf):
        with pytest.raises(ValueError, match="epsilon"):
            PrivKV.with_budget(3, epsilon=epsilon)


# Words to symbols


def test_words_map_to_symbols_exactly() -> None:
    # A response keeps below its threshold; from there on words alternate between 0 and 1.
    randomizer = client(100, 200)
    half = WORDS // 2
    cases = [
        # value, key's word, sign's word, value's word, symbol
        (1.0, 99, WORDS - 1, 199, PLUS),
        (1.0, 101, WORDS - 1, 199, PLUS),
        (1.0, 100, WORDS - 1, 199, ABSENT),
        (-1.0, 0, 0, 0, MINUS),
        (-1.0, 0, 0, 201, PLUS),
        (1.0, 0, 0, 200, MINUS),
        (0.0, 0, half - 1, 0, PLUS),
        (0.0, 0, half, 0, MINUS),
        (0.5, 0, half + half // 2 - 1, 0, PLUS),
        (0.5, 0, half + half // 2, 0, MINUS),
        (NAN, 99, 0, 0, ABSENT),
        (NAN, 100, 0, 0, ABSENT),
        (NAN, 101, half - 1, 0, PLUS),
        (NAN, 101, half, 0, MINUS),
        (NAN, 101, half, 201, PLUS),
    ]
    values, *words, expected = zip(*cases, strict=True)
    stream = Scripted(*itertools.chain(*words))
    reported = randomizer.perturb_keys(values, stream)
    symbols = randomizer.perturb_values(values, reported, stream)
    assert symbols.tolist() == list(expected)
    assert symbols.dtype == np.uint8
    assert stream.left == 0
    assert [SYMBOLS[code] for code in (ABSENT, PLUS, MINUS)] == [0, 1, -1]


def test_fakes_stand_for_missing_values_alone() -> None:
    randomizer = client(1, WORDS - 1)
    values, reported = [NAN, NAN, 1.0, -1.0, NAN], np.array([True, True, True, True, False])
    for fakes, expected in (
        (1.0, [PLUS, PLUS, PLUS, MINUS, ABSENT]),
        ([1.0, -1.0, -1.0, 1.0, 1.0], [PLUS, MINUS, PLUS, MINUS, ABSENT]),
    ):
        # The value's words, all 0, keep every sign.
        stream = Scripted(*[WORDS // 2] * 5, *[0] * 5)
        symbols = randomizer.perturb_values(values, reported, stream, fakes=fakes)
        assert symbols.tolist() == expected


def test_a_record_is_asked_for_one_key_of_its_own() -> None:
    # Keys 2, 0 and 1 of three respondents; nothing is turned.
    randomizer = client(WORDS - 1, WORDS - 1, keys=3)
    table = [[NAN, 1.0, -1.0], [1.0, NAN, -1.0], [-1.0, NAN, 1.0]]
    stream = Scripted(2, 0, 1, *[0] * 9)
    reports = randomizer.randomize_values(table, stream)
    assert reports.keys.tolist() == [2, 0, 1]
    assert reports.keys.dtype == np.uint8
    assert reports.symbols.tolist() == [MINUS, PLUS, ABSENT]
    assert stream.left == 0
    # As many words are drawn whatever is held.
    missing = Scripted(2, 0, 1, *[0] * 9)
    reports = randomizer.randomize_values(np.full((3, 3), NAN), missing)
    assert reports.symbols.tolist() == [ABSENT] * 3
    assert missing.left == 0


def test_inputs_are_checked() -> None:
    randomizer, stream = client(1, 1), seeded()
    two = np.ones(2, np.bool_)
    for values in ([1.5, 0.0], [-math.inf, 0.0]):
        with pytest.raises(ValueError, match=r"outside \[-1, 1\]"):
            randomizer.perturb_keys(values, stream)
        with pytest.raises(ValueError, match=r"outside \[-1, 1\]"):
            randomizer.perturb_values(values, two, stream)
        with pytest.raises(ValueError, match=r"outside \[-1, 1\]"):
            randomizer.randomize_values([[*values, NAN, NAN]], stream)
    for shape in ((4,), (2, 3), (1, 2, 4)):
        with pytest.raises(ValueError, match="shape"):
            randomizer.randomize_values(np.zeros(shape), stream)
    for reported in (two[:1], np.ones(2)):
        with pytest.raises(ValueError, match="reported"):
            randomizer.perturb_values([0.0, 0.0], np.asarray(reported), stream)
    for fakes, message in (([0.0] * 3, "shape"), (NAN, "outside"), ([2.0, 0.0], "outside")):
        with pytest.raises(ValueError, match=f"fake.*{message}"):
            randomizer.perturb_values([0.0, 0.0], two, stream, fakes=fakes)


# Samplers


def sampled(values: list[float], epsilon: float, *, n: int, fake: float = 0.0) -> np.ndarray:
    """Counts of symbols, n respondents for each value."""
    randomizer = PrivKV.with_budget(4, epsilon=epsilon)
    all_values, stream = np.repeat(values, n), seeded(7)
    reported = randomizer.perturb_keys(all_values, stream)
    symbols = randomizer.perturb_values(all_values, reported, stream, fakes=fake)
    return np.array([np.bincount(part, minlength=3) for part in symbols.reshape(-1, n)])


def mixed_law(values: list[float], epsilon: float, *, fake: float = 0.0) -> np.ndarray:
    matrix = PrivKV.with_budget(4, epsilon=epsilon).matrix()
    told = matrix[ABSENT, PLUS] * 2
    keep = (matrix[PLUS, PLUS] - matrix[PLUS, MINUS]) / (1 - matrix[PLUS, ABSENT])
    faked = [1 - told, told * (1 + keep * fake) / 2, told * (1 - keep * fake) / 2]
    return np.array(
        [
            faked
            if math.isnan(value)
            else (1 + value) / 2 * matrix[PLUS] + (1 - value) / 2 * matrix[MINUS]
            for value in values
        ]
    )


@pytest.mark.parametrize("fake", [0.0, -0.8])
def test_sampler_follows_its_law(fake: float) -> None:
    values = [NAN, 1.0, -1.0, 0.6]
    observed = sampled(values, 3.0, n=200_000, fake=fake)
    assert chi_square_p_value(observed, mixed_law(values, 3.0, fake=fake)) > ALPHA
    assert chi_square_p_value(observed, mixed_law(values, 3.0 * WRONG, fake=fake)) < ALPHA
    wrong = mixed_law([0.6 * WRONG], 3.0)
    assert chi_square_p_value(observed[3], wrong[0]) < ALPHA
    if fake:
        assert chi_square_p_value(observed[0], mixed_law([NAN], 3.0, fake=fake * WRONG)[0]) < ALPHA


def test_keys_are_uniform() -> None:
    observed = np.bincount(client(1, 1, keys=7).sampled(200_000, seeded(3)), minlength=7)
    assert chi_square_p_value(observed, np.full(7, 1 / 7)) > ALPHA
    wrong = np.array([WRONG, *[(7 - WRONG) / 6] * 6]) / 7
    assert chi_square_p_value(observed, wrong) < ALPHA
