"""Writes a transcript out as annotated hexadecimal, a line for each field."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from typing import Any

from tests.vectors.recording import MAGIC

FLAT = object()
"""Says of an item that it is written on one line, whatever is in it."""

ENVELOPE = "session", "sender", "recipient", "seq", "kind", ("body", FLAT)
ENTRIES: dict[str, Sequence[Any]] = {
    "Sent": ["name", "at", ("envelope", ENVELOPE)],
    "Delivered": ["name", "at", "sender", "recipient", "seq", "repeat"],
    "Ending": ["name", "log", "complete", "reason"],
    "Checkpoint": ["name", "note"],
}
"""What is in an entry; a pair says what is in an item of it."""


def annotated(log: bytes) -> str:
    """The log in hexadecimal; from ``#`` to the end of a line is a comment."""
    lines = [
        "# A whole survey of one party. Join the hexadecimal digits of all lines, without what",
        "# follows a '#', and the file comes out.",
        "",
        line(log[: len(MAGIC)], f"magic: {json.dumps(MAGIC.decode())}", 0),
        line(log[23:55], "secret: the log's salts follow from it", 0),
    ]
    at, place = 55, 0
    while at < len(log):
        (length,) = struct.unpack_from(">I", log, at)
        content = log[at + 4 : at + 4 + length]
        value, _ = read(content, 0)
        name = "the header" if isinstance(value, dict) else f'"{value[0]}"'
        leaf = "not a leaf of the log" if name == '"Checkpoint"' else f"leaf {place} of the log"
        place += name != '"Checkpoint"'
        lines += ["", f"# {name}, {leaf}", line(log[at : at + 4], f"length: {length} bytes", 0)]
        lines += fields(content) if place == 1 and isinstance(value, dict) else entry(content)
        at += 4 + length
    return "\n".join(lines) + "\n"


def line(content: bytes, comment: str, depth: int) -> str:
    return f"{'  ' * depth}{content.hex()}  # {comment}"


def fields(content: bytes) -> Iterator[str]:
    """The header."""
    count, at = int.from_bytes(content[1:3], "big"), 3
    yield line(content[:at], f"map of {count}", 1)
    while at < len(content):
        name, start = read(content, at)
        yield line(content[at:start], f'"{name}"', 2)
        inside = {"roster": [("member", FLAT)] * 16, "kinds": [("kind", FLAT)] * 16}.get(name, FLAT)
        lines, at = item(content, start, (name, inside), 3)
        yield from lines


def entry(content: bytes) -> list[str]:
    value, _ = read(content, 0)
    lines, end = item(content, 0, (value[0], ENTRIES[value[0]]), 1)
    assert end == len(content)
    return lines


def item(content: bytes, at: int, what: Any, depth: int) -> tuple[list[str], int]:
    """The lines of an item, and where it ends."""
    name, inside = what if isinstance(what, tuple) else (what, FLAT)
    value, end = read(content, at)
    if inside is FLAT:
        return [line(content[at:end], f"{name}: {shown(name, value)}", depth)], end
    if isinstance(value, bytes):
        start = end - len(value)
        head = line(content[at:start], f"{name}: bin of {len(value)} bytes, which hold", depth)
        return [head, *item(value, 0, ("array", inside), depth + 1)[0]], end
    start = at + (1 if len(value) < 16 else 3)
    lines = [line(content[at:start], f"{name}: array of {len(value)}", depth)]
    for _, each in zip(value, inside, strict=False):
        more, start = item(content, start, each, depth + 1)
        lines += more
    return lines, start


def shown(name: str, value: Any) -> str:
    if isinstance(value, bytes):
        if name == "body":
            body, _ = read(value, 0)
            return f"bin of {len(value)} bytes, {shown('', body)}"
        return f"bin of {len(value)} bytes"
    if isinstance(value, list) and any(isinstance(each, bytes) for each in value):
        return f"[{', '.join(shown('', each) for each in value)}]"
    return json.dumps(value, ensure_ascii=False, default=lambda inner: f"bin of {len(inner)} bytes")


def read(content: bytes, at: int) -> tuple[Any, int]:
    """An item of msgpack, and where it ends."""
    head, start = content[at], at + 1
    if head < 0x80 or head >= 0xE0:
        return (head if head < 0x80 else head - 256), start
    if head in SCALARS:
        return SCALARS[head], start
    if head in NUMBERS:
        form = NUMBERS[head]
        return struct.unpack_from(form, content, start)[0], start + struct.calcsize(form)
    if head < 0xC0:
        kind, size = (head >> 4, head & 15) if head < 0xA0 else (0xA, head & 31)
    else:
        kind, form = SIZED[head]
        (size,) = struct.unpack_from(form, content, start)
        start += struct.calcsize(form)
    if kind == 0xA:
        return content[start : start + size].decode(), start + size
    if kind == 0xC:
        return content[start : start + size], start + size
    items = []
    for _ in range(size * (2 if kind == 8 else 1)):
        value, start = read(content, start)
        items.append(value)
    return (dict(zip(items[::2], items[1::2], strict=True)) if kind == 8 else items), start


SCALARS = {0xC0: None, 0xC2: False, 0xC3: True}
NUMBERS = dict(zip([0xCB, *range(0xCC, 0xD4)], [">" + c for c in "dBHIQbhiq"], strict=True))
SIZED = {
    **{0xC4 + place: (0xC, form) for place, form in enumerate((">B", ">H", ">I"))},
    **{0xD9 + place: (0xA, form) for place, form in enumerate((">B", ">H", ">I"))},
    **{0xDC + place: (9, form) for place, form in enumerate((">H", ">I"))},
    **{0xDE + place: (8, form) for place, form in enumerate((">H", ">I"))},
}
"""Of the first byte of an item: its kind, as the short forms have it, and its size's form."""
