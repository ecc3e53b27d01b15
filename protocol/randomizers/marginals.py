"""Reports for the release of marginals of binary attributes: six methods.

Kulkarni, Cormode and Srivastava, Marginal Release Under Local Differential Privacy. No estimation.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from itertools import combinations
from math import comb
from typing import Literal, NamedTuple, TypeAlias, get_args

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.crypto.randomness import Stream
from protocol.randomizers.binary import (
    MAX_BINARY_ATTRIBUTES,
    coefficients,
    frozen_masks,
    submasks,
    subsets,
)
from protocol.randomizers.exact import check_codes
from protocol.randomizers.keep import KeepUniform
from protocol.randomizers.oracles.packed import MAX_BITS
from protocol.randomizers.oracles.unary import UnaryEncoding
from protocol.wire.arrays import smallest_dtype

Method: TypeAlias = Literal["InpRR", "InpPS", "InpHT", "MargRR", "MargPS", "MargHT"]
"""The subject of a report (the whole input, or one marginal) and its randomization."""

METHODS: tuple[Method, ...] = get_args(Method)

Unary: TypeAlias = Literal["sue", "oue"]
"""Ways to randomize one-hot bits: all flipped alike, at half of epsilon each (``sue``), or the 1
kept with probability 1/2, which has smaller errors if a cell's share is small (``oue``).
"""

MAX_WAYS = 4
"""The most attributes of a marginal."""


class MarginalReports(NamedTuple):
    """Reports of respondents, one row each.

    Attributes:
        choices: the subject of a report, shape (n,), below ``MarginalPlan.choices``. Public, as it
            is drawn independently of the answers. All 0 if there is one choice, and then not sent.
        answers: shape (n,): a cell (PS), or 1 if a coefficient's sign is -1 (HT); or packed bits,
            shape ``(n, octets)`` (RR).
    """

    choices: NDArray[np.unsignedinteger]
    answers: NDArray[np.unsignedinteger]


class MarginalPlan(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Plan of reports on d binary attributes from which every k-way marginal can be estimated.

    InpRR randomizes the whole cell as one-hot bits and InpPS by keeping it or drawing uniformly.
    InpHT draws one of the Hadamard coefficients of 1 to k attributes, ``(-1)**(sum of answers)``,
    and randomizes its sign. The Marg methods draw one of the ``C(d, k)`` marginals and do the same
    on its ``2**k`` cells; the coefficient of MargHT is one of ``2**k - 1``.

    Args:
        method: one of the six.
        d: the number of attributes, at most 24.
        k: of a marginal, at most 4.
        randomizer: ``UnaryEncoding`` of all cells (RR), ``KeepUniform`` of all cells (PS) or of 2
            (HT).

    Raises:
        ValueError: d or k out of range, a domain too large for the method, or another randomizer.
    """

    method: Method
    d: int
    k: int
    randomizer: KeepUniform | UnaryEncoding

    def __post_init__(self) -> None:
        _check(self.method, d=self.d, k=self.k)
        wanted = UnaryEncoding if self.one_hot else KeepUniform
        size = 2 if self.transformed else self.cells
        if not isinstance(self.randomizer, wanted) or self.randomizer.size != size:
            raise ValueError(
                f"{self.method}: {type(self.randomizer).__name__} of size {self.randomizer.size}, "
                f"expected {wanted.__name__} of {size}"
            )

    @classmethod
    def with_epsilon(
        cls, method: Method, *, d: int, k: int, epsilon: float, unary: Unary = "sue"
    ) -> MarginalPlan:
        """The most accurate plan of a method at a cost of at most ``epsilon`` per report.

        Args:
            method: one of the six.
            d: the number of attributes.
            k: of a marginal.
            epsilon: of a report.
            unary: the randomizer of the bits of InpRR and MargRR.

        Raises:
            ValueError: as the class, or an epsilon that the randomizer refuses.
        """
        _check(method, d=d, k=k)
        size = 2 if method.endswith("HT") else _cells(method, d=d, k=k)
        bits = UnaryEncoding.optimized if unary == "oue" else UnaryEncoding.symmetrized
        kept = bits if method.endswith("RR") else KeepUniform.with_epsilon
        randomizer = kept(size, epsilon=epsilon)
        return cls(method=method, d=d, k=k, randomizer=randomizer)

    @property
    def epsilon(self) -> float:
        """Epsilon of one report."""
        return self.randomizer.epsilon

    @property
    def transformed(self) -> bool:
        """True if a report is about one Hadamard coefficient."""
        return self.method.endswith("HT")

    @property
    def one_hot(self) -> bool:
        """True if a report is a bit for each cell, packed."""
        return self.method.endswith("RR")

    @property
    def by_input(self) -> bool:
        """True if reports are about all attributes, not about one marginal."""
        return self.method.startswith("Inp")

    @property
    def cells(self) -> int:
        """The number of cells of a report: all ``2**d``, or the ``2**k`` of a marginal."""
        return _cells(self.method, d=self.d, k=self.k)

    @cached_property
    def groups(self) -> NDArray[np.uint32]:
        """The attributes of every marginal that can be drawn, as masks; all of them for Inp."""
        if self.by_input:
            return frozen_masks([(1 << self.d) - 1])
        return subsets(self.d, self.k)

    @cached_property
    def masks(self) -> NDArray[np.uint32]:
        """The attributes that the answer of every choice depends on, as masks.

        Shape (choices,): the coefficient for HT, in MargHT the ``2**k - 1`` of the first marginal
        and so on; else the marginal.
        """
        if not self.transformed:
            return self.groups
        if self.by_input:
            return coefficients(self.d, self.k)[1:]
        return frozen_masks(submasks(self.groups)[:, 1:].reshape(-1))

    @property
    def choices(self) -> int:
        """Number of equally likely subjects of a report."""
        if self.transformed and self.by_input:
            return sum(comb(self.d, ways) for ways in range(1, self.k + 1))
        return len(self.groups) * (self.cells - 1 if self.transformed else 1)

    def attributes(self, choice: int) -> tuple[int, ...]:
        """The places of the attributes that the answer of a choice depends on, rising.

        With them a report is one draw of ``randomizer`` on their combination: the others cost
        nothing.
        """
        mask = int(self.masks[choice])
        return tuple(place for place in range(self.d) if mask >> (self.d - 1 - place) & 1)

    def choose(self, n: int, stream: Stream) -> NDArray[np.unsignedinteger]:
        """Draw the subject of each of n reports, shape (n,), independently of the answers."""
        dtype = smallest_dtype(self.choices)
        if self.choices == 1:
            return np.zeros(n, dtype)
        return stream.integers(self.choices, n).astype(dtype)

    def answer(
        self,
        cells: NDArray[np.unsignedinteger],
        choices: NDArray[np.unsignedinteger],
        stream: Stream,
    ) -> NDArray[np.unsignedinteger]:
        """Randomize the answer to each drawn subject.

        Args:
            cells: the records' cells, shape (n,), below ``2**d``.
            choices: shape (n,), below ``choices``.
            stream: the source of the draws.

        Returns:
            As ``MarginalReports.answers``.

        Raises:
            ValueError: another shape, an unsuitable type, or a value out of range.
        """
        if cells.ndim != 1 or choices.shape != cells.shape:
            raise ValueError(f"cells of shape {cells.shape}, choices of {choices.shape}")
        check_codes(cells, 1 << self.d)
        check_codes(choices, self.choices)
        return self.randomizer.randomize(self.true_answers(cells, choices), stream)

    def randomize(self, cells: NDArray[np.unsignedinteger], stream: Stream) -> MarginalReports:
        """One report of each respondent: ``choose``, then ``answer``.

        Args:
            cells: the records' cells, shape (n,), below ``2**d``.
            stream: the source of the draws.

        Raises:
            ValueError: another shape, an unsuitable type, or a cell that does not exist.
        """
        choices = self.choose(len(cells), stream)
        return MarginalReports(choices, self.answer(cells, choices, stream))

    def true_answers(
        self, cells: NDArray[np.unsignedinteger], choices: NDArray[np.unsignedinteger]
    ) -> NDArray[np.unsignedinteger]:
        """True answers of respondents in these cells to these choices, both of shape (n,)."""
        if self.transformed:
            odd: NDArray[np.uint8] = np.bitwise_count(
                cells.astype(np.uint32, copy=False) & self.masks[choices]
            )
            return np.bitwise_and(odd, np.uint8(1), out=odd)
        if self.by_input:
            return cells
        found = np.zeros(len(cells), np.uint8)
        wide = cells.astype(np.uint32, copy=False)
        for shifts in _shifts(self.d, self.k):
            found <<= 1
            found |= (wide >> shifts[choices]).astype(np.uint8) & np.uint8(1)
        return found


def report_bits(method: Method, *, d: int, k: int) -> int:
    """The bits of one report, of the choice and the answer together.

    Raises:
        ValueError: an unknown method, or d or k out of range.
    """
    _check_sizes(method, d=d, k=k)
    marginal = _index_bits(comb(d, k))
    match method:
        case "InpRR":
            return 1 << d
        case "InpPS":
            return d
        case "InpHT":
            return _index_bits(sum(comb(d, ways) for ways in range(1, k + 1))) + 1
        case "MargRR":
            return marginal + (1 << k)
        case "MargPS":
            return marginal + k
        case "MargHT":
            return marginal + _index_bits((1 << k) - 1) + 1


@lru_cache(maxsize=64)
def _shifts(d: int, k: int) -> NDArray[np.uint32]:
    """Shift of the i-th attribute of every marginal in a cell's bits, shape ``(k, C(d, k))``."""
    places = np.array(list(combinations(range(d), k)), np.uint32)
    return frozen_masks(np.uint32(d - 1) - places.T)


def _cells(method: Method, *, d: int, k: int) -> int:
    return 1 << (d if method.startswith("Inp") else k)


def _index_bits(choices: int) -> int:
    return (choices - 1).bit_length()


def _check_sizes(method: Method, *, d: int, k: int) -> None:
    if method not in METHODS:
        raise ValueError(f"method {method!r}: expected one of {', '.join(METHODS)}")
    if not 1 <= d <= MAX_BINARY_ATTRIBUTES:
        raise ValueError(
            f"{d} binary attributes: expected 1 to {MAX_BINARY_ATTRIBUTES}; "
            "release the marginals of fewer at a time"
        )
    if not 1 <= k <= min(d, MAX_WAYS):
        raise ValueError(f"{k}-way marginals of {d}: expected 1 to {min(d, MAX_WAYS)} ways")


def _check(method: Method, *, d: int, k: int) -> None:
    _check_sizes(method, d=d, k=k)
    if method == "InpRR" and 1 << d > MAX_BITS:
        bits = report_bits("InpHT", d=d, k=k)
        raise ValueError(
            f"InpRR: a report on {d} attributes has 2**{d} bits, more than 2**16; "
            f"InpHT would do, with {bits} bits"
        )
