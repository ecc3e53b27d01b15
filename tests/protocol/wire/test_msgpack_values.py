"""Values are counted as msgpack has them, before anything is made of them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.wire.msgpack_values import has_more_values

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=300)
    | st.binary(max_size=300)
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(), inner, max_size=20),
)


def count(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + sum(map(count, value)) + sum(map(count, value.values()))
    return 1 + (sum(map(count, value)) if isinstance(value, list) else 0)


@settings(deadline=None, max_examples=30)
@given(VALUES)
def test_all_values_count_and_nothing_else(value: Any) -> None:
    content, there = msgspec.msgpack.encode(value), count(value)
    assert not has_more_values(content, there)
    assert has_more_values(content, there - 1)


@pytest.mark.parametrize("length", [0, 255, 256, 2**16])
def test_long_ones_count_once(length: int) -> None:
    for value in (bytes(length), "a" * length):
        assert not has_more_values(msgspec.msgpack.encode(value), 1)
    many = msgspec.msgpack.encode([0] * length)
    assert has_more_values(many, length)
    assert not has_more_values(many, length + 1)


@pytest.mark.parametrize("form", [0xC7, 0xC8, 0xC9, *range(0xD4, 0xD9)])
def test_extensions_count_once(form: int) -> None:
    widths = {0xC7: 1, 0xC8: 2, 0xC9: 4}
    size = 5 if form in widths else 1 << (form - 0xD4)
    length = size.to_bytes(widths[form]) if form in widths else b""
    value = bytes([form]) + length + b"\x01" + b"\xc0" * size
    assert not has_more_values(value * 3, 3)
    assert has_more_values(value * 3, 2)


def test_what_breaks_off_is_counted_as_far_as_it_goes() -> None:
    assert has_more_values(b"\xdd\xff\xff\xff\xff" + b"\x90" * 9, 9)
    assert not has_more_values(b"\xdb\xff\xff\xff\xff" + b"\x90" * 9, 1)
