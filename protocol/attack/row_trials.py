"""Trials that are rows in the arrays of a party with many respondents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.attack.columns import Codes, Matrix, element_columns, matrices_of_rows
from protocol.attack.observer import Observation, observe
from protocol.attack.trials import (
    NOTHING_TOLD,
    TARGET,
    Bound,
    Pair,
    Study,
    Trials,
    draw_seeds,
    message_ratios,
    pair_bound,
)
from protocol.crypto.randomness import WORDS
from protocol.errors import ProtocolError
from protocol.simulation.mapping import Map, one_by_one

ROW_ELEMENTS = 256
"""The most elements of a row that are columns of their own; the rest is hashed into one."""

_WIDEST = 62
# With more than 8 rows no two widths of packed rows take equally many octets.
_FEW, _MORE, _ROW = 11, 13, 2


class Rows(msgspec.Struct, frozen=True):
    """Arrays with a row per respondent, and the bounds of these respondents.

    Args:
        values: (held, w) of each party, by the name of the array.
        bits: of an element, by the same names.
        ratios: (parties, held) log likelihood ratios of the second input by the declared laws.
        bound: the ledger's largest bound on any of them.
    """

    values: dict[str, list[NDArray[np.generic]]]
    bits: dict[str, int]
    ratios: NDArray[np.float64]
    bound: Bound


class RowChunk(msgspec.Struct, frozen=True, kw_only=True):
    """One run of large parties, to be made here or by a worker.

    Args:
        study, pair: of the attack.
        bits: (parties, held), whether a respondent has the second input.
        seed: the seed of the run.
        fields: the arrays with a row per respondent.
    """

    study: Study
    pair: Pair
    bits: NDArray[np.bool_]
    seed: int
    fields: tuple[str, ...]


def rows_of_parties(
    study: Study,
    pair: Pair,
    trials: int,
    *,
    copies: int,
    fields: tuple[str, ...],
    carried: Map = one_by_one,
) -> Trials | None:
    """Trials that are respondents of large parties, each a row of their party's arrays.

    None if a party does not send these arrays.

    Args:
        copies: the most rows of one run.
        fields: the arrays with a row per respondent, by ``aligned_fields``.
        carried: carries out the runs.
    """
    drawn = study.stream.derive(f"rows {pair.words}")
    parties = max(study.variant.quorum_of(2), 2)
    runs = -(-trials // max(copies, parties))
    held = -(-trials // (runs * parties))
    bits = drawn.bernoulli(WORDS // 2, (runs, parties, held))
    seeds = draw_seeds(drawn.derive("seeds"), runs)
    tasks = [
        RowChunk(study=study, pair=pair, bits=bits[run], seed=seeds[run], fields=fields)
        for run in range(runs)
    ]
    found = [rows for rows in carried(seen_rows, tasks) if rows is not None]
    if len(found) < runs:
        return None
    matrices: dict[str, Matrix] = {}
    for name in fields:
        values = np.concatenate([part for rows in found for part in rows.values[name]])
        matrices.update(matrices_of_rows(name, values, found[0].bits[name], most=ROW_ELEMENTS))
    columns = element_columns(matrices, related=matrices)
    law = np.concatenate([rows.ratios.reshape(-1) for rows in found])
    bound = max(rows.bound for rows in found)
    ratios = law if law.any() else None
    return Trials(
        "rows", bits.reshape(-1), columns, ratios, bound.epsilon, runs, honest=bound.honest
    )


def seen_rows(chunk: RowChunk) -> Rows | None:
    """The arrays of all parties of a run; None if a party does not send them."""
    study, pair, (parties, held) = chunk.study, chunk.pair, chunk.bits.shape
    first, second = (record.astype(study.records.survey.dtype) for record in pair.records)
    codes = np.where(chunk.bits.reshape(-1)[:, np.newaxis], second, first)
    run = study.rehearse(codes, parties=parties, seed=chunk.seed)
    ledger = run.ledger(study.observer)
    found = Rows({name: [] for name in chunk.fields}, {}, np.zeros(chunk.bits.shape), NOTHING_TOLD)
    bound = NOTHING_TOLD
    for place, party in enumerate(run.charter.roster.parties):
        observation = observe(run, study.observer, {party: TARGET})
        rows = _rows(observation, held, chunk.fields)
        if rows.keys() != set(chunk.fields):
            return None
        for name, part in rows.items():
            found.values[name].append(part.values)
            found.bits.setdefault(name, part.bits)
        found.ratios[place] = message_ratios(observation, ledger, party, run, pair, held)
        bound = max(bound, pair_bound(study, ledger, pair, (party,)))
    return msgspec.structs.replace(found, bound=bound)


class _Rows(NamedTuple):
    """An array with a row per respondent: (held, w), and the bits that an element had."""

    values: NDArray[np.generic]
    bits: int


def aligned_fields(study: Study, pair: Pair) -> tuple[str, ...]:
    """The arrays of a party that hold a row for each of its respondents.

    Such an array is always as long as the number of respondents. If one record changes and all
    randomness is kept, no other row of it changes.
    """
    if not study.observer.everything:
        return ()
    parties = max(study.variant.quorum_of(2), 2)
    (seed,) = draw_seeds(study.stream.derive("aligned"), 1)
    observations = []
    try:
        for held, changed in ((_FEW, False), (_MORE, False), (_FEW, True)):
            codes = np.tile(pair.records[0], (parties * held, 1))
            if changed:
                codes[_ROW] = pair.records[1]
            run = study.rehearse(codes, parties=parties, seed=seed)
            if run.failure is not None:
                return ()
            observations.append(
                observe(run, study.observer, {run.charter.roster.parties[0]: TARGET})
            )
    except (ProtocolError, ValueError):
        return ()
    few, more, other = (
        _rows(observation, held, None)
        for observation, held in zip(observations, (_FEW, _MORE, _FEW), strict=True)
    )
    rest = np.arange(_FEW) != _ROW
    return tuple(
        name
        for name in few
        if name in more
        and name in other
        and np.array_equal(few[name].values[rest], other[name].values[rest])
    )


def _rows(observation: Observation, held: int, fields: Sequence[str] | None) -> dict[str, _Rows]:
    """Arrays of a view with ``held`` rows, or with as many groups of bits."""
    found = {}
    for name, message in observation.messages.items():
        for field in message.__struct_fields__:
            value = getattr(message, field)
            if not isinstance(value, np.ndarray) or value.ndim < 1:
                continue
            key = f"{name}.{field}"
            width = _packed_width(value, held)
            if len(value) == held:
                rows = _Rows(value.reshape(held, -1), 8 * value.dtype.itemsize)
            elif width:
                key = f"{key} in groups of {width} bits"
                rows = _Rows(_unpacked(value, held, width), width)
            else:
                continue
            if fields is None or key in fields:
                found[key] = rows
    return found


def _packed_width(value: NDArray[np.generic], held: int) -> int:
    """Number of bits of each of ``held`` rows packed in octets; 0 if they are not packed."""
    if value.dtype != np.uint8 or value.ndim != 1 or not held:
        return 0
    width = min(8 * len(value) // held, _WIDEST)
    return width if -(-held * width // 8) == len(value) else 0


def _unpacked(octets: NDArray[np.uint8], held: int, width: int) -> Codes:
    """Bits of every row as one number, the first bit the highest."""
    bits = np.unpackbits(octets, count=held * width).reshape(held, width)
    numbers: Codes = bits.astype(np.int64) @ (np.int64(1) << np.arange(width, dtype=np.int64)[::-1])
    return numbers[:, np.newaxis]
