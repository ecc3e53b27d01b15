"""The codec: exact round trips, and named refusals of everything else."""

from __future__ import annotations

import tracemalloc
from typing import Annotated, Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol import (
    Array,
    ArraySpec,
    Bounds,
    Kind,
    LocalProtocolError,
    Message,
    PartyId,
    RemoteProtocolError,
)
from protocol.messages import Envelope, Left
from protocol.variants import RRIndependent, RRJoint
from protocol.variants.reports.reports import Report
from protocol.wire.arrays import dtype_name, smallest_dtype
from protocol.wire.codec import Codec, decode_envelope, encode_envelope
from tests.protocol.samples import (
    BOMB,
    CODEC,
    GOOD,
    MESSAGES,
    Sample,
    same,
)
from tests.protocol.sessions import SURVEY

pack = msgspec.msgpack.encode


def refusal(name: str, body: bytes) -> RemoteProtocolError:
    with pytest.raises(RemoteProtocolError) as caught:
        CODEC.decode(name, body)
    return caught.value


def plain(message: Message = GOOD) -> list[Any]:
    """A message as the lists that msgpack carries."""
    decoded: list[Any] = msgspec.msgpack.decode(CODEC.encode(message))
    return decoded


def changed(place: int, value: object, message: Message = GOOD) -> bytes:
    """The bytes of a message with one field replaced."""
    fields = plain(message)
    fields[place] = value
    return pack(fields)


def test_every_kind_has_a_strategy() -> None:
    assert CODEC.names == tuple(MESSAGES)


@pytest.mark.parametrize("name", MESSAGES)
@settings(deadline=None, max_examples=40)
@given(choice=st.data())
def test_round_trip(name: str, choice: st.DataObject) -> None:
    message = choice.draw(MESSAGES[name])
    body = CODEC.encode(message)
    decoded = CODEC.decode(name, body)
    assert same(decoded, message)
    assert CODEC.encode(decoded) == body
    assert len(body) <= CODEC.max_body


def test_arrays_that_came_cannot_be_written_to() -> None:
    message = CODEC.decode("Sample", CODEC.encode(GOOD))
    assert isinstance(message, Sample)
    with pytest.raises(ValueError, match="read-only"):
        message.cells[0, 0] = 1


def test_layout_in_memory_leaves_no_trace() -> None:
    values = np.array([[2, 299], [0, 0], [1, 7]], np.uint16)
    bodies = {
        CODEC.encode(msgspec.structs.replace(GOOD, cells=array))
        for array in (values, np.asfortranarray(values), values.astype(">u2"), values[::-1][::-1])
    }
    assert len(bodies) == 1


def test_a_broadcast_is_decoded_once_and_kinds_are_not_confused() -> None:
    body = CODEC.encode(Left(PartyId("anna"), "x" * 100))
    assert CODEC.decode("Left", body) is CODEC.decode("Left", bytes(bytearray(body)))

    class Other(Message, frozen=True):
        party: str
        reason: str

    codec = Codec([Kind(Other)], members=3)
    assert type(codec.decode("Left", body)) is Left
    assert type(codec.decode("Other", body)) is Other
    assert type(codec.decode("Left", body)) is Left


def enclosed(*recipients: str, message: Message = GOOD) -> list[Envelope]:
    to = [PartyId(name) for name in recipients]
    return CODEC.enclose(message, session=bytes(32), sender=PartyId("anna"), recipients=to, seq=3)


def test_what_was_enclosed_here_is_not_decoded_again() -> None:
    # Too short to be remembered by its body.
    short = Left(PartyId("ben"), "gone")
    (envelope,) = enclosed("ben", message=short)
    assert (envelope.recipient, envelope.seq, envelope.kind) == ("ben", 3, "Left")
    opened = CODEC.open(envelope)
    assert opened == short
    assert CODEC.open(envelope) is opened
    assert CODEC.open(decode_envelope(encode_envelope(envelope))) is not opened
    assert [item.seq for item in enclosed("ben", "carl")] == [3, 4]


def test_what_was_enclosed_is_what_came_of_its_bytes() -> None:
    opened = CODEC.open(enclosed("ben")[0])
    assert isinstance(opened, Sample)
    assert same(opened, GOOD)
    assert not opened.cells.flags.writeable


def test_an_envelope_of_another_body_or_codec_is_decoded() -> None:
    (envelope,) = enclosed("ben")
    altered = msgspec.structs.replace(envelope, body=envelope.body + b"\0")
    with pytest.raises(RemoteProtocolError, match="trailing"):
        CODEC.open(altered)
    with pytest.raises(RemoteProtocolError, match="not a kind of this variant"):
        Codec((), members=2).open(envelope)


@pytest.mark.parametrize(
    ("place", "value", "field"),
    [
        pytest.param(1, "x", "Sample.share", id="text for a float"),
        pytest.param(1, float("-inf"), "Sample.share", id="infinity"),
        pytest.param(2, b"anna", "Sample.name", id="bin for str"),
        pytest.param(3, "key", "Sample.key", id="str for bin"),
        pytest.param(4, ["a", 1], "Sample.names", id="a bad element"),
        pytest.param(5, b"\x00" * 8, "Sample.cells", id="bare bytes"),
        pytest.param(5, ["O", [1, 2], bytes(16)], "Sample.cells", id="objects"),
        pytest.param(5, ["<u2", [1, 2], bytes(4)], "Sample.cells", id="numpy's name of a dtype"),
        pytest.param(5, ["u2", [2, 1], bytes(4)], "Sample.cells", id="another shape"),
        pytest.param(5, ["u2", [1, 2], bytes(3)], "Sample.cells", id="content too short"),
        pytest.param(5, ["u2", [True, 2], bytes(4)], "Sample.cells", id="a bool for a length"),
        pytest.param(5, ["u2", [1.0, 2], bytes(4)], "Sample.cells", id="a float for a length"),
        pytest.param(5, ["u2", [1, 2], "aaaa"], "Sample.cells", id="str content"),
        pytest.param(5, ["u2", [1, 2], b"\xff\xff\0\0"], "Sample.cells", id="wrapped -1"),
        pytest.param(
            6, ["f8", [1], np.float64(np.nan).tobytes()], "Sample.weights", id="array of nan"
        ),
        pytest.param(6, ["f8", [1], np.float64(-1).tobytes()], "Sample.weights", id="negative"),
    ],
)
def test_a_bad_field_is_named(place: int, value: object, field: str) -> None:
    assert refusal("Sample", changed(place, value)).field == field


def test_the_first_bad_place_is_named() -> None:
    content = np.array([[0, 0], [1, 300]], "<u2").tobytes()
    assert "value 300 at [1, 1]" in str(refusal("Sample", changed(5, ["u2", [2, 2], content])))


def test_unknown_kinds() -> None:
    body = CODEC.encode(GOOD)
    assert refusal("Nothing", body).field == "kind"
    assert refusal("Left", body).field == "Left.party"
    assert len(str(refusal("x" * 10_000, body))) < 200


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(b"\x03\xcb", b"\xcc\x03\xcb", id="integer in two bytes"),
        pytest.param(b"\x03\xcb", b"\xcd\x00\x03\xcb", id="integer in three bytes"),
        pytest.param(b"\x03\xcb", b"\xd3" + bytes(7) + b"\x03\xcb", id="signed integer"),
        pytest.param(
            b"\xcb" + np.array(0.5, ">f8").tobytes(),
            b"\xca" + np.array(0.5, ">f4").tobytes(),
            id="float32",
        ),
        pytest.param(b"\xa4anna", b"\xd9\x04anna", id="str 8"),
        pytest.param(b"\xa4anna", b"\xdb\x00\x00\x00\x04anna", id="str 32"),
        pytest.param(b"\xc4\x03key", b"\xc5\x00\x03key", id="bin 16"),
        pytest.param(b"\x92\xa1a\xa1b", b"\xdc\x00\x02\xa1a\xa1b", id="array 16"),
        pytest.param(b"\x92\x02\x02", b"\x92\xcc\x02\x02", id="length in two bytes"),
        pytest.param(b"\xa2u2", b"\xd9\x02u2", id="dtype as str 8"),
    ],
)
def test_only_one_encoding_is_accepted(old: bytes, new: bytes) -> None:
    body = CODEC.encode(GOOD)
    assert body.count(old) == 1
    assert "not canonical" in str(refusal("Sample", body.replace(old, new)))


def test_oversize_bodies_are_refused_unread() -> None:
    error = refusal("Left", b"\xc1" * 10_000)
    assert "10000 B" in str(error)
    assert error.field == "Left"
    CODEC.check_size("Left", 100)


@pytest.mark.parametrize("opening", [b"\x91", b"\x81\x01", b"\x92\x01"])
def test_deep_nesting(opening: bytes) -> None:
    depth = 4000 // len(opening)
    refusal("Deep", b"\x92" + opening * depth + b"\x01" + b"\x01")


@pytest.mark.parametrize(
    "shape",
    [[0, 2**60], [2**60, 0], [0, 2**63], [0, 2**64 - 1], [2**60, 2**60], [2**32, 2**32], [1] * 9],
    ids=str,
)
def test_shape_bombs(shape: list[int]) -> None:
    for content in (b"", b"\x00"):
        assert refusal("Sample", changed(5, ["u2", shape, content])).field == "Sample.cells"


def test_an_empty_array_of_any_length_is_checked_without_its_length() -> None:
    class Wide(Message, frozen=True):
        cells: Array

    codec = Codec([Kind(Wide, scalar_bytes=4096, cells=BOMB)], members=3)
    wide = codec.decode("Wide", pack([["u1", [0, 2**40], b""]]))
    assert isinstance(wide, Wide)
    assert wide.cells.size == 0


def test_decoding_allocates_no_more_than_came() -> None:
    body = CODEC.encode(GOOD)
    bombs = [
        changed(5, ["u2", [2**50, 2], b""]),
        b"\x97\xdd\xff\xff\xff\xff",
        b"\x97\xdf\xff\xff\xff\xff",
        b"\x97\xc6\xff\xff\xff\xff",
        b"\x97\xdb\xff\xff\xff\xff",
        b"\xdd\xff\xff\xff\xff" + body,
        b"\x92\xdd\xff\xff\xff\xff\x01",
    ]
    refusal("Sample", bombs[0])
    tracemalloc.start()
    try:
        for name in ("Sample", "Deep"):
            for bomb in bombs:
                refusal(name, bomb)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


@pytest.mark.parametrize(
    "wrong",
    [
        msgspec.structs.replace(GOOD, round=2**64),
        msgspec.structs.replace(GOOD, round=None),
        msgspec.structs.replace(GOOD, round=Ellipsis),
        msgspec.structs.replace(GOOD, share=1),
        msgspec.structs.replace(GOOD, share=float("nan")),
        msgspec.structs.replace(GOOD, name="\ud800"),
        msgspec.structs.replace(GOOD, name=b"anna"),
        msgspec.structs.replace(GOOD, cells=[[0, 0]]),
        msgspec.structs.replace(GOOD, cells=np.zeros((1, 2), np.uint8)),
        msgspec.structs.replace(GOOD, cells=np.zeros((1, 3), np.uint16)),
        msgspec.structs.replace(GOOD, cells=np.full((1, 2), 3, np.uint16)),
        msgspec.structs.replace(GOOD, weights=np.array([np.nan])),
        msgspec.structs.replace(GOOD, weights=np.array([True])),
    ],
)
def test_what_a_recipient_would_refuse_is_not_sent(wrong: Message) -> None:
    with pytest.raises(LocalProtocolError, match="Sample"):
        CODEC.encode(wrong)


def test_foreign_and_impostor_kinds_are_not_sent() -> None:
    class Foreign(Message, frozen=True):
        text: str

    impostor = type("Left", (Message,), {"__annotations__": {"reason": str}}, frozen=True)
    for message in (Foreign("x"), impostor("x")):
        with pytest.raises(LocalProtocolError, match="not a kind of this variant"):
            CODEC.encode(message)


def test_too_large_messages_are_not_sent() -> None:
    with pytest.raises(LocalProtocolError):
        CODEC.encode(Left(PartyId("anna"), "x" * 5000))


def test_kinds_say_what_their_arrays_hold() -> None:
    with pytest.raises(LocalProtocolError, match="cells"):
        Kind(Sample)
    with pytest.raises(LocalProtocolError, match="belongs to the kernel"):
        Codec([Kind(Left)], members=2)


@pytest.mark.parametrize("high", [2**63, 2**64, (2**63, 2), (2**64, 2)])
def test_bounds_are_exact_for_large_codes(high: int | tuple[int, ...]) -> None:
    spec = ArraySpec(dtype="u8", shape=(1, 2), high=high)
    first = high if isinstance(high, int) else high[0]
    spec.check(np.array([[first - 1, 1]], np.uint64), "codes")
    spec.check(np.array([[first - 1025, 0]], np.uint64), "codes")
    if first < 2**64:
        with pytest.raises(RemoteProtocolError):
            spec.check(np.array([[first, 1]], np.uint64), "codes")
    if isinstance(high, tuple):
        with pytest.raises(RemoteProtocolError):
            spec.check(np.array([[0, 2]], np.uint64), "codes")


@pytest.mark.parametrize("dtype", ["i8", "f8"])
def test_bounds_of_signed_values(dtype: str) -> None:
    spec = ArraySpec(dtype=dtype, shape=(1,), low=-2, high=3)
    for value in (-2, 0, 2):
        spec.check(np.array([value], dtype), "x")
    for value in (-3, 3):
        with pytest.raises(RemoteProtocolError, match="x"):
            spec.check(np.array([value], dtype), "x")


def test_smallest_dtype() -> None:
    sizes = (2, 256, 257, 2**16, 2**32, 2**32 + 1, 2**64)
    names = [dtype_name(smallest_dtype(size)) for size in sizes]
    assert names == ["u1", "u1", "u2", "u2", "u4", "u8", "u8"]
    with pytest.raises(ValueError, match="64 bits"):
        smallest_dtype(2**64 + 1)


@pytest.mark.parametrize("k", [1, 7, 300])
@pytest.mark.parametrize("cls", [RRIndependent, RRJoint])
@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 2**32))
def test_length_says_nothing_about_records(
    cls: type[RRIndependent | RRJoint], k: int, seed: int
) -> None:
    variant = msgspec.structs.replace(cls.with_keep(SURVEY, 0.5), max_records=k)
    codec = Codec(variant.kinds(1), members=2)
    high = np.array(variant.block_sizes)
    drawn = np.random.default_rng(seed).integers(0, high, (k, len(high))).astype(np.uint8)
    extremes = (np.zeros_like(drawn), np.broadcast_to(high - 1, drawn.shape).astype(np.uint8))
    lengths = {len(codec.encode(Report(codes))) for codes in (drawn, *extremes)}
    assert len(lengths) == 1


class Named(Message, frozen=True):
    """Bounds that stand at the fields, by names of attributes."""

    scalar_bytes = "others"

    codes: Annotated[Array, ArraySpec(shape=(Bounds(1, "rows"), "sizes"), high="sizes")]
    counts: Annotated[Array, ArraySpec(dtype="u4", shape=("inner.n",), low=1, most="rows")]


def test_bounds_at_fields_are_those_of_the_attributes_they_name() -> None:
    attributes = {"rows": 7, "sizes": (2, 300), "inner.n": 3, "others": 20}
    kind = Kind.of(Named, attributes.__getitem__)
    codes = ArraySpec(dtype="u2", shape=(Bounds(1, 7), 2), high=(2, 300))
    counts = ArraySpec(dtype="u4", shape=(3,), low=1, high=8)
    same_kind = Kind(Named, scalar_bytes=20, codes=codes, counts=counts)
    assert kind.arrays == same_kind.arrays == {"codes": codes, "counts": counts}
    assert kind.max_bytes == same_kind.max_bytes
    kind.check(Named(np.array([[1, 299]], "<u2"), np.array([1, 7, 7], "<u4")))
    with pytest.raises(RemoteProtocolError, match=r"value 8 at \[2\], expected in range"):
        kind.check(Named(np.array([[1, 299]], "<u2"), np.array([1, 7, 8], "<u4")))


def test_a_bound_is_a_number_where_no_names_are_known() -> None:
    counted = ArraySpec(dtype="u1", shape=(2,), most=5)
    assert Kind(Report, codes=counted).arrays["codes"] == ArraySpec(dtype="u1", shape=(2,), high=6)
    with pytest.raises(LocalProtocolError, match="bound 'rows': expected a number"):
        Kind(Report, codes=ArraySpec(shape=("rows",), high=2))
    with pytest.raises(TypeError, match="'rows' is a name"):
        _ = ArraySpec(shape=("rows",), high=2, dtype="u1").max_bytes
    with pytest.raises(TypeError, match="dtype, or high"):
        ArraySpec(shape=(2,), most=5)
    with pytest.raises(TypeError, match="high or most"):
        ArraySpec(shape=(2,), high=5, most=5)
