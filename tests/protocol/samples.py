"""Samples of every kind of message, for the tests of the codec; no tests."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from hypothesis import strategies as st

from protocol import (
    Array,
    ArraySpec,
    Block,
    Bounds,
    KeepUniform,
    Kind,
    Message,
    PartyId,
    Probability,
)
from protocol.messages import Closed, Declined, Head, Left, Wait
from protocol.variants import RRIndependent
from protocol.variants.reports.reports import Ask, Pooled, Report
from protocol.wire.codec import Codec
from tests.protocol.sessions import SURVEY

pack = msgspec.msgpack.encode


class Sample(Message, frozen=True):
    """A kind with every sort of field."""

    round: int
    share: float
    name: str
    key: bytes
    names: tuple[str, ...]
    cells: Array
    weights: Array


class Leaf(msgspec.Struct, frozen=True, tag="leaf", forbid_unknown_fields=True):
    """A map with its tag, and bounds of every sort."""

    size: Annotated[int, msgspec.Meta(ge=-3, lt=10)]
    share: Probability | None


class Bud(msgspec.Struct, frozen=True, tag="bud", forbid_unknown_fields=True):
    """Another one."""

    names: tuple[Annotated[str, msgspec.Meta(min_length=1, max_length=3)], ...]
    pair: tuple[bool, Annotated[bytes, msgspec.Meta(max_length=2)]]


class Branch(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """An array of named values."""

    way: Literal["left", "right"]
    weights: tuple[float, ...]
    ends: Annotated[tuple[Leaf | Bud, ...], msgspec.Meta(min_length=1, max_length=2)]


class Deep(Message, frozen=True):
    """A kind with values inside values."""

    anything: str | Branch | None
    cells: Array


SAMPLE = Kind(
    Sample,
    cells=ArraySpec(dtype="u2", shape=(Bounds(0, 4), 2), high=(3, 300)),
    weights=ArraySpec(dtype="f8", shape=(Bounds(0, 3),), low=0),
)
BOMB = ArraySpec(dtype="u1", shape=(Bounds(0, 2**62), Bounds(0, 2**62)), high=3)
# The spec of an array bounds what is accepted, so the cap of its size is set by the test itself.
DEEP = Kind(Deep, cells=ArraySpec(dtype="u1", shape=(Bounds(0, 4096),)))
VARIANT = RRIndependent.with_keep(SURVEY, 0.7)
CODEC = Codec([SAMPLE, DEEP, *VARIANT.kinds(5)], members=20)

GOOD = Sample(
    3,
    0.5,
    "anna",
    b"key",
    ("a", "b"),
    np.array([[2, 299], [0, 0]], np.uint16),
    np.array([0.0, 1.5]),
)


def same(one: Message, other: Message) -> bool:
    """Equality that looks into arrays."""
    if type(one) is not type(other):
        return False
    for field in one.__struct_fields__:
        left, right = getattr(one, field), getattr(other, field)
        if isinstance(left, np.ndarray):
            if left.dtype != right.dtype or not np.array_equal(left, right):
                return False
        elif left != right:
            return False
    return True


words = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
bitmaps = st.binary(min_size=3, max_size=3)
counts = st.integers(0, 2**63 - 1)
slots = st.lists(st.tuples(counts, counts)).map(tuple)


@st.composite
def cells(draw: st.DrawFn, rows: int, high: tuple[int, ...], dtype: str) -> Any:
    n = draw(st.integers(1, rows))
    row = st.tuples(*(st.integers(0, h - 1) for h in high))
    return np.array(draw(st.lists(row, min_size=n, max_size=n)), np.dtype(dtype))


blocks = st.tuples(
    *(
        st.builds(
            Block,
            st.just((name,)),
            st.builds(KeepUniform, st.just(size), st.integers(1, 2**64 - 1)),
        )
        for name, size in zip(SURVEY.names, SURVEY.sizes, strict=True)
    )
)
weights = st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=3).map(tuple)
leaves = st.builds(Leaf, st.integers(-3, 9), st.none() | st.floats(0.01, 0.99))
buds = st.builds(
    Bud,
    st.lists(st.text("abc", min_size=1, max_size=3), max_size=2).map(tuple),
    st.tuples(st.booleans(), st.binary(max_size=2)),
)
ends = st.lists(leaves | buds, min_size=1, max_size=2).map(tuple)
MESSAGES: dict[str, st.SearchStrategy[Message]] = {
    "Sample": st.builds(
        Sample,
        st.integers(-(2**63), 2**64 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        words,
        st.binary(max_size=40),
        st.lists(words, max_size=5).map(tuple),
        cells(4, (3, 300), "<u2"),
        st.lists(st.floats(0, 1e300), max_size=3).map(np.array).map(lambda a: a.astype("<f8")),
    ),
    "Deep": st.builds(
        Deep,
        st.none() | words | st.builds(Branch, st.sampled_from(["left", "right"]), weights, ends),
        st.just(np.zeros(3, np.uint8)),
    ),
    "Ask": st.builds(Ask, st.binary(min_size=32, max_size=32), blocks),
    "Report": st.builds(Report, cells(1, SURVEY.sizes, "u1")),
    "Pooled": st.integers(1, 5).flatmap(
        lambda u: st.builds(
            Pooled,
            st.just(np.ones((u, 2), np.uint8)),
            st.lists(st.integers(1, 5), min_size=u, max_size=u).map(
                lambda counts: np.array(counts, "<u4")
            ),
        )
    ),
    "Closed": st.builds(
        Closed, words, st.integers(-1, 2**31), st.integers(0, 2**31), bitmaps, bitmaps
    ),
    "Declined": st.builds(Declined, st.sampled_from(["terms", "message"])),
    "Left": st.builds(Left, words.map(PartyId), words),
    "Head": st.builds(
        Head,
        st.lists(st.builds(Wait, counts, words, st.integers(-1, 2**63 - 1), slots)).map(tuple),
        st.binary(min_size=64, max_size=64),
    ),
}
