"""What an attacker sees of each trial, as columns of small integers; no guessing.

A trial is a whole run, or one of many respondents in a run. A column holds one number of every
trial's view: an element of an array that was sent, a length, how often a kind of message came, or
the difference of two arrays of one sender.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.errors import RemoteProtocolError
from protocol.messages import Head, Message, PartyId
from protocol.rehearsal import Rehearsal, Slot

Codes: TypeAlias = NDArray[np.int64]

MISSING = -(1 << 62)
"""What a column holds where a view has no such number."""

ELEMENTS = 32
"""How many elements of an array are looked at."""

KEYS = 256
"""How many different messages of a view are looked at."""

RELATED = 48
"""How many pairs of arrays are compared, those of one kind and field first."""

_THOUSANDTHS = 1000.0


class View(NamedTuple):
    """What is seen of one trial.

    Args:
        messages: by a name that is the same in every trial, such as ``target's Report``.
        slots: which envelopes these came in.
        facts: numbers that are no part of a message.
    """

    messages: dict[str, Message]
    slots: dict[str, Slot]
    facts: Counter[str]


class Matrix(NamedTuple):
    """One array of every trial: (n, w), and the bits that an element had on the wire."""

    values: Codes
    bits: int


def view_of(rehearsal: Rehearsal, observer: PartyId, labels: Mapping[PartyId, str]) -> View:
    """What an observer sees of some members of a run.

    Args:
        labels: whose messages, and by which name each of these members goes.
    """
    (view,) = views_of(rehearsal, observer, [labels])
    return view


def views_of(
    rehearsal: Rehearsal, observer: PartyId, trials: Sequence[Mapping[PartyId, str]]
) -> list[View]:
    """What an observer sees of several trials of one run (``view_of``)."""
    places = {
        party: (place, label)
        for place, labels in enumerate(trials)
        for party, label in labels.items()
    }
    views = [View({}, {}, Counter()) for _ in trials]
    before: dict[PartyId, bytes] = {}
    for envelope in rehearsal.seen_by(observer):
        sender, kind = envelope.sender, envelope.kind
        if sender not in places or kind == Head.kind():
            continue  # A head hashes what its sender has said, and the session with it.
        if before.get(sender) is envelope.body:
            continue  # The same broadcast to another member.
        before[sender] = envelope.body
        place, label = places[sender]
        messages, slots, facts = views[place]
        name = f"{label}'s {kind}"
        facts[f"number of {name}"] += 1
        count = facts[f"number of {name}"]
        if count > 1:
            name = f"{name} {count}"
        if len(messages) >= KEYS:
            continue
        facts[f"length of {name}"] = len(envelope.body)
        with contextlib.suppress(RemoteProtocolError):
            messages[name] = rehearsal.message(envelope)
            slots[name] = sender, envelope.seq
    for view in views:
        view.facts["failed"] = int(rehearsal.failure is not None)
    return views


def matrices_of(views: Sequence[View]) -> dict[str, Matrix]:
    """The fields of all messages, by name: as many elements as the longest has."""
    found: dict[str, list[tuple[int, Codes]]] = {}
    bits: dict[str, int] = {}
    for place, view in enumerate(views):
        for name, message in view.messages.items():
            for field in message.__struct_fields__:
                numbers, width = _numbers(getattr(message, field))
                key = f"{name}.{field}"
                found.setdefault(key, []).append((place, numbers))
                bits.setdefault(key, width)
    return {key: Matrix(_stacked(parts, len(views)), bits[key]) for key, parts in found.items()}


def columns_of(matrices: Mapping[str, Matrix], *, related: Collection[str]) -> dict[str, Codes]:
    """Every element by itself, and differences of the arrays whose names are ``related``."""
    columns: dict[str, Codes] = {}
    for name, matrix in matrices.items():
        _spread(columns, name, matrix.values)
    pairs = sorted(
        combinations(sorted(set(related) & matrices.keys()), 2),
        key=lambda pair: _general(pair[0]) != _general(pair[1]),
    )
    alike = [(a, b) for a, b in pairs if matrices[a].bits == matrices[b].bits]
    for one, other in alike[:RELATED]:
        width = min(matrices[name].values.shape[1] for name in (one, other))
        first, second = (matrices[name].values[:, :width] for name in (one, other))
        absent = (first == MISSING) | (second == MISSING)
        difference = _wrapped(first - second, matrices[one].bits)
        _spread(columns, f"{one} - {other}", np.where(absent, MISSING, difference))
    return columns


def _general(name: str) -> str:
    """The kind and the field of an array, without who sent it and for which time."""
    kind, _, field = name.partition("'s ")[2].partition(".")
    return f"{kind.partition(' ')[0]}.{field}"


def facts_of(views: Sequence[View]) -> dict[str, Codes]:
    """Lengths, numbers and the like, by name."""
    names = dict.fromkeys(name for view in views for name in view.facts)
    return {name: np.array([view.facts[name] for view in views], np.int64) for name in names}


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


def _numbers(value: object) -> tuple[Codes, int]:
    """A field as integers, and how many bits each had; what is neither is told by its hash."""
    match value:
        case np.ndarray():
            return as_codes(value.reshape(-1)[:ELEMENTS]), 8 * value.dtype.itemsize
        case bytes() | str():
            octets = value.encode() if isinstance(value, str) else value
            return np.frombuffer(octets[:ELEMENTS], np.uint8).astype(np.int64), 8
        case bool() | int():
            return np.array([value & (1 << 62) - 1], np.int64), 64
        case float():
            return as_codes(np.array([value])), 64
        case _:
            encoded = msgspec.msgpack.encode(value)
            number = int.from_bytes(hashlib.sha256(encoded).digest()[:7], "big")
            return np.array([number], np.int64), 64


def as_codes(values: NDArray[np.generic]) -> Codes:
    """An array as integers: fractions in thousandths."""
    if values.dtype.kind == "f":
        scaled = np.nan_to_num(np.asarray(values, np.float64) * _THOUSANDTHS)
        return np.clip(np.round(scaled), -(2.0**53), 2.0**53).astype(np.int64)
    return values.astype(np.int64)
