"""The frequency oracles by their names in the literature."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal, TypeAlias

from protocol.randomizers import (
    HadamardResponse,
    KeepUniform,
    LocalHashing,
    Randomizer,
    SubsetSelection,
    UnaryEncoding,
)

Oracle: TypeAlias = Literal[
    "grr", "sue", "oue", "blh", "olh", "subset-selection", "hadamard-response"
]

_MAKERS: Mapping[Oracle, Callable[[int, float], Randomizer]] = MappingProxyType(
    {
        "grr": lambda size, epsilon: KeepUniform.with_epsilon(size, epsilon=epsilon),
        "sue": lambda size, epsilon: UnaryEncoding.symmetrized(size, epsilon=epsilon),
        "oue": lambda size, epsilon: UnaryEncoding.optimized(size, epsilon=epsilon),
        "blh": lambda size, epsilon: LocalHashing.binary(size, epsilon=epsilon),
        "olh": lambda size, epsilon: LocalHashing.optimized(size, epsilon=epsilon),
        "subset-selection": lambda size, epsilon: SubsetSelection.with_epsilon(
            size, epsilon=epsilon
        ),
        "hadamard-response": lambda size, epsilon: HadamardResponse.with_epsilon(
            size, epsilon=epsilon
        ),
    }
)

ORACLES: tuple[Oracle, ...] = tuple(_MAKERS)
"""The names."""


def frequency_oracle(oracle: Oracle, size: int, *, epsilon: float) -> Randomizer:
    """The randomizer of this name, with its parameters in the literature for an epsilon.

    Args:
        oracle: grr, k-ary randomized response; sue and oue, unary encodings; blh and olh, hashing;
            subset-selection; hadamard-response.
        size: the number of categories.
        epsilon: the largest cost of a report, in nats.

    Raises:
        ValueError: the size or the epsilon does not suit it.
    """
    return _MAKERS[oracle](size, epsilon)
