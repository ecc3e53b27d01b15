"""A report in the words of the page, made of the program's own message."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from protocol import (
    KeepElseTable,
    KeepUniform,
    MatrixRandomizer,
    Message,
    Randomizer,
    SubsetSelection,
    UnaryEncoding,
    split_codes,
)

Shown = list[list[Any]]
"""Places of attributes, kind and value of each part."""


def shown_of(variant: Any, message: Message) -> Shown:
    """What a report is to people."""
    said: Any = message
    name = variant.name
    sizes = variant.survey.sizes
    if hasattr(variant, "blocks"):
        blocks = zip(variant.blocks, said.codes[0].tolist(), strict=True)
        parts = []
        for block, cell in blocks:
            axes = variant.survey.axes(block.attributes)
            parts.append(part([*axes], block.randomizer, [cell], [sizes[axis] for axis in axes]))
        return parts
    if name == "rs-fd":
        return [[[place], "fake", [code]] for place, code in enumerate(said.reports[0].tolist())]
    if name == "smp":
        return _only(
            sizes,
            place := int(said.sampled[0]),
            part([place], variant.randomizers[place], said.reports[0].tolist(), [sizes[place]]),
        )
    if name in ("spl", "numeric-mean"):
        columns, parts = said.reports[0].tolist(), []
        for place, (one, width) in enumerate(zip(variant.randomizers, variant.widths, strict=True)):
            own, columns = columns[:width], columns[width:]
            parts.append(part([place], one, own, [sizes[place]]))
        return parts
    if name == "privkv":
        key, symbol = int(said.keys[0]), int(said.symbols[0])
        signs = {0: [[key], "answers", [0]], 1: [[key], "hidden", 1], 2: [[key], "hidden", -1]}
        return _only(sizes, key, signs[symbol])
    return _marginal(variant, said)


def part(
    places: list[int], randomizer: Randomizer, columns: Sequence[int], sizes: Sequence[int]
) -> list[Any]:
    """A report by one randomizer."""
    if isinstance(randomizer, KeepUniform | KeepElseTable | MatrixRandomizer):
        cell = np.array([columns[0]], np.uint64)
        return [places, "answers", split_codes(cell, sizes)[0].tolist()]
    if isinstance(randomizer, UnaryEncoding | SubsetSelection):
        bits = np.unpackbits(np.array(columns, np.uint8), bitorder="little")
        return [places, "ticks", np.flatnonzero(bits).tolist()]
    return [places, "hidden", columns[0]]


def _only(sizes: Sequence[int], place: int, said: list[Any]) -> Shown:
    """One attribute is reported on, and of the others nothing is said."""
    return [said if other == place else [[other], "nothing", None] for other in range(len(sizes))]


def _marginal(variant: Any, said: Any) -> Shown:
    read, plan, encoding = variant.read(said), variant.plan, variant.encoding
    choice = int(read.choices[0])
    names = {encoding.binary.names[place] for place in plan.attributes(choice)}
    owned = [set(encoding.name_bits(name)) for name in variant.survey.names]
    about = [place for place, bits in enumerate(owned) if bits & names]
    nothing = [[[i], "nothing", None] for i in range(len(owned)) if i not in about]
    whole = all(owned[place] <= names for place in about)
    full = [2 ** encoding.bits[place] for place in about]
    sizes = [variant.survey.sizes[place] for place in about]
    if plan.one_hot:
        bits = np.unpackbits(read.answers[0], bitorder="little", count=plan.cells)
        ticks = np.flatnonzero(bits).tolist()
        exact = whole and full == sizes
        kind, value = ("ticks", ticks) if exact else ("hidden", len(ticks))
        return [[about, kind, value], *nothing]
    cell = int(read.answers[0])
    if plan.transformed or not whole:
        return [[about, "hidden", cell], *nothing]
    assert math.prod(full) > cell
    codes = split_codes(np.array([cell], np.uint64), full)[0].tolist()
    known = all(code < size for code, size in zip(codes, sizes, strict=True))
    return [[about, "answers", codes] if known else [about, "hidden", cell], *nothing]
