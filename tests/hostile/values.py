"""Hostile values: the extremes of every type, and msgpack that no encoder writes."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec

INTEGERS = (
    *(0, 1, -1, 2, 3, 7, 127, 128, 255, 256, 2**15, 2**16 - 1, 2**16, 2**20, 2**24, 2**31 - 1),
    *(2**31, 2**32 - 1, 2**32, 2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 1, -(2**31), -(2**63)),
)
FLOATS = (
    *(0.0, -0.0, 0.5, 1.0, -1.0, 1 - 2**-53, 1 + 2**-52, 2**-64, 5e-324, 1e-300, 1e300),
    *(math.inf, -math.inf, math.nan, 1e-9, 700.0, 710.0),
)
TEXTS = (
    *(
        "",
        "\0",
        "a" * 255,
        "a" * 256,
        "a" * 5000,
        "aggregator",
        "party-1",
        "record",
        "é",
        "\U0001d54f",
    ),
    *("\u202e", "\x1b[31m", "\r\n", "../x", "-1", "nan", "1e999", "Closed", "Head", "Left", "[b]"),
)
OCTETS = (
    *(b"", b"\0", b"\xff", bytes(16), bytes(32), b"\xff" * 32, bytes(64), bytes(512), b"\x91"),
    *(b"a" * 10_000, b"\xc1", b"\x90", b"\x80"),
)
RAW = tuple(
    map(
        msgspec.Raw,
        (
            *(b"\x91" * depth + b"\xc0" for depth in (10, 70, 1000, 20_000)),
            *(b"\x81\xa1a" * depth + b"\xc0" for depth in (70, 1000)),
            *(b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff"),
            *(b"\xdb\xff\xff\xff\xff", b"\xdc\xff\xff", b"\xde\xff\xff", b"\xc9\xff\xff\xff\xff\0"),
            *(b"\x82\xa1a\x01\xa1a\x02", b"\x82\x01\x01\xa1a\x02", b"\x81\xc0\xc0", b"\x81\x90\1"),
            *(b"\xd4\x05\x00", b"\xd6\xff\0\0\0\0", b"\xd8\x01" + bytes(16), b"\xc7\0\xff"),
            *(b"\xcd\0\1", b"\xcf" + bytes(8), b"\xd3" + bytes(8), b"\xca\x3f\x80\0\0"),
            *(b"\xcb\x7f\xf8" + bytes(6), b"\xa2\xff\xfe", b"\xa3\xed\xa0\x80", b"\xd9\x01a"),
            *(b"\xc4\x00", b"\xc5\x00\x01a", b"\xc1", b"", b"\xdc\x00\x01\xc0", b"\xdd\0\0\0\0"),
            b"\xdd\x00\x00\x40\x00" + b"\x90" * 0x4000,
            b"\xdd\x00\x00\x40\x00" + b"\x80" * 0x4000,
        ),
    )
)


def extreme(random: Random) -> Any:
    """A value of any kind."""
    pools: tuple[tuple[Any, ...], ...] = (
        INTEGERS,
        FLOATS,
        TEXTS,
        OCTETS,
        RAW,
        (None, True, False, [], {}, [[]], [None], {"a": 1}, [0] * 1000, [""] * 100),
    )
    return random.choice(random.choice(pools))


def changed(value: Any, random: Random) -> Any:
    """The value with something in it changed, at a place drawn anew at every level."""
    if isinstance(value, dict) and value and random.random() < 0.9:
        return _in_map(value, random)
    if isinstance(value, list | tuple) and value and random.random() < 0.9:
        return _in_list(list(value), random)
    if random.random() < 0.15:
        return extreme(random)
    change = _CHANGES.get(type(value))
    return extreme(random) if change is None else change(value, random)


def _in_map(value: dict[Any, Any], random: Random) -> dict[Any, Any]:
    name = random.choice(list(value))
    what = random.random()
    if what < 0.8:
        return {**value, name: changed(value[name], random)}
    if what < 0.87:
        return {key: held for key, held in value.items() if key != name}
    if what < 0.94:
        return {**value, random.choice(TEXTS): extreme(random)}
    return {**value, name: value[random.choice(list(value))]}


def _in_list(value: list[Any], random: Random) -> list[Any]:
    place = random.randrange(len(value))
    what = random.random()
    if what < 0.7:
        value[place] = changed(value[place], random)
    elif what < 0.76:
        del value[place]
    elif what < 0.82:
        value.insert(place, value[place])
    elif what < 0.86:
        value.insert(place, extreme(random))
    elif what < 0.9:
        value[place] = value[random.randrange(len(value))]
    elif what < 0.94:
        random.shuffle(value)
    elif what < 0.96:
        value = value * random.choice((2, 30))
    elif what < 0.98:
        value = []
    else:
        value = value[:place]
    return value


def _integer(value: int, random: Random) -> int:
    near = (value + 1, value - 1, -value, value * 2, value // 2, value ^ 1, value + 2**32)
    return random.choice((*near, random.choice(INTEGERS), random.choice(INTEGERS)))


def _number(value: float, random: Random) -> Any:
    near = (
        -value,
        value * 2,
        value / 2,
        value * 1e9,
        1 - value,
        int(value) if math.isfinite(value) else 0,
    )
    return random.choice((*near, random.choice(FLOATS), random.choice(FLOATS)))


def _text(value: str, random: Random) -> Any:
    place = random.randrange(len(value) + 1)
    near = (value[:place], value + "a", value.upper(), value[:place] + "\0" + value[place:])
    return random.choice((*near, value.encode(), random.choice(TEXTS)))


def octets(value: bytes, random: Random) -> Any:
    """Bytes with some of them changed, or read as msgpack and that changed."""
    what, place = random.random(), random.randrange(len(value) + 1)
    if what < 0.5:
        try:
            return msgspec.msgpack.encode(changed(msgspec.msgpack.decode(value), random))
        except (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError):
            pass
    if what < 0.75 and value:
        flipped = bytearray(value)
        for _ in range(random.choice((1, 1, 2, 8))):
            flipped[random.randrange(len(value))] ^= random.randrange(1, 256)
        return bytes(flipped)
    near = (value[:place], value + bytes(1), value[place:], bytes(len(value)), b"\xff" * len(value))
    return random.choice((*near, random.choice(OCTETS), value.decode("latin-1")))


_CHANGES: dict[type, Callable[[Any, Random], Any]] = {
    bool: lambda value, random: not value,
    int: _integer,
    float: _number,
    str: _text,
    bytes: octets,
}
