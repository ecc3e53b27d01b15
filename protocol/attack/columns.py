"""Views of an attacker: the arrays of all trials as columns of integers.

A column holds one number of every trial's view: an element of an array that was sent, a hash of
all of it, or the difference of two arrays of one sender.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.attack.observer import Observation

Codes: TypeAlias = NDArray[np.int64]

Placed: TypeAlias = tuple[int, NDArray[np.generic]]
"""The place of a trial, and an array of its view."""

MISSING = -(1 << 62)
"""The value of a column where a view has no such number."""

ELEMENTS = 4096
"""The most elements of an array that are columns of their own; the rest is hashed into one."""

FEWEST = 32
"""The elements of each array that are columns of their own, however many trials there are."""

CELLS = 1 << 24
"""The most elements of all trials together that are columns beyond ``FEWEST`` of each array."""

RELATED = 48
"""The most pairs of arrays that are compared, those of one kind and field first."""

ALL, REST, EXACT, SHAPE = "all of ", "rest of ", "last bits of ", "shape of "

_THOUSANDTHS = 1000.0
_FOLD = np.uint64(0x9E3779B97F4A7C15)


class Matrix(NamedTuple):
    """One array of every trial, (n, w), and the bits of an element on the wire.

    ``bits`` is 0 if the numbers are names, such as hashes, which have no differences.
    """

    values: Codes
    bits: int


class View(msgspec.Struct, frozen=True):
    """View of one trial.

    Args:
        fields: the fields of all messages as arrays, by name.
        facts: numbers about messages, as in ``Observation``.
    """

    fields: dict[str, NDArray[np.generic]]
    facts: dict[str, int]


def make_view(observation: Observation) -> View:
    """View of an observer."""
    fields = {
        f"{name}.{field}": field_array(getattr(message, field))
        for name, message in observation.messages.items()
        for field in message.__struct_fields__
    }
    return View(fields, dict(observation.facts))


def view_matrices(views: Sequence[View]) -> dict[str, Matrix]:
    """The fields of all messages, by name: as many elements as the longest has, and hashes."""
    fields: dict[str, list[Placed]] = {}
    for place, view in enumerate(views):
        for name, array in view.fields.items():
            fields.setdefault(name, []).append((place, array))
    return fields_as_matrices(fields, len(views))


def fields_as_matrices(fields: Mapping[str, Sequence[Placed]], trials: int) -> dict[str, Matrix]:
    """Matrices of the arrays of all trials, by name.

    Args:
        fields: the arrays by name.
        trials: the number of trials.
    """
    lengths = [max(array.size for _, array in parts) for parts in fields.values()]
    most = _width(lengths, trials)
    found: dict[str, Matrix] = {}
    for name, parts in fields.items():
        found.update(_field_matrices(name, parts, trials, most))
    return found


def _field_matrices(
    name: str, parts: Sequence[Placed], trials: int, most: int
) -> Iterator[tuple[str, Matrix]]:
    """Matrices of one field: its elements, exact fractions, hashes and shape."""
    flat = [(place, array.reshape(-1)) for place, array in parts]
    length = max(array.size for _, array in parts)

    def stacked(
        codes: Callable[[NDArray[np.generic]], Codes], start: int, stop: int | None
    ) -> Codes:
        return _stacked([(place, codes(array[start:stop])) for place, array in flat], trials)

    yield name, Matrix(stacked(as_codes, 0, most), 8 * parts[0][1].dtype.itemsize)
    if any(array.dtype.kind == "f" for _, array in parts):
        yield EXACT + name, Matrix(stacked(exact_codes, 0, most), 0)
    if length > 1:
        yield ALL + name, Matrix(stacked(folded, 0, None), 0)
    if length > most:
        yield REST + name, Matrix(stacked(folded, most, None), 0)
    if any(array.ndim > 1 for _, array in parts):
        shapes = [(place, folded(np.array(array.shape, np.int64))) for place, array in parts]
        yield SHAPE + name, Matrix(_stacked(shapes, trials), 0)


def element_columns(
    matrices: Mapping[str, Matrix], *, related: Collection[str]
) -> dict[str, Codes]:
    """Every element by itself, and differences of the arrays whose names are ``related``."""
    columns: dict[str, Codes] = {}
    for name, matrix in matrices.items():
        _spread(columns, name, matrix.values)
    numbers = {name for name in related if name in matrices and matrices[name].bits}
    pairs = sorted(
        combinations(sorted(numbers), 2),
        key=lambda pair: _general_name(pair[0]) != _general_name(pair[1]),
    )
    alike = [(a, b) for a, b in pairs if matrices[a].bits == matrices[b].bits]
    for one, other in alike[:RELATED]:
        width = min(FEWEST, *(matrices[name].values.shape[1] for name in (one, other)))
        first, second = (matrices[name].values[:, :width] for name in (one, other))
        absent = (first == MISSING) | (second == MISSING)
        difference = _wrapped(first - second, matrices[one].bits)
        _spread(columns, f"{one} - {other}", np.where(absent, MISSING, difference))
    return columns


def _general_name(name: str) -> str:
    """An array's kind and field, without sender and number."""
    kind, _, field = name.partition("'s ")[2].partition(".")
    return f"{kind.partition(' ')[0]}.{field}"


def plain_facts(views: Sequence[View]) -> dict[str, Codes]:
    """The facts of views, such as lengths and numbers, as columns by name."""
    names = dict.fromkeys(name for view in views for name in view.facts)
    return {name: np.array([view.facts.get(name, 0) for view in views], np.int64) for name in names}


def matrices_of_rows(
    name: str, values: NDArray[np.generic], bits: int, *, most: int
) -> Iterator[tuple[str, Matrix]]:
    """Columns of an array with a row per trial, (n, w), by name.

    Args:
        most: the most elements of a row that are columns of their own.
    """
    seen = values[:, :most]
    yield name, Matrix(as_codes(seen), bits)
    if values.dtype.kind == "f":
        yield EXACT + name, Matrix(exact_codes(seen), 0)
    # Two columns are tried as a pair anyway.
    for label, part, least in ((ALL, values, 2), (REST, values[:, most:], 0)):
        if part.shape[1] > least:
            yield label + name, Matrix(_folded_rows(part)[:, np.newaxis], 0)


def _width(lengths: Sequence[int], trials: int) -> int:
    """The most elements of each array that are columns of their own."""
    most = ELEMENTS
    while most > FEWEST and trials * sum(min(length, most) for length in lengths) > CELLS:
        most //= 2
    return most


def _spread(columns: dict[str, Codes], name: str, values: Codes) -> None:
    if values.shape[1] == 1:
        columns[name] = values[:, 0]
        return
    for place in range(values.shape[1]):
        columns[f"{name}[{place}]"] = values[:, place]


def _wrapped(difference: Codes, bits: int) -> Codes:
    """Differences modulo ``2**bits``, nearest to zero."""
    if bits >= 64:
        return difference
    half = np.int64(1 << (bits - 1))
    wrapped: Codes = ((difference + half) & np.int64((1 << bits) - 1)) - half
    return wrapped


def _stacked(parts: Sequence[tuple[int, Codes]], trials: int) -> Codes:
    width = max(len(numbers) for _, numbers in parts)
    values = np.full((trials, width), MISSING, np.int64)
    for place, numbers in parts:
        values[place, : len(numbers)] = numbers
    return values


def field_array(value: object) -> NDArray[np.generic]:
    """A field as an array; other values than arrays, text and numbers by their encoding."""
    match value:
        case np.ndarray():
            return value
        case bytes() | str():
            return np.frombuffer(value.encode() if isinstance(value, str) else value, np.uint8)
        case bool() | int():
            wrapped = int(value) & ((1 << 64) - 1)
            return np.array([wrapped], np.uint64).view(np.int64)
        case float():
            return np.array([value])
        case _:
            return np.frombuffer(msgspec.msgpack.encode(value), np.uint8)


def as_codes(values: NDArray[np.generic]) -> Codes:
    """An array as integers: fractions in thousandths."""
    if values.dtype.kind == "f":
        scaled = np.nan_to_num(np.asarray(values, np.float64) * _THOUSANDTHS)
        return np.clip(np.round(scaled), -(2.0**53), 2.0**53).astype(np.int64)
    return values.astype(np.int64)


def exact_codes(values: NDArray[np.generic]) -> Codes:
    """Fractions by the bits that they are stored in, as names."""
    codes: Codes = np.ascontiguousarray(values, np.float64).view(np.int64)
    return codes


def folded(values: NDArray[np.generic]) -> Codes:
    """All elements hashed into one number, (1,)."""
    digest = hashlib.sha256(values.tobytes()).digest()
    return np.array([int.from_bytes(digest[:7], "big")], np.int64)


def _folded_rows(values: NDArray[np.generic]) -> Codes:
    """A hash of every row, (n,), which differs for rows that differ in one element."""
    codes = exact_codes(values) if values.dtype.kind == "f" else values.astype(np.int64)
    powers = np.multiply.accumulate(np.full(codes.shape[1], _FOLD))
    total = np.zeros(len(codes), np.uint64)
    for column, power in zip(codes.T, powers, strict=True):
        total += column.astype(np.uint64) * power
    return total.view(np.int64)
