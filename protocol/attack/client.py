"""Attacks a client function of any library: a value in, a report out, and a claimed epsilon.

The function is called with one of two inputs, drawn by a fair coin for each trial. Half of the
reports teach which parts distinguish the inputs. Guesses are made on the other half, and the number
of right guesses gives a lower bound on epsilon.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Set

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.attack.columns import (
    Placed,
    element_columns,
    field_array,
    fields_as_matrices,
    folded,
)
from protocol.attack.probes import Probe, strongest_probe
from protocol.attack.trials import Pair, Trials
from protocol.crypto.randomness import WORDS, Stream, secret_of

TRIALS = 100_000
"""Default number of reports; half of them test."""

ALPHA = 1e-9
"""The largest probability that a client with a right claim is accused."""

_FIRST = 64
"""Calls after which an input with an error every time is refused."""

_SPELLED = 32
"""The most elements of an array that an event shows."""

_SMALLEST, _LARGEST = -(1 << 63), (1 << 63) - 1


class ClientAttack(msgspec.Struct, frozen=True, kw_only=True):
    """Result of an attack on a client.

    Args:
        claims: the claimed epsilon, in nats.
        alpha: the largest probability of a false accusation.
        delta: of the bounds; 0 for pure epsilon.
        probe: the attempt, with the lower bound.
    """

    claims: float
    alpha: float
    delta: float
    probe: Probe

    @property
    def accused(self) -> bool:
        """True if the reports reveal more than is claimed."""
        return self.probe.accused

    @property
    def undecided(self) -> bool:
        """True if so few trials cannot prove even a total leak."""
        return self.probe.undecided


def attack_client(
    client: Callable[[object], object],
    inputs: tuple[object, object],
    *,
    claims: float,
    trials: int = TRIALS,
    alpha: float = ALPHA,
    delta: float = 0.0,
    seed: int = 1,
) -> ClientAttack:
    """Attack the reports of a client function.

    Reports may be numbers, text, bytes, arrays, lists, tuples, dicts, or objects of these; others
    count by their ``repr``. An error that a client raises now and then is a report too.

    Args:
        client: makes a report of an input, with randomness of its own.
        inputs: the two inputs to distinguish.
        claims: the epsilon claimed for these two, in nats.
        trials: number of reports.
        alpha: the probability of a false accusation.
        delta: of the bound on epsilon. Above 0, calls are taken to be independent.
        seed: decides the input of each trial.

    Raises:
        ValueError: numbers out of range, equal inputs, or an input that always raises an error.
    """
    if not (claims >= 0.0 and math.isfinite(claims)):
        raise ValueError(f"claimed epsilon {claims}: expected a finite number, 0 or more")
    if trials < 2:
        raise ValueError(f"{trials} trials: expected at least 2")
    words = f"{inputs[0]!r} or {inputs[1]!r}"
    if repr(inputs[0]) == repr(inputs[1]):
        raise ValueError(f"inputs {words}: expected two that differ")
    bits = Stream(secret_of(seed)).derive("attack a client").bernoulli(WORDS // 2, trials)
    fields: dict[str, list[Placed]] = {}
    failed = [0, 0]
    called = [0, 0]
    for place, bit in enumerate(bits.tolist()):
        called[bit] += 1
        try:
            report = client(inputs[bit])
        except Exception as error:
            failed[bit] += 1
            if failed[bit] == called[bit] == _FIRST:
                why = f"{type(error).__name__}: {error}"
                raise ValueError(f"input {inputs[bit]!r}: the client raises {why}") from error
            report = {"raised": type(error).__name__}
        for name, array in leaves(report):
            fields.setdefault(name, []).append((place, array))
    matrices = fields_as_matrices(fields, trials)
    reports = Trials("reports", bits, element_columns(matrices, related=()), None, claims, trials)
    pair = Pair(words, (), (np.empty(0, np.int64), np.empty(0, np.int64)))
    probe = strongest_probe(pair, [reports], level=alpha / 2, delta=delta)
    probe = msgspec.structs.replace(probe, event=_event_words(probe.event, fields))
    return ClientAttack(claims=claims, alpha=alpha, delta=delta, probe=probe)


def leaves(report: object, name: str = "report") -> Iterator[tuple[str, NDArray[np.generic]]]:
    """The parts of a report that are arrays, numbers, text or bytes, each with its place."""
    match report:
        case int() if not _SMALLEST <= report <= _LARGEST:
            yield name, field_array(str(report))
        case bool() | int() | float() | str() | bytes():
            yield name, field_array(report)
        case bytearray() | memoryview():
            yield name, field_array(bytes(report))
        case complex():
            yield name, np.array([report.real, report.imag])
        case np.ndarray() if report.dtype.kind in "biuf":
            yield name, report
        case Mapping():
            for key, value in report.items():
                yield from leaves(value, f"{name}[{key!r}]")
        case Set():
            yield from leaves(sorted(map(repr, report)), name)
        case list() | tuple():
            yield from _listed(report, name)
        case _:
            if callable(listed := getattr(report, "tolist", None)):
                yield from leaves(listed(), name)
            elif vars_of := getattr(report, "__dict__", None):
                yield from leaves(vars_of, name)
            else:
                yield name, field_array(repr(report))


def _event_words(event: str, fields: Mapping[str, list[Placed]]) -> str:
    """An event in words, with short arrays in place of their hashes."""
    hashes = set(re.findall(r"\d{8,}", event))
    for parts in fields.values():
        for _, array in parts:
            if not hashes:
                return event
            if 1 < array.size <= _SPELLED and (code := str(folded(array)[0])) in hashes:
                event = event.replace(code, str(array.tolist()))
                hashes.remove(code)
    return event


def _listed(
    values: list[object] | tuple[object, ...], name: str
) -> Iterator[tuple[str, NDArray[np.generic]]]:
    if all(type(value) in (bool, int, float) for value in values):
        with np.errstate(all="ignore"):
            numbers = np.array(values)
        if numbers.dtype.kind in "biuf":
            yield name, numbers
            return
    for place, value in enumerate(values):
        yield from leaves(value, f"{name}[{place}]")
