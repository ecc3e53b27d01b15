"""Categorical attributes as binary ones, and their shares mapped back.

Kulkarni, Cormode and Srivastava, Marginal Release Under Local Differential Privacy, name this as
the first step beyond binary attributes: one of r categories becomes ``ceil(log2 r)`` bits of its
code, the highest first. One of 2 categories stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from protocol.errors import SurveyError
from protocol.estimators.estimate import Estimate
from protocol.estimators.inference.laws import About, ErrorLaw, Interval
from protocol.estimators.linear import Source
from protocol.estimators.tables import Cells, Estimated, Table
from protocol.randomizers.binary import MAX_BINARY_ATTRIBUTES
from protocol.randomizers.exact import Floats
from protocol.surveys.records import Records
from protocol.surveys.survey import Attribute, Survey
from protocol.wire.arrays import smallest_dtype


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class BinaryEncoding:
    """A survey, and its survey of bits.

    Attributes:
        survey: of any attributes.
        binary: of their bits, attribute after attribute; those of ``a`` with more than 2 categories
            are named ``a bit 2``, ``a bit 1``, ``a bit 0``.
        bits: the number of bits of each attribute.
    """

    survey: Survey
    binary: Survey
    bits: tuple[int, ...]

    def __repr__(self) -> str:
        return f"<BinaryEncoding: m={len(self.bits)}, d={sum(self.bits)}>"

    def name_bits(self, *names: str) -> tuple[str, ...]:
        """The names of the bits of some attributes, in the order given.

        Raises:
            SurveyError: an unknown or repeated name.
        """
        found: list[str] = []
        for axis in self.survey.axes(names):
            start = sum(self.bits[:axis])
            found += self.binary.names[start : start + self.bits[axis]]
        return tuple(found)

    def cells(self, records: Records) -> NDArray[np.unsignedinteger]:
        """Every record's bits as one cell of ``2**d``, the first bit the highest, shape (k,).

        Raises:
            SurveyError: records of another survey.
            ValueError: more than 24 bits.
        """
        if records.survey != self.survey:
            raise SurveyError("the records are of another survey than the encoding")
        d = sum(self.bits)
        if d > MAX_BINARY_ATTRIBUTES:
            raise ValueError(f"{d} bits: expected at most {MAX_BINARY_ATTRIBUTES}")
        cells = np.zeros(len(records), np.uint32)
        for place, bits in enumerate(self.bits):
            cells <<= np.uint32(bits)
            cells |= records.codes[:, place].astype(np.uint32)
        return cells.astype(smallest_dtype(1 << d))

    def decode(self, table: Table, *, rescaled: bool = False) -> Table:
        """A raw table of bits as one of categories.

        Codes without a category are dropped. Nobody has them, so the rest is unbiased, and its
        standard errors hold. Raw estimates need not add up to 1 without them.

        Args:
            table: of all bits of some attributes, in the order of ``name_bits``, raw.
            rescaled: whether to divide by the total of the rest. That is biased, so the result has
                no standard errors.

        Raises:
            ValueError: a table of other attributes or that was projected, or a total to divide by
                that is not positive.
        """
        if table.projection != "none":
            raise ValueError(f"already projected by {table.projection!r}: decode the raw table")
        names = self._bits_attributes(table.names)
        chosen = [self.survey.attribute(name) for name in names]
        codes = tuple(1 << self.bits[self.survey.index(name)] for name in names)
        kept = tuple(slice(attribute.size) for attribute in chosen)

        def cut(values: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.ascontiguousarray(values.reshape(codes)[kept])

        given, sampled = table.standard_errors, table.population_errors
        decoded = Table(
            names=names,
            categories=tuple(attribute.categories for attribute in chosen),
            values=cut(table.values),
            standard_errors=None if given is None else cut(given),
            population_errors=None if sampled is None else cut(sampled),
            n=table.n,
            law=None if table.law is None else _Kept(table.law, cut),
        )
        if not rescaled:
            return decoded
        total = float(decoded.values.sum())
        if not total > 0:
            raise ValueError(
                f"the categories have a total of {total}, which cannot be rescaled to 1"
            )
        return replace(
            decoded,
            values=decoded.values / total,
            standard_errors=None,
            population_errors=None,
            law=None,
        )

    def _bits_attributes(self, bits: Sequence[str]) -> tuple[str, ...]:
        """The attributes of these bits, which must be all of their bits in order."""
        names: list[str] = []
        rest = tuple(bits)
        while rest:
            name = next((n for n in self.survey.names if self.name_bits(n)[0] == rest[0]), None)
            if name is None or rest[: len(self.name_bits(name))] != self.name_bits(name):
                raise ValueError(
                    f"bits {tuple(bits)}: expected all bits of each attribute, in order"
                )
            rest = rest[len(self.name_bits(name)) :]
            names.append(name)
        return tuple(names)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Kept(ErrorLaw):
    """The law of a part of a table's estimates."""

    law: ErrorLaw
    cut: Callable[[NDArray[np.float64]], NDArray[np.float64]]

    def interval(self, level: float, about: About) -> Interval:
        low, high = self.law.interval(level, about)
        return Interval(self.cut(low), self.cut(high))

    def covariance(self, about: About) -> NDArray[np.float64]:
        found = self.law.covariance(about)
        kept = self.cut(np.arange(len(found), dtype=np.float64)).astype(np.intp).reshape(-1)
        return found[np.ix_(kept, kept)]


def binary_encoding(survey: Survey) -> BinaryEncoding:
    """The encoding of a survey's categories as bits.

    Raises:
        SurveyError: a bit would have the name of another attribute.
    """
    bits = tuple((size - 1).bit_length() for size in survey.sizes)
    attributes: list[Attribute] = []
    for attribute, length in zip(survey.attributes, bits, strict=True):
        if length == 1:
            attributes.append(attribute)
            continue
        attributes += [
            Attribute(name=f"{attribute.name} bit {bit}", categories=("0", "1"))
            for bit in reversed(range(length))
        ]
    return BinaryEncoding(survey=survey, binary=Survey(survey.title, tuple(attributes)), bits=bits)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class DecodedBits(Source):
    """An estimate of bits as shares of the categories that they stand for.

    Args:
        survey: the survey that was asked.
        estimate: of the survey of its bits, ``binary_encoding(survey).binary``. Attributes can be
            in one table if their bits can.

    Raises:
        ValueError: an estimate of another survey.
    """

    survey: Survey
    estimate: Estimate

    def __post_init__(self) -> None:
        if self.estimate.survey != binary_encoding(self.survey).binary:
            raise ValueError("expected an estimate of the survey's bits")

    def __repr__(self) -> str:
        return f"<DecodedBits: {self.estimate!r}>"

    @property
    def n(self) -> int:
        """The number of respondents."""
        return self.estimate.n

    def cells(self, names: tuple[str, ...]) -> Cells:
        """The joint distribution of some attributes, without codes of no category."""
        encoding = binary_encoding(self.survey)
        found = encoding.decode(self.estimate.table(*encoding.name_bits(*names)))
        return Cells(found.values, found.standard_errors, found.population_errors, found.law)

    def pairs(self) -> dict[tuple[str, str], Cells]:
        """The cells of every pair of attributes with bits that can be in one table."""
        found = {}
        for pair in combinations(self.survey.names, 2):
            with suppress(ValueError):  # More bits than a marginal has.
                found[pair] = self.cells(pair)
        return found

    def mean(self, names: tuple[str, ...], weights: Floats) -> Estimated:
        """The mean of a weight; codes of no category have the weight 0."""
        encoding = binary_encoding(self.survey)
        codes = [
            (0, (1 << encoding.bits[axis]) - self.survey.sizes[axis])
            for axis in self.survey.axes(names)
        ]
        bits = encoding.name_bits(*names)
        return self.estimate.query(bits, np.pad(weights, codes).reshape((2,) * len(bits)))
