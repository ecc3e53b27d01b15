"""Numeric arrays in messages: their encoding, and the bounds that a kind of message sets."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, get_args

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.errors import RemoteProtocolError
from protocol.messages import Message

if TYPE_CHECKING:
    Array = NDArray[Any]
else:
    Array = np.ndarray  # what msgspec sees: a type it hands to the hooks below

MAX_TABLE_CELLS = 2**27
"""The largest contingency table that is made of records or reports: 1 GiB."""

MAX_AXES = 8
"""The most axes of an array."""

DType = Literal["u1", "u2", "u4", "u8", "i8", "f8"]
"""The name of a dtype, in a specification and on the wire."""

_DTYPES: dict[str, np.dtype[Any]] = {name: np.dtype("<" + name) for name in get_args(DType)}

_NAMES = {dtype: name for name, dtype in _DTYPES.items()}

Named = int | tuple[int, ...]
"""The value of a name in a specification; in a shape a tuple counts as its length."""

Size = int | str
"""A number, or the name of an attribute with that number."""


class Bounds(msgspec.Struct, frozen=True):
    """Shortest and longest length of an axis, both included."""

    low: Size
    high: Size


class ArraySpec(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Bounds of one array field of a message.

    At a message's field, a name may stand for every number: that of an attribute of the variant,
    with dots for one within another (``Variant.kinds``). A tuple counts for its length in a shape.

    Args:
        dtype: one of ``u1 u2 u4 u8 i8 f8`` (little-endian on the wire); by default the smallest
            of ``u1 u2 u4 u8`` that holds the values below ``high``.
        shape: per axis a length or ``Bounds``.
        high: exclusive upper bound of the values; a tuple gives one per position of the last axis;
            None leaves them free.
        most: inclusive upper bound, in the place of ``high``.
        low: inclusive lower bound.
        holds: the kind of message in the boxes that its rows are (``Me.seal``).

    Raises:
        TypeError: neither ``dtype`` nor ``high``, or both ``high`` and ``most``.
    """

    dtype: str = ""
    shape: tuple[Size | Bounds, ...]
    high: Size | tuple[int, ...] | None = None
    most: Size | None = None
    low: int = 0
    holds: type[Message] | None = None

    def __post_init__(self) -> None:
        if not self.dtype and self.high is None:
            raise TypeError("expected a dtype, or high to choose one")
        if self.dtype and self.dtype not in _DTYPES:
            raise TypeError(f"dtype {self.dtype!r}: expected one of {', '.join(_DTYPES)}")
        if self.most is not None and self.high is not None:
            raise TypeError("expected high or most, not both")
        if len(self.shape) > MAX_AXES:
            raise TypeError(f"{len(self.shape)} axes: expected at most {MAX_AXES}")

    def resolved(self, named: Callable[[str], Named]) -> ArraySpec:
        """The same with numbers in place of names.

        Args:
            named: the number of a name.
        """

        def length(size: Size) -> int:
            return named_number(named(size)) if isinstance(size, str) else size

        high = named(self.high) if isinstance(self.high, str) else self.high
        if self.most is not None:
            high = length(self.most) + 1
        largest = max(high) if isinstance(high, tuple) else (high or 0)
        return ArraySpec(
            dtype=self.dtype or dtype_name(smallest_dtype(largest)),
            shape=tuple(
                Bounds(length(axis.low), length(axis.high))
                if isinstance(axis, Bounds)
                else length(axis)
                for axis in self.shape
            ),
            high=high,
            low=self.low,
            holds=self.holds,
        )

    @functools.cached_property
    def axes(self) -> tuple[tuple[int, int], ...]:
        """Shortest and longest length of every axis, both included."""
        ends = (n if isinstance(n, Bounds) else Bounds(n, n) for n in self.shape)
        return tuple((_number(n.low), _number(n.high)) for n in ends)

    @property
    def first(self) -> int | float:
        """The least value, of the array's own type."""
        if self.dtype == "f8":
            return float(self.low)
        return max(self.low, int(np.iinfo(self.dtype).min))

    @functools.cached_property
    def last(self) -> int | float | tuple[int | float, ...] | None:
        """The largest allowed value, of the array's own type."""
        if self.high is None:
            return None
        if isinstance(self.high, tuple):
            return tuple(map(self._below, self.high))
        return self._below(_number(self.high))

    def _below(self, high: int) -> int | float:
        if self.dtype == "f8":
            return math.nextafter(high, -math.inf)
        return min(high - 1, int(np.iinfo(self.dtype).max))

    @functools.cached_property
    def _last(self) -> Array:
        # Of the array's own type: numpy compares mixed integers as floats.
        return np.array(self.last, _DTYPES[self.dtype])

    @property
    def longest(self) -> int:
        """The most values that such an array has."""
        return math.prod(high for _, high in self.axes)

    @property
    def max_bytes(self) -> int:
        """The most bytes that such an array takes on the wire."""
        return self.longest * _DTYPES[self.dtype].itemsize + 32

    def check(self, array: Array, field: str) -> None:
        """Refuse an array that does not fit.

        Raises:
            RemoteProtocolError: wrong dtype, shape or value; names ``field`` and the first place.
        """
        if array.dtype != _DTYPES[self.dtype]:
            raise RemoteProtocolError(f"dtype {array.dtype}, expected {self.dtype}", field=field)
        if array.shape != self._only_shape:
            self._check_shape(array, field)
        if array.size:
            self._check_values(array, field)

    @functools.cached_property
    def _only_shape(self) -> tuple[int, ...] | None:
        """The shape of every such array; None if they have different ones."""
        fixed = all(low == high for low, high in self.axes)
        return tuple(low for low, _ in self.axes) if fixed else None

    def _check_shape(self, array: Array, field: str) -> None:
        if array.ndim != len(self.shape):
            raise RemoteProtocolError(f"{array.ndim} axes, expected {len(self.shape)}", field=field)
        for axis, (n, (low, high)) in enumerate(zip(array.shape, self.axes, strict=True)):
            if not low <= n <= high:
                wanted = str(low) if low == high else f"{low} to {high}"
                raise RemoteProtocolError(
                    f"length {n} on axis {axis}, expected {wanted}", field=field
                )

    def _check_values(self, array: Array, field: str) -> None:
        if self.dtype == "f8" and not np.isfinite(array).all():
            raise RemoteProtocolError("expected finite values", field=field)
        if self.low > 0 or self.dtype[0] != "u":
            below = array < self.first
            if np.count_nonzero(below):
                raise _out_of_range(array, below, field, f"at least {self.low}")
        if self.high is not None:
            above = array > self._last
            # Most arrays are short, and ``any`` takes three times as long for them.
            if np.count_nonzero(above):
                raise _out_of_range(array, above, field, "in range")


def named_number(named: Named) -> int:
    """The number that a name stands for, where one is wanted."""
    return len(named) if isinstance(named, tuple) else named


def _number(size: Size) -> int:
    if isinstance(size, str):
        raise TypeError(f"{size!r} is a name: expected a number, or a resolved ArraySpec")
    return size


def _out_of_range(
    array: Array, bad: NDArray[np.bool_], field: str, wanted: str
) -> RemoteProtocolError:
    at = tuple(int(i) for i in np.argwhere(bad)[0])
    return RemoteProtocolError(f"value {array[at]} at {list(at)}, expected {wanted}", field=field)


def smallest_dtype(size: int) -> np.dtype[np.unsignedinteger]:
    """The smallest unsigned little-endian type that holds ``0..size-1``.

    Raises:
        ValueError: ``size`` is above 2**64.
    """
    for octets in (1, 2, 4, 8):
        if size <= 1 << 8 * octets:
            return np.dtype(f"<u{octets}")
    raise ValueError(f"{size} values do not fit in 64 bits")


def dtype_name(dtype: np.dtype[Any]) -> str:
    """A dtype's name in an ``ArraySpec`` and on the wire, without its byte order."""
    return f"{dtype.kind}{dtype.itemsize}"


def pack(value: Any) -> Any:
    """Encode an array as ``[dtype, shape, bytes]`` (msgspec's ``enc_hook``)."""
    if not isinstance(value, np.ndarray):
        raise NotImplementedError(f"messages cannot carry {type(value).__name__}")
    name = _NAMES.get(value.dtype)
    if name is None:
        name = dtype_name(value.dtype)
        if name not in _DTYPES:
            raise NotImplementedError(f"messages cannot carry arrays of {value.dtype}")
        value = value.astype(_DTYPES[name])
    return name, value.shape, np.ascontiguousarray(value).data


encode_message = msgspec.msgpack.Encoder(enc_hook=pack).encode
"""A message's fields as msgpack, arrays included; ``Codec.encode`` checks them too."""


def unpack(wanted: type, value: Any) -> Any:
    """Decode ``[dtype, shape, bytes]`` into a read-only view of the bytes (msgspec's ``dec_hook``).

    Nothing is allocated for the values: the view is of the bytes that came.
    """
    if wanted is not np.ndarray:
        raise NotImplementedError(f"messages cannot carry {wanted.__name__}")
    if not (isinstance(value, list) and len(value) == 3):
        raise ValueError("expected an array as [dtype, shape, bytes]")
    name, shape, content = value
    if not (isinstance(name, str) and name in _DTYPES):
        raise ValueError("unknown dtype")
    if not (isinstance(shape, list) and len(shape) <= MAX_AXES and isinstance(content, bytes)):
        raise ValueError("malformed shape or content of an array")
    size = (dtype := _DTYPES[name]).itemsize
    for n in shape:
        if type(n) is not int or not 0 <= n < 2**63:
            raise ValueError("malformed shape or content of an array")
        size *= n
    if size != len(content):
        raise ValueError(f"{len(content)} bytes do not fill shape {shape} of {name}")
    return np.ndarray(shape, dtype, content)
