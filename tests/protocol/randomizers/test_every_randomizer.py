"""Laws of every randomizer: it travels, keeps shape and type, and refuses other codes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

from protocol import (
    CodeRandomizer,
    KeepElseTable,
    KeepUniform,
    PrivKV,
    PrivKVM,
    Randomizer,
    UnaryEncoding,
    randomize_columns,
)
from protocol.crypto.randomness import WORDS
from protocol.randomizers.marginals import METHODS, MarginalPlan
from tests.enumeration import ROWS, matrix
from tests.scripted import seeded

HALF = WORDS // 2
ONCE = PrivKV.with_budget(7, epsilon=1.0)
TRAVELLERS: tuple[tuple[Any, Any], ...] = (
    (KeepUniform(7, WORDS - 1), CodeRandomizer),
    (matrix(ROWS), CodeRandomizer),
    (KeepElseTable.with_table(p=0.4, table=[5.0, 0.0, 1.0], mix=0.1), CodeRandomizer),
    # A table of one category alone.
    (KeepElseTable.with_table(p=0.4, table=[2.0, 0.0], mix=0.0), CodeRandomizer),
    (KeepElseTable.with_table(p=0.4, table=[-1.0, 0.0, 0.5], mix=0.0), CodeRandomizer),
    (UnaryEncoding.symmetrized(16, epsilon=2.0), UnaryEncoding),
    (ONCE, PrivKV | PrivKVM),
    (PrivKVM(each=ONCE, rounds=2), PrivKV | PrivKVM),
    *((MarginalPlan.with_epsilon(m, d=4, k=3, epsilon=0.5), MarginalPlan) for m in METHODS),
)


@pytest.mark.parametrize(("value", "type_"), TRAVELLERS)
def test_it_travels(value: Any, type_: Any) -> None:
    for codec in (msgspec.json, msgspec.msgpack):
        assert codec.decode(codec.encode(value), type=type_) == value
    back = msgspec.convert(msgspec.to_builtins(value), type_)
    assert back == value
    assert hash(back) == hash(value)


OF_CODES: dict[str, Callable[[int], CodeRandomizer]] = {
    "keep": lambda size: KeepUniform(size, 1),
    "matrix": lambda size: matrix(np.eye(size) + 1),
    "table": lambda size: KeepElseTable.with_table(p=0.5, table=np.ones(size), mix=0.0),
}


@pytest.mark.parametrize("name", OF_CODES)
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64])
@pytest.mark.parametrize("shape", [(0,), (5,), (2, 3, 4), ()])
def test_shape_and_type_stay_and_the_codes_are_not_changed(
    name: str, dtype: type, shape: tuple[int, ...]
) -> None:
    codes = np.full(shape, 2, dtype)
    codes.flags.writeable = False
    reports = OF_CODES[name](3).randomize(codes, seeded())
    assert reports.shape == shape
    assert reports.dtype == dtype
    assert np.all(reports < 3)


@pytest.mark.parametrize("name", [*OF_CODES, "unary"])
@pytest.mark.parametrize(
    ("code", "dtype", "size"), [(3, "u1", 3), (0, "u1", 257), (0, "i8", 3), (0, "f8", 3)]
)
def test_codes_outside_the_domain_are_refused(name: str, code: int, dtype: str, size: int) -> None:
    made = {**OF_CODES, "unary": lambda size: UnaryEncoding.flipping(size, threshold=1)}
    randomizer: Randomizer = made[name](size)
    codes = np.array([code], dtype)
    with pytest.raises(ValueError, match="code"):
        randomizer.randomize(codes, seeded())
    if isinstance(randomizer, CodeRandomizer):
        for rows in (1, 2000):
            with pytest.raises(ValueError, match="code"):
                randomize_columns((randomizer,), np.tile(codes, (rows, 1)), seeded())
