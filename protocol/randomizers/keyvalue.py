"""The clients of PrivKV and PrivKVM: one key of many with its value, randomized.

Horigome, Kikuchi and Yu, Expectation-Maximization Estimation for Key-Value Data Randomized with
Local Differential Privacy, section 2.2, after Ye et al., PrivKV (2019). A client holds some of d
public keys, each with a value in [-1, 1]; a key that it does not hold is missing. Missing is
written NaN here.
"""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from protocol.crypto.randomness import WORDS, Stream
from protocol.randomizers.exact import log_ratio
from protocol.randomizers.keep import KeepUniform
from protocol.randomizers.pairs import Dominating, ThreePoint, largest_ratio, total_variation_of_law
from protocol.randomizers.randomizer import Randomizer
from protocol.wire.arrays import smallest_dtype

ABSENT, PLUS, MINUS = 0, 1, 2
"""The codes of the three symbols that a report on a key can have."""

SYMBOLS = (0, 1, -1)
"""The symbols in the order of their codes: the key is absent, or present with value +1 or -1."""

MAX_KEYS = 2**32
ROUNDS = 3
"""The number of rounds of PrivKVM in the paper."""

_MAX_ROUNDS = 1000


class KeyValueReports(NamedTuple):
    """The reports of k respondents.

    Args:
        keys: the key that each was asked for, shape (k,), unsigned; independent of the answers.
        symbols: codes of ``SYMBOLS``, shape (k,), u1.
    """

    keys: NDArray[np.unsignedinteger]
    symbols: NDArray[np.uint8]


class PrivKV(Randomizer, frozen=True, kw_only=True, tag="privkv"):
    """Report on one key, drawn uniformly: whether it is held, and if so the sign of its value.

    The value v becomes +1 with probability ``(1+v)/2``, else -1, and then ``value_response`` may
    turn it; a missing key's value is a fake. ``key_response`` may turn whether the key is held. If
    the outcome is that it is not, the value stays untold. Both responses are binary: ``p_i`` is the
    diagonal of their matrices, ``q_i = 1 - p_i`` the rest, all exact multiples of 2**-65.

    Args:
        keys: the number d of keys.
        key_response: randomized response on holding the key, with p_1.
        value_response: randomized response on the sign, with p_2.

    Raises:
        ValueError: ``keys`` is not in 1..2**32, or a response is not binary.
    """

    keys: int
    key_response: KeepUniform
    value_response: KeepUniform

    def __post_init__(self) -> None:
        if not 1 <= self.keys <= MAX_KEYS:
            raise ValueError(f"{self.keys} keys: expected 1 to 2**32")
        for name in ("key_response", "value_response"):
            if (size := getattr(self, name).size) != 2:
                raise ValueError(f"{name}: {size} categories, expected 2")

    @classmethod
    def with_epsilon(cls, keys: int, *, key_epsilon: float, value_epsilon: float) -> PrivKV:
        """The responses of largest p_1 and p_2 whose epsilons do not exceed those given.

        ``p_i = e**eps_i / (1 + e**eps_i)``, rounded down to a multiple of 2**-65.

        Raises:
            ValueError: an epsilon is not positive and finite or is too small, or as the class.
        """
        return cls(
            keys=keys,
            key_response=KeepUniform.with_epsilon(2, epsilon=key_epsilon),
            value_response=KeepUniform.with_epsilon(2, epsilon=value_epsilon),
        )

    @classmethod
    def with_budget(cls, keys: int, *, epsilon: float) -> PrivKV:
        """PrivKV as in the paper: half of the charged epsilon for the key, half for the value.

        Raises:
            ValueError: as ``with_epsilon``.
        """
        return cls.with_epsilon(keys, key_epsilon=epsilon / 2, value_epsilon=epsilon / 2)

    @property
    def charged(self) -> float:
        """``epsilon_1 + epsilon_2``, what the paper charges; the true epsilon is below it."""
        key, value = self._odds()
        return log_ratio(key[0] * value[0], key[1] * value[1])

    @property
    def epsilon(self) -> float:
        """``max(eps_2, eps_1 + ln(2/(1+e**-eps_2)))`` of the exact integers, rounded once.

        The largest log ratio of two records' probabilities of one report. A missing key's sign is
        a fair coin: the likeliest sign of a held key is ``2 p_2 p_1/q_1`` times as likely as of a
        missing one, and not ``p_1 p_2/(q_1 q_2)``, which is what the paper charges.
        """
        (kept, turned), (upright, reversed_) = self._odds()
        # (p_1 p_2) / (q_1 / 2), a held key against a missing one: p_2 is upright / 2**65.
        held = (kept * upright, turned * WORDS)
        signs = (upright, reversed_)
        larger = held if held[0] * signs[1] > signs[0] * held[1] else signs
        return log_ratio(*larger)

    @property
    def dominating(self) -> Dominating:
        """Epsilon and the largest distance of the three states. An upper bound.

        Values between, and keys drawn at random, are mixtures, which reveal no more.
        """
        key, value = self._odds()
        kept, turned = (Fraction(part, 2 * WORDS) for part in key)
        upright, reverse = (Fraction(part, 2 * WORDS) for part in value)
        # A missing key, a held one with value +1 and with value -1; the columns are the symbols.
        rows = (
            (kept, turned / 2, turned / 2),
            (turned, kept * upright, kept * reverse),
            (turned, kept * reverse, kept * upright),
        )
        ratio, distance = Fraction(1), Fraction(0)
        for one, other in itertools.combinations(rows, 2):
            law = list(zip(one, other, strict=True))
            # No probability is 0, and so no ratio is infinite.
            ratio = max(ratio, largest_ratio(law) or ratio)
            distance = max(distance, total_variation_of_law(law))
        return Dominating((ThreePoint.bounded(ratio, distance),), False)

    def _odds(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """``(p_i, q_i)`` of the key's and the value's response, in units of 2**-65."""
        key, value = self.key_response.threshold, self.value_response.threshold
        return (WORDS + key, WORDS - key), (WORDS + value, WORDS - value)

    def matrix(self) -> NDArray[np.float64]:
        """The law of the symbol given the state, shape (3, 3), rows and columns by their codes.

        A state is a missing key, or a held one with value +1 or -1. The law of any other value is
        a mixture of the last two.
        """
        p_1, q_1 = self.key_response.diagonal, self.key_response.off_diagonal
        p_2, q_2 = self.value_response.diagonal, self.value_response.off_diagonal
        return np.array(
            [
                [p_1, q_1 / 2, q_1 / 2],
                [q_1, p_1 * p_2, p_1 * q_2],
                [q_1, p_1 * q_2, p_1 * p_2],
            ]
        )

    def sampled(self, k: int, stream: Stream) -> NDArray[np.unsignedinteger]:
        """The keys that k respondents report on, each uniform, shape (k,), of the smallest type."""
        return stream.integers(self.keys, k).astype(smallest_dtype(self.keys))

    def perturb_keys(self, values: ArrayLike, stream: Stream) -> NDArray[np.bool_]:
        """Check whether each respondent reports that she holds her key, shape (k,).

        Args:
            values: of the sampled keys, shape (k,), NaN where the key is missing.
            stream: the source of the draws.

        Raises:
            ValueError: another shape, or a value outside [-1, 1].
        """
        held = ~np.isnan(_checked(values, 1))
        return self.key_response.randomize(held.astype(np.uint8), stream).astype(np.bool_)

    def perturb_values(
        self,
        values: ArrayLike,
        reported: NDArray[np.bool_],
        stream: Stream,
        *,
        fakes: ArrayLike = 0.0,
    ) -> NDArray[np.uint8]:
        """The symbols of respondents whose keys have been perturbed, shape (k,), u1.

        As many words are drawn for a missing key as for a held one.

        Args:
            values: of the sampled keys, shape (k,), NaN where the key is missing.
            reported: the result of ``perturb_keys``, shape (k,).
            stream: the source of the draws.
            fakes: the fake of a missing value, in [-1, 1]; one for all or shape (k,). In PrivKV it
                is uniform on [-1, 1] and becomes +1 as often as -1, which is the law of the value
                0. So nothing is drawn for it, and ``epsilon`` holds for no other fake. PrivKVM uses
                the mean of its last round.

        Raises:
            ValueError: another shape, or a value or fake outside [-1, 1].
        """
        true = _checked(values, 1)
        if reported.shape != true.shape or reported.dtype != np.bool_:
            raise ValueError(
                f"{reported.dtype} reported keys of shape {reported.shape}: expected {true.shape}"
            )
        shown = np.where(np.isnan(true), _fakes(fakes, true.shape), true)
        # 53 bits of a word, as many as 1 + v has: so -1 and 1 are certain, and no float can wrap.
        below = ((1.0 + shown) * 2.0**52).astype(np.uint64)
        positive = (stream.words(true.size) >> np.uint64(11)) < below
        turned = self.value_response.randomize(positive.astype(np.uint8), stream)
        signs = np.where(turned, np.uint8(PLUS), np.uint8(MINUS))
        return np.where(reported, signs, np.uint8(ABSENT))

    def randomize_values(self, values: ArrayLike, stream: Stream) -> KeyValueReports:
        """The reports of respondents from all that they hold.

        Args:
            values: shape (k, d), NaN where a key is missing.
            stream: the source of the draws.

        Raises:
            ValueError: another shape, or a value outside [-1, 1].
        """
        table = _checked(values, 2)
        if table.shape[1] != self.keys:
            raise ValueError(f"values of shape {table.shape}: expected (k, {self.keys})")
        keys = self.sampled(len(table), stream)
        asked = table[np.arange(len(table)), keys]
        reported = self.perturb_keys(asked, stream)
        return KeyValueReports(keys, self.perturb_values(asked, reported, stream))


class PrivKVM(Randomizer, frozen=True, kw_only=True, tag="privkvm"):
    """PrivKV with several rounds of values for one key, which is perturbed once.

    A respondent keeps its drawn key and the result of ``perturb_keys`` of ``each``, and in every
    round sends a new draw of ``perturb_values``. The fake of a missing key is the mean of the round
    before, and 0 in the first round.

    Args:
        each: the client of one round; its value response is that of a single round.
        rounds: the number of rounds.

    Raises:
        ValueError: ``rounds`` is not in 1..1000.
    """

    each: PrivKV
    rounds: int

    def __post_init__(self) -> None:
        if not 1 <= self.rounds <= _MAX_ROUNDS:
            raise ValueError(f"{self.rounds} rounds: expected 1 to {_MAX_ROUNDS}")

    @classmethod
    def with_budget(cls, keys: int, *, epsilon: float, rounds: int = ROUNDS) -> PrivKVM:
        """PrivKVM as in the paper: one half of epsilon for the key, one for the values of all
        rounds.

        Raises:
            ValueError: as ``PrivKV.with_epsilon`` and the class.
        """
        if not 1 <= rounds <= _MAX_ROUNDS:
            raise ValueError(f"{rounds} rounds: expected 1 to {_MAX_ROUNDS}")
        each = PrivKV.with_epsilon(
            keys, key_epsilon=epsilon / 2, value_epsilon=epsilon / (2 * rounds)
        )
        return cls(each=each, rounds=rounds)

    @property
    def keys(self) -> int:
        """The number d of keys."""
        return self.each.keys

    @property
    def epsilon(self) -> float:
        """``eps_1`` and ``eps_2`` of every round, added up exactly and rounded once.

        From the second round on the aggregator chooses the fakes, which may be the worst ones. So
        each of these rounds costs ``each.value_response.epsilon`` more, given the rounds before. In
        the first round it is 0, so the sum is up to ``ln((1+e**eps_2)/2)`` larger than needed.
        """
        (kept, turned), (upright, reversed_) = self.each._odds()
        return log_ratio(kept * upright**self.rounds, turned * reversed_**self.rounds)

    @property
    def dominating(self) -> Dominating:
        """The key's response and as many draws of the value's as there are rounds, all binary.

        For any fakes, a round is one such draw on a bit. An upper bound.
        """
        key, value = _binary(self.each.key_response), _binary(self.each.value_response)
        return Dominating((key, *(value,) * self.rounds), False)


def _binary(response: KeepUniform) -> ThreePoint:
    ratio = Fraction(WORDS + response.threshold, WORDS - response.threshold)
    return ThreePoint.binary(ratio)


def _checked(values: ArrayLike, axes: int) -> NDArray[np.float64]:
    found = np.asarray(values, np.float64)
    if found.ndim != axes:
        raise ValueError(f"values of shape {found.shape}: expected {axes} axes")
    # NaN compares false: missing is allowed.
    if (np.abs(found) > 1).any():
        raise ValueError("a value is outside [-1, 1]")
    return found


def _fakes(fakes: ArrayLike, shape: tuple[int, ...]) -> NDArray[np.float64]:
    found = np.asarray(fakes, np.float64)
    if found.shape not in ((), shape):
        raise ValueError(f"fakes of shape {found.shape}: expected one, or {shape}")
    if not (np.abs(found) <= 1).all():
        raise ValueError("a fake is outside [-1, 1]")
    return found
