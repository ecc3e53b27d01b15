"""Schemas of the bodies of messages, as plain values: a transcript's header holds them.

``docs/transcript-format.md`` describes the language. Its class or its role checks conditions that a
type cannot express, such as a valid proof.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, TypeAlias, cast

import msgspec
import numpy as np
from msgspec import inspect

from protocol.errors import LocalProtocolError
from protocol.messages import Message
from protocol.wire.arrays import MAX_AXES, ArraySpec, DType

MAX_NESTING = 16
"""Deepest nesting of types, a field's own type counted."""

_ARRAY = inspect.CustomType(np.ndarray)

Length = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


class _Part(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A part of a description: an array of its name, if it is a type, and its fields."""


class Nil(_Part, frozen=True, tag="nil"):
    """Nothing."""


class Bool(_Part, frozen=True, tag="bool"):
    """True or false."""


class Int(_Part, frozen=True, tag="int"):
    """An integer, its bounds included; None leaves it free."""

    low: int | None
    high: int | None


class Float(_Part, frozen=True, tag="float"):
    """A finite number of 64 bits, its bounds included; None leaves it free."""

    low: float | None
    high: float | None


class Text(_Part, frozen=True, tag="str"):
    """Text, by its number of code points."""

    shortest: Length
    longest: Length | None


class Octets(_Part, frozen=True, tag="bytes"):
    """Bytes, by their number."""

    shortest: Length
    longest: Length | None


class Enum(_Part, frozen=True, tag="enum"):
    """One of some values."""

    values: tuple[str | int | None, ...]


class Items(_Part, frozen=True, tag="list"):
    """Values of one type, by their number."""

    of: Type
    shortest: Length
    longest: Length | None


class Field(_Part, frozen=True):
    """A value by its name."""

    name: str
    type: Type


class Fields(_Part, frozen=True, tag="struct"):
    """An array of these values, in this order."""

    fields: tuple[Field, ...]


class Map(_Part, frozen=True, tag="map"):
    """A map from these names to values, in this order."""

    fields: tuple[Field, ...]


class Union(_Part, frozen=True, tag="union"):
    """A value of one of these types."""

    types: tuple[Type, ...]


class Numbers(_Part, frozen=True, tag="array"):
    """A numeric array: per axis shortest and longest length, and bounds of values, all included.

    Several ``high`` are one per position of the last axis; None leaves the values free.
    """

    dtype: DType
    shape: Annotated[tuple[tuple[Length, Length], ...], msgspec.Meta(max_length=MAX_AXES)]
    low: int | float
    high: int | float | tuple[int | float, ...] | None


Type: TypeAlias = (
    Nil | Bool | Int | Float | Text | Octets | Enum | Items | Fields | Map | Union | Numbers
)
"""Type of a value of a body."""


class KindSchema(_Part, frozen=True):
    """Schema of a kind of message.

    Args:
        name: the kind's.
        max_bytes: the most bytes of a body.
        fields: the values of a body, which is an array of them.
    """

    name: str
    max_bytes: Length
    fields: tuple[Field, ...]


def make_schema(
    message: type[Message], arrays: Mapping[str, ArraySpec], *, max_bytes: int
) -> KindSchema:
    """Schema of a kind, from its class and the bounds of its arrays.

    Args:
        message: the class.
        arrays: the bounds of every array field, as numbers.
        max_bytes: the most bytes of a body.

    Raises:
        LocalProtocolError: a field of a type without a description; names it.
    """
    try:
        fields = tuple(
            Field(field, kind or number_type(arrays[field])) for field, kind in _declared(message)
        )
    except TypeError as error:
        raise LocalProtocolError(f"kind {message.kind()!r} cannot be described: {error}") from error
    return KindSchema(message.kind(), max_bytes, fields)


@functools.lru_cache(maxsize=256)
def _declared(message: type[Message]) -> tuple[tuple[str, Type | None], ...]:
    """A kind's fields by name, those without a type that are arrays."""
    found = inspect.type_info(message)
    if not isinstance(found, inspect.StructType) or not found.array_like or found.tag is not None:
        raise TypeError("expected array_like, without a tag")
    fields: list[tuple[str, Type | None]] = []
    for field in found.fields:
        try:
            kind = None if field.type == _ARRAY else _described(field.type, 1)
        except TypeError as error:
            raise TypeError(f"field {field.name!r}: {error}") from error
        fields.append((field.name, kind))
    return tuple(fields)


def number_type(spec: ArraySpec) -> Numbers:
    """An array's type.

    Raises:
        TypeError: several bounds, and not one for each position of the last axis.
    """
    high = spec.last
    if isinstance(high, tuple):
        if spec.axes[-1:] != ((len(high), len(high)),):
            raise TypeError(f"{len(high)} bounds, expected one per position of the last axis")
        if len(set(high)) == 1:
            high = high[0]
    return Numbers(cast(DType, spec.dtype), spec.axes, spec.first, high)


def _described(found: inspect.Type, depth: int) -> Type:
    if depth > MAX_NESTING:
        raise TypeError(f"types nested more than {MAX_NESTING} deep")

    def within(parts: Iterable[inspect.Type]) -> tuple[Type, ...]:
        return tuple(_described(part, depth + 1) for part in parts)

    match found:
        case inspect.Metadata():
            return _described(found.type, depth)
        case inspect.NoneType():
            return Nil()
        case inspect.BoolType():
            return Bool()
        case inspect.IntType(multiple_of=None):
            low = found.ge if found.gt is None else found.gt + 1
            return Int(low, found.le if found.lt is None else found.lt - 1)
        case inspect.FloatType(multiple_of=None):
            least = found.ge if found.gt is None else math.nextafter(found.gt, math.inf)
            most = found.le if found.lt is None else math.nextafter(found.lt, -math.inf)
            return Float(_float(least), _float(most))
        case inspect.StrType(pattern=None):
            return Text(found.min_length or 0, found.max_length)
        case inspect.BytesType():
            return Octets(found.min_length or 0, found.max_length)
        case inspect.LiteralType():
            return Enum(tuple(sorted(found.values, key=lambda value: (str(type(value)), value))))
        case inspect.VarTupleType() | inspect.ListType():
            (item,) = within([found.item_type])
            return Items(item, found.min_length or 0, found.max_length)
        case inspect.TupleType():
            places = enumerate(within(found.item_types))
            return Fields(tuple(Field(str(place), kind) for place, kind in places))
        case inspect.StructType() if found.array_like or not _omits(found):
            names = [field.encode_name for field in found.fields]
            fields = tuple(map(Field, names, within(field.type for field in found.fields)))
            if found.tag is not None:
                fields = (Field(found.tag_field or "", Enum((found.tag,))), *fields)
            return Fields(fields) if found.array_like else Map(fields)
        case inspect.UnionType():
            return Union(within(found.types))
    raise TypeError(
        f"{type(found).__name__}; expected None, bool, int, float, str, bytes, Literal, tuples, "
        "structs or a union of these, and an array only as the kind's own field"
    )


def _float(bound: float | None) -> float | None:
    return None if bound is None else float(bound)


def _omits(found: inspect.StructType) -> bool:
    config: msgspec.structs.StructConfig = found.cls.__struct_config__
    return config.omit_defaults


def types_in(fields: Iterable[Field]) -> Iterator[tuple[Type, int]]:
    """All types of some fields, and how deep each is nested, from 1."""
    waiting = [(field.type, 1) for field in fields]
    while waiting:
        kind, depth = waiting.pop()
        yield kind, depth
        match kind:
            case Items():
                waiting.append((kind.of, depth + 1))
            case Fields() | Map():
                waiting += [(field.type, depth + 1) for field in kind.fields]
            case Union():
                waiting += [(one, depth + 1) for one in kind.types]
