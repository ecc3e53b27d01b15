"""Taxi trips as binary attributes: a seeded stand-in of known law, and a reader of the real trips.

Kulkarni, Cormode and Srivastava, Marginal Release Under Local Differential Privacy, Figure 5, makes
eight bits of the trips of 2013 in New York. The stand-in has their names, not their numbers.
"""

from __future__ import annotations

import csv
import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parties.keeping.writing import reason
from protocol.crypto.randomness import WORDS, Stream, secret_of
from protocol.simulation.populations.population import Law, Population
from protocol.surveys.records import Records
from protocol.surveys.survey import Attribute, Survey
from scenarios.data import DatasetError

BITS = ("CC", "Toll", "Far", "Night_pick", "Night_drop", "M_pick", "M_drop", "Tip")
"""The paper's eight attributes, in the order of its Figure 5."""

CATEGORIES = ("no", "yes")
MAX_BITS = 24
"""Maximum number of bits of a stand-in."""

PER_CENT = 100

LAWS: Mapping[str, tuple[tuple[str, ...], tuple[int, ...]]] = {
    "M_pick": ((), (85,)),
    "M_drop": (("M_pick",), (30, 92)),
    "Far": (("M_pick", "M_drop"), (20, 45, 55, 4)),
    "Toll": (("Far",), (3, 40)),
    "CC": ((), (54,)),
    "Tip": (("CC",), (2, 38)),
    "Night_pick": ((), (30,)),
    "Night_drop": (("Night_pick",), (6, 68)),
}
"""The parents of every bit, and the per cents of yes: one for each combination of the parents'
answers, in row-major order. A bit comes after its parents."""

COPIED = 75
"""Per cent of trips whose further bit equals the one eight places before it."""

MAX_CELLS = 2**22
"""The largest table that ``taxi_distribution`` makes."""

PAYMENTS = ("CRD", "CSH", "DIS", "NOC", "UNK")
"""Credit card, cash, dispute, no charge and unknown, as the file has them."""

MANHATTAN = (
    (-74.0190, 40.7000),
    (-74.0130, 40.7420),
    (-74.0050, 40.7630),
    (-73.9930, 40.7790),
    (-73.9620, 40.8200),
    (-73.9350, 40.8690),
    (-73.9270, 40.8790),
    (-73.9110, 40.8730),
    (-73.9220, 40.8560),
    (-73.9340, 40.8350),
    (-73.9330, 40.8090),
    (-73.9285, 40.7970),
    (-73.9420, 40.7830),
    (-73.9430, 40.7750),
    (-73.9580, 40.7580),
    (-73.9690, 40.7480),
    (-73.9720, 40.7300),
    (-73.9760, 40.7110),
    (-73.9980, 40.7070),
    (-74.0120, 40.6995),
)
"""An outline of Manhattan, (longitude, latitude) in degrees, true to a few hundred metres.

The paper does not say how it decides what is within."""

_BLOCK = 2**16


def taxi_survey(d: int = 8) -> Survey:
    """The first d bits, each no or yes; those after the eighth are called ``CC_2`` and so on.

    Raises:
        ValueError: d not in 2..24.
    """
    return Survey(
        "Taxi trips", tuple(Attribute(name=name, categories=CATEGORIES) for name in _names(d))
    )


def taxi(n: int, *, d: int = 8, seed: int) -> Records:
    """Draw the stand-in's trips, the same for one seed on every platform.

    The trips are independent of each other. The dependence within one is

        M_pick -> M_drop,   (M_pick, M_drop) -> Far,   Far -> Toll,   CC -> Tip,
        Night_pick -> Night_drop,

    so of the 28 pairs the 20 between the three parts are independent exactly. A bit after the
    eighth equals the one eight places before it with a probability of 3/4, else it is the other
    answer. Probabilities are rounded to multiples of 2**-64.

    Args:
        n: how many trips, at least 1. The first trips of more are those of fewer.
        d: how many bits, 2 to 24. The first bits of more are those of fewer.
        seed: any integer of at least 0.

    Returns:
        Records of ``taxi_survey(d)``, shape (n, d).

    Raises:
        ValueError: n below 1, d out of range, or a negative seed.
    """
    if n < 1:
        raise ValueError(f"{n} trips: expected at least 1")
    return _trips(n, Stream(secret_of(seed)).derive("taxi"), d=d)


def taxi_population(d: int = 8) -> Population:
    """The stand-in's law, to draw trips of d bits from.

    Raises:
        ValueError: d not in 2..24.
    """
    said = f"the law of a stand-in for taxi trips, {d} bits each"
    return Law(taxi_survey(d), said, functools.partial(_trips, d=d))


def _trips(n: int, stream: Stream, *, d: int) -> Records:
    names = _names(d)
    drawn: dict[str, NDArray[np.uint8]] = {}
    for name in (*LAWS, *names[len(BITS) :]):
        parents, per_cents = _law(name)
        given = np.zeros(n, np.intp)
        for parent in parents:
            given = 2 * given + drawn[parent]
        bounds = np.array([WORDS * share // PER_CENT for share in per_cents], np.uint64)
        drawn[name] = (stream.derive(name).words(n) < bounds[given]).astype(np.uint8)
    return Records(taxi_survey(d), np.stack([drawn[name] for name in names], axis=1))


def taxi_distribution(names: Sequence[str]) -> NDArray[np.float64]:
    """The joint distribution of some of the stand-in's bits.

    Args:
        names: of any of the 24 bits, in any order, each once.

    Returns:
        Shape (2,) * len(names), no before yes.

    Raises:
        ValueError: no name, an unknown or repeated one, or more than 2**22 cells.
    """
    known = _names(MAX_BITS)
    if not names or len(set(names)) < len(names) or not set(names) <= set(known):
        raise ValueError(f"bits {', '.join(names) or 'none'}: expected some of {', '.join(known)}")
    if 2 ** len(names) > MAX_CELLS:
        raise ValueError(f"{len(names)} bits: the table has more than 2**22 cells")
    needed = set(names)
    for name in (*reversed(known[len(BITS) :]), *reversed(tuple(LAWS))):
        if name in needed:
            needed.update(_law(name)[0])
    operands: list[Any] = []
    for name in known:
        if name in needed:
            parents, per_cents = _law(name)
            yes = np.reshape(per_cents, (2,) * len(parents)) / PER_CENT
            axes = [known.index(other) for other in (*parents, name)]
            operands += [np.stack([1 - yes, yes], axis=-1), axes]
    asked = [known.index(name) for name in names]
    joint: NDArray[np.float64] = np.einsum(*operands, asked, optimize="greedy")
    return joint


def taxi_independent(first: str, second: str) -> bool:
    """Check whether two different bits of the stand-in are independent, exactly.

    Raises:
        ValueError: an unknown bit, or one bit twice.
    """
    known = _names(MAX_BITS)
    if first == second or first not in known or second not in known:
        raise ValueError(f"{first!r} and {second!r}: expected two of {', '.join(known)}")
    return _root(first) != _root(second)


def taxi_trips(path: Path | str) -> Records:
    """The real trips: the monthly tables of yellow taxis that the city's commission published.

    One line per trip under a header; the columns of ``COLUMNS`` are found by their names, with or
    without blanks around them. The eight bits are

        CC          payment_type is CRD
        Toll        tolls_amount above 0
        Far         trip_distance of at least 10 (miles)
        Night_pick  pickup_datetime at 20:00 or later
        Night_drop  dropoff_datetime at 03:00:00 or earlier
        M_pick      the pickup position is within ``MANHATTAN``
        M_drop      the dropoff position is
        Tip         tip_amount above 0 and at least a quarter of total_amount

    A trip one of whose positions was not recorded, which the file has as 0 or nothing or as degrees
    that do not exist, is left out.

    Returns:
        Records of ``taxi_survey()``, shape (n, 8).

    Raises:
        DatasetError: the file cannot be read, lacks a column or trips, or has a line that is not as
            described.
    """
    path = Path(path)
    try:
        with path.open(encoding="utf-8", newline="") as lines:
            blocks = list(_blocks(path, csv.reader(lines)))
    except OSError as error:
        raise DatasetError(f"{path} cannot be read: {reason(error)}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise DatasetError(f"{path} is not a table of trips: {error}") from error
    if not sum(map(len, blocks)):
        raise DatasetError(f"{path} has no trip with a position")
    return Records(taxi_survey(), np.concatenate(blocks))


def _blocks(path: Path, rows: Iterator[list[str]]) -> Iterator[NDArray[np.uint8]]:
    header = [name.strip() for name in next(rows, [])]
    for name in COLUMNS:
        if header.count(name) != 1:
            found = "missing" if name not in header else "there twice"
            raise DatasetError(f"{path}: column {name!r} is {found}")
    # Files of 2013 have an empty line under the header.
    numbered = ((f"{path}: row {line}", row) for line, row in enumerate(rows, start=2) if row)
    while block := list(islice(numbered, _BLOCK)):
        columns = np.array([_values(where, header, row) for where, row in block]).T
        yield _bits(dict(zip(COLUMNS, columns, strict=True)))


def _values(where: str, header: list[str], row: list[str]) -> list[float]:
    if len(row) != len(header):
        raise DatasetError(f"{where} has {len(row)} fields, expected {len(header)}")
    cells = dict(zip(header, map(str.strip, row), strict=True))
    values = []
    for name, parse in COLUMNS.items():
        try:
            values.append(parse(cells[name]))
        except ValueError as error:
            raise DatasetError(f"{where}, column {name!r}: {cells[name]!r} is {error}") from error
    return values


def _bits(column: Mapping[str, NDArray[np.float64]]) -> NDArray[np.uint8]:
    """The bits of the trips with positions, shape (trips, 8)."""
    longitudes, latitudes = (
        np.stack([column[f"{end}_{axis}"] for end in ("pickup", "dropoff")])
        for axis in ("longitude", "latitude")
    )
    tip, total = column["tip_amount"], column["total_amount"]
    within = _inside(longitudes, latitudes)
    found = np.stack(
        [
            column["payment_type"] == PAYMENTS.index("CRD"),
            column["tolls_amount"] > 0,
            column["trip_distance"] >= 10,
            column["pickup_datetime"] >= 20 * 3600,
            column["dropoff_datetime"] <= 3 * 3600,
            within[0],
            within[1],
            (tip > 0) & (4 * tip >= total),
        ],
        axis=1,
    )
    recorded = (
        (longitudes != 0)
        & (latitudes != 0)
        & (np.abs(longitudes) <= 180)
        & (np.abs(latitudes) <= 90)
    ).all(axis=0)
    bits: NDArray[np.uint8] = found[recorded].astype(np.uint8)
    return bits


def _seconds(cell: str) -> float:
    try:
        time = datetime.strptime(cell, "%Y-%m-%d %H:%M:%S")
    except ValueError:
        raise ValueError("not a date and time like 2013-01-31 23:59:59") from None
    return 3600 * time.hour + 60 * time.minute + time.second


def _amount(cell: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise ValueError("not a number of at least 0")
    return value


def _degrees(cell: str) -> float:
    try:
        value = float(cell or 0)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError("not a number of degrees")
    return value


def _payment(cell: str) -> float:
    if cell not in PAYMENTS:
        raise ValueError(f"none of {', '.join(PAYMENTS)}")
    return PAYMENTS.index(cell)


COLUMNS: Mapping[str, Callable[[str], float]] = {
    "pickup_datetime": _seconds,
    "dropoff_datetime": _seconds,
    "trip_distance": _amount,
    "pickup_longitude": _degrees,
    "pickup_latitude": _degrees,
    "dropoff_longitude": _degrees,
    "dropoff_latitude": _degrees,
    "payment_type": _payment,
    "tip_amount": _amount,
    "tolls_amount": _amount,
    "total_amount": _amount,
}
"""The columns that are read from the file of the real trips, and how their cells are."""


def _inside(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Check positions against Manhattan's outline by counting crossings of a ray."""
    odd = np.zeros(x.shape, np.bool_)
    for (x0, y0), (x1, y1) in zip(MANHATTAN, (*MANHATTAN[1:], MANHATTAN[0]), strict=True):
        crossed = (y0 > y) != (y1 > y)
        odd ^= crossed & (x < x0 + (y - y0) * ((x1 - x0) / (y1 - y0)))
    return odd


def _names(d: int) -> tuple[str, ...]:
    if not 2 <= d <= MAX_BITS:
        raise ValueError(f"{d} bits: expected 2 to {MAX_BITS}")
    eights = -(-d // len(BITS))
    return tuple(
        name if eight == 0 else f"{name}_{eight + 1}" for eight in range(eights) for name in BITS
    )[:d]


def _law(name: str) -> tuple[tuple[str, ...], tuple[int, ...]]:
    if name in LAWS:
        return LAWS[name]
    known = _names(MAX_BITS)
    return (known[known.index(name) - len(BITS)],), (PER_CENT - COPIED, COPIED)


def _root(name: str) -> str:
    """The bit without parents that a bit descends from."""
    parents = _law(name)[0]
    return _root(parents[0]) if parents else name
