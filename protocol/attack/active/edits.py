"""The grammar of edits: changes of a message that its kind allows.

Edits work on plain msgpack values: a message is a list of its fields, an array
``[dtype, shape, bytes]``. The kind's schema gives the type of every value.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.attack.active.script import Edit
from protocol.errors import RemoteProtocolError
from protocol.session.charter import Charter
from protocol.wire.schemas import (
    Bool,
    Enum,
    Field,
    Fields,
    Float,
    Int,
    Items,
    KindSchema,
    Map,
    Numbers,
    Octets,
    Text,
    Type,
    Union,
)

CELLS = 24
"""The most cells of an array that edits are proposed for one by one."""

DEPTH = 6
"""The largest depth of nested values for which edits are proposed."""

WORD = 1 << 64

Plain: TypeAlias = Any
"""A plain msgpack value."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


Bodies: TypeAlias = Callable[[int, str, int], bytes | None]
"""Source of values for edits: the body in a world, of a kind, by number; None without one."""


class Grammar:
    """The kinds of a session, with the edits of their bodies.

    The body of a sealed kind is the content of its box.

    Attributes:
        sealed: the names of the sealed kinds.
    """

    def __init__(self, charter: Charter) -> None:
        self._codec = charter.codec
        kinds = charter.variant.kinds(charter.parties)
        self._schemas = {schema.name: schema for schema in charter.codec.schemas}
        self._schemas |= {kind.name: kind.schema for kind in kinds}
        self.sealed = frozenset(kind.name for kind in kinds if kind.message.sealed)

    def edited(
        self, kind: str, body: bytes, edits: Sequence[Edit], bodies: Bodies, *, nth: int
    ) -> bytes:
        """A body with edits, without those that do not fit or that its kind does not allow.

        Args:
            bodies: source of values that are taken.
            nth: number of the message within its kind.
        """
        for edit in edits:
            try:
                changed = self._edited(kind, body, edit, bodies, nth)
                self._codec.read(kind, changed)
            except (RemoteProtocolError, *_MISFIT):
                continue
            body = changed
        return body

    def _edited(self, kind: str, body: bytes, edit: Edit, bodies: Bodies, nth: int) -> bytes:
        plain, schema = _decode(body), Fields(self._schemas[kind].fields)
        taken = None
        if edit.how in ("take", "sums"):
            source, number = (edit.kind, edit.nth) if edit.kind else (kind, nth)
            other = bodies(edit.world, source, number)
            if other is None:
                raise ValueError(f"no {source} {number} in world {edit.world}")
            taken = _at(_decode(other), Fields(self._schemas[source].fields), edit.path)[0]
        return _encode(_changed(plain, schema, edit.path, edit, taken))

    def proposals(self, kind: str, body: bytes) -> Iterator[Edit]:
        """Single edits of a body that its kind allows, field by field."""
        schema = self._schemas[kind]
        for value, field in zip(_decode(body), schema.fields, strict=True):
            yield from _proposals((field.name,), value, field.type, 0)

    def same_words(
        self,
        kind: str,
        one: bytes,
        other: bytes,
        said: tuple[Collection[bytes], Collection[bytes]],
    ) -> bool:
        """True if two bodies are equal to an observer of sums alone (``same_words``)."""
        return same_words(self._schemas[kind], one, other, said)

    def is_stack(self, kind: str, name: str) -> bool:
        """True if a field is an array of rows of numbers, which may add up to something."""
        field = self._field_type(kind, name)
        return isinstance(field, Numbers) and len(field.shape) == 2 and not _is_octets(field)

    def fields(self, kind: str) -> tuple[str, ...]:
        """The names of a kind's fields."""
        return tuple(field.name for field in self._schemas[kind].fields)

    def field(self, kind: str, body: bytes, name: str) -> Plain:
        """A field of a body."""
        return _decode(body)[self.fields(kind).index(name)]

    def is_octets(self, kind: str, name: str) -> bool:
        """True if a field holds bytes or text: keys, boxes, hashes, names."""
        field = self._field_type(kind, name)
        if isinstance(field, Numbers):
            return _is_octets(field)
        return isinstance(field, Octets | Text)

    def _field_type(self, kind: str, name: str) -> Type:
        return next(field.type for field in self._schemas[kind].fields if field.name == name)

    def made_up(self, kind: str) -> bytes | None:
        """A made-up body of a kind with the least values; None if the kind does not allow them."""
        try:
            body = _encode([_least(field.type) for field in self._schemas[kind].fields])
            self._codec.read(kind, body)
        except (RemoteProtocolError, *_MISFIT):
            return None
        return body

    def octets(self, kind: str, body: bytes) -> dict[str, bytes]:
        """The fields of a body that are octets or arrays, as bytes."""
        found = {}
        for field, value in zip(self._schemas[kind].fields, _decode(body), strict=True):
            if isinstance(field.type, Numbers):
                found[field.name] = bytes(value[2])
            elif isinstance(value, bytes):
                found[field.name] = value
        return found


_MISFIT = (
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    OverflowError,
    RecursionError,
    StopIteration,
    msgspec.MsgspecError,
)


def _least(kind: Type) -> Plain:
    match kind:
        case Numbers():
            shape = [low for low, _ in kind.shape]
            array = np.full(shape, kind.low, np.dtype("<" + kind.dtype))
            return _plain(array)
        case Int():
            return min(max(kind.low or 0, 0), kind.high if kind.high is not None else 0)
        case Float():
            return max(kind.low or 0.0, 0.0)
        case Bool():
            return False
        case Text():
            return "a" * kind.shortest
        case Octets():
            return bytes(kind.shortest)
        case Enum():
            return kind.values[0]
        case Items():
            return [_least(kind.of) for _ in range(kind.shortest)]
        case Fields():
            return [_least(field.type) for field in kind.fields]
        case Map():
            return {field.name: _least(field.type) for field in kind.fields}
        case Union():
            return _least(kind.types[0])
        case _:
            return None


def _within(kind: Type, value: Plain, step: str | int) -> tuple[Any, Type]:
    """The index of a part of a value, and the type of the part."""
    match kind:
        case Fields():
            place = next(i for i, f in enumerate(kind.fields) if step in (f.name, i))
            return place, kind.fields[place].type
        case Map():
            return step, next(f.type for f in kind.fields if f.name == step)
        case Items():
            return int(step), kind.of
        case Union():
            fitting = [one for one in kind.types if _fits(one, value)]
            return _within(fitting[0], value, step)
        case _:
            raise ValueError("nothing lies within")


def _fits(kind: Type, value: Plain) -> bool:
    """True if a value has the structure of a type."""
    match kind:
        case Fields():
            return isinstance(value, list) and len(value) == len(kind.fields)
        case Map():
            tags = [f for f in kind.fields if isinstance(f.type, Enum) and len(f.type.values) == 1]
            return isinstance(value, dict) and all(
                value.get(f.name) == f.type.values[0] for f in tags if isinstance(f.type, Enum)
            )
        case Items():
            return isinstance(value, list)
        case Int():
            return type(value) is int
        case Float():
            return isinstance(value, float)
        case Text() | Enum():
            return isinstance(value, str)
        case Octets():
            return isinstance(value, bytes)
        case Bool():
            return isinstance(value, bool)
        case _:
            return value is None


def _at(value: Plain, kind: Type, path: Sequence[str | int]) -> tuple[Plain, Type]:
    for step in path:
        place, kind = _within(kind, value, step)
        value = value[place]
    return value, kind


def _changed(
    value: Plain, kind: Type, path: Sequence[str | int], edit: Edit, taken: Plain
) -> Plain:
    if not path:
        if edit.how == "take":
            return copy.deepcopy(taken)
        return _edited_value(value, kind, edit, taken)
    place, inner = _within(kind, value, path[0])
    value[place] = _changed(value[place], inner, path[1:], edit, taken)
    return value


def _edited_value(value: Plain, kind: Type, edit: Edit, taken: Plain = None) -> Plain:
    match kind:
        case Numbers():
            return _edited_array(value, kind, edit, taken)
        case Items():
            return _edited_items(value, edit)
        case Octets():
            return _edited_octets(value, edit)
        case Text():
            return _edited_text(value, edit)
        case Union():
            fitting = next(one for one in kind.types if _fits(one, value))
            return edit.value if edit.how == "set" else _edited_value(value, fitting, edit)
        case _:
            return edit.value if edit.how == "set" else value + edit.value


def writable_array(value: Plain) -> NDArray[Any]:
    """An array of a message as one that can be written to."""
    name, shape, content = value
    return np.frombuffer(content, np.dtype("<" + name)).reshape(shape).copy()


def _plain(array: NDArray[Any]) -> Plain:
    return [f"{array.dtype.kind}{array.dtype.itemsize}", list(array.shape), array.tobytes()]


def _edited_array(value: Plain, kind: Numbers, edit: Edit, taken: Plain) -> Plain:
    array = writable_array(value)
    flat = array.reshape(-1)
    match edit.how:
        case "fill":
            flat[:] = edit.value
            flat[list(edit.cells)] = kind.low
        case "set":
            flat[edit.cells[0]] = edit.value
        case "add":
            flat[edit.cells[0]] = _number(flat[edit.cells[0]]) + _given(edit)
        case "move":
            source, to = edit.cells
            has = _number(flat[source])
            amount = has if edit.value is None else _given(edit)
            amount = has + amount if amount < 0 else min(amount, has)
            flat[source], flat[to] = has - amount, _number(flat[to]) + amount
        case "shift":
            source, to = edit.cells
            amount, modulus = int(_given(edit)), _modulus(array.dtype, kind)
            flat[source] = (int(flat[source]) - amount) % modulus
            flat[to] = (int(flat[to]) + amount) % modulus
        case "sums":
            _sum_to(array, edit, taken, _modulus(array.dtype, kind))
        case "swap":
            one, other = edit.cells
            flat[[one, other]] = flat[[other, one]]
        case "flip":
            flat[edit.cells[0]] ^= 1
        case "cut":
            array = np.delete(array, edit.cells[0], axis=0)
        case "grow":
            array = np.concatenate([array, array[[edit.cells[0]]]])
        case _:
            raise ValueError(f"{edit.how} does not change an array")
    return _plain(array)


def _sum_to(array: NDArray[Any], edit: Edit, taken: Plain, modulus: int) -> None:
    """Change a row so that all rows have the sum of the rows of another array."""
    row = edit.cells[0]
    wanted = writable_array(taken).astype(object).sum(axis=0)
    rest = np.delete(array, row, axis=0).astype(object).sum(axis=0)
    array[row] = ((wanted - rest) % modulus).astype(array.dtype)


def same_words(
    kind: KindSchema,
    one: bytes,
    other: bytes,
    said: tuple[Collection[bytes], Collection[bytes]] = ((), ()),
) -> bool:
    """True if two bodies are equal to an observer of sums alone.

    They are equal, or differ in arrays with equal sums of rows, in which the recipient has the same
    rows of its own.

    Args:
        said: the arrays that the recipient of each has sent, as bytes.
    """
    if one == other:
        return True
    for field, value, beside in zip(kind.fields, _decode(one), _decode(other), strict=True):
        if value == beside:
            continue
        if not isinstance(field.type, Numbers) or len(value[1]) != 2 or value[1] != beside[1]:
            return False
        modulus = _modulus(np.dtype("<" + value[0]), field.type)
        rows = [writable_array(each) for each in (value, beside)]
        if not np.array_equal(*(array.astype(object).sum(axis=0) % modulus for array in rows)):
            return False
        own = [[row.tobytes() in of for row in array] for array, of in zip(rows, said, strict=True)]
        if own[0] != own[1]:
            return False
    return True


def _number(value: Any) -> int | float:
    return float(value) if isinstance(value, np.floating) else int(value)


def _given(edit: Edit) -> int | float:
    if not isinstance(edit.value, int | float):
        raise ValueError("expected a number")
    return edit.value


def _is_octets(kind: Numbers) -> bool:
    """True if an array holds bytes: keys, boxes, hashes."""
    return kind.dtype == "u1" and kind.high in (None, 255)


def _modulus(dtype: np.dtype[Any], kind: Numbers) -> int:
    high = kind.high
    if isinstance(high, int):
        return high + 1
    return 1 << (8 * dtype.itemsize)


def _edited_items(value: list[Plain], edit: Edit) -> list[Plain]:
    match edit.how:
        case "cut":
            return value[: edit.cells[0]] + value[edit.cells[0] + 1 :]
        case "grow":
            return [*value, copy.deepcopy(value[edit.cells[0]])]
        case "swap":
            one, other = edit.cells
            value[one], value[other] = value[other], value[one]
            return value
        case _:
            raise ValueError(f"{edit.how} does not change a list")


def _edited_text(value: str, edit: Edit) -> str:
    if edit.how == "set":
        return str(edit.value)
    return _edited_octets(value.encode(), edit).decode()


def _edited_octets(value: bytes, edit: Edit) -> bytes:
    match edit.how:
        case "flip":
            at = edit.cells[0]
            return value[:at] + bytes([value[at] ^ 1]) + value[at + 1 :]
        case "fill":
            return bytes([int(_given(edit))]) * len(value)
        case "cut":
            return value[:-1]
        case "grow":
            return value + b"\0"
        case "set":
            return bytes.fromhex(str(edit.value))
        case _:
            raise ValueError(f"{edit.how} does not change bytes")


def _proposals(path: tuple[str | int, ...], value: Plain, kind: Type, depth: int) -> Iterator[Edit]:
    if depth > DEPTH:
        return
    match kind:
        case Numbers():
            yield from _array_edits(path, value, kind)
        case Int():
            yield from _integer_edits(path, value, kind)
        case Float():
            places = {kind.low, kind.high, 0.0, -value, value / 2, value * 2, value + 1, 1.0}
            numbers = sorted(one for one in places if one is not None and one != value)
            yield from (Edit(path, "set", value=number) for number in numbers)
        case Bool():
            yield Edit(path, "set", value=not value)
        case Enum():
            yield from (Edit(path, "set", value=one) for one in kind.values if one != value)
        case Octets() | Text():
            yield Edit(path, "fill", value=0)
            if value:
                yield Edit(path, "flip", cells=(len(value) - 1,))
                yield Edit(path, "cut")
            yield Edit(path, "grow")
        case Items():
            yield from _item_edits(path, value, kind, depth)
        case Fields() | Map():
            yield from _field_edits(path, value, kind.fields, depth, named=isinstance(kind, Map))
        case Union():
            for one in kind.types:
                if _fits(one, value):
                    yield from _proposals(path, value, one, depth)
                    break


def _field_edits(
    path: tuple[str | int, ...],
    value: Plain,
    fields: Sequence[Field],
    depth: int,
    *,
    named: bool,
) -> Iterator[Edit]:
    for place, field in enumerate(fields):
        if named and field.name not in value:
            continue
        inner = value[field.name] if named else value[place]
        yield from _proposals((*path, field.name), inner, field.type, depth + 1)


def _item_edits(
    path: tuple[str | int, ...], value: list[Plain], kind: Items, depth: int
) -> Iterator[Edit]:
    for place, item in enumerate(value[:4]):
        yield Edit(path, "cut", cells=(place,))
        yield Edit(path, "grow", cells=(place,))
        if place:
            yield Edit(path, "swap", cells=(place - 1, place))
        yield from _proposals((*path, place), item, kind.of, depth + 1)


def _integer_edits(path: tuple[str | int, ...], value: int, kind: Int) -> Iterator[Edit]:
    low = kind.low if kind.low is not None else -(1 << 63)
    high = kind.high if kind.high is not None else WORD - 1
    near = {low, high, 0, 1, value - 1, value + 1, value // 2, 2 * value, value // 16}
    for number in sorted(one for one in near if low <= one <= high and one != value):
        yield Edit(path, "set", value=number)


def _array_edits(path: tuple[str | int, ...], value: Plain, kind: Numbers) -> Iterator[Edit]:
    array = writable_array(value)
    flat = array.reshape(-1)
    high = kind.high
    top = max(high) if isinstance(high, tuple) else high
    if top is None:
        top = {"u8": WORD - 1, "u1": 255}.get(kind.dtype, 1 << 20)
    for bound in dict.fromkeys((0, kind.low, min(top, 1), top)):
        yield Edit(path, "fill", value=bound)
    if array.ndim:
        for place in sorted({0, len(array) - 1} if len(array) else set()):
            yield Edit(path, "cut", cells=(place,))
            yield Edit(path, "grow", cells=(place,))
    cells = list(range(len(flat)))
    few = cells if len(cells) <= CELLS else cells[:: -(-len(cells) // CELLS)]
    # Random octets need few tries.
    if _is_octets(kind):
        yield from (Edit(path, "flip", cells=(at,)) for at in few[:2] + few[-1:])
        return
    blocks = equal_sum_blocks(flat) if array.ndim == 1 else [slice(0, len(flat))]
    for block in blocks:
        inside = [at for at in few if block.start <= at < block.stop]
        for at, beside in pairwise([*inside, *inside[:1]]):
            yield from _cell_edits(path, flat, at, beside, kind)
    for at in few:
        yield Edit(path, "fill", cells=(at,), value=top)
        for bound in dict.fromkeys((kind.low, top)):
            yield Edit(path, "set", cells=(at,), value=bound)
        yield Edit(path, "add", cells=(at,), value=1)
        yield Edit(path, "add", cells=(at,), value=-1)


def _cell_edits(
    path: tuple[str | int, ...], flat: NDArray[Any], at: int, beside: int, kind: Numbers
) -> Iterator[Edit]:
    """Edits of two cells that keep their sum."""
    if at == beside:
        return
    has = _number(flat[at])
    if has > 0:
        yield Edit(path, "move", cells=(at, beside))
        if isinstance(has, int) and has > 1:
            for left in dict.fromkeys((1, has // 2, has // 8, has // 1024)):
                if 0 < left < has:
                    yield Edit(path, "move", cells=(at, beside), value=-left)
    if kind.dtype != "f8":
        yield Edit(path, "shift", cells=(at, beside), value=1)
    yield Edit(path, "swap", cells=(at, beside))


def equal_sum_blocks(flat: NDArray[Any]) -> list[slice]:
    """The most consecutive parts of an array with equal sums, such as tables of the same people.

    The honest message shows them, so the layout of a vector need not be known.
    """
    numbers = [_number(one) for one in flat]
    total, n = sum(numbers), len(numbers)
    sums: list[int | float] = [0]
    for number in numbers:
        sums.append(sums[-1] + number)
    for parts in range(n // 2, 1, -1):
        if not total > 0 or (isinstance(total, int) and total % parts):
            continue
        wanted = [total * part / parts for part in range(1, parts)]
        if isinstance(total, int):
            wanted = [total * part // parts for part in range(1, parts)]
        ends, place = [0], 1
        for want in wanted:
            while place < n and sums[place] < want:
                place += 1
            if sums[place] != want:
                break
            ends.append(place)
        else:
            ends.append(n)
            return [slice(one, other) for one, other in pairwise(ends)]
    return [slice(0, n)]
