"""Bayesian networks as text in the BIF format of the public repositories.

What is read: ``network``, then ``variable`` with ``type discrete`` and ``probability`` with a
``table`` (no parents) or with one row per combination of the parents' categories, in any order.
Comments and properties are skipped.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from fractions import Fraction
from typing import TypeAlias

import msgspec

from protocol.surveys.survey import shown
from scenarios.data import DatasetError

ROW_TOLERANCE = Fraction(1, 10**6)
"""How far a row may be from a sum of 1: thirds are written with seven digits."""

_TOKEN = re.compile(
    r"""
    (?P<blank> \s+ | //[^\n]* | /\*.*?\*/ )
    | (?P<mark> [{}()\[\],;|] )
    | "(?P<quoted> [^"\n]* )"
    | (?P<word> (?: (?! // | /\* ) [^\s{}()\[\],;|"] )+ )
    """,
    re.VERBOSE | re.DOTALL,
)

# Short and with a small exponent: the exact value of 1e999999999 would fill the memory.
_NUMBER = re.compile(
    r"[+-]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:[eE][+-]?[0-9]{1,2})?"
)

_Row: TypeAlias = tuple[Fraction, ...]


class Variable(msgspec.Struct, frozen=True, kw_only=True):
    """One variable of a network and its law given its parents.

    Attributes:
        name: unlike any other.
        categories: at least 2 of them.
        parents: the names of the variables that it depends on directly.
        rows: one distribution of exact fractions per combination of the parents' categories, in
            row-major order of the parents as listed; a single one without parents.
    """

    name: str
    categories: tuple[str, ...]
    parents: tuple[str, ...]
    rows: tuple[tuple[Fraction, ...], ...]


def read_bif(text: str) -> tuple[Variable, ...]:
    """The variables of a network, in the order in which they are declared.

    Every row is divided by its exact sum.

    Raises:
        DatasetError: text that is not BIF, a variable that is declared or given probabilities twice
            or not at all, a missing or repeated row, or a row that does not sum to 1 within 1e-6.
            The message names the line or the variable.
    """
    return _Reader(text).variables()


class _Reader:
    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._line = 1
        self._declared: dict[str, tuple[str, ...]] = {}
        self._tables: dict[str, tuple[tuple[str, ...], dict[tuple[str, ...], _Row]]] = {}

    def variables(self) -> tuple[Variable, ...]:
        self._take("network")
        while self._next() != ("mark", "{"):
            pass
        for _ in self._statements():
            pass
        while (begun := self._take("variable", "probability", "")) != "":
            if begun == "variable":
                self._variable()
            else:
                self._probability()
        return tuple(map(self._made, self._declared))

    def _made(self, name: str) -> Variable:
        if name not in self._tables:
            raise DatasetError(f"variable {shown(name)} has no probabilities")
        parents, rows = self._tables[name]
        if unknown := [parent for parent in parents if parent not in self._declared]:
            raise DatasetError(f"variable {shown(name)}: unknown parent {shown(unknown[0])}")
        categories = [self._declared[parent] for parent in parents]
        if len(rows) != math.prod(map(len, categories)):
            raise DatasetError(
                f"variable {shown(name)}: {len(rows)} rows, expected one for each combination of "
                "its parents' categories"
            )
        wanted = list(itertools.product(*categories))
        if missing := [row for row in wanted if row not in rows]:
            raise DatasetError(f"variable {shown(name)} has no row for {shown(missing[0])}")
        return Variable(
            name=name,
            categories=self._declared[name],
            parents=parents,
            rows=tuple(rows[row] for row in wanted),
        )

    def _variable(self) -> None:
        name = self._take()
        self._take("{")
        for _ in self._statements("type"):
            if name in self._declared:
                raise self._wrong(f"variable {shown(name)} is declared twice")
            self._take("discrete")
            self._take("[")
            size = self._take()
            self._take("]")
            self._take("{")
            self._declared[name] = self._listed("}")
            self._take(";")
            if size != str(len(self._declared[name])):
                raise self._wrong(
                    f"{len(self._declared[name])} categories, declared as {shown(size)}"
                )
        if name not in self._declared:
            raise self._wrong(f"variable {shown(name)} has no type")

    def _probability(self) -> None:
        self._take("(")
        name = self._take()
        if name not in self._declared or name in self._tables:
            raise self._wrong(f"variable {shown(name)} is unknown, or has probabilities twice")
        parents = self._listed(")") if self._take("|", ")") == "|" else ()
        self._take("{")
        rows: dict[tuple[str, ...], _Row] = {}
        for begun in self._statements("(" if parents else "table"):
            given = self._listed(")") if begun == "(" else ()
            if given in rows:
                raise self._wrong(f"variable {shown(name)}: this row is given twice")
            rows[given] = self._distribution(len(self._declared[name]))
        self._tables[name] = (parents, rows)

    def _distribution(self, size: int) -> _Row:
        written = self._listed(";")
        row = [Fraction(text) for text in written if _NUMBER.fullmatch(text)]
        total = sum(row, Fraction())
        if {len(written), len(row)} != {size} or min(row) < 0 or abs(total - 1) > ROW_TOLERANCE:
            raise self._wrong(
                f"{shown(', '.join(written))}: expected {size} probabilities with a sum of 1"
            )
        return tuple(entry / total for entry in row)

    def _statements(self, *begun: str) -> Iterator[str]:
        """The words that begin the statements of a block, to its end, without properties."""
        while (word := self._take("}", "property", *begun)) != "}":
            if word != "property":
                yield word
                continue
            while self._next() != ("mark", ";"):
                pass

    def _listed(self, end: str) -> tuple[str, ...]:
        names = [self._take()]
        while self._take(",", end) == ",":
            names.append(self._take())
        return tuple(names)

    def _take(self, *expected: str) -> str:
        """The next token: one of those expected, or without any a name; "" is the end."""
        kind, token = self._next(last="" in expected)
        if (kind == "quoted" or token not in expected) if expected else kind == "mark":
            wanted = " or ".join(filter(None, expected)) or "a name"
            raise self._wrong(f"expected {wanted}, got {shown(token)}")
        return token

    def _next(self, *, last: bool = False) -> tuple[str, str]:
        found = next(self._tokens, None)
        if found is None:
            if last:
                return "mark", ""
            raise self._wrong("the text ends in the middle of a block")
        kind, token, self._line = found
        return kind, token

    def _wrong(self, message: str) -> DatasetError:
        return _wrong(self._line, message)


def _tokens(text: str) -> Iterator[tuple[str, str, int]]:
    """The kind, content and line of each token."""
    line, position = 1, 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise _wrong(line, "a comment or a quotation that does not end")
        kind = found.lastgroup or ""
        if kind != "blank":
            yield kind, found[kind], line
        line += found[0].count("\n")
        position = found.end()


def _wrong(line: int, message: str) -> DatasetError:
    return DatasetError(f"line {line}: {message}")
