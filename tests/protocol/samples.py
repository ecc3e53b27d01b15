"""Samples of every kind of message, for the tests of the codec; no tests."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from hypothesis import strategies as st

from protocol.estimators.joint import Block
from protocol.messages import Closed, Declined, Head, Left, Message, PartyId
from protocol.randomizers import KeepUniform
from protocol.variants import RRIndependent
from protocol.variants.reports.reports import Ask, Pooled, Report
from protocol.wire.arrays import Array, ArraySpec, Bounds
from protocol.wire.codec import Codec, Kind
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


class Deep(Message, frozen=True):
    """A kind that lets anything in, so that only the codec's own limits hold."""

    anything: Any
    cells: Array


SAMPLE = Kind(
    Sample,
    cells=ArraySpec(dtype="u2", shape=(Bounds(0, 4), 2), high=(3, 300)),
    weights=ArraySpec(dtype="f8", shape=(Bounds(0, 3),), low=0),
)
BOMB = ArraySpec(dtype="u1", shape=(Bounds(0, 2**62), Bounds(0, 2**62)), high=(3, 4))
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
    "Deep": st.builds(Deep, st.none() | words, st.just(np.zeros(3, np.uint8))),
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
    "Closed": st.builds(Closed, words, st.integers(-1, 2**31), bitmaps, bitmaps),
    "Declined": st.builds(Declined, words),
    "Left": st.builds(Left, words.map(PartyId), words),
    "Head": st.builds(
        Head,
        st.integers(0, 2**63),
        st.binary(min_size=32, max_size=32),
        st.binary(min_size=64, max_size=64),
    ),
}
