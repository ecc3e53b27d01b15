"""What a kind looks like: described from its declarations, and read by somebody else."""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Meta

from protocol import (
    Array,
    ArraySpec,
    Bounds,
    Kind,
    LocalProtocolError,
    Message,
    RemoteProtocolError,
)
from protocol.messages import KERNEL_KINDS
from protocol.wire.codec import Codec
from protocol.wire.schemas import MAX_NESTING, KindSchema
from tests.every_variant import BITS, PARTIES, Example, examples
from tests.protocol.samples import CODEC, MESSAGES, Branch, Leaf
from tests.protocol.sessions import answers
from tests.protocol.wire.schema_reader import Plain, Unfit, read_body
from tests.protocol.wire.test_codec_attacks import bodies
from tests.recorded.runs import recorded
from tests.scenarios.own_variants import RollCall
from tests.tiers import thinned

pack = msgspec.msgpack.encode
plain = msgspec.msgpack.decode
_decode = msgspec.msgpack.Decoder(KindSchema).decode


def kind_of(annotation: Any, *, scalar_bytes: int = 4096, **options: Any) -> Kind:
    """A kind of one field."""
    message = msgspec.defstruct(
        "One", [("value", annotation)], bases=(Message,), frozen=True, **options
    )
    return Kind(message, scalar_bytes=scalar_bytes)


def type_of(kind: Kind) -> Plain:
    """The type of a kind's first field, as the header has it."""
    return plain(pack(kind.schema))[2][0][1]


class Place(NamedTuple):
    row: int
    column: int | None


@pytest.mark.parametrize(
    ("annotation", "described"),
    [
        (None, ["nil"]),
        (bool, ["bool"]),
        (int, ["int", None, None]),
        (Annotated[int, Meta(ge=1, le=6)], ["int", 1, 6]),
        (Annotated[int, Meta(gt=0, lt=7)], ["int", 1, 6]),
        (Annotated[int, Meta(ge=1, extra={"of": "dice"})], ["int", 1, None]),
        (float, ["float", None, None]),
        (Annotated[float, Meta(ge=0, le=1)], ["float", 0.0, 1.0]),
        (Annotated[float, Meta(gt=0, lt=1)], ["float", 5e-324, 1 - 2**-53]),
        (str, ["str", 0, None]),
        (Annotated[str, Meta(min_length=2, max_length=3)], ["str", 2, 3]),
        (bytes, ["bytes", 0, None]),
        (Annotated[bytes, Meta(min_length=32, max_length=32)], ["bytes", 32, 32]),
        (Literal["b", 2, "a"], ["enum", [2, "a", "b"]]),
        (tuple[int, ...], ["list", ["int", None, None], 0, None]),
        (Annotated[list[str], Meta(max_length=4)], ["list", ["str", 0, None], 0, 4]),
        (tuple[int, str], ["struct", [["0", ["int", None, None]], ["1", ["str", 0, None]]]]),
        (
            Leaf,
            [
                "map",
                [
                    ["type", ["enum", ["leaf"]]],
                    ["size", ["int", -3, 9]],
                    ["share", ["union", [["float", 5e-324, 1 - 2**-53], ["nil"]]]],
                ],
            ],
        ),
        (int | None, ["union", [["int", None, None], ["nil"]]]),
    ],
    ids=str,
)
def test_types(annotation: Any, described: Plain) -> None:
    assert type_of(kind_of(annotation)) == described


@pytest.mark.parametrize(
    ("spec", "described"),
    [
        (ArraySpec(shape=(2,), high=300), ["u2", [[2, 2]], 0, 299]),
        (ArraySpec(dtype="u8", shape=(), high=2**64), ["u8", [], 0, 2**64 - 1]),
        (ArraySpec(dtype="u1", shape=(Bounds(0, 3), 2)), ["u1", [[0, 3], [2, 2]], 0, None]),
        (ArraySpec(shape=(4, 2), high=(2, 9)), ["u1", [[4, 4], [2, 2]], 0, [1, 8]]),
        (ArraySpec(shape=(4, 2), high=(9, 9)), ["u1", [[4, 4], [2, 2]], 0, 8]),
        (ArraySpec(dtype="u4", shape=(1,), low=1, most=7), ["u4", [[1, 1]], 1, 7]),
        (ArraySpec(dtype="i8", shape=(1,), low=-2, high=2**70), ["i8", [[1, 1]], -2, 2**63 - 1]),
        (ArraySpec(dtype="f8", shape=(1,), low=-1, high=1), ["f8", [[1, 1]], -1.0, 1 - 2**-53]),
    ],
    ids=str,
)
def test_arrays(spec: ArraySpec, described: Plain) -> None:
    class One(Message, frozen=True):
        value: Array

    kind = Kind(One, value=spec)
    assert type_of(kind) == ["array", *described]
    assert kind.schema == KindSchema("One", kind.max_bytes, kind.schema.fields)
    assert _decode(pack(kind.schema)) == kind.schema


class Sparse(msgspec.Struct, omit_defaults=True):
    """Its encoding leaves out what is as by default."""

    share: float = 0.5


class Endless(msgspec.Struct):
    """It can hold itself."""

    within: tuple[Endless, ...]


@pytest.mark.parametrize(
    ("annotation", "why"),
    [
        (Any, "'value': Any"),
        (dict[str, int], "Dict"),
        (frozenset[int], "FrozenSet"),
        (Annotated[int, Meta(multiple_of=2)], "Int"),
        (Annotated[str, Meta(pattern="a+")], "Str"),
        (tuple[Array, ...], "Custom.*an array only as the kind's own field"),
        (Array | None, "Custom"),
        (Place, "NamedTuple"),
        (Sparse, "Struct"),
        (Endless, f"nested more than {MAX_NESTING} deep"),
    ],
    ids=str,
)
def test_what_cannot_be_described_is_refused(annotation: Any, why: str) -> None:
    with pytest.raises(LocalProtocolError, match=f"kind 'One' cannot be described.*{why}"):
        kind_of(annotation)


def test_a_kind_is_an_array_without_a_tag() -> None:
    for options in ({"tag": True}, {"array_like": False}):
        with pytest.raises(LocalProtocolError, match="array_like, without a tag"):
            kind_of(int, **options)


def test_several_bounds_are_of_an_axis_of_one_length() -> None:
    class One(Message, frozen=True):
        value: Array

    for shape in ((), (3,), (Bounds(1, 2),)):
        with pytest.raises(LocalProtocolError, match="one per position of the last axis"):
            Kind(One, value=ArraySpec(shape=shape, high=(2, 3)))
    with pytest.raises(TypeError, match="dtype 'u3'"):
        ArraySpec(dtype="u3", shape=())
    with pytest.raises(TypeError, match="9 axes"):
        ArraySpec(dtype="u1", shape=(1,) * 9)


def test_no_float_in_a_message_is_infinite() -> None:
    codec = Codec([kind_of(Branch)], members=2)
    leaf = {"type": "leaf", "size": 0, "share": None}
    codec.decode("One", pack([["left", [1.5], [leaf]]]))
    for wrong in (float("nan"), float("inf")):
        with pytest.raises(RemoteProtocolError, match="finite"):
            codec.decode("One", pack([["left", [1.5, wrong], [leaf]]]))


DOCUMENT = Path(__file__).parents[3] / "docs" / "transcript-format.md"


@pytest.mark.parametrize("kernel", KERNEL_KINDS, ids=lambda kind: kind.kind())
def test_the_document_lists_the_kernels_kinds(kernel: type[Message]) -> None:
    [row] = re.findall(rf"^\| `{kernel.kind()}` +\| `(.*)` +\|$", DOCUMENT.read_text("utf-8"), re.M)
    assert json.loads(row) == plain(pack(Kind(kernel).schema))[2]


def test_the_documents_example() -> None:
    text = DOCUMENT.read_text("utf-8")
    [described] = re.findall(r'^\["Report", .*\]$', text, re.M)
    [body] = re.findall(r"^92  93 .*$", text, re.M)
    found = read_body(json.loads(described), bytes.fromhex(body))
    assert found == {"codes": ((2, 2), (1, 4, 0, 3)), "round": 7}

    class Report(Message, frozen=True):
        codes: Array
        round: int

    kind = Kind(Report, codes=ArraySpec(shape=(Bounds(1, 3), 2), high=(2, 5)))
    assert json.loads(described) == plain(pack(kind.schema))


# --- bodies, read by somebody who knows the schemas alone


SCHEMAS = {kind[0]: kind for kind in plain(pack(CODEC.schemas))}


@pytest.mark.slow
@settings(deadline=None, max_examples=200)
@given(st.sampled_from(list(MESSAGES)).flatmap(lambda name: MESSAGES[name]))
def test_every_body_is_read_as_it_was_said(message: Message) -> None:
    found = read_body(SCHEMAS[message.kind()], CODEC.encode(message))
    assert found == said(message)


def said(message: Message) -> dict[str, Plain]:
    """A message's values as the reader gives them."""

    def plain_array(array: Any) -> Plain:
        return array.shape, tuple(array.ravel().tolist())

    found = {}
    for field in message.__struct_fields__:
        value = getattr(message, field)
        if isinstance(value, np.ndarray):
            found[field] = plain_array(value)
        else:
            found[field] = plain(pack(value))
    return found


@pytest.mark.slow
@settings(deadline=None, max_examples=300)
@given(bodies)
def test_the_reader_and_the_codec_accept_the_same(attempt: tuple[str, bytes]) -> None:
    agree(CODEC, SCHEMAS, *attempt)


@pytest.mark.slow
@settings(deadline=None, max_examples=300)
@given(st.sampled_from(["Sample", "Deep"]).flatmap(MESSAGES.__getitem__), st.integers(0, 2**32))
def test_both_accept_the_same_of_what_is_nearly_right(message: Message, seed: int) -> None:
    draws = random.Random(seed)
    for _ in range(5):
        agree(CODEC, SCHEMAS, message.kind(), changed(CODEC.encode(message), draws))


def agree(codec: Codec, schemas: Mapping[str, Plain], name: str, body: bytes) -> bool:
    """Hold codec and reader against each other; whether both accept a body."""
    try:
        message = codec.decode(name, body)
    except RemoteProtocolError as error:
        if not isinstance(error.__cause__, msgspec.ValidationError) or name not in CHECKED:
            with pytest.raises(Unfit):
                read_body(schemas[name], body)
        return False
    assert read_body(schemas[name], body) == said(message)
    return True


CHECKED = {"Ask", "Pilot"}
"""The kinds whose values a class checks besides: not every number makes a randomizer."""


def changed(body: bytes, draws: random.Random) -> bytes:
    """A body with a byte changed, cut out or put in, or with one of its values changed."""
    if draws.random() < 0.4:
        at = draws.randrange(len(body))
        before, after = body[:at], body[at + 1 :]
        return draws.choice([before + draws.randbytes(1) + after, before + after, before])
    value = plain(body)
    inner = value
    while True:
        within, at = (
            inner,
            draws.choice(list(inner) if isinstance(inner, dict) else range(len(inner))),
        )
        inner = within[at]
        if not inner or not isinstance(inner, list | dict) or draws.random() < 0.2:
            break
    within[at] = draws.choice(CHANGES)(inner, draws)
    return pack(value)


def resized(value: Plain, draws: random.Random) -> Plain:
    """An array with more or less along one axis."""
    match value:
        case [str(dtype), [int(), *_] as shape, bytes(content)]:
            shape = list(shape)
            shape[draws.randrange(len(shape))] += draws.choice([-1, 1])
            size = max(math.prod(shape), 0) * int(dtype[1:])
            return [dtype, shape, (content + bytes(size))[:size]]
    return value


CHANGES: tuple[Callable[[Plain, random.Random], Plain], ...] = (
    resized,
    # An end of the range, where msgpack has no next one, goes to the other.
    lambda value, draws: (
        (value + draws.choice([-1, 1, 250]) + 2**63) % (2**64 + 2**63) - 2**63
        if isinstance(value, int)
        else value
    ),
    lambda value, draws: draws.choice([0, -1, 2**64 - 1, 0.5, "", b"", None, True, [], {}]),
    lambda value, draws: value * 2 if isinstance(value, str | bytes | list) else [value],
    lambda value, draws: value[:-1] if isinstance(value, str | bytes | list) else float("inf"),
    lambda value, draws: draws.randbytes(len(value)) if isinstance(value, bytes) else value,
)


OWN = Example(RollCall.with_keep(BITS, 0.6), answers(BITS, 2 * PARTIES - 3))


def records_of(log: bytes) -> Iterator[bytes]:
    """The contents of a log's records, by section 1 of the document."""
    place = 23 + 32
    while place < len(log):
        length = int.from_bytes(log[place : place + 4], "big")
        yield log[place + 4 : place + 4 + length]
        place += 4 + length


@pytest.mark.parametrize(
    "example", thinned([*examples(), OWN], 13), ids=lambda example: example.name
)
def test_an_outsider_reads_every_body(example: Example) -> None:
    run = recorded(*example, parties=PARTIES)
    codec = run.charter.codec
    header, *entries = map(plain, records_of(run.content))
    schemas = {kind[0]: kind for kind in header["kinds"]}
    latest = {}
    for entry in entries:
        if entry[0] == "Sent":
            *_, name, body = plain(entry[2])
            assert agree(codec, schemas, name, body)
            latest[name] = body
    assert latest.keys() > {"Closed", "Head"}
    draws = random.Random(example.name)
    accepted = sum(
        agree(codec, schemas, name, changed(body, draws))
        for name, body in latest.items()
        for _ in range(60)
    )
    assert accepted > 0
