"""A reader of bodies that knows the document alone: plain msgpack, and schemas from a header.

It imports nothing of the program, so that what the header says is enough.
"""

from __future__ import annotations

import math
import struct
from typing import Any

import msgspec

Plain = Any
"""What msgpack can say."""

_CODES = {"u1": "B", "u2": "H", "u4": "I", "u8": "Q", "i8": "q", "f8": "d"}


class Unfit(Exception):
    """A body that is not as its schema has it."""


def read_body(kind: Plain, body: bytes) -> dict[str, Plain]:
    """The values of a body by the names of its fields; arrays as ``(shape, values)``.

    Args:
        kind: its entry in the header's ``kinds``.
        body: of an envelope of that kind.

    Raises:
        Unfit: it is not such a body.
    """
    _, most, fields = kind
    need(len(body) <= most, "too long")
    try:
        value = msgspec.msgpack.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError, OverflowError) as error:
        raise Unfit(f"not msgpack: {error}") from error
    found = dict(zip((name for name, _ in fields), read(["struct", fields], value), strict=True))
    need(msgspec.msgpack.encode(value) == body, "not canonical")
    return found


def need(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Unfit(otherwise)


def read(described: Plain, value: Plain) -> Plain:
    """A value of a type, as plain values."""
    match described:
        case ["nil"]:
            need(value is None, "expected nil")
        case ["bool"]:
            need(type(value) is bool, "expected a bool")
        case ["int", low, high]:
            need(type(value) is int and within(value, low, high), "expected an int in bounds")
        case ["float", low, high]:
            need(type(value) is float and math.isfinite(value), "expected a finite float")
            need(within(value, low, high), "expected a float in bounds")
        case ["str", shortest, longest]:
            need(type(value) is str and within(len(value), shortest, longest), "expected a str")
        case ["bytes", shortest, longest]:
            need(type(value) is bytes and within(len(value), shortest, longest), "expected a bin")
        case ["enum", values]:
            need(any(type(one) is type(value) and one == value for one in values), "not in enum")
        case ["list", of, shortest, longest]:
            need(type(value) is list and within(len(value), shortest, longest), "expected a list")
            return [read(of, item) for item in value]
        case ["struct", fields]:
            need(type(value) is list and len(value) == len(fields), "expected an array of fields")
            return [read(of, item) for (_, of), item in zip(fields, value, strict=True)]
        case ["map", fields]:
            names = [name for name, _ in fields]
            need(type(value) is dict and list(value) == names, "expected a map of fields")
            return {name: read(of, value[name]) for name, of in fields}
        case ["union", types]:
            return read_one(types, value)
        case ["array", dtype, shape, low, high]:
            return read_array(dtype, shape, low, high, value)
        case _:
            raise ValueError(f"not a type: {described!r}")
    return value


def within(value: float, low: float | None, high: float | None) -> bool:
    return (low is None or low <= value) and (high is None or value <= high)


def read_one(types: list[Plain], value: Plain) -> Plain:
    for one in types:
        try:
            return read(one, value)
        except Unfit:
            continue
    raise Unfit("of no type of the union")


def read_array(
    dtype: str, axes: list[list[int]], low: float, high: Plain, value: Plain
) -> tuple[tuple[int, ...], tuple[float, ...]]:
    need(type(value) is list and len(value) == 3 and value[0] == dtype, "expected this dtype")
    _, shape, content = value
    need(type(shape) is list and type(content) is bytes, "expected shape and bytes")
    need(all(type(n) is int for n in shape) and len(shape) == len(axes), "expected these axes")
    for n, (shortest, longest) in zip(shape, axes, strict=True):
        need(shortest <= n <= longest, "an axis of another length")
    code = _CODES[dtype]
    need(len(content) == math.prod(shape) * int(dtype[1]), "expected the bytes of this shape")
    values = struct.unpack(f"<{math.prod(shape)}{code}", content)
    highs = high if type(high) is list else [high]
    for place, number in enumerate(values):
        need(math.isfinite(number), "expected finite numbers")
        need(within(number, low, highs[place % len(highs)]), "expected numbers in bounds")
    return tuple(shape), values
